//! Serving requests of other cores on this one, and of this core's own coordinator.
//!
//! What needs no wait (a read of one partition from memory, a look into a cache) is served in the receiving task; the
//! rest in a task of its own.

use crate::metrics::{Measure, Written};
use crate::row_block::RowBlockSink;
use crate::tombstones::Met;
use crate::verbs::{ReadReply, ReadRequest, Reply, Request};
use crate::virtual_tables;
use crate::{SchemaChange, Shard};
use model::key::{Token, TokenRange};
use model::query::{Partitions, ReadEnd};
use model::{ErrorCode, Failure, Mutation, Schema, Table, TableId};
use runtime::ShardId;
use std::sync::Arc;
use std::time::Duration;

/// How long a message waits for a table that this core has not heard of yet.
const SCHEMA_WAIT: Duration = Duration::from_millis(500);

/// Takes a request of core `from`: answers it now or spawns a task that will.
pub(crate) fn receive(shard: &Shard, from: ShardId, id: u64, request: Request) {
    let request = match request {
        Request::Read(mut call) => match timed_read_now(shard, &call.request, std::mem::take(&mut call.room)) {
            Some(result) => {
                call.result = Some(result);
                return shard.mailbox().answer(from, id, Reply::Read(call));
            }
            None => Request::Read(call),
        },
        request => request,
    };
    let shard = shard.clone();
    runtime::spawn(async move {
        let reply = serve(&shard, request).await;
        shard.mailbox().answer(from, id, reply);
    });
}

/// Serves a request on this core.
pub(crate) async fn serve(shard: &Shard, request: Request) -> Reply {
    match request {
        Request::Mutate { mutation, system } => Reply::Done(mutate(shard, mutation, system).await),
        Request::Count(mutation) => Reply::Done(Box::pin(crate::counter::apply(shard, mutation)).await),
        Request::Change(change) => Reply::Done(Box::pin(crate::execute::modify::reading::apply(shard, &change)).await),
        Request::Decide(request) => Reply::Decided(Box::pin(crate::coordinator::cas::at_owner(shard, *request)).await),
        Request::Hold(hold) => Reply::Held(Box::pin(crate::held::hold(shard, &hold)).await),
        Request::LetGo(ticket) => {
            shard.held().let_go(ticket);
            Reply::Done(Ok(()))
        }
        Request::Read(mut call) => {
            call.result = Some(read_waiting(shard, &call.request).await);
            Reply::Read(call)
        }
        // Boxed: these call other cores, and through `call` this function again.
        Request::Define(define) => Reply::Defined(Box::pin(crate::execute::define::define(shard, *define)).await),
        Request::Truncate(table) => Reply::Done(Box::pin(crate::execute::define::truncate(shard, table)).await),
        Request::TruncateLocal(table) => {
            shard.truncations().note(table, shard.clock().timestamp());
            let result = shard.store().truncate(table).await;
            Reply::Truncated(result.map_err(|error| failure(&shard.schema(), None, error)))
        }
        Request::Release(table) => {
            let result = shard.store().release(table).await;
            Reply::Done(result.map_err(|error| failure(&shard.schema(), Some(table), error)))
        }
        Request::AdoptTables(schema) => {
            adopt_tables(shard, &schema);
            Reply::Done(Ok(()))
        }
        Request::SwitchSchema { schema, change, dropped, timestamp } => {
            shard.clock().raise(timestamp);
            Reply::Done(switch_schema(shard, schema, change, &dropped).await)
        }
        Request::InstallPrepared { id, keyspace, text } => {
            Reply::Done(Box::pin(crate::execute::prepared::install(shard, id, keyspace, text)).await)
        }
        Request::FindPrepared(id) => Reply::Prepared(Box::pin(crate::execute::prepared::find_at_home(shard, id)).await),
        Request::Observe => Reply::Observed(shard.notifier().observe()),
        Request::Measure(measures) => Reply::Measured(Box::new(shard.figures().tables(&measures))),
        Request::MeasureRequests => {
            let prepared = shard.prepared().borrow().count();
            Reply::MeasuredRequests(Box::new(shard.figures().requests(prepared)))
        }
        Request::Figures => Reply::Figures(Box::new(shard.own_figures())),
        Request::Table(verb) => Reply::Table(Box::pin(crate::table_verbs::run(shard, *verb)).await),
        Request::Part(part) => Reply::Part(Box::pin(crate::split::take_part(shard, *part)).await),
        Request::Traced { began, request } => {
            let served = Box::pin(serve(shard, *request));
            let (reply, events) = shard.traced_for_peer(began, served).await;
            Reply::Traced { reply: Box::new(reply), events }
        }
        Request::Barrier(step) => Reply::Done(shard.barrier().arrive(step).await),
    }
}

/// Applies a mutation of this core for another one, or as part of something else.
pub(crate) async fn mutate(shard: &Shard, mutation: Mutation, system: bool) -> Result<(), Failure> {
    apply(shard, mutation, if system { Mode::System } else { Mode::Peer }).await
}

