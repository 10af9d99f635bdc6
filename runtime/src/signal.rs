//! Waiting for the signals that ask a process to stop.

use crate::context::{self, BackendContext};
use crate::sim;
use crate::sync::Latch;

/// Waits until the process is asked to stop, by SIGTERM or SIGINT or, in simulation, by the run. One shard of a node
/// waits here.
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
