//! A cursor over the rows of one partition or of a range of tokens: a state machine that asks for blocks.
//!
//! 1. The index finds the partition, or the first one of the range ([`super::lookup`]).
//! 2. Key, deletion and static row are read from the partition's head.
//! 3. The rows of each slice follow, forward ([`super::forward`]) or in reverse ([`super::backward`]).
//! 4. A scan goes on with the next partition until the range ends.
//!
//! Invariants: partitions come in ascending order, each once; a step that needs a block can be repeated once the block
//! has been supplied; after an error every step gives the same error.

use super::Reader;
use super::reverse_block::ReverseBlock;
use super::window::Window;
use crate::block::{BlockId, IndexBlocks, Stop};
use crate::descriptor::Component;
use crate::error::{Error, Fault, Problem};
use crate::index::{BigRowIndex, IndexWalk};
use crate::input::Input;
use crate::row_codec::{END_OF_PARTITION, EXTENDED, EXTENDED_STATIC, IS_MARKER, Scratch, Unfiltered};
use crate::trie::{RowsEntry, UndecidedLeaf};
use bytes::Bytes;
use model::fragment::{self, BlockRef, Fragment};
use model::mutation::Clustering;
use model::query::Slice;
use model::row::{Deletion, RowView};
use model::token::TokenRange;
use model::{DecoratedKey, Token};
use std::collections::VecDeque;
use std::sync::Arc;

/// Longest row or range tombstone marker, in bytes.
pub const UNFILTERED_BYTES_MAX: usize = 1 << 30;

/// What a cursor reads.
#[derive(Debug)]
pub(super) enum Target {
    Key(DecoratedKey),
    Range(TokenRange),
}

/// What a cursor does next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Ask the index for the partition, or for the first one of the range.
    Find,
    /// Read the partition's entry in Rows.db, at this offset.
    RowsEntry(u64),
    /// Read the head of a partition in Data.db.
    Head,
    /// Skip the rest of a partition row by row.
    SkipRows,
    /// Ask the index for the first partition after the key in `after`.
    FindNext,
    /// Read the static row, if there is one.
    StaticRow,
    /// Ask the row index where the slice begins.
    Seek,
    /// Read the rows of the slice.
    Rows,
    /// Nothing is left.
    Done,
}

/// What a step found; its data is in the cursor's buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    Start,
    Static,
    Row,
    /// A marker of the file, at the position in `scratch`.
    Marker(Deletion),
    /// A marker at a bound of a slice, at the position in `slice_bound`.
    Bound(Deletion),
    /// A row from the buffer of a reverse read.
    ReverseRow,
    /// A marker from the buffer of a reverse read.
    ReverseMarker(Deletion),
    End,
}

/// The row index of the current partition.
#[derive(Debug)]
pub(super) enum RowIndex {
    None,
    /// A trie in Rows.db.
    Bti(RowsEntry),
    /// A list in Index.db: offset and length in bytes, and the list once it has been parsed.
    Big {
        at: u64,
        len: u64,
        parsed: Option<BigRowIndex>,
    },
}

/// A cursor over partitions of one SSTable. It does no I/O: [`Cursor::advance`] names the blocks that it needs.
#[derive(Debug)]
pub struct Cursor {
    pub(super) reader: Arc<Reader>,
    pub(super) target: Target,
    /// A scan leaves out partitions up to this key, inclusive.
    pub(super) after: Option<DecoratedKey>,
    /// The slices of each partition that are read, in clustering order.
    pub(super) slices: Arc<[Slice]>,
    pub(super) state: State,
    /// The state of a read in reverse.
    pub(super) reverse: Option<ReverseBlock>,
    reversed: bool,
    /// The blocks that have been supplied for the current lookup.
    pub(super) index_blocks: IndexBlocks,
    /// How far the current search through Index.db has come.
    pub(super) index_walk: Option<IndexWalk>,
    window: Window,
    /// The offset in Data.db to read from next.
    pub(super) at: u64,
    /// The offset of the current partition in Data.db.
    pub(super) partition_start: u64,
    pub(super) key: Vec<u8>,
    pub(super) token: Token,
    /// The key of the partition read before, and whether there was one.
    previous_key: Vec<u8>,
    has_previous: bool,
    deletion: Deletion,
    pub(super) row_index: RowIndex,
    /// The index of the slice that is being read.
    pub(super) slice_index: usize,
    /// The range tombstone that is open in the file at `at`.
    pub(super) open: Deletion,
    /// The range tombstone that the markers given so far leave open.
    pub(super) emitted_open: Deletion,
    /// Markers at bounds of slices that are still to be given.
    pub(super) pending_bounds: VecDeque<(Vec<u8>, Deletion)>,
    /// The comparable form of the last one given.
    pub(super) slice_bound: Vec<u8>,
    pub(super) scratch: Scratch,
    /// What the last step found.
    event: Option<Event>,
    error: Option<Error>,
}

