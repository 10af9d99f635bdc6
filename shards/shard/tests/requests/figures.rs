//! The metrics that `system_views` shows after known work: reads, writes, batches, statements, snapshots, waiting
//! requests.

use super::world::{Request, Row, World, int, text, values};
use cluster::gossip::{ApplicationState, EndpointState, VersionedValue};
use model::BatchKind;
use model::Consistency;
use shard::metrics::Measure;
use shard::{CompactionScope, TableVerb};
use std::time::Duration;

const KEYSPACE: &str = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const TABLE: &str = "CREATE TABLE k.t (p int, c int, v int, PRIMARY KEY (p, c))";

fn world(shards: usize) -> World {
    let mut world = World::start(shards);
    [KEYSPACE, TABLE, "CREATE TABLE k.n (p int PRIMARY KEY, n counter)"].iter().for_each(|statement| {
        world.run_query(statement);
    });
    world
}

/// The value of `column` for a table of keyspace `k`, in the virtual table `of`.
fn figure(world: &mut World, of: &str, column: &str, table: &str) -> Vec<u8> {
    let query = format!("SELECT {column} FROM system_views.{of} WHERE keyspace_name = 'k' AND table_name = '{table}'");
    let last = world.rows_on(0, &query);
    last[0][0].clone().expect("a figure")
}

fn bigint(bytes: &[u8]) -> i64 {
    i64::from_be_bytes(bytes.try_into().expect("a bigint"))
}

fn double(bytes: &[u8]) -> f64 {
    f64::from_be_bytes(bytes.try_into().expect("a double"))
}

fn count(world: &mut World, of: &str, table: &str) -> i64 {
    bigint(&figure(world, of, "count", table))
}

#[test]
fn reads_and_writes_are_counted_once_on_each_side() {
    for shards in [1, 3] {
        let mut world = world(shards);
        for core in 0..shards {
            for p in 0..10 {
                let insert = format!("INSERT INTO k.t (p, c, v) VALUES ({p}, {core}, 1)");
                world.try_query(core, &insert, Request::default()).expect("writes");
                world.rows_on(core, &format!("SELECT * FROM k.t WHERE p = {p}"));
            }
        }
        let each = 10 * shards as i64;
        for of in ["local_read_latency", "coordinator_read_latency", "local_write_latency", "coordinator_write_latency"]
        {
            assert_eq!(count(&mut world, of, "t"), each, "{of} on {shards} cores");
            assert_eq!(count(&mut world, of, "n"), 0);
        }
        assert_eq!((count(&mut world, "local_scan_latency", "t"), count(&mut world, "rows_per_read", "t")), (0, each));
        world.rows_on(0, "SELECT * FROM k.t");
        world.rows_on(0, "SELECT count(*) FROM k.t");
        assert_eq!(count(&mut world, "coordinator_scan_latency", "t"), 2);
        assert_eq!(count(&mut world, "coordinator_read_latency", "t"), each);
        assert!(count(&mut world, "local_scan_latency", "t") >= 2 * shards as i64);
        world.rows_on(0, "SELECT * FROM k.t WHERE p IN (1, 2, 3)");
        assert_eq!(count(&mut world, "coordinator_read_latency", "t"), each + 3);
        for core in 0..shards {
            world.try_query(core, "UPDATE k.n SET n = n + 1 WHERE p = 1", Request::default()).expect("counts");
        }
        assert_eq!(count(&mut world, "coordinator_write_latency", "n"), shards as i64);
        assert_eq!(count(&mut world, "local_write_latency", "n"), shards as i64);
    }
}

#[test]
fn what_reads_meet_is_shown_while_it_is_recent() {
    let mut world = world(2);
    for c in 0..7 {
        world.run_query(&format!("INSERT INTO k.t (p, c, v) VALUES (1, {c}, 1)"));
    }
    for c in 0..3 {
        world.run_query(&format!("DELETE FROM k.t WHERE p = 1 AND c = {c}"));
    }
    for core in 0..2 {
        world.rows_on(core, "SELECT * FROM k.t WHERE p = 1");
    }
    let of = |world: &mut World, table: &str, column: &str| double(&figure(world, table, column, "t"));
    assert_eq!(of(&mut world, "rows_per_read", "max"), 4.0);
    assert_eq!(of(&mut world, "rows_per_read", "p50th"), 4.0);
    assert_eq!(of(&mut world, "tombstones_per_read", "p99th"), 3.0);
    let slowest = of(&mut world, "coordinator_read_latency", "max_ms");
    assert!(slowest >= of(&mut world, "coordinator_read_latency", "p50th_ms") && slowest < 10_000.0);
    assert_eq!(of(&mut world, "local_read_latency", "per_second"), 0.0);
    world.on(0, |_, _| runtime::sleep(Duration::from_secs(6)));
    assert!(of(&mut world, "local_read_latency", "per_second") > 0.0);
    for _ in 0..20 {
        world.on(0, |_, _| runtime::sleep(Duration::from_secs(45)));
    }
    assert_eq!(of(&mut world, "rows_per_read", "max"), 0.0);
    assert_eq!(count(&mut world, "rows_per_read", "t"), 2);
    // The metrics of a table are dropped with it.
    world.run_query("DROP TABLE k.t");
    world.run_query(TABLE);
    assert_eq!(count(&mut world, "rows_per_read", "t"), 0);
}

