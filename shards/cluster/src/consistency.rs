//! Consistency levels: how many replicas of a keyspace must answer, and in which data centres.
//!
//! 1. [`check_read`], [`check_write`] and [`check_conditional`] refuse levels that a kind of request cannot have.
//! 2. [`Levels::required`] gives the number of answers for a level. It follows from the keyspace's replication factors,
//!    not from the number of nodes.
//!    In a keyspace of ManagedStrategy it follows from the number of replicas that the table has, and
//!    [`Levels::required_by_write`] is a majority of them at least, whatever the level.
//! 3. `Requirement::check_alive` fails as Unavailable if fewer replicas are alive.

use crate::replication::Strategy;
use crate::topology::{DataCenter, LiveNodes, NodeIndex, Topology};
use model::failure::Detail;
use model::{Consistency, ErrorCode, Failure};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Fails for levels that reads cannot have.
pub fn check_read(level: Consistency) -> Result<(), Failure> {
    match level {
        Consistency::Any => Err(Failure::invalid("ANY ConsistencyLevel is only supported for writes")),
        Consistency::NodeLocal => Err(node_local()),
        _ => Ok(()),
    }
}

/// Fails for levels that unconditional writes cannot have.
pub fn check_write(level: Consistency) -> Result<(), Failure> {
    match level {
        Consistency::Serial | Consistency::LocalSerial => {
            Err(Failure::invalid("You must use conditional updates for serializable writes"))
        }
        Consistency::NodeLocal => Err(node_local()),
        _ => Ok(()),
    }
}

/// Fails for levels that changes of the counter table named `table` cannot have.
pub fn check_counter_write(level: Consistency, table: &str) -> Result<(), Failure> {
    match level {
        Consistency::Any => {
            Err(Failure::invalid(format!("Consistency level ANY is not yet supported for counter table {table}")))
        }
        Consistency::Serial | Consistency::LocalSerial => {
            Err(Failure::invalid("Counter operations are inherently non-serializable"))
        }
        Consistency::NodeLocal => Err(node_local()),
        _ => Ok(()),
    }
}

/// Fails for levels that statements of a batch cannot have. As in Cassandra, SERIAL and LOCAL_SERIAL are not refused:
/// the batch waits for a majority.
pub fn check_batch(level: Consistency) -> Result<(), Failure> {
    match level {
        Consistency::NodeLocal => Err(node_local()),
        _ => Ok(()),
    }
}

/// Fails for levels that writes cannot have which read before they write.
pub fn check_reading_write(level: Consistency) -> Result<(), Failure> {
    match level {
        Consistency::Any => {
            Err(Failure::invalid("Write operation require a read but consistency ANY is not supported on reads"))
        }
        _ => Ok(()),
    }
}

/// Fails unless `serial` is a level for decisions, and `commit` one for writing their outcome in a keyspace with these
/// `levels`.
pub fn check_conditional(serial: Consistency, commit: Consistency, levels: &Levels) -> Result<(), Failure> {
    if !serial.is_serial() {
        return Err(Failure::invalid(
            "Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL",
        ));
    }
    match commit {
        Consistency::Serial | Consistency::LocalSerial => {
            let name = commit.name();
            Err(Failure::invalid(format!(
                "{name} is not supported as conditional update commit consistency. Use ANY if you mean \"make sure it is \
                 accepted but I don't care how many replicas commit it for non-SERIAL reads\""
            )))
        }
        Consistency::EachQuorum if levels.by_data_center.is_none() => {
            let class = &levels.strategy_class;
            Err(Failure::invalid(format!(
                "consistency level EACH_QUORUM not compatible with replication strategy ({class})"
            )))
        }
        Consistency::NodeLocal => Err(node_local()),
        _ => Ok(()),
    }
}

fn node_local() -> Failure {
    Failure::invalid("NODE_LOCAL consistency level is highly dangerous and should be used only for debugging purposes")
}

