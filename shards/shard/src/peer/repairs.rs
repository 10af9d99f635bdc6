//! What a repair asks of a replica, and its answers:
//! ```text
//! segment:    table id [16]; now i64, seconds; position of the start, position of the end; leaves u16, at least 1
//! tree:       segment
//! answer:     partitions u64; bytes u64; if there are partitions: sum u64 of each leaf
//! partitions: segment; flag u8 [key length u16, key: only partitions behind it]; partitions u32, the most;
//!             count u32, leaves u16, ascending
//! answer:     cut u8; count u32, of each partition: key length u16, key, digest u64, bytes u64
//! ```
//! A position is that of `reads`. The partitions of an answer are in the order of the ring.

use super::bytes::{Reader, push_count, push_short};
use super::reads::{position, push_position};
use crate::messages::repair::{Validation, ValidationRequest, Wanted, WantedPartitions};
use cluster::repair::partitions::{PartitionDigest, PartitionList};
use cluster::repair::tree::{LEAVES_MAX, Leaves, Tree};
use model::{Partitioner, TableId, TokenRange};

/// Writes what is asked for.
pub(crate) fn push(out: &mut Vec<u8>, request: &ValidationRequest) {
    out.extend_from_slice(&request.table.0);
    out.extend_from_slice(&request.now_in_seconds.to_le_bytes());
    let TokenRange { start, end } = request.leaves.range();
    push_position(out, start.as_ref());
    push_position(out, end.as_ref());
    out.extend_from_slice(&request.leaves.count().to_le_bytes());
    if let Wanted::Partitions(wanted) = &request.wanted {
        out.push(wanted.after.is_some().into());
        if let Some(after) = &wanted.after {
            push_short(out, &after.key);
        }
        out.extend_from_slice(&wanted.partitions_max.to_le_bytes());
        push_count(out, wanted.leaves.len());
        wanted.leaves.iter().for_each(|leaf| out.extend_from_slice(&leaf.to_le_bytes()));
    }
}

/// Reads a request for a tree, or for partitions; `None` if the bytes are none.
pub(crate) fn decode(partitioner: Partitioner, bytes: &[u8], of_partitions: bool) -> Option<ValidationRequest> {
    let mut reader = Reader::new(bytes);
    let table = TableId(reader.chunk()?);
    let now_in_seconds = reader.i64()?;
    let (start, end) = (position(&mut reader, partitioner)?, position(&mut reader, partitioner)?);
    let count = reader.u16().filter(|count| (1..=LEAVES_MAX).contains(count))?;
    let leaves = Leaves::new(partitioner, TokenRange { start, end }, count);
    let wanted = match of_partitions {
        false => Wanted::Tree,
        true => {
            let after = if reader.flag()? { Some(reader.key(partitioner)?) } else { None };
            let partitions_max = reader.u32()?.max(1);
            let listed = reader.count(2)?;
            let listed: Vec<u16> = (0..listed).map(|_| reader.u16()).collect::<Option<_>>()?;
            if listed.last().is_some_and(|last| *last >= count) || !listed.is_sorted_by(|a, b| a < b) {
                return None;
            }
            Wanted::Partitions(WantedPartitions { leaves: listed, after, partitions_max })
        }
    };
    reader.is_empty().then_some(ValidationRequest { table, now_in_seconds, leaves, wanted, set: None })
}

/// Writes an answer.
pub(crate) fn push_answer(out: &mut Vec<u8>, answer: &Validation) {
    match answer {
        Validation::Tree(tree) => {
            out.extend_from_slice(&tree.partitions.to_le_bytes());
            out.extend_from_slice(&tree.bytes.to_le_bytes());
            if tree.partitions > 0 {
                tree.sums.iter().for_each(|sum| out.extend_from_slice(&sum.to_le_bytes()));
            }
        }
        Validation::Partitions(list) => {
            out.push(list.is_cut.into());
            push_count(out, list.partitions.len());
            for partition in &list.partitions {
                push_short(out, &partition.key.key);
                out.extend_from_slice(&partition.digest.to_le_bytes());
                out.extend_from_slice(&partition.bytes.to_le_bytes());
            }
        }
    }
}

/// Reads the answer to a request; `None` if the bytes are none.
pub(crate) fn decode_answer(partitioner: Partitioner, bytes: &[u8], request: &ValidationRequest) -> Option<Validation> {
    let mut reader = Reader::new(bytes);
    let answer = match &request.wanted {
        Wanted::Tree => {
            let (partitions, bytes) = (reader.u64()?, reader.u64()?);
            let leaves = if partitions > 0 { request.leaves.count() } else { 0 };
            let sums = (0..leaves).map(|_| reader.u64()).collect::<Option<_>>()?;
            Validation::Tree(Tree { partitions, bytes, sums })
        }
        Wanted::Partitions(_) => {
            let is_cut = reader.flag()?;
            let count = reader.count(18)?;
            let mut partition = || {
                let key = reader.key(partitioner)?;
                Some(PartitionDigest { key, digest: reader.u64()?, bytes: reader.u64()? })
            };
            let partitions: Vec<PartitionDigest> = (0..count).map(|_| partition()).collect::<Option<_>>()?;
            if !partitions.is_sorted_by(|a, b| a.key < b.key) || is_cut && partitions.is_empty() {
                return None;
            }
            Validation::Partitions(PartitionList { partitions, is_cut })
        }
    };
    reader.is_empty().then_some(answer)
}

#[cfg(test)]
#[path = "repairs_tests.rs"]
mod tests;
