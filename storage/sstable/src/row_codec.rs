//! What Data.db holds between a partition's head and its end: rows and range tombstone markers.
//!
//! ```text
//! unfiltered  flags u8 [extended flags u8]
//! row         clustering values (not of a static row), body length vint, body
//! body        length of the unfiltered before vint, [timestamp [ttl, local deletion time]], [deletion], [column subset],
//!             cells of each column
//! cells       of a simple column one; of a complex one [deletion], count vint, cells with paths
//! cell        flags u8, [timestamp], [local deletion time], [ttl], [path vint length], [value, vint length if not fixed]
//! marker      bound kind u8, values u16, clustering values, body length vint, length of the unfiltered before vint,
//!             deletion, of a boundary another one
//! ```
//! Timestamps, local deletion times and times to live are vints, relative to the smallest of the header. A column subset is
//! a vint: below 64 columns the bits of those missing, else their count and then the indexes of the fewer kind. Of a local deletion time only the lower 32 bits count.
//!
//! Invariants: a body that is not exactly as long as it says is invalid; ends of the bytes before the body's are
//! [`Problem::Truncated`], so that a reader brings more and tries again.

mod encode;

pub(crate) use encode::Encoder;

use crate::descriptor::Version;
use crate::input::{Fault, Input, Problem};
use crate::statistics::{FieldType, Header, HeaderColumn, read_values};
use model::CqlType;
use model::comparable::{self, BoundSide};
use model::counter::Context;
use model::mutation::{CLUSTERING_BYTES_MAX, push_clustering};
use model::row::{Cell, CellContent, Deletion, Liveness, NO_TIMESTAMP, RowBuilder};
use model::schema::{ColumnId, ColumnKind, DroppedColumn, Table};
use std::ops::Range;

pub(crate) const END_OF_PARTITION: u8 = 0x01;
pub(crate) const IS_MARKER: u8 = 0x02;
pub(crate) const HAS_TIMESTAMP: u8 = 0x04;
pub(crate) const HAS_TTL: u8 = 0x08;
pub(crate) const HAS_DELETION: u8 = 0x10;
pub(crate) const HAS_ALL_COLUMNS: u8 = 0x20;
pub(crate) const HAS_COMPLEX_DELETION: u8 = 0x40;
pub(crate) const EXTENDED: u8 = 0x80;
pub(crate) const EXTENDED_STATIC: u8 = 0x01;
pub(crate) const EXTENDED_SHADOWABLE: u8 = 0x02;

pub(crate) const CELL_DELETED: u8 = 0x01;
pub(crate) const CELL_EXPIRING: u8 = 0x02;
pub(crate) const CELL_EMPTY: u8 = 0x04;
pub(crate) const CELL_ROW_TIMESTAMP: u8 = 0x08;
pub(crate) const CELL_ROW_TTL: u8 = 0x10;

/// The local deletion time that `nb` writes for what is not deleted.
const NB_NO_DELETION_TIME: i64 = i32::MAX as i64;
/// From this many columns on a subset is written as indexes.
pub(crate) const SMALL_SUBSET_COLUMNS: usize = 64;

/// The kind of a bound, by its number in files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BoundKind {
    /// Ends a range before its prefix.
    ExclusiveEnd,
    /// Starts a range with its prefix.
    InclusiveStart,
    /// Ends one range before its prefix and starts another with it.
    ExclusiveEndInclusiveStart,
    /// Ends one range with its prefix and starts another after it.
    InclusiveEndExclusiveStart,
    /// Ends a range with its prefix.
    InclusiveEnd,
    /// Starts a range after its prefix.
    ExclusiveStart,
}

impl BoundKind {
    /// The kind of a number.
    pub fn from_number(number: u8) -> Option<BoundKind> {
        Some(match number {
            0 => BoundKind::ExclusiveEnd,
            1 => BoundKind::InclusiveStart,
            2 => BoundKind::ExclusiveEndInclusiveStart,
            5 => BoundKind::InclusiveEndExclusiveStart,
            6 => BoundKind::InclusiveEnd,
            7 => BoundKind::ExclusiveStart,
            _ => return None,
        })
    }

