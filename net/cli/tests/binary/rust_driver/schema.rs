//! The schema as the driver sees it: its own changes, those of others by events, prepared statements across them.

use super::{Served, builder, refusal, rows, run, typed};
use scylla::client::session::Session;
use scylla::cluster::metadata::{ColumnKind, PeriodicFetchMode, Strategy};
use scylla::errors::DbError;
use std::time::{Duration, Instant};

/// Longest that an event may take to reach a driver.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn the_driver_knows_keyspaces_types_and_tables() {
    let served = Served::start(
        "127.0.14.5",
        &[
            "CREATE TYPE u (a int, b frozen<list<text>>)",
            "CREATE TABLE t (a int, b text, c timeuuid, s int static, v frozen<u>, PRIMARY KEY ((a, b), c))",
        ],
    )
    .await;
    served.session.refresh_metadata().await.expect("refreshed");
    let state = served.session.get_cluster_state();
    let keyspace = state.get_keyspace("d").expect("the keyspace");
    assert!(matches!(keyspace.strategy, Strategy::SimpleStrategy { replication_factor: 1 }));
    let table = &keyspace.tables["t"];
    assert_eq!(
        (&table.partition_key[..], &table.clustering_key[..]),
        (&["a".into(), "b".into()][..], &["c".into()][..])
    );
    let mut columns: Vec<(&str, &ColumnKind)> =
        table.columns.iter().map(|(name, c)| (name.as_str(), &c.kind)).collect();
    columns.sort_by_key(|(name, _)| *name);
    let expected = [
        ("a", &ColumnKind::PartitionKey),
        ("b", &ColumnKind::PartitionKey),
        ("c", &ColumnKind::Clustering),
        ("s", &ColumnKind::Static),
        ("v", &ColumnKind::Regular),
    ];
    assert_eq!(columns, expected);
    let fields: Vec<&str> =
        keyspace.user_defined_types["u"].field_types.iter().map(|(name, _)| name.as_ref()).collect();
    assert_eq!(fields, ["a", "b"]);
    served.stop();
}

/// Waits until a session sees a table's columns as named, or no table, without asking for its metadata itself.
async fn eventually_sees(session: &Session, table: &str, columns: Option<&[&str]>) {
    let began = Instant::now();
    loop {
        let state = session.get_cluster_state();
        let found = state.get_keyspace("other").and_then(|keyspace| keyspace.tables.get(table)).map(|table| {
            let mut names: Vec<&str> = table.columns.keys().map(String::as_str).collect();
            names.sort();
            names
        });
        if found.as_deref() == columns {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{table}: {found:?} instead of {columns:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Ten times a second the watching session reads the keyspaces that events have named since, and nothing else.
#[tokio::test]
async fn events_tell_one_session_what_another_changed() {
    let served = Served::start("127.0.14.6", &[]).await;
    let watching = builder(&served.node).periodic_metadata_fetch_mode(PeriodicFetchMode::AffectedKeyspaces);
    let watching = watching.cluster_metadata_refresh_interval(Duration::from_millis(100)).build().await;
    let watching = watching.expect("a session");
    let session = &served.session;
    let keyspace = "CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    run(session, keyspace).await;
    run(session, "CREATE TABLE other.t (pk int PRIMARY KEY, v int)").await;
    eventually_sees(&watching, "t", Some(&["pk", "v"])).await;
    run(session, "ALTER TABLE other.t ADD w text").await;
    eventually_sees(&watching, "t", Some(&["pk", "v", "w"])).await;
    run(session, "DROP TABLE other.t").await;
    eventually_sees(&watching, "t", None).await;
    assert!(watching.get_cluster_state().get_keyspace("other").is_some());
    run(session, "CREATE TABLE other.t (pk int PRIMARY KEY)").await;
    eventually_sees(&watching, "t", Some(&["pk"])).await;
    run(session, "DROP KEYSPACE other").await;
    eventually_sees(&watching, "t", None).await;
    served.stop();
}

#[tokio::test]
async fn prepared_statements_follow_an_altered_table() {
    let served = Served::start("127.0.14.7", &["CREATE TABLE t (pk int PRIMARY KEY, a int)"]).await;
    let session = &served.session;
    let insert = session.prepare("INSERT INTO t (pk, a) VALUES (?, ?)").await.expect("prepared");
    let select = session.prepare("SELECT a FROM t WHERE pk = ?").await.expect("prepared");
    session.execute_unpaged(&insert, (1, 10)).await.expect("written");
    run(session, "ALTER TABLE t ADD b text").await;
    session.execute_unpaged(&insert, (2, 20)).await.expect("written");
    assert_eq!(typed::<(i32,)>(session.execute_unpaged(&select, (2,)).await.expect("read")), [(20,)]);
    run(session, "UPDATE t SET b = 'b' WHERE pk = 1").await;
    let all = session.prepare("SELECT pk, a, b FROM t WHERE pk = ?").await.expect("prepared");
    let row = typed::<(i32, i32, String)>(session.execute_unpaged(&all, (1,)).await.expect("read"));
    assert_eq!(row, [(1, 10, "b".to_owned())]);
    run(session, "ALTER TABLE t DROP a").await;
    assert_eq!(rows::<(i32, Option<String>)>(session, "SELECT * FROM t WHERE pk = 1").await, [(1, Some("b".into()))]);
    assert!(session.execute_unpaged(&insert, (3, 30)).await.is_err(), "the column is gone");
    served.stop();
}

/// The driver prepares again what the node no longer knows.
#[tokio::test]
async fn prepared_statements_follow_a_table_that_was_dropped_and_created() {
    let table = "CREATE TABLE t (pk int PRIMARY KEY, v int)";
    let served = Served::start("127.0.14.8", &[table]).await;
    let session = &served.session;
    let insert = session.prepare("INSERT INTO t (pk, v) VALUES (?, ?)").await.expect("prepared");
    let select = session.prepare("SELECT v FROM t WHERE pk = ?").await.expect("prepared");
    session.execute_unpaged(&insert, (1, 1)).await.expect("written");
    run(session, "DROP TABLE t").await;
    assert!(session.execute_unpaged(&select, (1,)).await.is_err());
    run(session, table).await;
    assert_eq!(typed::<(i32,)>(session.execute_unpaged(&select, (1,)).await.expect("read")), []);
    session.execute_unpaged(&insert, (1, 2)).await.expect("written");
    assert_eq!(typed::<(i32,)>(session.execute_unpaged(&select, (1,)).await.expect("read")), [(2,)]);
    served.stop();
}

#[tokio::test]
async fn what_exists_or_does_not_is_refused_by_name() {
    let served = Served::start("127.0.14.9", &["CREATE TABLE t (pk int PRIMARY KEY, v int)"]).await;
    let ask = async |statement: &str| refusal(served.session.query_unpaged(statement, &[]).await);
    let (error, _) = ask("CREATE TABLE t (pk int PRIMARY KEY)").await;
    assert_eq!(error, DbError::AlreadyExists { keyspace: "d".into(), table: "t".into() });
    let (error, text) = ask("SELECT * FROM nowhere").await;
    assert_eq!((error, text.as_str()), (DbError::Invalid, "table nowhere does not exist"));
    let (error, text) = ask("SELECT nothing FROM t").await;
    assert_eq!(error, DbError::Invalid);
    assert!(text.contains("nothing"), "{text}");
    let (error, _) = ask("SELEKT * FROM t").await;
    assert_eq!(error, DbError::SyntaxError);
    served.stop();
}
