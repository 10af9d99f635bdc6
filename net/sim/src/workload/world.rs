//! What the clients of a run, its operator and its driver share.

use super::tables::TestTable;
use crate::judges::counters::CounterHistory;
use crate::judges::history::History;
use crate::judges::registers::Registers;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What the clients of a run do.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Work {
    /// Everything that there is.
    #[default]
    Everything,
    /// Only conditional changes and SERIAL reads: many decisions in a short time.
    Registers,
}

/// The state of a run: what the judges know, what was counted, and what the driver asks of the clients.
#[derive(Default)]
pub struct World {
    /// What the clients do.
    pub work: Work,
    /// Every write of cells.
    pub history: History,
    /// Every change of a counter.
    pub counters: CounterHistory,
    /// Every conditional change and SERIAL read.
    pub registers: Registers,
    /// The first broken rule.
    pub violation: Option<String>,
    /// Clients finish their request and leave.
    pub stop: bool,
    /// Clients start no request: the driver is about to read everything.
    pub paused: bool,
    /// Requests of clients that are under way.
    pub busy: usize,
    /// Clients that have left.
    pub left: usize,
    /// Statements answered.
    pub answered: u64,
    /// Reads checked.
    pub reads_checked: u64,
    /// Those of the reads checked that read a whole table through an index.
    pub index_reads: u64,
    /// Commands of the operator that were carried out, by name.
    pub commands: BTreeMap<String, u64>,
    /// Names of snapshots that were taken and not cleared.
    pub snapshots: Vec<String>,
    /// Whether what a read shows is durable (commit log modes `group` and `batch`).
    pub reads_are_durable: bool,
    /// Whether a client's own table, by its index, has column `c`; `None` if nobody can tell. A table that is not in
    /// the map has it.
    pub(crate) columns_c: BTreeMap<u8, Option<bool>>,
}

/// A world shared on one thread.
pub type SharedWorld = Rc<RefCell<World>>;

impl World {
    /// The node serves again, as [`History::restarted`].
    pub fn restarted(&mut self, now: u64, may_lose_since: Option<u64>) {
        self.history.restarted(now, may_lose_since);
        self.counters.restarted(now, may_lose_since);
        self.registers.restarted();
    }

    /// Whether a client's own table certainly has column `c`.
    pub fn has_c(&self, table: TestTable) -> bool {
        self.columns_c.get(&table.index).copied().unwrap_or(Some(true)) == Some(true)
    }
}
