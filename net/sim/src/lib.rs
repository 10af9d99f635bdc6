//! Whole nodes on one thread from one seed: random CQL, crashes at any step, restarts with any number of cores, every
//! answer checked against a model.
//!
//! A run: make a configuration from the seed; start the node and some clients; let them work for a random number of
//! events, then crash the node (or stop it in order), start it again with another number of cores, check everything, go
//! on; at the end faults stop, and the node must serve and hold all that it acknowledged.

pub mod judges;
pub mod run;
pub mod sweep;
pub mod workload;

pub use run::{Report, run, run_registers};
