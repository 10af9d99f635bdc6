//! Chooses the memtables and SSTables that a read merges, and makes the cursors over them.
//!
//! The read of a key leaves out an SSTable if its tokens, its bloom filter or the bounds of its clusterings say that it
//! has nothing, or if a deletion of the whole partition is newer than everything in it. Source: Cassandra 5's
//! `SinglePartitionReadCommand`.
//!
//! Invariants: an SSTable that may have a deletion of a partition is not left out because of its clusterings.

use crate::error::Error;
use crate::memtable::Memtable;
use crate::memtable::buffered::BufferedCursor;
use crate::sstables::block_cache::BlockCache;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::view::View;
use bytes::Bytes;
use model::DecoratedKey;
use model::fragment::{BlockRef, Cursor, Fragment, FragmentStep};
use model::query::{Partitions, ReadCommand, Slice};
use model::row::Deletion;
use model::token::TokenRange;
use sstable::filter::KeyHash;
use sstable::{BlockId, Component};
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of Data.db that a scan reads ahead of each SSTable when it begins.
const AHEAD_BYTES: u64 = 128 << 10;
/// The most that it reads ahead of each once it goes on.
const AHEAD_BYTES_MAX: u64 = 512 << 10;

/// A cursor over one memtable or SSTable.
pub(super) enum Source {
    Memory(Box<BufferedCursor>),
    Sstable(Box<SstableSource>),
}

/// A cursor over an SSTable, with what was read ahead of it.
pub(super) struct SstableSource {
    pub(super) sstable: Rc<OpenSstable>,
    pub(super) cursor: sstable::reader::Cursor,
    /// Whether the cursor was stepped already, so that its fragment is the next.
    held: bool,
    /// The end of the last block of Data.db that the cursor was given.
    data_end: u64,
    /// The end of the last block that was read ahead.
    ahead_end: u64,
    /// Bytes that may be read ahead, and the most that this may become.
    ahead_bytes: u64,
    ahead_bytes_max: u64,
}

impl SstableSource {
    fn new(sstable: Rc<OpenSstable>, cursor: sstable::reader::Cursor, held: bool) -> SstableSource {
        let (ahead_bytes, ahead_bytes_max) = (AHEAD_BYTES, AHEAD_BYTES);
        SstableSource { sstable, cursor, held, data_end: 0, ahead_end: 0, ahead_bytes, ahead_bytes_max }
    }
}

impl Source {
    pub(super) fn sstable(sstable: &Rc<OpenSstable>, cursor: sstable::reader::Cursor) -> Source {
        let sstable = sstable.clone();
        Source::Sstable(Box::new(SstableSource::new(sstable, cursor, false)))
    }

    /// Lets a scan read more ahead the longer it goes on, up to a share of the cache; a page behind another has gone
    /// on.
    fn reading_on(mut self, share: usize, goes_on: bool) -> Source {
        if let Source::Sstable(source) = &mut self {
            source.ahead_bytes_max = AHEAD_BYTES_MAX.min(share as u64).max(AHEAD_BYTES);
            source.ahead_bytes = if goes_on { source.ahead_bytes_max } else { AHEAD_BYTES };
        }
        self
    }

    /// The block that a step asked for; `None` if the source only gave other tasks a chance to run.
    pub(super) fn needed(&self, need: BlockRef) -> Option<(Rc<OpenSstable>, BlockId)> {
        match self {
            Source::Memory(_) => None,
            Source::Sstable(source) => Some((source.sstable.clone(), source.cursor.needed_block(need)?)),
        }
    }

    pub(super) fn supply(&mut self, block: BlockId, bytes: Bytes) {
        if let Source::Sstable(source) = self {
            source.cursor.supply(block, bytes);
        }
    }

