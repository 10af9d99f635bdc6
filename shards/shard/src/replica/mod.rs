//! Reading and writing what this core owns.
//!
//! [`read`] and [`write`](mod@write) are the plain paths; [`counters`] reads before it writes; [`list_reads`] and
//! [`paxos_acceptor`] serve changes that depend on what is stored; [`mod@fragments`] answers reads of several replicas;
//! [`validation`] hashes for repairs; [`unfinished`] lists what rounds of Paxos have left; [`batches`] keeps logged
//! batches; [`failure`] turns errors of the store into failures for clients.
//!
//! Not here: which core owns a partition (`coordinator`), what CQL means (`execute`), which message leads to which
//! function (`dispatch`).

pub(crate) mod batches;
pub(crate) mod counters;
mod failure;
pub(crate) mod fragments;
pub(crate) mod list_reads;
pub(crate) mod paxos_acceptor;
mod read;
pub(crate) mod row_sink;
pub(crate) mod unfinished;
pub(crate) mod validation;
mod write;

pub(crate) use failure::{failure, oversized, read_failure};
pub(crate) use read::{read, read_now, read_waiting, timed_read_now};
pub(crate) use write::{mutate, mutate_durably, mutate_here, mutate_late};

use crate::shard_state::Shard;
use model::{Failure, Schema, Table, TableId};
use std::sync::Arc;
use std::time::Duration;

/// How long a request waits for a table that this core does not know yet.
const SCHEMA_WAIT: Duration = Duration::from_millis(500);

/// Waits until this core knows a table, because a message may arrive before the schema that it depends on.
pub(crate) async fn wait_for_table(shard: &Shard, id: TableId) -> Result<Arc<Table>, Failure> {
    let known = |schema: &Schema| schema.table_by_id(id).cloned();
    if let Some(table) = known(&shard.schema_ref()) {
        return Ok(table);
    }
    let switched = shard.schema_switched(|schema| known(schema));
    runtime::timeout(SCHEMA_WAIT, switched).await.ok_or_else(|| Failure::invalid(format!("unconfigured table {id}")))
}
