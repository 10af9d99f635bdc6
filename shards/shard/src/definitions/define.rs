//! DDL: statements to changes that the cluster agrees on.
//!
//! 1. Apply the statement to the schema that this node serves (`cql::define`), or refuse it.
//! 2. Prepare the change on this node ([`Step::prepare`]).
//! 3. Propose it to the log of the cluster, with the version of the schema that it changes. When the log has it, the
//!    node makes it ([`Step::make`]) in its turn, as every other node does. The statement waits for that longer than
//!    for the agreement: a DROP flushes the table and keeps it as a snapshot, however busy the disk is.
//! 4. If the schema has changed meanwhile, begin again with the new one.
//! 5. Wait until every live node serves the new schema, then answer.
//!
//! A change by which a table gets more sub-partitions has an entry of its own before it, after which the metadata say
//! how many it has, and the schema how many it is to have.
//!
//! One statement of a node is proposed at a time.
//!
//! Invariants: a change that is in the log is made, whether or not the client waits; a change that is not in the log is
//! never seen.

use super::step::{Prepared, Step, time_of_change};
use super::{next_timestamp, stored};
use crate::messages::schema::Defined;
use crate::operations::{ring_changes, tablet_plans};
use crate::schema::rows;
use crate::shard_state::{ProposalError, Shard};
use cluster::key_growth::most_of_a_key;
use cluster::metadata::{Command, Metadata, Rejected, SchemaUpdate, UpdatedKind, UpdatedTarget};
use cluster::sub_partitions::SubPartitionsChange;
use cluster::tablets::{TabletChange, TabletsUpdate};
use cluster::topology::features;
use cql::define::{Applied, Change, ChangeKind, ChangeTarget, DefinitionContext, Masking};
use cql::plan::Define;
use model::{Failure, Mutation, Schema, TableId};
use runtime::Instant;
use runtime::sync::Latch;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How long this node may take to make a change that the cluster has agreed on, before the client is told that the
/// outcome is not known.
const MAKING_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause before a change of replication is tried again that has to wait for an operation.
const TURN_PAUSE: Duration = Duration::from_millis(100);
/// How long other nodes have to confirm a change at least, however long it took here.
const CONFIRMATION_TIME_MIN: Duration = Duration::from_secs(2);

/// Runs one DDL statement. Returns when every shard of every live node serves the new schema.
pub(crate) async fn define(shard: &Shard, define: Define) -> Result<Defined, Failure> {
    let shard = shard.clone();
    runtime::spawn(async move {
        let _proposal = shard.metadata().begin_proposal().await;
        // A statement looks at a schema that others change before it for as long as the cluster may take to agree.
        let last_look = runtime::now().after(shard.timeouts().misc);
        loop {
            let (step, update, warnings) = match work_out(&shard, &define).await? {
                Some(found) => found,
                None => return unchanged(&shard, &define),
            };
            let change = step.change().clone();
            keep_sub_partitions(&shard, &step).await?;
            match propose(&shard, step, update).await? {
                Proposed::Made { epoch, deadline } => {
                    let mut warnings = warnings;
                    let deadline = deadline.max(runtime::now().after(CONFIRMATION_TIME_MIN));
                    warnings.extend(shard.confirm(epoch, deadline).await);
                    return Ok(Defined { change: Some(change), warnings });
                }
                Proposed::SchemaMoved(moved) if runtime::now() >= last_look => {
                    return Err(Failure::server(moved.to_string()));
                }
                // Another node was first: look again.
                Proposed::SchemaMoved(_) => {}
            }
        }
    })
    .await
}

