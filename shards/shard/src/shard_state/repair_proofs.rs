//! What is known to be repaired on all replicas, by tables.

use model::tombstone_gc::RepairedRanges;
use model::{Partitioner, TableId, TokenRange};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What this node knows.
#[derive(Default)]
pub(crate) struct RepairProofs(RefCell<BTreeMap<TableId, Arc<RepairedRanges>>>);

impl RepairProofs {
    /// Sets what an earlier run has noted of a table.
    pub(crate) fn put(&self, table: TableId, ranges: RepairedRanges) {
        self.0.borrow_mut().insert(table, Arc::new(ranges));
    }

    /// Notes that ranges of a table were repaired at a second. Returns all that is known of the table.
    pub(crate) fn add(
        &self,
        partitioner: Partitioner,
        table: TableId,
        ranges: &[TokenRange],
        second: i64,
    ) -> Arc<RepairedRanges> {
        let mut known = self.0.borrow_mut();
        let of_table = known.entry(table).or_insert_with(|| Arc::new(RepairedRanges::none(partitioner)));
        let noted = Arc::make_mut(of_table);
        ranges.iter().for_each(|range| noted.add(range, second));
        of_table.clone()
    }

    /// All that is known.
    pub(crate) fn all(&self) -> BTreeMap<TableId, Arc<RepairedRanges>> {
        self.0.borrow().clone()
    }
}
