//! Steps of a cursor that reads one partition in reverse.
//!
//! 1. Slices are read from the last to the first. The row index finds the block that holds a slice's end.
//! 2. The block is read forward; its rows that lie in the slice are buffered and given from the last to the first.
//! 3. The block before follows, until one begins at or before the slice's start. Without a row index the partition is
//!    one block.
//!
//! A range tombstone that is open at a slice's end is opened there and closed at the slice's start.
//!
//! Invariants: rows of one block are in memory at a time; a step that needs a block of a file resumes where it stopped.

use super::cursor::{Cursor, Event, RowIndex};
use super::reverse_block::{BlockKey, Phase, ReverseBlock};
use crate::block::{Stop, in_component};
use crate::descriptor::Component;
use crate::error::Fault;
use crate::index::BigRowIndex;
use crate::row_codec::Unfiltered;
use crate::trie::RowBlock;
use model::query::Slice;
use model::row::Deletion;

impl Cursor {
    /// Goes to the next row or marker of the slices, in reverse. `None`: call again.
    pub(super) fn rows_back(&mut self) -> Result<Option<Event>, Stop> {
        let mut reverse = self.reverse.take().unwrap_or_default();
        let found = self.step_back(&mut reverse);
        self.reverse = Some(reverse);
        found
    }

    fn step_back(&mut self, reverse: &mut ReverseBlock) -> Result<Option<Event>, Stop> {
        if reverse.rows_at.is_none() {
            reverse.rows_at = Some(self.at);
            reverse.slices_left = self.slices.len();
        }
        if let Some((bound, deletion)) = self.pending_bounds.pop_front() {
            self.slice_bound = bound;
            self.scratch.clustering.clear();
            return Ok(Some(Event::Bound(deletion)));
        }
        let slices = self.slices.clone();
        let slice = reverse.slices_left.checked_sub(1).and_then(|last| slices.get(last));
        match (reverse.phase.clone(), slice) {
            (Phase::NextSlice, None) => return Ok(Some(self.end_partition())),
            (Phase::NextSlice, Some(slice)) => {
                let (key, block) = self.block_at(&slice.end)?;
                self.begin_block(reverse, key, block, None);
            }
            (Phase::Fill { until }, slice) => {
                let Some(slice) = slice else { return Ok(None) };
                self.fill(reverse, slice, until)?;
                reverse.phase = Phase::Drain;
            }
            (Phase::Drain, slice) => {
                if let Some(item) = reverse.pop() {
                    if item.row.is_some() {
                        return Ok(Some(Event::ReverseRow));
                    }
                    self.emitted_open = item.deletion;
                    return Ok(Some(Event::ReverseMarker(item.deletion)));
                }
                let start = slice.map_or(&[][..], |slice| &slice.start);
                match self.block_before(&reverse.key, start)? {
                    Some((key, block)) => {
                        let end = reverse.offset;
                        self.begin_block(reverse, key, block, Some(end));
                    }
                    None => {
                        if !self.emitted_open.is_live() {
                            self.pending_bounds.push_back((start.to_vec(), Deletion::LIVE));
                            self.emitted_open = Deletion::LIVE;
                        }
                        reverse.slices_left = reverse.slices_left.saturating_sub(1);
                        reverse.phase = Phase::NextSlice;
                    }
                }
            }
        }
        Ok(None)
    }

    fn begin_block(&mut self, reverse: &mut ReverseBlock, key: BlockKey, block: RowBlock, until: Option<u64>) {
        let rows_at = reverse.rows_at.unwrap_or(self.at);
        self.at = self.partition_start.saturating_add(block.offset).max(rows_at);
        reverse.begin(key, block, until);
    }

