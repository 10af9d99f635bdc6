//! The forms that requests and answers take: versions, compression, segments, and what only some versions carry.

use super::world::{Client, error, values, with_node};
use super::{ALL, BOTH};
use model::value::BoundValue;
use model::{BatchEntry, BatchKind, BatchStatement, Consistency, QueryParameters};
use server::cql::connection::OUTPUT_STALL_MAX;
use std::time::Duration;
use wire::client::{Answer, Response, put_request};
use wire::compression::Compression;
use wire::decoder::ENVELOPE_BYTES_MAX;
use wire::envelope::{Envelope, HEADER_BYTES, put_envelope};
use wire::request::{Batch, EventType, Request};
use wire::segment::{PAYLOAD_BYTES_MAX, put_compressed, put_segment};
use wire::{Opcode, Version, flags};

/// Every version with each compression that it can have.
const FORMS: [(Version, &str); 10] = [
    (Version::V3, ""),
    (Version::V3, "lz4"),
    (Version::V3, "snappy"),
    (Version::V4, ""),
    (Version::V4, "LZ4"),
    (Version::V4, "Snappy"),
    (Version::V5, ""),
    (Version::V5, "lz4"),
    (Version::V6, ""),
    (Version::V6, "lz4"),
];

#[test]
fn statements_events_and_errors_in_every_form() {
    with_node(2, || async {
        Client::ready(Version::V4).await.create().await;
        for (index, (version, compression)) in FORMS.into_iter().enumerate() {
            let client = Client::compressed(version, compression).await;
            assert_eq!(
                client.ask(&Request::Register(vec![EventType::SchemaChange])).await.response,
                Response::Ready,
                "{version} {compression}"
            );
            let long = "x".repeat(5000);
            assert_eq!(client.query(&format!("INSERT INTO k.t (a, b) VALUES (1, '{long}')")).await, Response::Void);
            let rows = client.rows("SELECT b FROM k.t WHERE a = 1").await.rows;
            assert_eq!(rows, [[Some(long.into_bytes())]]);
            assert!(matches!(client.ask(&Request::Options).await.response, Response::Supported(_)));
            assert_eq!(error(client.query("SELEC").await).0, 0x2000);
            let created = client.query(&format!("CREATE TABLE k.made{index} (a int PRIMARY KEY)")).await;
            let Response::SchemaChange(change) = created else { panic!("{created:?}") };
            if client.events.borrow().is_empty() {
                client.rows("SELECT b FROM k.t WHERE a = 1").await;
            }
            assert_eq!(client.events.borrow()[0].response, Response::Event(change));
        }
    });
}

#[test]
fn compression_is_agreed_or_refused() {
    with_node(1, || async {
        for version in ALL {
            let client = Client::connect(version).await;
            let startup = |name| Request::Startup(vec![("CQL_VERSION", "3.0.0"), ("COMPRESSION", name)]);
            let refused = error(client.ask(&startup("zstd")).await.response);
            assert_eq!(refused, (0x000A, "Unknown compression algorithm: zstd".into()));
            if version >= Version::V5 {
                let refused = error(client.ask(&startup("snappy")).await.response);
                assert_eq!(refused, (0x000A, "Snappy compression is not supported in protocol V5".into()));
            }
        }
    });
}

#[test]
fn requests_may_be_compressed_or_not() {
    with_node(1, || async {
        let request =
            Request::Query { text: "SELECT key FROM system.local", parameters: QueryParameters::new(Consistency::One) };
        for (name, compression) in [("lz4", Compression::Lz4), ("snappy", Compression::Snappy)] {
            let client = Client::compressed(Version::V4, name).await;
            for sealed in [false, true] {
                let mut bytes = Vec::new();
                put_request(&mut bytes, Version::V4, 7, &request);
                if sealed {
                    compression.seal(&mut bytes, 0);
                }
                client.raw(&bytes);
                let answer = receive(&client, compression).await;
                assert!(matches!(answer.response, Response::Rows(_)), "{answer:?}");
            }
        }
        // The flag means nothing where nothing was agreed, and in version 5.
        let client = Client::ready(Version::V4).await;
        let mut bytes = Vec::new();
        put_request(&mut bytes, Version::V4, 7, &request);
        bytes[1] |= flags::COMPRESSION;
        client.raw(&bytes);
        let envelope = client.receive().await.expect("an answer");
        assert!(matches!(Answer::decode(&envelope).expect("valid").response, Response::Rows(_)));
        let client = Client::compressed(Version::V5, "lz4").await;
        let mut envelope = Vec::new();
        put_request(&mut envelope, Version::V5, 7, &request);
        envelope[1] |= flags::COMPRESSION;
        for plain in [false, true] {
            let mut bytes = Vec::new();
            put_compressed(&mut bytes, &envelope, true);
            if plain {
                bytes = plain_segment(&envelope);
            }
            client.raw(&bytes);
            let envelope = client.receive().await.expect("an answer");
            assert!(matches!(Answer::decode(&envelope).expect("valid").response, Response::Rows(_)));
        }
    });
}

