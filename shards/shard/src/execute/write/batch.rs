//! BATCH messages and BEGIN ... APPLY BATCH.
//!
//! All statements have one timestamp unless they state their own. Changes of one partition become one mutation, applied
//! atomically and in isolation; a logged batch over several partitions goes through the batch log.

use super::batch_locks::{Later, Tickets, lock_and_build, unlock};
use super::list_changes;
use crate::coordinator::batch_log::write_logged;
use crate::coordinator::sub_partitions::pin;
use crate::coordinator::throttle::{Bill, admit_write};
use crate::coordinator::write::{PlannedWrite, plan, write};
use crate::execute::values::binding::{Values, wrong_count_in_batch};
use crate::execute::values::json;
use crate::execute::values::keys::Keys;
use crate::execute::values::timeout::timeout_of;
use crate::execute::write::mutations::Mutations;
use crate::execute::{access, bill, conditional, guardrail_checks};
use crate::guards::batches::BatchThresholds;
use crate::messages::data::{ListChange, WriteTimes};
use crate::operations::stored_bytes;
use crate::planning::{ParseTrace, plan_text, prepared};
use crate::request::{AckTerms, Answer, Response, Session};
use crate::shard_state::Shard;
use crate::statements::Statement;
use cluster::consistency::{check_batch, check_reading_write};
use cluster::placement::TablePlacement;
use cluster::plan::WriteType;
use cql::java_order::{in_hash_order, string_hash};
use cql::plan::{Batch, Modify, Plan, check_kinds, check_virtual};
use model::{BatchEntry, BatchKind, BatchStatement, Consistency, Failure, QueryParameters};
use std::rc::Rc;
use std::time::Duration;

/// Runs a BATCH message.
pub(crate) async fn message(
    shard: &Shard,
    session: &Session,
    kind: BatchKind,
    entries: &[BatchEntry<'_>],
    parameters: &QueryParameters<'_>,
) -> Result<Answer, Failure> {
    shard.trace_batch(parameters);
    let mut statements: Vec<Rc<Statement>> = Vec::with_capacity(entries.len());
    for entry in entries {
        let statement = match entry.statement {
            BatchStatement::Text(text) => plan_text(shard, session, text, parameters.keyspace, ParseTrace::Hidden)?,
            BatchStatement::Id(id) => prepared::find(shard, id).await?,
        };
        if !matches!(statement.prepared.plan, Plan::Modify(_)) {
            return Err(Failure::invalid(
                "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.",
            ));
        }
        let markers = statement.prepared.markers.len();
        if markers != entry.values.len() {
            return Err(Failure::invalid(wrong_count_in_batch(markers, entry.values.len())));
        }
        statements.push(statement);
    }
    for statement in &statements {
        access::check::check(shard, session, statement).await?;
    }
    let when = WriteTimes::of(shard, None, &Values::in_order(&[]), parameters)?;
    if entries.is_empty() {
        return Ok(nothing());
    }
    let parts = statements.iter().zip(entries).filter_map(|(statement, entry)| match &statement.prepared.plan {
        Plan::Modify(modify) => Some((modify, Values::in_order(&entry.values))),
        _ => None,
    });
    let plans = || parts.clone().map(|(modify, _)| modify);
    check_kinds(kind, false, plans())?;
    check_virtual(kind, plans())?;
    let conditional = |statement: &Rc<Statement>| match &statement.prepared.plan {
        Plan::Modify(modify) => modify.is_conditional(),
        _ => false,
    };
    let mut told = Vec::new();
    if shard.has_guardrails() {
        for (modify, values) in parts.clone() {
            guardrail_checks::write(shard, modify, &values, parameters, &mut told)?;
        }
    }
    let plans_of = statements.iter().map(|statement| &statement.prepared.plan);
    let bill = bill(shard, session, plans_of, parameters);
    if bill.is_some() {
        statements.iter().try_for_each(|statement| stored_bytes::check(shard, &statement.prepared.plan))?;
    }
    if statements.iter().any(conditional) {
        let values: Vec<Values<'_>> = entries.iter().map(|entry| Values::in_order(&entry.values)).collect();
        let modifies =
            statements.iter().zip(&values).filter_map(|(statement, values)| match &statement.prepared.plan {
                Plan::Modify(modify) => Some((modify, values)),
                _ => None,
            });
        let modifies: Vec<(&Modify, &Values<'_>)> = modifies.collect();
        let timeout = shard.request_timeouts().write;
        let answer = Box::pin(conditional::several(shard, &modifies, parameters, timeout, bill.as_ref())).await?;
        told.extend(answer.warnings);
        return Ok(Answer { warnings: told, ..answer });
    }
    let timeout = timeout_by_default(shard, plans());
    let mut building = Building::new(kind, bill);
    for (modify, values) in parts.clone() {
        if let Err(failure) = building.add(shard, modify, &values, parameters, when) {
            return Err(first_failure(shard, parts.clone(), building, failure).await);
        }
    }
    let answer = building.write(shard, timeout).await?;
    told.extend(answer.warnings);
    Ok(Answer { warnings: told, ..answer })
}

/// The failure that Cassandra reports for a batch when `failure` occurred in the statement after those of `building`:
/// it checks the keys of all statements first, then runs one statement after another, and those that read may fail
/// earlier.
async fn first_failure<'m>(
    shard: &Shard,
    parts: impl Iterator<Item = (&'m Modify, Values<'m>)>,
    building: Building,
    failure: Failure,
) -> Failure {
    if let Some(of_key) = failure_of_keys(shard, parts) {
        return of_key;
    }
    if building.later.is_empty() {
        return failure;
    }
    // Locks must be released even if the client's request is dropped.
    let shard = shard.clone();
    let found = runtime::spawn(async move { building.check(&shard).await }).await;
    found.err().unwrap_or(failure)
}

/// The first failure of a key among all statements of a batch.
fn failure_of_keys<'m>(shard: &Shard, parts: impl Iterator<Item = (&'m Modify, Values<'m>)>) -> Option<Failure> {
    parts.into_iter().find_map(|(modify, values)| check_keys(shard, modify, &values).err())
}

