//! What a statement writes into each row: cells, elements of collections, fields of user types.
//!
//! As in Cassandra, a new value for a whole collection deletes what is older than the write (timestamp - 1) and adds
//! its elements. The paths of list elements are timeuuids: ascending for elements appended, and mirrored at 2010-01-01,
//! so that they descend, for elements prepended.
//!
//! Invariants: pieces are sorted as row blobs need them, with one piece per column and path; without collections only
//! one vector is allocated.

use crate::execute::values::binding::Values;
use crate::execute::write::counter_amounts::{amount, negated};
use crate::messages::data::{ListElement, Lists, WriteTimes};
use crate::shard_state::Shard;
use cql::plan::{ColumnChange, EvaluationContext, Operation, Value};
use model::counter::{self, change};
use model::mutation::MUTATION_BYTES_MAX;
use model::row::{Cell, CellContent, RowBuilder};
use model::value::{TupleElements, compare, elements};
use model::{ColumnId, CqlType, Failure, Table, merge};
use std::borrow::Cow;

/// 2010-01-01 in 100 ns since 1582-10-15, at which the times of prepended list elements are mirrored.
const LIST_REFERENCE_TICKS: i64 = 0x01b2_1dd2_1381_4000 + 1_262_304_000_000 * 10_000;

/// More pieces than fit in a mutation: each list element has a path of 16 bytes.
const PIECES_MAX: usize = MUTATION_BYTES_MAX / 16;

/// What is written into each row, in the order of row blobs.
#[derive(Default)]
pub(super) struct Cells<'a> {
    pieces: Vec<Piece<'a>>,
}

impl Cells<'_> {
    /// Whether the first piece deletes a value.
    pub(super) fn first_deletes(&self) -> bool {
        self.pieces.first().is_some_and(|piece| matches!(piece.what, What::Deleted | What::ColumnDeleted))
    }
}

struct Piece<'a> {
    column: ColumnId,
    path: Option<Cow<'a, [u8]>>,
    what: What<'a>,
}

enum What<'a> {
    Value(Cow<'a, [u8]>),
    Deleted,
    /// A change of a counter, as its context.
    Counted(Vec<u8>),
    /// Deletes the whole collection, up to and including the write's timestamp.
    ColumnDeleted,
    /// Deletes the whole collection, up to before the write's timestamp.
    ColumnReplaced,
}

/// Estimated bytes of a cell besides its value and path.
const CELL_BYTES: usize = 16;

/// Whether doing an operation twice counts twice or adds elements twice.
fn adds(table: &Table, operation: &Operation) -> bool {
    if matches!(operation.change, ColumnChange::Increment(_) | ColumnChange::Decrement(_)) {
        return true;
    }
    let changes = matches!(operation.change, ColumnChange::Set(_) | ColumnChange::Add(_) | ColumnChange::Prepend(_));
    let column = table.column_by_id(operation.column);
    changes && column.is_some_and(|column| matches!(column.cql_type, CqlType::List { frozen: false, .. }))
}

impl Piece<'_> {
    fn cell(&self, when: WriteTimes, ttl: i32) -> Cell<'_> {
        let local_deletion_time = when.now_in_seconds;
        let (timestamp, content) = match &self.what {
            What::Value(value) if ttl > 0 => {
                let local_deletion_time = local_deletion_time.saturating_add(ttl.into());
                (when.timestamp, CellContent::Expiring { value, ttl, local_deletion_time })
            }
            What::Value(value) => (when.timestamp, CellContent::Live(value)),
            What::Deleted => (when.timestamp, CellContent::Deleted { local_deletion_time }),
            What::Counted(context) => (when.timestamp, CellContent::Counter(context)),
            What::ColumnDeleted => (when.timestamp, CellContent::ColumnDeletion { local_deletion_time }),
            What::ColumnReplaced => {
                (when.timestamp.saturating_sub(1), CellContent::ColumnDeletion { local_deletion_time })
            }
        };
        Cell { column: self.column, timestamp, content, path: self.path.as_deref() }
    }

    fn place(&self) -> (ColumnId, bool, Option<&[u8]>) {
        let deletes_column = matches!(self.what, What::ColumnDeleted | What::ColumnReplaced);
        (self.column, !deletes_column, self.path.as_deref())
    }
}

