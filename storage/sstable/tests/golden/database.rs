//! The merged rows of several SSTables, and the text that `SELECT JSON *` gives for them.

use super::sstables::Driver;
use model::Partitioner;
use model::counter::CounterContext;
use model::fragment::Fragment;
use model::json::{push_json, push_name};
use model::mutation::Clustering;
use model::row::{Cell, CellContent, Deletion, RowBuilder, RowView};
use model::{Column, CqlType, DecoratedKey, Table, key, merge, value};
use sstable::Error;
use std::collections::BTreeMap;

/// When the rows are read, in seconds: after all data of 2023 has expired, and before the rest does.
const NOW: i64 = 1_795_220_000;

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Partition {
    pub(crate) deletion: Deletion,
    pub(crate) statics: Vec<u8>,
    /// Clustering values and row blob by comparable form.
    pub(crate) rows: BTreeMap<Vec<u8>, (Vec<u8>, Vec<u8>)>,
    pub(crate) ranges: Vec<(Vec<u8>, Vec<u8>, Deletion)>,
}

impl Partition {
    /// Returns the deletion at a row, of the partition and its range tombstones.
    pub(crate) fn deletion_at(&self, comparable: &[u8]) -> Deletion {
        let ranges = self.ranges.iter().filter(|(start, end, _)| &start[..] <= comparable && comparable < &end[..]);
        ranges.fold(self.deletion, |deletion, range| deletion.max(range.2))
    }
}

#[derive(Default, Debug)]
pub(crate) struct Database {
    pub(crate) partitions: BTreeMap<DecoratedKey, Partition>,
}

fn empty() -> Vec<u8> {
    let mut blob = Vec::new();
    RowBuilder::new(&mut blob, None, Deletion::LIVE);
    blob
}

fn merged(a: &[u8], b: RowView<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    merge::merge_rows(RowView::trusted(a), b, Deletion::LIVE, &mut out);
    out
}

impl Database {
    /// Adds all fragments of a cursor. Returns how many partitions and rows those were.
    pub(crate) fn read(&mut self, driver: &mut Driver<'_, '_>) -> Result<usize, Error> {
        let partitioner = driver.cursor.reader().partitioner();
        let mut current = None;
        let mut open: Option<(Vec<u8>, Deletion)> = None;
        let mut count = 0;
        while driver.next()? {
            let fragment = driver.cursor.fragment().expect("a fragment");
            if let Fragment::PartitionStart { token, key, deletion } = fragment {
                let key = DecoratedKey::new(partitioner, key);
                assert_eq!(key.token, token);
                let new = || Partition { deletion, statics: empty(), rows: BTreeMap::new(), ranges: Vec::new() };
                let partition = self.partitions.entry(key.clone()).or_insert_with(new);
                partition.deletion = partition.deletion.max(deletion);
                assert!(current.is_none());
                current = Some(key);
                count += 1;
                continue;
            }
            let partition = self.partitions.get_mut(current.as_ref().expect("inside")).expect("started");
            match fragment {
                Fragment::PartitionStart { .. } => {}
                Fragment::StaticRow { row } => {
                    RowView::parse(row.blob()).expect("a row blob");
                    partition.statics = merged(&partition.statics, row);
                }
                Fragment::Row { clustering, comparable, row } => {
                    RowView::parse(row.blob()).expect("a row blob");
                    let entry = partition.rows.entry(comparable.to_vec());
                    let entry = entry.or_insert_with(|| (clustering.0.to_vec(), empty()));
                    entry.1 = merged(&entry.1, row);
                    count += 1;
                }
                Fragment::RangeMarker { comparable, deletion, .. } => {
                    if let Some((start, deletion)) = open.take() {
                        assert!(start[..] < *comparable, "an empty range");
                        partition.ranges.push((start, comparable.to_vec(), deletion));
                    }
                    if !deletion.is_live() {
                        open = Some((comparable.to_vec(), deletion));
                    }
                }
                Fragment::PartitionEnd => {
                    assert!(open.is_none());
                    current = None;
                }
            }
        }
        assert!(current.is_none());
        Ok(count)
    }

