//! Admitting requests to tables whose throughput is limited, and charging them.
//!
//! 1. The limits of a request follow from the table's capacity: that of its partition key, then that of the table or
//!    of the physical partition ([`cluster::units::limits`]).
//! 2. Each is admitted by this core's lease. If that has run out, the keeper of the scope is asked: a core of a node
//!    that has the key, or one that all nodes of the data centre agree on by hashing.
//! 3. A request that is not admitted waits as long as the table's `server_side_retry_in_ms` allows, and is then
//!    refused in the words of the service whose option set the limit. What other limits admitted is given back.
//! 4. What a read has cost is known afterwards: the difference to the estimate is settled with the leases.
//!
//! Invariants: a refused request has no effect, and was charged nothing, but for the tables of a batch that come before
//! the one that refused it. One that is admitted is charged what [`cluster::units::price()`] says, whatever becomes of
//! it.

use super::read::ReadPlan;
use super::write::Routed;
use crate::messages::Request;
use crate::messages::units::LeaseRequest;
use crate::metrics::Charges;
use crate::peer::head::Head;
use crate::peer::{answer, leases};
use crate::ports::PeerLane;
use crate::shard_state::Shard;
use crate::shard_state::throughput::{Meter, micros};
use crate::verbs::Verb;
use cluster::placement::TablePlacement;
use cluster::topology::{NodeIndex, Topology, features};
use cluster::units::lease::ASKING_MICROS_MAX;
use cluster::units::limits::{Cost, Limit, Measure, Scope, UNASKED_PART, limits};
use cluster::units::{Admission, Ask, Grant, HUNDREDTHS, Work};
use model::failure::Detail;
use model::{Consistency, DecoratedKey, ErrorCode, Failure, Table, TableId, Token};
use runtime::ShardId;
use smallvec::SmallVec;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Who is charged for a request, and how much. There is none where no table is metered and the client does not ask.
#[derive(Debug)]
pub(crate) struct Bill {
    role: Option<Rc<str>>,
    hundredths: Cell<u64>,
    /// Whether the client is told.
    is_told: Cell<bool>,
}

impl Bill {
    /// A bill for a role. `is_asked` says that the client has asked for it.
    pub(crate) fn new(role: Option<Rc<str>>, is_asked: bool) -> Bill {
        Bill { role, hundredths: Cell::new(0), is_told: Cell::new(is_asked) }
    }

    /// Hundredths of request units, if the client is to be told.
    pub(crate) fn told(&self) -> Option<u64> {
        self.is_told.get().then(|| self.hundredths.get())
    }

    fn add(&self, units: u64, is_metered: bool) {
        self.hundredths.set(self.hundredths.get() + units);
        self.is_told.set(self.is_told.get() || is_metered);
    }
}

/// A request that has been admitted by its limits.
struct Admitted {
    /// The scopes, and what each was charged.
    scopes: Vec<((Measure, Scope), u64)>,
}

/// What a request is and whom it concerns.
struct Demand<'a> {
    table: &'a Table,
    is_write: bool,
    cost: Cost,
    /// The partition keys, each with its token.
    keys: &'a [(Token, &'a [u8])],
    consistency: Consistency,
}

/// Charges and admits mutations before they are written. `reads` is the number of partitions that were read for them.
pub(crate) async fn admit_write(
    shard: &Shard,
    bill: &Bill,
    mutations: &[Routed],
    reads: u64,
    consistency: Consistency,
    logged: bool,
) -> Result<(), Failure> {
    let mut tables: Vec<&Arc<Table>> = Vec::new();
    for routed in mutations {
        if !tables.iter().any(|table| table.id == routed.table.id) {
            tables.push(&routed.table);
        }
    }
    for table in tables {
        let of_table = || mutations.iter().filter(|routed| routed.table.id == table.id);
        let Ok(placement) = shard.placement_of(table) else { continue };
        let mut work = Work { logged, partitions: reads, rows: reads, ..Work::default() };
        let mut keys: Vec<(Token, &[u8])> = Vec::new();
        for Routed { mutation, .. } in of_table() {
            let replicas = placement.replicas(mutation.token(), mutation.key());
            work.writers = work.writers.max(replicas.natural().len() as u64);
            work.mutation(mutation.bytes().len() as u64, table.indexes.len() as u64);
            keys.push((mutation.token(), mutation.key()));
        }
        work.readers = u64::from(placement.keyspace().levels().required(consistency).block_for);
        let demand = Demand { table, is_write: true, cost: Cost::of_write(&work), keys: &keys, consistency };
        admit_change(shard, bill, &placement, &demand).await?;
    }
    Ok(())
}

