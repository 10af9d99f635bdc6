//! Statements: prepared and simple, paging, batches, counters, conditional changes, restarts.

use super::{Served, builder, create_keyspace, refusal, rows, run, typed};
use crate::node::Node;
use futures::TryStreamExt;
use scylla::client::session::Session;
use scylla::errors::DbError;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::{Consistency, SerialConsistency, Statement};
use std::ops::ControlFlow;

#[tokio::test]
async fn writes_reads_pages_and_prepares() {
    let served =
        Served::start("127.0.11.1", &["CREATE TABLE t (pk int, ck bigint, v text, PRIMARY KEY (pk, ck))"]).await;
    let session = &served.session;

    let insert = session.prepare("INSERT INTO d.t (pk, ck, v) VALUES (?, ?, ?)").await.expect("prepared");
    for pk in 0..20i32 {
        for ck in 0..25i64 {
            session.execute_unpaged(&insert, (pk, ck, format!("{pk}-{ck}"))).await.expect("written");
        }
    }
    let select = session.prepare("SELECT ck, v FROM d.t WHERE pk = ? AND ck >= ?").await.expect("prepared");
    let found = session.execute_unpaged(&select, (7, 20i64)).await.expect("read");
    assert_eq!(typed::<(i64, String)>(found), (20..25).map(|ck| (ck, format!("7-{ck}"))).collect::<Vec<_>>());

    let mut scan = Statement::new("SELECT pk, ck, v FROM d.t");
    scan.set_page_size(7);
    let stream =
        session.query_iter(scan, &[]).await.expect("paged").rows_stream::<(i32, i64, String)>().expect("typed");
    let mut found: Vec<(i32, i64, String)> = stream.try_collect().await.expect("every page");
    found.sort();
    assert_eq!(found.len(), 500);
    assert!(found.iter().all(|(pk, ck, v)| *v == format!("{pk}-{ck}")));

    let mut batch = Batch::new(BatchType::Unlogged);
    batch.append_statement(insert.clone());
    batch.append_statement(insert.clone());
    session.batch(&batch, ((1, 100i64, "x"), (1, 101i64, "y"))).await.expect("batched");
    assert_eq!(rows::<(i64,)>(session, "SELECT count(*) FROM d.t WHERE pk = 1").await, [(27,)]);
    served.stop();
}

/// Ids prepared before a restart are known after it, and what was written is there.
#[tokio::test]
async fn survives_an_orderly_restart_with_another_number_of_cores() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start("127.0.11.3", directory.path(), &["--cores", "1"]);
    let session = builder(&node).build().await.expect("a session");
    create_keyspace(&session).await;
    run(&session, "CREATE TABLE d.t (pk int PRIMARY KEY, v int)").await;
    let insert = session.prepare("INSERT INTO d.t (pk, v) VALUES (?, ?)").await.expect("prepared");
    for pk in 0..200 {
        session.execute_unpaged(&insert, (pk, pk * 2)).await.expect("written");
    }
    drop(session);
    assert_eq!(node.stop(), Some(0));

    let node = Node::start("127.0.11.3", directory.path(), &["--cores", "2"]);
    let session = builder(&node).build().await.expect("a session");
    assert_eq!(rows::<(i64,)>(&session, "SELECT count(*) FROM d.t").await, [(200,)]);
    session.execute_unpaged(&insert, (1000, 1)).await.expect("the old id is known or prepared again");
    drop(session);
    assert_eq!(node.stop(), Some(0));
}

/// Three hundred rows: 20 partitions of 15 rows.
async fn paged_table(address: &'static str) -> Served {
    let served = Served::start(address, &["CREATE TABLE t (pk int, ck int, PRIMARY KEY (pk, ck))"]).await;
    let insert = served.session.prepare("INSERT INTO t (pk, ck) VALUES (?, ?)").await.expect("prepared");
    for pk in 0..20 {
        for ck in 0..15 {
            served.session.execute_unpaged(&insert, (pk, ck)).await.expect("written");
        }
    }
    served
}

fn every_key() -> Vec<(i32, i32)> {
    (0..20).flat_map(|pk| (0..15).map(move |ck| (pk, ck))).collect()
}

/// Every row of a statement, page by page, none of which may have more rows than asked for.
async fn pages(session: &Session, text: &str, page_size: i32) -> Vec<(i32, i32)> {
    let mut statement = Statement::new(text);
    statement.set_page_size(page_size);
    let mut state = PagingState::start();
    let mut found = Vec::new();
    loop {
        let (page, next) = session.query_single_page(statement.clone(), &[], state).await.expect("a page");
        let page = typed::<(i32, i32)>(page);
        assert!(page.len() <= page_size as usize, "{text}");
        found.extend(page);
        match next.into_paging_control_flow() {
            ControlFlow::Continue(next) => state = next,
            ControlFlow::Break(()) => return found,
        }
    }
}

