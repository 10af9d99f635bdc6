//! Counters under crashes: clients that count, and what a counter may then show.
//!
//! 1. Increments and decrements, in batches too, have an amount for each counter that they change. The answer tells
//!    their fate, as of other writes.
//! 2. A read shows the sum of what was acknowledged before it began, and of any of what was under way, or unknown.
//! 3. After a restart what was under way is unknown. The first look at everything then settles it: from there on the
//!    values read are the base, exactly.
//!
//! Invariants: no counter shows an amount twice, a part of one, or less than was acknowledged.

use crate::judges::history::{Fate, STATIC, Span, Violation};
use crate::workload::client::{Broken, SharedWorld, fate_of};
use runtime::rng;
use server::client::{CallError, Client, QueryOptions};
use std::collections::{BTreeMap, BTreeSet};

/// Partitions of the table.
const PARTITIONS: i64 = 3;
/// Rows of a partition.
const ROWS: i64 = 2;
/// Amounts are below.
const AMOUNT_MAX: u64 = 1_000_000;
/// Most statements of one batch.
const STATEMENTS_MAX: u64 = 3;
/// With more unknown changes of one counter its value must only lie within their bounds.
const UNKNOWN_MAX: usize = 12;

const TABLE: &str = "s.counted";
const COLUMNS: [&str; 3] = ["s", "a", "b"];

