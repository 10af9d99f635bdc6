//! Proposals of which it is unknown whether the log has them. The next round of their partition settles them first, so
//! that what it reads cannot change afterwards.
//!
//! They are kept in memory only: when the process ends, so does every reader that could have noticed the uncertainty,
//! and replaying the log decides.

use super::{Proposal, Update};
use model::{DecoratedKey, TableId};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// When a core has this many unsettled proposals, no rounds of other partitions begin.
pub(crate) const UNSETTLED_MAX: usize = 1024;

/// A table and the bytes of a partition key.
type PartitionName = (TableId, Vec<u8>);

/// The unsettled proposals of a core, by partition.
#[derive(Default)]
pub(crate) struct Unsettled(RefCell<BTreeMap<PartitionName, Proposal<Update>>>);

impl Unsettled {
    /// The unsettled proposal of a partition.
    pub(crate) fn get(&self, table: TableId, key: &DecoratedKey) -> Option<Proposal<Update>> {
        let proposals = self.0.borrow();
        // Mostly there is none at all.
        if proposals.is_empty() {
            return None;
        }
        proposals.get(&(table, key.key.to_vec())).cloned()
    }

    /// Whether a round of a partition may begin: it settles an earlier proposal, or there is room for its own.
    pub(crate) fn admits(&self, table: TableId, key: &DecoratedKey) -> bool {
        self.0.borrow().len() < UNSETTLED_MAX || self.get(table, key).is_some()
    }

    /// Keeps the proposal of a partition, replacing an earlier one.
    pub(crate) fn keep(&self, table: TableId, key: &DecoratedKey, proposal: Proposal<Update>) {
        self.0.borrow_mut().insert((table, key.key.to_vec()), proposal);
    }

    /// Forgets the proposal of a partition because the log has something later.
    pub(crate) fn forget(&self, table: TableId, key: &DecoratedKey) {
        let mut proposals = self.0.borrow_mut();
        if !proposals.is_empty() {
            proposals.remove(&(table, key.key.to_vec()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paxos::ballot::{Ballot, Scope};
    use model::Partitioner;

    #[test]
    fn proposals_are_kept_by_partition_up_to_a_limit() {
        let unsettled = Unsettled::default();
        let proposal = |micros| Proposal { ballot: Ballot::new(micros, Scope::Global, 0), update: None };
        let key = |n: usize| DecoratedKey::new(Partitioner::Murmur3, &n.to_be_bytes());
        let table = TableId([7; 16]);
        for n in 0..UNSETTLED_MAX {
            assert!(unsettled.admits(table, &key(n)));
            unsettled.keep(table, &key(n), proposal(1));
        }
        assert!(!unsettled.admits(table, &key(UNSETTLED_MAX)));
        assert!(unsettled.admits(table, &key(0)));
        unsettled.keep(table, &key(0), proposal(2));
        assert_eq!(unsettled.get(table, &key(0)), Some(proposal(2)));
        assert_eq!(unsettled.get(TableId([8; 16]), &key(0)), None);
        unsettled.forget(table, &key(0));
        assert_eq!(unsettled.get(table, &key(0)), None);
        assert!(unsettled.admits(table, &key(0)));
    }
}
