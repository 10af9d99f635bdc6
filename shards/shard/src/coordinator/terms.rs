//! How many acknowledgements a request needs, and the failure that its client gets if they do not come in time.

use crate::request::AckTerms;
use crate::shard_state::Shard;
use cluster::consistency::{Requirement, for_cas, for_read, for_write};
use model::failure::Detail;
use model::schema::Replication;
use model::{Consistency, ErrorCode, Failure, Home, Table};
use std::time::Duration;

/// Live replicas of every partition: this node is the only one.
const ALIVE: usize = 1;

/// Where the partitions of a table live, and what a read at a consistency level needs.
///
/// # Errors
/// Unavailable if too few replicas are alive; Invalid if the level does not apply to reads.
pub(crate) fn read_terms(
    shard: &Shard,
    table: &Table,
    consistency: Consistency,
    timeout: Duration,
) -> Result<(Home, AckTerms), Failure> {
    terms(shard, table, consistency, timeout, |replication| for_read(consistency, replication, ALIVE))
}

/// Where the partitions of a table live, and what a write at a consistency level needs. Fails as [`read_terms`] does.
pub(crate) fn write_terms(
    shard: &Shard,
    table: &Table,
    consistency: Consistency,
    timeout: Duration,
) -> Result<(Home, AckTerms), Failure> {
    terms(shard, table, consistency, timeout, |replication| for_write(consistency, replication, ALIVE))
}

/// Where the partitions of a table live, and what a conditional change needs that is decided at the level `serial` and
/// committed at the level `commit`. Fails as [`read_terms`] does.
pub(crate) fn cas_terms(
    shard: &Shard,
    table: &Table,
    serial: Consistency,
    commit: Consistency,
    timeout: Duration,
) -> Result<(Home, AckTerms), Failure> {
    terms(shard, table, serial, timeout, |replication| for_cas(serial, commit, replication, ALIVE))
}

#[inline]
fn terms(
    shard: &Shard,
    table: &Table,
    consistency: Consistency,
    timeout: Duration,
    required: impl FnOnce(&Replication) -> Result<Requirement, Failure>,
) -> Result<(Home, AckTerms), Failure> {
    let schema = shard.schema_ref();
    let Some(keyspace) = schema.keyspace(&table.keyspace) else {
        return Err(Failure::invalid(format!("keyspace {} does not exist", table.keyspace)));
    };
    let block_for = required(&keyspace.replication)?.block_for;
    Ok((keyspace.home_of(&table.name), AckTerms { consistency, block_for, timeout }))
}

const TIMED_OUT: &str = "Operation timed out - received only 0 responses.";

impl AckTerms {
    /// The failure of a read that took too long.
    pub(crate) fn read_timed_out(&self) -> Failure {
        let detail = Detail::ReadTimeout {
            consistency: self.consistency,
            received: 0,
            block_for: self.block_for as i32,
            data_present: false,
        };
        Failure::new(ErrorCode::ReadTimeout, TIMED_OUT).with(detail)
    }

    /// The failure of a write that took too long and may or may not be applied.
    pub(crate) fn write_timed_out(&self, write_type: &'static str) -> Failure {
        self.unknown_write(Failure::new(ErrorCode::WriteTimeout, TIMED_OUT), write_type)
    }

    /// The failure of a write that may be applied nevertheless. It has the form of a timeout, because a client must not
    /// take it for "not written".
    pub(crate) fn unknown_write(&self, failure: Failure, write_type: &'static str) -> Failure {
        let detail = Detail::WriteTimeout {
            consistency: self.consistency,
            received: 0,
            block_for: self.block_for as i32,
            write_type,
        };
        Failure { code: ErrorCode::WriteTimeout, ..failure }.unknown().with(detail)
    }
}
