//! The time that a client's request may take: that of its kind, and no more than its client waits for the answer.
//!
//! 1. Whoever receives a request measures how long it has waited before it could begin. Most have not.
//! 2. A request that has waited is polled within [`Shard::after_waiting`].
//! 3. When it fixes its deadline, [`Shard::request_timeouts`] says what is left: of `native_transport_timeout` in any
//!    case, and of the timeout of its kind if `cql_start_time` is QUEUE.

use super::Shard;
use crate::config::Timeouts;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

impl Shard {
    /// Runs a client's request that has waited for so long before it began.
    pub fn after_waiting<F: Future>(&self, waited: Duration, request: F) -> impl Future<Output = F::Output> {
        Late { shard: self.clone(), waited, request: Box::pin(request) }
    }

    /// How long requests of clients may take from now on; the request that asks is the one that is being polled.
    /// TRUNCATE and changes of the schema end by their own times alone, as on Cassandra.
    #[inline]
    pub(crate) fn request_timeouts(&self) -> Timeouts {
        match self.inner.waited.get().is_zero() && !self.inner.outlasts_clients.get() {
            true => self.timeouts(),
            false => self.timeouts_left(),
        }
    }

    #[cold]
    fn timeouts_left(&self) -> Timeouts {
        self.timeouts().left(self.config().client_timeout, self.inner.waited.get(), self.config().waiting_counts)
    }
}

/// See [`Shard::after_waiting`].
struct Late<F> {
    shard: Shard,
    waited: Duration,
    request: Pin<Box<F>>,
}

impl<F: Future> Future for Late<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let before = self.shard.inner.waited.replace(self.waited);
        let polled = self.request.as_mut().poll(cx);
        self.shard.inner.waited.set(before);
        polled
    }
}
