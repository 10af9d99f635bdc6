//! Waiting for a change of state within one shard.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Wakes every task that waits for a condition, which each then checks again.
#[derive(Default)]
pub(crate) struct Signal {
    waiters: RefCell<Vec<Waker>>,
}

impl Signal {
    /// Waits until `ready` gives a value; asked at once and after every [`Signal::notify`].
    pub(crate) async fn wait<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        poll_fn(|cx| match ready() {
            Some(value) => Poll::Ready(value),
            None => {
                let mut waiters = self.waiters.borrow_mut();
                if !waiters.iter().any(|waiter| waiter.will_wake(cx.waker())) {
                    waiters.push(cx.waker().clone());
                }
                Poll::Pending
            }
        })
        .await
    }

    /// Asks all waiters to check their condition.
    pub(crate) fn notify(&self) {
        let waiters = std::mem::take(&mut *self.waiters.borrow_mut());
        waiters.into_iter().for_each(Waker::wake);
    }
}
