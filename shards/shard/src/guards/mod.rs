//! Limits that keep one request, table or disk from hurting the rest: what is warned about, and what is refused.
//!
//! Here are thresholds, counts and texts. Whoever reads or writes asks; nothing here reads or writes.

pub(crate) mod batches;
pub(crate) mod disk_usage;
pub(crate) mod tombstones;
