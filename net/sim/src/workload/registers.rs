//! Clients that change registers under conditions and read them at SERIAL. `linearizable` is told of every request and
//! every answer.
//!
//! Table `registers (pk, ck, v, st static)`: a partition has a register in each of two rows, and one in its static row.
//! A row is there if and only if its register has a value. Nothing but conditional changes writes to the table.

use crate::judges::history::Violation;
use crate::judges::linearizable::{Answer, Expected, Fate, Operation, OperationId, Partition};
use crate::workload::client::{Broken, SharedWorld};
use model::{Consistency, ErrorCode};
use runtime::rng;
use server::client::{CallError, Client, Outcome, QueryOptions};
use std::collections::BTreeMap;

/// What makes the table.
pub const CREATE: &str = "CREATE TABLE IF NOT EXISTS s.registers (pk bigint, ck bigint, v bigint, st bigint static, \
                          PRIMARY KEY (pk, ck)) WITH gc_grace_seconds = 10";
/// Partition keys in use.
const PARTITIONS: i64 = 4;
/// Registers in rows; the last one is static.
const ROWS: usize = 2;
const STATIC: usize = ROWS;

/// What is known of the registers.
#[derive(Debug, Default)]
pub struct Registers {
    partitions: BTreeMap<i64, Partition>,
    /// The last value that was seen in a register: what a client expects to find.
    seen: BTreeMap<(i64, usize), Option<i64>>,
    written: i64,
    /// Operations that were answered.
    pub answered: u64,
}

impl Registers {
    /// The node is serving again.
    pub fn restarted(&mut self) {
        self.partitions.values_mut().for_each(Partition::restarted);
    }

    fn begin(&mut self, pk: i64, operation: Operation) -> OperationId {
        self.partitions.entry(pk).or_default().begin(operation)
    }

    fn finish(&mut self, pk: i64, id: OperationId, fate: Fate) -> Result<(), Violation> {
        if let Fate::Answered(answer) = &fate {
            self.answered += 1;
            for (register, value) in &answer.shown {
                self.seen.insert((pk, *register), *value);
            }
        }
        let partition = self.partitions.entry(pk).or_default();
        partition.finish(id, fate).map_err(|text| Violation(format!("registers of {pk}: {text}")))
    }
}

/// One request: a change or a read.
pub(crate) async fn step(client: &mut Client, world: &SharedWorld) -> Result<(), Broken> {
    let pk = rng::below(PARTITIONS as u64) as i64;
    if rng::below(4) == 0 {
        return read(client, world, pk).await;
    }
    let (text, operation) = {
        let registers = &mut world.borrow_mut().registers;
        registers.written += 1;
        change(registers, pk)
    };
    let id = world.borrow_mut().registers.begin(pk, operation.clone());
    let level = if rng::below(2) == 0 { Consistency::Serial } else { Consistency::LocalSerial };
    let options = QueryOptions { serial_consistency: Some(level), ..QueryOptions::default() };
    let prepared = if rng::below(4) == 0 { client.prepare(&text).await.ok() } else { None };
    let result = match &prepared {
        Some(prepared) => client.execute(prepared, &options).await,
        None => client.query(&text, &options).await,
    };
    let fate = match &result {
        Ok(outcome) => Fate::Answered(answer(&operation, outcome).map_err(Violation)?),
        Err(error) => fate_of(error),
    };
    let mut world = world.borrow_mut();
    if let (Fate::Answered(Answer { applied: true, .. }), registers) = (&fate, &mut world.registers) {
        for (register, value) in &operation.writes {
            registers.seen.insert((pk, *register), *value);
        }
    }
    world.answered += 1;
    world.registers.finish(pk, id, fate)?;
    match result {
        Err(CallError::Broken(_)) => Err(Broken::Connection),
        Err(CallError::Failure { code, text: why }) if refuses(code) => {
            Err(Violation(format!("{text} was refused: {code:#06x} {why}")).into())
        }
        _ => Ok(()),
    }
}

/// Reads a partition at SERIAL.
async fn read(client: &mut Client, world: &SharedWorld, pk: i64) -> Result<(), Broken> {
    let id = world.borrow_mut().registers.begin(pk, Operation::default());
    let consistency = if rng::below(2) == 0 { Consistency::Serial } else { Consistency::LocalSerial };
    let options = QueryOptions { consistency, ..QueryOptions::default() };
    let text = format!("SELECT ck, v, st FROM s.registers WHERE pk = {pk}");
    let result = client.query(&text, &options).await;
    let fate = match &result {
        Ok(outcome) => {
            let mut shown: Vec<(usize, Option<i64>)> = (0..=STATIC).map(|register| (register, None)).collect();
            for row in &outcome.rows {
                if let Some(ck) = number(row.first()) {
                    shown[ck as usize].1 = number(row.get(1));
                }
                shown[STATIC].1 = number(row.get(2));
            }
            Fate::Answered(Answer { applied: true, shown })
        }
        // It has no effect.
        Err(_) => Fate::Unknown,
    };
    let mut world = world.borrow_mut();
    world.answered += 1;
    world.reads_checked += 1;
    world.registers.finish(pk, id, fate)?;
    match result {
        Err(CallError::Broken(_)) => Err(Broken::Connection),
        Err(CallError::Failure { code, text: why }) if refuses(code) => {
            Err(Violation(format!("{text} was refused: {code:#06x} {why}")).into())
        }
        _ => Ok(()),
    }
}

