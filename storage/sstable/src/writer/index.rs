//! The index of the format that is written.

use super::big::BigIndexWriter;
use super::bti::BtiIndexWriter;
use super::options::{COLUMN_INDEX_BYTES, Options, ROW_INDEX_GRANULARITY};
use super::partition::{OpenPartition, WrittenItem};
use crate::descriptor::Component;
use crate::filter::KeyHash;
use crate::output::Output;
use crate::version::Version;

#[derive(Debug)]
pub(super) enum IndexWriter {
    Bti(Box<BtiIndexWriter>),
    Big(Box<BigIndexWriter>),
}

impl IndexWriter {
    pub(super) fn new(version: Version, options: &Options) -> IndexWriter {
        let block_bytes = |default| options.row_index_bytes.unwrap_or(default);
        if version.is_bti() {
            IndexWriter::Bti(Box::new(BtiIndexWriter::new(options.partitioner, block_bytes(ROW_INDEX_GRANULARITY))))
        } else {
            let bytes = block_bytes(COLUMN_INDEX_BYTES);
            IndexWriter::Big(Box::new(BigIndexWriter::new(version, &options.header, bytes, options.min_index_interval)))
        }
    }

    /// Takes a row or marker that was written.
    #[inline]
    pub(super) fn item(&mut self, item: &WrittenItem<'_>) {
        match self {
            IndexWriter::Bti(index) => index.item(item),
            IndexWriter::Big(index) => index.item(item),
        }
    }

    /// Takes a partition that was written, whose last row or marker ends at `end`, from the partition's start.
    pub(super) fn partition(&mut self, partition: &OpenPartition, end: u64, hash: KeyHash) {
        match self {
            IndexWriter::Bti(index) => index.partition(partition, end, hash),
            IndexWriter::Big(index) => index.partition(partition, end),
        }
    }

    /// Returns whether all rows came in clustering order, as far as the index depends on it.
    pub(super) fn is_ordered(&self) -> bool {
        match self {
            IndexWriter::Bti(index) => index.is_ordered,
            IndexWriter::Big(index) => index.is_ordered,
        }
    }

    /// Returns the components that are written while partitions come.
    pub(super) fn outputs(&mut self) -> impl Iterator<Item = (Component, &mut Output)> {
        let (first, second) = match self {
            IndexWriter::Bti(index) => {
                let BtiIndexWriter { partitions_out, rows_out, .. } = &mut **index;
                ((Component::Partitions, partitions_out), Some((Component::Rows, rows_out)))
            }
            IndexWriter::Big(index) => ((Component::Index, &mut index.out), None),
        };
        std::iter::once(first).chain(second)
    }

    /// Ends the index. Returns the components that were written while partitions came, and the one that is made at the
    /// end.
    #[expect(clippy::type_complexity, reason = "components and their bytes")]
    pub(super) fn finish(self, first: &[u8], last: &[u8]) -> (Vec<(Component, Output)>, Option<(Component, Vec<u8>)>) {
        match self {
            IndexWriter::Bti(index) => {
                let (partitions, rows) = index.finish(first, last);
                (vec![(Component::Partitions, partitions), (Component::Rows, rows)], None)
            }
            IndexWriter::Big(index) => {
                let (index, summary) = index.finish(first, last);
                (vec![(Component::Index, index)], Some((Component::Summary, summary)))
            }
        }
    }
}
