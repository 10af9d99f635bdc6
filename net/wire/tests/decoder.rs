//! The decoder: versions, limits, segments, malformed bytes.

use model::ErrorCode;
use wire::decoder::{AnswerHeader, Decoder, ENVELOPE_BYTES_MAX, Event, Refusal, UNREADY_BYTES_MAX};
use wire::envelope::{Envelope, HEADER_BYTES, put_envelope};
use wire::segment::{self, PAYLOAD_BYTES_MAX, SegmentHeader, SegmentWriter, put_segment, put_split};
use wire::{Opcode, Version};

fn envelope(version: u8, opcode: Opcode, stream: i16, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_envelope(&mut out, version, 0, stream, opcode, |out| out.extend_from_slice(body));
    out
}

fn header(version: u8, flags: u8, stream: i16, opcode: u8, len: u32) -> Vec<u8> {
    let mut out = vec![version, flags];
    out.extend_from_slice(&stream.to_be_bytes());
    out.push(opcode);
    out.extend_from_slice(&len.to_be_bytes());
    out
}

fn server() -> Decoder {
    Decoder::server(Version::V3)
}

fn ready(version: Version) -> Decoder {
    let mut decoder = server();
    decoder.agree(version);
    decoder
}

fn refusal(decoder: &mut Decoder, bytes: &[u8]) -> Refusal {
    decoder.feed(bytes);
    match decoder.next_event() {
        Some(Event::Refusal(refusal)) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

fn message(decoder: &mut Decoder) -> Envelope {
    match decoder.next_event() {
        Some(Event::Envelope(envelope)) => envelope,
        other => panic!("expected an envelope, got {other:?}"),
    }
}

#[test]
fn envelopes_come_out_whole_however_they_arrive() {
    let mut bytes = envelope(4, Opcode::Query, 7, b"abc");
    bytes.extend(envelope(4, Opcode::Options, -3, b""));
    for step in 1..bytes.len() {
        let mut decoder = ready(Version::V4);
        let mut got = Vec::new();
        for part in bytes.chunks(step) {
            decoder.feed(part);
            while let Some(event) = decoder.next_event() {
                got.push(event);
            }
        }
        let [Event::Envelope(query), Event::Envelope(options)] = got.as_slice() else { panic!("{got:?}") };
        assert_eq!((query.header.stream, &query.body[..]), (7, &b"abc"[..]));
        assert_eq!((options.header.stream, options.header.opcode), (-3, Opcode::Options));
        assert_eq!(decoder.buffered(), 0);
    }
}

#[test]
fn what_is_still_to_come_is_known_from_the_header() {
    let mut decoder = ready(Version::V4);
    decoder.feed(&header(4, 0, 1, Opcode::Query as u8, 1000)[..8]);
    assert_eq!((decoder.next_event(), decoder.awaited()), (None, 1));
    decoder.feed(&[0xE8, 1, 2]);
    assert_eq!((decoder.next_event(), decoder.awaited()), (None, 998));
}

/// Drivers match these bytes and fall back to a lower version.
#[test]
fn unknown_versions_are_answered_and_the_connection_lives() {
    for (number, answer) in [
        (0x42, AnswerHeader::Long { version: 5, stream: 9 }),
        (0x41, AnswerHeader::Long { version: 5, stream: 9 }),
        (0x7F, AnswerHeader::Long { version: 5, stream: 9 }),
        (0x00, AnswerHeader::Long { version: 5, stream: 9 }),
        (0x07, AnswerHeader::Long { version: 5, stream: 9 }),
    ] {
        let mut decoder = server();
        let refused = refusal(&mut decoder, &header(number, 0, 9, Opcode::Options as u8, 0));
        assert_eq!(refused.header, answer);
        assert!(!refused.close);
        assert_eq!(refused.failure.code, ErrorCode::Protocol);
        assert_eq!(
            refused.failure.text,
            format!(
                "Invalid or unsupported protocol version ({number}); supported versions are (3/v3, 4/v4, 5/v5, 6/v6-beta)"
            )
        );
        decoder.feed(&envelope(5, Opcode::Options, 2, b""));
        assert_eq!(message(&mut decoder).header.stream, 2);
    }
    let mut decoder = server();
    let beta = refusal(&mut decoder, &header(6, 0, 9, Opcode::Options as u8, 0));
    assert_eq!(beta.header, AnswerHeader::Long { version: 6, stream: 9 });
    assert_eq!(beta.failure.text, "Beta version of the protocol used (6/v6-beta), but USE_BETA flag is unset");
    let mut out = Vec::new();
    wire::response::refusal(&mut out, beta.header, &beta.failure);
    assert_eq!(out[..5], [0x86, wire::flags::USE_BETA, 0, 9, 0]);
    decoder.feed(&header(6, wire::flags::USE_BETA, 9, Opcode::Options as u8, 0));
    let header = message(&mut decoder).header;
    assert_eq!((header.version, header.flags), (Version::V6, wire::flags::USE_BETA));
}

#[test]
fn versions_1_and_2_are_answered_in_their_own_header() {
    for number in [1u8, 2] {
        let mut decoder = server();
        let refused = refusal(&mut decoder, &[number, 0, 5, 1, 0, 0, 0, 2, b'x', b'y']);
        assert_eq!(refused.header, AnswerHeader::Short { version: number, stream: 5 });
        let mut out = Vec::new();
        wire::response::refusal(&mut out, refused.header, &refused.failure);
        assert_eq!(&out[..4], &[0x80 | number, 0, 5, 0]);
        assert_eq!(out.len() - 8, u32::from_be_bytes([out[4], out[5], out[6], out[7]]) as usize);
        decoder.feed(&envelope(4, Opcode::Options, 3, b""));
        assert_eq!(message(&mut decoder).header.stream, 3);
    }
}

#[test]
fn another_version_on_a_running_connection_is_refused() {
    let mut decoder = ready(Version::V4);
    let refused = refusal(&mut decoder, &envelope(5, Opcode::Query, 1, b"body"));
    assert_eq!(
        refused.failure.text,
        "Invalid message version. Got 5/v5 but previous messages on this connection had version 4/v4"
    );
    assert_eq!((refused.header, refused.close), (AnswerHeader::Long { version: 4, stream: 1 }, false));
    let refused = refusal(&mut decoder, &header(3, 0, 1, Opcode::Options as u8, 0));
    assert_eq!(
        refused.failure.text,
        "Invalid message version. Got 3/v3 but previous messages on this connection had version 4/v4"
    );
    decoder.feed(&envelope(4, Opcode::Options, 2, b""));
    assert_eq!(message(&mut decoder).header.stream, 2);
}

#[test]
fn unknown_and_misdirected_opcodes_are_refused() {
    let mut decoder = ready(Version::V4);
    let text = |refusal: Refusal| refusal.failure.text.into_owned();
    assert_eq!(text(refusal(&mut decoder, &header(4, 0, 1, 0x20, 0))), "Unknown opcode 32");
    assert_eq!(text(refusal(&mut decoder, &header(4, 0, 1, 0x11, 0))), "Unknown opcode 17");
    assert_eq!(
        text(refusal(&mut decoder, &header(0x84, 0, 1, 5, 0))),
        "Wrong protocol direction (expected REQUEST, got RESPONSE) for opcode 5 (OPTIONS)"
    );
    assert_eq!(
        text(refusal(&mut decoder, &header(4, 0, 1, 8, 0))),
        "Wrong protocol direction (expected RESPONSE, got REQUEST) for opcode 8 (RESULT)"
    );
}

/// O4: before STARTUP a declared length above the limit closes at once, and nothing is allocated by it.
#[test]
fn o4_the_limit_before_startup() {
    let body_max = UNREADY_BYTES_MAX - HEADER_BYTES;
    let mut decoder = server();
    decoder.feed(&envelope(4, Opcode::Startup, 1, &vec![0; body_max]));
    assert_eq!(message(&mut decoder).body.len(), body_max);

    for number in [4, 0x42, 0x7F] {
        let mut decoder = server();
        let refused = refusal(&mut decoder, &header(number, 0, 1, 1, body_max as u32 + 1));
        assert!(refused.close);
        decoder.feed(&[0; 100]);
        assert_eq!((decoder.next_event(), decoder.buffered()), (None, 0));
    }
    let refused = refusal(&mut server(), &[1, 0, 5, 1, 0xFF, 0xFF, 0xFF, 0xFF]);
    assert!(refused.close);
}

/// O5: a request that is too big is skipped and answered on its stream, and the connection goes on.
#[test]
fn o5_the_limit_of_a_request_in_version_4() {
    let largest = ENVELOPE_BYTES_MAX - HEADER_BYTES;
    let mut decoder = ready(Version::V4);
    decoder.feed(&header(4, 0, 1, Opcode::Query as u8, largest as u32));
    assert_eq!((decoder.next_event(), decoder.awaited()), (None, largest));

    let mut decoder = ready(Version::V4);
    let refused = refusal(&mut decoder, &header(4, 0, 77, Opcode::Query as u8, 17_825_792));
    assert_eq!(refused.failure.text, "Request is too big: length 17825801 exceeds maximum allowed length 16777216.");
    assert_eq!((refused.failure.code, refused.close), (ErrorCode::Invalid, false));
    assert_eq!(refused.header, AnswerHeader::Long { version: 4, stream: 77 });
    let chunk = vec![0x42; 1 << 16];
    for _ in 0..17_825_792 / chunk.len() {
        decoder.feed(&chunk);
        assert_eq!(decoder.next_event(), None);
        assert_eq!(decoder.buffered(), 0, "a skipped body is not kept");
    }
    decoder.feed(&envelope(4, Opcode::Options, 2, b""));
    assert_eq!(message(&mut decoder).header.stream, 2);

    let mut decoder = ready(Version::V4);
    refusal(&mut decoder, &header(4, 0, 1, Opcode::Query as u8, largest as u32 + 1));
}

#[test]
fn o5_the_limit_of_a_request_in_version_5() {
    let mut decoder = ready(Version::V5);
    let mut bytes = Vec::new();
    put_segment(&mut bytes, &header(5, 0, 1, Opcode::Query as u8, ENVELOPE_BYTES_MAX as u32), false);
    decoder.feed(&bytes);
    assert_eq!((decoder.next_event(), decoder.awaited()), (None, ENVELOPE_BYTES_MAX));

    let mut decoder = ready(Version::V5);
    let mut first = Vec::new();
    put_segment(&mut first, &header(5, 0, 6, Opcode::Query as u8, 17_825_792), false);
    let refused = refusal(&mut decoder, &first);
    assert_eq!(refused.failure.text, "CQL Message of size 17825792 bytes exceeds allowed maximum of 16777216 bytes");
    assert!(!refused.close);
    let (body, mut segment) = (vec![7; 1 << 16], Vec::new());
    put_segment(&mut segment, &body, false);
    for _ in 0..17_825_792 / body.len() {
        decoder.feed(&segment);
        assert_eq!((decoder.next_event(), decoder.buffered()), (None, 0));
    }
    let mut next = Vec::new();
    put_segment(&mut next, &envelope(5, Opcode::Options, 2, b""), true);
    decoder.feed(&next);
    assert_eq!(message(&mut decoder).header.stream, 2);
}

#[test]
fn segments_hold_several_envelopes_or_a_part_of_one() {
    let mut payload = envelope(5, Opcode::Options, 1, b"");
    payload.extend(envelope(5, Opcode::Query, 2, b"xyz"));
    let mut bytes = Vec::new();
    put_segment(&mut bytes, &[], true);
    put_segment(&mut bytes, &payload, true);
    put_segment(&mut bytes, &envelope(5, Opcode::Options, 3, b""), false);
    let large = envelope(5, Opcode::Query, 4, &vec![1; 3 * PAYLOAD_BYTES_MAX]);
    put_split(&mut bytes, &large);
    for step in [1, 7, 4096, bytes.len()] {
        let mut decoder = ready(Version::V5);
        let mut streams = Vec::new();
        for part in bytes.chunks(step) {
            decoder.feed(part);
            while let Some(event) = decoder.next_event() {
                let Event::Envelope(envelope) = event else { panic!("{event:?}") };
                streams.push((envelope.header.stream, envelope.body.len()));
            }
        }
        assert_eq!(streams, [(1, 0), (2, 3), (3, 0), (4, 3 * PAYLOAD_BYTES_MAX)]);
        assert_eq!(decoder.buffered(), 0);
    }
}

#[test]
fn an_envelope_beyond_one_segment_is_cut_where_it_lies() {
    for len in [PAYLOAD_BYTES_MAX + 1, 2 * PAYLOAD_BYTES_MAX, 2 * PAYLOAD_BYTES_MAX + 1, 5 * PAYLOAD_BYTES_MAX - 1] {
        let small = envelope(5, Opcode::Options, 1, b"");
        let large: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let mut expected = Vec::new();
        put_segment(&mut expected, &small, true);
        put_split(&mut expected, &large);
        put_segment(&mut expected, &small, true);
        let (mut written, mut writer) = (Vec::new(), SegmentWriter::default());
        for envelope in [&small, &large, &small] {
            writer.write(&mut written, |out| out.extend_from_slice(envelope));
        }
        assert!(written == expected, "{len} bytes");
    }
}

#[test]
fn a_wrong_checksum_closes() {
    let mut good = Vec::new();
    put_segment(&mut good, &envelope(5, Opcode::Options, 1, b""), true);
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let mut decoder = ready(Version::V5);
        let refused = refusal(&mut decoder, &bad);
        let part = if bit / 8 < segment::HEADER_BYTES { "header" } else { "body" };
        assert!(refused.failure.text.contains(&format!("unrecoverable CRC mismatch detected in frame {part}.")));
        assert_eq!((refused.header, refused.close), (AnswerHeader::Long { version: 5, stream: 0 }, true));
        decoder.feed(&good);
        assert_eq!(decoder.next_event(), None, "nothing comes after");
    }
}

#[test]
fn an_envelope_cut_short_in_a_self_contained_segment_closes() {
    let whole = envelope(5, Opcode::Query, 1, b"abc");
    for cut in 1..whole.len() {
        let mut bytes = Vec::new();
        put_segment(&mut bytes, &whole[..cut], true);
        assert!(refusal(&mut ready(Version::V5), &bytes).close);
    }
}

/// Segments as Cassandra 5.0.9 wrote them.
#[test]
fn checksums_are_cassandras() {
    assert_eq!(SegmentHeader { payload_len: 111, plain_len: 0, self_contained: true }.encode(), *b"o\x00\x02\n\x9bD");
    assert_eq!(SegmentHeader { payload_len: 32, plain_len: 0, self_contained: true }.encode(), *b" \x00\x029\x02\xe5");
    let payload = b"\x85\x00\x00\x01\x00\x00\x00\x00\x17\x00\x00\x00\n\x00\x11Unknown opcode 32";
    assert_eq!(segment::crc32(payload).to_le_bytes(), *b"G\x8d\xf1i");
    for (payload_len, self_contained) in [(0, true), (1, false), (PAYLOAD_BYTES_MAX, true)] {
        let header = SegmentHeader { payload_len, plain_len: 0, self_contained };
        assert_eq!(SegmentHeader::decode(header.encode()), Ok(header));
    }
}

#[test]
fn envelopes_of_one_turn_share_a_segment() {
    let mut writer = SegmentWriter::default();
    let mut out = Vec::new();
    let sizes = [0, 10, 1000, PAYLOAD_BYTES_MAX - 9, 5, PAYLOAD_BYTES_MAX - 8, 20, 400_000, 1];
    for (stream, size) in sizes.into_iter().enumerate() {
        let bytes = envelope(5, Opcode::Query, stream as i16, &vec![stream as u8; size]);
        writer.write(&mut out, |out| out.extend_from_slice(&bytes));
    }
    assert_eq!(out[2] & 2, 2, "self-contained");
    assert_eq!(u16::from_le_bytes([out[0], out[1]]), 3 * 9 + 1010, "the first three share");
    let check = |out: &[u8], sizes: &[usize]| {
        let mut decoder = ready(Version::V5);
        decoder.feed(out);
        for (stream, size) in sizes.iter().enumerate() {
            let envelope = message(&mut decoder);
            assert_eq!((envelope.header.stream, envelope.body.len()), (stream as i16, *size));
            assert!(envelope.body.iter().all(|byte| *byte == stream as u8));
        }
        assert_eq!(decoder.next_event(), None);
    };
    check(&out, &sizes);

    // The queue was taken meanwhile: the next envelope begins a segment of its own.
    let mut sent = std::mem::take(&mut out);
    for stream in sizes.len()..sizes.len() + 2 {
        let bytes = envelope(5, Opcode::Query, stream as i16, &[stream as u8]);
        writer.write(&mut out, |out| out.extend_from_slice(&bytes));
    }
    sent.extend(out);
    let all = sizes.into_iter().chain([1, 1]).collect::<Vec<_>>();
    check(&sent, &all);
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

/// Changes, drops, repeats and cuts bytes of a stream.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..1 + random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF][random.below(5)],
            2 => drop(bytes.drain(at..(at + 1 + random.below(8)).min(bytes.len()))),
            3 => bytes.truncate(at),
            4 => {
                let piece = bytes[at..(at + random.below(40)).min(bytes.len())].to_vec();
                bytes.extend(piece);
            }
            _ => bytes.insert(at, random.below(256) as u8),
        }
    }
}

