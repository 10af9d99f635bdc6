//! Equal reads that are executed as one.
//!
//! 1. The first of them is executed at once: it leads. Those that come while it is under way wait, in one batch.
//! 2. When it has ended, one of the batch leads: it executes the read for all of them. Those that come from then on are
//!    the next batch.
//! 3. A leader that goes away without an answer, because its client has or its time is over, leaves its batch to
//!    another of it.
//! 4. Whoever has waited too long for its batch to begin may lead it, beside the read that is late.
//!
//! Invariants: a read gets only answers of reads that began after it had come, so it sees every write that had been
//! acknowledged by then; while anybody waits, somebody leads or has been asked to; a batch has at most [`WAITERS_MAX`]
//! waiters.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Most reads that wait for one that is executed for all of them.
pub(crate) const WAITERS_MAX: usize = 1024;

/// Reads that are equal, of which one at a time is executed. `T`: what each of them gets.
pub(crate) struct JoinedReads<T> {
    state: RefCell<State<T>>,
}

struct State<T> {
    /// Reads under way, and waiters that have been asked to lead.
    leads: usize,
    /// Those that wait for a read that has not begun.
    next: Option<Rc<Batch<T>>>,
}

struct Batch<T> {
    places: RefCell<Vec<Place>>,
    /// The place of the waiter that has been asked to lead.
    offered: Cell<Option<usize>>,
    /// Whether one of them executes the read.
    is_led: Cell<bool>,
    outcome: RefCell<Option<Outcome<T>>>,
}

/// A waiter, as its batch sees it.
enum Place {
    /// It was not polled yet.
    New,
    Parked(Waker),
    /// It has gone, or has got what it waited for.
    Gone,
}

/// What the waiters of a batch get.
#[derive(Clone)]
pub(crate) enum Outcome<T> {
    /// The answer.
    Shared(T),
    /// Nothing: it is too large to be shared. Each has to read by itself.
    Unshared,
}

/// What a read has to do that has come.
pub(crate) enum Entered<T> {
    /// It is executed at once.
    Leads(Lead<T>),
    /// It waits.
    Waits(Waiter<T>),
    /// It is executed by itself: too many wait already.
    Alone,
}

/// What a waiter has waited for.
pub(crate) enum Turn<T> {
    /// Another read's outcome.
    Ended(Outcome<T>),
    /// To execute the read for all that wait.
    Leads(Lead<T>),
}

/// The right to execute the read. When this is dropped, those that wait go on.
pub(crate) struct Lead<T> {
    reads: Rc<JoinedReads<T>>,
    /// Those for which it is executed, beside the leader.
    batch: Option<Rc<Batch<T>>>,
}

/// A read that waits; a future of its turn.
pub(crate) struct Waiter<T> {
    reads: Rc<JoinedReads<T>>,
    batch: Rc<Batch<T>>,
    place: usize,
}

impl<T: Clone> JoinedReads<T> {
    pub(crate) fn new() -> JoinedReads<T> {
        JoinedReads { state: RefCell::new(State { leads: 0, next: None }) }
    }

    /// Whether nobody reads or waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.state.borrow().leads == 0
    }

    /// Takes a read that has just come.
    pub(crate) fn enter(self: &Rc<Self>) -> Entered<T> {
        let mut state = self.state.borrow_mut();
        if state.leads == 0 {
            state.leads = 1;
            return Entered::Leads(Lead { reads: self.clone(), batch: None });
        }
        let batch = state.next.get_or_insert_with(|| Rc::new(Batch::new())).clone();
        let place = {
            let mut places = batch.places.borrow_mut();
            if places.len() >= WAITERS_MAX {
                return Entered::Alone;
            }
            places.push(Place::New);
            places.len() - 1
        };
        Entered::Waits(Waiter { reads: self.clone(), batch, place })
    }
}

impl<T> JoinedReads<T> {
    /// Gives the right to lead, which somebody had, to the batch that waits; to nobody if there is none.
    fn pass_on(&self) {
        let next = self.state.borrow().next.clone();
        // If a waiter of it has been asked already, it has been so by another leader.
        if let Some(batch) = next.filter(|batch| batch.offered.get().is_none()) {
            if batch.offer() {
                return;
            }
            self.forget(&batch);
        }
        self.state.borrow_mut().leads -= 1;
    }

