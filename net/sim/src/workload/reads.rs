//! Reads of partitions and whole tables, each checked against the history.

use super::requests::{StepError, cell_number, number, select, select_pages};
use super::tables::column::{A, B, C, L, M, S, U};
use super::tables::{ELEMENTS, FIELDS, PARTITIONS, ROWS, TestTable, row_cells};
use super::world::SharedWorld;
use crate::judges::history::{CellKey, MARKER, STATIC, Violation, WriteId};
use crate::judges::read_checks::{self, ReadContext, ReadResult, ReadTarget, Shown};
use runtime::rng;
use server::client::{Client, QueryOptions};
use std::collections::{BTreeMap, BTreeSet};

/// Most rows of a page.
const PAGE_ROWS: u64 = 7;

/// The elements of a serialised collection (of a map keys and values in turn), or the fields of a user type. They begin
/// after `skip` bytes.
fn elements(bytes: &[u8], skip: usize) -> Vec<Option<i64>> {
    let mut rest = bytes.get(skip..).unwrap_or_default();
    let mut out = Vec::new();
    while let Some((len, after)) = rest.split_first_chunk::<4>() {
        let len = i32::from_be_bytes(*len);
        let Some((element, after)) = after.split_at_checked(len.max(0) as usize) else { break };
        out.push(if len < 0 { None } else { number(element) });
        rest = after;
    }
    out
}

/// Bytes of the count at the front of a serialised collection.
const COUNT_LEN: usize = 4;

/// The columns that a read of whole rows asks for.
fn columns_of(table: TestTable, has_c: bool) -> &'static str {
    match (table.is_wide(), has_c) {
        (false, _) => "pk, a, b",
        (true, false) => "ck, a, b, st, m, s, l, u",
        (true, true) => "ck, a, b, st, m, s, l, u, c",
    }
}

/// Adds the cells of one row to `seen`. Returns its clustering, or [`STATIC`] for a partition that has only static
/// columns.
fn note_row(
    seen: &mut ReadResult,
    world: &SharedWorld,
    table: TestTable,
    pk: i64,
    row: &[Option<Vec<u8>>],
) -> Result<i64, Violation> {
    let history = &world.borrow().history;
    let ck = if table.is_wide() { cell_number(&row[0]) } else { Some(0) };
    if table.is_wide() {
        let shown = Shown::Value(cell_number(&row[3]));
        let other = seen.cells.insert(table.static_cell(pk), shown);
        if other.is_some_and(|other| other != shown) {
            return Err(Violation(format!("two rows of one read show {shown:?} and {other:?} as static column")));
        }
    }
    let Some(ck) = ck else { return Ok(STATIC) };
    if !seen.rows.insert(ck) {
        return Err(Violation(format!("row {ck} came twice")));
    }
    let mut note = |column, element, shown| seen.cells.insert(table.cell(pk, ck, column, element), shown);
    note(A, 0, Shown::Value(cell_number(&row[1])));
    note(B, 0, Shown::Value(cell_number(&row[2])));
    if !table.is_wide() {
        return Ok(ck);
    }
    let bytes = |at: usize| row.get(at).and_then(Option::as_deref).unwrap_or_default();
    let pairs = elements(bytes(4), COUNT_LEN);
    let map: BTreeMap<Option<i64>, Option<i64>> = pairs.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let set: BTreeSet<Option<i64>> = elements(bytes(5), COUNT_LEN).into_iter().collect();
    for element in 0..ELEMENTS {
        note(M, element, Shown::Value(map.get(&Some(element)).copied().flatten()));
        note(S, element, Shown::Present(set.contains(&Some(element))));
    }
    // The value of an element is the number of the write that added it.
    let list: Vec<i64> = elements(bytes(6), COUNT_LEN).into_iter().flatten().collect();
    for element in history.elements(table.cell(pk, ck, L, 0)) {
        note(L, element, Shown::Value(list.contains(&element).then_some(element)));
    }
    let distinct: BTreeSet<i64> = list.iter().copied().collect();
    if distinct.len() < list.len() {
        return Err(Violation(format!("a list shows an element twice: {list:?}")));
    }
    if let Some(stranger) = list.iter().find(|id| !seen.cells.contains_key(&table.cell(pk, ck, L, **id))) {
        return Err(Violation(format!("a list shows {stranger}, which nobody put there")));
    }
    let mut note = |column, element, shown| seen.cells.insert(table.cell(pk, ck, column, element), shown);
    let fields = elements(bytes(7), 0);
    for field in 0..FIELDS.len() {
        note(U, field as i64, Shown::Value(fields.get(field).copied().flatten()));
    }
    if row.len() > 8 {
        note(C, 0, Shown::Value(cell_number(&row[8])));
    }
    Ok(ck)
}

