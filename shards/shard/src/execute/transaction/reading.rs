//! Reading all that a transaction looks at as one state of its partition: with one read, whose rows are handed to each
//! LET assignment and SELECT that they belong to.
//!
//! 1. A read that names its rows, or has no limit, knows where it ends. One with a limit (`LIMIT 1`) does not: reading
//!    all that it might return could take the whole partition.
//! 2. If there are others beside it, its rows are looked for first, by a read of its own. That tells where it ends.
//! 3. One read of all these places follows. If a row that ended a place is gone by then, the places are looked for
//!    again, at most [`ATTEMPTS_MAX`] times.
//!
//! Invariants: no row that a transaction uses comes from any other read than the last; rows of more than
//! [`READ_BYTES_MAX`] bytes are refused.

use crate::coordinator::row_source::RowSource;
use crate::execute::conditional::decision::check_tombstones;
use crate::messages::data::{ConditionalRequest, ReadRequest, RowsRead, TransactionRequest};
use crate::replica::row_sink::RowBlockSink;
use crate::rows::block::{RowBlock, cells_of};
use crate::shard_state::Shard;
use cql::plan::Selector;
use model::query::{LiveRow, Partitions, ReadCommand, ReadEnd, RowSink, SinkState, Slice};
use model::{ColumnId, DecoratedKey, Failure};
use std::sync::Arc;

/// Most bytes of rows that a transaction reads.
const READ_BYTES_MAX: usize = 8 << 20;
/// How often the ends of limited reads are looked for while rows vanish.
const ATTEMPTS_MAX: usize = 16;

/// The rows that a transaction has read.
pub(super) struct Found {
    /// By read: its columns and rows.
    rows: Vec<(Arc<[Selector]>, RowBlock)>,
    statics: (Arc<[Selector]>, RowBlock),
}

impl Found {
    /// Whether a read has found a row.
    pub(super) fn has_row(&self, read: usize) -> bool {
        self.rows.get(read).is_some_and(|(_, block)| block.rows > 0)
    }

    /// The value of a column in the first row of a read; `None` for null.
    pub(super) fn value(&self, read: usize, column: ColumnId) -> Option<&[u8]> {
        self.rows.get(read).and_then(|read| first_value(read, column))
    }

    /// The value of a static column.
    pub(super) fn static_value(&self, column: ColumnId) -> Option<&[u8]> {
        first_value(&self.statics, column)
    }

    /// All rows of a read.
    pub(super) fn rows(&self, read: usize) -> RowBlock {
        self.rows.get(read).map(|(_, block)| block.clone()).unwrap_or_default()
    }
}

fn first_value((selection, block): &(Arc<[Selector]>, RowBlock), column: ColumnId) -> Option<&[u8]> {
    let at = selection.iter().position(|selector| *selector == Selector::Column(column))?;
    cells_of(&block.bytes).nth(at).flatten()
}

/// Where a read looks, and how many rows it must find there for the place to be right.
#[derive(Clone)]
struct Place {
    slices: Arc<[Slice]>,
    rows_needed: u64,
}

/// The read that [`read`] begins with, if it is the only one.
pub(super) fn first_command(request: &ConditionalRequest, key: &DecoratedKey) -> Option<ReadCommand> {
    let transaction = request.transaction.as_deref()?;
    if transaction.reads.iter().any(|read| is_open(transaction, read)) {
        return None;
    }
    let places: Vec<Place> = transaction.reads.iter().map(whole).collect();
    command_of(request, transaction, key, &places)
}

/// Reads all rows of a transaction.
///
/// # Errors
/// Those of the source; the rows have too many bytes or tombstones, or vanish while they are read.
pub(super) async fn read(
    shard: &Shard,
    request: &ConditionalRequest,
    transaction: &TransactionRequest,
    key: &DecoratedKey,
    source: &RowSource,
) -> Result<Found, Failure> {
    let table = &*request.table;
    for _ in 0..ATTEMPTS_MAX {
        let mut places = Vec::with_capacity(transaction.reads.len());
        for read in &transaction.reads {
            places.push(match is_open(transaction, read) {
                true => bounded(shard, request, key, source, read).await?,
                false => whole(read),
            });
        }
        let command = command_of(request, transaction, key, &places);
        let requests: Vec<ReadRequest> = requests_of(request, transaction, key, &places);
        let sinks = requests.iter().map(|request| RowBlockSink::new(key.partitioner, table, request)).collect();
        let mut sink = RowsByRead { reads: &transaction.reads, places: &places, sinks, bytes: 0, dead: 0 };
        let mut end = ReadEnd::Exhausted;
        if let Some(command) = command {
            end = source.read(shard, table, command, &mut sink).await?;
        }
        check_tombstones(shard, request, key, sink.dead)?;
        if sink.bytes > READ_BYTES_MAX {
            return Err(Failure::invalid(format!("A transaction reads at most {READ_BYTES_MAX} bytes of rows")));
        }
        let blocks = sink.sinks.into_iter().map(|sink| sink.finish(end.clone()).block);
        let selections = requests.iter().map(|request| request.selection.clone());
        let mut rows: Vec<(Arc<[Selector]>, RowBlock)> = selections.zip(blocks).collect();
        let statics = rows.pop().unwrap_or_default();
        let is_right = |(place, (_, block)): (&Place, &(_, RowBlock))| u64::from(block.rows) >= place.rows_needed;
        if places.iter().zip(&rows).all(is_right) {
            return Ok(Found { rows, statics });
        }
        runtime::yield_if_needed().await;
    }
    Err(Failure::overloaded("Rows that a transaction reads are deleted while it looks for them; nothing was written"))
}

