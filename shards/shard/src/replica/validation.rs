//! Hashes of what this core has, for a repair.
//!
//! 1. A segment, or each run of leaves of it, is scanned once: memtables and SSTables merged, as for a read. The scan
//!    yields to everything else.
//! 2. Each partition's digest goes into the sum of its leaf, or into a list.
//!
//! Invariants: what counts is judged by the request's second alone ([`model::digest`]), so that replicas with equal
//! contents give equal hashes, whatever they have purged; a list ends behind a whole partition.

use super::{failure, wait_for_table};
use crate::messages::repair::{Validation, ValidationRequest, Wanted, WantedPartitions};
use crate::shard_state::Shard;
use cluster::repair::partitions::{PartitionDigest, PartitionList};
use cluster::repair::tree::{Leaves, Tree, runs};
use engine::RepairSet;
use model::digest::DigestSink;
use model::fragment::{Fragment, FragmentSink};
use model::query::{EveryRow, Partitions, Position, ReadCommand};
use model::row::Deletion;
use model::{DecoratedKey, Failure, Partitioner, Table, Token, TokenRange};
use runtime::Class;
use std::sync::Arc;

/// The command whose content is compared: everything in a range, static cells too.
fn whole(table: &Table, now_in_seconds: i64, range: TokenRange) -> ReadCommand {
    ReadCommand {
        wants_static: true,
        static_only: true,
        ..ReadCommand::all(table.id, now_in_seconds, Partitions::Range(range))
    }
}

/// Hashes what this core owns of a segment, in the background, when it is this one's turn.
pub(crate) async fn validate(shard: &Shard, request: ValidationRequest) -> Result<Validation, Failure> {
    let table = wait_for_table(shard, request.table).await?;
    let shard = shard.clone();
    let scan = async move {
        let _turn = shard.validations().acquire(1).await;
        match &request.wanted {
            Wanted::Tree => tree(&shard, &table, &request).await.map(Validation::Tree),
            Wanted::Partitions(wanted) => {
                partitions(&shard, &table, &request, wanted).await.map(Validation::Partitions)
            }
        }
    };
    runtime::spawn_in(Class::Background, scan).await
}

async fn tree(shard: &Shard, table: &Arc<Table>, request: &ValidationRequest) -> Result<Tree, Failure> {
    let command = whole(table, request.now_in_seconds, request.leaves.range().clone());
    let mut tree = Tree::default();
    let add = |token, _: &[u8], digest, bytes| {
        tree.add(&request.leaves, token, digest, bytes);
        true
    };
    scan(shard, table, &command, request.set, add).await?;
    Ok(tree)
}

async fn partitions(
    shard: &Shard,
    table: &Arc<Table>,
    request: &ValidationRequest,
    wanted: &WantedPartitions,
) -> Result<PartitionList, Failure> {
    let (partitioner, leaves) = (shard.partitioner(), &request.leaves);
    let mut list = PartitionList::default();
    let mut room = ListRoom { partitions: wanted.partitions_max as usize, bytes: LIST_BYTES_MAX };
    for range in ranges(partitioner, leaves, &wanted.leaves) {
        let mut command = whole(table, request.now_in_seconds, range);
        command.resume = wanted.after.clone().map(|key| Position { key, comparable: None });
        let add = |token, key: &[u8], digest, bytes| {
            if wanted.leaves.binary_search(&leaves.leaf_of(token)).is_ok() {
                room.take(key.len());
                let key = DecoratedKey { token, partitioner, key: key.into() };
                list.partitions.push(PartitionDigest { key, digest, bytes });
            }
            !room.is_full()
        };
        scan(shard, table, &command, request.set, add).await?;
        if room.is_full() {
            list.is_cut = true;
            break;
        }
    }
    Ok(list)
}

/// Most bytes of keys and digests in a list.
const LIST_BYTES_MAX: usize = 4 << 20;
/// Bytes of an entry of a list besides its key.
const ENTRY_BYTES: usize = 18;

