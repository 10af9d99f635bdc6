//! Reads whose answers are compared or merged with those of other replicas.
//!
//! [`read_digest`] gives rows with the digest of what the read saw, and [`read_digest_now`] does so if nothing must be
//! awaited for it; [`read_fragments`] gives a block of fragments. All read as [`super::read`] does, but for tables
//! without storage, which no other replica has.

use super::read::{note, note_load, trace_begin, trace_end};
use super::row_sink::RowBlockSink;
use super::{failure, wait_for_table};
use crate::guards::tombstones::ScanCounts;
use crate::messages::data::{DigestReply, FragmentRequest, ReadRequest};
use crate::metrics::Measure;
use crate::shard_state::Shard;
use engine::RepairSet;
use model::digest::DigestSink;
use model::fragment_block::{FragmentBlock, FragmentBlockWriter};
use model::query::{EveryRow, Partitions, ReadCommand};
use model::tombstone_gc::GcMode;
use model::{Failure, Table};

/// A digest by what this core knows to be repaired.
fn digest_of<'t>(shard: &Shard, table: &'t Table, command: &'t ReadCommand) -> DigestSink<'t> {
    let digest = DigestSink::new(table, command);
    match table.options.tombstone_gc.mode {
        GcMode::Repair => digest.with_gc_before(shard.store().gc_before(table, command.now_in_seconds)),
        _ => digest,
    }
}

/// [`read_digest`] of one partition without awaiting; `None` if it must wait for the disk or for a table.
pub(crate) fn read_digest_now(shard: &Shard, request: &ReadRequest) -> Option<Result<DigestReply, Failure>> {
    let command = &request.command;
    if !matches!(command.partitions, Partitions::Key(_)) || shard.is_traced() {
        return None;
    }
    let began = runtime::now();
    let schema = shard.schema_ref();
    let table = schema.table_by_id(command.table)?;
    let mut sink = RowBlockSink::new(shard.partitioner(), table, request);
    let mut digest = digest_of(shard, table, command);
    let end = match shard.store().read_fragments_now(command, &mut sink, &mut digest)? {
        Ok(end) => end,
        Err(error) => return Some(Err(failure(&schema, Some(table.id), error))),
    };
    let rows = sink.finish(end);
    shard.metrics().read(&table.id, Measure::LocalRead, began, rows.scanned);
    note(shard, request, &rows);
    Some(Ok(DigestReply { rows, digest: digest.finish() }))
}

/// Reads what this core owns. The digest covers every row that the read visited, also those that the filter rejects;
/// rows that an index finds have none, and `request.index` is not used.
pub(crate) async fn read_digest(shard: &Shard, request: &ReadRequest) -> Result<DigestReply, Failure> {
    let began = runtime::now();
    let table = wait_for_table(shard, request.command.table).await?;
    let (mut sink, mut digest) =
        (RowBlockSink::new(shard.partitioner(), &table, request), digest_of(shard, &table, &request.command));
    let (store, command) = (shard.store(), &request.command);
    trace_begin(shard, &table, &command.partitions);
    let read = match store.read_fragments_now(command, &mut sink, &mut digest) {
        Some(end) => end,
        None => store.read_fragments(command, &mut sink, &mut digest).await,
    };
    let end = read.map_err(|error| failure(&shard.schema(), Some(table.id), error))?;
    let rows = sink.finish(end);
    let measure = match command.partitions {
        Partitions::Key(_) => Measure::LocalRead,
        Partitions::Range(_) => Measure::LocalScan,
    };
    shard.metrics().read(&table.id, measure, began, rows.scanned);
    note(shard, request, &rows);
    trace_end(shard, rows.scanned);
    Ok(DigestReply { rows, digest: digest.finish() })
}

/// Reads the fragments of what this core owns.
pub(crate) async fn read_fragments(shard: &Shard, request: &FragmentRequest) -> Result<FragmentBlock, Failure> {
    let table = wait_for_table(shard, request.command.table).await?;
    let mut block = FragmentBlockWriter::new(shard.partitioner(), request.bytes_max);
    let (store, command) = (shard.store(), &request.command);
    trace_begin(shard, &table, &command.partitions);
    let read = match store.read_fragments_now(command, &mut EveryRow, &mut block) {
        Some(end) => end,
        None => store.read_fragments(command, &mut EveryRow, &mut block).await,
    };
    let end = read.map_err(|error| failure(&shard.schema(), Some(table.id), error))?;
    let block = block.finish(&end);
    if shard.tablet_loads().counts(table.id) {
        note_load(shard, command, (ScanCounts::default(), block.bytes().len() as u64));
    }
    Ok(block)
}

/// Reads the fragments that one set of the SSTables of this core has.
pub(crate) async fn read_fragments_of(
    shard: &Shard,
    set: RepairSet,
    request: &FragmentRequest,
) -> Result<FragmentBlock, Failure> {
    let table = wait_for_table(shard, request.command.table).await?;
    let mut block = FragmentBlockWriter::new(shard.partitioner(), request.bytes_max);
    let read = shard.store().read_fragments_of(set, &request.command, &mut EveryRow, &mut block).await;
    let end = read.map_err(|error| failure(&shard.schema(), Some(table.id), error))?;
    Ok(block.finish(&end))
}
