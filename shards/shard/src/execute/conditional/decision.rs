//! Deciding a conditional change: reading what its conditions look at, testing them, and building the mutation.
//!
//! As in Cassandra:
//! * Conditions on static columns look at the partition, others at their row.
//! * The rows that have conditions are read, or the partition's first row if only static columns have conditions. If no
//!   statement names a row, that first row must have a row marker, because it is read without regular columns.
//! * The answer shows the columns that conditions look at, or all that the statements are about if one tests existence.
//! * A partition that has only static content counts as a row if static columns are looked at.
//!
//! Invariants: runs after the promise, under the partition's lock if this node has it; the change has the ballot's time
//! and its deletions the microsecond before, so that a batch may delete and write the same row.

use super::changes::Changes;
use super::conditions::{Asked, Found, Wanted, comparable_of};
use crate::coordinator::asked_replica::AskedReplica;
use crate::coordinator::row_source::RowSource;
use crate::execute::conditional::sums;
use crate::execute::transaction;
use crate::execute::values::binding::Values;
use crate::execute::write::mutations::named_row;
use crate::messages::data::{ConditionalRequest, ConditionalStatement, Decision, ReadRequest, borrowed};
use crate::paxos::Update;
use crate::replica::row_sink::RowBlockSink;
use crate::rows::block::{RowBlock, cells_of};
use crate::rows::commands::row_slice;
use crate::shard_state::Shard;
use cql::plan::Selector;
use model::mutation::{Clustering, push_clustering};
use model::query::{LiveRow, Partitions, ReadCommand, ReadEnd, RowSink, SinkState, Slice};
use model::row::Cell;
use model::value::{BoundValue, push_element};
use model::{DecoratedKey, Failure, Partitioner, Table};
use std::sync::Arc;

/// Decides a request: returns the change to be proposed, if any, and the answer. `timestamp` is the ballot's,
/// microseconds since 1970; `source` has the partition.
pub(crate) async fn decide(
    shard: &Shard,
    request: &ConditionalRequest,
    key: &DecoratedKey,
    timestamp: i64,
    source: &RowSource,
) -> Result<(Option<Update>, Decision), Failure> {
    if let Some(transaction) = &request.transaction {
        let decided = transaction::decision::decide(shard, request, transaction, key, timestamp, source);
        return Box::pin(decided).await;
    }
    if request.statements.is_empty() {
        return Ok((None, Decision::unchanged()));
    }
    let bound: Vec<Vec<BoundValue<'_>>> = request.statements.iter().map(|part| borrowed(&part.bound)).collect();
    let asked = Asked::of(shard, &request.table, &request.statements, &bound)?;
    let found = read(shard, request, key, &asked, source).await?;
    if !asked.holds(&found)? {
        return Ok((None, Decision { applied: false, rows: shown(request, &asked, &found) }));
    }
    let mut changes = Changes::new(shard, request, timestamp, source);
    for (ConditionalStatement { modify, .. }, bound) in request.statements.iter().zip(&bound) {
        let values = Values::in_order(bound);
        let row = if sums::adds(modify) { named_row(shard, modify, &values)? } else { None };
        let row = row.map(|row| comparable_of(&request.table, &row));
        let existing = |is_row: bool, column| {
            let row = match is_row {
                true => found.iter().find(|found| row.is_some() && found.place == row),
                false => found.first(),
            };
            row.and_then(|row| asked.value(row, column)).map(<[u8]>::to_vec)
        };
        changes.add(modify, &values, &existing).await?;
    }
    Ok((changes.finish()?, Decision::unchanged()))
}

/// Fails for conditions that exclude each other or have invalid values.
pub(super) fn check(shard: &Shard, table: &Table, parts: &[ConditionalStatement]) -> Result<(), Failure> {
    let bound: Vec<Vec<BoundValue<'_>>> = parts.iter().map(|part| borrowed(&part.bound)).collect();
    Asked::of(shard, table, parts, &bound).map(|_| ())
}

/// The read of the rows that the conditions look at.
fn command_of(request: &ConditionalRequest, key: &DecoratedKey, asked: &Asked<'_>) -> ReadCommand {
    let table = &*request.table;
    let slice = |(clustering, _): &(Vec<u8>, Wanted<'_>)| match table.clustering_len {
        0 => Slice::all(),
        _ => row_slice(table, Clustering(clustering)),
    };
    let by_name = !asked.rows.is_empty();
    let slices: Arc<[Slice]> = match by_name {
        true => asked.rows.values().map(slice).collect(),
        // The first row tells whether the partition exists.
        false => Arc::from([Slice::all()]),
    };
    ReadCommand {
        table: table.id,
        now_in_seconds: request.now_in_seconds,
        partitions: Partitions::Key(key.clone()),
        slices,
        reversed: false,
        rows_max: if by_name { u64::MAX } else { 1 },
        per_partition_max: u64::MAX,
        visits_max: u64::MAX,
        resume: None,
        resume_partition_rows: 0,
        static_only: asked.reads_statics,
        wants_static: asked.reads_statics,
        row_columns: None,
    }
}

