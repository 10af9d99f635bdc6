//! Repair: replicas that differ become equal, each asked alone.

use super::network::Fault;
use super::reads::{ALL, configured, write_on};
use super::replicas::stored;
use super::world::{Request, World, address, rows_of};
use model::{Consistency, Failure, TokenRange};
use shard::{HintChange, RepairAction, RepairOrder, RepairOutcome, RepairTerms, Shard, Verb};
use std::time::Duration;

/// Repairs `k.TABLE` from a node, with all others.
fn repair(world: &mut World, node: usize, table: &str, action: RepairAction) -> Result<RepairOutcome, String> {
    let table = table.to_owned();
    let done = world.on(node, 0, move |shard| async move { repair_all(&shard, &table, action).await });
    done.map_err(|failure| failure.text.to_string())
}

/// Repairs the whole ring of a table with all other nodes.
async fn repair_all(shard: &Shard, table: &str, action: RepairAction) -> Result<RepairOutcome, Failure> {
    let table = shard.schema().table("k", table).expect("a table").id;
    let topology = shard.topology();
    let others = topology.nodes().iter().map(|node| node.host_id).filter(|id| *id != shard.host_id());
    let others: Vec<_> = others.collect();
    let terms = RepairTerms { action, order: RepairOrder::Parallel, rest: 0, set: None };
    shard.repair(table, &[TokenRange::FULL], &others, terms).await
}

/// What all nodes have of the partitions `keys`, each asked alone.
fn contents(world: &mut World, table: &str, keys: std::ops::Range<i32>) -> Vec<Vec<(u32, Vec<u8>)>> {
    ALL.map(|node| keys.clone().map(|key| stored(world, node, table, key)).collect()).to_vec()
}

fn world(cores: &[usize]) -> World {
    configured(cores, " AND read_repair = 'NONE' AND speculative_retry = 'NEVER'", |_| {})
}

#[test]
fn replicas_that_missed_writes_become_equal_to_the_others() {
    let mut world = world(&[1, 2, 3]);
    for key in 0..200 {
        let nodes: &[usize] = match key % 10 {
            3 => &[0, 2],
            5 => &[0],
            7 => &[1, 2],
            _ => &ALL,
        };
        write_on(&mut world, nodes, &format!("INSERT INTO k.t (a, b, c) VALUES ({key}, 1, {key})"));
    }
    let before = contents(&mut world, "t", 0..200);
    assert!(before[0] != before[1] && before[1] != before[2]);
    let found = repair(&mut world, 0, "t", RepairAction::Preview).expect("previewed");
    assert_eq!((found.differing, found.mutations), (60, 0));
    // A partition that differs is a leaf of its own here. The others are in the order of their host ids.
    let pairs: Vec<((usize, usize), u64)> = found.out_of_sync.into_iter().collect();
    let [(_, one), (_, other), ((1, 2), between)] = pairs[..] else { panic!("{pairs:?}") };
    assert_eq!((one.min(other), one.max(other), between), (40, 60, 20));
    assert_eq!(contents(&mut world, "t", 0..200), before, "a preview changes nothing");
    let done = repair(&mut world, 0, "t", RepairAction::Repair).expect("repaired");
    // Key 5 is missed by two nodes, the others by one.
    assert_eq!((done.differing, done.mutations), (60, 80));
    let after = contents(&mut world, "t", 0..200);
    assert!(after[0] == after[1] && after[1] == after[2]);
    assert!(after[0].iter().all(|(rows, _)| *rows == 1));
    for node in ALL {
        let again = repair(&mut world, node, "t", RepairAction::Repair).expect("repaired");
        assert_eq!((again.differing, again.mutations, again.read_bytes), (0, 0, 0), "from node {node}");
    }
}

