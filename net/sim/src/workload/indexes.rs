//! Indexes of the workload's tables, and reads of whole tables through them, each checked against the history.
//!
//! Clients drop indexes and create them again while they read and write. A read that finds no index, or one that is not
//! built yet, is refused, and nothing is checked.

use super::requests::{StepError, cell_number, select_pages};
use super::tables::column::{A, M, S};
use super::tables::{ELEMENTS, PARTITIONS, ROWS, TestTable, row_cells};
use super::world::SharedWorld;
use crate::judges::history::{CellKey, Violation, WriteId};
use crate::judges::read_checks;
use runtime::rng;
use server::client::Client;
use std::collections::BTreeSet;

/// The targets of the indexes. Tables with clusterings have all of these indexes, the others only the first one.
const TARGETS: [&str; 5] = ["a", "s", "keys(m)", "ck", "st"];

/// How many indexes a table has.
fn count(table: TestTable) -> usize {
    if table.is_wide() { TARGETS.len() } else { 1 }
}

fn name(table: TestTable, at: usize) -> String {
    let (keyspace, table) = table.keyspace_and_name();
    format!("{keyspace}.{table}_{at}")
}

/// The CREATE INDEX statements of all indexes of a table.
pub(crate) fn create_all(table: TestTable) -> Vec<String> {
    (0..count(table)).map(|at| create(table, at)).collect()
}

fn create(table: TestTable, at: usize) -> String {
    let index = name(table, at);
    let index = index.split_once('.').map_or(index.as_str(), |(_, index)| index);
    format!("CREATE INDEX IF NOT EXISTS {index} ON {} ({})", table.name(), TARGETS[at])
}

/// A statement that drops an index of a table or creates it again.
pub(crate) fn any_change(table: TestTable) -> String {
    let at = rng::below(count(table) as u64) as usize;
    if rng::below(3) == 0 { format!("DROP INDEX IF EXISTS {}", name(table, at)) } else { create(table, at) }
}

/// Reads a whole table through every index: for every element and clustering, and for some written values.
pub(crate) async fn check_all(client: &mut Client, world: &SharedWorld, table: TestTable) -> Result<(), StepError> {
    for at in 0..count(table) {
        for value in 0..ROWS.max(ELEMENTS) {
            read_at(client, world, table, at, value).await?;
        }
    }
    Ok(())
}

/// Reads a whole table through a random index.
pub(crate) async fn read(client: &mut Client, world: &SharedWorld, table: TestTable) -> Result<(), StepError> {
    let at = rng::below(count(table) as u64) as usize;
    read_at(client, world, table, at, rng::below(ROWS as u64) as i64).await
}

/// Reads a whole table through the index `at`, sometimes in pages. Looks for the element or clustering `value`, or for
/// the number of a recent write in columns whose values are such numbers.
async fn read_at(
    client: &mut Client,
    world: &SharedWorld,
    table: TestTable,
    at: usize,
    value: i64,
) -> Result<(), StepError> {
    let id = (world.borrow().history.next_id() - rng::below(60) as i64).max(1);
    let (element, ck) = (value % ELEMENTS, value % ROWS);
    let condition = match at {
        0 => format!("a = {id}"),
        1 => format!("s CONTAINS {element}"),
        2 => format!("m CONTAINS KEY {element}"),
        3 => format!("ck = {ck}"),
        _ => format!("st = {id}"),
    };
    let columns = if table.is_wide() { "pk, ck" } else { "pk" };
    let text = format!("SELECT {columns} FROM {} WHERE {condition}", table.name());
    let mut options = world.borrow().options();
    if rng::below(2) == 0 {
        options.page_size = Some(1 + rng::below(4) as i32);
    }
    let started = runtime::now().0;
    let mut rows: BTreeSet<(i64, Option<i64>)> = BTreeSet::new();
    let Some(pages) = select_pages(client, world, &text, options).await? else { return Ok(()) };
    for row in pages.iter().flatten() {
        let row = (cell_number(&row[0]).unwrap_or(-1), row.get(1).and_then(cell_number));
        if !rows.insert(row) {
            return Err(Violation(format!("{text}: row {row:?} came twice")).into());
        }
    }
    let span = (started, runtime::now().0);
    let mut world = world.borrow_mut();
    world.reads_checked += 1;
    world.index_reads += 1;
    let history = &world.history;
    let check = |pk: i64| -> Result<(), Violation> {
        let cks = table.clusterings();
        let came: BTreeSet<i64> =
            rows.iter().filter(|(of, _)| *of == pk).map(|(_, ck)| ck.unwrap_or_default()).collect();
        let cells = |column, element| -> Vec<(i64, CellKey)> {
            cks.iter().map(|ck| (*ck, table.cell(pk, *ck, column, element))).collect()
        };
        match at {
            0 => read_checks::check_filter(history, &cells(A, 0), &came, |value| value == Some(id), span),
            1 => read_checks::check_filter(history, &cells(S, element), &came, |value| value.is_some(), span),
            2 => read_checks::check_filter(history, &cells(M, element), &came, |value| value.is_some(), span),
            3 => {
                let cells = row_cells(history, table.index, pk, ck);
                match came.contains(&ck) {
                    true if !history.may_exist(&cells, span) => Err(Violation(format!("row {pk} {ck} was not there"))),
                    false if history.must_exist(&cells, span) => Err(Violation(format!("row {pk} {ck} is missing"))),
                    _ => Ok(()),
                }
            }
            _ => {
                // A partition that has only static columns is returned as a row too.
                let there = came.iter().next().map(|_| 0).into_iter().collect();
                let wanted = |value: Option<WriteId>| value == Some(id);
                read_checks::check_filter(history, &[(0, table.static_cell(pk))], &there, wanted, span)
            }
        }
    };
    for pk in 0..PARTITIONS {
        check(pk).map_err(|Violation(violation)| Violation(format!("{text}: pk {pk}: {violation}")))?;
    }
    Ok(())
}
