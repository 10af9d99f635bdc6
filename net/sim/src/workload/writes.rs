//! Random INSERTs, UPDATEs, DELETEs and batches, each with its effects on cells.

use super::tables::column::{A, B, C, L, M, S, U};
use super::tables::{ELEMENTS, FIELDS, ROWS, TestTable};
use crate::judges::history::{CellKey, Effects, History, MARKER, WHOLE, WriteId};
use runtime::rng;
use std::collections::BTreeMap;

/// Microseconds between the timestamps of two writes. They must not be adjacent, because assigning a collection deletes
/// the old one at one microsecond less, and because the time at which a column is dropped counts in milliseconds.
pub(crate) const TIMESTAMP_STEP: i64 = 1000;
/// Shortest and longest time to live, in seconds.
const TTL_SECONDS: (u64, u64) = (3, 12);
/// Most modifications of a batch.
const BATCH_MAX: u64 = 5;

/// What a modification does to a cell. Among several with the same timestamp the last one in this order wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Touch {
    /// Deleted one microsecond before the write's timestamp, like the old elements when a collection is assigned.
    Cleared,
    /// Given a value.
    Put,
    /// Deleted.
    Removed,
}

/// A statement and its effects.
#[derive(Debug, Default)]
pub(crate) struct WriteOp {
    /// The statement.
    pub(crate) text: String,
    /// Its time to live in seconds, if any.
    pub(crate) ttl: Option<u64>,
    touches: BTreeMap<CellKey, Touch>,
}

impl WriteOp {
    /// Whether it has no effect.
    pub(crate) fn is_empty(&self) -> bool {
        self.touches.is_empty()
    }

    /// Its effects if its number is `id`.
    pub(crate) fn effects(&self, id: WriteId) -> Effects {
        let value = |touch: &Touch| (*touch == Touch::Put).then_some(id);
        self.touches.iter().map(|(cell, touch)| (*cell, value(touch))).collect()
    }

    /// Its effects on one partition if its number is `id`.
    pub(crate) fn effects_on(&self, pk: i64, id: WriteId) -> Effects {
        self.effects(id).into_iter().filter(|(cell, _)| cell.pk == pk).collect()
    }

    /// The partitions that it writes to.
    pub(crate) fn partitions(&self) -> Vec<i64> {
        let mut all: Vec<i64> = self.touches.keys().map(|cell| cell.pk).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn touch(&mut self, cell: CellKey, touch: Touch) {
        let found = self.touches.entry(cell).or_insert(touch);
        *found = (*found).max(touch);
    }

    fn remove_row(&mut self, table: TestTable, pk: i64, ck: i64) {
        for cell in table.deleted_with_row(pk, ck) {
            self.touch(cell, Touch::Removed);
        }
    }

    /// Adds the effects of a modification with the same timestamp.
    fn merge(&mut self, other: WriteOp) {
        for (cell, touch) in other.touches {
            self.touch(cell, touch);
        }
        // In one batch a deletion of a list also deletes the elements that other statements add to it.
        let removed: Vec<CellKey> = self
            .touches
            .iter()
            .filter(|(cell, touch)| cell.element == WHOLE && **touch == Touch::Removed)
            .map(|(cell, _)| *cell)
            .collect();
        for (cell, touch) in &mut self.touches {
            if removed.contains(&CellKey { element: WHOLE, ..*cell }) {
                *touch = Touch::Removed;
            }
        }
    }
}

/// What a modification may do, depending on where it is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteContext {
    /// Whether it goes into a batch. Then the batch has the timestamp; the modification has no timestamp, no time to
    /// live, and changes no list, because two elements would have the same value.
    pub(crate) is_batched: bool,
    /// Whether the table has column `c`.
    pub(crate) has_c: bool,
}

