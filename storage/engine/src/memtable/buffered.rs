//! Reads the fragments of a memtable for readers that may wait between two steps.
//!
//! 1. A refill borrows the memtable for one poll and copies fragments, of several partitions if they are small, up to
//!    [`REFILL_BYTES_MAX`] or [`REFILL_FRAGMENTS_MAX`]. Refills start small, for readers that want little.
//! 2. Nothing is borrowed between refills. If a refill ends inside a partition, the cursor keeps a snapshot of the
//!    partition and its remaining slices; the next partition is found again by token and key.
//!
//! Invariants: a partition is seen as it was when its first fragment was copied; every range marker changes the
//! deletion in force.

use super::cursor::PartitionCursor;
use super::partitions::From;
use super::{Contents, Memtable, Snapshot};
use model::fragment::{BlockRef, Cursor, Fragment, FragmentStep};
use model::mutation::Clustering;
use model::query::Slice;
use model::row::{Deletion, RowView};
use model::token::TokenRange;
use model::{DecoratedKey, Token};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Most bytes that a refill copies; its last fragment may go beyond.
pub const REFILL_BYTES_MAX: usize = 32 << 10;
/// Most fragments that a refill copies.
pub const REFILL_FRAGMENTS_MAX: usize = 256;
/// Bytes that the first refill copies; each refill may copy twice as many as the one before.
const REFILL_BYTES_MIN: usize = 2 << 10;

/// A cursor over a memtable that holds no borrow between two steps.
pub struct BufferedCursor {
    memtable: Rc<Memtable>,
    /// The slices to read of each partition.
    slices: Arc<[Slice]>,
    reversed: bool,
    /// The range to read.
    range: TokenRange,
    next: Next,
    inside: Option<Inside>,
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// How many of `entries` were given to the reader.
    given: usize,
    refill_bytes: usize,
    /// Whether the reader had a chance to yield since the last refill.
    rested: bool,
}

/// Where to look for the next partition.
enum Next {
    /// At the first one of the range.
    Start,
    After(DecoratedKey),
    /// Only the partition of this key.
    Only(DecoratedKey),
    Nothing,
}

/// A partition that the last refill did not finish, with the slices that are left.
struct Inside {
    snapshot: Snapshot,
    slices: Arc<[Slice]>,
    /// The deletion in force after the last copied fragment.
    open: Deletion,
}

/// A copied fragment, whose parts are ranges of the cursor's `bytes`.
enum Entry {
    Start { token: Token, key: Range<usize>, deletion: Deletion },
    Static { row: Range<usize> },
    Row { clustering: Range<usize>, comparable: Range<usize>, row: Range<usize> },
    Marker { clustering: Range<usize>, comparable: Range<usize>, deletion: Deletion },
    End,
}

impl BufferedCursor {
    /// A cursor over the rows of one partition that lie in `slices` (in clustering order, not overlapping).
    pub fn partition(
        memtable: &Rc<Memtable>,
        key: DecoratedKey,
        slices: Arc<[Slice]>,
        reversed: bool,
    ) -> BufferedCursor {
        BufferedCursor::new(memtable, slices, reversed, TokenRange::FULL, Next::Only(key))
    }

    /// A cursor over the rows in `slices` of all partitions in `range`; with `after` only of those behind that key.
    pub fn scan(
        memtable: &Rc<Memtable>,
        range: TokenRange,
        after: Option<DecoratedKey>,
        slices: Arc<[Slice]>,
    ) -> BufferedCursor {
        BufferedCursor::new(memtable, slices, false, range, after.map_or(Next::Start, Next::After))
    }

    fn new(
        memtable: &Rc<Memtable>,
        slices: Arc<[Slice]>,
        reversed: bool,
        range: TokenRange,
        next: Next,
    ) -> BufferedCursor {
        BufferedCursor {
            memtable: memtable.clone(),
            slices,
            reversed,
            range,
            next,
            inside: None,
            bytes: Vec::new(),
            entries: Vec::new(),
            given: 0,
            refill_bytes: REFILL_BYTES_MIN,
            rested: true,
        }
    }

    fn refill(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.given = 0;
        let memtable = self.memtable.clone();
        let contents = memtable.read();
        if let Some(Inside { snapshot, slices, open }) = self.inside.take() {
            let partition = snapshot.partition();
            let mut cursor = PartitionCursor::new(&contents.arena, partition, &slices, self.reversed, None);
            let mut rest = std::iter::from_fn(|| cursor.next_fragment());
            let rest = rest.by_ref().skip_while(|fragment| {
                matches!(fragment, Fragment::PartitionStart { .. } | Fragment::StaticRow { .. })
            });
            if let Some((slices, open)) = self.copy(rest, &slices, open) {
                drop(contents);
                self.inside = Some(Inside { snapshot, slices, open });
                return;
            }
        }
        self.partitions(&contents);
        self.refill_bytes = (2 * self.refill_bytes).min(REFILL_BYTES_MAX);
    }