impl<'a> Cells<'a> {
    /// The pieces that `operations` write when they are done `times` times. The number matters only for operations that
    /// add elements to a list or change a counter.
    pub(super) fn of(
        shard: &Shard,
        table: &Table,
        operations: &'a [Operation],
        values: &'a Values<'_>,
        lists: &Lists,
        when: WriteTimes,
        times: usize,
    ) -> Result<Cells<'a>, Failure> {
        let found = Cells::after(shard, table, operations.iter(), values, lists, when, times);
        if found.is_ok() || operations.is_sorted_by_key(|operation| operation.written) {
            return found;
        }
        // As in Cassandra, of several failures the one of the operation that stands first in the statement is reported.
        let mut written: Vec<&Operation> = operations.iter().collect();
        written.sort_by_key(|operation| operation.written);
        Cells::after(shard, table, written.into_iter(), values, lists, when, times)
    }

    /// Evaluates operations in the order in which they are done.
    fn after(
        shard: &Shard,
        table: &Table,
        operations: impl Iterator<Item = &'a Operation> + Clone,
        values: &'a Values<'_>,
        lists: &Lists,
        when: WriteTimes,
        times: usize,
    ) -> Result<Cells<'a>, Failure> {
        let mut cells = Cells { pieces: Vec::with_capacity(operations.size_hint().0) };
        let mut sorted = true;
        'rounds: for round in 0..times {
            for operation in operations.clone() {
                if round > 0 && !adds(table, operation) {
                    continue;
                }
                if cells.pieces.len() > PIECES_MAX {
                    // More than fits in a mutation, which will be refused for its length.
                    break 'rounds;
                }
                let cql_type = table.column_by_id(operation.column).map_or(&CqlType::Blob, |column| &column.cql_type);
                match &operation.change {
                    ColumnChange::Set(term) if !cql_type.is_multicell() => {
                        match values.evaluate(shard, term, cql_type)? {
                            Value::Bytes(bytes) => cells.push(operation.column, None, What::Value(bytes)),
                            Value::Null => cells.push(operation.column, None, What::Deleted),
                            Value::Unset => {}
                        }
                    }
                    ColumnChange::Increment(term) => {
                        if let Some(found) = amount(values.evaluate(shard, term, cql_type)?)? {
                            cells.count(operation.column, found);
                        }
                    }
                    ColumnChange::Decrement(term) => {
                        if let Some(found) = amount(values.evaluate(shard, term, cql_type)?)? {
                            cells.count(operation.column, negated(found)?);
                        }
                    }
                    ColumnChange::Delete if !cql_type.is_multicell() => {
                        cells.push(operation.column, None, What::Deleted);
                    }
                    _ => {
                        sorted = false;
                        let list = match operation.reads() {
                            true => cells.list(operation.column, lists, when),
                            false => Vec::new(),
                        };
                        cells.change_parts(shard, cql_type, operation, values, &list)?;
                    }
                }
            }
        }
        if !sorted || !cells.pieces.is_sorted_by(|a, b| a.column < b.column) {
            cells.sort();
        }
        Ok(cells)
    }

    /// Estimated bytes of the pieces in a row.
    pub(super) fn room(&self) -> usize {
        let value = |piece: &Piece<'_>| match &piece.what {
            What::Value(value) => value.len(),
            What::Counted(context) => context.len(),
            What::Deleted | What::ColumnDeleted | What::ColumnReplaced => 0,
        };
        self.pieces
            .iter()
            .map(|piece| CELL_BYTES + piece.path.as_ref().map_or(0, |path| path.len()) + value(piece))
            .sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Writes the cells into a row.
    pub(super) fn write(&self, builder: &mut RowBuilder<'_>, when: WriteTimes, ttl: i32) {
        for piece in &self.pieces {
            builder.cell(&piece.cell(when, ttl));
        }
    }

    fn push(&mut self, column: ColumnId, path: Option<Cow<'a, [u8]>>, what: What<'a>) {
        self.pieces.push(Piece { column, path, what });
    }

    /// Adds to a counter, to which an earlier operation may have added.
    fn count(&mut self, column: ColumnId, amount: i64) {
        let own = self.pieces.iter_mut().find(|piece| piece.column == column);
        match own.map(|piece| &mut piece.what) {
            Some(What::Counted(context)) => {
                let before = counter::CounterContext::trusted(context).total();
                *context = change(before.wrapping_add(amount)).to_vec();
            }
            _ => self.push(column, None, What::Counted(change(amount).to_vec())),
        }
    }

    /// Sorts the pieces; of several with one column and path the one stays that would win by its content.
    fn sort(&mut self) {
        self.pieces.sort_by(|a, b| a.place().cmp(&b.place()));
        let when = WriteTimes { timestamp: 1, ranges_deleted_at: 1, now_in_seconds: 0 };
        self.pieces.dedup_by(|next, kept| {
            let same = next.place() == kept.place();
            if same {
                let (next_cell, kept_cell) = (next.cell(when, 0), kept.cell(when, 0));
                if merge::reconcile(kept_cell, next_cell) != kept_cell {
                    std::mem::swap(next, kept);
                }
            }
            same
        });
    }

    /// A list after the operations so far, as the operations that follow see it.
    fn list(&self, column: ColumnId, lists: &Lists, when: WriteTimes) -> Vec<ListElement> {
        let mut list = lists.get(&column).cloned().unwrap_or_default();
        for piece in self.pieces.iter().filter(|piece| piece.column == column) {
            let cell = piece.cell(when, 0);
            let Some(path) = cell.path else {
                list.retain(|element| element.timestamp > cell.timestamp);
                continue;
            };
            let same = list.iter().position(|element| element.path == path);
            let kept = same.map(|at| list.swap_remove(at));
            let there = kept.as_ref().map(|element| Cell {
                content: CellContent::Live(&element.value),
                timestamp: element.timestamp,
                ..cell
            });
            let wins = there.map_or(cell, |there| merge::reconcile(there, cell));
            if let CellContent::Live(value) = wins.content {
                list.push(ListElement { path: path.to_vec(), value: value.to_vec(), timestamp: wins.timestamp });
            }
        }
        list.sort_by(|a, b| compare(&CqlType::Timeuuid, &a.path, &b.path));
        list
    }

    /// An operation on a non-frozen collection or user type. `list`: the current elements, if it is a list that the
    /// operation reads.
    fn change_parts(
        &mut self,
        shard: &Shard,
        cql_type: &CqlType,
        operation: &'a Operation,
        values: &'a Values<'_>,
        list: &[ListElement],
    ) -> Result<(), Failure> {
        let column = operation.column;
        match &operation.change {
            ColumnChange::Delete => self.push(column, None, What::ColumnDeleted),
            ColumnChange::Set(term) => match values.evaluate(shard, term, cql_type)? {
                Value::Unset => {}
                Value::Null => self.push(column, None, What::ColumnReplaced),
                Value::Bytes(bytes) => {
                    self.push(column, None, What::ColumnReplaced);
                    self.add_parts(shard, cql_type, column, bytes, false)?;
                }
            },
            ColumnChange::Add(term) => {
                if let Value::Bytes(bytes) = values.evaluate(shard, term, cql_type)? {
                    self.add_parts(shard, cql_type, column, bytes, false)?;
                }
            }
            ColumnChange::Prepend(term) => {
                if let Value::Bytes(bytes) = values.evaluate(shard, term, cql_type)? {
                    self.add_parts(shard, cql_type, column, bytes, true)?;
                }
            }
            ColumnChange::Remove(term) => {
                let keys = match cql_type {
                    CqlType::Map { key, .. } => CqlType::Set { element: key.clone(), frozen: false },
                    other => other.clone(),
                };
                if let Value::Bytes(bytes) = values.evaluate(shard, term, &keys)? {
                    for key in split(&bytes, false) {
                        self.push(column, Some(key), What::Deleted);
                    }
                }
            }
            ColumnChange::SetEntry { key, value } => {
                let CqlType::Map { key: key_type, value: value_type, .. } = cql_type else { return Ok(()) };
                let key = key_of(values.evaluate(shard, key, key_type)?, "map key")?;
                match values.evaluate(shard, value, value_type)? {
                    Value::Bytes(value) => self.push(column, Some(key), What::Value(value)),
                    Value::Null => self.push(column, Some(key), What::Deleted),
                    Value::Unset => {}
                }
            }
            ColumnChange::DeleteEntry(key) => {
                let (key_type, word) = match cql_type {
                    CqlType::Map { key, .. } => (key, "map key"),
                    CqlType::Set { element, .. } => (element, "set element"),
                    _ => return Ok(()),
                };
                let key = match (values.evaluate(shard, key, key_type)?, cql_type) {
                    (Value::Unset, CqlType::Set { .. }) => return Ok(()),
                    (key, _) => key_of(key, word)?,
                };
                self.push(column, Some(key), What::Deleted);
            }
            ColumnChange::SetField(field, term) => {
                let CqlType::User { definition, .. } = cql_type else { return Ok(()) };
                let Some((_, field_type)) = definition.fields.get(usize::from(*field)) else { return Ok(()) };
                let path = Some(Cow::Owned(field.to_be_bytes().to_vec()));
                match values.evaluate(shard, term, field_type)? {
                    Value::Bytes(value) => self.push(column, path, What::Value(value)),
                    Value::Null => self.push(column, path, What::Deleted),
                    Value::Unset => {}
                }
            }
            ColumnChange::SetIndex { index, value } => {
                let CqlType::List { element, .. } = cql_type else { return Ok(()) };
                let index = index_of(values.evaluate(shard, index, &CqlType::Int)?)?;
                let value = values.evaluate(shard, value, element)?;
                if list.is_empty() {
                    return Err(Failure::invalid("Attempted to set an element on a list which is null"));
                }
                let path = Some(Cow::Owned(at(list, index)?.to_vec()));
                match value {
                    Value::Bytes(value) => self.push(column, path, What::Value(value)),
                    Value::Null => self.push(column, path, What::Deleted),
                    Value::Unset => {}
                }
            }
            ColumnChange::DeleteIndex(index) => {
                let index = match values.evaluate(shard, index, &CqlType::Int)? {
                    Value::Unset => return Ok(()),
                    index => index_of(index)?,
                };
                if list.is_empty() {
                    return Err(Failure::invalid("Attempted to delete an element from a list which is null"));
                }
                self.push(column, Some(Cow::Owned(at(list, index)?.to_vec())), What::Deleted);
            }
            ColumnChange::RemoveValues(term) => {
                if let Value::Bytes(bytes) = values.evaluate(shard, term, cql_type)? {
                    let unwanted = split(&bytes, false);
                    for found in list {
                        // Compared by their bytes, as in Cassandra: 1.0 does not remove 1.00.
                        if unwanted.iter().any(|value| *value == found.value) {
                            self.push(column, Some(Cow::Owned(found.path.clone())), What::Deleted);
                        }
                    }
                }
            }
            // These do not apply to collections; in conditional changes `sums` replaces them by plain values.
            ColumnChange::Increment(_) | ColumnChange::Decrement(_) | ColumnChange::Increase { .. } => {}
            ColumnChange::DeleteField(field) => {
                self.push(column, Some(Cow::Owned(field.to_be_bytes().to_vec())), What::Deleted);
            }
        }
        Ok(())
    }

    /// Adds the elements, entries or fields of an encoded value as cells.
    fn add_parts(
        &mut self,
        shard: &Shard,
        cql_type: &CqlType,
        column: ColumnId,
        bytes: Cow<'a, [u8]>,
        at_beginning: bool,
    ) -> Result<(), Failure> {
        match cql_type {
            CqlType::Set { .. } => {
                for element in split(&bytes, false) {
                    self.push(column, Some(element), What::Value(Cow::Borrowed(&[])));
                }
            }
            CqlType::Map { .. } => {
                let mut parts = split(&bytes, true).into_iter();
                while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
                    self.push(column, Some(key), What::Value(value));
                }
            }
            CqlType::List { .. } => {
                let mut context = shard.evaluation();
                let mut parts = split(&bytes, false);
                if at_beginning {
                    parts.reverse();
                }
                for element in parts {
                    let uuid = context.timeuuid();
                    let path = if at_beginning { mirrored(uuid) } else { uuid };
                    self.push(column, Some(Cow::Owned(path.to_vec())), What::Value(element));
                }
            }
            CqlType::User { definition, .. } => {
                for (at, field) in TupleElements::new(&bytes).take(definition.fields.len()).enumerate() {
                    if let Some(field) = field {
                        let path = (at as u16).to_be_bytes().to_vec();
                        self.push(column, Some(Cow::Owned(path)), What::Value(Cow::Owned(field.to_vec())));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn index_of(value: Value<'_>) -> Result<i32, Failure> {
    match value {
        Value::Bytes(bytes) => match <[u8; 4]>::try_from(&*bytes) {
            Ok(bytes) => Ok(i32::from_be_bytes(bytes)),
            Err(_) => Err(Failure::invalid("Invalid null value for list index")),
        },
        Value::Null => Err(Failure::invalid("Invalid null value for list index")),
        Value::Unset => Err(Failure::invalid("Invalid unset value for list index")),
    }
}

/// The path of a list element by its index.
fn at(list: &[ListElement], index: i32) -> Result<&[u8], Failure> {
    let element = usize::try_from(index).ok().and_then(|index| list.get(index));
    element
        .map(|element| element.path.as_slice())
        .ok_or_else(|| Failure::invalid(format!("List index {index} out of bound, list has size {}", list.len())))
}

/// The elements of an encoded collection, borrowed if the collection is.
fn split<'b>(bytes: &Cow<'b, [u8]>, is_map: bool) -> Vec<Cow<'b, [u8]>> {
    match bytes {
        Cow::Borrowed(bytes) => elements(bytes, is_map).map(Cow::Borrowed).collect(),
        Cow::Owned(bytes) => elements(bytes, is_map).map(|part| Cow::Owned(part.to_vec())).collect(),
    }
}

fn key_of<'b>(value: Value<'b>, word: &str) -> Result<Cow<'b, [u8]>, Failure> {
    match value {
        Value::Bytes(bytes) => Ok(bytes),
        Value::Null => Err(Failure::invalid(format!("Invalid null {word}"))),
        Value::Unset => Err(Failure::invalid(format!("Invalid unset {word}"))),
    }
}

