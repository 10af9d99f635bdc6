//! Rare branches made common in simulation. Outside it every call is a branch on a flag that is never set.

use crate::context::{self, BackendContext};

/// True now and then in simulation (a quarter of the sites is enabled per run, and fires a quarter of the time), never
/// outside. `site` names the place.
pub fn buggify(site: &'static str) -> bool {
    context::try_with(|c| match &c.backend {
        BackendContext::Sim(s) => s.buggify(site),
        _ => false,
    })
    .unwrap_or(false)
}

/// Records that a place worth reaching was reached, for the run's coverage report.
pub fn reached(site: &'static str) {
    context::try_with(|c| {
        if let BackendContext::Sim(s) = &c.backend {
            s.reached(site);
        }
    });
}

/// Whether the current shard runs in the simulator: what production survives, a run must fail on.
pub fn is_simulated() -> bool {
    context::with(|c| matches!(c.backend, BackendContext::Sim(_)))
}
