//! Plays a case file on a cluster of three nodes.

use crate::case::{Answers, CaseFile, Step};
use crate::layout::NODES;
use crate::names::{Names, identity};
use crate::step::{PROTOCOL_VERSION, play_step};
use server::client::{Client, QueryOptions};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use uuid::Uuid;

pub(crate) const NATIVE_PORT: u16 = 9042;
/// How often the nodes are asked for the version of their schema until all name the same, and how long to wait before.
const AGREEMENT_ATTEMPTS_MAX: usize = 300;
const AGREEMENT_WAIT: Duration = Duration::from_millis(100);

/// What a client program does; it gives lines.
pub(crate) type Work = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Vec<String>>>> + Send + Sync>;

/// Three nodes, counted from 1, and clients beside them.
pub(crate) trait Cluster {
    /// Where a node serves clients.
    fn address(&self, node: usize) -> IpAddr;

    /// Runs a client program to its end.
    fn run(&mut self, work: Work) -> Vec<String>;

    /// Runs a client program, and calls `change` with the number once the program has set the flag.
    fn run_beside(&mut self, work: Work, is_ready: Arc<AtomicBool>, change: Change) -> Vec<String>;

    /// Does what is asked for to a node.
    fn change(&mut self, change: Change);

    /// Lets time pass, so that a node which stood still catches up.
    fn settle(&mut self);
}

/// What happens to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// It is asked to stop.
    Stop(usize),
    /// It starts again, and serves clients at the end.
    Start(usize),
    /// It stands still.
    Pause(usize),
    /// It goes on.
    Resume(usize),
}

/// A cluster while a file is played.
struct Game<'c, C> {
    cluster: &'c mut C,
    /// Which nodes run.
    running: [bool; NODES],
    names: Names,
    /// The version of the schema that the nodes name.
    schema_version: Uuid,
}

/// Plays a file. The cluster is new.
pub(crate) fn play(cluster: &mut impl Cluster, file: &CaseFile) -> Answers {
    let addresses: Vec<IpAddr> = (1..=NODES).map(|node| cluster.address(node)).collect();
    let addresses: [IpAddr; NODES] = addresses.try_into().expect("three nodes");
    let hosts: Vec<(IpAddr, Uuid)> = addresses.iter().map(|address| identity_of(cluster, *address)).collect();
    let names = Names::new(addresses, &hosts);
    let mut game = Game { cluster, running: [true; NODES], names, schema_version: Uuid::nil() };
    game.agree();
    let mut answers = Answers::new();
    for case in &file.cases {
        answers.push(case.steps.iter().map(|step| game.play(step)).collect());
    }
    answers
}

fn identity_of(cluster: &mut impl Cluster, address: IpAddr) -> (IpAddr, Uuid) {
    let at = SocketAddr::new(address, NATIVE_PORT);
    let lines = cluster.run(Arc::new(move || {
        Box::pin(async move {
            let (address, host, _) = identity(at, PROTOCOL_VERSION).await;
            vec![address.to_string(), host.to_string()]
        })
    }));
    (lines[0].parse().expect("an address"), lines[1].parse().expect("a UUID"))
}

/// Whether an answer tells of a change of the schema.
fn is_change(lines: &[String]) -> bool {
    let last = lines.last().map(String::as_str).unwrap_or_default();
    ["created ", "updated ", "dropped "].iter().any(|verb| last.starts_with(verb))
}

impl<C: Cluster> Game<'_, C> {
    /// Waits until all nodes that run name the same version of the schema.
    fn agree(&mut self) {
        let nodes = self.running_nodes();
        let lines = self.cluster.run(Arc::new(move || {
            let nodes = nodes.clone();
            Box::pin(async move { vec![agreed_version(&nodes).await.to_string()] })
        }));
        self.schema_version = lines[0].parse().expect("a UUID");
    }

    fn play(&mut self, step: &Step) -> Vec<String> {
        let mut own = Step { statement: self.names.expanded(&step.statement), ..step.clone() };
        let (mut node, mut used, mut paused, mut any_order) = (1, None, None, false);
        own.directives.retain(|directive| {
            let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
            let number = || rest.parse::<usize>().expect("the number of a node");
            match word {
                "node" => node = number(),
                "use" => used = Some(format!("USE {rest}")),
                "stop" => self.until_told(Change::Stop(number())),
                "start" => self.until_told(Change::Start(number())),
                "pause" => paused = Some(number()),
                "any" => any_order = true,
                _ => return true,
            }
            false
        });
        let at = SocketAddr::new(self.cluster.address(node), NATIVE_PORT);
        paused.into_iter().for_each(|node| self.cluster.change(Change::Pause(node)));
        let lines = self.cluster.run(Arc::new(move || {
            let (own, used) = (own.clone(), used.clone());
            Box::pin(async move {
                let mut client = Client::connect(at, None, PROTOCOL_VERSION).await.expect("a connection");
                if let Some(text) = used {
                    client.query(&text, &QueryOptions::default()).await.expect("the keyspace is there");
                }
                play_step(&mut client, &own).await
            })
        }));
        if let Some(node) = paused {
            self.cluster.change(Change::Resume(node));
            self.cluster.settle();
        }
        if is_change(&lines) {
            self.agree();
        }
        let mut lines: Vec<String> =
            lines.iter().map(|line| self.names.applied_to(line, self.schema_version)).collect();
        if any_order {
            lines[1..].sort();
        }
        lines
    }

    /// Where the nodes that run serve clients.
    fn running_nodes(&self) -> Vec<SocketAddr> {
        let running = (1..=NODES).filter(|node| self.running[node - 1]);
        running.map(|node| SocketAddr::new(self.cluster.address(node), NATIVE_PORT)).collect()
    }

    /// Stops or starts a node, and waits until the other nodes that run have told their clients.
    fn until_told(&mut self, change: Change) {
        let (node, told) = match change {
            Change::Stop(node) => (node, "STATUS_CHANGE DOWN"),
            Change::Start(node) => (node, "STATUS_CHANGE UP"),
            Change::Pause(_) | Change::Resume(_) => unreachable!("nobody is told"),
        };
        self.running[node - 1] = false;
        let others = self.running_nodes();
        let expected = format!("{told} {}", SocketAddr::new(self.cluster.address(node), NATIVE_PORT));
        let is_ready = Arc::new(AtomicBool::new(false));
        let flag = is_ready.clone();
        let work: Work = Arc::new(move || {
            let (others, expected, flag) = (others.clone(), expected.clone(), flag.clone());
            Box::pin(async move {
                let mut clients = Vec::new();
                for other in &others {
                    let mut client = Client::connect(*other, None, PROTOCOL_VERSION).await.expect("a connection");
                    client.register().await.expect("registered");
                    clients.push(client);
                }
                flag.store(true, Ordering::Relaxed);
                for client in &mut clients {
                    while client.next_event().await.expect("the connection stays") != expected {}
                }
                Vec::new()
            })
        });
        self.cluster.run_beside(work, is_ready, change);
        if matches!(change, Change::Start(_)) {
            self.running[node - 1] = true;
            self.agree();
        }
    }
}

/// The version of the schema, once all these nodes name the same.
async fn agreed_version(nodes: &[SocketAddr]) -> Uuid {
    for _ in 0..AGREEMENT_ATTEMPTS_MAX {
        let mut versions = Vec::new();
        for node in nodes {
            versions.push(identity(*node, PROTOCOL_VERSION).await.2);
        }
        versions.dedup();
        if let [version] = versions[..] {
            return version;
        }
        runtime::sleep(AGREEMENT_WAIT).await;
    }
    panic!("the nodes do not agree on a schema")
}
