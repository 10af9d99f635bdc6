//! A damaged SSTable is replaced by what the other replicas have.

use super::reads::{ALL, configured, write_on};
use super::replicas::stored;
use super::world::{Request, World, rows_of};
use engine::verify::{Check, Depth};
use model::Consistency;
use runtime::NodeId;
use shard::{TableAnswer, TableVerb};
use std::path::PathBuf;
use std::time::Duration;

/// Longer than the time between two looks for damaged SSTables.
const A_WHILE: Duration = Duration::from_secs(15);
const ROWS: i32 = 200;

fn world() -> World {
    let mut world = configured(&[1, 2, 1], " AND read_repair = 'NONE' AND speculative_retry = 'NEVER'", |_| {});
    for key in 0..ROWS {
        write_on(&mut world, &ALL, &format!("INSERT INTO k.t (a, b, c) VALUES ({key}, 1, {key})"));
    }
    for node in ALL {
        flush(&mut world, node);
    }
    world
}

fn flush(world: &mut World, node: usize) {
    world.on(node, 0, |shard| async move { shard.on_every_shard(TableVerb::FlushAll).await }).expect("flushed");
}

/// The Data.db files of `k.t` on a node, those in snapshots or not.
fn files(world: &World, node: usize, in_snapshots: bool) -> Vec<PathBuf> {
    let files = world.sim.files(NodeId(node as u32 + 1)).into_iter().map(|(path, _)| path);
    let is_wanted = |path: &PathBuf| {
        let text = path.to_string_lossy();
        text.contains("/k/t-")
            && !text.contains("/.")
            && text.ends_with("-Data.db")
            && text.contains("/snapshots/damaged-") == in_snapshots
    };
    files.filter(is_wanted).collect()
}

/// Flips a bit in an SSTable of a node.
fn damage(world: &mut World, node: usize) -> PathBuf {
    let file = files(world, node, false).into_iter().next().expect("an SSTable");
    world.sim.mutate_file(NodeId(node as u32 + 1), &file, |bytes| bytes[20] ^= 0x10);
    file
}

/// Reads all of `k.t` on a node's disk, so that the damage is met; whether there was any.
fn is_damaged(world: &mut World, node: usize) -> bool {
    let found = world.on(node, 0, |shard| async move {
        let table = shard.schema().table("k", "t").expect("a table").id;
        let check = Check { depth: Depth::Checksums, latest: false, invokes_policy: false };
        shard.on_every_shard(TableVerb::Verify { table, check }).await
    });
    found.expect("checked").iter().any(|answer| matches!(answer, TableAnswer::Verified(Some(_))))
}

fn count(world: &mut World, node: usize, consistency: Consistency) -> usize {
    let request = Request { consistency, ..Request::new("SELECT a FROM k.t") };
    rows_of(world.query(node, 0, &request).expect("read")).0.len()
}

#[test]
fn s5_a_damaged_sstable_is_replaced_by_what_the_other_replicas_have() {
    let mut world = world();
    let file = damage(&mut world, 1);
    assert!(is_damaged(&mut world, 1));
    world.wait(A_WHILE);
    assert!(!files(&world, 1, false).contains(&file), "the table has it no more");
    let kept = files(&world, 1, true);
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(kept[0].file_name(), file.file_name());
    assert!(!is_damaged(&mut world, 1));
    for key in 0..ROWS {
        assert_eq!(stored(&mut world, 1, "t", key).0, 1, "key {key} on the node alone");
    }
    assert_eq!(count(&mut world, 0, Consistency::All), ROWS as usize);
    world.crash(1);
    world.restart(1, &ALL);
    assert!(!is_damaged(&mut world, 1));
    for key in 0..ROWS {
        assert_eq!(stored(&mut world, 1, "t", key).0, 1, "key {key} after a restart");
    }
}

#[test]
fn a_damaged_sstable_stays_while_a_replica_is_down() {
    let mut world = world();
    let file = damage(&mut world, 0);
    world.announce(&[0, 1]);
    assert!(is_damaged(&mut world, 0));
    world.wait(A_WHILE);
    assert!(files(&world, 0, false).contains(&file), "what the third replica has is not known");
    world.announce(&ALL);
    world.wait(A_WHILE);
    assert!(!files(&world, 0, false).contains(&file));
    assert_eq!(count(&mut world, 0, Consistency::All), ROWS as usize);
}

#[test]
fn a_damaged_sstable_stays_if_its_deletions_may_be_forgotten_elsewhere() {
    let mut world = world();
    for statement in [
        "ALTER TABLE k.t WITH gc_grace_seconds = 0",
        "ALTER TABLE k.t WITH compaction = \
        {'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}",
    ] {
        world.everywhere(statement);
    }
    for key in 0..ROWS {
        write_on(&mut world, &ALL, &format!("DELETE FROM k.t WHERE a = {key}"));
    }
    let before = files(&world, 2, false);
    flush(&mut world, 2);
    // The others forget rows and deletions.
    for node in [0, 1] {
        let compacted = world.on(node, 0, |shard| async move {
            let table = shard.schema().table("k", "t").expect("a table").id;
            let chosen = engine::compaction::CompactionScope::All { split: false };
            shard.on_every_shard(TableVerb::Compact { table, chosen }).await
        });
        compacted.expect("compacted");
    }
    let file = files(&world, 2, false).into_iter().find(|file| !before.contains(file)).expect("that of deletions");
    world.sim.mutate_file(NodeId(3), &file, |bytes| bytes[20] ^= 0x10);
    assert!(is_damaged(&mut world, 2));
    world.wait(A_WHILE);
    assert!(files(&world, 2, false).contains(&file), "without it the rows would be back");
}
