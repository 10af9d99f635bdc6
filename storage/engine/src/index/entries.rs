//! The entries of an index: from values in the base's rows to rows of the index's table.
//!
//! The entry of a cell's value lives as long as the cell: the entry's own cell has the same timestamp and expiry, so
//! that of two cells with one value the same one wins in base and index. Entries of key columns do not expire, because
//! only the base knows whether the row is live; they are deleted with their row or partition.

use super::IndexState;
use crate::memtable::Memtable;
use model::comparable;
use model::key::{KEY_BYTES_MAX, components};
use model::mutation::{CLUSTERING_BYTES_MAX, Clustering, Operation, TableUpdate, push_clustering};
use model::query::LiveRow;
use model::row::{Cell, CellContent, Deletion, Liveness, RowBuilder, RowView};
use model::{ColumnId, ColumnKind, CqlType, Index, IndexedPart, Mutation, MutationBuilder, Table, Token};

/// The deletion time of entries that a write replaces, seconds since 1970. Such tombstones need not be kept for
/// anybody, and a write may be applied in a context without a clock.
const DELETED_AT: i64 = 1;

/// A write of a row with more cells of the column than this does not look for the entries that it replaces.
const REPLACED_CELLS_MAX: usize = 64;

/// Where an index finds its values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ValueSource {
    /// A component of a partition key of so many.
    PartitionKey { position: usize, count: usize },
    /// A clustering value.
    Clustering { position: usize },
    /// The value of a cell.
    Cell(DataColumn),
    /// The paths of cells: elements of a set, keys of a map.
    Path(DataColumn),
    /// The values of cells that have paths: elements of a list, values of a map.
    Element(DataColumn),
    /// Both.
    Entry(DataColumn),
}

/// A static or regular column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DataColumn {
    id: ColumnId,
    is_static: bool,
}

impl ValueSource {
    pub(super) fn of(table: &Table, index: &Index) -> Option<ValueSource> {
        let column = table.column(&index.column)?;
        let position = usize::from(column.position);
        let data = DataColumn { id: column.id, is_static: column.kind == ColumnKind::Static };
        Some(match (column.kind, index.part) {
            (ColumnKind::PartitionKey, _) => ValueSource::PartitionKey { position, count: table.stored_key_len() },
            (ColumnKind::Clustering, _) => ValueSource::Clustering { position },
            _ if !column.cql_type.is_multicell() => ValueSource::Cell(data),
            (_, IndexedPart::Keys) => ValueSource::Path(data),
            (_, IndexedPart::Entries) => ValueSource::Entry(data),
            _ if matches!(column.cql_type, CqlType::Set { .. }) => ValueSource::Path(data),
            _ => ValueSource::Element(data),
        })
    }

    /// Whether entries stand for whole partitions.
    pub(super) fn is_of_partitions(&self) -> bool {
        match self {
            ValueSource::PartitionKey { .. } => true,
            ValueSource::Clustering { .. } => false,
            ValueSource::Cell(column)
            | ValueSource::Path(column)
            | ValueSource::Element(column)
            | ValueSource::Entry(column) => column.is_static,
        }
    }

    /// Whether a row may have a value several times.
    pub(super) fn has_path(&self) -> bool {
        matches!(self, ValueSource::Element(_))
    }

    /// Whether entries are of cells, so that one whose row is without the value may go.
    pub(super) fn is_of_cells(&self) -> bool {
        !matches!(self, ValueSource::PartitionKey { .. } | ValueSource::Clustering { .. })
    }

    fn column(&self) -> Option<DataColumn> {
        match self {
            ValueSource::PartitionKey { .. } | ValueSource::Clustering { .. } => None,
            ValueSource::Cell(column)
            | ValueSource::Path(column)
            | ValueSource::Element(column)
            | ValueSource::Entry(column) => Some(*column),
        }
    }
}

/// The value of a map's entry: the key behind its length, and the value. Not longer than what Cassandra makes of them
/// ([`ENTRY_EXTRA_BYTES`]), which is what is compared with [`VALUE_BYTES_MAX`].
pub fn entry_value(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 + key.len() + value.len());
    out.extend_from_slice(&(key.len().min(KEY_BYTES_MAX) as u16).to_be_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(value);
    out
}

/// Bytes that Cassandra adds to key and value of an entry.
pub const ENTRY_EXTRA_BYTES: usize = 6;

