//! Connections that have not ended their handshake of TLS: how many there may be, and how they end.
//!
//! Invariants: at most [`HANDSHAKES_MAX`] connections of a core are in their handshake, and the oldest makes room for a
//! new one, so that silent ones keep nobody out; the log names a source at most once in [`TOLD_AGAIN`].

use runtime::metrics::Counter;
use runtime::sync::{Either, Latch, race};
use runtime::{HashMap, Instant};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// Connections of a core that are in their handshake.
pub const HANDSHAKES_MAX: usize = 256;
/// After this time the log names the same source again.
const TOLD_AGAIN: Duration = Duration::from_secs(60);
/// Sources that are remembered; beyond that none is named until some are forgotten.
const SOURCES_MAX: usize = 1024;

/// How handshakes have ended on one core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HandshakeMetrics {
    /// Those that ended well.
    pub completed: u64,
    /// Those that broke, took too long, or were not TLS.
    pub failed: u64,
    /// Those that made room for newer ones.
    pub crowded_out: u64,
}

/// The handshakes of one core.
#[derive(Default)]
pub struct Handshakes {
    under_way: RefCell<VecDeque<(u64, Latch)>>,
    next: Cell<u64>,
    told: RefCell<HashMap<IpAddr, Instant>>,
    completed: Counter,
    failed: Counter,
    crowded_out: Counter,
}

impl Handshakes {
    /// Awaits a handshake with `source` for at most `limit`. The log tells of a failure.
    ///
    /// # Errors
    /// Those of the handshake, `TimedOut`, and `ConnectionAborted` if it had to make room for a newer one.
    pub async fn run<T>(
        &self,
        source: IpAddr,
        limit: Duration,
        handshake: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let crowded = Latch::default();
        let place = self.enter(crowded.clone());
        let done = match race(crowded.wait(), runtime::timeout(limit, handshake)).await {
            Either::Left(()) => {
                self.crowded_out.increment();
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            Either::Right(Some(done)) => done,
            Either::Right(None) => Err(io::ErrorKind::TimedOut.into()),
        };
        drop(place);
        match &done {
            Ok(_) => self.completed.increment(),
            Err(error) => {
                self.failed.increment();
                if self.should_tell(source, runtime::now()) {
                    tracing::warn!(%source, %error, "a TLS handshake failed");
                }
            }
        }
        done
    }

    /// Counts a handshake as under way until the returned value is dropped.
    fn enter(&self, crowded: Latch) -> Place<'_> {
        let id = self.next.get();
        self.next.set(id + 1);
        let mut under_way = self.under_way.borrow_mut();
        if under_way.len() >= HANDSHAKES_MAX
            && let Some((_, oldest)) = under_way.pop_front()
        {
            oldest.set();
        }
        under_way.push_back((id, crowded));
        Place { handshakes: self, id }
    }

    /// Whether the log should name `source` now.
    fn should_tell(&self, source: IpAddr, now: Instant) -> bool {
        let mut told = self.told.borrow_mut();
        let is_recent = |at: &Instant| now.since(*at) < TOLD_AGAIN;
        if told.get(&source).is_some_and(is_recent) {
            return false;
        }
        if told.len() >= SOURCES_MAX {
            told.retain(|_, at| is_recent(at));
        }
        let is_room = told.len() < SOURCES_MAX;
        if is_room {
            told.insert(source, now);
        }
        is_room
    }

    /// Ends all handshakes, because the node stops.
    pub fn close(&self) {
        self.under_way.borrow().iter().for_each(|(_, crowded)| crowded.set());
    }

    /// How handshakes have ended.
    pub fn metrics(&self) -> HandshakeMetrics {
        HandshakeMetrics {
            completed: self.completed.get(),
            failed: self.failed.get(),
            crowded_out: self.crowded_out.get(),
        }
    }
}

impl fmt::Debug for Handshakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.metrics().fmt(f)
    }
}

/// A handshake that is under way.
struct Place<'h> {
    handshakes: &'h Handshakes,
    id: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.handshakes.under_way.borrow_mut().retain(|(id, _)| *id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::NodeId;
    use runtime::sim::Sim;
    use std::rc::Rc;

    #[test]
    fn the_oldest_handshake_makes_room_for_one_too_many() {
        const LIMIT: Duration = Duration::from_secs(10);
        Sim::new(1, runtime::sim::Options::default()).run_node(NodeId(1), 10 * LIMIT, || async {
            let handshakes = Rc::new(Handshakes::default());
            let ended = Rc::new(RefCell::new(Vec::new()));
            let enter = |n: usize| {
                let (handshakes, ended) = (handshakes.clone(), ended.clone());
                runtime::spawn(async move {
                    let source = IpAddr::from([10, 0, 0, 1]);
                    let silent = std::future::pending::<io::Result<()>>();
                    let error = handshakes.run(source, LIMIT, silent).await.expect_err("silent");
                    ended.borrow_mut().push((n, error.kind()));
                })
            };
            let mut tasks: Vec<_> = (0..HANDSHAKES_MAX).map(enter).collect();
            runtime::sleep(LIMIT / 2).await;
            assert_eq!(*ended.borrow(), [], "as many as there may be");
            tasks.push(enter(HANDSHAKES_MAX));
            runtime::sleep(LIMIT / 10).await;
            let crowded = ended.borrow().clone();
            assert!(matches!(crowded[..], [(_, io::ErrorKind::ConnectionAborted)]), "{crowded:?}");
            let done = handshakes.run(IpAddr::from([10, 0, 0, 2]), LIMIT, async { Ok(()) }).await;
            assert!(done.is_ok(), "silent ones keep nobody out");
            for task in tasks {
                task.await;
            }
            let timed_out = ended.borrow().iter().filter(|(_, kind)| *kind == io::ErrorKind::TimedOut).count();
            let expected = HandshakeMetrics { completed: 1, failed: timed_out as u64, crowded_out: 2 };
            assert_eq!((handshakes.metrics(), timed_out), (expected, HANDSHAKES_MAX - 1));
        });
    }
}
