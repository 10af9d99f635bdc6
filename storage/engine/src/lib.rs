//! One shard's storage: commit log and memtables behind a [`Store`].
//!
//! Write: append to the commit log; take a pass on the table's active memtable; await durability (`group`, `batch`);
//! apply in one poll without an await; return. `periodic` applies at once. So an acknowledged write is durable in the
//! default mode and nothing is read before it is.
//! Read: choose sources, merge, filter by slices and deletions, give live rows to a sink.

pub mod batch_log;
pub mod commitlog;
pub mod compaction;
mod error;
mod faults;
mod flush;
mod guards;
pub mod index;
mod indexing;
mod memory;
pub mod memtable;
mod operations;
mod options;
pub mod partition_locks;
mod read;
mod recovery;
mod sstables;
pub mod store;
mod tables;
mod write;

pub use batch_log::{BatchId, StoredBatch};
pub use error::Error;
pub use faults::{Fault, FaultKind};
pub use guards::logged_thresholds::{LoggedThreshold, LoggedThresholds};
pub use memtable::partitions::PrefetchStage;
pub use operations::split::{PartNames, Parts};
pub use operations::{import, snapshot, verify};
pub use options::{FlushCompression, Options, SstableOptions, SyncMode};
pub use partition_locks::PartitionLockGuard;
pub use sstable::{Component, Descriptor, Version};
pub use sstables::block_cache::CacheMetrics;
pub use sstables::directory::directory_of;
pub use sstables::transaction;
pub use store::Store;
pub use tables::statistics::{Counts, TableStatistics};
