//! The memory of a core for requests under way, and the part of it that one client address may have.
//!
//! Invariants: who needs both the memory of its address and that of the core acquires them in this order, so that no
//! two wait for each other.

use runtime::gate::{Permit, Semaphore};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The request memory of a core.
pub(crate) struct RequestMemory {
    /// Memory for requests that are admitted when they have arrived.
    pub(crate) small: Share,
    /// Memory for large requests, which are admitted before their body has arrived. It is separate so that a client
    /// that sends slowly holds up other large requests only.
    pub(crate) large: Share,
    /// How many bytes one address may have, if that is limited.
    per_address_max: Option<u64>,
    addresses: RefCell<BTreeMap<IpAddr, (Share, usize)>>,
}

/// Bytes that requests share.
#[derive(Clone)]
pub(crate) struct Share {
    bytes: Semaphore,
    max: u64,
}

impl Share {
    fn new(max: u64) -> Share {
        Share { bytes: Semaphore::new(max), max }
    }

    /// Takes bytes if they are free; a request that is larger than everything takes everything.
    pub(crate) fn try_acquire(&self, bytes: u64) -> Option<Permit> {
        self.bytes.try_acquire(bytes.min(self.max))
    }

    /// Takes bytes, waiting in line.
    pub(crate) async fn acquire(&self, bytes: u64) -> Permit {
        self.bytes.acquire(bytes.min(self.max)).await
    }

    /// The bytes in use, and all bytes.
    pub(crate) fn usage(&self) -> (u64, u64) {
        (self.max - self.bytes.free(), self.max)
    }
}

impl RequestMemory {
    /// Memory of `bytes` for each of the two kinds of requests.
    pub(crate) fn new(bytes: u64, per_address_max: Option<u64>) -> RequestMemory {
        let (small, large) = (Share::new(bytes), Share::new(bytes));
        RequestMemory { small, large, per_address_max, addresses: RefCell::default() }
    }

    /// The part of an address of which a connection has opened, if addresses are limited. [`RequestMemory::closed`]
    /// must follow.
    pub(crate) fn opened(&self, address: IpAddr) -> Option<Share> {
        let max = self.per_address_max?;
        let mut addresses = self.addresses.borrow_mut();
        let (share, connections) = addresses.entry(address).or_insert_with(|| (Share::new(max), 0));
        *connections += 1;
        Some(share.clone())
    }

    /// A connection of an address has closed.
    pub(crate) fn closed(&self, address: IpAddr) {
        let mut addresses = self.addresses.borrow_mut();
        if let Some((_, connections)) = addresses.get_mut(&address) {
            *connections -= 1;
            if *connections == 0 {
                addresses.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn connections_of_an_address_share_its_part() {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let memory = RequestMemory::new(1000, Some(100));
        let (one, two) = (memory.opened(address).expect("limited"), memory.opened(address).expect("limited"));
        let taken = one.try_acquire(100).expect("all of it");
        assert!(two.try_acquire(1).is_none());
        assert_eq!(two.usage(), (100, 100));
        drop(taken);
        assert!(two.try_acquire(101).is_some(), "a request that is too large for everything takes everything");
        memory.closed(address);
        memory.closed(address);
        assert!(memory.addresses.borrow().is_empty());
        assert!(RequestMemory::new(1000, None).opened(address).is_none());
    }
}
