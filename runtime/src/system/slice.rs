//! How long the tasks of a shard run before its backend looks at the world again.

use super::node::monotonic;
use crate::executor::Executor;
use std::time::Duration;

/// How long tasks run before connections are flushed and completions reaped again.
const SLICE: Duration = Duration::from_micros(500);
/// A poll longer than this is logged: it delays everything else on the core.
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
