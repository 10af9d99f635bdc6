//! What each of several replicas lacks of what all of them have: the writes of read repair.
//!
//! 1. The blocks of all replicas are merged, and each replica's own blocks beside that.
//! 2. Both are walked in step, up to the *frontier* behind which one of the replicas may have more
//!    ([`super::reconcile`]).
//! 3. What the merge has and the replica has not, or has an older version of, becomes a mutation: deletions, liveness
//!    and cells with the timestamps that they have elsewhere.
//!
//! Left out is what makes no difference to any later read, as in digests ([`crate::digest`]): cells of dropped columns,
//! and tombstones that compactions may purge, unless they delete something that the replica has.
//!
//! A deleted range that began before the slice, or goes on behind it, is repaired from or up to the bound of the slice,
//! whose clustering values are those of its comparable form. Where they cannot be told (`comparable::prefix_of`), it is
//! repaired from the first row of the replica that it deletes; one that goes on behind what is known, up to the last
//! row visited, and from there in the next round.
//!
//! Invariants: a replica that has applied its mutations has the content of the merge, up to the frontier; a mutation
//! has nothing that no replica had.

use super::reconcile::{cut_of, frontier_of};
use crate::clustering::{Clustering, ClusteringBound};
use crate::comparable::{BoundSide, prefix_of, side};
use crate::fragment::{Fragment, FragmentStep};
use crate::fragment_block::{FragmentBlock, FragmentBlockCursor};
use crate::key::DecoratedKey;
use crate::merge::{EqualKeys, Merge};
use crate::mutation::{Mutation, MutationBuilder};
use crate::partitioner::Partitioner;
use crate::query::{Position, ReadCommand};
use crate::row::{Cell, CellContent, Deletion, Liveness, RowBuilder, RowView};
use crate::schema::Table;
use crate::tombstone_gc::GcBefore;

/// A mutation ends with the change with which it reaches this many bytes; the rest of a partition is another one.
const REPAIR_BYTES: usize = 256 << 10;

/// A block of what a replica has, and the number of the replica: several blocks of one replica have different
/// partitions.
pub type Answer = (usize, FragmentBlock);

/// The repairs of one read.
#[derive(Debug, Default)]
pub struct Repairs {
    /// Before which second deletions may be forgotten, if not by the table's options alone.
    gc_before: Option<GcBefore>,
    /// The place up to which the last round knew everything, if there is a row or the bound of a deleted range.
    known: Option<KnownPlace>,
}

impl Repairs {
    /// The repairs of a read on a node that knows what is repaired of the table.
    pub fn with_gc_before(gc_before: GcBefore) -> Repairs {
        Repairs { gc_before: Some(gc_before), known: None }
    }

    /// What each of `replicas` replicas lacks of what all `answers` to `command` have together, in the order of their
    /// numbers. The commands are those of the rounds of one [`super::reconcile::ReconcilingRead`].
    pub fn lacking(
        &mut self,
        table: &Table,
        command: &ReadCommand,
        answers: &[Answer],
        replicas: usize,
    ) -> Vec<Vec<Mutation>> {
        let known = self.known.take();
        let resumed = known.filter(|(position, _)| command.resume.as_ref() == Some(position));
        let gc_before = match &self.gc_before {
            Some(gc_before) => gc_before.clone(),
            None => table.options.gc_before(None, command.now_in_seconds),
        };
        let (lacking, known) = lacking(table, command, &gc_before, resumed.as_ref(), answers, replicas);
        self.known = known;
        lacking
    }
}

/// A place and the bound right behind the row there, or the bound there.
type KnownPlace = (Position, (Vec<u8>, BoundSide));