/// Charges and admits a change of one partition whose mutation is made where that is stored: `bytes` are those of the
/// values that it writes.
pub(crate) async fn admit_decision(
    shard: &Shard,
    bill: &Bill,
    table: &Table,
    (token, key): (Token, &[u8]),
    bytes: u64,
    consistency: Consistency,
    conditional: bool,
) -> Result<(), Failure> {
    let Ok(placement) = shard.placement_of(table) else { return Ok(()) };
    let readers = u64::from(placement.keyspace().levels().required(consistency).block_for);
    let writers = placement.replicas(token, key).natural().len() as u64;
    let reads = u64::from(!conditional);
    let mut work = Work { conditional, partitions: reads, rows: reads, readers, writers, ..Work::default() };
    work.mutation(bytes + key.len() as u64, table.indexes.len() as u64);
    let keys = [(token, key)];
    let demand = Demand { table, is_write: true, cost: Cost::of_write(&work), keys: &keys, consistency };
    admit_change(shard, bill, &placement, &demand).await
}

async fn admit_change(
    shard: &Shard,
    bill: &Bill,
    placement: &TablePlacement,
    demand: &Demand<'_>,
) -> Result<(), Failure> {
    let units = demand.cost.units;
    let Some(meter) = shard.throughput().of(demand.table.id) else {
        bill.add(units, false);
        return Ok(());
    };
    admit(shard, bill, &meter, placement, demand).await?;
    let charged = Charges { writes: 1, write_units: units, ..Charges::default() };
    let now = runtime::now();
    meter.charge(bill.role.as_ref(), &charged, now);
    let part = units / (demand.keys.len() as u64).max(1);
    demand.keys.iter().for_each(|(_, key)| meter.note_key(key, part, true, now));
    bill.add(units, true);
    Ok(())
}

/// A read that has been admitted and is not charged yet.
pub(crate) struct ReadCharge {
    meter: Option<(Rc<Meter>, Admitted)>,
    estimate: Cost,
    /// The partitions; none: a range is read.
    keys: SmallVec<[DecoratedKey; 1]>,
}

/// Admits a read of these keys; none: of a range.
pub(crate) async fn admit_read(
    shard: &Shard,
    bill: &Bill,
    plan: &ReadPlan,
    keys: &[DecoratedKey],
) -> Result<ReadCharge, Failure> {
    let Some(meter) = shard.throughput().of(plan.table.id) else {
        return Ok(ReadCharge { meter: None, estimate: Cost::default(), keys: keys.into() });
    };
    let units = meter.read_estimate();
    let partitions = (keys.len() as u64).max(1);
    let work = Work { partitions, ..Work::default() };
    let capacity_units = Cost::of_read(&work, plan.terms.consistency).capacity_units;
    let estimate = Cost { units, capacity_units };
    let named: Vec<(Token, &[u8])> = keys.iter().map(|key| (key.token, &*key.key)).collect();
    let consistency = plan.terms.consistency;
    let demand = Demand { table: &plan.table, is_write: false, cost: estimate, keys: &named, consistency };
    let admitted = admit(shard, bill, &meter, &plan.placement, &demand).await?;
    Ok(ReadCharge { meter: Some((meter, admitted)), estimate, keys: keys.into() })
}

