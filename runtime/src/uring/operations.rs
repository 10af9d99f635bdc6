//! Operations under way, in a slab whose slots own everything that the kernel may touch until the last completion.
//!
//! Invariants: only the completion without the MORE flag frees a slot; the generation in an operation's id keeps a late
//! cancellation from reaching a slot that was reused.

use super::signal::StopSignal;
use super::socket::ListenerState;
use super::stream::Connection;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::os::fd::{FromRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// An operation under way, which says what its completions are for.
#[derive(Clone)]
pub(super) enum Operation {
    /// An operation with one result, for which a future waits.
    Single(Rc<dyn Complete>),
    /// An accept of a listener.
    Accept(Rc<ListenerState>),
    /// Multishot receive.
    Receive(Rc<Connection>),
    /// The send of a connection.
    Send(Rc<Connection>),
    /// The read of the eventfd with which other threads wake this shard.
    Rouse,
    /// The read of the signal descriptor.
    Signal(Rc<StopSignal>),
    /// A close or cancellation, for which nobody waits.
    Silent,
}

impl Operation {
    /// Whether the operation may wait for outside events for ever, so that a stop has to cancel it.
    pub(super) fn is_passive(&self) -> bool {
        match self {
            Operation::Single(single) => single.is_passive(),
            Operation::Accept(_) | Operation::Receive(_) | Operation::Rouse | Operation::Signal(_) => true,
            Operation::Send(_) | Operation::Silent => false,
        }
    }
}

/// The id of an operation under way, which is its `user_data`.
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

/// The number of generations; ids with the top bit set are left for other uses.
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

    /// Returns the operation of a completion and frees its slot, unless `more` completions follow.
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

    /// The number of operations under way.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Selects the operations for which `which` is true.
    pub(super) fn select(&self, which: impl Fn(&Operation) -> bool) -> Vec<OperationId> {
        let slots = self.slots.iter().enumerate();
        slots
            .filter(|(_, slot)| slot.operation.as_ref().is_some_and(&which))
            .map(|(index, slot)| OperationId((slot.generation as u64) << 32 | index as u64))
            .collect()
    }
}

/// What an operation with one result must own while it is under way: buffers, paths, addresses, descriptors.
pub(super) trait Payload: 'static {
    /// Whether the result is a new descriptor, which is closed if nobody takes it.
    const RETURNS_DESCRIPTOR: bool = false;
    /// Whether the operation is passive, see [`Operation::is_passive`].
    const PASSIVE: bool = false;
}

/// An operation with one result, shared by the slab and the waiting future.
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

/// A future that waits for a [`Single`]. Dropping it does not cancel the operation.
pub(super) struct Running<P>(pub(super) Rc<Single<P>>);

/// The result of an operation, with its payload.
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
