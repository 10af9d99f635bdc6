//! The actors. A [`Shard`] is one core's store, schema, prepared statements and tasks; it executes requests of the
//! connections attached to it and serves messages of its sister cores.
//!
//! A request: find the plan (`execute`), bind values, ask the coordinator, which asks `route` for the owning core: the
//! own one is a plain call, another one a message ([`verbs`], [`mailbox`]).
//!
//! Invariants: state of a shard is reached by its own tasks only; a message is the only way in. Tables with LocalStrategy
//! live on shard 0; DDL runs one at a time on shard 0.

mod barrier;
mod clock;
pub mod compaction_history;
mod coordinator;
mod counter;
pub mod disk_usage;
mod execute;
mod held;
pub mod imports;
mod indexes;
pub mod mailbox;
pub mod metrics;
mod paxos;
pub mod ports;
pub mod query_trace;
mod replica;
pub mod row_block;
pub mod row_filter;
mod schema;
pub mod snapshots;
mod split;
mod start;
pub mod table_verbs;
mod tombstones;
mod truncations;
pub mod verbs;
mod virtual_tables;

pub use ports::{Activity, ChangeKind, ChangeTarget, Client, Notifier, Observation, SchemaChange, Served};
pub use query_trace::Trace;
pub use row_block::RowBlock;

pub use cql::Prepared;
pub use cql::guardrails;
pub use cql::guardrails::Guardrails;
pub use engine::compaction::{Chosen, Compacted, CompactionStatistics, Running};
pub use engine::directory_of;
pub use engine::{
    CacheFigures, Component, Counts, Descriptor, Fault, FaultKind, FlushCompression, LoggedThreshold, LoggedThresholds,
    SstableOptions, SyncMode, TableStatistics, Version,
};
pub use execute::batch::BatchThresholds;
pub use table_verbs::{TableAnswer, TableVerb};
pub use tombstones::TombstoneThresholds;
pub use virtual_tables::settings::OLD_NAMES as OLD_SETTINGS;

