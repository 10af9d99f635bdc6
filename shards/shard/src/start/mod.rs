//! Starting all cores of a node together, led by shard 0.
//!
//! 1. Every shard opens its part of the log and tells shard 0 the highest segment counter that it found.
//! 2. Shard 0 replays the system tables, reads the schema from them and sends it with the agreed counter floor.
//! 3. Every shard opens its SSTables and replays its own tables. When all have done so, every shard starts its store
//!    and flushes.
//! 4. Shard 0 writes what a start changes, and sends the node's identity, the nodes that data were placed on last, and
//!    the prepared statements.
//! 5. When all shards serve, shard 0 opens the log of the cluster's metadata, and all return.
//!
//! Invariants: no shard serves before every shard has replayed; if one shard fails, all give up.

use crate::config::Config;
use crate::coordinator::{batch_replay, hints};
use crate::dispatch;
use crate::mailbox::Mailbox;
use crate::messages::admin::Members;
use crate::messages::start::{StartStep, StepError};
use crate::messages::{Message, Start};
use crate::metadata;
use crate::operations::{
    compaction_history, disk_watch, indexes, membership, size_estimates, snapshots, splits, table_verbs,
};
use crate::planning::prepared;
use crate::ports::{Notifier, Peers};
use crate::repair;
use crate::schema;
use crate::schema::local::Identity;
use crate::schema::prepared::StoredStatement;
use crate::shard_state::{Parts, Shard};
use crate::start_error::StartError;
use crate::stream::healing;
use cluster::replication::Strategy;
use engine::Store;
use engine::store::Truncation;
use model::row::NO_TIMESTAMP;
use model::schema::is_system_keyspace;
use model::{Schema, ShardMap, TableId};
use runtime::{Class, ShardId};
use std::rc::Rc;
use std::sync::Arc;

/// A clock that was set back by less than this is not reported.
const CLOCK_TOLERANCE_MICROS: i64 = 1_000_000;
/// Nodes of the smallest cluster in which `EverywhereStrategy` has more than one replica.
const NODES_MIN: usize = 2;
/// Most messages of other cores that are received together.
const TOGETHER_MAX: usize = 16;

