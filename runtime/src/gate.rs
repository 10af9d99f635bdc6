//! A gate, which lets a stop wait for work under way, and a weighted semaphore for admission.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Counts work under way, so that a stop can wait for it. Cloning shares the gate.
#[derive(Clone, Default)]
pub struct Gate(Rc<GateState>);

#[derive(Default)]
struct GateState {
    passes: Cell<usize>,
    closed: Cell<bool>,
    waiters: RefCell<Vec<Waker>>,
}

impl Gate {
    /// Creates an open gate.
    pub fn new() -> Gate {
        Gate::default()
    }

    /// Returns a pass, which counts as work under way until it is dropped; `None` once the gate is closed.
    pub fn enter(&self) -> Option<Pass> {
        if self.0.closed.get() {
            return None;
        }
        self.0.passes.set(self.0.passes.get() + 1);
        Some(Pass(self.0.clone()))
    }

    /// The number of passes that have not been dropped.
    pub fn passes(&self) -> usize {
        self.0.passes.get()
    }

    /// Closes the gate without waiting for passes.
    pub fn shut(&self) {
        self.0.closed.set(true);
    }

    /// Whether the gate is closed.
    pub fn is_closed(&self) -> bool {
        self.0.closed.get()
    }

    /// Closes the gate and waits until every pass is dropped.
    pub async fn close(&self) {
        self.shut();
        std::future::poll_fn(|cx| {
            if self.0.passes.get() == 0 {
                return Poll::Ready(());
            }
            self.0.waiters.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Permission to work that a [`Gate`] gave, until dropped.
pub struct Pass(Rc<GateState>);

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.passes.set(self.0.passes.get() - 1);
        if self.0.passes.get() == 0 && self.0.closed.get() {
            let waiters = std::mem::take(&mut *self.0.waiters.borrow_mut());
            waiters.into_iter().for_each(Waker::wake);
        }
    }
}

/// A weighted semaphore, first come first served. Cloning shares it.
#[derive(Clone)]
pub struct Semaphore(Rc<SemaphoreState>);

struct SemaphoreState {
    free: Cell<u64>,
    queue: RefCell<VecDeque<Rc<Waiter>>>,
}

struct Waiter {
    units: u64,
    granted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Semaphore {
    /// Creates a semaphore of `units`.
    pub fn new(units: u64) -> Semaphore {
        Semaphore(Rc::new(SemaphoreState { free: Cell::new(units), queue: RefCell::default() }))
    }

    /// The units that are free.
    pub fn free(&self) -> u64 {
        self.0.free.get()
    }

    /// The number of tasks that wait in line.
    pub fn waiting(&self) -> usize {
        self.0.queue.borrow().len()
    }

    /// Takes `units` without waiting; `None` if fewer are free or if others wait.
    pub fn try_acquire(&self, units: u64) -> Option<Permit> {
        if !self.0.queue.borrow().is_empty() || self.0.free.get() < units {
            return None;
        }
        self.0.free.set(self.0.free.get() - units);
        Some(Permit { state: self.0.clone(), units })
    }

    /// Takes `units`, waiting in line. Never returns if the semaphore has fewer units in all: callers check first.
    pub async fn acquire(&self, units: u64) -> Permit {
        if let Some(permit) = self.try_acquire(units) {
            return permit;
        }
        let waiter = Rc::new(Waiter { units, granted: Cell::new(false), waker: RefCell::default() });
        self.0.queue.borrow_mut().push_back(waiter.clone());
        let mut queued = Queued { state: self.0.clone(), waiter, done: false };
        std::future::poll_fn(|cx| {
            if queued.waiter.granted.get() {
                return Poll::Ready(());
            }
            *queued.waiter.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        queued.done = true;
        Permit { state: self.0.clone(), units }
    }
}

/// A place in the line of a [`Semaphore`]. If the waiting future is dropped, it leaves the line, or releases the units
/// that it was granted meanwhile.
struct Queued {
    state: Rc<SemaphoreState>,
    waiter: Rc<Waiter>,
    done: bool,
}

impl Drop for Queued {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        if self.waiter.granted.get() {
            self.state.release(self.waiter.units);
        } else {
            self.state.queue.borrow_mut().retain(|other| !Rc::ptr_eq(other, &self.waiter));
            self.state.release(0);
        }
    }
}

impl SemaphoreState {
    fn release(&self, units: u64) {
        self.free.set(self.free.get() + units);
        loop {
            let next = {
                let mut queue = self.queue.borrow_mut();
                match queue.front() {
                    Some(first) if first.units <= self.free.get() => queue.pop_front(),
                    _ => None,
                }
            };
            let Some(next) = next else { return };
            self.free.set(self.free.get() - next.units);
            next.granted.set(true);
            let waker = next.waker.borrow_mut().take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// Units of a [`Semaphore`], released on drop.
pub struct Permit {
    state: Rc<SemaphoreState>,
    units: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.state.release(self.units);
    }
}
