//! Requests and responses: encoded and decoded again, Cassandra's own bytes, mutated bodies.

#[path = "messages/mutated.rs"]
mod mutated;
#[path = "messages/types.rs"]
mod types;

use model::failure::{Detail, FailureReason};
use model::tablets::TabletRoute;
use model::value::BoundValue;
use model::{
    BatchEntry, BatchKind, BatchStatement, ColumnSpec, Consistency, CqlType, ErrorCode, Failure, QueryParameters,
};
use wire::client::{self, Answer, put_request};
use wire::decoder::{Decoder, Event};
use wire::envelope::{Envelope, HEADER_BYTES};
use wire::request::{Batch, EventType, Request};
use wire::response::{self, To};
use wire::{Opcode, Version};

const VERSIONS: [Version; 4] = [Version::V3, Version::V4, Version::V5, Version::V6];

fn full_parameters<'a>() -> QueryParameters<'a> {
    QueryParameters {
        consistency: Consistency::LocalQuorum,
        values: vec![BoundValue::Bytes(b"value"), BoundValue::Null, BoundValue::Bytes(b""), BoundValue::Unset],
        names: None,
        skip_metadata: true,
        page_size: Some(5000),
        paging_state: Some(b"state"),
        serial_consistency: Some(Consistency::LocalSerial),
        timestamp: Some(-5),
        keyspace: Some("ks"),
        now_in_seconds: Some(7),
        wants_charge: false,
    }
}

/// The parameters without those that a version cannot carry.
fn limited<'a>(version: Version, mut parameters: QueryParameters<'a>) -> QueryParameters<'a> {
    if version < Version::V5 {
        parameters.keyspace = None;
        parameters.now_in_seconds = None;
    }
    if version < Version::V4 {
        for value in &mut parameters.values {
            if *value == BoundValue::Unset {
                *value = BoundValue::Null;
            }
        }
    }
    parameters
}

fn samples(version: Version) -> Vec<Request<'static>> {
    let v5 = version >= Version::V5;
    let full = limited(version, full_parameters());
    let named = QueryParameters { names: Some(vec!["a", "b", "c", "d"]), ..full.clone() };
    let tail = QueryParameters {
        values: Vec::new(),
        skip_metadata: false,
        page_size: None,
        paging_state: None,
        ..full.clone()
    };
    vec![
        Request::Options,
        Request::Startup(vec![("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", "x")]),
        Request::AuthResponse(Some(b"\0user\0password")),
        Request::AuthResponse(None),
        Request::Query { text: "SELECT 1", parameters: QueryParameters::new(Consistency::One) },
        Request::Query { text: "", parameters: full.clone() },
        Request::Query { text: "é", parameters: named },
        Request::Prepare { text: "SELECT", keyspace: None },
        Request::Prepare { text: "SELECT", keyspace: if v5 { Some("k") } else { None } },
        Request::Execute {
            id: b"0123456789abcdef",
            result_metadata_id: v5.then_some(b"m".as_slice()),
            parameters: full,
        },
        Request::Register(vec![EventType::TopologyChange, EventType::StatusChange, EventType::SchemaChange]),
        Request::Batch(Batch {
            kind: BatchKind::Unlogged,
            entries: vec![
                BatchEntry { statement: BatchStatement::Text("INSERT"), values: vec![BoundValue::Null] },
                BatchEntry {
                    statement: BatchStatement::Id(b"id"),
                    values: vec![BoundValue::Bytes(b"x"), BoundValue::Null],
                },
            ],
            parameters: tail,
        }),
    ]
}

fn only(bytes: &[u8], mut decoder: Decoder) -> Envelope {
    decoder.feed(bytes);
    match decoder.next_event() {
        Some(Event::Envelope(envelope)) => envelope,
        other => panic!("{other:?}"),
    }
}

fn encoded(version: Version, request: &Request<'_>) -> Envelope {
    let mut out = Vec::new();
    put_request(&mut out, version, 5, request);
    only(&out, Decoder::server(Version::V3))
}

fn decoded(envelope: &Envelope) -> Result<Request<'_>, Failure> {
    let header = envelope.header;
    Request::decode(header.version, header.opcode, header.flags, &envelope.body)
}

