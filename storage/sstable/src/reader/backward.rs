//! Rows of one partition in reverse.
//!
//! 1. The slices from the last one on. The row index tells the block that the slice's end lies in.
//! 2. A block is read forward, what of it lies in the slice is kept, and given from its end.
//! 3. Then the block before, until one that begins at or before the slice's start. Without a row index the partition is
//!    one block.
//!
//! A range tombstone that is open at a slice's end is opened there, and closed at its start.
//!
//! Invariants: what is in memory is of one block and at most [`BACKWARD_BYTES_MAX`]; a step that needs a block of a
//! file goes on where it stopped.

use super::Stop;
use super::cursor::{Cursor, Event, RowIndex, in_file};
use crate::descriptor::Component;
use crate::index;
use crate::input::{Fault, Problem};
use crate::row_codec::Unfiltered;
use crate::trie::RowBlock;
use model::mutation::Clustering;
use model::query::Slice;
use model::row::{Deletion, RowView};
use std::ops::Range;

/// Most bytes of rows that are kept of a block; only blocks of a partition whose row index is missing can be so long.
pub const BACKWARD_BYTES_MAX: usize = 1 << 30;

/// Which block of the row index.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    /// The only one.
    Only,
    /// That of a separator in a trie.
    Separator(Vec<u8>),
    /// That of an entry.
    Entry(usize),
}

/// What comes next.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Phase {
    /// The slice before.
    Slice,
    /// The rest of a block, up to a place from the partition's start or, of the slice's last one, to the slice's end.
    Fill { until: Option<u64> },
    /// What was kept of the block, then the block before.
    Give,
}

/// A row, or a marker without one, as ranges of the buffer.
#[derive(Debug)]
struct Kept {
    clustering: Range<usize>,
    comparable: Range<usize>,
    row: Option<Range<usize>>,
    /// Of a marker what is in force before it.
    deletion: Deletion,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Backward {
    phase: Phase,
    /// Slices that are left, that of the blocks included.
    slices: usize,
    /// Where the rows begin in the uncompressed data.
    rows_at: Option<u64>,
    place: Place,
    /// Where the block begins, from the partition's start.
    offset: u64,
    /// What is open at the place that the block was read to, where the block began, and where the one behind it began.
    open: Deletion,
    open_at_start: Deletion,
    open_behind: Deletion,
    kept: Vec<Kept>,
    buffer: Vec<u8>,
    given: Option<Kept>,
}

impl Default for Backward {
    fn default() -> Backward {
        Backward {
            phase: Phase::Slice,
            slices: 0,
            rows_at: None,
            place: Place::Only,
            offset: 0,
            open: Deletion::LIVE,
            open_at_start: Deletion::LIVE,
            open_behind: Deletion::LIVE,
            kept: Vec::new(),
            buffer: Vec::new(),
            given: None,
        }
    }
}

impl Backward {
    fn bytes(&self, range: &Range<usize>) -> &[u8] {
        self.buffer.get(range.clone()).unwrap_or_default()
    }

    /// Clustering and comparable form of what was given last.
    pub(super) fn place(&self) -> (Clustering<'_>, &[u8]) {
        match &self.given {
            Some(given) => (Clustering(self.bytes(&given.clustering)), self.bytes(&given.comparable)),
            None => Default::default(),
        }
    }

    /// The row that was given last.
    pub(super) fn row(&self) -> RowView<'_> {
        let row = self.given.as_ref().and_then(|given| given.row.as_ref());
        RowView::trusted(row.map_or(&[], |row| self.bytes(row)))
    }

    fn keep(&mut self, clustering: &[u8], comparable: &[u8], row: Option<&[u8]>, deletion: Deletion) {
        let mut put = |bytes: &[u8]| {
            let start = self.buffer.len();
            self.buffer.extend_from_slice(bytes);
            start..self.buffer.len()
        };
        let kept = Kept { clustering: put(clustering), comparable: put(comparable), row: row.map(put), deletion };
        self.kept.push(kept);
    }
}

