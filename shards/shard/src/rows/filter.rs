//! Conditions that a row must meet to count (ALLOW FILTERING), with their values; and, in scans of tables whose rows
//! have moved to more sub-partitions, the sub-partitions in which a row must be.
//!
//! 1. The coordinating core evaluates the conditions' terms once per request (`execute::values::filtering`).
//! 2. The owning core tests every live row of its slices; a row that does not meet all conditions is rejected and
//!    counts for no limit.
//!
//! Invariants: a column without a value meets no condition; testing a row allocates nothing.

use cluster::sub_partitions::VisiblePlaces;
use cql::plan::{Comparison, IndexUse};
use model::counter::CounterContext;
use model::query::LiveRow;
use model::row::{Cell, CellContent};
use model::value::{self, compare};
use model::{ColumnId, ColumnKind, CqlType, IndexedPart, Table};
use std::cmp::Ordering;
use std::sync::Arc;

/// Conditions on the rows of a table.
#[derive(Debug)]
pub struct RowFilter {
    table: Arc<Table>,
    conditions: Vec<Condition>,
    /// The sub-partitions that are read; `None` for all.
    visible: Option<VisiblePlaces>,
}

/// One condition.
#[derive(Debug)]
pub(crate) struct Condition {
    /// The column's place in the table.
    pub(crate) column: usize,
    pub(crate) test: Test,
}

/// What a condition asks of a column's value. The operands are serialised values.
#[derive(Debug)]
pub(crate) enum Test {
    Compare(Comparison, Box<[u8]>),
    In(Vec<Box<[u8]>>),
    Contains(Box<[u8]>),
    ContainsKey(Box<[u8]>),
    Entry(Box<[u8]>, Box<[u8]>),
}

impl RowFilter {
    /// A filter of these conditions on the rows of `table`.
    pub(crate) fn new(table: Arc<Table>, conditions: Vec<Condition>) -> RowFilter {
        RowFilter { table, conditions, visible: None }
    }

    /// The same filter, which nobody else has yet, if there is one, of rows in these sub-partitions.
    pub(crate) fn within(filter: Option<Arc<RowFilter>>, table: &Arc<Table>, visible: VisiblePlaces) -> Arc<RowFilter> {
        let conditions = filter.and_then(Arc::into_inner).map_or_else(Vec::new, |filter| filter.conditions);
        Arc::new(RowFilter { table: table.clone(), conditions, visible: Some(visible) })
    }

    /// The sub-partitions that are read; `None` for all.
    pub(crate) fn visible(&self) -> Option<&VisiblePlaces> {
        self.visible.as_ref()
    }

    /// Whether values of rows decide.
    pub(crate) fn has_conditions(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// What is asked of which column.
    pub(crate) fn conditions(&self) -> impl ExactSizeIterator<Item = (ColumnId, &Test)> {
        self.conditions.iter().map(|condition| (self.table.columns[condition.column].id, &condition.test))
    }

    /// The value that an index is asked for.
    pub(crate) fn indexed_value(&self, index: &IndexUse) -> Option<Vec<u8>> {
        let of_column = |condition: &&Condition| {
            self.table.columns.get(condition.column).is_some_and(|column| column.id == index.column)
        };
        self.conditions.iter().filter(of_column).find_map(|condition| match (&condition.test, index.part) {
            (Test::Compare(Comparison::Equal, value), IndexedPart::Simple | IndexedPart::Full)
            | (Test::Contains(value), IndexedPart::Values)
            | (Test::ContainsKey(value), IndexedPart::Keys) => Some(value.to_vec()),
            (Test::Entry(key, value), IndexedPart::Entries) => Some(engine::index::entry_value(key, value)),
            _ => None,
        })
    }

    /// Whether a row meets all conditions; `now` in seconds since 1970.
    pub(crate) fn holds(&self, row: &LiveRow<'_>, now: i64) -> bool {
        if self.visible.as_ref().is_some_and(|visible| !visible.has(&self.table, row.key)) {
            return false;
        }
        self.conditions.iter().all(|condition| {
            let Some(column) = self.table.columns.get(condition.column) else { return false };
            let cells = match column.kind {
                ColumnKind::PartitionKey => {
                    let value = self.table.key_values(row.key).nth(column.position.into());
                    return condition.test.holds(&column.cql_type, value);
                }
                ColumnKind::Clustering => {
                    let value = row.clustering.components().nth(column.position.into());
                    return condition.test.holds(&column.cql_type, value);
                }
                ColumnKind::Static => row.static_cells,
                ColumnKind::Regular => row.cells,
            };
            if column.cql_type.is_multicell() {
                return condition.test.holds_for_cells(&column.cql_type, cells_of(cells, column.id), now);
            }
            let cell = cells_of(cells, column.id).next();
            if let Some(CellContent::Counter(context)) = cell.map(|cell| cell.content) {
                let total = CounterContext::trusted(context).total().to_be_bytes();
                return condition.test.holds(&column.cql_type, Some(&total));
            }
            condition.test.holds(&column.cql_type, cell.and_then(|cell| cell.value_at(now)))
        })
    }
}

/// The cells of one column out of a row's.
fn cells_of<'c, 'r>(cells: &'c [Cell<'r>], id: ColumnId) -> impl Iterator<Item = &'c Cell<'r>> {
    let start = cells.partition_point(|cell| cell.column < id);
    cells[start..].iter().take_while(move |cell| cell.column == id)
}

