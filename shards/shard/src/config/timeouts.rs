//! How long requests may take: options that operators change while the node runs (`nodetool settimeout`).

use super::Config;
use std::time::Duration;

/// The times that requests may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// `read_request_timeout`.
    pub read: Duration,
    /// `range_request_timeout`.
    pub range: Duration,
    /// `write_request_timeout`.
    pub write: Duration,
    /// `counter_write_request_timeout`.
    pub counter_write: Duration,
    /// `cas_contention_timeout`.
    pub cas_contention: Duration,
    /// `truncate_request_timeout`.
    pub truncate: Duration,
    /// `request_timeout`.
    pub misc: Duration,
}

impl Timeouts {
    /// Those that a node starts with.
    pub fn of(config: &Config) -> Timeouts {
        Timeouts {
            read: config.read_timeout,
            range: config.range_timeout,
            write: config.write_timeout,
            counter_write: config.counter_write_timeout,
            cas_contention: config.cas_contention_timeout,
            truncate: config.truncate_timeout,
            misc: config.request_timeout,
        }
    }

    /// Whether some requests of clients may take longer than these wait, `client_max`.
    pub(crate) fn outlast(&self, client_max: Duration) -> bool {
        let Timeouts { read, range, write, counter_write, cas_contention, truncate: _, misc: _ } = *self;
        [read, range, write, counter_write, cas_contention].into_iter().any(|timeout| timeout > client_max)
    }

    /// What is left of these for a request that has waited for `waited` and whose client waits for `client_max` in all.
    /// `waiting_counts`: whether the time of its kind includes what it has waited.
    pub(crate) fn left(self, client_max: Duration, waited: Duration, waiting_counts: bool) -> Timeouts {
        let client_left = client_max.saturating_sub(waited);
        let counted = if waiting_counts { waited } else { Duration::ZERO };
        let left = |timeout: Duration| timeout.saturating_sub(counted).min(client_left);
        Timeouts {
            read: left(self.read),
            range: left(self.range),
            write: left(self.write),
            counter_write: left(self.counter_write),
            cas_contention: left(self.cas_contention),
            truncate: self.truncate,
            misc: self.misc,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_request_takes_longer_than_its_client_waits() {
        let seconds = Duration::from_secs;
        let timeouts = Timeouts { range: seconds(30), ..Timeouts::of(&Config::default()) };
        let at_once = timeouts.left(seconds(12), Duration::ZERO, false);
        assert_eq!((at_once.read, at_once.range, at_once.write), (seconds(5), seconds(12), seconds(2)));
        assert_eq!((at_once.truncate, at_once.misc), (timeouts.truncate, timeouts.misc));
        let late = timeouts.left(seconds(12), seconds(9), false);
        assert_eq!((late.read, late.range, late.write), (seconds(3), seconds(3), seconds(2)));
        assert!(timeouts.outlast(seconds(12)) && !timeouts.outlast(seconds(30)), "the bound is allowed");
        let counted = timeouts.left(seconds(12), seconds(1), true);
        assert_eq!((counted.read, counted.range, counted.write), (seconds(4), seconds(11), seconds(1)));
        assert_eq!(timeouts.left(seconds(12), seconds(13), true).read, Duration::ZERO);
    }
}
