//! The actor: one core's store, schema, statements and the state of its requests.
//!
//! [`Shard`] is the handle that everything above passes around. Its state consists of parts with invariants of their
//! own; a part is changed only by its own methods.
//!
//! Invariants: the state of a shard is reached only by tasks of its own core; a message is the only way in. Tables with
//! LocalStrategy live on shard 0.
//!
//! What is served, and how, is decided above: `dispatch` serves messages, `execute` runs statements. Calls from here to
//! them go through the [`Handlers`] that `start` plugs in.

mod barrier;
mod calls;
mod clock;
mod cluster_view;
mod damaged;
mod definition_turn;
pub(crate) mod hints;
pub(crate) mod hot_reads;
mod kept_batches;
mod key_figures;
pub(crate) mod lease_book;
mod metadata;
mod older_topologies;
mod partition_locks;
mod placement_registry;
pub(crate) mod quotas;
pub(crate) mod relayed_writes;
pub(crate) mod repair_proofs;
pub(crate) mod repair_sessions;
pub(crate) mod repairs;
mod request_time;
mod schema_registry;
pub(crate) mod streams;
pub(crate) mod table_fetches;
pub(crate) mod tablet_loads;
pub(crate) mod throughput;
mod tracing;
mod truncations;
mod writes_behind;

pub(crate) use calls::Handlers;
pub(crate) use clock::Clock;
pub(crate) use metadata::ProposalError;
pub(crate) use partition_locks::PartitionLocks;

use crate::config::{Config, Timeouts};
use crate::guards::alerts::{AlertKind, Alerts, PARTITION_BYTES_MAX};
use crate::guards::disk_usage::DiskUsage;
use crate::guards::tombstones::LogGate;
use crate::mailbox::Mailbox;
use crate::metrics::Metrics;
use crate::paxos::columns::PaxosColumns;
use crate::paxos::recent::RecentAcceptors;
use crate::paxos::unsettled::Unsettled;
use crate::ports::{Notifier, Peers};
use crate::query_trace;
use crate::roles::Roles;
use crate::schema::local::Identity;
use crate::statements::Statement;
use crate::statements::cache::{PREPARED_SHARE, StatementCache};
use crate::statements::text_cache::{TEXTS_SHARE, TextCache};
use barrier::Barrier;
use cluster::placement::Placement;
use cluster::topology::Topology;
use damaged::DamagedStates;
use definition_turn::DefinitionTurn;
use engine::LARGE_PARTITION_BYTES;
use hints::Hints;
use hot_reads::HotReads;
use kept_batches::KeptBatches;
use key_figures::KeyFigures;
use metadata::MetadataLog;
use model::{Failure, RingToken, Schema};
use placement_registry::PlacementRegistry;
use relayed_writes::RelayedWrites;
use repair_proofs::RepairProofs;
use repair_sessions::RepairSessions;
use repairs::RepairStates;
use runtime::ShardId;
use runtime::gate::{Gate, Semaphore};
use schema_registry::SchemaRegistry;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use streams::Streams;
use table_fetches::TableFetches;
use tablet_loads::TabletLoads;
use throughput::Throughput;
use truncations::Truncations;
use writes_behind::WritesBehind;

/// Most segments that a core hashes at once for repairs.
const VALIDATIONS_MAX: u64 = 2;

/// The actor of one core. Clones share its state.
#[derive(Clone)]
pub struct Shard {
    inner: Rc<Inner>,
}

/// A shard that whoever holds this does not keep alive: what the shard itself owns refers back to it so.
#[derive(Clone)]
pub struct WeakShard {
    inner: Weak<Inner>,
}

impl WeakShard {
    /// The shard, unless it is gone.
    pub fn upgrade(&self) -> Option<Shard> {
        self.inner.upgrade().map(|inner| Shard { inner })
    }
}

