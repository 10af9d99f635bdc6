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
        async move { play(&file, SocketAddr::new(address, NATIVE_PORT)).await }
    });
    answers.expect("a ring").remove(0)
}

/// Runs a file on a simulated node with a partitioner and `shards` cores.
pub(crate) fn on_simulated_node(file: &CaseFile, partitioner: &str, shards: usize) -> Answers {
    crate::node::with_simulated_node(partitioner, shards, {
        let file = file.clone();
        move |address| {
            let file = file.clone();
            async move { play(&file, address).await }
        }
    })
}

async fn play(file: &CaseFile, address: SocketAddr) -> Answers {
    let mut answers = Answers::new();
    for case in &file.cases {
        answers.push(play_case(case, address).await);
    }
    answers
}

async fn play_case(case: &Case, address: SocketAddr) -> Vec<Vec<String>> {
    let mut client = Client::connect(address, None, PROTOCOL_VERSION).await.expect("a connection");
    for setup in [
        "DROP KEYSPACE IF EXISTS k",
        "DROP KEYSPACE IF EXISTS k2",
        "DROP KEYSPACE IF EXISTS k3",
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "USE k",
    ] {
        let result = client.query(setup, &QueryOptions::default()).await;
        assert!(result.is_ok(), "{}: {setup}: {result:?}", case.name);
    }
    let mut answers = Vec::new();
    for step in &case.steps {
        answers.push(play_step(&mut client, step).await);
    }
    answers
}
