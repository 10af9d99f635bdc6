//! Steps of a cursor that reads the slices of a partition forward.
//!
//! The row index tells where in the partition a slice can begin. A range tombstone that is open at a slice's start is
//! opened there and closed at the slice's end.

use super::cursor::{Cursor, Event, RowIndex, State};
use crate::block::{Stop, in_component};
use crate::descriptor::Component;
use crate::error::Fault;
use crate::row_codec::Unfiltered;
use crate::trie::RowBlock;
use model::row::Deletion;

impl Cursor {
    /// Skips to the block of the row index in which the next slice can begin.
    pub(super) fn seek(&mut self) -> Result<(), Stop> {
        let Some(slice) = self.slices.get(self.slice_index) else { return Ok(()) };
        if slice.start.is_empty() {
            return Ok(());
        }
        let slice = slice.clone();
        self.parse_row_index()?;
        let version = self.reader.descriptor.version;
        let found = match &self.row_index {
            RowIndex::None => None,
            RowIndex::Bti(index) => {
                in_component(index.floor(&self.index_blocks, &slice.start, version), Component::Rows)?
            }
            RowIndex::Big { parsed, .. } => parsed.as_ref().and_then(|index| index.floor(&slice.start)),
        };
        if let Some(RowBlock { offset, open }) = found
            && let Some(at) = self.partition_start.checked_add(offset)
            && at > self.at
        {
            self.at = at;
            self.open = open;
        }
        Ok(())
    }

    /// Ends the current slice. A range tombstone that is open is closed at the slice's end, and opened at its start if
    /// no row or marker did so.
    pub(super) fn leave_slice(&mut self) {
        if let Some(slice) = self.slices.get(self.slice_index) {
            if self.emitted_open.is_live() && !self.open.is_live() {
                self.pending_bounds.push_back((slice.start.to_vec(), self.open));
                self.emitted_open = self.open;
            }
            if !self.emitted_open.is_live() {
                self.pending_bounds.push_back((slice.end.to_vec(), Deletion::LIVE));
            }
        }
        self.emitted_open = Deletion::LIVE;
        self.slice_index += 1;
    }

    /// Goes to the next row or marker of the slices. `None`: call again.
    pub(super) fn rows(&mut self) -> Result<Option<Event>, Stop> {
        if let Some((bound, deletion)) = self.pending_bounds.pop_front() {
            self.slice_bound = bound;
            self.scratch.clustering.clear();
            return Ok(Some(Event::Bound(deletion)));
        }
        if self.slice_index >= self.slices.len() {
            return Ok(Some(self.end_slices()));
        }
        let before = self.at;
        let found = self.unfiltered_of_slice()?;
        let Some(slice) = self.slices.get(self.slice_index) else { return Ok(None) };
        let comparable = &self.scratch.comparable[..];
        match found {
            Unfiltered::Static => {
                Err(Stop::Fault(Component::Data, Fault::invalid(before, "a row behind the static one")))
            }
            Unfiltered::End => {
                if !self.open.is_live() {
                    let fault = Fault::invalid(before, "the end of an open range tombstone");
                    return Err(Stop::Fault(Component::Data, fault));
                }
                Ok(Some(self.end_partition()))
            }
            _ if !slice.end.is_empty() && comparable >= &slice.end[..] => {
                // It may lie in the next slice, which reads it again.
                self.at = before;
                self.leave_slice();
                self.state = State::Seek;
                Ok(None)
            }
            Unfiltered::Marker { ends, starts, .. } => {
                if ends != self.open {
                    let fault = Fault::invalid(before, "the end of the open range tombstone");
                    return Err(Stop::Fault(Component::Data, fault));
                }
                if slice.starts_after(comparable) {
                    self.open = starts;
                    return Ok(None);
                }
                if self.open != self.emitted_open {
                    self.at = before;
                    self.emitted_open = self.open;
                    self.pending_bounds.push_back((slice.start.to_vec(), self.open));
                    return Ok(None);
                }
                self.open = starts;
                self.emitted_open = starts;
                Ok(Some(Event::Marker(starts)))
            }
            Unfiltered::Row => {
                if slice.starts_after(comparable) {
                    return Ok(None);
                }
                if self.open != self.emitted_open {
                    self.at = before;
                    self.emitted_open = self.open;
                    self.pending_bounds.push_back((slice.start.to_vec(), self.open));
                    return Ok(None);
                }
                Ok(Some(Event::Row))
            }
        }
    }
}