fn check_keys(shard: &Shard, modify: &Modify, values: &Values<'_>) -> Result<(), Failure> {
    let Some(json) = &modify.json else {
        return Keys::of(shard, &modify.table, &modify.keys, values).map(|_| ());
    };
    let parts = json::values(&modify.table, json, values)?;
    let bound = json::bound(values, &parts);
    Keys::of(shard, &modify.table, &modify.keys, &Values::in_order(&bound)).map(|_| ())
}

/// The answer to a batch without statements, of any kind.
fn nothing() -> Answer {
    Answer { response: Response::Void, warnings: Vec::new(), charge: None, tablet: None }
}

/// Runs a BEGIN BATCH statement.
pub(crate) async fn statement(
    shard: &Shard,
    statement: &Statement,
    batch: &Batch,
    values: &Values<'_>,
    parameters: &QueryParameters<'_>,
    bill: Option<&Rc<Bill>>,
) -> Result<Answer, Failure> {
    let timeout = timeout_by_default(shard, batch.statements.iter());
    let timeout = timeout_of(shard, &statement.prepared, values, timeout)?;
    let when = WriteTimes::of(shard, batch.timestamp.as_ref(), values, parameters)?;
    if batch.statements.is_empty() {
        return Ok(nothing());
    }
    let mut building = Building::new(batch.kind, bill.cloned());
    for modify in &batch.statements {
        if let Err(failure) = building.add(shard, modify, values, parameters, when) {
            let parts = batch.statements.iter().map(|modify| (modify, Values::in_order(&values.bound)));
            return Err(first_failure(shard, parts, building, failure).await);
        }
    }
    building.write(shard, timeout).await
}

/// How long a batch of these statements may take if it has no USING TIMEOUT.
fn timeout_by_default<'m>(shard: &Shard, mut statements: impl Iterator<Item = &'m Modify>) -> Duration {
    let timeouts = shard.request_timeouts();
    match statements.any(|modify| modify.table.is_counter()) {
        true => timeouts.counter_write,
        false => timeouts.write,
    }
}

