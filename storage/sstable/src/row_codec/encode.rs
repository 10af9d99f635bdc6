//! Encodes rows and range tombstone markers.
//!
//! Invariants: a row that [`Codec`] decoded is encoded to the same bytes again, if Cassandra wrote its file.

use super::{
    BoundKind, CELL_DELETED, CELL_EMPTY, CELL_EXPIRING, CELL_ROW_TIMESTAMP, CELL_ROW_TTL, Codec, CodecColumn, EXTENDED,
    EXTENDED_STATIC, HAS_ALL_COLUMNS, HAS_COMPLEX_DELETION, HAS_DELETION, HAS_TIMESTAMP, HAS_TTL, IS_MARKER,
    SMALL_SUBSET_COLUMNS,
};
use crate::input::{push_vint, vint_len};
use crate::statistics::{Collector, Header, HeaderColumn, push_values};
use crate::version::Version;
use model::mutation::Clustering;
use model::row::{Cell, CellContent, Deletion, Liveness, RowView};
use model::schema::Table;
use model::{CqlType, value};
use std::cmp::Ordering;
use std::ops::Range;

/// Encodes rows of one table for one file.
#[derive(Debug)]
pub(crate) struct Encoder {
    codec: Codec,
    statics: ColumnOrder,
    regulars: ColumnOrder,
    /// The buffer to append to: the caller's, for the time of a call.
    out: Vec<u8>,
    present: Vec<usize>,
}

/// In which order the cells of a row are written: that of the header's static or regular columns.
#[derive(Debug)]
struct ColumnOrder {
    /// By column id: the column's index in the header, or [`NOT_IN_HEADER`].
    index_of: Vec<u16>,
    /// By index in the header: the type that orders the paths of the column's cells.
    path_types: Vec<CqlType>,
}

const NOT_IN_HEADER: u16 = u16::MAX;

impl ColumnOrder {
    fn new(header: &[HeaderColumn], columns: &[CodecColumn]) -> ColumnOrder {
        let path_type = |column: &HeaderColumn| match &column.field.cql_type {
            CqlType::List { .. } => CqlType::Timeuuid,
            CqlType::Set { element, .. } => (**element).clone(),
            CqlType::Map { key, .. } => (**key).clone(),
            _ => CqlType::Smallint,
        };
        let mut index_of = Vec::new();
        for (index, column) in columns.iter().enumerate() {
            let Some((id, _)) = column.target else { continue };
            let id = usize::from(id.0);
            if index_of.len() <= id {
                index_of.resize(id + 1, NOT_IN_HEADER);
            }
            if let Some(slot) = index_of.get_mut(id) {
                *slot = index as u16;
            }
        }
        ColumnOrder { index_of, path_types: header.iter().map(path_type).collect() }
    }

    /// Returns the index of a cell's column in the header; `None` if the header does not have it.
    fn index(&self, cell: &Cell<'_>) -> Option<usize> {
        let index = self.index_of.get(usize::from(cell.column.0)).copied()?;
        (index != NOT_IN_HEADER).then_some(usize::from(index))
    }
}

impl Encoder {
    pub(crate) fn new(version: Version, header: &Header, table: &Table) -> Encoder {
        let codec = Codec::new(version, header, table);
        let statics = ColumnOrder::new(&header.statics, &codec.statics);
        let regulars = ColumnOrder::new(&header.regulars, &codec.regulars);
        Encoder { codec, statics, regulars, out: Vec::new(), present: Vec::new() }
    }

    #[inline]
    fn order(&self, is_static: bool) -> &ColumnOrder {
        if is_static { &self.statics } else { &self.regulars }
    }

    #[inline]
    fn columns(&self, is_static: bool) -> &[CodecColumn] {
        if is_static { &self.codec.statics } else { &self.codec.regulars }
    }

    pub(crate) fn has_statics(&self) -> bool {
        !self.codec.statics.is_empty()
    }

    fn push_clustering(&mut self, clustering: Clustering<'_>) {
        let lens = self.codec.clustering.iter().map(|field| field.fixed_len);
        push_values(&mut self.out, lens, clustering.components().map(Some));
    }

    /// Appends a row's clustering; values that are missing at its end are null.
    fn push_row_clustering(&mut self, clustering: Clustering<'_>) {
        let lens = self.codec.clustering.iter().map(|field| field.fixed_len);
        let values = clustering.components().map(Some).chain(std::iter::repeat(None));
        push_values(&mut self.out, lens, values.take(self.codec.clustering.len()));
    }