fn lacking(
    table: &Table,
    command: &ReadCommand,
    gc_before: &GcBefore,
    resumed: Option<&KnownPlace>,
    answers: &[Answer],
    replicas: usize,
) -> (Vec<Vec<Mutation>>, Option<KnownPlace>) {
    let Some(partitioner) = answers.first().map(|(_, block)| block.partitioner()) else {
        return (vec![Vec::new(); replicas], None);
    };
    let mut known = None;
    let frontier = frontier_of(answers.iter().map(|(_, block)| block), command.reversed);
    let of = |number| {
        let merge = |is_asked: &dyn Fn(usize) -> bool| {
            let asked = answers.iter().filter(|(replica, _)| is_asked(*replica));
            let cursors = asked.map(|(_, block)| FragmentBlockCursor::new(block)).collect();
            Merge::new(partitioner, cursors, command.reversed)
        };
        let mut walk = Walk {
            table,
            partitioner,
            reversed: command.reversed,
            now: command.now_in_seconds,
            gc_before: i64::MIN,
            gc_before_of: gc_before,
            all: merge(&|_| true).with_keys(EqualKeys::of(table)),
            own: merge(&|replica| replica == number),
            resumed,
            known: None,
            builder: None,
            mutations: Vec::new(),
        };
        walk.run(frontier.as_ref());
        known = walk.known.or(known.take());
        walk.mutations
    };
    let lacking = (0..replicas).map(of).collect();
    (lacking, known)
}

/// The merge of all replicas and the blocks of one, in step.
struct Walk<'b> {
    table: &'b Table,
    partitioner: Partitioner,
    reversed: bool,
    now: i64,
    /// Of the partition under way, and of all.
    gc_before: i64,
    gc_before_of: &'b GcBefore,
    all: Merge<FragmentBlockCursor<'b>>,
    own: Merge<FragmentBlockCursor<'b>>,
    /// Where the read resumed, and where its next round will.
    resumed: Option<&'b KnownPlace>,
    known: Option<KnownPlace>,
    builder: Option<MutationBuilder>,
    mutations: Vec<Mutation>,
}

/// An end of a deleted range; `None` for an end of which the clustering values are not known.
type End = Option<(Vec<u8>, BoundSide)>;

/// A deleted range that the replica lacks, from where it began in read order.
struct LackedRange {
    deletion: Deletion,
    begin: End,
    /// The clustering of the first row of the replica of which it deletes something.
    first_hit: Option<Vec<u8>>,
    /// The clustering of the last row that was visited within it.
    last: Option<Vec<u8>>,
}

/// A step of a merge of blocks, which need nothing and cannot fail.
fn step(merge: &mut Merge<FragmentBlockCursor<'_>>) -> bool {
    matches!(merge.advance(), Ok(FragmentStep::Fragment))
}

/// The side of a row that is behind it in read order.
fn behind(reversed: bool) -> BoundSide {
    if reversed { BoundSide::Before } else { BoundSide::After }
}

/// The later of two deletions is `a`, and they differ.
fn is_newer(a: Deletion, b: Deletion) -> bool {
    b.max(a) != b
}

/// Whether a deletion deletes anything of a row.
fn hits(deletion: Deletion, row: RowView<'_>) -> bool {
    row.liveness().is_some_and(|liveness| deletion.deletes(liveness.timestamp))
        || row.cells().any(|cell| deletion.deletes(cell.timestamp))
}

/// The place of the row or range marker that a merge is at, in a form that sorts in read order.
fn place(merge: &Merge<FragmentBlockCursor<'_>>) -> Option<(Vec<u8>, bool)> {
    match merge.fragment()? {
        Fragment::Row { comparable, .. } => Some((comparable.to_vec(), true)),
        Fragment::RangeMarker { comparable, .. } => Some((comparable.to_vec(), false)),
        _ => None,
    }
}

