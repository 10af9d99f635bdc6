//! Runs a case file against a server.

use crate::case::{Answers, Case, CaseFile};
use crate::step::{PROTOCOL_VERSION, play_step};
use server::client::{Client, QueryOptions};
use std::net::{IpAddr, SocketAddr};

const NATIVE_PORT: u16 = 9042;

/// Runs a file on a real server.
pub(crate) fn on_server(file: &CaseFile, address: IpAddr) -> Answers {
    let file = file.clone();
    let options = runtime::uring::Options::default();
    let answers = runtime::uring::run(options, move |_| {
        let file = file.clone();
        async move { play(&file, SocketAddr::new(address, NATIVE_PORT), 1).await }
    });
    answers.expect("a ring").remove(0)
}

/// Runs a file on a simulated node with a partitioner and `shards` cores.
pub(crate) fn on_simulated_node(file: &CaseFile, partitioner: &str, shards: usize) -> Answers {
    on_simulated_nodes(file, partitioner, &[shards])
}

/// Runs a file on simulated nodes of one cluster, all of which are replicas, and of which the last coordinates.
pub(crate) fn on_simulated_nodes(file: &CaseFile, partitioner: &str, shards: &[usize]) -> Answers {
    crate::node::with_simulated_nodes(partitioner, shards, {
        let (file, replicas) = (file.clone(), shards.len());
        move |address| {
            let file = file.clone();
            async move { play(&file, address, replicas).await }
        }
    })
}

async fn play(file: &CaseFile, address: SocketAddr, replicas: usize) -> Answers {
    let mut answers = Answers::new();
    for case in &file.cases {
        answers.push(play_case(case, address, replicas).await);
    }
    answers
}

async fn play_case(case: &Case, address: SocketAddr, replicas: usize) -> Vec<Vec<String>> {
    let mut client = Client::connect(address, None, PROTOCOL_VERSION).await.expect("a connection");
    let create =
        format!("CREATE KEYSPACE k WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}");
    for setup in
        ["DROP KEYSPACE IF EXISTS k", "DROP KEYSPACE IF EXISTS k2", "DROP KEYSPACE IF EXISTS k3", &create, "USE k"]
    {
        let result = client.query(setup, &QueryOptions::default()).await;
        assert!(result.is_ok(), "{}: {setup}: {result:?}", case.name);
    }
    let mut answers = Vec::new();
    for step in &case.steps {
        answers.push(play_step(&mut client, step).await);
    }
    answers
}
