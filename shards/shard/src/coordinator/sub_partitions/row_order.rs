//! The order of the rows that the streams have.
//!
//! All rows are sorted at once, by entries that lie side by side, instead of comparing the next rows of all streams for
//! each row: the blocks of hundreds of streams lie so that their next rows evict each other from the CPU's caches. Each
//! stream's rows are a sorted run, and the standard library's stable sort merges runs.

use super::stream::Stream;

/// Rows that are prefetched before their turn comes.
const PREFETCH_ROWS: usize = 16;

/// The rows of all streams that were not given yet, in order.
#[derive(Default)]
pub(super) struct RowOrder {
    entries: Vec<Entry>,
    /// The next entry.
    next: usize,
}

/// A row of a stream's block.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    prefix: Prefix,
    /// Where the row's bytes lie in the block.
    start: u32,
    end: u32,
    row: u32,
    stream: u16,
}

/// The first bytes of a row's place as a number that is ordered as they are, so that most comparisons need nothing
/// else; inverted if rows come in descending order.
type Prefix = u128;

impl Entry {
    /// The index of the stream.
    pub(super) fn stream(&self) -> usize {
        self.stream.into()
    }

    /// The comparable clustering of the row.
    pub(super) fn place<'s>(&self, streams: &'s [Stream]) -> &'s [u8] {
        streams[self.stream()].place(self.row as usize)
    }

    /// The bytes of the row.
    pub(super) fn bytes<'s>(&self, streams: &'s [Stream]) -> &'s [u8] {
        streams[self.stream()].bytes(self.start, self.end)
    }
}

impl RowOrder {
    /// Adds the rows of the streams `filled`, all of which have new blocks. Of equal rows that of the lower stream is
    /// first.
    pub(super) fn add(&mut self, streams: &[Stream], filled: &[usize], is_reversed: bool) {
        self.entries.drain(..self.next);
        self.next = 0;
        self.entries.reserve(filled.iter().map(|at| streams[*at].rows()).sum());
        for at in filled {
            let stream = &streams[*at];
            let mut start = 0;
            for row in 0..stream.rows() {
                let prefix = prefix_of(stream.place(row));
                let prefix = if is_reversed { !prefix } else { prefix };
                let end = stream.end(row);
                self.entries.push(Entry { prefix, start, end, row: row as u32, stream: *at as u16 });
                start = end;
            }
        }
        self.entries.sort_by(|a, b| {
            a.prefix.cmp(&b.prefix).then_with(|| {
                let order = a.place(streams).cmp(b.place(streams));
                (if is_reversed { order.reverse() } else { order }).then(a.stream.cmp(&b.stream))
            })
        });
    }

    /// Bytes of the rows that were not given yet.
    pub(super) fn bytes(&self) -> usize {
        self.entries[self.next..].iter().map(|entry| (entry.end - entry.start) as usize).sum()
    }

    /// The next row.
    #[inline]
    pub(super) fn next(&mut self, streams: &[Stream]) -> Option<Entry> {
        let entry = *self.entries.get(self.next)?;
        if let Some(later) = self.entries.get(self.next + PREFETCH_ROWS) {
            runtime::prefetch(later.bytes(streams));
        }
        self.next += 1;
        Some(entry)
    }
}

/// The first bytes of a place as a number; what a shorter place lacks is 0.
fn prefix_of(place: &[u8]) -> Prefix {
    match place.first_chunk() {
        Some(bytes) => Prefix::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; size_of::<Prefix>()];
            bytes[..place.len()].copy_from_slice(place);
            Prefix::from_be_bytes(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::query::ReadEnd;

    /// The bytes and the streams of all rows that are left, in order.
    fn rest(order: &mut RowOrder, streams: &[Stream]) -> Vec<(Vec<u8>, usize)> {
        std::iter::from_fn(|| order.next(streams))
            .map(|entry| (entry.bytes(streams).to_vec(), entry.stream()))
            .collect()
    }

    #[test]
    fn rows_come_in_the_order_of_their_places_in_both_directions() {
        let (long, mut longer) = ([7; 40], [7; 40]);
        longer[39] = 8;
        let places = [
            &b""[..],
            b"\0",
            b"\0\0",
            b"\0\0\x01",
            &long[..39],
            &long,
            &longer,
            b"a",
            b"a\0",
            b"ab",
            b"b",
            &[0xff; 20],
        ];
        for is_reversed in [false, true] {
            let mut sorted = places.to_vec();
            if is_reversed {
                sorted.reverse();
            }
            // Every third row is in the same stream, and the last is in all of them.
            let of_stream = |first: usize| -> Vec<&[u8]> {
                let last = sorted.len() - 1;
                sorted[..last].iter().skip(first).step_by(3).chain(&sorted[last..]).copied().collect()
            };
            let streams: Vec<Stream> =
                (0..3).map(|first| Stream::of_places(&of_stream(first), ReadEnd::Exhausted)).collect();
            let mut order = RowOrder::default();
            order.add(&streams, &[0, 1, 2], is_reversed);
            let bytes: usize = streams.iter().map(|stream| stream.end(stream.rows() - 1) as usize).sum();
            assert_eq!(order.bytes(), bytes);
            let mut expected: Vec<_> = sorted.iter().enumerate().map(|(n, place)| (place.to_vec(), n % 3)).collect();
            let last = expected.pop().expect("not empty").0;
            expected.extend((0..3).map(|stream| (last.clone(), stream)));
            assert_eq!(rest(&mut order, &streams), expected);
        }
    }

    #[test]
    fn rows_that_come_later_are_put_where_they_belong() {
        let streams = [&[&b"a"[..], b"d", b"f"][..], &[b"b", b"e"], &[b"c", b"d"]];
        let streams = streams.map(|places| Stream::of_places(places, ReadEnd::Exhausted));
        let mut order = RowOrder::default();
        order.add(&streams, &[0, 2], false);
        let first = order.next(&streams).expect("a row");
        assert_eq!((first.bytes(&streams), first.place(&streams), first.stream()), (&b"a"[..], &b"a"[..], 0));
        order.add(&streams, &[1], false);
        let expected = [("b", 1), ("c", 2), ("d", 0), ("d", 2), ("e", 1), ("f", 0)];
        assert_eq!(rest(&mut order, &streams), expected.map(|(place, stream)| (place.into(), stream)));
    }
}
