//! The production backend: one thread and one io_uring per shard.
//!
//! Loop of a shard: fire timers, reap completions, take wake-ups and messages of others, run tasks for one slice, flush
//! dirty connections, publish cross-core queues, submit and wait; before sleeping it watches memory (completion queue,
//! `SQ_TASKRUN`, queue tails, inbox) for a while.
//!
//! * `ring.rs`: the io_uring itself; `operations.rs`: what is under way in it; `reactor.rs`: the loop.
//! * `socket.rs`, `stream.rs`, `lent.rs`: listeners, connections, buffers that the kernel fills.
//! * `disk.rs`, `helper.rs`: files through the ring, blocking calls on helper threads.
//! * `mesh.rs`, `spsc.rs`: queues between shards. `signal.rs`: orderly termination.
//!
//! Invariants: everything of a shard is touched by its thread alone, except `node::Node`, the queues between shards
//! and the executor's inbox; what the kernel may write outlives the operation, whoever drops the future.

pub mod disk;
mod helper;
mod lent;
pub(crate) mod local;
pub mod mesh;
mod node;
mod operations;
mod reactor;
mod ring;
pub mod signal;
pub mod socket;
mod spsc;
mod stream;
#[cfg(test)]
mod tests;

use crate::context::{self, BackendContext, ShardContext};
use crate::executor::{self, Executor};
use crate::mesh::{NodeId, ShardId};
use node::Node;
pub(crate) use reactor::Reactor;
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How the shards of a process run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Shards, at least 1.
    pub shards: usize,
    /// The CPU of each shard; empty: not pinned.
    pub cpus: Vec<usize>,
    /// How long an idle shard watches memory before it sleeps.
    pub spin: Duration,
    /// Threads of the bounded pool for blocking calls of the whole node.
    pub helpers: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { shards: 1, cpus: Vec::new(), spin: Duration::from_micros(50), helpers: 2 }
    }
}

/// Bytes of stack of a shard's thread (reserved, not touched).
const STACK_BYTES: usize = 8 << 20;

/// Runs `main` on every shard and returns when all of them have returned; tasks they leave behind are dropped.
/// An error if a ring or a thread cannot be made, or if `options` do not fit (no shard, too few CPUs named, a CPU that
/// does not exist). A panic on any shard aborts the process after naming shard and task.
///
/// SIGTERM and SIGINT are blocked on all threads that this starts; [`crate::signal::terminated`] receives them. Threads
/// that the caller started earlier should block them too. The soft limit of open files is raised to the hard one.
pub fn run<F, Fut, T>(options: Options, main: F) -> io::Result<Vec<T>>
where
    F: Fn(ShardId) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let invalid = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    if options.shards == 0 || options.shards > u16::MAX as usize {
        return invalid("the number of shards must be 1 to 65535");
    }
    if !options.cpus.is_empty() && options.cpus.len() < options.shards {
        return invalid("fewer CPUs are named than there are shards");
    }
    let _blocked = signal::Blocked::new()?;
    raise_open_files_limit();
    let helpers = helper::Pool::start(options.helpers.max(1))?;
    let node = Arc::new(Node::new(&options, helpers.queue())?);
    let main = Arc::new(main);
    let mut threads = Vec::with_capacity(options.shards);
    let mut failure = None;
    for shard in 0..options.shards {
        let (node_of_thread, main) = (node.clone(), main.clone());
        let cpu = options.cpus.get(shard).copied();
        let spawned =
            std::thread::Builder::new().name(format!("shard-{shard}")).stack_size(STACK_BYTES).spawn(move || {
                let shard = ShardId(shard as u16);
                let body = AssertUnwindSafe(|| run_shard(node_of_thread, shard, cpu, main));
                catch_unwind(body).unwrap_or_else(|panic| abort(&format!("shard {shard}"), &*panic))
            });
        match spawned {
            Ok(thread) => threads.push(thread),
            Err(e) => {
                failure = Some(e);
                node.start.fail();
                break;
            }
        }
    }
    let mut results = Vec::with_capacity(threads.len());
    for thread in threads {
        match thread.join().expect("a panic on a shard aborts") {
            Ok(Some(result)) => results.push(result),
            Ok(None) => {}
            Err(e) => failure = failure.or(Some(e)),
        }
    }
    drop(node);
    helpers.stop();
    match failure {
        Some(e) => Err(e),
        None => Ok(results),
    }
}