#[test]
fn requests_come_back() {
    for version in VERSIONS {
        for request in samples(version) {
            let envelope = encoded(version, &request);
            assert_eq!(envelope.header.stream, 5);
            assert_eq!(decoded(&envelope).expect("valid"), request, "{version}");
        }
    }
}

fn failure_of(version: Version, opcode: Opcode, body: &[u8]) -> Failure {
    Request::decode(version, opcode, 0, body).expect_err("malformed")
}

fn query(tail: &[u8]) -> Vec<u8> {
    [b"\0\0\0\x01x", tail].concat()
}

/// Texts of Cassandra 5.0.9.
#[test]
fn malformed_requests_have_cassandras_texts() {
    let text = |opcode, body: &[u8]| {
        let failure = failure_of(Version::V4, opcode, body);
        assert_eq!(failure.code, ErrorCode::Protocol);
        failure.text.into_owned()
    };
    let long = "Not enough bytes to read an UTF8 serialized string preceded by its 4 bytes length";
    assert_eq!(text(Opcode::Query, b"\xff\xff\xff\xff"), long);
    assert_eq!(text(Opcode::Query, b"\x7f\xff\xff\xffabc"), long);
    assert!(
        text(Opcode::Query, b"\0\0\0\x03\xff\xfe\xfd\0\x01\0").starts_with("Cannot decode string as UTF8: 'fffefd';")
    );
    assert_eq!(text(Opcode::Query, &query(b"\0\x55\0")), "Unknown code 85 for a consistency level");
    assert_eq!(text(Opcode::Query, &query(b"\0\x01\x04\0\0\0\0")), "The page size cannot be 0");
    assert_eq!(text(Opcode::Query, &query(b"\0\x01\x01\0\x01\xff\xff\xff\xfd")), "Invalid ByteBuf length -3");
    assert_eq!(
        text(Opcode::Query, &query(b"\0\x01\x20\x80\0\0\0\0\0\0\0")),
        "Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807] (got -9223372036854775808)"
    );
    assert_eq!(text(Opcode::Register, b"\0\x01\0\x03FOO"), "Invalid value 'FOO' for Type");
    assert_eq!(text(Opcode::Batch, b"\x09\0\0\0\x01\0"), "Invalid BATCH message type 9");
    assert_eq!(
        text(Opcode::Batch, b"\0\0\x01\x07\0\x01\0"),
        "Invalid query kind in BATCH messages. Must be 0 or 1 but got 7"
    );
    assert_eq!(text(Opcode::Credentials, b""), "Unsupported message");
}

#[test]
fn what_cassandra_tolerates_is_tolerated() {
    let parameters = |version, body: &[u8]| match Request::decode(version, Opcode::Query, 0, body) {
        Ok(Request::Query { parameters, .. }) => (parameters.page_size, parameters.values.len()),
        other => panic!("{other:?}"),
    };
    assert_eq!(parameters(Version::V4, &query(b"\0\x01\x04\xff\xff\xff\xff")), (None, 0), "negative page size");
    assert_eq!(parameters(Version::V4, &query(b"\0\x01\0trailing")), (None, 0));
    assert_eq!(parameters(Version::V5, &query(b"\0\x01\x80\0\0\0")), (None, 0), "unknown flag");
    assert_eq!(parameters(Version::V3, &query(b"\0\x01\x01\0\x01\xff\xff\xff\xfe")), (None, 1));
    assert_eq!(parameters(Version::V3, &query(b"\0\x01\x01\0\x01\xff\xff\xff\xfd")), (None, 1), "null too");
    assert_eq!(parameters(Version::V4, &query(b"\0\x01\x40")), (None, 0), "names without values");
    assert_eq!(parameters(Version::V3, &query(b"\0\x01\x80\0\x01k")), (None, 0), "a keyspace in any version");
    let batch = Request::decode(Version::V4, Opcode::Batch, 0, b"\x01\0\0\0\x01\x04\0\0\0\0");
    assert!(batch.is_ok(), "a batch has no pages");
    let named = Request::decode(Version::V4, Opcode::Batch, 0, b"\x01\0\0\0\x01\x40");
    assert!(named.is_ok(), "nor names");
    let payload = [b"\0\x01\0\x01a\0\0\0\x01b".as_slice(), &query(b"\0\x01\0")].concat();
    let flags = wire::flags::CUSTOM_PAYLOAD | wire::flags::TRACING | wire::flags::COMPRESSION;
    assert!(Request::decode(Version::V4, Opcode::Query, flags, &payload).is_ok());
}

