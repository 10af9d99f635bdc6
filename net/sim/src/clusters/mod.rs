//! Clusters in a simulated world: nodes that crash and come back, nodes that join, networks that are cut, and changes
//! of the schema from all nodes at once.
//!
//! 1. A run starts one to five nodes of one or two cores; all but the first look for their cluster through seeds.
//! 2. Clients create, alter and drop a few tables over and over, each through a node of its own (`schema_client`).
//!    Meanwhile faults come and go (`nemesis`).
//! 3. When the faults have ended, all nodes must serve one schema within `run::AGREEMENT_MAX`, and it must be one
//!    that explains every answer: a table's comment is a register that CREATE, ALTER and DROP change.

mod nemesis;
mod run;
mod schema_client;

pub use run::{ClusterReport, run_cluster, run_missed_change};
