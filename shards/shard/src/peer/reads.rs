//! The request of a read:
//! ```text
//! table id [16]
//! now i64, seconds
//! flags u8: 1 reversed, 2 static only, 4 wants static, 8 places
//! rows u64, rows per partition u64, visits u64, bytes u64: the most of each
//! partitions: 0 u8: key length u16, key
//!             1 u8: core u16, cores u16, position of the start, position of the end
//! resume: as `bytes::push_resume` says
//! slices: count u32, of each: start length u32, start, end length u32, end
//! row columns: flag u8 [count u32, column ids u16]
//! selection: count u32, of each: 0 column, 1 writetime, 2 ttl, 4 count u8, column id u16; 3 count of rows, 5 token u8
//! filter: flags u8: 1 conditions, 2 sub-partitions
//!         [conditions: count u32, of each: column id u16, test]
//!         [sub-partitions: first u16, shards u16, count u32, of each: token i64, key length u16, key, first u16,
//!         shards u16]
//! index: flag u8 [name length u16, name, value length u32, value]
//! ```
//! A position is 0 u8 (none), or 1 (before) or 2 (after), token length u32, token. A test is 0 u8, comparison u8,
//! operand; 1 u8, count u32, operands (IN); 2 u8, operand (CONTAINS); 3 u8, operand (CONTAINS KEY); 4 u8, two operands
//! (an entry); an operand is length u32, bytes.
//!
//! The read of a range names one core of the node and how many cores the node is believed to have.
//!
//! The request of a read whose answer is fragments has `bytes` and what stands before the selection.

use super::bytes::{Reader, push_count, push_long, push_resume, push_short};
use crate::messages::data::{FragmentRequest, ReadRequest};
use crate::rows::filter::{Condition, RowFilter, Test};
use cluster::sub_partitions::VisiblePlaces;
use cql::plan::{Comparison, Selector};
use engine::index::IndexLookup;
use model::query::{Partitions, ReadCommand, Resume, Slice};
use model::token::RingPosition;
use model::{ColumnId, Partitioner, Places, Table, TableId, TokenRange};
use std::collections::BTreeMap;
use std::sync::Arc;

const REVERSED: u8 = 1;
const STATIC_ONLY: u8 = 2;
const WANTS_STATIC: u8 = 4;
const PLACES: u8 = 8;

const CONDITIONS: u8 = 1;
const SUB_PARTITIONS: u8 = 2;

/// A core of the asked node, and how many it is believed to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AskedCore {
    pub(crate) core: u16,
    pub(crate) cores: u16,
}

/// Why a request is not served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadError {
    /// It is no request.
    Malformed,
    /// It names a column that the table does not have here.
    UnknownColumn,
}

/// The table that a request reads.
pub(crate) fn table_of(bytes: &[u8]) -> Option<TableId> {
    Reader::new(bytes).chunk().map(TableId)
}

/// Writes a read. `core` is written for ranges only.
pub(crate) fn push(out: &mut Vec<u8>, request: &ReadRequest, core: AskedCore) {
    let ReadRequest { command, selection, filter, index, bytes_max, places } = request;
    push_command(out, command, *bytes_max, *places, core);
    push_count(out, selection.len());
    for selector in selection.iter() {
        let (kind, column) = match selector {
            Selector::Column(column) => (0, Some(column)),
            Selector::WriteTime(column) => (1, Some(column)),
            Selector::Ttl(column) => (2, Some(column)),
            Selector::CountRows => (3, None),
            Selector::Count(column) => (4, Some(column)),
            Selector::Token(_) => (5, None),
        };
        out.push(kind);
        if let Some(column) = column {
            out.extend_from_slice(&column.0.to_le_bytes());
        }
    }
    let visible = filter.as_ref().and_then(|filter| filter.visible());
    let has_conditions = filter.as_ref().is_some_and(|filter| filter.has_conditions() || visible.is_none());
    out.push(flag(has_conditions, CONDITIONS) | flag(visible.is_some(), SUB_PARTITIONS));
    if let Some(filter) = filter.as_ref().filter(|_| has_conditions) {
        push_count(out, filter.conditions().len());
        for (column, test) in filter.conditions() {
            out.extend_from_slice(&column.0.to_le_bytes());
            push_test(out, test);
        }
    }
    if let Some(VisiblePlaces { all, keys }) = visible {
        push_places(out, *all);
        push_count(out, keys.len());
        for (token, (key, places)) in keys {
            out.extend_from_slice(&token.to_le_bytes());
            push_short(out, key);
            push_places(out, *places);
        }
    }
    out.push(index.is_some().into());
    if let Some(IndexLookup { index, value }) = index {
        push_short(out, index.as_bytes());
        push_long(out, value);
    }
}

