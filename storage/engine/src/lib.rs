//! One shard's storage: commit log, memtables and SSTables behind a [`Store`].
//!
//! A write is appended to the commit log; it takes a pass on the table's active memtable, waits until the log is
//! durable (in `group` and `batch` mode), and is applied to the memtable in one poll. In `periodic` mode it is applied
//! at once. So an acknowledged write is durable in the default mode, and nothing is read before it is.
//! A read chooses the memtables and SSTables that may have something, merges them, leaves out what is deleted or
//! expired, and gives live rows to a sink.
//!
//! The modules from the bottom up; each refers only to those above it in this list:
//! 1. [`Error`], [`Options`], [`DataDirectories`], `guards` (limits that are logged as SSTables are written), `faults`
//!    (failures that the node's policies decide about), [`partition_locks`].
//! 2. [`memtable`] and `memory`: rows in memory, and the budget that writes wait for.
//! 3. [`commitlog`]: group commit, segments, what a start finds of them. [`hints`]: files of what other nodes missed.
//! 4. [`index`]: hidden tables that lead from values to rows. `sstables`: files, block cache, writers, transactions.
//! 5. `tables`: what the shard knows of each table. `read`: reads; `write`: where a mutation goes; `recovery`: what a
//!    start loads and replays.
//! 6. [`compaction`], `flush`, `indexing`, `operations` (imports, snapshots, splits, checks,
//!    streams).
//! 7. [`store`] composes them; [`batch_log`] keeps batches in a table of the store.

pub mod batch_log;
pub mod commitlog;
pub mod compaction;
mod data_directories;
mod error;
mod faults;
mod flush;
mod guards;
pub mod hints;
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
pub use compaction::throttle::Throttle;
pub use data_directories::DataDirectories;
pub use error::Error;
pub use faults::{Fault, FaultKind};
pub use guards::logged_thresholds::{LoggedThreshold, LoggedThresholds};
pub use guards::partition_guard::{LARGE_PARTITION_BYTES, LargePartitions};
pub use memtable::partitions::PrefetchStage;
pub use operations::split::{PartNames, Parts};
pub use operations::{damaged, import, snapshot, streams, verify};
pub use options::{FlushCompression, Options, SstableOptions, SyncMode};
pub use partition_locks::PartitionLockGuard;
pub use sstable::{Component, Descriptor, Version};
pub use sstables::block_cache::CacheMetrics;
pub use sstables::directory::{directories_of, directory_of};
pub use sstables::repair_set::RepairSet;
pub use sstables::transaction;
pub use store::Store;
pub use tables::size_estimates::SizeEstimate;
pub use tables::statistics::{Counts, PendingRepair, TableStatistics};
