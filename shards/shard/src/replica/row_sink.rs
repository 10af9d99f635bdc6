//! The sink that encodes live rows into a block on the owning core: selected columns, functions of cells and counts.
//! `rows::block` describes the form.
//!
//! Invariants: a sink allocates nothing per row except for the growth of its buffers; cells of a row come sorted by
//! column, so that columns selected in table order take one pass.

use crate::guards::tombstones::ScanCounts;
use crate::messages::data::{ReadReply, ReadRequest};
use crate::rows::block::{RowBlock, RowPlaces, cells_of};
use crate::rows::filter::RowFilter;
use cql::plan::Selector;
use model::counter::CounterContext;
use model::query::{LiveRow, Partitions, Position, ReadEnd, Resume, RowSink, SinkState};
use model::row::{Cell, CellContent};
use model::token::Token;
use model::value::{self, push_element};
use model::{ColumnId, ColumnKind, CqlType, DecoratedKey, Partitioner, Table};
use smallvec::SmallVec;

/// A block grows by doubling up to this many bytes.
const SMALL_BLOCK_BYTES: usize = 32 << 10;
/// The comparable form of a clustering with at most this many bytes takes no memory of its own.
const COMPARABLE_BYTES: usize = 24;
/// When a block grows larger, it gets all its memory at once, provided that its limit is at most this.
const RESERVED_BYTES_MAX: usize = 1 << 20;