    /// Copies partitions, beginning at `next`, until the refill is full.
    fn partitions(&mut self, contents: &Contents) {
        let next = std::mem::replace(&mut self.next, Next::Nothing);
        let range = self.range.clone();
        let (from, only) = match &next {
            Next::Start => (range.start.as_ref().map_or(From::Start, From::Position), None),
            Next::After(key) => (From::After(key.token.prefix(), &key.key), None),
            Next::Only(key) => (From::Start, Some(key)),
            Next::Nothing => return,
        };
        let one = only.map(|key| contents.partitions.get(&contents.arena, key.token.prefix(), &key.key));
        let many = one.is_none().then(|| contents.range(from, &range));
        let slices = self.slices.clone();
        let mut last = None;
        for partition in one.flatten().into_iter().chain(many.into_iter().flatten()) {
            if self.is_full() {
                break;
            }
            let mut cursor = PartitionCursor::new(&contents.arena, partition, &slices, self.reversed, None);
            let fragments = std::iter::from_fn(|| cursor.next_fragment());
            last = Some(partition);
            if let Some((slices, open)) = self.copy(fragments, &slices, Deletion::LIVE) {
                self.inside = Some(Inside { snapshot: self.memtable.snapshot(partition), slices, open });
                break;
            }
        }
        if let (None, Some(last)) = (only, last) {
            self.next = Next::After(contents.key_of(last));
        }
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= self.refill_bytes || self.entries.len() >= REFILL_FRAGMENTS_MAX
    }

    /// Copies fragments of one partition. If the refill fills up first, returns the slices that are left and the
    /// deletion in force there.
    fn copy<'a>(
        &mut self,
        fragments: impl Iterator<Item = Fragment<'a>>,
        slices: &[Slice],
        mut open: Deletion,
    ) -> Option<(Arc<[Slice]>, Deletion)> {
        for fragment in fragments {
            let entry = match fragment {
                Fragment::PartitionStart { token, key, deletion } => {
                    Entry::Start { token, key: self.put(key), deletion }
                }
                Fragment::StaticRow { row } => Entry::Static { row: self.put(row.blob()) },
                Fragment::Row { clustering, comparable, row } => Entry::Row {
                    clustering: self.put(clustering.0),
                    comparable: self.put(comparable),
                    row: self.put(row.blob()),
                },
                Fragment::RangeMarker { deletion, .. } if deletion == open => continue,
                Fragment::RangeMarker { clustering, comparable, deletion } => {
                    open = deletion;
                    Entry::Marker { clustering: self.put(clustering.0), comparable: self.put(comparable), deletion }
                }
                Fragment::PartitionEnd => Entry::End,
            };
            self.entries.push(entry);
            let (place, is_row) = match fragment {
                Fragment::Row { comparable, .. } => (comparable, true),
                Fragment::RangeMarker { comparable, .. } => (comparable, false),
                _ => continue,
            };
            if self.is_full() {
                return Some((Slice::remaining(slices, place, is_row, self.reversed), open));
            }
        }
        None
    }

    fn put(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }
}

impl Cursor for BufferedCursor {
    type Error = sstable::Error;

    fn advance(&mut self) -> Result<FragmentStep, sstable::Error> {
        if self.given >= self.entries.len() {
            if !std::mem::replace(&mut self.rested, true) {
                return Ok(FragmentStep::Need(BlockRef { source: 0, file: 0, offset: 0 }));
            }
            self.refill();
            self.rested = self.entries.is_empty();
        }
        self.given += 1;
        Ok(if self.given <= self.entries.len() { FragmentStep::Fragment } else { FragmentStep::End })
    }

