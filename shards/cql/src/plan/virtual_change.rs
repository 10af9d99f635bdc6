//! Restrictions on statements that modify virtual tables.

use super::{Batch, Modify};
use model::{BatchKind, Failure};

impl Modify {
    /// Refuses clauses that no virtual table accepts.
    ///
    /// # Errors
    /// TIMESTAMP, TTL or IF was given, with Cassandra's text.
    pub(crate) fn check_virtual(&self) -> Result<(), Failure> {
        let text = match self {
            _ if !self.is_virtual => return Ok(()),
            _ if self.timestamp.is_some() => "Custom timestamp is not supported by virtual tables",
            _ if self.ttl.is_some() => "Expiring columns are not supported by virtual tables",
            _ if self.is_conditional() => "Conditional updates are not supported by virtual tables",
            _ => return Ok(()),
        };
        Err(Failure::invalid(text))
    }
}

impl Batch {
    /// Refuses statements that may not be in one batch.
    ///
    /// # Errors
    /// Those of [`check_virtual`].
    pub(crate) fn check_virtual(&self) -> Result<(), Failure> {
        check_virtual(self.kind, self.statements.iter())?;
        self.statements.iter().try_for_each(Modify::check_virtual)
    }
}

/// Refuses changes of virtual tables in logged and conditional batches and beside other changes.
///
/// # Errors
/// The batch has such a change, with Cassandra's text.
pub fn check_virtual<'m>(kind: BatchKind, statements: impl Iterator<Item = &'m Modify>) -> Result<(), Failure> {
    let (mut changes, mut others, mut conditional) = (false, false, false);
    for statement in statements {
        *(if statement.is_virtual { &mut changes } else { &mut others }) = true;
        conditional |= statement.is_conditional();
    }
    let text = match kind {
        _ if !changes => return Ok(()),
        BatchKind::Logged => "Cannot include a virtual table statement in a logged batch",
        _ if others => "Mutations for virtual and regular tables cannot exist in the same batch",
        _ if conditional => "Conditional BATCH statements cannot include mutations for virtual tables",
        _ => return Ok(()),
    };
    Err(Failure::invalid(text))
}