/// The read that [`decide`] begins with; `None` for a request without statements. Fails for conditions that have
/// invalid values.
pub(super) fn read_of(
    shard: &Shard,
    request: &ConditionalRequest,
    key: &DecoratedKey,
) -> Result<Option<ReadCommand>, Failure> {
    if request.statements.is_empty() {
        return Ok(None);
    }
    let bound: Vec<Vec<BoundValue<'_>>> = request.statements.iter().map(|part| borrowed(&part.bound)).collect();
    let asked = Asked::of(shard, &request.table, &request.statements, &bound)?;
    Ok(Some(command_of(request, key, &asked)))
}

/// Reads the rows that the conditions look at, in the order of the table.
async fn read(
    shard: &Shard,
    request: &ConditionalRequest,
    key: &DecoratedKey,
    asked: &Asked<'_>,
    source: &RowSource,
) -> Result<Vec<Found>, Failure> {
    let table = &*request.table;
    let keys = table.primary_key_len();
    let columns = table.columns[..keys].iter().map(|column| column.id).chain(asked.columns.iter().copied());
    let selection: Vec<Selector> = columns.map(Selector::Column).collect();
    let width = selection.len();
    let command = command_of(request, key, asked);
    let (selection, bytes_max) = (selection.into(), usize::MAX);
    let read = ReadRequest { command, selection, filter: None, index: None, bytes_max, places: false };
    // If no statement names a row, no regular columns are read.
    let named = |part: &ConditionalStatement| table.clustering_len == 0 || !part.modify.clustering.is_empty();
    let marked_alone = !request.statements.iter().any(named);
    let rows = RowBlockSink::new(key.partitioner, table, &read);
    let mut sink =
        RowsThere { rows, marked_alone, spare: None, partitioner: key.partitioner, table, read: &read, asked };
    let end = source.read(shard, table, read.command.clone(), &mut sink).await?;
    let mut reply = sink.rows.finish(end);
    if let (0, Some(spare)) = (reply.block.rows, sink.spare) {
        reply.block = spare.finish(ReadEnd::Exhausted).block;
    }
    check_tombstones(shard, request, key, reply.scanned.dead)?;
    let block = reply.block;
    let mut values = cells_of(&block.bytes).map(|value| value.map(<[u8]>::to_vec));
    let mut found = Vec::with_capacity(block.rows as usize);
    for _ in 0..block.rows {
        let values: Vec<Option<Vec<u8>>> = values.by_ref().take(width).collect();
        let clustering = values.get(table.partition_key_len..keys).unwrap_or_default();
        // The last clustering values of a row of a compact table may be null.
        let components = || clustering.iter().map_while(Option::as_deref);
        let has_row = clustering.is_empty() || clustering.first().is_some_and(Option::is_some);
        let place = has_row.then(|| {
            let mut out = Vec::new();
            components().for_each(|component| push_clustering(&mut out, component));
            comparable_of(table, &out)
        });
        found.push(Found { place, values });
    }
    Ok(found)
}

/// Fails if a read of the partition met too many tombstones.
pub(crate) fn check_tombstones(
    shard: &Shard,
    request: &ConditionalRequest,
    key: &DecoratedKey,
    dead: u64,
) -> Result<(), Failure> {
    let table = &*request.table;
    let is_exempt = matches!(table.keyspace.as_str(), "system" | "system_schema");
    if is_exempt || dead <= shard.config().tombstones.fail {
        return Ok(());
    }
    let placement = shard.placement_of(table)?;
    let asked = AskedReplica::of_partition(&placement, request.plan.serial(), key)?;
    Err(asked.met_too_many_tombstones(placement.keyspace().topology()))
}

/// A sink for the rows that exist as far as the columns read can tell: if no regular column is read, only rows with a
/// row marker; a static row only if a column that is read has a value.
struct RowsThere<'a> {
    rows: RowBlockSink<'a>,
    marked_alone: bool,
    /// Stands for the partition if none of its rows is taken.
    spare: Option<RowBlockSink<'a>>,
    partitioner: Partitioner,
    table: &'a Table,
    read: &'a ReadRequest,
    asked: &'a Asked<'a>,
}

impl RowSink for RowsThere<'_> {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        let asked = self.asked;
        let is_read = |cell: &Cell<'_>| asked.reads_all_statics || asked.columns.contains(&cell.column);
        let has_statics = || row.static_cells.iter().any(is_read);
        if row.static_only && !has_statics() {
            return SinkState::Rejected;
        }
        if !self.marked_alone || row.static_only || row.liveness.is_some() {
            return self.rows.row(row);
        }
        if self.read.command.static_only && self.spare.is_none() && has_statics() {
            let mut spare = RowBlockSink::new(self.partitioner, self.table, self.read);
            spare.row(&LiveRow {
                clustering: Clustering(&[]),
                comparable: &[],
                cells: &[],
                static_only: true,
                liveness: None,
                ..*row
            });
            self.spare = Some(spare);
        }
        SinkState::Rejected
    }

    fn dead(&mut self, count: u64) {
        self.rows.dead(count);
    }
}

/// The rows that were looked at, each after an `[applied]` value of `false`.
fn shown(request: &ConditionalRequest, asked: &Asked<'_>, found: &[Found]) -> RowBlock {
    let mut block = RowBlock::default();
    let mut bytes = Vec::new();
    for row in found {
        bytes.clear();
        push_element(&mut bytes, Some(&[0]));
        for column in request.shown.iter() {
            push_element(&mut bytes, asked.value(row, *column));
        }
        block.push_row(&bytes);
    }
    block
}
