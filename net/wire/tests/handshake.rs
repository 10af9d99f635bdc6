//! Handshakes: those of real clients get through, mutated ones do no harm; tokens of SASL, mutated.

#[path = "sessions/records.rs"]
mod records;
#[path = "handshake/walk.rs"]
mod walk;

use walk::{Reached, Walk};
use wire::client::put_request;
use wire::request::Request;
use wire::sasl::Credentials;
use wire::segment::SegmentWriter;
use wire::{Opcode, Version};

/// Numbers from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % sides as u64) as usize
    }

    /// Changes, removes, doubles or inserts some bytes.
    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..1 + self.roll(3) {
            let at = self.roll(bytes.len() + 1);
            match self.roll(4) {
                0 if at < bytes.len() => bytes[at] = self.roll(256) as u8,
                1 if at < bytes.len() => bytes[at] ^= 1 << self.roll(8),
                2 => bytes.truncate(at),
                _ => {
                    let from = self.roll(bytes.len() + 1);
                    let part = bytes[from..(from + self.roll(9)).min(bytes.len())].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
    }
}

/// What a client sends until it has logged in.
fn session(version: Version, compression: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    put_request(&mut out, version, 0, &Request::Options);
    let mut options = vec![("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", "a driver")];
    options.extend(compression.map(|name| ("COMPRESSION", name)));
    put_request(&mut out, version, 1, &Request::Startup(options));
    let answer = Request::AuthResponse(Some(b"\0cassandra\0cassandra"));
    match version >= Version::V5 {
        false => put_request(&mut out, version, 2, &answer),
        true => {
            let mut segments = SegmentWriter::default();
            segments.write(&mut out, |out| put_request(out, version, 2, &answer));
        }
    }
    out
}

#[test]
fn handshakes_get_through_and_mutated_ones_do_no_harm() {
    let whole = [
        session(Version::V3, None),
        session(Version::V4, None),
        session(Version::V4, Some("lz4")),
        session(Version::V4, Some("snappy")),
        session(Version::V5, None),
    ];
    let mut dice = Dice(1);
    let mut reached = [0; 4];
    for bytes in &whole {
        for piece in [1, 7, 1000] {
            assert_eq!(Walk::run(bytes, piece), Reached::LoggedIn);
        }
        for _ in 0..20_000 {
            let mut mutated = bytes.clone();
            dice.mutate(&mut mutated);
            reached[Walk::run(&mutated, 1 + dice.roll(64)) as usize] += 1;
        }
    }
    assert!(reached.iter().all(|count| *count > 1000), "{reached:?}");
}

/// What drivers have sent, on each of their connections, in pieces of several lengths.
#[test]
fn handshakes_of_recorded_drivers_get_through() {
    for (name, file) in records::SESSIONS {
        let mut connections: Vec<Vec<u8>> = Vec::new();
        for (connection, bytes) in records::records(file) {
            connections.resize(connections.len().max(connection + 1), Vec::new());
            connections[connection].extend_from_slice(bytes);
        }
        assert!(connections.len() >= 2, "{name}");
        for bytes in connections {
            // One that was closed early has only asked for options.
            let expected = match bytes.windows(11).any(|part| part == b"CQL_VERSION") {
                true => Reached::Started,
                false => Reached::Options,
            };
            for piece in [1, 7, 9, bytes.len()] {
                assert_eq!(Walk::run(&bytes, piece), expected, "{name} in pieces of {piece}");
            }
        }
    }
}

#[test]
fn mutated_tokens_are_read_or_refused() {
    let mut dice = Dice(2);
    let mut read = 0;
    for _ in 0..100_000 {
        let mut token = b"\0cassandra\0pass w\xc3\xb6rd".to_vec();
        dice.mutate(&mut token);
        if let Ok(Credentials { name, password }) = Credentials::decode(&token) {
            let end = format!("\0{name}\0{password}");
            assert!(token.ends_with(end.as_bytes()) && token.iter().filter(|byte| **byte == 0).count() == 2);
            read += 1;
        }
    }
    assert!((1_000..99_000).contains(&read), "{read}");
    // What precedes the name may be anything but a NUL; other messages have no token.
    assert!(Credentials::decode(b"someone\0joe\0x").is_ok());
    assert!(Request::decode(Version::V4, Opcode::AuthResponse, 0, &[0, 0, 0, 5, 1]).is_err());
}