/// A segment of a connection with compression whose payload is plain.
fn plain_segment(payload: &[u8]) -> Vec<u8> {
    let header = wire::segment::SegmentHeader { payload_len: payload.len(), plain_len: 0, self_contained: true };
    let mut out = header.encode_compressed().to_vec();
    out.extend_from_slice(payload);
    out.extend_from_slice(&wire::segment::crc32(payload).to_le_bytes());
    out
}

async fn receive(client: &Client, compression: Compression) -> Answer {
    let mut envelope = client.receive().await.expect("an answer");
    envelope.open(Some(compression), ENVELOPE_BYTES_MAX).expect("a valid body");
    Answer::decode(&envelope).expect("valid")
}

/// O5: a body that cannot be opened is refused on its stream, and the connection goes on.
#[test]
fn o5_corrupt_compressed_bodies_are_refused() {
    with_node(1, || async {
        for (name, compression) in [("lz4", Compression::Lz4), ("snappy", Compression::Snappy)] {
            let client = Client::compressed(Version::V4, name).await;
            for body in
                [&b""[..], b"\xff\xff\xff\xff\0\x01x", b"\0\0\0\x10\0\x01garbage", b"\x7f\xff\xff\xff\x10", b"\x05"]
            {
                let mut bytes = Vec::new();
                put_envelope(&mut bytes, 4, flags::COMPRESSION, 9, Opcode::Query, |out| out.extend_from_slice(body));
                client.raw(&bytes);
                let (code, _) = error(receive(&client, compression).await.response);
                assert_eq!(code, 0x000A, "{name} {body:?}");
            }
            // The longest body is a statement, here an empty one. With one byte more nothing of it is allocated.
            for extra in [0, 1] {
                let mut bytes = Vec::new();
                put_envelope(&mut bytes, 4, 0, 9, Opcode::Query, |out| {
                    let len = ENVELOPE_BYTES_MAX - HEADER_BYTES + extra;
                    out.extend_from_slice(&(len as i32 - 7).to_be_bytes());
                    out.resize(HEADER_BYTES + len - 3, b' ');
                    out.extend_from_slice(&[0, 1, 0]);
                });
                compression.seal(&mut bytes, 0);
                client.raw(&bytes);
                let (code, text) = error(receive(&client, compression).await.response);
                let too_big = "Request is too big: length 16777217 exceeds maximum allowed length 16777216.";
                let refused = if extra == 1 { 0x2200 } else { 0x2000 };
                assert_eq!((code, text == too_big), (refused, extra == 1), "{text}");
            }
            assert_eq!(client.rows("SELECT key FROM system.local").await.rows.len(), 1);
        }
        let client = Client::compressed(Version::V5, "lz4").await;
        let mut bytes = Vec::new();
        put_compressed(&mut bytes, &[7; 4000], true);
        let header =
            wire::segment::SegmentHeader { payload_len: bytes.len() - 12, plain_len: 3999, self_contained: true };
        bytes[..8].copy_from_slice(&header.encode_compressed());
        client.raw(&bytes);
        let envelope = client.receive().await.expect("an answer");
        assert_eq!(error(Answer::decode(&envelope).expect("valid").response).0, 0x000A);
        assert!(client.receive().await.is_none(), "and closed");
    });
}

