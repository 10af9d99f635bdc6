//! What operators ask for and what runs in the background.

pub mod compaction_history;
pub(crate) mod disk_watch;
pub mod imports;
pub(crate) mod indexes;
pub(crate) mod metrics_gathering;
pub mod snapshots;
pub(crate) mod splits;
pub(crate) mod table_verbs;
mod trace_writes;
