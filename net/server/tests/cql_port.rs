//! The CQL port end to end in the simulator: handshake, requests, limits, hostile clients, stopping. O1 and the like
//! are the fault classes of `docs/faults.md`.

#[path = "cql_port/world.rs"]
mod world;

use model::value::BoundValue;
use model::{BatchEntry, BatchKind, BatchStatement, Consistency, CqlType, QueryParameters};
use runtime::sim::{Sim, Stop};
use server::cql::DRAIN_MAX;
use server::cql::connection::{OUTPUT_STALL_MAX, REQUESTS_IN_FLIGHT_MAX};
use server::cql::receiver::HANDSHAKE_MAX;
use server::{Config, Exit};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use wire::client::{Answer, Response};
use wire::envelope::put_envelope;
use wire::request::{Batch, EventType, Request};
use wire::{Opcode, Version};
use world::{
    Client, SERVER, SHARD_AWARE_PORT, address, config, error, options, run_client, source, start, values, with_config,
    with_node,
};

#[path = "cql_port/directories.rs"]
mod directories;
#[path = "cql_port/forms.rs"]
mod forms;
#[path = "cql_port/limits.rs"]
mod limits;
#[path = "cql_port/sampling.rs"]
mod sampling;
#[path = "cql_port/throughput.rs"]
mod throughput;
#[path = "cql_port/tracing.rs"]
mod tracing;

const BOTH: [Version; 2] = [Version::V4, Version::V5];
const ALL: [Version; 4] = [Version::V3, Version::V4, Version::V5, Version::V6];

#[test]
fn options_and_startup() {
    with_node(2, || async {
        for version in ALL {
            let client = Client::connect(version).await;
            let Response::Supported(options) = client.ask(&Request::Options).await.response else {
                panic!("SUPPORTED")
            };
            let option = |name: &str| {
                let (_, values) = options.iter().find(|(key, _)| key == name).expect(name);
                values.clone()
            };
            assert_eq!(option("PROTOCOL_VERSIONS"), ["3/v3", "4/v4", "5/v5", "6/v6-beta"]);
            assert_eq!(option("COMPRESSION"), ["snappy", "lz4"]);
            assert_eq!(option("CQL_VERSION"), ["3.4.7"]);
            assert_eq!(option("SCYLLA_NR_SHARDS"), ["2"]);
            assert_eq!(option("SCYLLA_SHARDING_IGNORE_MSB"), ["12"]);
            assert_eq!(option("SCYLLA_SHARDING_ALGORITHM"), ["biased-token-round-robin"]);
            assert_eq!(option("SCYLLA_PARTITIONER"), ["org.apache.cassandra.dht.Murmur3Partitioner"]);
            assert_eq!(option("SCYLLA_SHARD_AWARE_PORT"), ["19042"]);
            assert_eq!(option("SCYLLA_RATE_LIMIT_ERROR"), ["ERROR_CODE=61440"]);
            assert_eq!(option("TABLETS_ROUTING_V1"), [""]);
        }
        for version in ALL {
            let client = Client::ready(version).await;
            let again = client.ask(&Request::Startup(vec![("CQL_VERSION", "3.0.0")])).await.response;
            assert_eq!(error(again).1, "Unexpected message STARTUP, the connection is already initialized");
            assert_eq!(client.ask(&Request::AuthResponse(None)).await.response, Response::AuthSuccess);
            assert_eq!(client.ask(&Request::Register(vec![EventType::StatusChange])).await.response, Response::Ready);
        }
        let client = Client::connect(Version::V4).await;
        let refused = client.ask(&Request::Startup(vec![("CQL_VERSION", "2.0.0")])).await.response;
        assert!(error(refused).1.starts_with("CQL version 2.0.0 is not supported"));
        client.startup().await;
    });
}

