//! What operators ask for and what runs in the background: snapshots, imports, requests about tables; splits of foreign
//! SSTables, index building, the compaction history, the watch on the disk, writing of traces. Shard 0 leads where all
//! cores take part.

pub mod compaction_history;
pub(crate) mod disk_watch;
pub mod imports;
pub(crate) mod indexes;
pub(crate) mod metrics_gathering;
pub mod snapshots;
pub(crate) mod splits;
pub(crate) mod table_verbs;
mod trace_writes;