/// Reads every partition once; for the moments when no client works.
pub(crate) async fn check_all(client: &mut Client, world: &SharedWorld) -> Result<(), Broken> {
    for pk in 0..PARTITIONS {
        read(client, world, pk).await?;
    }
    Ok(())
}

/// Whether a code says that a statement is wrong.
fn refuses(code: u16) -> bool {
    code >= ErrorCode::Syntax as u16 && code != ErrorCode::Unprepared as u16
}

fn fate_of(error: &CallError) -> Fate {
    match error {
        CallError::Failure { code, .. }
            if refuses(*code)
                || *code == ErrorCode::Overloaded as u16
                || *code == ErrorCode::Unavailable as u16
                || *code == ErrorCode::Unprepared as u16
                || *code == ErrorCode::IsBootstrapping as u16 =>
        {
            Fate::Failed
        }
        _ => Fate::Unknown,
    }
}

fn number(cell: Option<&Option<Vec<u8>>>) -> Option<i64> {
    let bytes = cell?.as_deref()?;
    Some(i64::from_be_bytes(bytes.try_into().ok()?))
}

/// What an answer to a change says of the registers.
fn answer(operation: &Operation, outcome: &Outcome) -> Result<Answer, String> {
    let column = |name: &str| outcome.columns.iter().position(|column| *column.name == *name);
    let applied = match outcome.rows.first().and_then(|row| row.first()) {
        Some(Some(cell)) if column("[applied]") == Some(0) => cell == &[1],
        _ => return Err(format!("{operation:?} gave {outcome:?}")),
    };
    if applied {
        return match outcome.columns.len() {
            1 => Ok(Answer { applied, shown: Vec::new() }),
            _ => Err(format!("{operation:?} was applied and gave {outcome:?}")),
        };
    }
    let at = |name: &str, row: &[Option<Vec<u8>>]| number(row.get(column(name)?));
    let mut shown = Vec::new();
    for (register, _) in &operation.expects {
        let value = match *register {
            // All rows of a partition show its static columns; where they were not asked for they are not read.
            STATIC if outcome.columns.len() == 1 => None,
            STATIC => outcome.rows.first().and_then(|row| at("st", row)),
            // Of one row its key is not shown; of several those that are there are.
            row if column("ck").is_some() => {
                let found = outcome.rows.iter().find(|found| at("ck", found) == Some(row as i64));
                found.and_then(|found| at("v", found))
            }
            _ if outcome.columns.len() == 1 => None,
            _ => outcome.rows.first().and_then(|row| at("v", row)),
        };
        shown.push((*register, value));
    }
    Ok(Answer { applied, shown })
}

/// A random change of a partition: its text and what it does.
fn change(registers: &Registers, pk: i64) -> (String, Operation) {
    let new = registers.written;
    // Mostly what was seen last, so that many are applied.
    let expected = |register: usize| match rng::below(8) {
        0 => None,
        _ => registers.seen.get(&(pk, register)).copied().flatten(),
    };
    let value = |value: Option<i64>| value.map_or("null".to_owned(), |value| value.to_string());
    let row = rng::below(ROWS as u64) as usize;
    let place = |row: usize| format!("pk = {pk} AND ck = {row}");
    let exactly = |register: usize, value| (register, Expected::Value(value));
    match rng::below(10) {
        0..=3 => {
            let from = expected(row);
            let text = format!("UPDATE s.registers SET v = {new} WHERE {} IF v = {}", place(row), value(from));
            (text, Operation { expects: vec![exactly(row, from)], writes: vec![(row, Some(new))] })
        }
        4 => {
            let text = format!("INSERT INTO s.registers (pk, ck, v) VALUES ({pk}, {row}, {new}) IF NOT EXISTS");
            (text, Operation { expects: vec![exactly(row, None)], writes: vec![(row, Some(new))] })
        }
        5 => {
            let text = format!("DELETE FROM s.registers WHERE {} IF EXISTS", place(row));
            (text, Operation { expects: vec![(row, Expected::Some)], writes: vec![(row, None)] })
        }
        6 => {
            let from = expected(STATIC);
            let text = format!("UPDATE s.registers SET st = {new} WHERE pk = {pk} IF st = {}", value(from));
            (text, Operation { expects: vec![exactly(STATIC, from)], writes: vec![(STATIC, Some(new))] })
        }
        7 | 8 => {
            let (first, second) = (expected(0), expected(1));
            let text = format!(
                "BEGIN BATCH UPDATE s.registers SET v = {new} WHERE {} IF v = {}; \
                 UPDATE s.registers SET v = {new} WHERE {} IF v = {}; APPLY BATCH",
                place(0),
                value(first),
                place(1),
                value(second)
            );
            let expects = vec![exactly(0, first), exactly(1, second)];
            (text, Operation { expects, writes: vec![(0, Some(new)), (1, Some(new))] })
        }
        _ => {
            // A condition on a row, and what comes with it without one.
            let from = expected(row);
            let other = 1 - row;
            let text = format!(
                "BEGIN BATCH UPDATE s.registers SET v = {new} WHERE {} IF v = {}; \
                 UPDATE s.registers SET st = {new} WHERE pk = {pk}; DELETE FROM s.registers WHERE {}; APPLY BATCH",
                place(row),
                value(from),
                place(other)
            );
            let writes = vec![(row, Some(new)), (STATIC, Some(new)), (other, None)];
            (text, Operation { expects: vec![exactly(row, from)], writes })
        }
    }
}
