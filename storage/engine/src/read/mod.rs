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
//! `sources` chooses the sources and makes their cursors. Which cells are live and what the limits of a read are is in
//! [`model::shape`]. A read also passes the fragments that it visits to a [`Tap`], which makes a digest of them or a
//! block for another node; a plain read passes them to `()`.
//!
//! Functions come in pairs: `read_now` answers without awaiting, or gives `None` before anything was given to the sink;
//! `read` is its async twin.
//!
//! Invariants: no borrow of a memtable is held across an await, and awaits are only at blocks and where a long read
//! yields; a read keeps the memtable and the view that it began with; a partition is never seen with half of a
//! mutation; a fault in an SSTable is an error of the reads that meet it.

mod memory;
mod merged;
mod point;
mod sources;

use crate::error::Error;
use crate::memtable::Memtable;
use crate::sstables::block_cache::BlockCache;
use crate::sstables::view::View;
use crate::tables::Tables;
use model::query::{Partitions, ReadCommand, ReadEnd, RowSink};
use model::shape::live::CellScratch;
use model::shape::tap::Tap;
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
    pub(crate) async fn read<T: Tap>(
        &self,
        memtable: &Rc<Memtable>,
        view: &Rc<View>,
        command: &ReadCommand,
        sink: &mut dyn RowSink,
        tap: T,
    ) -> Result<ReadEnd, Error> {
        view.check_opened(&command.partitions)?;
        if !sources::beside_memtable(memtable, view, command) {
            return memory::read(memtable, command, &self.scratch, sink, tap).await;
        }
        // Boxed, so that requests that are answered from memory do not carry its size.
        match &command.partitions {
            Partitions::Key(key) if command.is_point() => {
                Box::pin(point::read(self, memtable, view, key, command, sink, tap)).await
            }
            _ => Box::pin(merged::read(self, memtable, view, command, sink, tap)).await,
        }
    }

    /// Reads one partition without waiting; `None` if it would have to wait or yield, having given nothing to the sink.
    pub(crate) fn read_now<T: Tap>(
        &self,
        memtable: &Rc<Memtable>,
        view: &Rc<View>,
        command: &ReadCommand,
        sink: &mut dyn RowSink,
        tap: T,
    ) -> Option<Result<ReadEnd, Error>> {
        let Partitions::Key(key) = &command.partitions else { return None };
        if let Err(error) = view.check_opened(&command.partitions) {
            return Some(Err(error));
        }
        if !sources::beside_memtable(memtable, view, command) {
            return memory::read_now(memtable, command, &self.scratch, sink, tap).map(Ok);
        }
        if command.is_point() { point::read_now(self, memtable, view, key, command, sink, tap) } else { None }
    }
}
