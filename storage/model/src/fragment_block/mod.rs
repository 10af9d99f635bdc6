//! Fragments as bytes: what a replica answers to a reconciling read.
//!
//! A block has the fragments of one read, with timestamps, times to live and tombstones, up to the place where the read
//! ended. A partition of which the command's PER PARTITION LIMIT left rows out says up to where it is known.
//! [`FragmentBlockWriter`] takes the fragments of a read, [`FragmentBlockCursor`] gives them to a merge.
//!
//! All integers little-endian; a *place* is the comparable form of a clustering or of a bound:
//! ```text
//! version u8 = 1
//! offset u32 of the end of the read
//! partitions:
//!   1 start:      offset u32 of the partition's end, token i64, key length u16, key,
//!                 deletion flag u8 [timestamp i64, local deletion time i64]
//!   2 static row: blob length u32, blob
//!   3 row:        clustering length u32, clustering, place length u32, place, blob length u32, blob
//!   4 marker:     clustering length u32, clustering, place length u32, place, deletion flag u8 [deletion]
//!   5 end:        all of the partition's rows that the command asks for are here
//!   6 cut:        place length u32, place: only those up to this place, in read order, are here
//! end of the read:
//!   7 exhausted
//!   8 stopped:    token i64, key length u16, key, flag u8 [place length u32, place]
//!                 without a place, after the whole partition
//! ```
//! The entries 2, 3 and 4 are between a start and an end or cut. Clusterings, places and row blobs are as in
//! [`crate::clustering`], [`crate::comparable`] and [`crate::row`]. A clustering is empty for a marker at the bound of
//! a slice.
//!
//! Invariants: partitions are in ring order, the entries of a partition in read order; nothing is behind the place at
//! which the partition or the read ends; neighbouring markers have different deletions; a row has no data that a
//! deletion of the same block shadows.

mod cursor;
mod writer;

pub use cursor::FragmentBlockCursor;
pub use writer::FragmentBlockWriter;

use crate::clustering::Clustering;
use crate::codec::{ByteReader, DecodeError};
use crate::fragment::Fragment;
use crate::key::{DecoratedKey, KeyBytes};
use crate::partitioner::Partitioner;
use crate::query::Position;
use crate::row::{Deletion, RowView};
use crate::token::Token;

const VERSION: u8 = 1;
/// Offset of the first partition.
const HEAD_BYTES: usize = 5;

const PARTITION_START: u8 = 1;
const STATIC_ROW: u8 = 2;
const ROW: u8 = 3;
const MARKER: u8 = 4;
const PARTITION_END: u8 = 5;
const CUT: u8 = 6;
const EXHAUSTED: u8 = 7;
const STOPPED: u8 = 8;

/// Largest block in bytes; offsets are 32 bits wide. A writer is full long before: at most one row, which comes out of
/// mutations of bounded size, is added to a block that is smaller than its limit.
pub const FRAGMENT_BLOCK_BYTES_MAX: usize = u32::MAX as usize;

/// The fragments of one read, encoded and well-formed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FragmentBlock {
    partitioner: Partitioner,
    bytes: Vec<u8>,
}

impl FragmentBlock {
    /// Decodes a block that another node with `partitioner` sent, and checks it to its end.
    ///
    /// # Errors
    /// The bytes are not a block of a read that is `reversed` or not, as told.
    pub fn decode(partitioner: Partitioner, bytes: Vec<u8>, reversed: bool) -> Result<FragmentBlock, DecodeError> {
        check(partitioner, &bytes, reversed)?;
        Ok(FragmentBlock { partitioner, bytes })
    }

    /// The partitioner in whose order the partitions are.
    pub fn partitioner(&self) -> Partitioner {
        self.partitioner
    }

    /// The encoded form.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The encoded form, without a copy.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Where the read stopped: nothing is known of what comes after this place in read order. `None` if there is
    /// nothing more.
    pub fn stopped_at(&self) -> Option<Position> {
        let at = ByteReader { rest: &self.bytes[1..] }.u32()?;
        match next_entry(&mut ByteReader { rest: self.bytes.get(at as usize..)? })? {
            Entry::Stopped { token, key, comparable } => {
                let (partitioner, key) = (self.partitioner, KeyBytes::from_slice(key));
                Some(Position { key: DecoratedKey { token, partitioner, key }, comparable: comparable.map(Into::into) })
            }
            _ => None,
        }
    }
}

/// An entry of a block.
enum Entry<'a> {
    /// The start of a partition, and the offset of its end.
    Start(Fragment<'a>, u32),
    /// A static row, a row or a range marker.
    Inside(Fragment<'a>),
    End,
    Cut(&'a [u8]),
    Exhausted,
    /// The place at which the read stopped; without a comparable form, after the whole partition.
    Stopped {
        token: Token,
        key: &'a [u8],
        comparable: Option<&'a [u8]>,
    },
}

/// The next entry. Its row blob is not checked.
#[inline]
fn next_entry<'a>(bytes: &mut ByteReader<'a>) -> Option<Entry<'a>> {
    Some(match bytes.u8()? {
        PARTITION_START => {
            let end = bytes.u32()?;
            let (token, key) = next_key(bytes)?;
            Entry::Start(Fragment::PartitionStart { token, key, deletion: next_deletion(bytes)? }, end)
        }
        STATIC_ROW => Entry::Inside(Fragment::StaticRow { row: RowView::trusted(bytes.long_bytes()?) }),
        ROW => {
            let (clustering, comparable) = (Clustering(bytes.long_bytes()?), bytes.long_bytes()?);
            Entry::Inside(Fragment::Row { clustering, comparable, row: RowView::trusted(bytes.long_bytes()?) })
        }
        MARKER => {
            let (clustering, comparable) = (Clustering(bytes.long_bytes()?), bytes.long_bytes()?);
            Entry::Inside(Fragment::RangeMarker { clustering, comparable, deletion: next_deletion(bytes)? })
        }
        PARTITION_END => Entry::End,
        CUT => Entry::Cut(bytes.long_bytes()?),
        EXHAUSTED => Entry::Exhausted,
        STOPPED => {
            let (token, key) = next_key(bytes)?;
            let comparable = match bytes.u8()? {
                0 => None,
                1 => Some(bytes.long_bytes()?),
                _ => return None,
            };
            Entry::Stopped { token, key, comparable }
        }
        _ => return None,
    })
}