/// Whether it must be found out where a read ends.
fn is_open(transaction: &TransactionRequest, read: &RowsRead) -> bool {
    read.rows_max != u64::MAX && !read.names_row && transaction.reads.len() > 1
}

/// All places where a read may find rows.
fn whole(read: &RowsRead) -> Place {
    Place { slices: read.slices.clone(), rows_needed: 0 }
}

/// The places up to the last row that a limited read returns.
async fn bounded(
    shard: &Shard,
    request: &ConditionalRequest,
    key: &DecoratedKey,
    source: &RowSource,
    read: &RowsRead,
) -> Result<Place, Failure> {
    if read.slices.is_empty() {
        return Ok(whole(read));
    }
    let mut last = LastRow { rows: 0, comparable: Vec::new(), rows_max: read.rows_max };
    let command = ReadCommand { rows_max: read.rows_max, ..of_slices(request, key, read.slices.clone()) };
    source.read(shard, &request.table, command, &mut last).await?;
    if last.rows < read.rows_max {
        return Ok(whole(read));
    }
    let end = [&last.comparable[..], &[0]].concat();
    let slices = read.slices.iter().filter(|slice| *slice.start < *end).map(|slice| {
        let is_before = !slice.end.is_empty() && *slice.end <= *end;
        Slice { start: slice.start.clone(), end: if is_before { slice.end.clone() } else { end.as_slice().into() } }
    });
    Ok(Place { slices: slices.collect(), rows_needed: read.rows_max })
}

/// The command of all places together; `None` if nothing is read.
fn command_of(
    request: &ConditionalRequest,
    transaction: &TransactionRequest,
    key: &DecoratedKey,
    places: &[Place],
) -> Option<ReadCommand> {
    let mut slices: Vec<Slice> = places.iter().flat_map(|place| place.slices.iter().cloned()).collect();
    let wants_statics = !transaction.statics.is_empty();
    let mut rows_max = match transaction.reads.as_slice() {
        [only] => only.rows_max,
        _ => u64::MAX,
    };
    if slices.is_empty() {
        if !wants_statics {
            return None;
        }
        // Any row comes with the static ones.
        slices.push(Slice::all());
        rows_max = 1;
    }
    slices.sort_by(|a, b| a.start.cmp(&b.start));
    slices.dedup_by(|next, before| {
        let touches = before.end.is_empty() || next.start <= before.end;
        if touches && !before.end.is_empty() && (next.end.is_empty() || next.end > before.end) {
            before.end = std::mem::take(&mut next.end);
        }
        touches
    });
    let static_only = wants_statics || transaction.reads.iter().any(|read| read.static_rows);
    let wants_static = request.table.static_len > 0;
    Some(ReadCommand { rows_max, static_only, wants_static, ..of_slices(request, key, slices.into()) })
}

fn of_slices(request: &ConditionalRequest, key: &DecoratedKey, slices: Arc<[Slice]>) -> ReadCommand {
    let all = ReadCommand::all(request.table.id, request.now_in_seconds, Partitions::Key(key.clone()));
    ReadCommand { slices, ..all }
}

/// What the sinks of all reads are made for, last of them that of the static columns.
fn requests_of(
    request: &ConditionalRequest,
    transaction: &TransactionRequest,
    key: &DecoratedKey,
    places: &[Place],
) -> Vec<ReadRequest> {
    let sink = |slices: &Arc<[Slice]>, rows_max, selection| {
        let command = ReadCommand { rows_max, ..of_slices(request, key, slices.clone()) };
        ReadRequest { command, selection, filter: None, index: None, bytes_max: usize::MAX, places: false }
    };
    let of_rows = transaction.reads.iter().zip(places);
    let mut requests: Vec<ReadRequest> =
        of_rows.map(|(read, place)| sink(&place.slices, read.rows_max, read.selection.clone())).collect();
    requests.push(sink(&Arc::from([]), 1, transaction.statics.iter().map(|id| Selector::Column(*id)).collect()));
    requests
}

/// Hands each row to the reads that it belongs to.
struct RowsByRead<'a> {
    reads: &'a [RowsRead],
    places: &'a [Place],
    /// One more than reads: the last takes the static columns of the first row.
    sinks: Vec<RowBlockSink<'a>>,
    bytes: usize,
    dead: u64,
}

impl RowSink for RowsByRead<'_> {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        let mut bytes = 0;
        for ((read, place), sink) in self.reads.iter().zip(self.places).zip(&mut self.sinks) {
            let belongs = match row.static_only {
                true => read.static_rows,
                false => place.slices.iter().any(|slice| slice.contains(row.comparable)),
            };
            if belongs && sink.taken() < read.rows_max {
                sink.row(row);
            }
            bytes += sink.bytes();
        }
        if let Some(statics) = self.sinks.last_mut() {
            if statics.taken() == 0 {
                statics.row(row);
            }
            bytes += statics.bytes();
        }
        self.bytes = bytes;
        if bytes > READ_BYTES_MAX { SinkState::Full } else { SinkState::Open }
    }

    fn dead(&mut self, count: u64) {
        self.dead += count;
    }
}

/// Keeps the place of the last row of a limited read.
struct LastRow {
    rows: u64,
    rows_max: u64,
    comparable: Vec<u8>,
}

impl RowSink for LastRow {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        self.rows += 1;
        self.comparable.clear();
        self.comparable.extend_from_slice(row.comparable);
        if self.rows >= self.rows_max { SinkState::Full } else { SinkState::Open }
    }
}