/// How much more a list takes.
struct ListRoom {
    partitions: usize,
    bytes: usize,
}

impl ListRoom {
    /// Takes an entry; the last one may be longer than what is left.
    fn take(&mut self, key_bytes: usize) {
        self.partitions = self.partitions.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(ENTRY_BYTES + key_bytes);
    }

    fn is_full(&self) -> bool {
        self.partitions == 0 || self.bytes == 0
    }
}

/// The parts of a segment that have the keys of some leaves, in the order of the ring.
fn ranges(partitioner: Partitioner, leaves: &Leaves, wanted: &[u16]) -> Vec<TokenRange> {
    match partitioner {
        Partitioner::Murmur3 => runs(wanted).into_iter().map(|(first, last)| leaves.range_of(first, last)).collect(),
        _ => vec![leaves.range().clone()],
    }
}

/// Gives the token, key, digest and size of each partition that `command` reads to `take`, until that wants no more.
async fn scan(
    shard: &Shard,
    table: &Arc<Table>,
    command: &ReadCommand,
    set: Option<RepairSet>,
    take: impl FnMut(Token, &[u8], u64, u64) -> bool,
) -> Result<(), Failure> {
    let mut sink = PartitionSink {
        digest: DigestSink::new(table, command).with_gc_before(shard.store().gc_before(table, command.now_in_seconds)),
        token: Token::MIN,
        key: Vec::new(),
        bytes: 0,
        is_full: false,
        take,
    };
    let store = shard.store();
    let read = match set {
        None => store.read_fragments(command, &mut EveryRow, &mut sink).await,
        Some(set) => store.read_fragments_of(set, command, &mut EveryRow, &mut sink).await,
    };
    read.map(drop).map_err(|error| failure(&shard.schema(), Some(table.id), error))
}

/// Makes a digest of each partition.
struct PartitionSink<'t, F> {
    digest: DigestSink<'t>,
    /// The partition under way.
    token: Token,
    key: Vec<u8>,
    bytes: u64,
    is_full: bool,
    take: F,
}

impl<F: FnMut(Token, &[u8], u64, u64) -> bool> FragmentSink for PartitionSink<'_, F> {
    fn fragment(&mut self, fragment: Fragment<'_>, shadow: Deletion) {
        self.digest.fragment(fragment, shadow);
        match fragment {
            Fragment::PartitionStart { token, key, .. } => {
                (self.token, self.bytes) = (token, key.len() as u64);
                self.key.clear();
                self.key.extend_from_slice(key);
            }
            Fragment::StaticRow { row } => self.bytes += row.blob().len() as u64,
            Fragment::Row { comparable, row, .. } => self.bytes += (comparable.len() + row.blob().len()) as u64,
            Fragment::RangeMarker { comparable, .. } => self.bytes += comparable.len() as u64,
            Fragment::PartitionEnd => {
                let digest = self.digest.take().half();
                // Nothing but what may be purged is the same as nothing.
                if digest != 0 {
                    self.is_full = !(self.take)(self.token, &self.key, digest, self.bytes);
                }
            }
        }
    }

    fn cut(&mut self, _: &[u8]) {}

    fn is_full(&self) -> bool {
        self.is_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_end_at_a_number_of_partitions_or_of_bytes() {
        let mut room = ListRoom { partitions: 3, bytes: LIST_BYTES_MAX };
        (0..2).for_each(|_| room.take(8));
        assert!(!room.is_full());
        room.take(8);
        assert!(room.is_full(), "three partitions");
        let key = (1 << 16) - ENTRY_BYTES;
        let mut room = ListRoom { partitions: usize::MAX, bytes: LIST_BYTES_MAX };
        (0..63).for_each(|_| room.take(key));
        assert!(!room.is_full());
        room.take(key - 1);
        assert!(!room.is_full(), "a byte is left");
        room.take(0);
        assert!(room.is_full());
    }
}
