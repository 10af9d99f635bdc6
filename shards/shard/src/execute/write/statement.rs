//! INSERT, UPDATE and DELETE that are requests of their own.

use super::mutations::Mutations;
use super::{batch, list_changes};
use crate::coordinator::row_source::RowSource;
use crate::coordinator::sub_partitions::pin;
use crate::coordinator::throttle::{Bill, admit_decision, admit_write};
use crate::coordinator::write::{plan, write};
use crate::execute::values::binding::Values;
use crate::execute::values::keys::Keys;
use crate::execute::values::timeout::timeout_of;
use crate::messages::Request;
use crate::messages::data::{ListChange, WriteTimes};
use crate::request::AckTerms;
use crate::shard_state::Shard;
use crate::statements::Statement;
use cluster::consistency::{check_counter_write, check_reading_write, check_write};
use cluster::plan::WriteType;
use cql::plan::Modify;
use model::{Failure, QueryParameters};
use runtime::ShardId;
use std::rc::Rc;

/// Runs an INSERT, UPDATE or DELETE.
pub(crate) async fn modify(
    shard: &Shard,
    statement: &Statement,
    modify: &Modify,
    values: &Values<'_>,
    parameters: &QueryParameters<'_>,
    bill: Option<&Rc<Bill>>,
) -> Result<(), Failure> {
    let counts = modify.table.is_counter();
    let timeouts = shard.request_timeouts();
    let timeout = if counts { timeouts.counter_write } else { timeouts.write };
    let timeout = timeout_of(shard, &statement.prepared, values, timeout)?;
    let consistency = parameters.consistency;
    match counts {
        true => check_counter_write(consistency, &modify.table.name)?,
        false => check_write(consistency)?,
    }
    let terms = AckTerms { consistency, timeout };
    let when = WriteTimes::of(shard, modify.timestamp.as_ref(), values, parameters)?;
    let _pinned = pin(shard, &modify.table)?;
    if modify.reads() {
        return Box::pin(modify_reading(shard, modify, values, when, &terms, bill)).await;
    }
    let mut mutations = Mutations::default();
    mutations.add(shard, modify, values, when)?;
    let mutations = mutations.finish()?;
    if let Some(bill) = bill {
        Box::pin(admit_write(shard, bill, &mutations, 0, consistency, false)).await?;
    }
    write(shard, mutations, &terms).await
}

/// Runs a statement that reads before it writes, on the cores that own its partitions.
async fn modify_reading(
    shard: &Shard,
    modify: &Modify,
    values: &Values<'_>,
    when: WriteTimes,
    terms: &AckTerms,
    bill: Option<&Rc<Bill>>,
) -> Result<(), Failure> {
    check_reading_write(terms.consistency)?;
    let keys = list_changes::keys_of(shard, modify, values)?;
    let change = |key| ListChange::new(modify, values, key, when);
    let change = match &keys {
        Keys::One(key) => change(key),
        // A failure in one partition must leave the others unchanged.
        Keys::Many(keys) => {
            return batch::write_together(shard, keys.iter().map(|key| change(key)).collect(), terms, bill).await;
        }
    };
    let key = change.key(shard.partitioner());
    let plan = plan(shard, &modify.table, (key.token, &key.key), WriteType::Simple, terms)?;
    if let Some(bill) = bill {
        let (at, bytes) = ((key.token, &*key.key), values.bytes());
        admit_decision(shard, bill, &modify.table, at, bytes, terms.consistency, false).await?;
    }
    let Some(replica) = plan.replica() else { return Ok(()) };
    if plan.only_here().is_none() || list_changes::is_moving(shard, &modify.table, &change.key)? {
        // Several nodes may change the list: as in Cassandra, nothing keeps them from reading the same version of it.
        let deadline = runtime::now().after(terms.timeout);
        let source = RowSource::AtLevel { level: terms.consistency, deadline };
        let built = list_changes::mutations(shard, &change, &source);
        return match runtime::timeout(terms.timeout, Box::pin(built)).await {
            Some(mutations) => write(shard, mutations?, terms).await,
            None => plan.finish(replica, None),
        };
    }
    let (to, owner) = (ShardId(replica.shard), shard.clone());
    let mut call = Box::pin(async move { owner.call(to, Request::ChangeLists(Box::new(change))).await.done() });
    let written = runtime::timeout(terms.timeout, call.as_mut()).await;
    if written.is_none() {
        // What is in the log must also reach the memtable, so the write goes on without its client.
        runtime::spawn(call);
    }
    plan.finish(replica, written)
}
