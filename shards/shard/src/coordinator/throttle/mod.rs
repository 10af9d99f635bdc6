//! Admitting requests where throughput is limited, of tables, keyspaces or roles, and charging them.
//!
//! 1. The limits of a request are the quota of its role; those of the table's capacity: that of its partition key, then
//!    that of the table or of the physical partition ([`cluster::units::limits`]); and the quota of the keyspace.
//! 2. Each is admitted by this core's lease. If that has run out, the keeper of the scope is asked: a core of a node
//!    that has the key, or one that all nodes of the data centre agree on by hashing; the latter for quotas.
//! 3. A request that is not admitted waits as long as the table's `server_side_retry_in_ms` allows, and is then
//!    refused in the words of the service whose option set the limit. What other limits admitted is given back.
//! 4. What a read has cost is known afterwards: the difference to the estimate is settled with the leases.
//!
//! Invariants: a refused request has no effect, and was charged nothing, but for the tables of a batch that come before
//! the one that refused it. One that is admitted is charged what [`cluster::units::price()`] says, whatever becomes of
//! it.
//!
//! [`bill`] adds up what a request costs; [`scopes`] says where each limit counts it; [`asking`] gets one scope's
//! admission; [`permit`](mod@permit) counts requests at once; [`alert`](mod@alert) tells of limits that are nearly used
//! up; [`refusal`] words the answer of a request that is not admitted.

mod alert;
mod asking;
mod bill;
mod permit;
mod refusal;
mod scopes;

pub(crate) use asking::lease;
pub(crate) use bill::Bill;

use super::read::ReadPlan;
use super::write::Routed;
use crate::metrics::Charges;
use crate::shard_state::Shard;
use crate::shard_state::lease_book::LeaseBook;
use crate::shard_state::quotas::QuotaMeter;
use crate::shard_state::throughput::{Meter, micros};
use asking::Asking;
use bill::ReadCharge;
use cluster::placement::TablePlacement;
use cluster::topology::Topology;
use cluster::units::limits::{Cost, Limit, Measure, Scope, limits};
use cluster::units::{Work, price};
use model::schema::is_system_keyspace;
use model::{Consistency, DecoratedKey, Failure, Table, Token};
use permit::permit;
use refusal::{count_refusal, quota_refusal, refusal};
use scopes::{cores_of, scopes};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// What a request is and whom it concerns.
struct Demand<'a> {
    table: &'a Table,
    is_write: bool,
    cost: Cost,
    /// The partition keys, each with its token.
    keys: &'a [(Token, &'a [u8])],
    consistency: Consistency,
}

/// What limits a request.
#[derive(Default)]
struct Payers {
    /// The quota of the role.
    role: Option<Rc<QuotaMeter>>,
    /// The capacity of the table.
    table: Option<Rc<Meter>>,
    /// The quota of the table's keyspace.
    keyspace: Option<Rc<QuotaMeter>>,
}

impl Payers {
    fn of(shard: &Shard, bill: &Bill, table: &Table) -> Payers {
        let metered = shard.throughput().of(table.id);
        // What drivers read to connect at all does not count for the role.
        let role = bill.role_quota().filter(|_| !is_system_keyspace(&table.keyspace)).cloned();
        Payers { role, table: metered.table, keyspace: metered.keyspace }
    }

    fn quotas(&self) -> impl Iterator<Item = &Rc<QuotaMeter>> {
        self.role.iter().chain(&self.keyspace)
    }

    fn is_empty(&self) -> bool {
        self.role.is_none() && self.table.is_none() && self.keyspace.is_none()
    }
}

/// Where a request is admitted, and since when it waits.
struct Site<'a> {
    shard: &'a Shard,
    topology: &'a Rc<Topology>,
    placement: &'a TablePlacement,
    began: runtime::Instant,
    /// How long it may wait.
    patience: Duration,
}

/// What has admitted a request.
#[derive(Default)]
struct Admitted {
    scopes: Vec<Charged>,
}

/// One scope that has admitted a request.
struct Charged {
    leases: Rc<LeaseBook>,
    name: (Measure, Scope),
    /// Hundredths that the lease was charged.
    charged: u64,
    /// What the whole request was expected to cost, of which that may be a part.
    whole: u64,
}

