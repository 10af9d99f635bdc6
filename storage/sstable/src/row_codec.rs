//! The encoding of what Data.db holds between a partition's head and its end: rows and range tombstone markers.
//!
//! ```text
//! unfiltered  flags u8 [extended flags u8]
//! row         clustering values (not of a static row), body length vint, body
//! body        length of the previous unfiltered vint, [timestamp [ttl, local deletion time]], [deletion], [column
//!             subset], cells of each column
//! cells       simple column: one cell; complex column: [deletion], count vint, cells with paths
//! cell        flags u8, [timestamp], [local deletion time], [ttl], [path, vint length], [value, vint length if not
//!             fixed]
//! marker      bound kind u8, values u16, clustering values, body length vint, length of the previous unfiltered vint,
//!             deletion, for a boundary a second one
//! ```
//! Timestamps, local deletion times and times to live are vints, relative to the smallest ones in the header; only the
//! lower 32 bits of a local deletion time count. A column subset is a vint: with fewer than 64 columns a bit for each
//! missing column, otherwise the count of missing columns, followed by the indexes of the missing or the present ones,
//! whichever are fewer.
//!
//! Rows are decoded into the form of [`model::row`], for the columns of a table; [`crate::walker`] shows them as they
//! are in the file.
//!
//! Invariants: a body that is not exactly as long as it says is invalid; bytes that end before the body does are
//! [`Problem::Truncated`], upon which the caller supplies more of them and tries again.

mod encode;

pub use crate::bound_kind::BoundKind;
pub(crate) use encode::Encoder;

use crate::error::{Fault, Problem};
use crate::input::Input;
use crate::statistics::{FieldType, Header, HeaderColumn, read_values};
use crate::version::Version;
use model::CqlType;
use model::comparable;
use model::counter::CounterContext;
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

/// The local deletion time that `nb` writes for a live partition.
const NB_NO_DELETION_TIME: i64 = i32::MAX as i64;
/// With this many columns or more a subset is written as a list of indexes.
pub(crate) const SMALL_SUBSET_COLUMNS: usize = 64;

/// A column of the file, and the column of the table that its cells go to.
#[derive(Debug)]
pub(crate) struct CodecColumn {
    /// The length of values, if all have the same; it is not written then.
    pub(crate) fixed_len: Option<usize>,
    pub(crate) complex: bool,
    /// Whether its cells hold counter contexts.
    pub(crate) counter: bool,
    /// The column's id in the table, and the timestamp up to which its cells are dropped; `None` if the table does not
    /// have the column.
    pub(crate) target: Option<(ColumnId, i64)>,
}

/// Decodes rows of one file into rows of one table.
#[derive(Debug)]
pub(crate) struct Codec {
    pub(crate) version: Version,
    pub(crate) min_timestamp: i64,
    pub(crate) min_local_deletion_time: i64,
    pub(crate) min_ttl: i64,
    pub(crate) clustering: Vec<FieldType>,
    pub(crate) statics: Vec<CodecColumn>,
    pub(crate) regulars: Vec<CodecColumn>,
    /// See [`crate::reader::Reader::refusing_negative_times`].
    pub(crate) refuses_negative_times: bool,
}

/// What [`Codec::read`] found; clustering and row are in [`Scratch`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unfiltered {
    Static,
    Row,
    /// A marker, the range tombstone that it ends, and the one that it starts.
    Marker {
        kind: BoundKind,
        ends: Deletion,
        starts: Deletion,
    },
    End,
}

/// Buffers that are reused for every row.
#[derive(Default, Debug)]
pub(crate) struct Scratch {
    /// The clustering of a row, or the prefix of a marker, in the form of [`model::mutation::Clustering`].
    pub(crate) clustering: Vec<u8>,
    /// The comparable form of `clustering`.
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

/// A cell whose path and value are ranges of the row's body.
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

/// Whose clustering values are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClusteringOf {
    Row,
    Bound,
}