use barrier::Barrier;
use clock::{Clock, Evaluation};
use disk_usage::{DiskThresholds, DiskUsage};
use engine::Step;
use execute::prepared::{PREPARED_SHARE, Statement, StatementCache};
use execute::text_cache::{TEXTS_SHARE, TextCache};
use held::Held;
use mailbox::{Mailbox, Message};
use metrics::running::{Task, watched};
use model::key::Token;
use model::{BatchEntry, BatchKind, ColumnSpec, Failure, Memtables, QueryParameters, Schema, ShardMap};
use paxos::unsettled::Unsettled;
use runtime::ShardId;
use runtime::gate::{Gate, Semaphore};
use runtime::metrics::Counter;
use schema::local::Identity;
use std::cell::{Cell, Ref, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;
use truncations::Truncations;
use verbs::{Reply, Request};

/// What a shard needs to know of its node. The same on all shards.
#[derive(Clone, Debug)]
pub struct Config {
    /// Data directory of the node.
    pub directory: PathBuf,
    /// `cluster_name`.
    pub cluster_name: String,
    /// `num_tokens`, 1 to 1536... taken at the first start only.
    pub num_tokens: usize,
    /// `listen_address`.
    pub listen_address: IpAddr,
    /// `rpc_address`.
    pub rpc_address: IpAddr,
    /// `storage_port`.
    pub storage_port: u16,
    /// `native_transport_port`.
    pub native_port: u16,
    /// Data centre and rack of the snitch.
    pub data_center: String,
    /// See `data_center`.
    pub rack: String,
    /// Commit log mode.
    pub sync: engine::SyncMode,
    /// `commitlog_segment_size`, bytes.
    pub segment_bytes: u32,
    /// This shard's part of `commitlog_total_space`, bytes.
    pub log_bytes: u64,
    /// How SSTables are written.
    pub sstables: SstableOptions,
    /// Which memtables tables may name.
    pub memtables: Arc<Memtables>,
    /// Memory of this shard, bytes; the budgets of decision 22 are shares of it.
    pub memory_bytes: usize,
    /// `read_request_timeout`.
    pub read_timeout: Duration,
    /// `range_request_timeout`.
    pub range_timeout: Duration,
    /// `write_request_timeout`.
    pub write_timeout: Duration,
    /// `counter_write_request_timeout`.
    pub counter_write_timeout: Duration,
    /// `cas_contention_timeout`: how long a conditional change, or a read at SERIAL, waits for others of its partition.
    pub cas_contention_timeout: Duration,
    /// `truncate_request_timeout`.
    pub truncate_timeout: Duration,
    /// `auto_snapshot`: whether what is dropped or truncated is kept as a snapshot.
    pub auto_snapshot: bool,
    /// `auto_snapshot_ttl`: how long such a snapshot lives; `None`: until someone clears it.
    pub auto_snapshot_ttl: Option<Duration>,
    /// `drop_compact_storage_enabled`: whether ALTER TABLE DROP COMPACT STORAGE is switched on.
    pub drop_compact_storage: bool,
    /// `use_statements_enabled`: whether USE is switched on.
    pub use_statements: bool,
    /// `tombstone_warn_threshold` and `tombstone_failure_threshold`.
    pub tombstones: TombstoneThresholds,
    /// `batch_size_warn_threshold`, `batch_size_fail_threshold` and `unlogged_batch_across_partitions_warn_threshold`.
    pub batches: BatchThresholds,
    /// From where on the disk is too full.
    pub disk: DiskThresholds,
    /// What clients are held to; `None`: nothing.
    pub guardrails: Option<Arc<Guardrails>>,
    /// `compaction_throughput`: bytes per second that compactions of the node may read; 0: as many as they can.
    pub compaction_bytes_per_second: u64,
    /// Every option with its value, as `system_views.settings` shows them.
    pub settings: Arc<BTreeMap<String, Option<String>>>,
}

/// Queue length from one core to another.
pub const MAILBOX_MESSAGES_MAX: usize = 1024;

/// What a connection carries from request to request.
#[derive(Debug, Default)]
pub struct Session {
    /// Set by USE.
    pub keyspace: RefCell<Option<Arc<str>>>,
    /// Whether the client was told once what USE does to prepared statements.
    pub use_warned: Cell<bool>,
}

/// What a request answers.
#[derive(Debug)]
pub enum Response {
    /// Nothing.
    Void,
    /// USE took effect.
    SetKeyspace(Arc<str>),
    /// DDL took effect.
    SchemaChange(SchemaChange),
    /// Rows.
    Rows(Rows),
}

/// A page of rows.
#[derive(Debug)]
pub struct Rows {
    /// The columns.
    pub columns: Arc<[ColumnSpec]>,
    /// For EXECUTE: the id of the columns. The server compares it with what the client sent (v5).
    pub result_metadata_id: Option<[u8; 16]>,
    /// The rows, already in protocol form.
    pub block: RowBlock,
    /// Where the next page begins; `None`: this is the last.
    pub paging_state: Option<Vec<u8>>,
}

/// A response with its client warnings.
#[derive(Debug)]
pub struct Answer {
    /// The response.
    pub response: Response,
    /// Client warnings, sent in v4 and later.
    pub warnings: Vec<String>,
}

/// What PREPARE answers.
#[derive(Clone, Debug)]
pub struct PreparedAnswer {
    /// MD5 of keyspace and text, see PROTOCOL 7.3.
    pub id: [u8; 16],
    /// MD5 of the result columns.
    pub result_metadata_id: [u8; 16],
    /// The statement.
    pub prepared: Rc<cql::Prepared>,
    /// Client warnings.
    pub warnings: Vec<String>,
}

/// One core's actor. Cloning shares it.
#[derive(Clone)]
pub struct Shard {
    inner: Rc<Inner>,
}

/// A shard's state.
struct Inner {
    config: Config,
    id: ShardId,
    map: ShardMap,
    store: engine::Store,
    schema: RefCell<Arc<Schema>>,
    schema_waiters: RefCell<Vec<Waker>>,
    identity: Identity,
    mailbox: Mailbox,
    notifier: Rc<dyn Notifier>,
    clock: Clock,
    prepared: RefCell<StatementCache>,
    texts: RefCell<TextCache<Rc<Statement>>>,
    /// Of shard 0: DDL runs one at a time.
    definitions: Semaphore,
    /// Definitions asked for and done since the start; of use on shard 0.
    definitions_begun: Counter,
    definitions_done: Counter,
    /// Of shard 0: one operation on snapshots runs at a time.
    snapshots: Semaphore,
    /// Of shard 0: when the first snapshot expires, milliseconds since 1970; `None`: nobody has looked yet.
    snapshots_expire_at: Cell<Option<i64>>,
    /// How full the disk is, as shard 0 told.
    disk_usage: Cell<DiskUsage>,
    /// Of shard 0.
    barrier: Barrier,
    /// Locks that requests hold from one message to another.
    held: Held<engine::RowGuard>,
    /// Conditional changes that the next round of their partition settles.
    unsettled: Unsettled,
    /// When tables were emptied.
    truncations: Truncations,
    /// How long things take, and how many there were.
    figures: Rc<metrics::Figures>,
    /// Requests of clients under way.
    gate: Gate,
    /// Traces being written.
    trace_writes: Semaphore,
    /// When the log last told of tombstones.
    tombstone_log: tombstones::LogGate,
}

/// Why a shard did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// Data on disk cannot be trusted: exit code 3.
    Corrupt(String),
    /// Anything else: exit code 1.
    Failed(String),
}

