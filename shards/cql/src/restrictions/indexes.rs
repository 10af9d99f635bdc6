//! Secondary indexes: which rules an index can answer, and which index a SELECT uses.

use super::rule::{Element, Entry, Rule};
use crate::plan::IndexUse;
use model::{Column, CqlType, Index, IndexedPart, Table};

/// The indexes of a table that can answer a rule, at least partly.
pub(super) fn serving<'t>(table: &'t Table, entry: &'t Entry) -> impl Iterator<Item = &'t Index> {
    table.indexes.iter().filter(move |index| answers(table, entry, index))
}

/// Whether an index alone answers all rules, so that rows need not be filtered.
pub(super) fn is_enough(table: &Table, entries: &[&Entry], index: &Index) -> bool {
    let one = |entry: &Entry| match &entry.rule {
        Rule::Contains(elements) => elements.len() == 1,
        _ => entry.columns.len() == 1,
    };
    entries.iter().all(|entry| answers(table, entry, index) && one(entry))
}

/// The index to use for these rules: the first index of the first rule that has one.
pub(super) fn leading(table: &Table, entries: &[&Entry]) -> Option<IndexUse> {
    entries.iter().find_map(|entry| {
        let index = serving(table, entry).next()?;
        let column = table.column(&index.column)?;
        Some(IndexUse { name: index.name.as_str().into(), column: column.id, part: index.part })
    })
}

fn answers(table: &Table, entry: &Entry, index: &Index) -> bool {
    let columns = entry.columns.iter().filter_map(|&place| table.columns.get(place));
    columns.filter(|column| column.name == index.column).any(|column| match &entry.rule {
        Rule::Equal(_) => matches!(index.part, IndexedPart::Simple | IndexedPart::Full),
        Rule::Contains(elements) => elements.iter().any(|element| holds(column, element, index.part)),
        Rule::In(_) | Rule::Slice { .. } => false,
    })
}

fn holds(column: &Column, element: &Element, part: IndexedPart) -> bool {
    match (element, part) {
        (Element::Value(_), IndexedPart::Values) | (Element::Entry(..), IndexedPart::Entries) => true,
        (Element::Key(_), IndexedPart::Keys) => matches!(column.cql_type, CqlType::Map { .. }),
        _ => false,
    }
}
