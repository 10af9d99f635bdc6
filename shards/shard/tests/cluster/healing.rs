//! A damaged SSTable is replaced by what the other replicas have.

use super::reads::{ALL, configured, write_on};
use super::replicas::stored;
use super::world::{Request, World, address, rows_of};
use engine::verify::{Check, Depth};
use model::{Consistency, Partitioner, ShardMap};
use runtime::NodeId;
use shard::{TableAnswer, TableVerb};
use std::path::PathBuf;
use std::time::Duration;

/// Longer than the time between two looks for damaged SSTables.
const A_WHILE: Duration = Duration::from_secs(15);
const ROWS: i32 = 200;
/// After so many looks an SSTable that could not be opened is replaced.
const LOOKS_MAX: usize = 4;

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

/// Starts a node that has crashed with so many cores, of which all learn.
fn restart_with(world: &mut World, node: usize, cores: u16) {
    world.restart_with(node, cores.into(), |_| {});
    world.announce(&ALL);
    let mut members = world.members();
    for member in members.iter_mut().filter(|member| member.address.ip() == address(node)) {
        member.shards = ShardMap::new(Partitioner::Murmur3, cores);
    }
    world.switch(&ALL, members);
}

/// After a start with another number of cores every core serves every SSTable until it is split, and this one is not.
#[test]
fn s5_a_damaged_sstable_that_several_cores_serve_is_replaced() {
    let mut world = world();
    world.crash(1);
    let file = damage(&mut world, 1);
    restart_with(&mut world, 1, 3);
    for _ in 0..LOOKS_MAX {
        if files(&world, 1, false).contains(&file) {
            world.wait(A_WHILE);
        }
    }
    assert!(!files(&world, 1, false).contains(&file), "the table has it no more");
    let kept = files(&world, 1, true);
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(kept[0].file_name(), file.file_name());
    assert_eq!(told(&mut world, 1), Vec::<Vec<Option<Vec<u8>>>>::new());
    for again in [false, true] {
        for key in 0..ROWS {
            assert_eq!(stored(&mut world, 1, "t", key).0, 1, "key {key} on the node alone, restarted: {again}");
        }
        assert_eq!(count(&mut world, 0, Consistency::All), ROWS as usize);
        world.crash(1);
        restart_with(&mut world, 1, 3);
    }
}

/// A world whose rows are all deleted, by deletions that may be forgotten at once; the SSTable of a node that has its
/// deletions alone.
fn with_forgettable_deletions(node: usize) -> (World, PathBuf) {
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
    let before = files(&world, node, false);
    flush(&mut world, node);
    let file = files(&world, node, false).into_iter().find(|file| !before.contains(file)).expect("that of deletions");
    (world, file)
}

/// Each core of the node has rows in SSTables that it alone serves, one of which the deletions of the damaged one hide.
#[test]
fn a_damaged_sstable_that_several_cores_serve_stays_if_one_of_them_needs_its_deletions() {
    let (mut world, file) = with_forgettable_deletions(1);
    world.crash(1);
    world.sim.mutate_file(NodeId(2), &file, |bytes| bytes[20] ^= 0x10);
    restart_with(&mut world, 1, 3);
    world.wait(A_WHILE * LOOKS_MAX as u32);
    assert!(files(&world, 1, false).contains(&file), "without it the rows would be back");
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
    let (mut world, file) = with_forgettable_deletions(2);
    // The others forget rows and deletions.
    for node in [0, 1] {
        let compacted = world.on(node, 0, |shard| async move {
            let table = shard.schema().table("k", "t").expect("a table").id;
            let chosen = engine::compaction::CompactionScope::All { split: false };
            shard.on_every_shard(TableVerb::Compact { table, chosen }).await
        });
        compacted.expect("compacted");
    }
    world.sim.mutate_file(NodeId(3), &file, |bytes| bytes[20] ^= 0x10);
    assert!(is_damaged(&mut world, 2));
    world.wait(A_WHILE);
    assert!(files(&world, 2, false).contains(&file), "without it the rows would be back");
}

