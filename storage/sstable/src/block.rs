//! Blocks of components: the unit that cursors ask for, and the index blocks that a lookup has been given.
//!
//! A lookup in an index is written as if all blocks were in memory. Where one is missing it stops with [`Stop::Need`];
//! once the block has been supplied the lookup starts over.

use crate::descriptor::Component;
use crate::error::{Fault, Problem};
use crate::input::Input;
use bytes::Bytes;

/// Bytes of a block of an index; no node of a trie crosses from one to the next.
pub const PAGE_BYTES: usize = 4096;
/// Most blocks that one lookup in an index may need.
pub const LOOKUP_BLOCKS_MAX: usize = 1 << 10;

/// A block of a component: what cursors ask for and caches hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockId {
    /// The component.
    pub component: Component,
    /// The offset of the block's first byte, a multiple of [`crate::reader::Reader::block_len`]. In Data.db it counts
    /// uncompressed bytes.
    pub offset: u64,
}

/// Why a step of a lookup or of a cursor ends early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// This block has to be supplied first.
    Need(BlockId),
    /// The bytes of a component cannot be used.
    Fault(Component, Fault),
    /// The bytes of the index that is being searched cannot be used.
    IndexFault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::IndexFault(fault)
    }
}

/// Names the component in which an index lookup found its fault.
pub(crate) fn in_component<T>(result: Result<T, Stop>, component: Component) -> Result<T, Stop> {
    result.map_err(|stop| match stop {
        Stop::IndexFault(fault) => Stop::Fault(component, fault),
        other => other,
    })
}

/// The index blocks that have been supplied for a lookup.
#[derive(Default, Debug)]
pub(crate) struct IndexBlocks {
    supplied: Vec<(BlockId, Bytes)>,
}

impl IndexBlocks {
    pub(crate) fn clear(&mut self) {
        self.supplied.clear();
    }

    pub(crate) fn supply(&mut self, block: BlockId, bytes: Bytes) {
        if !self.supplied.iter().any(|(known, _)| *known == block) {
            self.supplied.push((block, bytes));
        }
    }

    /// Forgets the blocks of a component that end at or before an offset.
    pub(crate) fn forget_before(&mut self, component: Component, offset: u64) {
        self.supplied
            .retain(|(block, bytes)| block.component != component || block.offset + bytes.len() as u64 > offset);
    }

    /// Returns the bytes from an offset to the end of its block.
    pub(crate) fn rest_of_block(&self, component: Component, offset: u64) -> Result<&[u8], Stop> {
        let block = BlockId { component, offset: offset - offset % PAGE_BYTES as u64 };
        match self.supplied.iter().find(|(known, _)| *known == block) {
            Some((_, bytes)) => Ok(bytes.get((offset - block.offset) as usize..).unwrap_or_default()),
            None if self.supplied.len() >= LOOKUP_BLOCKS_MAX => {
                Err(Stop::Fault(component, Fault { offset, problem: Problem::Limit("LOOKUP_BLOCKS_MAX") }))
            }
            None => Err(Stop::Need(block)),
        }
    }

    /// Applies `read` to the bytes from an offset on, joining as many blocks as it needs. Returns its result and the
    /// offset that it read to. The file has `file_len` bytes.
    pub(crate) fn read<T>(
        &self,
        component: Component,
        offset: u64,
        file_len: u64,
        read: impl Fn(&mut Input<'_>) -> Result<T, Fault>,
    ) -> Result<(T, u64), Stop> {
        if offset >= file_len {
            return Err(Stop::Fault(component, Fault { offset, problem: Problem::Truncated }));
        }
        let first = self.rest_of_block(component, offset)?;
        let mut joined: Vec<u8> = Vec::new();
        loop {
            let bytes = if joined.is_empty() { first } else { &joined };
            let mut input = Input::new(bytes, offset);
            match read(&mut input) {
                Ok(found) => return Ok((found, input.offset())),
                Err(fault) if fault.problem == Problem::Truncated && offset + (bytes.len() as u64) < file_len => {
                    let next = self.rest_of_block(component, offset + bytes.len() as u64)?;
                    if next.is_empty() {
                        return Err(Stop::Fault(component, fault));
                    }
                    if joined.is_empty() {
                        joined.extend_from_slice(first);
                    }
                    joined.extend_from_slice(next);
                }
                Err(fault) => return Err(Stop::Fault(component, fault)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_brings_no_more_blocks_than_it_may() {
        let mut blocks = IndexBlocks::default();
        let block = |index: usize| BlockId { component: Component::Rows, offset: (index * PAGE_BYTES) as u64 };
        (1..LOOKUP_BLOCKS_MAX).for_each(|index| blocks.supply(block(index), Bytes::new()));
        assert_eq!(blocks.rest_of_block(Component::Rows, 0), Err(Stop::Need(block(0))));
        blocks.supply(block(LOOKUP_BLOCKS_MAX), Bytes::new());
        let fault = Fault { offset: 0, problem: Problem::Limit("LOOKUP_BLOCKS_MAX") };
        assert_eq!(blocks.rest_of_block(Component::Rows, 0), Err(Stop::Fault(Component::Rows, fault)));
    }
}
