//! Writing blocks.

use super::{
    CUT, EXHAUSTED, FragmentBlock, HEAD_BYTES, MARKER, PARTITION_END, PARTITION_START, ROW, STATIC_ROW, STOPPED,
    VERSION,
};
use crate::fragment::{Fragment, FragmentSink};
use crate::key::{DecoratedKey, KeyBytes};
use crate::merge::filter_row;
use crate::partitioner::Partitioner;
use crate::query::{Position, ReadEnd};
use crate::row::{Deletion, RowView};
use crate::token::Token;
use std::ops::Range;

/// Most entries of a block, whose bytes alone do not bound the work of who reads it: range markers of a few bytes.
const ENTRIES_MAX: usize = 1 << 16;

/// The memory that a block begins with.
const SMALL_BLOCK_BYTES: usize = 1 << 10;

/// Writes the fragments of a read into a block, and is full when that has so many bytes.
pub struct FragmentBlockWriter {
    partitioner: Partitioner,
    bytes: Vec<u8>,
    bytes_max: usize,
    entries: usize,
    /// Offset of the start of the partition under way, or of the last one.
    partition: usize,
    is_inside: bool,
    /// The range deletion in force as it was last written.
    open: Deletion,
    token: Token,
    /// Where the last partition's key and the last row's or marker's place are in `bytes`.
    key: Range<usize>,
    place: Option<Range<usize>>,
}

impl FragmentBlockWriter {
    /// A writer, on a node with `partitioner`, of a block that ends after the entry with which it reaches `bytes_max`
    /// bytes.
    pub fn new(partitioner: Partitioner, bytes_max: usize) -> FragmentBlockWriter {
        let room = Vec::with_capacity(SMALL_BLOCK_BYTES.min(bytes_max));
        FragmentBlockWriter::with_room(partitioner, bytes_max, room)
    }

    /// [`FragmentBlockWriter::new`] that writes into the memory of `room`.
    pub fn with_room(partitioner: Partitioner, bytes_max: usize, mut room: Vec<u8>) -> FragmentBlockWriter {
        room.clear();
        room.extend_from_slice(&[VERSION, 0, 0, 0, 0]);
        FragmentBlockWriter {
            partitioner,
            bytes: room,
            bytes_max: bytes_max.min(1 << 30),
            entries: 0,
            partition: HEAD_BYTES,
            is_inside: false,
            open: Deletion::LIVE,
            token: Token::MIN,
            key: 0..0,
            place: None,
        }
    }

    /// The block of a read that ended so.
    pub fn finish(mut self, end: &ReadEnd) -> FragmentBlock {
        let last = match end {
            ReadEnd::Exhausted => None,
            ReadEnd::Paused(resume) => Some(resume.position.clone()),
            // The row with which the sink or the limit ended the read is the last that was visited.
            ReadEnd::Stopped => Some(self.last()),
        };
        if self.is_inside {
            // A read that stopped behind the last row of the partition does not know that it did.
            match last.as_ref().and_then(|last| last.comparable.as_deref()) {
                Some(comparable) => self.cut(comparable),
                None => self.end_partition(),
            }
        }
        self.patch(1);
        match last {
            None => self.bytes.push(EXHAUSTED),
            Some(Position { key, comparable }) => {
                self.bytes.push(STOPPED);
                self.push_key(key.token, &key.key);
                self.bytes.push(comparable.is_some().into());
                if let Some(comparable) = comparable {
                    self.push(&comparable);
                }
            }
        }
        FragmentBlock { partitioner: self.partitioner, bytes: self.bytes }
    }

    /// The last place that was visited.
    fn last(&self) -> Position {
        let key = KeyBytes::from_slice(&self.bytes[self.key.clone()]);
        let comparable = self.place.clone().filter(|_| self.is_inside).map(|place| self.bytes[place].into());
        Position { key: DecoratedKey { token: self.token, partitioner: self.partitioner, key }, comparable }
    }

    /// Writes the length so far at an offset.
    fn patch(&mut self, offset: usize) {
        let len = (self.bytes.len() as u32).to_le_bytes();
        self.bytes[offset..offset + 4].copy_from_slice(&len);
    }

    #[inline]
    fn push(&mut self, bytes: &[u8]) -> Range<usize> {
        self.bytes.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    fn push_key(&mut self, token: Token, key: &[u8]) -> Range<usize> {
        self.bytes.extend_from_slice(&token.0.to_le_bytes());
        self.bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        start..self.bytes.len()
    }

    fn push_deletion(&mut self, deletion: Deletion) {
        self.bytes.push((!deletion.is_live()).into());
        if !deletion.is_live() {
            self.bytes.extend_from_slice(&deletion.timestamp.to_le_bytes());
            self.bytes.extend_from_slice(&deletion.local_deletion_time.to_le_bytes());
        }
    }

    /// Appends a row without what `shadow` deletes; false, with a part of it appended, if nothing is left.
    #[inline]
    fn push_row(&mut self, row: RowView<'_>, shadow: Deletion) -> bool {
        if shadow.is_live() {
            self.push(row.blob());
            return true;
        }
        self.bytes.extend_from_slice(&[0; 4]);
        let start = self.bytes.len();
        let is_left = filter_row(row, shadow, &mut self.bytes);
        let len = ((self.bytes.len() - start) as u32).to_le_bytes();
        self.bytes[start - 4..start].copy_from_slice(&len);
        is_left
    }

    fn end_partition(&mut self) {
        self.patch(self.partition + 1);
        self.bytes.push(PARTITION_END);
        self.is_inside = false;
    }
}

impl FragmentSink for FragmentBlockWriter {
    fn fragment(&mut self, fragment: Fragment<'_>, shadow: Deletion) {
        self.entries += 1;
        match fragment {
            Fragment::PartitionStart { token, key, deletion } => {
                (self.partition, self.is_inside) = (self.bytes.len(), true);
                (self.open, self.token, self.place) = (Deletion::LIVE, token, None);
                self.bytes.extend_from_slice(&[PARTITION_START, 0, 0, 0, 0]);
                self.key = self.push_key(token, key);
                self.push_deletion(deletion);
            }
            Fragment::StaticRow { row } => {
                let start = self.bytes.len();
                self.bytes.push(STATIC_ROW);
                if !self.push_row(row, shadow) {
                    self.bytes.truncate(start);
                }
            }
            Fragment::Row { clustering, comparable, row } => {
                let start = self.bytes.len();
                self.bytes.reserve(13 + clustering.0.len() + comparable.len() + row.blob().len());
                self.bytes.push(ROW);
                self.push(clustering.0);
                let place = self.push(comparable);
                match self.push_row(row, shadow) {
                    true => self.place = Some(place),
                    false => self.bytes.truncate(start),
                }
            }
            Fragment::RangeMarker { deletion, .. } if deletion == self.open => {}
            Fragment::RangeMarker { clustering, comparable, deletion } => {
                self.open = deletion;
                self.bytes.push(MARKER);
                self.push(clustering.0);
                self.place = Some(self.push(comparable));
                self.push_deletion(deletion);
            }
            Fragment::PartitionEnd => self.end_partition(),
        }
    }

    fn cut(&mut self, comparable: &[u8]) {
        self.patch(self.partition + 1);
        self.bytes.push(CUT);
        self.push(comparable);
        self.is_inside = false;
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= self.bytes_max || self.entries >= ENTRIES_MAX
    }
}