#[tokio::test]
async fn pages_of_every_size_hold_every_row_once() {
    let served = paged_table("127.0.14.17").await;
    let session = &served.session;
    for page_size in [1, 7, 15, 299, 300, 301] {
        let mut found = pages(session, "SELECT pk, ck FROM t", page_size).await;
        found.sort();
        assert_eq!(found, every_key(), "{page_size} rows a page");
    }
    let partition = |cks: Vec<i32>| cks.into_iter().map(|ck| (3, ck)).collect::<Vec<_>>();
    for (condition, expected) in [
        ("pk = 3", partition((0..15).collect())),
        ("pk = 3 AND ck > 2 AND ck <= 9", partition((3..10).collect())),
        ("pk = 3 ORDER BY ck DESC", partition((0..15).rev().collect())),
        ("pk = 3 LIMIT 5", partition((0..5).collect())),
        ("pk IN (9, 1)", [1, 9].into_iter().flat_map(|pk| (0..15).map(move |ck| (pk, ck))).collect()),
    ] {
        assert_eq!(
            pages(session, &format!("SELECT pk, ck FROM t WHERE {condition}"), 4).await,
            expected,
            "{condition}"
        );
    }
    served.stop();
}

/// The state of a page, kept as bytes, goes on in another session, with a statement that was prepared there.
#[tokio::test]
async fn another_session_goes_on_with_the_next_page() {
    let served = paged_table("127.0.14.18").await;
    let mut found = Vec::new();
    let mut state: Option<Vec<u8>> = None;
    loop {
        let session = builder(&served.node).build().await.expect("a session");
        let mut select = session.prepare("SELECT pk, ck FROM d.t").await.expect("prepared");
        select.set_page_size(70);
        let from = state.map_or_else(PagingState::start, PagingState::new_from_raw_bytes);
        let (page, next) = session.execute_single_page(&select, &[], from).await.expect("a page");
        found.extend(typed::<(i32, i32)>(page));
        match next {
            PagingStateResponse::HasMorePages { state: next } => {
                state = Some(next.as_bytes_slice().expect("a state").to_vec());
            }
            PagingStateResponse::NoMorePages => break,
        }
    }
    found.sort();
    assert_eq!(found, every_key());
    let nonsense = PagingState::new_from_raw_bytes(b"\xff\x01nonsense".to_vec());
    let refused = served.session.query_single_page("SELECT * FROM t", &[], nonsense).await;
    let (error, text) = refusal(refused);
    assert_eq!((error, text.as_str()), (DbError::ProtocolError, "Invalid value for the paging state"));
    served.stop();
}

#[tokio::test]
async fn batches_take_prepared_and_simple_statements() {
    let served = Served::start("127.0.14.19", &["CREATE TABLE t (pk int, ck int, v text, PRIMARY KEY (pk, ck))"]).await;
    let session = &served.session;
    let insert = session.prepare("INSERT INTO t (pk, ck, v) VALUES (?, ?, ?)").await.expect("prepared");
    for (pk, kind) in [(1, BatchType::Logged), (2, BatchType::Unlogged)] {
        let mut batch = Batch::new(kind);
        batch.append_statement(insert.clone());
        batch.append_statement(insert.clone());
        batch.append_statement("UPDATE t SET v = ? WHERE pk = ? AND ck = ?");
        batch.append_statement(format!("DELETE FROM t WHERE pk = {pk} AND ck = 7").as_str());
        batch.set_timestamp(Some(7));
        let values = ((pk, 1, "prepared"), (pk + 100, 1, "elsewhere"), ("it's", pk, 2), ());
        session.batch(&batch, values).await.expect("written");
        let select = format!("SELECT ck, v, writetime(v) FROM t WHERE pk = {pk}");
        let found = rows::<(i32, String, i64)>(session, &select).await;
        assert_eq!(found, [(1, "prepared".into(), 7), (2, "it's".into(), 7)]);
        let select = format!("SELECT v FROM t WHERE pk = {}", pk + 100);
        assert_eq!(rows::<(String,)>(session, &select).await, [("elsewhere".into(),)]);
    }
    session.batch(&Batch::default(), Vec::<()>::new()).await.expect("an empty batch does nothing");
    let text = "BEGIN BATCH INSERT INTO t (pk, ck, v) VALUES (?, ?, ?); UPDATE t SET v = ? WHERE pk = ? AND ck = ?; APPLY BATCH";
    let prepared = session.prepare(text).await.expect("prepared");
    session.execute_unpaged(&prepared, (60, 1, "x", "y", 60, 2)).await.expect("written");
    assert_eq!(rows::<(String,)>(session, "SELECT v FROM t WHERE pk = 60").await, [("x".into(),), ("y".into(),)]);
    let mut bad = Batch::new(BatchType::Logged);
    bad.append_statement(insert.clone());
    bad.append_statement("INSERT INTO nowhere (pk) VALUES (1)");
    assert_eq!(refusal(session.batch(&bad, ((70, 1, "x"), ())).await).0, DbError::Invalid);
    assert_eq!(rows::<(i32,)>(session, "SELECT ck FROM t WHERE pk = 70").await, [], "a refused batch writes nothing");
    served.stop();
}

