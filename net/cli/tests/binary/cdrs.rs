//! cdrs-tokio, another driver of Rust, against the real binary.

use crate::node::Node;
use cdrs_tokio::cluster::session::{Session, SessionBuilder, TcpSessionBuilder};
use cdrs_tokio::cluster::{NodeTcpConfigBuilder, TcpConnectionManager};
use cdrs_tokio::compression::Compression;
use cdrs_tokio::consistency::Consistency;
use cdrs_tokio::frame::{TryFromRow, Version};
use cdrs_tokio::load_balancing::TopologyAwareLoadBalancingStrategy;
use cdrs_tokio::query::{BatchQueryBuilder, QueryParamsBuilder};
use cdrs_tokio::query_values;
use cdrs_tokio::statement::StatementParams;
use cdrs_tokio::transport::TransportTcp;
use cdrs_tokio::types::ByName;
use cdrs_tokio::types::blob::Blob;
use cdrs_tokio::types::prelude::Row;
use cdrs_tokio::{IntoCdrsValue, TryFromRow, TryFromUdt};
use std::collections::HashMap;

type Cdrs =
    Session<TransportTcp, TcpConnectionManager, TopologyAwareLoadBalancingStrategy<TransportTcp, TcpConnectionManager>>;

#[derive(Debug, Clone, PartialEq, IntoCdrsValue, TryFromUdt)]
struct Address {
    street: String,
    number: i32,
}

#[derive(Debug, Clone, PartialEq, TryFromRow)]
struct Kept {
    id: i32,
    name: String,
    large: i64,
    real: f64,
    is_set: bool,
    bytes: Blob,
    home: Address,
    numbers: Vec<i32>,
    homes: HashMap<String, Address>,
}