/// Applies a mutation of this core; durable when it is done, in every mode of the log.
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
    /// Whatever memory it takes.
    System,
    /// Durable when it is done.
    Durable,
}

async fn apply(shard: &Shard, mutation: Mutation, mode: Mode) -> Result<(), Failure> {
    let began = runtime::now();
    let mut written = Written::default();
    for update in mutation.updates() {
        wait_for_table(shard, update.table).await?;
        written.push(update.table);
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
        shard.figures().wrote(&written, mode == Mode::Client, began);
        names.iter().for_each(|name| shard.trace(|| format!("Adding to {name} memtable")));
    }
    applied
}

/// The tables that a mutation changes, each once.
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

/// Reads what this core owns.
pub(crate) async fn read(shard: &Shard, request: &ReadRequest) -> Result<ReadReply, Failure> {
    match timed_read_now(shard, request, Vec::new()) {
        Some(result) => result,
        None => read_waiting(shard, request).await,
    }
}

/// As [`read`], for who has seen that it needs a wait.
pub(crate) async fn read_waiting(shard: &Shard, request: &ReadRequest) -> Result<ReadReply, Failure> {
    let began = runtime::now();
    let table = wait_for_table(shard, request.command.table).await?;
    if virtual_tables::is_virtual(&table) {
        // Boxed: it asks the other cores.
        return Box::pin(virtual_tables::read(shard, &table, request)).await;
    }
    let mut sink = RowBlockSink::new(&table, request);
    let read = if let Some(index) = &request.index {
        Box::pin(shard.store().read_index(&request.command, index, &mut sink)).await
    } else if shard.is_traced() {
        Box::pin(traced_read(shard, &table, request, &mut sink)).await
    } else {
        shard.store().read(&request.command, &mut sink).await
    };
    match read {
        Ok(end) => {
            let reply = sink.finish(end);
            let measure = match request.command.partitions {
                Partitions::Key(_) => Measure::LocalRead,
                Partitions::Range(_) => Measure::LocalScan,
            };
            shard.figures().read(&table.id, measure, began, reply.met);
            Ok(reply)
        }
        Err(error) => Err(failure(&shard.schema(), Some(request.command.table), error)),
    }
}

/// A read that tells the request's trace what it does.
async fn traced_read(
    shard: &Shard,
    table: &Table,
    request: &ReadRequest,
    sink: &mut RowBlockSink<'_>,
) -> Result<ReadEnd, engine::Error> {
    match &request.command.partitions {
        Partitions::Key(_) => {
            shard.trace(|| format!("Executing single-partition query on {}", table.name));
            shard.trace(|| "Acquiring sstable references".into());
            shard.trace(|| "Merging memtable contents".into());
        }
        Partitions::Range(range) => {
            shard.trace(|| format!("Executing seq scan across 0 sstables for {}", bounds(range)));
        }
    }
    let end = shard.store().read(&request.command, sink).await?;
    let Met { live, dead, .. } = sink.met();
    shard.trace(|| format!("Read {live} live rows and {dead} tombstone cells"));
    Ok(end)
}

/// A range of tokens in Cassandra's words.
fn bounds(range: &TokenRange) -> String {
    let side = |token: Token| if token == Token::MIN { "min" } else { "max" };
    format!("({}({}), {}({})]", side(range.after), range.after.0, side(range.until), range.until.0)
}

/// The same for another core, or as part of something else.
fn timed_read_now(shard: &Shard, request: &ReadRequest, room: Vec<u8>) -> Option<Result<ReadReply, Failure>> {
    let began = runtime::now();
    let result = read_now(shard, request, room)?;
    if let Ok(reply) = &result {
        shard.figures().read(&request.command.table, Measure::LocalRead, began, reply.met);
    }
    Some(result)
}

/// Reads one partition if that needs no wait, into the memory of `room`. Who calls it records how long it took.
pub(crate) fn read_now(shard: &Shard, request: &ReadRequest, room: Vec<u8>) -> Option<Result<ReadReply, Failure>> {
    let at_once = matches!(request.command.partitions, Partitions::Key(_)) && request.index.is_none();
    if !at_once || shard.is_traced() {
        return None;
    }
    let schema = shard.schema_ref();
    let table = schema.table_by_id(request.command.table)?;
    let mut sink = RowBlockSink::new(table, request).with_room(room);
    Some(match shard.store().read_now(&request.command, &mut sink)? {
        Ok(end) => Ok(sink.finish(end)),
        Err(engine::Error::UnknownTable(_)) if virtual_tables::is_virtual(table) => return None,
        Err(error) => Err(failure(&schema, Some(request.command.table), error)),
    })
}

