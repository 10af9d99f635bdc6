//! What statements that change tables without storage may not say.

use super::{Batch, Modify};
use model::{BatchKind, Failure};

impl Modify {
    /// Refuses what no table without storage takes.
    ///
    /// # Errors
    /// Cassandra's texts for TIMESTAMP, TTL and IF.
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
    /// Refuses statements that do not go together.
    ///
    /// # Errors
    /// As [`check_virtual`].
    pub(crate) fn check_virtual(&self) -> Result<(), Failure> {
        check_virtual(self.kind, self.statements.iter())?;
        self.statements.iter().try_for_each(Modify::check_virtual)
    }
}

/// Refuses changes of tables without storage in logged and conditional batches and beside other changes.
///
/// # Errors
/// Cassandra's texts.
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