/// Messages of about the size of a segment and far above it, in both directions.
#[test]
fn large_messages_are_cut_over_segments() {
    with_node(1, || async {
        Client::ready(Version::V5).await.create().await;
        let mut random = runtime::rng::Rng::new(5);
        for compression in ["", "lz4"] {
            let client = Client::compressed(Version::V5, compression).await;
            let text = "INSERT INTO k.t (a, b) VALUES (1, ?)";
            let overhead = {
                let mut out = Vec::new();
                put_request(&mut out, Version::V5, 1, &Request::Query { text, parameters: values(&[b""]) });
                out.len()
            };
            let edge = PAYLOAD_BYTES_MAX - overhead;
            for len in [edge - 1, edge, edge + 1, 2 * PAYLOAD_BYTES_MAX - overhead, 400_000] {
                for compressible in [true, false] {
                    let byte = |_| if compressible { b'x' } else { b'!' + random.below(90) as u8 };
                    let value = (0..len).map(byte).collect::<Vec<u8>>();
                    let answer = client.ask(&Request::Query { text, parameters: values(&[&value]) }).await;
                    assert_eq!(answer.response, Response::Void);
                    let rows = client.rows("SELECT b FROM k.t WHERE a = 1").await.rows;
                    assert!(rows[0][0].as_deref() == Some(&value[..]), "{compression} {len} {compressible}");
                }
            }
        }
    });
}

#[test]
fn answers_of_one_turn_share_compressed_segments() {
    with_node(1, || async {
        let client = Client::compressed(Version::V5, "lz4").await;
        let request =
            Request::Query { text: "SELECT key FROM system.local", parameters: QueryParameters::new(Consistency::One) };
        for stream in 0..200 {
            client.send(stream, &request);
        }
        let mut seen = Vec::new();
        for _ in 0..200 {
            let envelope: Envelope = client.receive().await.expect("an answer");
            assert!(matches!(Answer::decode(&envelope).expect("valid").response, Response::Rows(_)));
            seen.push(envelope.header.stream);
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..200));
    });
}

#[test]
fn values_by_name_wherever_they_are_legal() {
    with_node(1, || async {
        for version in ALL {
            let client = Client::ready(version).await;
            if version == Version::V3 {
                client.create().await;
            }
            let named = |names: Vec<&'static str>, all: &[&'static [u8]]| QueryParameters {
                names: Some(names),
                values: all.iter().map(|value| BoundValue::Bytes(value)).collect(),
                ..QueryParameters::new(Consistency::One)
            };
            const KEY: &[u8] = &[0, 0, 0, 5];
            let text = "INSERT INTO k.t (a, b) VALUES (:a, :b)";
            let count = (0x2200, "Invalid amount of bind variables".to_string());
            for (names, all, refused) in [
                (vec!["b", "a"], vec![b"x", KEY], false),
                (vec!["b", "a", "c"], vec![b"x", KEY, b"c"], false),
                (vec!["b", "b", "a"], vec![b"x", b"y", KEY], false),
                (vec!["b"], vec![b"x"], true),
                (vec!["b", "c"], vec![b"x", KEY], true),
                (vec!["B", "a"], vec![b"x", KEY], true),
            ] {
                let parameters = named(names, &all);
                let answer = client.ask(&Request::Query { text, parameters }).await.response;
                if refused {
                    assert_eq!(error(answer), count);
                } else {
                    assert_eq!(answer, Response::Void);
                }
            }
            assert_eq!(client.rows("SELECT b FROM k.t WHERE a = 5").await.rows, [[Some(b"x".to_vec())]]);
            // Markers without a name have their column's.
            let parameters = named(vec!["b", "a"], &[b"z", KEY]);
            let request = Request::Query { text: "INSERT INTO k.t (a, b) VALUES (?, ?)", parameters };
            assert_eq!(client.ask(&request).await.response, Response::Void);
            let request = Request::Prepare { text: "SELECT b FROM k.t WHERE a = :key", keyspace: None };
            let Response::Prepared(select) = client.ask(&request).await.response else { panic!("prepared") };
            let id = select.result_metadata_id.as_deref();
            let execute = |parameters| Request::Execute { id: &select.id, result_metadata_id: id, parameters };
            let answer = client.ask(&execute(named(vec!["z", "key"], &[b"", KEY]))).await.response;
            let Response::Rows(rows) = answer else { panic!("{answer:?}") };
            assert_eq!(rows.rows, [[Some(b"z".to_vec())]]);
            let refused = error(client.ask(&execute(named(vec!["z"], &[&[]]))).await.response);
            assert_eq!(refused, (0x2200, "there were 1 markers(?) in CQL but 0 bound variables".into()));
        }
    });
}