/// The outcome of [`Cursor::advance`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CursorStep {
    /// A fragment was found; [`Cursor::fragment`] returns it.
    Fragment,
    /// This block has to be supplied ([`Cursor::supply`]) before the cursor can go on.
    Need(BlockId),
    /// Nothing is left.
    End,
}

impl Cursor {
    pub(super) fn scan(
        reader: Arc<Reader>,
        range: TokenRange,
        after: Option<DecoratedKey>,
        slices: Arc<[Slice]>,
    ) -> Cursor {
        Cursor { after, ..Cursor::new(reader, Target::Range(range), slices, false) }
    }

    pub(super) fn partition(reader: Arc<Reader>, key: DecoratedKey, slices: Arc<[Slice]>, reversed: bool) -> Cursor {
        Cursor::new(reader, Target::Key(key), slices, reversed)
    }

    fn new(reader: Arc<Reader>, target: Target, slices: Arc<[Slice]>, reversed: bool) -> Cursor {
        Cursor {
            reader,
            target,
            after: None,
            slices,
            state: State::Find,
            reverse: None,
            reversed,
            index_blocks: IndexBlocks::default(),
            index_walk: None,
            window: Window::default(),
            at: 0,
            partition_start: 0,
            key: Vec::new(),
            token: Token::MIN,
            previous_key: Vec::new(),
            has_previous: false,
            deletion: Deletion::LIVE,
            row_index: RowIndex::None,
            slice_index: 0,
            open: Deletion::LIVE,
            emitted_open: Deletion::LIVE,
            pending_bounds: VecDeque::new(),
            slice_bound: Vec::new(),
            scratch: Scratch::default(),
            event: None,
            error: None,
        }
    }

    /// Returns the error that ended the cursor, if one did.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Returns the offset of the next fragment in the uncompressed data.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Supplies a block that a step needed.
    pub fn supply(&mut self, block: BlockId, bytes: Bytes) {
        if block.component == Component::Data {
            self.window.supply_begin(self.at, block.offset, bytes);
        } else {
            self.index_blocks.supply(block, bytes);
        }
    }

    /// Supplies a block of Data.db that a step needed, as the bytes of its range. It is checked and decompressed
    /// straight into the cursor's buffer.
    ///
    /// # Errors
    /// The bytes do not match their checksum, or a chunk does not decompress to its length; the block is still needed.
    pub fn supply_raw(&mut self, block: BlockId, raw: &[u8]) -> Result<(), Error> {
        let len = self.reader.decoded_len(block, raw.len())?;
        let room = self.window.room(self.at, block.offset, len);
        let decoded = self.reader.decode_data(block, raw, room);
        if decoded.is_err() {
            self.window.clear();
        }
        decoded
    }

