//! What a repair asks of a replica: hashes of what it has, and parts in sessions of incremental repair.

use crate::paxos::ballot::Scope;
use cluster::repair::partitions::PartitionList;
use cluster::repair::session::SessionStep;
use cluster::repair::tree::{Leaves, Tree};
use engine::RepairSet;
use model::{DecoratedKey, Failure, TableId, TokenRange};
use std::net::SocketAddr;
use uuid::Uuid;

/// A request for hashes of what a replica has of a segment.
#[derive(Clone, Debug)]
pub struct ValidationRequest {
    /// The table.
    pub(crate) table: TableId,
    /// The second against which expiry and the age of tombstones are judged, the same at all replicas.
    pub(crate) now_in_seconds: i64,
    /// The segment.
    pub(crate) leaves: Leaves,
    /// What of it.
    pub(crate) wanted: Wanted,
    /// The set of SSTables; all data without one.
    pub(crate) set: Option<RepairSet>,
}

/// What hashes are wanted.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// The sums of all leaves.
    Tree,
    /// The digests of partitions.
    Partitions(WantedPartitions),
}

/// Which partitions are wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WantedPartitions {
    /// Those of these leaves, ascending.
    pub(crate) leaves: Vec<u16>,
    /// Those behind this key.
    pub(crate) after: Option<DecoratedKey>,
    /// So many, at least 1.
    pub(crate) partitions_max: u32,
}

/// The answer to a [`ValidationRequest`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Validation {
    /// The sums.
    Tree(Tree),
    /// The partitions.
    Partitions(PartitionList),
}

impl Validation {
    /// The sums of all leaves.
    pub(crate) fn tree(self) -> Result<Tree, Failure> {
        match self {
            Validation::Tree(tree) => Ok(tree),
            Validation::Partitions(_) => Err(super::unexpected()),
        }
    }

    /// The digests of partitions.
    pub(crate) fn partitions(self) -> Result<PartitionList, Failure> {
        match self {
            Validation::Partitions(list) => Ok(list),
            Validation::Tree(_) => Err(super::unexpected()),
        }
    }
}

/// A request about changes that rounds of Paxos have left unfinished.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnfinishedRequest {
    /// The table.
    pub(crate) table: TableId,
    /// Of this range.
    pub(crate) range: TokenRange,
    /// Only partitions behind this one.
    pub(crate) after: Option<DecoratedKey>,
}

/// A partition with a change of which its replica does not know whether it was committed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unfinished {
    pub(crate) key: DecoratedKey,
    /// Who decides the change.
    pub(crate) scope: Scope,
}

/// Such partitions of a range, by token and key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UnfinishedList {
    /// The partitions.
    pub(crate) partitions: Vec<Unfinished>,
    /// Whether there may be more behind the last one.
    pub(crate) is_cut: bool,
}

impl UnfinishedList {
    /// One list of what several cores have, up to where each of them knows everything.
    pub(crate) fn merged(lists: Vec<UnfinishedList>) -> UnfinishedList {
        let ends = lists.iter().filter(|list| list.is_cut).filter_map(|list| list.partitions.last());
        let end = ends.map(|last| &last.key).min().cloned();
        let mut partitions: Vec<Unfinished> = lists.into_iter().flat_map(|list| list.partitions).collect();
        partitions.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        partitions.retain(|partition| end.as_ref().is_none_or(|end| partition.key <= *end));
        UnfinishedList { partitions, is_cut: end.is_some() }
    }
}

/// How far a replica has finished changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finished {
    /// In how many partitions.
    pub(crate) partitions: u64,
    /// The last one, if there may be more behind it.
    pub(crate) last: Option<DecoratedKey>,
}

/// Ranges of a table that are repaired on all replicas: everything in them that was written before a second has reached
/// all of them, and nothing that was to be written before it waits anywhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Repaired {
    /// The table.
    pub(crate) table: TableId,
    /// The second, since 1970.
    pub(crate) second: i64,
    /// The ranges.
    pub(crate) ranges: Vec<TokenRange>,
}

/// What is asked of a participant of a session of incremental repair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionRequest {
    /// The session.
    pub(crate) session: Uuid,
    /// What of it.
    pub(crate) ask: SessionAsk,
}

/// What is asked about a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SessionAsk {
    /// Set data apart.
    Prepare(SessionTerms),
    /// Go on to another state.
    Step(SessionStep),
    /// Nothing but its state.
    State,
}

/// What a session is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SessionTerms {
    /// The address of the node that leads it.
    pub(crate) coordinator: SocketAddr,
    /// The addresses of all participants.
    pub(crate) participants: Vec<SocketAddr>,
    /// See [`crate::shard_state::repair_sessions::RepairSession`].
    pub(crate) repaired_at: i64,
    /// The tables.
    pub(crate) tables: Vec<TableId>,
    /// The ranges.
    pub(crate) ranges: Vec<TokenRange>,
}
