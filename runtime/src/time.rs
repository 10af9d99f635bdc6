//! Clocks and timers, virtual in simulation.
//!
//! A node's wall clock is its monotonic clock plus an offset taken at the start, so it never goes backwards.

use crate::context;
use crate::instant::Instant;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

/// The time on the monotonic clock.
pub fn now() -> Instant {
    context::with(|c| c.monotonic())
}

/// The time on the monotonic clock, for what is dropped; `None` while the tasks of a node that has stopped are dropped.
pub fn now_if_running() -> Option<Instant> {
    context::try_with(|c| c.monotonic())
}

/// The time on the node's wall clock, in microseconds since 1970.
pub fn wall_micros() -> i64 {
    context::with(|c| c.wall_micros())
}

/// Waits for `d`.
pub fn sleep(d: Duration) -> Sleep {
    sleep_until(now().after(d))
}

/// Waits until `deadline`; for one turn of the loop if it has passed.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep { deadline, timer: None }
}

/// Runs `future` for at most `d`. Returns `None` if the time is up; the future is dropped then.
pub async fn timeout<F: Future>(d: Duration, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut sleep = pin!(sleep(d));
    std::future::poll_fn(move |cx| {
        if let Poll::Ready(value) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(value));
        }
        sleep.as_mut().poll(cx).map(|()| None)
    })
    .await
}

/// The future that [`sleep`] and [`sleep_until`] return.
pub struct Sleep {
    deadline: Instant,
    timer: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        context::with(|c| {
            if self.timer.is_some() && c.monotonic() >= self.deadline {
                if let Some(id) = self.timer.take() {
                    c.executor.cancel_timer(self.deadline, id);
                }
                return Poll::Ready(());
            }
            match self.timer {
                Some(id) => c.executor.renew_timer(self.deadline, id, cx.waker()),
                None => self.timer = Some(c.executor.add_timer(self.deadline, cx.waker())),
            }
            Poll::Pending
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(id) = self.timer.take() {
            context::try_with(|c| c.executor.cancel_timer(self.deadline, id));
        }
    }
}