    /// Goes on to the next fragment, or names a block that is needed first.
    ///
    /// # Errors
    /// The bytes of a file cannot be used. Every further call returns the same error.
    pub fn advance(&mut self) -> Result<CursorStep, Error> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        self.event = None;
        match self.next_event() {
            Ok(Some(event)) => {
                self.event = Some(event);
                Ok(CursorStep::Fragment)
            }
            Ok(None) => Ok(CursorStep::End),
            Err(stop) => self.stopped(stop).map(CursorStep::Need).inspect_err(|error| self.error = Some(error.clone())),
        }
    }

    /// Returns the fragment that [`Cursor::advance`] found last.
    pub fn fragment(&self) -> Option<Fragment<'_>> {
        Some(match self.event? {
            Event::Start => Fragment::PartitionStart { token: self.token, key: &self.key, deletion: self.deletion },
            Event::Static => Fragment::StaticRow { row: RowView::trusted(&self.scratch.row) },
            Event::Row => Fragment::Row {
                clustering: Clustering(&self.scratch.clustering),
                comparable: &self.scratch.comparable,
                row: RowView::trusted(&self.scratch.row),
            },
            Event::Marker(deletion) => Fragment::RangeMarker {
                clustering: Clustering(&self.scratch.clustering),
                comparable: &self.scratch.comparable,
                deletion,
            },
            Event::Bound(deletion) => {
                Fragment::RangeMarker { clustering: Clustering(&[]), comparable: &self.slice_bound, deletion }
            }
            Event::ReverseRow => {
                let reverse = self.reverse.as_ref()?;
                let (clustering, comparable) = reverse.position();
                Fragment::Row { clustering, comparable, row: reverse.row() }
            }
            Event::ReverseMarker(deletion) => {
                let (clustering, comparable) = self.reverse.as_ref()?.position();
                Fragment::RangeMarker { clustering, comparable, deletion }
            }
            Event::End => Fragment::PartitionEnd,
        })
    }

    /// Returns the SSTable that the cursor reads.
    pub fn reader(&self) -> &Arc<Reader> {
        &self.reader
    }

    /// Returns the block that a step asked for through [`fragment::Cursor`]; `None` if it cannot be one of this
    /// cursor's.
    pub fn needed_block(&self, need: BlockRef) -> Option<BlockId> {
        let component = *Component::ALL.get(usize::from(need.file))?;
        Some(BlockId { component, offset: need.offset })
    }

    fn next_event(&mut self) -> Result<Option<Event>, Stop> {
        loop {
            match self.state.clone() {
                State::Find => self.find()?,
                State::RowsEntry(at) => self.read_rows_entry(at)?,
                State::Head => {
                    if let Some(event) = self.read_head()? {
                        return Ok(Some(event));
                    }
                }
                State::SkipRows => {
                    if self.unfiltered(|_| false)? == Unfiltered::End {
                        self.state = State::Head;
                    }
                }
                State::FindNext => self.find_after(UndecidedLeaf::Skip)?,
                State::StaticRow => {
                    self.state = State::Seek;
                    match self.read_static_row() {
                        Ok(true) => return Ok(Some(Event::Static)),
                        Ok(false) => {}
                        Err(stop) => {
                            self.state = State::StaticRow;
                            return Err(stop);
                        }
                    }
                }
                State::Seek => {
                    if !self.reversed {
                        self.seek()?;
                    }
                    self.state = State::Rows;
                }
                State::Rows => {
                    let found = if self.reversed { self.rows_back()? } else { self.rows()? };
                    if let Some(event) = found {
                        return Ok(Some(event));
                    }
                }
                State::Done => return Ok(None),
            }
        }
    }

    /// Applies `read` to the data at `at` and moves `at` to where it ended.
    fn read<T>(
        &mut self,
        read: impl FnMut(&Reader, &mut Scratch, &mut Input<'_>) -> Result<T, Fault>,
    ) -> Result<T, Stop> {
        read_at(&self.reader, &mut self.window, &mut self.scratch, &mut self.at, read)
    }

    /// Reads the next row, marker or end of partition into `scratch`. A row's cells are decoded only if `wanted` says
    /// so for its comparable form.
    pub(super) fn unfiltered(&mut self, wanted: impl Fn(&[u8]) -> bool) -> Result<Unfiltered, Stop> {
        self.read(|reader, scratch, input| reader.codec.read(&reader.table, input, scratch, &wanted))
    }

    /// Reads the next row, marker or end of partition; rows outside of the current slice are not decoded. The slice is
    /// borrowed, because a clone of the shared `Arc` for every row would make the cores that read it contend for its
    /// count.
    pub(super) fn unfiltered_of_slice(&mut self) -> Result<Unfiltered, Stop> {
        let Cursor { reader, window, scratch, at, slices, slice_index, .. } = self;
        let slice = slices.get(*slice_index);
        let wanted = |comparable: &[u8]| slice.is_some_and(|slice| slice.contains(comparable));
        read_at(reader, window, scratch, at, |reader, scratch, input| {
            reader.codec.read(&reader.table, input, scratch, wanted)
        })
    }

    /// Reads a partition's head. `None`: the partition is not wanted, or there is none.
    fn read_head(&mut self) -> Result<Option<Event>, Stop> {
        if self.at == self.reader.data_len {
            self.state = State::Done;
            return Ok(None);
        }
        let start = self.at;
        let mut key = std::mem::take(&mut self.previous_key);
        let found = self.read(|reader, _, input| {
            key.clear();
            key.extend_from_slice(input.short_bytes()?);
            reader.codec.read_partition_deletion(input)
        });
        self.previous_key = key;
        self.deletion = found?;
        self.partition_start = start;
        std::mem::swap(&mut self.key, &mut self.previous_key);
        let partitioner = self.reader.partitioner;
        let token = partitioner.token(&self.key);
        let previous = (self.token, &self.previous_key[..]);
        let ascends = !self.has_previous || partitioner.compare((token, &self.key), previous).is_gt();
        if !ascends {
            // It may also be that a damaged index led back here, which would be repeated forever.
            let fault = Fault::invalid(start, "a partition after the one before");
            return Err(Stop::Fault(Component::Data, fault));
        }
        self.token = token;
        self.has_previous = true;
        match &self.target {
            Target::Key(wanted) => {
                if wanted.key[..] != self.key[..] {
                    self.state = State::Done;
                    return Ok(None);
                }
            }
            Target::Range(range) => {
                if let Some(after) = &self.after {
                    if partitioner.compare((token, &self.key), (after.token, &after.key)).is_le() {
                        self.index_blocks.clear();
                        self.state = State::FindNext;
                        return Ok(None);
                    }
                    self.after = None;
                }
                if range.is_passed(token, &self.key) {
                    self.state = State::Done;
                    return Ok(None);
                }
                if !range.is_begun(token, &self.key) {
                    self.state = State::SkipRows;
                    return Ok(None);
                }
            }
        }
        self.slice_index = 0;
        self.open = Deletion::LIVE;
        self.emitted_open = Deletion::LIVE;
        self.state = State::StaticRow;
        Ok(Some(Event::Start))
    }

    /// Reads the static row if it is next. Returns whether there is one that holds anything.
    fn read_static_row(&mut self) -> Result<bool, Stop> {
        let is_static = self.read(|_, _, input| {
            let mut ahead = *input;
            let flags = ahead.u8()?;
            Ok(flags & (END_OF_PARTITION | IS_MARKER) == 0
                && flags & EXTENDED != 0
                && ahead.u8()? & EXTENDED_STATIC != 0)
        })?;
        if !is_static {
            return Ok(false);
        }
        self.unfiltered(|_| true)?;
        Ok(!RowView::trusted(&self.scratch.row).is_empty())
    }

    /// Ends the partition at its end in the file.
    pub(super) fn end_partition(&mut self) -> Event {
        self.leave_partition(State::Head)
    }

    /// Ends the partition after its last slice, although the file may have more rows of it.
    pub(super) fn end_slices(&mut self) -> Event {
        self.leave_partition(State::SkipRows)
    }

    fn leave_partition(&mut self, next: State) -> Event {
        self.row_index = RowIndex::None;
        self.state = match self.target {
            Target::Key(_) => State::Done,
            Target::Range(_) => next,
        };
        Event::End
    }

    /// Returns the block that a step needs, if the file has it.
    fn stopped(&self, stop: Stop) -> Result<BlockId, Error> {
        let (component, fault) = match stop {
            Stop::Need(block) => return self.reader.block_range(block).map(|_| block),
            Stop::Fault(component, fault) => (component, fault),
            Stop::IndexFault(fault) => (Component::Data, fault),
        };
        Err(fault.in_file(&self.reader.descriptor, component))
    }
}

