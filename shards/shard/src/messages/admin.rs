//! Requests of operators and of monitoring.

use crate::config::Timeouts;
use crate::guards::disk_usage::DiskUsage;
use crate::metrics::{Measure, RequestMetrics, SampleRequest, Samples, ShardMetrics, TableMetrics};
use crate::ports::Observation;
use cluster::key_growth::SubPartitionFigures;
use cluster::placement::Placement;
use cluster::replication::ReplicationBefore;
use cluster::sub_partitions::SubPartitionMap;
use cluster::tablets::Tablets;
use cluster::tablets::load::LoadReport;
use cluster::topology::{Node, NodeIndex, Topology};
use engine::compaction::{CompactionScope, CompactionStatistics};
use engine::damaged::DamagedSstable;
use engine::store::LogPosition;
use engine::verify::{Check, Invalid};
use engine::{Descriptor, PartNames, SizeEstimate, TableStatistics};
use model::tombstone_gc::RepairedRanges;
use model::{DecoratedKey, Mutation, RingToken, Schema, Table, TableId, TokenRange};
use runtime::Instant;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// The nodes of the cluster in an epoch of its metadata.
#[derive(Debug)]
pub struct Members {
    /// The epoch.
    pub(crate) epoch: u64,
    /// All nodes.
    pub(crate) nodes: Vec<Node>,
    /// The position of this one.
    pub(crate) here: NodeIndex,
    /// What the operations under way are going to change.
    pub(crate) changes: RingChanges,
}

/// How data is placed besides by the ring: what the operations that are under way are going to change, tablets, and
/// sub-partitions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct RingChanges {
    /// The tokens that each node has then, in the order of the nodes; empty if all keep theirs.
    pub(crate) next_tokens: Vec<Vec<RingToken>>,
    /// The replication that keyspaces have until then, where the schema has another one already.
    pub(crate) replication_before: BTreeMap<String, ReplicationBefore>,
    /// The tablets of all tables.
    pub(crate) tablets: Tablets,
    /// See [`cluster::metadata::Metadata::sub_partitions`].
    pub(crate) sub_partitions: BTreeMap<[u8; 16], Arc<SubPartitionMap>>,
}

impl RingChanges {
    /// The placement of `schema` on the nodes of `topology`.
    pub(crate) fn placement(&self, topology: Rc<Topology>, schema: &Schema) -> Placement {
        Placement::changing(topology, schema, &self.replication_before, (&self.tablets, &self.sub_partitions))
    }
}

/// The truncation of a table that members owe, because they are down.
#[derive(Debug)]
pub struct OwedTruncation {
    /// The table.
    pub(crate) table: TableId,
    /// The host ids of the members.
    pub(crate) host_ids: Vec<Uuid>,
    /// When all that are alive must know of it.
    pub(crate) deadline: Instant,
}

/// The kind of metrics that a core is asked for.
#[derive(Clone, Debug)]
pub enum MetricsRequest {
    /// The core's clients.
    Clients,
    /// These measures of its work with each table.
    Tables(Vec<Measure>),
    /// Metrics of requests.
    Requests,
    /// The core itself: latencies, memory, caches, queues.
    Shard,
}

/// The answer to a [`MetricsRequest`].
#[derive(Debug)]
pub enum MetricsReply {
    /// The answer to [`MetricsRequest::Clients`].
    Clients(Observation),
    /// The answer to [`MetricsRequest::Tables`].
    Tables(TableMetrics),
    /// The answer to [`MetricsRequest::Requests`].
    Requests(Box<RequestMetrics>),
    /// The answer to [`MetricsRequest::Shard`].
    Shard(Box<ShardMetrics>),
}

/// A request to take part in splitting a foreign SSTable between the cores.
#[derive(Clone, Debug)]
pub struct SplitRequest {
    pub(crate) table: TableId,
    pub(crate) foreign: Descriptor,
    pub(crate) step: SplitStep,
}

/// A step of a split, in the order in which they are sent.
#[derive(Clone, Debug)]
pub(crate) enum SplitStep {
    /// Return the current log position, if this core serves the foreign SSTable.
    Begin,
    /// Open this core's part.
    Open(PartNames),
    /// Serve this core's part instead of the foreign SSTable.
    Adopt,
    /// Forget the parts: the split failed.
    Drop,
}

