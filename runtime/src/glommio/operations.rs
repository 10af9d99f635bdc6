//! Operations under way: tasks of glommio that end when the kernel has done what they asked for.
//!
//! Invariants: an operation goes on if the waiting future is dropped; `Core::under_way` counts the operations.

use super::core::Core;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Counts one operation as under way until it is dropped.
pub(super) struct UnderWay(Rc<Core>);

impl UnderWay {
    pub(super) fn new(core: &Rc<Core>) -> UnderWay {
        core.under_way.set(core.under_way.get() + 1);
        UnderWay(core.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.set(self.0.under_way.get() - 1);
    }
}

struct State<T> {
    value: RefCell<Option<T>>,
    waiter: RefCell<Option<Waker>>,
}

/// A future that waits for an operation. Dropping it does not cancel the operation, unless [`Core::start_cancellable`]
/// started it.
pub(super) struct Running<T> {
    state: Rc<State<T>>,
    _task: Option<::glommio::Task<()>>,
}

impl Core {
    /// Starts an operation that runs to its end.
    pub(super) fn start<T: 'static>(self: &Rc<Core>, operation: impl Future<Output = T> + 'static) -> Running<T> {
        let (state, task) = self.task(operation);
        drop(task.detach());
        Running { state, _task: None }
    }

    /// Starts an operation that is cancelled if the waiting future is dropped.
    pub(super) fn start_cancellable<T: 'static>(
        self: &Rc<Core>,
        operation: impl Future<Output = T> + 'static,
    ) -> Running<T> {
        let (state, task) = self.task(operation);
        Running { state, _task: Some(task) }
    }

    fn task<T: 'static>(
        self: &Rc<Core>,
        operation: impl Future<Output = T> + 'static,
    ) -> (Rc<State<T>>, ::glommio::Task<()>) {
        let state = Rc::new(State { value: RefCell::new(None), waiter: RefCell::new(None) });
        let (shared, core, under_way) = (state.clone(), self.clone(), UnderWay::new(self));
        let task = ::glommio::spawn_local(async move {
            let value = operation.await;
            *shared.value.borrow_mut() = Some(value);
            core.wake(shared.waiter.borrow_mut().take());
            drop(under_way);
        });
        (state, task)
    }
}

impl<T> Future for Running<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match self.state.value.borrow_mut().take() {
            Some(value) => Poll::Ready(value),
            None => {
                *self.state.waiter.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