/// Runs all steps on the current shard.
pub(crate) async fn start(
    config: Config,
    mesh: runtime::Mesh<Message>,
    notifier: Rc<dyn Notifier>,
    peers: Rc<dyn Peers>,
) -> Result<Shard, StartError> {
    let mut steps = Steps { mailbox: Mailbox::new(mesh.attach()), early: Vec::new() };
    let opened = open(&config).await;
    let led = runtime::current_shard() == ShardId(0);
    let begun = if led { lead(&mut steps, &config, opened).await } else { follow(&mut steps, opened).await };
    let begun = match begun {
        Ok(begun) => begun,
        Err(error) => {
            if led {
                steps.broadcast(|| StartStep::Abort(step_error(&error))).await;
            }
            return Err(error);
        }
    };
    let Begun { store, schema, identity, members, statements, truncations, timestamp, released } = begun;
    let shard = Shard::new(Parts {
        config,
        store,
        schema,
        identity,
        mailbox: steps.mailbox.clone(),
        notifier,
        peers,
        handlers: dispatch::HANDLERS,
    });
    let ahead = shard.clock().start_after(timestamp);
    shard.store().set_clock_ahead(ahead);
    if led && ahead > CLOCK_TOLERANCE_MICROS {
        tracing::warn!(ahead_micros = ahead, "the clock was set back: write timestamps go on from where they were");
    }
    prepared::install_stored(&shard, &statements);
    if let Some(members) = &members {
        membership::adopt(&shard, members);
    }
    let released = if led {
        steps.broadcast(|| shard_ready(&shard, &members, &statements, timestamp)).await;
        steps.gather(|step| matches!(step, StartStep::Serving).then_some(())).await?;
        steps.broadcast(|| StartStep::Go(released)).await;
        released
    } else {
        steps.send(ShardId(0), StartStep::Serving).await;
        let go = |step: &StartStep| if let StartStep::Go(released) = step { Some(*released) } else { None };
        steps.next(go).await?
    };
    dispatch::receive_all(&shard, &mut steps.early);
    let receiver = shard.clone();
    runtime::spawn(async move {
        let mut messages = Vec::with_capacity(TOGETHER_MAX);
        loop {
            messages.push(receiver.mailbox().recv().await);
            while messages.len() < TOGETHER_MAX
                && let Some(message) = receiver.mailbox().try_recv()
            {
                messages.push(message);
            }
            dispatch::receive_all(&receiver, &mut messages);
        }
    });
    for (table, truncation) in &truncations {
        // The record is in milliseconds: include all microseconds of that millisecond.
        shard.truncations().note(*table, truncation.at_millis.saturating_mul(1000).saturating_add(999));
    }
    let found = hints::files::find(&shard).await;
    found.map_err(|error| StartError::Failed(format!("files of hints: {error}")))?;
    batch_replay::start(&shard, &truncations).await.map_err(store_error)?;
    runtime::spawn_in(Class::Log, hints::files::keep(shard.clone()));
    runtime::spawn_in(Class::Background, compaction_history::keep(shard.clone()));
    if led {
        metadata::membership::open(&shard).await?;
        repair::sessions::load(&shard).await.map_err(|failure| StartError::Failed(failure.text.to_string()))?;
        runtime::spawn_in(Class::Background, repair::sessions::keep(shard.clone()));
        repair::proofs::load(&shard).await.map_err(|failure| StartError::Failed(failure.text.to_string()))?;
        runtime::spawn_in(Class::Background, repair::proofs::spread(shard.clone()));
        runtime::spawn_in(Class::Background, snapshots::expire(shard.clone()));
        runtime::spawn_in(Class::Background, size_estimates::keep(shard.clone()));
        runtime::spawn_in(Class::Background, healing::watch(shard.clone()));
        let disk = shard.config().disk;
        if disk.percentage != Default::default() {
            runtime::spawn_in(Class::Background, disk_watch::watch(shard.clone(), disk));
        }
        indexes::start(&shard);
    }
    splits::start(&shard, released);
    Ok(shard)
}

/// The state of a shard whose store takes writes.
struct Begun {
    store: Store,
    schema: Arc<Schema>,
    identity: Identity,
    members: Option<Arc<Members>>,
    statements: Arc<[StoredStatement]>,
    truncations: Vec<(TableId, Truncation)>,
    /// At or above the timestamps of the last change of the schema and of the writes of earlier runs, microseconds.
    timestamp: i64,
    /// Whether all replayed records are in SSTables and no segment of an earlier run is left; known only on shard 0.
    released: bool,
}

fn shard_ready(
    shard: &Shard,
    members: &Option<Arc<Members>>,
    statements: &Arc<[StoredStatement]>,
    timestamp: i64,
) -> StartStep {
    let (identity, members) = (shard.identity().clone(), members.clone());
    StartStep::Ready { identity, members, statements: statements.clone(), timestamp }
}

async fn open(config: &Config) -> Result<Store, StartError> {
    let options = engine::Options {
        directories: config.directories.clone(),
        shard_map: ShardMap::new(config.partitioner, runtime::shard_count() as u16),
        sync: config.sync,
        segment_bytes: config.segment_bytes,
        memtable_bytes_max: config.shard_memory_bytes() / 4,
        cache_bytes_max: config.shard_memory_bytes() / 20 * 9,
        log_bytes_max: config.shard_log_bytes(),
        sstables: config.sstables,
        memtables: config.memtables.clone(),
        incremental_backups: config.incremental_backups,
    };
    let store = Store::open(options).await.map_err(store_error)?;
    store.set_compaction_throughput(table_verbs::part_of(config.compaction_bytes_per_second));
    Ok(store)
}

