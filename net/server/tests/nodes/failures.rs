//! A minority that is cut off, and a disk that fails while the metadata log is written.

use super::*;
use server::config::{CommitFailurePolicy, DiskFailurePolicy};
use std::io;

fn three(sim: &mut Sim) -> [Started; 3] {
    [ONE, TWO, THREE].map(|node| {
        let mut config = config(node);
        config.disk_failure_policy = DiskFailurePolicy::Die;
        config.commit_failure_policy = CommitFailurePolicy::Die;
        let started = begin(sim, node, 1, config);
        until(sim, "it serves", || started.serves());
        started
    })
}

/// The number of nodes that vote on the metadata, as `nodetool describecluster` tells.
pub(super) fn voters(described: &str) -> usize {
    described.lines().find_map(|line| line.strip_prefix("\tVoters: ")).map_or(0, |list| list.split(", ").count())
}

const KEYSPACE: &str = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}";

#[test]
fn a_minority_refuses_changes_of_the_schema_in_time_and_goes_on_with_data() {
    let mut sim = Sim::new(41, Options { buggify: false, ..Options::default() });
    let _nodes = three(&mut sim);
    run(&mut sim, || async {
        let mut one = client(ONE).await;
        query(&mut one, KEYSPACE).await;
        query(&mut one, "CREATE TABLE k.t (a int PRIMARY KEY, b int)").await;
    });
    [ONE, TWO].into_iter().for_each(|other| sim.partition(THREE, other, true));
    run(&mut sim, || async {
        let mut cut_off = client(THREE).await;
        let began = runtime::now();
        let refused = cut_off.query("CREATE TABLE k.u (a int PRIMARY KEY)", &QueryOptions::default()).await;
        let text = format!("{:?}", refused.expect_err("there is no majority"));
        assert!(text.contains("The cluster did not agree on a change of its metadata"), "{text}");
        let waited = runtime::now().since(began);
        assert!(waited <= Duration::from_secs(11), "{waited:?}");
        query(&mut cut_off, "INSERT INTO k.t (a, b) VALUES (1, 2)").await;
        assert_eq!(query(&mut cut_off, "SELECT b FROM k.t WHERE a = 1").await.rows.len(), 1);
        // The others go on, once they know that it is not there.
        query(&mut client(ONE).await, "CREATE TABLE k.v (a int PRIMARY KEY)").await;
    });
    [ONE, TWO].into_iter().for_each(|other| sim.partition(THREE, other, false));
    run(&mut sim, || async {
        let mut back = client(THREE).await;
        while back.query("SELECT a FROM k.v", &QueryOptions::default()).await.is_err() {
            runtime::sleep(Duration::from_millis(100)).await;
        }
        query(&mut back, "CREATE TABLE k.w (a int PRIMARY KEY)").await;
    });
}

#[test]
fn a_node_whose_disk_fails_under_the_metadata_log_ends_and_the_others_go_on() {
    let mut sim = Sim::new(42, Options { buggify: false, ..Options::default() });
    let [_one, two, _three] = three(&mut sim);
    // One of two voters would be no majority.
    run(&mut sim, || async {
        while voters(&tool(ONE, "describecluster", &[], &[]).await) < 3 {
            runtime::sleep(Duration::from_millis(100)).await;
        }
    });
    sim.set_disk_fault(TWO, |call, _| call.writes().then(|| io::Error::other("the disk is gone")));
    run(&mut sim, || async {
        let mut one = client(ONE).await;
        query(&mut one, KEYSPACE).await;
        query(&mut one, "CREATE TABLE k.t (a int PRIMARY KEY)").await;
    });
    assert_eq!(two.ended(&mut sim), [Exit::DiskFailed]);
    run(&mut sim, || async {
        query(&mut client(THREE).await, "CREATE TABLE k.u (a int PRIMARY KEY)").await;
    });
    // With a disk that works again it takes part again.
    sim.clear_disk_fault(TWO);
    assert_eq!(start(&mut sim, TWO, 1, config(TWO)), []);
    run(&mut sim, || async {
        query(&mut client(TWO).await, "SELECT a FROM k.u").await;
    });
}