impl ReadCharge {
    /// Charges the read for what it has looked at and returns.
    pub(crate) fn end(self, bill: &Bill, plan: &ReadPlan, read_bytes: usize) {
        let consistency = plan.terms.consistency;
        let required = plan.placement.keyspace().levels().required_by_read(consistency);
        let work = Work {
            partitions: (self.keys.len() as u64).max(1),
            rows: plan.looked_at.get(),
            read_bytes: read_bytes as u64,
            indexes_read: u64::from(plan.index.is_some()),
            readers: if plan.table.is_virtual() { 1 } else { u64::from(required.block_for) },
            ..Work::default()
        };
        let cost = Cost::of_read(&work, consistency);
        bill.add(cost.units, self.meter.is_some());
        let Some((meter, admitted)) = self.meter else { return };
        let now = runtime::now();
        meter.note_read(cost.units);
        for ((measure, scope), charged) in admitted.scopes {
            // What a key was charged is its part of the whole.
            let share = charged * cost.of(measure) / self.estimate.of(measure).max(1);
            meter.with_lease((measure, scope), 0, micros(now), |lease| lease.settle(charged, share));
        }
        let part = cost.units / (self.keys.len() as u64).max(1);
        self.keys.iter().for_each(|key| meter.note_key(&key.key, part, false, now));
        let charged = Charges { reads: 1, read_units: cost.units, ..Charges::default() };
        meter.charge(bill.role.as_ref(), &charged, now);
    }
}

/// Admits a request by all its limits, or by none.
async fn admit(
    shard: &Shard,
    bill: &Bill,
    meter: &Rc<Meter>,
    placement: &TablePlacement,
    demand: &Demand<'_>,
) -> Result<Admitted, Failure> {
    let began = runtime::now();
    let patience = Duration::from_millis(meter.capacity.retry_millis.into());
    let topology = placement.keyspace().topology().clone();
    let cores = cores_of(&topology);
    let mut admitted = Admitted { scopes: Vec::with_capacity(2) };
    for limit in limits(&meter.capacity, demand.is_write, cores) {
        for (scope, cost) in scopes(&topology, placement, &meter.capacity, demand, &limit) {
            let asking = Asking { table: demand.table.id, measure: limit.measure, scope, limit, cores };
            if let Err(retry_after) =
                asking.admit(shard, meter, &topology, placement, demand, cost, began, patience).await
            {
                let now = micros(runtime::now());
                for ((measure, scope), charged) in admitted.scopes {
                    meter.with_lease((measure, scope), 0, now, |lease| lease.settle(charged, 0));
                }
                let refused = Charges { refused: 1, ..Charges::default() };
                meter.charge(bill.role.as_ref(), &refused, runtime::now());
                return Err(refusal(placement, demand, &limit, retry_after));
            }
            admitted.scopes.push(((limit.measure, scope), cost));
        }
    }
    Ok(admitted)
}

/// The scopes of a limit that a request concerns, and what it costs in each.
fn scopes(
    topology: &Topology,
    placement: &TablePlacement,
    capacity: &model::capacity::Capacity,
    demand: &Demand<'_>,
    limit: &Limit,
) -> Vec<(Scope, u64)> {
    let whole = demand.cost.of(limit.measure);
    let parts = (demand.keys.len() as u64).max(1);
    let is_counted = matches!(limit.measure, Measure::Reads | Measure::Writes);
    let part = if is_counted { whole } else { whole.div_ceil(parts) };
    if limit.is_of_key {
        return demand.keys.iter().map(|(token, _)| (Scope::Key(token.0), part)).collect();
    }
    if capacity.distribution == model::capacity::Distribution::Demand {
        return vec![(Scope::Table, whole)];
    }
    let here = Scope::Physical { host_id: topology.node(topology.here()).host_id, core: 0 };
    let of_key = |(token, key): &(Token, &[u8])| {
        let is_local = |node: NodeIndex| topology.data_center_of(node) == topology.data_center_of(topology.here());
        let first = placement.replicas(*token, key).natural().find(|replica| is_local(replica.node));
        first.map_or(here, |replica| Scope::Physical {
            host_id: topology.node(replica.node).host_id,
            core: replica.shard,
        })
    };
    if demand.keys.is_empty() {
        // A scan visits all physical partitions; each of them pays its part.
        let nodes = topology.nodes().iter().enumerate();
        let local = nodes.filter(|(at, _)| {
            topology.data_center_of(NodeIndex(*at as u16)) == topology.data_center_of(topology.here())
        });
        let all: Vec<Scope> = local
            .flat_map(|(_, node)| (0..node.shards.shards).map(|core| Scope::Physical { host_id: node.host_id, core }))
            .collect();
        let part = whole.div_ceil(all.len().max(1) as u64);
        return all.into_iter().map(|scope| (scope, part)).collect();
    }
    demand.keys.iter().map(|key| (of_key(key), part)).collect()
}