/// Appends the clustering values of a row or bound, in the form of [`model::mutation::Clustering`]. Rows of compact
/// tables may have nulls: those at the end are left out; others, which CQL does not write, are read as empty values.
pub(crate) fn read_components(
    input: &mut Input<'_>,
    fields: &[FieldType],
    of: ClusteringOf,
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
    if of == ClusteringOf::Bound {
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
            statics: codec_columns(version, &header.statics, ColumnKind::Static, table),
            regulars: codec_columns(version, &header.regulars, ColumnKind::Regular, table),
            refuses_negative_times: false,
        }
    }

    /// Reads a partition's deletion, as the partition's head has it.
    pub(crate) fn read_partition_deletion(&self, input: &mut Input<'_>) -> Result<Deletion, Fault> {
        let deletion = read_deletion(self.version, input)?;
        self.check_time(deletion.local_deletion_time, input)?;
        Ok(deletion)
    }

    /// Reads the next row, marker or end of partition. `wanted` decides by its comparable form whether a row is
    /// decoded; if not, `row` of the scratch stays empty.
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
            self.read_clustering(input, self.clustering.len(), ClusteringOf::Row, scratch)?;
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
        of: ClusteringOf,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let Some(fields) = self.clustering.get(..count) else { return input.invalid("a count of clustering values") };
        read_components(input, fields, of, &mut scratch.clustering)
    }

    fn read_marker(&self, table: &Table, input: &mut Input<'_>, scratch: &mut Scratch) -> Result<Unfiltered, Fault> {
        let start = *input;
        let Some(kind) = BoundKind::from_number(input.u8()?) else { return start.invalid("the kind of a bound") };
        let count = input.u16()?;
        self.read_clustering(input, count.into(), ClusteringOf::Bound, scratch)?;
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
        // `oa` and `da` write times from 2038 on as negative 32-bit numbers.
        if self.version.is_cassandra_5() {
            return Ok(i64::from(time as u32));
        }
        self.check_time(i64::from(time as i32), input)
    }

    fn check_time(&self, time: i64, input: &Input<'_>) -> Result<i64, Fault> {
        if time < 0 && self.refuses_negative_times {
            return input.invalid("a local deletion time, which is negative");
        }
        Ok(time)
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
        let columns = if is_static { &self.statics } else { &self.regulars };
        let all = flags & HAS_ALL_COLUMNS != 0;
        if !all {
            read_subset(&mut input, columns.len(), &mut scratch.present)?;
        }
        scratch.cells.clear();
        // Cells may have to be sorted: the ids of columns can be in any order, and paths are ordered by type in the
        // file.
        let mut unordered = false;
        let mut last = None;
        let mut present = scratch.present.iter();
        for i in 0..columns.len() {
            let index = if all {
                i
            } else {
                match present.next() {
                    Some(index) => usize::from(*index),
                    None => break,
                }
            };
            let Some(column) = columns.get(index) else { return input.invalid("a column of the header") };
            unordered |= column.complex;
            let count = if column.complex {
                if flags & HAS_COMPLEX_DELETION != 0 {
                    let deletion = self.deletion(&mut input)?;
                    if let Some((id, dropped_at)) = column.target
                        && !deletion.is_live()
                        && deletion.timestamp > dropped_at
                    {
                        scratch.cells.push(RawCell {
                            column: id,
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
                let cell = self.read_cell(&mut input, bytes.len(), column, liveness)?;
                if let Some((id, dropped_at)) = column.target
                    && cell.timestamp > dropped_at
                {
                    unordered |= last.replace(id).is_some_and(|last| last >= id);
                    scratch.cells.push(RawCell { column: id, ..cell });
                }
            }
        }
        if !input.is_empty() {
            return input.invalid("the end of a row");
        }
        let ascend = |a: &RawCell, b: &RawCell| a.cell(bytes).sort_key() < b.cell(bytes).sort_key();
        if unordered && !scratch.cells.is_sorted_by(ascend) {
            scratch.cells.sort_unstable_by(|a, b| a.cell(bytes).sort_key().cmp(&b.cell(bytes).sort_key()));
            if !scratch.cells.is_sorted_by(ascend) {
                return body.invalid("a row with one cell per column and path");
            }
        }
        let mut builder = RowBuilder::new(&mut scratch.row, liveness, deletion);
        scratch.cells.iter().for_each(|cell| builder.cell(&cell.cell(bytes)));
        Ok(())
    }

    /// Reads a cell of a column. The caller sets the cell's column id.
    pub(crate) fn read_cell(
        &self,
        input: &mut Input<'_>,
        body_len: usize,
        column: &CodecColumn,
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
        } else if column.counter {
            RawContent::Counter
        } else {
            RawContent::Live
        };
        let path = if column.complex {
            let len = input.vint_bytes()?.len();
            Some(at(input) - len..at(input))
        } else {
            None
        };
        let value = match column.fixed_len {
            _ if flags & CELL_EMPTY != 0 => &[][..],
            Some(len) => input.bytes(len)?,
            None => input.vint_bytes()?,
        };
        if matches!(content, RawContent::Counter) && CounterContext::parse(value).is_err() {
            return start.invalid("a counter's context");
        }
        let value = value.len();
        Ok(RawCell { column: ColumnId(0), timestamp, content, path, value: at(input) - value..at(input) })
    }
}

/// Turns the end of a body's bytes, of which there are no more to supply, into an invalid row.
pub(crate) fn within(fault: Fault) -> Fault {
    match fault.problem {
        Problem::Truncated => Fault::invalid(fault.offset, "a row of its length"),
        _ => fault,
    }
}

/// Takes the body of an unfiltered, `len` bytes, from the input.
pub(crate) fn body<'a>(input: &mut Input<'a>, len: usize) -> Result<Input<'a>, Fault> {
    let offset = input.offset();
    Ok(Input::new(input.bytes(len)?, offset))
}

