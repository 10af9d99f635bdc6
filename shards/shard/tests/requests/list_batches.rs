//! Batches that change elements of lists, from several cores concurrently.

use super::world::{World, plain};
use model::{BatchEntry, BatchKind, BatchStatement};
use runtime::sim::Stop;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Batches per core.
const BATCHES: i32 = 8;
/// Partitions that each batch changes, in an order that differs from batch to batch.
const PARTITIONS: i32 = 4;
/// Initial number of elements of each list.
const ELEMENTS: i32 = 40;

#[test]
fn batches_that_read_never_see_the_same_list_and_do_not_wait_for_each_other() {
    for shards in 1..=3 {
        let mut world = World::start(shards);
        world.run_query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        world.run_query("CREATE TABLE k.q (p int PRIMARY KEY, l list<int>)");
        let elements: Vec<String> = (0..ELEMENTS).map(|n| n.to_string()).collect();
        for p in 0..PARTITIONS {
            world.run_query(&format!("INSERT INTO k.q (p, l) VALUES ({p}, [{}])", elements.join(", ")));
        }
        let done = Rc::new(Cell::new(0));
        for core in 0..shards {
            let done = done.clone();
            world.on(core, move |shard, session| async move {
                for n in 0..BATCHES {
                    let (shard, session, done) = (shard.clone(), session.clone(), done.clone());
                    runtime::spawn(async move {
                        let first = n + core as i32;
                        let step = if n % 2 == 0 { 1 } else { PARTITIONS - 1 };
                        let partitions = (0..PARTITIONS).map(|i| (first + i * step) % PARTITIONS);
                        let texts: Vec<String> =
                            partitions.map(|p| format!("DELETE l[0] FROM k.q WHERE p = {p}")).collect();
                        let entries: Vec<BatchEntry<'_>> = texts
                            .iter()
                            .map(|text| BatchEntry { statement: BatchStatement::Text(text), values: Vec::new() })
                            .collect();
                        let kind = if n % 3 == 0 { BatchKind::Unlogged } else { BatchKind::Logged };
                        shard.batch(&session, kind, &entries, &plain()).await.expect("written");
                        done.set(done.get() + 1);
                    });
                }
            });
        }
        let all = shards as i32 * BATCHES;
        assert_eq!(world.sim.run_until(Duration::from_secs(60), || done.get() == all), Stop::Condition);
        for row in world.rows_on(0, "SELECT l FROM k.q") {
            let list = row[0].as_deref().expect("a list");
            let int = |at: usize| i32::from_be_bytes(list[at..at + 4].try_into().expect("four bytes"));
            assert_eq!((int(0), int(8)), (ELEMENTS - all, all), "as many as there were batches are gone");
        }
        world.stop();
    }
}
