//! The state of a shard of this backend, and the parts of it that tasks reach through the context.

use super::Reactor;
use super::doorbell::Doorbell;
use super::signal::StopSignal;
use super::stream::{Connection, READ_BYTES};
use crate::context::{self, BackendContext};
use crate::ids::ShardId;
use crate::instant::Instant;
use crate::sync::Latch;
use crate::system::Shard;
use crate::system::node::{Bell, Node, monotonic};
use crate::system::send_queue::DirtyList;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

pub(super) struct Core {
    pub(super) system: Shard,
    pub(super) node: Arc<Node<Doorbell>>,
    pub(super) shard: ShardId,
    pub(super) signal: StopSignal,
    /// The driver's waker.
    driver: RefCell<Option<Waker>>,
    /// Whether the driver is being polled.
    pub(super) in_turn: Cell<bool>,
    pub(super) dirty: DirtyList<Connection>,
    /// Connections that wait for the peer to take their bytes, by number.
    pub(super) senders: RefCell<BTreeMap<u64, Rc<Connection>>>,
    pub(super) next_sender: Cell<u64>,
    /// The buffer that all connections receive into before the bytes are copied.
    pub(super) scratch: RefCell<Box<[u8]>>,
    /// Devices that glommio has probed, see `disk.rs`.
    pub(super) probed: RefCell<BTreeSet<u64>>,
    /// Received bytes that wait for tasks.
    pub(super) unread_bytes: Cell<usize>,
    /// Operations that have not ended.
    pub(super) under_way: Cell<usize>,
    /// The shard is stopping: nothing is started again.
    pub(super) stopping: Cell<bool>,
}

/// The core of the current shard. Panics outside a shard of this backend.
pub(super) fn current() -> Rc<Core> {
    context::with(|c| match &c.backend {
        BackendContext::Glommio(reactor) => reactor.core.clone(),
        _ => panic!("a glommio object is used on another backend"),
    })
}

impl Reactor {
    pub(crate) fn monotonic(&self) -> Instant {
        monotonic()
    }

    pub(crate) fn wall_micros(&self) -> i64 {
        self.core.node.wall_micros()
    }

    pub(crate) fn system(&self) -> &Shard {
        &self.core.system
    }

    #[cfg(test)]
    pub(crate) fn under_way(&self) -> usize {
        self.core.under_way.get()
    }

    /// The latch that a stop signal sets.
    pub(crate) fn terminated(&self) -> Latch {
        self.core.signal.listen(&self.core)
    }
}

impl Core {
    pub(super) fn new(node: Arc<Node<Doorbell>>, shard: ShardId) -> io::Result<Rc<Core>> {
        Ok(Rc::new(Core {
            system: Shard::new(node.helpers.clone(), node.calculators.clone())?,
            node,
            shard,
            signal: StopSignal::default(),
            driver: RefCell::default(),
            in_turn: Cell::new(false),
            dirty: DirtyList::default(),
            senders: RefCell::default(),
            next_sender: Cell::new(0),
            scratch: RefCell::new(vec![0; READ_BYTES].into()),
            probed: RefCell::default(),
            unread_bytes: Cell::new(0),
            under_way: Cell::new(0),
            stopping: Cell::new(false),
        }))
    }

    /// Sets the driver that other tasks and threads wake.
    pub(super) fn set_driver(&self, driver: Option<Waker>) {
        self.node.bell(self.shard).hang(driver.clone());
        *self.driver.borrow_mut() = driver;
    }

    /// Wakes tasks of the shard, and the driver to poll them. For tasks of glommio.
    pub(super) fn wake(&self, wakers: impl IntoIterator<Item = Waker>) {
        wakers.into_iter().for_each(Waker::wake);
        self.wake_driver();
    }

    /// Wakes the driver, unless it is being polled, to poll the tasks that a task of glommio has woken.
    pub(super) fn wake_driver(&self) {
        if !self.in_turn.get()
            && let Some(driver) = &*self.driver.borrow()
        {
            driver.wake_by_ref();
        }
    }

    /// Sends the queued bytes of dirty connections.
    pub(super) fn flush(&self) {
        self.dirty.flush(|connection| connection.flush());
    }

    /// Publishes the queues to other shards and wakes those that sleep.
    pub(super) fn publish(&self) {
        self.system.hooks.publish(|shard| {
            if self.node.must_wake(shard) {
                self.node.bell(shard).ring();
            }
        });
    }
}