/// Reads a deletion that is not relative to the header: that of a partition, or one in an index.
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

fn codec_columns(version: Version, columns: &[HeaderColumn], kind: ColumnKind, table: &Table) -> Vec<CodecColumn> {
    let codec_column = |column: &HeaderColumn| {
        let name = std::str::from_utf8(&column.name).ok();
        let trusts_class =
            version.features().frozen_user_types || !matches!(column.field.cql_type, CqlType::User { .. });
        let of_table = name.filter(|_| !trusts_class).and_then(|name| type_in(table, name, kind));
        let complex = of_table.unwrap_or(&column.field.cql_type).is_multicell();
        let target = name.and_then(|name| {
            let Some(found) = table.column(name) else {
                // Cells that are newer than the drop are kept in case the column is added again.
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
        CodecColumn { fixed_len: column.field.fixed_len, complex, counter, target }
    };
    columns.iter().map(codec_column).collect()
}

/// Returns the type that a column of a kind has, or had when it was dropped.
fn type_in<'t>(table: &'t Table, name: &str, kind: ColumnKind) -> Option<&'t CqlType> {
    let dropped = || table.dropped.iter().find(|dropped| dropped.name == name && dropped.kind == kind);
    let column = table.column(name).filter(|column| column.kind == kind).map(|column| &column.cql_type);
    column.or_else(|| dropped().map(|dropped| &dropped.cql_type))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_times_are_damage_only_where_they_are_refused() {
        let time = |version, refuses_negative_times| {
            let codec = Codec {
                version,
                min_timestamp: 0,
                min_local_deletion_time: -5,
                min_ttl: 0,
                clustering: Vec::new(),
                statics: Vec::new(),
                regulars: Vec::new(),
                refuses_negative_times,
            };
            let relative = codec.local_deletion_time(&mut Input::new(&[0], 0)).ok();
            let whole = [i32::to_be_bytes(-5).as_slice(), &[0; 8]].concat();
            let of_partition = codec.read_partition_deletion(&mut Input::new(&whole, 0)).ok();
            (relative, of_partition.map(|deletion| deletion.local_deletion_time))
        };
        assert_eq!(time(Version::Nb, false), (Some(-5), Some(-5)));
        assert_eq!(time(Version::Nb, true), (None, None));
        assert_eq!(time(Version::Da, true).0, Some(i64::from(-5_i32 as u32)));
    }
}