impl Shard {
    /// Starts the current shard's actor: replays its log, loads the schema, serves its sister cores. Returns when all
    /// shards of the node are ready to serve. Shard 0 makes the node's identity at the first start.
    pub async fn start(
        config: Config,
        mesh: runtime::Mesh<mailbox::Message>,
        notifier: Rc<dyn Notifier>,
    ) -> Result<Shard, StartError> {
        start::start(config, mesh, notifier).await
    }

    /// QUERY.
    pub async fn query(
        &self,
        session: &Session,
        text: &str,
        parameters: &QueryParameters<'_>,
    ) -> Result<Answer, Failure> {
        let _pass = self.enter()?;
        let served = pin!(execute::query(self, session, text, parameters));
        watched(self, served, || Task::query(text, parameters.page_size, parameters.consistency)).await
    }

    /// PREPARE: installed on all shards and durable when it returns.
    pub async fn prepare(
        &self,
        session: &Session,
        text: &str,
        keyspace: Option<&str>,
    ) -> Result<PreparedAnswer, Failure> {
        let _pass = self.enter()?;
        let served = pin!(execute::prepared::prepare(self, session, text, keyspace));
        watched(self, served, || Task::prepare(text)).await
    }

    /// EXECUTE.
    pub async fn execute(
        &self,
        session: &Session,
        id: &[u8],
        parameters: &QueryParameters<'_>,
    ) -> Result<Answer, Failure> {
        let _pass = self.enter()?;
        let served = pin!(execute::execute(self, session, id, parameters));
        watched(self, served, || Task::execute(id, parameters.values.len(), parameters.consistency)).await
    }

