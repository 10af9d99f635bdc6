//! The production backend: one thread and one io_uring per shard.
//!
//! Loop of a shard: fire timers, reap completions, take wake-ups and messages of others, run tasks for one slice, flush
//! dirty connections, publish cross-core queues, submit and wait; before sleeping it watches memory (completion queue,
//! `SQ_TASKRUN`, queue tails, inbox) for a while.
//!
//! * `ring.rs`: the io_uring itself; `operations.rs`: what is under way in it; `reactor.rs`: the loop.
//! * `socket.rs`, `stream.rs`, `lent.rs`: listeners, connections, buffers that the kernel fills.
//! * `disk.rs`: files through the ring. `signal.rs`: orderly termination. `doorbell.rs`: the end of a shard's sleep.
//!
//! Threads, queues between shards and blocking calls are those of `system/`.
//!
//! Invariants: everything of a shard is touched by its thread alone, except `Node`, the queues between shards
//! and the executor's inbox; what the kernel may write outlives the operation, whoever drops the future.

pub mod disk;
mod doorbell;
mod lent;
mod operations;
mod reactor;
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

/// The life of one shard; `None` if another shard could not start.
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
    // No shard sends wake-ups any more once all have come here, so that the rings may go.
    node.stopped.wait();
    drop(context);
    drop(reactor);
    let result = result.borrow_mut().take();
    Ok(result)
}
