//! Connections and what surrounds statements: the ring, shards, requests in flight, tracing, warnings, timestamps.

use super::{Served, builder, refusal, rows, run, typed};
use scylla::client::Compression;
use scylla::client::PoolSize;
use scylla::errors::DbError;
use scylla::statement::Statement;
use scylla::statement::batch::{Batch, BatchType};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// Longest that the driver may take to open its connections.
const PATIENCE: Duration = Duration::from_secs(20);
const SHARD_AWARE_PORT: u16 = 19042;

#[tokio::test]
async fn the_driver_sees_one_node_in_every_compression() {
    let served = Served::start("127.0.14.10", &[]).await;
    for compression in [None, Some(Compression::Lz4), Some(Compression::Snappy)] {
        let session = builder(&served.node).compression(compression).build().await.expect("a session");
        let state = session.get_cluster_state();
        assert_eq!(state.cluster_name(), "Test Cluster");
        let [node] = state.get_nodes_info() else { panic!("one node") };
        assert_eq!(node.address.ip().to_string(), served.node.address);
        assert_eq!((node.datacenter.as_deref(), node.rack.as_deref()), (Some("datacenter1"), Some("rack1")));
        assert_eq!(state.replica_locator().ring().len(), 16, "tokens of the node");
        assert!(session.check_schema_agreement().await.expect("asked").is_some());
    }
    served.stop();
}

