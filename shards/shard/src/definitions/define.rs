//! DDL: statements to changes that the cluster agrees on.
//!
//! 1. Apply the statement to the schema that this node serves (`cql::define`), or refuse it.
//! 2. Prepare the change on this node ([`Step::prepare`]).
//! 3. Propose it to the log of the cluster, with the version of the schema that it changes. When the log has it, the
//!    node makes it ([`Step::make`]) in its turn, as every other node does.
//! 4. If the schema has changed meanwhile, begin again with the new one.
//! 5. Wait until every live node serves the new schema, then answer.
//!
//! One statement of a node is proposed at a time.
//!
//! Invariants: a change that is in the log is made, whether or not the client waits; a change that is not in the log
//! is never seen.

use super::step::{Prepared, Step, time_of_change};
use super::{next_timestamp, stored};
use crate::messages::schema::Defined;
use crate::schema::rows;
use crate::shard_state::{ProposalError, Shard};
use cluster::metadata::{Command, Rejected, SchemaUpdate, UpdatedKind, UpdatedTarget};
use cql::define::{Applied, Change, ChangeKind, ChangeTarget, DefinitionContext};
use cql::plan::Define;
use model::{Failure, Mutation, Schema, TableId};
use runtime::Instant;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How long a statement may take until the cluster has agreed on it: `request_timeout`.
const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs one DDL statement. Returns when every shard of every live node serves the new schema.
pub(crate) async fn define(shard: &Shard, define: Define) -> Result<Defined, Failure> {
    let shard = shard.clone();
    runtime::spawn(async move {
        let _proposal = shard.metadata().begin_proposal().await;
        let deadline = runtime::now().after(AGREEMENT_TIMEOUT);
        loop {
            let (step, update, warnings) = match work_out(&shard, &define).await? {
                Some(found) => found,
                None => return unchanged(&shard, &define),
            };
            let change = step.change().clone();
            match propose(&shard, step, update, deadline).await? {
                Proposed::Made(epoch) => {
                    let mut warnings = warnings;
                    warnings.extend(shard.confirm(epoch, deadline).await);
                    return Ok(Defined { change: Some(change), warnings });
                }
                // Another node was first: look again.
                Proposed::SchemaMoved => {}
            }
        }
    })
    .await
}

/// The answer to a statement that changes nothing.
fn unchanged(shard: &Shard, define: &Define) -> Result<Defined, Failure> {
    let nodes = nodes(shard);
    let Applied { warnings, .. } = cql::define::apply(define, &shard.schema(), &context(shard, &nodes, 0))?;
    Ok(Defined { change: None, warnings })
}

/// How many nodes each data centre has.
fn nodes(shard: &Shard) -> BTreeMap<String, usize> {
    let mut nodes = BTreeMap::new();
    for node in shard.topology().nodes() {
        *nodes.entry(node.data_center.clone()).or_default() += 1;
    }
    nodes
}

fn context<'c>(shard: &'c Shard, nodes: &'c BTreeMap<String, usize>, now_micros: i64) -> DefinitionContext<'c> {
    let config = shard.config();
    DefinitionContext {
        data_center: &config.data_center,
        nodes,
        now_micros,
        new_id: TableId(crate::schema::random_uuid().into_bytes()),
        memtables: &config.memtables,
        default_compaction: config.default_compaction.as_deref(),
        drop_compact_storage: config.drop_compact_storage,
        guardrails: config.guardrails.as_deref(),
    }
}

