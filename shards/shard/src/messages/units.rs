//! What a core asks of the one that keeps a bucket of units.

use cluster::units::Ask;
use cluster::units::keeper::Holder;
use cluster::units::limits::{Measure, Scope};
use model::TableId;

/// A bucket that is asked for units, and by whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseRequest {
    /// The table.
    pub(crate) table: TableId,
    /// In what is counted.
    pub(crate) measure: Measure,
    /// What is limited.
    pub(crate) scope: Scope,
    /// Who asks.
    pub(crate) holder: Holder,
    /// What is asked for.
    pub(crate) ask: Ask,
}
