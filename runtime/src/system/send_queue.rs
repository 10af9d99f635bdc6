//! The bytes that a connection has to send, in two buffers.
//!
//! 1. Tasks append to `out` during a turn of the loop, and the connection enters the [`DirtyList`] of its shard.
//! 2. The flush at the end of the turn swaps `out` with `sending`, and the backend sends `sending`.
//! 3. While a send is under way `out` gathers what the next one sends.
//! 4. If there is a [`Seal`], the flush hands `out` to it instead, and what it makes of that is sent.
//!
//! Invariants: `sending` does not change while a send is under way, because the kernel may be reading it; a queue that
//! is broken takes no more bytes. How bytes reach the kernel is in each backend's `stream.rs`.

use crate::seal::Seal;
use crate::sync::Waiters;
use std::cell::{Cell, OnceCell, Ref, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The capacity that a buffer keeps at most between turns.
const KEPT_BYTES: usize = 64 << 10;

#[derive(Default)]
pub(crate) struct SendQueue {
    out: RefCell<Vec<u8>>,
    sending: RefCell<Vec<u8>>,
    /// Bytes of `sending` that the system has taken.
    sent: Cell<usize>,
    dirty: Cell<bool>,
    under_way: Cell<bool>,
    seal: OnceCell<Rc<dyn Seal>>,
    /// The seal has something to send beside what is appended.
    nudged: Cell<bool>,
    /// The errno with which sending ended.
    broken: Cell<Option<i32>>,
    drainers: Waiters,
}

impl SendQueue {
    /// Lets `f` append bytes, and calls `mark` if that makes the connection dirty.
    pub(crate) fn write<R>(&self, f: impl FnOnce(&mut Vec<u8>) -> R, mark: impl FnOnce()) -> R {
        let mut out = self.out.borrow_mut();
        let result = f(&mut out);
        if self.broken.get().is_some() {
            out.clear();
        } else if !out.is_empty() && !self.dirty.replace(true) {
            mark();
        }
        result
    }

    /// Calls `mark` if bytes were appended during a send and the connection is not dirty yet.
    pub(crate) fn mark_rest(&self, mark: impl FnOnce()) {
        if (!self.out.borrow().is_empty() || self.nudged.get()) && !self.dirty.replace(true) {
            mark();
        }
    }

    /// Hands what is appended to `seal` at each flush. To be called once, before anything is appended.
    pub(crate) fn seal_with(&self, seal: Rc<dyn Seal>) {
        assert!(self.out.borrow().is_empty(), "nothing is sent before the seal is there");
        let is_first = self.seal.set(seal).is_ok();
        assert!(is_first, "a connection is sealed once");
    }

    /// Has the seal asked at the next flush even if nothing is appended; calls `mark` if that makes the connection
    /// dirty.
    pub(crate) fn nudge(&self, mark: impl FnOnce()) {
        if self.broken.get().is_some() {
            return;
        }
        self.nudged.set(true);
        if !self.dirty.replace(true) {
            mark();
        }
    }

    /// Bytes that the system has not taken. What a seal has to send by itself counts as one until it is asked.
    pub(crate) fn len(&self) -> usize {
        // While a task appends, `out` is borrowed; what it appends is counted by the next call.
        let out = self.out.try_borrow().map_or(0, |out| out.len());
        out + usize::from(self.nudged.get()) + self.sending.borrow().len() - self.sent.get()
    }

    /// Waits until at most `bytes` are queued; fails with the error that ended sending.
    pub(crate) async fn drained_to(&self, bytes: usize) -> io::Result<()> {
        poll_fn(|cx| {
            if let Some(e) = self.broken.get() {
                return Poll::Ready(Err(io::Error::from_raw_os_error(e)));
            }
            if self.len() <= bytes {
                return Poll::Ready(Ok(()));
            }
            self.drainers.add(cx);
            Poll::Pending
        })
        .await
    }

    /// Begins a flush, after which the connection is not dirty; false if a send is under way or sending has ended.
    pub(crate) fn begin_flush(&self) -> bool {
        self.dirty.set(false);
        !self.under_way.get() && self.broken.get().is_none()
    }

    /// Makes the appended bytes those to send, once all before are sent; false if there are none. What the seal leaves
    /// is asked for again after the next write or nudge.
    pub(crate) fn take_appended(&self) -> bool {
        let nudged = self.nudged.take();
        if self.out.borrow().is_empty() && !nudged {
            return false;
        }
        if let Some(seal) = self.seal.get() {
            let (mut out, mut sending) = (self.out.borrow_mut(), self.sending.borrow_mut());
            seal.seal(&mut out, &mut sending);
            if out.is_empty() {
                recycle(&mut out);
            }
            self.sent.set(0);
            return !sending.is_empty();
        }
        std::mem::swap(&mut *self.out.borrow_mut(), &mut *self.sending.borrow_mut());
        self.sent.set(0);
        true
    }

    /// The bytes to send next.
    pub(crate) fn unsent(&self) -> Ref<'_, [u8]> {
        Ref::map(self.sending.borrow(), |sending| &sending[self.sent.get()..])
    }

    /// Notes that the system took this many of the bytes to send, and returns whether that was all of them.
    pub(crate) fn advance(&self, bytes: usize) -> bool {
        let sent = self.sent.get() + bytes;
        self.sent.set(sent);
        sent >= self.sending.borrow().len()
    }

    /// Empties the buffer of sent bytes.
    pub(crate) fn recycle(&self) {
        recycle(&mut self.sending.borrow_mut());
        self.sent.set(0);
    }

    /// Says whether the kernel may be reading the bytes to send.
    pub(crate) fn set_under_way(&self, under_way: bool) {
        self.under_way.set(under_way);
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.get().is_some()
    }

    /// Ends sending with an errno and drops what is queued, except bytes that the kernel may be reading.
    pub(crate) fn break_off(&self, e: i32) {
        if self.broken.get().is_none() {
            self.broken.set(Some(e));
        }
        self.out.borrow_mut().clear();
        self.nudged.set(false);
        if !self.under_way.get() {
            self.recycle();
        }
    }

    /// The tasks in [`SendQueue::drained_to`], which the caller wakes after each send and when sending has ended.
    pub(crate) fn take_drainers(&self) -> Vec<Waker> {
        self.drainers.take()
    }
}

/// Empties a buffer for the next turn; one that has grown large gives its memory back.
fn recycle(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > KEPT_BYTES {
        *buffer = Vec::new();
    }
}

/// The connections of a shard that have bytes to send at the end of this turn.
pub(crate) struct DirtyList<C>(RefCell<Vec<Rc<C>>>);

impl<C> Default for DirtyList<C> {
    fn default() -> DirtyList<C> {
        DirtyList(RefCell::default())
    }
}

impl<C> DirtyList<C> {
    pub(crate) fn push(&self, connection: Rc<C>) {
        self.0.borrow_mut().push(connection);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Empties the list and calls `flush` for each connection that was in it. The list keeps its memory.
    pub(crate) fn flush(&self, flush: impl Fn(Rc<C>)) {
        if self.is_empty() {
            return;
        }
        let mut dirty = std::mem::take(&mut *self.0.borrow_mut());
        dirty.drain(..).for_each(flush);
        let mut now = self.0.borrow_mut();
        if now.is_empty() {
            *now = dirty;
        }
    }
}
