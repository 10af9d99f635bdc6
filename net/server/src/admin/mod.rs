//! An operator's commands (`helenus nodetool`), on a unix socket whose path only the node's user can reach.
//!
//! 1. Shard 0 listens (`listener`); each connection carries one request and one answer ([`protocol`]).
//! 2. A command is looked up by its name. Its arguments are checked as Cassandra's nodetool checks them, and the text
//!    that it prints is made here (`commands`).
//!
//! Invariants: at most [`CONNECTIONS_MAX`] commands run at once, further ones wait; a command that is not supported is
//! refused by its name. In simulation it is a TCP socket, at [`SIMULATED_PORT`].

mod commands;
mod error;
pub(crate) mod listener;
pub mod number_format;
pub mod protocol;
mod text_table;

pub(crate) use commands::repair;
pub use listener::{ANSWER_TIMEOUT, CONNECTIONS_MAX, REQUEST_TIMEOUT, SIMULATED_PORT, ask, paths, usage_text};