async fn lead(steps: &mut Steps, config: &Config, opened: Result<Store, StartError>) -> Result<Begun, StartError> {
    let found = steps
        .gather(|step| match step {
            StartStep::Opened(result) => Some(result.clone()),
            _ => None,
        })
        .await?;
    let store = opened?;
    let mut highest = store.highest_counter();
    for counter in found {
        highest = highest.max(counter.map_err(start_error)?);
    }
    let counter_floor = highest + 1;

    let system = schema::system_schema(config.partitioner);
    add_tables(&store, &system);
    store.clean().await.map_err(store_error)?;
    store.load(&[]).await.map_err(store_error)?;
    store.replay(&[]).await.map_err(store_error)?;
    let loaded = schema::load(&store).await?;
    let step =
        || StartStep::Load { schema: loaded.schema.clone(), truncations: loaded.truncations.clone(), counter_floor };
    steps.broadcast(step).await;
    let own = replay(&store, &loaded.schema, &loaded.truncations).await;
    let others = steps
        .gather(|step| match step {
            StartStep::Replayed(result) => Some(result.clone()),
            _ => None,
        })
        .await?;
    let mut recorded = own?;
    for other in others {
        recorded = recorded.max(other.map_err(start_error)?);
    }
    steps.broadcast(|| StartStep::Begin).await;
    let own = begin(&store, counter_floor).await;
    let others = steps
        .gather(|step| match step {
            StartStep::Begun(result) => Some(result.clone()),
            _ => None,
        })
        .await?;
    let mut flushed = own?;
    for other in others {
        flushed &= other.map_err(start_error)?;
    }
    if flushed {
        store.release_replayed().await.map_err(store_error)?;
    }
    if loaded.identity.is_none() {
        metadata::membership::note_joining(&store, &loaded.schema, config).await?;
    }
    let identity = schema::settle(config, &store, &loaded).await?;
    for table in loaded.schema.tables.values().filter(|table| !is_system_keyspace(&table.keyspace)) {
        store.create_directories(table).await.map_err(store_error)?;
    }
    // Times of column drops are stored in whole milliseconds, rounded up, so they may exceed the timestamp by that
    // much.
    let timestamp = loaded.last_timestamp.saturating_add(1_000).max(recorded.unwrap_or(NO_TIMESTAMP));
    let schema::Loaded { schema, truncations, prepared, .. } = loaded;
    let statements = prepared.into();
    let members = metadata::membership::stored_members(&store, &schema, &identity).await?.map(Arc::new);
    Ok(Begun { store, schema, identity, members, statements, truncations, timestamp, released: flushed })
}

async fn follow(steps: &mut Steps, opened: Result<Store, StartError>) -> Result<Begun, StartError> {
    let leader = ShardId(0);
    let result = opened.as_ref().map(Store::highest_counter).map_err(step_error);
    steps.send(leader, StartStep::Opened(result)).await;
    let store = opened?;
    let (schema, truncations, counter_floor) = steps
        .next(|step| match step {
            StartStep::Load { schema, truncations, counter_floor } => {
                Some((schema.clone(), truncations.clone(), *counter_floor))
            }
            _ => None,
        })
        .await?;
    let replayed = replay(&store, &schema, &truncations).await;
    let result = replayed.as_ref().copied().map_err(step_error);
    steps.send(leader, StartStep::Replayed(result)).await;
    replayed?;
    steps.next(|step| matches!(step, StartStep::Begin).then_some(())).await?;
    let begun = begin(&store, counter_floor).await;
    let result = begun.as_ref().copied().map_err(step_error);
    steps.send(leader, StartStep::Begun(result)).await;
    begun?;
    let (identity, members, statements, timestamp) = steps
        .next(|step| match step {
            StartStep::Ready { identity, members, statements, timestamp } => {
                Some((identity.clone(), members.clone(), statements.clone(), *timestamp))
            }
            _ => None,
        })
        .await?;
    Ok(Begun { store, schema, identity, members, statements, truncations, timestamp, released: false })
}

