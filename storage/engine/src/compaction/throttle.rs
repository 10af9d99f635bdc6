//! Limits how fast a task in the background reads or sends: a shard's compactions to its part of
//! `compaction_throughput`, hints to their part of `hinted_handoff_throttle`.
//!
//! Bytes are paid for afterwards: a task that has taken more than the rate allows waits until time has made up for it.
//! It waits in short pieces, so that a changed rate or a stopping node take effect soon. Unused time is not saved up.

use runtime::Instant;
use runtime::gate::Gate;
use std::cell::Cell;
use std::time::Duration;

/// Longest pause before the limit and the gate are looked at again.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// The limit, and the bytes that are still to be paid for with time.
#[derive(Default)]
pub struct Throttle {
    /// The limit; 0 means unlimited.
    bytes_per_second: Cell<u64>,
    /// Bytes that were taken and not yet paid for, as of `looked_at`.
    owed_bytes: Cell<u64>,
    looked_at: Cell<Instant>,
}

impl Throttle {
    /// Sets the limit, bytes per second; 0 means unlimited.
    pub fn set(&self, bytes_per_second: u64) {
        self.look();
        self.bytes_per_second.set(bytes_per_second);
    }

    /// Counts `bytes` as taken and returns when more may be taken, or at once if the gate is shut.
    pub async fn read(&self, bytes: u64, gate: &Gate) {
        self.look();
        self.owed_bytes.set(self.owed_bytes.get().saturating_add(bytes));
        while !gate.is_closed() {
            let (owed, rate) = (self.owed_bytes.get(), self.bytes_per_second.get());
            if owed == 0 || rate == 0 {
                return;
            }
            let wait = Duration::from_secs_f64(owed as f64 / rate as f64);
            runtime::sleep(wait.min(WAIT_MAX)).await;
            self.look();
        }
    }

    /// Counts `bytes` as taken without waiting.
    pub fn charge(&self, bytes: u64) {
        self.look();
        self.owed_bytes.set(self.owed_bytes.get().saturating_add(bytes));
    }

    /// Deducts the bytes that the time since the last call has paid for.
    fn look(&self) {
        let now = runtime::now();
        let passed = now.since(self.looked_at.replace(now));
        let rate = self.bytes_per_second.get();
        let paid = match rate {
            0 => u64::MAX,
            rate => (passed.as_secs_f64() * rate as f64).ceil() as u64,
        };
        self.owed_bytes.set(self.owed_bytes.get().saturating_sub(paid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::mesh::NodeId;
    use runtime::sim::{Options, Sim};

    #[test]
    fn reads_take_as_long_as_the_rate_says() {
        let mut sim = Sim::new(1, Options::default());
        sim.run_node(NodeId(1), Duration::from_secs(600), || async {
            let (throttle, gate) = (Throttle::default(), Gate::new());
            let took = async |bytes: u64| {
                let begun = runtime::now();
                throttle.read(bytes, &gate).await;
                runtime::now().since(begun)
            };
            assert!(took(1 << 40).await < Duration::from_millis(1), "no rate");
            throttle.set(1 << 20);
            let whole = took(1 << 20).await + took(1 << 20).await;
            assert!((1900..2200).contains(&whole.as_millis()), "{whole:?}");
            // Idle time is not saved up.
            runtime::sleep(Duration::from_secs(60)).await;
            let later = took(1 << 20).await;
            assert!((900..1100).contains(&later.as_millis()), "{later:?}");
            gate.shut();
            assert!(took(1 << 40).await < Duration::from_millis(1), "stopping");
        });
    }
}