async fn run(session: &Cdrs, statement: &str) {
    session.query(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
}

async fn rows(session: &Cdrs, statement: &str) -> Vec<Row> {
    let answer = session.query(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    answer.response_body().expect("a body").into_rows().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn cdrs_in_every_version_and_compression() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start("127.0.13.33", directory.path(), &["--cores", "2"]);
    // Version 5 has LZ4 alone.
    for (version, compression) in [
        (Version::V4, Compression::None),
        (Version::V4, Compression::Lz4),
        (Version::V4, Compression::Snappy),
        (Version::V5, Compression::None),
        (Version::V5, Compression::Lz4),
    ] {
        walk(node.address, version, compression).await;
    }
    assert_eq!(node.stop(), Some(0));
}

/// A session of one protocol version and compression, and what applications do with it.
async fn walk(address: &str, version: Version, compression: Compression) {
    let config = NodeTcpConfigBuilder::new()
        .with_contact_point(format!("{address}:9042").into())
        .with_version(version)
        .build()
        .await
        .expect("a configuration");
    let strategy = TopologyAwareLoadBalancingStrategy::new(None, false);
    let session: Cdrs =
        TcpSessionBuilder::new(strategy, config).with_compression(compression).build().await.expect("a session");
    run(&session, "DROP KEYSPACE IF EXISTS cdrs").await;
    run(&session, "CREATE KEYSPACE cdrs WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").await;
    run(&session, "CREATE TYPE cdrs.address (street text, number int)").await;
    run(
        &session,
        "CREATE TABLE cdrs.kept (id int PRIMARY KEY, name text, large bigint, real double, is_set boolean, bytes blob, home \
         frozen<address>, numbers list<int>, homes map<text, frozen<address>>)",
    )
    .await;
    values(&session).await;
    pages_and_batches(&session).await;
    conditions_and_refusals(&session).await;
    run(&session, "DROP KEYSPACE cdrs").await;
}

async fn values(session: &Cdrs) {
    let home = Address { street: "Rue Émile 1".into(), number: 7 };
    let written = Kept {
        id: 1,
        name: "日本語 it's".into(),
        large: i64::MIN,
        real: 5e-324,
        is_set: true,
        bytes: Blob::new((0..=255).cycle().take(40_000).collect()),
        home: home.clone(),
        numbers: vec![3, i32::MIN, 3],
        homes: HashMap::from([("k".to_owned(), home)]),
    };
    let insert = "INSERT INTO cdrs.kept (id, name, large, real, is_set, bytes, home, numbers, homes) VALUES (?, ?, ?, ?, ?, \
                  ?, ?, ?, ?)";
    let prepared = session.prepare(insert).await.expect("prepared");
    let Kept { id, name, large, real, is_set, bytes, home, numbers, homes } = written.clone();
    let values = query_values!(id, name, large, real, is_set, bytes, home, numbers, homes);
    session.exec_with_values(&prepared, values).await.expect("written");
    let found = rows(session, "SELECT * FROM cdrs.kept WHERE id = 1").await;
    let found: Vec<Kept> = found.into_iter().map(|row| Kept::try_from_row(row).expect("a row")).collect();
    assert_eq!(found, [written]);
    // Null and what is not set.
    let some = session.prepare("INSERT INTO cdrs.kept (id, name, large) VALUES (?, ?, ?)").await.expect("prepared");
    let unset = query_values!(1, Value::Null, Value::NotSet);
    session.exec_with_values(&some, unset).await.expect("written");
    let found = rows(session, "SELECT name, large FROM cdrs.kept WHERE id = 1").await;
    let name: Option<String> = found[0].by_name("name").expect("a column");
    let large: Option<i64> = found[0].by_name("large").expect("a column");
    assert_eq!((name, large), (None, Some(i64::MIN)));
}

async fn pages_and_batches(session: &Cdrs) {
    run(session, "CREATE TABLE cdrs.lined (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
    let insert = session.prepare("INSERT INTO cdrs.lined (pk, ck, v) VALUES (?, ?, ?)").await.expect("prepared");
    for first in (0..100).step_by(10) {
        let mut batch = BatchQueryBuilder::new();
        for ck in first..first + 10 {
            batch = batch.add_query_prepared(&insert, query_values!(1, ck, format!("v{ck}")));
        }
        let batch = batch.with_consistency(Consistency::Quorum).build().expect("a batch");
        session.batch(batch).await.expect("applied");
    }
    let mut pager = session.paged(7);
    let parameters = QueryParamsBuilder::new().with_values(query_values!(1)).build();
    let mut pages = pager.query_with_params("SELECT ck FROM cdrs.lined WHERE pk = ?", parameters);
    let (mut count, mut found) = (0, Vec::new());
    loop {
        for row in pages.next().await.expect("a page") {
            found.push(row.r_by_name::<i32>("ck").expect("a column"));
        }
        count += 1;
        if !pages.has_more() {
            break;
        }
    }
    assert_eq!(found, (0..100).collect::<Vec<i32>>());
    assert_eq!(count, 15, "pages of seven");
}

async fn conditions_and_refusals(session: &Cdrs) {
    let insert = "INSERT INTO cdrs.lined (pk, ck, v) VALUES (2, 1, 'first') IF NOT EXISTS";
    for applied in [true, false] {
        let found = rows(session, insert).await;
        assert_eq!(found[0].r_by_name::<bool>("[applied]").expect("a column"), applied);
    }
    let parameters = StatementParams { tracing: true, ..StatementParams::default() };
    let traced = session.query_with_params("SELECT * FROM cdrs.lined WHERE pk = 2", parameters).await.expect("rows");
    assert!(traced.tracing_id.is_some());
    let error = session.query("SELECT * FROM cdrs.nowhere").await.expect_err("no such table").to_string();
    assert!(error.contains("table nowhere does not exist"), "{error}");
    let error = session.query("SELECT").await.expect_err("no statement").to_string();
    assert!(error.contains("no viable alternative at input"), "{error}");
}
