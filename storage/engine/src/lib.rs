//! One shard's storage: commit log and memtables behind a [`Store`].
//!
//! Write: append to the commit log; take a pass on the table's active memtable; await durability (`group`, `batch`);
//! apply in one poll without an await; return. `periodic` applies at once. So an acknowledged write is durable in the
//! default mode and nothing is read before it is.
//! Read: choose sources, merge, filter by slices and deletions, give live rows to a sink.

pub mod batch_log;
pub mod commitlog;
pub mod compaction;
mod faults;
mod flush;
mod guards;
pub mod index;
pub mod memtable;
mod operations;
mod read;
mod recovery;
pub mod row_lock;
mod shares;
mod sstables;
pub mod store;
mod tables;
mod write;

pub use batch_log::{BatchId, StoredBatch};
pub use faults::{Fault, FaultKind};
pub use guards::logged_thresholds::{LoggedThreshold, LoggedThresholds};
pub use memtable::partitions::Step;
pub use operations::split::{PartNames, Parts};
pub use operations::{import, snapshot, verify};
pub use recovery::load::directory_of;
pub use row_lock::RowGuard;
pub use sstable::{Component, Descriptor, Version};
pub use sstables::block_cache::CacheFigures;
pub use sstables::transaction;
pub use sstables::write_options::{FlushCompression, SstableOptions};
pub use store::Store;
pub use tables::statistics::{Counts, TableStatistics};

use model::Memtables;
use model::key::ShardMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// When a write is acknowledged against when it is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncMode {
    /// Acknowledge after the durable write of the group; the next group starts when the one before completes, or after
    /// `window` if that is longer.
    Group {
        /// `commitlog_sync_group_window`; zero: none.
        window: Duration,
    },
    /// As group, with one write per turn of the loop and no window.
    Batch,
    /// Acknowledge at once; durable within `period`.
    Periodic {
        /// `commitlog_sync_period`.
        period: Duration,
    },
}

/// How a shard stores.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's data directory; the log is in `commitlog/` under it.
    pub directory: PathBuf,
    /// Which tokens are this shard's: replay takes only those (tables that live on shard 0 go there whole).
    pub shard_map: ShardMap,
    /// Commit log mode.
    pub sync: SyncMode,
    /// `commitlog_segment_size`, bytes; a power of two multiple of 4 KiB.
    pub segment_bytes: u32,
    /// Memtables of user tables may hold this many bytes before writes wait; they are flushed from half of it on.
    pub memtable_bytes_max: usize,
    /// Blocks of SSTables may take this many bytes of memory.
    pub cache_bytes_max: usize,
    /// Full segments of the log may hold this many bytes before what the oldest one needs is flushed.
    pub log_bytes_max: u64,
    /// How SSTables are written.
    pub sstables: SstableOptions,
    /// Which memtables tables have.
    pub memtables: Arc<Memtables>,
}

/// Why the store refused. Definite unless said otherwise.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The memtable budget is used up: nothing was written.
    MemtableFull,
    /// The mutation is larger than half a segment.
    MutationTooLarge {
        /// Its size in bytes.
        bytes: usize,
    },
    /// The table is not known here (dropped meanwhile).
    UnknownTable(model::TableId),
    /// The store is closing: nothing was written.
    Closing,
    /// Too many wait for the lock of the partition: nothing was done.
    LockQueueFull,
    /// There is no room for another segment of the log, or it could not be made: nothing was written. Later writes may
    /// succeed.
    LogFull(std::io::Error),
    /// The log could not be written: whether the write survives is unknown, and the log takes no more writes.
    LogFailed(std::io::Error),
    /// Data on disk cannot be trusted: file, offset, what is wrong. The node must not start (exit 3).
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What.
        what: &'static str,
    },
    /// A commit log segment of Cassandra that may hold mutations. The node must not start.
    ForeignLog {
        /// The file.
        path: PathBuf,
    },
    /// An SSTable's bytes cannot be used: the read that met them fails.
    BadSstable {
        /// The table's directory.
        directory: PathBuf,
        /// File, offset and fault.
        error: sstable::Error,
    },
    /// An index does not have all rows of its table yet: nothing was read.
    IndexNotBuilt {
        /// Its name.
        index: String,
    },
    /// A table cannot be written as SSTables as its options say.
    Unwritable {
        /// What is not supported.
        what: String,
    },
    /// The disk failed.
    Io(std::io::Error),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::MemtableFull => write!(f, "the memtables are full"),
            Error::MutationTooLarge { bytes } => {
                write!(f, "a mutation of {bytes} bytes is too large for the commit log")
            }
            Error::UnknownTable(table) => write!(f, "unknown table {table}"),
            Error::LockQueueFull => write!(f, "too many requests wait for one partition"),
            Error::Closing => write!(f, "the store is closing"),
            Error::LogFull(error) => write!(f, "no room for the commit log: {error}"),
            Error::LogFailed(error) => write!(f, "the commit log failed: {error}"),
            Error::Corrupt { path, offset, what } => write!(f, "{}: {what} at offset {offset}", path.display()),
            Error::ForeignLog { path } => write!(
                f,
                "{} is a commit log segment of Cassandra with unflushed writes: run `nodetool drain` on Cassandra first",
                path.display()
            ),
            Error::BadSstable { directory, error } => write!(f, "{}/{error}", directory.display()),
            Error::IndexNotBuilt { index } => write!(f, "the index {index} is not built yet"),
            Error::Unwritable { what } => f.write_str(what),
            Error::Io(error) => write!(f, "disk: {error}"),
        }
    }
}

impl std::error::Error for Error {}
