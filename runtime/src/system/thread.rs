//! The threads of a node: one per shard, and those of the helper pool.

use super::helper_pool::{self, Priority};
use super::node::{Bell, Node};
use super::signal::Blocked;
use crate::ids::ShardId;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// How many shards a process has, and where they run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of shards, at least 1.
    pub shards: usize,
    /// The CPU of each shard; empty if shards are not pinned.
    pub cpus: Vec<usize>,
    /// How long an idle shard spins before it sleeps.
    pub spin: Duration,
    /// Threads for blocking calls of the whole node; at least one is started.
    pub helpers: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { shards: 1, cpus: Vec::new(), spin: Duration::from_micros(50), helpers: 2 }
    }
}

/// Threads for long calculations of the whole node.
const CALCULATORS: usize = 2;
/// How much lower than others their priority is, as `nice` counts.
const CALCULATORS_NICE: libc::c_int = 5;

/// Bytes of stack of a shard's thread; they are reserved, not touched.
const STACK_BYTES: usize = 8 << 20;

/// Runs `shard` on a thread per shard and returns the results in order. `bell` creates a shard's doorbell. Each `shard`
/// calls [`Start::fail`] or [`Start::ready`] of the node once, and returns `None` if another shard could not start.
///
/// [`Start::fail`]: super::node::Start::fail
/// [`Start::ready`]: super::node::Start::ready
pub(crate) fn run<B: Bell, T: Send + 'static>(
    options: Options,
    bell: impl Fn() -> io::Result<B>,
    shard: impl Fn(Arc<Node<B>>, ShardId, Option<usize>) -> io::Result<Option<T>> + Send + Sync + 'static,
) -> io::Result<Vec<T>> {
    let invalid = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    if options.shards == 0 || options.shards > u16::MAX as usize {
        return invalid("the number of shards must be 1 to 65535");
    }
    if !options.cpus.is_empty() && options.cpus.len() < options.shards {
        return invalid("fewer CPUs are named than there are shards");
    }
    let _blocked = Blocked::new()?;
    raise_open_files_limit();
    let bells = (0..options.shards).map(|_| bell()).collect::<io::Result<Vec<B>>>()?;
    let helpers = helper_pool::Pool::start(options.helpers.max(1), "helper", Priority::Normal)?;
    let calculators = helper_pool::Pool::start(CALCULATORS, "calculator", Priority::Low)?;
    let node = Arc::new(Node::new(&options, bells, helpers.queue(), calculators.queue()));
    let shard = Arc::new(shard);
    let mut threads = Vec::with_capacity(options.shards);
    let mut failure = None;
    for index in 0..options.shards {
        let (node_of_thread, shard) = (node.clone(), shard.clone());
        let cpu = options.cpus.get(index).copied();
        let spawned =
            std::thread::Builder::new().name(format!("shard-{index}")).stack_size(STACK_BYTES).spawn(move || {
                let body = AssertUnwindSafe(|| shard(node_of_thread, ShardId(index as u16), cpu));
                catch_unwind(body).unwrap_or_else(|panic| abort(&format!("shard {index}"), &*panic))
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
    calculators.stop();
    match failure {
        Some(e) => Err(e),
        None => Ok(results),
    }
}

/// Raises the soft limit of open files, often 1024, to the hard limit, because connections and SSTables take many.
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

/// Gives the current thread a lower priority than others; as it was before if the system does not allow it.
#[expect(unsafe_code, reason = "priorities of threads have no safe wrapper")]
pub(super) fn lower_priority() {
    // SAFETY: the call takes numbers only. On Linux it is about the calling thread alone.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, CALCULATORS_NICE) };
}

/// Pins the current thread to a CPU, if one is given.
#[expect(unsafe_code, reason = "affinity of a thread")]
pub(crate) fn pin(cpu: Option<usize>) -> io::Result<()> {
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

/// Names a panic and ends the process, because the state of a thread that has panicked is inconsistent.
#[expect(unsafe_code, reason = "a last line to standard error, past every lock")]
pub(crate) fn abort(what: &str, panic: &(dyn std::any::Any + Send)) -> ! {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("(no text)");
    tracing::error!("{what} panicked: {text}");
    let line = format!("{what} panicked: {text}\n");
    // SAFETY: the pointer and length are those of `line`.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
    std::process::abort()
}
