//! Limits that keep one request, table or disk from hurting the rest: what is warned about, and what is refused.
//!
//! Thresholds, counts and texts only: the code that reads or writes calls these checks.

pub(crate) mod alerts;
pub(crate) mod batches;
pub(crate) mod disk_usage;
pub(crate) mod filtering;
pub(crate) mod tombstones;
