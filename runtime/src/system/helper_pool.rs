//! Bounded pools of threads: one for calls that block (directory listings, small files, locks), and one for long
//! calculations.
//!
//! A job runs on one of the pool's few threads; its result wakes the waiting task through the executor's inbox.

use crate::context;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce() + Send>;
/// The queue of jobs; `None` ends one helper.
pub(crate) type JobQueue = flume::Sender<Option<Job>>;

/// How much of a CPU the threads of a pool get beside others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Priority {
    /// As much as shards.
    Normal,
    /// What shards leave, and a small share.
    Low,
}

/// The most jobs that may wait for a helper of the node; one more is refused.
const QUEUE_MAX: usize = 256;

pub(super) struct Pool {
    queue: JobQueue,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts `threads` threads, whose names begin with `name`. Those of lower `priority` do not keep shards from their
    /// CPUs.
    pub(super) fn start(threads: usize, name: &str, priority: Priority) -> io::Result<Pool> {
        let (queue, jobs) = flume::bounded::<Option<Job>>(QUEUE_MAX);
        let mut pool = Pool { queue, threads: Vec::with_capacity(threads) };
        for index in 0..threads {
            let jobs = jobs.clone();
            let thread = std::thread::Builder::new().name(format!("{name}-{index}")).spawn(move || {
                if priority == Priority::Low {
                    super::thread::lower_priority();
                }
                while let Ok(Some(job)) = jobs.recv() {
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
                        super::thread::abort(&format!("helper {index}"), &*panic);
                    }
                }
            });
            match thread {
                Ok(thread) => pool.threads.push(thread),
                Err(e) => {
                    pool.stop();
                    return Err(e);
                }
            }
        }
        Ok(pool)
    }

    pub(crate) fn queue(&self) -> JobQueue {
        self.queue.clone()
    }

    /// Waits for the jobs that are queued or under way, then ends the helpers.
    pub(super) fn stop(self) {
        for _ in &self.threads {
            self.queue.send(None).expect("this pool holds a receiver's thread");
        }
        for thread in self.threads {
            thread.join().expect("a panic on a helper aborts");
        }
    }
}

struct Shared<T> {
    value: Option<T>,
    waiter: Option<Waker>,
}

/// Runs a blocking call on a helper thread of the current node. `WouldBlock` if too many calls wait. The call goes on
/// if the future is dropped.
pub(crate) async fn run<T: Send + 'static>(blocking: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let running = context::with(|c| call(&c.system().helpers, blocking));
    running.await
}

/// Runs a long calculation on a thread of its own pool, see [`run`].
pub(crate) async fn calculate<T: Send + 'static>(
    calculation: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let running = context::with(|c| call(&c.system().calculators, calculation));
    running.await
}

/// Queues `call` for a helper thread, see [`run`].
fn call<T: Send + 'static>(queue: &JobQueue, call: impl FnOnce() -> io::Result<T> + Send + 'static) -> Call<T> {
    let shared = Arc::new(Mutex::new(Shared { value: None, waiter: None }));
    let result = shared.clone();
    let job: Job = Box::new(move || {
        let value = call();
        let waiter = {
            let mut shared = result.lock().expect("nothing panics here");
            shared.value = Some(value);
            shared.waiter.take()
        };
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    });
    if queue.try_send(Some(job)).is_err() {
        let full = io::Error::new(io::ErrorKind::WouldBlock, "too many blocking calls wait");
        shared.lock().expect("nothing panics here").value = Some(Err(full));
    }
    Call { shared }
}

struct Call<T> {
    shared: Arc<Mutex<Shared<io::Result<T>>>>,
}

impl<T> Future for Call<T> {
    type Output = io::Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let mut shared = self.shared.lock().expect("nothing panics here");
        match shared.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                shared.waiter = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_full_queue_refuses_one_more() {
        let pool = Pool::start(1, "test", Priority::Low).unwrap();
        let (started, running) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let queue = pool.queue();
        // The only helper is busy, so that the jobs that follow stay in the queue.
        let held = call(&queue, move || {
            started.send(()).unwrap();
            released.recv().unwrap();
            Ok(0)
        });
        running.recv().unwrap();
        let waiting: Vec<_> = (0..QUEUE_MAX).map(|i| call(&queue, move || Ok(i))).collect();
        let value = |call: &Call<usize>| call.shared.lock().unwrap().value.take();
        assert!(waiting.iter().all(|call| value(call).is_none()), "up to the limit all wait");
        let refused = value(&call(&queue, || Ok(0))).unwrap();
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        release.send(()).unwrap();
        pool.stop();
        assert_eq!(value(&held).unwrap().unwrap(), 0);
        assert!(waiting.iter().enumerate().all(|(i, call)| value(call).unwrap().unwrap() == i));
    }
}