/// Applies the changes that one statement makes after reading, in several partitions: all or none of them.
pub(super) async fn write_together(
    shard: &Shard,
    readings: Vec<ListChange>,
    terms: &AckTerms,
    bill: Option<&Rc<Bill>>,
) -> Result<(), Failure> {
    if readings.is_empty() {
        return Ok(());
    }
    let later = readings.into_iter().map(Later::Reading).collect();
    let building = Building {
        kind: None,
        mutations: Mutations::of_batch(),
        later,
        level: Some(terms.consistency),
        tables: Vec::new(),
        bill: bill.cloned(),
        readings: 0,
        pinned: Vec::new(),
    };
    building.write(shard, terms.timeout).await.map(|_| ())
}

/// A batch under construction, or one statement that reads in several partitions.
struct Building {
    /// `None` for a single statement.
    kind: Option<BatchKind>,
    mutations: Mutations,
    /// Changes of lists and the statements after them; they are added to `mutations` when the lists were read.
    later: Vec<Later>,
    /// The consistency level, as soon as there is a statement.
    level: Option<Consistency>,
    tables: Vec<String>,
    bill: Option<Rc<Bill>>,
    /// How many partitions were read.
    readings: u64,
    /// See [`pin`].
    pinned: Vec<Rc<TablePlacement>>,
}

impl Building {
    fn new(kind: BatchKind, bill: Option<Rc<Bill>>) -> Building {
        Building {
            kind: Some(kind),
            mutations: Mutations::of_batch(),
            later: Vec::new(),
            level: None,
            tables: Vec::new(),
            bill,
            readings: 0,
            pinned: Vec::new(),
        }
    }

    fn add(
        &mut self,
        shard: &Shard,
        modify: &Modify,
        values: &Values<'_>,
        parameters: &QueryParameters<'_>,
        when: WriteTimes,
    ) -> Result<(), Failure> {
        let level = parameters.consistency;
        check_batch(level)?;
        self.level = Some(level);
        let name = modify.table.full_name();
        if !self.tables.contains(&name) {
            self.tables.push(name);
            self.pinned.extend(pin(shard, &modify.table)?);
        }
        let when = match &modify.timestamp {
            Some(_) => WriteTimes::of(shard, modify.timestamp.as_ref(), values, parameters)?,
            None => when,
        };
        if modify.reads() {
            check_reading_write(level)?;
            let keys = list_changes::keys_of(shard, modify, values)?;
            let change = |key| Later::Reading(ListChange::new(modify, values, key, when));
            self.later.extend(keys.iter().map(change));
            return Ok(());
        }
        if !self.later.is_empty() {
            check_keys(shard, modify, values)?;
            self.later.push(Later::plain(modify, values, when));
            return Ok(());
        }
        self.mutations.add(shard, modify, values, when)
    }

    async fn write(self, shard: &Shard, timeout: Duration) -> Result<Answer, Failure> {
        let Some(mut plan) = self.plan_readings(shard, timeout)? else { return self.send(shard, timeout).await };
        let mut running = Box::pin(self.write_locked(shard.clone(), timeout));
        match runtime::timeout(timeout, running.as_mut()).await {
            Some(result) => result,
            None => {
                // Locks must be released, so the write goes on without its client.
                runtime::spawn(running);
                Err(plan.plan.expired())
            }
        }
    }

    /// The plan of the first change that depends on what is stored, if there is one. Fails if any of them cannot be
    /// written: before locks are taken.
    fn plan_readings(&self, shard: &Shard, timeout: Duration) -> Result<Option<PlannedWrite>, Failure> {
        let write_type = match self.kind {
            Some(BatchKind::Logged) => WriteType::Batch,
            Some(BatchKind::Unlogged | BatchKind::Counter) => WriteType::UnloggedBatch,
            None => WriteType::Simple,
        };
        let mut first = None;
        for later in &self.later {
            if let (Later::Reading(change), Some(consistency)) = (later, self.level) {
                let terms = AckTerms { consistency, timeout };
                let key = change.key(shard.partitioner());
                let plan = plan(shard, change.table(), (key.token, &key.key), write_type, &terms)?;
                first.get_or_insert(plan);
            }
        }
        Ok(first)
    }

