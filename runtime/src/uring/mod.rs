//! The production backend: one thread and one io_uring per shard.
//!
//! A turn of a shard's loop: fire timers, reap completions, take wake-ups and messages of other threads, run tasks for
//! one slice, flush dirty connections, publish the queues to other shards, submit, and wait. Before it sleeps, the
//! shard spins on memory (completion queue, `SQ_TASKRUN`, queue tails, inbox) for a while.
//!
//! * `ring.rs`: the io_uring itself; `operations.rs`: operations under way in it; `reactor.rs`: the loop.
//! * `socket.rs`, `stream.rs`, `receive_buffers.rs`: listeners, connections, and the buffers that the kernel fills.
//! * `disk.rs`: files. `signal.rs`: stop signals. `spin.rs`, `doorbell.rs`: before and after a shard's sleep.
//!
//! Threads, queues between shards and blocking calls are in `system/`.
//!
//! Invariants: a shard's state is touched by its own thread only, except `Node`, the queues between shards and the
//! executor's inbox; memory that the kernel may write lives until the operation has completed, even if the future that
//! waits is dropped.

pub mod disk;
mod doorbell;
mod operations;
mod reactor;
mod receive_buffers;
mod ring;
pub mod signal;
pub mod socket;
mod spin;
mod stream;
#[cfg(test)]
mod tests;

use crate::context::{self, BackendContext, ShardContext};
use crate::executor::{self, Executor};
use crate::ids::{NodeId, ShardId};
pub use crate::system::Options;
use crate::system::node::Node;
use crate::system::thread::{self, abort, pin};
use doorbell::Doorbell;
pub(crate) use reactor::Reactor;
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

/// Runs `main` on every shard, as [`crate::start`] says.
pub fn run<F, Fut, T>(options: Options, main: F) -> io::Result<Vec<T>>
where
    F: Fn(ShardId) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    thread::run(options, Doorbell::new, move |node, shard, cpu| run_shard(node, shard, cpu, &main))
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
    // Once all shards are here none sends wake-ups, so the rings can be dropped.
    node.stopped.wait();
    drop(context);
    drop(reactor);
    let result = result.borrow_mut().take();
    Ok(result)
}