fn answer<'t>(version: Version, encode: impl FnOnce(&mut Vec<u8>, To<'t>)) -> Answer {
    let mut out = Vec::new();
    encode(&mut out, To::new(version, 3));
    let envelope = only(&out, Decoder::client());
    assert_eq!(out.len(), HEADER_BYTES + envelope.body.len());
    Answer::decode(&envelope).expect("valid")
}

#[test]
fn errors_carry_their_detail() {
    let body = |failure: Failure| {
        let encode = |out: &mut Vec<u8>, to| response::error(out, to, &[], &failure);
        match answer(Version::V4, encode).response {
            client::Response::Error { code, detail, .. } => (code, detail),
            other => panic!("{other:?}"),
        }
    };
    let quorum = Consistency::Quorum;
    let failure = |code| Failure::new(code, "text");
    assert_eq!(body(Failure::invalid("x")), (0x2200, vec![]));
    let unavailable = Detail::Unavailable { consistency: quorum, required: 2, alive: 1 };
    assert_eq!(body(failure(ErrorCode::Unavailable).with(unavailable)), (0x1000, vec![0, 4, 0, 0, 0, 2, 0, 0, 0, 1]));
    let timeout =
        Detail::WriteTimeout { consistency: Consistency::One, received: 0, block_for: 1, write_type: "SIMPLE" };
    assert_eq!(
        body(failure(ErrorCode::WriteTimeout).with(timeout)),
        (0x1100, b"\0\x01\0\0\0\0\0\0\0\x01\0\x06SIMPLE".to_vec())
    );
    let timeout = Detail::ReadTimeout { consistency: Consistency::One, received: 0, block_for: 1, data_present: true };
    assert_eq!(body(failure(ErrorCode::ReadTimeout).with(timeout)), (0x1200, b"\0\x01\0\0\0\0\0\0\0\x01\x01".to_vec()));
    let exists = Detail::AlreadyExists { keyspace: "k".into(), table: String::new() };
    assert_eq!(body(failure(ErrorCode::AlreadyExists).with(exists)), (0x2400, b"\0\x01k\0\0".to_vec()));
    let unprepared = Detail::Unprepared { id: b"ab".to_vec() };
    assert_eq!(body(failure(ErrorCode::Unprepared).with(unprepared)), (0x2500, b"\0\x02ab".to_vec()));
}

/// From version 5 on the unknown outcome of a conditional update has a code of its own, and a time-out tells how often
/// the update had to start over.
#[test]
fn failures_of_conditional_changes_by_version() {
    let body =
        |version, failure: &Failure| match answer(version, |out, to| response::error(out, to, &[], failure)).response {
            client::Response::Error { code, text, detail } => (code, text, detail),
            other => panic!("{other:?}"),
        };
    let older = "Operation timed out - received only 1 responses.";
    let (consistency, received, block_for) = (Consistency::Serial, 1, 2);
    let detail = Detail::CasWriteUnknown { consistency, received, block_for };
    let unknown = Failure::new(ErrorCode::CasWriteUnknown, "text").with(detail);
    assert_eq!(body(Version::V5, &unknown), (0x1700, "text".into(), b"\0\x08\0\0\0\x01\0\0\0\x02".to_vec()));
    let acks = b"\0\x08\0\0\0\x01\0\0\0\x02\0\x03CAS".to_vec();
    assert_eq!(body(Version::V4, &unknown), (0x1100, older.into(), acks));
    let detail = Detail::CasWriteTimeout { consistency, received, block_for, write_type: "CAS", contentions: 3 };
    let timeout = Failure::new(ErrorCode::WriteTimeout, "text").with(detail);
    let acks = b"\0\x08\0\0\0\x01\0\0\0\x02\0\x03CAS".to_vec();
    assert_eq!(body(Version::V5, &timeout), (0x1100, "text".into(), [&acks[..], b"\0\x03"].concat()));
    assert_eq!(body(Version::V4, &timeout), (0x1100, older.into(), acks));
    // The change is decided, but too few replicas are known to have it.
    let detail = Detail::CasWriteTimeout { consistency, received, block_for, write_type: "SIMPLE", contentions: 3 };
    let timeout = Failure::new(ErrorCode::WriteTimeout, "text").with(detail);
    let acks = b"\0\x08\0\0\0\x01\0\0\0\x02\0\x06SIMPLE".to_vec();
    assert_eq!(body(Version::V5, &timeout), (0x1100, "text".into(), [&acks[..], b"\0\x03"].concat()));
    assert_eq!(body(Version::V4, &timeout), (0x1100, older.into(), acks));
}