    /// Its number.
    pub fn number(self) -> u8 {
        match self {
            BoundKind::ExclusiveEnd => 0,
            BoundKind::InclusiveStart => 1,
            BoundKind::ExclusiveEndInclusiveStart => 2,
            BoundKind::InclusiveEndExclusiveStart => 5,
            BoundKind::InclusiveEnd => 6,
            BoundKind::ExclusiveStart => 7,
        }
    }

    /// Whether it stands before or after the rows of its prefix.
    pub fn side(self) -> BoundSide {
        match self {
            BoundKind::ExclusiveEnd | BoundKind::InclusiveStart | BoundKind::ExclusiveEndInclusiveStart => {
                BoundSide::Before
            }
            _ => BoundSide::After,
        }
    }

    /// Whether one range ends and another starts.
    pub fn is_boundary(self) -> bool {
        matches!(self, BoundKind::ExclusiveEndInclusiveStart | BoundKind::InclusiveEndExclusiveStart)
    }

    /// Whether a range starts and none ends.
    pub fn is_start(self) -> bool {
        matches!(self, BoundKind::InclusiveStart | BoundKind::ExclusiveStart)
    }

    /// The kind of a marker on a side of its prefix, by whether a range ends and whether one starts there.
    pub fn of(side: BoundSide, ends: bool, starts: bool) -> Option<BoundKind> {
        Some(match (side, ends, starts) {
            (_, false, false) => return None,
            (BoundSide::Before, true, true) => BoundKind::ExclusiveEndInclusiveStart,
            (BoundSide::Before, true, false) => BoundKind::ExclusiveEnd,
            (BoundSide::Before, false, true) => BoundKind::InclusiveStart,
            (BoundSide::After, true, true) => BoundKind::InclusiveEndExclusiveStart,
            (BoundSide::After, true, false) => BoundKind::InclusiveEnd,
            (BoundSide::After, false, true) => BoundKind::ExclusiveStart,
        })
    }
}

/// A column of the file and what it is in the table.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) fixed_len: Option<usize>,
    pub(crate) complex: bool,
    /// Whether its cells hold contexts of counters.
    pub(crate) counter: bool,
    /// Its id and, of a column that was dropped and added again, the timestamp up to which cells are gone; `None`: the
    /// table does not have it.
    pub(crate) target: Option<(ColumnId, i64)>,
}

/// How to read rows of one file into rows of one table.
#[derive(Debug)]
pub(crate) struct Codec {
    pub(crate) version: Version,
    pub(crate) min_timestamp: i64,
    pub(crate) min_local_deletion_time: i64,
    pub(crate) min_ttl: i64,
    pub(crate) clustering: Vec<FieldType>,
    pub(crate) statics: Vec<Place>,
    pub(crate) regulars: Vec<Place>,
}

/// What [`Codec::read`] found; its data is in [`Scratch`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unfiltered {
    Static,
    Row,
    /// A marker: what ends and what starts with it.
    Marker {
        kind: BoundKind,
        ends: Deletion,
        starts: Deletion,
    },
    End,
}

/// Buffers that are used again for every row.
#[derive(Default, Debug)]
pub(crate) struct Scratch {
    /// The clustering, or the prefix of a marker, in the form of [`model::mutation::Clustering`].
    pub(crate) clustering: Vec<u8>,
    /// Its comparable form.
    pub(crate) comparable: Vec<u8>,
    /// The row blob.
    pub(crate) row: Vec<u8>,
    cells: Vec<RawCell>,
    present: Vec<u16>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum RawContent {
    Live,
    Counter,
    Expiring { ttl: i32, end: i64 },
    Deleted { time: i64 },
    ColumnDeletion { time: i64 },
}

/// A cell whose path and value are places in the body.
#[derive(Clone, Debug)]
pub(crate) struct RawCell {
    column: ColumnId,
    pub(crate) timestamp: i64,
    pub(crate) content: RawContent,
    pub(crate) path: Option<Range<usize>>,
    pub(crate) value: Range<usize>,
}

impl RawCell {
    fn cell<'a>(&self, body: &'a [u8]) -> Cell<'a> {
        let value = body.get(self.value.clone()).unwrap_or_default();
        Cell {
            column: self.column,
            timestamp: self.timestamp,
            content: match self.content {
                RawContent::Live => CellContent::Live(value),
                RawContent::Counter => CellContent::Counter(value),
                RawContent::Expiring { ttl, end } => CellContent::Expiring { value, ttl, local_deletion_time: end },
                RawContent::Deleted { time } => CellContent::Deleted { local_deletion_time: time },
                RawContent::ColumnDeletion { time } => CellContent::ColumnDeletion { local_deletion_time: time },
            },
            path: self.path.clone().map(|path| body.get(path).unwrap_or_default()),
        }
    }
}

