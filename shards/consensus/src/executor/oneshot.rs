//! A value that is sent once, on one shard.

use openraft::rt::{Oneshot, OneshotSender, OptionalSend};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The family of such channels.
#[derive(Debug)]
pub(crate) struct Oneshots;

impl Oneshot for Oneshots {
    type Sender<T: OptionalSend> = Sender<T>;
    type Receiver<T: OptionalSend> = Receiver<T>;
    type ReceiverError = SenderGone;

    fn channel<T: OptionalSend>() -> (Sender<T>, Receiver<T>) {
        let slot = Rc::new(Slot { value: RefCell::new(None), waiter: RefCell::new(None), closed: Cell::new(false) });
        (Sender(slot.clone()), Receiver(slot))
    }
}

struct Slot<T> {
    value: RefCell<Option<T>>,
    waiter: RefCell<Option<Waker>>,
    /// Whether either end is gone.
    closed: Cell<bool>,
}

impl<T> Slot<T> {
    fn wake(&self) {
        let waiter = self.waiter.borrow_mut().take();
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }
}

/// The sending end.
pub(crate) struct Sender<T>(Rc<Slot<T>>);

impl<T: OptionalSend> OneshotSender<T> for Sender<T> {
    fn send(self, value: T) -> Result<(), T> {
        if self.0.closed.get() {
            return Err(value);
        }
        *self.0.value.borrow_mut() = Some(value);
        Ok(())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.closed.set(true);
        self.0.wake();
    }
}

/// The receiving end: a future of the value.
pub(crate) struct Receiver<T>(Rc<Slot<T>>);

impl<T> Future for Receiver<T> {
    type Output = Result<T, SenderGone>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(value) = self.0.value.borrow_mut().take() {
            return Poll::Ready(Ok(value));
        }
        if self.0.closed.get() {
            return Poll::Ready(Err(SenderGone));
        }
        *self.0.waiter.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.closed.set(true);
        // Dropping the value may use the channel's neighbours.
        let value = self.0.value.borrow_mut().take();
        drop(value);
    }
}

/// The error of a receiver whose sender went without sending.
#[derive(Debug)]
pub(crate) struct SenderGone;

impl fmt::Display for SenderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the sender is gone")
    }
}

impl std::error::Error for SenderGone {}
