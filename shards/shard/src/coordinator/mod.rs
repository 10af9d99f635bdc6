//! Bringing reads and writes to the cores that own their partitions, and waiting for acknowledgements.
//!
//! 1. The placement of a table names the replicas of a partition, each with its core (`Shard::placement_of`).
//! 2. A plan of `cluster` says which of them are asked and how many answers are needed, or that the request is
//!    Unavailable; what happens is told to the plan, and it says what the client gets.
//! 3. A mutation goes to all live replicas (`replication`); a read asks as many as its level needs
//!    (`comparing`, `reconciling`). What this core is asked is a plain call of `replica`; what another core of it
//!    is asked, a message and its reply; what another node is asked, a request to that (`remote`).
//! 4. A request that exceeds its deadline fails with a timeout. The outcome of a write is then unknown, and the write
//!    runs to its end.
//!
//! 5. Equal reads of a partition that is read much are joined into one, and its reads spread over the replicas
//!    (`hot_reads`).
//! 6. A table whose throughput is limited admits a request before it is sent anywhere (`throttle`).
//!
//! Invariants: a request whose only replica is this core sends no message; each other replica that is asked costs one
//! message and its answer.

pub(crate) mod aggregates;
pub(crate) mod asked_replica;
mod awaited_replica;
pub(crate) mod batch_log;
pub(crate) mod batch_replay;
pub(crate) mod cas;
mod comparing;
pub(crate) mod counting;
pub(crate) mod fragments;
mod gathering;
pub(crate) mod hints;
mod hot_reads;
mod index_candidates;
pub(crate) mod read;
mod read_repair;
mod reconciling;
pub(crate) mod remote;
mod replica_read;
pub(crate) mod replication;
pub(crate) mod row_source;
pub(crate) mod scan;
pub(crate) mod sub_partitions;
pub(crate) mod throttle;
pub(crate) mod truncate;
pub(crate) mod validation;
pub(crate) mod write;

use model::Failure;

/// The failure of a request when too many calls of this core await other cores.
pub(crate) fn too_many_calls() -> Failure {
    Failure::overloaded("Too many requests of this core wait for other cores")
}