#[test]
fn batches_and_statements_are_counted() {
    let mut world = world(2);
    let insert = |p: i32| format!("INSERT INTO k.t (p, c, v) VALUES ({p}, 1, 1)");
    world.batch(0, BatchKind::Logged, &[insert(1), insert(1)]).expect("written");
    world.batch(1, BatchKind::Logged, &[insert(1), insert(2), insert(3)]).expect("written");
    world.batch(0, BatchKind::Unlogged, &[insert(1), insert(2)]).expect("written");
    world.run_query("BEGIN COUNTER BATCH UPDATE k.n SET n = n + 1 WHERE p = 1; APPLY BATCH");
    let max = |world: &mut World, kind: &str| {
        let query = format!("SELECT max FROM system_views.batch_metrics WHERE name = 'partitions_per_{kind}_batch'");
        world.ints(&query)[0][0]
    };
    assert_eq!([max(&mut world, "logged"), max(&mut world, "unlogged"), max(&mut world, "counter")], [3, 2, 1]);
    let value = |world: &mut World, name: &str| {
        let query = format!("SELECT value FROM system_views.cql_metrics WHERE name = '{name}'");
        let rows = world.rows_on(0, &query);
        double(rows[0][0].as_ref().expect("a value"))
    };
    assert_eq!(value(&mut world, "prepared_statements_count"), 0.0);
    let id = world.prepare(1, "SELECT * FROM k.t WHERE p = ?").expect("prepares");
    (0..2).for_each(|core| {
        world.execute(core, id, values(&[int(1)])).expect("executes");
    });
    assert_eq!(value(&mut world, "prepared_statements_count"), 1.0);
    assert_eq!(value(&mut world, "prepared_statements_executed"), 2.0);
    assert_eq!(value(&mut world, "prepared_statements_evicted"), 0.0);
    let regular = value(&mut world, "regular_statements_executed");
    let ratio = value(&mut world, "prepared_statements_ratio");
    // The queries for the metrics are statements themselves.
    assert_eq!(ratio, 2.0 / (2.0 + regular + 1.0));
}

#[test]
fn what_is_on_disk_is_shown_in_mebibytes() {
    let mut world = world(2);
    let of = |world: &mut World, table: &str, column: &str| bigint(&figure(world, table, column, "t"));
    let sizes = [
        ("disk_usage", "mebibytes"),
        ("max_sstable_size", "mebibytes"),
        ("max_partition_size", "mebibytes"),
        ("max_sstable_duration", "max_sstable_duration"),
    ];
    for (table, column) in sizes {
        assert_eq!(of(&mut world, table, column), 0, "{table}");
    }
    for timestamp in [1_000_000, 3_500_000] {
        world.run_query(&format!("INSERT INTO k.t (p, c, v) VALUES (1, {timestamp}, 1) USING TIMESTAMP {timestamp}"));
    }
    world.on(0, |shard, _| async move {
        let table = shard.schema().table("k", "t").expect("there").id;
        shard.on_every_shard(TableVerb::Flush(table)).await.expect("flushed");
    });
    let shown: Vec<i64> = sizes.iter().map(|(table, column)| of(&mut world, table, column)).collect();
    assert_eq!(shown, [1, 1, 1, 2500]);
    let pools = "SELECT completed_tasks FROM system_views.thread_pools WHERE name = ";
    let flushes = world.ints(&format!("{pools}'MemtableFlushWriter'"))[0][0];
    assert!(flushes >= 1);
    let compactions = world.ints(&format!("{pools}'CompactionExecutor'"))[0][0];
    world.run_query("INSERT INTO k.t (p, c, v) VALUES (1, 1, 1)");
    world.on(0, |shard, _| async move {
        let table = shard.schema().table("k", "t").expect("there").id;
        shard.on_every_shard(TableVerb::Flush(table)).await.expect("flushed");
        shard
            .on_every_shard(TableVerb::Compact { table, chosen: CompactionScope::All { split: false } })
            .await
            .expect("compacted");
    });
    assert!(world.ints(&format!("{pools}'CompactionExecutor'"))[0][0] > compactions);
    assert!(world.ints(&format!("{pools}'MemtableFlushWriter'"))[0][0] > flushes);
    world.on(0, |shard, _| async move {
        let table = shard.schema().tables.values().find(|table| table.name == "t").cloned().expect("there");
        shard.take_snapshot("kept", &[table], true, None).await.expect("taken");
    });
    let snapshots = "SELECT keyspace_name, table_name, ephemeral FROM system_views.snapshots WHERE name = 'kept'";
    assert_eq!(world.rows_on(1, snapshots), [[Some(b"k".to_vec()), Some(b"t".to_vec()), Some(vec![0])]]);
    assert!(world.ints("SELECT size_on_disk FROM system_views.snapshots WHERE name = 'kept'")[0][0] > 0);
}