    /// Those that come from now on do not belong to a batch.
    fn forget(&self, batch: &Rc<Batch<T>>) {
        let mut state = self.state.borrow_mut();
        state.next.take_if(|next| Rc::ptr_eq(next, batch));
    }
}

impl<T> Batch<T> {
    fn new() -> Batch<T> {
        Batch {
            places: RefCell::default(),
            offered: Cell::new(None),
            is_led: Cell::new(false),
            outcome: RefCell::new(None),
        }
    }

    /// Asks the first that still waits to lead. Returns false if nobody does.
    fn offer(&self) -> bool {
        let mut places = self.places.borrow_mut();
        let Some(at) = places.iter().position(|place| !matches!(place, Place::Gone)) else { return false };
        self.offered.set(Some(at));
        let place = std::mem::replace(&mut places[at], Place::New);
        drop(places);
        if let Place::Parked(waker) = place {
            waker.wake();
        }
        true
    }

    fn wake_all(&self) {
        let places = std::mem::take(&mut *self.places.borrow_mut());
        for place in places {
            if let Place::Parked(waker) = place {
                waker.wake();
            }
        }
    }

    fn leave(&self, place: usize) {
        // After the end there are no places.
        if let Some(place) = self.places.borrow_mut().get_mut(place) {
            *place = Place::Gone;
        }
    }
}

impl<T> Lead<T> {
    /// Ends the read: whoever waits for it gets what `outcome` returns, which is not called if nobody does.
    pub(crate) fn end(mut self, outcome: impl FnOnce() -> Outcome<T>) {
        let Some(batch) = self.batch.take() else { return };
        let is_awaited = batch.places.borrow().iter().any(|place| !matches!(place, Place::Gone));
        if is_awaited {
            batch.outcome.replace(Some(outcome()));
            batch.wake_all();
        }
    }
}

impl<T> Drop for Lead<T> {
    fn drop(&mut self) {
        if let Some(batch) = self.batch.take() {
            batch.is_led.set(false);
            if batch.offer() {
                return;
            }
        }
        self.reads.pass_on();
    }
}

impl<T> Waiter<T> {
    /// Leads the batch at once, although the read before it is still under way; `None` if somebody leads it, or has
    /// been asked to.
    pub(crate) fn lead_now(&mut self) -> Option<Lead<T>> {
        let batch = &self.batch;
        if batch.is_led.get() || batch.offered.get().is_some() || batch.outcome.borrow().is_some() {
            return None;
        }
        self.reads.state.borrow_mut().leads += 1;
        Some(self.lead())
    }

    fn lead(&self) -> Lead<T> {
        self.batch.leave(self.place);
        self.batch.is_led.set(true);
        self.reads.forget(&self.batch);
        Lead { reads: self.reads.clone(), batch: Some(self.batch.clone()) }
    }
}

impl<T: Clone> Future for Waiter<T> {
    type Output = Turn<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Turn<T>> {
        let batch = &self.batch;
        if let Some(outcome) = &*batch.outcome.borrow() {
            return Poll::Ready(Turn::Ended(outcome.clone()));
        }
        if batch.offered.get() == Some(self.place) {
            batch.offered.set(None);
            return Poll::Ready(Turn::Leads(self.lead()));
        }
        if let Some(place) = batch.places.borrow_mut().get_mut(self.place) {
            match place {
                Place::Parked(waker) => waker.clone_from(cx.waker()),
                place => *place = Place::Parked(cx.waker().clone()),
            }
        }
        Poll::Pending
    }
}

impl<T> Drop for Waiter<T> {
    fn drop(&mut self) {
        let batch = &self.batch;
        batch.leave(self.place);
        if batch.offered.get() != Some(self.place) {
            return;
        }
        batch.offered.set(None);
        if !batch.offer() {
            self.reads.forget(batch);
            self.reads.pass_on();
        }
    }
}

#[cfg(test)]
#[path = "joined_tests.rs"]
mod tests;
