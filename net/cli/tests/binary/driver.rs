//! The Rust driver against the real binary: schema, every scalar type, prepared statements, paging, batches, restarts.

use crate::node::Node;
use futures::TryStreamExt;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::Statement;
use scylla::statement::batch::{Batch, BatchType};
use scylla::value::{CqlDate, CqlDecimal, CqlDuration, CqlTime, CqlTimestamp, CqlValue, CqlVarint, Row};

async fn connect(node: &Node) -> Session {
    SessionBuilder::new().known_node(format!("{}:9042", node.address)).build().await.expect("a session")
}

async fn create(session: &Session, statements: &[&str]) {
    let keyspace = "CREATE KEYSPACE d WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    for statement in [keyspace].iter().chain(statements) {
        session.query_unpaged(*statement, &[]).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

#[tokio::test]
async fn writes_reads_pages_and_prepares() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start("127.0.11.1", directory.path(), &["--cores", "2"]);
    let session = connect(&node).await;
    create(&session, &["CREATE TABLE d.t (pk int, ck bigint, v text, PRIMARY KEY (pk, ck))"]).await;

    let insert = session.prepare("INSERT INTO d.t (pk, ck, v) VALUES (?, ?, ?)").await.expect("prepared");
    for pk in 0..20i32 {
        for ck in 0..25i64 {
            session.execute_unpaged(&insert, (pk, ck, format!("{pk}-{ck}"))).await.expect("written");
        }
    }
    let select = session.prepare("SELECT ck, v FROM d.t WHERE pk = ? AND ck >= ?").await.expect("prepared");
    let rows = session.execute_unpaged(&select, (7, 20i64)).await.expect("read").into_rows_result().expect("rows");
    let rows: Vec<(i64, String)> = rows.rows().expect("typed").map(|row| row.expect("typed")).collect();
    assert_eq!(rows, (20..25).map(|ck| (ck, format!("7-{ck}"))).collect::<Vec<_>>());

    let mut scan = Statement::new("SELECT pk, ck, v FROM d.t");
    scan.set_page_size(7);
    let stream =
        session.query_iter(scan, &[]).await.expect("paged").rows_stream::<(i32, i64, String)>().expect("typed");
    let mut rows: Vec<(i32, i64, String)> = stream.try_collect().await.expect("every page");
    rows.sort();
    assert_eq!(rows.len(), 500);
    assert!(rows.iter().all(|(pk, ck, v)| *v == format!("{pk}-{ck}")));

    let mut batch = Batch::new(BatchType::Unlogged);
    batch.append_statement(insert.clone());
    batch.append_statement(insert.clone());
    session.batch(&batch, ((1, 100i64, "x"), (1, 101i64, "y"))).await.expect("batched");
    let count = session.query_unpaged("SELECT count(*) FROM d.t WHERE pk = 1", &[]).await.expect("counted");
    assert_eq!(count.into_rows_result().expect("rows").single_row::<(i64,)>().expect("one"), (27,));
    assert_eq!(node.stop(), Some(0));
}

#[tokio::test]
async fn every_scalar_type_both_ways() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start("127.0.11.2", directory.path(), &["--cores", "1"]);
    let session = connect(&node).await;
    create(
        &session,
        &["CREATE TABLE d.types (pk int PRIMARY KEY, a ascii, b bigint, c blob, d boolean, e date, f decimal, g double, \
           h duration, i float, j inet, k smallint, l text, m time, n timestamp, o timeuuid, p tinyint, q uuid, r varint)"],
    )
    .await;
    let insert = session
        .prepare(
            "INSERT INTO d.types (pk, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .await
        .expect("prepared");
    use CqlValue::*;
    let scalars = vec![
        Int(1),
        Ascii("ascii".into()),
        BigInt(i64::MIN),
        Blob(vec![0, 255]),
        Boolean(true),
        Date(CqlDate(1 << 31)),
        Decimal(CqlDecimal::from_signed_be_bytes_and_exponent(vec![0x80], 2)),
        Double(f64::MIN_POSITIVE),
        Duration(CqlDuration { months: 1, days: 2, nanoseconds: 3 }),
        Float(-1.5),
        Inet("2001:db8::1".parse().expect("an address")),
        SmallInt(i16::MAX),
        Text("grün".into()),
        Time(CqlTime(86_399_999_999_999)),
        Timestamp(CqlTimestamp(-1)),
        Timeuuid("50554d6e-29bb-11e5-b345-feff819cdc9f".parse().expect("a timeuuid")),
        TinyInt(i8::MIN),
        Uuid("550e8400-e29b-41d4-a716-446655440000".parse().expect("a uuid")),
        Varint(CqlVarint::from_signed_bytes_be(vec![1, 0, 0, 0, 0, 0, 0, 0, 0])),
    ];
    session.execute_unpaged(&insert, &scalars).await.expect("written");
    let text = "SELECT pk, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r FROM d.types WHERE pk = 1";
    let rows = session.query_unpaged(text, &[]).await.expect("read").into_rows_result().expect("rows");
    let row = rows.single_row::<Row>().expect("one row");
    let expected: Vec<Option<CqlValue>> = scalars.into_iter().map(Some).collect();
    assert_eq!(row.columns, expected);
    drop(session);
    assert_eq!(node.stop(), Some(0));
}

/// Ids prepared before a restart are known after it, and what was written is there.
#[tokio::test]
async fn survives_an_orderly_restart_with_another_number_of_cores() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start("127.0.11.3", directory.path(), &["--cores", "1"]);
    let session = connect(&node).await;
    create(&session, &["CREATE TABLE d.t (pk int PRIMARY KEY, v int)"]).await;
    let insert = session.prepare("INSERT INTO d.t (pk, v) VALUES (?, ?)").await.expect("prepared");
    for pk in 0..200 {
        session.execute_unpaged(&insert, (pk, pk * 2)).await.expect("written");
    }
    drop(session);
    assert_eq!(node.stop(), Some(0));

    let node = Node::start("127.0.11.3", directory.path(), &["--cores", "2"]);
    let session = connect(&node).await;
    let count = session.query_unpaged("SELECT count(*) FROM d.t", &[]).await.expect("counted");
    assert_eq!(count.into_rows_result().expect("rows").single_row::<(i64,)>().expect("one"), (200,));
    session.execute_unpaged(&insert, (1000, 1)).await.expect("the old id is known or prepared again");
    assert_eq!(node.stop(), Some(0));
}
