//! Orderly termination.

use crate::context::{self, BackendContext};

/// Completes when the process is asked to stop (SIGTERM or SIGINT); in simulation when the run stops the node.
/// One task of one shard per node waits here.
pub async fn terminated() {
    enum Backend {
        Uring(crate::uring::signal::Terminated),
        #[cfg(feature = "glommio")]
        Glommio(crate::glommio::signal::Terminated),
        Sim(crate::sim::Terminated),
    }
    let wait = context::with(|c| match &c.backend {
        BackendContext::Uring(r) => Backend::Uring(r.terminated()),
        #[cfg(feature = "glommio")]
        BackendContext::Glommio(r) => Backend::Glommio(r.terminated()),
        BackendContext::Sim(s) => Backend::Sim(s.terminated()),
    });
    match wait {
        Backend::Uring(wait) => wait.await,
        #[cfg(feature = "glommio")]
        Backend::Glommio(wait) => wait.await,
        Backend::Sim(wait) => wait.await,
    }
}