    fn timestamp(&mut self, timestamp: i64) {
        push_vint(&mut self.out, timestamp.wrapping_sub(self.codec.min_timestamp) as u64);
    }

    fn local_deletion_time(&mut self, time: i64) {
        self.raw_deletion_time(time.min(self.codec.version.deletion_time_max()));
    }

    fn raw_deletion_time(&mut self, time: i64) {
        push_vint(&mut self.out, deletion_time_delta(time, self.codec.min_local_deletion_time));
    }

    fn ttl(&mut self, ttl: i32) {
        push_vint(&mut self.out, i64::from(ttl).wrapping_sub(self.codec.min_ttl) as u64);
    }

    fn deletion(&mut self, deletion: Deletion) {
        self.timestamp(deletion.timestamp);
        if deletion.is_live() {
            self.raw_deletion_time(if self.codec.version.is_cassandra_5() { -1 } else { super::NB_NO_DELETION_TIME });
        } else {
            self.local_deletion_time(deletion.local_deletion_time);
        }
    }

    /// Begins a body with room for its length, which will be about `len`, and with the length `before` of the previous
    /// unfiltered. Returns the room, for [`Encoder::end_body`].
    fn begin_body(&mut self, before: u64, len: usize) -> Range<usize> {
        let start = self.out.len();
        self.out.resize(start + vint_len((len + vint_len(before)) as u64), 0);
        let room = start..self.out.len();
        push_vint(&mut self.out, before);
        room
    }

    /// Writes the length of a body into the room that was left for it, moving the body if the room does not fit.
    fn end_body(&mut self, room: Range<usize>) {
        let end = self.out.len();
        let len = (end - room.end) as u64;
        let needed = room.start + vint_len(len);
        if needed != room.end {
            self.out.resize(end.max(end - room.end + needed), 0);
            self.out.copy_within(room.end..end, needed);
            self.out.truncate(end - room.end + needed);
        }
        let end = self.out.len();
        push_vint(&mut self.out, len);
        self.out.copy_within(end.., room.start);
        self.out.truncate(end);
    }

    /// Appends a marker with one deletion, or two if it is a boundary. `before` is the length of the previous
    /// unfiltered.
    pub(crate) fn push_marker(
        &mut self,
        kind: BoundKind,
        prefix: Clustering<'_>,
        deletions: &[Deletion],
        before: u64,
        out: &mut Vec<u8>,
    ) {
        std::mem::swap(out, &mut self.out);
        self.out.push(IS_MARKER);
        self.out.push(kind.number());
        self.out.extend_from_slice(&(prefix.components().count() as u16).to_be_bytes());
        self.push_clustering(prefix);
        let room = self.begin_body(before, 0);
        deletions.iter().for_each(|deletion| self.deletion(*deletion));
        self.end_body(room);
        std::mem::swap(out, &mut self.out);
    }

    /// Appends a row, or the static row if there is no clustering, and counts it in `stats`. `before` is the length of
    /// the previous unfiltered.
    pub(crate) fn push_row(
        &mut self,
        clustering: Option<Clustering<'_>>,
        row: RowView<'_>,
        before: u64,
        out: &mut Vec<u8>,
        stats: &mut Collector,
    ) {
        let is_static = clustering.is_none();
        let mut present = std::mem::take(&mut self.present);
        present.clear();
        std::mem::swap(out, &mut self.out);
        let written = if self.in_order(is_static, row, &mut present) {
            let room = self.push_head(clustering, row, &present, false, before, stats);
            let liveness = row.liveness();
            for cell in row.cells() {
                if let Some(index) = self.order(is_static).index(&cell) {
                    self.push_cell(&cell, liveness, self.fixed_len(is_static, index));
                    stats.cell(&cell);
                }
            }
            self.end_body(room);
            present.len()
        } else {
            self.push_sorted(clustering, row, &mut present, before, stats)
        };
        std::mem::swap(out, &mut self.out);
        self.present = present;
        if !is_static || self.holds(true, row) {
            stats.row(written);
        }
    }