/// Damages a file of an SSTable of `k.t`, or of its index, while the node is down.
fn damage_while_down(world: &mut World, node: usize, end: &str, of_index: bool) -> PathBuf {
    world.crash(node);
    let files = world.sim.files(NodeId(node as u32 + 1)).into_iter().map(|(path, _)| path);
    let is_wanted = |path: &PathBuf| {
        let text = path.to_string_lossy();
        text.contains("/k/t-") && text.contains("/.byc/") == of_index && text.ends_with(end)
    };
    let file = files.into_iter().find(is_wanted).expect("a file");
    assert!(world.sim.mutate_file(NodeId(node as u32 + 1), &file, |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
    }));
    world.restart(node, &ALL);
    file
}

/// What a node tells of damaged SSTables.
fn told(world: &mut World, node: usize) -> Vec<Vec<Option<Vec<u8>>>> {
    let text = "SELECT keyspace_name, table_name, file, problem, state FROM system_views.damaged_sstables";
    rows_of(world.query(node, 0, &Request::new(text)).expect("read")).0
}

#[test]
fn s5_an_sstable_that_cannot_be_opened_is_replaced_by_what_the_other_replicas_have() {
    for end in ["-Statistics.db", "-Partitions.db", "-Filter.db", "-Helenus.db"] {
        let mut world = world();
        let file = damage_while_down(&mut world, 1, end, false);
        let rows = told(&mut world, 1);
        assert_eq!(rows.len(), 1, "{end}: {rows:?}");
        let text = |column: usize| String::from_utf8(rows[0][column].clone().unwrap_or_default()).expect("text");
        assert_eq!((text(0), text(1)), ("k".to_owned(), "t".to_owned()));
        assert_eq!(PathBuf::from(text(2)).parent(), file.parent());
        assert!(text(3).contains(end), "{}", text(3));
        assert!(is_damaged(&mut world, 1), "{end}");
        for key in 0..ROWS {
            let request = Request {
                consistency: Consistency::Quorum,
                ..Request::new(&format!("SELECT c FROM k.t WHERE a = {key}"))
            };
            for node in [0, 2] {
                let (rows, _) = rows_of(world.query(node, 0, &request).expect("the other replicas have it"));
                assert_eq!(rows, [[Some(key.to_be_bytes().to_vec())]], "{end}: no hole");
            }
        }
        for _ in 0..LOOKS_MAX {
            if !told(&mut world, 1).is_empty() {
                world.wait(A_WHILE);
            }
        }
        assert_eq!(told(&mut world, 1), Vec::<Vec<Option<Vec<u8>>>>::new(), "{end}");
        assert_eq!(files(&world, 1, true).len(), 1, "{end}");
        for key in 0..ROWS {
            assert_eq!(stored(&mut world, 1, "t", key).0, 1, "{end}: key {key} on the node alone");
        }
        world.crash(1);
        world.restart(1, &ALL);
        assert_eq!(told(&mut world, 1), Vec::<Vec<Option<Vec<u8>>>>::new(), "{end}");
        assert_eq!(count(&mut world, 1, Consistency::All), ROWS as usize);
    }
}

#[test]
fn an_index_whose_sstable_cannot_be_opened_is_built_again() {
    let mut world = world();
    damage_while_down(&mut world, 1, "-Statistics.db", true);
    assert_eq!(told(&mut world, 1), Vec::<Vec<Option<Vec<u8>>>>::new());
    world.wait(A_WHILE);
    for again in [false, true] {
        for key in 0..ROWS {
            let text = format!("SELECT a FROM k.t WHERE c = {key}");
            let request = Request { consistency: Consistency::All, ..Request::new(&text) };
            assert_eq!(rows_of(world.query(1, 0, &request).expect("read")).0.len(), 1, "{again} {key}");
        }
        world.crash(1);
        world.restart(1, &ALL);
    }
}
