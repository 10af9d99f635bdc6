//! Calls of one core that wait for their answers.
//!
//! 1. A call takes a slot; the slot's number and generation are the number of the call in frames.
//! 2. An answer completes the slot that it names. An answer that comes after its caller gave up finds another
//!    generation and is nobody's.
//! 3. The end of a connection completes the calls that were sent on it.
//!
//! Invariants: at most [`CALLS_MAX`] calls wait; a call is completed once.

use crate::error::CallError;
use runtime::Instant;
use runtime::time::{Sleep, sleep_until};
use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The most calls of a core that wait for answers; one more is [`CallError::Overloaded`].
pub const CALLS_MAX: usize = 1 << 16;

/// The number in frames that answer no call.
pub(crate) const NO_CALL: u64 = u64::MAX;

/// The result of a call: the body of its reply.
pub(crate) type Answer = Result<Vec<u8>, CallError>;

/// The table of slots.
#[derive(Default, Debug)]
pub(crate) struct Calls(RefCell<Table>);

#[derive(Default, Debug)]
struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    /// The number of the connection that the request went to; 0 while it waits for one.
    connection: u64,
    state: SlotState,
}

#[derive(Debug)]
enum SlotState {
    Free,
    Waiting(Option<Waker>),
    Answered(Answer),
}

impl Calls {
    /// Takes a slot; `None` if too many calls wait.
    pub(crate) fn register(self: &Rc<Calls>) -> Option<Waiting> {
        let mut table = self.0.borrow_mut();
        let index = match table.free.pop() {
            Some(index) => index,
            None if table.slots.len() == CALLS_MAX => return None,
            None => {
                table.slots.push(Slot { generation: 0, connection: 0, state: SlotState::Free });
                (table.slots.len() - 1) as u32
            }
        };
        let slot = &mut table.slots[index as usize];
        slot.state = SlotState::Waiting(None);
        slot.connection = 0;
        Some(Waiting { calls: self.clone(), id: u64::from(slot.generation) << 32 | u64::from(index) })
    }

    /// Calls that wait.
    pub(crate) fn waiting(&self) -> usize {
        let table = self.0.borrow();
        table.slots.len() - table.free.len()
    }

    /// Notes the connection that a request was sent on.
    pub(crate) fn sent(&self, id: u64, connection: u64) {
        self.with(id, |slot| slot.connection = connection);
    }

    /// Completes a call, unless its caller gave up.
    pub(crate) fn complete(&self, id: u64, answer: Answer) {
        let waker = self.with(id, |slot| slot.complete(answer));
        if let Some(Some(waker)) = waker {
            waker.wake();
        }
    }

    /// Completes all calls that were sent on a connection.
    pub(crate) fn disconnected(&self, connection: u64) {
        let mut table = self.0.borrow_mut();
        let lost = table.slots.iter_mut().filter(|slot| slot.connection == connection);
        let wakers: Vec<Waker> = lost.filter_map(|slot| slot.complete(Err(CallError::Disconnected))).collect();
        drop(table);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn with<R>(&self, id: u64, f: impl FnOnce(&mut Slot) -> R) -> Option<R> {
        let mut table = self.0.borrow_mut();
        let slot = table.slots.get_mut(id as u32 as usize)?;
        (u64::from(slot.generation) == id >> 32).then(|| f(slot))
    }
}

impl Slot {
    fn complete(&mut self, answer: Answer) -> Option<Waker> {
        match &mut self.state {
            SlotState::Waiting(waker) => {
                let waker = waker.take();
                self.state = SlotState::Answered(answer);
                waker
            }
            SlotState::Free | SlotState::Answered(_) => None,
        }
    }
}

/// The slot of a call: free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    calls: Rc<Calls>,
    id: u64,
}

