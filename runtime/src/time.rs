//! Clocks and timers, virtual in simulation.
//!
//! A node's wall clock is its monotonic clock plus an offset taken at the start, so it never goes backwards.

use crate::context;
use crate::instant::Instant;
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
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

/// Runs `future` for at most `d`, from its first poll on. Returns `None` if the time is up. The future is dropped as
/// soon as its result is known.
pub fn timeout<F: Future>(d: Duration, future: F) -> Timeout<F> {
    Timeout { future: Some(future), limit: Limit::Lasting(d) }
}

pin_project! {
    /// The future that [`timeout`] returns. What it runs is a part of it and is polled in place: an `async fn` would
    /// have it twice and copy it.
    pub struct Timeout<F> {
        #[pin]
        future: Option<F>,
        limit: Limit,
    }
}

enum Limit {
    /// Nothing had to be waited for yet.
    Lasting(Duration),
    Until(Sleep),
}

impl<F: Future> Future for Timeout<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Some(future) = this.future.as_mut().as_pin_mut() else { return Poll::Pending };
        let result = match future.poll(cx) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => {
                if let Limit::Lasting(d) = *this.limit {
                    // No time at all was over before the first poll.
                    *this.limit = Limit::Until(if d.is_zero() { sleep_until(Instant(0)) } else { sleep(d) });
                }
                match this.limit {
                    Limit::Until(sleep) => std::task::ready!(Pin::new(sleep).poll(cx)),
                    Limit::Lasting(_) => return Poll::Pending,
                }
                None
            }
        };
        this.future.set(None);
        Poll::Ready(result)
    }
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
