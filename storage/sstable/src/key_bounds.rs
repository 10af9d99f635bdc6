//! The first and the last key of an SSTable that cannot be opened, by the component that names them.

use crate::descriptor::Descriptor;
use crate::index::Summary;
use crate::trie::PartitionIndex;
use model::Partitioner;

/// The first and the last partition key that the end of Partitions.db (`bti`) or Summary.db (`big`) names. `None` if
/// the bytes are malformed, or name none.
///
/// `index_tail` is the end of a Partitions.db of `index_len` bytes: all of it, or at least
/// [`crate::trie::TAIL_BYTES_MAX`].
pub fn key_bounds(
    descriptor: &Descriptor,
    partitioner: Partitioner,
    (index_tail, index_len): (&[u8], u64),
    summary: Option<&[u8]>,
) -> Option<(Vec<u8>, Vec<u8>)> {
    if descriptor.version.is_bti() {
        let index = PartitionIndex::parse(index_tail, index_len).ok()?;
        return Some((index.first, index.last));
    }
    Summary::parse(summary?, partitioner).ok()?.bounds
}