impl Cursor {
    /// The next row or marker of the slices, in reverse.
    pub(super) fn rows_back(&mut self) -> Result<Option<Event>, Stop> {
        let mut back = self.back.take().unwrap_or_default();
        let found = self.step_back(&mut back);
        self.back = Some(back);
        found
    }

    fn step_back(&mut self, back: &mut Backward) -> Result<Option<Event>, Stop> {
        if back.rows_at.is_none() {
            back.rows_at = Some(self.at);
            back.slices = self.slices.len();
        }
        if let Some((bound, deletion)) = self.bounds.pop_front() {
            self.bound = bound;
            self.scratch.clustering.clear();
            return Ok(Some(Event::Bound(deletion)));
        }
        let slices = self.slices.clone();
        let slice = back.slices.checked_sub(1).and_then(|last| slices.get(last));
        match (back.phase.clone(), slice) {
            (Phase::Slice, None) => return Ok(Some(self.end_partition())),
            (Phase::Slice, Some(slice)) => {
                let (place, block) = self.block_at(&slice.end)?;
                self.begin_block(back, place, block, None);
            }
            (Phase::Fill { until }, slice) => {
                let Some(slice) = slice else { return Ok(None) };
                self.fill(back, slice, until)?;
                back.phase = Phase::Give;
            }
            (Phase::Give, slice) => {
                if let Some(kept) = back.kept.pop() {
                    let event = match kept.row {
                        Some(_) => Event::BackRow,
                        None => Event::BackMarker(kept.deletion),
                    };
                    if let Event::BackMarker(deletion) = event {
                        self.told = deletion;
                    }
                    back.given = Some(kept);
                    return Ok(Some(event));
                }
                let start = slice.map_or(&[][..], |slice| &slice.start);
                match self.block_before(&back.place, start)? {
                    Some((place, block)) => {
                        let end = back.offset;
                        self.begin_block(back, place, block, Some(end));
                    }
                    None => {
                        if !self.told.is_live() {
                            self.bounds.push_back((start.to_vec(), Deletion::LIVE));
                            self.told = Deletion::LIVE;
                        }
                        back.slices = back.slices.saturating_sub(1);
                        back.phase = Phase::Slice;
                    }
                }
            }
        }
        Ok(None)
    }

    fn begin_block(&mut self, back: &mut Backward, place: Place, block: RowBlock, until: Option<u64>) {
        let rows_at = back.rows_at.unwrap_or(self.at);
        self.at = self.start.saturating_add(block.offset).max(rows_at);
        back.place = place;
        back.offset = block.offset;
        back.open = block.open;
        back.kept.clear();
        back.buffer.clear();
        back.phase = Phase::Fill { until };
        back.open_behind = back.open_at_start;
        back.open_at_start = block.open;
    }

    /// Reads a block forward and keeps what lies in the slice.
    fn fill(&mut self, back: &mut Backward, slice: &Slice, until: Option<u64>) -> Result<(), Stop> {
        let fault = |at, what| Err(Stop::Fault(Component::Data, Fault::invalid(at, what)));
        loop {
            let before = self.at;
            check_kept(back.buffer.len(), before).map_err(|fault| Stop::Fault(Component::Data, fault))?;
            if until.is_some_and(|end| before >= self.start.saturating_add(end)) {
                if back.open != back.open_behind {
                    return fault(before, "the range tombstone that the row index says to be open");
                }
                return Ok(());
            }
            let found = self.unfiltered(|comparable| slice.contains(comparable))?;
            let comparable = &self.scratch.comparable[..];
            let behind = !slice.end.is_empty() && comparable >= &slice.end[..];
            match found {
                Unfiltered::Static => return fault(before, "a row behind the static one"),
                Unfiltered::End if until.is_some() => return fault(before, "a block of a row index"),
                Unfiltered::End => {
                    if !back.open.is_live() {
                        return fault(before, "the end of an open range tombstone");
                    }
                    return Ok(());
                }
                _ if behind && until.is_some() => return fault(before, "a block of a row index"),
                _ if behind => {
                    self.told = back.open;
                    if !self.told.is_live() {
                        self.bounds.push_back((slice.end.to_vec(), self.told));
                    }
                    return Ok(());
                }
                Unfiltered::Marker { ends, starts, .. } => {
                    if ends != back.open {
                        return fault(before, "the end of the open range tombstone");
                    }
                    back.open = starts;
                    // At the slice's start what is told is closed in any case.
                    if comparable > &slice.start[..] {
                        back.keep(&self.scratch.clustering, comparable, None, ends);
                    }
                }
                Unfiltered::Row => {
                    if comparable >= &slice.start[..] {
                        back.keep(&self.scratch.clustering, comparable, Some(&self.scratch.row), Deletion::LIVE);
                    }
                }
            }
        }
    }