#[tokio::test]
async fn counters_count() {
    let served = Served::start("127.0.14.20", &["CREATE TABLE t (pk int PRIMARY KEY, c counter)"]).await;
    let session = &served.session;
    let add = session.prepare("UPDATE t SET c = c + ? WHERE pk = ?").await.expect("prepared");
    for amount in [5i64, -2, 10] {
        session.execute_unpaged(&add, (scylla::value::Counter(amount), 1)).await.expect("counted");
    }
    let mut batch = Batch::new(BatchType::Counter);
    batch.append_statement(add.clone());
    batch.append_statement("UPDATE t SET c = c - 3 WHERE pk = 2");
    session.batch(&batch, ((scylla::value::Counter(1), 1), ())).await.expect("counted");
    let mut found = rows::<(i32, scylla::value::Counter)>(session, "SELECT pk, c FROM t").await;
    found.sort();
    assert_eq!(found, [(1, scylla::value::Counter(14)), (2, scylla::value::Counter(-3))]);
    let mut logged = Batch::new(BatchType::Logged);
    logged.append_statement(add);
    assert_eq!(refusal(session.batch(&logged, ((scylla::value::Counter(1), 1),)).await).0, DbError::Invalid);
    served.stop();
}

#[tokio::test]
async fn conditional_changes_say_whether_they_applied() {
    let served = Served::start("127.0.14.21", &["CREATE TABLE t (pk int, ck int, v int, PRIMARY KEY (pk, ck))"]).await;
    let session = &served.session;
    let mut insert =
        session.prepare("INSERT INTO t (pk, ck, v) VALUES (?, ?, ?) IF NOT EXISTS").await.expect("prepared");
    for serial in [SerialConsistency::Serial, SerialConsistency::LocalSerial] {
        insert.set_serial_consistency(Some(serial));
        let pk = serial as i32;
        let first = session.execute_unpaged(&insert, (pk, 1, 10)).await.expect("decided");
        assert_eq!(typed::<(bool,)>(first), [(true,)]);
        let second = session.execute_unpaged(&insert, (pk, 1, 20)).await.expect("decided");
        assert_eq!(typed::<(bool, i32, i32, i32)>(second), [(false, pk, 1, 10)]);
        let update = session.prepare("UPDATE t SET v = ? WHERE pk = ? AND ck = 1 IF v = ?").await.expect("prepared");
        let refused = session.execute_unpaged(&update, (30, pk, 11)).await.expect("decided");
        assert_eq!(typed::<(bool, Option<i32>)>(refused), [(false, Some(10))]);
        let applied = session.execute_unpaged(&update, (30, pk, 10)).await.expect("decided");
        assert_eq!(typed::<(bool,)>(applied), [(true,)]);
        let mut batch = Batch::new(BatchType::Logged);
        batch.append_statement(format!("UPDATE t SET v = 31 WHERE pk = {pk} AND ck = 1 IF v = 30").as_str());
        batch.append_statement(format!("INSERT INTO t (pk, ck, v) VALUES ({pk}, 2, 32)").as_str());
        assert_eq!(typed::<(bool,)>(session.batch(&batch, ((), ())).await.expect("decided")), [(true,)]);
        let mut select = Statement::new(format!("SELECT ck, v FROM t WHERE pk = {pk}"));
        select.set_consistency(match serial {
            SerialConsistency::Serial => Consistency::Serial,
            SerialConsistency::LocalSerial => Consistency::LocalSerial,
        });
        let found = session.query_unpaged(select, &[]).await.expect("read");
        assert_eq!(typed::<(i32, i32)>(found), [(1, 31), (2, 32)]);
    }
    served.stop();
}
