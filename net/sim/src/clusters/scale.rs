//! Clusters of many nodes of one core each: how long they take to find each other and to agree, and what that costs.
//!
//! 1. The first node starts, then all others at once. All must say that all are up and normal.
//! 2. A minute without requests, for what nodes send to each other then; and some CREATE TABLE by one client.
//! 3. A third of the nodes is killed. The others must say so. Some CREATE TABLE follow, which fail if most voters are
//!    lost.
//! 4. They start again, and all nodes must say once more that all are up and normal, and serve every table.

use super::agreement::{Agreement, check_tables, create_tables};
use super::members::Cluster;
use super::ring::ring_of;
use server::client::{Client, QueryOptions};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Longest that any of the steps may take, virtual time.
const STEP_MAX: Duration = Duration::from_secs(1_800);
/// The time without requests, virtual.
const QUIET: Duration = Duration::from_secs(60);
/// Pause before a node is asked again, virtual.
const PAUSE: Duration = Duration::from_secs(1);
/// Statements of each step.
const TABLES: u64 = 10;

/// What came of it. Times are virtual.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Scale {
    /// From the start of the second node until all nodes say that all are up and normal.
    pub formed_in: Duration,
    /// Messages that a node sends in a second without requests.
    pub messages: f64,
    /// Bytes of them.
    pub bytes: f64,
    /// CREATE TABLE with all nodes.
    pub tables: Agreement,
    /// CREATE TABLE without a third of them; `None` if most voters of the metadata log were among the lost.
    pub tables_without_a_third: Option<Agreement>,
    /// From the loss of a third until all others say that they are down.
    pub convicted_in: Duration,
    /// From their start until all nodes say that all are up and normal.
    pub healed_in: Duration,
}

/// Runs a cluster of `nodes`, three at least.
///
/// # Errors
/// A step that did not end, or nodes that do not agree.
pub fn run_scale(seed: u64, nodes: usize) -> Result<Scale, String> {
    let mut scale = Scale::default();
    let mut run = Cluster::new(seed);
    run.cores_max = 1;
    run.add_node();
    run.all_ready("the first start")?;
    let began = run.sim.now();
    (1..nodes).for_each(|_| run.add_node());
    run.all_ready("the start of all others")?;
    run.check_ring(STEP_MAX)?;
    scale.formed_in = run.sim.now().since(began);

    let [(messages, bytes), later] = [sent(&mut run)?, {
        run.sim.run_until(QUIET, || false);
        sent(&mut run)?
    }];
    let seconds = nodes as f64 * QUIET.as_secs_f64();
    (scale.messages, scale.bytes) = ((later.0 - messages) as f64 / seconds, (later.1 - bytes) as f64 / seconds);
    run.create_keyspace()?;
    let whole = create_tables(&mut run, 1, TABLES)?;
    scale.tables = whole.borrow_mut().agreement();

    let lost = run.members.split_off(nodes - nodes / 3);
    let began = run.sim.now();
    lost.iter().for_each(|member| run.sim.crash(member.id));
    let (asked, down) = (addresses(&run), lost.len());
    run.outside(STEP_MAX, move || all_say(asked.clone(), "DN", down))?;
    scale.convicted_in = run.sim.now().since(began);
    let reduced = create_tables(&mut run, 1, TABLES).ok();
    scale.tables_without_a_third = reduced.as_ref().map(|reduced| reduced.borrow_mut().agreement());

    run.members.extend(lost);
    let began = run.sim.now();
    run.start_all();
    run.all_ready("the start of those that were lost")?;
    run.check_ring(STEP_MAX)?;
    scale.healed_in = run.sim.now().since(began);
    if let Some(reduced) = reduced {
        whole.borrow_mut().add(&reduced.borrow());
        check_tables(&mut run, &whole)?;
    }
    Ok(scale)
}

fn addresses(run: &Cluster) -> Vec<IpAddr> {
    run.servers().iter().map(SocketAddr::ip).collect()
}

/// Waits until each node says of `count` nodes that they are in the state of these two letters.
async fn all_say(nodes: Vec<IpAddr>, letters: &'static str, count: usize) {
    for node in nodes {
        loop {
            let ring = ring_of(node).await.unwrap_or_default();
            if ring.values().filter(|(shown, _)| shown == letters).count() == count {
                break;
            }
            runtime::sleep(PAUSE).await;
        }
    }
}

/// The messages that all nodes have sent to one another, and their bytes.
fn sent(run: &mut Cluster) -> Result<(i64, i64), String> {
    let servers = run.servers();
    run.outside(STEP_MAX, move || {
        let servers = servers.clone();
        async move {
            let (mut messages, mut bytes) = (0, 0);
            for server in servers {
                let mut client =
                    Client::connect(server, None, 4).await.map_err(|error| format!("{server}: {error}"))?;
                let text = "SELECT sent_count, sent_bytes FROM system_views.internode_outbound";
                let outcome =
                    client.query(text, &QueryOptions::default()).await.map_err(|error| format!("{error:?}"))?;
                for row in &outcome.rows {
                    let number = |at: usize| row[at].as_deref().and_then(|value| value.try_into().ok());
                    messages += number(0).map_or(0, i64::from_be_bytes);
                    bytes += number(1).map_or(0, i64::from_be_bytes);
                }
            }
            Ok((messages, bytes))
        }
    })?
}
