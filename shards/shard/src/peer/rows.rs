//! The rows that a read returns:
//! ```text
//! end u8: 0 exhausted, 1 stopped, 2 paused
//! place where a paused read goes on, place after the last row: each as `bytes::push_resume` says
//! live rows met u64, tombstones met u64, token of the last partition i64
//! rows u32
//! ends: count u32, of each: token i64, end of the row in the block u32; none, or one per row
//! places: length u32, bytes as `RowPlaces` writes them
//! block length u32, block: rows in protocol form
//! ```

use super::bytes::{Reader, push_count, push_long, push_resume};
use crate::guards::tombstones::ScanCounts;
use crate::messages::data::ReadReply;
use crate::rows::block::{RowBlock, RowPlaces};
use model::query::ReadEnd;
use model::{Partitioner, Token};

/// Writes the rows.
pub(crate) fn push(out: &mut Vec<u8>, reply: &ReadReply) {
    let ReadReply { block, end, last, places, scanned } = reply;
    let (kind, paused) = match end {
        ReadEnd::Exhausted => (0, None),
        ReadEnd::Stopped => (1, None),
        ReadEnd::Paused(at) => (2, Some(&**at)),
    };
    out.push(kind);
    push_resume(out, paused);
    push_resume(out, last.as_ref());
    out.extend_from_slice(&scanned.live.to_le_bytes());
    out.extend_from_slice(&scanned.dead.to_le_bytes());
    out.extend_from_slice(&scanned.token.0.to_le_bytes());
    out.extend_from_slice(&block.rows.to_le_bytes());
    push_count(out, block.ends.len());
    for (token, end) in &block.ends {
        out.extend_from_slice(&token.0.to_le_bytes());
        out.extend_from_slice(&end.to_le_bytes());
    }
    push_long(out, &places.encode());
    push_long(out, &block.bytes);
}

/// Reads the rows; `None` if the bytes are none.
pub(crate) fn decode(partitioner: Partitioner, bytes: &[u8]) -> Option<ReadReply> {
    let mut reader = Reader::new(bytes);
    let kind = reader.u8()?;
    let paused = reader.resume(partitioner)?;
    let end = match (kind, paused) {
        (0, None) => ReadEnd::Exhausted,
        (1, None) => ReadEnd::Stopped,
        (2, Some(at)) => ReadEnd::Paused(Box::new(at)),
        _ => return None,
    };
    let last = reader.resume(partitioner)?;
    let scanned = ScanCounts { live: reader.u64()?, dead: reader.u64()?, token: Token(reader.i64()?) };
    let rows = reader.u32()?;
    let count = reader.count(12)?;
    let ends: Option<Vec<(Token, u32)>> = (0..count).map(|_| Some((Token(reader.i64()?), reader.u32()?))).collect();
    let ends = ends?;
    let places = RowPlaces::decode(reader.long_bytes()?)?;
    let bytes = reader.long_bytes()?.to_vec();
    let has_ends = ends.is_empty() || ends.len() == rows as usize;
    let are_ordered =
        ends.is_sorted_by_key(|(_, end)| *end) && ends.last().is_none_or(|(_, end)| *end as usize <= bytes.len());
    let has_places = places.is_empty() || places.len() == rows as usize;
    let is_whole = reader.is_empty() && has_ends && are_ordered && has_places;
    is_whole.then(|| ReadReply { block: RowBlock { bytes, rows, ends }, end, last, places, scanned })
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