/// Adds the cells of the rows that were not returned to `seen`, as empty.
fn note_missing(seen: &mut ReadResult, world: &SharedWorld, table: TestTable, pk: i64, cks: &[i64], has_c: bool) {
    let history = &world.borrow().history;
    for &ck in cks {
        if seen.rows.contains(&ck) {
            continue;
        }
        for cell in row_cells(history, table.index, pk, ck) {
            let skipped = cell.column == MARKER || (cell.column == C && !has_c);
            let shown = if cell.column == S { Shown::Present(false) } else { Shown::Value(None) };
            if !skipped {
                seen.cells.insert(cell, shown);
            }
        }
    }
}

/// Reads one partition whole or in part, forward or backward, in one page or several, and checks it.
pub(crate) async fn partition(
    client: &mut Client,
    world: &SharedWorld,
    table: TestTable,
    pk: i64,
    everything: bool,
) -> Result<(), StepError> {
    let has_c = table.is_own() && world.borrow().has_c(table);
    let mut target = ReadTarget { table: table.index, pk, cks: table.clusterings(), row_cells };
    let mut text = format!("SELECT {} FROM {} WHERE pk = {pk}", columns_of(table, has_c), table.name());
    let part = table.is_wide() && !everything;
    match rng::below(5) {
        0 if part => {
            let (from, to) = (rng::below(ROWS as u64) as i64, rng::below(ROWS as u64 + 1) as i64);
            target.cks.retain(|ck| (from..to).contains(ck));
            text.push_str(&format!(" AND ck >= {from} AND ck < {to}"));
        }
        1 if part => {
            let chosen = [rng::below(ROWS as u64) as i64, rng::below(ROWS as u64) as i64];
            target.cks.retain(|ck| chosen.contains(ck));
            text.push_str(&format!(" AND ck IN ({}, {})", chosen[0], chosen[1]));
        }
        _ => {}
    }
    let backward = part && rng::below(3) == 0;
    let descending = table.is_own() != backward;
    if backward {
        text.push_str(if table.is_own() { " ORDER BY ck ASC" } else { " ORDER BY ck DESC" });
    }
    let pages = part && rng::below(6) == 0;
    let mut options = world.borrow().options();
    if pages {
        options.page_size = Some(1 + rng::below(3) as i32);
    }
    let started = runtime::now().0;
    let (mut seen, mut previous) = (ReadResult::default(), None);
    let Some(rows_of_pages) = select_pages(client, world, &text, options).await? else { return Ok(()) };
    for rows in &rows_of_pages {
        // Pages are read at different times: the static column must be the same only within one page.
        let mut page = ReadResult::default();
        for row in rows {
            let ck = note_row(&mut page, world, table, pk, row)?;
            let sorted = previous.is_none_or(|previous| if descending { previous > ck } else { previous < ck });
            if !sorted {
                return Err(Violation(format!("{text}: rows out of order at {ck}")).into());
            }
            previous = Some(ck);
        }
        seen.cells.extend(page.cells);
        seen.rows.extend(page.rows);
    }
    note_missing(&mut seen, world, table, pk, &target.cks, has_c);
    // A read that returns no row shows no static column, unless it asked for the whole partition.
    let whole_partition = target.cks.len() == table.clusterings().len();
    if table.is_wide() && whole_partition && !text.contains("AND") {
        seen.cells.entry(table.static_cell(pk)).or_insert(Shown::Value(None));
    }
    let mut world = world.borrow_mut();
    world.reads_checked += 1;
    let is_durable = world.reads_are_durable && !pages;
    let context = ReadContext { span: (started, runtime::now().0), is_one_request: !pages, is_durable };
    read_checks::check_read(&mut world.history, &target, &seen, context)
        .map_err(|Violation(violation)| Violation(format!("{text}: {violation}")))?;
    Ok(())
}

