//! Bringing reads and writes to the cores that own their partitions, and waiting for acknowledgements.
//!
//! 1. The level and the keyspace's replication give how many acknowledgements are needed, or Unavailable ([`terms`]).
//! 2. `Shard::route` names the core that owns a partition: the own one is a plain call of `replica`, another one a
//!    message and its reply.
//! 3. What takes longer than its deadline is a timeout. A write under way then is unknown, and runs to its end.
//!
//! Invariants: a request for a partition of this core sends no message; one for another core sends one and gets one
//! back.

pub(crate) mod batch_log;
pub(crate) mod cas;
pub(crate) mod read;
pub(crate) mod scan;
pub(crate) mod terms;
pub(crate) mod write;

use model::Failure;

/// The failure of a request while too many calls of this core wait for other cores.
pub(crate) fn too_many_calls() -> Failure {
    Failure::overloaded("Too many requests of this core wait for other cores")
}