    fn fragment(&self) -> Option<Fragment<'_>> {
        let bytes = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        Some(match self.entries.get(self.given.checked_sub(1)?)? {
            Entry::Start { token, key, deletion } => {
                Fragment::PartitionStart { token: *token, key: bytes(key), deletion: *deletion }
            }
            Entry::Static { row } => Fragment::StaticRow { row: RowView::trusted(bytes(row)) },
            Entry::Row { clustering, comparable, row } => Fragment::Row {
                clustering: Clustering(bytes(clustering)),
                comparable: bytes(comparable),
                row: RowView::trusted(bytes(row)),
            },
            Entry::Marker { clustering, comparable, deletion } => Fragment::RangeMarker {
                clustering: Clustering(bytes(clustering)),
                comparable: bytes(comparable),
                deletion: *deletion,
            },
            Entry::End => Fragment::PartitionEnd,
        })
    }

    fn skip_partition(&mut self) {
        let rest = self.entries.get(self.given..).unwrap_or_default();
        match rest.iter().position(|entry| matches!(entry, Entry::End)) {
            Some(end) => self.given += end + 1,
            None => {
                self.given = self.entries.len();
                self.inside = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Partitioner;
    use model::comparable::{self, BoundSide};
    use model::mutation::{ClusteringBound, push_clustering};
    use model::row::RowBuilder;
    use model::schema::TableOptions;
    use model::{Column, ColumnId, ColumnKind, CqlType, MemtableKind, MutationBuilder, RingToken, Table, TableId};
    use runtime::rng::Rng;

    fn table() -> Table {
        let column = |id, kind| {
            let (name, cql_type) = (format!("c{id}"), CqlType::Tinyint);
            Column { id: ColumnId(id), name, kind, position: 0, cql_type, descending: false }
        };
        Table {
            id: TableId([1; 16]),
            keyspace: "k".into(),
            name: "t".into(),
            columns: vec![column(0, ColumnKind::PartitionKey), column(1, ColumnKind::Clustering)],
            partition_key_len: 1,
            clustering_len: 1,
            static_len: 0,
            layout: model::schema::Layout::Plain,
            dropped: Vec::new(),
            indexes: Vec::new(),
            masks: Default::default(),
            options: TableOptions::default(),
        }
    }

    fn deleted_row(out: &mut Vec<u8>, deletion: Deletion) {
        RowBuilder::new(out, None, deletion);
    }

    fn write(rng: &mut Rng, memtable: &Memtable) {
        let table = table();
        let key = [rng.below(6) as u8];
        let mut builder = MutationBuilder::new(Partitioner::Murmur3, &key);
        builder.table(table.id);
        let deletion = |rng: &mut Rng| {
            let timestamp = 1 + rng.below(9) as i64;
            Deletion { timestamp, local_deletion_time: timestamp }
        };
        let mut values = [Vec::new(), Vec::new()];
        values.iter_mut().for_each(|out| push_clustering(out, &[rng.below(12) as u8]));
        match rng.below(6) {
            0 => builder.delete_partition(deletion(rng)),
            1 | 2 => {
                let inclusive = [rng.chance(0.5), rng.chance(0.5)];
                builder.delete_range(
                    ClusteringBound { prefix: Clustering(&values[0]), inclusive: inclusive[0] },
                    ClusteringBound { prefix: Clustering(&values[1]), inclusive: inclusive[1] },
                    deletion(rng),
                )
            }
            3 => builder.static_row(|out| deleted_row(out, deletion(rng))),
            _ => builder.row(Clustering(&values[0]), |out| deleted_row(out, deletion(rng))),
        };
        let mutation = builder.finish();
        for update in mutation.updates() {
            memtable.apply(mutation.token(), mutation.key(), &update);
        }
    }

    fn slices(rng: &mut Rng) -> Arc<[Slice]> {
        let mut places: Vec<Box<[u8]>> = (0..2 * rng.below(4))
            .map(|_| {
                let value = [rng.below(12) as u8];
                let mut out = Vec::new();
                let values = std::iter::once(&value[..]);
                match rng.below(3) {
                    0 => comparable::clustering(&table(), values, &mut out),
                    1 => comparable::bound(&table(), values, BoundSide::Before, &mut out),
                    _ => comparable::bound(&table(), values, BoundSide::After, &mut out),
                }
                out.into()
            })
            .collect();
        places.sort();
        let slices = places.chunks_exact(2).filter(|pair| pair[0] < pair[1]);
        let slices: Vec<_> = slices.map(|pair| Slice { start: pair[0].clone(), end: pair[1].clone() }).collect();
        if slices.is_empty() { [Slice::all()].into() } else { slices.into() }
    }

    /// Collects fragments as text, without range markers that change nothing.
    #[derive(Default)]
    struct Told {
        open: Option<Deletion>,
        fragments: Vec<String>,
    }

    impl Told {
        fn take(&mut self, fragment: Fragment<'_>) {
            if let Fragment::RangeMarker { deletion, .. } = fragment
                && self.open.replace(deletion).unwrap_or(Deletion::LIVE) == deletion
            {
                return;
            }
            self.fragments.push(format!("{fragment:?}"));
        }
    }

    fn drain(mut cursor: BufferedCursor, refill_bytes: usize) -> Vec<String> {
        let mut told = Told::default();
        loop {
            cursor.refill_bytes = refill_bytes;
            match cursor.advance().expect("memory does not fail") {
                FragmentStep::Fragment => {
                    let before = told.fragments.len();
                    told.take(cursor.fragment().expect("a fragment"));
                    assert!(told.fragments.len() > before, "a marker that changes nothing");
                }
                FragmentStep::Need(_) => {}
                FragmentStep::End => return told.fragments,
            }
        }
    }

    #[test]
    fn refills_of_any_size_give_what_one_walk_gives() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let kind = if seed % 2 == 0 { MemtableKind::Tree } else { MemtableKind::Skiplist };
            let memtable = Rc::new(Memtable::new(Arc::new(table()), Partitioner::Murmur3, kind, Rc::default()));
            (0..rng.below(60)).for_each(|_| write(&mut rng, &memtable));
            let keys: Vec<DecoratedKey> = (0..6).map(|key| DecoratedKey::new(Partitioner::Murmur3, &[key])).collect();
            let slices = slices(&mut rng);
            let walk = |wanted: &dyn Fn(&DecoratedKey) -> bool, reversed: bool| {
                let contents = memtable.read();
                let mut told = Told::default();
                for partition in contents.partitions.range(&contents.arena, From::Start, u64::MAX) {
                    let key = DecoratedKey::new(Partitioner::Murmur3, partition.key(&contents.arena));
                    let mut cursor = PartitionCursor::new(&contents.arena, partition, &slices, reversed, None);
                    while let Some(fragment) = cursor.next_fragment().filter(|_| wanted(&key)) {
                        told.take(fragment);
                    }
                }
                told.fragments
            };
            for refill_bytes in [1, 30, 100, REFILL_BYTES_MAX] {
                for reversed in [false, true] {
                    for key in &keys {
                        let cursor = BufferedCursor::partition(&memtable, key.clone(), slices.clone(), reversed);
                        assert_eq!(drain(cursor, refill_bytes), walk(&|other| other == key, reversed), "seed {seed}");
                    }
                }
                let cursor = BufferedCursor::scan(&memtable, TokenRange::FULL, None, slices.clone());
                assert_eq!(drain(cursor, refill_bytes), walk(&|_| true, false), "seed {seed}");
                let after = &keys[rng.below(6) as usize];
                let cursor = BufferedCursor::scan(&memtable, TokenRange::FULL, Some(after.clone()), slices.clone());
                assert_eq!(drain(cursor, refill_bytes), walk(&|key| key > after, false), "seed {seed}");
                let until = keys[rng.below(6) as usize].token.max(after.token);
                let range = TokenRange::between(RingToken::Murmur3(after.token.0), RingToken::Murmur3(until.0));
                let cursor = BufferedCursor::scan(&memtable, range.clone(), None, slices.clone());
                assert_eq!(
                    drain(cursor, refill_bytes),
                    walk(&|key| range.contains(key.token, &key.key), false),
                    "seed {seed}"
                );
            }
        }
    }

    #[test]
    fn a_refill_holds_no_more_than_its_limits() {
        let memtable =
            Rc::new(Memtable::new(Arc::new(table()), Partitioner::Murmur3, MemtableKind::Tree, Rc::default()));
        for key in 0..=255 {
            let mut builder = MutationBuilder::new(Partitioner::Murmur3, &[key]);
            builder.table(table().id);
            for value in 0..10 {
                let mut values = Vec::new();
                push_clustering(&mut values, &[value]);
                builder.row(Clustering(&values), |out| deleted_row(out, Deletion::LIVE));
            }
            let mutation = builder.finish();
            mutation.updates().for_each(|update| memtable.apply(mutation.token(), mutation.key(), &update));
        }
        let mut cursor = BufferedCursor::scan(&memtable, TokenRange::FULL, None, [Slice::all()].into());
        let mut fragments = 0;
        while cursor.advance().expect("memory does not fail") != FragmentStep::End {
            fragments += usize::from(cursor.fragment().is_some());
            assert!(cursor.entries.len() <= REFILL_FRAGMENTS_MAX);
            cursor.refill_bytes = REFILL_BYTES_MAX;
        }
        assert!(fragments >= 256 * 12);
    }

    #[test]
    fn the_rest_of_a_partition_is_skipped() {
        let memtable =
            Rc::new(Memtable::new(Arc::new(table()), Partitioner::Murmur3, MemtableKind::Tree, Rc::default()));
        let mut rng = Rng::new(3);
        (0..200).for_each(|_| write(&mut rng, &memtable));
        for refill_bytes in [1, REFILL_BYTES_MAX] {
            let mut cursor = BufferedCursor::scan(&memtable, TokenRange::FULL, None, [Slice::all()].into());
            let mut starts = 0;
            loop {
                cursor.refill_bytes = refill_bytes;
                match cursor.advance().expect("memory does not fail") {
                    FragmentStep::Fragment => {
                        assert!(matches!(cursor.fragment(), Some(Fragment::PartitionStart { .. })));
                        starts += 1;
                        cursor.skip_partition();
                    }
                    FragmentStep::Need(_) => {}
                    FragmentStep::End => break,
                }
            }
            assert_eq!(starts, 6);
        }
    }
}
