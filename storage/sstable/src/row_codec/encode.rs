//! Rows and markers to bytes.
//!
//! Invariants: what a row of the codec was read from is written again byte by byte, if its file was written by Cassandra.

use super::{
    BoundKind, CELL_DELETED, CELL_EMPTY, CELL_EXPIRING, CELL_ROW_TIMESTAMP, CELL_ROW_TTL, Codec, EXTENDED,
    EXTENDED_STATIC, HAS_ALL_COLUMNS, HAS_COMPLEX_DELETION, HAS_DELETION, HAS_TIMESTAMP, HAS_TTL, IS_MARKER,
    SMALL_SUBSET_COLUMNS,
};
use crate::descriptor::Version;
use crate::input::{push_vint, vint_len};
use crate::statistics::{Collector, Header, push_values};
use model::mutation::Clustering;
use model::row::{Cell, CellContent, Deletion, Liveness, RowView};
use model::schema::Table;
use model::{CqlType, value};
use std::cmp::Ordering;
use std::ops::Range;

/// How to write rows of a table into one file.
#[derive(Debug)]
pub(crate) struct Encoder {
    codec: Codec,
    /// What orders the paths of each column, static ones first.
    paths: [Vec<CqlType>; 2],
    /// The place among the static and the regular columns of the header of each column id; [`NO_PLACE`] without one.
    places: [Vec<u16>; 2],
    /// Where to append: the caller's buffer while something is written.
    out: Vec<u8>,
    present: Vec<usize>,
}

const NO_PLACE: u16 = u16::MAX;

impl Encoder {
    pub(crate) fn new(version: Version, header: &Header, table: &Table) -> Encoder {
        let paths = [&header.statics, &header.regulars].map(|columns| {
            let order = |cql_type: &CqlType| match cql_type {
                CqlType::List { .. } => CqlType::Timeuuid,
                CqlType::Set { element, .. } => (**element).clone(),
                CqlType::Map { key, .. } => (**key).clone(),
                _ => CqlType::Smallint,
            };
            columns.iter().map(|column| order(&column.field.cql_type)).collect()
        });
        let codec = Codec::new(version, header, table);
        let places = [&codec.statics, &codec.regulars].map(|columns| {
            let mut places = Vec::new();
            for (at, place) in columns.iter().enumerate() {
                let Some((id, _)) = place.target else { continue };
                let id = usize::from(id.0);
                if places.len() <= id {
                    places.resize(id + 1, NO_PLACE);
                }
                if let Some(slot) = places.get_mut(id) {
                    *slot = at as u16;
                }
            }
            places
        });
        Encoder { codec, paths, places, out: Vec::new(), present: Vec::new() }
    }

    pub(crate) fn has_statics(&self) -> bool {
        !self.codec.statics.is_empty()
    }

    fn push_clustering(&mut self, clustering: Clustering<'_>) {
        let lens = self.codec.clustering.iter().map(|field| field.fixed_len);
        push_values(&mut self.out, lens, clustering.components().map(Some));
    }

    /// A row's clustering; what it lacks is null.
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

    /// Begins the body of an unfiltered, of which the one before has `before` bytes: room for a length of about `len` and
    /// that. To be ended with [`Encoder::end_body`].
    fn begin_body(&mut self, before: u64, len: usize) -> Range<usize> {
        let start = self.out.len();
        self.out.resize(start + vint_len((len + vint_len(before)) as u64), 0);
        let room = start..self.out.len();
        push_vint(&mut self.out, before);
        room
    }

    /// Puts the length of a body where room was left for it.
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

    /// Appends a marker.
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

    /// Appends a row; without a clustering the static one. Counts what is written of it.
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
                if let Some(index) = self.place_of(is_static, &cell) {
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

    /// Whether anything of a row would be written.
    pub(crate) fn holds(&self, is_static: bool, row: RowView<'_>) -> bool {
        row.liveness().is_some()
            || !row.deletion().is_live()
            || row.cells().any(|cell| self.place_of(is_static, &cell).is_some())
    }

    /// The place of a cell's column in the header.
    fn place_of(&self, is_static: bool, cell: &Cell<'_>) -> Option<usize> {
        let places = &self.places[usize::from(!is_static)];
        let place = places.get(usize::from(cell.column.0)).copied()?;
        (place != NO_PLACE).then_some(usize::from(place))
    }

    /// Whether the cells of a row, all of simple columns, come in the header's order: then where their columns are.
    fn in_order(&self, is_static: bool, row: RowView<'_>, present: &mut Vec<usize>) -> bool {
        let columns = if is_static { &self.codec.statics } else { &self.codec.regulars };
        for cell in row.cells() {
            let Some(index) = self.place_of(is_static, &cell) else { continue };
            let simple = columns.get(index).is_some_and(|place| !place.complex);
            if !simple || present.last().is_some_and(|last| *last >= index) {
                return false;
            }
            present.push(index);
        }
        true
    }

    /// Flags, clustering and the beginning of the body up to the cells; the room for its length.
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
        let columns = if is_static { self.codec.statics.len() } else { self.codec.regulars.len() };
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
        // The blob is about as long.
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

    /// Head and body of a row whose cells have to be sorted; how many columns have cells.
    fn push_sorted(
        &mut self,
        clustering: Option<Clustering<'_>>,
        row: RowView<'_>,
        present: &mut Vec<usize>,
        before: u64,
        stats: &mut Collector,
    ) -> usize {
        let is_static = clustering.is_none();
        let place = |cell| self.place_of(is_static, &cell).map(|index| (index, cell));
        let mut cells: Vec<(usize, Cell<'_>)> = row.cells().filter_map(place).collect();
        let paths = &self.paths[usize::from(!is_static)];
        let by_path = |index: usize, a: &Cell<'_>, b: &Cell<'_>| match (a.path, b.path) {
            (Some(a), Some(b)) => paths.get(index).map_or(Ordering::Equal, |order| value::compare(order, a, b)),
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
            let places = if is_static { &self.codec.statics } else { &self.codec.regulars };
            if places.get(*index).is_some_and(|place| place.complex) {
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
        let places = if is_static { &self.codec.statics } else { &self.codec.regulars };
        places.get(index).and_then(|place| place.fixed_len)
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

/// A local deletion time relative to the smallest one: a signed 32-bit number, for Cassandra takes no other.
fn deletion_time_delta(time: i64, min: i64) -> u64 {
    i64::from(time.wrapping_sub(min) as i32) as u64
}

/// Appends which of the columns a row has.
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
