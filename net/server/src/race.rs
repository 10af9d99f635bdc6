//! Waiting for the first of two futures, and a signal that many tasks can wait for.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The first of two results; the left one when both are there. The other future is dropped.
pub(crate) enum Either<A, B> {
    Left(A),
    Right(B),
}

/// Waits for the first of two futures.
pub(crate) async fn race<A: Future, B: Future>(left: A, right: B) -> Either<A::Output, B::Output> {
    let mut left = pin!(left);
    let mut right = pin!(right);
    std::future::poll_fn(|cx| {
        if let Poll::Ready(value) = left.as_mut().poll(cx) {
            return Poll::Ready(Either::Left(value));
        }
        right.as_mut().poll(cx).map(Either::Right)
    })
    .await
}

/// Set once, seen by all. Cloning shares it.
#[derive(Clone, Default)]
pub(crate) struct Signal(Rc<SignalState>);

#[derive(Default)]
struct SignalState {
    set: Cell<bool>,
    waiters: RefCell<Vec<Waker>>,
}

impl Signal {
    /// Wakes all that wait, now and later.
    pub(crate) fn set(&self) {
        self.0.set.set(true);
        let waiters = std::mem::take(&mut *self.0.waiters.borrow_mut());
        waiters.into_iter().for_each(Waker::wake);
    }

    /// Whether it is set.
    pub(crate) fn is_set(&self) -> bool {
        self.0.set.get()
    }

    /// Completes once it is set.
    pub(crate) async fn wait(&self) {
        std::future::poll_fn(|cx| {
            if self.is_set() {
                return Poll::Ready(());
            }
            let mut waiters = self.0.waiters.borrow_mut();
            if !waiters.iter().any(|waiter| waiter.will_wake(cx.waker())) {
                waiters.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}