#[test]
fn requests_that_wait_are_shown() {
    let mut world = world(2);
    // A read of the running requests waits for the other core, so it finds itself in the list.
    for core in 0..2 {
        let query = "SELECT thread_id, task FROM system_views.queries";
        let rows = world.rows_on(core, query);
        assert_eq!(rows.len(), 1);
        let shown = rows[0][1].clone().expect("a text");
        let shown = String::from_utf8(shown).expect("a text");
        assert_eq!(shown, format!("QUERY {query} [pageSize = -1] at consistency ONE"));
        assert_eq!(Some(format!("Native-Transport-Requests-{core}-0").into_bytes()), rows[0][0]);
    }
    let id = world.prepare(0, "SELECT task FROM system_views.queries WHERE thread_id = ?").expect("prepares");
    let request =
        Request { consistency: Some(Consistency::LocalOne), ..values(&[text("Native-Transport-Requests-0-0")]) };
    let rows = super::world::rows_of(world.execute(0, id, request).expect("executes"));
    let shown = String::from_utf8(rows[0][0].clone().expect("a text")).expect("a text");
    assert!(shown.starts_with("EXECUTE ") && shown.ends_with(" with 1 values at consistency LOCAL_ONE"), "{shown}");
    assert_eq!(world.ints("SELECT count(*) FROM system_views.queries"), [[1]]);
}

#[test]
fn what_gossip_knows_of_a_node_is_a_row_on_every_core() {
    let mut world = world(2);
    let query = "SELECT address, port, generation, heartbeat, status_with_port, status_with_port_version, tokens_version, \
                 \"schema\", dc FROM system_views.gossip_info";
    assert_eq!(world.rows_on(1, query), Vec::<Row>::new());
    let mut state = EndpointState::new(1_700_000_000, 7);
    let values = [
        (ApplicationState::STATUS_WITH_PORT, 3, "NORMAL,-42"),
        (ApplicationState::TOKENS, 4, "-42"),
        (ApplicationState::SCHEMA, 5, "59adb24e-f3cd-3e02-97f0-5b395827453f"),
    ];
    for (name, version, value) in values {
        state.replace(name, VersionedValue { version, value: value.into() });
    }
    world.gossip_of("127.0.0.2:7001".parse().expect("an address"), state);
    let (int, text) = (|value: i32| Some(value.to_be_bytes().to_vec()), |value: &str| Some(value.as_bytes().to_vec()));
    let row = vec![
        Some(vec![127, 0, 0, 2]),
        int(7001),
        int(1_700_000_000),
        int(7),
        text("NORMAL,-42"),
        int(3),
        int(4),
        text("59adb24e-f3cd-3e02-97f0-5b395827453f"),
        None,
    ];
    for core in 0..2 {
        assert_eq!(world.rows_on(core, query), std::slice::from_ref(&row));
    }
}

#[test]
fn every_measure_is_summed_over_the_cores() {
    let mut world = world(3);
    for p in 0..30 {
        world.run_query(&format!("INSERT INTO k.t (p, c, v) VALUES ({p}, 1, 1)"));
    }
    let counts = world.on(1, |shard, _| async move {
        let table = shard.schema().table("k", "t").expect("there").id;
        let found = shard.measured(&[Measure::LocalWrite, Measure::CoordinatorWrite]).await.expect("measured");
        found[&table].values().map(|distribution| distribution.count).collect::<Vec<_>>()
    });
    assert_eq!(counts, [30, 30]);
}
