//! The bounded pool for calls that block: directory listings, small files, locks.
//!
//! A job runs on one of a few threads of the node and its result wakes the task through the executor's inbox.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;

pub(super) type Job = Box<dyn FnOnce() + Send>;

/// Jobs that may wait for a helper, per node; one more is refused.
pub(super) const QUEUE_MAX: usize = 256;

pub(super) struct Pool {
    queue: flume::Sender<Job>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    pub(super) fn start(threads: usize) -> io::Result<Pool> {
        let (queue, jobs) = flume::bounded::<Job>(QUEUE_MAX);
        let mut pool = Pool { queue, threads: Vec::with_capacity(threads) };
        for index in 0..threads {
            let jobs = jobs.clone();
            let thread = std::thread::Builder::new().name(format!("helper-{index}")).spawn(move || {
                for job in jobs.iter() {
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
                        super::abort(&format!("helper {index}"), &*panic);
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

    pub(super) fn queue(&self) -> flume::Sender<Job> {
        self.queue.clone()
    }

    /// Waits for the jobs under way. All other senders are gone.
    pub(super) fn stop(self) {
        drop(self.queue);
        for thread in self.threads {
            thread.join().expect("a panic on a helper aborts");
        }
    }
}

struct Shared<T> {
    value: Option<T>,
    waiter: Option<Waker>,
}

/// Runs `call` on a helper thread. `WouldBlock` if too many calls wait already. A dropped future lets the call go on.
pub(super) fn call<T: Send + 'static>(
    queue: &flume::Sender<Job>,
    call: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Call<T> {
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
    if queue.try_send(job).is_err() {
        let full = io::Error::new(io::ErrorKind::WouldBlock, "too many blocking calls wait");
        shared.lock().expect("nothing panics here").value = Some(Err(full));
    }
    Call { shared }
}

pub(super) struct Call<T> {
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
