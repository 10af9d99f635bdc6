//! Waiting within one shard: for several futures, for the first of two, for a condition, for a latch.
//!
//! Everything here belongs to the tasks of one shard and is not `Send`. Counting work under way and admission by weight
//! are in [`crate::gate`]; messages between shards are in [`crate::mesh`].

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The future that `make` makes, made where it stays. `Box::pin` makes it on the stack and copies all of its state, of
/// which most is not in use yet; on the path of every request that is kilobytes.
#[inline(always)]
pub fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), make()))
}

/// Runs futures at the same time in the current task and returns their results in the order of the futures.
///
/// Every wake-up polls each future that is not finished, so this is for tens of futures, not for thousands.
pub fn join_all<F: Future>(futures: Vec<F>) -> JoinAll<F> {
    JoinAll { slots: futures.into_iter().map(|future| Slot::Running(Box::pin(future))).collect() }
}

/// The future that [`join_all`] returns.
pub struct JoinAll<F: Future> {
    slots: Vec<Slot<F>>,
}

enum Slot<F: Future> {
    Running(Pin<Box<F>>),
    Finished(Option<F::Output>),
}

// The futures are boxed and results are only moved out.
impl<F: Future> Unpin for JoinAll<F> {}

impl<F: Future> Future for JoinAll<F> {
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<F::Output>> {
        let mut all = true;
        for slot in &mut self.slots {
            if let Slot::Running(future) = slot {
                match future.as_mut().poll(cx) {
                    Poll::Ready(output) => *slot = Slot::Finished(Some(output)),
                    Poll::Pending => all = false,
                }
            }
        }
        if !all {
            return Poll::Pending;
        }
        let take = |slot: &mut Slot<F>| match slot {
            Slot::Finished(output) => output.take(),
            Slot::Running(_) => None,
        };
        Poll::Ready(self.slots.iter_mut().filter_map(take).collect())
    }
}

/// The result of [`race`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Either<A, B> {
    /// The left future was first.
    Left(A),
    /// The right future was first.
    Right(B),
}

/// Waits for the first of two futures and drops the other; the left one wins if both are ready.
pub async fn race<A: Future, B: Future>(left: A, right: B) -> Either<A::Output, B::Output> {
    let mut left = pin!(left);
    let mut right = pin!(right);
    poll_fn(|cx| {
        if let Poll::Ready(value) = left.as_mut().poll(cx) {
            return Poll::Ready(Either::Left(value));
        }
        right.as_mut().poll(cx).map(Either::Right)
    })
    .await
}

/// A condition variable: tasks wait until their predicate holds, and whoever changes the state notifies them.
#[derive(Default, Debug)]
pub struct Condition {
    waiters: Waiters,
}

impl Condition {
    /// Waits until `ready` returns a value. It is asked at once and after every [`Condition::notify`].
    pub async fn wait<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        poll_fn(|cx| match ready() {
            Some(value) => Poll::Ready(value),
            None => {
                self.waiters.add(cx);
                Poll::Pending
            }
        })
        .await
    }

    /// Makes all waiting tasks ask their predicate again.
    pub fn notify(&self) {
        self.waiters.wake_all();
    }
}

/// A flag that is set once and stays set; many tasks can wait for it. Cloning shares it.
#[derive(Clone, Default, Debug)]
pub struct Latch(Rc<LatchState>);

#[derive(Default, Debug)]
struct LatchState {
    set: Cell<bool>,
    waiters: Waiters,
}

impl Latch {
    /// Sets the latch and wakes all waiting tasks. Setting it again does nothing.
    pub fn set(&self) {
        self.0.set.set(true);
        self.0.waiters.wake_all();
    }

    /// Whether the latch is set.
    pub fn is_set(&self) -> bool {
        self.0.set.get()
    }

    /// Waits until the latch is set.
    pub async fn wait(&self) {
        poll_fn(|cx| {
            if self.is_set() {
                return Poll::Ready(());
            }
            self.0.waiters.add(cx);
            Poll::Pending
        })
        .await;
    }
}

/// The wakers of tasks that wait for the same thing, one per task.
#[derive(Default, Debug)]
pub(crate) struct Waiters(RefCell<Vec<Waker>>);

