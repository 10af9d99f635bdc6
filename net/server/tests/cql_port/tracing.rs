//! Traced requests: the session's id in the answer, the content of `system_traces`, and that nothing else changes.

use super::ALL;
use super::world::{Client, error, values, with_node};
use model::value::BoundValue;
use model::{BatchEntry, BatchKind, BatchStatement, Consistency, QueryParameters};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::client::{Answer, Response, put_request};
use wire::flags;
use wire::request::{Batch, Request};
use wire::segment::put_segment;
use wire::{Opcode, Version};

/// A session as stored in the tables.
#[derive(Debug)]
struct Session {
    columns: BTreeMap<String, Option<Vec<u8>>>,
    parameters: BTreeMap<String, String>,
    events: Vec<String>,
}

impl Session {
    fn text(&self, column: &str) -> &str {
        std::str::from_utf8(self.columns[column].as_deref().expect("not null")).expect("text")
    }
}

/// Sends a traced request.
async fn traced(client: &Client, version: Version, request: &Request<'_>) -> Answer {
    let mut envelope = Vec::new();
    put_request(&mut envelope, version, 77, request);
    envelope[1] |= flags::TRACING;
    let mut bytes = Vec::new();
    if version >= Version::V5 {
        put_segment(&mut bytes, &envelope, true);
    } else {
        bytes = envelope;
    }
    client.raw(&bytes);
    let envelope = client.receive().await.expect("an answer");
    assert_eq!(envelope.header.stream, 77);
    Answer::decode(&envelope).expect("valid")
}

