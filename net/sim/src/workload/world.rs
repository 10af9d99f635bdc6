//! State that the clients of a run, its operator and its driver share.

use super::tables::TestTable;
use crate::judges::batches::Batches;
use crate::judges::counters::CounterHistory;
use crate::judges::deletions::Deletions;
use crate::judges::history::History;
use crate::judges::levels::LevelTable;
use crate::judges::registers::Registers;
use model::Consistency;
use server::client::QueryOptions;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What kind of requests the clients of a run send.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Work {
    /// All kinds.
    #[default]
    Everything,
    /// Only conditional changes and SERIAL reads: many decisions in a short time.
    Registers,
}

/// How many data centres the nodes are in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataCentres {
    /// All in one.
    One,
    /// In `dc1` and `dc2`, half of them in each.
    Two,
}

/// How the tables are replicated, and the level at which clients write and read them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replicas {
    /// The replication factor.
    pub factor: u32,
    /// The level of everything but conditions, which are decided at SERIAL.
    pub level: Consistency,
    /// Where the replicas are.
    pub centres: DataCentres,
    /// Whether the tables are cut into tablets.
    pub by_tablets: bool,
    /// Whether the usual keyspace is one of ManagedStrategy.
    pub is_managed: bool,
}

impl Replicas {
    /// What follows WITH where the usual keyspace gets `factor` replicas. In a run with managed keyspaces the strategy
    /// is ManagedStrategy if that is the usual number.
    pub fn usual_options(&self, factor: u32) -> String {
        match self.is_managed && factor == self.factor {
            true => format!("replication = {{'class': 'ManagedStrategy'}} AND tablets = {{'initial': {TABLETS}}}"),
            false => self.options(factor),
        }
    }

    /// What follows WITH where a keyspace of tables with tablets is created, or of others, in one data centre.
    pub fn options(&self, factor: u32) -> String {
        match self.by_tablets {
            false => format!("replication = {{'class': 'SimpleStrategy', 'replication_factor': {factor}}}"),
            true => format!(
                "replication = {{'class': 'NetworkTopologyStrategy', 'datacenter1': {factor}}} AND tablets = \
                 {{'enabled': true, 'initial': {TABLETS}}}"
            ),
        }
    }
}

/// How many tablets a new table has.
const TABLETS: u32 = 4;

impl Default for Replicas {
    fn default() -> Replicas {
        Replicas { factor: 1, level: Consistency::One, centres: DataCentres::One, by_tablets: false, is_managed: false }
    }
}

/// The state of a run: what the judges know, what was counted, and what the driver asks of the clients.
#[derive(Default)]
pub struct World {
    /// What kind of requests the clients send.
    pub work: Work,
    /// How the tables are replicated.
    pub replicas: Replicas,
    /// Every write of cells.
    pub history: History,
    /// Every change of a counter.
    pub counters: CounterHistory,
    /// Every conditional change and SERIAL read.
    pub registers: Registers,
    /// Every batch of the client that sends nothing else.
    pub batches: Batches,
    /// Whether that client sends its batches as logged ones, as the judge takes them to be.
    pub batches_are_logged: bool,
    /// Every key that all replicas have acknowledged as deleted.
    pub deletions: Deletions,
    /// The tables that are written and read at levels of their own.
    pub levels: Vec<LevelTable>,
    /// The first broken rule.
    pub violation: Option<String>,
    /// Tells clients to finish their request and leave.
    pub stop: bool,
    /// Tells clients to start no request, because the driver is about to read everything.
    pub paused: bool,
    /// How many requests of clients are under way.
    pub busy: usize,
    /// How many clients have left.
    pub left: usize,
    /// How many statements were answered.
    pub answered: u64,
    /// How many reads were checked.
    pub reads_checked: u64,
    /// How many of the checked reads read a whole table through an index.
    pub index_reads: u64,
    /// How many of the operator's commands were carried out, by name.
    pub commands: BTreeMap<String, u64>,
    /// Names of the snapshots that were taken and not cleared.
    pub snapshots: Vec<String>,
    /// Whether everything that a read shows is durable (commit log modes `group` and `batch`).
    pub reads_are_durable: bool,
    /// Whether a client's own table, by its index, has column `c`; `None` if that is unknown. A table that is not in
    /// the map has it.
    pub(crate) columns_c: BTreeMap<u8, Option<bool>>,
}

/// A world that the tasks of one thread share.
pub type SharedWorld = Rc<RefCell<World>>;

impl World {
    /// Tells all judges that the node serves again, with the arguments of [`History::restarted`].
    pub fn restarted(&mut self, now: u64, may_lose_since: Option<u64>) {
        self.history.restarted(now, may_lose_since);
        self.counters.restarted(now, may_lose_since);
        self.registers.restarted();
    }

    /// The options of a request without any of its own.
    pub fn options(&self) -> QueryOptions {
        QueryOptions { consistency: self.replicas.level, ..QueryOptions::default() }
    }

    /// Whether a client's own table certainly has column `c`.
    pub fn has_c(&self, table: TestTable) -> bool {
        self.columns_c.get(&table.index).copied().unwrap_or(Some(true)) == Some(true)
    }
}
