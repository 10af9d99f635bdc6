//! Writes of what this core owns.

use super::{failure, wait_for_table};
use crate::metrics::WrittenTables;
use crate::shard_state::Shard;
use model::{Failure, Mutation};

/// Applies a mutation of this core for another core, or as a part of an operation that is measured as a whole.
/// `system`: it may exceed the memtable budget.
pub(crate) async fn mutate(shard: &Shard, mutation: Mutation, system: bool) -> Result<(), Failure> {
    apply(shard, mutation, if system { Mode::System } else { Mode::Peer }).await
}

/// Applies a mutation of this core that was to be written at `written_at`, microseconds since 1970, and comes late:
/// what it changes in tables that were truncated since is left out.
pub(crate) async fn mutate_late(shard: &Shard, mutation: Mutation, written_at: i64) -> Result<(), Failure> {
    match mutation.of_tables(|table| !shard.truncations().covers(table, written_at)) {
        Some(mutation) => apply(shard, mutation, Mode::Peer).await,
        None => Ok(()),
    }
}

/// Applies a mutation of this core; durable on return, in every mode of the log.
pub(crate) async fn mutate_durably(shard: &Shard, mutation: Mutation) -> Result<(), Failure> {
    apply(shard, mutation, Mode::Durable).await
}

/// Applies a mutation of this core for a client of this core.
pub(crate) async fn mutate_here(shard: &Shard, mutation: Mutation) -> Result<(), Failure> {
    apply(shard, mutation, Mode::Client).await
}

/// How a mutation is applied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// For another core.
    Peer,
    /// For a client of this core.
    Client,
    /// For a system table: may exceed the memtable budget.
    System,
    /// Durable on return.
    Durable,
}

async fn apply(shard: &Shard, mutation: Mutation, mode: Mode) -> Result<(), Failure> {
    let began = runtime::now();
    let mut written = WrittenTables::default();
    for update in mutation.updates() {
        wait_for_table(shard, update.table).await?;
        written.push(update.table);
    }
    if shard.metrics().sampling.is_on() {
        shard.metrics().sampling.note_write(&mutation);
    }
    for update in mutation.updates() {
        if shard.tablet_loads().counts(update.table) {
            shard.tablet_loads().note_write(update.table, mutation.token(), mutation.bytes().len() as u64);
        }
    }
    let first = mutation.updates().next().map(|update| update.table);
    shard.trace(|| "Appending to commitlog".into());
    let names = if shard.is_traced() { table_names(shard, &mutation) } else { Vec::new() };
    let applied = match mode {
        Mode::Durable => shard.store().apply_durably(mutation, false).await,
        _ => shard.store().apply(mutation, mode == Mode::System).await,
    };
    let applied = applied.map_err(|error| failure(&shard.schema(), first, error));
    if applied.is_ok() {
        shard.metrics().wrote(&written, mode == Mode::Client, began);
        names.iter().for_each(|name| shard.trace(|| format!("Adding to {name} memtable")));
    }
    applied
}

/// The names of the tables that a mutation changes, each once.
fn table_names(shard: &Shard, mutation: &Mutation) -> Vec<String> {
    let schema = shard.schema_ref();
    let mut names = Vec::new();
    for table in mutation.updates().filter_map(|update| schema.table_by_id(update.table)) {
        if !names.contains(&table.name) {
            names.push(table.name.clone());
        }
    }
    names
}
