//! What a statement about a keyspace or table does on the disk: logged writes or none, directories, estimates of sizes.

use super::world::{Row, World, number};
use model::schema::VIRTUAL_KEYSPACES;
use shard::TableVerb;

const UNLOGGED: &str = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1} AND \
                        durable_writes = false";

/// The first column of all rows, sorted.
fn keys(world: &mut World) -> Vec<i64> {
    let mut keys: Vec<i64> = world.ints("SELECT p FROM k.t").iter().map(|row| row[0]).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn a_keyspace_without_durable_writes_keeps_what_a_stop_flushes_and_what_was_decided() {
    let mut world = World::start(2);
    world.run_query(UNLOGGED);
    world.run_query("CREATE TABLE k.t (p int PRIMARY KEY)");
    for p in 0..4 {
        world.run_query(&format!("INSERT INTO k.t (p) VALUES ({p})"));
    }
    world.stop();
    world.run(2);
    assert_eq!(keys(&mut world), [0, 1, 2, 3]);
    world.run_query("INSERT INTO k.t (p) VALUES (4)");
    world.run_query("INSERT INTO k.t (p) VALUES (5) IF NOT EXISTS");
    assert_eq!(keys(&mut world), [0, 1, 2, 3, 4, 5]);
    world.crash();
    world.run(2);
    assert_eq!(keys(&mut world), [0, 1, 2, 3, 5]);

    world.run_query("ALTER KEYSPACE k WITH durable_writes = true");
    world.run_query("INSERT INTO k.t (p) VALUES (6)");
    world.crash();
    world.run(2);
    assert_eq!(keys(&mut world), [0, 1, 2, 3, 5, 6]);

    world.run_query("ALTER KEYSPACE k WITH durable_writes = false");
    world.run_query("INSERT INTO k.t (p) VALUES (7)");
    world.crash();
    world.run(2);
    assert_eq!(keys(&mut world), [0, 1, 2, 3, 5, 6]);
}

#[test]
fn a_new_table_has_a_directory() {
    let mut world = World::start(2);
    world.run_query(UNLOGGED);
    world.run_query("CREATE TABLE k.t (p int PRIMARY KEY)");
    let files = world.on(1, |shard, _| async move {
        let schema = shard.schema();
        let table = schema.table("k", "t").expect("a table");
        let directory = shard::directory_of("/data".as_ref(), table);
        runtime::file::list_dir(&directory).await.expect("a directory").len()
    });
    assert_eq!(files, 0);
}

#[test]
fn virtual_tables_have_no_directories() {
    let mut world = World::start(1);
    world.run_query(UNLOGGED);
    world.run_query("CREATE TABLE k.t (p int PRIMARY KEY)");
    world.stop();
    world.run(1);
    let keyspaces =
        world.on(0, |_, _| async move { runtime::file::list_dir("/data/data".as_ref()).await.expect("listed") });
    let has = |name: &str| keyspaces.iter().any(|keyspace| keyspace.ends_with(name));
    assert!(has("k") && has("system_schema"), "{keyspaces:?}");
    assert!(!VIRTUAL_KEYSPACES.iter().any(|name| has(name)), "{keyspaces:?}");
}

/// Flushes everything and estimates sizes anew.
fn estimate(world: &mut World) {
    world.on(0, |shard, _| async move {
        shard.on_every_shard(TableVerb::FlushAll).await.expect("flushes");
        shard.refresh_size_estimates().await.expect("estimates");
    });
}

fn estimates(world: &mut World) -> Vec<Row> {
    world.rows_on(
        1,
        "SELECT partitions_count, mean_partition_size FROM system.size_estimates WHERE keyspace_name = 'k' AND \
         table_name = 't'",
    )
}

#[test]
fn size_estimates_follow_the_sstables() {
    let mut world = World::start(2);
    world.run_query(UNLOGGED);
    world.run_query("CREATE TABLE k.t (p int PRIMARY KEY)");
    estimate(&mut world);
    // Four tokens, and the range that wraps around is divided.
    assert_eq!(estimates(&mut world).len(), 5);
    assert!(estimates(&mut world).iter().all(|row| (number(&row[0]), number(&row[1])) == (0, 0)));
    for p in 0..500 {
        world.run_query(&format!("INSERT INTO k.t (p) VALUES ({p})"));
    }
    estimate(&mut world);
    let found = estimates(&mut world);
    let partitions: i64 = found.iter().map(|row| number(&row[0])).sum();
    assert!((495..=505).contains(&partitions), "{partitions}");
    assert!(found.iter().all(|row| (1..100).contains(&number(&row[1]))), "{found:?}");
    let types = world.ints(
        "SELECT sum(partitions_count) FROM system.table_estimates WHERE keyspace_name = 'k' AND table_name = 't' AND \
         range_type = 'primary'",
    );
    assert_eq!(types, [[partitions]]);
    world.run_query("DROP TABLE k.t");
    estimate(&mut world);
    assert!(estimates(&mut world).is_empty());
}
