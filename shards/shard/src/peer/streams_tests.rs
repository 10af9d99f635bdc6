//! Requests and answers of streaming as bytes: those of version 1, and damage.

use super::*;
use engine::Version;
use model::RingToken;

const SESSION_ID: Uuid = Uuid::from_bytes(*b"0123456789abcdef");
const PLAN: Uuid = Uuid::from_bytes(*b"ABCDEFGHIJKLMNOP");
const RECEIVER: Uuid = Uuid::from_bytes(*b"abcdefghijklmnop");
const TABLE: TableId = TableId([3; 16]);

fn range() -> TokenRange {
    TokenRange::between(RingToken::Murmur3(1), RingToken::Murmur3(i64::MIN))
}

/// The bytes of [`range`] in a list.
const RANGES: &[u8] = &[1, 0, 0, 0, 2, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];

fn begin(have: Vec<String>) -> StreamRequest {
    StreamRequest::Begin(Begin {
        session: SESSION_ID,
        plan: PLAN,
        receiver: RECEIVER,
        operation: 5,
        table: TABLE,
        whole: true,
        ranges: vec![range()],
        have,
    })
}

fn decode(verb: Verb, bytes: &[u8]) -> Option<(u16, StreamRequest)> {
    StreamRequest::decode(Partitioner::Murmur3, verb, bytes)
}

#[test]
fn golden_bytes_of_requests() {
    let chunk = Chunk { session: SESSION_ID, item: 2, component: Component::Data, offset: 0x1000, bytes: 0x400 };
    let table = [3; 16];
    let cases: [(StreamRequest, Vec<u8>); 5] = [
        (StreamRequest::Measure { table: TABLE, ranges: vec![range()] }, [&[7, 0][..], &table, RANGES].concat()),
        (
            begin(vec!["da-1-bti".into()]),
            [
                &[7, 0][..],
                b"0123456789abcdefABCDEFGHIJKLMNOPabcdefghijklmnop",
                &[5],
                &table,
                &[1],
                RANGES,
                &[1, 0, 0, 0, 8, 0],
                b"da-1-bti",
            ]
            .concat(),
        ),
        (
            StreamRequest::Offers { session: SESSION_ID, from: 9 },
            [&[7, 0][..], b"0123456789abcdef", &[9, 0, 0, 0]].concat(),
        ),
        (
            StreamRequest::Chunk(chunk),
            [
                &[7, 0][..],
                b"0123456789abcdef",
                &[2, 0, 0, 0, 7, 0],
                b"Data.db",
                &[0, 0x10, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0],
            ]
            .concat(),
        ),
        (
            StreamRequest::Done { session: SESSION_ID, item: SESSION },
            [&[7, 0][..], b"0123456789abcdef", &[0xff; 4]].concat(),
        ),
    ];
    for (request, bytes) in cases {
        let mut out = Vec::new();
        request.push(&mut out, 7);
        assert_eq!(out, bytes, "{request:?}");
        let verb = request.verb();
        assert_eq!(decode(verb, &bytes), Some((7, request)));
        assert!((0..bytes.len()).all(|len| decode(verb, &bytes[..len]).is_none()), "too short");
        assert_eq!(decode(verb, &[&bytes[..], &[0]].concat()), None, "a byte too many");
    }
}

fn offers(count: usize) -> Offers {
    let files = OfferKind::Files {
        is_whole: false,
        name: Descriptor { version: Version::Da, id: "2".into() },
        components: vec![(Component::Helenus, 5), (Component::Data, 0x1000)],
    };
    let kinds = [OfferKind::Nothing, files, OfferKind::Kept];
    let offer = |at: usize| Offer { origin: "nb-1-big".into(), kind: kinds[at % 3].clone() };
    Offers { is_open: true, is_complete: true, items: 3, bytes: 0x100, offers: (0..count).map(offer).collect() }
}

#[test]
fn golden_bytes_of_offers() {
    let mut out = Vec::new();
    offers(3).push(&mut out);
    let expected = [
        &[3, 3, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0][..],
        b"\0\x08\0nb-1-big",
        b"\x02\x08\0nb-1-big\x08\0da-2-bti\x02\x0a\0Helenus.db\x05\0\0\0\0\0\0\0\x07\0Data.db\0\x10\0\0\0\0\0\0",
        b"\x03\x08\0nb-1-big",
    ]
    .concat();
    assert_eq!(out, expected);
    assert_eq!(Offers::decode(&out), Some(offers(3)));
    assert!((0..out.len()).all(|len| Offers::decode(&out[..len]).is_none()), "too short");
    assert_eq!(decode_measure(&[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]), Some((1, 2)));
    assert_eq!(decode_measure(&[0; 15]), None);
}

#[test]
fn lists_have_limits() {
    let offered = |count| {
        let mut out = Vec::new();
        offers(count).push(&mut out);
        Offers::decode(&out).is_some()
    };
    assert!(offered(OFFERS_MAX) && !offered(OFFERS_MAX + 1));
    let named = |count| {
        let mut out = Vec::new();
        begin(vec![String::new(); count]).push(&mut out, 0);
        decode(Verb::StreamBegin, &out).is_some()
    };
    assert!(named(NAMES_MAX) && !named(NAMES_MAX + 1));
    let ranged = |count| {
        let mut out = Vec::new();
        StreamRequest::Measure { table: TABLE, ranges: vec![TokenRange::FULL; count] }.push(&mut out, 0);
        decode(Verb::StreamMeasure, &out).is_some()
    };
    assert!(ranged(RANGES_MAX) && !ranged(RANGES_MAX + 1));
}

#[test]
fn damaged_bytes_are_something_else_or_nothing() {
    let mut state = 7u64;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % limit
    };
    let (mut request, mut answer) = (Vec::new(), Vec::new());
    begin(vec!["da-1-bti".into(), "nb-2-big".into()]).push(&mut request, 1);
    offers(7).push(&mut answer);
    for _ in 0..20_000 {
        let (mut bad_request, mut bad_answer) = (request.clone(), answer.clone());
        for _ in 0..1 + below(4) {
            let (at, by) = (below(bad_request.len()), 1 << below(8));
            bad_request[at] ^= by;
            let (at, by) = (below(bad_answer.len()), 1 << below(8));
            bad_answer[at] ^= by;
        }
        for verb in Verb::ALL {
            decode(*verb, &bad_request);
        }
        // Names of SSTables become names of directories.
        if let Some(offers) = Offers::decode(&bad_answer) {
            assert!(offers.offers.iter().all(|offer| !offer.origin.contains(['/', '.'])));
        }
    }
}