    /// Returns what `SELECT JSON *` gives, one line per row.
    pub(crate) fn json(&self, table: &Table) -> Vec<String> {
        let mut lines = Vec::new();
        for (key, partition) in &self.partitions {
            let mut statics = Vec::new();
            merge::filter_row(RowView::trusted(&partition.statics), partition.deletion, &mut statics);
            let statics = RowView::trusted(&statics);
            let before = lines.len();
            for (comparable, (clustering, row)) in &partition.rows {
                let deletion = partition.deletion_at(comparable);
                let mut out = Vec::new();
                if !merge::filter_row(RowView::trusted(row), deletion, &mut out) {
                    continue;
                }
                let row = RowView::trusted(&out);
                let alive = row.liveness().is_some_and(|l| l.expiry.is_none_or(|(_, end)| NOW < end));
                if alive || row.cells().any(|cell| cell.value_at(NOW).is_some()) {
                    lines.push(line(table, key, Some(Clustering(clustering)), statics, row));
                }
            }
            if lines.len() == before && statics.cells().any(|cell| cell.value_at(NOW).is_some()) {
                lines.push(line(table, key, None, statics, RowView::trusted(&[])));
            }
        }
        lines
    }
}

fn line(
    table: &Table,
    key: &DecoratedKey,
    clustering: Option<Clustering<'_>>,
    statics: RowView<'_>,
    row: RowView<'_>,
) -> String {
    let token = key.partitioner.ring_token(&key.key);
    let is_number = matches!(key.partitioner, Partitioner::Murmur3 | Partitioner::Random);
    let mut out = "{\"token\": ".to_owned();
    match is_number {
        true => out.push_str(&token.to_string()),
        false => push_json(&CqlType::Text, token.to_string().as_bytes(), &mut out),
    }
    out.push_str(", \"row\": {");
    let mut keys = key::components(&key.key, table.partition_key_len);
    let mut clusterings = clustering.map(Clustering::components);
    for (i, column) in table.columns.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        push_name(&column.name, &mut out);
        out.push_str(": ");
        let place = i as isize - table.partition_key_len as isize;
        if place < 0 {
            push_value(column, keys.next(), &mut out);
        } else if place < table.clustering_len as isize {
            push_value(column, clusterings.as_mut().and_then(Iterator::next), &mut out);
        } else {
            let of_static = (place as usize) < table.clustering_len + table.static_len;
            let cells = (if of_static { statics } else { row }).cells().filter(|cell| cell.column == column.id);
            let cells: Vec<Cell<'_>> = cells.filter(|cell| cell.value_at(NOW).is_some()).collect();
            push_value(column, cell_value(&column.cql_type, &cells).as_deref(), &mut out);
        }
    }
    out + "}}"
}

fn push_value(column: &Column, value: Option<&[u8]>, out: &mut String) {
    match value {
        Some(value) => push_json(&column.cql_type, value, out),
        None => out.push_str("null"),
    }
}

/// Returns the serialised value of a column's live cells.
fn cell_value(cql_type: &CqlType, cells: &[Cell<'_>]) -> Option<Vec<u8>> {
    let content = |cell: &Cell<'_>| match cell.content {
        CellContent::Live(value) | CellContent::Expiring { value, .. } => value.to_vec(),
        CellContent::Counter(context) => CounterContext::trusted(context).total().to_be_bytes().to_vec(),
        _ => Vec::new(),
    };
    let path = |cell: &Cell<'_>| cell.path.expect("a path").to_vec();
    if cells.is_empty() {
        return None;
    }
    if !cql_type.is_multicell() {
        return Some(content(&cells[0]));
    }
    let mut sorted: Vec<&Cell<'_>> = cells.iter().collect();
    let order = match cql_type {
        CqlType::List { .. } => CqlType::Timeuuid,
        CqlType::Set { element, .. } => (**element).clone(),
        CqlType::Map { key, .. } => (**key).clone(),
        _ => CqlType::Blob,
    };
    sorted.sort_by(|a, b| value::compare(&order, &path(a), &path(b)));
    let mut out = Vec::new();
    if let CqlType::User { definition, .. } = cql_type {
        for index in 0..definition.fields.len() as u16 {
            let cell = sorted.iter().find(|cell| path(cell) == index.to_be_bytes());
            value::push_element(&mut out, cell.map(|cell| content(cell)).as_deref());
        }
        return Some(out);
    }
    out.extend_from_slice(&(sorted.len() as i32).to_be_bytes());
    for cell in sorted {
        match cql_type {
            CqlType::List { .. } => value::push_element(&mut out, Some(&content(cell))),
            CqlType::Set { .. } => value::push_element(&mut out, Some(&path(cell))),
            _ => {
                value::push_element(&mut out, Some(&path(cell)));
                value::push_element(&mut out, Some(&content(cell)));
            }
        }
    }
    Some(out)
}
