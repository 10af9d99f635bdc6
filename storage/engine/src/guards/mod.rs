//! Guardrails that watch SSTables as they are written, and warn in the log.
//!
//! [`partition_guard`] measures partitions, [`collection_guard`] collections; [`logged_thresholds`] has the limits of
//! both.

pub(crate) mod collection_guard;
pub(crate) mod logged_thresholds;
pub(crate) mod partition_guard;
#[cfg(test)]
mod test_table;