fn add_tables(store: &Store, schema: &Schema) {
    for keyspace in schema.keyspaces.values().filter(|keyspace| !keyspace.is_virtual()) {
        let replicated = Strategy::of(&keyspace.replication).factor(NODES_MIN) > 1;
        for table in keyspace.tables.values() {
            store.add_table(table.clone(), keyspace.home_of(&table.name));
            store.set_durable_writes(table.id, keyspace.durable_writes);
            store.set_replicated(table.id, replicated);
        }
    }
}

/// Opens the SSTables and replays the log over them. Returns the time that the log recorded.
async fn replay(
    store: &Store,
    schema: &Schema,
    truncations: &[(TableId, Truncation)],
) -> Result<Option<i64>, StartError> {
    add_tables(store, schema);
    store.load(truncations).await.map_err(load_error)?;
    let stats = store.replay(truncations).await.map_err(store_error)?;
    tracing::info!(?stats, "replayed the commit log");
    Ok(store.recorded_time())
}

/// Lets the store take writes and flushes what was replayed; returns whether all of it is in SSTables. No shard does
/// this before every shard has listed its SSTables, so that none finds one that is being written.
async fn begin(store: &Store, counter_floor: u64) -> Result<bool, StartError> {
    store.start(counter_floor).await.map_err(store_error)?;
    // A full disk must not keep a node from serving what it has.
    let flushed = store.flush_replayed().await;
    if let Err(error) = &flushed {
        tracing::warn!(%error, "what was replayed stays in the log");
    }
    Ok(flushed.is_ok())
}

fn load_error(error: engine::Error) -> StartError {
    match error {
        engine::Error::BadSstable { .. } => StartError::Corrupt(format!(
            "{error}. The node does not start without this SSTable: its keyspace has one replica, or \
             disk_failure_policy is die or stop_paranoid. Restore its files from a snapshot or a backup, or move all of \
             them out of the directory to go on without what is in them"
        )),
        error => store_error(error),
    }
}

fn store_error(error: engine::Error) -> StartError {
    match error {
        engine::Error::Corrupt { .. } | engine::Error::BadSstable { .. } => StartError::Corrupt(error.to_string()),
        error => StartError::Failed(error.to_string()),
    }
}

fn step_error(error: &StartError) -> StepError {
    match error {
        StartError::Corrupt(text) => StepError { corrupt: true, text: text.clone() },
        StartError::Failed(text) => StepError { corrupt: false, text: text.clone() },
    }
}

fn start_error(error: StepError) -> StartError {
    if error.corrupt { StartError::Corrupt(error.text) } else { StartError::Failed(error.text) }
}

/// This shard's side of the steps that shards exchange when they start.
struct Steps {
    mailbox: Mailbox,
    /// Requests of shards that serve already while this one still awaits a step.
    early: Vec<(ShardId, Message)>,
}

impl Steps {
    async fn send(&self, to: ShardId, step: StartStep) {
        self.mailbox.post(to, Message::Start(Start(Box::new(step)))).await;
    }

    async fn broadcast(&self, step: impl Fn() -> StartStep) {
        for to in 1..runtime::shard_count() as u16 {
            self.send(ShardId(to), step()).await;
        }
    }

    /// Receives one step from each other shard.
    async fn gather<T>(&mut self, pick: impl Fn(&StartStep) -> Option<T>) -> Result<Vec<T>, StartError> {
        let mut found = Vec::new();
        for _ in 1..runtime::shard_count() {
            found.push(self.next(&pick).await?);
        }
        Ok(found)
    }

    /// Receives the next step; fails unless `pick` accepts it.
    async fn next<T>(&mut self, pick: impl Fn(&StartStep) -> Option<T>) -> Result<T, StartError> {
        loop {
            match self.mailbox.recv().await {
                (_, Message::Start(Start(step))) => {
                    if let StartStep::Abort(error) = *step {
                        return Err(start_error(error));
                    }
                    if let Some(found) = pick(&step) {
                        return Ok(found);
                    }
                    return Err(StartError::Failed(format!("out of step with another core: {step:?}")));
                }
                early => self.early.push(early),
            }
        }
    }
}
