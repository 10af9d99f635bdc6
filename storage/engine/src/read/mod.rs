//! Reads: merges the fragments of a table's memtables and SSTables, leaves out what is deleted or expired, and gives
//! live rows to a sink.
//!
//! 1. Everything beside the active memtable is checked in memory first: token ranges, bloom filters, clustering bounds
//!    and timestamps of SSTables, and keys of memtables that are being flushed. If none of it can have anything,
//!    `memory` reads the active memtable alone.
//! 2. `point` reads single rows, newest source first, until the row is newer than every source that is left.
//! 3. `merged` merges all sources that may have something, over one partition or a range of tokens.
//! 4. A partition without a live row gives its static cells as a row of their own, if the command asks for that.
//!
//! `sources` chooses the sources and makes their cursors, `progress` keeps the limits of a read, `live` says which
//! cells of a row are live.
//!
//! Functions come in pairs: `read_now` answers without awaiting, or gives `None` before anything was given to the sink;
//! `read` is its async twin.
//!
//! Invariants: no borrow of a memtable is held across an await, and awaits are only at blocks and where a long read
//! yields; a read keeps the memtable and the view that it began with; a partition is never seen with half of a
//! mutation; a fault in an SSTable is an error of the reads that meet it.

mod live;
mod memory;
mod merged;
mod point;
mod progress;
mod sources;

use live::CellScratch;

use crate::error::Error;
use crate::memtable::Memtable;
use crate::sstables::block_cache::BlockCache;
use crate::sstables::view::View;
use crate::tables::Tables;
use model::query::{Partitions, ReadCommand, ReadEnd, RowSink};
use std::rc::Rc;

/// Rows visited, live or dead, before a read may yield. A partition counts as one more.
pub(crate) const STRETCH_ROWS_MAX: usize = 128;

/// Reads of a shard's tables.
pub(crate) struct Reader {
    pub(super) tables: Rc<Tables>,
    pub(super) cache: Rc<BlockCache>,
    pub(super) scratch: CellScratch,
}

impl Reader {
    pub(crate) fn new(tables: Rc<Tables>, cache: Rc<BlockCache>) -> Reader {
        Reader { tables, cache, scratch: CellScratch::default() }
    }

    /// Reads `command` from a table's memtable and view, waiting for blocks and yielding in long scans.
    pub(crate) async fn read(
        &self,
        memtable: &Rc<Memtable>,
        view: &Rc<View>,
        command: &ReadCommand,
        sink: &mut dyn RowSink,
    ) -> Result<ReadEnd, Error> {
        if !sources::beside_memtable(memtable, view, command) {
            return memory::read(memtable, command, &self.scratch, sink).await;
        }
        // Boxed, so that requests that are answered from memory do not carry its size.
        match &command.partitions {
            Partitions::Key(key) if point::applies(command) => {
                Box::pin(point::read(self, memtable, view, key, command, sink)).await
            }
            _ => Box::pin(merged::read(self, memtable, view, command, sink)).await,
        }
    }

    /// Reads one partition without waiting; `None` if it would have to wait or yield, having given nothing to the sink.
    pub(crate) fn read_now(
        &self,
        memtable: &Rc<Memtable>,
        view: &Rc<View>,
        command: &ReadCommand,
        sink: &mut dyn RowSink,
    ) -> Option<Result<ReadEnd, Error>> {
        let Partitions::Key(key) = &command.partitions else { return None };
        if !sources::beside_memtable(memtable, view, command) {
            return memory::read_now(memtable, command, &self.scratch, sink).map(Ok);
        }
        if point::applies(command) { point::read_now(self, memtable, view, key, command, sink) } else { None }
    }
}