#[test]
fn drivers_fall_back_from_unknown_versions() {
    with_node(1, || async {
        let client = Client::connect(Version::V5).await;
        for number in [0x42, 0x41, 7] {
            let mut bytes = Vec::new();
            put_envelope(&mut bytes, number, 0, 11, Opcode::Options, |_| {});
            client.raw(&bytes);
            let envelope = client.receive().await.expect("an answer");
            assert_eq!((envelope.header.version, envelope.header.stream), (Version::V5, 11));
            let (code, text) = error(Answer::decode(&envelope).expect("valid").response);
            assert_eq!(code, 0x000A);
            assert!(text.starts_with(&format!("Invalid or unsupported protocol version ({number})")));
        }
        client.startup().await;
    });
}

#[test]
fn nothing_but_startup_is_answered_first() {
    with_node(1, || async {
        let client = Client::connect(Version::V4).await;
        let answer = client.query("SELECT key FROM system.local").await;
        assert_eq!(error(answer), (0x000A, "Unexpected message QUERY, expecting STARTUP or OPTIONS".into()));
        assert!(client.receive().await.is_none(), "and the connection is closed");
    });
}

/// O2, O4: a connection that says nothing, or one byte, is closed in time.
#[test]
fn o4_a_silent_connection_is_closed() {
    with_node(1, || async {
        for bytes in [&b""[..], b"\x04", b"\x01", b"\x04\0\0\0\x01\0\0\0\x16\0\x01"] {
            let client = Client::connect(Version::V4).await;
            client.raw(bytes);
            let began = runtime::now();
            assert!(client.receive().await.is_none());
            let lasted = runtime::now().since(began);
            assert!(lasted >= HANDSHAKE_MAX - Duration::from_millis(50), "{lasted:?}");
            assert!(lasted < HANDSHAKE_MAX + Duration::from_secs(1), "{lasted:?}");
        }
    });
}

#[test]
fn a_declared_body_beyond_the_limit_closes_before_startup() {
    with_node(1, || async {
        let client = Client::connect(Version::V4).await;
        client.raw(b"\x04\0\0\x07\x01\x7f\xff\xff\xff");
        let envelope = client.receive().await.expect("an answer");
        assert_eq!(envelope.header.stream, 7);
        assert_eq!(error(Answer::decode(&envelope).expect("valid").response).0, 0x2200);
        assert!(client.receive().await.is_none());
    });
}

#[test]
fn statements_in_all_versions() {
    with_node(2, || async {
        let client = Client::ready(Version::V4).await;
        client.create().await;
        for version in ALL {
            let client = Client::ready(version).await;
            assert_eq!(client.query("INSERT INTO k.t (a, b) VALUES (1, 'x')").await, Response::Void);
            let rows = client.rows("SELECT a, b FROM k.t WHERE a = 1").await;
            assert_eq!(rows.rows, [[Some(vec![0, 0, 0, 1]), Some(b"x".to_vec())]]);
            assert_eq!(rows.columns[1].cql_type, CqlType::Text);
            assert_eq!(client.query("USE k").await, Response::SetKeyspace("k".into()));
            assert_eq!(client.rows("SELECT b FROM t WHERE a = 1").await.rows, [[Some(b"x".to_vec())]]);
            assert_eq!(error(client.query("SELEC").await).0, 0x2000);
            assert_eq!(error(client.query("SELECT * FROM k.nope").await), (0x2200, "table nope does not exist".into()));
        }
    });
}

