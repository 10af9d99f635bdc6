//! What a repair asks of a replica: hashes of what it has.

use cluster::repair::partitions::PartitionList;
use cluster::repair::tree::{Leaves, Tree};
use model::{DecoratedKey, Failure, TableId};

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
