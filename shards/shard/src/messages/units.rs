//! What a core asks of the one that keeps a bucket of units, or that counts the requests of a quota.

use crate::metrics::QuotaOwner;
use cluster::units::Ask;
use cluster::units::keeper::Holder;
use cluster::units::limits::{Measure, Scope};
use model::TableId;

/// A bucket that is asked for units, and by whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseRequest {
    /// The table, or what stands for the keyspace or role whose quota it is.
    pub(crate) table: TableId,
    /// In what is counted.
    pub(crate) measure: Measure,
    /// What is limited.
    pub(crate) scope: Scope,
    /// The rate of a quota, hundredths a second: a keeper need not have read the role that has it. `None` if the scope
    /// is one of a table, whose capacity says it.
    pub(crate) quota_rate: Option<u64>,
    /// Who asks.
    pub(crate) holder: Holder,
    /// What is asked for.
    pub(crate) ask: Ask,
}

/// A quota whose requests at once are counted: whose it is, and what stands for the name.
pub(crate) type CountedQuota = (QuotaOwner, TableId);
