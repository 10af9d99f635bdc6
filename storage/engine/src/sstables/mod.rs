//! The SSTables of a shard: files, readers, cached blocks, writers, and the records that change the set of a table.

pub(crate) mod block_cache;
pub(crate) mod component_files;
pub(crate) mod directory;
pub(crate) mod log_coverage;
pub(crate) mod obsolete_sstables;
pub(crate) mod open_sstable;
pub(crate) mod purged_intervals;
pub(crate) mod read_buffers;
pub(crate) mod relabelled;
pub(crate) mod repair_set;
pub(crate) mod retained_columns;
pub(crate) mod sstable_files;
pub(crate) mod sstable_id;
pub(crate) mod sstable_scan;
pub(crate) mod sstable_writer;
pub mod transaction;
pub(crate) mod truncation_lists;
pub(crate) mod unopened_sstable;
pub(crate) mod view;