/// What each consistency level needs in one keyspace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Levels {
    /// The full class name of the strategy.
    strategy_class: Rc<str>,
    /// Replicas in all data centres.
    total: u32,
    /// Replicas in this node's data centre; `total` if the strategy does not know data centres.
    local: u32,
    here: DataCenter,
    /// The data centres that have replicas, if the strategy knows data centres.
    by_data_center: Option<Rc<[DataCenterQuorum]>>,
    /// Whether the keyspace is one of ManagedStrategy.
    is_managed: bool,
}

/// The majority of the replicas of one data centre.
#[derive(Clone, PartialEq, Eq, Debug)]
struct DataCenterQuorum {
    name: String,
    /// `None` if no node is in it.
    data_center: Option<DataCenter>,
    quorum: u32,
}

impl Levels {
    /// The levels of a keyspace with this strategy, whose full class name is given, on the nodes of `topology`.
    pub(crate) fn of(strategy: &Strategy, strategy_class: &str, topology: &Topology) -> Levels {
        let strategy_class = strategy_class.into();
        let total = strategy.factor(topology.nodes().len());
        let here = topology.data_center_of(topology.here());
        let Strategy::NetworkTopology { factors } = strategy else {
            return Levels { strategy_class, total, local: total, here, by_data_center: None, is_managed: false };
        };
        Levels::in_data_centers(factors, strategy_class, topology)
    }

    /// The levels of a table whose keyspace is one of ManagedStrategy, and that has `factors` replicas now.
    pub(crate) fn managed(factors: &BTreeMap<String, u32>, strategy_class: &str, topology: &Topology) -> Levels {
        Levels { is_managed: true, ..Levels::in_data_centers(factors, strategy_class.into(), topology) }
    }

    fn in_data_centers(factors: &BTreeMap<String, u32>, strategy_class: Rc<str>, topology: &Topology) -> Levels {
        let here = topology.data_center_of(topology.here());
        let total = factors.values().copied().fold(0, u32::saturating_add);
        let local = factors.get(&topology.data_centers()[usize::from(here.0)]).copied().unwrap_or(0);
        let quorum = |(name, factor): (&String, &u32)| DataCenterQuorum {
            name: name.clone(),
            data_center: topology.data_center(name),
            quorum: majority(*factor),
        };
        let by_data_center = Some(factors.iter().map(quorum).collect());
        Levels { strategy_class, total, local, here, by_data_center, is_managed: false }
    }

    /// Whether the keyspace is one of ManagedStrategy.
    #[inline]
    pub fn is_managed(&self) -> bool {
        self.is_managed
    }

    /// What `level` needs of a read.
    #[inline]
    pub fn required(&self, level: Consistency) -> Requirement {
        let (scope, block_for) = match level {
            // The coordinator itself may keep the write for replicas that are down.
            Consistency::Any | Consistency::One | Consistency::NodeLocal => (Scope::All, 1),
            Consistency::LocalOne => (Scope::Local, 1),
            Consistency::Two => (Scope::All, self.at_most(2)),
            Consistency::Three => (Scope::All, self.at_most(3)),
            Consistency::Quorum | Consistency::Serial => (Scope::All, majority(self.total)),
            Consistency::LocalQuorum | Consistency::LocalSerial => (Scope::Local, majority(self.local)),
            Consistency::EachQuorum => match &self.by_data_center {
                None => (Scope::All, majority(self.total)),
                Some(quorums) => (Scope::Each, quorums.iter().map(|each| each.quorum).sum()),
            },
            Consistency::All => (Scope::All, self.total),
        };
        Requirement { level, block_for, scope, here: self.here }
    }

    /// As many answers as a level names; in a managed keyspace no more than there are replicas.
    fn at_most(&self, named: u32) -> u32 {
        if self.is_managed { named.min(self.total) } else { named }
    }