impl Admitted {
    fn add(&mut self, leases: &Rc<LeaseBook>, name: (Measure, Scope), charged: u64, whole: u64) {
        self.scopes.push(Charged { leases: leases.clone(), name, charged, whole });
    }

    /// Takes everything back that was charged.
    fn give_back(self) {
        let now = micros(runtime::now());
        for Charged { leases, name, charged, .. } in self.scopes {
            leases.with_lease(name, 0, now, |lease| lease.settle(charged, 0));
        }
    }

    /// Charges so many hundredths of request units more.
    fn charge_more(self, units: u64) {
        let now = micros(runtime::now());
        for Charged { leases, name, .. } in self.scopes.into_iter().filter(|scope| scope.name.0 == Measure::Units) {
            leases.with_lease(name, 0, now, |lease| lease.settle(0, units));
        }
    }

    /// Charges what a read has cost in place of what it was expected to cost.
    fn settle(self, cost: &Cost) {
        let now = micros(runtime::now());
        for Charged { leases, name, charged, whole } in self.scopes {
            let share = charged * cost.of(name.0) / whole.max(1);
            leases.with_lease(name, 0, now, |lease| lease.settle(charged, share));
            if name.1.is_of_quota() {
                leases.note_read(cost.units);
            }
        }
    }
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
) -> Result<DecisionCharge, Failure> {
    let Ok(placement) = shard.placement_of(table) else { return Ok(DecisionCharge::default()) };
    let readers = u64::from(placement.keyspace().levels().required(consistency).block_for);
    let writers = placement.replicas(token, key).natural().len() as u64;
    let reads = u64::from(!conditional);
    let mut work = Work { conditional, partitions: reads, rows: reads, readers, writers, ..Work::default() };
    work.mutation(bytes + key.len() as u64, table.indexes.len() as u64);
    let keys = [(token, key)];
    let demand = Demand { table, is_write: true, cost: Cost::of_write(&work), keys: &keys, consistency };
    let (payers, admitted) = admit_change(shard, bill, &placement, &demand).await?;
    Ok(DecisionCharge { payers, admitted, writers })
}

/// A decision that has been admitted as one that returns a small row at most.
#[derive(Default)]
pub(crate) struct DecisionCharge {
    payers: Payers,
    admitted: Admitted,
    /// Replicas of the partition.
    writers: u64,
}

impl DecisionCharge {
    /// Charges what it has read and returned beyond that row.
    pub(crate) fn end(self, bill: &Bill, rows: u64, bytes: u64) {
        let units = price::read_by_decision(rows, bytes, self.writers);
        if units == 0 {
            return;
        }
        bill.add(units, !self.payers.is_empty());
        self.admitted.charge_more(units);
        let charged = Charges { read_units: units, ..Charges::default() };
        self.payers.quotas().for_each(|quota| quota.charge(&charged));
        if let Some(meter) = &self.payers.table {
            meter.charge(bill.role(), &charged, runtime::now());
        }
    }
}

async fn admit_change(
    shard: &Shard,
    bill: &Bill,
    placement: &TablePlacement,
    demand: &Demand<'_>,
) -> Result<(Payers, Admitted), Failure> {
    let units = demand.cost.units;
    let payers = Payers::of(shard, bill, demand.table);
    if payers.is_empty() {
        bill.add(units, false);
        return Ok((payers, Admitted::default()));
    }
    let admitted = admit(shard, bill, &payers, placement, demand).await?;
    let charged = Charges { writes: 1, write_units: units, ..Charges::default() };
    payers.quotas().for_each(|quota| quota.charge(&charged));
    if let Some(meter) = &payers.table {
        let now = runtime::now();
        meter.charge(bill.role(), &charged, now);
        let part = units / (demand.keys.len() as u64).max(1);
        demand.keys.iter().for_each(|(_, key)| meter.note_key(key, part, true, now));
    }
    bill.add(units, true);
    Ok((payers, admitted))
}