/// A shard's state.
struct Inner {
    config: Config,
    id: ShardId,
    identity: Identity,
    handlers: Handlers,
    notifier: Rc<dyn Notifier>,
    peers: Rc<dyn Peers>,
    mailbox: Mailbox,
    store: engine::Store,
    clock: Clock,
    schema: SchemaRegistry,
    placement: PlacementRegistry,
    prepared: RefCell<StatementCache>,
    texts: RefCell<TextCache<Rc<Statement>>>,
    /// Locks that requests hold across several messages.
    partition_locks: PartitionLocks<engine::PartitionLockGuard>,
    /// Held by the rounds of Paxos of this core, one of each partition, so that they do not overtake each other.
    decision_turns: engine::partition_locks::PartitionLocks,
    /// Proposals of Paxos of which it is unknown whether the log has them.
    unsettled: Unsettled,
    /// What its acceptors of Paxos have stored lately.
    recent_acceptors: RecentAcceptors,
    paxos_columns: PaxosColumns,
    truncations: Truncations,
    /// The logged batches that are stored here.
    kept_batches: KeptBatches,
    /// Writes that wait for replicas after their clients were answered.
    writes_behind: WritesBehind,
    relayed_writes: RelayedWrites,
    hints: Hints,
    roles: Roles,
    streams: Streams,
    throughput: Throughput,
    tablet_loads: TabletLoads,
    key_figures: KeyFigures,
    hot_reads: HotReads,
    alerts: Alerts,
    metrics: Rc<Metrics>,
    /// Open while requests of clients are accepted.
    gate: Gate,
    /// One permit per trace that is being written.
    trace_writes: Semaphore,
    /// One permit per segment that is hashed for a repair.
    validations: Semaphore,
    tombstone_log: LogGate,
    filtering_log: LogGate,
    /// How full the disk is, as shard 0 last announced.
    disk_usage: Cell<DiskUsage>,
    timeouts: Cell<Timeouts>,
    /// How long the request that is being polled has waited before it began.
    waited: Cell<Duration>,
    /// Whether some requests may take longer than their clients wait.
    outlasts_clients: Cell<bool>,
    leader: Leader,
}

/// State that only shard 0 uses, because it changes the schema, takes snapshots and stops the node for all shards.
struct Leader {
    definitions: DefinitionTurn,
    metadata: MetadataLog,
    /// One permit: a single operation on snapshots runs at a time.
    snapshots: Semaphore,
    /// When the first snapshot expires, milliseconds since 1970; `None` if that must be found out.
    snapshots_expire_at: Cell<Option<i64>>,
    barrier: Barrier,
    repairs: RepairStates,
    repair_sessions: RepairSessions,
    repair_proofs: RepairProofs,
    table_fetches: TableFetches,
    damaged: DamagedStates,
}

/// What a shard is made of.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) store: engine::Store,
    pub(crate) schema: Arc<Schema>,
    pub(crate) identity: Identity,
    pub(crate) mailbox: Mailbox,
    pub(crate) notifier: Rc<dyn Notifier>,
    pub(crate) peers: Rc<dyn Peers>,
    pub(crate) handlers: Handlers,
}

impl Shard {
    /// A handle that does not keep the shard alive.
    pub fn downgrade(&self) -> WeakShard {
        WeakShard { inner: Rc::downgrade(&self.inner) }
    }

    /// The schema that this shard serves.
    pub fn schema(&self) -> Arc<Schema> {
        self.inner.schema.current()
    }

    /// The node's host id.
    pub fn host_id(&self) -> uuid::Uuid {
        self.inner.identity.host_id
    }

    /// The node's tokens in ascending order: those that it claimed when it joined. To be asked on shard 0.
    pub fn tokens(&self) -> Vec<RingToken> {
        let metadata = self.metadata().current();
        match metadata.members.get(&self.host_id()) {
            Some(member) => member.tokens_in(self.partitioner()),
            None => self.inner.identity.tokens.clone(),
        }
    }

    /// The gossip generation of this start, seconds since 1970.
    pub fn generation(&self) -> i32 {
        self.inner.identity.generation
    }

    /// Where the data of all tables is.
    pub fn placement(&self) -> Rc<Placement> {
        self.inner.placement.current()
    }