    /// The block that the end of a slice lies in, or one behind it.
    fn block_at(&mut self, end: &[u8]) -> Result<(Place, RowBlock), Stop> {
        let first = RowBlock { offset: 0, open: Deletion::LIVE };
        let version = self.reader.descriptor.version;
        self.parse_row_index()?;
        Ok(match &self.row_index {
            RowIndex::Bti(index) => {
                let bound = (!end.is_empty()).then_some(end);
                let found = in_file(index.last_until(&self.blocks, bound, true, version), Component::Rows)?;
                found.map_or((Place::Only, first), |(separator, block)| (Place::Separator(separator), block))
            }
            RowIndex::Big { parsed: Some(index), .. } => {
                let at = if end.is_empty() { index.last() } else { index.position(end) };
                index.block(at).map_or((Place::Only, first), |block| (Place::Entry(at), block))
            }
            _ => (Place::Only, first),
        })
    }

    /// The block before another one, if anything at or behind `start` can be in it.
    fn block_before(&mut self, place: &Place, start: &[u8]) -> Result<Option<(Place, RowBlock)>, Stop> {
        let version = self.reader.descriptor.version;
        match (&self.row_index, place) {
            (RowIndex::Bti(index), Place::Separator(separator)) if &separator[..] > start => {
                let found = index.last_until(&self.blocks, Some(separator), false, version);
                let found = in_file(found, Component::Rows)?;
                Ok(found.map(|(separator, block)| (Place::Separator(separator), block)))
            }
            (RowIndex::Big { parsed: Some(index), .. }, Place::Entry(at)) => {
                let before = at.checked_sub(1).filter(|before| index.reaches(*before, start));
                Ok(before.and_then(|before| index.block(before).map(|block| (Place::Entry(before), block))))
            }
            _ => Ok(None),
        }
    }

    /// Reads the row index of big, if there is one and it was not read.
    pub(super) fn parse_row_index(&mut self) -> Result<(), Stop> {
        let reader = &self.reader;
        if let RowIndex::Big { at, len, parsed: parsed @ None } = &mut self.row_index {
            let file_len = reader.file_len(Component::Index);
            let version = reader.descriptor.version;
            let fields = &reader.codec.clustering;
            let (index, _) = self.blocks.read(Component::Index, *at, file_len, |input| {
                index::RowIndex::parse(input, *len as usize, version, fields, &reader.table)
            })?;
            self.blocks.clear();
            *parsed = Some(index);
        }
        Ok(())
    }
}

/// Whether more may be kept than so many bytes.
fn check_kept(len: usize, offset: u64) -> Result<(), Fault> {
    match len {
        ..=BACKWARD_BYTES_MAX => Ok(()),
        _ => Err(Fault { offset, problem: Problem::Limit("BACKWARD_BYTES_MAX") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        assert_eq!(check_kept(BACKWARD_BYTES_MAX, 7), Ok(()));
        let fault = Fault { offset: 7, problem: Problem::Limit("BACKWARD_BYTES_MAX") };
        assert_eq!(check_kept(BACKWARD_BYTES_MAX + 1, 7), Err(fault));
    }
}
