//! Steps that all cores of a node take together when it stops. Lives on shard 0.

use model::Failure;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::task::{Poll, Waker};

/// Counts the cores that have arrived at each step.
#[derive(Default)]
pub(crate) struct Barrier {
    steps: RefCell<BTreeMap<&'static str, Step>>,
}

#[derive(Default)]
struct Step {
    arrived: usize,
    waiting: Vec<Waker>,
}

impl Barrier {
    /// Returns when all cores have arrived at `step`; each arrives once.
    pub(crate) async fn arrive(&self, step: &'static str) -> Result<(), Failure> {
        let all = runtime::shard_count();
        let waiting = {
            let mut steps = self.steps.borrow_mut();
            let step = steps.entry(step).or_default();
            step.arrived += 1;
            if step.arrived >= all { std::mem::take(&mut step.waiting) } else { Vec::new() }
        };
        waiting.into_iter().for_each(Waker::wake);
        std::future::poll_fn(|cx| {
            let mut steps = self.steps.borrow_mut();
            let step = steps.entry(step).or_default();
            if step.arrived >= all {
                return Poll::Ready(());
            }
            step.waiting.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
        Ok(())
    }
}
