//! Where the data of all tables is, as this core sees it: derived from the nodes and from the schema that it serves.

use crate::config::Config;
use crate::schema::local::Identity;
use cluster::placement::{Placement, TablePlacement};
use cluster::topology::{LiveNodes, NodeIndex, Topology};
use model::{Schema, TableId};
use std::cell::RefCell;
use std::rc::Rc;

/// The current placement and the nodes.
pub(crate) struct PlacementRegistry {
    topology: Rc<Topology>,
    live: LiveNodes,
    placement: RefCell<Rc<Placement>>,
}

impl PlacementRegistry {
    /// A cluster of one node, this one, with the tables of `schema`.
    pub(crate) fn new(config: &Config, identity: &Identity, schema: &Schema) -> PlacementRegistry {
        let this = identity.node(config, runtime::shard_count() as u16);
        let topology = Rc::new(Topology::new(vec![this], NodeIndex(0)));
        let live = LiveNodes::of(&topology, |_| true);
        let placement = RefCell::new(Rc::new(Placement::new(topology.clone(), schema)));
        PlacementRegistry { topology, live, placement }
    }

    /// The placement of all tables.
    pub(crate) fn current(&self) -> Rc<Placement> {
        self.placement.borrow().clone()
    }

    /// The placement of one table.
    #[inline]
    pub(crate) fn table(&self, id: TableId) -> Option<Rc<TablePlacement>> {
        self.placement.borrow().table(id).cloned()
    }

    pub(crate) fn topology(&self) -> &Rc<Topology> {
        &self.topology
    }

    #[inline]
    pub(crate) fn live_nodes(&self) -> &LiveNodes {
        &self.live
    }

    /// Places the tables of `schema`.
    pub(crate) fn replace(&self, schema: &Schema) {
        *self.placement.borrow_mut() = Rc::new(Placement::new(self.topology.clone(), schema));
    }
}
