//! A shard's write timestamps and unique ids.
//!
//! Invariants: the timestamps that a shard gives out strictly increase, even when the wall clock stands still; so do
//! the times of its version 1 uuids. Timestamps are above those of every earlier change of the schema and every earlier
//! durable write, even across restarts: if the wall clock was set back in between, or if another node that changes the
//! schema has a clock that is ahead, they run ahead of it, on all shards alike.

use cql::plan::EvaluationContext;
use std::cell::Cell;

/// 100 ns intervals between 1582-10-15 and 1970-01-01.
const GREGORIAN_OFFSET: u64 = 0x01b2_1dd2_1381_4000;

/// Timestamps of changes of the schema are rounded up to whole milliseconds.
const ROUNDING_MICROS: i64 = 1_000;

/// A source of write timestamps and version 1 uuids; the module's head has its guarantees.
pub(crate) struct Clock {
    last_timestamp: Cell<i64>,
    /// Microseconds by which timestamps are ahead of the wall clock.
    ahead: Cell<i64>,
    last_uuid_time: Cell<u64>,
    /// Clock sequence and node of version 1 uuids: random per shard and start, with the multicast bit of a random node.
    uuid_tail: [u8; 8],
}

impl Clock {
    pub(crate) fn new() -> Clock {
        let mut uuid_tail = runtime::rng::u64().to_be_bytes();
        uuid_tail[0] = uuid_tail[0] & 0x3f | 0x80;
        uuid_tail[2] |= 1;
        Clock { last_timestamp: Cell::new(0), ahead: Cell::new(0), last_uuid_time: Cell::new(0), uuid_tail }
    }

    /// Continues after `floor`, the highest timestamp of earlier runs. Returns by how many microseconds timestamps are
    /// then ahead of the wall clock.
    pub(crate) fn start_after(&self, floor: i64) -> i64 {
        let ahead = (floor.saturating_add(1)).saturating_sub(runtime::wall_micros()).max(0);
        self.ahead.set(ahead);
        ahead
    }

    /// How far, in microseconds, timestamps must be ahead of the wall clock after a change of the schema at `floor`. It
    /// may be ahead of this clock if the wall clock went back over a restart, or if that of the node which made the
    /// change is ahead. What a change is rounded up by is left to [`Clock::raise`].
    pub(crate) fn ahead_for(&self, floor: i64) -> i64 {
        let needed = floor.saturating_sub(runtime::wall_micros());
        if needed > self.ahead.get().saturating_add(ROUNDING_MICROS) { needed } else { self.ahead.get() }
    }

    /// Makes all later timestamps exceed `floor`, the timestamp of a change of the schema. `ahead` is what
    /// [`Clock::ahead_for`] has said on one shard for all of them: if each shard took its own, a write on one of
    /// them could have a lower timestamp than an earlier write on another.
    pub(crate) fn raise(&self, floor: i64, ahead: i64) {
        self.last_timestamp.set(self.last_timestamp.get().max(floor));
        self.ahead.set(ahead);
    }

    /// A write timestamp, microseconds.
    pub(crate) fn timestamp(&self) -> i64 {
        let now = runtime::wall_micros().saturating_add(self.ahead.get());
        let timestamp = now.max(self.last_timestamp.get() + 1);
        self.last_timestamp.set(timestamp);
        timestamp
    }

    /// A version 1 uuid.
    pub(crate) fn timeuuid(&self) -> [u8; 16] {
        let now = (runtime::wall_micros() as u64).wrapping_mul(10).wrapping_add(GREGORIAN_OFFSET);
        let time = now.max(self.last_uuid_time.get() + 1);
        self.last_uuid_time.set(time);
        let mut out = [0; 16];
        out[..4].copy_from_slice(&(time as u32).to_be_bytes());
        out[4..6].copy_from_slice(&((time >> 32) as u16).to_be_bytes());
        out[6..8].copy_from_slice(&((time >> 48) as u16 & 0x0fff | 0x1000).to_be_bytes());
        out[8..].copy_from_slice(&self.uuid_tail);
        out
    }
}

/// The context in which terms are evaluated on a shard.
pub(crate) struct Evaluation<'s>(pub(crate) &'s Clock);

impl EvaluationContext for Evaluation<'_> {
    fn wall_micros(&mut self) -> i64 {
        runtime::wall_micros()
    }

    fn timeuuid(&mut self) -> [u8; 16] {
        self.0.timeuuid()
    }

    fn uuid(&mut self) -> [u8; 16] {
        uuid::Builder::from_random_bytes(runtime::rng::bytes16()).into_uuid().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::NodeId;
    use runtime::sim::{Options, Sim};
    use std::time::Duration;

    #[test]
    fn shards_count_from_a_change_by_a_node_whose_clock_is_ahead_alike() {
        let mut sim = Sim::new(1, Options::default());
        sim.start_node(NodeId(1), 1, |_| async {
            let (one, other) = (Clock::new(), Clock::new());
            let floor = runtime::wall_micros() + 1_000_000;
            let ahead = one.ahead_for(floor);
            one.raise(floor, ahead);
            // The other shard hears of it later.
            runtime::sleep(Duration::from_millis(5)).await;
            other.raise(floor, ahead);
            let mut last = floor;
            for turn in 0..100 {
                // A write on one shard, then something on the other, a moment later.
                let clock = if turn % 2 == 0 { &one } else { &other };
                (0..turn).for_each(|_| _ = clock.timestamp());
                let timestamp = clock.timestamp();
                assert!(timestamp > last, "{timestamp} after {last}");
                last = timestamp;
                runtime::sleep(Duration::from_micros(200)).await;
            }
        });
        assert_eq!(sim.run_until(Duration::from_secs(5), || false), runtime::sim::Stop::Idle);
    }

    #[test]
    fn a_rounded_change_of_the_same_clock_puts_nobody_ahead() {
        let mut sim = Sim::new(1, Options::default());
        sim.start_node(NodeId(1), 1, |_| async {
            let clock = Clock::new();
            for _ in 0..1_000 {
                let floor = (clock.timestamp() + ROUNDING_MICROS - 1).div_euclid(ROUNDING_MICROS) * ROUNDING_MICROS;
                clock.raise(floor, clock.ahead_for(floor));
                runtime::sleep(Duration::from_millis(2)).await;
            }
            assert_eq!(clock.ahead.get(), 0);
        });
        assert_eq!(sim.run_until(Duration::from_secs(5), || false), runtime::sim::Stop::Idle);
    }
}