#[test]
fn prepared_statements_and_result_metadata() {
    with_node(2, || async {
        let client = Client::ready(Version::V4).await;
        client.create().await;
        for version in ALL {
            let client = Client::ready(version).await;
            let insert = client.ask(&Request::Prepare { text: "INSERT INTO k.t (a, b) VALUES (?, ?)", keyspace: None });
            let Response::Prepared(insert) = insert.await.response else { panic!("prepared") };
            let known = if version == Version::V3 { vec![] } else { vec![0] };
            assert_eq!(insert.partition_key_markers, known);
            assert_eq!(insert.markers.iter().map(|marker| &*marker.name).collect::<Vec<_>>(), ["a", "b"]);
            assert!(insert.result.is_empty());
            for key in 0..20i32 {
                let key = key.to_be_bytes();
                let parameters = values(&[&key, b"value"]);
                let id = insert.result_metadata_id.as_deref();
                let answer = client.ask(&Request::Execute { id: &insert.id, result_metadata_id: id, parameters }).await;
                assert_eq!(answer.response, Response::Void);
            }
            let select = client.ask(&Request::Prepare { text: "SELECT a, b FROM k.t WHERE a = ?", keyspace: None });
            let Response::Prepared(select) = select.await.response else { panic!("prepared") };
            assert_eq!(select.result.len(), 2);
            let known = select.result_metadata_id.as_deref();
            let has_ids = matches!(version, Version::V5 | Version::V6);
            for (id, skip, columns, new_id) in [
                (known, true, 0, false),
                (known, false, 2, false),
                (Some(b"0123456789abcdef".as_slice()), true, if has_ids { 2 } else { 0 }, true),
            ] {
                let key = 3i32.to_be_bytes();
                let parameters = QueryParameters { skip_metadata: skip, ..values(&[&key]) };
                let answer = client.ask(&Request::Execute { id: &select.id, result_metadata_id: id, parameters }).await;
                let Response::Rows(rows) = answer.response else { panic!("rows") };
                assert_eq!((rows.columns.len(), rows.rows.len()), (columns, 1));
                assert_eq!(rows.new_metadata_id.is_some(), new_id && has_ids);
            }
            let three = 3i32.to_be_bytes();
            let named = Request::Query {
                text: "SELECT b FROM k.t WHERE a = :key",
                parameters: QueryParameters { names: Some(vec!["key"]), ..values(&[&three]) },
            };
            assert!(matches!(client.ask(&named).await.response, Response::Rows(_)));
            let unknown =
                Request::Execute { id: b"0123456789abcdef", result_metadata_id: Some(b""), parameters: values(&[]) };
            let Response::Error { code, detail, .. } = client.ask(&unknown).await.response else { panic!("error") };
            assert_eq!((code, &detail[2..]), (0x2500, &b"0123456789abcdef"[..]));
        }
    });
}

#[test]
fn batches() {
    with_node(2, || async {
        for version in ALL {
            let client = Client::ready(version).await;
            if version == Version::V3 {
                client.create().await;
            }
            let text = "INSERT INTO k.t (a, b) VALUES (?, ?)";
            let Response::Prepared(insert) = client.ask(&Request::Prepare { text, keyspace: None }).await.response
            else {
                panic!("prepared")
            };
            let (one, two) = (1i32.to_be_bytes(), 2i32.to_be_bytes());
            let entry = |statement, key| BatchEntry {
                statement,
                values: vec![BoundValue::Bytes(key), BoundValue::Bytes(b"b")],
            };
            let batch = Request::Batch(Batch {
                kind: BatchKind::Unlogged,
                entries: vec![
                    entry(BatchStatement::Id(&insert.id), &one[..]),
                    entry(BatchStatement::Text(text), &two[..]),
                ],
                parameters: QueryParameters::new(Consistency::One),
            });
            assert_eq!(client.ask(&batch).await.response, Response::Void);
            assert_eq!(client.rows("SELECT a FROM k.t").await.rows.len(), 2);
        }
    });
}

