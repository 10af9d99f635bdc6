//! Requests of operators and of those who watch the node.

use crate::guards::disk_usage::DiskUsage;
use crate::metrics::{Measure, RequestMetrics, ShardMetrics, TableMetrics};
use crate::ports::Observation;
use engine::compaction::{CompactionScope, CompactionStatistics};
use engine::store::LogPosition;
use engine::verify::{Check, Invalid};
use engine::{Descriptor, PartNames, TableStatistics};
use model::{DecoratedKey, Table, TableId};
use std::path::PathBuf;
use std::sync::Arc;

/// Which metrics of a core are asked for.
#[derive(Clone, Debug)]
pub enum MetricsRequest {
    /// Its clients.
    Clients,
    /// These measures of its work with each table.
    Tables(Vec<Measure>),
    /// Its requests.
    Requests,
    /// The core itself: latencies, memory, caches, queues.
    Shard,
}

/// The answer to a [`MetricsRequest`].
#[derive(Debug)]
pub enum MetricsReply {
    /// To [`MetricsRequest::Clients`].
    Clients(Observation),
    /// To [`MetricsRequest::Tables`].
    Tables(TableMetrics),
    /// To [`MetricsRequest::Requests`].
    Requests(Box<RequestMetrics>),
    /// To [`MetricsRequest::Shard`].
    Shard(Box<ShardMetrics>),
}

/// A request to take part in splitting a foreign SSTable between the cores.
#[derive(Clone, Debug)]
pub struct SplitRequest {
    pub(crate) table: TableId,
    pub(crate) foreign: Descriptor,
    pub(crate) step: SplitStep,
}

/// See [`SplitRequest`].
#[derive(Clone, Debug)]
pub(crate) enum SplitStep {
    /// Tell where your log is, if you serve the foreign SSTable.
    Begin,
    /// Open your part.
    Open(PartNames),
    /// Serve your part instead of the foreign SSTable.
    Adopt,
    /// There will be no parts.
    Drop,
}

/// An operator's request about the storage of one table, or of all. Every core runs it on its own part.
#[derive(Clone, Debug)]
pub enum TableVerb {
    /// What the table holds.
    Statistics(TableId),
    /// Write what the table has in memory to an SSTable.
    Flush(TableId),
    /// Write what all tables have in memory to SSTables.
    FlushAll,
    /// Merge SSTables of a table.
    Compact {
        /// The table.
        table: TableId,
        /// Which ones.
        chosen: CompactionScope,
    },
    /// Give the files of a table second names in a snapshot.
    Snapshot {
        /// The table.
        table: TableId,
        /// The snapshot's name.
        tag: Arc<str>,
        /// Whether what is in memory is written first.
        flush: bool,
    },
    /// List the SSTables of a table, once nothing is being written.
    Served(TableId),
    /// Give the log position that imported SSTables start from.
    LogPlace,
    /// Open what was placed in a table's directory.
    OpenImported {
        /// The table.
        table: TableId,
        /// Which SSTables.
        placed: Vec<Descriptor>,
    },
    /// Show what [`TableVerb::OpenImported`] opened, or forget it.
    EndImport {
        /// The table.
        table: TableId,
        /// Whether the import took place.
        committed: bool,
    },
    /// Check the SSTables of a table.
    Verify {
        /// The table.
        table: TableId,
        /// How.
        check: Check,
    },
    /// Find the SSTables that have a partition.
    SstablesWith {
        /// The table.
        table: TableId,
        /// The partition.
        key: DecoratedKey,
    },
    /// Set how many bytes per second compactions of the node may read; 0: as many as they can.
    SetThroughput(u64),
    /// Let the strategy of a table start compactions by itself, or not.
    SetAutoCompaction {
        /// The table.
        table: TableId,
        /// Whether it may.
        on: bool,
    },
    /// Take note of how full the disk is.
    SetDiskUsage(DiskUsage),
    /// Tell how many bytes memtables take.
    Memory,
    /// Tell what compactions do and did.
    Compactions,
    /// Tell how many flushes run and ran.
    Flushes,
    /// Build an index of a table.
    BuildIndex {
        /// The table.
        table: TableId,
        /// The index.
        index: Arc<str>,
    },
    /// Remove what is left of an index that was dropped.
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
    /// To [`TableVerb::Statistics`].
    Statistics(Box<TableStatistics>),
    /// To [`TableVerb::Snapshot`]: names of the Data.db files.
    Linked(Vec<String>),
    /// To [`TableVerb::Served`].
    Served(Vec<Descriptor>),
    /// To [`TableVerb::LogPlace`].
    Place(LogPosition),
    /// To [`TableVerb::Verify`]: the first fault.
    Verified(Option<Invalid>),
    /// To [`TableVerb::SstablesWith`]: Data.db and level.
    Files(Vec<(PathBuf, u32)>),
    /// To [`TableVerb::Memory`]: bytes.
    Memory(u64),
    /// To [`TableVerb::Compactions`].
    Compactions(Box<CompactionStatistics>),
    /// To [`TableVerb::Flushes`].
    Flushes {
        /// Under way.
        running: u64,
        /// Memtables written since the start.
        completed: u64,
    },
}
