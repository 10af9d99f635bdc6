//! Rows of one partition or of a range of tokens, as a state machine over blocks.
//!
//! 1. Find: the index tells where the partition, or the first of the range, is.
//! 2. Head: key, deletion, and the static row if there is one.
//! 3. Rows: of each slice, forward ([`super::forward`]) or in reverse ([`super::backward`]).
//! 4. The next partition of a scan, until the range's end.
//!
//! Invariants: a step that needs a block changes nothing that the repeated step does not do again; after an error every
//! step gives the same error.

use super::backward::Backward;
use super::window::Window;
use super::{Blocks, Reader, Stop};
use crate::descriptor::Component;
use crate::index::{self, IndexWalk};
use crate::input::{Fault, Input, Problem};
use crate::row_codec::{Scratch, Unfiltered};
use crate::trie;
use crate::{BlockId, Error};
use bytes::Bytes;
use model::fragment::{self, BlockRef, Fragment};
use model::key::TokenRange;
use model::mutation::Clustering;
use model::query::Slice;
use model::row::{Deletion, RowView};
use model::{DecoratedKey, Token};
use std::collections::VecDeque;
use std::sync::Arc;

/// Longest row or marker, in bytes.
pub const UNFILTERED_BYTES_MAX: usize = 1 << 30;

/// What is to be read.
#[derive(Debug)]
pub(super) enum Target {
    Key(DecoratedKey),
    Range(TokenRange),
}

/// Where the cursor is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum State {
    Find,
    /// At a partition's entry in Rows.db.
    Entry(u64),
    /// At a partition's start in Data.db.
    Head,
    /// Within a partition of which nothing more is wanted.
    Skip,
    /// Anywhere: the next partition is the first behind `after`.
    Behind,
    /// Behind the head.
    First,
    /// Before the rows of a slice that the row index has not been asked for.
    Seek,
    Rows,
    Done,
}

/// What a step found, without its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    Start,
    Static,
    Row,
    /// A marker at the comparable form of the scratch.
    Marker(Deletion),
    /// A marker at a bound of a slice.
    Bound(Deletion),
    /// A row or marker of a read in reverse.
    BackRow,
    BackMarker(Deletion),
    End,
}

/// The row index of the current partition.
#[derive(Debug)]
pub(super) enum RowIndex {
    None,
    Bti(trie::RowIndex),
    /// Where it is, and what was read of it.
    Big {
        at: u64,
        len: u64,
        parsed: Option<index::RowIndex>,
    },
}

/// See the module.
#[derive(Debug)]
pub struct Cursor {
    pub(super) reader: Arc<Reader>,
    pub(super) target: Target,
    /// Partitions of a range up to this one are left out.
    pub(super) after: Option<DecoratedKey>,
    pub(super) slices: Arc<[Slice]>,
    pub(super) state: State,
    /// Of a read in reverse.
    pub(super) back: Option<Backward>,
    reversed: bool,
    pub(super) blocks: Blocks,
    pub(super) walk: Option<IndexWalk>,
    window: Window,
    /// Where the next thing in Data.db is.
    pub(super) at: u64,
    /// The current partition.
    pub(super) start: u64,
    pub(super) key: Vec<u8>,
    pub(super) token: Token,
    deletion: Deletion,
    pub(super) row_index: RowIndex,
    /// The slice whose rows come.
    pub(super) slice: usize,
    /// The range tombstone that is open in the file, and the one that was told.
    pub(super) open: Deletion,
    pub(super) told: Deletion,
    /// Markers at bounds of slices that are still to be told.
    pub(super) bounds: VecDeque<(Vec<u8>, Deletion)>,
    pub(super) bound: Vec<u8>,
    pub(super) scratch: Scratch,
    /// What the last step came to.
    event: Option<Event>,
    error: Option<Error>,
}