#[test]
fn pages() {
    with_node(2, || async {
        let client = Client::ready(Version::V5).await;
        client.create().await;
        for key in 0..25 {
            client.query(&format!("INSERT INTO k.t (a, b) VALUES ({key}, 'x')")).await;
        }
        let (mut seen, mut state, mut pages) = (Vec::new(), None::<Vec<u8>>, 0);
        loop {
            let request = Request::Query {
                text: "SELECT a FROM k.t",
                parameters: QueryParameters {
                    page_size: Some(10),
                    paging_state: state.as_deref(),
                    ..QueryParameters::new(Consistency::One)
                },
            };
            let Response::Rows(rows) = client.ask(&request).await.response else { panic!("rows") };
            pages += 1;
            seen.extend(rows.rows.into_iter().flatten());
            state = rows.paging_state;
            if state.is_none() {
                break;
            }
        }
        seen.sort();
        seen.dedup();
        assert_eq!((seen.len(), pages), (25, 3));
        let request = Request::Query {
            text: "SELECT a FROM k.t",
            parameters: QueryParameters {
                page_size: Some(10),
                paging_state: Some(b"nonsense"),
                ..QueryParameters::new(Consistency::One)
            },
        };
        let refused = error(client.ask(&request).await.response);
        assert_eq!(refused, (0x000A, "Invalid value for the paging state".into()));
    });
}

#[test]
fn registered_connections_hear_of_schema_changes() {
    with_node(3, || async {
        let mut listeners = Vec::new();
        for index in 0..6 {
            let client = Client::ready(BOTH[index % 2]).await;
            let types = vec![EventType::SchemaChange, EventType::StatusChange];
            if index < 5 {
                assert_eq!(client.ask(&Request::Register(types)).await.response, Response::Ready);
            }
            listeners.push(client);
        }
        Client::ready(Version::V4).await.create().await;
        for (index, client) in listeners.iter().enumerate() {
            if index < 5 {
                for target in ["KEYSPACE", "TABLE"] {
                    let envelope = client.receive().await.expect("an event");
                    let Response::Event(change) = Answer::decode(&envelope).expect("valid").response else {
                        panic!("event")
                    };
                    assert_eq!((change.target.as_str(), change.keyspace.as_str()), (target, "k"));
                }
            }
            assert_eq!(client.rows("SELECT * FROM k.t").await.rows.len(), 0, "the schema is served everywhere");
            assert!(client.events.borrow().is_empty());
        }
    });
}

#[test]
fn the_source_port_names_the_shard() {
    with_node(3, || async {
        for port in 41_000..41_006 {
            let to = address(SHARD_AWARE_PORT);
            let client = Client::connect_to(to, Some(source(port)), Version::V4).await;
            let Response::Supported(options) = client.ask(&Request::Options).await.response else {
                panic!("SUPPORTED")
            };
            assert!(options.contains(&("SCYLLA_SHARD".into(), vec![(port % 3).to_string()])));
        }
        let mut shards = Vec::new();
        let mut clients = Vec::new();
        for _ in 0..6 {
            let client = Client::connect(Version::V4).await;
            let Response::Supported(options) = client.ask(&Request::Options).await.response else {
                panic!("SUPPORTED")
            };
            let shard = options.into_iter().find(|(name, _)| name == "SCYLLA_SHARD").expect("the shard").1;
            shards.push(shard[0].clone());
            clients.push(client);
        }
        shards.sort();
        assert_eq!(shards, ["0", "0", "1", "1", "2", "2"], "the plain port goes to the least loaded");
    });
}

/// O5: a bad request is answered on its own stream, and the others go on.
#[test]
fn o5_bad_requests_do_not_disturb_others() {
    with_node(1, || async {
        let client = Client::ready(Version::V4).await;
        let select =
            Request::Query { text: "SELECT key FROM system.local", parameters: QueryParameters::new(Consistency::One) };
        for (stream, (opcode, body)) in [
            (Opcode::Query, &b"\xff\xff\xff\xff"[..]),
            (Opcode::Execute, b"\0"),
            (Opcode::Batch, b"\x09"),
            (Opcode::Register, b"\0\x01\0\x03FOO"),
            (Opcode::Credentials, b""),
            (Opcode::Query, b"\0\0\0\x01x\0\x55\0"),
        ]
        .into_iter()
        .enumerate()
        {
            let stream = stream as i16 + 100;
            client.send(50, &select);
            let mut bytes = Vec::new();
            put_envelope(&mut bytes, 4, 0, stream, opcode, |out| out.extend_from_slice(body));
            client.raw(&bytes);
            client.send(51, &select);
            let mut seen = Vec::new();
            for _ in 0..3 {
                let envelope = client.receive().await.expect("an answer");
                let failed = matches!(Answer::decode(&envelope).expect("valid").response, Response::Error { .. });
                seen.push((envelope.header.stream, failed));
            }
            seen.sort();
            assert_eq!(seen, [(50, false), (51, false), (stream, true)]);
        }
    });
}

