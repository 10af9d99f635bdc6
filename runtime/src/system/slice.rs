//! The slice: how long tasks run before the loop of a shard looks for completions again.

use super::node::monotonic;
use crate::executor::Executor;
use std::time::Duration;

/// The length of a slice.
const SLICE: Duration = Duration::from_micros(500);
/// A poll that takes longer is logged, because it delays everything else on the core.
const STALL: Duration = Duration::from_millis(1);

/// Polls ready tasks until there are none or the slice is over.
pub(crate) fn run_slice(executor: &Executor) {
    let mut before = monotonic();
    let end = before.after(SLICE);
    executor.slice_end.set(end);
    while before < end && executor.poll_one() {
        let after = monotonic();
        executor.charge(after.since(before).as_nanos() as u64);
        if !cfg!(debug_assertions) && after.since(before) > STALL {
            let micros = after.since(before).as_micros() as u64;
            tracing::warn!(shard = %executor.shard(), micros, "{} held its core", executor.last_polled());
        }
        before = after;
    }
}