#[test]
fn a_request_names_its_keyspace() {
    with_node(2, || async {
        Client::ready(Version::V4).await.create().await;
        for version in BOTH {
            let client = Client::ready(version).await;
            let query = |text, keyspace| Request::Query {
                text,
                parameters: QueryParameters { keyspace: Some(keyspace), ..QueryParameters::new(Consistency::One) },
            };
            let insert = query("INSERT INTO t (a, b) VALUES (1, 'x')", "k");
            assert_eq!(client.ask(&insert).await.response, Response::Void);
            assert_eq!(client.query("USE system").await, Response::SetKeyspace("system".into()));
            let answer = client.ask(&query("SELECT b FROM t", "k")).await.response;
            assert!(matches!(answer, Response::Rows(_)), "it beats USE: {answer:?}");
            for (text, name) in [("SELECT * FROM k.t", "nope"), ("SELEC", "nope"), ("SELECT * FROM k.t", "K")] {
                let refused = error(client.ask(&query(text, name)).await.response);
                assert_eq!(refused, (0x2200, format!("Keyspace '{name}' does not exist")));
            }
            let batch = |keyspace| {
                let statement = BatchStatement::Text("INSERT INTO t (a, b) VALUES (2, 'y')");
                Request::Batch(Batch {
                    kind: BatchKind::Unlogged,
                    entries: vec![BatchEntry { statement, values: vec![] }],
                    parameters: QueryParameters { keyspace, ..QueryParameters::new(Consistency::One) },
                })
            };
            assert_eq!(client.ask(&batch(Some("k"))).await.response, Response::Void);
            assert_eq!(error(client.ask(&batch(Some("nope"))).await.response).1, "Keyspace 'nope' does not exist");
            assert_eq!(error(client.ask(&batch(None)).await.response).1, "table t does not exist");
        }
        let client = Client::ready(Version::V5).await;
        let prepare = |text, keyspace| Request::Prepare { text, keyspace: Some(keyspace) };
        let answer = client.ask(&prepare("SELECT b FROM t", "k")).await;
        let Response::Prepared(prepared) = answer.response else { panic!("{answer:?}") };
        assert!(answer.warnings[0].contains("Keyspace used: k, statement keyspace: k, statement id: "));
        assert_eq!(&*prepared.result[0].keyspace, "k");
        let answer = client.ask(&prepare("SELECT b FROM k.t", "system")).await;
        assert!(answer.warnings.is_empty());
        let refused = error(client.ask(&prepare("SELECT b FROM t", "nope")).await.response);
        assert_eq!(refused, (0x2200, "Keyspace 'nope' does not exist".into()));
        // The keyspace of an EXECUTE is not looked at.
        let parameters = QueryParameters { keyspace: Some("nope"), ..QueryParameters::new(Consistency::One) };
        let id = prepared.result_metadata_id.as_deref();
        let execute = Request::Execute { id: &prepared.id, result_metadata_id: id, parameters };
        assert!(matches!(client.ask(&execute).await.response, Response::Rows(_)));
    });
}

#[test]
fn a_deletion_takes_the_requests_second() {
    with_node(1, || async {
        let client = Client::ready(Version::V5).await;
        client.create().await;
        let at = |text, now| Request::Query {
            text,
            parameters: QueryParameters { now_in_seconds: Some(now), ..QueryParameters::new(Consistency::One) },
        };
        for now in [0, 1, i32::MAX] {
            assert_eq!(client.ask(&at("INSERT INTO k.t (a, b) VALUES (1, 'x')", now)).await.response, Response::Void);
            let answer = client.ask(&at("SELECT b FROM k.t WHERE a = 1", now)).await.response;
            let Response::Rows(rows) = answer else { panic!("{answer:?}") };
            assert_eq!(rows.rows.len(), 1);
            assert_eq!(client.ask(&at("DELETE FROM k.t WHERE a = 1", now)).await.response, Response::Void);
            assert_eq!(client.rows("SELECT b FROM k.t").await.rows.len(), 0);
        }
    });
}

