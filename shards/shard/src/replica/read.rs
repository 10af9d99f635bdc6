//! Reads of what this core owns.
//!
//! A read comes as a pair: `read_now` answers without awaiting, or returns `None` if it would have to wait (for the
//! disk, or for a table that is unknown yet); `read_waiting` is its async twin. [`read`] tries one and then the other.

use super::row_sink::RowBlockSink;
use super::{failure, wait_for_table};
use crate::guards::tombstones::ScanCounts;
use crate::messages::data::{ReadReply, ReadRequest};
use crate::metrics::Measure;
use crate::shard_state::Shard;
use model::query::{Partitions, ReadCommand, ReadEnd};
use model::token::{RingPosition, TokenRange};
use model::{Failure, Partitioner, RingToken, Table, Token};

/// Reads what this core owns.
pub(crate) async fn read(shard: &Shard, request: &ReadRequest) -> Result<ReadReply, Failure> {
    match timed_read_now(shard, request, Vec::new()) {
        Some(result) => result,
        None => read_waiting(shard, request).await,
    }
}

/// Reads what this core owns, for callers that know that the read must wait.
pub(crate) async fn read_waiting(shard: &Shard, request: &ReadRequest) -> Result<ReadReply, Failure> {
    let began = runtime::now();
    let table = wait_for_table(shard, request.command.table).await?;
    if table.is_virtual() {
        return Box::pin(shard.read_virtual(&table, request)).await;
    }
    let mut sink = RowBlockSink::new(shard.partitioner(), &table, request);
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
            shard.metrics().read(&table.id, measure, began, reply.scanned);
            note(shard, request, &reply);
            Ok(reply)
        }
        Err(error) => Err(failure(&shard.schema(), Some(request.command.table), error)),
    }
}

/// Notes which partition was read, if somebody samples that, and adds to the load of its tablet, if it has one.
#[inline]
pub(super) fn note(shard: &Shard, request: &ReadRequest, reply: &ReadReply) {
    if shard.metrics().sampling.is_on()
        && let Partitions::Key(key) = &request.command.partitions
    {
        shard.metrics().sampling.note_read(request.command.table, &key.key, reply.scanned);
    }
    if shard.tablet_loads().counts(request.command.table) {
        let met = reply.scanned;
        note_load(shard, &request.command, (met, reply.block.bytes.len() as u64));
    }
}

/// Adds a read to the load of its tablet; the read of a range to the one in which it has met its last row.
pub(super) fn note_load(shard: &Shard, command: &ReadCommand, (met, bytes): (ScanCounts, u64)) {
    let token = match &command.partitions {
        Partitions::Key(key) => key.token,
        Partitions::Range(range) => match &range.start {
            Some(RingPosition { token: RingToken::Murmur3(start), .. }) => met.token.max(Token(*start)),
            _ => met.token,
        },
    };
    shard.tablet_loads().note_read(command.table, token, (met.live + met.dead, bytes));
}

/// Reads, and adds events to the request's trace.
async fn traced_read(
    shard: &Shard,
    table: &Table,
    request: &ReadRequest,
    sink: &mut RowBlockSink<'_>,
) -> Result<ReadEnd, engine::Error> {
    trace_begin(shard, table, &request.command.partitions);
    let end = shard.store().read(&request.command, sink).await?;
    trace_end(shard, sink.scanned());
    Ok(end)
}

/// Adds to the request's trace, if it has one, that a read of the store begins.
pub(super) fn trace_begin(shard: &Shard, table: &Table, partitions: &Partitions) {
    match partitions {
        Partitions::Key(_) => {
            shard.trace(|| format!("Executing single-partition query on {}", table.name));
            shard.trace(|| "Acquiring sstable references".into());
            shard.trace(|| "Merging memtable contents".into());
        }
        Partitions::Range(range) => {
            shard.trace(|| format!("Executing seq scan across 0 sstables for {}", bounds(shard.partitioner(), range)));
        }
    }
}

/// Adds to the request's trace, if it has one, what a read of the store has met.
pub(super) fn trace_end(shard: &Shard, met: ScanCounts) {
    let ScanCounts { live, dead, .. } = met;
    shard.trace(|| format!("Read {live} live rows and {dead} tombstone cells"));
}

/// A range of tokens in Cassandra's words.
fn bounds(partitioner: Partitioner, range: &TokenRange) -> String {
    let side = |position: &Option<RingPosition>| match position {
        None => format!("min({})", partitioner.minimum()),
        Some(RingPosition { token, is_after }) => format!("{}({token})", if *is_after { "max" } else { "min" }),
    };
    format!("({}, {}]", side(&range.start), side(&range.end))
}

/// Reads one partition if that requires no waiting, using `room` for the rows, and records the latency.
pub(crate) fn timed_read_now(
    shard: &Shard,
    request: &ReadRequest,
    room: Vec<u8>,
) -> Option<Result<ReadReply, Failure>> {
    let began = runtime::now();
    let result = read_now(shard, request, room)?;
    if let Ok(reply) = &result {
        shard.metrics().read(&request.command.table, Measure::LocalRead, began, reply.scanned);
    }
    Some(result)
}

/// Reads one partition if that requires no waiting, using `room` for the rows. The caller records the latency.
pub(crate) fn read_now(shard: &Shard, request: &ReadRequest, room: Vec<u8>) -> Option<Result<ReadReply, Failure>> {
    let at_once = matches!(request.command.partitions, Partitions::Key(_)) && request.index.is_none();
    if !at_once || shard.is_traced() {
        return None;
    }
    let schema = shard.schema_ref();
    let table = schema.table_by_id(request.command.table)?;
    let mut sink = RowBlockSink::new(shard.partitioner(), table, request);
    sink.use_room(room);
    Some(match shard.store().read_now(&request.command, &mut sink)? {
        Ok(end) => {
            let reply = sink.finish(end);
            note(shard, request, &reply);
            Ok(reply)
        }
        Err(engine::Error::UnknownTable(_)) if table.is_virtual() => return None,
        Err(error) => Err(failure(&schema, Some(request.command.table), error)),
    })
}