    /// BATCH; `parameters.values` is empty.
    pub async fn batch(
        &self,
        session: &Session,
        kind: BatchKind,
        entries: &[BatchEntry<'_>],
        parameters: &QueryParameters<'_>,
    ) -> Result<Answer, Failure> {
        let _pass = self.enter()?;
        let served = pin!(execute::batch::message(self, session, kind, entries, parameters));
        watched(self, served, || Task::batch(entries, parameters.consistency)).await
    }

    /// The schema that this shard serves.
    pub fn schema(&self) -> Arc<Schema> {
        self.inner.schema.borrow().clone()
    }

    /// The node's host id.
    pub fn host_id(&self) -> uuid::Uuid {
        self.inner.identity.host_id
    }

    /// The node's tokens, ascending.
    pub fn tokens(&self) -> &[i64] {
        &self.inner.identity.tokens
    }

    /// The gossip generation of this start, seconds since 1970.
    pub fn generation(&self) -> i32 {
        self.inner.identity.generation
    }

    /// What the node was told.
    pub fn node_config(&self) -> &Config {
        &self.inner.config
    }

    /// Waits for the first failure of a kind of this shard's disk that was not told before.
    pub async fn next_fault(&self) -> Fault {
        self.store().next_fault().await
    }

    /// Messages sent to other cores on behalf of this shard's requests since the start.
    pub fn messages_sent(&self) -> u64 {
        self.inner.mailbox.sent()
    }

    /// Refuses new requests, waits for those under way, closes the store. All shards stop together.
    pub async fn stop(&self) -> Result<(), Failure> {
        self.inner.gate.close().await;
        // Others may still ask this shard on behalf of their clients, until all have drained.
        self.call(ShardId(0), Request::Barrier("drained")).await.done()?;
        let closed = self.inner.store.close().await;
        // Lets shard 0 send the answers of the barrier before its executor ends.
        runtime::yield_now().await;
        closed.map_err(|error| replica::failure(&self.schema(), None, error))
    }
}

impl Shard {
    fn new(
        config: Config,
        store: engine::Store,
        schema: Arc<Schema>,
        identity: Identity,
        mailbox: Mailbox,
        notifier: Rc<dyn Notifier>,
    ) -> Shard {
        store.set_host_id(*identity.host_id.as_bytes());
        let prepared = StatementCache::new(config.memory_bytes / PREPARED_SHARE);
        let texts = TextCache::new(config.memory_bytes / TEXTS_SHARE);
        let inner = Inner {
            id: runtime::current_shard(),
            map: ShardMap::new(runtime::shard_count() as u16),
            clock: Clock::new(),
            store,
            schema: RefCell::new(schema),
            schema_waiters: RefCell::default(),
            identity,
            mailbox,
            notifier,
            prepared: RefCell::new(prepared),
            texts: RefCell::new(texts),
            definitions: Semaphore::new(1),
            definitions_begun: Counter::default(),
            definitions_done: Counter::default(),
            snapshots: Semaphore::new(1),
            snapshots_expire_at: Cell::new(None),
            disk_usage: Cell::default(),
            barrier: Barrier::default(),
            held: Held::default(),
            unsettled: Unsettled::default(),
            truncations: Truncations::default(),
            figures: Rc::default(),
            gate: Gate::new(),
            trace_writes: Semaphore::new(query_trace::WRITES_MAX),
            tombstone_log: tombstones::LogGate::default(),
            config,
        };
        Shard { inner: Rc::new(inner) }
    }

    pub(crate) fn enter(&self) -> Result<runtime::gate::Pass, Failure> {
        self.inner.gate.enter().ok_or_else(|| Failure::overloaded("The node is stopping"))
    }

    pub(crate) fn config(&self) -> &Config {
        &self.inner.config
    }

    pub(crate) fn id(&self) -> ShardId {
        self.inner.id
    }

    pub(crate) fn store(&self) -> &engine::Store {
        &self.inner.store
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.inner.identity
    }

    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.inner.mailbox
    }

    pub(crate) fn trace_writes(&self) -> &Semaphore {
        &self.inner.trace_writes
    }

    pub(crate) fn tombstone_log(&self) -> &tombstones::LogGate {
        &self.inner.tombstone_log
    }

