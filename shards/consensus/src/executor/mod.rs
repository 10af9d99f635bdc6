//! What openraft needs of an asynchronous runtime, taken from the crate `runtime`.
//!
//! Tasks, timers, clock and random numbers are the current shard's, so that a group also runs in the simulator and
//! equal seeds give equal traces. Channels and locks are the small ones beside this file: they serve one shard and wake
//! in the order of waiting.

mod instant;
mod mpsc;
mod mutex;
mod oneshot;
mod sending;
mod watch;

pub(crate) use instant::Moment;
pub(crate) use mutex::Lock;

use openraft::rt::{AsyncRuntime, OptionalSend};
use rand::TryRng;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// openraft's runtime on the current shard.
#[derive(Debug)]
pub(crate) struct ShardRuntime;

impl AsyncRuntime for ShardRuntime {
    type JoinError = Infallible;
    type JoinHandle<T: OptionalSend + 'static> = Joined<T>;
    type Sleep = runtime::time::Sleep;
    type Instant = Moment;
    type TimeoutError = TimeUp;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = Timed<T>;
    type ThreadLocalRng = ShardRng;
    type Mpsc = mpsc::Channels;
    type Watch = watch::Watched;
    type Oneshot = oneshot::Oneshots;
    type Mutex<T: OptionalSend + 'static> = mutex::Lock<T>;

    fn spawn<T>(future: T) -> Joined<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        Joined(runtime::spawn(future))
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        runtime::sleep(duration)
    }

    fn sleep_until(deadline: Moment) -> Self::Sleep {
        runtime::sleep_until(deadline.0)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(duration: Duration, future: F) -> Timed<F> {
        Timed { future: Box::pin(future), sleep: Box::pin(runtime::sleep(duration)) }
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(deadline: Moment, future: F) -> Timed<F> {
        Timed { future: Box::pin(future), sleep: Box::pin(runtime::sleep_until(deadline.0)) }
    }

    fn is_panic(join_error: &Infallible) -> bool {
        match *join_error {}
    }

    fn thread_rng() -> ShardRng {
        ShardRng
    }

    fn new(_threads: usize) -> ShardRuntime {
        ShardRuntime
    }

    fn block_on<F: Future<Output = T>, T>(&mut self, _future: F) -> T {
        unreachable!("a shard never blocks, and openraft calls this in its own tests only")
    }
}

/// The end of a task of openraft's. A task that panics ends its shard, so that waiting never fails.
pub(crate) struct Joined<T>(runtime::JoinHandle<T>);

impl<T> Future for Joined<T> {
    type Output = Result<T, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(Ok)
    }
}

/// A future that has until a deadline.
pub(crate) struct Timed<F> {
    future: Pin<Box<F>>,
    sleep: Pin<Box<runtime::time::Sleep>>,
}

impl<F: Future> Future for Timed<F> {
    type Output = Result<F::Output, TimeUp>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(value) = self.future.as_mut().poll(cx) {
            return Poll::Ready(Ok(value));
        }
        self.sleep.as_mut().poll(cx).map(|()| Err(TimeUp))
    }
}

/// The error of a [`Timed`] future whose time is up.
#[derive(Debug)]
pub(crate) struct TimeUp;

impl fmt::Display for TimeUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("time is up")
    }
}

/// The current shard's random numbers.
pub(crate) struct ShardRng;

impl TryRng for ShardRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((runtime::rng::u64() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(runtime::rng::u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&runtime::rng::u64().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}
