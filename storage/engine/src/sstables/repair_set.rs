//! Which part of a table's data an SSTable belongs to, as its Statistics.db says: what no incremental repair has
//! compared yet, what one is comparing, and what one has found equal on all replicas.
//!
//! Invariants: every SSTable is in one set; compactions never merge SSTables of two.

use super::open_sstable::OpenSstable;

/// A part of a table's data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum RepairSet {
    /// No incremental repair has compared it.
    #[default]
    Unrepaired,
    /// An incremental repair has made it equal on all replicas.
    Repaired,
    /// The incremental repair with this id has set it apart.
    Pending([u8; 16]),
}

impl RepairSet {
    /// The sets that strategies compact; what is set apart stays as it is.
    pub(crate) const COMPACTED: [RepairSet; 2] = [RepairSet::Unrepaired, RepairSet::Repaired];

    /// The set of an SSTable.
    pub(crate) fn of(sstable: &OpenSstable) -> RepairSet {
        let statistics = &sstable.reader.metadata().statistics;
        match (statistics.pending_repair, statistics.repaired_at) {
            (Some(session), _) => RepairSet::Pending(session),
            (None, 0) => RepairSet::Unrepaired,
            (None, _) => RepairSet::Repaired,
        }
    }
}
