//! Last write wins: rows of many sources as those of one.
//!
//! [`merge_rows`] puts two versions of a row together, [`Merge`] any number of cursors, and [`Purge`] leaves out of
//! what a merge gives what no reader will miss. [`EqualKeys`] keeps one cell of a collection's keys that are equal by
//! type alone.

mod keys;
mod purge;
mod row;
mod sources;

pub use keys::EqualKeys;
pub use purge::Purge;
pub use row::{filter_row, merge_rows, reconcile};
pub use sources::Merge;