    /// Reads ahead of a scan that has come to a block of Data.db by the one before: half of what it may, once as much
    /// of it was used, so that one read brings several blocks; then it may read twice as much.
    pub(super) fn read_ahead(&mut self, cache: &Rc<BlockCache>, block: BlockId) {
        let Source::Sstable(source) = self else { return };
        if block.component != Component::Data {
            return;
        }
        let reader = &source.sstable.reader;
        let len = reader.block_len(Component::Data);
        let in_order = source.data_end == block.offset;
        source.data_end = block.offset + len;
        if !in_order {
            source.ahead_end = source.data_end;
            return;
        }
        let count = (source.ahead_bytes / len).max(1);
        let offset = source.ahead_end.max(source.data_end);
        let until = source.data_end + count * len;
        if offset < reader.data_len() && until - offset >= count.div_ceil(2) * len {
            cache.ahead_until(&source.sstable, BlockId { offset, ..block }, until.min(reader.data_len()));
            source.ahead_end = until;
            source.ahead_bytes = (2 * source.ahead_bytes).min(source.ahead_bytes_max);
        }
    }

    /// The error of a read that met a fault in the source.
    pub(super) fn fault(&self, error: sstable::Error) -> Error {
        match self {
            // A memtable has none.
            Source::Memory(_) => Error::BadSstable { directory: Default::default(), error },
            Source::Sstable(source) => fault(&source.sstable, error),
        }
    }
}

/// Marks an SSTable in which a read found a fault.
pub(super) fn fault(sstable: &OpenSstable, error: sstable::Error) -> Error {
    sstable.suspect.set(true);
    Error::BadSstable { directory: sstable.directory.clone(), error }
}

impl Cursor for Source {
    type Error = sstable::Error;

    fn advance(&mut self) -> Result<FragmentStep, sstable::Error> {
        match self {
            Source::Memory(cursor) => cursor.advance(),
            Source::Sstable(source) => match std::mem::take(&mut source.held) {
                true => Ok(FragmentStep::Fragment),
                false => Cursor::advance(&mut source.cursor),
            },
        }
    }

    fn fragment(&self) -> Option<Fragment<'_>> {
        match self {
            Source::Memory(cursor) => cursor.fragment(),
            Source::Sstable(source) => source.cursor.fragment(),
        }
    }

    fn skip_partition(&mut self) {
        match self {
            Source::Memory(cursor) => cursor.skip_partition(),
            Source::Sstable(source) => source.cursor.skip_partition(),
        }
    }
}

/// Decides which SSTables matter to the read of one partition.
pub(super) struct PartitionProbe<'a> {
    key: &'a DecoratedKey,
    hash: KeyHash,
    slices: &'a [Slice],
    statics: bool,
}

impl<'a> PartitionProbe<'a> {
    pub(super) fn new(key: &'a DecoratedKey, slices: &'a [Slice], statics: bool) -> PartitionProbe<'a> {
        PartitionProbe { key, hash: KeyHash::of(&key.key), slices, statics }
    }

    /// Whether an SSTable may have something for the read.
    pub(super) fn may_be_in(&self, sstable: &OpenSstable) -> bool {
        let (first, last) = sstable.tokens();
        first <= self.key.token
            && self.key.token <= last
            && sstable.reader.may_contain_hash(self.hash)
            && (sstable.covers_any(self.slices)
                || sstable.deletes_partitions()
                || self.statics && sstable.has_statics())
    }
}

/// Whether anything besides the active memtable may have something for a read.
pub(super) fn beside_memtable(memtable: &Memtable, view: &View, command: &ReadCommand) -> bool {
    if view.is_empty() {
        return false;
    }
    match &command.partitions {
        Partitions::Key(key) => {
            let deletion = partition_deletion(memtable, key).unwrap_or(Deletion::LIVE);
            let wanted = PartitionProbe::new(key, &command.slices, command.wants_static);
            view.flushing.iter().any(|memtable| partition_deletion(memtable, key).is_some())
                || not_older_than(view, deletion).any(|sstable| wanted.may_be_in(sstable))
        }
        Partitions::Range(range) => {
            view.flushing.iter().any(|memtable| !memtable.read().partitions.is_empty())
                || view.sstables.iter().any(|sstable| overlaps(sstable, range))
        }
    }
}

/// The deletion of a partition; `None` without the partition.
pub(super) fn partition_deletion(memtable: &Memtable, key: &DecoratedKey) -> Option<Deletion> {
    let contents = memtable.read();
    contents.partitions.get(&contents.arena, key.token.prefix(), &key.key).map(|partition| partition.deletion)
}

