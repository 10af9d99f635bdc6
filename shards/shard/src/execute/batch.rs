//! BATCH messages and BEGIN ... APPLY BATCH.
//!
//! All statements have one timestamp unless they bring their own. Changes of one partition become one mutation, applied
//! atomically and in isolation; a logged batch over several partitions goes through the batch log.

use super::binding::{Values, wrong_count_in_batch};
use super::modify::{Mutations, When};
use super::prepared::{self, Statement};
use super::{Told, plan_text, timeout_of};
use crate::coordinator::batch_log::write_logged;
use crate::coordinator::write::write;
use crate::coordinator::{Terms, write_terms};
use crate::{Answer, BatchEntry, BatchKind, BatchStatement, Parameters, Response, Session, Shard};
use cql::plan::{Batch, Modify, Plan};
use model::Failure;
use std::rc::Rc;

/// `batch_size_warn_threshold`, bytes.
pub(crate) const BATCH_BYTES_WARN: usize = 5 << 10;
/// `batch_size_fail_threshold`, bytes.
pub(crate) const BATCH_BYTES_MAX: usize = 50 << 10;
/// `unlogged_batch_across_partitions_warn_threshold`.
pub(crate) const UNLOGGED_PARTITIONS_WARN: usize = 10;

/// A BATCH message.
pub(crate) async fn message(
    shard: &Shard,
    session: &Session,
    kind: BatchKind,
    entries: &[BatchEntry<'_>],
    parameters: &Parameters<'_>,
) -> Result<Answer, Failure> {
    shard.trace_batch(parameters);
    let mut statements: Vec<Rc<Statement>> = Vec::with_capacity(entries.len());
    for entry in entries {
        let statement = match entry.statement {
            BatchStatement::Text(text) => plan_text(shard, session, text, parameters.keyspace, Told::ToNobody)?,
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
    let when = When::of(shard, None, &Values::in_order(&[]), parameters)?;
    let mut building = Building::new(kind)?;
    for (statement, entry) in statements.iter().zip(entries) {
        let Plan::Modify(modify) = &statement.prepared.plan else { continue };
        building.add(shard, modify, &Values::in_order(&entry.values), parameters, when)?;
    }
    building.write(shard, shard.config().write_timeout).await
}

/// A BEGIN BATCH statement.
pub(crate) async fn statement(
    shard: &Shard,
    statement: &Statement,
    batch: &Batch,
    values: &Values<'_>,
    parameters: &Parameters<'_>,
) -> Result<Answer, Failure> {
    let timeout = timeout_of(shard, &statement.prepared, values, shard.config().write_timeout)?;
    let when = When::of(shard, batch.timestamp.as_ref(), values, parameters)?;
    let mut building = Building::new(batch.kind)?;
    for modify in &batch.statements {
        building.add(shard, modify, values, parameters, when)?;
    }
    building.write(shard, timeout).await
}

struct Building {
    kind: BatchKind,
    mutations: Mutations,
    terms: Option<Terms>,
    tables: Vec<String>,
}

impl Building {
    fn new(kind: BatchKind) -> Result<Building, Failure> {
        if kind == BatchKind::Counter {
            return Err(Failure::invalid("Cannot include non-counter statement in a counter batch"));
        }
        Ok(Building { kind, mutations: Mutations::of_batch(), terms: None, tables: Vec::new() })
    }

    fn add(
        &mut self,
        shard: &Shard,
        modify: &Modify,
        values: &Values<'_>,
        parameters: &Parameters<'_>,
        when: When,
    ) -> Result<(), Failure> {
        if modify.reads() {
            return Err(Failure::invalid(
                "Helenus does not support changes of lists by index or value inside of batches yet",
            ));
        }
        let timeout = shard.config().write_timeout;
        let (local, terms) = write_terms(shard, &modify.table, parameters.consistency, timeout)?;
        let strictest = self.terms.is_none_or(|other| other.block_for < terms.block_for);
        if strictest {
            self.terms = Some(terms);
        }
        let name = modify.table.full_name();
        if !self.tables.contains(&name) {
            self.tables.push(name);
        }
        let when = match &modify.timestamp {
            Some(_) => When::of(shard, modify.timestamp.as_ref(), values, parameters)?,
            None => when,
        };
        self.mutations.add(shard, modify, values, local, when)
    }

    async fn write(self, shard: &Shard, timeout: std::time::Duration) -> Result<Answer, Failure> {
        let Building { kind, mutations, terms, tables } = self;
        let (partitions, bytes) = (mutations.partitions(), mutations.bytes());
        let mut warnings = Vec::new();
        let names = tables.join(", ");
        if partitions > 1 {
            if bytes > BATCH_BYTES_MAX {
                return Err(Failure::invalid("Batch too large"));
            }
            if bytes > BATCH_BYTES_WARN {
                warnings.push(format!(
                    "Batch for [{names}] is of size {bytes}, exceeding specified threshold of {BATCH_BYTES_WARN} by {}.",
                    bytes - BATCH_BYTES_WARN
                ));
            }
        }
        match kind {
            BatchKind::Unlogged if partitions > UNLOGGED_PARTITIONS_WARN => warnings.push(format!(
                "Unlogged batch covering {partitions} partitions detected against table{} [{names}]. You should use a \
                 logged batch for atomicity, or asynchronous writes for performance.",
                if tables.len() == 1 { "" } else { "s" }
            )),
            BatchKind::Logged | BatchKind::Unlogged | BatchKind::Counter => {}
        }
        if let Some(terms) = terms {
            let (mutations, terms) = (mutations.finish()?, Terms { timeout, ..terms });
            match kind {
                BatchKind::Logged if mutations.len() > 1 => write_logged(shard, mutations, &terms).await?,
                _ => write(shard, mutations, &terms).await?,
            }
        }
        Ok(Answer { response: Response::Void, warnings })
    }
}
