//! The current shard, in a thread-local variable: a backend sets it while it polls tasks, and every free function of
//! this crate reads it.

use crate::executor::Executor;
#[cfg(feature = "glommio")]
use crate::glommio;
use crate::instant::Instant;
use crate::system;
use crate::{sim, uring};
use std::cell::RefCell;
use std::rc::Rc;

/// A shard, as its tasks reach it.
pub(crate) struct ShardContext {
    pub(crate) executor: Executor,
    pub(crate) backend: BackendContext,
}

pub(crate) enum BackendContext {
    Uring(uring::Reactor),
    #[cfg(feature = "glommio")]
    Glommio(glommio::Reactor),
    Sim(sim::Shard),
}

/// Which backend the current shard runs on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Uring,
    #[cfg(feature = "glommio")]
    Glommio,
    Sim,
}

impl ShardContext {
    /// The parts that shards of a real machine have. Panics in simulation.
    pub(crate) fn system(&self) -> &system::Shard {
        match &self.backend {
            BackendContext::Uring(r) => r.system(),
            #[cfg(feature = "glommio")]
            BackendContext::Glommio(r) => r.system(),
            BackendContext::Sim(_) => panic!("an object of a real machine is used in a simulation"),
        }
    }

    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self.backend, BackendContext::Sim(_))
    }

    /// The number of operations that the kernel or glommio has not completed.
    #[cfg(test)]
    pub(crate) fn operations_under_way(&self) -> usize {
        match &self.backend {
            BackendContext::Uring(r) => r.under_way(),
            #[cfg(feature = "glommio")]
            BackendContext::Glommio(r) => r.under_way(),
            BackendContext::Sim(_) => panic!("asked in a simulation"),
        }
    }

    pub(crate) fn monotonic(&self) -> Instant {
        match &self.backend {
            BackendContext::Uring(r) => r.monotonic(),
            #[cfg(feature = "glommio")]
            BackendContext::Glommio(r) => r.monotonic(),
            BackendContext::Sim(s) => s.monotonic(),
        }
    }

    pub(crate) fn wall_micros(&self) -> i64 {
        match &self.backend {
            BackendContext::Uring(r) => r.wall_micros(),
            #[cfg(feature = "glommio")]
            BackendContext::Glommio(r) => r.wall_micros(),
            BackendContext::Sim(s) => s.wall_micros(),
        }
    }
}

/// The backend of the current shard. Panics outside a shard.
pub(crate) fn backend() -> Backend {
    with(|c| match c.backend {
        BackendContext::Uring(_) => Backend::Uring,
        #[cfg(feature = "glommio")]
        BackendContext::Glommio(_) => Backend::Glommio,
        BackendContext::Sim(_) => Backend::Sim,
    })
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<ShardContext>>> = const { RefCell::new(None) };
}

/// Runs `f` with the current shard. Panics outside a shard.
pub(crate) fn with<R>(f: impl FnOnce(&ShardContext) -> R) -> R {
    try_with(f).expect("runtime function called outside a shard")
}

/// Runs `f` with the current shard, if there is one. There is none while the tasks of a stopped or crashed node are
/// dropped.
pub(crate) fn try_with<R>(f: impl FnOnce(&ShardContext) -> R) -> Option<R> {
    CURRENT.try_with(|current| current.try_borrow().ok()?.as_deref().map(f)).ok().flatten()
}

/// Makes `context` the current shard until the returned guard is dropped, which restores the previous one.
pub(crate) fn enter(context: Option<Rc<ShardContext>>) -> Entered {
    Entered { before: CURRENT.with(|current| current.replace(context)) }
}

pub(crate) struct Entered {
    before: Option<Rc<ShardContext>>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.before.take();
        CURRENT.with(|current| *current.borrow_mut() = before);
    }
}