/// As ScyllaDB's drivers read it: `tuple<bigint, bigint, list<tuple<uuid, int>>>`.
#[test]
fn payloads_tell_where_a_tablet_is() {
    let tablet = TabletRoute {
        after: i64::MIN,
        until: -2,
        replicas: vec![((0x0102u128 << 112).to_be_bytes(), 7), (3u128.to_be_bytes(), 0)],
    };
    let payload = |version, told| {
        answer(version, |out, to| response::void(out, To { told, tablet: Some(&tablet), ..to }, &[])).payload
    };
    let value = [
        &b"\0\0\0\x08\x80\0\0\0\0\0\0\0\0\0\0\x08\xff\xff\xff\xff\xff\xff\xff\xfe\0\0\0\x44\0\0\0\x02"[..],
        b"\0\0\0\x1c\0\0\0\x10\x01\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x04\0\0\0\x07",
        b"\0\0\0\x1c\0\0\0\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x03\0\0\0\x04\0\0\0\0",
    ]
    .concat();
    let told = ("tablets-routing-v1".to_owned(), value);
    assert_eq!(payload(Version::V4, None), std::slice::from_ref(&told));
    let charge = ("RequestCharge".to_owned(), 5.37f64.to_be_bytes().to_vec());
    assert_eq!(payload(Version::V5, Some(response::Told::Charge(537))), [charge, told]);
    assert_eq!(payload(Version::V3, None), []);
}

/// What a request has cost, and when it may be tried again, are told from version 4 on.
#[test]
fn payloads_tell_charges_and_when_to_try_again() {
    let charged = |version| {
        answer(version, |out, to| response::void(out, To { told: Some(response::Told::Charge(537)), ..to }, &[]))
            .payload
    };
    assert_eq!(charged(Version::V4), [("RequestCharge".to_owned(), 5.37f64.to_be_bytes().to_vec())]);
    assert_eq!(charged(Version::V3), []);
    let as_told = Detail::RateLimit { is_write: true, by_coordinator: true };
    let detail = Detail::Throttled { retry_after_millis: 258, as_told: Box::new(as_told) };
    let failure = Failure::new(ErrorCode::RateLimit, "text").with(detail);
    let refused = |knows_rate_limits| {
        let told = answer(Version::V4, |out, to| response::error(out, To { knows_rate_limits, ..to }, &[], &failure));
        match told.response {
            client::Response::Error { code, detail, .. } => (code, detail, told.payload),
            other => panic!("{other:?}"),
        }
    };
    let payload = vec![("RetryAfter".to_owned(), b"\0\0\0\0\0\0\x01\x02".to_vec())];
    assert_eq!(refused(true), (0xF000, vec![1, 1], payload.clone()));
    assert_eq!(refused(false), (0x2300, vec![], payload));
    for version in VERSIONS {
        let parameters = QueryParameters { wants_charge: true, ..QueryParameters::new(Consistency::One) };
        let request = Request::Query { text: "SELECT", parameters };
        let mut out = Vec::new();
        put_request(&mut out, version, 1, &request);
        let asked = Request::decode(version, wire::Opcode::Query, out[1], &out[wire::envelope::HEADER_BYTES..]);
        let Ok(Request::Query { parameters, .. }) = asked else { panic!("{asked:?}") };
        assert_eq!(parameters.wants_charge, version >= Version::V4);
    }
}

