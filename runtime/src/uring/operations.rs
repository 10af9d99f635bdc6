//! Operations under way: a slab whose slots own everything the kernel may touch until the last completion.
//!
//! Invariants: a slot is freed by the completion without the MORE flag and by nothing else; the generation in an
//! operation's word makes a late cancel of a freed slot find nothing.

use super::signal::StopSignal;
use super::socket::ListenerState;
use super::stream::Connection;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::os::fd::{FromRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// What to do with a completion.
#[derive(Clone)]
pub(super) enum Operation {
    /// One result for one future.
    Single(Rc<dyn Complete>),
    /// Multishot accept.
    Accept(Rc<ListenerState>),
    /// Multishot receive.
    Receive(Rc<Connection>),
    /// The one send of a connection that is under way.
    Send(Rc<Connection>),
    /// The read of the event descriptor by which other threads rouse this shard.
    Rouse,
    /// The read of the signal descriptor.
    Signal(Rc<StopSignal>),
    /// Nobody waits: close, cancel.
    Silent,
}

impl Operation {
    /// Whether the operation ends only when something outside happens, so that a stop has to cancel it.
    pub(super) fn is_passive(&self) -> bool {
        match self {
            Operation::Single(single) => single.is_passive(),
            Operation::Accept(_) | Operation::Receive(_) | Operation::Rouse | Operation::Signal(_) => true,
            Operation::Send(_) | Operation::Silent => false,
        }
    }
}

/// Names an operation under way; also its `user_data`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OperationId(pub(super) u64);

#[derive(Default)]
pub(super) struct Operations {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    generation: u32,
    operation: Option<Operation>,
}

/// Generations stay below this, so that words with the top bit set are free for other uses.
const GENERATIONS: u32 = 1 << 31;

impl Operations {
    pub(super) fn insert(&mut self, operation: Operation) -> OperationId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, operation: None });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.operation = Some(operation);
        OperationId((slot.generation as u64) << 32 | index as u64)
    }

    /// The operation of a completion; its slot is free afterwards unless `more` follow.
    pub(super) fn complete(&mut self, id: OperationId, more: bool) -> Option<Operation> {
        let index = id.0 as u32;
        let slot = self.slots.get_mut(index as usize).filter(|slot| slot.generation == (id.0 >> 32) as u32)?;
        if more {
            return slot.operation.clone();
        }
        slot.generation = (slot.generation + 1) % GENERATIONS;
        self.free.push(index);
        slot.operation.take()
    }

    /// How many operations are under way.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The operations under way for which `which` is true.
    pub(super) fn select(&self, which: impl Fn(&Operation) -> bool) -> Vec<OperationId> {
        let slots = self.slots.iter().enumerate();
        slots
            .filter(|(_, slot)| slot.operation.as_ref().is_some_and(&which))
            .map(|(index, slot)| OperationId((slot.generation as u64) << 32 | index as u64))
            .collect()
    }
}

/// What an operation with one result needs while it is under way: buffers, paths, addresses, open descriptors.
pub(super) trait Payload: 'static {
    /// The result is a new descriptor: it is closed if nobody takes it.
    const RETURNS_DESCRIPTOR: bool = false;
    /// See [`Operation::is_passive`].
    const PASSIVE: bool = false;
}

/// An operation with one result, shared by the slab and the future that waits.
pub(super) struct Single<P> {
    result: Cell<Option<i32>>,
    descriptor: Cell<Option<OwnedFd>>,
    waker: RefCell<Option<Waker>>,
    pub(super) payload: RefCell<Option<P>>,
}

pub(super) trait Complete {
    fn complete(&self, result: i32);
    fn is_passive(&self) -> bool;
}

impl<P: Payload> Single<P> {
    pub(super) fn new(payload: P) -> Rc<Single<P>> {
        Rc::new(Single {
            result: Cell::new(None),
            descriptor: Cell::new(None),
            waker: RefCell::new(None),
            payload: RefCell::new(Some(payload)),
        })
    }
}

impl<P: Payload> Complete for Single<P> {
    #[expect(unsafe_code, reason = "a descriptor arrives as a number")]
    fn complete(&self, result: i32) {
        if P::RETURNS_DESCRIPTOR && result >= 0 {
            // SAFETY: the kernel just made this descriptor for this operation, and nobody else has the number.
            self.descriptor.set(Some(unsafe { OwnedFd::from_raw_fd(result) }));
        }
        self.result.set(Some(result));
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn is_passive(&self) -> bool {
        P::PASSIVE
    }
}

/// Waits for a [`Single`]. Dropping it leaves the operation under way.
pub(super) struct Running<P>(pub(super) Rc<Single<P>>);

/// How an operation ended.
pub(super) struct Done<P> {
    pub(super) result: i32,
    pub(super) descriptor: Option<OwnedFd>,
    pub(super) payload: P,
}

impl<P> Future for Running<P> {
    type Output = Done<P>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Done<P>> {
        let Some(result) = self.0.result.get() else {
            *self.0.waker.borrow_mut() = Some(cx.waker().clone());
            return Poll::Pending;
        };
        let payload = self.0.payload.borrow_mut().take().expect("polled once after completion");
        Poll::Ready(Done { result, descriptor: self.0.descriptor.take(), payload })
    }
}