    /// The way to other nodes.
    pub fn peers(&self) -> &dyn Peers {
        &*self.inner.peers
    }

    /// The nodes of the cluster now. A request that has a placement looks at the nodes of that one.
    pub fn topology(&self) -> Rc<Topology> {
        self.inner.placement.topology()
    }

    /// The version of the cluster's metadata by which this core places data.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.inner.placement.epoch()
    }

    /// The configuration that the node was started with.
    pub fn node_config(&self) -> &Config {
        &self.inner.config
    }

    /// Waits for the next failure of this shard's disk; each kind of failure is reported once.
    pub async fn next_fault(&self) -> engine::Fault {
        self.store().next_fault().await
    }

    /// Messages sent to other cores on behalf of this shard's requests since the start.
    pub fn messages_sent(&self) -> u64 {
        self.inner.mailbox.sent()
    }
}

impl Shard {
    /// Creates the actor of the current core.
    pub(crate) fn new(parts: Parts) -> Shard {
        let Parts { config, store, schema, identity, mailbox, notifier, peers, handlers } = parts;
        store.set_host_id(*identity.host_id.as_bytes());
        let prepared = StatementCache::new(config.shard_memory_bytes() / PREPARED_SHARE);
        let texts = TextCache::new(config.shard_memory_bytes() / TEXTS_SHARE);
        let metrics = Rc::<Metrics>::default();
        metrics.running.log_slow(config.slow_query_timeout);
        let inner = Inner {
            id: runtime::current_shard(),
            clock: Clock::new(),
            store,
            placement: PlacementRegistry::new(&config, &identity, &schema),
            identity,
            handlers,
            mailbox,
            notifier,
            peers,
            prepared: RefCell::new(prepared),
            texts: RefCell::new(texts),
            partition_locks: PartitionLocks::default(),
            decision_turns: engine::partition_locks::PartitionLocks::default(),
            unsettled: Unsettled::default(),
            recent_acceptors: RecentAcceptors::default(),
            paxos_columns: PaxosColumns::of(&schema),
            truncations: Truncations::default(),
            kept_batches: KeptBatches::default(),
            writes_behind: WritesBehind::default(),
            relayed_writes: RelayedWrites::default(),
            hints: Hints::new(config.hints_directory(), config.hints.clone()),
            roles: {
                let access = &config.access;
                Roles::new(access.validity(), access.update_interval(), access.entries_max())
            },
            streams: Streams::new(&config.streams),
            throughput: {
                let throughput = Throughput::default();
                throughput.adopt(&schema);
                throughput
            },
            tablet_loads: TabletLoads::default(),
            key_figures: KeyFigures::default(),
            hot_reads: HotReads::new(config.hot_partition_relief.then_some(config.hot_partition_reads_per_second)),
            alerts: Alerts::default(),
            metrics,
            gate: Gate::new(),
            trace_writes: Semaphore::new(query_trace::WRITES_MAX),
            validations: Semaphore::new(VALIDATIONS_MAX),
            tombstone_log: LogGate::default(),
            filtering_log: LogGate::default(),
            disk_usage: Cell::default(),
            timeouts: Cell::new(Timeouts::of(&config)),
            waited: Cell::default(),
            outlasts_clients: Cell::new(Timeouts::of(&config).outlast(config.client_timeout)),
            schema: SchemaRegistry::new(schema),
            leader: Leader {
                definitions: DefinitionTurn::default(),
                metadata: MetadataLog::default(),
                snapshots: Semaphore::new(1),
                snapshots_expire_at: Cell::new(None),
                barrier: Barrier::default(),
                repairs: RepairStates::default(),
                repair_sessions: RepairSessions::default(),
                repair_proofs: RepairProofs::default(),
                table_fetches: TableFetches::default(),
                damaged: DamagedStates::default(),
            },
            config,
        };
        let shard = Shard { inner: Rc::new(inner) };
        shard.tell_of_large_partitions();
        shard
    }