impl Test {
    /// Whether a whole value passes.
    fn holds(&self, cql_type: &CqlType, value: Option<&[u8]>) -> bool {
        let Some(value) = value else { return false };
        let is_map = matches!(cql_type, CqlType::Map { .. });
        match self {
            Test::Compare(comparison, wanted) => {
                let order = compare(cql_type, value, wanted);
                match comparison {
                    Comparison::Equal => order == Ordering::Equal,
                    Comparison::Less => order == Ordering::Less,
                    Comparison::LessEqual => order != Ordering::Greater,
                    Comparison::Greater => order == Ordering::Greater,
                    Comparison::GreaterEqual => order != Ordering::Less,
                }
            }
            Test::In(wanted) => wanted.iter().any(|wanted| compare(cql_type, value, wanted) == Ordering::Equal),
            Test::Contains(wanted) => {
                let Some(element) = element_type(cql_type) else { return false };
                let (first, step) = if is_map { (1, 2) } else { (0, 1) };
                let mut elements = value::elements(value, is_map).skip(first).step_by(step);
                match tells_digits(element) {
                    true => elements.any(|found| *found == **wanted),
                    false => elements.any(|found| compare(element, found, wanted) == Ordering::Equal),
                }
            }
            Test::ContainsKey(wanted) => {
                let CqlType::Map { key, .. } = cql_type else { return false };
                value::elements(value, true).step_by(2).any(|found| compare(key, found, wanted) == Ordering::Equal)
            }
            Test::Entry(wanted_key, wanted) => {
                let CqlType::Map { key, value: values, .. } = cql_type else { return false };
                let mut elements = value::elements(value, true);
                while let (Some(found_key), Some(found)) = (elements.next(), elements.next()) {
                    if compare(key, found_key, wanted_key) == Ordering::Equal {
                        return compare(values, found, wanted) == Ordering::Equal;
                    }
                }
                false
            }
        }
    }

    /// Whether a collection of many cells passes. Only conditions on elements stand for one.
    fn holds_for_cells<'c, 'r: 'c>(
        &self,
        cql_type: &CqlType,
        cells: impl Iterator<Item = &'c Cell<'r>>,
        now: i64,
    ) -> bool {
        let mut live = cells.filter_map(|cell| Some((cell.path?, cell.value_at(now)?)));
        let same = |cql_type: &CqlType, a: &[u8], b: &[u8]| compare(cql_type, a, b) == Ordering::Equal;
        match (self, cql_type) {
            (Test::Contains(wanted), CqlType::Set { element, .. }) => live.any(|(path, _)| same(element, path, wanted)),
            (Test::Contains(wanted), CqlType::List { element, .. } | CqlType::Map { value: element, .. }) => {
                live.any(|(_, value)| same(element, value, wanted))
            }
            (Test::ContainsKey(wanted), CqlType::Map { key, .. }) => live.any(|(path, _)| same(key, path, wanted)),
            (Test::Entry(wanted_key, wanted), CqlType::Map { key, value: values, .. }) => {
                live.any(|(path, value)| same(key, path, wanted_key) && same(values, value, wanted))
            }
            _ => false,
        }
    }
}

/// Whether CONTAINS finds an element of this type in a frozen collection by its bytes, as Cassandra does, which
/// compares the Java objects: 1.0 is not 1.00 there.
fn tells_digits(cql_type: &CqlType) -> bool {
    match cql_type {
        CqlType::Decimal | CqlType::Tuple(_) | CqlType::User { .. } => true,
        CqlType::Map { key, value, .. } => tells_digits(key) || tells_digits(value),
        CqlType::List { element, .. } | CqlType::Set { element, .. } | CqlType::Vector { element, .. } => {
            tells_digits(element)
        }
        _ => false,
    }
}

/// The type of a collection's elements, of a map's values.
pub(crate) fn element_type(cql_type: &CqlType) -> Option<&CqlType> {
    match cql_type {
        CqlType::List { element, .. } | CqlType::Set { element, .. } | CqlType::Map { value: element, .. } => {
            Some(element)
        }
        _ => None,
    }
}
