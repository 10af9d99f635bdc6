//! Reads of a part of the ring: its pieces, each with the plan of its replicas.

use super::read::PartitionReadPlan;
use crate::placement::TablePlacement;
use crate::topology::{LiveNodes, NodeIndex};
use model::{Consistency, Failure, TokenRange};
use smallvec::SmallVec;

/// A piece of a part of the ring, whose keys are read from the same nodes.
///
/// A replica of a piece stands for all cores of its node that have partitions of the table
/// ([`TablePlacement::shards_of`]), because the tokens of a core are scattered over the ring.
#[derive(Debug)]
pub struct RangePiece {
    /// The keys.
    pub range: TokenRange,
    /// Which replicas are asked.
    pub plan: PartitionReadPlan,
}

impl RangePiece {
    /// The pieces, in ascending order, of a read of the keys in `limits` of a table, at `level`. Neighbouring ranges
    /// that can be read from the same nodes are one piece.
    ///
    /// # Errors
    /// Unavailable if too few replicas of any piece are alive.
    pub fn all(
        level: Consistency,
        table: &TablePlacement,
        limits: &TokenRange,
        live: &LiveNodes,
    ) -> Result<Vec<RangePiece>, Failure> {
        let requirement = table.keyspace().levels().required(level);
        let mut pieces: Vec<RangePiece> = Vec::new();
        let mut before: SmallVec<[NodeIndex; 3]> = SmallVec::new();
        for range in table.keyspace().ranges(limits) {
            let plan = PartitionReadPlan::required(requirement, table.replicas_of(&range), live)?;
            let mut nodes: SmallVec<[NodeIndex; 3]> = plan.nodes().collect();
            nodes.sort_unstable();
            let within = range.within(limits);
            match pieces.last_mut().filter(|_| before == nodes) {
                Some(last) => last.range.end = within.end,
                None => pieces.push(RangePiece { range: within, plan }),
            }
            before = nodes;
        }
        Ok(pieces)
    }
}

#[cfg(test)]
#[path = "range_tests.rs"]
mod tests;