/// A counter: partition, clustering ([`STATIC`] for the static one) and column.
type Place = (i64, i64, &'static str);

struct Change {
    amounts: BTreeMap<Place, i64>,
    fate: Fate,
    started: u64,
    ended: u64,
}

/// What was counted.
#[derive(Default)]
pub struct Counters {
    base: BTreeMap<Place, i64>,
    changes: BTreeMap<u64, Change>,
    next: u64,
    /// When the node last served again, until everything was looked at.
    restarted: Option<u64>,
}

impl Counters {
    fn begin(&mut self, amounts: BTreeMap<Place, i64>, now: u64) -> u64 {
        self.next += 1;
        self.changes.insert(self.next, Change { amounts, fate: Fate::InFlight, started: now, ended: u64::MAX });
        self.next
    }

    fn finish(&mut self, id: u64, fate: Fate, now: u64) {
        // Settled meanwhile if it is gone.
        if let Some(change) = self.changes.get_mut(&id) {
            (change.fate, change.ended) = (fate, now);
        }
    }

    /// The node serves again. See [`crate::judges::history::History::restarted`].
    pub fn restarted(&mut self, now: u64, may_lose_since: Option<u64>) {
        self.restarted = Some(now);
        for change in self.changes.values_mut() {
            let lost = may_lose_since.is_some_and(|since| change.ended >= since);
            if change.fate == Fate::InFlight || change.fate == Fate::Acknowledged && lost {
                change.fate = Fate::Unknown;
            }
        }
    }

    fn check(&self, place: Place, value: i64, (started, ended): Span) -> Result<(), Violation> {
        let mut sure = self.base.get(&place).copied().unwrap_or_default();
        let mut unknown = Vec::new();
        for change in self.changes.values() {
            let Some(amount) = change.amounts.get(&place) else { continue };
            match change.fate {
                Fate::Failed => {}
                Fate::Acknowledged if change.ended <= started => sure += amount,
                _ if change.started > ended => {}
                _ => unknown.push(*amount),
            }
        }
        let allowed = if unknown.len() > UNKNOWN_MAX {
            let (below, above): (Vec<i64>, Vec<i64>) = unknown.iter().partition(|amount| **amount < 0);
            (sure + below.iter().sum::<i64>()..=sure + above.iter().sum::<i64>()).contains(&value)
        } else {
            let mut sums = BTreeSet::from([sure]);
            for amount in &unknown {
                let more: Vec<i64> = sums.iter().map(|sum| sum + amount).collect();
                sums.extend(more);
            }
            sums.contains(&value)
        };
        if allowed {
            return Ok(());
        }
        Err(Violation(format!(
            "counter {place:?} read {value} at {started}..{ended}: {sure}, perhaps with {unknown:?}"
        )))
    }

    /// Takes what was read with no client at work for the truth, after a restart.
    fn settle(&mut self, values: BTreeMap<Place, i64>) {
        if let Some(restarted) = self.restarted.take() {
            self.base = values;
            // What began after the restart may still be under way on the node.
            self.changes.retain(|_, change| {
                change.started >= restarted && matches!(change.fate, Fate::InFlight | Fate::Unknown)
            });
        }
    }
}

/// Creates the table if it is missing.
pub(crate) async fn create(client: &mut Client) -> Result<(), CallError> {
    let text = format!(
        "CREATE TABLE IF NOT EXISTS {TABLE} (pk bigint, ck bigint, s counter static, a counter, b counter, \
         PRIMARY KEY (pk, ck))"
    );
    client.query(&text, &QueryOptions::default()).await.map(drop)
}

/// Counts, or looks at what was counted.
pub(crate) async fn step(client: &mut Client, world: &SharedWorld) -> Result<(), Broken> {
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
    let prepared = if rng::below(4) == 0 { client.prepare(&text).await.ok() } else { None };
    let result = match &prepared {
        Some(prepared) => client.execute(prepared, &QueryOptions::default()).await,
        None => client.query(&text, &QueryOptions::default()).await,
    };
    let mut world = world.borrow_mut();
    world.answered += 1;
    world.counters.finish(id, fate_of(&result), runtime::now().0);
    match result {
        Err(CallError::Broken(_)) => Err(Broken::Connection),
        Err(CallError::Failure { code, text: why }) if code >= model::ErrorCode::Syntax as u16 => {
            Err(Violation(format!("{text} was refused: {code:#06x} {why}")).into())
        }
        _ => Ok(()),
    }
}

/// An UPDATE of some counters; what it changes comes to `amounts`.
fn update(amounts: &mut BTreeMap<Place, i64>) -> String {
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

/// Reads and checks the counters of a partition.
async fn read(client: &mut Client, world: &SharedWorld, pk: i64) -> Result<BTreeMap<Place, i64>, Broken> {
    let started = runtime::now().0;
    let text = format!("SELECT ck, s, a, b FROM {TABLE} WHERE pk = {pk}");
    let outcome = match client.query(&text, &QueryOptions::default()).await {
        Ok(outcome) => outcome,
        Err(CallError::Broken(_)) => return Err(Broken::Connection),
        Err(CallError::Failure { code, text: why }) if code >= model::ErrorCode::Syntax as u16 => {
            return Err(Violation(format!("{text} was refused: {code:#06x} {why}")).into());
        }
        Err(CallError::Failure { .. }) => return Ok(BTreeMap::new()),
    };
    let rows = (0..ROWS).flat_map(|ck| [((pk, ck, "a"), 0), ((pk, ck, "b"), 0)]);
    let mut values: BTreeMap<Place, i64> = rows.chain([((pk, STATIC, "s"), 0)]).collect();
    let number = |cell: &Option<Vec<u8>>| Some(i64::from_be_bytes(cell.as_deref()?.try_into().ok()?));
    for row in &outcome.rows {
        let [ck, s, a, b] = &row[..] else { continue };
        values.insert((pk, STATIC, "s"), number(s).unwrap_or_default());
        if let Some(ck) = number(ck) {
            values.insert((pk, ck, "a"), number(a).unwrap_or_default());
            values.insert((pk, ck, "b"), number(b).unwrap_or_default());
        }
    }
    let mut world = world.borrow_mut();
    world.reads_checked += 1;
    let span = (started, runtime::now().0);
    values.iter().try_for_each(|(place, value)| world.counters.check(*place, *value, span))?;
    Ok(values)
}

/// Checks every counter; for the moments when no client works.
pub(crate) async fn check_all(client: &mut Client, world: &SharedWorld) -> Result<(), Broken> {
    let mut values = BTreeMap::new();
    for pk in 0..PARTITIONS {
        let mut found = read(client, world, pk).await?;
        if found.is_empty() {
            return Err(Broken::Connection);
        }
        values.append(&mut found);
    }
    world.borrow_mut().counters.settle(values);
    Ok(())
}
