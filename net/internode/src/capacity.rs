//! Room for bytes that wait: each queue has its own, and shares reserves with others.
//!
//! Invariants: a charge gives back what it took when it is dropped; what exceeds a queue's own capacity is taken from
//! both reserves or not at all, except that an empty queue takes anything.

use crate::options::QueueLimits;
use runtime::sync::Condition;
use std::cell::Cell;
use std::rc::Rc;

/// Bytes that several queues draw on.
#[derive(Debug)]
pub(crate) struct Reserve {
    limit: u64,
    used: Cell<u64>,
}

impl Reserve {
    pub(crate) fn new(limit: u64) -> Rc<Reserve> {
        Rc::new(Reserve { limit, used: Cell::new(0) })
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.get()
    }

    fn has(&self, bytes: u64) -> bool {
        self.used.get().saturating_add(bytes) <= self.limit
    }

    fn add(&self, bytes: u64) {
        self.used.set(self.used.get().saturating_add(bytes));
    }

    fn give_back(&self, bytes: u64) {
        self.used.set(self.used.get().saturating_sub(bytes));
    }
}

/// What all queues of a core in one direction share.
#[derive(Debug)]
pub(crate) struct Pool {
    limits: QueueLimits,
    shards: u64,
    global: Rc<Reserve>,
    /// Notified whenever bytes are given back.
    pub(crate) room: Condition,
}

impl Pool {
    /// The pool of one of `shards` cores.
    pub(crate) fn new(limits: QueueLimits, shards: usize) -> Rc<Pool> {
        let shards = shards.max(1) as u64;
        let global = Reserve::new(limits.reserve_global_bytes / shards);
        Rc::new(Pool { limits, shards, global, room: Condition::default() })
    }

    /// This core's share of the reserve of one endpoint.
    pub(crate) fn endpoint(&self) -> Rc<Reserve> {
        Reserve::new(self.limits.reserve_endpoint_bytes / self.shards)
    }

    /// The room of a new queue.
    pub(crate) fn queue(self: &Rc<Pool>, endpoint: &Rc<Reserve>) -> Rc<QueueRoom> {
        Rc::new(QueueRoom { pool: self.clone(), endpoint: endpoint.clone(), used: Cell::new(0) })
    }

    /// The most bytes that one queue can hold, but for a single longer message.
    pub(crate) fn queue_bytes_max(&self) -> u64 {
        let reserve = self.limits.reserve_endpoint_bytes.min(self.limits.reserve_global_bytes) / self.shards;
        self.limits.capacity_bytes.saturating_add(reserve)
    }
}

/// The room of one queue.
#[derive(Debug)]
pub(crate) struct QueueRoom {
    pool: Rc<Pool>,
    endpoint: Rc<Reserve>,
    used: Cell<u64>,
}

impl QueueRoom {
    /// Bytes in the queue.
    pub(crate) fn used(&self) -> u64 {
        self.used.get()
    }

    /// Takes room for `bytes`, if there is.
    pub(crate) fn try_take(self: &Rc<QueueRoom>, bytes: u64) -> Option<Charge> {
        let (pool, used) = (&self.pool, self.used.get());
        let total = used.saturating_add(bytes);
        let beyond = |bytes: u64| bytes.saturating_sub(pool.limits.capacity_bytes);
        let reserved = beyond(total) - beyond(used);
        if reserved > 0 && used > 0 && !(self.endpoint.has(reserved) && pool.global.has(reserved)) {
            return None;
        }
        self.used.set(total);
        self.endpoint.add(reserved);
        pool.global.add(reserved);
        Some(Charge { room: self.clone(), bytes })
    }
}

/// Room that is taken until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    room: Rc<QueueRoom>,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        let room = &self.room;
        let (before, capacity) = (room.used.get(), room.pool.limits.capacity_bytes);
        let after = before.saturating_sub(self.bytes);
        room.used.set(after);
        // What lies beyond the capacity is reserved, whichever charge it came with.
        let reserved = before.saturating_sub(capacity) - after.saturating_sub(capacity);
        room.endpoint.give_back(reserved);
        room.pool.global.give_back(reserved);
        room.pool.room.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(shards: usize) -> Rc<Pool> {
        let limits = QueueLimits { capacity_bytes: 100, reserve_endpoint_bytes: 40, reserve_global_bytes: 60 };
        Pool::new(limits, shards)
    }

    #[test]
    fn a_queue_takes_its_capacity_and_then_its_endpoints_reserve() {
        let pool = pool(1);
        let endpoint = pool.endpoint();
        let queue = pool.queue(&endpoint);
        let first = queue.try_take(100).expect("the capacity");
        assert_eq!(endpoint.used(), 0);
        let second = queue.try_take(40).expect("the reserve");
        assert!(queue.try_take(1).is_none(), "one past it");
        assert_eq!((queue.used(), endpoint.used(), pool.global.used()), (140, 40, 40));
        assert_eq!(pool.queue_bytes_max(), 140);
        drop(first);
        assert_eq!((queue.used(), endpoint.used(), pool.global.used()), (40, 0, 0));
        drop(second);
        assert_eq!(queue.used(), 0);
    }

    #[test]
    fn queues_of_one_endpoint_share_its_reserve_and_all_share_the_global_one() {
        let pool = pool(1);
        let (one, other) = (pool.endpoint(), pool.endpoint());
        let queues = [pool.queue(&one), pool.queue(&one), pool.queue(&other)];
        let full: Vec<Charge> = queues.iter().map(|queue| queue.try_take(100).expect("room")).collect();
        let reserved = queues[0].try_take(30).expect("room");
        assert!(queues[1].try_take(11).is_none(), "10 are left of the endpoint's 40");
        assert!(queues[2].try_take(31).is_none(), "30 are left of the 60 for all");
        let rest = queues[2].try_take(30).expect("exactly those");
        drop((full, reserved, rest));
        assert_eq!((one.used(), other.used(), pool.global.used()), (0, 0, 0));
    }

    #[test]
    fn an_empty_queue_takes_any_message() {
        let pool = pool(4);
        let endpoint = pool.endpoint();
        let queue = pool.queue(&endpoint);
        let long = queue.try_take(1_000_000).expect("empty");
        assert!(queue.try_take(1).is_none());
        drop(long);
        assert_eq!((queue.used(), endpoint.used(), pool.global.used()), (0, 0, 0));
    }

    #[test]
    fn each_core_has_a_share_of_the_reserves() {
        let pool = pool(4);
        let endpoint = pool.endpoint();
        let queue = pool.queue(&endpoint);
        let _most = (queue.try_take(100).expect("capacity"), queue.try_take(10).expect("a quarter of 40"));
        assert!(queue.try_take(1).is_none());
    }
}
