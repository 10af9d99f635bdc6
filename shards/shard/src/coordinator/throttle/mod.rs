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
//!
//! [`bill`] adds up what a request costs; [`scopes`] says where each limit counts it; [`asking`] gets one scope's
//! admission; [`alert`](mod@alert) tells of limits that are nearly used up; [`refusal`] words the answer of a request
//! that is not admitted.

mod alert;
mod asking;
mod bill;
mod refusal;
mod scopes;

pub(crate) use asking::lease;
pub(crate) use bill::Bill;

use super::read::ReadPlan;
use super::write::Routed;
use crate::metrics::Charges;
use crate::shard_state::Shard;
use crate::shard_state::throughput::{Meter, micros};
use asking::Asking;
use bill::ReadCharge;
use cluster::placement::TablePlacement;
use cluster::units::Work;
use cluster::units::limits::{Cost, Measure, Scope, limits};
use model::{Consistency, DecoratedKey, Failure, Table, Token};
use refusal::refusal;
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

/// A request that has been admitted by its limits.
struct Admitted {
    /// The scopes, and what each was charged.
    scopes: Vec<((Measure, Scope), u64)>,
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
    meter.charge(bill.role(), &charged, now);
    let part = units / (demand.keys.len() as u64).max(1);
    demand.keys.iter().for_each(|(_, key)| meter.note_key(key, part, true, now));
    bill.add(units, true);
    Ok(())
}

/// Admits a read of these keys; none: of a range. It is charged by [`Bill::end_read`].
pub(crate) async fn admit_read(
    shard: &Shard,
    bill: &Bill,
    plan: &ReadPlan,
    keys: &[DecoratedKey],
) -> Result<(), Failure> {
    let Some(meter) = shard.throughput().of(plan.table.id) else {
        bill.begin_read(ReadCharge { meter: None, estimate: Cost::default(), keys: keys.into() });
        return Ok(());
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
    bill.begin_read(ReadCharge { meter: Some((meter, admitted)), estimate, keys: keys.into() });
    Ok(())
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
                meter.charge(bill.role(), &refused, runtime::now());
                return Err(refusal(placement, demand, &limit, retry_after));
            }
            admitted.scopes.push(((limit.measure, scope), cost));
        }
    }
    Ok(admitted)
}