/// What a written or read row has for an index.
struct RowPart<'p, 'a> {
    clustering: Clustering<'a>,
    is_static: bool,
    liveness: Option<Liveness>,
    cells: &'p mut dyn Iterator<Item = Cell<'a>>,
}

impl IndexState {
    /// Whether entries stand for whole partitions.
    pub(crate) fn is_of_partitions(&self) -> bool {
        self.source.is_of_partitions()
    }

    /// Whether a row may have a value several times, so that the entry names the element's path.
    pub(crate) fn has_path(&self) -> bool {
        self.source.has_path()
    }

    /// Whether entries are of cells, so that one whose row does not hold the value may be deleted.
    pub(crate) fn is_of_cells(&self) -> bool {
        self.source.is_of_cells()
    }

    /// Adds the entries of a write to the index's memtable.
    pub(crate) fn note(&self, memtable: &Memtable, token: Token, key: &[u8], update: &TableUpdate<'_>) {
        if let (ValueSource::PartitionKey { .. }, false) = (self.source, update.partition_deletion.is_live()) {
            self.delete_key_entry(memtable, token, key, Clustering(&[]), update.partition_deletion);
        }
        for operation in update.operations() {
            match operation {
                Operation::Row { clustering, row } => {
                    if let (ValueSource::Clustering { .. }, false) = (self.source, row.deletion().is_live()) {
                        self.delete_key_entry(memtable, token, key, clustering, row.deletion());
                    }
                    self.note_row(memtable, token, key, clustering, false, row);
                }
                Operation::StaticRow { row } => self.note_row(memtable, token, key, Clustering(&[]), true, row),
                Operation::RangeDeletion { .. } => {}
            }
        }
    }

    /// Deletes the entries of values in the base's memtable that a write replaces; to be called before the write is
    /// applied. Stale entries of other values are deleted when a read meets them.
    pub(crate) fn forget(
        &self,
        base: &Memtable,
        memtable: &Memtable,
        token: Token,
        key: &[u8],
        update: &TableUpdate<'_>,
    ) {
        let Some(column) = self.source.column() else { return };
        let contents = base.read();
        let Some(partition) = contents.partitions.get(&contents.arena, token.prefix(), key) else { return };
        let mut comparable = Vec::new();
        for operation in update.operations() {
            let (clustering, old, new) = match operation {
                Operation::Row { clustering, row } if !column.is_static => {
                    comparable.clear();
                    comparable::clustering(&self.base, clustering.components(), &mut comparable);
                    let found = partition.rows.ascend(&contents.arena, &comparable, false).next();
                    let found = found.filter(|entry| entry.key.comparable(&contents.arena) == comparable);
                    (clustering, found.map(|entry| RowView::trusted(contents.arena.get(entry.blob))), row)
                }
                Operation::StaticRow { row } if column.is_static => {
                    (Clustering(&[]), partition.static_row(&contents.arena), row)
                }
                _ => continue,
            };
            let Some(old) = old else { continue };
            let newer: Vec<Cell<'_>> = new.cells().filter(|cell| cell.column == column.id).collect();
            if newer.len() > REPLACED_CELLS_MAX {
                continue;
            }
            let content = CellContent::Deleted { local_deletion_time: DELETED_AT };
            for cell in old.cells().filter(|cell| cell.column == column.id) {
                let gone = new.deletion().deletes(cell.timestamp) || newer.iter().any(|newer| replaces(newer, &cell));
                if gone && let Some((value, place)) = self.entry_of(token, key, clustering, &cell) {
                    self.put(memtable, &value, &place, cell.timestamp, content);
                }
            }
        }
    }

    /// Value and clustering of the entry of a cell of the indexed column.
    fn entry_of(
        &self,
        token: Token,
        key: &[u8],
        clustering: Clustering<'_>,
        cell: &Cell<'_>,
    ) -> Option<(Vec<u8>, Vec<u8>)> {
        let value = match cell.content {
            CellContent::Live(value) | CellContent::Expiring { value, .. } => value,
            CellContent::Counter(_) | CellContent::Deleted { .. } | CellContent::ColumnDeletion { .. } => return None,
        };
        let path = cell.path.unwrap_or_default();
        if path.len() > CLUSTERING_BYTES_MAX {
            return None;
        }
        let value = match self.source {
            ValueSource::Path(_) => path.to_vec(),
            ValueSource::Entry(_) => entry_value(path, value),
            _ => value.to_vec(),
        };
        Some((value, self.place(token, key, clustering, Some(path))))
    }