    /// Reads a block forward and buffers its rows and markers that lie in the slice.
    fn fill(&mut self, reverse: &mut ReverseBlock, slice: &Slice, until: Option<u64>) -> Result<(), Stop> {
        let fault = |at, what| Err(Stop::Fault(Component::Data, Fault::invalid(at, what)));
        loop {
            let before = self.at;
            reverse.check_len(before).map_err(|fault| Stop::Fault(Component::Data, fault))?;
            if until.is_some_and(|end| before >= self.partition_start.saturating_add(end)) {
                if reverse.open != reverse.open_at_end {
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
                    if !reverse.open.is_live() {
                        return fault(before, "the end of an open range tombstone");
                    }
                    return Ok(());
                }
                _ if behind && until.is_some() => return fault(before, "a block of a row index"),
                _ if behind => {
                    self.emitted_open = reverse.open;
                    if !self.emitted_open.is_live() {
                        self.pending_bounds.push_back((slice.end.to_vec(), self.emitted_open));
                    }
                    return Ok(());
                }
                Unfiltered::Marker { ends, starts, .. } => {
                    if ends != reverse.open {
                        return fault(before, "the end of the open range tombstone");
                    }
                    reverse.open = starts;
                    // A tombstone that is open at the slice's start is closed there in any case.
                    if comparable > &slice.start[..] {
                        reverse.push(&self.scratch.clustering, comparable, None, ends);
                    }
                }
                Unfiltered::Row => {
                    if comparable >= &slice.start[..] {
                        reverse.push(&self.scratch.clustering, comparable, Some(&self.scratch.row), Deletion::LIVE);
                    }
                }
            }
        }
    }

    /// Returns the block that the end of a slice lies in, or one after it.
    fn block_at(&mut self, end: &[u8]) -> Result<(BlockKey, RowBlock), Stop> {
        let first = RowBlock { offset: 0, open: Deletion::LIVE };
        let version = self.reader.descriptor.version;
        self.parse_row_index()?;
        Ok(match &self.row_index {
            RowIndex::Bti(index) => {
                let bound = (!end.is_empty()).then_some(end);
                let found = in_component(index.last_until(&self.index_blocks, bound, true, version), Component::Rows)?;
                found.map_or((BlockKey::Whole, first), |(separator, block)| (BlockKey::Separator(separator), block))
            }
            RowIndex::Big { parsed: Some(index), .. } => {
                let at = if end.is_empty() { index.last() } else { index.position(end) };
                index.block(at).map_or((BlockKey::Whole, first), |block| (BlockKey::Entry(at), block))
            }
            _ => (BlockKey::Whole, first),
        })
    }

    /// Returns the block before another one, if it can hold anything at or after `start`.
    fn block_before(&mut self, key: &BlockKey, start: &[u8]) -> Result<Option<(BlockKey, RowBlock)>, Stop> {
        let version = self.reader.descriptor.version;
        match (&self.row_index, key) {
            (RowIndex::Bti(index), BlockKey::Separator(separator)) if &separator[..] > start => {
                let found = index.last_until(&self.index_blocks, Some(separator), false, version);
                let found = in_component(found, Component::Rows)?;
                Ok(found.map(|(separator, block)| (BlockKey::Separator(separator), block)))
            }
            (RowIndex::Big { parsed: Some(index), .. }, BlockKey::Entry(at)) => {
                let before = at.checked_sub(1).filter(|before| index.reaches(*before, start));
                Ok(before.and_then(|before| index.block(before).map(|block| (BlockKey::Entry(before), block))))
            }
            _ => Ok(None),
        }
    }

    /// Parses the row index of a partition of `big`, if it has one that has not been parsed.
    pub(super) fn parse_row_index(&mut self) -> Result<(), Stop> {
        let reader = &self.reader;
        if let RowIndex::Big { at, len, parsed: parsed @ None } = &mut self.row_index {
            let file_len = reader.file_len(Component::Index);
            let version = reader.descriptor.version;
            let fields = &reader.codec.clustering;
            let (index, _) = self.index_blocks.read(Component::Index, *at, file_len, |input| {
                BigRowIndex::parse(input, *len as usize, version, fields, &reader.table)
            })?;
            self.index_blocks.clear();
            *parsed = Some(index);
        }
        Ok(())
    }
}