/// Where a result column comes from, resolved once per read.
#[derive(Clone, Copy)]
enum Source<'a> {
    KeyComponent(usize),
    Clustering(usize),
    Cell(ColumnId),
    Collection(ColumnId, &'a CqlType),
    StaticCell(ColumnId),
    StaticCollection(ColumnId, &'a CqlType),
    WriteTime(DataColumn),
    Ttl(DataColumn),
    /// The write times of a column with several cells.
    WriteTimes(DataColumn, &'a CqlType),
    Ttls(DataColumn, &'a CqlType),
    CountRows,
    /// The count of a clustering column, which is null for partitions that have only static content.
    CountClustering(usize),
    Count(DataColumn),
    Token(Partitioner),
}

/// A static or regular column.
#[derive(Clone, Copy)]
struct DataColumn {
    id: ColumnId,
    is_static: bool,
}

impl DataColumn {
    fn of(table: &Table, id: ColumnId) -> DataColumn {
        let is_static = table.column_by_id(id).is_some_and(|column| column.kind == ColumnKind::Static);
        DataColumn { id, is_static }
    }

    /// The column's cells.
    fn cells<'c, 'r>(self, row: &'c LiveRow<'r>) -> &'c [Cell<'r>] {
        let cells = if self.is_static { row.static_cells } else { row.cells };
        advance(cells, cells, self.id)
    }

    /// The column's first cell.
    fn first<'c, 'r>(self, row: &'c LiveRow<'r>) -> Option<&'c Cell<'r>> {
        first(self.cells(row), self.id)
    }
}

/// Encodes live rows into a block.
pub struct RowBlockSink<'a> {
    partitioner: Partitioner,
    sources: SmallVec<[Source<'a>; 8]>,
    /// Counts, which are returned at the end as one row.
    counts: Option<Vec<u64>>,
    key_len: usize,
    /// The key, if one partition is read.
    key: Option<&'a DecoratedKey>,
    keep_places: bool,
    bytes_max: usize,
    rows_max: u64,
    now_in_seconds: i64,
    filter: Option<&'a RowFilter>,
    block: RowBlock,
    places: RowPlaces,
    taken: u64,
    first_token: Token,
    /// The last row's key, if several partitions are read.
    last_key: Vec<u8>,
    last_token: Token,
    last_comparable: SmallVec<[u8; COMPARABLE_BYTES]>,
    last_static_only: bool,
    /// Rows of the last partition, including those on earlier pages.
    partition_rows: u64,
    resume: Option<&'a Position>,
    resume_partition_rows: u64,
    scanned: ScanCounts,
}

impl<'a> RowBlockSink<'a> {
    /// A sink for `request` on `table`, on a node with `partitioner`.
    pub fn new(partitioner: Partitioner, table: &'a Table, request: &'a ReadRequest) -> RowBlockSink<'a> {
        let mut sink = RowBlockSink {
            partitioner,
            counts: None,
            sources: SmallVec::new(),
            key_len: table.stored_key_len(),
            key: match &request.command.partitions {
                Partitions::Key(key) => Some(key),
                Partitions::Range(_) => None,
            },
            keep_places: request.places,
            bytes_max: request.bytes_max,
            rows_max: request.command.rows_max,
            now_in_seconds: request.command.now_in_seconds,
            filter: request.filter.as_deref(),
            block: RowBlock::default(),
            places: RowPlaces::default(),
            taken: 0,
            first_token: Token::MIN,
            last_key: Vec::new(),
            last_token: Token::MIN,
            last_comparable: SmallVec::new(),
            last_static_only: false,
            partition_rows: 0,
            resume: request.command.resume.as_ref(),
            resume_partition_rows: request.command.resume_partition_rows,
            scanned: ScanCounts::default(),
        };
        // In place: moving them there would copy eight.
        sink.sources.extend(request.selection.iter().map(|selector| source(table, selector)));
        let counts = |selector: &Selector| matches!(selector, Selector::CountRows | Selector::Count(_));
        if request.selection.iter().any(counts) {
            sink.counts = Some(vec![0; sink.sources.len()]);
        }
        sink
    }

    /// Uses `room`, which another core allocated, for the rows; allocates more if they do not fit.
    pub(crate) fn use_room(&mut self, mut room: Vec<u8>) {
        room.clear();
        self.block.bytes = room;
    }

    /// How many rows were taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Bytes of the rows that were taken.
    pub(crate) fn bytes(&self) -> usize {
        self.block.bytes.len()
    }

    /// Live rows and tombstones that the read met so far.
    pub(crate) fn scanned(&self) -> ScanCounts {
        self.scanned
    }

    /// Returns what was collected by a read that ended as `end`.
    pub fn finish(mut self, end: ReadEnd) -> ReadReply {
        if let (Some(counts), true) = (&self.counts, self.taken > 0) {
            self.block = counted_row(&self.sources, counts, &self.block.bytes);
            self.block.ends.push((self.first_token, self.block.bytes.len() as u32));
        }
        // A page that is exactly full can be resumed, even if nothing follows.
        let end = if self.taken >= self.rows_max { ReadEnd::Stopped } else { end };
        if let ReadEnd::Paused(place) = end {
            let last = Some(*place);
            return ReadReply {
                block: self.block,
                end: ReadEnd::Stopped,
                last,
                places: self.places,
                scanned: self.scanned,
            };
        }
        let last = (end == ReadEnd::Stopped && self.taken > 0).then(|| Resume {
            position: Position {
                key: match self.key {
                    Some(key) => key.clone(),
                    None => {
                        let (token, partitioner) = (self.last_token, self.partitioner);
                        DecoratedKey { token, partitioner, key: self.last_key.into() }
                    }
                },
                comparable: (!self.last_static_only).then(|| self.last_comparable.as_slice().into()),
            },
            partition_rows: self.partition_rows,
        });
        ReadReply { block: self.block, end, last, places: self.places, scanned: self.scanned }
    }

    fn encode(&mut self, row: &LiveRow<'_>) {
        // Reserve for the whole row: one move instead of one at every doubling.
        let values: usize =
            row.cells.iter().map(|cell| cell.value_at(self.now_in_seconds).map_or(0, <[u8]>::len)).sum();
        self.block.bytes.reserve(row.key.len() + row.clustering.0.len() + values + 4 * self.sources.len());
        let mut cells = row.cells;
        for source in &self.sources {
            let out = &mut self.block.bytes;
            match *source {
                Source::KeyComponent(n) => {
                    push_element(out, model::key::components(row.key, self.key_len).nth(n));
                }
                Source::Clustering(n) => push_element(out, row.clustering.components().nth(n)),
                Source::Cell(id) => {
                    cells = advance(row.cells, cells, id);
                    push_cell(out, first(cells, id), self.now_in_seconds);
                }
                Source::Collection(id, cql_type) => {
                    cells = advance(row.cells, cells, id);
                    push_collection(out, cql_type, cells, id, self.now_in_seconds);
                }
                Source::StaticCell(id) => {
                    let cells = advance(row.static_cells, row.static_cells, id);
                    push_cell(out, first(cells, id), self.now_in_seconds);
                }
                Source::StaticCollection(id, cql_type) => {
                    let cells = advance(row.static_cells, row.static_cells, id);
                    push_collection(out, cql_type, cells, id, self.now_in_seconds);
                }
                Source::WriteTime(column) => {
                    let timestamp = column.first(row).map(|cell| cell.timestamp.to_be_bytes());
                    push_element(out, timestamp.as_ref().map(|bytes| &bytes[..]));
                }
                Source::Ttl(column) => {
                    let left = column.first(row).and_then(|cell| seconds_left(cell, self.now_in_seconds));
                    push_element(out, left.map(i32::to_be_bytes).as_ref().map(|bytes| &bytes[..]));
                }
                Source::WriteTimes(column, cql_type) => {
                    let cells = live_cells(cql_type, column.cells(row), column.id, self.now_in_seconds);
                    push_facts(out, cql_type, &cells, |cell| Some(cell.timestamp.to_be_bytes()));
                }
                Source::Ttls(column, cql_type) => {
                    let now = self.now_in_seconds;
                    let cells = live_cells(cql_type, column.cells(row), column.id, now);
                    push_facts(out, cql_type, &cells, |cell| seconds_left(cell, now).map(i32::to_be_bytes));
                }
                Source::Token(Partitioner::Murmur3) => push_element(out, Some(&row.token.0.to_be_bytes())),
                Source::Token(partitioner) => push_element(out, Some(&partitioner.ring_token(row.key).to_value())),
                Source::CountRows | Source::CountClustering(_) | Source::Count(_) => push_element(out, None),
            }
        }
    }

    fn count(&mut self, row: &LiveRow<'_>) {
        let Some(counts) = &mut self.counts else { return };
        for (source, count) in self.sources.iter().zip(counts) {
            match *source {
                Source::CountRows => *count += 1,
                Source::CountClustering(n) => {
                    let has_value = !row.static_only && row.clustering.components().nth(n).is_some();
                    *count += u64::from(has_value);
                }
                Source::Count(column) => *count += u64::from(column.first(row).is_some()),
                Source::KeyComponent(_)
                | Source::Clustering(_)
                | Source::Cell(_)
                | Source::Collection(..)
                | Source::StaticCell(_)
                | Source::StaticCollection(..)
                | Source::WriteTime(_)
                | Source::Ttl(_)
                | Source::WriteTimes(..)
                | Source::Ttls(..)
                | Source::Token(_) => {}
            }
        }
    }
}

impl RowSink for RowBlockSink<'_> {
    fn dead(&mut self, count: u64) {
        self.scanned.dead += count;
    }

    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        self.scanned.live += 1;
        self.scanned.token = row.token;
        if self.filter.is_some_and(|filter| !filter.holds(row, self.now_in_seconds)) {
            return SinkState::Rejected;
        }
        // An aggregate keeps only the first row's values.
        if self.counts.is_none() || self.taken == 0 {
            self.encode(row);
            self.block.rows += 1;
            if self.taken == 0 {
                self.first_token = row.token;
            }
            if (self.key.is_none() || self.keep_places) && self.counts.is_none() {
                self.block.ends.push((row.token, self.block.bytes.len() as u32));
            }
        }
        self.count(row);
        self.taken += 1;
        let another = self.key.is_none() && (self.last_token != row.token || self.last_key != row.key);
        if self.taken == 1 || another {
            if self.key.is_none() {
                self.last_token = row.token;
                self.last_key.clear();
                self.last_key.extend_from_slice(row.key);
            }
            let resumed = self.resume.is_some_and(|at| at.key.token == row.token && *at.key.key == *row.key);
            self.partition_rows = if resumed { self.resume_partition_rows } else { 0 };
        }
        self.partition_rows += 1;
        if self.keep_places {
            self.places.push(row, self.partition_rows);
        }
        self.last_static_only = row.static_only;
        self.last_comparable.clear();
        self.last_comparable.extend_from_slice(row.comparable);
        if self.block.bytes.len() >= self.bytes_max || self.taken >= self.rows_max {
            return SinkState::Full;
        }
        // A block that is no longer small will probably be filled: one move instead of one at every doubling.
        let bytes = &mut self.block.bytes;
        if bytes.len() > SMALL_BLOCK_BYTES && bytes.capacity() < self.bytes_max && self.bytes_max <= RESERVED_BYTES_MAX
        {
            bytes.reserve_exact(self.bytes_max + SMALL_BLOCK_BYTES - bytes.len());
        }
        SinkState::Open
    }
}

