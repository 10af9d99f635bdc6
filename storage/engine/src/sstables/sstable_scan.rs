//! A cursor over a whole SSTable that bypasses the block cache and reads a MiB at a time: for compactions, splits and
//! checks.

use super::open_sstable::OpenSstable;
use crate::error::Error;
use model::fragment::{self, BlockRef, Fragment, FragmentStep};
use model::token::TokenRange;
use runtime::AlignedBuf;
use sstable::reader::Cursor;
use sstable::{BlockId, Component};
use std::rc::Rc;

/// Bytes of Data.db that one read fetches.
const AHEAD_BYTES: u64 = 1 << 20;

/// A cursor over all rows of one SSTable.
pub(crate) struct SstableScan {
    pub(crate) sstable: Rc<OpenSstable>,
    cursor: Cursor,
    /// Pages of Data.db that were read ahead, and their offset. The next read uses the buffer again.
    ahead: Option<(u64, AlignedBuf)>,
    /// Bytes of Data.db read since the last [`SstableScan::take_read_bytes`].
    read_bytes: u64,
}

impl SstableScan {
    /// A cursor over all rows of an SSTable.
    pub(crate) fn new(sstable: Rc<OpenSstable>) -> SstableScan {
        SstableScan::of_range(sstable, TokenRange::FULL)
    }

    /// A cursor over the partitions of an SSTable that lie in a range.
    pub(crate) fn of_range(sstable: Rc<OpenSstable>, range: TokenRange) -> SstableScan {
        let cursor = sstable.reader.scan(range);
        SstableScan { sstable, cursor, ahead: None, read_bytes: 0 }
    }

    /// Reads the block that the last step asked for and gives it to the cursor.
    pub(crate) async fn bring(&mut self, need: BlockRef) -> Result<(), Error> {
        let Some(block) = self.cursor.needed_block(need) else { return Ok(()) };
        if block.component == Component::Data {
            return self.data(block).await;
        }
        let bytes = self.sstable.load(block).await?;
        self.cursor.supply(block, bytes);
        Ok(())
    }

    /// Bytes of Data.db that were read since the last call.
    pub(crate) fn take_read_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.read_bytes)
    }

    async fn data(&mut self, block: BlockId) -> Result<(), Error> {
        let (offset, len) = self.sstable.reader.block_range(block).map_err(|error| self.sstable.bad(error))?;
        let has = |(from, pages): &(u64, AlignedBuf)| *from <= offset && offset + len <= *from + pages.len() as u64;
        let (from, pages) = match self.ahead.take() {
            Some(ahead) if has(&ahead) => self.ahead.insert(ahead),
            other => {
                let wanted = AHEAD_BYTES.max(len).min(self.sstable.data_bytes.saturating_sub(offset)).max(len);
                let buffer = other.map(|(_, buffer)| buffer);
                let (from, pages) = self.sstable.pages_into(buffer, Component::Data, offset, wanted).await?;
                self.read_bytes += pages.len() as u64;
                self.ahead.insert((from, pages))
            }
        };
        let start = (offset.saturating_sub(*from) as usize).min(pages.len());
        let raw = &pages[start..(start + len as usize).min(pages.len())];
        self.cursor.supply_raw(block, raw).map_err(|error| self.sstable.bad(error))
    }
}

impl fragment::Cursor for SstableScan {
    type Error = sstable::Error;

    fn advance(&mut self) -> Result<FragmentStep, sstable::Error> {
        fragment::Cursor::advance(&mut self.cursor)
    }

    fn fragment(&self) -> Option<Fragment<'_>> {
        self.cursor.fragment()
    }

    fn skip_partition(&mut self) {
        fragment::Cursor::skip_partition(&mut self.cursor);
    }
}
