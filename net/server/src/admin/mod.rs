//! Commands of an operator (`helenus nodetool`), on a socket with a path that only the node's user reaches.
//!
//! 1. Shard 0 listens (`listener`); a connection brings one request ([`protocol`]) and takes one answer.
//! 2. A command is looked up by its name. Its arguments are checked as Cassandra's nodetool checks them, and the text
//!    that it prints is made here (`commands`).
//!
//! Invariants: at most [`CONNECTIONS_MAX`] commands run at once, further ones wait; a command that is not supported is
//! refused by its name. In simulation the socket is one of the simulated network, at [`SIMULATED_PORT`].

mod commands;
mod error;
pub(crate) mod listener;
pub mod number_format;
pub mod protocol;
mod text_table;

pub use listener::{CONNECTIONS_MAX, REQUEST_TIMEOUT, SIMULATED_PORT, ask, paths, usage_text};
