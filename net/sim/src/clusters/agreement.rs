//! CREATE TABLE from all nodes at once: how long it takes, and that all nodes agree on what came of it.

use super::members::{AGREEMENT_MAX, Cluster};
use model::ErrorCode;
use runtime::rng;
use server::client::{CallError, Client, QueryOptions};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// The nodes of the cluster, and the clients of each.
const NODES: usize = 3;
const CLIENTS: usize = 3;
/// Longest that all statements may take, virtual time for each.
const STATEMENT_MAX: Duration = Duration::from_secs(2);

/// What came of CREATE TABLE statements.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Agreement {
    /// Tables that were created.
    pub created: u64,
    /// Statements that were told that their table exists.
    pub existed: u64,
    /// The middle and the longest time of one, virtual microseconds.
    pub median: u64,
    /// See [`Agreement::median`].
    pub longest: u64,
}

#[derive(Default)]
pub(super) struct Progress {
    begun: u64,
    micros: Vec<u64>,
    created: BTreeSet<u64>,
    existed: u64,
    broken: Option<String>,
}

impl Progress {
    /// Takes in what was created later.
    pub(super) fn add(&mut self, later: &Progress) {
        self.created.extend(&later.created);
    }

    pub(super) fn agreement(&mut self) -> Agreement {
        self.micros.sort_unstable();
        Agreement {
            created: self.created.len() as u64,
            existed: self.existed,
            median: self.micros.get(self.micros.len() / 2).copied().unwrap_or_default(),
            longest: self.micros.last().copied().unwrap_or_default(),
        }
    }
}

/// Creates tables through all nodes of three at once, by three clients each, with names that meet, `count` statements
/// in all. Then all nodes must serve exactly the tables that were created.
///
/// # Errors
/// An answer other than made or "already exists", or nodes that do not agree.
pub fn run_agreement(seed: u64, count: u64) -> Result<Agreement, String> {
    let mut run = formed(seed)?;
    let progress = create_tables(&mut run, CLIENTS * NODES, count)?;
    check_tables(&mut run, &progress)?;
    Ok(progress.borrow_mut().agreement())
}

/// Creates tables one after another through the first of three nodes: `count` while all live, then `count` right after
/// one was killed, before anybody has convicted it. Returns both.
///
/// # Errors
/// As [`run_agreement`].
pub fn run_with_a_dead_node(seed: u64, count: u64) -> Result<[Agreement; 2], String> {
    let mut run = formed(seed)?;
    let before = create_tables(&mut run, 1, count)?.borrow_mut().agreement();
    // Not the leader, because an election is a matter of its own: the first node made the cluster.
    run.sim.kill(run.members[2].id);
    run.members.pop();
    let after = create_tables(&mut run, 1, count)?.borrow_mut().agreement();
    Ok([before, after])
}

fn formed(seed: u64) -> Result<Cluster, String> {
    let mut run = Cluster::new(seed);
    (0..NODES).for_each(|_| run.add_node());
    run.all_ready("the first start")?;
    run.check_ring(AGREEMENT_MAX)?;
    run.create_keyspace()?;
    Ok(run)
}

pub(super) fn create_tables(run: &mut Cluster, clients: usize, count: u64) -> Result<Rc<RefCell<Progress>>, String> {
    let (progress, servers) = (Rc::new(RefCell::new(Progress::default())), run.servers());
    let shared = progress.clone();
    // One after another each has a name of its own; at once, names meet.
    let names = if clients > 1 { count * 2 / 3 } else { u64::MAX };
    let done = run.outside(STATEMENT_MAX * count as u32, move || {
        let (servers, progress) = (servers.clone(), shared.clone());
        async move {
            let tasks = (0..clients).map(|client| create(servers[client % servers.len()], count, names, &progress));
            runtime::sync::join_all(tasks.collect()).await;
        }
    });
    done.map_err(|error| format!("{error}, {} statements begun", progress.borrow().begun))?;
    match progress.borrow_mut().broken.take() {
        Some(broken) => Err(broken),
        None => Ok(progress.clone()),
    }
}

/// One client: creates tables until enough statements have begun.
async fn create(server: SocketAddr, count: u64, names: u64, progress: &RefCell<Progress>) {
    let connected = Client::connect(server, None, 4).await;
    let Ok(mut client) = connected else {
        progress.borrow_mut().broken = Some(format!("{server} takes no client"));
        return;
    };
    while progress.borrow().begun < count && progress.borrow().broken.is_none() {
        progress.borrow_mut().begun += 1;
        let name = rng::below(names);
        let text = format!("CREATE TABLE changes.n{name} (k int PRIMARY KEY, v int)");
        let began = runtime::now();
        let result = client.query(&text, &QueryOptions::default()).await;
        let mut progress = progress.borrow_mut();
        progress.micros.push(runtime::now().since(began).as_micros() as u64);
        match result {
            Ok(_) if progress.created.insert(name) => {}
            Ok(_) => progress.broken = Some(format!("{text} was answered as made twice")),
            Err(CallError::Failure { code, .. }) if code == ErrorCode::AlreadyExists as u16 => progress.existed += 1,
            Err(error) => progress.broken = Some(format!("{text}: {error:?}")),
        }
    }
}

/// Checks that every node serves exactly the tables that were created.
pub(super) fn check_tables(run: &mut Cluster, progress: &RefCell<Progress>) -> Result<(), String> {
    let servers = run.servers();
    let served = run.outside(AGREEMENT_MAX, move || {
        let servers = servers.clone();
        async move { runtime::sync::join_all(servers.into_iter().map(tables).collect()).await }
    })?;
    let created = &progress.borrow().created;
    match served.iter().position(|tables| tables.as_ref() != Some(created)) {
        Some(node) => Err(format!("node {node} does not serve the tables that were created")),
        None => Ok(()),
    }
}

/// The tables of a node, by the numbers in their names.
async fn tables(server: SocketAddr) -> Option<BTreeSet<u64>> {
    let mut client = Client::connect(server, None, 4).await.ok()?;
    let text = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'changes'";
    let rows = client.query(text, &QueryOptions::default()).await.ok()?.rows;
    let number = |row: &Vec<Option<Vec<u8>>>| {
        std::str::from_utf8(row.first()?.as_ref()?).ok()?.strip_prefix('n')?.parse::<u64>().ok()
    };
    rows.iter().map(number).collect()
}