impl Waiting {
    /// The number of the call.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Answer> {
        let mut table = self.calls.0.borrow_mut();
        let slot = &mut table.slots[self.id as u32 as usize];
        match std::mem::replace(&mut slot.state, SlotState::Free) {
            SlotState::Answered(answer) => Poll::Ready(answer),
            SlotState::Waiting(_) | SlotState::Free => {
                slot.state = SlotState::Waiting(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut table = self.calls.0.borrow_mut();
        let index = self.id as u32;
        let slot = &mut table.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.connection = 0;
        let unread = std::mem::replace(&mut slot.state, SlotState::Free);
        table.free.push(index);
        drop(table);
        drop(unread);
    }
}

/// A call under way: await it for the body of its reply, drop it to give up. The request has been sent or queued
/// already.
#[must_use = "a call without a caller is a post"]
pub struct Call(CallState);

enum CallState {
    /// Until its deadline, unless its caller knows that by itself.
    Waiting(Waiting, Option<Sleep>),
    Failed(Option<CallError>),
}

impl Call {
    pub(crate) fn waiting(waiting: Waiting, deadline: Instant) -> Call {
        Call(CallState::Waiting(waiting, Some(sleep_until(deadline))))
    }

    /// The same call for a caller that gives it up at its deadline: one timer for several calls is enough.
    pub fn without_timer(mut self) -> Call {
        if let CallState::Waiting(_, timer) = &mut self.0 {
            *timer = None;
        }
        self
    }

    pub(crate) fn failed(error: CallError) -> Call {
        Call(CallState::Failed(Some(error)))
    }
}

impl Future for Call {
    type Output = Result<Vec<u8>, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            CallState::Waiting(waiting, timer) => match (waiting.poll(cx), timer) {
                (Poll::Ready(answer), _) => Poll::Ready(answer),
                (Poll::Pending, Some(timer)) => Pin::new(timer).poll(cx).map(|()| Err(CallError::Expired)),
                (Poll::Pending, None) => Poll::Pending,
            },
            CallState::Failed(error) => Poll::Ready(Err(error.take().expect("polled again after its end"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(waiting: &Waiting) -> Poll<Answer> {
        waiting.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn an_answer_goes_to_its_call_once() {
        let calls = Rc::new(Calls::default());
        let (one, two) = (calls.register().expect("room"), calls.register().expect("room"));
        assert!(poll(&one).is_pending());
        calls.complete(two.id(), Ok(vec![2]));
        calls.complete(two.id(), Ok(vec![3]));
        calls.complete(NO_CALL, Ok(vec![4]));
        assert_eq!(poll(&two), Poll::Ready(Ok(vec![2])));
        assert!(poll(&one).is_pending());
    }

    #[test]
    fn an_answer_after_its_caller_gave_up_is_nobody_s() {
        let calls = Rc::new(Calls::default());
        let given_up = calls.register().expect("room");
        let id = given_up.id();
        drop(given_up);
        let next = calls.register().expect("room");
        assert_eq!(next.id() as u32, id as u32, "the same slot");
        calls.complete(id, Ok(Vec::new()));
        assert!(poll(&next).is_pending());
    }

    #[test]
    fn a_call_without_a_timer_waits_past_its_deadline() {
        let calls = Rc::new(Calls::default());
        let waiting = calls.register().expect("room");
        let id = waiting.id();
        let mut call = Call::waiting(waiting, Instant(0)).without_timer();
        let mut poll = || Pin::new(&mut call).poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll().is_pending());
        calls.complete(id, Ok(vec![1]));
        assert_eq!(poll(), Poll::Ready(Ok(vec![1])));
    }

    #[test]
    fn the_end_of_a_connection_completes_what_was_sent_on_it() {
        let calls = Rc::new(Calls::default());
        let all: Vec<Waiting> = (0..3).map(|_| calls.register().expect("room")).collect();
        calls.sent(all[0].id(), 7);
        calls.sent(all[1].id(), 8);
        calls.disconnected(7);
        assert_eq!(poll(&all[0]), Poll::Ready(Err(CallError::Disconnected)));
        assert!(poll(&all[1]).is_pending() && poll(&all[2]).is_pending());
    }

    #[test]
    fn calls_wait_up_to_the_limit() {
        let calls = Rc::new(Calls::default());
        let mut all: Vec<Waiting> = (0..CALLS_MAX).map(|_| calls.register().expect("room")).collect();
        assert!(calls.register().is_none());
        all.pop();
        assert_eq!(calls.waiting(), CALLS_MAX - 1);
        assert!(calls.register().is_some());
    }
}
