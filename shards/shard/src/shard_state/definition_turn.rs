//! Turns to change the schema on shard 0: one change runs at a time.

use crate::ports::Activity;
use runtime::gate::{Permit, Semaphore};
use runtime::metrics::Counter;

/// The turn to change the schema, and counts of changes.
pub(crate) struct DefinitionTurn {
    turn: Semaphore,
    begun: Counter,
    done: Counter,
}

impl Default for DefinitionTurn {
    fn default() -> DefinitionTurn {
        DefinitionTurn { turn: Semaphore::new(1), begun: Counter::default(), done: Counter::default() }
    }
}

impl DefinitionTurn {
    /// Waits for the right to change the schema, which ends when the turn is dropped.
    pub(crate) async fn begin(&self) -> Turn<'_> {
        self.begun.increment();
        Turn { turns: self, _permit: self.turn.acquire(1).await }
    }

    /// How many changes are running, waiting and done.
    pub(crate) fn activity(&self) -> Activity {
        let active = 1 - self.turn.free().min(1);
        let (begun, completed) = (self.begun.get(), self.done.get());
        let pending = begun.saturating_sub(completed + active);
        Activity { active, active_max: 1, pending, completed, ..Activity::default() }
    }
}

/// The right to change the schema.
pub(crate) struct Turn<'t> {
    turns: &'t DefinitionTurn,
    _permit: Permit,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.done.increment();
    }
}