    /// Returns whether a row holds anything that would be written.
    pub(crate) fn holds(&self, is_static: bool, row: RowView<'_>) -> bool {
        row.liveness().is_some()
            || !row.deletion().is_live()
            || row.cells().any(|cell| self.order(is_static).index(&cell).is_some())
    }

    /// Returns whether all cells of a row are of simple columns, in the header's order. If so, `present` has the
    /// columns' indexes in the header.
    fn in_order(&self, is_static: bool, row: RowView<'_>, present: &mut Vec<usize>) -> bool {
        let columns = self.columns(is_static);
        for cell in row.cells() {
            let Some(index) = self.order(is_static).index(&cell) else { continue };
            let simple = columns.get(index).is_some_and(|column| !column.complex);
            if !simple || present.last().is_some_and(|last| *last >= index) {
                return false;
            }
            present.push(index);
        }
        true
    }

    /// Appends flags, clustering, and the body up to its cells. Returns the room for the body's length.
    fn push_head(
        &mut self,
        clustering: Option<Clustering<'_>>,
        row: RowView<'_>,
        present: &[usize],
        complex_deletion: bool,
        before: u64,
        stats: &mut Collector,
    ) -> Range<usize> {
        let is_static = clustering.is_none();
        let (liveness, deletion) = (row.liveness(), row.deletion());
        let columns = self.columns(is_static).len();
        let all = present.len() == columns;
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        self.out.push(
            flag(is_static, EXTENDED)
                | flag(liveness.is_some(), HAS_TIMESTAMP)
                | flag(liveness.is_some_and(|liveness| liveness.expiry.is_some()), HAS_TTL)
                | flag(!deletion.is_live(), HAS_DELETION)
                | flag(all, HAS_ALL_COLUMNS)
                | flag(complex_deletion, HAS_COMPLEX_DELETION),
        );
        match clustering {
            None => self.out.push(EXTENDED_STATIC),
            Some(clustering) => self.push_row_clustering(clustering),
        }
        // The row's blob is about as long as its encoded body.
        let room = self.begin_body(before, row.blob().len());
        if let Some(Liveness { timestamp, expiry }) = liveness {
            self.timestamp(timestamp);
            if let Some((ttl, end)) = expiry {
                self.ttl(ttl);
                self.local_deletion_time(end);
            }
            stats.liveness(Liveness { timestamp, expiry });
        }
        if !deletion.is_live() {
            self.deletion(deletion);
            stats.deletion(deletion);
        }
        if !all {
            push_subset(present, columns, &mut self.out);
        }
        room
    }