#[inline]
fn source<'a>(table: &'a Table, selector: &'a Selector) -> Source<'a> {
    match selector {
        Selector::Column(id) => match table.column_by_id(*id) {
            Some(column) => match column.kind {
                ColumnKind::PartitionKey => Source::KeyComponent(column.position.into()),
                ColumnKind::Clustering => Source::Clustering(column.position.into()),
                ColumnKind::Static if column.cql_type.is_multicell() => Source::StaticCollection(*id, &column.cql_type),
                ColumnKind::Static => Source::StaticCell(*id),
                ColumnKind::Regular if column.cql_type.is_multicell() => Source::Collection(*id, &column.cql_type),
                ColumnKind::Regular => Source::Cell(*id),
            },
            None => Source::Cell(*id),
        },
        Selector::WriteTime(id) => match multicell(table, *id) {
            Some(cql_type) => Source::WriteTimes(DataColumn::of(table, *id), cql_type),
            None => Source::WriteTime(DataColumn::of(table, *id)),
        },
        Selector::Ttl(id) => match multicell(table, *id) {
            Some(cql_type) => Source::Ttls(DataColumn::of(table, *id), cql_type),
            None => Source::Ttl(DataColumn::of(table, *id)),
        },
        Selector::CountRows => Source::CountRows,
        Selector::Count(id) => match table.column_by_id(*id) {
            Some(column) if column.kind == ColumnKind::Clustering => Source::CountClustering(column.position.into()),
            Some(column) if !column.kind.is_key() => Source::Count(DataColumn::of(table, *id)),
            // Partition keys are never null.
            _ => Source::CountRows,
        },
        Selector::Token(partitioner) => Source::Token(*partitioner),
    }
}