/// An operator's request about the storage of one table, or of all. Every core runs it on its own part.
#[derive(Clone, Debug)]
pub enum TableVerb {
    /// Return the statistics of a table.
    Statistics(TableId),
    /// Estimate how many partitions a table has in each range.
    SizeEstimates {
        /// The table.
        table: TableId,
        /// The ranges.
        ranges: Arc<[TokenRange]>,
    },
    /// Return how busy the tablets of all tables are.
    TabletLoads,
    /// Return how large and how busy the sub-partitions are of keys that grow by themselves.
    KeyFigures,
    /// Write the table's memtables to SSTables.
    Flush(TableId),
    /// Write the memtables of all tables to SSTables.
    FlushAll,
    /// Compact SSTables of a table.
    Compact {
        /// The table.
        table: TableId,
        /// Which SSTables.
        chosen: CompactionScope,
    },
    /// Remove the keys of a table that this node does not own.
    Clean(TableId),
    /// Link the files of a table into a snapshot.
    Snapshot {
        /// The table.
        table: TableId,
        /// The snapshot's name.
        tag: Arc<str>,
        /// Whether memtables are flushed first.
        flush: bool,
    },
    /// List the SSTables of a table when no flush or compaction is writing any.
    Served(TableId),
    /// Return the log position from which imported SSTables start.
    LogPlace,
    /// Open SSTables that were placed in a table's directory.
    OpenImported {
        /// The table.
        table: TableId,
        /// Which SSTables.
        placed: Vec<Descriptor>,
    },
    /// Serve what [`TableVerb::OpenImported`] opened, or forget it.
    EndImport {
        /// The table.
        table: TableId,
        /// Whether the import succeeded.
        committed: bool,
    },
    /// Check the SSTables of a table.
    Verify {
        /// The table.
        table: TableId,
        /// What to check.
        check: Check,
    },
    /// List the SSTables in which damaged bytes were met.
    Damaged,
    /// Mark an SSTable as damaged, as one of the shards that serve it has found.
    MarkDamaged {
        /// The table.
        table: TableId,
        /// The SSTable.
        name: Descriptor,
    },
    /// Keep a damaged SSTable in a snapshot and take it out of its table.
    SetAside {
        /// The table.
        table: TableId,
        /// The SSTable.
        name: Descriptor,
        /// The snapshot's name.
        tag: Arc<str>,
    },
    /// Find the SSTables that have a partition.
    SstablesWith {
        /// The table.
        table: TableId,
        /// The partition.
        key: DecoratedKey,
    },
    /// Set how many bytes per second compactions of the node may read; 0: no limit.
    SetThroughput(u64),
    /// Set what is known to be repaired of a table on all replicas.
    SetRepaired {
        /// The table.
        table: TableId,
        /// What is.
        ranges: Arc<RepairedRanges>,
    },
    /// Set whether the strategy of a table may start compactions by itself.
    SetAutoCompaction {
        /// The table.
        table: TableId,
        /// Whether it may.
        on: bool,
    },
    /// Set how long requests may take.
    SetTimeouts(Timeouts),
    /// Set how full the disk is.
    SetDiskUsage(DiskUsage),
    /// Set the bytes that keyspaces store, of one replica in this data centre, by name.
    SetStored(Arc<[(String, u64)]>),
    /// Return how many bytes memtables take.
    Memory,
    /// Return what compactions are doing and have done.
    Compactions,
    /// Return how many flushes are running and have completed.
    Flushes,
    /// Begin to sample which partitions are read and written.
    BeginSampling(SampleRequest),
    /// End the sampling with this number, and return what it has found.
    EndSampling(u64),
    /// Build an index of a table.
    BuildIndex {
        /// The table.
        table: TableId,
        /// The index.
        index: Arc<str>,
    },
    /// Set the unrepaired data of a table in some ranges apart for an incremental repair.
    SetApart {
        /// The table.
        table: TableId,
        /// The ranges.
        ranges: Arc<[TokenRange]>,
        /// The session.
        session: Uuid,
    },
    /// Add rows that this core owns to what is set apart.
    AddPending {
        /// The session.
        session: Uuid,
        /// The rows.
        mutation: Mutation,
    },
    /// Make what was added durable.
    KeepPending(Uuid),
    /// Give what is set apart back: repaired at this time, milliseconds since 1970, or unrepaired if that is 0.
    SettleRepair {
        /// The session.
        session: Uuid,
        /// When it was repaired.
        repaired_at: i64,
    },
    /// Return the sessions for which data is set apart.
    PendingRepairs,
    /// Remove the files of an index that was dropped.
    RemoveIndex {
        /// The table.
        table: Arc<Table>,
        /// The index.
        index: Arc<str>,
    },
}

