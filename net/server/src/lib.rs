//! A node: the crate that puts the other crates together, and the only one that listens on ports.
//!
//! [`Node::run`] is the main function of every shard. `service` is what a shard does once it has started: [`cql`]
//! serves clients, [`admin`] (nodetool) and [`http`] (metrics and status) serve operators. [`config`] reads
//! `cassandra.yaml`; [`data_dirs`] claims the data directories; `control` has the messages between shards about start,
//! connections and stop; `gossip` keeps this node and the others known to each other, over `internode`;
//! `auto_repair` repairs tables without an operator; `first_superuser` lets the first client log in; `client_admin`
//! has what operators change about serving clients; [`query_log`] keeps what clients do.
//!
//! What requests do is in the crate `shard`; bytes of the CQL protocol are in `wire`.

pub mod admin;
mod auto_repair;
pub mod client;
mod client_admin;
mod client_events;
mod client_ports;
pub mod config;
mod control;
pub mod cql;
pub mod data_dirs;
mod disk_policy;
mod encryption;
mod exit;
mod first_superuser;
mod gossip;
mod heartbeat;
pub mod http;
mod internode;
mod keys;
mod node;
mod node_state;
mod operation_names;
pub mod query_log;
mod repair_commands;
mod service;

pub use config::Config;
pub use exit::Exit;
pub use node::Node;
pub use service::{Listening, Ready};