    /// What a write at `level` needs. In a managed keyspace a level below LOCAL_QUORUM needs a majority of the local
    /// replicas too, so that two of four replicas that are read are enough to see what was acknowledged. ANY stays what
    /// it is.
    #[inline]
    pub fn required_by_write(&self, level: Consistency) -> Requirement {
        match level {
            _ if !self.is_managed => self.required(level),
            Consistency::Any | Consistency::EachQuorum | Consistency::All => self.required(level),
            Consistency::Quorum | Consistency::Serial | Consistency::LocalSerial => self.required(level),
            _ if self.local == 0 => Requirement { level, ..self.required(Consistency::Quorum) },
            _ => {
                let quorum = self.required(Consistency::LocalQuorum);
                let named = self.required(level).block_for.min(self.local);
                Requirement { level, block_for: quorum.block_for.max(named), ..quorum }
            }
        }
    }

    /// What a read of one partition at `level` needs. At SERIAL it reads from a majority, as at QUORUM, once the rounds
    /// of conditional changes that were under way have ended; errors name that level.
    #[inline]
    pub fn required_by_read(&self, level: Consistency) -> Requirement {
        self.required(match level {
            Consistency::Serial => Consistency::Quorum,
            Consistency::LocalSerial => Consistency::LocalQuorum,
            other => other,
        })
    }

    /// The majority of each data centre, for EACH_QUORUM; empty for strategies that do not know data centres.
    pub(crate) fn quorums(&self) -> impl Iterator<Item = (Option<DataCenter>, u32)> + '_ {
        self.by_data_center.iter().flat_map(|quorums| quorums.iter()).map(|each| (each.data_center, each.quorum))
    }
}

fn majority(replicas: u32) -> u32 {
    replicas / 2 + 1
}

/// The replicas whose answers count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// Those of all data centres.
    All,
    /// Those of this node's data centre.
    Local,
    /// A majority in each data centre is needed.
    Each,
}

/// What a request needs at a level in a keyspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requirement {
    /// The level, as errors name it.
    pub level: Consistency,
    /// The number of answers.
    pub block_for: u32,
    pub(crate) scope: Scope,
    pub(crate) here: DataCenter,
}

impl Requirement {
    /// Whether the answer of a node in `data_center` counts.
    #[inline]
    pub(crate) fn counts(&self, data_center: DataCenter) -> bool {
        self.scope != Scope::Local || data_center == self.here
    }

    /// Fails as Unavailable, with Cassandra's texts, if too few of `replicas` are alive.
    #[cold]
    pub(crate) fn check_alive(
        &self,
        levels: &Levels,
        topology: &Topology,
        replicas: &[NodeIndex],
        live: &LiveNodes,
    ) -> Result<(), Failure> {
        if self.level == Consistency::Any {
            return Ok(());
        }
        let alive = || replicas.iter().filter(|node| live.contains(**node)).map(|node| topology.data_center_of(*node));
        if self.scope == Scope::Each {
            for each in levels.by_data_center.iter().flat_map(|quorums| quorums.iter()) {
                let there = alive().filter(|data_center| Some(*data_center) == each.data_center).count();
                if there < each.quorum as usize {
                    let text = format!("Cannot achieve consistency level {} in DC {}", self.level.name(), each.name);
                    // Cassandra says 0 here, however many are alive.
                    return Err(self.unavailable(text, each.quorum, 0));
                }
            }
        }
        let alive = alive().filter(|data_center| self.counts(*data_center)).count();
        if alive < self.block_for as usize {
            let text = format!("Cannot achieve consistency level {}", self.level.name());
            return Err(self.unavailable(text, self.block_for, alive));
        }
        match self.block_for {
            // A keyspace without replicas, at ALL.
            0 => Err(self.unavailable("Insufficient full replicas".into(), 0, 0)),
            _ => Ok(()),
        }
    }

    fn unavailable(&self, text: String, required: u32, alive: usize) -> Failure {
        unavailable(self.level, text, required, alive)
    }
}

/// The failure of a request that needs more replicas than are alive.
pub(crate) fn unavailable(level: Consistency, text: String, required: u32, alive: usize) -> Failure {
    let alive = u32::try_from(alive).unwrap_or(u32::MAX);
    let detail = Detail::Unavailable { consistency: level, required: number(required), alive: number(alive) };
    Failure::new(ErrorCode::Unavailable, text).with(detail)
}

/// A count as errors carry it.
pub(crate) fn number(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
#[path = "consistency_tests.rs"]
mod tests;