/// The values of a row's clustering or of a bound, in the form of [`model::mutation::Clustering`]. Nulls stand in rows of
/// compact tables: those at the end are left out; any other, which CQL does not write, reads as the empty value.
pub(crate) fn read_components(
    input: &mut Input<'_>,
    fields: &[FieldType],
    of_row: bool,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let start = *input;
    let mut nulls = 0;
    read_values(input, fields.iter().map(|field| field.fixed_len), |value| {
        let Some(value) = value else {
            nulls += 1;
            return Ok(());
        };
        if value.len() > CLUSTERING_BYTES_MAX {
            return start.fail(Problem::Limit("CLUSTERING_BYTES_MAX"));
        }
        (0..std::mem::take(&mut nulls)).for_each(|_| push_clustering(out, &[]));
        push_clustering(out, value);
        Ok(())
    })?;
    if !of_row {
        (0..nulls).for_each(|_| push_clustering(out, &[]));
    }
    Ok(())
}

impl Codec {
    pub(crate) fn new(version: Version, header: &Header, table: &Table) -> Codec {
        Codec {
            version,
            min_timestamp: header.min_timestamp,
            min_local_deletion_time: header.min_local_deletion_time,
            min_ttl: header.min_ttl,
            clustering: header.clustering.clone(),
            statics: places(&header.statics, ColumnKind::Static, table),
            regulars: places(&header.regulars, ColumnKind::Regular, table),
        }
    }

    /// A partition's deletion as its head, and the entry of an index, has it.
    pub(crate) fn read_partition_deletion(&self, input: &mut Input<'_>) -> Result<Deletion, Fault> {
        read_deletion(self.version, input)
    }

