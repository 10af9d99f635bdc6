//! Compressed bodies and segments: Cassandra's bytes, limits, corrupt input.

use model::ErrorCode;
use wire::client::{Answer, Response};
use wire::compression::{Compression, NAMES};
use wire::decoder::{Decoder, ENVELOPE_BYTES_MAX, Event};
use wire::envelope::{Envelope, HEADER_BYTES, put_envelope};
use wire::segment::{PAYLOAD_BYTES_MAX, SegmentHeader, SegmentWriter, crc32, put_compressed, put_split_compressed};
use wire::{Opcode, Version, flags};

const BOTH: [Compression; 2] = [Compression::Lz4, Compression::Snappy];

fn sealed(compression: Compression, body: &[u8]) -> Vec<u8> {
    // Something is before it in the queue.
    let mut out = b"before".to_vec();
    put_envelope(&mut out, 4, 0, 5, Opcode::Query, |out| out.extend_from_slice(body));
    compression.seal(&mut out, 6);
    assert_eq!(&out[..6], b"before");
    out.split_off(6)
}

fn only(bytes: &[u8]) -> Envelope {
    let mut decoder = Decoder::server(Version::V3);
    decoder.agree(Version::V4);
    decoder.feed(bytes);
    let Some(Event::Envelope(envelope)) = decoder.next_event() else { panic!("an envelope") };
    assert_eq!((decoder.next_event(), decoder.buffered()), (None, 0));
    envelope
}

fn framed(compressed: bool) -> Decoder {
    let mut decoder = Decoder::server(Version::V3);
    decoder.agree(Version::V5);
    if compressed {
        decoder.agree_compressed_segments();
    }
    decoder
}

/// Bytes that cannot be compressed.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(next).collect()
}

#[test]
fn names_ignore_case() {
    assert_eq!(NAMES, ["snappy", "lz4"]);
    for (name, compression) in [
        ("lz4", Some(Compression::Lz4)),
        ("Lz4", Some(Compression::Lz4)),
        ("SNAPPY", Some(Compression::Snappy)),
        ("", None),
        ("zstd", None),
    ] {
        assert_eq!(Compression::of_name(name), compression);
    }
}

#[test]
fn bodies_come_back() {
    for compression in BOTH {
        for body in [vec![], b"x".to_vec(), vec![7; 100_000], noise(1), noise(70_000)] {
            let bytes = sealed(compression, &body);
            let mut envelope = only(&bytes);
            assert_eq!(envelope.header.flags, flags::COMPRESSION);
            assert_eq!(envelope.compression(Some(compression)), Some(compression));
            assert_eq!(envelope.compression(None), None, "nothing was agreed");
            envelope.open(Some(compression), body.len()).expect("valid");
            assert_eq!((envelope.header.stream, &envelope.body[..]), (5, &body[..]));
        }
    }
    // An answer without a body, as Cassandra compresses it.
    assert_eq!(sealed(Compression::Lz4, b"")[HEADER_BYTES..], [0, 0, 0, 0, 0]);
    assert_eq!(sealed(Compression::Snappy, b"")[HEADER_BYTES..], [0]);
}

/// A result of rows as Cassandra 5.0.9 sent it.
#[test]
fn answers_of_cassandra_are_read() {
    for (compression, body) in [(Compression::Lz4, LZ4_ROWS), (Compression::Snappy, SNAPPY_ROWS)] {
        let mut bytes = Vec::new();
        put_envelope(&mut bytes, 0x84, flags::COMPRESSION, 1, Opcode::Result, |out| out.extend_from_slice(body));
        let mut decoder = Decoder::client();
        decoder.agree(Version::V4);
        decoder.feed(&bytes);
        let Some(Event::Envelope(mut envelope)) = decoder.next_event() else { panic!("an envelope") };
        envelope.open(Some(compression), 1000).expect("valid");
        check_rows(&envelope);
    }
    let mut decoder = Decoder::client();
    decoder.agree(Version::V5);
    decoder.agree_compressed_segments();
    decoder.feed(SEGMENT_ROWS);
    decoder.feed(SEGMENT_ERROR);
    let Some(Event::Envelope(envelope)) = decoder.next_event() else { panic!("an envelope") };
    check_rows(&envelope);
    let Some(Event::Envelope(envelope)) = decoder.next_event() else { panic!("an envelope") };
    assert!(matches!(Answer::decode(&envelope).expect("valid").response, Response::Error { code: 0x2000, .. }));
}

fn check_rows(envelope: &Envelope) {
    let Response::Rows(rows) = Answer::decode(envelope).expect("valid").response else { panic!("rows") };
    let cell = |text: &str| Some(text.as_bytes().to_vec());
    assert_eq!(rows.rows, [[cell("local"), cell("Test Cluster"), cell("3.4.7")]]);
}

