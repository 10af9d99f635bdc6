//! Merging rows of several sources: the last write wins.
//!
//! [`merge_rows`] merges two versions of a row, and [`Merge`] any number of cursors. [`Purge`] drops from a merge what
//! no reader will miss. [`EqualKeys`] keeps one cell of a collection's keys that are equal by type although their bytes
//! differ.

mod keys;
mod purge;
mod row;
mod sources;

pub use keys::EqualKeys;
pub use purge::Purge;
pub use row::{filter_row, merge_rows, reconcile};
pub use sources::Merge;
