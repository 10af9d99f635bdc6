//! Orderly termination.

use crate::context::{self, BackendContext};
use crate::sim;
use crate::sync::Latch;

/// Completes when the process is asked to stop (SIGTERM or SIGINT); in simulation when the run stops the node.
/// One task of one shard per node waits here.
pub async fn terminated() {
    enum Stop {
        Signal(Latch),
        Simulated(sim::Terminated),
    }
    let stop = context::with(|c| match &c.backend {
        BackendContext::Uring(r) => Stop::Signal(r.terminated()),
        #[cfg(feature = "glommio")]
        BackendContext::Glommio(r) => Stop::Signal(r.terminated()),
        BackendContext::Sim(s) => Stop::Simulated(s.terminated()),
    });
    match stop {
        Stop::Signal(latch) => latch.wait().await,
        Stop::Simulated(terminated) => terminated.await,
    }
}