/// Admits a read of these keys; none: of a range. It is charged by [`Bill::end_read`].
pub(crate) async fn admit_read(
    shard: &Shard,
    bill: &Bill,
    plan: &ReadPlan,
    keys: &[DecoratedKey],
) -> Result<(), Failure> {
    let payers = Payers::of(shard, bill, &plan.table);
    let quotas = payers.quotas().cloned().collect();
    let mut charge =
        ReadCharge { meter: payers.table.clone(), quotas, admitted: Admitted::default(), keys: keys.into() };
    if !payers.is_empty() {
        let units = payers.table.as_ref().map_or(0, |meter| meter.leases.read_estimate());
        let partitions = (keys.len() as u64).max(1);
        let work = Work { partitions, ..Work::default() };
        let capacity_units = Cost::of_read(&work, plan.terms.consistency).capacity_units;
        let estimate = Cost { units, capacity_units };
        let named: Vec<(Token, &[u8])> = keys.iter().map(|key| (key.token, &*key.key)).collect();
        let consistency = plan.terms.consistency;
        let demand = Demand { table: &plan.table, is_write: false, cost: estimate, keys: &named, consistency };
        charge.admitted = admit(shard, bill, &payers, &plan.placement, &demand).await?;
    }
    bill.begin_read(charge);
    Ok(())
}

/// Admits a request by everything that limits it, or by nothing.
async fn admit(
    shard: &Shard,
    bill: &Bill,
    payers: &Payers,
    placement: &TablePlacement,
    demand: &Demand<'_>,
) -> Result<Admitted, Failure> {
    let mut admitted = Admitted::default();
    let refused = match admit_each(shard, bill, payers, placement, demand, &mut admitted).await {
        Ok(()) => return Ok(admitted),
        Err(refused) => refused,
    };
    admitted.give_back();
    if let Some(meter) = &payers.table {
        meter.charge(bill.role(), &Charges { refused: 1, ..Charges::default() }, runtime::now());
    }
    Err(refused)
}

/// Admits a request by one limit after another; what was admitted is in `admitted`, even if a later one refuses it. The
/// role comes first and the keyspace last: whoever asks for more than it may use should not lease units for that, which
/// others could use.
async fn admit_each(
    shard: &Shard,
    bill: &Bill,
    payers: &Payers,
    placement: &TablePlacement,
    demand: &Demand<'_>,
    admitted: &mut Admitted,
) -> Result<(), Failure> {
    let began = runtime::now();
    let topology = placement.keyspace().topology().clone();
    let cores = cores_of(&topology);
    let patience = payers.table.as_ref().map_or(0, |meter| meter.capacity.retry_millis.into());
    let site = Site { shard, topology: &topology, placement, began, patience: Duration::from_millis(patience) };
    if let Some(quota) = &payers.role {
        admit_by_quota(&site, bill, quota, demand, cores, admitted).await?;
    }
    if let Some(meter) = &payers.table {
        for limit in limits(&meter.capacity, demand.is_write, cores) {
            let whole = demand.cost.of(limit.measure);
            for (scope, cost) in scopes(&topology, placement, &meter.capacity, demand, &limit) {
                let asking = Asking { table: demand.table.id, measure: limit.measure, scope, limit, cores };
                let asked = asking.admit(&site, &meter.leases, demand, cost).await;
                asked.map_err(|retry_after| refusal(placement, demand, &limit, retry_after))?;
                admitted.add(&meter.leases, (limit.measure, scope), cost, whole);
            }
        }
    }
    match &payers.keyspace {
        Some(quota) => admit_by_quota(&site, bill, quota, demand, cores, admitted).await,
        None => Ok(()),
    }
}

async fn admit_by_quota(
    site: &Site<'_>,
    bill: &Bill,
    quota: &QuotaMeter,
    demand: &Demand<'_>,
    cores: u64,
    admitted: &mut Admitted,
) -> Result<(), Failure> {
    if let Some(most) = quota.requests_at_once().filter(|_| !bill.has_permit(quota.counted())) {
        let permit = permit(site.shard, quota, most).await;
        bill.keep_permit(permit.ok_or_else(|| quota.refused(count_refusal(quota, most)))?);
    }
    let Some(rate) = quota.rate() else { return Ok(()) };
    let (measure, scope) = (Measure::Units, quota.scope());
    let limit = Limit { measure, rate, is_of_key: false };
    let cost = if demand.is_write { demand.cost.units } else { quota.leases.read_estimate() };
    let asking = Asking { table: quota.id, measure, scope, limit, cores };
    let asked = asking.admit(site, &quota.leases, demand, cost).await;
    asked.map_err(|retry_after| quota.refused(quota_refusal(quota, rate, retry_after)))?;
    admitted.add(&quota.leases, (measure, scope), cost, cost);
    Ok(())
}
