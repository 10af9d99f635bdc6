//! Steps of clients that change registers under conditions and read them at SERIAL.
//!
//! Table `registers (pk, ck, v, st static)`: a partition has a register in each of two rows, and one in its static row.
//! A row exists if and only if its register has a value. Nothing but conditional changes writes to the table.

use super::requests::{self, StepError, cell_number, is_definite, send};
use super::session;
use super::world::{DataCentres, SharedWorld};
use crate::judges::history::Violation;
use crate::judges::linearizable::{Answer, Ending, Expected, Operation, REGISTERS};
use crate::judges::registers::Registers;
use model::{Consistency, ErrorCode};
use runtime::rng;
use server::client::{CallError, Client, Outcome, QueryOptions};
use std::net::SocketAddr;

/// CREATE TABLE of the table.
pub const CREATE: &str = "CREATE TABLE IF NOT EXISTS s.registers (pk bigint, ck bigint, v bigint, st bigint static, \
                          PRIMARY KEY (pk, ck)) WITH gc_grace_seconds = 10";
/// Partition keys in use.
pub(crate) const PARTITIONS: i64 = 4;
/// Most changes of a partition whose end is unknown: each may double the orders that the judge has to follow.
const UNDECIDED_MAX: usize = 6;
/// Longest pause of [`client`] between two steps.
const PAUSE_MICROS_MAX: u64 = 40_000;
/// Steps of [`client`] on one connection, on average.
const STEPS: u64 = 40;
/// How many registers are in rows; the last register is the static column.
const ROWS: usize = 2;
const STATIC: usize = ROWS;

/// Sends requests with pauses between them until the world stops or a rule is broken.
pub async fn client(servers: Vec<SocketAddr>, world: SharedWorld) {
    session::run_briefly(&servers, &world, (STEPS, PAUSE_MICROS_MAX), async |client| step(client, &world).await).await;
}

/// Sends one request, a change or a read.
pub(crate) async fn step(client: &mut Client, world: &SharedWorld) -> Result<(), StepError> {
    let pk = rng::below(PARTITIONS as u64) as i64;
    if rng::below(4) == 0 {
        return read(client, world, pk).await;
    }
    if world.borrow().registers.undecided(pk) >= UNDECIDED_MAX {
        return Ok(());
    }
    let (text, operation) = {
        let registers = &mut world.borrow_mut().registers;
        let value = registers.new_value();
        change(registers, pk, value)
    };
    let id = world.borrow_mut().registers.begin(pk, operation.clone());
    let options = QueryOptions { serial_consistency: Some(level(world)), ..world.borrow().options() };
    let result = send(client, &text, &options, 4).await;
    let ending = match &result {
        Ok(outcome) => Ending::Answered(answer(&operation, outcome).map_err(Violation)?),
        Err(error) => ending_of(error),
    };
    let mut world = world.borrow_mut();
    if matches!(&ending, Ending::Answered(Answer { applied: true, .. })) {
        world.registers.applied(pk, &operation);
    }
    world.answered += 1;
    world.registers.finish(pk, id, ending)?;
    check_answer(&text, result)
}

/// A level of decisions. Those of one data centre do not hold in another.
fn level(world: &SharedWorld) -> Consistency {
    let is_local = rng::below(2) == 1 && world.borrow().replicas.centres == DataCentres::One;
    if is_local { Consistency::LocalSerial } else { Consistency::Serial }
}

/// Reads a partition at SERIAL.
async fn read(client: &mut Client, world: &SharedWorld, pk: i64) -> Result<(), StepError> {
    let id = world.borrow_mut().registers.begin(pk, Operation::default());
    let mut options = QueryOptions { consistency: level(world), ..QueryOptions::default() };
    let mut text = format!("SELECT ck, v, st FROM s.registers WHERE pk = {pk}");
    if rng::below(3) == 0 {
        text = format!("BEGIN TRANSACTION {text}; COMMIT TRANSACTION");
        if rng::below(2) == 0 {
            options.serial_consistency = Some(options.consistency);
            options.consistency = Consistency::One;
        }
    }
    let result = client.query(&text, &options).await;
    let ending = match &result {
        Ok(outcome) => {
            let mut shown: Vec<(usize, Option<i64>)> = (0..=STATIC).map(|register| (register, None)).collect();
            for row in &outcome.rows {
                if let Some(ck) = row.first().and_then(cell_number) {
                    shown[ck as usize].1 = row.get(1).and_then(cell_number);
                }
                shown[STATIC].1 = row.get(2).and_then(cell_number);
            }
            Ending::Answered(Answer { applied: true, shown })
        }
        // A read has no effect, whether it was carried out or not.
        Err(_) => Ending::Unknown,
    };
    let mut world = world.borrow_mut();
    world.answered += 1;
    world.reads_checked += 1;
    world.registers.finish(pk, id, ending)?;
    check_answer(&text, result)
}

/// Judges all changes and reads every partition once, while no client works.
pub(crate) async fn check_all(client: &mut Client, world: &SharedWorld) -> Result<(), StepError> {
    world.borrow_mut().registers.settle()?;
    for pk in 0..PARTITIONS {
        read(client, world, pk).await?;
    }
    Ok(())
}