    /// The next unfiltered. `wanted` is asked, by the comparable form, whether the row is to be decoded: if not, `row` of
    /// the scratch stays empty.
    pub(crate) fn read(
        &self,
        table: &Table,
        input: &mut Input<'_>,
        scratch: &mut Scratch,
        wanted: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Unfiltered, Fault> {
        let start = *input;
        let flags = input.u8()?;
        scratch.clustering.clear();
        scratch.comparable.clear();
        scratch.row.clear();
        if flags & END_OF_PARTITION != 0 {
            return if flags == END_OF_PARTITION { Ok(Unfiltered::End) } else { start.invalid("flags of a row") };
        }
        if flags & IS_MARKER != 0 {
            return if flags == IS_MARKER {
                self.read_marker(table, input, scratch)
            } else {
                start.invalid("flags of a marker")
            };
        }
        let extended = if flags & EXTENDED != 0 { input.u8()? } else { 0 };
        if extended & !(EXTENDED_STATIC | EXTENDED_SHADOWABLE) != 0 || flags & (HAS_TIMESTAMP | HAS_TTL) == HAS_TTL {
            return start.invalid("flags of a row");
        }
        let is_static = extended & EXTENDED_STATIC != 0;
        if !is_static {
            self.read_clustering(input, self.clustering.len(), true, scratch)?;
            let clustering = model::mutation::Clustering(&scratch.clustering);
            comparable::clustering(table, clustering.components(), &mut scratch.comparable);
        }
        let len = input.len()?;
        if is_static || wanted(&scratch.comparable) {
            let body = body(input, len)?;
            self.read_row(flags, is_static, body, scratch).map_err(within)?;
        } else {
            input.bytes(len)?;
        }
        Ok(if is_static { Unfiltered::Static } else { Unfiltered::Row })
    }

    fn read_clustering(
        &self,
        input: &mut Input<'_>,
        count: usize,
        of_row: bool,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let Some(fields) = self.clustering.get(..count) else { return input.invalid("a count of clustering values") };
        read_components(input, fields, of_row, &mut scratch.clustering)
    }

    fn read_marker(&self, table: &Table, input: &mut Input<'_>, scratch: &mut Scratch) -> Result<Unfiltered, Fault> {
        let start = *input;
        let Some(kind) = BoundKind::from_number(input.u8()?) else { return start.invalid("the kind of a bound") };
        let count = input.u16()?;
        self.read_clustering(input, count.into(), false, scratch)?;
        let clustering = model::mutation::Clustering(&scratch.clustering);
        comparable::bound(table, clustering.components(), kind.side(), &mut scratch.comparable);
        let len = input.len()?;
        let mut body = body(input, len)?;
        let mut read = || -> Result<Unfiltered, Fault> {
            body.vint()?;
            let first = self.deletion(&mut body)?;
            let second = if kind.is_boundary() { self.deletion(&mut body)? } else { Deletion::LIVE };
            if !body.is_empty() || first.is_live() || kind.is_boundary() && second.is_live() {
                return body.invalid("a marker of its length");
            }
            let (ends, starts) = if kind.is_start() { (second, first) } else { (first, second) };
            Ok(Unfiltered::Marker { kind, ends, starts })
        };
        read().map_err(within)
    }

    pub(crate) fn timestamp(&self, input: &mut Input<'_>) -> Result<i64, Fault> {
        Ok(self.min_timestamp.wrapping_add(input.vint()? as i64))
    }

    pub(crate) fn local_deletion_time(&self, input: &mut Input<'_>) -> Result<i64, Fault> {
        let time = self.min_local_deletion_time.wrapping_add(input.vint()? as i64);
        // 32 bits: `oa` and `da` write times from 2038 on as negative ones.
        Ok(if self.version.is_cassandra_5() { i64::from(time as u32) } else { i64::from(time as i32) })
    }

    pub(crate) fn ttl(&self, input: &mut Input<'_>) -> Result<i32, Fault> {
        let ttl = self.min_ttl.wrapping_add(input.vint()? as i64);
        i32::try_from(ttl).ok().filter(|ttl| *ttl > 0).map_or_else(|| input.invalid("a time to live"), Ok)
    }

    pub(crate) fn deletion(&self, input: &mut Input<'_>) -> Result<Deletion, Fault> {
        let timestamp = self.timestamp(input)?;
        let local_deletion_time = self.local_deletion_time(input)?;
        Ok(if timestamp == NO_TIMESTAMP { Deletion::LIVE } else { Deletion { timestamp, local_deletion_time } })
    }

    fn read_row(&self, flags: u8, is_static: bool, body: Input<'_>, scratch: &mut Scratch) -> Result<(), Fault> {
        let bytes = body.rest();
        let mut input = body;
        input.vint()?;
        let liveness = if flags & HAS_TIMESTAMP != 0 {
            let timestamp = self.timestamp(&mut input)?;
            let expiry = if flags & HAS_TTL != 0 {
                let ttl = self.ttl(&mut input)?;
                Some((ttl, self.local_deletion_time(&mut input)?))
            } else {
                None
            };
            Some(Liveness { timestamp, expiry })
        } else {
            None
        };
        let deletion = if flags & HAS_DELETION != 0 { self.deletion(&mut input)? } else { Deletion::LIVE };
        let places = if is_static { &self.statics } else { &self.regulars };
        let all = flags & HAS_ALL_COLUMNS != 0;
        if !all {
            read_subset(&mut input, places.len(), &mut scratch.present)?;
        }
        scratch.cells.clear();
        // Whether the order of cells is in question: columns have ids in any order, paths another order than in the file.
        let mut unordered = false;
        let mut last = None;
        let mut present = scratch.present.iter();
        for i in 0..places.len() {
            let index = if all {
                i
            } else {
                match present.next() {
                    Some(index) => usize::from(*index),
                    None => break,
                }
            };
            let Some(place) = places.get(index) else { return input.invalid("a column of the header") };
            unordered |= place.complex;
            let count = if place.complex {
                if flags & HAS_COMPLEX_DELETION != 0 {
                    let deletion = self.deletion(&mut input)?;
                    if let Some((column, dropped_at)) = place.target
                        && !deletion.is_live()
                        && deletion.timestamp > dropped_at
                    {
                        scratch.cells.push(RawCell {
                            column,
                            timestamp: deletion.timestamp,
                            content: RawContent::ColumnDeletion { time: deletion.local_deletion_time },
                            path: None,
                            value: 0..0,
                        });
                    }
                }
                let count = input.vint()?;
                input.count(count, 2)?
            } else {
                1
            };
            for _ in 0..count {
                let cell = self.read_cell(&mut input, bytes.len(), place, liveness)?;
                if let Some((column, dropped_at)) = place.target
                    && cell.timestamp > dropped_at
                {
                    unordered |= last.replace(column).is_some_and(|last| last >= column);
                    scratch.cells.push(RawCell { column, ..cell });
                }
            }
        }
        if !input.is_empty() {
            return input.invalid("the end of a row");
        }
        let place = |cell: &RawCell| cell.cell(bytes);
        if unordered && !scratch.cells.is_sorted_by(|a, b| place(a).place() < place(b).place()) {
            scratch.cells.sort_unstable_by(|a, b| place(a).place().cmp(&place(b).place()));
            if scratch.cells.windows(2).any(|pair| place(&pair[0]).place() == place(&pair[1]).place()) {
                return body.invalid("a row with one cell per column and path");
            }
        }
        let mut builder = RowBuilder::new(&mut scratch.row, liveness, deletion);
        scratch.cells.iter().for_each(|cell| builder.cell(&cell.cell(bytes)));
        Ok(())
    }

    /// A cell; its column is not set.
    pub(crate) fn read_cell(
        &self,
        input: &mut Input<'_>,
        body_len: usize,
        place: &Place,
        liveness: Option<Liveness>,
    ) -> Result<RawCell, Fault> {
        let start = *input;
        let at = |input: &Input<'_>| body_len - input.rest().len();
        let flags = input.u8()?;
        let (deleted, expiring) = (flags & CELL_DELETED != 0, flags & CELL_EXPIRING != 0);
        if flags & !0x1f != 0 || deleted && expiring {
            return start.invalid("flags of a cell");
        }
        let timestamp = match liveness {
            _ if flags & CELL_ROW_TIMESTAMP == 0 => self.timestamp(input)?,
            Some(liveness) => liveness.timestamp,
            None => return start.invalid("a cell of a row without a timestamp"),
        };
        let content = if flags & CELL_ROW_TTL != 0 {
            match liveness.and_then(|liveness| liveness.expiry) {
                Some((ttl, end)) if expiring => RawContent::Expiring { ttl, end },
                _ => return start.invalid("a cell of a row without a time to live"),
            }
        } else if deleted {
            RawContent::Deleted { time: self.local_deletion_time(input)? }
        } else if expiring {
            let end = self.local_deletion_time(input)?;
            RawContent::Expiring { ttl: self.ttl(input)?, end }
        } else if place.counter {
            RawContent::Counter
        } else {
            RawContent::Live
        };
        let path = if place.complex {
            let len = input.vint_bytes()?.len();
            Some(at(input) - len..at(input))
        } else {
            None
        };
        let value = match place.fixed_len {
            _ if flags & CELL_EMPTY != 0 => &[][..],
            Some(len) => input.bytes(len)?,
            None => input.vint_bytes()?,
        };
        if matches!(content, RawContent::Counter) && Context::parse(value).is_err() {
            return start.invalid("a counter's context");
        }
        let value = value.len();
        Ok(RawCell { column: ColumnId(0), timestamp, content, path, value: at(input) - value..at(input) })
    }
}

/// The end of bytes inside of a body is not the end of what was brought.
pub(crate) fn within(fault: Fault) -> Fault {
    match fault.problem {
        Problem::Truncated => Fault::invalid(fault.offset, "a row of its length"),
        _ => fault,
    }
}

pub(crate) fn body<'a>(input: &mut Input<'a>, len: usize) -> Result<Input<'a>, Fault> {
    let offset = input.offset();
    Ok(Input::new(input.bytes(len)?, offset))
}