/// Counts, filters or aggregates the rows of one partition and checks the result.
pub(crate) async fn derived(
    client: &mut Client,
    world: &SharedWorld,
    table: TestTable,
    pk: i64,
) -> Result<(), StepError> {
    let name = table.name();
    let kind = rng::below(4);
    let bound = world.borrow().history.next_id() - rng::below(60) as i64;
    let element = rng::below(ELEMENTS as u64) as i64;
    let text = match kind {
        0 => format!("SELECT count(ck), max(a), min(a) FROM {name} WHERE pk = {pk}"),
        1 => format!("SELECT ck, a FROM {name} WHERE pk = {pk} AND a > {bound} ALLOW FILTERING"),
        2 => format!("SELECT ck FROM {name} WHERE pk = {pk} AND s CONTAINS {element} ALLOW FILTERING"),
        _ => format!("SELECT ck FROM {name} WHERE pk = {pk} AND m CONTAINS KEY {element} ALLOW FILTERING"),
    };
    let started = runtime::now().0;
    let options = world.borrow().options();
    let Some(outcome) = select(client, world, &text, &options).await? else { return Ok(()) };
    let span = (started, runtime::now().0);
    let mut world = world.borrow_mut();
    world.reads_checked += 1;
    let history = &world.history;
    let cks = table.clusterings();
    let cells = |column, element| -> Vec<(i64, CellKey)> {
        cks.iter().map(|ck| (*ck, table.cell(pk, *ck, column, element))).collect()
    };
    let rows: BTreeSet<i64> = outcome.rows.iter().filter_map(|row| cell_number(&row[0])).collect();
    let checked = match kind {
        0 => {
            let target = ReadTarget { table: table.index, pk, cks: cks.clone(), row_cells };
            let (row, values) = (&outcome.rows[0], cells(A, 0).into_iter().map(|(_, cell)| cell).collect::<Vec<_>>());
            read_checks::check_count(history, &target, cell_number(&row[0]).unwrap_or(-1), span)
                .and_then(|()| read_checks::check_extreme(history, &values, cell_number(&row[1]), true, span))
                .and_then(|()| read_checks::check_extreme(history, &values, cell_number(&row[2]), false, span))
        }
        1 => {
            let wanted = |value: Option<WriteId>| value.is_some_and(|value| value > bound);
            read_checks::check_filter(history, &cells(A, 0), &rows, wanted, span)
        }
        2 => read_checks::check_filter(history, &cells(S, element), &rows, |value| value.is_some(), span),
        _ => read_checks::check_filter(history, &cells(M, element), &rows, |value| value.is_some(), span),
    };
    checked.map_err(|Violation(violation)| Violation(format!("{text}: {violation}")))?;
    Ok(())
}

