//! INSERT, UPDATE, DELETE and BATCH: turning bound values into mutations, one per partition key, and sending them to
//! their cores.
//!
//! [`mutations`] and [`cells`] build mutations, [`list_changes`] builds them after reading; [`sub_partitions`] says
//! where they are made in tables with write sharding; [`statement`] and [`batch`]
//! send them. Conditions are in `execute::conditional`.

pub(crate) mod batch;
mod batch_locks;
mod cells;
mod counter_amounts;
pub(crate) mod list_changes;
pub(crate) mod mutations;
pub(crate) mod statement;
mod sub_partitions;
mod times;
