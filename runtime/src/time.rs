//! Clocks and timers. Virtual in simulation.
//!
//! The node-wide wall clock is an offset taken at start plus the monotonic clock: it never goes backwards within a
//! process.

use crate::context;
use crate::instant::Instant;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

/// The monotonic clock.
pub fn now() -> Instant {
    context::with(|c| c.monotonic())
}

/// Microseconds since 1970 on this node's wall clock.
pub fn wall_micros() -> i64 {
    context::with(|c| c.wall_micros())
}

/// Completes `d` from now.
pub fn sleep(d: Duration) -> Sleep {
    sleep_until(now().after(d))
}

/// Completes at `deadline`, at once (after one turn of the loop) if it has passed.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep { deadline, timer: None }
}

/// Runs `future` for at most `d`; `None` when the time is up (the future is dropped).
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

/// See [`sleep`].
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
