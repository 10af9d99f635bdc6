//! The topologies that this core had before the current one, as long as requests use them.
//!
//! A request holds the topology by which it was planned until it ends. So the requests of older epochs have ended when
//! nothing holds the older topologies any more: there is nothing to count.
//!
//! A request whose time is over may still hold its topology. It does not count any more [`request_time_max`] after that
//! was replaced: no client is told of a success so late.

use crate::config::Timeouts;
use cluster::topology::Topology;
use runtime::Instant;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Requests take no longer than this, however short their timeouts are: twice Cassandra's longest one.
const REQUEST_TIME_FLOOR: Duration = Duration::from_secs(20);

/// Longer than any request takes that reads or writes data.
pub(crate) fn request_time_max(timeouts: &Timeouts) -> Duration {
    let Timeouts { read, range, write, counter_write, cas_contention, truncate: _, misc: _ } = *timeouts;
    let timeouts = [read, range, write, counter_write, cas_contention];
    timeouts.into_iter().fold(REQUEST_TIME_FLOOR, |longest, timeout| longest.max(timeout.saturating_mul(2)))
}

/// Older topologies, and the epoch before which requests are refused for good.
pub(crate) struct OlderTopologies {
    /// After so long, a request does not count any more.
    request_time_max: Cell<Duration>,
    /// Each with the time at which it was replaced.
    topologies: RefCell<Vec<(Weak<Topology>, Instant)>>,
    fence: Cell<u64>,
}

impl OlderTopologies {
    /// None, where requests take up to `request_time_max`.
    pub(crate) fn new(request_time_max: Duration) -> OlderTopologies {
        OlderTopologies {
            request_time_max: Cell::new(request_time_max),
            topologies: RefCell::default(),
            fence: Cell::default(),
        }
    }

    /// Longer than any request takes that reads or writes data.
    pub(crate) fn request_time_max(&self) -> Duration {
        self.request_time_max.get()
    }

    /// From now on requests may take up to `request_time_max`. Those under way may have begun with longer timeouts.
    pub(crate) fn lengthen(&self, request_time_max: Duration) {
        self.request_time_max.set(self.request_time_max.get().max(request_time_max));
    }

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
            older.strong_count() > 0 && now.since(*replaced) < self.request_time_max.get()
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
    use crate::config::Config;
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
        let older = OlderTopologies::new(REQUEST_TIME_FLOOR);
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
        let longest = Duration::from_secs(60);
        let usual = Timeouts::of(&Config::default());
        let timeouts = Timeouts { write: longest / 2, ..usual };
        assert_eq!(request_time_max(&timeouts), longest);
        assert_eq!(request_time_max(&usual), REQUEST_TIME_FLOOR);
        let older = OlderTopologies::new(request_time_max(&usual));
        older.lengthen(request_time_max(&timeouts));
        older.lengthen(request_time_max(&usual));
        let request = topology(3);
        let replaced = Instant(7);
        older.add(&request, replaced);
        assert!(older.in_use(4, replaced.after(longest - Duration::from_nanos(1))));
        assert!(!older.in_use(4, replaced.after(longest)));
    }

    #[test]
    fn a_fence_never_falls() {
        let older = OlderTopologies::new(REQUEST_TIME_FLOOR);
        older.raise_fence(7);
        older.raise_fence(4);
        assert_eq!(older.fence(), 7);
    }
}
