//! Write timestamps when the wall clock is set back between two runs.

use super::world::{NODE, World};

const HOUR: i64 = 3_600_000_000;

/// A write in a run whose clock is an hour ahead, the end of that run by `end`, and a write in the next run.
fn later_write_wins(end: impl Fn(&mut World)) {
    for shards in [1, 2] {
        let mut world = World::start(shards);
        world.run_query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        world.run_query("CREATE TABLE k.t (a int PRIMARY KEY, b int)");
        world.sim.step_wall_clock(NODE, HOUR);
        for key in 0..8 {
            world.run_query(&format!("INSERT INTO k.t (a, b) VALUES ({key}, 1)"));
        }
        for round in 2..5 {
            end(&mut world);
            world.run(shards);
            for key in 0..8 {
                world.run_query(&format!("INSERT INTO k.t (a, b) VALUES ({key}, {round})"));
                let found = world.ints(&format!("SELECT b FROM k.t WHERE a = {key}"));
                assert_eq!(found, [[round]], "{shards} shards, round {round}, key {key}");
            }
        }
    }
}

#[test]
fn a_write_after_a_crash_is_later_than_those_before_it() {
    later_write_wins(World::crash);
}

#[test]
fn a_write_after_an_orderly_stop_is_later_than_those_before_it() {
    later_write_wins(World::stop);
}
