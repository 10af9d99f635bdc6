//! The admission of a request by one scope of one limit: by this core's lease, or by asking who keeps the bucket.

use super::alert::alert;
use super::scopes::cores_of;
use super::{Demand, Site};
use crate::messages::Request;
use crate::messages::units::LeaseRequest;
use crate::peer::head::Head;
use crate::peer::{answer, leases as lease_format};
use crate::ports::PeerLane;
use crate::shard_state::Shard;
use crate::shard_state::lease_book::LeaseBook;
use crate::shard_state::throughput::micros;
use crate::verbs::Verb;
use cluster::placement::TablePlacement;
use cluster::topology::{NodeIndex, Topology, features};
use cluster::units::lease::ASKING_MICROS_MAX;
use cluster::units::limits::{Limit, Measure, Scope, UNASKED_PART};
use cluster::units::{Admission, Ask, Grant};
use model::TableId;
use runtime::ShardId;
use std::rc::Rc;
use std::time::Duration;

/// One scope of one limit.
#[derive(Clone, Copy)]
pub(super) struct Asking {
    /// The table, or what stands for the keyspace or role whose quota it is.
    pub(super) table: TableId,
    pub(super) measure: Measure,
    pub(super) scope: Scope,
    pub(super) limit: Limit,
    pub(super) cores: u64,
}

impl Asking {
    /// Admits a request by the lease of this scope. Fails with the time after which it may be admitted.
    pub(super) async fn admit(
        &self,
        site: &Site<'_>,
        leases: &Rc<LeaseBook>,
        demand: &Demand<'_>,
        cost: u64,
    ) -> Result<(), Duration> {
        let Site { shard, topology, placement, began, patience } = *site;
        let part = self.limit.rate / self.cores;
        let first = if self.limit.is_of_key { self.limit.rate / UNASKED_PART / self.cores } else { 0 };
        let name = (self.measure, self.scope);
        let keeper = || self.keeper(topology, placement, demand);
        let mut is_new = true;
        loop {
            let now = runtime::now();
            let looked = leases.with_lease(name, first, micros(now), |lease| {
                let admission = match is_new {
                    true => lease.admit(cost, part, micros(now)),
                    false => lease.admit_again(cost, part, micros(now)),
                };
                let again = match admission {
                    Admission::Refused { .. } => lease.ask_once_more(cost, micros(now)),
                    _ => None,
                };
                (admission, again)
            });
            is_new = false;
            // There are more hot keys than a core can tell apart: those are not limited.
            let Some((admission, again)) = looked else { return Ok(()) };
            if let Some(ask) = again {
                self.ask_in_background(shard, leases, topology, keeper(), ask);
            }
            match admission {
                Admission::Admitted(next) => {
                    if let Some(ask) = next {
                        self.ask_in_background(shard, leases, topology, keeper(), ask);
                    }
                    return Ok(());
                }
                Admission::Ask(ask) => {
                    self.ask_in_background(shard, leases, topology, keeper(), ask);
                    self.answered(leases).await;
                }
                Admission::Wait => self.answered(leases).await,
                Admission::Refused { retry_after_micros } => {
                    let retry_after = Duration::from_micros(retry_after_micros);
                    let waited = runtime::now().since(began);
                    if waited + retry_after > patience {
                        return Err(retry_after);
                    }
                    runtime::sleep(retry_after).await;
                }
            }
        }
    }

    /// Waits until no asking of the scope is under way.
    async fn answered(&self, leases: &LeaseBook) {
        let name = (self.measure, self.scope);
        let is_answered = || {
            let asks = leases.with_lease(name, 0, micros(runtime::now()), |lease| lease.is_asking());
            (asks != Some(true)).then_some(())
        };
        leases.answered.wait(is_answered).await;
    }

