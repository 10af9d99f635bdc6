//! The logged batches that this core keeps, in the order of their times.

use engine::BatchId;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Time and id of every batch that was stored and not removed.
#[derive(Default)]
pub(crate) struct KeptBatches(RefCell<BTreeSet<(i64, [u8; 16])>>);

impl KeptBatches {
    /// Notes that a batch is stored.
    pub(crate) fn insert(&self, id: BatchId) {
        self.0.borrow_mut().insert((id.timestamp, id.uuid));
    }

    /// Notes that a batch is not stored any more.
    pub(crate) fn remove(&self, id: BatchId) {
        self.0.borrow_mut().remove(&(id.timestamp, id.uuid));
    }

    /// When the oldest batch began, microseconds since 1970.
    pub(crate) fn oldest(&self) -> Option<i64> {
        self.0.borrow().first().map(|(timestamp, _)| *timestamp)
    }

    /// The batches that began before `micros` since 1970, the oldest first.
    pub(crate) fn before(&self, micros: i64) -> Vec<BatchId> {
        let known = self.0.borrow();
        let old = known.range(..(micros, [0; 16]));
        old.map(|(timestamp, uuid)| BatchId { uuid: *uuid, timestamp: *timestamp }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_batches_come_in_order_until_they_are_removed() {
        let id = |timestamp: i64| BatchId { uuid: [(9 - timestamp) as u8; 16], timestamp };
        let batches = KeptBatches::default();
        [3, 1, 2].into_iter().for_each(|at| batches.insert(id(at)));
        assert_eq!(batches.before(3), [id(1), id(2)]);
        batches.remove(id(1));
        batches.remove(id(7));
        assert_eq!(batches.before(4), [id(2), id(3)]);
    }
}