/// The change that a statement asks for, as a step of this node and as an entry of the log, with warnings for the
/// client; `None` if nothing changes.
async fn work_out(shard: &Shard, define: &Define) -> Result<Option<(Step, SchemaUpdate, Vec<String>)>, Failure> {
    let stored = stored(shard).await?;
    let before = shard.schema();
    let timestamp = next_timestamp(shard, &stored);
    let nodes = nodes(shard);
    let context = context(shard, &nodes, time_of_change(timestamp));
    let Applied { change, warnings } = cql::define::apply(define, &before, &context)?;
    let Some(change) = change else { return Ok(None) };
    let version = crate::schema::random_uuid();
    let after = Arc::new(schema_after(&before, &change, version));
    let rows = mutation_of(&before, &change, timestamp, runtime::wall_micros().div_euclid(1_000_000));
    let update = SchemaUpdate {
        before: before.version,
        after: version,
        timestamp,
        kind: match change.kind {
            ChangeKind::Created => UpdatedKind::Created,
            ChangeKind::Updated => UpdatedKind::Updated,
            ChangeKind::Dropped => UpdatedKind::Dropped,
        },
        target: match change.target {
            ChangeTarget::Keyspace => UpdatedTarget::Keyspace,
            ChangeTarget::Table => UpdatedTarget::Table,
            ChangeTarget::Type => UpdatedTarget::Type,
        },
        keyspace: change.keyspace,
        name: change.name,
        given_id: change.given_id.map(|id| id.0),
        rows: rows.bytes().to_vec(),
    };
    Ok(Some((Step::own(before, after, rows, &update), update, warnings)))
}

/// What became of a proposal.
enum Proposed {
    /// It is the entry of this epoch, and this node has made the change.
    Made(u64),
    /// The schema is not the one that it changes.
    SchemaMoved,
}

async fn propose(shard: &Shard, step: Step, update: SchemaUpdate, deadline: Instant) -> Result<Proposed, Failure> {
    let prepared = Rc::new(RefCell::new(Some(step.prepare(shard).await?)));
    let take = |prepared: &RefCell<Option<Prepared>>| prepared.borrow_mut().take().unwrap_or_default();
    let version = update.after;
    let made = Rc::new(RefCell::new(Ok(())));
    let making = {
        let (shard, prepared, made) = (shard.clone(), prepared.clone(), made.clone());
        async move {
            let prepared = take(&prepared);
            let result = step.make(&shard, prepared).await;
            made.borrow_mut().clone_from(&result);
            result
        }
    };
    shard.metadata().expect_own(version, Box::pin(making));
    let result = shard.metadata().propose(&Command::Schema(Box::new(update)), deadline).await;
    match result {
        Ok(epoch) => {
            made.borrow().clone()?;
            Ok(Proposed::Made(epoch))
        }
        Err(error) => {
            // A change that may yet be in the log must find what was prepared for it.
            if let ProposalError::Unknown(text) = error {
                return Err(Failure::server(text).unknown());
            }
            shard.metadata().forget_own(version);
            take(&prepared).undo(shard).await;
            match error {
                ProposalError::Rejected(Rejected::SchemaMoved { .. }) => Ok(Proposed::SchemaMoved),
                ProposalError::Rejected(rejected) => Err(Failure::server(rejected.to_string())),
                ProposalError::NotMade(text) | ProposalError::Unknown(text) => Err(Failure::server(text)),
            }
        }
    }
}

/// The schema after a change.
fn schema_after(before: &Schema, change: &Change, version: Uuid) -> Schema {
    let mut after = before.clone();
    after.version = version;
    match &change.after {
        Some(keyspace) => after.put_keyspace(Arc::new(keyspace.clone())),
        None => after.drop_keyspace(&change.keyspace),
    }
    after
}

/// The mutation of `system_schema` that stores a change.
fn mutation_of(before: &Schema, change: &Change, timestamp: i64, now_in_seconds: i64) -> Mutation {
    match (before.keyspace(&change.keyspace), &change.after) {
        (_, None) => rows::keyspace_dropped(before, &change.keyspace, timestamp, now_in_seconds),
        (None, Some(after)) => rows::keyspace_created(before, after, timestamp),
        (Some(old), Some(after)) => rows::keyspace_changed(before, old, after, timestamp, now_in_seconds),
    }
}
