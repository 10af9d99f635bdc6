//! The driver: the glommio task that polls the shard's tasks.
//!
//! A turn: fire timers, take wake-ups and messages of other threads, run tasks for one slice, flush dirty connections,
//! publish the queues to other shards. Then:
//!
//! 1. If there is more to do, the driver waits for a timer that is due at once, so that glommio looks at its rings. If
//!    the driver woke itself, glommio would poll it again without looking.
//! 2. If there is nothing to do, the driver sets the sleep flag, looks once more at everything that could have arrived,
//!    and waits for the next timer of a task, for an operation of the shard, or for the bell.
//!
//! glommio 0.9.0 may park although a task is runnable: if preemption is due when it starts to run tasks, it believes
//! that there are none. A second timer, the watch, is therefore always armed and ends such a sleep within [`WATCH`].

use super::core::Core;
use crate::executor::Executor;
use crate::instant::Instant;
use crate::system::node::monotonic;
use crate::system::slice::run_slice;
use ::glommio::timer::{Timer, sleep};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The longest sleep of a shard.
const WATCH: Duration = Duration::from_millis(50);
/// The delay of a timer that makes glommio look at its rings; without a delay it would not wait for the timer.
const AT_ONCE: Duration = Duration::from_nanos(500);
/// How long a stop waits for sends before it cancels them.
const DRAIN_SENDS: Duration = Duration::from_secs(1);
/// How long a stop waits for operations before it leaks their memory.
const DRAIN_ALL: Duration = Duration::from_secs(10);
/// How often a stop checks whether operations have ended.
const DRAIN_STEP: Duration = Duration::from_millis(1);

/// A glommio timer that is armed again and again.
struct Alarm {
    timer: Timer,
    due: Instant,
}

impl Alarm {
    fn new() -> Alarm {
        Alarm { timer: Timer::new(Duration::ZERO), due: Instant(0) }
    }

    /// Wakes the driver at `due`.
    fn set(&mut self, now: Instant, due: Instant, cx: &mut Context<'_>) {
        if self.due == due && due > now {
            return;
        }
        self.due = due;
        self.timer.reset(due.since(now));
        if Pin::new(&mut self.timer).poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }
}

/// Runs until the `main` of every shard has returned. The caller has entered the shard.
pub(super) async fn run(core: &Rc<Core>, executor: &Executor) {
    let (mut alarm, mut watch) = (Alarm::new(), Alarm::new());
    std::future::poll_fn(|cx| {
        if watch.due == Instant(0) {
            core.set_driver(Some(cx.waker().clone()));
        }
        core.node.awake(core.shard);
        core.in_turn.set(true);
        let now = monotonic();
        executor.fire_timers(now);
        executor.drain_inbox();
        core.system.hooks.deliver();
        run_slice(executor);
        core.flush();
        core.publish();
        core.in_turn.set(false);
        if core.node.all_returned() {
            return Poll::Ready(());
        }
        let now = monotonic();
        if watch.due < now.after(WATCH / 2) {
            watch.set(now, now.after(WATCH), cx);
        }
        if !has_work(core, executor) {
            core.node.fall_asleep(core.shard);
            if !has_news(core, executor) {
                if let Some(deadline) = executor.next_deadline() {
                    alarm.set(now, deadline.max(now.after(AT_ONCE)), cx);
                }
                return Poll::Pending;
            }
            core.node.awake(core.shard);
        }
        alarm.set(now, now.after(AT_ONCE), cx);
        Poll::Pending
    })
    .await;
}

fn has_work(core: &Core, executor: &Executor) -> bool {
    executor.has_ready() || !core.dirty.is_empty()
}

/// Whether other threads have left anything for the next turn. Reads memory only.
fn has_news(core: &Core, executor: &Executor) -> bool {
    executor.inbox_filled() || core.system.hooks.has_news() || core.node.all_returned()
}

/// Waits for all operations to end; false if some do not. The caller has dropped all tasks.
pub(super) async fn drain(core: &Rc<Core>, executor: &Executor) -> bool {
    core.publish();
    core.system.hooks.clear();
    core.flush();
    core.stopping.set(true);
    core.signal.stop();
    let start = monotonic();
    let mut cut = false;
    while core.under_way.get() > 0 {
        let waited = monotonic().since(start);
        if waited > DRAIN_ALL {
            tracing::error!(shard = %core.shard, "operations do not end, their memory is leaked");
            core.set_driver(None);
            return false;
        }
        if waited > DRAIN_SENDS && !std::mem::replace(&mut cut, true) {
            let senders: Vec<_> = core.senders.borrow().values().cloned().collect();
            senders.iter().for_each(|connection| connection.cut());
        }
        sleep(DRAIN_STEP).await;
        core.flush();
    }
    // What the last operations closed and cancelled reaches the kernel with the next look at the rings.
    sleep(DRAIN_STEP).await;
    executor.drain_inbox();
    core.set_driver(None);
    true
}
