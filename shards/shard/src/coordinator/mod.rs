//! Who owns a token, whether enough replicas live, deadlines.
//!
//! 1. The level and the keyspace's replication give how many acks are needed, or Unavailable.
//! 2. `route` names the core that owns a partition; the own one is a plain call, another one a message and its reply.
//! 3. What takes longer than its deadline is a timeout; a write under way then is unknown, and runs to its end.
//!
//! Invariants: a request that this core owns sends no message; one for another core sends one and gets one back.

pub(crate) mod batch_log;
pub(crate) mod cas;
pub(crate) mod read;
pub(crate) mod scan;
pub(crate) mod write;

use crate::request::AckTerms;
use crate::shard_state::Shard;
use model::failure::Detail;
use model::{Consistency, ErrorCode, Failure, Home, Table};
use std::time::Duration;

/// Live replicas of every partition: this node.
const ALIVE: usize = 1;

/// Whether a table lives on shard 0, and what a read of it needs. Fails when too few replicas live.
pub(crate) fn read_terms(
    shard: &Shard,
    table: &Table,
    consistency: Consistency,
    timeout: Duration,
) -> Result<(Home, AckTerms), Failure> {
    let schema = shard.schema_ref();
    let keyspace = schema.keyspace(&table.keyspace).ok_or_else(|| no_keyspace(&table.keyspace))?;
    let required = cluster::consistency::for_read(consistency, &keyspace.replication, ALIVE)?;
    Ok((keyspace.home_of(&table.name), AckTerms { consistency, block_for: required.block_for, timeout }))
}

/// The same for a write.
pub(crate) fn write_terms(
    shard: &Shard,
    table: &Table,
    consistency: Consistency,
    timeout: Duration,
) -> Result<(Home, AckTerms), Failure> {
    let schema = shard.schema_ref();
    let keyspace = schema.keyspace(&table.keyspace).ok_or_else(|| no_keyspace(&table.keyspace))?;
    let required = cluster::consistency::for_write(consistency, &keyspace.replication, ALIVE)?;
    Ok((keyspace.home_of(&table.name), AckTerms { consistency, block_for: required.block_for, timeout }))
}

/// The same for a conditional change: `serial` is the level at which it is decided, `commit` that at which it is told
/// of.
pub(crate) fn cas_terms(
    shard: &Shard,
    table: &Table,
    serial: Consistency,
    commit: Consistency,
    timeout: Duration,
) -> Result<(Home, AckTerms), Failure> {
    let schema = shard.schema_ref();
    let keyspace = schema.keyspace(&table.keyspace).ok_or_else(|| no_keyspace(&table.keyspace))?;
    let required = cluster::consistency::for_cas(serial, commit, &keyspace.replication, ALIVE)?;
    let terms = AckTerms { consistency: serial, block_for: required.block_for, timeout };
    Ok((keyspace.home_of(&table.name), terms))
}

fn no_keyspace(name: &str) -> Failure {
    Failure::invalid(format!("keyspace {name} does not exist"))
}

/// A write of which nothing is known.
pub(crate) fn timed_out(terms: &AckTerms, write_type: &'static str) -> Failure {
    let detail = Detail::WriteTimeout {
        consistency: terms.consistency,
        received: 0,
        block_for: terms.block_for as i32,
        write_type,
    };
    Failure::new(ErrorCode::WriteTimeout, "Operation timed out - received only 0 responses.").unknown().with(detail)
}

/// Too many calls of this core wait for others.
pub(crate) fn too_many_calls() -> Failure {
    Failure::overloaded("Too many requests of this core wait for other cores")
}
