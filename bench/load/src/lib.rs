//! A load generator for servers that speak the CQL protocol: `helenus bench`.
//!
//! 1. [`arguments`] or [`stress`] turns a command line into a [`plan::Plan`].
//! 2. [`execute`] runs the plan on the `uring` backend, with one [`driver`] per thread; in simulation [`driver::run`]
//!    is the main function of a simulated node.
//! 3. An [`outcome::Outcome`] adds up what the threads measured and holds the [`verdict`]; [`report`] writes it.
//!
//! Invariants: the arrivals of an open loop are fixed in advance and none is skipped; response time counts from the due
//! time; values are computed from keys, so that wrong answers are noticed.

pub mod arguments;
pub mod commands;
pub mod compare;
pub mod connection;
pub mod driver;
pub mod encryption;
pub mod errors;
mod judge;
pub mod keys;
mod meters;
pub mod outcome;
pub mod plan;
pub mod progress;
pub mod recorder;
pub mod reply;
pub mod report;
mod routing;
pub mod schedule;
pub mod search;
pub mod session;
pub mod sessions;
pub mod shards;
pub mod shared;
pub mod statement;
pub mod stress;
pub mod values;
pub mod verdict;
pub mod warmup;
pub mod workload;

pub use commands::run as bench;

use keys::Distribution;
use outcome::Outcome;
use plan::{Length, Pace, Plan, Warmup};
use std::sync::Arc;

/// Runs a plan; if it asks for that, writes every key first. The error says why there was no run.
pub fn execute(plan: &Plan) -> Result<Outcome, String> {
    if plan.data.populate {
        let outcome = once(&population(plan))?;
        if outcome.total.failed() > 0 {
            let texts: Vec<&str> = outcome.error_texts.iter().map(|(_, text)| text.as_str()).collect();
            return Err(format!(
                "{} writes failed while the tables were filled: {}",
                outcome.total.failed(),
                texts.join("; ")
            ));
        }
        let mut rest = plan.clone();
        rest.data.truncate = false;
        return once(&rest);
    }
    once(plan)
}

/// The plan that fills the tables of `plan`: writes every key once, as fast as possible.
fn population(plan: &Plan) -> Plan {
    let mut filling = plan.clone();
    let workload = workload::of(&plan.data);
    filling.pace = Pace::Closed;
    filling.warmup = Warmup::None;
    filling.length = Length::Operations(workload.fill(plan.data.keys));
    filling.data.distribution = Distribution::Sequential;
    filling.data.ratio = vec![(workload.kinds()[0].name.to_string(), 1.0)];
    filling.data.missing_is_error = false;
    filling
}

fn once(plan: &Plan) -> Result<Outcome, String> {
    plan.check()?;
    let options =
        runtime::uring::Options { shards: plan.threads, cpus: plan.cpus.clone(), spin: plan.spin, helpers: 1 };
    let shared = Arc::new(shared::Shared::new(plan.threads));
    let run = Arc::new(plan.clone());
    let threads = runtime::uring::run(options, move |shard| driver::run(run.clone(), shared.clone(), shard.0 as usize))
        .map_err(|error| format!("the runtime did not start: {error}"))?;
    let threads = threads.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(Outcome::new(plan, threads))
}
