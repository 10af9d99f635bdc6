//! The slice: how long tasks run before the loop of a shard looks for completions again.
//!
//! A slice that begins with requests ends where maintenance would go on, so that their answers are sent before that;
//! one that begins with maintenance is short. So on a core that maintenance keeps busy a request waits for the slice in
//! which it arrives, and its answer for none.

use super::node::monotonic;
use crate::class::Class;
use crate::executor::Executor;
use std::cell::Cell;
use std::time::Duration;

/// The length of a slice.
const SLICE: Duration = Duration::from_micros(500);
/// The length of a slice that begins with maintenance.
const MAINTENANCE_SLICE: Duration = Duration::from_micros(200);
/// A poll that takes longer is logged, because it delays everything else on the core.
const STALL: Duration = Duration::from_millis(1);

/// Polls ready tasks until there are none or the slice is over.
pub(crate) fn run_slice(executor: &Executor) {
    let start = monotonic();
    let (mut before, mut served) = (start, None);
    let end = Cell::new(start.after(SLICE));
    executor.slice_end.set(end.get());
    let mut may_run = |class: Class| {
        let serves = matches!(class, Class::Foreground | Class::Log);
        if !serves && served.is_none() {
            end.set(start.after(MAINTENANCE_SLICE));
            executor.slice_end.set(end.get());
        }
        let begins_serving = *served.get_or_insert(serves);
        serves || !begins_serving
    };
    while before < end.get() && executor.poll_one_if(&mut may_run) {
        let after = monotonic();
        executor.charge(after.since(before).as_nanos() as u64);
        if !cfg!(debug_assertions) && after.since(before) > STALL {
            let micros = after.since(before).as_micros() as u64;
            tracing::warn!(shard = %executor.shard(), micros, "{} held its core", executor.last_polled());
        }
        before = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::yield_now;
    use crate::ids::{NodeId, ShardId};
    use std::cell::RefCell;
    use std::rc::Rc;

    type Polls = Rc<RefCell<Vec<Class>>>;

    fn executor() -> Rc<Executor> {
        Rc::new(Executor::new(NodeId(1), ShardId(0), 1, || {}))
    }

    /// Starts a task that is polled so many times, and notes each.
    fn start(executor: &Executor, class: Class, times: usize, polls: &Polls) {
        let polls = polls.clone();
        let task = async move {
            for left in (0..times).rev() {
                polls.borrow_mut().push(class);
                if left > 0 {
                    yield_now().await;
                }
            }
        };
        executor.spawn(class, Box::pin(task));
    }

    #[test]
    fn maintenance_does_not_go_on_before_the_answers_of_requests_are_sent() {
        let (executor, polls) = (executor(), Polls::default());
        start(&executor, Class::Foreground, 1, &polls);
        start(&executor, Class::Log, 1, &polls);
        start(&executor, Class::Background, 1, &polls);
        run_slice(&executor);
        assert_eq!(*polls.borrow(), [Class::Foreground, Class::Log]);
        run_slice(&executor);
        assert_eq!(*polls.borrow(), [Class::Foreground, Class::Log, Class::Background]);
    }

    #[test]
    fn what_maintenance_has_requests_do_runs_in_its_slice() {
        let (executor, polls) = (executor(), Polls::default());
        let (same, noted) = (executor.clone(), polls.clone());
        let task = async move {
            noted.borrow_mut().push(Class::Streaming);
            start(&same, Class::Foreground, 1, &noted);
        };
        executor.spawn(Class::Streaming, Box::pin(task));
        start(&executor, Class::Background, 1, &polls);
        run_slice(&executor);
        assert_eq!(*polls.borrow(), [Class::Streaming, Class::Foreground, Class::Background]);
    }
}
