//! Prepared statements, schema changes, restarts.

use super::world::{Request, World, int, number, rows_of, text, values};
use model::ErrorCode;
use model::failure::Detail;
use shard::{Response, Session};
use std::rc::Rc;

const CREATE_KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const CREATE_TABLE: &str = "CREATE TABLE k.t (p int PRIMARY KEY, v text)";

fn world(shards: usize) -> World {
    let mut world = World::start(shards);
    world.run_query(CREATE_KEYSPACE);
    world.run_query(CREATE_TABLE);
    world
}

#[test]
fn what_one_core_prepares_every_core_executes_also_after_a_restart() {
    for (shards, later) in [(1, 2), (3, 3), (4, 2), (2, 4)] {
        let mut world = world(shards);
        let insert = world.prepare(shards - 1, "INSERT INTO k.t (p, v) VALUES (?, ?)").expect("prepared");
        let select = world.prepare(0, "SELECT p, v FROM k.t WHERE p = ?").expect("prepared");
        for core in 0..shards {
            world.execute(core, insert, values(&[int(core as i32), text("x")])).expect("written");
        }
        world.stop();
        world.run(later);
        for core in 0..later {
            for p in 0..shards {
                let answer = world.execute(core, select, values(&[int(p as i32)])).expect("known after a restart");
                assert_eq!(number(&rows_of(answer)[0][0]), p as i64);
            }
        }
        world.crash();
        world.run(shards);
        assert_eq!(world.rows_on(shards - 1, "SELECT p FROM k.t").len(), shards);
    }
}

#[test]
fn ids_are_md5_of_the_text_and_of_the_keyspace_where_it_counts() {
    let mut world = world(2);
    let text = "SELECT v FROM k.t WHERE p = 1";
    assert_eq!(world.prepare(0, text).expect("prepared"), md5(text));
    world.run_query("USE k");
    assert_eq!(world.prepare(1, text).expect("prepared"), md5(text));
    let unqualified = "SELECT v FROM t WHERE p = 1";
    let warnings = world.on(0, move |shard, session| async move {
        let mut seen = Vec::new();
        for _ in 0..2 {
            seen.push(shard.prepare(&session, unqualified, None).await.expect("prepared").warnings);
        }
        seen
    });
    assert!(warnings[0][0].starts_with("`USE <keyspace>` with prepared statements is considered"), "{warnings:?}");
    assert!(warnings[1].is_empty());
    assert_eq!(world.prepare(0, unqualified).expect("prepared"), md5(&format!("k{unqualified}")));
    let metadata = world.on(0, move |shard, session| async move {
        let insert = shard.prepare(&session, "INSERT INTO k.t (p) VALUES (1)", None).await.expect("prepared");
        let select = shard.prepare(&session, "SELECT p FROM k.t", None).await.expect("prepared");
        (insert.result_metadata_id, select.result_metadata_id)
    });
    assert_eq!(metadata.0, md5(""));
    assert_eq!(metadata.1, md5("p\0org.apache.cassandra.db.marshal.Int32Type\0\0"));
}

fn md5(text: &str) -> [u8; 16] {
    use md5::Digest;
    md5::Md5::digest(text).into()
}

#[test]
fn statements_of_a_dropped_table_are_unprepared_for_ever() {
    let mut world = world(3);
    let select = world.prepare(0, "SELECT v FROM k.t WHERE p = ?").expect("prepared");
    let other = world.prepare(0, "SELECT cluster_name FROM system.local").expect("prepared");
    world.run_query("DROP TABLE k.t");
    world.run_query(CREATE_TABLE);
    for core in 0..3 {
        let failure = world.execute(core, select, values(&[int(1)])).expect_err("unprepared");
        assert_eq!(failure.code, ErrorCode::Unprepared);
        assert_eq!(failure.detail, Detail::Unprepared { id: select.to_vec() });
        assert!(failure.text.starts_with("Prepared query with ID "), "{failure}");
        world.execute(core, other, Request::default()).expect("another table's");
    }
    assert_eq!(world.prepare(1, "SELECT v FROM k.t WHERE p = ?").expect("prepared"), select);
    for core in 0..3 {
        world.execute(core, select, values(&[int(1)])).expect("prepared again");
    }
}

#[test]
fn every_core_serves_a_new_table_when_ddl_has_answered_and_is_told_once() {
    let mut world = World::start(4);
    for core in 0..4 {
        let keyspace = format!(
            "CREATE KEYSPACE k{core} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        );
        world.try_query(core, &keyspace, Request::default()).expect("created");
        world
            .try_query(core, &format!("CREATE TABLE k{core}.t (p int PRIMARY KEY)"), Request::default())
            .expect("made");
        for other in 0..4 {
            let insert = format!("INSERT INTO k{core}.t (p) VALUES ({other})");
            world.try_query(other, &insert, Request::default()).expect("written");
            assert_eq!(world.changes(other), 2 * (core + 1));
        }
        assert_eq!(world.rows_on(core, &format!("SELECT p FROM k{core}.t")).len(), 4);
    }
    let answer = world.try_query(2, "CREATE TABLE IF NOT EXISTS k0.t (p int PRIMARY KEY)", Request::default());
    assert!(matches!(answer.expect("nothing").response, Response::Void));
    assert_eq!(world.changes(0), 8);
}

#[test]
fn truncate_and_drop_empty_a_table_on_every_core() {
    let mut world = world(3);
    for p in 0..20 {
        world.run_query(&format!("INSERT INTO k.t (p, v) VALUES ({p}, 'x')"));
    }
    world.try_query(1, "TRUNCATE k.t", Request::default()).expect("truncated");
    assert_eq!(world.ints("SELECT count(*) FROM k.t"), [[0]]);
    world.run_query("INSERT INTO k.t (p, v) VALUES (1, 'y')");
    world.crash();
    world.run(2);
    assert_eq!(world.ints("SELECT p FROM k.t"), [[1]]);
}

#[test]
fn sessions_keep_their_keyspace_and_describe_pages() {
    let mut world = world(2);
    assert!(world.refusal("SELECT * FROM t", Request::default()).starts_with("No keyspace has been specified"));
    let used = world.on(1, |shard, _| async move {
        let session = Rc::new(Session::default());
        let answer = shard.query(&session, "USE k", &super::world::plain()).await.expect("used");
        assert!(matches!(answer.response, Response::SetKeyspace(name) if &*name == "k"));
        shard.query(&session, "SELECT * FROM t", &super::world::plain()).await.is_ok()
    });
    assert!(used);
    let all = world.rows_on(0, "DESCRIBE KEYSPACES").len();
    let pages = world.pages("DESCRIBE KEYSPACES", 2);
    assert_eq!(pages.concat().len(), all);
    assert_eq!(pages.len(), all / 2 + 1);
}

#[test]
fn a_shard_that_stops_refuses_and_what_it_acknowledged_stays() {
    let mut world = world(2);
    world.run_query("INSERT INTO k.t (p, v) VALUES (1, 'y')");
    let kept = world.on(0, |shard, _| async move { shard });
    world.stop();
    world.run(2);
    let failure = world.on(0, move |_, session| async move {
        kept.query(&session, "SELECT * FROM k.t", &super::world::plain()).await.expect_err("stopped")
    });
    assert_eq!((failure.code, &*failure.text), (ErrorCode::Overloaded, "The node is stopping"));
    assert_eq!(world.ints("SELECT p FROM k.t"), [[1]]);
}