    fn note_row(
        &self,
        memtable: &Memtable,
        token: Token,
        key: &[u8],
        clustering: Clustering<'_>,
        is_static: bool,
        row: RowView<'_>,
    ) {
        let part = RowPart { clustering, is_static, liveness: row.liveness(), cells: &mut row.cells() };
        self.note_part(memtable, token, key, part);
    }

    /// Adds the entries of a row that was read.
    pub(crate) fn note_live(&self, memtable: &Memtable, row: &LiveRow<'_>) {
        if !row.static_cells.is_empty() {
            let cells = &mut row.static_cells.iter().copied();
            let part = RowPart { clustering: Clustering(&[]), is_static: true, liveness: None, cells };
            self.note_part(memtable, row.token, row.key, part);
        }
        if !row.static_only {
            let (liveness, cells) = (row.liveness, &mut row.cells.iter().copied());
            let part = RowPart { clustering: row.clustering, is_static: false, liveness, cells };
            self.note_part(memtable, row.token, row.key, part);
        }
    }

    fn note_part(&self, memtable: &Memtable, token: Token, key: &[u8], part: RowPart<'_, '_>) {
        let Some(column) = self.source.column() else {
            let of_value = |cell: Cell<'_>| is_value(&cell.content).then_some(cell.timestamp);
            let newest = part.cells.filter_map(of_value).max().max(part.liveness.map(|liveness| liveness.timestamp));
            // A clustering is no static row's.
            let concerns = !part.is_static || self.source.is_of_partitions();
            if let (Some(timestamp), true) = (newest, concerns)
                && let Some(value) = self.key_value(key, part.clustering)
            {
                let place = self.place(token, key, part.clustering, None);
                self.put(memtable, value, &place, timestamp, CellContent::Live(&[]));
            }
            return;
        };
        if column.is_static != part.is_static {
            return;
        }
        for cell in part.cells.filter(|cell| cell.column == column.id) {
            let content = match cell.content {
                CellContent::Expiring { ttl, local_deletion_time, .. } => {
                    CellContent::Expiring { value: &[], ttl, local_deletion_time }
                }
                _ => CellContent::Live(&[]),
            };
            if let Some((value, place)) = self.entry_of(token, key, part.clustering, &cell) {
                self.put(memtable, &value, &place, cell.timestamp, content);
            }
        }
    }

    /// Deletes the entry of a row, or a partition, that was deleted.
    fn delete_key_entry(
        &self,
        memtable: &Memtable,
        token: Token,
        key: &[u8],
        clustering: Clustering<'_>,
        deletion: Deletion,
    ) {
        if let Some(value) = self.key_value(key, clustering) {
            let content = CellContent::Deleted { local_deletion_time: deletion.local_deletion_time };
            self.put(memtable, value, &self.place(token, key, clustering, None), deletion.timestamp, content);
        }
    }

    /// The value of a key column.
    fn key_value<'v>(&self, key: &'v [u8], clustering: Clustering<'v>) -> Option<&'v [u8]> {
        match self.source {
            ValueSource::PartitionKey { position, count } => components(key, count).nth(position),
            ValueSource::Clustering { position } => clustering.components().nth(position),
            _ => None,
        }
    }

    /// The clustering of an entry.
    fn place(&self, token: Token, key: &[u8], clustering: Clustering<'_>, path: Option<&[u8]>) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + key.len() + clustering.0.len());
        push_clustering(&mut out, &token.0.to_be_bytes());
        push_clustering(&mut out, key);
        if !self.source.is_of_partitions() {
            out.extend_from_slice(clustering.0);
        }
        if let (true, Some(path)) = (self.source.has_path(), path) {
            push_clustering(&mut out, path);
        }
        out
    }

    /// Writes the cell of an entry. Values that are too long for a key have none: no write with one is taken.
    pub(crate) fn put(
        &self,
        memtable: &Memtable,
        value: &[u8],
        place: &[u8],
        timestamp: i64,
        content: CellContent<'_>,
    ) {
        if value.len() > KEY_BYTES_MAX {
            return;
        }
        let Some(column) = self.table.regular().first() else { return };
        let mut mutation = MutationBuilder::new(memtable.read().partitions.partitioner(), value);
        mutation.table(self.table.id).row(Clustering(place), |out| {
            RowBuilder::new(out, None, Deletion::LIVE).cell(&Cell {
                column: column.id,
                timestamp,
                content,
                path: None,
            });
        });
        let mutation = mutation.finish();
        for update in mutation.updates() {
            memtable.apply(mutation.token(), mutation.key(), &update);
        }
    }