#[test]
fn what_was_deleted_is_deleted_everywhere() {
    let mut world = world(&[1, 2, 1]);
    for key in 0..40 {
        for row in 0..3 {
            write_on(&mut world, &ALL, &format!("INSERT INTO k.t (a, b, c) VALUES ({key}, {row}, {row})"));
        }
    }
    for key in 0..10 {
        write_on(&mut world, &[0], &format!("DELETE FROM k.t WHERE a = {key}"));
        write_on(&mut world, &[1], &format!("DELETE FROM k.t WHERE a = {} AND b = 1", key + 10));
        write_on(&mut world, &[2], &format!("DELETE FROM k.t WHERE a = {} AND b > 0", key + 20));
        write_on(&mut world, &[0, 2], &format!("DELETE c FROM k.t WHERE a = {} AND b = 2", key + 30));
    }
    repair(&mut world, 1, "t", RepairAction::Repair).expect("repaired");
    let after = contents(&mut world, "t", 0..40);
    assert!(after[0] == after[1] && after[1] == after[2]);
    let rows: Vec<u32> = [0, 10, 20, 30].map(|key| after[0][key].0).to_vec();
    assert_eq!(rows, [0, 2, 1, 3]);
    let again = repair(&mut world, 0, "t", RepairAction::Repair).expect("repaired");
    assert_eq!((again.differing, again.mutations), (0, 0));
}

#[test]
fn a_pull_changes_this_node_alone() {
    let mut world = world(&[1, 1, 1]);
    write_on(&mut world, &[0], "INSERT INTO k.t (a, b, c) VALUES (1, 1, 1)");
    write_on(&mut world, &[2], "INSERT INTO k.t (a, b, c) VALUES (2, 1, 1)");
    repair(&mut world, 0, "t", RepairAction::Pull).expect("repaired");
    let rows = contents(&mut world, "t", 1..3).into_iter().map(|of| of.iter().map(|(rows, _)| *rows).collect());
    assert_eq!(rows.collect::<Vec<Vec<u32>>>(), [vec![1, 1], vec![0, 0], vec![0, 1]]);
}

#[test]
fn a_wide_partition_takes_several_rounds() {
    let mut world = world(&[1, 1, 2]);
    world.everywhere(
        "CREATE TABLE k.v (a int, b int, c text, s int static, PRIMARY KEY (a, b)) WITH id = \
         00000002-0000-1000-8000-000000000000",
    );
    let text = "x".repeat(60_000);
    for row in 0..40 {
        let nodes: &[usize] = if row % 2 == 0 { &[0] } else { &[1, 2] };
        write_on(&mut world, nodes, &format!("INSERT INTO k.v (a, b, c) VALUES (1, {row}, '{text}')"));
    }
    repair(&mut world, 2, "v", RepairAction::Repair).expect("repaired");
    let after = contents(&mut world, "v", 1..2);
    assert!(after[0] == after[1] && after[1] == after[2]);
    assert_eq!(after[0][0].0, 40);
}

#[test]
fn a_replica_that_is_down_or_silent_ends_a_repair() {
    let mut world = world(&[1, 1, 1]);
    write_on(&mut world, &[0], "INSERT INTO k.t (a, b, c) VALUES (1, 1, 1)");
    world.network.set_silent(address(1), true);
    let result = world.begin(0, 0, |shard| async move { repair_all(&shard, "t", RepairAction::Repair).await });
    world.wait(Duration::from_secs(2));
    assert!(result.borrow().is_none(), "it waits for the answer");
    world.announce(&[0, 2]);
    world.wait(Duration::from_secs(2));
    let failed = result.borrow_mut().take().expect("it has ended").expect_err("a node is down").text.to_string();
    assert!(failed.starts_with(&format!("Endpoint /{}:", address(1))) && failed.ends_with(" died"), "{failed}");
    world.announce(&ALL);
    world.network.set_silent(address(1), false);
    world.crash(2);
    world.announce(&[0, 1]);
    let sent = world.network.sent(Verb::Validation);
    let failed = repair(&mut world, 0, "t", RepairAction::Repair).expect_err("a node is down");
    assert!(failed.starts_with(&format!("Endpoint /{}:", address(2))) && failed.ends_with(" died"), "{failed}");
    assert_eq!(world.network.sent(Verb::Validation), sent, "nobody is asked");
}

