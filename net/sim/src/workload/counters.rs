//! Steps of clients that use counters: they increment and decrement several counters at once, also in batches, and read
//! whole partitions.

use super::requests::{StepError, cell_number, check_answer, fate_of, send};
use super::world::SharedWorld;
use crate::judges::counters::CounterKey;
use crate::judges::history::{STATIC, Violation};
use runtime::rng;
use server::client::{CallError, Client, QueryOptions};
use std::collections::BTreeMap;

/// How many partitions the table has.
pub(crate) const PARTITIONS: i64 = 3;
/// How many rows a partition has.
const ROWS: i64 = 2;
/// Amounts of changes are below this.
const AMOUNT_MAX: u64 = 1_000_000;
/// Most statements of one batch.
const STATEMENTS_MAX: u64 = 3;

const TABLE: &str = "s.counted";
const COLUMNS: [&str; 3] = ["s", "a", "b"];

/// Creates the table if it is missing.
pub(crate) async fn create(client: &mut Client) -> Result<(), CallError> {
    let text = format!(
        "CREATE TABLE IF NOT EXISTS {TABLE} (pk bigint, ck bigint, s counter static, a counter, b counter, \
         PRIMARY KEY (pk, ck))"
    );
    client.query(&text, &QueryOptions::default()).await.map(drop)
}

/// Changes some counters, or reads all counters of a partition.
pub(crate) async fn step(client: &mut Client, world: &SharedWorld) -> Result<(), StepError> {
    if rng::below(3) == 0 {
        return read(client, world, rng::below(PARTITIONS as u64) as i64).await.map(drop);
    }
    let mut amounts = BTreeMap::new();
    let mut texts = Vec::new();
    for _ in 0..1 + rng::below(STATEMENTS_MAX) * rng::below(2) {
        texts.push(update(&mut amounts));
    }
    let text = match &texts[..] {
        [text] => text.clone(),
        several => {
            let kind = if rng::below(2) == 0 { "COUNTER" } else { "UNLOGGED" };
            format!("BEGIN {kind} BATCH {}; APPLY BATCH", several.join("; "))
        }
    };
    let id = world.borrow_mut().counters.begin(amounts, runtime::now().0);
    let options = world.borrow().options();
    let result = send(client, &text, &options, 4).await;
    let mut world = world.borrow_mut();
    world.answered += 1;
    world.counters.finish(id, fate_of(&result), runtime::now().0);
    check_answer(&text, result)
}

/// A random UPDATE of some counters of one row. Adds its increments and decrements to `amounts`.
fn update(amounts: &mut BTreeMap<CounterKey, i64>) -> String {
    let (pk, ck) = (rng::below(PARTITIONS as u64) as i64, rng::below(ROWS as u64) as i64);
    let mut set = Vec::new();
    let first = rng::below(COLUMNS.len() as u64) as usize;
    for column in &COLUMNS[first..] {
        let amount = 1 + rng::below(AMOUNT_MAX) as i64;
        let adds = rng::below(2) == 0;
        let row = if *column == "s" { STATIC } else { ck };
        *amounts.entry((pk, row, *column)).or_default() += if adds { amount } else { -amount };
        set.push(format!("{column} {} {amount}", if adds { "+=" } else { "-=" }));
    }
    format!("UPDATE {TABLE} SET {} WHERE pk = {pk} AND ck = {ck}", set.join(", "))
}

/// Reads and checks the counters of a partition. Returns no values if the read was refused for a reason that may pass.
async fn read(client: &mut Client, world: &SharedWorld, pk: i64) -> Result<BTreeMap<CounterKey, i64>, StepError> {
    let started = runtime::now().0;
    let text = format!("SELECT ck, s, a, b FROM {TABLE} WHERE pk = {pk}");
    let options = world.borrow().options();
    let outcome = match client.query(&text, &options).await {
        Ok(outcome) => outcome,
        Err(CallError::Broken(_)) => return Err(StepError::Disconnected),
        Err(CallError::Failure { code, text: why, .. }) if code >= model::ErrorCode::Syntax as u16 => {
            return Err(Violation(format!("{text} was refused: {code:#06x} {why}")).into());
        }
        Err(CallError::Failure { .. }) => return Ok(BTreeMap::new()),
    };
    let rows = (0..ROWS).flat_map(|ck| [((pk, ck, "a"), 0), ((pk, ck, "b"), 0)]);
    let mut values: BTreeMap<CounterKey, i64> = rows.chain([((pk, STATIC, "s"), 0)]).collect();
    for row in &outcome.rows {
        let [ck, s, a, b] = &row[..] else { continue };
        values.insert((pk, STATIC, "s"), cell_number(s).unwrap_or_default());
        if let Some(ck) = cell_number(ck) {
            values.insert((pk, ck, "a"), cell_number(a).unwrap_or_default());
            values.insert((pk, ck, "b"), cell_number(b).unwrap_or_default());
        }
    }
    let mut world = world.borrow_mut();
    world.reads_checked += 1;
    let span = (started, runtime::now().0);
    values.iter().try_for_each(|(place, value)| world.counters.check(*place, *value, span))?;
    Ok(values)
}

/// Reads and checks every counter while no client works.
pub(crate) async fn check_all(client: &mut Client, world: &SharedWorld) -> Result<(), StepError> {
    let mut values = BTreeMap::new();
    for pk in 0..PARTITIONS {
        let mut found = read(client, world, pk).await?;
        if found.is_empty() {
            return Err(StepError::Disconnected);
        }
        values.append(&mut found);
    }
    world.borrow_mut().counters.settle(values);
    Ok(())
}
