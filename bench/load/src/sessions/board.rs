//! How the thread that measures learns the response times of busy connections, which another thread keeps busy.
//!
//! 1. The measuring thread asks for the times since it asked last, by a number that it counts up.
//! 2. The busy thread empties its histogram, puts down its figures and then the number that it has answered.

use hdrhistogram::Histogram;
use std::fmt;
use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How often a thread looks for what the other one has put down.
const LOOK: Duration = Duration::from_millis(1);

/// What both threads share.
#[derive(Default)]
pub struct Board {
    asked: AtomicU64,
    answered: AtomicU64,
    is_started: AtomicBool,
    is_stopped: AtomicBool,
    /// Why there are no busy connections.
    failure: OnceLock<String>,
    figures: [AtomicU64; 6],
}

/// Response times of a while, from when each request was due, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Times {
    /// Requests that were answered.
    pub(super) count: u64,
    /// Requests that failed.
    pub(super) failed: u64,
    /// Median.
    pub(super) p50: u64,
    /// 99th percentile.
    pub(super) p99: u64,
    /// 99.9th percentile.
    pub(super) p999: u64,
    /// The longest one.
    pub(super) max: u64,
}

impl Times {
    pub(super) fn of(times: &Histogram<u64>, failed: u64) -> Times {
        let at = |share| times.value_at_quantile(share);
        Times { count: times.len(), failed, p50: at(0.5), p99: at(0.99), p999: at(0.999), max: times.max() }
    }

    /// How many times the median and the 99th percentile of `other` those of these are.
    pub(super) fn ratios(&self, other: &Times) -> (f64, f64) {
        let ratio = |own: u64, other: u64| own as f64 / other.max(1) as f64;
        (ratio(self.p50, other.p50), ratio(self.p99, other.p99))
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |nanos: u64| nanos as f64 / 1e6;
        let Times { count, failed, p50, p99, p999, max } = *self;
        let [p50, p99, p999, max] = [p50, p99, p999, max].map(millis);
        write!(f, "{count} requests, p50 {p50:.3} ms, p99 {p99:.3} ms, p99.9 {p999:.3} ms, longest {max:.3} ms")?;
        if failed > 0 {
            write!(f, ", {failed} failed")?;
        }
        Ok(())
    }
}

impl Board {
    /// Busy thread: its connections are open.
    pub(super) fn start(&self) {
        self.is_started.store(true, Ordering::Release);
    }

    /// Busy thread: it could not begin.
    pub(super) fn fail(&self, why: &str) {
        let _ = self.failure.set(why.to_owned());
    }

    /// Busy thread: answers if it is asked.
    pub(super) fn answer(&self, take: impl FnOnce() -> Times) {
        let asked = self.asked.load(Ordering::Acquire);
        if asked == self.answered.load(Ordering::Relaxed) {
            return;
        }
        let Times { count, failed, p50, p99, p999, max } = take();
        for (figure, value) in self.figures.iter().zip([count, failed, p50, p99, p999, max]) {
            figure.store(value, Ordering::Relaxed);
        }
        self.answered.store(asked, Ordering::Release);
    }

    /// Busy thread: waits until it should look again. False at the end.
    pub(super) async fn waited(&self) -> bool {
        runtime::sleep(LOOK).await;
        !self.is_stopped.load(Ordering::Acquire)
    }

    /// Measuring thread: nothing more is measured.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
    }

    /// Measuring thread: waits until the busy connections are open.
    pub(super) async fn started(&self) -> Result<(), String> {
        self.until(|board| board.is_started.load(Ordering::Acquire)).await
    }

    /// Measuring thread: awaits `work` and returns the response times meanwhile.
    pub(super) async fn during<T>(&self, work: impl Future<Output = T>) -> Result<(T, Times), String> {
        self.take().await?;
        let done = work.await;
        Ok((done, self.take().await?))
    }

    /// Measuring thread: [`Board::during`] if there are busy connections.
    pub(super) async fn during_if<T>(
        &self,
        is_busy: bool,
        work: impl Future<Output = T>,
    ) -> Result<(T, Option<Times>), String> {
        if !is_busy {
            return Ok((work.await, None));
        }
        let (done, times) = self.during(work).await?;
        Ok((done, Some(times)))
    }

    async fn take(&self) -> Result<Times, String> {
        let asked = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        self.until(|board| board.answered.load(Ordering::Acquire) == asked).await?;
        let [count, failed, p50, p99, p999, max] = self.figures.each_ref().map(|figure| figure.load(Ordering::Relaxed));
        Ok(Times { count, failed, p50, p99, p999, max })
    }

    async fn until(&self, reached: impl Fn(&Board) -> bool) -> Result<(), String> {
        while !reached(self) {
            if let Some(why) = self.failure.get() {
                return Err(format!("busy connections: {why}"));
            }
            runtime::sleep(LOOK).await;
        }
        Ok(())
    }
}