#[test]
fn custom_payloads_are_ignored_from_version_4_on() {
    with_node(1, || async {
        for version in ALL {
            let client = Client::ready(version).await;
            let request = Request::Query {
                text: "SELECT key FROM system.local",
                parameters: QueryParameters::new(Consistency::One),
            };
            let mut body = Vec::new();
            put_request(&mut body, version, 3, &request);
            let body = body.split_off(HEADER_BYTES);
            let mut envelope = Vec::new();
            put_envelope(
                &mut envelope,
                version.number(),
                flags::CUSTOM_PAYLOAD | version.beta_flag(),
                3,
                Opcode::Query,
                |out| {
                    if version >= Version::V4 {
                        out.extend_from_slice(b"\0\x02\0\x01x\0\0\0\x01v\0\x01y\xff\xff\xff\xff");
                    }
                    out.extend_from_slice(&body);
                },
            );
            let mut bytes = envelope.clone();
            if version >= Version::V5 {
                bytes.clear();
                put_segment(&mut bytes, &envelope, true);
            }
            client.raw(&bytes);
            let envelope = client.receive().await.expect("an answer");
            assert_eq!(envelope.header.flags, version.beta_flag(), "and none comes back");
            let response = Answer::decode(&envelope).expect("valid").response;
            if version == Version::V3 {
                let text = "Received frame with CUSTOM_PAYLOAD flag for native protocol version < 4";
                assert_eq!(error(response), (0x000A, text.into()));
            } else {
                assert!(matches!(response, Response::Rows(_)));
            }
        }
    });
}

/// Every envelope of version 6 has the flag USE_BETA, those of the client as well as those of the node.
#[test]
fn version_6_is_for_clients_that_accept_beta_versions() {
    with_node(1, || async {
        let client = Client::connect(Version::V6).await;
        let asked = |header_flags| {
            let mut bytes = Vec::new();
            put_envelope(&mut bytes, 6, header_flags, 3, Opcode::Options, |_| {});
            client.raw(&bytes);
            client.receive()
        };
        let envelope = asked(0).await.expect("an answer");
        assert_eq!((envelope.header.version, envelope.header.flags), (Version::V6, flags::USE_BETA));
        let text = "Beta version of the protocol used (6/v6-beta), but USE_BETA flag is unset";
        assert_eq!(error(Answer::decode(&envelope).expect("valid").response), (0x000A, text.into()));
        let envelope = asked(flags::USE_BETA).await.expect("an answer");
        assert_eq!((envelope.header.version, envelope.header.flags), (Version::V6, flags::USE_BETA));
        assert!(matches!(Answer::decode(&envelope).expect("valid").response, Response::Supported(_)));
        // The connection lives, and says which version it speaks.
        client.startup().await;
        let mut bytes = Vec::new();
        let mut older = Vec::new();
        put_envelope(&mut older, 5, 0, 4, Opcode::Options, |_| {});
        put_segment(&mut bytes, &older, true);
        client.raw(&bytes);
        let answer = Answer::decode(&client.receive().await.expect("an answer")).expect("valid").response;
        let text = "Invalid message version. Got 5/v5 but previousmessages on this connection had version 6/v6-beta";
        assert_eq!(error(answer), (0x000A, text.into()));
    });
}