/// Each request goes by the shard-aware port to the core that owns its key, and both cores own some.
#[tokio::test]
async fn requests_go_to_the_core_that_owns_their_key() {
    let served = Served::start("127.0.14.11", &["CREATE TABLE t (pk int PRIMARY KEY, v int)"]).await;
    let session = &served.session;
    let insert = session.prepare("INSERT INTO t (pk, v) VALUES (?, ?)").await.expect("prepared");
    let sharder = session.get_cluster_state().get_nodes_info()[0].sharder().expect("the node names its shards");
    assert_eq!((sharder.nr_shards.get(), sharder.msb_ignore), (2, 12));
    let began = Instant::now();
    // The driver opens the connection to the second core after the session is made.
    loop {
        let mut asked = BTreeSet::new();
        let mut misrouted = 0;
        for pk in 0..20 {
            let token = insert.calculate_token(&(pk, pk)).expect("values").expect("a token");
            let result = session.execute_unpaged(&insert, (pk, pk)).await.expect("written");
            let coordinator = result.request_coordinator();
            let shard = coordinator.shard().expect("a shard");
            misrouted += u32::from(shard != sharder.shard_of(token));
            asked.insert((shard, coordinator.connection_address().port() == SHARD_AWARE_PORT));
        }
        if misrouted == 0 {
            // The first connection of all is made by the plain port, to whatever core accepts it.
            let shards: BTreeSet<u32> = asked.iter().map(|(shard, _)| *shard).collect();
            assert_eq!(shards, BTreeSet::from([0, 1]));
            assert!(asked.iter().any(|(_, is_shard_aware)| *is_shard_aware), "{asked:?}");
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{misrouted} requests went to another core");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(rows::<(i64,)>(session, "SELECT count(*) FROM t").await, [(20,)]);
    served.stop();
}

/// Every answer is its own, between errors too, when a thousand requests share one connection.
#[tokio::test]
async fn a_thousand_requests_are_in_flight_on_one_connection() {
    let served = Served::start("127.0.14.12", &["CREATE TABLE t (pk int PRIMARY KEY, v text)"]).await;
    let one = PoolSize::PerHost(NonZeroUsize::MIN);
    let session = builder(&served.node).pool_size(one).disallow_shard_aware_port(true).use_keyspace("d", false);
    let session = session.build().await.expect("a session");
    let insert = session.prepare("INSERT INTO t (pk, v) VALUES (?, ?)").await.expect("prepared");
    let select = session.prepare("SELECT pk, v FROM t WHERE pk = ?").await.expect("prepared");
    let value = |pk: i32| format!("{pk}:{}", "x".repeat(pk as usize % 251));
    let writes = (0..1000).map(|pk| session.execute_unpaged(&insert, (pk, value(pk))));
    futures::future::try_join_all(writes).await.expect("written");
    let reads = (0..1000).map(async |pk| {
        if pk % 5 == 0 {
            assert_eq!(refusal(session.query_unpaged("SELECT nothing FROM t", &[]).await).0, DbError::Invalid);
        }
        let found = session.execute_unpaged(&select, (pk,)).await.expect("read");
        assert_eq!(typed::<(i32, String)>(found), [(pk, value(pk))]);
    });
    futures::future::join_all(reads).await;
    served.stop();
}

#[tokio::test]
async fn a_request_is_traced_when_asked_for() {
    let served = Served::start("127.0.14.13", &["CREATE TABLE t (pk int PRIMARY KEY, v text)"]).await;
    let session = &served.session;
    let mut insert = session.prepare("INSERT INTO t (pk, v) VALUES (?, ?)").await.expect("prepared");
    insert.set_tracing(true);
    let mut select = Statement::new("SELECT * FROM t WHERE pk = 1");
    select.set_tracing(true);
    let written = session.execute_unpaged(&insert, (1, "x")).await.expect("written");
    let read = session.query_unpaged(select, &[]).await.expect("read");
    let requests = [
        (written, "Execute CQL3 prepared query", "INSERT INTO t (pk, v) VALUES (?, ?)"),
        (read, "Execute CQL3 query", "SELECT * FROM t WHERE pk = 1"),
    ];
    for (result, kind, query) in requests {
        let id = result.tracing_id().expect("traced");
        let trace = session.get_tracing_info(&id).await.expect("a trace");
        assert_eq!(trace.request.as_deref(), Some(kind));
        assert_eq!(trace.coordinator.map(|ip| ip.to_string()).as_deref(), Some(served.node.address));
        assert_eq!(trace.parameters.expect("parameters").get("query").map(String::as_str), Some(query));
        assert!(trace.duration.is_some() && !trace.events.is_empty());
    }
    assert_eq!(run(session, "SELECT * FROM t").await.tracing_id(), None);
    served.stop();
}

#[tokio::test]
async fn warnings_reach_the_client() {
    let served = Served::start("127.0.14.14", &["CREATE TABLE t (pk int PRIMARY KEY, v text)"]).await;
    let session = &served.session;
    let count = run(session, "SELECT count(*) FROM t").await;
    assert_eq!(count.warnings().collect::<Vec<_>>(), ["Aggregation query used without partition key"]);
    assert_eq!(run(session, "SELECT * FROM t").await.warnings().count(), 0);
    let mut many = Batch::new(BatchType::Unlogged);
    for pk in 0..12 {
        many.append_statement(format!("INSERT INTO t (pk, v) VALUES ({pk}, 'w')").as_str());
    }
    let answer = session.batch(&many, vec![(); 12]).await.expect("written");
    let warning = "Unlogged batch covering 12 partitions detected against table [d.t]. You should use a logged batch for \
                   atomicity, or asynchronous writes for performance.";
    assert_eq!(answer.warnings().collect::<Vec<_>>(), [warning]);
    let mut large = Batch::new(BatchType::Logged);
    large.append_statement(format!("INSERT INTO t (pk, v) VALUES (1, '{}')", "x".repeat(60_000)).as_str());
    large.append_statement("INSERT INTO t (pk, v) VALUES (2, 'x')");
    let (error, text) = refusal(session.batch(&large, ((), ())).await);
    assert_eq!((error, text.as_str()), (DbError::Invalid, "Batch too large"));
    served.stop();
}

#[tokio::test]
async fn the_timestamp_of_a_request_is_kept() {
    let served = Served::start("127.0.14.15", &["CREATE TABLE t (pk int PRIMARY KEY, v int)"]).await;
    let session = &served.session;
    let mut insert = session.prepare("INSERT INTO t (pk, v) VALUES (?, ?)").await.expect("prepared");
    insert.set_timestamp(Some(1_234_567));
    session.execute_unpaged(&insert, (1, 1)).await.expect("written");
    insert.set_timestamp(Some(1_234_566));
    session.execute_unpaged(&insert, (1, 2)).await.expect("written, but older");
    assert_eq!(rows::<(i32, i64)>(session, "SELECT v, writetime(v) FROM t").await, [(1, 1_234_567)]);
    served.stop();
}

#[tokio::test]
async fn a_session_has_the_keyspace_that_it_uses() {
    let served = Served::start("127.0.14.16", &["CREATE TABLE t (pk int PRIMARY KEY)"]).await;
    let session = builder(&served.node).build().await.expect("a session");
    let (error, text) = refusal(session.query_unpaged("SELECT * FROM t", &[]).await);
    assert_eq!(error, DbError::Invalid);
    assert!(text.starts_with("No keyspace has been specified"), "{text}");
    assert!(session.use_keyspace("nowhere", false).await.is_err());
    session.use_keyspace("d", false).await.expect("used");
    assert_eq!(rows::<(i32,)>(&session, "SELECT * FROM t").await, []);
    served.stop();
}
