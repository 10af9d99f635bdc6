//! Models of what the node must do: each is told of every request and its answer, and names the first answer that breaks a
//! rule.
//!
//! * [`history`]: every write, and which values each cell may show.
//! * [`read_checks`]: whether a read of cells, rows or aggregates agrees with the history.
//! * [`linearizable`]: whether conditional changes and SERIAL reads took effect one after another.

pub mod history;
pub mod linearizable;
pub mod read_checks;
