//! Runs a case file against a server.

use crate::case::{Answers, Case, CaseFile};
use crate::step::{PROTOCOL_VERSION, play_step, words_of_error};
use server::client::{CallError, Client, QueryOptions};
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

/// Runs a file of cases with several users, who log in, on a real server.
pub(crate) fn access_on_server(file: &CaseFile, address: IpAddr) -> Answers {
    let file = file.clone();
    let options = runtime::uring::Options::default();
    let answers = runtime::uring::run(options, move |_| {
        let file = file.clone();
        async move { play_access(&file, SocketAddr::new(address, NATIVE_PORT)).await }
    });
    answers.expect("a ring").remove(0)
}

/// The same on a simulated node.
pub(crate) fn access_on_simulated_node(file: &CaseFile, shards: usize) -> Answers {
    let options = [
        "authenticator=PasswordAuthenticator",
        "authorizer=CassandraAuthorizer",
        "network_authorizer=CassandraNetworkAuthorizer",
        "dynamic_data_masking_enabled=true",
    ];
    let options = options.map(str::to_owned);
    crate::node::with_configured_nodes(&options, &[shards], {
        let file = file.clone();
        move |address| {
            let file = file.clone();
            async move { play_access(&file, address).await }
        }
    })
}

/// A statement is sent by the user of its `@as`, or else by the one before. Every user logs in once in a case.
async fn play_access(file: &CaseFile, address: SocketAddr) -> Answers {
    let mut answers = Answers::new();
    for case in &file.cases {
        let mut users: Vec<(String, Client)> = Vec::new();
        let (mut at, mut lines) = (0, Vec::new());
        let mut root = login(address, "cassandra cassandra").await.expect("the default superuser");
        clear(&mut root).await;
        for step in &case.steps {
            let mut step = step.clone();
            if let Some(user) = step.directives.iter().find_map(|directive| directive.strip_prefix("as ")) {
                at = users.iter().position(|(known, _)| known == user).unwrap_or(users.len());
                if at == users.len() {
                    match login(address, user).await {
                        Ok(client) => users.push((user.to_owned(), client)),
                        Err(error) => {
                            lines.push(vec![words_of_error(&error)]);
                            continue;
                        }
                    }
                }
            }
            step.directives.retain(|directive| !directive.starts_with("as "));
            lines.push(play_step(&mut users[at].1, &step).await);
        }
        answers.push(lines);
    }
    answers
}

/// Logs in as `name password`.
pub(crate) async fn login(address: SocketAddr, user: &str) -> Result<Client, CallError> {
    let (name, password) = user.split_once(' ').expect("a name and a password");
    Client::connect_as(address, PROTOCOL_VERSION, name, password).await
}

/// Sends a statement that succeeds.
pub(crate) async fn run(client: &mut Client, text: &str) {
    client.query(text, &QueryOptions::default()).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
}

/// The answers of a real server to the matrix of grants.
pub(crate) fn matrix_on_server(address: IpAddr) -> String {
    let options = runtime::uring::Options::default();
    let answers = runtime::uring::run(options, move |_| async move {
        crate::access_matrix::play(SocketAddr::new(address, NATIVE_PORT)).await
    });
    answers.expect("a ring").remove(0)
}

/// Drops what an earlier case has left, and creates the keyspace `k`.
async fn clear(root: &mut Client) {
    let roles = root.query("SELECT role FROM system_auth.roles", &QueryOptions::default()).await.expect("roles");
    for role in roles.rows.iter().filter_map(|row| row.first()?.as_deref()) {
        let role = String::from_utf8_lossy(role);
        if role != "cassandra" {
            run(root, &format!("DROP ROLE '{role}'")).await;
        }
    }
    for text in [
        "DROP KEYSPACE IF EXISTS k",
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    ] {
        run(root, text).await;
    }
}