/// A deletion that stands alone: of a partition, and of an index entry that is inside of a range tombstone.
pub(crate) fn read_deletion(version: Version, input: &mut Input<'_>) -> Result<Deletion, Fault> {
    if !version.is_cassandra_5() {
        let local_deletion_time = i64::from(input.i32()?);
        let timestamp = input.i64()?;
        return Ok(if timestamp == NO_TIMESTAMP {
            Deletion::LIVE
        } else {
            Deletion { timestamp, local_deletion_time }
        });
    }
    let start = *input;
    match input.u8()? {
        0x80 => Ok(Deletion::LIVE),
        flags if flags & 0x80 != 0 => start.invalid("flags of a deletion"),
        _ => {
            *input = start;
            let timestamp = input.i64()?;
            Ok(Deletion { timestamp, local_deletion_time: i64::from(input.u32()?) })
        }
    }
}

/// Appends a deletion in the form of [`read_deletion`].
pub(crate) fn push_deletion(version: Version, deletion: Deletion, out: &mut Vec<u8>) {
    if !version.is_cassandra_5() {
        let time = deletion.local_deletion_time.min(version.deletion_time_max());
        let time = if deletion.is_live() { NB_NO_DELETION_TIME } else { time };
        out.extend_from_slice(&(time as i32).to_be_bytes());
        out.extend_from_slice(&deletion.timestamp.to_be_bytes());
    } else if deletion.is_live() {
        out.push(0x80);
    } else {
        out.extend_from_slice(&deletion.timestamp.to_be_bytes());
        let time = deletion.local_deletion_time.min(version.deletion_time_max());
        out.extend_from_slice(&(time as u32).to_be_bytes());
    }
}