/// The answer to a statement that changes nothing.
fn unchanged(shard: &Shard, define: &Define) -> Result<Defined, Failure> {
    let (nodes, grown_keys) = (nodes(shard), grown_keys(shard));
    let context = context(shard, &nodes, &grown_keys, 0);
    let Applied { warnings, .. } = cql::define::apply(define, &shard.schema(), &context)?;
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

/// Of the tables with keys that have grown by themselves, the most sub-partitions of a key.
fn grown_keys(shard: &Shard) -> BTreeMap<TableId, u16> {
    let metadata = shard.metadata().current();
    let most = metadata.sub_partitions.iter().map(|(id, map)| Some((TableId(*id), most_of_a_key(map)?)));
    most.flatten().collect()
}

fn context<'c>(
    shard: &'c Shard,
    nodes: &'c BTreeMap<String, usize>,
    grown_keys: &'c BTreeMap<TableId, u16>,
    now_micros: i64,
) -> DefinitionContext<'c> {
    let config = shard.config();
    DefinitionContext {
        data_center: &config.data_center,
        nodes,
        now_micros,
        new_id: TableId(crate::schema::random_uuid().into_bytes()),
        memtables: &config.memtables,
        default_compaction: config.default_compaction.as_deref(),
        drop_compact_storage: config.drop_compact_storage,
        masking: match config.masking {
            false => Masking::SwitchedOff,
            true if !shard.topology().all_have(features::COLUMN_MASKS) => Masking::NotEverywhere,
            true => Masking::On,
        },
        has_repair_proofs: shard.topology().all_have(features::REPAIR_PROOFS),
        has_tablets: shard.topology().all_have(features::TABLETS),
        has_write_sharding: shard.topology().all_have(features::WRITE_SHARDING),
        has_sub_partition_growth: shard.topology().all_have(features::SUB_PARTITION_GROWTH),
        has_key_growth: shard.topology().all_have(features::KEY_GROWTH),
        grown_keys,
        has_quotas: shard.topology().all_have(features::QUOTAS),
        has_stored_quotas: shard.topology().all_have(features::STORED_QUOTAS),
        guardrails: config.guardrails.as_deref(),
    }
}

