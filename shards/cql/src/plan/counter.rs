//! What statements on counter tables may not say.

use super::{Batch, Modify};
use model::{BatchKind, Failure};

impl Modify {
    /// Refuses what a counter's change cannot have.
    ///
    /// # Errors
    /// Cassandra's texts for TIMESTAMP and TTL.
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

/// INSERT into a counter table.
pub(crate) fn no_insert() -> Failure {
    Failure::invalid("INSERT statements are not allowed on counter tables, use UPDATE instead")
}

impl Batch {
    /// Refuses statements that do not go together.
    ///
    /// # Errors
    /// As [`check_kinds`].
    pub(crate) fn check_counters(&self) -> Result<(), Failure> {
        check_kinds(self.kind, self.timestamp.is_some(), self.statements.iter())?;
        self.statements.iter().try_for_each(Modify::check_counters)
    }
}

/// Refuses counters in logged batches and beside other changes, and anything else in counter batches. `timestamp`: whether
/// the batch has one of its own.
///
/// # Errors
/// Cassandra's texts.
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
