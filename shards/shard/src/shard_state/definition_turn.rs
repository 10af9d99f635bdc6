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
    /// Waits for the right to change the schema.
    pub(crate) async fn begin(&self) -> Permit {
        self.begun.increment();
        self.turn.acquire(1).await
    }

    /// Counts a change as done; to be called just before its permit is released.
    pub(crate) fn end(&self) {
        self.done.increment();
    }

    /// How many changes are running, waiting and done.
    pub(crate) fn activity(&self) -> Activity {
        let active = 1 - self.turn.free().min(1);
        let (begun, completed) = (self.begun.get(), self.done.get());
        let pending = begun.saturating_sub(completed + active);
        Activity { active, active_max: 1, pending, completed, ..Activity::default() }
    }
}