/// What one core answers to a [`TableVerb`].
#[derive(Clone, Debug)]
pub enum TableAnswer {
    /// Done.
    Done,
    /// The answer to [`TableVerb::Statistics`].
    Statistics(Box<TableStatistics>),
    /// The answer to [`TableVerb::SizeEstimates`], in the order of the ranges.
    SizeEstimates(Vec<SizeEstimate>),
    /// The answer to [`TableVerb::TabletLoads`].
    TabletLoads(Vec<(TableId, Vec<LoadReport>)>),
    /// The answer to [`TableVerb::KeyFigures`].
    KeyFigures(Vec<(TableId, Vec<SubPartitionFigures>)>),
    /// The answer to [`TableVerb::Damaged`].
    Damaged {
        /// Those of the core.
        sstables: Vec<DamagedSstable>,
        /// On shard 0: what is done about those of all cores, by Data.db.
        states: BTreeMap<PathBuf, String>,
    },
    /// The answer to [`TableVerb::Snapshot`] and to [`TableVerb::SetAside`]: the names of the Data.db files.
    Linked(Vec<String>),
    /// The answer to [`TableVerb::Served`].
    Served(Vec<Descriptor>),
    /// The answer to [`TableVerb::LogPlace`].
    Place(LogPosition),
    /// The answer to [`TableVerb::Verify`]: the first fault found.
    Verified(Option<Invalid>),
    /// The answer to [`TableVerb::SstablesWith`]: path of Data.db and level.
    Files(Vec<(PathBuf, u32)>),
    /// The answer to [`TableVerb::PendingRepairs`].
    Sessions(Vec<Uuid>),
    /// The answer to [`TableVerb::Memory`], bytes.
    Memory(u64),
    /// The answer to [`TableVerb::Compactions`].
    Compactions(Box<CompactionStatistics>),
    /// The answer to [`TableVerb::EndSampling`].
    Samples(Box<Samples>),
    /// The answer to [`TableVerb::Flushes`].
    Flushes {
        /// Flushes under way.
        running: u64,
        /// Memtables written since the start.
        completed: u64,
    },
}

/// An operator's request about hints. Every core runs it on its own.
#[derive(Clone, Debug)]
pub enum HintVerb {
    /// Return the closed files.
    Pending,
    /// Return since when hints and logged batches wait.
    WaitingSince,
    /// Delete the hints for a node, or for all.
    Delete(Option<Uuid>),
    /// Hand all hints to this node, which keeps them.
    HandOn(Uuid),
    /// Change how hints are kept or delivered.
    Change(HintChange),
}

/// A change of how hints are kept or delivered, until the next start.
#[derive(Clone, Debug)]
pub enum HintChange {
    /// Whether they are kept.
    Enabled(bool),
    /// Whether they are kept for the nodes of a data centre.
    Center {
        /// The data centre.
        name: String,
        /// Whether they are.
        enabled: bool,
    },
    /// Whether delivery is paused.
    Paused(bool),
    /// For how long they are kept for a node that is down.
    Window(Duration),
    /// How many bytes per second are delivered; 0: no limit.
    Throttle(u64),
}

/// What one core answers to a [`HintVerb`].
#[derive(Clone, Debug)]
pub enum HintAnswer {
    /// Done.
    Done,
    /// The answer to [`HintVerb::Pending`]: for each file its node and when it was created, milliseconds since 1970.
    Pending(Vec<(Uuid, u64)>),
    /// The answer to [`HintVerb::WaitingSince`], microseconds since 1970.
    WaitingSince(Option<i64>),
}