    pub(crate) fn notifier(&self) -> &dyn Notifier {
        &*self.inner.notifier
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// Waits for the right to change the schema.
    pub(crate) async fn begin_definition(&self) -> runtime::gate::Permit {
        self.inner.definitions_begun.increment();
        self.inner.definitions.acquire(1).await
    }

    /// The right that [`Shard::begin_definition`] gave is about to be given back.
    pub(crate) fn end_definition(&self) {
        self.inner.definitions_done.increment();
    }

    /// How busy changing the schema is.
    pub(crate) fn definitions_activity(&self) -> Activity {
        let active = 1 - self.inner.definitions.free().min(1);
        let (begun, completed) = (self.inner.definitions_begun.get(), self.inner.definitions_done.get());
        let pending = begun.saturating_sub(completed + active);
        Activity { active, active_max: 1, pending, completed, ..Activity::default() }
    }

    /// Waits for the right to take, list or clear snapshots.
    pub(crate) async fn begin_snapshots(&self) -> runtime::gate::Permit {
        self.inner.snapshots.acquire(1).await
    }

    pub(crate) fn disk_usage(&self) -> DiskUsage {
        self.inner.disk_usage.get()
    }

    pub(crate) fn set_disk_usage(&self, usage: DiskUsage) {
        self.inner.disk_usage.set(usage);
    }

    pub(crate) fn snapshots_expire_at(&self) -> &Cell<Option<i64>> {
        &self.inner.snapshots_expire_at
    }

    pub(crate) fn barrier(&self) -> &Barrier {
        &self.inner.barrier
    }

    pub(crate) fn held(&self) -> &Held<engine::RowGuard> {
        &self.inner.held
    }

    pub(crate) fn unsettled(&self) -> &Unsettled {
        &self.inner.unsettled
    }

    pub(crate) fn truncations(&self) -> &Truncations {
        &self.inner.truncations
    }

    pub(crate) fn prepared(&self) -> &RefCell<StatementCache> {
        &self.inner.prepared
    }

    /// Plans of QUERY texts against the schema of this moment.
    pub(crate) fn texts(&self) -> &RefCell<TextCache<Rc<Statement>>> {
        &self.inner.texts
    }

    pub(crate) fn schema_ref(&self) -> Ref<'_, Arc<Schema>> {
        self.inner.schema.borrow()
    }

    /// What evaluating terms needs from this shard.
    pub(crate) fn evaluation(&self) -> Evaluation<'_> {
        Evaluation(&self.inner.clock)
    }

    /// Which core owns a token of a table; tables with LocalStrategy live on shard 0.
    pub(crate) fn route(&self, local: bool, token: Token) -> ShardId {
        if local { ShardId(0) } else { ShardId(self.inner.map.owner(token)) }
    }

    /// Serves `schema` from now on.
    pub(crate) fn set_schema(&self, schema: Arc<Schema>) {
        *self.inner.schema.borrow_mut() = schema;
        self.inner.texts.borrow_mut().clear();
        let waiters = std::mem::take(&mut *self.inner.schema_waiters.borrow_mut());
        waiters.into_iter().for_each(Waker::wake);
    }

    /// Waits until `pick` finds something in the schema.
    pub(crate) async fn schema_switched<T>(&self, pick: impl Fn(&Schema) -> Option<T>) -> T {
        std::future::poll_fn(|cx| match pick(&self.inner.schema.borrow()) {
            Some(found) => Poll::Ready(found),
            None => {
                self.inner.schema_waiters.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    /// Takes messages of other cores. What they lead to lies in the caches of those cores or in none: all of it is asked
    /// for before any of it is looked at, so that the waits are one.
    pub(crate) fn receive_all(&self, messages: &mut Vec<(ShardId, Message)>) {
        messages.iter().for_each(|(_, message)| message.prefetch());
        for step in [Step::Way, Step::Partition] {
            messages.iter().filter_map(|(_, message)| message.asks_for()).for_each(|(table, token)| {
                self.inner.store.prefetch(table, token, step);
            });
        }
        messages.drain(..).for_each(|(from, message)| self.receive(from, message));
    }

    /// Takes a message of another core.
    fn receive(&self, from: ShardId, message: Message) {
        match message {
            Message::Reply { id, reply } => self.inner.mailbox.complete(id, reply),
            Message::Request { id, request } => replica::receive(self, from, id, request),
            Message::Start(_) => {}
        }
    }

    /// Asks shard `to` (this one too) and waits for its answer.
    pub(crate) async fn call(&self, to: ShardId, request: Request) -> Reply {
        if to == self.inner.id {
            replica::serve(self, request).await
        } else {
            self.inner.mailbox.call(to, request).await
        }
    }

    /// Asks every shard, this one too, at the same time; replies in the order of the shards.
    pub(crate) async fn call_all(&self, request: impl Fn() -> Request) -> Vec<Reply> {
        let shards = 0..runtime::shard_count() as u16;
        runtime::sync::join_all(shards.map(|to| self.call(ShardId(to), request())).collect()).await
    }
}