    /// Locks, reads, writes and unlocks. Must be polled to its end.
    async fn write_locked(mut self, shard: Shard, timeout: Duration) -> Result<Answer, Failure> {
        let (later, level) = (std::mem::take(&mut self.later), self.level.unwrap_or(Consistency::One));
        self.readings = later.iter().filter(|later| matches!(later, Later::Reading(_))).count() as u64;
        let mut tickets = Tickets::new();
        let result = match lock_and_build(&shard, &later, level, &mut self.mutations, &mut tickets).await {
            Ok(()) => self.send(&shard, timeout).await,
            Err(failure) => Err(failure),
        };
        unlock(&shard, tickets).await?;
        result
    }

    /// Fails if the mutations cannot be built from the current lists; writes nothing. Must be polled to its end.
    async fn check(mut self, shard: &Shard) -> Result<(), Failure> {
        let (later, level) = (std::mem::take(&mut self.later), self.level.unwrap_or(Consistency::One));
        let mut tickets = Tickets::new();
        let built = lock_and_build(shard, &later, level, &mut self.mutations, &mut tickets).await;
        unlock(shard, tickets).await?;
        built
    }

    /// Writes the mutations.
    async fn send(self, shard: &Shard, timeout: Duration) -> Result<Answer, Failure> {
        let Building { kind, mutations, later: _, level, tables, bill, readings, pinned: _pinned } = self;
        let (partitions, bytes) = (mutations.partitions(), mutations.bytes());
        let mut warnings = Vec::new();
        let BatchThresholds { bytes_warn, bytes_max, unlogged_partitions_warn } = shard.config().batches;
        let names = in_hash_order(tables.iter().map(String::as_str), |name| string_hash(name)).join(", ");
        if kind.is_some() && partitions > 1 {
            if bytes > bytes_max {
                return Err(Failure::invalid("Batch too large"));
            }
            if bytes > bytes_warn {
                warnings.push(format!(
                    "Batch for [{names}] is of size {bytes}, exceeding specified threshold of {bytes_warn} by {}.",
                    bytes - bytes_warn
                ));
            }
        }
        match kind {
            Some(BatchKind::Unlogged | BatchKind::Counter) if partitions > unlogged_partitions_warn => warnings.push(format!(
                "Unlogged batch covering {partitions} partitions detected against table{} [{names}]. You should use a \
                 logged batch for atomicity, or asynchronous writes for performance.",
                if tables.len() == 1 { "" } else { "s" }
            )),
            Some(BatchKind::Logged | BatchKind::Unlogged | BatchKind::Counter) | None => {}
        }
        let metrics = shard.metrics();
        let histogram = match kind {
            Some(BatchKind::Logged) => Some(&metrics.logged_batches),
            Some(BatchKind::Unlogged) => Some(&metrics.unlogged_batches),
            Some(BatchKind::Counter) => Some(&metrics.counter_batches),
            None => None,
        };
        if let Some(histogram) = histogram {
            histogram.record(partitions as u64, runtime::now());
        }
        if let Some(consistency) = level {
            let (mutations, terms) = (mutations.finish()?, AckTerms { consistency, timeout });
            let is_logged = kind == Some(BatchKind::Logged) && mutations.len() > 1;
            if let Some(bill) = &bill {
                admit_write(shard, bill, &mutations, readings, consistency, is_logged).await?;
            }
            match is_logged {
                true => write_logged(shard, mutations, &terms).await?,
                false => write(shard, mutations, &terms).await?,
            }
        }
        let charge = bill.and_then(|bill| bill.told());
        Ok(Answer { response: Response::Void, warnings, charge, tablet: None })
    }
}
