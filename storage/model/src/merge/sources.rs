//! Merging any number of cursors into one.
//!
//! 1. All sources are at the start of a partition. The first one by token and key is the current partition. The sources
//!    that have it are active, and its deletion is the newest of theirs.
//! 2. The first in order of the active sources' fragments is next. Static rows and rows with the same clustering are
//!    merged, without what the partition's deletion and the open range deletions shadow. A range marker is returned
//!    when it changes the newest open deletion; one that the partition's deletion supersedes counts as
//!    [`Deletion::LIVE`].
//! 3. With [`EqualKeys`] a merged row keeps one cell per key of a collection. With a [`Purge`] a partition is returned
//!    only if something of it remains.
//!
//! When sources need blocks, the step returns the first of them and [`Merge::needs`] lists all. The step is repeated
//! once the blocks are there.
//!
//! Invariants: a row that is in only one source and not shadowed is not copied; merged rows go to buffers that are
//! reused; the result does not depend on the order of the sources.

use super::keys::EqualKeys;
use super::purge::Purge;
use super::row::{filter_row, merge_rows};
use crate::fragment::{BlockRef, Cursor, Fragment, FragmentStep};
use crate::partitioner::Partitioner;
use crate::row::{Deletion, NO_TIMESTAMP, RowView};
use crate::token::Token;
use std::cmp::Ordering;

/// Merges cursors; see the module's documentation.
pub struct Merge<C> {
    partitioner: Partitioner,
    sources: Vec<Source<C>>,
    reversed: bool,
    keys: EqualKeys,
    purge: Option<Purge>,
    /// Sources that must advance before anything else happens.
    to_advance: Vec<usize>,
    needs: Vec<BlockRef>,
    failed: Option<usize>,
    /// Sources that have the current partition; empty between partitions.
    active: Vec<usize>,
    /// The active sources whose fragments make up the current one.
    equal: Vec<usize>,
    token: Token,
    key: Vec<u8>,
    deletion: Deletion,
    /// The partition's deletion that is returned, which purging may have removed.
    deletion_returned: Deletion,
    /// Whether the start of the partition has been returned.
    start_returned: bool,
    /// The open range deletion as it was last returned.
    open_returned: Deletion,
    current: Option<CurrentFragment>,
    /// The fragment that follows a partition's start that was returned late.
    queued: Option<CurrentFragment>,
    /// The merged row, and a buffer for the next step of merging.
    row: Vec<u8>,
    spare: Vec<u8>,
}

struct Source<C> {
    cursor: C,
    /// Its open range deletion.
    open: Deletion,
    ended: bool,
}

/// The fragment that a step reached.
#[derive(Clone, Copy)]
enum CurrentFragment {
    Start,
    Static(MergedRow),
    Row(MergedRow),
    /// A range marker with the clustering of this source's fragment.
    Marker(usize, Deletion),
    End,
}

/// A row, with the clustering of this source's fragment.
#[derive(Clone, Copy)]
struct MergedRow {
    source: usize,
    /// Whether its data is in [`Merge::row`] instead of in the source.
    merged: bool,
}

