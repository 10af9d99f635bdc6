//! What is to be done about tablets: first replicas, splits, merges, moves. Pure: nodes, sizes and loads in, changes
//! out.
//!
//! 1. [`initial`]: the tablets of a new table. [`replaced`]: goals when nodes leave or another takes a node's place.
//!    [`refactored`]: goals for another number of replicas, or because there are nodes for all of them at last.
//! 2. [`split_and_merge`]: splits of tablets that are too large or too busy, merges of neighbours that are cold.
//!    [`colocate`]: moves that let cold neighbours merge.
//! 3. [`balance`]: a few moves that make the nodes of a data centre equally full and busy.
//!
//! # Cost
//! [`balance`] lowers a cost, which [`cost`] gives. A tablet counts on every node that has it, with three amounts:
//! bytes, its part of the request units a second (those over minutes), and 1 for itself. A node can have as much as its
//! weight says, so what counts is its *ratio*: amount by weight, divided by the mean of that over its data centre (the
//! amounts of all of its nodes by the weights of those that do not leave). A mean below [`BYTES_MEAN_MIN`] or
//! [`UNITS_MEAN_MIN`] is taken for that, so that next to nothing is not worth a move. Then
//!
//! ```text
//! cost = sum over nodes that stay of weight * ( 1 * (ratio of bytes - 1)^2
//!                                             + 1 * (ratio of units - 1)^2
//!                                             + COUNT_SHARE * (ratio of tablets - 1)^2 )
//! ```
//!
//! and a move of a tablet whose amounts are `s` of the mean, from a node with the ratios `a` to one with `b`, lowers it
//! by the sum over the three, each with its factor, of `2 s (a - b) - s^2 (1/weight of a + 1/weight of b)`. The move is
//! made only if that is more than [`MOVE_PRICE`] times `s`: nodes whose ratios differ by less than half of
//! [`MOVE_PRICE`] exchange nothing, nor do those that differ by less than a tablet. Each move lowers the cost by more
//! than a constant part of what it moves, so moves come to an end as long as the amounts stay, and no tablet comes
//! back.
//!
//! # Racks
//! As in Cassandra, the replicas of a tablet within a data centre are in different racks as far as there are racks, and
//! those that are left over are anywhere. A move never lowers the number of racks of a tablet, unless its node leaves
//! and no other has room. One that raises it goes before others, and needs to earn hardly any price.
//!
//! Invariants: the same input gives the same output; all tablets of a table have equally many replicas afterwards if
//! they have now; a node that may not gain is in no goal in which it was not.

mod balance;
#[cfg(test)]
mod fixture;
mod replicas;
mod roster;
mod sizes;

pub use balance::{balance, cost};
pub use replicas::{initial, refactored, replaced};
pub use sizes::{CHANGES_MAX, colocate, split_and_merge};

use super::TabletMap;
use std::collections::BTreeMap;
use uuid::Uuid;

/// The mean of bytes by weight below which it makes no difference who has them.
pub const BYTES_MEAN_MIN: f64 = (16 << 20) as f64;
/// The mean of request units a second by weight below which it makes no difference who serves them.
pub const UNITS_MEAN_MIN: f64 = 100.0;
/// How much the number of tablets counts in the cost, compared with bytes and with units.
pub const COUNT_SHARE: f64 = 0.05;
/// How much a move must lower the cost, by what it moves.
pub const MOVE_PRICE: f64 = 0.05;

/// The number of replicas in each data centre, by its name.
pub type Factors = BTreeMap<String, u32>;

/// A node as the planner sees it.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedNode {
    /// Its id.
    pub host_id: Uuid,
    /// The name of its data centre.
    pub data_center: String,
    /// The name of its rack.
    pub rack: String,
    /// How much it can have compared with others, its number of cores; above 0.
    pub weight: u32,
    /// Whether it may be given tablets: it is alive, and does not leave. What a node that may not has stays there,
    /// unless it leaves.
    pub may_gain: bool,
    /// Whether its tablets are to go elsewhere, as far as there is room: it leaves, or is emptied for maintenance.
    pub leaves: bool,
}

impl PlannedNode {
    /// Whether it may be given tablets, and keep them.
    fn gains(&self) -> bool {
        self.may_gain && !self.leaves
    }
}

/// What replicas of a tablet report of it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct TabletFigures {
    /// Bytes of its data at one replica.
    pub bytes: u64,
    /// Request units a second of late, of all replicas together.
    pub units: f64,
    /// The same over minutes. Moves go by it, and what was busy then is not merged.
    pub units_lasting: f64,
    /// The token at the median of its data or of its load; `None` if nobody knows it.
    pub middle: Option<i64>,
}

/// When the tablets of a table are split and merged.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// Bytes above which a tablet is split.
    pub bytes_target: u64,
    /// Bytes above which it is split though it is being moved.
    pub bytes_max: u64,
    /// Request units a second, of all replicas together, above which it is split.
    pub units_max: f64,
    /// The number of tablets that the table has at least.
    pub tablets_min: u32,
    /// The number of tablets that no split goes above.
    pub tablets_max: u32,
}

impl Default for Limits {
    /// 10 GiB, 30 GiB and 10,000 units a second, any number of tablets.
    fn default() -> Limits {
        Limits {
            bytes_target: 10 << 30,
            bytes_max: 30 << 30,
            units_max: 10_000.0,
            tablets_min: 1,
            tablets_max: super::TABLETS_MAX as u32,
        }
    }
}

/// A table with what is known of its tablets.
#[derive(Clone, Copy, Debug)]
pub struct TableView<'a> {
    /// Its id.
    pub id: [u8; 16],
    /// Its tablets.
    pub map: &'a TabletMap,
    /// What replicas report, in the order of the tablets. Of tablets beyond its end nothing is known.
    pub figures: &'a [TabletFigures],
    /// When they are split and merged.
    pub limits: Limits,
}
