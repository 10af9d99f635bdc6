//! Comparing the wall clocks of nodes by the rounds of gossip.
//!
//! A message carries the time of its sender's wall clock, and the time of the receiver's monotonic clock at which the
//! message was sent that it answers. The wall clock of the other was read somewhere within that round trip; taking its
//! middle is wrong by half of it at most.

use std::time::Duration;

/// A difference of clocks beyond this is reported.
pub const SKEW_REPORTED: Duration = Duration::from_millis(100);

/// Both clocks of this node at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clocks {
    /// The monotonic clock, from any origin that lies in the past of everything else.
    pub monotonic: Duration,
    /// The wall clock in microseconds since 1970.
    pub wall: i64,
}

impl Clocks {
    /// Whole seconds since 1970, 0 for earlier times.
    pub(super) fn seconds(self) -> u64 {
        (self.wall / 1_000_000).max(0) as u64
    }
}

/// How far the wall clock of another node is ahead of this one's, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockOffset {
    /// The likely value, negative if the other clock is behind.
    pub micros: i64,
    /// The value is wrong by this much at most.
    pub error_micros: i64,
}

impl ClockOffset {
    /// The offset by an answer: its sender's wall clock, and the monotonic time at which the question was sent. None if
    /// the time is not one of the past.
    pub fn measured(now: Clocks, asked: Duration, their_wall: i64) -> Option<ClockOffset> {
        let round_trip = now.monotonic.checked_sub(asked)?;
        let half = i64::try_from(round_trip.as_micros() / 2).ok()?;
        let micros = their_wall.checked_sub(now.wall.checked_sub(half)?)?;
        Some(ClockOffset { micros, error_micros: half })
    }

    /// Whether the clocks differ by more than `limit` for certain.
    pub fn exceeds(self, limit: Duration) -> bool {
        let least = self.micros.unsigned_abs().saturating_sub(self.error_micros.unsigned_abs());
        u128::from(least) > limit.as_micros()
    }
}
