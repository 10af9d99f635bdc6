//! The metrics of a shard as a whole, collected on that shard when they are asked for.

use super::charges::{QuotaCharges, RelievedPartition, TableCharges};
use super::operations::{Latency, Operation};
use crate::guards::alerts::{Alert, AlertKind};
use crate::ports::{Activity, PeerTraffic, Served};
use engine::CacheMetrics;
use runtime::metrics::{ClassMetrics, DiskMetrics};
use std::time::Duration;

/// The metrics of one shard as a whole.
#[derive(Clone, Debug)]
pub struct ShardMetrics {
    /// How long operations take, by class.
    pub latencies: Vec<(Operation, Latency)>,
    /// What each class of tasks has done and is waiting for.
    pub classes: Vec<ClassMetrics>,
    /// Operations on files.
    pub disk: Vec<DiskMetrics>,
    /// CPU time of the shard's thread, and the time it waited for a CPU; `None` if the system does not tell.
    pub cpu: Option<(Duration, Duration)>,
    /// The block cache of SSTables.
    pub cache: CacheMetrics,
    /// Bytes in memtables of user tables, and their budget.
    pub memtables: (u64, u64),
    /// Requests of clients.
    pub served: Served,
    /// Messages from and to other nodes.
    pub peers: PeerTraffic,
    /// Compactions.
    pub compactions: Activity,
    /// Flushes.
    pub flushes: Activity,
    /// Changes of the schema; all of them run on shard 0.
    pub definitions: Activity,
    /// By core: messages that it has not taken yet.
    pub messages_waiting: Vec<u64>,
    /// Calls to other cores that await an answer.
    pub calls_waiting: u64,
    /// Calls received from other cores since the start.
    pub calls: u64,
    /// Prepared statements that were run, and other statements.
    pub statements: (u64, u64),
    /// Reads for which replicas were written what they lacked.
    pub reads_repaired: u64,
    /// Repairs of partitions that were sent to further replicas, because others were late or failed.
    pub repairs_speculated: u64,
    /// Repairs that this node leads; on shard 0.
    pub repairs: RepairMetrics,
    /// SSTables with damaged bytes that are served, and those that were replaced by rows of other replicas.
    pub damaged_sstables: (u64, u64),
    /// Reads whose replicas gave different digests, of tables whose replicas are repaired by that.
    pub digests_differed: u64,
    /// Reads that asked one more replica because answers were late.
    pub reads_speculated: u64,
    /// Reads of hot partitions that were answered by an equal one.
    pub reads_joined: u64,
    /// Reads of hot partitions that have asked other replicas than the nearest.
    pub reads_spread: u64,
    /// Mutations that other nodes did not write in time, or at all.
    pub mutations_missed: u64,
    /// Logged batches that were applied again.
    pub batches_replayed: u64,
    /// Logged batches that were given up.
    pub batches_expired: u64,
    /// Mutations that are kept for other nodes.
    pub hints: HintMetrics,
    /// Streams to and from other nodes.
    pub streams: StreamMetrics,
    /// What was charged for tables whose throughput is limited.
    pub charges: Vec<TableCharges>,
    /// What was charged to quotas of keyspaces and roles.
    pub quotas: Vec<QuotaCharges>,
    /// Partitions whose reads are relieved, by table and key.
    pub relieved: Vec<RelievedPartition>,
    /// What is close to a limit, the newest first, and how often each kind was told of, as [`AlertKind::ALL`] has them.
    pub alerts: (Vec<Alert>, [u64; AlertKind::ALL.len()]),
}

/// What has come of repairs that a shard leads. Counts are since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RepairMetrics {
    /// Commands under way.
    pub running: u64,
    /// Commands that have ended well, and that have failed.
    pub ended: [u64; 2],
    /// Partitions that were compared, and the bytes of their rows.
    pub partitions: u64,
    /// See `partitions`.
    pub bytes: u64,
    /// Partitions in which replicas differed.
    pub differing: u64,
    /// Bytes of hashes and rows that other nodes were asked for, and of rows that replicas lacked.
    pub hash_bytes: u64,
    /// See `hash_bytes`.
    pub read_bytes: u64,
    /// See `hash_bytes`.
    pub written_bytes: u64,
}

/// What a shard streams. Counts are since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamMetrics {
    /// Bytes that were sent.
    pub sent_bytes: u64,
    /// Bytes that were received and were good.
    pub received_bytes: u64,
    /// Sessions in which it sends now.
    pub sessions: u64,
}

/// What has become of mutations that other nodes have missed. Counts are since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HintMetrics {
    /// Kept.
    pub kept: u64,
    /// Missed and not kept.
    pub refused: u64,
    /// Written by the nodes that had missed them.
    pub delivered: u64,
    /// Dropped, because tombstones that they need may be gone.
    pub expired: u64,
    /// Dropped, because their tables were dropped or truncated.
    pub void: u64,
    /// Damaged parts of files.
    pub damaged: u64,
    /// Bytes that are kept now.
    pub bytes: u64,
    /// Deliveries of files.
    pub deliveries: Activity,
}
