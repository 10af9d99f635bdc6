//! The random requests of clients and an operator, and how they and their answers are reported to the judges.
//!
//! * [`world`]: the state that they share with the driver of a run; `requests`: sending a statement.
//! * [`tables`]: the tables, their cells and the CQL that makes them.
//! * `writes`, `reads`, `indexes`, [`counters`], [`registers`], `schema_changes`: the steps of a client by kind.
//! * [`client`] chooses among the steps, [`checker`] reads everything, [`operator`] sends nodetool's commands.

pub mod checker;
pub mod client;
pub mod counters;
mod indexes;
pub mod operator;
mod reads;
pub mod registers;
mod requests;
mod schema_changes;
pub mod tables;
pub mod world;
mod writes;