/// O5: any bytes lead to an error or a closed connection, and the node goes on.
#[test]
fn o5_random_bytes_do_not_stop_the_node() {
    with_node(2, || async {
        let mut rng = runtime::rng::Rng::new(99);
        for round in 0..150 {
            let version = BOTH[round % 2];
            let client = match round % 3 {
                0 => Client::connect(version).await,
                _ => Client::ready(version).await,
            };
            let mut bytes = Vec::new();
            let sample = Request::Query { text: "SELECT key FROM system.local", parameters: values(&[b"x"]) };
            wire::client::put_request(&mut bytes, version, 1, &sample);
            if version == Version::V5 && round % 3 != 0 {
                let envelope = std::mem::take(&mut bytes);
                wire::segment::put_segment(&mut bytes, &envelope, true);
            }
            for _ in 0..1 + rng.below(3) {
                let at = rng.below(bytes.len() as u64) as usize;
                match rng.below(3) {
                    0 => bytes[at] = rng.below(256) as u8,
                    1 => bytes.truncate(at + 1),
                    _ => bytes.insert(at, rng.below(256) as u8),
                }
            }
            client.raw(&bytes);
            client.stream.drained_to(0).await.expect("sent");
            runtime::sleep(Duration::from_millis(20)).await;
        }
        let client = Client::ready(Version::V4).await;
        assert_eq!(client.rows("SELECT key FROM system.local").await.rows.len(), 1);
    });
}

/// O11: a client that does not read its answers is closed; others are served meanwhile.
#[test]
fn o11_a_client_that_does_not_read_is_closed() {
    with_node(1, || async {
        let client = Client::ready(Version::V4).await;
        client.create().await;
        let big = "y".repeat(200_000);
        client.query(&format!("INSERT INTO k.t (a, b) VALUES (1, '{big}')")).await;
        let slow = Client::ready(Version::V4).await;
        slow.stream.pause();
        let select = Request::Query {
            text: "SELECT b FROM k.t WHERE a = 1",
            parameters: QueryParameters::new(Consistency::One),
        };
        for stream in 0..400 {
            slow.send(stream, &select);
        }
        runtime::sleep(Duration::from_secs(1)).await;
        assert_eq!(client.rows("SELECT a FROM k.t WHERE a = 1").await.rows.len(), 1, "others are served");
        runtime::sleep(OUTPUT_STALL_MAX * 3).await;
        slow.stream.resume();
        let mut answers = 0;
        while slow.receive().await.is_some() {
            answers += 1;
        }
        assert!(answers < 400, "{answers} answers, then closed");
        assert_eq!(client.rows("SELECT a FROM k.t WHERE a = 1").await.rows.len(), 1);
    });
}

#[test]
fn connections_are_limited_per_address() {
    let config = Config { connections_per_ip_max: 3, ..config() };
    with_config(2, config, || async {
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(Client::ready(Version::V4).await);
        }
        let late = Client::connect(Version::V4).await;
        late.send(1, &Request::Options);
        assert!(late.receive().await.is_none(), "one too many is closed");
        clients.pop();
        runtime::sleep(Duration::from_secs(1)).await;
        clients.push(Client::ready(Version::V4).await);
    });
}