/// Writes a read whose answer is fragments. `core` is written for ranges only.
pub(crate) fn push_fragments(out: &mut Vec<u8>, request: &FragmentRequest, core: AskedCore) {
    push_command(out, &request.command, request.bytes_max, false, core);
}

fn push_command(out: &mut Vec<u8>, command: &ReadCommand, bytes_max: usize, places: bool, core: AskedCore) {
    out.extend_from_slice(&command.table.0);
    out.extend_from_slice(&command.now_in_seconds.to_le_bytes());
    out.push(
        flag(command.reversed, REVERSED)
            | flag(command.static_only, STATIC_ONLY)
            | flag(command.wants_static, WANTS_STATIC)
            | flag(places, PLACES),
    );
    for limit in [command.rows_max, command.per_partition_max, command.visits_max, bytes_max as u64] {
        out.extend_from_slice(&limit.to_le_bytes());
    }
    match &command.partitions {
        Partitions::Key(key) => {
            out.push(0);
            push_short(out, &key.key);
        }
        Partitions::Range(TokenRange { start, end }) => {
            out.push(1);
            out.extend_from_slice(&core.core.to_le_bytes());
            out.extend_from_slice(&core.cores.to_le_bytes());
            push_position(out, start.as_ref());
            push_position(out, end.as_ref());
        }
    }
    let partition_rows = command.resume_partition_rows;
    let resume = command.resume.clone().map(|position| Resume { position, partition_rows });
    push_resume(out, resume.as_ref());
    push_count(out, command.slices.len());
    for Slice { start, end } in command.slices.iter() {
        push_long(out, start);
        push_long(out, end);
    }
    out.push(command.row_columns.is_some().into());
    if let Some(columns) = &command.row_columns {
        push_count(out, columns.len());
        columns.iter().for_each(|column| out.extend_from_slice(&column.0.to_le_bytes()));
    }
}

fn flag(is_set: bool, flag: u8) -> u8 {
    if is_set { flag } else { 0 }
}

fn push_places(out: &mut Vec<u8>, places: Places) {
    out.extend_from_slice(&places.first.to_le_bytes());
    out.extend_from_slice(&places.shards.to_le_bytes());
}

pub(super) fn push_position(out: &mut Vec<u8>, position: Option<&RingPosition>) {
    match position {
        None => out.push(0),
        Some(RingPosition { token, is_after }) => {
            out.push(if *is_after { 2 } else { 1 });
            push_long(out, &token.to_value());
        }
    }
}

fn push_test(out: &mut Vec<u8>, test: &Test) {
    match test {
        Test::Compare(comparison, operand) => {
            out.extend_from_slice(&[0, *comparison as u8]);
            push_long(out, operand);
        }
        Test::In(operands) => {
            out.push(1);
            push_count(out, operands.len());
            operands.iter().for_each(|operand| push_long(out, operand));
        }
        Test::Contains(operand) => {
            out.push(2);
            push_long(out, operand);
        }
        Test::ContainsKey(operand) => {
            out.push(3);
            push_long(out, operand);
        }
        Test::Entry(key, value) => {
            out.push(4);
            push_long(out, key);
            push_long(out, value);
        }
    }
}