fn next_key<'a>(bytes: &mut ByteReader<'a>) -> Option<(Token, &'a [u8])> {
    let token = Token(i64::from_le_bytes(bytes.chunk()?));
    Some((token, bytes.short_bytes()?))
}

fn next_deletion(bytes: &mut ByteReader<'_>) -> Option<Deletion> {
    match bytes.u8()? {
        0 => Some(Deletion::LIVE),
        1 => bytes.deletion(),
        _ => None,
    }
}

/// Checks a block to its end: every entry, their order, and the offsets.
fn check(partitioner: Partitioner, bytes: &[u8], reversed: bool) -> Result<(), DecodeError> {
    let mut rest = ByteReader { rest: bytes };
    if bytes.len() > FRAGMENT_BLOCK_BYTES_MAX || rest.u8() != Some(VERSION) {
        return Err(DecodeError { what: "version", offset: 0 });
    }
    let read_end = rest.u32().ok_or(DecodeError { what: "offset", offset: 1 })?;
    let mut order = EntryOrder { partitioner, reversed, partition: None, last: None, is_first: true, place: None };
    loop {
        let offset = bytes.len() - rest.rest.len();
        let malformed = |what| DecodeError { what, offset };
        let entry = next_entry(&mut rest).ok_or(malformed("entry"))?;
        let is_end = matches!(entry, Entry::Exhausted | Entry::Stopped { .. });
        order.take(&entry, offset).map_err(malformed)?;
        if is_end {
            return if read_end as usize == offset && rest.rest.is_empty() { Ok(()) } else { Err(malformed("end")) };
        }
    }
}

/// The order of a block's entries so far.
struct EntryOrder<'a> {
    partitioner: Partitioner,
    reversed: bool,
    /// The partition under way: where it says that it ends.
    partition: Option<u32>,
    /// The last partition.
    last: Option<(Token, &'a [u8])>,
    /// Whether nothing of the partition under way came yet, so that its static row may come.
    is_first: bool,
    /// The place of the last row or marker of the partition under way, and whether it was a row.
    place: Option<(&'a [u8], bool)>,
}

impl<'a> EntryOrder<'a> {
    fn take(&mut self, entry: &Entry<'a>, offset: usize) -> Result<(), &'static str> {
        match *entry {
            Entry::Start(Fragment::PartitionStart { token, key, .. }, end) => {
                let ascends = |last| self.partitioner.compare(last, (token, key)).is_lt();
                if self.partition.is_some() || !self.last.is_none_or(ascends) {
                    return Err("partition start");
                }
                (self.partition, self.last) = (Some(end), Some((token, key)));
                (self.is_first, self.place) = (true, None);
            }
            Entry::Inside(fragment) if self.partition.is_some() => return self.inside(fragment),
            Entry::End if self.partition == Some(offset as u32) => self.partition = None,
            Entry::Cut(place) if self.partition == Some(offset as u32) => {
                if self.place.is_some_and(|(last, _)| if self.reversed { last < place } else { last > place }) {
                    return Err("cut");
                }
                self.partition = None;
            }
            Entry::Exhausted if self.partition.is_none() => {}
            Entry::Stopped { token, key, .. } if self.partition.is_none() => {
                if self.last.is_some_and(|last| self.partitioner.compare(last, (token, key)).is_gt()) {
                    return Err("end");
                }
            }
            _ => return Err("order"),
        }
        Ok(())
    }

    fn inside(&mut self, fragment: Fragment<'a>) -> Result<(), &'static str> {
        let is_first = std::mem::take(&mut self.is_first);
        let (clustering, place, is_row) = match fragment {
            Fragment::StaticRow { row } => {
                let row = RowView::parse(row.blob()).map_err(|_| "static row")?;
                let is_static = is_first && row.liveness().is_none() && row.deletion().is_live();
                return if is_static { Ok(()) } else { Err("static row") };
            }
            Fragment::Row { clustering, comparable, row } => {
                RowView::parse(row.blob()).map_err(|_| "row")?;
                (clustering, comparable, true)
            }
            Fragment::RangeMarker { clustering, comparable, .. } => (clustering, comparable, false),
            Fragment::PartitionStart { .. } | Fragment::PartitionEnd => return Err("order"),
        };
        if !clustering.is_well_formed() {
            return Err("clustering");
        }
        let next = (place, is_row);
        let is_in_order = |last| if self.reversed { last > next } else { last < next };
        // Two markers may stand where one slice ends and the next begins.
        let touches = |last: (&[u8], bool)| last == next && !is_row;
        if self.place.is_some_and(|last| !is_in_order(last) && !touches(last)) {
            return Err("order");
        }
        self.place = Some(next);
        Ok(())
    }
}