#[test]
fn a_coordinator_that_crashes_leaves_nothing_behind() {
    let mut world = world(&[1, 1, 1]);
    for key in 0..50 {
        write_on(&mut world, &[0], &format!("INSERT INTO k.t (a, b, c) VALUES ({key}, 1, {key})"));
    }
    let _never = world.begin(0, 0, |shard| async move { repair_all(&shard, "t", RepairAction::Repair).await });
    let network = world.network.clone();
    world.sim.run_until(Duration::from_secs(10), || network.sent(Verb::ReadRepair) >= 10);
    assert!((10..100).contains(&network.sent(Verb::ReadRepair)), "it is under way");
    world.crash(0);
    world.announce(&[1, 2]);
    // What it had sent before arrives.
    world.wait(Duration::from_secs(2));
    // The others serve, and a repair between them makes equal what each of them was given.
    let others_done = world.on(1, 0, |shard| async move {
        let table = shard.schema().table("k", "t").expect("a table").id;
        let topology = shard.topology();
        let live = topology.live();
        let other = (0..3u16).map(cluster::topology::NodeIndex).find(|at| *at != topology.here() && live.contains(*at));
        let other = topology.node(other.expect("another node")).host_id;
        let terms = RepairTerms { action: RepairAction::Repair, order: RepairOrder::Sequential, rest: 0, set: None };
        shard.repair(table, &[TokenRange::FULL], &[other], terms).await
    });
    others_done.expect("repaired");
    let rows = |world: &mut World, node| (0..50).map(|key| stored(world, node, "t", key)).collect::<Vec<_>>();
    assert_eq!(rows(&mut world, 1), rows(&mut world, 2));
}

#[test]
fn what_was_deleted_long_ago_on_one_replica_does_not_come_back() {
    let mut world = world(&[1, 1, 1]);
    world.everywhere(
        "CREATE TABLE k.v (a int, b int, c text, s int static, PRIMARY KEY (a, b)) WITH id = \
         00000002-0000-1000-8000-000000000000 AND gc_grace_seconds = 60 AND read_repair = 'NONE'",
    );
    for key in 0..4 {
        write_on(&mut world, &ALL, &format!("INSERT INTO k.v (a, b, c) VALUES ({key}, 1, 'x')"));
    }
    write_on(&mut world, &[0], "DELETE FROM k.v WHERE a = 1");
    write_on(&mut world, &[1], "DELETE FROM k.v WHERE a = 2 AND b = 1");
    // Node 0 could purge its deletion now, and would have to take the row from the others for missing.
    world.wait(Duration::from_secs(120));
    repair(&mut world, 0, "v", RepairAction::Repair).expect("repaired");
    for node in contents(&mut world, "v", 0..4) {
        assert_eq!(node.iter().map(|(rows, _)| *rows).collect::<Vec<u32>>(), [1, 0, 0, 1]);
    }
    let again = repair(&mut world, 2, "v", RepairAction::Repair).expect("repaired");
    assert_eq!((again.differing, again.mutations), (0, 0));
}

