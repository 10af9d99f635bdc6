//! Connections that have not passed the handshake: how many there may be, and what the log says of those that fail.
//!
//! Invariants: at most [`GREETINGS_MAX`] connections are being greeted, and the oldest makes room for a new one, so
//! that silent ones keep nobody out; the log names a source at most once in [`TOLD_AGAIN`].

use crate::metrics::StrangerMetrics;
use runtime::metrics::Counter;
use runtime::{HashMap, Instant};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;
use tls::Stream;

/// Connections of a core that have not passed the handshake.
pub const GREETINGS_MAX: usize = 128;
/// After this time the log names the same source again.
const TOLD_AGAIN: Duration = Duration::from_secs(60);
/// Sources that are remembered; beyond that none is named until some are forgotten.
const SOURCES_MAX: usize = 1024;

/// One core's strangers.
#[derive(Default)]
pub(crate) struct Strangers {
    greeting: RefCell<VecDeque<(u64, Rc<Stream>)>>,
    next: Cell<u64>,
    told: RefCell<HashMap<IpAddr, Instant>>,
    pub(crate) strangers: Counter,
    pub(crate) refused: Counter,
    pub(crate) crowded_out: Counter,
}

impl Strangers {
    /// Counts a connection as being greeted until the returned value is dropped. Closes the oldest if there are too
    /// many.
    pub(crate) fn greet(self: &Rc<Strangers>, stream: &Rc<Stream>) -> BeingGreeted {
        let id = self.next.get();
        self.next.set(id + 1);
        let mut greeting = self.greeting.borrow_mut();
        if greeting.len() >= GREETINGS_MAX
            && let Some((_, oldest)) = greeting.pop_front()
        {
            self.crowded_out.increment();
            oldest.shutdown();
        }
        greeting.push_back((id, stream.clone()));
        BeingGreeted { strangers: self.clone(), id }
    }

    /// Whether the log should name `source` now.
    pub(crate) fn should_tell(&self, source: IpAddr, now: Instant) -> bool {
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

    /// Closes all connections that are being greeted.
    pub(crate) fn close(&self) {
        self.greeting.borrow().iter().for_each(|(_, stream)| stream.shutdown());
    }

    pub(crate) fn metrics(&self) -> StrangerMetrics {
        StrangerMetrics {
            strangers: self.strangers.get(),
            refused: self.refused.get(),
            crowded_out: self.crowded_out.get(),
        }
    }
}

/// A connection that is being greeted.
pub(crate) struct BeingGreeted {
    strangers: Rc<Strangers>,
    id: u64,
}

impl Drop for BeingGreeted {
    fn drop(&mut self) {
        self.strangers.greeting.borrow_mut().retain(|(id, _)| *id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_source_is_told_once_a_minute() {
        let strangers = Strangers::default();
        let (one, two) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let at = |seconds: u64| Instant(seconds * 1_000_000_000);
        assert!(strangers.should_tell(one, at(1)));
        assert!(!strangers.should_tell(one, at(60)));
        assert!(strangers.should_tell(two, at(60)));
        assert!(strangers.should_tell(one, at(61)));
    }

    #[test]
    fn sources_are_remembered_up_to_a_limit() {
        let strangers = Strangers::default();
        let source = |n: usize| IpAddr::V4(Ipv4Addr::from_bits(n as u32));
        let told = (0..SOURCES_MAX + 1).filter(|n| strangers.should_tell(source(*n), Instant(0))).count();
        assert_eq!(told, SOURCES_MAX);
        assert!(strangers.should_tell(source(SOURCES_MAX), Instant(60_000_000_000)), "the others are forgotten");
    }
}
