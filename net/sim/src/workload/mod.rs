//! The random requests of clients and an operator, and how they and their answers are reported to the judges.
//!
//! * [`world`]: the state that they share with the driver of a run; `requests`: sending a statement.
//! * [`tables`]: the tables, their cells and the CQL that makes them.
//! * `writes`, `reads`, `indexes`, [`counters`], [`registers`], `schema_changes`: the steps of a client by kind.
//! * [`batches`], [`deletions`], [`levels`]: clients of replicated tables that send one kind of requests alone.
//! * `session`: a client's connections; [`client`] chooses among the steps, [`checker`] reads everything, [`operator`]
//!   sends nodetool's commands, [`replicas`] compares the replicas of each partition.
//! * `steady`: clients of another kind of run, whose requests are timed.

pub mod batches;
pub mod checker;
pub mod client;
pub mod counters;
pub mod deletions;
mod indexes;
pub mod levels;
pub mod operator;
mod reads;
pub mod registers;
pub mod replicas;
mod requests;
mod schema_changes;
mod session;
pub(crate) mod steady;
pub mod tables;
pub mod world;
mod writes;
