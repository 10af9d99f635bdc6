//! The topologies that this core had before the current one, as long as requests use them.
//!
//! A request holds the topology by which it was planned until it ends. So the requests of older epochs have ended when
//! nothing holds the older topologies any more: there is nothing to count.
//!
//! A request whose time is over may still hold its topology. It does not count any more [`REQUEST_TIME_MAX`] after that
//! was replaced: no client is told of a success so late.

use cluster::topology::Topology;
use runtime::Instant;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Longer than any request may take: twice Cassandra's longest timeout of requests that are fenced.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(20);

/// Older topologies, and the epoch before which requests are refused for good.
#[derive(Default)]
pub(crate) struct OlderTopologies {
    /// Each with the time at which it was replaced.
    topologies: RefCell<Vec<(Weak<Topology>, Instant)>>,
    fence: Cell<u64>,
}

impl OlderTopologies {
    /// Takes a topology that is about to be replaced.
    pub(crate) fn add(&self, topology: &Rc<Topology>, now: Instant) {
        self.forget(now);
        self.topologies.borrow_mut().push((Rc::downgrade(topology), now));
    }

    /// Whether requests that were planned before `epoch` are still under way.
    pub(crate) fn in_use(&self, epoch: u64, now: Instant) -> bool {
        self.forget(now);
        let topologies = self.topologies.borrow();
        topologies.iter().filter_map(|(older, _)| older.upgrade()).any(|older| older.epoch() < epoch)
    }

    /// Forgets those that no request uses.
    fn forget(&self, now: Instant) {
        let is_used = |(older, replaced): &(Weak<Topology>, Instant)| {
            older.strong_count() > 0 && now.since(*replaced) < REQUEST_TIME_MAX
        };
        self.topologies.borrow_mut().retain(is_used);
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
        let now = Instant(7);
        older.add(&first, now);
        older.add(&second, now);
        drop(first);
        drop(second);
        assert!(older.in_use(4, now) && older.in_use(5, now));
        assert!(!older.in_use(3, now), "requests of that epoch are not older");
        drop(request);
        assert!(!older.in_use(5, now));
    }

    #[test]
    fn a_request_does_not_count_when_its_time_is_over() {
        let older = OlderTopologies::default();
        let request = topology(3);
        let replaced = Instant(7);
        older.add(&request, replaced);
        assert!(older.in_use(4, replaced.after(REQUEST_TIME_MAX - Duration::from_nanos(1))));
        assert!(!older.in_use(4, replaced.after(REQUEST_TIME_MAX)));
    }

    #[test]
    fn a_fence_never_falls() {
        let older = OlderTopologies::default();
        older.raise_fence(7);
        older.raise_fence(4);
        assert_eq!(older.fence(), 7);
    }
}