/// A random modification of one partition by write `id`.
pub(crate) fn random(table: TestTable, pk: i64, id: WriteId, history: &History, context: WriteContext) -> WriteOp {
    let ck = if table.is_wide() { rng::below(ROWS as u64) as i64 } else { 0 };
    let timestamp = id * TIMESTAMP_STEP;
    let ttl = (!context.is_batched && rng::below(8) == 0)
        .then(|| TTL_SECONDS.0 + rng::below(TTL_SECONDS.1 - TTL_SECONDS.0 + 1));
    let using = match (context.is_batched, ttl) {
        (true, _) => String::new(),
        (false, None) => format!(" USING TIMESTAMP {timestamp}"),
        (false, Some(seconds)) => format!(" USING TIMESTAMP {timestamp} AND TTL {seconds}"),
    };
    let deleting = if context.is_batched { String::new() } else { format!(" USING TIMESTAMP {timestamp}") };
    let name = table.name();
    let row = table.row_of(pk, ck);
    let mut op = WriteOp::default();
    let kinds = if table.is_wide() { 26 } else { 9 };
    op.text = match rng::below(kinds) {
        0..=2 => {
            op.ttl = ttl;
            let (columns, key) =
                if table.is_wide() { ("pk, ck", format!("{pk}, {ck}")) } else { ("pk", format!("{pk}")) };
            for column in [MARKER, A, B] {
                op.touch(table.cell(pk, ck, column, 0), Touch::Put);
            }
            let (mut more, mut values) = (String::new(), String::new());
            if context.has_c && rng::below(2) == 0 {
                op.touch(table.cell(pk, ck, C, 0), Touch::Put);
                (more, values) = (", c".into(), format!(", {id}"));
            }
            format!("INSERT INTO {name} ({columns}, a, b{more}) VALUES ({key}, {id}, {id}{values}){using}")
        }
        3..=4 => {
            op.ttl = ttl;
            let columns: &[(u8, &str)] = match rng::below(3) {
                0 => &[(A, "a")],
                1 => &[(B, "b")],
                _ => &[(A, "a"), (B, "b")],
            };
            let mut sets = Vec::new();
            for (column, letter) in columns {
                op.touch(table.cell(pk, ck, *column, 0), Touch::Put);
                sets.push(format!("{letter} = {id}"));
            }
            if context.has_c && rng::below(2) == 0 {
                op.touch(table.cell(pk, ck, C, 0), Touch::Put);
                sets.push(format!("c = {id}"));
            }
            format!("UPDATE {name}{using} SET {} WHERE {row}", sets.join(", "))
        }
        5 => {
            op.touch(table.cell(pk, ck, A, 0), Touch::Removed);
            format!("DELETE a FROM {name}{deleting} WHERE {row}")
        }
        6..=7 => {
            op.remove_row(table, pk, ck);
            format!("DELETE FROM {name}{deleting} WHERE {row}")
        }
        8 => {
            table.clusterings().into_iter().for_each(|ck| op.remove_row(table, pk, ck));
            if table.is_wide() {
                op.touch(table.static_cell(pk), Touch::Removed);
            }
            format!("DELETE FROM {name}{deleting} WHERE pk = {pk}")
        }
        9..=10 => {
            let from = rng::below(ROWS as u64) as i64;
            let to = rng::below(ROWS as u64 + 1) as i64;
            (from..to).for_each(|ck| op.remove_row(table, pk, ck));
            format!("DELETE FROM {name}{deleting} WHERE pk = {pk} AND ck >= {from} AND ck < {to}")
        }
        11 => {
            let others = [ck, rng::below(ROWS as u64) as i64];
            others.iter().for_each(|ck| op.remove_row(table, pk, *ck));
            format!("DELETE FROM {name}{deleting} WHERE pk = {pk} AND ck IN ({}, {})", others[0], others[1])
        }
        12..=13 => {
            op.ttl = ttl;
            op.touch(table.static_cell(pk), Touch::Put);
            format!("UPDATE {name}{using} SET st = {id} WHERE pk = {pk}")
        }
        14 => {
            op.touch(table.static_cell(pk), Touch::Removed);
            format!("DELETE st FROM {name}{deleting} WHERE pk = {pk}")
        }
        15..=18 => map(&mut op, table, (pk, ck), id, &using, &deleting, ttl),
        19..=20 => set(&mut op, table, (pk, ck), &using, &deleting, ttl),
        21..=23 if !context.is_batched => list(&mut op, table, (pk, ck), id, history, &using, &deleting, ttl),
        _ => user_type(&mut op, table, (pk, ck), id, &using, &deleting, ttl),
    };
    op
}

fn map(
    op: &mut WriteOp,
    table: TestTable,
    (pk, ck): (i64, i64),
    id: WriteId,
    using: &str,
    deleting: &str,
    ttl: Option<u64>,
) -> String {
    let (name, row) = (table.name(), table.row_of(pk, ck));
    let key = rng::below(ELEMENTS as u64) as i64;
    let cell = table.cell(pk, ck, M, key);
    let kind = rng::below(5);
    op.ttl = ttl.filter(|_| kind < 3);
    op.touch(cell, if kind < 3 { Touch::Put } else { Touch::Removed });
    match kind {
        0 => format!("UPDATE {name}{using} SET m[{key}] = {id} WHERE {row}"),
        1 => format!("UPDATE {name}{using} SET m = m + {{{key}: {id}}} WHERE {row}"),
        2 => {
            (0..ELEMENTS).for_each(|other| op.touch(table.cell(pk, ck, M, other), Touch::Cleared));
            format!("UPDATE {name}{using} SET m = {{{key}: {id}}} WHERE {row}")
        }
        3 => format!("DELETE m[{key}] FROM {name}{deleting} WHERE {row}"),
        _ => format!("UPDATE {name}{deleting} SET m = m - {{{key}}} WHERE {row}"),
    }
}

