//! Memtables: the rows of one table that are in memory, with partitions in token order.
//!
//! 1. `arena` holds the bytes. `partitions` finds a partition by token and key, in a `tree` or a `skiplist`.
//!    `partition` is one partition, `rows` and `tombstones` are its contents. `cursor` reads a partition within one
//!    poll, `buffered` across polls.
//! 2. All of a mutation's changes to one table are applied in one poll. Readers borrow the contents for one poll and
//!    hold a [`Snapshot`] to keep a partition across polls.
//!
//! Invariants: a borrow of a memtable never lives across an await; bytes that a snapshot can reach do not change;
//! `bytes()` counts everything allocated, except for tree nodes that only a snapshot keeps alive.

pub mod arena;
pub mod buffered;
pub mod cursor;
pub mod partition;
pub mod partitions;
pub mod rows;
pub mod skiplist;
pub mod tombstones;
pub mod tree;

use arena::{Arena, Span};
use model::comparable::{self, BoundSide};
use model::merge::{EqualKeys, merge_rows};
use model::mutation::{Clustering, ClusteringBound, Operation, TableUpdate};
use model::row::{Deletion, RowView};
use model::{DecoratedKey, MemtableKind, Partitioner, Table, Token, TokenRange};
use partition::Partition;
use partitions::{Partitions, PrefetchStage};
use rows::{RowEntry, RowKey, Upsert};
use runtime::gate::{Gate, Pass};
use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use tombstones::Bound;

/// Partitions freed between two calls of `yield_if_needed`.
const DISMANTLE_PARTITIONS: usize = 256;

/// A counter of bytes that several memtables share.
pub type MemoryCounter = Rc<Cell<usize>>;

/// The rows of one table that are in memory.
pub struct Memtable {
    table: RefCell<Arc<Table>>,
    contents: RefCell<Contents>,
    /// How many snapshots of this memtable's partitions exist.
    snapshots: Cell<usize>,
    /// Entered by every write that will be applied to this memtable, so that [`Memtable::seal`] can wait for them.
    writes: Gate,
    counter: MemoryCounter,
}

/// The contents of a memtable, which readers borrow for one poll.
#[derive(Default)]
pub struct Contents {
    /// Keys, clusterings and row blobs.
    pub arena: Arena,
    /// The partitions, in token order.
    pub partitions: Partitions,
    /// Bytes of memory outside the arena, estimated.
    structure_bytes: usize,
    /// The key that all rows share if the table has no clustering columns.
    plain_key: Option<RowKey>,
    equal_keys: EqualKeys,
    scratch: Scratch,
}

#[derive(Default)]
struct Scratch {
    comparable: Vec<u8>,
    end: Vec<u8>,
    blob: Vec<u8>,
    spare: Vec<u8>,
    unified: Vec<u8>,
}

/// A partition as it was when the snapshot was taken, for readers that yield.
pub struct Snapshot {
    memtable: Rc<Memtable>,
    partition: Rc<Partition>,
}

impl Memtable {
    /// An empty memtable that adds its bytes to `counter` and subtracts them when it is dropped.
    pub fn new(table: Arc<Table>, partitioner: Partitioner, kind: MemtableKind, counter: MemoryCounter) -> Memtable {
        let equal_keys = EqualKeys::of(&table);
        let partitions = Partitions::new(partitioner, kind);
        let contents = Contents { partitions, equal_keys, ..Contents::default() };
        Memtable {
            table: RefCell::new(table),
            contents: RefCell::new(contents),
            snapshots: Cell::new(0),
            writes: Gate::new(),
            counter,
        }
    }

    /// Replaces the table's schema after an ALTER.
    pub fn set_table(&self, table: Arc<Table>) {
        self.contents.borrow_mut().equal_keys = EqualKeys::of(&table);
        *self.table.borrow_mut() = table;
    }