    /// Appends a row whose cells have to be sorted. Returns how many of its columns have cells.
    fn push_sorted(
        &mut self,
        clustering: Option<Clustering<'_>>,
        row: RowView<'_>,
        present: &mut Vec<usize>,
        before: u64,
        stats: &mut Collector,
    ) -> usize {
        let is_static = clustering.is_none();
        let order = self.order(is_static);
        let indexed = |cell| order.index(&cell).map(|index| (index, cell));
        let mut cells: Vec<(usize, Cell<'_>)> = row.cells().filter_map(indexed).collect();
        let by_path = |index: usize, a: &Cell<'_>, b: &Cell<'_>| match (a.path, b.path) {
            (Some(a), Some(b)) => {
                order.path_types.get(index).map_or(Ordering::Equal, |cql_type| value::compare(cql_type, a, b))
            }
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        cells.sort_by(|(a, x), (b, y)| a.cmp(b).then_with(|| by_path(*a, x, y)));
        present.clear();
        present.extend(cells.iter().map(|(index, _)| *index));
        present.dedup();
        let is_deletion = |cell: &Cell<'_>| matches!(cell.content, CellContent::ColumnDeletion { .. });
        let complex_deletion = cells.iter().any(|(_, cell)| is_deletion(cell));
        let room = self.push_head(clustering, row, present, complex_deletion, before, stats);
        let mut rest = &cells[..];
        let mut written = 0;
        for index in present.iter() {
            let (own, others) = rest.split_at(rest.iter().take_while(|(of, _)| of == index).count());
            rest = others;
            let mut own = own.iter().map(|(_, cell)| cell).peekable();
            if self.columns(is_static).get(*index).is_some_and(|column| column.complex) {
                let deleted = own.next_if(|cell| is_deletion(cell));
                let deletion = match deleted.map(|cell| (cell.timestamp, cell.content)) {
                    Some((timestamp, CellContent::ColumnDeletion { local_deletion_time })) => {
                        Deletion { timestamp, local_deletion_time }
                    }
                    _ => Deletion::LIVE,
                };
                if complex_deletion {
                    self.deletion(deletion);
                }
                stats.deletion(deletion);
                push_vint(&mut self.out, own.clone().count() as u64);
            }
            written += usize::from(own.peek().is_some());
            let fixed_len = self.fixed_len(is_static, *index);
            for cell in own {
                self.push_cell(cell, row.liveness(), fixed_len);
                stats.cell(cell);
            }
        }
        self.end_body(room);
        written
    }

    fn fixed_len(&self, is_static: bool, index: usize) -> Option<usize> {
        self.columns(is_static).get(index).and_then(|column| column.fixed_len)
    }

    fn push_cell(&mut self, cell: &Cell<'_>, liveness: Option<Liveness>, fixed_len: Option<usize>) {
        let (value, expiry, deleted) = match cell.content {
            CellContent::Live(value) | CellContent::Counter(value) => (value, None, None),
            CellContent::Expiring { value, ttl, local_deletion_time } => {
                (value, Some((ttl, local_deletion_time)), None)
            }
            CellContent::Deleted { local_deletion_time } | CellContent::ColumnDeletion { local_deletion_time } => {
                (&[][..], None, Some(local_deletion_time))
            }
        };
        let row_timestamp = liveness.is_some_and(|liveness| liveness.timestamp == cell.timestamp);
        let row_ttl = expiry.is_some() && liveness.is_some_and(|liveness| liveness.expiry == expiry);
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        self.out.push(
            flag(deleted.is_some(), CELL_DELETED)
                | flag(expiry.is_some(), CELL_EXPIRING)
                | flag(value.is_empty(), CELL_EMPTY)
                | flag(row_timestamp, CELL_ROW_TIMESTAMP)
                | flag(row_ttl, CELL_ROW_TTL),
        );
        if !row_timestamp {
            self.timestamp(cell.timestamp);
        }
        if let Some(time) = deleted.or(expiry.map(|(_, end)| end).filter(|_| !row_ttl)) {
            self.local_deletion_time(time);
        }
        if let Some((ttl, _)) = expiry.filter(|_| !row_ttl) {
            self.ttl(ttl);
        }
        if let Some(path) = cell.path {
            push_vint(&mut self.out, path.len() as u64);
            self.out.extend_from_slice(path);
        }
        if !value.is_empty() {
            if fixed_len.is_none() {
                push_vint(&mut self.out, value.len() as u64);
            }
            self.out.extend_from_slice(value);
        }
    }
}

/// Returns a local deletion time relative to the smallest one, sign-extended from 32 bits, which is all that Cassandra
/// accepts.
fn deletion_time_delta(time: i64, min: i64) -> u64 {
    i64::from(time.wrapping_sub(min) as i32) as u64
}

/// Appends the subset of columns that a row has, by their indexes.
fn push_subset(present: &[usize], columns: usize, out: &mut Vec<u8>) {
    if columns < SMALL_SUBSET_COLUMNS {
        let missing = present.iter().fold((1u64 << columns) - 1, |missing, index| missing & !(1 << index));
        return push_vint(out, missing);
    }
    push_vint(out, (columns - present.len()) as u64);
    if present.len() < columns / 2 {
        present.iter().for_each(|index| push_vint(out, *index as u64));
    } else {
        let mut rest = present.iter().peekable();
        for index in 0..columns {
            if rest.next_if(|next| **next == index).is_none() {
                push_vint(out, index as u64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletion_times_are_32_bit_numbers_from_the_smallest_one_on() {
        let last = Version::Da.deletion_time_max();
        for min in [0, 1_000, 1_442_880_000, 1_700_000_060, i64::from(i32::MAX), last] {
            for time in [-1, 0, 1_000, 1_700_000_000, i64::from(i32::MAX), i64::from(i32::MAX) + 1, 2_778_203_600, last]
            {
                let delta = deletion_time_delta(time, min) as i64;
                assert!(i32::try_from(delta).is_ok(), "{time} from {min} on");
                assert_eq!(min.wrapping_add(delta) as u32, time as u32, "{time} from {min} on");
            }
        }
        assert_eq!(deletion_time_delta(2_778_203_600, 1_700_000_060), 1_078_203_540);
    }
}
