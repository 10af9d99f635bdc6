//! INSERT, UPDATE, DELETE and BATCH: bound values to mutations, one per partition key, and those to their cores.
//!
//! [`mutations`] and [`cells`] build, [`list_changes`] builds after reading; [`statement`] and [`batch`] send.
//! Conditions are in `execute::conditional`.

pub(crate) mod batch;
mod batch_locks;
mod cells;
mod counter_amounts;
pub(crate) mod list_changes;
pub(crate) mod mutations;
pub(crate) mod statement;
mod times;