/// The cells from column `id` on, searched from `rest`, or from the start of the row if `rest` is past it.
fn advance<'c, 'r>(row: &'c [Cell<'r>], rest: &'c [Cell<'r>], id: ColumnId) -> &'c [Cell<'r>] {
    let from = match rest.first() {
        Some(cell) if cell.column <= id => rest,
        _ => row,
    };
    let skip = from.iter().take_while(|cell| cell.column < id).count();
    &from[skip..]
}

fn first<'c, 'r>(cells: &'c [Cell<'r>], id: ColumnId) -> Option<&'c Cell<'r>> {
    cells.first().filter(|cell| cell.column == id)
}

/// Appends the value of a cell; of a counter, the total.
#[inline]
fn push_cell(out: &mut Vec<u8>, cell: Option<&Cell<'_>>, now: i64) {
    match cell.map(|cell| cell.content) {
        Some(CellContent::Counter(context)) => {
            push_element(out, Some(&CounterContext::trusted(context).total().to_be_bytes()));
        }
        _ => push_element(out, cell.and_then(|cell| cell.value_at(now))),
    }
}

/// The type of a column if it has several cells.
fn multicell(table: &Table, id: ColumnId) -> Option<&CqlType> {
    table.column_by_id(id).map(|column| &column.cql_type).filter(|cql_type| cql_type.is_multicell())
}

/// Seconds until a cell expires; `None` if it does not expire.
fn seconds_left(cell: &Cell<'_>, now: i64) -> Option<i32> {
    match cell.content {
        CellContent::Expiring { local_deletion_time, .. } => Some(local_deletion_time.saturating_sub(now) as i32),
        _ => None,
    }
}