    /// Has the store tell of partitions of limited tables that are as large as the managed services allow, or nearly,
    /// and of large sub-partitions of keys that grow by themselves.
    fn tell_of_large_partitions(&self) {
        let shard = self.downgrade();
        self.store().on_large_partition(Rc::new(move |table, key, bytes| {
            let Some(shard) = shard.upgrade() else { return };
            shard.key_figures().note_size(table, key, bytes);
            if table.options.capacity.is_none() || bytes < LARGE_PARTITION_BYTES {
                return;
            }
            let percent = u64::try_from(u128::from(bytes) * 100 / u128::from(PARTITION_BYTES_MAX)).unwrap_or(u64::MAX);
            let subject = format!("the partition {}", table.key_text(key));
            let name = (table.keyspace.as_str(), table.name.as_str());
            let limit = format!("{PARTITION_BYTES_MAX} bytes");
            shard.alerts().note(AlertKind::PartitionSize, name, &subject, (percent, &limit), true);
        }));
    }

    /// How large and how busy the sub-partitions are of keys that grow by themselves.
    pub(crate) fn key_figures(&self) -> &KeyFigures {
        &self.inner.key_figures
    }

    /// What is close to a limit.
    pub(crate) fn alerts(&self) -> &Alerts {
        &self.inner.alerts
    }

    /// A pass for a request of a client, or for background work that stopping must wait for.
    ///
    /// # Errors
    /// Overloaded if the node is stopping.
    pub(crate) fn enter(&self) -> Result<runtime::gate::Pass, Failure> {
        self.inner.gate.enter().ok_or_else(|| Failure::overloaded("The node is stopping"))
    }

    /// Refuses new requests of clients and waits until those under way have ended.
    pub(crate) async fn drain(&self) {
        self.inner.gate.close().await;
    }

    pub(crate) fn config(&self) -> &Config {
        &self.inner.config
    }

    /// How long requests may take now.
    #[inline]
    pub fn timeouts(&self) -> Timeouts {
        self.inner.timeouts.get()
    }

    /// Longer than any request takes that reads or writes data.
    pub(crate) fn request_time_max(&self) -> Duration {
        self.inner.placement.request_time_max()
    }

    /// Changes how long requests may take that begin from now on.
    pub(crate) fn set_timeouts(&self, timeouts: Timeouts) {
        self.inner.placement.lengthen_requests(&timeouts);
        self.inner.outlasts_clients.set(timeouts.outlast(self.config().client_timeout));
        self.inner.timeouts.set(timeouts);
    }

    /// What is done about damaged SSTables, on shard 0.
    pub(crate) fn damaged_states(&self) -> &DamagedStates {
        &self.inner.leader.damaged
    }

    /// What is known to be repaired on all replicas. To be asked on shard 0.
    pub(crate) fn repair_proofs(&self) -> &RepairProofs {
        &self.inner.leader.repair_proofs
    }

