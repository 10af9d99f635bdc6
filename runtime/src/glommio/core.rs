//! What a shard of this backend has, and what its tasks reach through the ambient context.

use super::Reactor;
use super::bell::DriverBell;
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
    pub(super) node: Arc<Node<DriverBell>>,
    pub(super) shard: ShardId,
    pub(super) signal: StopSignal,
    /// The driver, and whether it is being polled.
    driver: RefCell<Option<Waker>>,
    pub(super) in_turn: Cell<bool>,
    pub(super) dirty: DirtyList<Connection>,
    /// Connections that wait for the peer to take what they send, by number.
    pub(super) senders: RefCell<BTreeMap<u64, Rc<Connection>>>,
    pub(super) next_sender: Cell<u64>,
    /// Where all connections receive before the bytes are copied.
    pub(super) scratch: RefCell<Box<[u8]>>,
    /// Devices of which glommio knows how to wait for them, see `disk.rs`.
    pub(super) probed: RefCell<BTreeSet<u64>>,
    /// Bytes received that no task has taken.
    pub(super) unread_bytes: Cell<usize>,
    /// Tasks of glommio that have not ended.
    pub(super) under_way: Cell<usize>,
    /// Set when nothing may be started any more.
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

    /// What is set when a stop signal arrives.
    pub(crate) fn terminated(&self) -> Latch {
        self.core.signal.listen(&self.core)
    }
}

impl Core {
    pub(super) fn new(node: Arc<Node<DriverBell>>, shard: ShardId) -> io::Result<Rc<Core>> {
        Ok(Rc::new(Core {
            system: Shard::new(node.helpers.clone())?,
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

    /// Makes `driver` the one that other tasks and threads rouse.
    pub(super) fn set_driver(&self, driver: Option<Waker>) {
        self.node.bell(self.shard).hang(driver.clone());
        *self.driver.borrow_mut() = driver;
    }

    /// Wakes tasks of the shard, and the driver to poll them. From tasks of glommio.
    pub(super) fn wake(&self, wakers: impl IntoIterator<Item = Waker>) {
        wakers.into_iter().for_each(Waker::wake);
        self.wake_driver();
    }

    /// Has the driver poll the tasks that a task of glommio has woken. In a turn it is at that already.
    pub(super) fn wake_driver(&self) {
        if !self.in_turn.get()
            && let Some(driver) = &*self.driver.borrow()
        {
            driver.wake_by_ref();
        }
    }

    /// Sends what is queued on dirty connections.
    pub(super) fn flush(&self) {
        self.dirty.flush(|connection| connection.flush());
    }

    /// Shows the other shards what was queued for them and wakes those that sleep.
    pub(super) fn publish(&self) {
        self.system.hooks.publish(|shard| {
            if self.node.must_wake(shard) {
                self.node.bell(shard).ring();
            }
        });
    }
}
