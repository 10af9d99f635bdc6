//! Models of what the node must do. Each one is told about every request and its answer, and reports the first answer
//! that breaks a rule.
//!
//! * [`history`]: all writes, and which values each cell may show.
//! * [`read_checks`]: whether a read of cells, rows or aggregates agrees with the history.
//! * [`counters`]: which sums a counter may show.
//! * [`batches`]: logged batches, which are in all of their partitions or in none, and partitions that only grow.
//! * [`levels`]: tables that are written and read at levels that overlap.
//! * [`deletions`]: keys that stay deleted; [`convergence`]: replicas with the same rows.
//! * [`patience`]: waits that end, and load that does not grow; [`slowness`]: requests that a slow node must not slow
//!   down.
//! * [`linearizable`]: whether operations took effect one after another.
//! * [`registers`]: conditional changes and SERIAL reads, which it passes on to [`linearizable`].

pub mod batches;
pub mod convergence;
pub mod counters;
pub mod deletions;
pub mod history;
pub mod levels;
pub mod linearizable;
pub mod patience;
pub mod read_checks;
pub mod registers;
pub mod slowness;
