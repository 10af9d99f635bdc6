//! Mutated bodies of requests and responses.

use super::types::all_types;
use super::*;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..1 + self.below(3) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            match self.below(5) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF][self.below(5)],
                2 => drop(bytes.drain(at..(at + 1 + self.below(4)).min(bytes.len()))),
                3 => bytes.truncate(at),
                _ => bytes.insert(at, self.below(256) as u8),
            }
        }
    }
}

/// O5: a request's body is read or refused, whatever it holds, in any version and as any opcode.
#[test]
fn o5_mutated_requests_never_panic() {
    let mut random = Random(0xA5A5_5A5A);
    for version in VERSIONS {
        for request in samples(version) {
            let envelope = encoded(version, &request);
            for cut in 0..envelope.body.len() {
                let _ = Request::decode(version, envelope.header.opcode, 0, &envelope.body[..cut]);
            }
            for _ in 0..1500 {
                let mut body = envelope.body.to_vec();
                random.mutate(&mut body);
                let version = VERSIONS[random.below(3)];
                let opcode = Opcode::from_byte(random.below(17) as u8).expect("known");
                let flags = random.below(256) as u8;
                for (opcode, flags) in [(envelope.header.opcode, 0), (opcode, flags)] {
                    if let Ok(request) = Request::decode(version, opcode, flags, &body) {
                        let mut out = Vec::new();
                        put_request(&mut out, version, 1, &request);
                    }
                }
            }
        }
    }
}

/// The client's direction is for tests, but a load tool must not crash over a server's bytes either.
#[test]
fn mutated_responses_never_panic() {
    let types = all_types();
    let columns = columns_of(&types);
    let rows = response::Rows {
        skip_metadata: false,
        new_metadata_id: Some(b"id"),
        paging_state: Some(b"state"),
        count: 1,
        bytes: &[0xFF; 4 * 24],
    };
    let prepared = response::Prepared { id: b"id", result_metadata_id: b"id", partition_key_markers: &[1, 0] };
    let options: [(&str, &[&str]); 2] = [("COMPRESSION", &[]), ("A", &["b", "c"])];
    let to = To::new(Version::V5, 1);
    let mut corpus = vec![Vec::new(); 4];
    response::rows(&mut corpus[0], to, &["w".into()], &rows, &columns);
    response::prepared(&mut corpus[1], to, &[], &prepared, &columns, Some(&columns));
    response::supported(&mut corpus[2], to, &options);
    response::error(&mut corpus[3], to, &[], &Failure::invalid("x"));
    let mut random = Random(0x1234_5678);
    for round in 0..8000 {
        let mut bytes = corpus[round % 4].clone();
        let mut body = bytes.split_off(HEADER_BYTES);
        random.mutate(&mut body);
        bytes[5..9].copy_from_slice(&(body.len() as u32).to_be_bytes());
        bytes.extend(body);
        let _ = Answer::decode(&only(&bytes, Decoder::client()));
    }
}
