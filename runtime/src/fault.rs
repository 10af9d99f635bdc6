//! Makes rare branches common in simulation. On a real machine each call is one branch that is never taken.

use crate::context::{self, BackendContext};

/// Whether to take a rare branch: at random in simulation, never on a real machine. `site` names the branch; a quarter
/// of the sites is enabled per run, and an enabled site fires a quarter of the time.
pub fn buggify(site: &'static str) -> bool {
    context::try_with(|c| match &c.backend {
        BackendContext::Sim(s) => s.buggify(site),
        _ => false,
    })
    .unwrap_or(false)
}

/// Records in simulation that the run has reached `site`, for its coverage report.
pub fn reached(site: &'static str) {
    context::try_with(|c| {
        if let BackendContext::Sim(s) = &c.backend {
            s.reached(site);
        }
    });
}

/// Tells the simulator what this node believes about something that all nodes must believe the same about: place `at`
/// of a `history`. A node that contradicts an earlier one, or itself, is what [`crate::sim::Sim::contradiction`] then
/// says. On a real machine `belief` is not asked.
pub fn believe(history: u128, at: u64, belief: impl FnOnce() -> u64) {
    context::try_with(|c| {
        if let BackendContext::Sim(s) = &c.backend {
            s.believe(history, at, belief());
        }
    });
}

/// Whether the current shard runs in the simulator, where a fault that production survives must fail the run.
pub fn is_simulated() -> bool {
    context::with(|c| matches!(c.backend, BackendContext::Sim(_)))
}
