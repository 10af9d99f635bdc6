//! What operators ask for (snapshots, imports, requests about tables, other nodes of the cluster) and what runs in the
//! background (splits of foreign SSTables, index building, the compaction history, the size estimates, the disk watch,
//! the writing of traces). Shard 0 leads what all cores take part in.

pub(crate) mod cluster_snapshots;
pub mod compaction_history;
pub(crate) mod disk_watch;
pub(crate) mod hints;
pub mod imports;
pub(crate) mod indexes;
pub(crate) mod key_figures;
pub(crate) mod membership;
pub(crate) mod metrics_gathering;
pub(crate) mod ring_changes;
pub(crate) mod size_estimates;
pub mod snapshots;
pub(crate) mod splits;
pub(crate) mod stored_bytes;
pub(crate) mod table_verbs;
pub(crate) mod tablet_figures;
pub(crate) mod tablet_plans;
mod trace_writes;