/// Which replicas failed, and why, is known from version 5 on; version 3 knows only time-outs.
#[test]
fn failures_of_replicas_by_version() {
    let failures = vec![
        ([127, 0, 0, 1].into(), FailureReason::ReadTooManyTombstones),
        (std::net::Ipv6Addr::LOCALHOST.into(), FailureReason::Timeout),
    ];
    let read = Detail::ReadFailure {
        consistency: Consistency::Quorum,
        received: 1,
        block_for: 2,
        failures: failures.clone(),
        data_present: true,
    };
    let write = Detail::WriteFailure {
        consistency: Consistency::One,
        received: 0,
        block_for: 1,
        failures,
        write_type: "SIMPLE",
    };
    let body =
        |version, failure: &Failure| match answer(version, |out, to| response::error(out, to, &[], failure)).response {
            client::Response::Error { code, text, detail } => (code, text, detail),
            other => panic!("{other:?}"),
        };
    let map = b"\0\0\0\x02\x04\x7f\0\0\x01\0\x01\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\x02";
    let count = b"\0\0\0\x02";
    for (failure, code, older, head, end) in [
        (
            Failure::new(ErrorCode::ReadFailure, "text").with(read),
            0x1300,
            0x1200,
            b"\0\x04\0\0\0\x01\0\0\0\x02",
            &b"\x01"[..],
        ),
        (
            Failure::new(ErrorCode::WriteFailure, "text").with(write),
            0x1500,
            0x1100,
            b"\0\x01\0\0\0\0\0\0\0\x01",
            b"\0\x06SIMPLE",
        ),
    ] {
        let received = i32::from(code == 0x1300);
        assert_eq!(body(Version::V5, &failure), (code, "text".into(), [&head[..], map, end].concat()));
        assert_eq!(body(Version::V4, &failure), (code, "text".into(), [&head[..], count, end].concat()));
        let text = format!("Operation timed out - received only {received} responses.");
        assert_eq!(body(Version::V3, &failure), (older, text, [&head[..], end].concat()));
    }
}

#[test]
fn every_kind_of_answer_carries_session_and_warnings() {
    let warnings = ["careful".to_string(), "very".to_string()];
    let rows = response::Rows { skip_metadata: false, new_metadata_id: None, paging_state: None, count: 0, bytes: &[] };
    let prepared = response::Prepared { id: b"id", result_metadata_id: b"id", partition_key_markers: &[] };
    let change = response::SchemaChange { change: "CREATED", target: "TYPE", keyspace: "k", name: "t" };
    let columns = [text_column("a")];
    type Encode<'a> = &'a dyn Fn(&mut Vec<u8>, To);
    let encoders: [Encode<'_>; 6] = [
        &|out, to| response::void(out, to, &warnings),
        &|out, to| response::rows(out, to, &warnings, &rows, &columns),
        &|out, to| response::set_keyspace(out, to, &warnings, "k"),
        &|out, to| response::prepared(out, to, &warnings, &prepared, &columns, Some(&columns)),
        &|out, to| response::schema_change(out, to, &warnings, change),
        &|out, to| response::error(out, to, &warnings, &Failure::invalid("x")),
    ];
    for version in VERSIONS {
        for encode in encoders {
            for tracing_id in [None, Some([7; 16])] {
                let answer = answer(version, |out, to| encode(out, To { tracing_id, ..to }));
                assert_eq!(answer.tracing_id, tracing_id);
                assert_eq!(answer.warnings.len(), if version >= Version::V4 { 2 } else { 0 });
            }
        }
    }
}

#[test]
fn warnings_are_sent_from_version_4_on() {
    let warnings = ["careful".to_string()];
    for version in VERSIONS {
        let answer = answer(version, |out, to| response::void(out, to, &warnings));
        assert_eq!(answer.warnings.len(), usize::from(version >= Version::V4));
        assert_eq!(answer.response, client::Response::Void);
    }
}

fn column(keyspace: &str, table: &str, name: &str, cql_type: CqlType) -> ColumnSpec {
    ColumnSpec { keyspace: keyspace.into(), table: table.into(), name: name.into(), cql_type, class: None }
}