    /// The table's schema, for the rest of this poll.
    pub fn table(&self) -> Ref<'_, Arc<Table>> {
        self.table.borrow()
    }

    /// The collection columns of the table whose keys must be compared by type.
    pub fn equal_keys(&self) -> EqualKeys {
        self.contents.borrow().equal_keys.clone()
    }

    /// Registers a write that will be applied here; `None` once the memtable is sealed.
    pub fn enter(&self) -> Option<Pass> {
        self.writes.enter()
    }

    /// Refuses new writes and waits until those under way have been applied.
    pub async fn seal(&self) {
        self.writes.close().await;
    }

    /// The contents, for the rest of this poll.
    pub fn read(&self) -> Ref<'_, Contents> {
        self.contents.borrow()
    }

    /// Prefetches the memory that one stage of a partition look-up will touch.
    pub fn prefetch(&self, token: Token, step: PrefetchStage) {
        let contents = self.contents.borrow();
        contents.partitions.prefetch(&contents.arena, token.prefix(), step);
    }

    /// Keeps a partition as it is while the caller yields.
    pub fn snapshot(self: &Rc<Self>, partition: &Rc<Partition>) -> Snapshot {
        self.snapshots.set(self.snapshots.get() + 1);
        Snapshot { memtable: self.clone(), partition: partition.clone() }
    }

    /// Frees a flushed memtable in pieces, yielding in between. Stops if a reader still holds it: the reader frees
    /// the rest.
    pub async fn dismantle(memtable: Rc<Memtable>) {
        loop {
            if Rc::strong_count(&memtable) > 1 {
                return;
            }
            if !memtable.contents.borrow_mut().partitions.pop(DISMANTLE_PARTITIONS) {
                return;
            }
            runtime::yield_if_needed().await;
        }
    }

    /// Bytes of memory in use, estimated.
    pub fn bytes(&self) -> usize {
        self.contents.borrow().bytes()
    }

    /// Applies the changes that a mutation makes to this memtable's table.
    pub fn apply(&self, token: Token, key: &[u8], update: &TableUpdate<'_>) {
        let mut contents = self.contents.borrow_mut();
        let before = contents.bytes();
        contents.apply(&self.table.borrow(), token, key, update, self.snapshots.get() > 0);
        let after = contents.bytes();
        self.counter.set(self.counter.get() + after - before);
    }
}

impl Drop for Memtable {
    fn drop(&mut self) {
        self.counter.set(self.counter.get() - self.contents.get_mut().bytes());
    }
}

impl Contents {
    /// A partition's key.
    pub fn key_of(&self, partition: &Partition) -> DecoratedKey {
        let (token, partitioner) = (partition.token, self.partitions.partitioner());
        DecoratedKey { token, partitioner, key: partition.key(&self.arena).into() }
    }

    /// The partitions of a range from `from` on, in order.
    pub fn range<'a>(
        &'a self,
        from: partitions::From<'_>,
        range: &'a TokenRange,
    ) -> impl Iterator<Item = &'a Rc<Partition>> + use<'a> {
        let until = range.end.as_ref().map_or(u64::MAX, |end| end.token.token().prefix());
        let partitions = self.partitions.range(&self.arena, from, until);
        partitions.take_while(|partition| !range.is_passed(partition.token, partition.key(&self.arena)))
    }

    fn bytes(&self) -> usize {
        self.arena.bytes() + self.structure_bytes
    }

    fn apply(&mut self, table: &Table, token: Token, key: &[u8], update: &TableUpdate<'_>, shared: bool) {
        let Contents { arena, partitions, structure_bytes, plain_key, equal_keys, scratch } = self;
        let make = |arena: &mut Arena| Partition::new(token, arena.put(&[key]));
        let bytes_each = partitions.bytes_each();
        let (slot, made) = partitions.get_or_insert(arena, token.prefix(), key, make);
        let partition = Rc::make_mut(slot);
        if made {
            *structure_bytes += bytes_each;
        }
        partition.deletion = partition.deletion.max(update.partition_deletion);
        let mut rows = RowMerge { keys: equal_keys, merged: &mut scratch.blob, spare: &mut scratch.spare, shared };
        let unified = &mut scratch.unified;
        for operation in update.operations() {
            match operation {
                Operation::Row { clustering, row } => {
                    let row = rows.keys.one_per_key(row, unified);
                    scratch.comparable.clear();
                    comparable::clustering(table, clustering.components(), &mut scratch.comparable);
                    let plain = table.clustering_len == 0;
                    let row_key = |arena: &mut Arena, comparable: &[u8]| match plain_key {
                        Some(key) if plain => *key,
                        _ => {
                            let key = RowKey::put(arena, comparable, clustering.0);
                            if plain {
                                *plain_key = Some(key);
                            }
                            key
                        }
                    };
                    *structure_bytes += upsert(arena, partition, &scratch.comparable, row, row_key, &mut rows);
                }
                Operation::StaticRow { row } => {
                    let row = rows.keys.one_per_key(row, unified);
                    partition.static_row = Some(match partition.static_row {
                        None => arena.put_blob(row.blob()),
                        Some(old) => rows.merge(arena, old, row, partition.deletion),
                    });
                }
                Operation::RangeDeletion { start, end, deletion } => {
                    scratch.comparable.clear();
                    scratch.end.clear();
                    start_bound(table, start, &mut scratch.comparable);
                    end_bound(table, end, &mut scratch.end);
                    let tombstones = Rc::make_mut(partition.tombstones.get_or_insert_default());
                    let start = Bound::new(&scratch.comparable, start.prefix);
                    let end = Bound::new(&scratch.end, end.prefix);
                    *structure_bytes += tombstones.insert(start, end, deletion);
                }
            }
        }
    }
}