/// What [`Cursor::advance`] came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CursorStep {
    /// A fragment: [`Cursor::fragment`].
    Fragment,
    /// Nothing before this block is there ([`Cursor::supply`]).
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
            back: None,
            reversed,
            blocks: Blocks::default(),
            walk: None,
            window: Window::default(),
            at: 0,
            start: 0,
            key: Vec::new(),
            token: Token::MIN,
            deletion: Deletion::LIVE,
            row_index: RowIndex::None,
            slice: 0,
            open: Deletion::LIVE,
            told: Deletion::LIVE,
            bounds: VecDeque::new(),
            bound: Vec::new(),
            scratch: Scratch::default(),
            event: None,
            error: None,
        }
    }

    /// What made the last step fail.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// The place of the next fragment in the uncompressed data.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Brings a block that a step needed.
    pub fn supply(&mut self, block: BlockId, bytes: Bytes) {
        if block.component == Component::Data {
            self.window.supply_begin(self.at, block.offset, bytes);
        } else {
            self.blocks.supply(block, bytes);
        }
    }

    /// Brings a block of Data.db that a step needed as the bytes of its range: it is checked and decompressed right behind
    /// what is there, without a copy.
    ///
    /// # Errors
    /// As of [`Reader::decode_block`]; the block is still needed then.
    pub fn supply_raw(&mut self, block: BlockId, raw: &[u8]) -> Result<(), Error> {
        let len = self.reader.decoded_len(block, raw.len());
        let room = self.window.room(self.at, block.offset, len);
        let decoded = self.reader.decode_data(block, raw, room);
        if decoded.is_err() {
            self.window.clear();
        }
        decoded
    }

    /// Goes on to the next fragment, or names a block that it needs first.
    ///
    /// # Errors
    /// Bytes that cannot be used; the same error from then on.
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

    /// The fragment that [`Cursor::advance`] came to.
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
                Fragment::RangeMarker { clustering: Clustering(&[]), comparable: &self.bound, deletion }
            }
            Event::BackRow => {
                let back = self.back.as_ref()?;
                let (clustering, comparable) = back.place();
                Fragment::Row { clustering, comparable, row: back.row() }
            }
            Event::BackMarker(deletion) => {
                let (clustering, comparable) = self.back.as_ref()?.place();
                Fragment::RangeMarker { clustering, comparable, deletion }
            }
            Event::End => Fragment::PartitionEnd,
        })
    }

    /// The SSTable.
    pub fn reader(&self) -> &Arc<Reader> {
        &self.reader
    }

    /// The block that a step asked for.
    pub fn needed_block(&self, need: BlockRef) -> Option<BlockId> {
        let component = *Component::ALL.get(usize::from(need.file))?;
        Some(BlockId { component, offset: need.offset })
    }

    fn next_event(&mut self) -> Result<Option<Event>, Stop> {
        loop {
            match self.state.clone() {
                State::Find => self.find()?,
                State::Entry(at) => self.entry(at)?,
                State::Head => {
                    if let Some(event) = self.head()? {
                        return Ok(Some(event));
                    }
                }
                State::Skip => {
                    if self.unfiltered(|_| false)? == Unfiltered::End {
                        self.state = State::Head;
                    }
                }
                State::Behind => self.behind(true)?,
                State::First => {
                    self.state = State::Seek;
                    match self.first() {
                        Ok(true) => return Ok(Some(Event::Static)),
                        Ok(false) => {}
                        Err(stop) => {
                            self.state = State::First;
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

    /// Reads what is at `at` of Data.db and goes behind it.
    fn read<T>(
        &mut self,
        read: impl FnMut(&Reader, &mut Scratch, &mut Input<'_>) -> Result<T, Fault>,
    ) -> Result<T, Stop> {
        read_at(&self.reader, &mut self.window, &mut self.scratch, &mut self.at, read)
    }

    pub(super) fn unfiltered(&mut self, wanted: impl Fn(&[u8]) -> bool) -> Result<Unfiltered, Stop> {
        self.read(|reader, scratch, input| reader.codec.read(&reader.table, input, scratch, &wanted))
    }

    /// [`Cursor::unfiltered`] of the current slice, which is borrowed: other cores have the same slices, and would wait for
    /// each other at every row to count who holds them.
    pub(super) fn unfiltered_of_slice(&mut self) -> Result<Unfiltered, Stop> {
        let Cursor { reader, window, scratch, at, slices, slice, .. } = self;
        let slice = slices.get(*slice);
        let wanted = |comparable: &[u8]| slice.is_some_and(|slice| slice.contains(comparable));
        read_at(reader, window, scratch, at, |reader, scratch, input| {
            reader.codec.read(&reader.table, input, scratch, wanted)
        })
    }

    /// Reads a partition's head.
    fn head(&mut self) -> Result<Option<Event>, Stop> {
        if self.at == self.reader.data_len {
            self.state = State::Done;
            return Ok(None);
        }
        let start = self.at;
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        let found = self.read(|reader, _, input| {
            key.clear();
            key.extend_from_slice(input.short_bytes()?);
            reader.codec.read_partition_deletion(input)
        });
        self.key = key;
        self.deletion = found?;
        self.start = start;
        let token = Token::of(&self.key);
        let ascends = start == 0 || token >= self.token || matches!(self.target, Target::Key(_));
        if !ascends {
            let fault = Fault::invalid(start, "a partition after the one before");
            return Err(Stop::Fault(Component::Data, fault));
        }
        self.token = token;
        match &self.target {
            Target::Key(wanted) => {
                if wanted.key[..] != self.key[..] {
                    self.state = State::Done;
                    return Ok(None);
                }
            }
            Target::Range(range) => {
                if let Some(after) = &self.after {
                    if (token, &self.key[..]) <= (after.token, &after.key[..]) {
                        self.blocks.clear();
                        self.state = State::Behind;
                        return Ok(None);
                    }
                    self.after = None;
                }
                if range.until != Token::MIN && token > range.until {
                    self.state = State::Done;
                    return Ok(None);
                }
                if !range.contains(token) {
                    self.state = State::Skip;
                    return Ok(None);
                }
            }
        }
        self.slice = 0;
        self.open = Deletion::LIVE;
        self.told = Deletion::LIVE;
        self.state = State::First;
        Ok(Some(Event::Start))
    }

    /// Reads the static row if it is next; whether it holds anything.
    fn first(&mut self) -> Result<bool, Stop> {
        let is_static = self.read(|_, _, input| {
            let mut ahead = *input;
            let flags = ahead.u8()?;
            Ok(flags & (crate::row_codec::END_OF_PARTITION | crate::row_codec::IS_MARKER) == 0
                && flags & crate::row_codec::EXTENDED != 0
                && ahead.u8()? & crate::row_codec::EXTENDED_STATIC != 0)
        })?;
        if !is_static {
            return Ok(false);
        }
        self.unfiltered(|_| true)?;
        Ok(!RowView::trusted(&self.scratch.row).is_empty())
    }

    pub(super) fn end_partition(&mut self) -> Event {
        self.leave_partition(State::Head)
    }

    /// No slice is left; the file may have more of the partition.
    pub(super) fn end_slices(&mut self) -> Event {
        self.leave_partition(State::Skip)
    }

    fn leave_partition(&mut self, next: State) -> Event {
        self.row_index = RowIndex::None;
        self.state = match self.target {
            Target::Key(_) => State::Done,
            Target::Range(_) => next,
        };
        Event::End
    }

    /// The block that stopped it, if the file has it.
    fn stopped(&self, stop: Stop) -> Result<BlockId, Error> {
        let (component, fault) = match stop {
            Stop::Need(block) => return self.reader.block_range(block).map(|_| block),
            Stop::Fault(component, fault) => (component, fault),
            Stop::IndexFault(fault) => (Component::Data, fault),
        };
        Err(fault.in_file(&self.reader.descriptor, component))
    }
}

/// Reads what is at `at` of Data.db, which the window has or is to have, and moves `at` behind it.
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
        let behind = input.offset();
        match found {
            Ok(found) => {
                *at = behind;
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

/// Whether a row of which so many bytes do not suffice may be longer.
fn check_len(len: usize, offset: u64) -> Result<(), Fault> {
    match len {
        ..=UNFILTERED_BYTES_MAX => Ok(()),
        _ => Err(Fault { offset, problem: Problem::Limit("UNFILTERED_BYTES_MAX") }),
    }
}

/// Names the component of an index whose bytes cannot be used.
pub(super) fn in_file<T>(result: Result<T, Stop>, component: Component) -> Result<T, Stop> {
    result.map_err(|stop| match stop {
        Stop::IndexFault(fault) => Stop::Fault(component, fault),
        other => other,
    })
}

impl fragment::Cursor for Cursor {
    type Error = Error;

    fn advance(&mut self) -> Result<fragment::Progress, Error> {
        Ok(match Cursor::advance(self)? {
            CursorStep::Fragment => fragment::Progress::Fragment,
            CursorStep::Need(BlockId { component, offset }) => {
                fragment::Progress::Need(BlockRef { source: 0, file: component as u8, offset })
            }
            CursorStep::End => fragment::Progress::End,
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
