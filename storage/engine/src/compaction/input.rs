//! An SSTable that is read from one end to the other: in pieces of a MiB, past the cache.

use crate::Error;
use crate::open_sstable::OpenSstable;
use bytes::Bytes;
use model::fragment::{self, BlockRef, Fragment, Progress};
use model::key::TokenRange;
use sstable::reader::Cursor;
use sstable::{BlockId, Component};
use std::rc::Rc;

/// Bytes of Data.db that one read brings.
const AHEAD_BYTES: u64 = 1 << 20;

/// See the module.
pub(crate) struct Input {
    pub(crate) sstable: Rc<OpenSstable>,
    cursor: Cursor,
    /// Pages of Data.db and where they begin.
    ahead: (u64, Bytes),
    /// Bytes of Data.db that were read and not yet told.
    read_bytes: u64,
}

impl Input {
    /// All rows of an SSTable.
    pub(crate) fn new(sstable: Rc<OpenSstable>) -> Input {
        let cursor = sstable.reader.scan(TokenRange::FULL);
        Input { sstable, cursor, ahead: (0, Bytes::new()), read_bytes: 0 }
    }

    /// Brings a block that a step needs.
    pub(crate) async fn bring(&mut self, need: BlockRef) -> Result<(), Error> {
        let Some(block) = self.cursor.block_of(need) else { return Ok(()) };
        let bytes = match block.component {
            Component::Data => self.data(block).await?,
            _ => self.sstable.load(block).await?,
        };
        self.cursor.supply(block, bytes);
        Ok(())
    }

    /// Bytes of Data.db that were read since the last call.
    pub(crate) fn take_read_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.read_bytes)
    }

    async fn data(&mut self, block: BlockId) -> Result<Bytes, Error> {
        let (offset, len) = self.sstable.reader.block_range(block).map_err(|error| self.sstable.bad(error))?;
        let (from, pages) = &self.ahead;
        if offset < *from || offset + len > *from + pages.len() as u64 {
            let wanted = AHEAD_BYTES.max(len).min(self.sstable.data_bytes.saturating_sub(offset)).max(len);
            self.ahead = self.sstable.pages(Component::Data, offset, wanted).await?;
            self.read_bytes += self.ahead.1.len() as u64;
        }
        self.sstable.decode(block, self.ahead.0, &self.ahead.1)
    }
}

impl fragment::Cursor for Input {
    type Error = sstable::Error;

    fn advance(&mut self) -> Result<Progress, sstable::Error> {
        fragment::Cursor::advance(&mut self.cursor)
    }

    fn fragment(&self) -> Option<Fragment<'_>> {
        self.cursor.fragment()
    }

    fn skip_partition(&mut self) {
        fragment::Cursor::skip_partition(&mut self.cursor);
    }
}
