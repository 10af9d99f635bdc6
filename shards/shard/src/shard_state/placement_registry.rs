//! Where the data of all tables is, as this core sees it: derived from the nodes and from the schema that it serves,
//! and replaced when either changes. Requests under way go on with the placement that they began with.

use super::older_topologies::{OlderTopologies, request_time_max};
use crate::config::{Config, Timeouts};
use crate::messages::admin::RingChanges;
use crate::schema::local::Identity;
use cluster::placement::{Placement, TablePlacement};
use cluster::topology::latency::DynamicSnitch;
use cluster::topology::{NodeIndex, Topology};
use model::{Schema, TableId};
use runtime::sync::Condition;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// The current placement, and who is believed to be alive.
pub(crate) struct PlacementRegistry {
    dynamic_snitch: Option<DynamicSnitch>,
    placement: RefCell<Rc<Placement>>,
    /// What changes by the operations under way, the tablets and the sub-partitions.
    changes: RefCell<RingChanges>,
    older: OlderTopologies,
    /// The host ids of the nodes that are believed to be alive, as last announced.
    live: RefCell<Arc<BTreeSet<Uuid>>>,
    /// The host ids of the nodes that owe truncations: they count as down until they have made them.
    owing: RefCell<Arc<BTreeSet<Uuid>>>,
    /// Told when the nodes were replaced.
    replaced: Condition,
}

impl PlacementRegistry {
    /// A cluster of one node, this one, with the tables of `schema`.
    pub(crate) fn new(config: &Config, identity: &Identity, schema: &Schema) -> PlacementRegistry {
        let this = identity.node(config, runtime::shard_count() as u16);
        let topology = Rc::new(Topology::new(vec![this], NodeIndex(0), 0));
        let placement = RefCell::new(Rc::new(Placement::new(topology, schema)));
        PlacementRegistry {
            dynamic_snitch: config.dynamic_snitch,
            placement,
            changes: RefCell::default(),
            older: OlderTopologies::new(request_time_max(&Timeouts::of(config))),
            live: RefCell::default(),
            owing: RefCell::default(),
            replaced: Condition::default(),
        }
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

    /// Whether there is a table of ManagedStrategy.
    #[inline]
    pub(crate) fn has_managed(&self) -> bool {
        self.placement.borrow().has_managed()
    }

    pub(crate) fn topology(&self) -> Rc<Topology> {
        self.placement.borrow().topology().clone()
    }

    /// The epoch of the nodes.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.placement.borrow().topology().epoch()
    }

    /// Places the tables of `schema`.
    pub(crate) fn replace_schema(&self, schema: &Schema) {
        let topology = self.topology();
        let placement = self.changes.borrow().placement(topology, schema);
        self.placement.replace(Rc::new(placement));
    }

    /// Places the tables of `schema` on other nodes, by `changes` too. Those that were last announced as alive are
    /// alive if they owe no truncation, and this one.
    pub(crate) fn replace_topology(&self, mut topology: Topology, changes: &RingChanges, schema: &Schema) {
        if self.topology().epoch() == 0 {
            // A fence of before this start is forgotten, and was at most here.
            self.older.raise_fence(topology.epoch());
        }
        self.older.add(&self.topology(), runtime::now());
        self.dynamic_snitch.into_iter().for_each(|options| topology.measure_latencies(options));
        topology.set_live(|node| self.is_live(node.host_id));
        self.placement.replace(Rc::new(changes.placement(Rc::new(topology), schema)));
        self.changes.replace(changes.clone());
        self.replaced.notify();
    }

    /// Longer than any request takes.
    pub(crate) fn request_time_max(&self) -> Duration {
        self.older.request_time_max()
    }

    /// Requests may take other times from now on.
    pub(crate) fn lengthen_requests(&self, timeouts: &Timeouts) {
        self.older.lengthen(request_time_max(timeouts));
    }

    /// The topologies before the current one, and the requests that still use them.
    pub(crate) fn older(&self) -> &OlderTopologies {
        &self.older
    }

    /// Waits until the nodes are those of an epoch, or of a later one.
    pub(crate) async fn epoch_reached(&self, epoch: u64) {
        self.replaced.wait(|| (self.epoch() >= epoch).then_some(())).await;
    }

    /// Notes the host ids of the nodes that are believed to be alive.
    pub(crate) fn set_live(&self, live: Arc<BTreeSet<Uuid>>) {
        self.live.replace(live);
        self.topology().set_live(|node| self.is_live(node.host_id));
    }

    /// Notes the host ids of the nodes that owe truncations.
    pub(crate) fn set_owing(&self, owing: Arc<BTreeSet<Uuid>>) {
        self.owing.replace(owing);
        self.topology().set_live(|node| self.is_live(node.host_id));
    }

    fn is_live(&self, host_id: Uuid) -> bool {
        self.live.borrow().contains(&host_id) && !self.owing.borrow().contains(&host_id)
    }
}