/// Counts the rows of every partition with GROUP BY, sometimes in pages. If a page ends with a partition that then
/// grows, the next page returns the partition again, with its new rows.
pub(crate) async fn groups(client: &mut Client, world: &SharedWorld, table: TestTable) -> Result<(), StepError> {
    let text = format!("SELECT pk, count(ck) FROM {} GROUP BY pk", table.name());
    let mut options = world.borrow().options();
    if rng::below(2) == 0 {
        options.page_size = Some(1 + rng::below(3) as i32);
    }
    let started = runtime::now().0;
    let mut counts: BTreeMap<Option<i64>, i64> = BTreeMap::new();
    let paged = options.page_size.is_some();
    let Some(pages) = select_pages(client, world, &text, options).await? else { return Ok(()) };
    for row in pages.iter().flatten() {
        let key = cell_number(&row[0]);
        if counts.contains_key(&key) && !paged {
            return Err(Violation(format!("{text}: partition {key:?} came twice")).into());
        }
        *counts.entry(key).or_default() += cell_number(&row[1]).unwrap_or(-1);
    }
    let span = (started, runtime::now().0);
    let mut world = world.borrow_mut();
    world.reads_checked += 1;
    for pk in 0..PARTITIONS {
        let target = ReadTarget { table: table.index, pk, cks: table.clusterings(), row_cells };
        let counted = counts.get(&Some(pk)).copied().unwrap_or(0);
        read_checks::check_count(&world.history, &target, counted, span)?;
    }
    Ok(())
}

/// A scan of a whole table. Its pages are fetched one at a time between other steps, and it continues on the next
/// connection when one breaks.
#[derive(Debug)]
pub(crate) struct Scan {
    table: TestTable,
    started: u64,
    page_size: i32,
    paging_state: Option<Vec<u8>>,
    seen: BTreeSet<(i64, i64)>,
}

impl Scan {
    pub(crate) fn new(table: TestTable) -> Scan {
        let page_size = 1 + rng::below(PAGE_ROWS) as i32;
        Scan { table, started: runtime::now().0, page_size, paging_state: None, seen: BTreeSet::new() }
    }

    /// Whether this is a scan of `table`.
    pub(crate) fn is_of(&self, table: TestTable) -> bool {
        self.table == table
    }

    /// Fetches the next page. After the last one it checks the whole scan and returns true.
    pub(crate) async fn next(&mut self, client: &mut Client, world: &SharedWorld) -> Result<bool, StepError> {
        let name = self.table.name();
        let text = format!("SELECT pk, {} FROM {name}", if self.table.is_wide() { "ck, a" } else { "a, b" });
        let options = QueryOptions {
            page_size: Some(self.page_size),
            paging_state: self.paging_state.clone(),
            ..world.borrow().options()
        };
        let Some(outcome) = select(client, world, &text, &options).await? else { return Ok(true) };
        for row in &outcome.rows {
            let ck = if self.table.is_wide() { cell_number(&row[1]).unwrap_or(STATIC) } else { 0 };
            let key = (cell_number(&row[0]).unwrap_or(-1), ck);
            if !self.seen.insert(key) {
                return Err(Violation(format!("{text}: row {key:?} came twice")).into());
            }
        }
        self.paging_state = outcome.paging_state;
        if self.paging_state.is_some() {
            return Ok(false);
        }
        self.check(world)?;
        Ok(true)
    }

    /// Checks that every row that existed during the whole scan was returned, and none that never existed.
    fn check(&self, world: &SharedWorld) -> Result<(), Violation> {
        let mut world = world.borrow_mut();
        world.reads_checked += 1;
        let span = (self.started, runtime::now().0);
        for pk in 0..PARTITIONS {
            for ck in self.table.clusterings() {
                let cells = row_cells(&world.history, self.table.index, pk, ck);
                let came = self.seen.contains(&(pk, ck));
                if came && !world.history.may_exist(&cells, span) {
                    return Err(Violation(format!(
                        "{}: a scan shows row {pk} {ck}, which was not there",
                        self.table.name()
                    )));
                }
                if !came && world.history.must_exist(&cells, span) {
                    return Err(Violation(format!("{}: a scan misses row {pk} {ck}: {cells:?}", self.table.name())));
                }
            }
        }
        Ok(())
    }
}
