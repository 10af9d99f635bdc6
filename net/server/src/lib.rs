//! A node: the crate where the parts meet, and the only one that opens ports.
//!
//! [`Node::run`] is the main of every shard. `service` is what a shard does once it has started: clients are served in
//! [`cql`], operators in [`admin`] (nodetool) and [`http`] (metrics and status). [`config`] reads `cassandra.yaml`;
//! [`data_dir`] claims the data directory; `control` carries messages between shards about all of this.
//!
//! What requests do is in the crate `shard`; bytes of the CQL protocol are in `wire`.

pub mod admin;
pub mod client;
pub mod config;
mod control;
pub mod cql;
pub mod data_dir;
mod disk_policy;
mod exit;
pub mod http;
mod node;
mod node_state;
mod operation_names;
mod service;

pub use config::Config;
pub use exit::Exit;
pub use node::Node;
pub use service::{Listening, Ready};
