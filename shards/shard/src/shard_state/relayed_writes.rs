//! Answers that this core awaits from nodes to which another one has passed a mutation on.
//!
//! 1. A write takes a number for each such node. Its first 16 bits are this core, so that the answer finds it whatever
//!    core it comes to.
//! 2. The answer completes it; at its deadline it ends without one. An answer that comes later is nobody's.
//!
//! Numbers begin at random, so that answers to what the node has asked before it was restarted are nobody's either.
//!
//! Invariants: at most [`RELAYED_WRITES_MAX`] are awaited.

use crate::ports::PeerFailure;
use runtime::time::Sleep;
use runtime::{Instant, ShardId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Most answers that a core awaits; what goes beyond that is sent to each node by itself.
pub(crate) const RELAYED_WRITES_MAX: usize = 1 << 15;
/// Bits of a number that do not name the core.
const CORE_SHIFT: u32 = 48;

/// The answers that a core awaits. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct RelayedWrites(Rc<Awaited>);

#[derive(Default)]
struct Awaited {
    /// The last number that was given.
    last: Cell<Option<u64>>,
    answers: RefCell<BTreeMap<u64, State>>,
}

enum State {
    Waiting(Option<Waker>),
    Answered(Vec<u8>),
}

/// An answer that is awaited until a deadline.
pub(crate) struct RelayedAnswer {
    awaited: Rc<Awaited>,
    number: u64,
    expiry: Sleep,
}

impl RelayedWrites {
    /// Begins to await an answer on the core `here`; `None` if too many are.
    pub(crate) fn begin(&self, here: ShardId, deadline: Instant) -> Option<RelayedAnswer> {
        let mut answers = self.0.answers.borrow_mut();
        if answers.len() >= RELAYED_WRITES_MAX {
            return None;
        }
        let last = self.0.last.get().unwrap_or_else(runtime::rng::u64).wrapping_add(1);
        self.0.last.set(Some(last));
        let number = u64::from(here.0) << CORE_SHIFT | last & ((1 << CORE_SHIFT) - 1);
        answers.insert(number, State::Waiting(None));
        Some(RelayedAnswer { awaited: self.0.clone(), number, expiry: runtime::sleep_until(deadline) })
    }

    /// Takes an answer.
    pub(crate) fn complete(&self, number: u64, answer: Vec<u8>) {
        let mut answers = self.0.answers.borrow_mut();
        let Some(state) = answers.get_mut(&number) else { return };
        if let State::Waiting(Some(waker)) = std::mem::replace(state, State::Answered(answer)) {
            waker.wake();
        }
    }
}

/// The core that awaits the answer with a number.
pub(crate) fn core_of(number: u64) -> ShardId {
    ShardId((number >> CORE_SHIFT) as u16)
}

impl RelayedAnswer {
    /// Its number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Future for RelayedAnswer {
    type Output = Result<Vec<u8>, PeerFailure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        {
            let mut answers = self.awaited.answers.borrow_mut();
            if let Some(state) = answers.get_mut(&self.number) {
                match state {
                    State::Answered(answer) => return Poll::Ready(Ok(std::mem::take(answer))),
                    State::Waiting(waker) => *waker = Some(context.waker().clone()),
                }
            }
        }
        Pin::new(&mut self.expiry).poll(context).map(|()| Err(PeerFailure::NoAnswer))
    }
}

impl Drop for RelayedAnswer {
    fn drop(&mut self) {
        self.awaited.answers.borrow_mut().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::mesh::NodeId;
    use runtime::sim::{Options, Sim};
    use std::time::Duration;

    #[test]
    fn answers_find_who_awaits_them_until_the_deadline() {
        let mut sim = Sim::new(1, Options::default());
        let done = Rc::new(Cell::new(false));
        let is_done = done.clone();
        sim.start_node(NodeId(1), 1, move |_| {
            let is_done = is_done.clone();
            async move {
                let writes = RelayedWrites::default();
                let deadline = runtime::now().after(Duration::from_millis(10));
                let begin = || writes.begin(ShardId(3), deadline).expect("room");
                let (one, other, gone) = (begin(), begin(), begin());
                assert_eq!([&one, &other].map(|answer| core_of(answer.number())), [ShardId(3); 2]);
                let late = gone.number();
                drop(gone);
                writes.complete(late, vec![9]);
                writes.complete(other.number(), vec![7]);
                writes.complete(99, vec![8]);
                assert_eq!(other.await, Ok(vec![7]));
                assert_eq!(one.await, Err(PeerFailure::NoAnswer));
                let all: Vec<RelayedAnswer> = (0..RELAYED_WRITES_MAX).map(|_| begin()).collect();
                assert!(writes.begin(ShardId(3), deadline).is_none(), "one too many");
                drop(all);
                assert!(writes.begin(ShardId(3), deadline).is_some(), "room again");
                is_done.set(true);
            }
        });
        sim.run_until(Duration::from_secs(1), || done.get());
        assert!(done.get());
    }
}