    /// The node and core that keep the bucket. It is one that can, lives and is of this data centre.
    fn keeper(&self, topology: &Topology, placement: &TablePlacement, demand: &Demand<'_>) -> (NodeIndex, u16) {
        let here = topology.here();
        let needed = if self.scope.is_of_quota() { features::QUOTAS } else { features::UNIT_LEASES };
        let can_keep = |node: NodeIndex| {
            topology.data_center_of(node) == topology.data_center_of(here)
                && topology.live().contains(node)
                && topology.node(node).features & needed != 0
        };
        let (seed, preferred) = match self.scope {
            Scope::Table | Scope::Keyspace | Scope::Role => (0, None),
            Scope::Physical { host_id, core } => {
                let at = topology.nodes().iter().position(|node| node.host_id == host_id);
                (host_id.as_u128() as u64 ^ u64::from(core), at.map(|at| (NodeIndex(at as u16), core)))
            }
            Scope::Key(token) => {
                let key = demand.keys.iter().find(|(other, _)| other.0 == token);
                let replicas = key.map(|(token, key)| placement.replicas(*token, key));
                let first = replicas.and_then(|replicas| replicas.natural().find(|replica| can_keep(replica.node)));
                (token as u64, first.map(|replica| (replica.node, replica.shard)))
            }
        };
        if let Some((node, core)) = preferred.filter(|(node, _)| can_keep(*node)) {
            return (node, core);
        }
        // Of all nodes the one with the highest hash, so that few buckets move when nodes come and go.
        let weight = |node: NodeIndex| {
            let mut bytes = [0; 40];
            bytes[..16].copy_from_slice(&self.table.0);
            bytes[16..32].copy_from_slice(topology.node(node).host_id.as_bytes());
            bytes[32..].copy_from_slice(&seed.to_le_bytes());
            runtime::hash64(&bytes)
        };
        let nodes = (0..topology.nodes().len() as u16).map(NodeIndex).filter(|node| can_keep(*node));
        let node = nodes.max_by_key(|node| weight(*node)).unwrap_or(here);
        (node, (weight(node) % u64::from(topology.node(node).shards.shards.max(1))) as u16)
    }

    /// Asks the keeper; its answer goes into the lease, and wakes those that wait.
    fn ask_in_background(
        &self,
        shard: &Shard,
        leases: &Rc<LeaseBook>,
        topology: &Rc<Topology>,
        (node, core): (NodeIndex, u16),
        ask: Ask,
    ) {
        let holder = (shard.host_id(), shard.id().0);
        let Asking { table, measure, scope, .. } = *self;
        let quota_rate = scope.is_of_quota().then_some(self.limit.rate);
        let request = LeaseRequest { table, measure, scope, quota_rate, holder, ask };
        let name = (self.measure, self.scope);
        if node == topology.here() && ShardId(core) == shard.id() {
            note(leases, name, lease_here(shard, &request, self.cores));
            return;
        }
        let (shard, leases, topology) = (shard.clone(), leases.clone(), topology.clone());
        runtime::spawn(async move {
            let asked = Box::pin(ask_keeper(&shard, &topology, node, core, request));
            let limit = Duration::from_micros(ASKING_MICROS_MAX);
            let grant = runtime::timeout(limit, asked).await.flatten();
            note(&leases, name, grant);
        });
    }
}

/// Puts the answer of a keeper into the lease.
fn note(leases: &LeaseBook, name: (Measure, Scope), grant: Option<Grant>) {
    let now = micros(runtime::now());
    leases.with_lease(name, 0, now, |lease| match grant {
        Some(grant) => lease.answered(grant, now),
        None => lease.unanswered(now),
    });
    leases.answered.notify();
}

/// Asks another core or another node.
async fn ask_keeper(
    shard: &Shard,
    topology: &Topology,
    node: NodeIndex,
    core: u16,
    request: LeaseRequest,
) -> Option<Grant> {
    if node == topology.here() {
        return shard.call(ShardId(core), Request::Lease(Box::new(request))).await.leased();
    }
    let mut body = Head { epoch: topology.epoch() }.body(lease_format::REQUEST_BYTES);
    lease_format::push(&mut body, &request, core);
    let deadline = runtime::now().after(Duration::from_micros(ASKING_MICROS_MAX));
    let to = topology.node(node);
    let answered = shard.peers().ask(to, PeerLane::Requests, Verb::LeaseUnits, &body, deadline).await.ok()?;
    match answer::decode(&answered) {
        Some(Ok(result)) => lease_format::grant(result),
        _ => None,
    }
}

/// Serves the request of a holder, on the core that keeps the bucket.
pub(crate) fn lease(shard: &Shard, request: &LeaseRequest) -> Option<Grant> {
    lease_here(shard, request, cores_of(&shard.topology()))
}

fn lease_here(shard: &Shard, request: &LeaseRequest, cores: u64) -> Option<Grant> {
    let (grant, used) = shard.throughput().lease(request, cores, micros(runtime::now()))?;
    if let Some(percent) = used {
        alert(shard, request, cores, percent);
    }
    Some(grant)
}
