//! The backend on the crate `glommio`: one of its executors per shard, which runs one driver task.
//!
//! 1. The driver polls the shard's own tasks for a slice, flushes dirty connections, publishes the queues to other
//!    shards, and gives the thread back to glommio: for one look at the rings if there is more to do, else until
//!    something rouses it.
//! 2. Everything that waits for the kernel is a glommio task of its own, which has the role of a slot of the ring in
//!    `uring`: it owns what the kernel may touch until the operation has ended, even if the waiting future is dropped.
//! 3. When such a task ends, it wakes a task of the shard, and then the driver.
//!
//! * `core.rs`: the state of a shard; `driver.rs`: the driver; `operations.rs`: operations; `doorbell.rs`: waking a
//!   shard.
//! * `socket.rs`, `stream.rs`: listeners and connections. `disk.rs`, `directory.rs`: files and names.
//! * `signal.rs`: stop signals.
//!
//! Threads, queues between shards and blocking calls are in `system/`. Differences to `uring`, which is the backend for
//! production: received bytes are copied, buffers of files are copied, a durable write is a write and a sync,
//! an idle shard spins only if it is pinned, and a file system without direct I/O is an error.
//!
//! Invariants: a shard's state is touched by its own thread only, except `Node`, the queues between shards and the
//! executor's inbox. `SIGPIPE` must be ignored, as Rust programs do, because glommio sends without `MSG_NOSIGNAL`.

mod core;
mod directory;
pub(crate) mod disk;
mod doorbell;
mod driver;
mod operations;
pub(crate) mod signal;
pub(crate) mod socket;
mod stream;

use self::core::Core;
use crate::context::{self, BackendContext, ShardContext};
use crate::executor::{self, Executor};
use crate::ids::{NodeId, ShardId};
use crate::system::Options;
use crate::system::node::Node;
use crate::system::thread::{self, abort};
use ::glommio::{GlommioError, LocalExecutor, LocalExecutorBuilder, Placement, PoolPlacement};
use doorbell::Doorbell;
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of file buffers registered with each of an executor's three rings. They count as locked memory; a transfer
/// that does not fit gets an allocated buffer.
const IO_MEMORY_BYTES: usize = 1 << 20;
/// Entries of each of the three rings.
const RING_DEPTH: usize = 256;

/// The context's handle on a shard's core; cheap to clone.
#[derive(Clone)]
pub(crate) struct Reactor {
    core: Rc<Core>,
}

/// Runs `main` on every shard, as [`crate::start`] says.
pub(crate) fn run<F, Fut, T>(options: Options, main: F) -> io::Result<Vec<T>>
where
    F: Fn(ShardId) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    thread::run(options, || Ok(Doorbell::default()), move |node, shard, cpu| run_shard(node, shard, cpu, &main))
}

/// Runs one shard from start to end; `None` if another shard could not start.
fn run_shard<F, Fut, T>(
    node: Arc<Node<Doorbell>>,
    shard: ShardId,
    cpu: Option<usize>,
    main: &F,
) -> io::Result<Option<T>>
where
    F: Fn(ShardId) -> Fut,
    Fut: Future<Output = T> + 'static,
    T: 'static,
{
    let prepared = make_executor(&node, cpu).and_then(|glommio| Ok((glommio, Core::new(node.clone(), shard)?)));
    let (glommio, core) = match prepared {
        Ok(prepared) => prepared,
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
    let backend = BackendContext::Glommio(Reactor { core: core.clone() });
    let context = Rc::new(ShardContext { executor, backend });
    let result = Rc::new(RefCell::new(None));
    let life = async {
        let entered = context::enter(Some(context.clone()));
        {
            let (result, node) = (result.clone(), node.clone());
            let main = main(shard);
            drop(executor::spawn(async move {
                *result.borrow_mut() = Some(main.await);
                node.main_returned();
            }));
        }
        driver::run(&core, &context.executor).await;
        drop(entered);
        context.executor.drop_tasks();
        let ended = driver::drain(&core, &context.executor).await;
        // Once all shards are here none sends wake-ups, so the executors can be dropped.
        node.stopped.wait();
        node.bell(shard).hang(None);
        ended
    };
    let ended = match catch_unwind(AssertUnwindSafe(|| glommio.run(life))) {
        Ok(ended) => ended,
        Err(panic) => abort(&format!("shard {shard}, {}", context.executor.last_polled()), &*panic),
    };
    if !ended {
        // The kernel may still write to memory that the operations own.
        std::mem::forget((core, glommio));
    }
    let result = result.borrow_mut().take();
    Ok(result)
}

fn make_executor(node: &Node<Doorbell>, cpu: Option<usize>) -> io::Result<LocalExecutor> {
    let placement = cpu.map_or(Placement::Unbound, Placement::Fixed);
    LocalExecutorBuilder::new(placement)
        .io_memory(IO_MEMORY_BYTES)
        .ring_depth(RING_DEPTH)
        // By default the pool runs on the CPU that the shard is pinned to.
        .blocking_thread_pool_placement(PoolPlacement::Unbound(1))
        .spin_before_park(node.spin)
        .make()
        .map_err(|e| match e {
            GlommioError::BuilderError(_) => io::Error::new(io::ErrorKind::InvalidInput, e.to_string()),
            e => error(e),
        })
}

/// The system's error behind an error of glommio, if there is one.
fn error(e: GlommioError<()>) -> io::Error {
    e.raw_os_error().map_or_else(|| e.into(), io::Error::from_raw_os_error)
}