fn columns_of(types: &[CqlType]) -> Vec<ColumnSpec> {
    types.iter().map(|cql_type| column("k", "t", "c", cql_type.clone())).collect()
}

fn text_column(name: &str) -> ColumnSpec {
    column("system", "local", name, CqlType::Text)
}

/// What Cassandra 5.0.9 answered to the same requests, to the byte.
#[test]
fn responses_are_cassandras() {
    let bytes = |version, stream, encode: &dyn Fn(&mut Vec<u8>, To)| {
        let mut out = Vec::new();
        encode(&mut out, To::new(version, stream));
        out
    };
    let rows = response::Rows {
        skip_metadata: false,
        new_metadata_id: None,
        paging_state: None,
        count: 1,
        bytes: b"\0\0\0\x05local",
    };
    assert_eq!(
        bytes(Version::V4, 1, &|out, to| response::rows(out, to, &[], &rows, &[text_column("key")])),
        b"\x84\0\0\x01\x08\0\0\0\x2f\0\0\0\x02\0\0\0\x01\0\0\0\x01\0\x06system\0\x05local\0\x03key\0\r\0\0\0\x01\0\0\0\x05local"
    );
    assert_eq!(
        bytes(Version::V4, 1, &|out, to| response::set_keyspace(out, to, &[], "system")),
        b"\x84\0\0\x01\x08\0\0\0\x0c\0\0\0\x03\0\x06system"
    );
    let prepared = response::Prepared {
        id: b"L0?\xdd\xc6!\x8e\x87@'c<\xd4|\x19:",
        result_metadata_id: b"",
        partition_key_markers: &[0],
    };
    let result = [text_column("key"), text_column("bootstrapped")];
    assert_eq!(
        bytes(Version::V4, 1, &|out, to| {
            response::prepared(out, to, &[], &prepared, &[text_column("key")], Some(&result));
        })[9..],
        b"\0\0\0\x04\0\x10L0?\xdd\xc6!\x8e\x87@'c<\xd4|\x19:\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x06system\0\x05local\0\x03key\0\r\0\0\0\x01\0\0\0\x02\0\x06system\0\x05local\0\x03key\0\r\0\x0cbootstrapped\0\r"[..]
    );
    let insert = response::Prepared {
        id: b"%\xe9\x7fe@N\xa7\x06\xb0\xc8\xf0\xb2\x0e\xa8\xfa\x07",
        result_metadata_id: b"\xd4\x1d\x8c\xd9\x8f\0\xb2\x04\xe9\x80\t\x98\xec\xf8B~",
        partition_key_markers: &[0],
    };
    let role = [column("system_auth", "roles", "role", CqlType::Text)];
    assert_eq!(
        bytes(Version::V5, 1, &|out, to| response::prepared(out, to, &[], &insert, &role, None)),
        b"\x85\0\0\x01\x08\0\0\0Z\0\0\0\x04\0\x10%\xe9\x7fe@N\xa7\x06\xb0\xc8\xf0\xb2\x0e\xa8\xfa\x07\0\x10\xd4\x1d\x8c\xd9\x8f\0\xb2\x04\xe9\x80\t\x98\xec\xf8B~\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x0bsystem_auth\0\x05roles\0\x04role\0\r\0\0\0\x04\0\0\0\0"
    );
    let failure = Failure::protocol("Unknown opcode 32");
    assert_eq!(
        bytes(Version::V4, 1, &|out, to| response::error(out, to, &[], &failure)),
        b"\x84\0\0\x01\0\0\0\0\x17\0\0\0\n\0\x11Unknown opcode 32"
    );
    assert_eq!(bytes(Version::V4, 1, &|out, to| response::ready(out, to)), b"\x84\0\0\x01\x02\0\0\0\0");
    assert_eq!(
        bytes(Version::V4, 1, &|out, to| response::auth_success(out, to)),
        b"\x84\0\0\x01\x10\0\0\0\x04\xff\xff\xff\xff"
    );
}

