//! DDL and TRUNCATE through [`shard::Shard`] in the simulator: across crashes, and with another number of cores,
//! dropped data stays gone and all other data stays.

use super::world::{Request, World, number};
use model::ErrorCode;
use std::time::Duration;

const CREATE_KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
/// So slow that a DROP TABLE takes longer than the cluster may take to agree on it.
const SLOW_DISK: Duration = Duration::from_millis(400);
const ID: &str = "5a1c395e-b41f-11e5-9f22-ba0be0483c18";

fn create_with_id() -> String {
    format!("CREATE TABLE k.t (p int PRIMARY KEY, v int) WITH ID = {ID}")
}

fn fill(world: &mut World, values: i32) {
    for p in 0..20 {
        world.run_query(&format!("INSERT INTO k.t (p, v) VALUES ({p}, {values})"));
    }
}

fn count(world: &mut World) -> i64 {
    world.ints("SELECT count(*) FROM k.t")[0][0]
}

fn version(world: &mut World, core: usize) -> Vec<u8> {
    let rows = world.rows_on(core, "SELECT schema_version FROM system.local WHERE key = 'local'");
    let stored = rows[0][0].clone().expect("a version");
    let served = world.on(core, |shard, _| async move { shard.schema().version.as_bytes().to_vec() });
    assert_eq!(stored, served, "core {core}");
    stored
}

#[test]
fn a_drop_on_a_slow_disk_is_answered_when_it_is_done() {
    let mut world = World::start(2);
    world.run_query(CREATE_KEYSPACE);
    world.run_query(&create_with_id());
    fill(&mut world, 1);
    world.sim.set_disk_latency((SLOW_DISK, SLOW_DISK));
    let began = world.on(0, |_, _| async { runtime::now() });
    world.run_query("DROP TABLE k.t");
    let took = world.on(0, move |_, _| async move { runtime::now().since(began) });
    assert!(took > Duration::from_secs(20), "longer than agreeing and preparing may take: {took:?}");
    assert_eq!(world.refusal("SELECT * FROM k.t", Request::default()), "table t does not exist");
}

#[test]
fn a_table_made_again_with_its_id_is_empty_whatever_happens_between() {
    for crashes in 0..8 {
        for (shards, later) in [(1, 1), (2, 3), (3, 2)] {
            let mut world = World::start(shards);
            let restart = |world: &mut World, bit: u32, to: usize| {
                if crashes >> bit & 1 == 1 {
                    world.crash();
                    world.run(to);
                }
            };
            world.run_query(CREATE_KEYSPACE);
            world.run_query(&create_with_id());
            fill(&mut world, 1);
            restart(&mut world, 0, later);
            assert_eq!(count(&mut world), 20);
            world.run_query("DROP TABLE k.t");
            restart(&mut world, 1, shards);
            world.run_query(&create_with_id());
            assert_eq!(count(&mut world), 0);
            restart(&mut world, 2, later);
            assert_eq!(count(&mut world), 0);
            fill(&mut world, 2);
            world.crash();
            world.run(shards);
            assert_eq!(count(&mut world), 20, "{crashes} {shards}");
            assert_eq!(world.ints("SELECT v FROM k.t WHERE p = 3"), [[2]]);
        }
    }
}

#[test]
fn what_was_truncated_stays_gone_and_what_came_after_stays() {
    for (shards, later) in [(1, 2), (2, 1), (3, 3)] {
        let mut world = World::start(shards);
        world.run_query(CREATE_KEYSPACE);
        world.run_query("CREATE TABLE k.t (p int PRIMARY KEY, v int)");
        for round in 0..3 {
            fill(&mut world, round);
            world.run_query("TRUNCATE k.t");
            assert_eq!(count(&mut world), 0);
            world.run_query("INSERT INTO k.t (p, v) VALUES (100, 7)");
            world.crash();
            world.run(if round % 2 == 0 { later } else { shards });
            assert_eq!(world.ints("SELECT p, v FROM k.t"), [[100, 7]], "round {round} of {shards}");
        }
        let failure = world.try_query(0, "TRUNCATE system.local", Request::default()).expect_err("refused");
        assert_eq!(failure.code, ErrorCode::Unauthorized);
    }
}