    /// Whether a live row has the value of an entry of cells; `path`: where.
    pub(crate) fn is_held(&self, row: &LiveRow<'_>, value: &[u8], path: &[u8]) -> bool {
        let Some(column) = self.source.column() else { return true };
        let cells = if column.is_static { row.static_cells } else { row.cells };
        cells.iter().filter(|cell| cell.column == column.id).any(|cell| {
            let held = match cell.content {
                CellContent::Live(value) | CellContent::Expiring { value, .. } => value,
                _ => return false,
            };
            match self.source {
                ValueSource::Path(_) => cell.path == Some(value),
                ValueSource::Element(_) => cell.path == Some(path) && held == value,
                ValueSource::Entry(_) => entry_value(cell.path.unwrap_or_default(), held) == value,
                _ => held == value,
            }
        })
    }
}

/// Whether a cell of a write leaves nothing of another of its column, but for one of the same value.
fn replaces(newer: &Cell<'_>, old: &Cell<'_>) -> bool {
    match newer.content {
        CellContent::ColumnDeletion { .. } => newer.timestamp >= old.timestamp,
        CellContent::Deleted { .. } => newer.path == old.path && newer.timestamp >= old.timestamp,
        CellContent::Live(value) | CellContent::Expiring { value, .. } => {
            let same = matches!(old.content, CellContent::Live(old) | CellContent::Expiring { value: old, .. } if old == value);
            newer.path == old.path && newer.timestamp > old.timestamp && !same
        }
        CellContent::Counter(_) => false,
    }
}

fn is_value(content: &CellContent<'_>) -> bool {
    matches!(content, CellContent::Live(_) | CellContent::Expiring { .. } | CellContent::Counter(_))
}

/// Longest value that an index takes, bytes.
pub const VALUE_BYTES_MAX: usize = KEY_BYTES_MAX - 1;

/// A value that is too long for an index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TooLong {
    /// The index's name.
    pub index: String,
    /// The column.
    pub column: String,
    /// The value's length.
    pub bytes: usize,
}

/// The first value of a mutation that an index of a table cannot take.
pub fn too_long(table: &Table, mutation: &Mutation) -> Option<TooLong> {
    let updates = || mutation.updates().filter(|update| update.table == table.id);
    table.indexes.iter().find_map(|index| {
        let source = ValueSource::of(table, index)?;
        let bytes = updates().find_map(|update| longest(source, mutation.key(), &update))?;
        Some(TooLong { index: index.name.clone(), column: index.column.clone(), bytes })
    })
}

/// The length of the first value beyond [`VALUE_BYTES_MAX`].
fn longest(source: ValueSource, key: &[u8], update: &TableUpdate<'_>) -> Option<usize> {
    let too_long = |bytes: &usize| *bytes > VALUE_BYTES_MAX;
    if let ValueSource::PartitionKey { position, count } = source {
        return components(key, count).nth(position).map(<[u8]>::len).filter(too_long);
    }
    update.operations().find_map(|operation| {
        let (clustering, is_static, row) = match operation {
            Operation::Row { clustering, row } => (clustering, false, row),
            Operation::StaticRow { row } => (Clustering(&[]), true, row),
            Operation::RangeDeletion { .. } => return None,
        };
        if let ValueSource::Clustering { position } = source {
            return clustering.components().nth(position).map(<[u8]>::len).filter(too_long);
        }
        let column = source.column().filter(|column| column.is_static == is_static)?;
        row.cells().filter(|cell| cell.column == column.id).find_map(|cell| {
            let value = match cell.content {
                CellContent::Live(value) | CellContent::Expiring { value, .. } => value.len(),
                _ => return None,
            };
            let path = cell.path.map_or(0, <[u8]>::len);
            let bytes = match source {
                ValueSource::Path(_) => path,
                ValueSource::Entry(_) => path + value + ENTRY_EXTRA_BYTES,
                _ => value,
            };
            Some(bytes).filter(too_long)
        })
    })
}