#[test]
fn metadata_is_left_out_or_renewed() {
    let columns = [text_column("a"), text_column("b")];
    let rows = response::Rows {
        skip_metadata: true,
        new_metadata_id: None,
        paging_state: Some(b"next"),
        count: 1,
        bytes: b"\0\0\0\x01x\xff\xff\xff\xff",
    };
    let page = |version, rows: &response::Rows<'_>| match answer(version, |out, to| {
        response::rows(out, to, &[], rows, &columns)
    })
    .response
    {
        client::Response::Rows(rows) => rows,
        other => panic!("{other:?}"),
    };
    let skipped = page(Version::V5, &rows);
    assert_eq!((skipped.flags, skipped.column_count), (0x6, 2));
    assert_eq!(skipped.paging_state.as_deref(), Some(b"next".as_slice()));
    assert_eq!(skipped.rows, [[Some(b"x".to_vec()), None]]);
    let changed = page(Version::V5, &response::Rows { new_metadata_id: Some(b"newid"), ..rows });
    assert_eq!((changed.flags, changed.columns.len()), (0x1 | 0x2 | 0x8, 2));
    assert_eq!(changed.new_metadata_id.as_deref(), Some(b"newid".as_slice()));
    let older = page(Version::V4, &response::Rows { new_metadata_id: Some(b"newid"), ..rows });
    assert_eq!((older.flags, older.new_metadata_id), (0x6, None), "unknown before version 5");
    let other = ColumnSpec { table: "peers".into(), ..text_column("c") };
    let both = [&columns[..], &[other]].concat();
    let mixed = answer(Version::V4, |out, to| {
        let rows = response::Rows { skip_metadata: false, paging_state: None, count: 0, bytes: &[], ..rows };
        response::rows(out, to, &[], &rows, &both);
    });
    let client::Response::Rows(mixed) = mixed.response else { panic!("rows") };
    assert_eq!((mixed.flags, &*mixed.columns[2].table), (0, "peers"));
}

#[test]
fn events_and_schema_changes() {
    let change = |target, name| response::SchemaChange { change: "CREATED", target, keyspace: "k", name };
    for (target, name) in [("KEYSPACE", ""), ("TABLE", "t"), ("TYPE", "address")] {
        let expected = client::SchemaChange {
            change: "CREATED".into(),
            target: target.into(),
            keyspace: "k".into(),
            name: name.into(),
        };
        let result = answer(Version::V4, |out, to| response::schema_change(out, to, &[], change(target, name)));
        assert_eq!(result.response, client::Response::SchemaChange(expected.clone()));
        let event = answer(Version::V4, |out, _| response::schema_event(out, Version::V4, change(target, name)));
        assert_eq!(event.response, client::Response::Event(expected));
    }
    let mut out = Vec::new();
    response::schema_event(&mut out, Version::V5, change("TABLE", "t"));
    assert_eq!(only(&out, Decoder::client()).header.stream, -1);
}

#[test]
fn events_about_nodes() {
    let address = "127.0.0.33:9042".parse().expect("an address");
    let mut out = Vec::new();
    response::node_event(&mut out, Version::V4, EventType::StatusChange, "UP", address);
    let expected = b"\x84\0\xff\xff\x0c\0\0\0\x1c\0\rSTATUS_CHANGE\0\x02UP\x04\x7f\0\0\x21\0\0\x23\x52";
    assert_eq!(out, expected);
    for (kind, change) in [(EventType::TopologyChange, "NEW_NODE"), (EventType::StatusChange, "DOWN")] {
        let address = "[::1]:19042".parse().expect("an address");
        let event = answer(Version::V5, |out, _| response::node_event(out, Version::V5, kind, change, address));
        assert_eq!(event.response, client::Response::NodeEvent(kind, change.into(), address));
    }
}

#[test]
fn strings_beyond_their_length_are_cut_at_a_character() {
    let mut out = Vec::new();
    wire::notation::put_string(&mut out, &"a".repeat(65535));
    assert_eq!(out.len(), 2 + 65535);
    out.clear();
    wire::notation::put_string(&mut out, &format!("{}é", "a".repeat(65534)));
    assert_eq!(out.len(), 2 + 65534);
    assert_eq!(&out[..2], &65534u16.to_be_bytes());
}