/// Adds a row, or merges it with the existing row of its clustering. Returns the bytes of memory added outside the
/// arena.
fn upsert(
    arena: &mut Arena,
    partition: &mut Partition,
    comparable: &[u8],
    row: RowView<'_>,
    key: impl FnOnce(&mut Arena, &[u8]) -> RowKey,
    rows: &mut RowMerge<'_>,
) -> usize {
    let make = |arena: &mut Arena| RowEntry { key: key(arena, comparable), blob: arena.put_blob(row.blob()) };
    match partition.rows.upsert(arena, comparable, make) {
        Upsert::Added(bytes) => bytes,
        Upsert::Found(blob) => {
            *blob = rows.merge(arena, *blob, row, partition.deletion);
            0
        }
    }
}

/// The context for merging rows in the arena.
struct RowMerge<'a> {
    keys: &'a EqualKeys,
    /// Buffers: the merged row, and that row with one cell per collection key.
    merged: &'a mut Vec<u8>,
    spare: &'a mut Vec<u8>,
    /// Whether a snapshot may share the blobs.
    shared: bool,
}

impl RowMerge<'_> {
    /// Merges `row` into the row stored at `old` and returns where the result lies. A blob that a snapshot may share
    /// is not changed.
    fn merge(&mut self, arena: &mut Arena, old: Span, row: RowView<'_>, deletion: Deletion) -> Span {
        self.merged.clear();
        merge_rows(RowView::trusted(arena.get(old)), row, deletion, self.merged);
        let merged = self.keys.one_per_key(RowView::trusted(self.merged), self.spare).blob();
        if self.shared {
            arena.abandon(old);
            return arena.put_blob(merged);
        }
        if arena.fits(old, merged) {
            return arena.replace(old, merged);
        }
        arena.release(old);
        arena.put_blob(merged)
    }
}

/// Appends the comparable form of the start of a range.
fn start_bound(table: &Table, bound: ClusteringBound<'_>, out: &mut Vec<u8>) {
    let side = if bound.inclusive { BoundSide::Before } else { BoundSide::After };
    bound_form(table, bound.prefix, side, out);
}

/// Appends the comparable form of the end of a range.
fn end_bound(table: &Table, bound: ClusteringBound<'_>, out: &mut Vec<u8>) {
    let side = if bound.inclusive { BoundSide::After } else { BoundSide::Before };
    bound_form(table, bound.prefix, side, out);
}

fn bound_form(table: &Table, prefix: Clustering<'_>, side: BoundSide, out: &mut Vec<u8>) {
    comparable::bound(table, prefix.components(), side, out);
}

impl Snapshot {
    /// The partition.
    pub fn partition(&self) -> &Rc<Partition> {
        &self.partition
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.memtable.snapshots.set(self.memtable.snapshots.get() - 1);
    }
}
