//! The rows of one sub-partition, block by block.

use crate::guards::tombstones::ScanCounts;
use crate::messages::data::ReadReply;
use model::DecoratedKey;
use model::query::{ReadEnd, Resume};

/// The blocks of rows of one sub-partition.
pub(super) struct Stream {
    /// The stored key.
    pub(super) key: DecoratedKey,
    reply: ReadReply,
    /// How many rows of the block were given.
    given: usize,
    /// Where the next block begins.
    pub(super) resume: Option<Resume>,
    /// Rows to ask for in the next call.
    pub(super) credit: u64,
    is_exhausted: bool,
    /// What the reads have met.
    pub(super) met: ScanCounts,
}

impl Stream {
    /// A stream that has not been asked yet. It begins after `resume`.
    pub(super) fn new(key: DecoratedKey, resume: Option<Resume>, credit: u64) -> Stream {
        let reply = ReadReply::default();
        Stream { key, reply, given: 0, resume, credit, is_exhausted: false, met: ScanCounts::default() }
    }

    /// Rows of the block.
    pub(super) fn rows(&self) -> usize {
        self.reply.block.ends.len()
    }

    /// Whether it must be asked before it is known what its next row is.
    pub(super) fn wants_more(&self) -> bool {
        !self.is_exhausted && self.given >= self.rows()
    }

    /// Notes that one more row of the block was given.
    pub(super) fn give(&mut self) {
        self.given += 1;
    }

    /// The comparable clustering of a row of the block.
    pub(super) fn place(&self, row: usize) -> &[u8] {
        self.reply.places.comparable(row)
    }

    /// Where the bytes of a row of the block end.
    pub(super) fn end(&self, row: usize) -> u32 {
        self.reply.block.ends.get(row).map_or(0, |(_, end)| *end)
    }

    /// Bytes of the block.
    pub(super) fn bytes(&self, start: u32, end: u32) -> &[u8] {
        self.reply.block.bytes.get(start as usize..end as usize).unwrap_or_default()
    }

    /// Takes the next block, and will ask for twice as many rows, at most `credit_max`.
    pub(super) fn fill(&mut self, reply: ReadReply, credit_max: u64) {
        self.is_exhausted = reply.end == ReadEnd::Exhausted;
        self.resume.clone_from(&reply.last);
        self.reply = reply;
        self.given = 0;
        self.credit = self.credit.saturating_mul(2).min(credit_max);
    }

    /// A stream that has only one block, with rows of these places, each of which has its place for bytes.
    #[cfg(test)]
    pub(super) fn of_places(places: &[&[u8]], end: ReadEnd) -> Stream {
        use model::mutation::Clustering;
        let mut reply = ReadReply { end, ..ReadReply::default() };
        for comparable in places {
            let row = model::query::LiveRow {
                token: model::Token(0),
                key: b"k",
                clustering: Clustering(b""),
                comparable,
                liveness: None,
                cells: &[],
                static_cells: &[],
                static_only: false,
            };
            reply.places.push(&row, 1);
            reply.block.push_row(comparable);
            reply.block.ends.push((row.token, reply.block.bytes.len() as u32));
        }
        let mut stream = Stream::new(DecoratedKey::new(model::Partitioner::Murmur3, b"k"), None, 1);
        stream.fill(reply, 1);
        stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_wants_more_until_it_is_exhausted() {
        for (end, wants_more) in [(ReadEnd::Stopped, true), (ReadEnd::Exhausted, false)] {
            let mut stream = Stream::of_places(&[b"a", b"bc"], end);
            assert_eq!((stream.rows(), stream.place(1), stream.bytes(0, stream.end(1))), (2, &b"bc"[..], &b"abc"[..]));
            stream.give();
            assert!(!stream.wants_more());
            stream.give();
            assert_eq!(stream.wants_more(), wants_more);
        }
    }
}