/// The life of one shard; `None` if another shard could not start.
fn run_shard<F, Fut, T>(node: Arc<Node>, shard: ShardId, cpu: Option<usize>, main: Arc<F>) -> io::Result<Option<T>>
where
    F: Fn(ShardId) -> Fut,
    Fut: Future<Output = T> + 'static,
    T: 'static,
{
    let prepared = pin(cpu).and_then(|()| Reactor::new(node.clone(), shard));
    let reactor = match prepared {
        Ok(reactor) => reactor,
        Err(e) => {
            node.start.fail();
            return Err(io::Error::new(e.kind(), format!("shard {shard}: {e}")));
        }
    };
    if !node.start.ready(node.shards()) {
        return Ok(None);
    }
    let rouse_node = node.clone();
    let executor = Executor::new(NodeId(0), shard, node.shards(), move || rouse_node.rouse(shard));
    let context = Rc::new(ShardContext { executor, backend: BackendContext::Uring(reactor.clone()) });
    let result = Rc::new(RefCell::new(None));
    let entered = context::enter(Some(context.clone()));
    {
        let (result, node) = (result.clone(), node.clone());
        let main = main(shard);
        drop(executor::spawn(async move {
            *result.borrow_mut() = Some(main.await);
            node.main_returned();
        }));
    }
    let looped = catch_unwind(AssertUnwindSafe(|| reactor.run(&context.executor)));
    if let Err(panic) = looped {
        abort(&format!("shard {shard}, {}", context.executor.last_polled()), &*panic);
    }
    drop(entered);
    context.executor.drop_tasks();
    reactor.drain(&context.executor);
    // No shard sends wake-ups any more once all have come here, so that the rings may go.
    node.stopped.wait();
    drop(context);
    drop(reactor);
    let result = result.borrow_mut().take();
    Ok(result)
}

/// Raises the soft limit of open files, often 1024, to the hard limit: connections and SSTables take one each.
#[expect(unsafe_code, reason = "resource limits have no safe wrapper")]
fn raise_open_files_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls take a pointer to a valid rlimit; the first writes it.
    let result = unsafe {
        match libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) {
            0 if limit.rlim_cur < limit.rlim_max => {
                limit.rlim_cur = limit.rlim_max;
                libc::setrlimit(libc::RLIMIT_NOFILE, &limit)
            }
            result => result,
        }
    };
    if result != 0 {
        tracing::warn!("the limit of open files stays as it is: {}", io::Error::last_os_error());
    }
}

#[expect(unsafe_code, reason = "affinity of a thread")]
fn pin(cpu: Option<usize>) -> io::Result<()> {
    let Some(cpu) = cpu else { return Ok(()) };
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no CPU {cpu}")));
    }
    // SAFETY: a cpu_set_t is plain bits, `cpu` is in its range, and the call reads it.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if result == 0 {
        return Ok(());
    }
    let e = io::Error::last_os_error();
    Err(io::Error::new(e.kind(), format!("cannot run on CPU {cpu}: {e}")))
}

/// Ends the process: the state of a thread that panicked is torn.
#[expect(unsafe_code, reason = "a last line to standard error, past every lock")]
fn abort(what: &str, panic: &(dyn std::any::Any + Send)) -> ! {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("(no text)");
    tracing::error!("{what} panicked: {text}");
    let line = format!("{what} panicked: {text}\n");
    // SAFETY: the pointer and length are those of `line`.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
    std::process::abort()
}
