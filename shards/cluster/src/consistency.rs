//! Consistency level and replication to the number of acks.

use model::schema::Replication;
use model::{Consistency, Failure};

/// What a level needs of a keyspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requirement {
    /// Acks.
    pub block_for: usize,
}

/// Checks `level` for reads against `replication` with `alive` live replicas: acks needed, or Unavailable with
/// Cassandra's text, or Invalid for levels that reads do not take (ANY).
pub fn for_read(level: Consistency, replication: &Replication, alive: usize) -> Result<Requirement, Failure> {
    let _ = (level, replication, alive);
    todo!()
}

/// The same for plain writes (SERIAL levels are refused).
pub fn for_write(level: Consistency, replication: &Replication, alive: usize) -> Result<Requirement, Failure> {
    let _ = (level, replication, alive);
    todo!()
}