/// Applies `read` to the data at `at` and moves `at` to where it ended. Asks for a block if the window does not have
/// enough of the data.
fn read_at<T>(
    reader: &Reader,
    window: &mut Window,
    scratch: &mut Scratch,
    at: &mut u64,
    mut read: impl FnMut(&Reader, &mut Scratch, &mut Input<'_>) -> Result<T, Fault>,
) -> Result<T, Stop> {
    let len = reader.data_len;
    let need = |at: u64| {
        if at >= len {
            return Stop::Fault(Component::Data, Fault { offset: at, problem: Problem::Truncated });
        }
        let block_len = reader.block_len(Component::Data);
        Stop::Need(BlockId { component: Component::Data, offset: at - at % block_len })
    };
    window.forget(*at);
    loop {
        let Some(mut input) = window.input(*at).filter(|input| !input.is_empty()) else {
            return Err(need(*at));
        };
        let found = read(reader, scratch, &mut input);
        let end = input.offset();
        match found {
            Ok(found) => {
                *at = end;
                return Ok(found);
            }
            Err(fault) if fault.problem == Problem::Truncated && window.more() => {}
            Err(fault) if fault.problem == Problem::Truncated && window.end() < len => {
                check_len(window.len(), *at).map_err(|fault| Stop::Fault(Component::Data, fault))?;
                return Err(need(window.end()));
            }
            Err(fault) => return Err(Stop::Fault(Component::Data, fault)),
        }
    }
}

/// Checks that a row may be longer than the `len` bytes of it that are there.
fn check_len(len: usize, offset: u64) -> Result<(), Fault> {
    match len {
        ..=UNFILTERED_BYTES_MAX => Ok(()),
        _ => Err(Fault { offset, problem: Problem::Limit("UNFILTERED_BYTES_MAX") }),
    }
}

impl fragment::Cursor for Cursor {
    type Error = Error;

    fn advance(&mut self) -> Result<fragment::FragmentStep, Error> {
        Ok(match Cursor::advance(self)? {
            CursorStep::Fragment => fragment::FragmentStep::Fragment,
            CursorStep::Need(BlockId { component, offset }) => {
                fragment::FragmentStep::Need(BlockRef { source: 0, file: component as u8, offset })
            }
            CursorStep::End => fragment::FragmentStep::End,
        })
    }

    fn fragment(&self) -> Option<Fragment<'_>> {
        Cursor::fragment(self)
    }

    fn skip_partition(&mut self) {
        Cursor::skip_partition(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_bounded() {
        assert_eq!(check_len(UNFILTERED_BYTES_MAX, 7), Ok(()));
        let fault = Fault { offset: 7, problem: Problem::Limit("UNFILTERED_BYTES_MAX") };
        assert_eq!(check_len(UNFILTERED_BYTES_MAX + 1, 7), Err(fault));
    }
}
