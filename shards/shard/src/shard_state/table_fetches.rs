//! What this node fetches of tables that other nodes hand out, on shard 0: a fetch takes longer than a request among
//! nodes, so whoever hands out asks again until it has ended.
//!
//! Invariants: a plan is carried out once at a time; at most [`FETCHES_MAX`] are known, those under way among them, and
//! those that ended first are forgotten first.

use model::Failure;
use runtime::sync::Condition;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;
use uuid::Uuid;

/// Most fetches that are known.
pub(crate) const FETCHES_MAX: usize = 64;

/// How far a fetch is, in postcard's encoding on the wire.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum FetchState {
    UnderWay,
    Done { files: u64, bytes: u64 },
    Failed(String),
}

/// The fetches of this node by their plans.
#[derive(Default)]
pub(crate) struct TableFetches {
    /// In the order in which they began.
    known: RefCell<VecDeque<(Uuid, FetchState)>>,
    changed: Condition,
}

impl TableFetches {
    /// How far a fetch is; `None` if it is not known.
    pub(crate) fn state(&self, plan: Uuid) -> Option<FetchState> {
        self.known.borrow().iter().find(|(known, _)| *known == plan).map(|(_, state)| state.clone())
    }

    /// Notes that a fetch begins, which is not under way.
    ///
    /// # Errors
    /// Too many are under way.
    pub(crate) fn begin(&self, plan: Uuid) -> Result<(), Failure> {
        let mut known = self.known.borrow_mut();
        known.retain(|(other, _)| *other != plan);
        if known.len() >= FETCHES_MAX {
            let ended = known.iter().position(|(_, state)| *state != FetchState::UnderWay);
            let Some(ended) = ended else { return Err(Failure::overloaded("Too many tables are fetched at a time")) };
            known.remove(ended);
        }
        known.push_back((plan, FetchState::UnderWay));
        Ok(())
    }

    /// Notes how a fetch has ended.
    pub(crate) fn end(&self, plan: Uuid, ended: FetchState) {
        for (_, state) in self.known.borrow_mut().iter_mut().filter(|(known, _)| *known == plan) {
            *state = ended.clone();
        }
        self.changed.notify();
    }

    /// How far a fetch is when it has ended, or `patience` is over.
    pub(crate) async fn ended(&self, plan: Uuid, patience: Duration) -> Option<FetchState> {
        let has_ended = || (self.state(plan) != Some(FetchState::UnderWay)).then_some(());
        runtime::timeout(patience, self.changed.wait(has_ended)).await;
        self.state(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetches_are_bounded_and_those_that_ended_are_forgotten() {
        let fetches = TableFetches::default();
        let plan = |number: usize| Uuid::from_u128(number as u128);
        for number in 0..FETCHES_MAX {
            fetches.begin(plan(number)).expect("room");
        }
        assert!(fetches.begin(plan(FETCHES_MAX)).is_err(), "one past it");
        fetches.begin(plan(3)).expect("it begins again");
        fetches.end(plan(7), FetchState::Failed("x".into()));
        assert_eq!(fetches.state(plan(7)), Some(FetchState::Failed("x".into())));
        fetches.begin(plan(FETCHES_MAX)).expect("room for what has ended");
        assert_eq!((fetches.state(plan(7)), fetches.state(plan(0))), (None, Some(FetchState::UnderWay)));
    }
}
