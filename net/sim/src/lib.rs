//! Tests whole nodes in the simulator, on one thread and from one seed: random CQL, crashes at any step, restarts with
//! any number of cores, and every answer checked against a model.
//!
//! 1. A run makes a configuration from the seed and starts the node and some clients.
//! 2. They work for a random number of events. Then the node crashes or is stopped in order, starts again with another
//!    number of cores, and everything is checked; this repeats.
//! 3. At the end faults stop, and the node must serve and hold everything that it acknowledged.
//!
//! Runs of several nodes are in [`clusters`].

pub mod clusters;
mod forgetful;
pub mod judges;
pub mod run;
pub mod seeds;
pub mod sweep;
pub mod workload;

pub use run::{Report, run, run_registers};
