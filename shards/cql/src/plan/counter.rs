//! Restrictions on statements for counter tables.

use super::{Batch, Modify};
use model::{BatchKind, Failure};

impl Modify {
    /// Refuses clauses that a change of a counter table cannot have.
    ///
    /// # Errors
    /// TIMESTAMP or TTL was given, with Cassandra's text.
    pub(crate) fn check_counters(&self) -> Result<(), Failure> {
        if !self.table.is_counter() {
            return Ok(());
        }
        if self.timestamp.is_some() {
            return Err(Failure::invalid("Cannot provide custom timestamp for counter updates"));
        }
        if self.ttl.is_some() {
            return Err(Failure::invalid("Cannot provide custom TTL for counter updates"));
        }
        Ok(())
    }
}

/// The failure for an INSERT into a counter table.
pub(crate) fn no_insert() -> Failure {
    Failure::invalid("INSERT statements are not allowed on counter tables, use UPDATE instead")
}

impl Batch {
    /// Refuses statements that may not be in one batch.
    ///
    /// # Errors
    /// Those of [`check_kinds`].
    pub(crate) fn check_counters(&self) -> Result<(), Failure> {
        check_kinds(self.kind, self.timestamp.is_some(), self.statements.iter())?;
        self.statements.iter().try_for_each(Modify::check_counters)
    }
}

/// Refuses counter changes in logged batches and beside other changes, and other changes in counter batches.
/// `timestamp` says whether the batch itself has a timestamp.
///
/// # Errors
/// The batch mixes kinds of changes, with Cassandra's text.
pub fn check_kinds<'m>(
    kind: BatchKind,
    timestamp: bool,
    statements: impl Iterator<Item = &'m Modify>,
) -> Result<(), Failure> {
    if timestamp && kind == BatchKind::Counter {
        return Err(Failure::invalid("Cannot provide custom timestamp for counter BATCH"));
    }
    let (mut counters, mut others) = (false, false);
    for statement in statements {
        *(if statement.table.is_counter() { &mut counters } else { &mut others }) = true;
    }
    let text = match kind {
        _ if timestamp && counters => "Cannot provide custom timestamp for a BATCH containing counters",
        BatchKind::Counter if others => "Cannot include non-counter statement in a counter batch",
        _ if counters && others => "Counter and non-counter mutations cannot exist in the same batch",
        BatchKind::Logged if counters => "Cannot include a counter statement in a logged batch",
        _ => return Ok(()),
    };
    Err(Failure::invalid(text))
}