#[test]
fn many_requests_at_once_are_all_answered() {
    with_node(2, || async {
        for version in BOTH {
            let client = Client::ready(version).await;
            if version == Version::V4 {
                client.create().await;
            }
            let text = "INSERT INTO k.t (a, b) VALUES (?, ?)";
            for stream in 0..3000i16 {
                let key = i32::from(stream).to_be_bytes();
                client.send(stream, &Request::Query { text, parameters: values(&[&key, b"b"]) });
            }
            let mut seen = vec![false; 3000];
            for _ in 0..3000 {
                let envelope = client.receive().await.expect("an answer");
                let answer = Answer::decode(&envelope).expect("valid");
                assert_eq!(answer.response, Response::Void);
                assert!(!std::mem::replace(&mut seen[envelope.header.stream as usize], true));
            }
        }
    });
}

/// O1: a client that asks for it gets OVERLOADED instead of having to wait.
#[test]
fn o1_throw_on_overload() {
    with_node(1, || async {
        Client::ready(Version::V4).await.create().await;
        let in_flight_max = REQUESTS_IN_FLIGHT_MAX as usize;
        for (sent, overload) in [(in_flight_max, false), (8 * in_flight_max, true)] {
            let client = Client::connect(Version::V4).await;
            client.startup_with(vec![("CQL_VERSION", "3.0.0"), ("THROW_ON_OVERLOAD", "1")]).await;
            let mut bytes = Vec::new();
            for stream in 0..sent as i16 {
                let (key, text) = (i32::from(stream).to_be_bytes(), "INSERT INTO k.t (a, b) VALUES (?, ?)");
                let request = Request::Query { text, parameters: values(&[&key, b"b"]) };
                wire::client::put_request(&mut bytes, Version::V4, stream, &request);
            }
            client.raw(&bytes);
            let (mut done, mut refused) = (0, 0);
            for _ in 0..sent {
                match Answer::decode(&client.receive().await.expect("an answer")).expect("valid").response {
                    Response::Void => done += 1,
                    Response::Error { code: 0x1001, .. } => refused += 1,
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(done + refused, sent);
            assert_eq!(refused > 0, overload, "the limit itself is admitted: {refused} of {sent} refused");
        }
    });
}

/// D13: requests that have begun before the stop are answered.
#[test]
fn d13_a_stop_answers_what_is_under_way() {
    for seed in 1..10 {
        let mut sim = Sim::new(seed, options());
        let (exits, up) = start(&mut sim, 2, config());
        assert!(up.get());
        let acknowledged = Rc::new(Cell::new(0));
        let counted = acknowledged.clone();
        run_client(&mut sim, || async {
            Client::ready(Version::V4).await.create().await;
        });
        let finished = Rc::new(Cell::new(false));
        let ended = finished.clone();
        sim.start_node(world::OTHER_CLIENT, 1, move |_| {
            let (counted, ended) = (counted.clone(), ended.clone());
            async move {
                let client = Client::ready(Version::V4).await;
                for stream in 0..200i16 {
                    let key = i32::from(stream).to_be_bytes();
                    let text = "INSERT INTO k.t (a, b) VALUES (?, ?)";
                    client.send(stream, &Request::Query { text, parameters: values(&[&key, b"b"]) });
                }
                while let Some(envelope) = client.receive().await {
                    let answer = Answer::decode(&envelope).expect("valid");
                    if answer.response == Response::Void {
                        counted.set(counted.get() + 1);
                    }
                }
                ended.set(true);
            }
        });
        sim.run_until(Duration::from_secs(5), || acknowledged.get() >= 3 * seed as usize);
        sim.terminate(SERVER);
        let stopped = sim.run_until(DRAIN_MAX * 2, || exits.borrow().len() == 2 && finished.get());
        assert_eq!(stopped, Stop::Condition, "seed {seed}");
        assert!(exits.borrow().iter().all(|exit| *exit == Exit::Stopped));
        let before = acknowledged.get();

        let (_, up) = start(&mut sim, 2, config());
        assert!(up.get());
        let found = Rc::new(Cell::new(0));
        let set = found.clone();
        run_client(&mut sim, move || {
            let set = set.clone();
            async move {
                set.set(Client::ready(Version::V4).await.rows("SELECT a FROM k.t").await.rows.len());
            }
        });
        assert!(found.get() >= before, "seed {seed}: {before} acknowledged, {} found", found.get());
    }
}

#[test]
fn the_marker_is_kept_and_checked() {
    let mut sim = Sim::new(3, options());
    let (exits, up) = start(&mut sim, 2, config());
    assert!(up.get());
    sim.terminate(SERVER);
    sim.run_until(Duration::from_secs(60), || exits.borrow().len() == 2);
    let marker = std::path::Path::new("data/helenus.marker");
    let text = String::from_utf8(sim.read_file(SERVER, marker).expect("a marker")).expect("text");
    assert!(text.starts_with("format 1\nhost_id ") && text.contains("\nshards 2\n"));

    // Another number of shards is written down; a newer format and rubbish are not touched.
    let (exits, up) = start(&mut sim, 1, config());
    assert!(up.get());
    sim.terminate(SERVER);
    sim.run_until(Duration::from_secs(60), || exits.borrow().len() == 1);
    let text = String::from_utf8(sim.read_file(SERVER, marker).expect("a marker")).expect("text");
    assert!(text.contains("\nshards 1\n"));
    for wrong in ["format 3\n", "", "\u{1}\u{2}"] {
        let good = sim.read_file(SERVER, marker).expect("a marker");
        assert!(sim.mutate_file(SERVER, marker, |bytes| *bytes = wrong.into()));
        let (exits, up) = start(&mut sim, 2, config());
        assert!(!up.get());
        sim.run_until(Duration::from_secs(60), || exits.borrow().len() == 2);
        assert_eq!(*exits.borrow(), [Exit::Corrupt, Exit::Corrupt]);
        assert!(sim.mutate_file(SERVER, marker, |bytes| *bytes = good));
    }
    let (_, up) = start(&mut sim, 2, config());
    assert!(up.get());
}

/// O2, O5: large requests that trickle in hold up neither small ones nor each other for ever.
#[test]
fn o2_slow_large_requests_hold_up_no_others() {
    with_node(1, || async {
        let client = Client::ready(Version::V4).await;
        let mut slow = Vec::new();
        for _ in 0..8 {
            let connection = Client::ready(Version::V4).await;
            connection.raw(b"\x04\0\0\x01\x07\0\xf0\0\0");
            slow.push(connection);
        }
        runtime::sleep(Duration::from_secs(1)).await;
        let began = runtime::now();
        assert_eq!(client.rows("SELECT key FROM system.local").await.rows.len(), 1);
        assert!(runtime::now().since(began) < Duration::from_secs(1), "small requests go on");
        for connection in slow {
            assert!(connection.receive().await.is_none(), "closed in the end");
        }
    });
}

/// O5: a request above 16 MiB is answered, its body skipped, and the connection goes on.
#[test]
fn o5_a_request_that_is_too_big_is_skipped() {
    with_node(1, || async {
        let client = Client::ready(Version::V4).await;
        client.raw(b"\x04\0\0\x09\x07\x01\x10\0\0");
        let envelope = client.receive().await.expect("an answer before the body");
        assert_eq!(envelope.header.stream, 9);
        let (code, text) = error(Answer::decode(&envelope).expect("valid").response);
        assert_eq!(
            (code, text.as_str()),
            (0x2200, "Request is too big: length 17825801 exceeds maximum allowed length 16777216.")
        );
        for _ in 0..17 {
            client.raw(&vec![0; 1 << 20]);
            client.stream.drained_to(0).await.expect("taken");
        }
        assert_eq!(client.rows("SELECT key FROM system.local").await.rows.len(), 1);
    });
}
