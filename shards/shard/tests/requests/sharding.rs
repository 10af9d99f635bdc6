//! Partitions that an application spreads by a column of its own.

use super::world::{World, int, values};
use std::collections::BTreeSet;

const TABLE: &str = "CREATE TABLE tracker.blogs (id uuid, title text, publish_date text, shard int, \
                     PRIMARY KEY ((publish_date, shard), title))";

fn world() -> World {
    let mut world = World::start(2);
    world.run_query("CREATE KEYSPACE tracker WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    world.run_query(TABLE);
    world
}

#[test]
fn a_row_is_found_by_its_computed_shard_and_a_day_by_all_of_them() {
    let mut world = world();
    for row in 0..300 {
        world.run_query(&format!(
            "INSERT INTO tracker.blogs (publish_date, shard, title, id) VALUES ('d', shard_of('title {row}', 20), 'title {row}', uuid())"
        ));
    }
    let found = world.rows_on(1, "SELECT title FROM tracker.blogs WHERE publish_date = 'd' AND shard = shard_of('title 7', 20) AND title = 'title 7'");
    assert_eq!(found.len(), 1);
    let shards: Vec<String> = (0..20).map(|shard| shard.to_string()).collect();
    let day = format!("SELECT title FROM tracker.blogs WHERE publish_date = 'd' AND shard IN ({})", shards.join(", "));
    assert_eq!(world.rows_on(0, &day).len(), 300);
    let used: BTreeSet<i64> =
        world.ints("SELECT DISTINCT publish_date, shard FROM tracker.blogs").iter().map(|row| row[1]).collect();
    assert_eq!(used, (0..20).collect());
    let same = world.ints("SELECT shard, shard_of(title, 20), shard_of(title, (int)20) FROM tracker.blogs");
    assert!(same.len() == 300 && same.iter().all(|row| row[0] == row[1] && row[1] == row[2]));
}

#[test]
fn random_shards_are_spread_and_the_number_may_be_bound() {
    let mut world = world();
    let insert = "INSERT INTO tracker.blogs (publish_date, shard, title) VALUES ('d', random_shard(?), 'x')";
    let id = world.prepare(0, insert).expect("prepared");
    for _ in 0..100 {
        world.execute(0, id, values(&[int(5)])).expect("written");
    }
    let shards: BTreeSet<i64> = world.ints("SELECT shard FROM tracker.blogs").iter().map(|row| row[0]).collect();
    assert_eq!(shards, (0..5).collect(), "a hundred rows miss one of five shards once in a billion times");
}

#[test]
fn wrong_calls_are_refused() {
    let mut world = world();
    let mut refusal = |call: &str| world.refusal(&format!("SELECT {call} FROM system.local"), values(&[]));
    let positive = "The number of shards in shard_of has to be positive";
    assert_eq!(refusal("shard_of(cluster_name, 0)"), positive);
    assert_eq!(refusal("random_shard(-1)"), "The number of shards in random_shard has to be positive");
    assert_eq!(refusal("shard_of(cluster_name)"), "Invalid number of arguments for function system.shard_of(any, int)");
    let number = "Function system.shard_of requires an argument of type int, but found argument";
    assert!(refusal("shard_of(cluster_name, cluster_name)").starts_with(number));
}