#[test]
fn a_repair_goes_on_when_the_ring_changes_between_its_segments() {
    let mut world = world(&[1, 1, 1]);
    for key in 0..40 {
        let nodes: &[usize] = if key % 2 == 0 { &ALL } else { &[key as usize % 3] };
        write_on(&mut world, nodes, &format!("INSERT INTO k.t (a, b, c) VALUES ({key}, 1, {key})"));
    }
    let done = world.begin(0, 0, |shard| async move {
        let table = shard.schema().table("k", "t").expect("a table").id;
        let topology = shard.topology();
        let others: Vec<_> =
            topology.nodes().iter().map(|node| node.host_id).filter(|id| *id != shard.host_id()).collect();
        // Long rests between the segments.
        let terms =
            RepairTerms { action: RepairAction::Repair, order: RepairOrder::Parallel, rest: u32::MAX, set: None };
        drop(topology);
        shard.repair(table, &[TokenRange::FULL], &others, terms).await
    });
    for _ in 0..3 {
        world.wait(Duration::from_secs(20));
        assert!(done.borrow().is_none(), "the repair rests");
        let members = world.members();
        world.switch(&ALL, members);
    }
    world.wait(Duration::from_secs(600));
    done.borrow_mut().take().expect("ended").expect("repaired");
    let after = contents(&mut world, "t", 0..40);
    assert!(after[0] == after[1] && after[1] == after[2]);
}

/// Repairs a table from a node with all others, and tells the replicas what that has proven. Returns the second of the
/// proof.
fn prove(world: &mut World, node: usize, table: &'static str) -> Option<i64> {
    world.on(node, 0, move |shard| async move {
        let id = shard.schema().table("k", table).expect("a table").id;
        let topology = shard.topology();
        let others: Vec<_> =
            topology.nodes().iter().map(|node| node.host_id).filter(|id| *id != shard.host_id()).collect();
        let proof = shard.begin_proof(id, &[TokenRange::FULL], &others).await?;
        shard.finish_proposals(id, &[TokenRange::FULL], &others).await.expect("finished");
        repair_all(&shard, table, RepairAction::Repair).await.expect("repaired");
        let second = proof.second();
        shard.end_proof(proof).await;
        Some(second)
    })
}

/// Compacts all that a node has of a table, and returns how many SSTables it has then.
fn compacted(world: &mut World, node: usize, table: &'static str) -> u64 {
    world.on(node, 0, move |shard| async move {
        let id = shard.schema().table("k", table).expect("a table").id;
        let chosen = shard::CompactionScope::All { split: false };
        shard.on_every_shard(shard::TableVerb::Compact { table: id, chosen }).await.expect("compacted");
        shard.statistics(id).await.expect("statistics").sstables
    })
}

#[test]
fn p7_what_was_deleted_does_not_come_back_from_a_replica_that_was_away_for_longer_than_gc_grace() {
    let mut world = world(&[1, 2, 1]);
    let options = "gc_grace_seconds = 60 AND read_repair = 'NONE'";
    world.everywhere(&format!(
        "CREATE TABLE k.v (a int, b int, c text, s int static, PRIMARY KEY (a, b)) WITH id = \
         00000002-0000-1000-8000-000000000000 AND {options} AND tombstone_gc = {{'mode': 'repair', \
         'propagation_delay_in_seconds': '10'}}"
    ));
    for key in 0..8 {
        write_on(&mut world, &ALL, &format!("INSERT INTO k.v (a, b, c) VALUES ({key}, 1, 'x')"));
    }
    for key in 0..8 {
        let nodes: &[usize] = if key < 4 { &[0, 1] } else { &ALL };
        write_on(&mut world, nodes, &format!("DELETE FROM k.v WHERE a = {key}"));
    }
    world.wait(Duration::from_secs(3600));
    let rows = |world: &mut World| {
        contents(world, "v", 0..8).into_iter().map(|of| of.iter().map(|(rows, _)| *rows).sum()).collect::<Vec<u32>>()
    };
    for node in ALL {
        assert!(compacted(&mut world, node, "v") > 0, "node {node} keeps the deletions");
    }
    assert_eq!(rows(&mut world), [0, 0, 4], "node 2 has missed half of them");
    // While it is away nothing is proven, and what is repaired without it proves nothing.
    world.crash(2);
    world.announce(&[0, 1]);
    assert_eq!(prove(&mut world, 0, "v"), None);
    world.restart(2, &ALL);
    world.announce(&ALL);
    let second = prove(&mut world, 0, "v").expect("a proof");
    assert_eq!(rows(&mut world), [0, 0, 0]);
    for node in ALL {
        assert_eq!(compacted(&mut world, node, "v"), 0, "node {node} may forget them");
    }
    let again = repair(&mut world, 1, "v", RepairAction::Repair).expect("repaired");
    assert_eq!((again.differing, again.mutations), (0, 0));
    assert_eq!(rows(&mut world), [0, 0, 0]);
    // What is younger than the proof stays, also after a restart.
    write_on(&mut world, &ALL, "DELETE FROM k.v WHERE a = 1");
    world.crash(1);
    world.restart(1, &ALL);
    world.announce(&ALL);
    world.wait(Duration::from_secs(600));
    assert_eq!(ALL.map(|node| compacted(&mut world, node, "v")), [1; 3]);
    assert!(prove(&mut world, 2, "v").expect("a proof") > second);
    // A node that restarts still knows what was proven.
    world.crash(0);
    world.restart(0, &ALL);
    world.announce(&ALL);
    world.wait(Duration::from_secs(5));
    assert_eq!(ALL.map(|node| compacted(&mut world, node, "v")), [0; 3]);
}

