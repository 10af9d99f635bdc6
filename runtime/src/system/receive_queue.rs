//! Received pieces of a connection that wait for its task, and how receiving ended.
//!
//! Invariants: one task at a time waits for the next piece; after the end no more pieces are accepted, but those that
//! arrived before it are still delivered. How pieces arrive, and how many may wait, is in each backend's `stream.rs`.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::task::{Poll, Waker};

pub(crate) struct ReceiveQueue<P> {
    pieces: RefCell<VecDeque<P>>,
    /// How receiving ended: 0 at the end of the stream, or an errno.
    end: Cell<Option<i32>>,
    paused: Cell<bool>,
    /// Whether the stream was dropped.
    closed: Cell<bool>,
    reader: RefCell<Option<Waker>>,
}

impl<P> Default for ReceiveQueue<P> {
    fn default() -> ReceiveQueue<P> {
        ReceiveQueue {
            pieces: RefCell::default(),
            end: Cell::new(None),
            paused: Cell::new(false),
            closed: Cell::new(false),
            reader: RefCell::default(),
        }
    }
}

impl<P> ReceiveQueue<P> {
    /// Waits for the next piece, which `take` removes from the queue; `None` at the end of the stream.
    pub(crate) async fn next(&self, take: impl Fn() -> Option<P>) -> io::Result<Option<P>> {
        poll_fn(|cx| {
            if let Some(piece) = take() {
                return Poll::Ready(Ok(Some(piece)));
            }
            match self.end.get() {
                Some(0) => Poll::Ready(Ok(None)),
                Some(e) => Poll::Ready(Err(io::Error::from_raw_os_error(e))),
                None => {
                    *self.reader.borrow_mut() = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    pub(crate) fn push(&self, piece: P) {
        self.pieces.borrow_mut().push_back(piece);
    }

    pub(crate) fn pop(&self) -> Option<P> {
        self.pieces.borrow_mut().pop_front()
    }

    /// Pieces that wait.
    pub(crate) fn len(&self) -> usize {
        self.pieces.borrow().len()
    }

    pub(crate) fn set_paused(&self, paused: bool) {
        self.paused.set(paused);
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused.get()
    }

    /// The stream was dropped: nobody wants more pieces.
    pub(crate) fn close(&self) {
        self.closed.set(true);
    }

    /// Whether a piece that arrives would be wanted, though perhaps not at once.
    pub(crate) fn is_open(&self) -> bool {
        !self.closed.get() && self.end.get().is_none()
    }

    /// Ends receiving, with 0 or an errno; false if it has ended before.
    pub(crate) fn end(&self, e: i32) -> bool {
        let first = self.end.get().is_none();
        if first {
            self.end.set(Some(e));
        }
        first
    }

    /// The task that waits for a piece, which the caller wakes after [`ReceiveQueue::push`] and [`ReceiveQueue::end`].
    pub(crate) fn take_reader(&self) -> Option<Waker> {
        self.reader.borrow_mut().take()
    }
}