#[test]
fn a_length_is_checked_before_anything_is_allocated() {
    for compression in BOTH {
        let max = ENVELOPE_BYTES_MAX - HEADER_BYTES;
        for (len, taken) in [(max, true), (max + 1, false)] {
            let bytes = sealed(compression, &vec![0; len]);
            let body = &bytes[HEADER_BYTES..];
            assert_eq!(compression.plain_len(body), Ok(len));
            match compression.open(body, max) {
                Ok(plain) => assert!(taken && plain.len() == len),
                Err(failure) => {
                    assert!(!taken);
                    assert_eq!(failure.code, ErrorCode::Invalid);
                    assert_eq!(
                        failure.text,
                        "Request is too big: length 16777217 exceeds maximum allowed length 16777216."
                    );
                }
            }
        }
    }
    // More than so few bytes can hold.
    for (compression, body) in [
        (Compression::Lz4, &b"\x7f\xff\xff\xff\x10\x00"[..]),
        (Compression::Lz4, b"\xff\xff\xff\xff"),
        (Compression::Snappy, b"\xff\xff\xff\xff\x0f\x00"),
        (Compression::Snappy, b"\xff\xff\xff\xff\xff\xff"),
    ] {
        assert_eq!(compression.plain_len(body).expect_err("refused").code, ErrorCode::Protocol, "{body:?}");
    }
}

#[test]
fn corrupt_bodies_are_protocol_errors() {
    for compression in BOTH {
        for body in [&b""[..], b"\0", b"\0\0\0", b"\xff\xff\xff\xff\0\x01garbage", b"\0\0\0\x10\0\x01garbage"] {
            if body == b"\0" && compression == Compression::Snappy {
                continue;
            }
            let failure = compression.open(body, 1 << 20).expect_err("refused");
            assert_eq!(failure.code, ErrorCode::Protocol, "{compression:?} {body:?}");
        }
        let plain = b"SELECT key FROM system.local WHERE key = 'local' AND key = 'local'".repeat(9);
        let good = sealed(compression, &plain).split_off(HEADER_BYTES);
        for cut in 0..good.len() {
            let _ = compression.open(&good[..cut], 1 << 20).map(|opened| assert!(opened.len() <= plain.len()));
        }
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                let _ = compression.open(&bad, 1 << 20);
            }
        }
    }
    // The declared length has to be the length.
    let good = sealed(Compression::Lz4, b"abcdefgh").split_off(HEADER_BYTES);
    for declared in [0u32, 1, 7, 9, 100] {
        let mut bad = good.clone();
        bad[..4].copy_from_slice(&declared.to_be_bytes());
        assert!(Compression::Lz4.open(&bad, 1000).is_err(), "{declared}");
    }
    let trailing = [&good[..], b"xx"].concat();
    assert!(Compression::Lz4.open(&trailing, 1000).is_err());
}

#[test]
fn segment_headers_come_back() {
    for (payload_len, plain_len, self_contained) in
        [(0, 0, true), (1, 0, false), (PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MAX, true), (5, PAYLOAD_BYTES_MAX, false)]
    {
        let header = SegmentHeader { payload_len, plain_len, self_contained };
        let bytes = header.encode_compressed();
        assert_eq!(SegmentHeader::decode_compressed(bytes), Ok(header));
        for bit in 0..64 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode_compressed(bad).is_err());
        }
    }
    let header: [u8; 8] = SEGMENT_ROWS[..8].try_into().expect("eight bytes");
    assert_eq!(SegmentHeader::decode_compressed(header).expect("Cassandra's").encode_compressed(), header);
}

fn streams(bytes: &[u8], step: usize) -> Vec<(i16, usize)> {
    let mut decoder = framed(true);
    let mut seen = Vec::new();
    for part in bytes.chunks(step) {
        decoder.feed(part);
        while let Some(event) = decoder.next_event() {
            let Event::Envelope(envelope) = event else { panic!("{event:?}") };
            seen.push((envelope.header.stream, envelope.body.len()));
        }
    }
    assert_eq!(decoder.buffered(), 0);
    seen
}