#[test]
fn what_one_replica_has_purged_does_not_differ_for_others_that_have_not() {
    let mut world = world(&[1, 1, 1]);
    world.everywhere(
        "CREATE TABLE k.v (a int, b int, c text, s int static, PRIMARY KEY (a, b)) WITH id = \
         00000002-0000-1000-8000-000000000000 AND read_repair = 'BLOCKING' AND tombstone_gc = {'mode': 'repair', \
         'propagation_delay_in_seconds': '0'}",
    );
    write_on(&mut world, &ALL, "DELETE FROM k.v WHERE a = 1");
    world.wait(Duration::from_secs(60));
    prove(&mut world, 0, "v").expect("a proof");
    assert_eq!(compacted(&mut world, 1, "v"), 0);
    let sent = world.network.sent(Verb::ReadRepair);
    let read = super::reads::read(&mut world, 0, "SELECT * FROM k.v WHERE a = 1", model::Consistency::All);
    assert_eq!(read, Ok(Vec::new()));
    assert_eq!(world.network.sent(Verb::ReadRepair), sent);
    let again = repair(&mut world, 2, "v", RepairAction::Preview).expect("repaired");
    assert_eq!(again.differing, 0);
}

/// The second since 1970 at a node.
fn now(world: &mut World) -> i64 {
    world.on(0, 0, |_| async { runtime::wall_micros().div_euclid(1_000_000) })
}

fn pause_hints(world: &mut World, is_paused: bool) {
    for node in ALL {
        let change = HintChange::Paused(is_paused);
        world.on(node, 0, move |shard| async move { shard.change_hints(change).await }).expect("changed");
    }
}

#[test]
fn p7_a_hint_that_waits_holds_a_proof_of_repair_back() {
    let options = " AND read_repair = 'NONE' AND speculative_retry = 'NEVER' AND tombstone_gc = {'mode': 'repair', \
                   'propagation_delay_in_seconds': '0'}";
    let mut world = configured(&[1, 2, 1], options, |config| {
        config.hints.enabled = true;
        config.hints.flush_period = Duration::from_millis(100);
    });
    pause_hints(&mut world, true);
    // What the deletion deletes waits for node 2, and would come to it after the deletion is forgotten.
    write_on(&mut world, &[0, 1], "INSERT INTO k.t (a, b, c) VALUES (1, 1, 1)");
    let hinted = now(&mut world);
    world.wait(Duration::from_secs(1));
    write_on(&mut world, &ALL, "DELETE FROM k.t WHERE a = 1");
    world.wait(Duration::from_secs(3600));
    let second = prove(&mut world, 0, "t").expect("a proof");
    assert!(second <= hinted, "{second} {hinted}");
    for node in ALL {
        assert_eq!(compacted(&mut world, node, "t"), 1, "node {node} keeps the deletion");
    }
    pause_hints(&mut world, false);
    world.wait(Duration::from_secs(60));
    let second = prove(&mut world, 0, "t").expect("a proof");
    assert!(second > hinted + 3600, "{second} {hinted}");
    for node in ALL {
        assert_eq!(compacted(&mut world, node, "t"), 0, "node {node} may forget it");
    }
    assert_eq!(contents(&mut world, "t", 1..2).concat().iter().map(|(rows, _)| *rows).sum::<u32>(), 0);
}

