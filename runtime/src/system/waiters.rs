//! The tasks that wait for something of their shard.

use std::cell::RefCell;
use std::task::{Context, Waker};

/// Wakers, one per task.
#[derive(Default, Debug)]
pub(crate) struct Waiters(RefCell<Vec<Waker>>);

impl Waiters {
    /// Lets the task that is polled wait, once.
    pub(crate) fn add(&self, cx: &Context<'_>) {
        let mut wakers = self.0.borrow_mut();
        if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            wakers.push(cx.waker().clone());
        }
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Those who wait, and wait no more.
    pub(crate) fn take(&self) -> Vec<Waker> {
        std::mem::take(&mut *self.0.borrow_mut())
    }
}