fn set(
    op: &mut WriteOp,
    table: TestTable,
    (pk, ck): (i64, i64),
    using: &str,
    deleting: &str,
    ttl: Option<u64>,
) -> String {
    let (name, row) = (table.name(), table.row_of(pk, ck));
    let element = rng::below(ELEMENTS as u64) as i64;
    let cell = table.cell(pk, ck, S, element);
    let kind = rng::below(5);
    op.ttl = ttl.filter(|_| kind < 3);
    op.touch(cell, if kind < 3 { Touch::Put } else { Touch::Removed });
    match kind {
        0 | 1 => format!("UPDATE {name}{using} SET s = s + {{{element}}} WHERE {row}"),
        2 => {
            (0..ELEMENTS).for_each(|other| op.touch(table.cell(pk, ck, S, other), Touch::Cleared));
            format!("UPDATE {name}{using} SET s = {{{element}}} WHERE {row}")
        }
        3 => format!("DELETE s[{element}] FROM {name}{deleting} WHERE {row}"),
        _ => format!("UPDATE {name}{deleting} SET s = s - {{{element}}} WHERE {row}"),
    }
}

#[expect(clippy::too_many_arguments, reason = "the parts of one statement")]
fn list(
    op: &mut WriteOp,
    table: TestTable,
    (pk, ck): (i64, i64),
    id: WriteId,
    history: &History,
    using: &str,
    deleting: &str,
    ttl: Option<u64>,
) -> String {
    let (name, row) = (table.name(), table.row_of(pk, ck));
    let column = table.cell(pk, ck, L, 0);
    let added = CellKey { element: id, ..column };
    match rng::below(6) {
        0 => {
            op.ttl = ttl;
            op.touch(CellKey { element: WHOLE, ..column }, Touch::Cleared);
            op.touch(added, Touch::Put);
            format!("UPDATE {name}{using} SET l = [{id}] WHERE {row}")
        }
        1 | 2 => {
            op.ttl = ttl;
            op.touch(added, Touch::Put);
            format!("UPDATE {name}{using} SET l = l + [{id}] WHERE {row}")
        }
        3 => {
            op.ttl = ttl;
            op.touch(added, Touch::Put);
            format!("UPDATE {name}{using} SET l = [{id}] + l WHERE {row}")
        }
        4 => {
            op.touch(CellKey { element: WHOLE, ..column }, Touch::Removed);
            format!("DELETE l FROM {name}{deleting} WHERE {row}")
        }
        // The element must exist for certain: the server reads the list first and deletes only what it finds.
        _ => match history.elements(column).into_iter().rev().find(|element| history.is_settled(*element)) {
            Some(element) => {
                op.touch(CellKey { element, ..column }, Touch::Removed);
                format!("UPDATE {name}{deleting} SET l = l - [{element}] WHERE {row}")
            }
            None => {
                op.touch(added, Touch::Put);
                format!("UPDATE {name}{deleting} SET l = l + [{id}] WHERE {row}")
            }
        },
    }
}

fn user_type(
    op: &mut WriteOp,
    table: TestTable,
    (pk, ck): (i64, i64),
    id: WriteId,
    using: &str,
    deleting: &str,
    ttl: Option<u64>,
) -> String {
    let (name, row) = (table.name(), table.row_of(pk, ck));
    let field = rng::below(FIELDS.len() as u64) as i64;
    let letter = FIELDS[field as usize];
    let kind = rng::below(4);
    op.ttl = ttl.filter(|_| kind < 3);
    op.touch(table.cell(pk, ck, U, field), if kind < 3 { Touch::Put } else { Touch::Removed });
    match kind {
        0 | 1 => format!("UPDATE {name}{using} SET u.{letter} = {id} WHERE {row}"),
        2 => {
            (0..FIELDS.len() as i64).for_each(|other| op.touch(table.cell(pk, ck, U, other), Touch::Cleared));
            format!("UPDATE {name}{using} SET u = {{{letter}: {id}}} WHERE {row}")
        }
        _ => format!("DELETE u.{letter} FROM {name}{deleting} WHERE {row}"),
    }
}

/// A random batch over both shared tables and the partitions `pks`, with one timestamp. To the history it is one write
/// per partition, numbered from `id` on in the order of `pks`.
pub(crate) fn random_batch(pks: &[i64], id: WriteId, history: &History) -> WriteOp {
    let mut whole = WriteOp::default();
    let mut texts = Vec::new();
    for _ in 0..2 + rng::below(BATCH_MAX - 1) {
        let table = if rng::below(2) == 0 { TestTable::PLAIN } else { TestTable::WIDE };
        let at = rng::below(pks.len() as u64) as usize;
        let op = random(table, pks[at], id + at as WriteId, history, WriteContext { is_batched: true, has_c: false });
        texts.push(format!("{};", op.text));
        whole.merge(op);
    }
    // Only logged batches are atomic over several partitions.
    let logged = whole.partitions().len() > 1 || rng::below(2) == 0;
    let kind = if logged { "BATCH" } else { "UNLOGGED BATCH" };
    let timestamp = id * TIMESTAMP_STEP;
    whole.text = format!("BEGIN {kind} USING TIMESTAMP {timestamp} {} APPLY BATCH", texts.join(" "));
    whole
}