#[test]
fn p7_a_logged_batch_that_waits_holds_a_proof_of_repair_back() {
    let options = " AND read_repair = 'NONE' AND speculative_retry = 'NEVER' AND tombstone_gc = {'mode': 'repair', \
                   'propagation_delay_in_seconds': '0'}";
    let four = [0, 1, 2, 3];
    let mut world = configured(&[1, 1, 1, 1], options, |_| {});
    // No replica but the coordinator gets what is in the batch, which two others keep.
    world.network.lost.borrow_mut().insert(Verb::Mutation);
    let text = "BEGIN BATCH INSERT INTO k.t (a, b, c) VALUES (1, 1, 1); INSERT INTO k.t (a, b, c) VALUES (2, 1, 1); \
                APPLY BATCH";
    let batch = Request { consistency: Consistency::All, ..Request::new(text) };
    world.query(0, 0, &batch).expect_err("too late for the client");
    let batched = now(&mut world);
    world.network.lost.borrow_mut().clear();
    let kept = "SELECT id FROM system.batches";
    let keeps = four.map(|node| rows_of(world.query(node, 0, &Request::new(kept)).expect("read")).0.len());
    let without = (1..4).find(|node| keeps[*node] == 0).expect("a node that does not keep it");
    assert_eq!(keeps.iter().sum::<usize>(), 2, "{keeps:?}");
    for key in [1, 2] {
        let text = format!("DELETE FROM k.t WHERE a = {key}");
        let deletion = Request { consistency: Consistency::All, ..Request::new(&text) };
        world.query(0, 0, &deletion).expect("deleted");
    }
    // What the batch has still waits for this node, and would come to it after the deletions are forgotten.
    world.network.faults.borrow_mut().insert((address(without), Verb::Mutation), Fault::Lost);
    world.wait(Duration::from_secs(120));
    let second = prove(&mut world, 0, "t").expect("a proof");
    assert!(second <= batched, "{second} {batched}");
    for node in four {
        assert_eq!(compacted(&mut world, node, "t"), 1, "node {node} keeps the deletions");
    }
    world.network.faults.borrow_mut().clear();
    world.wait(Duration::from_secs(60));
    let second = prove(&mut world, 0, "t").expect("a proof");
    assert!(second > batched, "{second} {batched}");
    for node in four {
        assert_eq!(compacted(&mut world, node, "t"), 0, "node {node} may forget them");
        assert_eq!([1, 2].map(|key| stored(&mut world, node, "t", key).0), [0, 0]);
    }
}

#[test]
fn a_start_forgets_what_is_proven_of_dropped_tables() {
    let mut world = world(&[1, 1, 1]);
    let noted = |world: &mut World| {
        let answer = world.query(0, 0, &Request::new("SELECT table_id FROM system.helenus_repaired"));
        rows_of(answer.expect("read")).0.len()
    };
    write_on(&mut world, &ALL, "INSERT INTO k.t (a, b, c) VALUES (1, 1, 1)");
    prove(&mut world, 0, "t").expect("a proof");
    assert_eq!(noted(&mut world), 1);
    world.everywhere("DROP TABLE k.t");
    world.crash(0);
    world.restart(0, &ALL);
    assert_eq!(noted(&mut world), 0);
}