    /// What this node fetches of tables that others hand out. To be asked on shard 0.
    pub(crate) fn table_fetches(&self) -> &TableFetches {
        &self.inner.leader.table_fetches
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

    pub(crate) fn metrics(&self) -> &Rc<Metrics> {
        &self.inner.metrics
    }

    pub(crate) fn trace_writes(&self) -> &Semaphore {
        &self.inner.trace_writes
    }

    pub(crate) fn tombstone_log(&self) -> &LogGate {
        &self.inner.tombstone_log
    }

    /// When the log was last told of filtered reads that see many rows.
    pub(crate) fn filtering_log(&self) -> &LogGate {
        &self.inner.filtering_log
    }

    pub(crate) fn notifier(&self) -> &dyn Notifier {
        &*self.inner.notifier
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// The turns in which shard 0 changes the schema.
    pub(crate) fn definitions(&self) -> &DefinitionTurn {
        &self.inner.leader.definitions
    }

    /// What the cluster agrees on. To be used on shard 0.
    pub(crate) fn metadata(&self) -> &MetadataLog {
        &self.inner.leader.metadata
    }

    /// Waits for the right to take, list or clear snapshots. To be called on shard 0.
    pub(crate) async fn begin_snapshots(&self) -> runtime::gate::Permit {
        self.inner.leader.snapshots.acquire(1).await
    }

    pub(crate) fn snapshots_expire_at(&self) -> &Cell<Option<i64>> {
        &self.inner.leader.snapshots_expire_at
    }

    pub(crate) fn barrier(&self) -> &Barrier {
        &self.inner.leader.barrier
    }

    pub(crate) fn disk_usage(&self) -> DiskUsage {
        self.inner.disk_usage.get()
    }

    pub(crate) fn set_disk_usage(&self, usage: DiskUsage) {
        self.inner.disk_usage.set(usage);
    }

    pub(crate) fn partition_locks(&self) -> &PartitionLocks<engine::PartitionLockGuard> {
        &self.inner.partition_locks
    }

    /// The turns of this core's rounds of Paxos among several replicas, which are not the locks of its own replicas.
    pub(crate) fn decision_turns(&self) -> &engine::partition_locks::PartitionLocks {
        &self.inner.decision_turns
    }

    pub(crate) fn unsettled(&self) -> &Unsettled {
        &self.inner.unsettled
    }

    pub(crate) fn recent_acceptors(&self) -> &RecentAcceptors {
        &self.inner.recent_acceptors
    }

    pub(crate) fn paxos_columns(&self) -> &PaxosColumns {
        &self.inner.paxos_columns
    }

    pub(crate) fn writes_behind(&self) -> &WritesBehind {
        &self.inner.writes_behind
    }

    /// Answers of nodes to which other nodes pass mutations on.
    pub(crate) fn relayed_writes(&self) -> &RelayedWrites {
        &self.inner.relayed_writes
    }

    /// Mutations that other nodes have missed.
    pub(crate) fn hints(&self) -> &Hints {
        &self.inner.hints
    }

    /// What this core has read of roles.
    pub(crate) fn roles(&self) -> &Roles {
        &self.inner.roles
    }

    /// One permit per segment that is hashed for a repair.
    pub(crate) fn validations(&self) -> &Semaphore {
        &self.inner.validations
    }

    /// The repairs that this node leads. Kept by shard 0.
    pub fn repairs(&self) -> &RepairStates {
        &self.inner.leader.repairs
    }

    /// The sessions of incremental repair that this node takes part in. Kept by shard 0.
    pub fn repair_sessions(&self) -> &RepairSessions {
        &self.inner.leader.repair_sessions
    }

    /// Sessions of streaming and what is known of their progress.
    pub(crate) fn streams(&self) -> &Streams {
        &self.inner.streams
    }

    /// Leases of units, and the buckets that this core keeps.
    #[inline]
    pub(crate) fn throughput(&self) -> &Throughput {
        &self.inner.throughput
    }

    /// How busy the tablets are of which this core serves a part.
    #[inline]
    pub(crate) fn tablet_loads(&self) -> &TabletLoads {
        &self.inner.tablet_loads
    }

    /// The partitions whose reads are relieved.
    #[inline]
    pub(crate) fn hot_reads(&self) -> &HotReads {
        &self.inner.hot_reads
    }

    /// Whether the node is stopping.
    pub(crate) fn is_draining(&self) -> bool {
        self.inner.gate.is_closed()
    }

    /// Shut when the node stops.
    pub(crate) fn gate(&self) -> &Gate {
        &self.inner.gate
    }

    pub(crate) fn truncations(&self) -> &Truncations {
        &self.inner.truncations
    }

    pub(crate) fn kept_batches(&self) -> &KeptBatches {
        &self.inner.kept_batches
    }

    /// Prepared statements by id.
    pub(crate) fn prepared(&self) -> &RefCell<StatementCache> {
        &self.inner.prepared
    }

    /// Plans of QUERY texts against the current schema.
    pub(crate) fn texts(&self) -> &RefCell<TextCache<Rc<Statement>>> {
        &self.inner.texts
    }
}
