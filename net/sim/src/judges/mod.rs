//! Models of what the node must do. Each is told of every request and of its answer, and reports the first answer that
//! breaks a rule.
//!
//! * [`history`]: every write, and which values each cell may show.
//! * [`read_checks`]: whether a read of cells, rows or aggregates agrees with the history.
//! * [`counters`]: which sums a counter may show.
//! * [`linearizable`]: whether operations took effect one after another.
//! * [`registers`]: conditional changes and SERIAL reads, told to [`linearizable`].

pub mod counters;
pub mod history;
pub mod linearizable;
pub mod read_checks;
pub mod registers;
