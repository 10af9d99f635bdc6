//! INSERT, UPDATE and DELETE that are requests of their own.

use super::batch;
use super::mutations::Mutations;
use crate::coordinator::terms::write_terms;
use crate::coordinator::write::write;
use crate::execute::values::binding::Values;
use crate::execute::values::keys::Keys;
use crate::execute::values::timeout::timeout_of;
use crate::messages::Request;
use crate::messages::data::{ListChange, WriteTimes};
use crate::request::AckTerms;
use crate::shard_state::Shard;
use crate::statements::Statement;
use cql::plan::Modify;
use model::{Consistency, Failure, Home, QueryParameters, Table};

/// Runs an INSERT, UPDATE or DELETE.
pub(crate) async fn modify(
    shard: &Shard,
    statement: &Statement,
    modify: &Modify,
    values: &Values<'_>,
    parameters: &QueryParameters<'_>,
) -> Result<(), Failure> {
    let counts = modify.table.is_counter();
    let config = shard.config();
    let timeout = if counts { config.counter_write_timeout } else { config.write_timeout };
    let timeout = timeout_of(shard, &statement.prepared, values, timeout)?;
    if counts {
        check_counter_level(parameters.consistency, &modify.table)?;
    }
    let (home, terms) = write_terms(shard, &modify.table, parameters.consistency, timeout)?;
    let when = WriteTimes::of(shard, modify.timestamp.as_ref(), values, parameters)?;
    if modify.reads() {
        return Box::pin(modify_reading(shard, modify, values, home, when, &terms)).await;
    }
    let mut mutations = Mutations::default();
    mutations.add(shard, modify, values, home, when)?;
    write(shard, mutations.finish()?, &terms).await
}

/// Refuses consistency levels that changes of counters do not accept.
fn check_counter_level(consistency: Consistency, table: &Table) -> Result<(), Failure> {
    match consistency {
        Consistency::Any => Err(Failure::invalid(format!(
            "Consistency level ANY is not yet supported for counter table {}",
            table.name
        ))),
        Consistency::Serial | Consistency::LocalSerial => {
            Err(Failure::invalid("Counter operations are inherently non-serializable"))
        }
        _ => Ok(()),
    }
}

/// Runs a statement that reads before it writes, on the cores that own its partitions.
async fn modify_reading(
    shard: &Shard,
    modify: &Modify,
    values: &Values<'_>,
    home: Home,
    when: WriteTimes,
    terms: &AckTerms,
) -> Result<(), Failure> {
    let keys = Keys::of(shard, &modify.table, &modify.keys, values)?;
    let change = |key| ListChange::new(modify, values, key, home, when);
    let change = match &keys {
        Keys::One(key) => change(key),
        // A failure in one partition must leave the others unchanged.
        Keys::Many(keys) => {
            return batch::write_together(shard, keys.iter().map(|key| change(key)).collect(), terms).await;
        }
    };
    let (to, shard) = (shard.route(home, change.key(shard.partitioner()).token), shard.clone());
    let mut call = Box::pin(async move { shard.call(to, Request::ChangeLists(Box::new(change))).await.done() });
    match runtime::timeout(terms.timeout, call.as_mut()).await {
        Some(result) => result,
        None => {
            // What is in the log must also reach the memtable, so the write goes on without its client.
            runtime::spawn(call);
            Err(terms.write_timed_out("SIMPLE"))
        }
    }
}