/// The SSTables that have something as new as a deletion: of deletions with one timestamp the one of the later second
/// counts.
fn not_older_than(view: &View, deletion: Deletion) -> impl Iterator<Item = &Rc<OpenSstable>> {
    view.sstables.iter().take_while(move |sstable| sstable.max_timestamp() >= deletion.timestamp)
}

fn overlaps(sstable: &OpenSstable, range: &TokenRange) -> bool {
    let (first, last) = sstable.tokens();
    range.may_overlap(first, last)
}

/// The memtables of a table, the active one first.
pub(super) fn memtables<'a>(memtable: &'a Rc<Memtable>, view: &'a View) -> impl Iterator<Item = &'a Rc<Memtable>> {
    std::iter::once(memtable).chain(&view.flushing)
}

/// The sources of one partition's slices. Heads of partitions are read here, newest SSTable first, as long as they may
/// have a deletion that makes older ones needless.
pub(super) async fn of_key(
    cache: &Rc<BlockCache>,
    memtable: &Rc<Memtable>,
    view: &View,
    key: &DecoratedKey,
    slices: &Arc<[Slice]>,
    reversed: bool,
    statics: bool,
) -> Result<Vec<Source>, Error> {
    let mut found = Vec::new();
    let mut deletion = Deletion::LIVE;
    for memtable in memtables(memtable, view) {
        if let Some(its) = partition_deletion(memtable, key) {
            deletion = deletion.max(its);
            let cursor = BufferedCursor::partition(memtable, key.clone(), slices.clone(), reversed);
            found.push(Source::Memory(Box::new(cursor)));
        }
    }
    let wanted = PartitionProbe::new(key, slices, statics);
    let mut sstables = not_older_than(view, deletion).filter(|sstable| wanted.may_be_in(sstable)).peekable();
    while let Some(sstable) = sstables.next() {
        if sstable.max_timestamp() < deletion.timestamp {
            break;
        }
        let mut cursor = sstable.reader.partition(key.clone(), slices.clone(), reversed);
        let mut held = false;
        if sstables.peek().is_some() && sstable.deletes_partitions() {
            held = step(cache, sstable, &mut cursor).await?;
            if !held {
                continue;
            }
            if let Some(Fragment::PartitionStart { deletion: its, .. }) = cursor.fragment() {
                deletion = deletion.max(its);
            }
        }
        found.push(Source::Sstable(Box::new(SstableSource::new(sstable.clone(), cursor, held))));
    }
    Ok(found)
}

/// Steps a cursor to its next fragment; false at the end.
pub(super) async fn step(
    cache: &Rc<BlockCache>,
    sstable: &Rc<OpenSstable>,
    cursor: &mut sstable::reader::Cursor,
) -> Result<bool, Error> {
    loop {
        match cursor.advance().map_err(|error| fault(sstable, error))? {
            sstable::reader::CursorStep::Fragment => return Ok(true),
            sstable::reader::CursorStep::End => return Ok(false),
            sstable::reader::CursorStep::Need(block) => {
                let bytes = cache.load(sstable, block).await?;
                cursor.supply(block, bytes);
            }
        }
    }
}

/// The sources of some slices of all partitions of a range of tokens, of those behind `after` if it is given. Rows come
/// forwards.
pub(super) fn of_range(
    cache: &BlockCache,
    memtable: &Rc<Memtable>,
    view: &View,
    range: &TokenRange,
    after: Option<&DecoratedKey>,
    slices: &Arc<[Slice]>,
) -> Vec<Source> {
    let memory = memtables(memtable, view).map(|memtable| {
        Source::Memory(Box::new(BufferedCursor::scan(memtable, range.clone(), after.cloned(), slices.clone())))
    });
    let share = cache.ahead_bytes_max(view.sstables.len());
    let sstables = view
        .sstables
        .iter()
        .filter(|sstable| overlaps(sstable, range) && after.is_none_or(|after| after.token <= sstable.tokens().1));
    let sstables = sstables.map(|sstable| {
        let cursor = sstable.reader.scan_from(range.clone(), after.cloned(), slices.clone());
        Source::sstable(sstable, cursor).reading_on(share, after.is_some())
    });
    memory.chain(sstables).collect()
}