/// The cores of this node's data centre, whether its nodes are alive or not.
pub(crate) fn cores_of(topology: &Topology) -> u64 {
    let here = topology.data_center_of(topology.here());
    let nodes = topology.nodes().iter().enumerate();
    let local = nodes.filter(|(at, _)| topology.data_center_of(NodeIndex(*at as u16)) == here);
    local.map(|(_, node)| u64::from(node.shards.shards)).sum::<u64>().max(1)
}

/// One scope of one limit.
#[derive(Clone, Copy)]
struct Asking {
    table: TableId,
    measure: Measure,
    scope: Scope,
    limit: Limit,
    cores: u64,
}

impl Asking {
    /// Admits a request by the lease of this scope. Fails with the time after which it may be admitted.
    #[expect(clippy::too_many_arguments, reason = "what a request was resolved to")]
    async fn admit(
        &self,
        shard: &Shard,
        meter: &Rc<Meter>,
        topology: &Rc<Topology>,
        placement: &TablePlacement,
        demand: &Demand<'_>,
        cost: u64,
        began: runtime::Instant,
        patience: Duration,
    ) -> Result<(), Duration> {
        let part = self.limit.rate / self.cores;
        let first = if self.limit.is_of_key { self.limit.rate / UNASKED_PART / self.cores } else { 0 };
        let name = (self.measure, self.scope);
        let keeper = || self.keeper(topology, placement, demand);
        let mut is_new = true;
        loop {
            let now = runtime::now();
            let looked = meter.with_lease(name, first, micros(now), |lease| {
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
                self.ask_in_background(shard, meter, topology, keeper(), ask);
            }
            match admission {
                Admission::Admitted(next) => {
                    if let Some(ask) = next {
                        self.ask_in_background(shard, meter, topology, keeper(), ask);
                    }
                    return Ok(());
                }
                Admission::Ask(ask) => {
                    self.ask_in_background(shard, meter, topology, keeper(), ask);
                    self.answered(meter).await;
                }
                Admission::Wait => self.answered(meter).await,
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
    async fn answered(&self, meter: &Meter) {
        let name = (self.measure, self.scope);
        let is_answered = || {
            let asks = meter.with_lease(name, 0, micros(runtime::now()), |lease| lease.is_asking());
            (asks != Some(true)).then_some(())
        };
        meter.answered.wait(is_answered).await;
    }

    /// The node and core that keep the bucket. It is one that can, lives and is of this data centre.
    fn keeper(&self, topology: &Topology, placement: &TablePlacement, demand: &Demand<'_>) -> (NodeIndex, u16) {
        let here = topology.here();
        let can_keep = |node: NodeIndex| {
            topology.data_center_of(node) == topology.data_center_of(here)
                && topology.live().contains(node)
                && topology.node(node).features & features::UNIT_LEASES != 0
        };
        let (seed, preferred) = match self.scope {
            Scope::Table => (0, None),
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
        meter: &Rc<Meter>,
        topology: &Rc<Topology>,
        (node, core): (NodeIndex, u16),
        ask: Ask,
    ) {
        let holder = (shard.host_id(), shard.id().0);
        let request = LeaseRequest { table: self.table, measure: self.measure, scope: self.scope, holder, ask };
        let name = (self.measure, self.scope);
        if node == topology.here() && ShardId(core) == shard.id() {
            let now = micros(runtime::now());
            let grant = shard.throughput().lease(&request, self.cores, now);
            note(meter, name, grant);
            return;
        }
        let (shard, meter, topology) = (shard.clone(), meter.clone(), topology.clone());
        runtime::spawn(async move {
            let asked = Box::pin(ask_keeper(&shard, &topology, node, core, request));
            let limit = Duration::from_micros(ASKING_MICROS_MAX);
            let grant = runtime::timeout(limit, asked).await.flatten();
            note(&meter, name, grant);
        });
    }
}

/// Puts the answer of a keeper into the lease.
fn note(meter: &Meter, name: (Measure, Scope), grant: Option<Grant>) {
    let now = micros(runtime::now());
    meter.with_lease(name, 0, now, |lease| match grant {
        Some(grant) => lease.answered(grant, now),
        None => lease.unanswered(now),
    });
    meter.answered.notify();
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
    let mut body = Head { epoch: topology.epoch() }.body(leases::REQUEST_BYTES);
    leases::push(&mut body, &request, core);
    let deadline = runtime::now().after(Duration::from_micros(ASKING_MICROS_MAX));
    let to = topology.node(node);
    let answered = shard.peers().ask(to, PeerLane::Requests, Verb::LeaseUnits, &body, deadline).await.ok()?;
    match answer::decode(&answered) {
        Some(Ok(result)) => leases::grant(result),
        _ => None,
    }
}

/// Serves the request of a holder, on the core that keeps the bucket.
pub(crate) fn lease(shard: &Shard, request: &LeaseRequest) -> Option<Grant> {
    let cores = cores_of(&shard.topology());
    shard.throughput().lease(request, cores, micros(runtime::now()))
}

/// The failure of a request that was not admitted, in the words of the service whose limit it is.
fn refusal(placement: &TablePlacement, demand: &Demand<'_>, limit: &Limit, retry_after: Duration) -> Failure {
    let retry_after_millis = u32::try_from(retry_after.as_micros().div_ceil(1_000)).unwrap_or(u32::MAX);
    let name = demand.table.full_name();
    let throttled = |code, text: String, as_told| {
        let mut failure = Failure::new(code, text);
        failure.detail = Detail::Throttled { retry_after_millis, as_told: Box::new(as_told) };
        failure
    };
    let consistency = demand.consistency;
    let block_for = placement.keyspace().levels().required(consistency).block_for as i32;
    match limit.measure {
        Measure::Reads | Measure::Writes => {
            let word = if demand.is_write { "writes" } else { "reads" };
            let text = format!("Per-partition rate limit reached for {word} in table {name}, rejected by coordinator");
            throttled(ErrorCode::RateLimit, text, Detail::RateLimit { is_write: demand.is_write, by_coordinator: true })
        }
        Measure::ReadUnits => throttled(
            ErrorCode::ReadTimeout,
            "Operation timed out - received only 0 responses.".to_owned(),
            Detail::ReadTimeout { consistency, received: 0, block_for, data_present: false },
        ),
        Measure::WriteUnits => throttled(
            ErrorCode::WriteTimeout,
            "Operation timed out - received only 0 responses.".to_owned(),
            Detail::WriteTimeout { consistency, received: 0, block_for, write_type: "SIMPLE" },
        ),
        Measure::Units => {
            let rate = limit.rate / HUNDREDTHS;
            let of = if limit.is_of_key { format!("one partition key of {name}") } else { name };
            let text =
                format!("Request rate is large. RetryAfterMs={retry_after_millis}, {of} may use {rate} units a second");
            throttled(ErrorCode::Overloaded, text, Detail::None)
        }
    }
}