/// Reads a read of `table`, which [`table_of`] named.
pub(crate) fn decode(
    partitioner: Partitioner,
    table: &Arc<Table>,
    bytes: &[u8],
) -> Result<(ReadRequest, AskedCore), ReadError> {
    let mut reader = Reader::new(bytes);
    let (command, bytes_max, places, core) = command(&mut reader, partitioner).ok_or(ReadError::Malformed)?;
    let selection = selection(&mut reader, partitioner).ok_or(ReadError::Malformed)?;
    let flags = reader.u8().filter(|flags| flags & !(CONDITIONS | SUB_PARTITIONS) == 0).ok_or(ReadError::Malformed)?;
    let conditions = conditions(&mut reader, flags & CONDITIONS != 0).ok_or(ReadError::Malformed)?;
    let visible = visible(&mut reader, flags & SUB_PARTITIONS != 0).ok_or(ReadError::Malformed)?;
    let index = index(&mut reader).filter(|_| reader.is_empty()).ok_or(ReadError::Malformed)?;
    let place = |id: ColumnId| table.columns.iter().position(|column| column.id == id);
    if selection.iter().filter_map(Selector::column).any(|column| place(column).is_none()) {
        return Err(ReadError::UnknownColumn);
    }
    let filter = match conditions {
        None => None,
        Some(conditions) => {
            let placed = conditions.into_iter().map(|(column, test)| Some(Condition { column: place(column)?, test }));
            let placed: Option<Vec<Condition>> = placed.collect();
            Some(Arc::new(RowFilter::new(table.clone(), placed.ok_or(ReadError::UnknownColumn)?)))
        }
    };
    let filter = match visible {
        None => filter,
        Some(visible) => Some(RowFilter::within(filter, table, visible)),
    };
    Ok((ReadRequest { command, selection, filter, index, bytes_max, places }, core))
}

/// Reads a read whose answer is fragments; `None` if it is none.
pub(crate) fn decode_fragments(partitioner: Partitioner, bytes: &[u8]) -> Option<(FragmentRequest, AskedCore)> {
    let mut reader = Reader::new(bytes);
    let (command, bytes_max, _, core) = command(&mut reader, partitioner)?;
    reader.is_empty().then_some((FragmentRequest { command, bytes_max }, core))
}

fn command(reader: &mut Reader<'_>, partitioner: Partitioner) -> Option<(ReadCommand, usize, bool, AskedCore)> {
    let table = TableId(reader.chunk()?);
    let now_in_seconds = reader.i64()?;
    let flags = reader.u8()?;
    if flags & !(REVERSED | STATIC_ONLY | WANTS_STATIC | PLACES) != 0 {
        return None;
    }
    let rows_max = reader.u64()?.max(1);
    let per_partition_max = reader.u64()?.max(1);
    let visits_max = reader.u64()?.max(1);
    let bytes_max = usize::try_from(reader.u64()?).unwrap_or(usize::MAX);
    let mut core = AskedCore { core: 0, cores: 0 };
    let partitions = match reader.flag()? {
        false => Partitions::Key(reader.key(partitioner)?),
        true => {
            core = AskedCore { core: reader.u16()?, cores: reader.u16()? };
            let (start, end) = (position(reader, partitioner)?, position(reader, partitioner)?);
            Partitions::Range(TokenRange { start, end })
        }
    };
    let (resume, resume_partition_rows) = match reader.resume(partitioner)? {
        Some(Resume { position, partition_rows }) => (Some(position), partition_rows),
        None => (None, 0),
    };
    let slices = reader.count(8)?;
    let slices: Option<Arc<[Slice]>> = (0..slices)
        .map(|_| Some(Slice { start: reader.long_bytes()?.into(), end: reader.long_bytes()?.into() }))
        .collect();
    let row_columns: Option<Arc<[ColumnId]>> = match reader.flag()? {
        false => None,
        true => Some((0..reader.count(2)?).map(|_| reader.u16().map(ColumnId)).collect::<Option<Arc<[ColumnId]>>>()?),
    };
    let command = ReadCommand {
        table,
        now_in_seconds,
        partitions,
        slices: slices?,
        reversed: flags & REVERSED != 0,
        rows_max,
        per_partition_max,
        visits_max,
        resume,
        resume_partition_rows,
        static_only: flags & STATIC_ONLY != 0,
        wants_static: flags & WANTS_STATIC != 0,
        row_columns,
    };
    Some((command, bytes_max, flags & PLACES != 0, core))
}

