//! The steps that all cores take together when the node stops; shard 0 counts the arrivals.

use model::Failure;
use runtime::sync::Condition;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Counts the cores that have arrived at each step.
#[derive(Default)]
pub(crate) struct Barrier {
    arrived: RefCell<BTreeMap<&'static str, usize>>,
    step_complete: Condition,
}

impl Barrier {
    /// Returns when all cores have arrived at `step`; each arrives once.
    pub(crate) async fn arrive(&self, step: &'static str) -> Result<(), Failure> {
        let all = runtime::shard_count();
        *self.arrived.borrow_mut().entry(step).or_default() += 1;
        let complete = || (self.arrived.borrow().get(step) >= Some(&all)).then_some(());
        if complete().is_some() {
            self.step_complete.notify();
        }
        self.step_complete.wait(complete).await;
        Ok(())
    }
}