impl Waiters {
    /// Adds the task that is being polled, unless it waits already.
    pub(crate) fn add(&self, cx: &Context<'_>) {
        let mut wakers = self.0.borrow_mut();
        if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            wakers.push(cx.waker().clone());
        }
    }

    /// Whether no task waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Removes and returns all wakers, for callers that wake them once their own borrows have ended.
    pub(crate) fn take(&self) -> Vec<Waker> {
        std::mem::take(&mut *self.0.borrow_mut())
    }

    /// Wakes all waiting tasks; each must add itself again to go on waiting.
    pub(crate) fn wake_all(&self) {
        self.take().into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::{Condition, Either, Latch, join_all, race};
    use std::cell::Cell;
    use std::future::{pending, poll_fn, ready};
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    /// A waker that counts how often it was woken.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Count>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Count {
        fn woken(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn counted() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (count.clone(), Waker::from(count))
    }

    #[test]
    fn join_all_gives_results_in_the_order_of_the_futures() {
        let rounds = Cell::new(0);
        let future = |last: u32| {
            let rounds = &rounds;
            poll_fn(move |_| if rounds.get() >= last { Poll::Ready(last) } else { Poll::Pending })
        };
        let mut all = join_all(vec![future(2), future(0), future(1)]);
        let mut cx = Context::from_waker(Waker::noop());
        for round in 0..2 {
            rounds.set(round);
            assert!(pin!(&mut all).poll(&mut cx).is_pending());
        }
        rounds.set(2);
        assert_eq!(pin!(&mut all).poll(&mut cx), Poll::Ready(vec![2, 0, 1]));
    }

    #[test]
    fn join_all_of_nothing_is_ready() {
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(pin!(join_all(Vec::<std::future::Ready<()>>::new())).poll(&mut cx), Poll::Ready(Vec::new()));
    }

    #[test]
    fn the_left_future_wins_a_draw() {
        let mut cx = Context::from_waker(Waker::noop());
        let won = |poll: Poll<Either<u8, u8>>| poll;
        assert_eq!(won(pin!(race(ready(1), ready(2))).poll(&mut cx)), Poll::Ready(Either::Left(1)));
        assert_eq!(won(pin!(race(pending(), ready(2))).poll(&mut cx)), Poll::Ready(Either::Right(2)));
        assert_eq!(won(pin!(race(pending(), pending())).poll(&mut cx)), Poll::Pending);
    }

    #[test]
    fn a_condition_is_asked_again_after_each_notification() {
        let (condition, state) = (Condition::default(), Cell::new(0));
        let (count, waker) = counted();
        let mut cx = Context::from_waker(&waker);
        let mut waiting = pin!(condition.wait(|| (state.get() == 2).then_some("done")));
        for _ in 0..3 {
            assert!(waiting.as_mut().poll(&mut cx).is_pending());
        }
        condition.notify();
        assert_eq!(count.woken(), 1, "a task waits once however often it is polled");
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        state.set(2);
        condition.notify();
        assert_eq!(count.woken(), 2);
        assert_eq!(waiting.as_mut().poll(&mut cx), Poll::Ready("done"));
        condition.notify();
        assert_eq!(count.woken(), 2);
    }

    #[test]
    fn a_latch_wakes_all_and_stays_set() {
        let latch = Latch::default();
        let ((first, first_waker), (second, second_waker)) = (counted(), counted());
        let shared = latch.clone();
        let (mut one, mut two) = (pin!(latch.wait()), pin!(shared.wait()));
        assert!(one.as_mut().poll(&mut Context::from_waker(&first_waker)).is_pending());
        assert!(two.as_mut().poll(&mut Context::from_waker(&second_waker)).is_pending());
        assert!(!latch.is_set());
        shared.set();
        assert_eq!((first.woken(), second.woken()), (1, 1));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(one.as_mut().poll(&mut cx).is_ready() && two.as_mut().poll(&mut cx).is_ready());
        assert!(latch.is_set() && pin!(latch.wait()).poll(&mut cx).is_ready());
    }
}