pub(super) fn position(reader: &mut Reader<'_>, partitioner: Partitioner) -> Option<Option<RingPosition>> {
    let is_after = match reader.u8()? {
        0 => return Some(None),
        1 => false,
        2 => true,
        _ => return None,
    };
    Some(Some(RingPosition { token: partitioner.token_of_value(reader.long_bytes()?)?, is_after }))
}

fn selection(reader: &mut Reader<'_>, partitioner: Partitioner) -> Option<Arc<[Selector]>> {
    let count = reader.count(1)?;
    let mut selector = || {
        let kind = reader.u8()?;
        let mut column = || reader.u16().map(ColumnId);
        Some(match kind {
            0 => Selector::Column(column()?),
            1 => Selector::WriteTime(column()?),
            2 => Selector::Ttl(column()?),
            3 => Selector::CountRows,
            4 => Selector::Count(column()?),
            5 => Selector::Token(partitioner),
            _ => return None,
        })
    };
    (0..count).map(|_| selector()).collect()
}

/// The conditions of a filter, if there is one.
type Conditions = Option<Vec<(ColumnId, Test)>>;

fn conditions(reader: &mut Reader<'_>, has_some: bool) -> Option<Conditions> {
    if !has_some {
        return Some(None);
    }
    let conditions = (0..reader.count(3)?).map(|_| Some((ColumnId(reader.u16()?), test(reader)?)));
    conditions.collect::<Option<Vec<_>>>().map(Some)
}

fn visible(reader: &mut Reader<'_>, has_some: bool) -> Option<Option<VisiblePlaces>> {
    if !has_some {
        return Some(None);
    }
    let places = |reader: &mut Reader<'_>| Some(Places { first: reader.u16()?, shards: reader.u16()? });
    let all = places(reader)?;
    let count = reader.count(8 + 2 + 4)?;
    let key = |_| Some((reader.i64()?, (reader.short_bytes()?.to_vec(), places(reader)?)));
    let keys = (0..count).map(key).collect::<Option<BTreeMap<_, _>>>()?;
    Some(Some(VisiblePlaces { all, keys }))
}

fn test(reader: &mut Reader<'_>) -> Option<Test> {
    let kind = reader.u8()?;
    let operand = |reader: &mut Reader<'_>| reader.long_bytes().map(Box::<[u8]>::from);
    Some(match kind {
        0 => {
            let comparison = match reader.u8()? {
                0 => Comparison::Equal,
                1 => Comparison::Less,
                2 => Comparison::LessEqual,
                3 => Comparison::Greater,
                4 => Comparison::GreaterEqual,
                _ => return None,
            };
            Test::Compare(comparison, operand(reader)?)
        }
        1 => {
            let count = reader.count(4)?;
            Test::In((0..count).map(|_| operand(reader)).collect::<Option<_>>()?)
        }
        2 => Test::Contains(operand(reader)?),
        3 => Test::ContainsKey(operand(reader)?),
        4 => Test::Entry(operand(reader)?, operand(reader)?),
        _ => return None,
    })
}

fn index(reader: &mut Reader<'_>) -> Option<Option<IndexLookup>> {
    if !reader.flag()? {
        return Some(None);
    }
    let index = std::str::from_utf8(reader.short_bytes()?).ok()?.into();
    Some(Some(IndexLookup { index, value: reader.long_bytes()?.into() }))
}

#[cfg(test)]
#[path = "reads_tests.rs"]
mod tests;
