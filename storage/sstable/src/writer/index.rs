//! The index of either format.

use super::Out;
use super::big::BigIndex;
use super::bti::BtiIndex;
use super::options::{COLUMN_INDEX_BYTES, Options, ROW_INDEX_GRANULARITY};
use super::partition::{Item, Partition};
use crate::descriptor::{Component, Version};
use crate::filter::KeyHash;

#[derive(Debug)]
pub(super) enum Index {
    Bti(Box<BtiIndex>),
    Big(Box<BigIndex>),
}

impl Index {
    pub(super) fn new(version: Version, options: &Options) -> Index {
        let block_bytes = |own| options.row_index_bytes.unwrap_or(own);
        if version.is_bti() {
            Index::Bti(Box::new(BtiIndex::new(block_bytes(ROW_INDEX_GRANULARITY))))
        } else {
            let bytes = block_bytes(COLUMN_INDEX_BYTES);
            Index::Big(Box::new(BigIndex::new(version, &options.header, bytes, options.min_index_interval)))
        }
    }

    /// A row or marker was written.
    #[inline]
    pub(super) fn item(&mut self, item: &Item<'_>) {
        match self {
            Index::Bti(index) => index.item(item),
            Index::Big(index) => index.item(item),
        }
    }

    /// A partition was written.
    pub(super) fn partition(&mut self, partition: &Partition, end: u64, hash: KeyHash) {
        match self {
            Index::Bti(index) => index.partition(partition, end, hash),
            Index::Big(index) => index.partition(partition, end),
        }
    }

    /// What is written while partitions come.
    pub(super) fn outs(&mut self) -> impl Iterator<Item = (Component, &mut Out)> {
        let (first, second) = match self {
            Index::Bti(index) => {
                let BtiIndex { partitions_out, rows_out, .. } = &mut **index;
                ((Component::Partitions, partitions_out), Some((Component::Rows, rows_out)))
            }
            Index::Big(index) => ((Component::Index, &mut index.out), None),
        };
        std::iter::once(first).chain(second)
    }

    /// The same at the end, and components that are made then.
    #[expect(clippy::type_complexity, reason = "components and their bytes")]
    pub(super) fn finish(self, first: &[u8], last: &[u8]) -> (Vec<(Component, Out)>, Option<(Component, Vec<u8>)>) {
        match self {
            Index::Bti(index) => {
                let (partitions, rows) = index.finish(first, last);
                (vec![(Component::Partitions, partitions), (Component::Rows, rows)], None)
            }
            Index::Big(index) => {
                let (index, summary) = index.finish(first, last);
                (vec![(Component::Index, index)], Some((Component::Summary, summary)))
            }
        }
    }
}