fn places(columns: &[HeaderColumn], kind: ColumnKind, table: &Table) -> Vec<Place> {
    let place = |column: &HeaderColumn| {
        let complex = column.field.cql_type.is_multicell();
        let target = std::str::from_utf8(&column.name).ok().and_then(|name| {
            let Some(found) = table.column(name) else {
                // What is newer than the drop is there for when the column is added again.
                let is_it = |dropped: &&DroppedColumn| {
                    dropped.name == name && dropped.kind == kind && dropped.cql_type.is_multicell() == complex
                };
                return table.dropped.iter().find(is_it).map(|dropped| (dropped.id, dropped.dropped_at));
            };
            if found.kind != kind || found.cql_type.is_multicell() != complex {
                return None;
            }
            let dropped = table.dropped.iter().filter(|dropped| dropped.name == name).map(|dropped| dropped.dropped_at);
            Some((found.id, dropped.max().unwrap_or(NO_TIMESTAMP)))
        });
        let counter = column.field.cql_type == CqlType::Counter;
        Place { fixed_len: column.field.fixed_len, complex, counter, target }
    };
    columns.iter().map(place).collect()
}

/// Fills `present` with the indexes of the columns that a row has.
pub(crate) fn read_subset(input: &mut Input<'_>, columns: usize, present: &mut Vec<u16>) -> Result<(), Fault> {
    let start = *input;
    present.clear();
    let encoded = input.vint()?;
    if columns < SMALL_SUBSET_COLUMNS {
        if encoded >> columns != 0 {
            return start.invalid("a subset of the columns");
        }
        present.extend((0..columns as u16).filter(|i| encoded >> i & 1 == 0));
        return Ok(());
    }
    let Some(count) = (columns as u64).checked_sub(encoded) else { return start.invalid("a subset of the columns") };
    let count = count as usize;
    let listed = if count < columns / 2 { count } else { columns - count };
    let mut next = 0;
    for _ in 0..listed {
        let index = input.vint()?;
        if index < next || index >= columns as u64 {
            return start.invalid("a subset of the columns");
        }
        if count < columns / 2 {
            present.push(index as u16);
        } else {
            present.extend(next as u16..index as u16);
        }
        next = index + 1;
    }
    if count >= columns / 2 {
        present.extend(next as u16..columns as u16);
    }
    Ok(())
}