/// Envelopes around the limits of a shared segment and of a payload.
#[test]
fn envelopes_share_segments_or_are_cut() {
    const SHARED: usize = 4096 - HEADER_BYTES;
    let edge = PAYLOAD_BYTES_MAX - HEADER_BYTES;
    let sizes =
        [0, 10, 1000, SHARED, 1, SHARED - 1, SHARED + 1, 3, edge, edge + 1, 2 * PAYLOAD_BYTES_MAX, 400_000, 1, 1];
    for fill in [noise as fn(usize) -> Vec<u8>, |len| vec![7; len]] {
        let mut writer = SegmentWriter::compressed();
        let mut sent = Vec::new();
        let mut out = Vec::new();
        for (stream, size) in sizes.into_iter().enumerate() {
            writer.write(&mut out, |out| {
                put_envelope(out, 5, 0, stream as i16, Opcode::Query, |out| out.extend_from_slice(&fill(size)));
            });
            if stream == 2 {
                let header = SegmentHeader::decode_compressed(out[..8].try_into().expect("8")).expect("valid");
                let plain = 3 * HEADER_BYTES + 1010;
                assert!(header.plain_len == plain || header.payload_len == plain, "the first three share");
            }
            if stream == 12 {
                // The queue is taken: the next one begins a segment of its own.
                sent.append(&mut out);
            }
        }
        sent.append(&mut out);
        let expected = sizes.into_iter().enumerate().map(|(stream, size)| (stream as i16, size)).collect::<Vec<_>>();
        for step in [1, 7, 4096, sent.len()] {
            assert_eq!(streams(&sent, step), expected);
        }
    }
}

#[test]
fn segments_of_any_kind_are_read() {
    let mut envelope = Vec::new();
    put_envelope(&mut envelope, 5, 0, 3, Opcode::Query, |out| out.extend_from_slice(&[9; 500]));
    let mut bytes = Vec::new();
    put_compressed(&mut bytes, &[], true);
    put_compressed(&mut bytes, &envelope, true);
    put_compressed(&mut bytes, &envelope[..100], false);
    put_compressed(&mut bytes, &envelope[100..], false);
    put_split_compressed(&mut bytes, &envelope);
    assert_eq!(streams(&bytes, 11), [(3, 500); 3]);
}

#[test]
fn a_segment_that_cannot_be_opened_closes() {
    let mut envelope = Vec::new();
    put_envelope(&mut envelope, 5, 0, 3, Opcode::Query, |out| out.extend_from_slice(&[9; 500]));
    let mut good = Vec::new();
    put_compressed(&mut good, &envelope, true);
    let payload = &good[8..good.len() - 4];
    for (payload, plain_len) in [
        (payload, envelope.len() - 1),
        (payload, envelope.len() + 1),
        (payload, PAYLOAD_BYTES_MAX),
        (&[][..], 5),
        (&[0xff; 30][..], 100),
    ] {
        let header = SegmentHeader { payload_len: payload.len(), plain_len, self_contained: true };
        let bytes = [&header.encode_compressed()[..], payload, &crc32(payload).to_le_bytes()].concat();
        let mut decoder = framed(true);
        decoder.feed(&bytes);
        let Some(Event::Refusal(refusal)) = decoder.next_event() else { panic!("refused") };
        assert!(refusal.close);
        assert_eq!(refusal.failure.code, ErrorCode::Protocol);
    }
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let mut decoder = framed(true);
        decoder.feed(&bad);
        let Some(Event::Refusal(refusal)) = decoder.next_event() else { panic!("refused") };
        let part = if bit < 64 { "header" } else { "body" };
        assert!(refusal.failure.text.contains(&format!("CRC mismatch detected in frame {part}.")));
    }
}

const LZ4_ROWS: &[u8] = b"\x00\x00\x00g\xf32\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x03\x00\x06system\x00\x05local\x00\x03key\x00\r\x00\x0ccluster_name\x00\r\x00\x0bcql_version\x00\r=\x00\x033\x00\x92\x00\x00\x0cTest C3\x00\x90\x00\x00\x00\x053.4.7";
const SNAPPY_ROWS: &[u8] = b"g\xf0C\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x03\x00\x06system\x00\x05local\x00\x03key\x00\r\x00\x0ccluster_name\x00\r\x00\x0bcql_version\x00\r\x00\x00\x00\x01=\r3\\\x00\x00\x0cTest Cluster\x00\x00\x00\x053.4.7";
const SEGMENT_ROWS: &[u8] = b"g\x00\xe0\x00\x04\x1c8\xb5\xf3;\x85\x00\x00\x01\x08\x00\x00\x00g\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x03\x00\x06system\x00\x05local\x00\x03key\x00\r\x00\x0ccluster_name\x00\r\x00\x0bcql_version\x00\r=\x00\x033\x00\x92\x00\x00\x0cTest C3\x00\x90\x00\x00\x00\x053.4.7A\"\xfa\xff";
const SEGMENT_ERROR: &[u8] = b"H\x00\x00\x00\x04\xdf\xb2\xcc\x85\x00\x00\x01\x00\x00\x00\x00?\x00\x00 \x00\x009line 1:0 no viable alternative at input 'SELEC' ([SELEC]),(\xe8.";