/// O5: any bytes, in any pieces, give envelopes or refusals, and no more memory is kept than was fed.
#[test]
fn o5_mutated_streams_never_panic() {
    let mut plain = envelope(4, Opcode::Startup, 1, b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0");
    plain.extend(envelope(4, Opcode::Query, 2, b"\0\0\0\x01x\0\x01\0"));
    plain.extend(envelope(4, Opcode::Options, 3, b""));
    let mut framed = Vec::new();
    put_segment(&mut framed, &plain.iter().map(|b| if *b == 4 { 5 } else { *b }).collect::<Vec<_>>(), true);
    put_split(&mut framed, &envelope(5, Opcode::Query, 4, &[9; 200]));
    let mut random = Random(0x9E37_79B9);
    for round in 0..30_000 {
        let version = if round % 2 == 0 { Version::V4 } else { Version::V5 };
        let mut bytes = if round % 2 == 0 { plain.clone() } else { framed.clone() };
        mutate(&mut random, &mut bytes);
        let mut decoder = if round % 3 == 0 { server() } else { ready(version) };
        if round % 7 == 0 {
            decoder = Decoder::client();
            decoder.agree(version);
        }
        let mut fed = 0;
        for part in bytes.chunks(1 + random.below(64)) {
            fed += part.len();
            decoder.feed(part);
            let mut events = 0;
            while decoder.next_event().is_some() {
                events += 1;
                assert!(events <= fed, "every event takes bytes");
            }
            assert!(decoder.buffered() <= fed);
        }
    }
}