/// A timeuuid with its time mirrored at [`LIST_REFERENCE_TICKS`]: the later the time, the smaller the result.
fn mirrored(uuid: [u8; 16]) -> [u8; 16] {
    let [a, b, c, d, e, f, g, h, rest @ ..] = uuid;
    let ticks = i64::from_be_bytes([g & 0x0f, h, e, f, a, b, c, d]);
    let [g, h, e, f, a, b, c, d] = (2 * LIST_REFERENCE_TICKS - ticks).to_be_bytes();
    let mut mirrored = [a, b, c, d, e, f, (g & 0x0f) | 0x10, h, 0, 0, 0, 0, 0, 0, 0, 0];
    mirrored[8..].copy_from_slice(&rest);
    mirrored
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    #[test]
    fn mirrored_timeuuids_descend_and_stay_before_others() {
        // A time in 2024 and a slightly later one.
        let early = [0x10, 0, 0, 0, 0x71, 0x1d, 0x11, 0xef, 0x80, 1, 2, 3, 4, 5, 6, 7];
        let late = [0x20, 0, 0, 0, 0x71, 0x1d, 0x11, 0xef, 0x80, 1, 2, 3, 4, 5, 6, 7];
        let compare = |a: &[u8], b: &[u8]| model::value::compare(&CqlType::Timeuuid, a, b);
        assert_eq!(compare(&early, &late), Ordering::Less);
        assert_eq!(compare(&mirrored(early), &mirrored(late)), Ordering::Greater);
        assert_eq!(compare(&mirrored(early), &early), Ordering::Less);
        assert_eq!(mirrored(mirrored(early)), early);
        assert_eq!(mirrored(early)[6] >> 4, 1);
    }
}