/// The live cells of a multi-cell column with their paths and values, in the order of the value's elements; `cells`
/// begins with the column's cells.
fn live_cells<'c, 'r>(
    cql_type: &CqlType,
    cells: &'c [Cell<'r>],
    id: ColumnId,
    now: i64,
) -> Vec<(&'c Cell<'r>, &'c [u8], &'c [u8])> {
    let path_type = match cql_type {
        CqlType::Set { element, .. } => element,
        CqlType::Map { key, .. } => key,
        // The elements of a list are ordered by their paths, which are timeuuids.
        _ => &CqlType::Timeuuid,
    };
    let mut elements: Vec<(&Cell<'_>, &[u8], &[u8])> = cells
        .iter()
        .take_while(|cell| cell.column == id)
        .filter(|cell| !matches!(cell.content, CellContent::ColumnDeletion { .. }))
        .filter_map(|cell| Some((cell, cell.path?, cell.value_at(now)?)))
        .collect();
    // Fields are ordered by their numbers.
    if !matches!(cql_type, CqlType::User { .. }) {
        elements.sort_by(|a, b| value::compare(path_type, a.1, b.1));
    }
    elements
}

/// Appends a list with one value per cell of a multi-cell column; null if there are no cells.
fn push_facts<const N: usize>(
    out: &mut Vec<u8>,
    cql_type: &CqlType,
    cells: &[(&Cell<'_>, &[u8], &[u8])],
    fact: impl Fn(&Cell<'_>) -> Option<[u8; N]>,
) {
    if cells.is_empty() {
        return push_element(out, None);
    }
    let mut list = Vec::with_capacity(4 + (4 + N) * cells.len());
    let mut push = |cell: Option<&Cell<'_>>| {
        push_element(&mut list, cell.and_then(&fact).as_ref().map(|bytes| &bytes[..]));
    };
    let count = match cql_type {
        CqlType::User { definition, .. } => {
            for field in 0..definition.fields.len() {
                let path = (field as u16).to_be_bytes();
                push(cells.iter().find(|(_, at, _)| **at == path).map(|(cell, ..)| *cell));
            }
            definition.fields.len()
        }
        _ => {
            cells.iter().for_each(|(cell, ..)| push(Some(cell)));
            cells.len()
        }
    };
    out.extend_from_slice(&(4 + list.len() as i32).to_be_bytes());
    out.extend_from_slice(&(count as i32).to_be_bytes());
    out.extend_from_slice(&list);
}

/// Appends a multi-cell collection; an empty one is null.
fn push_collection(out: &mut Vec<u8>, cql_type: &CqlType, cells: &[Cell<'_>], id: ColumnId, now: i64) {
    let elements = live_cells(cql_type, cells, id, now);
    if elements.is_empty() {
        return push_element(out, None);
    }
    if let CqlType::User { definition, .. } = cql_type {
        return push_user_type(out, definition.fields.len(), &elements);
    }
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(elements.len() as i32).to_be_bytes());
    for (_, path, value) in elements {
        match cql_type {
            CqlType::Set { .. } => push_element(out, Some(path)),
            CqlType::Map { .. } => {
                push_element(out, Some(path));
                push_element(out, Some(value));
            }
            _ => push_element(out, Some(value)),
        }
    }
    let len = (out.len() - length_at - 4) as i32;
    out[length_at..length_at + 4].copy_from_slice(&len.to_be_bytes());
}

/// Appends a user type with `fields` fields; the path of a field's cell is its number, two bytes.
fn push_user_type(out: &mut Vec<u8>, fields: usize, cells: &[(&Cell<'_>, &[u8], &[u8])]) {
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    for field in 0..fields {
        let path = (field as u16).to_be_bytes();
        push_element(out, cells.iter().find(|(_, at, _)| **at == path).map(|(.., value)| *value));
    }
    let len = (out.len() - length_at - 4) as i32;
    out[length_at..length_at + 4].copy_from_slice(&len.to_be_bytes());
}

/// The row of an aggregate: counts in their columns, the first row's values in the others.
fn counted_row(sources: &[Source<'_>], counts: &[u64], first_row: &[u8]) -> RowBlock {
    let mut block = RowBlock { rows: 1, ..RowBlock::default() };
    for ((source, count), value) in sources.iter().zip(counts).zip(cells_of(first_row)) {
        match source {
            Source::CountRows | Source::CountClustering(_) | Source::Count(_) => {
                push_element(&mut block.bytes, Some(&count.to_be_bytes()));
            }
            _ => push_element(&mut block.bytes, value),
        }
    }
    block
}

#[cfg(test)]
#[path = "row_sink_tests.rs"]
mod tests;