/// In every version the event of a schema change says the same as the result and comes before it.
#[test]
fn changes_of_the_schema_are_told_in_every_version() {
    with_node(2, || async {
        let keyspace = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        let changes = [
            (keyspace, "CREATED KEYSPACE k "),
            ("ALTER KEYSPACE k WITH durable_writes = false", "UPDATED KEYSPACE k "),
            ("CREATE TYPE k.address (street text)", "CREATED TYPE k address"),
            ("ALTER TYPE k.address ADD zip int", "UPDATED TYPE k address"),
            ("CREATE TABLE k.t (a int PRIMARY KEY)", "CREATED TABLE k t"),
            ("ALTER TABLE k.t ADD b int", "UPDATED TABLE k t"),
            ("DROP TABLE k.t", "DROPPED TABLE k t"),
            ("DROP TYPE k.address", "DROPPED TYPE k address"),
            ("DROP KEYSPACE k", "DROPPED KEYSPACE k "),
        ];
        for version in ALL {
            let listener = Client::ready(version).await;
            let types = vec![EventType::SchemaChange, EventType::StatusChange, EventType::TopologyChange];
            assert_eq!(listener.ask(&Request::Register(types)).await.response, Response::Ready);
            let client = Client::ready(version).await;
            for (text, expected) in changes {
                let Response::SchemaChange(result) = client.query(text).await else { panic!("{text}") };
                assert_eq!(
                    format!("{} {} {} {}", result.change, result.target, result.keyspace, result.name),
                    expected
                );
                let envelope = listener.receive().await.expect("an event");
                assert_eq!((envelope.header.stream, envelope.header.version), (-1, version));
                let Response::Event(event) = Answer::decode(&envelope).expect("valid").response else {
                    panic!("event")
                };
                assert_eq!(event, result);
            }
            // What changes nothing is told to nobody.
            for text in ["CREATE KEYSPACE IF NOT EXISTS system WITH replication = {'class': 'LocalStrategy'}"] {
                client.query(text).await;
            }
            assert!(listener.events.borrow().is_empty());
        }
    });
}

/// A client that registers and does not read is closed once its queue is full; the others still get events.
#[test]
fn o11_a_client_that_does_not_read_its_events_is_closed() {
    with_node(1, || async {
        let client = Client::ready(Version::V4).await;
        client.create().await;
        let big = "y".repeat(200_000);
        client.query(&format!("INSERT INTO k.t (a, b) VALUES (1, '{big}')")).await;
        let slow = Client::ready(Version::V4).await;
        assert_eq!(slow.ask(&Request::Register(vec![EventType::SchemaChange])).await.response, Response::Ready);
        slow.stream.pause();
        let select = Request::Query {
            text: "SELECT b FROM k.t WHERE a = 1",
            parameters: QueryParameters::new(Consistency::One),
        };
        for stream in 0..60 {
            slow.send(stream, &select);
        }
        runtime::sleep(Duration::from_millis(500)).await;
        for n in 0..40 {
            client.query(&format!("ALTER TABLE k.t ADD c{n} int")).await;
        }
        runtime::sleep(OUTPUT_STALL_MAX * 3).await;
        slow.stream.resume();
        let mut answers = 0;
        while slow.receive().await.is_some() {
            answers += 1;
        }
        assert!(answers < 100, "{answers} answers and events, then closed");
        assert!(matches!(client.query("ALTER TABLE k.t ADD d int").await, Response::SchemaChange(_)));
    });
}

/// A text that is sent often is planned once per schema, and again after every change of it.
#[test]
fn a_text_sent_again_sees_the_schema_of_its_moment() {
    with_node(2, || async {
        let client = Client::ready(Version::V4).await;
        client.create().await;
        let columns =
            |rows: wire::client::Rows| rows.columns.iter().map(|c| c.name.to_string()).collect::<Vec<_>>().join(" ");
        for _ in 0..4 {
            assert_eq!(columns(client.rows("SELECT * FROM k.t").await), "a b");
        }
        client.query("ALTER TABLE k.t ADD c int").await;
        for _ in 0..4 {
            assert_eq!(columns(client.rows("SELECT * FROM k.t").await), "a b c");
        }
        client.query("DROP TABLE k.t").await;
        assert_eq!(error(client.query("SELECT * FROM k.t").await).1, "table t does not exist");
        client.query("CREATE TABLE k.t (z int PRIMARY KEY)").await;
        assert_eq!(columns(client.rows("SELECT * FROM k.t").await), "z");
        // The same text in another keyspace is another statement.
        client.query("CREATE KEYSPACE l WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").await;
        client.query("CREATE TABLE l.t (y int PRIMARY KEY)").await;
        for (keyspace, column) in [("k", "z"), ("l", "y"), ("k", "z"), ("k", "z"), ("l", "y"), ("l", "y")] {
            client.query(&format!("USE {keyspace}")).await;
            for _ in 0..3 {
                assert_eq!(columns(client.rows("SELECT * FROM t").await), column);
            }
        }
        let prepare = Request::Prepare { text: "INSERT INTO l.t (y) VALUES (?)", keyspace: None };
        assert!(matches!(client.ask(&prepare).await.response, Response::Prepared(_)));
    });
}