#[test]
fn every_effective_change_has_a_version_of_its_own_on_every_core() {
    let mut world = World::start(3);
    let mut seen = vec![version(&mut world, 0)];
    let statements = [
        (CREATE_KEYSPACE, true),
        ("CREATE TABLE k.t (p int PRIMARY KEY)", true),
        ("CREATE TABLE IF NOT EXISTS k.t (p int PRIMARY KEY)", false),
        ("DROP TABLE k.t", true),
        ("DROP TABLE IF EXISTS k.t", false),
        ("DROP KEYSPACE k", true),
        (CREATE_KEYSPACE, true),
    ];
    for (i, (statement, effective)) in statements.into_iter().enumerate() {
        world.try_query(i % 3, statement, Request::default()).expect(statement);
        let now = version(&mut world, 0);
        assert!((1..3).all(|core| version(&mut world, core) == now), "{statement}");
        assert_eq!(!seen.contains(&now), effective, "{statement}");
        seen.push(now);
    }
    let last = version(&mut world, 0);
    world.crash();
    world.run(2);
    assert_eq!(version(&mut world, 1), last);
}

#[test]
fn identity_is_kept_over_restarts() {
    let mut world = World::start(2);
    let select = "SELECT host_id, tokens, gossip_generation FROM system.local";
    let first = world.rows_on(0, select);
    world.crash();
    world.run(4);
    let second = world.rows_on(3, select);
    assert_eq!(first[0][..2], second[0][..2]);
    assert!(number(&second[0][2]) > number(&first[0][2]));
    assert!(world.rows_on(1, "SELECT * FROM system.peers").is_empty());
    assert!(world.rows_on(1, "SELECT * FROM system.peers_v2").is_empty());
    assert!(world.rows_on(1, "SELECT * FROM system_schema.scylla_tables WHERE keyspace_name = 'k'").is_empty());
    let named = "SELECT keyspace_name, table_name, partitioner FROM system_schema.scylla_tables";
    let refused = world.try_query(1, named, Request::default()).expect_err("as if it were not there");
    assert_eq!((refused.code, &*refused.text), (ErrorCode::Invalid, "table scylla_tables does not exist"));
    let tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'system_schema'";
    assert_eq!(world.rows_on(2, tables).len(), 11);
    assert_eq!(world.rows_on(2, "SELECT index_name FROM system_schema.indexes").len(), 1);
}

#[test]
fn tablets_of_keyspaces_are_kept_and_shown() {
    let mut world = World::start(2);
    let create = "CREATE KEYSPACE t WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': '1'}  AND \
                  durable_writes = true";
    let tablets = " AND tablets = {'enabled': true, 'initial': 4}";
    world.run_query(&format!("{create}{tablets}"));
    let described = |world: &mut World| {
        let cell = world.rows_on(1, "DESCRIBE ONLY KEYSPACE t")[0][3].clone().expect("a text");
        String::from_utf8_lossy(&cell).into_owned()
    };
    let stored = "SELECT keyspace_name, initial_tablets FROM system_schema.scylla_keyspaces";
    let row = vec![Some(b"t".to_vec()), Some(4i32.to_be_bytes().to_vec())];
    for _ in 0..2 {
        assert_eq!(described(&mut world), format!("{create}{tablets};"));
        assert_eq!(world.rows_on(1, stored), std::slice::from_ref(&row));
        world.crash();
        world.run(2);
    }
    let shown = "SELECT * FROM system_schema.tables WHERE keyspace_name = 'system_schema' AND table_name = \
                 'scylla_keyspaces'";
    assert!(world.rows_on(0, shown).is_empty());
    for created in [create.to_owned(), format!("{create} AND tablets = {{'enabled': true}}")] {
        world.run_query("DROP KEYSPACE t");
        assert!(world.rows_on(0, stored).is_empty());
        world.run_query(&created);
        world.crash();
        world.run(2);
        assert_eq!(described(&mut world), format!("{created};"));
    }
}

