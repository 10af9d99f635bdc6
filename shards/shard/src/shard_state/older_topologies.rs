//! The topologies that this core had before the current one, as long as requests use them.
//!
//! A request holds the topology by which it was planned until it ends. So the requests of older epochs have ended when
//! nothing holds the older topologies any more: there is nothing to count.

use cluster::topology::Topology;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// Older topologies, and the epoch before which requests are refused for good.
#[derive(Default)]
pub(crate) struct OlderTopologies {
    topologies: RefCell<Vec<Weak<Topology>>>,
    fence: Cell<u64>,
}

impl OlderTopologies {
    /// Takes a topology that is about to be replaced.
    pub(crate) fn add(&self, topology: &Rc<Topology>) {
        let mut topologies = self.topologies.borrow_mut();
        topologies.retain(|older| older.strong_count() > 0);
        topologies.push(Rc::downgrade(topology));
    }

    /// Whether requests that were planned before `epoch` are still under way.
    pub(crate) fn in_use(&self, epoch: u64) -> bool {
        let mut topologies = self.topologies.borrow_mut();
        topologies.retain(|older| older.strong_count() > 0);
        topologies.iter().filter_map(Weak::upgrade).any(|older| older.epoch() < epoch)
    }

    /// Refuses requests of other nodes that were planned before `epoch`.
    pub(crate) fn raise_fence(&self, epoch: u64) {
        self.fence.set(self.fence.get().max(epoch));
    }

    /// The epoch before which such requests are refused.
    #[inline]
    pub(crate) fn fence(&self) -> u64 {
        self.fence.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::topology::{Node, NodeIndex};
    use model::{Partitioner, ShardMap};
    use uuid::Uuid;

    fn topology(epoch: u64) -> Rc<Topology> {
        let node = Node {
            host_id: Uuid::nil(),
            address: ([127, 0, 0, 1], 7000).into(),
            data_center: String::new(),
            rack: String::new(),
            shards: ShardMap::new(Partitioner::Murmur3, 1),
            tokens: Vec::new(),
            features: 0,
        };
        Rc::new(Topology::new(vec![node], NodeIndex(0), epoch))
    }

    #[test]
    fn a_topology_is_in_use_while_a_request_holds_it() {
        let older = OlderTopologies::default();
        let (first, second) = (topology(3), topology(5));
        let request = first.clone();
        older.add(&first);
        older.add(&second);
        drop(first);
        drop(second);
        assert!(older.in_use(4) && older.in_use(5));
        assert!(!older.in_use(3), "requests of that epoch are not older");
        drop(request);
        assert!(!older.in_use(5));
    }

    #[test]
    fn a_fence_never_falls() {
        let older = OlderTopologies::default();
        older.raise_fence(7);
        older.raise_fence(4);
        assert_eq!(older.fence(), 7);
    }
}