/// The table, once this core knows it: the message may be ahead of the schema.
pub(crate) async fn wait_for_table(shard: &Shard, id: TableId) -> Result<Arc<Table>, Failure> {
    let known = |schema: &Schema| schema.table_by_id(id).cloned();
    if let Some(table) = known(&shard.schema_ref()) {
        return Ok(table);
    }
    let switched = shard.schema_switched(|schema| known(schema));
    runtime::timeout(SCHEMA_WAIT, switched).await.ok_or_else(|| Failure::invalid(format!("unconfigured table {id}")))
}

/// Lets the store know the tables of `schema` that were altered, before anyone plans with them.
fn adopt_tables(shard: &Shard, schema: &Schema) {
    let known = shard.schema();
    for keyspace in schema.keyspaces.values().filter(|keyspace| !keyspace.is_virtual()) {
        for table in keyspace.tables.values() {
            if known.table_by_id(table.id).is_some_and(|old| **old != **table) {
                shard.store().add_table(table.clone(), keyspace.lives_on_shard_0(&table.name));
            }
        }
    }
}

/// Serves `schema` from now on.
async fn switch_schema(
    shard: &Shard,
    schema: Arc<Schema>,
    change: Option<SchemaChange>,
    dropped: &[TableId],
) -> Result<(), Failure> {
    let known = shard.schema();
    let mut stale = dropped.to_vec();
    for keyspace in schema.keyspaces.values().filter(|keyspace| !keyspace.is_virtual()) {
        for table in keyspace.tables.values() {
            match known.table_by_id(table.id) {
                None => shard.store().add_table(table.clone(), keyspace.lives_on_shard_0(&table.name)),
                Some(old) if Arc::ptr_eq(old, table) => {}
                Some(old) if changes_statements(old, table) => stale.push(table.id),
                Some(_) => {}
            }
        }
    }
    shard.set_schema(schema);
    for table in dropped {
        shard.store().drop_table(*table);
    }
    shard.figures().forget(dropped);
    crate::execute::prepared::schema_changed(shard, &stale).await?;
    if let Some(change) = &change {
        shard.notifier().schema_changed(change);
    }
    Ok(())
}

/// Whether statements prepared on a table must be prepared again: as in Cassandra, not for most options.
fn changes_statements(before: &Table, after: &Table) -> bool {
    let of = |table: &Table| (table.options.default_time_to_live, table.options.gc_grace_seconds);
    before.columns != after.columns
        || before.layout != after.layout
        || before.indexes != after.indexes
        || of(before) != of(after)
}

/// What a client is told of an error of the store.
pub(crate) fn failure(schema: &Schema, table: Option<TableId>, error: engine::Error) -> Failure {
    let name = |id: TableId| match schema.table_by_id(id) {
        Some(table) => table.full_name(),
        None => id.to_string(),
    };
    match error {
        engine::Error::MemtableFull => {
            Failure::overloaded("The memtables of this core are full; nothing was written. Reads go on.")
        }
        engine::Error::MutationTooLarge { bytes } => {
            let (keyspace, table) = match table.and_then(|id| schema.table_by_id(id)) {
                Some(table) => (table.keyspace.as_str(), table.name.as_str()),
                None => ("", ""),
            };
            oversized(bytes, keyspace, table)
        }
        engine::Error::UnknownTable(id) => Failure::invalid(format!("unconfigured table {}", name(id))),
        engine::Error::LockQueueFull => {
            Failure::overloaded("Too many requests wait for this partition; nothing was written")
        }
        engine::Error::Closing => Failure::new(ErrorCode::Overloaded, "The node is stopping"),
        // The log says so once; a line per refused write would fill what is left.
        engine::Error::LogFull(_) => {
            Failure::overloaded("There is no room for the commit log; nothing was written. Reads go on.")
        }
        engine::Error::LogFailed(error) => {
            tracing::error!(%error, "the commit log cannot be written");
            Failure::server("The commit log could not be written").unknown()
        }
        // The coordinator, who knows the level asked, adds the detail.
        error @ engine::Error::IndexNotBuilt { .. } => Failure::new(
            ErrorCode::ReadFailure,
            format!("Operation failed - received 0 responses and 1 failures: INDEX_NOT_AVAILABLE ({error})"),
        ),
        error @ engine::Error::BadSstable { .. } => {
            tracing::error!(%error, "a read met an SSTable that cannot be used");
            Failure::new(
                ErrorCode::ReadFailure,
                format!("Operation failed - received 0 responses and 1 failures: UNKNOWN ({error})"),
            )
        }
        error => {
            tracing::error!(%error, "the store failed");
            Failure::server("The store failed").unknown()
        }
    }
}

/// A mutation of too many bytes.
pub(crate) fn oversized(bytes: usize, keyspace: &str, table: &str) -> Failure {
    let max = model::mutation::MUTATION_BYTES_MAX;
    Failure::invalid(format!(
        "Encountered an oversized mutation ({bytes}/{max}) for keyspace: {keyspace}. Top keys are: {table}"
    ))
}