#[test]
fn tablets_of_tables_are_kept_and_shown() {
    let mut world = World::start(2);
    world.run_query(
        "CREATE KEYSPACE t WITH replication = {'class': 'NetworkTopologyStrategy'} AND tablets = {'enabled': true}",
    );
    world.run_query("CREATE TABLE t.t (p int PRIMARY KEY) WITH tablets = {'min_tablet_count': 4}");
    let described = |world: &mut World| {
        let cell = world.rows_on(1, "DESCRIBE TABLE t.t")[0][3].clone().expect("a text");
        String::from_utf8_lossy(&cell).into_owned()
    };
    world.crash();
    world.run(2);
    assert!(described(&mut world).ends_with("\n    AND tablets = {'min_tablet_count': '4'};"));
    world.run_query("ALTER TABLE t.t WITH tablets = {'max_tablet_count': 8, 'expected_data_size_in_gb': 2}");
    let shown = "\n    AND tablets = {'expected_data_size_in_gb': '2', 'max_tablet_count': '8'};";
    assert!(described(&mut world).ends_with(shown));
    // The text makes the same table again.
    let text = described(&mut world);
    world.run_query("DROP TABLE t.t");
    world.run_query(&text);
    world.crash();
    world.run(2);
    assert_eq!(described(&mut world), text);
    world.run_query("ALTER TABLE t.t WITH tablets = {}");
    assert!(!described(&mut world).contains("tablets"));
}

#[test]
fn the_option_tombstone_gc_is_kept_shown_and_changed() {
    let mut world = World::start(2);
    world.run_query(CREATE_KEYSPACE);
    let option = "tombstone_gc = {'mode': 'repair', 'propagation_delay_in_seconds': '60'}";
    world.run_query(&format!("CREATE TABLE k.t (p int PRIMARY KEY, v int) WITH {option}"));
    let text = |world: &mut World, statement: &str, column: usize| {
        let cell = world.rows_on(1, statement)[0][column].clone().expect("a text");
        String::from_utf8_lossy(&cell).into_owned()
    };
    let described = |world: &mut World| text(world, "DESCRIBE TABLE k.t", 3);
    let extensions = "SELECT extensions FROM system_schema.tables WHERE keyspace_name = 'k' AND table_name = 't'";
    world.crash();
    world.run(2);
    world.run_query("ALTER TABLE k.t WITH comment = 'x'");
    assert!(described(&mut world).ends_with(&format!("\n    AND {option};")), "{}", described(&mut world));
    let stored = text(&mut world, extensions, 0);
    assert!(stored.contains("helenus.tombstone_gc") && stored.contains("repair 60"), "{stored}");
    for (option, refused) in [
        (
            "{'mode': 'x'}",
            "Invalid value 'x' for 'mode' of tombstone_gc: must be timeout, repair, immediate or disabled",
        ),
        ("{'modus': 'x'}", "Unknown option 'modus' of tombstone_gc"),
        ("'repair'", "Invalid value for property 'tombstone_gc'. It should be a map."),
    ] {
        let text = format!("ALTER TABLE k.t WITH tombstone_gc = {option}");
        assert_eq!(world.refusal(&text, Request::default()), refused);
    }
    world.run_query("ALTER TABLE k.t WITH tombstone_gc = {'mode': 'disabled'}");
    assert!(described(&mut world).ends_with("\n    AND tombstone_gc = {'mode': 'disabled'};"));
    world.run_query("ALTER TABLE k.t WITH tombstone_gc = {'mode': 'timeout'}");
    assert!(!described(&mut world).contains("tombstone_gc"));
    assert!(!text(&mut world, extensions, 0).contains("helenus.tombstone_gc"));
}