/// Fails as [`requests::check_answer`] does, but allows UNPREPARED: the schema may have changed since PREPARE.
fn check_answer(text: &str, result: Result<Outcome, CallError>) -> Result<(), StepError> {
    match result {
        Err(CallError::Failure { code, .. }) if code == ErrorCode::Unprepared as u16 => Ok(()),
        result => requests::check_answer(text, result),
    }
}

fn ending_of(error: &CallError) -> Ending {
    match error {
        CallError::Failure { code, .. } if is_definite(*code) || *code >= ErrorCode::Syntax as u16 => Ending::Failed,
        _ => Ending::Unknown,
    }
}

/// What the answer to a change says about the registers.
fn answer(operation: &Operation, outcome: &Outcome) -> Result<Answer, String> {
    let column = |name: &str| outcome.columns.iter().position(|column| *column.name == *name);
    if outcome.columns.first().is_some_and(|column| column.name.contains('.')) {
        return answer_of_transaction(operation, outcome);
    }
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
    let at = |name: &str, row: &[Option<Vec<u8>>]| row.get(column(name)?).and_then(cell_number);
    let mut shown = Vec::new();
    for (register, _) in &operation.expects {
        let value = match *register {
            // Every row of a partition shows its static columns; they are read only if the condition names one.
            STATIC if outcome.columns.len() == 1 => None,
            STATIC => outcome.rows.first().and_then(|row| at("st", row)),
            // A condition on one row shows no key; one on several rows shows the keys of those that exist.
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

/// What the answer to a transaction says, which shows the registers that it looks at in their order.
fn answer_of_transaction(operation: &Operation, outcome: &Outcome) -> Result<Answer, String> {
    let [row] = &outcome.rows[..] else { return Err(format!("{operation:?} gave {outcome:?}")) };
    let shown = operation.expects.iter().zip(row);
    let shown: Vec<_> = shown.map(|((register, _), cell)| (*register, cell_number(cell))).collect();
    let mut tests = operation.expects.iter().zip(&shown);
    let applied = tests.all(|((_, expected), (_, value))| match expected {
        Expected::Value(expected) => value == expected,
        Expected::Some => value.is_some(),
    });
    Ok(Answer { applied, shown })
}

/// A random transaction that looks at two registers and writes the value `new` to one of them: as it is, or as what
/// must be added to the value before.
fn transaction(registers: &Registers, pk: i64, new: i64, place: impl Fn(usize) -> String) -> (String, Operation) {
    let reads = format!(
        "LET r0 = (SELECT * FROM s.registers WHERE {}); LET r1 = (SELECT v FROM s.registers WHERE {}); \
         LET r2 = (SELECT st FROM s.registers WHERE pk = {pk} LIMIT 1); ",
        place(0),
        place(1)
    );
    let column = |register: usize| if register == STATIC { "r2.st".to_owned() } else { format!("r{register}.v") };
    let seen = |register: usize| registers.last_seen(pk, register);
    let first = rng::below(REGISTERS as u64) as usize;
    let second = (first + 1 + rng::below(2) as usize) % REGISTERS;
    let test = |register: usize| match seen(register) {
        None => (format!("{} IS NULL", column(register)), Expected::Value(None)),
        Some(_) if rng::below(4) == 0 => (format!("{} IS NOT NULL", column(register)), Expected::Some),
        Some(value) => (format!("{} = {value}", column(register)), Expected::Value(Some(value))),
    };
    let (one, expects_one) = test(first);
    let (other, expects_other) = test(second);
    // A sum that is known can be judged like a value that is set.
    let assigned = match expects_other {
        Expected::Value(Some(value)) if rng::below(2) == 0 => format!("+= {}", new - value),
        _ => format!("= {new}"),
    };
    let mut changes = match second {
        STATIC => format!("UPDATE s.registers SET st {assigned} WHERE pk = {pk}; "),
        row => format!("UPDATE s.registers SET v {assigned} WHERE {}; ", place(row)),
    };
    let mut writes = vec![(second, Some(new))];
    if first != STATIC {
        changes.push_str(&format!("DELETE FROM s.registers WHERE {}; ", place(first)));
        writes.push((first, None));
    }
    let text = format!(
        "BEGIN TRANSACTION {reads}SELECT {}, {}; IF {one} AND {other} THEN {changes}END IF COMMIT TRANSACTION",
        column(first),
        column(second)
    );
    (text, Operation { expects: vec![(first, expects_one), (second, expects_other)], writes })
}

/// A random change of a partition that writes the value `new`: its CQL text, and what it does to the registers.
fn change(registers: &Registers, pk: i64, new: i64) -> (String, Operation) {
    // Conditions mostly name the value that was seen last, so that many changes are applied.
    let expected = |register: usize| match rng::below(8) {
        0 => None,
        _ => registers.last_seen(pk, register),
    };
    let value = |value: Option<i64>| value.map_or("null".to_owned(), |value| value.to_string());
    let row = rng::below(ROWS as u64) as usize;
    let place = |row: usize| format!("pk = {pk} AND ck = {row}");
    let exactly = |register: usize, value| (register, Expected::Value(value));
    match rng::below(14) {
        10..=13 => transaction(registers, pk, new, place),
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
            // The condition on one row also decides about the static column and the other row.
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