fn hex(id: [u8; 16]) -> String {
    let text = id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

/// Waits until a session is stored and returns it.
async fn session(client: &Client, answer: &Answer) -> Session {
    let id = hex(answer.tracing_id.expect("a traced answer"));
    for _ in 0..100 {
        let rows = client.rows(&format!("SELECT * FROM system_traces.sessions WHERE session_id = {id}")).await;
        let [row] = &rows.rows[..] else {
            runtime::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let names = rows.columns.iter().map(|column| column.name.to_string());
        let columns: BTreeMap<_, _> = names.zip(row.iter().cloned()).collect();
        assert!(columns["duration"].is_some());
        let select = format!("SELECT activity, source_elapsed FROM system_traces.events WHERE session_id = {id}");
        let text = |cell: &Option<Vec<u8>>| String::from_utf8(cell.clone().expect("not null")).expect("text");
        let events = client.rows(&select).await.rows;
        assert!(events.iter().all(|row| row[1].is_some()));
        let mut parameters = BTreeMap::new();
        if let Some(map) = &columns["parameters"] {
            let mut elements = model::value::elements(map, true);
            while let (Some(key), Some(value)) = (elements.next(), elements.next()) {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
                parameters.insert(text(key), text(value));
            }
        }
        return Session { columns, parameters, events: events.iter().map(|row| text(&row[0])).collect() };
    }
    panic!("session {id} is not written");
}

fn query(text: &str) -> Request<'_> {
    Request::Query { text, parameters: QueryParameters::new(Consistency::One) }
}

fn pairs(parameters: &BTreeMap<String, String>) -> Vec<(&str, &str)> {
    parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// Events of another core come back with its reply.
#[test]
fn statements_in_every_version() {
    for shards in [1, 3] {
        with_node(shards, move || async move {
            Client::ready(Version::V4).await.create().await;
            for version in ALL {
                let client = Client::ready(version).await;
                for key in 0..6 {
                    let insert = format!("INSERT INTO k.t (a, b) VALUES ({key}, 'x')");
                    let answer = traced(&client, version, &query(&insert)).await;
                    assert_eq!(answer.response, Response::Void);
                    let session = session(&client, &answer).await;
                    assert_eq!(session.text("request"), "Execute CQL3 query");
                    assert_eq!(session.text("command"), "QUERY");
                    for column in ["client", "coordinator", "coordinator_port", "started_at"] {
                        assert!(session.columns[column].is_some(), "{column}");
                    }
                    assert_eq!(
                        pairs(&session.parameters),
                        [("consistency_level", "ONE"), ("query", &insert), ("serial_consistency_level", "SERIAL")]
                    );
                    assert_eq!(
                        session.events,
                        [
                            &format!("Parsing {insert}"),
                            "Preparing statement",
                            "Determining replicas for mutation",
                            "Appending to commitlog",
                            "Adding to t memtable",
                        ]
                    );

                    let select = format!("SELECT * FROM k.t WHERE a = {key}");
                    let answer = traced(&client, version, &query(&select)).await;
                    assert!(matches!(&answer.response, Response::Rows(rows) if rows.rows.len() == 1));
                    assert_eq!(
                        session_events(&client, &answer).await,
                        [
                            &format!("Parsing {select}"),
                            "Preparing statement",
                            "Executing single-partition query on t",
                            "Acquiring sstable references",
                            "Merging memtable contents",
                            "Read 1 live rows and 0 tombstone cells",
                        ]
                    );
                }
                let answer = traced(&client, version, &query("SELECT * FROM k.t")).await;
                let events = session_events(&client, &answer).await;
                let count = |part: &str| events.iter().filter(|event| event.contains(part)).count();
                assert_eq!(count("Computing ranges to query"), 1);
                assert_eq!(count(&format!("Submitted {shards} concurrent range requests")), 1);
                assert_eq!(count("Executing seq scan across 0 sstables for (min(-9223372036854775808)"), shards);
                assert_eq!(count("tombstone cells"), shards);

                client.query("DELETE FROM k.t WHERE a = 2").await;
                client.query("DELETE b FROM k.t WHERE a = 3").await;
                let answer = traced(&client, version, &query("SELECT * FROM k.t WHERE a = 3")).await;
                let events = session_events(&client, &answer).await;
                assert_eq!(events.last().map(String::as_str), Some("Read 1 live rows and 1 tombstone cells"));

                // As Cassandra counts: an overwritten map nothing, an element one, both ends of a range, a row one.
                client
                    .query("CREATE TABLE IF NOT EXISTS k.m (a int, b int, m map<int, int>, PRIMARY KEY (a, b))")
                    .await;
                for (text, tombstones) in [
                    ("INSERT INTO k.m (a, b, m) VALUES (1, 1, {1: 1})", 0),
                    ("DELETE m[7] FROM k.m WHERE a = 1 AND b = 1", 1),
                    ("DELETE FROM k.m WHERE a = 1 AND b > 5", 3),
                    ("DELETE FROM k.m WHERE a = 1 AND b = 2", 4),
                ] {
                    client.query(text).await;
                    let answer = traced(&client, version, &query("SELECT * FROM k.m WHERE a = 1")).await;
                    let events = session_events(&client, &answer).await;
                    let told = format!("Read 1 live rows and {tombstones} tombstone cells");
                    assert_eq!(events.last(), Some(&told), "{text}");
                }
                client.query("TRUNCATE k.m").await;
            }
        });
    }
}

async fn session_events(client: &Client, answer: &Answer) -> Vec<String> {
    session(client, answer).await.events
}

#[test]
fn prepared_statements_and_batches() {
    with_node(2, || async {
        let client = Client::ready(Version::V5).await;
        client.create().await;
        let text = "INSERT INTO k.t (a, b) VALUES (?, ?)";
        let answer = traced(&client, Version::V5, &Request::Prepare { text, keyspace: None }).await;
        let stored = session(&client, &answer).await;
        let Response::Prepared(prepared) = answer.response else { panic!("prepared") };
        assert_eq!(stored.text("request"), "Preparing CQL3 query");
        assert_eq!(pairs(&stored.parameters), [("query", text)]);
        assert_eq!(stored.events, ["Appending to commitlog", "Adding to prepared_statements memtable"]);

        let key = 7i32.to_be_bytes();
        let id = prepared.result_metadata_id.as_deref();
        let parameters = QueryParameters {
            page_size: Some(5000),
            serial_consistency: Some(Consistency::LocalSerial),
            ..values(&[&key, b"it's"])
        };
        let execute = Request::Execute { id: &prepared.id, result_metadata_id: id, parameters };
        let answer = traced(&client, Version::V5, &execute).await;
        let stored = session(&client, &answer).await;
        assert_eq!(stored.text("request"), "Execute CQL3 prepared query");
        assert_eq!(
            pairs(&stored.parameters),
            [
                ("bound_var_0_a", "7"),
                ("bound_var_1_b", "'it''s'"),
                ("consistency_level", "ONE"),
                ("page_size", "5000"),
                ("query", text),
                ("serial_consistency_level", "LOCAL_SERIAL"),
            ]
        );
        let write = ["Determining replicas for mutation", "Appending to commitlog", "Adding to t memtable"];
        assert_eq!(stored.events, write);

        let entry = |values| BatchEntry { statement: BatchStatement::Id(&prepared.id), values };
        let batch = Request::Batch(Batch {
            kind: BatchKind::Unlogged,
            entries: vec![entry(vec![BoundValue::Bytes(&key), BoundValue::Null])],
            parameters: QueryParameters::new(Consistency::One),
        });
        let answer = traced(&client, Version::V5, &batch).await;
        let stored = session(&client, &answer).await;
        assert_eq!(stored.text("request"), "Execute batch of CQL3 queries");
        assert_eq!(pairs(&stored.parameters), [("consistency_level", "ONE"), ("serial_consistency_level", "SERIAL")]);
        assert_eq!(stored.events, write);
    });
}

#[test]
fn errors_carry_their_session_too() {
    with_node(1, || async {
        let client = Client::ready(Version::V4).await;
        client.create().await;
        for (request, code, events, understood) in [
            (query("SELEC"), 0x2000, vec!["Parsing SELEC"], true),
            (query("SELECT * FROM k.no"), 0x2200, vec!["Parsing SELECT * FROM k.no", "Preparing statement"], true),
            (
                Request::Execute { id: &[7; 16], result_metadata_id: None, parameters: values(&[]) },
                0x2500,
                vec![],
                false,
            ),
        ] {
            let answer = traced(&client, Version::V4, &request).await;
            let stored = session(&client, &answer).await;
            assert_eq!(error(answer.response).0, code);
            assert_eq!(stored.events, events);
            assert_eq!(stored.columns["request"].is_some(), understood);
        }
        // What is not understood at all has no session, nor have messages that are no statements.
        for (opcode, body) in
            [(Opcode::Query, &b"\0\0\0\x01x\0\x55\0"[..]), (Opcode::Options, b""), (Opcode::Register, b"\0\0")]
        {
            let mut bytes = Vec::new();
            wire::envelope::put_envelope(&mut bytes, 4, flags::TRACING, 9, opcode, |out| out.extend_from_slice(body));
            client.raw(&bytes);
            let envelope = client.receive().await.expect("an answer");
            assert_eq!(Answer::decode(&envelope).expect("valid").tracing_id, None);
        }
    });
}

#[test]
fn traces_expire_and_warnings_come_along() {
    with_node(1, || async {
        let client = Client::ready(Version::V5).await;
        client.create().await;
        let answer = traced(&client, Version::V5, &query("SELECT count(*) FROM k.t")).await;
        assert_eq!(answer.warnings, ["Aggregation query used without partition key"]);
        session(&client, &answer).await;
        let id = hex(answer.tracing_id.expect("traced"));
        let rows =
            client.rows(&format!("SELECT ttl(duration) FROM system_traces.sessions WHERE session_id = {id}")).await;
        let ttl = i32::from_be_bytes(rows.rows[0][0].as_deref().expect("a ttl").try_into().expect("an int"));
        assert!((86_000..=86_400).contains(&ttl), "{ttl}");
        let later = (runtime::wall_micros() / 1_000_000) as i32 + 86_400;
        for table in ["sessions", "events"] {
            let text = format!("SELECT * FROM system_traces.{table} WHERE session_id = {id}");
            let parameters = QueryParameters { now_in_seconds: Some(later), ..QueryParameters::new(Consistency::One) };
            let Response::Rows(rows) = client.ask(&Request::Query { text: &text, parameters }).await.response else {
                panic!("rows")
            };
            assert_eq!(rows.rows.len(), 0);
        }
    });
}

/// Requests of one connection, traced and not, at the same time: each has its own events.
#[test]
fn traces_of_concurrent_requests_do_not_mix() {
    with_node(3, || async {
        let client = Client::ready(Version::V4).await;
        client.create().await;
        let mut bytes = Vec::new();
        let texts = (0..60i16).map(|n| format!("INSERT INTO k.t (a, b) VALUES ({n}, 'x')")).collect::<Vec<_>>();
        for (stream, text) in texts.iter().enumerate() {
            let at = bytes.len();
            put_request(&mut bytes, Version::V4, stream as i16, &query(text));
            if stream % 2 == 0 {
                bytes[at + 1] |= flags::TRACING;
            }
        }
        client.raw(&bytes);
        let mut answers = Vec::new();
        for _ in &texts {
            let envelope = client.receive().await.expect("an answer");
            answers.push((envelope.header.stream as usize, Answer::decode(&envelope).expect("valid")));
        }
        for (stream, answer) in answers {
            assert_eq!(answer.tracing_id.is_some(), stream % 2 == 0);
            if answer.tracing_id.is_some() {
                let stored = session(&client, &answer).await;
                assert_eq!(stored.parameters["query"], texts[stream]);
                assert_eq!(stored.events.len(), 5, "{:?}", stored.events);
                assert_eq!(stored.events[0], format!("Parsing {}", texts[stream]));
            }
        }
    });
}