impl<C: Cursor> Merge<C> {
    /// Merges sources that read the same slices, all of them forwards or all `reversed`. Their partitions are in the
    /// order of `partitioner`.
    pub fn new(partitioner: Partitioner, sources: Vec<C>, reversed: bool) -> Merge<C> {
        let sources: Vec<_> =
            sources.into_iter().map(|cursor| Source { cursor, open: Deletion::LIVE, ended: false }).collect();
        Merge {
            partitioner,
            to_advance: (0..sources.len()).collect(),
            sources,
            reversed,
            keys: EqualKeys::default(),
            purge: None,
            needs: Vec::new(),
            failed: None,
            active: Vec::new(),
            equal: Vec::new(),
            token: Token::MIN,
            key: Vec::new(),
            deletion: Deletion::LIVE,
            deletion_returned: Deletion::LIVE,
            start_returned: false,
            open_returned: Deletion::LIVE,
            current: None,
            queued: None,
            row: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Drops what `purge` decides.
    pub fn with_purge(self, purge: Purge) -> Merge<C> {
        Merge { purge: Some(purge), ..self }
    }

    /// Compares keys of the collections in `keys` by their types.
    pub fn with_keys(self, keys: EqualKeys) -> Merge<C> {
        Merge { keys, ..self }
    }

    /// The sources in the order they were given.
    pub fn sources(&self) -> impl ExactSizeIterator<Item = &C> {
        self.sources.iter().map(|source| &source.cursor)
    }

    /// A source, for providing it with a block.
    pub fn source_mut(&mut self, number: usize) -> Option<&mut C> {
        self.sources.get_mut(number).map(|source| &mut source.cursor)
    }

    /// All blocks that the last step needs, beginning with the one that it returned.
    pub fn needs(&self) -> &[BlockRef] {
        &self.needs
    }

    /// The number of the source whose error the last step returned.
    pub fn failed(&self) -> Option<usize> {
        self.failed
    }

    /// The token and the serialised key of the current partition, or of the last one.
    pub fn key(&self) -> (Token, &[u8]) {
        (self.token, &self.key)
    }

    /// How many sources have the current partition; 0 between partitions.
    pub fn active(&self) -> usize {
        self.active.len()
    }

    /// Moves to the next fragment.
    ///
    /// # Errors
    /// The error of a source; [`Merge::failed`] says which.
    pub fn advance(&mut self) -> Result<FragmentStep, C::Error> {
        if let Some(queued) = self.queued.take() {
            self.current = Some(queued);
            return Ok(FragmentStep::Fragment);
        }
        self.current = None;
        loop {
            self.advance_sources()?;
            if let Some(need) = self.needs.first() {
                return Ok(FragmentStep::Need(*need));
            }
            if self.active.is_empty() && !self.choose_partition() {
                return Ok(FragmentStep::End);
            }
            if self.to_advance.is_empty() {
                self.choose_fragment();
            }
            if self.current.is_some() {
                return Ok(FragmentStep::Fragment);
            }
        }
    }

    /// Skips the rest of the current partition, its end included. Does nothing between partitions.
    pub fn skip_partition(&mut self) {
        for number in self.active.drain(..) {
            let Some(source) = self.sources.get_mut(number).filter(|source| !source.ended) else { continue };
            if !matches!(source.cursor.fragment(), Some(Fragment::PartitionEnd)) {
                source.cursor.skip_partition();
            }
            if !self.to_advance.contains(&number) {
                self.to_advance.push(number);
            }
        }
        (self.current, self.queued, self.start_returned) = (None, None, false);
    }

    /// The fragment that [`Merge::advance`] reached.
    pub fn fragment(&self) -> Option<Fragment<'_>> {
        let of = |source: usize| self.sources.get(source)?.cursor.fragment();
        match self.current? {
            CurrentFragment::Start => {
                Some(Fragment::PartitionStart { token: self.token, key: &self.key, deletion: self.deletion_returned })
            }
            CurrentFragment::End => Some(Fragment::PartitionEnd),
            CurrentFragment::Static(place) => match of(place.source)? {
                Fragment::StaticRow { row } => Some(Fragment::StaticRow { row: self.data(place, row) }),
                _ => None,
            },
            CurrentFragment::Row(place) => match of(place.source)? {
                Fragment::Row { clustering, comparable, row } => {
                    Some(Fragment::Row { clustering, comparable, row: self.data(place, row) })
                }
                _ => None,
            },
            CurrentFragment::Marker(source, deletion) => match of(source)? {
                Fragment::RangeMarker { clustering, comparable, .. } => {
                    Some(Fragment::RangeMarker { clustering, comparable, deletion })
                }
                _ => None,
            },
        }
    }

    fn data<'a>(&'a self, place: MergedRow, own: RowView<'a>) -> RowView<'a> {
        if place.merged { RowView::trusted(&self.row) } else { own }
    }

    /// Advances the sources whose fragments are used up. Fills [`Merge::needs`] with the blocks that they lack.
    fn advance_sources(&mut self) -> Result<(), C::Error> {
        let Merge { sources, to_advance, needs, failed, .. } = self;
        needs.clear();
        let mut error = None;
        to_advance.retain(|&number| {
            let Some(source) = sources.get_mut(number) else { return false };
            match source.cursor.advance() {
                Ok(FragmentStep::Fragment) => false,
                Ok(FragmentStep::Need(block)) => {
                    needs.push(BlockRef { source: number, ..block });
                    true
                }
                Ok(FragmentStep::End) => {
                    source.ended = true;
                    false
                }
                Err(found) => {
                    *failed = Some(number);
                    error = Some(found);
                    true
                }
            }
        });
        error.map_or(Ok(()), Err)
    }

    /// Chooses the next partition; false if there is none.
    fn choose_partition(&mut self) -> bool {
        let Merge { partitioner, sources, active, token, key, deletion, .. } = self;
        let starts =
            sources.iter().enumerate().filter(|(_, source)| !source.ended).filter_map(|(number, source)| match source
                .cursor
                .fragment()
            {
                Some(Fragment::PartitionStart { token, key, deletion }) => Some((number, token, key, deletion)),
                _ => None,
            });
        let mut first: Option<(Token, &[u8])> = None;
        for (number, its_token, its_key, its_deletion) in starts {
            let order = first.map_or(Ordering::Less, |first| partitioner.compare((its_token, its_key), first));
            if order.is_lt() {
                active.clear();
                first = Some((its_token, its_key));
                *deletion = Deletion::LIVE;
            }
            if order.is_le() {
                active.push(number);
                *deletion = deletion.max(its_deletion);
            }
        }
        let Some((its_token, its_key)) = first else { return false };
        *token = its_token;
        key.clear();
        key.extend_from_slice(its_key);
        for number in &self.active {
            if let Some(source) = self.sources.get_mut(*number) {
                source.open = Deletion::LIVE;
            }
        }
        self.to_advance.extend_from_slice(&self.active);
        self.open_returned = Deletion::LIVE;
        self.start_returned = false;
        self.deletion_returned = self.deletion;
        if let Some(purge) = &mut self.purge {
            purge.new_partition();
            self.deletion_returned = purge.deletion(self.token, &self.key, self.deletion);
        }
        if self.purge.is_none() || !self.deletion_returned.is_live() {
            self.start_returned = true;
            self.current = Some(CurrentFragment::Start);
        }
        true
    }

    /// Chooses the next fragment of the partition.
    fn choose_fragment(&mut self) {
        let Merge { sources, active, equal, reversed, .. } = self;
        equal.clear();
        let mut first: Option<Fragment<'_>> = None;
        for &number in active.iter() {
            // A source that ends within a partition counts as having reached its end.
            let found = sources.get(number).filter(|source| !source.ended).and_then(|source| source.cursor.fragment());
            let found = found.unwrap_or(Fragment::PartitionEnd);
            let order = first.map_or(Ordering::Less, |first| order(&found, &first, *reversed));
            if order.is_lt() {
                equal.clear();
                first = Some(found);
            }
            if order.is_le() {
                equal.push(number);
            }
        }
        let found = match first {
            Some(Fragment::StaticRow { .. }) => self.merge_equal_rows(self.deletion).map(CurrentFragment::Static),
            Some(Fragment::Row { .. }) => {
                self.merge_equal_rows(self.deletion.max(self.newest_open())).map(CurrentFragment::Row)
            }
            Some(Fragment::RangeMarker { .. }) => self.merge_markers(),
            _ => {
                let start_returned = std::mem::take(&mut self.start_returned);
                self.to_advance.extend(
                    self.active
                        .drain(..)
                        .filter(|number| self.sources.get(*number).is_some_and(|source| !source.ended)),
                );
                if start_returned {
                    self.current = Some(CurrentFragment::End);
                }
                return;
            }
        };
        self.to_advance.extend_from_slice(&self.equal);
        if let Some(found) = found {
            let late = !std::mem::replace(&mut self.start_returned, true);
            (self.current, self.queued) =
                if late { (Some(CurrentFragment::Start), Some(found)) } else { (Some(found), None) };
        }
    }

    /// The newest open range deletion.
    fn newest_open(&self) -> Deletion {
        let open = self.active.iter().filter_map(|number| self.sources.get(*number)).map(|source| source.open);
        open.fold(Deletion::LIVE, Deletion::max)
    }

    fn merge_markers(&mut self) -> Option<CurrentFragment> {
        // A marker at a slice's bound has no clustering values; prefer one that has.
        let mut marked = None;
        for number in &self.equal {
            let Some(source) = self.sources.get_mut(*number) else { continue };
            if let Some(Fragment::RangeMarker { deletion, clustering, .. }) = source.cursor.fragment() {
                if marked.is_none() || !clustering.0.is_empty() {
                    marked = Some(*number);
                }
                source.open = deletion;
            }
        }
        let newest = self.newest_open();
        let mut deletion = if self.deletion.max(newest) == newest { newest } else { Deletion::LIVE };
        if let Some(purge) = &mut self.purge {
            deletion = purge.deletion(self.token, &self.key, deletion);
        }
        if deletion == self.open_returned {
            return None;
        }
        self.open_returned = deletion;
        marked.map(|source| CurrentFragment::Marker(source, deletion))
    }

    /// Merges the rows of the sources in `equal`; `None` if nothing remains.
    fn merge_equal_rows(&mut self, deletion: Deletion) -> Option<MergedRow> {
        let Merge { sources, equal, row: out, spare, keys, purge, token, key, .. } = self;
        if equal.len() > 2 {
            newest_deletion_first(sources, equal);
        }
        let mut rows = equal.iter().filter_map(|number| match sources.get(*number)?.cursor.fragment()? {
            Fragment::Row { row, .. } | Fragment::StaticRow { row } => Some(row),
            _ => None,
        });
        let (source, first, second) = (*equal.first()?, rows.next()?, rows.next());
        out.clear();
        let mut merged = true;
        match second {
            None if deletion.is_live() => merged = false,
            None => {
                if !filter_row(first, deletion, out) {
                    return None;
                }
            }
            Some(second) => {
                merge_rows(first, second, deletion, out);
                for row in rows {
                    spare.clear();
                    merge_rows(RowView::trusted(out), row, deletion, spare);
                    std::mem::swap(out, spare);
                }
                if !keys.is_empty() && keys.unify(RowView::trusted(out), spare) {
                    std::mem::swap(out, spare);
                }
            }
        }
        if let Some(purge) = purge
            && purge.row(*token, key, if merged { RowView::trusted(out) } else { first }, spare)
        {
            std::mem::swap(out, spare);
            merged = true;
        }
        let left = if merged { RowView::trusted(out) } else { first };
        (!left.is_empty()).then_some(MergedRow { source, merged })
    }
}

/// Moves the source whose row has the newest deletion to the front, because counters must not merge before that
/// deletion is known.
fn newest_deletion_first<C: Cursor>(sources: &[Source<C>], equal: &mut [usize]) {
    let deleted_at = |number: &usize| match sources.get(*number).and_then(|source| source.cursor.fragment()) {
        Some(Fragment::Row { row, .. }) => row.deletion().timestamp,
        _ => NO_TIMESTAMP,
    };
    let newest = equal.iter().enumerate().max_by_key(|(_, number)| deleted_at(number)).map_or(0, |(at, _)| at);
    equal.swap(0, newest);
}

/// The order of two fragments of a partition.
fn order(a: &Fragment<'_>, b: &Fragment<'_>, reversed: bool) -> Ordering {
    fn place<'a>(fragment: &Fragment<'a>) -> (u8, &'a [u8], bool) {
        match *fragment {
            Fragment::PartitionStart { .. } => (0, &[], false),
            Fragment::StaticRow { .. } => (1, &[], false),
            Fragment::RangeMarker { comparable, .. } => (2, comparable, false),
            Fragment::Row { comparable, .. } => (2, comparable, true),
            Fragment::PartitionEnd => (3, &[], false),
        }
    }
    let (a, b) = (place(a), place(b));
    let within = (a.1, a.2).cmp(&(b.1, b.2));
    a.0.cmp(&b.0).then(if reversed { within.reverse() } else { within })
}