impl Walk<'_> {
    fn run(&mut self, frontier: Option<&Position>) {
        let mut own = step(&mut self.own);
        while step(&mut self.all) {
            let (token, key) = self.all.key();
            let key = DecoratedKey { token, partitioner: self.partitioner, key: key.into() };
            if frontier.is_some_and(|frontier| frontier.key < key) {
                break;
            }
            let has_partition = own && self.own.key() == (key.token, &*key.key);
            let stops_here = frontier.filter(|frontier| frontier.key == key);
            self.partition(&key, has_partition, stops_here.and_then(|frontier| frontier.comparable.as_deref()));
            if !matches!(self.all.fragment(), Some(Fragment::PartitionEnd)) {
                self.all.skip_partition();
            }
            if has_partition {
                if !matches!(self.own.fragment(), Some(Fragment::PartitionEnd)) {
                    self.own.skip_partition();
                }
                own = step(&mut self.own);
            }
        }
    }

    /// Whether the deletion must still win over data elsewhere.
    fn counts(&self, deletion: Deletion) -> bool {
        !deletion.is_live() && deletion.local_deletion_time >= self.gc_before
    }

    fn partition(&mut self, key: &DecoratedKey, has_partition: bool, frontier: Option<&[u8]>) {
        self.gc_before = self.gc_before_of.at(key.token, &key.key);
        let cut = cut_of(self.all.sources(), self.all.key(), self.reversed);
        let known_until: Option<Vec<u8>> = match (cut, frontier) {
            (Some(cut), Some(frontier)) if self.reversed => Some(cut.max(frontier).to_vec()),
            (Some(cut), Some(frontier)) => Some(cut.min(frontier).to_vec()),
            (cut, frontier) => cut.or(frontier).map(<[u8]>::to_vec),
        };
        let deletion_of = |merge: &Merge<FragmentBlockCursor<'_>>| match merge.fragment() {
            Some(Fragment::PartitionStart { deletion, .. }) => deletion,
            _ => Deletion::LIVE,
        };
        let merged = deletion_of(&self.all);
        let found = if has_partition { deletion_of(&self.own) } else { Deletion::LIVE };
        let mut lacked = Some(merged).filter(|merged| is_newer(*merged, found));
        if let Some(merged) = lacked.take_if(|merged| self.counts(*merged)) {
            self.changes(key).delete_partition(merged);
        }
        // What deletes everything, once the replica has the mutation.
        let base = found.max(merged);
        let mut more = step(&mut self.all);
        let mut has_more = has_partition && step(&mut self.own);
        let mut row = Vec::new();
        if let Some(Fragment::StaticRow { row: merged }) = self.all.fragment() {
            let own = match self.own.fragment() {
                Some(Fragment::StaticRow { row }) if has_more => Some(row),
                _ => None,
            };
            if self.lacked_of_row(merged, own, base, &mut row) {
                self.changes(key).static_row(|out| out.extend_from_slice(&row));
            }
            more = step(&mut self.all);
        }
        if has_more && let Some(Fragment::StaticRow { row }) = self.own.fragment() {
            if let Some(merged) = lacked.take_if(|merged| hits(*merged, row)) {
                self.changes(key).delete_partition(merged);
            }
            has_more = step(&mut self.own);
        }
        self.rows(key, base, lacked, known_until.as_deref(), more, has_more);
        self.end_mutation();
    }

    /// Walks the rows and range markers of a partition, of which the last step reached one in the merge if there is
    /// `more`, and one of the replica if it `has_more`. `base` deletes what it deletes at the replica too, once that
    /// has the mutation; `partition` is a deletion that the replica needs only if it deletes one of its rows.
    fn rows(
        &mut self,
        key: &DecoratedKey,
        base: Deletion,
        mut partition: Option<Deletion>,
        known_until: Option<&[u8]>,
        mut more: bool,
        mut has_more: bool,
    ) {
        let (mut open, mut own_open) = (Deletion::LIVE, Deletion::LIVE);
        let mut lacked: Option<LackedRange> = None;
        let mut blob = Vec::new();
        loop {
            let at = if more { place(&self.all) } else { None };
            let own_at = if has_more { place(&self.own) } else { None };
            let next = match (&at, &own_at) {
                (None, None) => break,
                (Some(one), None) | (None, Some(one)) => one,
                (Some(a), Some(b)) if self.reversed => a.max(b),
                (Some(a), Some(b)) => a.min(b),
            };
            if known_until.is_some_and(|end| if self.reversed { *next.0 < *end } else { *next.0 > *end }) {
                break;
            }
            let next = next.clone();
            let (is_all, is_own, is_row) = (at.as_ref() == Some(&next), own_at.as_ref() == Some(&next), next.1);
            if is_row {
                let is_hit = |merged: &mut Deletion| match self.own.fragment() {
                    Some(Fragment::Row { row, .. }) => is_own && hits(*merged, row),
                    _ => false,
                };
                if let Some(merged) = partition.take_if(is_hit) {
                    self.changes(key).delete_partition(merged);
                }
                let own = match self.own.fragment() {
                    Some(Fragment::Row { clustering, row, .. }) if is_own => Some((clustering, row)),
                    _ => None,
                };
                let visited = if is_own { self.own.fragment() } else { self.all.fragment() };
                if let Some(Fragment::Row { clustering, comparable, .. }) = visited
                    && known_until == Some(comparable)
                {
                    let position = Position { key: key.clone(), comparable: Some(comparable.into()) };
                    self.known = Some((position, (clustering.0.to_vec(), behind(self.reversed))));
                }
                if let (Some(range), Some(Fragment::Row { clustering, .. })) = (&mut lacked, visited) {
                    range.last = Some(clustering.0.to_vec());
                }
                if let (Some(range), Some((clustering, row))) = (&mut lacked, own)
                    && hits(range.deletion, row)
                {
                    range.first_hit.get_or_insert_with(|| clustering.0.to_vec());
                }
                if let Some(Fragment::Row { clustering, row, .. }) = self.all.fragment().filter(|_| is_all) {
                    blob.clear();
                    let shadow = base.max(own_open);
                    if self.lacked_of_row(row, own.map(|(_, row)| row), shadow, &mut blob) {
                        let clustering = clustering.0.to_vec();
                        let lacked = &blob;
                        self.changes(key).row(Clustering(&clustering), |out| out.extend_from_slice(lacked));
                        self.end_large_mutation();
                    }
                }
            } else {
                let marker = |merge: &Merge<FragmentBlockCursor<'_>>| match merge.fragment() {
                    Some(Fragment::RangeMarker { clustering, comparable, deletion }) => {
                        let is_bound = !clustering.0.is_empty() || comparable.len() <= 1;
                        let side = side(comparable);
                        let end = side.filter(|_| is_bound).map(|side| (clustering.0.to_vec(), side));
                        let end = end.or_else(|| self.resumed_at(key, comparable));
                        (deletion, end.or_else(|| prefix_of(self.table, comparable)))
                    }
                    _ => (Deletion::LIVE, None),
                };
                let mut end = None;
                if is_own {
                    (own_open, end) = marker(&self.own);
                }
                if is_all {
                    let merged;
                    (open, merged) = marker(&self.all);
                    end = merged.or(end);
                }
                if let Some(end) = &end
                    && known_until == Some(&*next.0)
                {
                    let position = Position { key: key.clone(), comparable: Some(next.0.as_slice().into()) };
                    self.known = Some((position, end.clone()));
                }
                let wanted = is_newer(open, base.max(own_open)).then_some(open);
                if wanted != lacked.as_ref().map(|range| range.deletion) {
                    if let Some(range) = lacked.take() {
                        self.delete_range(key, range, end.clone());
                    }
                    lacked = wanted.map(|deletion| LackedRange { deletion, begin: end, first_hit: None, last: None });
                }
            }
            if is_all {
                more = step(&mut self.all);
            }
            if is_own {
                has_more = step(&mut self.own);
            }
        }
        if let Some(range) = lacked {
            self.delete_range(key, range, None);
        }
    }

    /// The bound at which the read resumed, if the bound of a slice is at that place.
    fn resumed_at(&self, key: &DecoratedKey, bound: &[u8]) -> End {
        let (Position { key: resumed, comparable }, end) = self.resumed?;
        let place = comparable.as_deref()?;
        // See `Slice::remaining`.
        let is_behind = match self.reversed {
            true => bound == place,
            false => bound.split_last().is_some_and(|(last, rest)| *last == 0 && rest == place),
        };
        (is_behind && resumed == key).then(|| end.clone())
    }

    /// Adds a deleted range that ends at `end` in read order. Without values for an end, it is that of a row within it.
    fn delete_range(&mut self, key: &DecoratedKey, range: LackedRange, end: End) {
        let LackedRange { deletion, begin, first_hit, last } = range;
        if first_hit.is_none() && !self.counts(deletion) {
            return;
        }
        let (before, after) = (behind(!self.reversed), behind(self.reversed));
        let begin = begin.or(first_hit.map(|row| (row, before)));
        let end = end.or(last.map(|row| (row, after)));
        let (Some(begin), Some(end)) = (begin, end) else { return };
        let ((low, low_side), (high, high_side)) = if self.reversed { (end, begin) } else { (begin, end) };
        let low = ClusteringBound { prefix: Clustering(&low), inclusive: low_side == BoundSide::Before };
        let high = ClusteringBound { prefix: Clustering(&high), inclusive: high_side == BoundSide::After };
        self.changes(key).delete_range(low, high, deletion);
        self.end_large_mutation();
    }

    /// Appends what the replica lacks of a row, of which it has `own`, and everything that `shadow` deletes is deleted
    /// there. Returns whether there is anything.
    fn lacked_of_row(
        &self,
        merged: RowView<'_>,
        own: Option<RowView<'_>>,
        shadow: Deletion,
        out: &mut Vec<u8>,
    ) -> bool {
        let own_deletion = shadow.max(own.map_or(Deletion::LIVE, |own| own.deletion()));
        let is_lacked = |deletion: Deletion| {
            is_newer(deletion, own_deletion) && (self.counts(deletion) || own.is_some_and(|own| hits(deletion, own)))
        };
        let deletion = Some(merged.deletion()).filter(|merged| is_lacked(*merged));
        let own_liveness = own.and_then(|own| own.liveness());
        let is_kept = |liveness: &Liveness| liveness.expiry.is_none_or(|(_, end)| end >= self.gc_before);
        let liveness = merged.liveness().filter(|merged| Some(*merged) != own_liveness);
        let liveness = liveness.filter(|merged| is_kept(merged) || own_liveness.is_some());
        let mut builder = RowBuilder::new(out, liveness, deletion.unwrap_or(Deletion::LIVE));
        let mut is_lacking = liveness.is_some() || deletion.is_some();
        let mut rest = own.map(|own| own.cells()).into_iter().flatten().peekable();
        for cell in merged.cells() {
            while rest.next_if(|own| own.sort_key() < cell.sort_key()).is_some() {}
            let found = rest.next_if(|own| own.sort_key() == cell.sort_key());
            if found == Some(cell) || self.is_same_death(&cell, found) {
                continue;
            }
            let is_hit = |own: Cell<'_>| own.column == cell.column && own.timestamp <= cell.timestamp;
            let is_lacked = self.is_kept(&cell) || own.is_some_and(|own| own.cells().any(is_hit));
            if is_lacked && !self.table.is_dropped(cell.column, cell.timestamp) {
                builder.cell(&cell);
                is_lacking = true;
            }
        }
        is_lacking
    }

    /// Whether both cells are dead and were written at the same time: an expired cell becomes a deleted one by
    /// compaction.
    fn is_same_death(&self, cell: &Cell<'_>, found: Option<Cell<'_>>) -> bool {
        let is_dead = |cell: &Cell<'_>| cell.value_at(self.now).is_none();
        found.is_some_and(|found| {
            found.timestamp == cell.timestamp
                && is_dead(cell)
                && is_dead(&found)
                && self.is_kept(cell) == self.is_kept(&found)
                && !matches!(cell.content, CellContent::ColumnDeletion { .. })
        })
    }

    /// Whether a cell is no tombstone that compactions may purge.
    fn is_kept(&self, cell: &Cell<'_>) -> bool {
        let deleted_at = match cell.content {
            CellContent::Live(_) | CellContent::Counter(_) => i64::MAX,
            CellContent::Expiring { local_deletion_time, .. } if self.now < local_deletion_time => i64::MAX,
            CellContent::Expiring { ttl, local_deletion_time, .. } => local_deletion_time.saturating_sub(ttl.into()),
            CellContent::Deleted { local_deletion_time } | CellContent::ColumnDeletion { local_deletion_time } => {
                local_deletion_time
            }
        };
        deleted_at >= self.gc_before
    }

    /// The mutation of the partition under way.
    fn changes(&mut self, key: &DecoratedKey) -> &mut MutationBuilder {
        let (partitioner, table) = (self.partitioner, self.table.id);
        self.builder.get_or_insert_with(|| {
            let mut builder = MutationBuilder::new(partitioner, &key.key);
            builder.table(table);
            builder
        })
    }

    fn end_large_mutation(&mut self) {
        if self.builder.as_ref().is_some_and(|builder| builder.len() >= REPAIR_BYTES) {
            self.end_mutation();
        }
    }

    fn end_mutation(&mut self) {
        self.mutations.extend(self.builder.take().map(MutationBuilder::finish));
    }
}