/// The change that a statement asks for, as a step of this node and as an entry of the log, with warnings for the
/// client; `None` if nothing changes.
async fn work_out(shard: &Shard, define: &Define) -> Result<Option<(Step, SchemaUpdate, Vec<String>)>, Failure> {
    let stored = stored(shard).await?;
    let before = shard.schema();
    let timestamp = next_timestamp(shard, &stored);
    let (nodes, grown_keys) = (nodes(shard), grown_keys(shard));
    let context = context(shard, &nodes, &grown_keys, time_of_change(timestamp));
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

/// Has the metadata keep how many sub-partitions each table has that is going to get more.
async fn keep_sub_partitions(shard: &Shard, step: &Step) -> Result<(), Failure> {
    let (before, after) = step.schemas();
    let change = step.change();
    let Some(tables) = after.keyspace(&change.keyspace).map(|keyspace| &keyspace.tables) else { return Ok(()) };
    for table in tables.values() {
        let known = before.table_by_id(table.id).and_then(|known| known.write_sharding());
        let Some((known, goal)) = known.zip(table.write_sharding()) else { continue };
        if known.shards == goal.shards || shard.metadata().current().sub_partitions.contains_key(&table.id.0) {
            continue;
        }
        let keep = SubPartitionsChange::Keep { shards: known.shards, is_random: known.is_random() };
        let command = Command::SubPartitions { table: table.id.0, change: keep };
        let deadline = runtime::now().after(shard.timeouts().misc);
        let proposed = shard.metadata().propose(&command, deadline).await;
        proposed.map_err(|error| match error {
            ProposalError::Rejected(rejected) => Failure::server(rejected.to_string()),
            ProposalError::NotMade(text) | ProposalError::Unknown(text) => Failure::server(text),
        })?;
    }
    Ok(())
}

/// What became of a proposal.
enum Proposed {
    /// It is the entry of this epoch or of an earlier one, and this node has made the change. The agreement was due by
    /// `deadline`.
    Made { epoch: u64, deadline: Instant },
    /// The schema or the nodes are not those that it goes by, or an operation that moves data is under way.
    SchemaMoved(Rejected),
}

/// A change of the schema that this node has worked out and proposed, on its way through the log.
#[derive(Default)]
struct OwnChange {
    prepared: RefCell<Option<Prepared>>,
    /// The epoch before it, once its entry is in the log.
    before: Cell<Option<u64>>,
    result: RefCell<Option<Result<(), Failure>>>,
    made: Latch,
}

impl OwnChange {
    /// Makes the change, when its turn in the log has come.
    async fn make(self: Rc<OwnChange>, shard: Shard, step: Step) -> Result<(), Failure> {
        self.before.set(Some(shard.metadata().current().epoch));
        let prepared = self.take_prepared();
        let result = step.make(&shard, prepared).await;
        self.result.replace(Some(result.clone()));
        self.made.set();
        result
    }

    fn take_prepared(&self) -> Prepared {
        self.prepared.borrow_mut().take().unwrap_or_default()
    }

    /// Waits for the end of a change whose entry is in the log, and returns an epoch that covers it; `None` if the
    /// entry is not known to be there, or if the change takes too long.
    async fn ended(&self, shard: &Shard) -> Option<Result<u64, Failure>> {
        let before = self.before.get()?;
        let ended = async {
            self.made.wait().await;
            if let Some(Err(failure)) = &*self.result.borrow() {
                return Err(failure.clone());
            }
            shard.metadata().wait_until(|metadata| metadata.epoch > before).await;
            Ok(shard.metadata().current().epoch)
        };
        runtime::timeout(MAKING_TIMEOUT, ended).await
    }
}

async fn propose(shard: &Shard, step: Step, update: SchemaUpdate) -> Result<Proposed, Failure> {
    let own = Rc::new(OwnChange::default());
    let (before, step_after) = step.schemas();
    if let Some(receivers) = command_of(shard, &step_after, &before, update.clone()).receivers()
        && !shard.prepare_receivers(receivers, runtime::now().after(shard.timeouts().misc)).await
    {
        return Err(Failure::server(
            "Nodes that are going to have replicas of the keyspace still remove what they have of ranges that they lost; \
             try again later",
        ));
    }
    own.prepared.replace(Some(step.prepare(shard).await?));
    let version = update.after;
    shard.metadata().expect_own(version, Box::pin(own.clone().make(shard.clone(), step)));
    let deadline = runtime::now().after(shard.timeouts().misc);
    let command = command_of(shard, &step_after, &before, update);
    match shard.metadata().propose(&command, deadline).await {
        Ok(epoch) => match &*own.result.borrow() {
            Some(Err(failure)) => Err(failure.clone()),
            _ => Ok(Proposed::Made { epoch, deadline }),
        },
        // A change that may yet be in the log must find what was prepared for it.
        Err(ProposalError::Unknown(text)) => match own.ended(shard).await {
            Some(ended) => Ok(Proposed::Made { epoch: ended?, deadline }),
            None => Err(Failure::server(text).unknown()),
        },
        Err(ProposalError::Rejected(rejected)) => {
            undo(shard, version, &own).await;
            match rejected {
                Rejected::SchemaMoved { .. } | Rejected::MembersMoved(_) => Ok(Proposed::SchemaMoved(rejected)),
                Rejected::OperationUnderWay(_) => {
                    // It may be a matter of seconds or of hours: look again until the statement's time is over.
                    runtime::sleep(TURN_PAUSE).await;
                    Ok(Proposed::SchemaMoved(rejected))
                }
                rejected => Err(Failure::server(rejected.to_string())),
            }
        }
        Err(ProposalError::NotMade(text)) => {
            undo(shard, version, &own).await;
            Err(Failure::server(text))
        }
    }
}

/// The entry of the log for a change, with what becomes of the tablets of its keyspace.
fn command_of(shard: &Shard, after: &Schema, before: &Schema, update: SchemaUpdate) -> Command {
    let keyspace = update.keyspace.clone();
    let seen = shard.metadata().current();
    let updates = tablet_plans::of_schema(shard, &seen, &keyspace, (before, after));
    let command = replicated_command_of(shard, after, before, update, &updates);
    tablet_plans::joined(command, updates, &seen)
}

/// The entry of the log for a change. One of a keyspace's replication moves data, as one does that takes tablets away,
/// so it names the nodes that gain some.
fn replicated_command_of(
    shard: &Shard,
    after: &Schema,
    before: &Schema,
    update: SchemaUpdate,
    tablets: &[TabletsUpdate],
) -> Command {
    let update = Box::new(update);
    let replication = |schema: &Schema| schema.keyspace(&update.keyspace).map(|keyspace| keyspace.replication.clone());
    let (Some(old), Some(new)) = (replication(before), replication(after)) else { return Command::Schema(update) };
    let moves = tablets.iter().any(|update| update.changes.contains(&TabletChange::ToRing));
    if old == new && !moves || !shard.topology().all_have(features::OPERATIONS) {
        return Command::Schema(update);
    }
    let seen = shard.metadata().current();
    let begun = |receivers| Command::Replicate {
        update: update.clone(),
        class: old.class.clone(),
        options: old.options.clone(),
        receivers,
        members_epoch: seen.members_epoch,
    };
    let mut changed = Metadata::clone(&seen);
    // With a receiver, or it would be at its end at once. If it is refused here, it will be by all.
    let begun_here = begun(BTreeSet::from([shard.host_id()]));
    let _ = changed.apply(seen.epoch + 1, &tablet_plans::joined(begun_here, tablets.to_vec(), &seen));
    begun(ring_changes::receivers(shard, &changed, after))
}

/// Forgets a change that is not in the log and never will be.
async fn undo(shard: &Shard, version: Uuid, own: &OwnChange) {
    shard.metadata().forget_own(version);
    own.take_prepared().undo(shard).await;
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
