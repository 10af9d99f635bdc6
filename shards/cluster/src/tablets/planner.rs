//! What is to be done about tablets: first replicas, splits, merges, moves. Pure: sizes and loads in, changes out.

use super::{TabletMap, TabletsUpdate};
use std::collections::BTreeMap;
use uuid::Uuid;

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
    /// Whether it may be given tablets: it is alive, and does not leave.
    pub may_gain: bool,
}
