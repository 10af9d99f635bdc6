//! Many cursors as one.
//!
//! 1. All sources stand at a partition's start. The first by token and key is the partition; those that have it are
//!    active, its deletion is the newest of theirs.
//! 2. Of the active sources' fragments the first in order is next. Static rows and rows of one place are merged, and lose
//!    what the partition's deletion and the range deletions in force shadow. A range marker is given when the newest
//!    deletion in force changes by it, [`Deletion::LIVE`] standing for one that the partition's deletion supersedes.
//! 3. With [`EqualKeys`] a merged row keeps one cell per key of a collection. With a [`Purge`] a partition is given only if something of it is left.
//!
//! A source that needs a block is named, the others that need one too in [`Merge::needs`]; the step is repeated once the
//! blocks are there.
//!
//! Invariants: a row that one source alone has and nothing shadows is not copied; merged rows go to buffers that are used
//! again; the result does not depend on the order of the sources.

use super::keys::EqualKeys;
use super::purge::Purge;
use super::row::{filter_row, merge_rows};
use crate::fragment::{BlockRef, Cursor, Fragment, FragmentStep};
use crate::key::Token;
use crate::row::{Deletion, NO_TIMESTAMP, RowView};
use std::cmp::Ordering;

/// See the module.
pub struct Merge<C> {
    sources: Vec<Source<C>>,
    reversed: bool,
    keys: EqualKeys,
    purge: Option<Purge>,
    /// Sources to step before anything else.
    behind: Vec<usize>,
    needs: Vec<BlockRef>,
    failed: Option<usize>,
    /// Sources that have the current partition; none between partitions.
    active: Vec<usize>,
    /// Those of them whose fragments are the current one.
    equal: Vec<usize>,
    token: Token,
    key: Vec<u8>,
    deletion: Deletion,
    /// The partition's deletion as it is given.
    kept: Deletion,
    /// Whether the partition's start was given.
    started: bool,
    /// The range deletion in force as it was given.
    told: Deletion,
    current: Option<Current>,
    /// What comes after a start that was given late.
    queued: Option<Current>,
    /// The merged row, and room for the next step of merging.
    row: Vec<u8>,
    spare: Vec<u8>,
}

struct Source<C> {
    cursor: C,
    /// Its range deletion in force.
    open: Deletion,
    ended: bool,
}

/// The fragment that a step came to.
#[derive(Clone, Copy)]
enum Current {
    Start,
    Static(Place),
    Row(Place),
    /// At the place of this source's fragment.
    Marker(usize, Deletion),
    End,
}

/// Where a row is: it has the place of this source's fragment.
#[derive(Clone, Copy)]
struct Place {
    source: usize,
    /// Whether its data is in [`Merge::row`].
    merged: bool,
}

impl<C: Cursor> Merge<C> {
    /// Merges sources that all give their rows forwards, or all `reversed`, of the same slices.
    pub fn new(sources: Vec<C>, reversed: bool) -> Merge<C> {
        let sources: Vec<_> =
            sources.into_iter().map(|cursor| Source { cursor, open: Deletion::LIVE, ended: false }).collect();
        Merge {
            behind: (0..sources.len()).collect(),
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
            kept: Deletion::LIVE,
            started: false,
            told: Deletion::LIVE,
            current: None,
            queued: None,
            row: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Leaves out what `purge` says.
    pub fn with_purge(self, purge: Purge) -> Merge<C> {
        Merge { purge: Some(purge), ..self }
    }

    /// Compares keys of collections by their types where `keys` says so.
    pub fn with_keys(self, keys: EqualKeys) -> Merge<C> {
        Merge { keys, ..self }
    }

    /// The sources in the order they were given.
    pub fn sources(&self) -> impl ExactSizeIterator<Item = &C> {
        self.sources.iter().map(|source| &source.cursor)
    }

    /// A source, to bring a block to.
    pub fn source_mut(&mut self, number: usize) -> Option<&mut C> {
        self.sources.get_mut(number).map(|source| &mut source.cursor)
    }

    /// Every block that the last step needs, the one that it named first.
    pub fn needs(&self) -> &[BlockRef] {
        &self.needs
    }

    /// The number of the source whose error the last step gave.
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

    /// Goes on to the next fragment.
    ///
    /// # Errors
    /// A source's: [`Merge::failed`] says which.
    pub fn advance(&mut self) -> Result<FragmentStep, C::Error> {
        if let Some(queued) = self.queued.take() {
            self.current = Some(queued);
            return Ok(FragmentStep::Fragment);
        }
        self.current = None;
        loop {
            self.catch_up()?;
            if let Some(need) = self.needs.first() {
                return Ok(FragmentStep::Need(*need));
            }
            if self.active.is_empty() && !self.begin() {
                return Ok(FragmentStep::End);
            }
            if self.behind.is_empty() {
                self.next();
            }
            if self.current.is_some() {
                return Ok(FragmentStep::Fragment);
            }
        }
    }

    /// Leaves the rest of the current partition out, its end included; without one it does nothing.
    pub fn skip_partition(&mut self) {
        for number in self.active.drain(..) {
            let Some(source) = self.sources.get_mut(number).filter(|source| !source.ended) else { continue };
            if !matches!(source.cursor.fragment(), Some(Fragment::PartitionEnd)) {
                source.cursor.skip_partition();
            }
            if !self.behind.contains(&number) {
                self.behind.push(number);
            }
        }
        (self.current, self.queued, self.started) = (None, None, false);
    }

    /// The fragment that [`Merge::advance`] came to.
    pub fn fragment(&self) -> Option<Fragment<'_>> {
        let of = |source: usize| self.sources.get(source)?.cursor.fragment();
        match self.current? {
            Current::Start => Some(Fragment::PartitionStart { token: self.token, key: &self.key, deletion: self.kept }),
            Current::End => Some(Fragment::PartitionEnd),
            Current::Static(place) => match of(place.source)? {
                Fragment::StaticRow { row } => Some(Fragment::StaticRow { row: self.data(place, row) }),
                _ => None,
            },
            Current::Row(place) => match of(place.source)? {
                Fragment::Row { clustering, comparable, row } => {
                    Some(Fragment::Row { clustering, comparable, row: self.data(place, row) })
                }
                _ => None,
            },
            Current::Marker(source, deletion) => match of(source)? {
                Fragment::RangeMarker { clustering, comparable, .. } => {
                    Some(Fragment::RangeMarker { clustering, comparable, deletion })
                }
                _ => None,
            },
        }
    }

    fn data<'a>(&'a self, place: Place, own: RowView<'a>) -> RowView<'a> {
        if place.merged { RowView::trusted(&self.row) } else { own }
    }

    /// Steps the sources whose fragments are used up; [`Merge::needs`] holds what some of them miss.
    fn catch_up(&mut self) -> Result<(), C::Error> {
        let Merge { sources, behind, needs, failed, .. } = self;
        needs.clear();
        let mut error = None;
        behind.retain(|&number| {
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

    /// Chooses the next partition; false if no source has one.
    fn begin(&mut self) -> bool {
        let Merge { sources, active, token, key, deletion, .. } = self;
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
            let order = first.map_or(Ordering::Less, |first| (its_token, its_key).cmp(&first));
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
        self.behind.extend_from_slice(&self.active);
        self.told = Deletion::LIVE;
        self.started = false;
        self.kept = self.deletion;
        if let Some(purge) = &mut self.purge {
            purge.new_partition();
            self.kept = purge.deletion(self.token, &self.key, self.deletion);
        }
        if self.purge.is_none() || !self.kept.is_live() {
            self.started = true;
            self.current = Some(Current::Start);
        }
        true
    }

    /// Takes the next fragment of the partition.
    fn next(&mut self) {
        let Merge { sources, active, equal, reversed, .. } = self;
        equal.clear();
        let mut first: Option<Fragment<'_>> = None;
        for &number in active.iter() {
            // A source that ends within a partition has nothing more of it.
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
            Some(Fragment::StaticRow { .. }) => self.merge(self.deletion).map(Current::Static),
            Some(Fragment::Row { .. }) => self.merge(self.deletion.max(self.open())).map(Current::Row),
            Some(Fragment::RangeMarker { .. }) => self.marker(),
            _ => {
                let started = std::mem::take(&mut self.started);
                self.behind.extend(
                    self.active
                        .drain(..)
                        .filter(|number| self.sources.get(*number).is_some_and(|source| !source.ended)),
                );
                if started {
                    self.current = Some(Current::End);
                }
                return;
            }
        };
        self.behind.extend_from_slice(&self.equal);
        if let Some(found) = found {
            let late = !std::mem::replace(&mut self.started, true);
            (self.current, self.queued) = if late { (Some(Current::Start), Some(found)) } else { (Some(found), None) };
        }
    }

    /// The newest range deletion in force.
    fn open(&self) -> Deletion {
        let open = self.active.iter().filter_map(|number| self.sources.get(*number)).map(|source| source.open);
        open.fold(Deletion::LIVE, Deletion::max)
    }

    fn marker(&mut self) -> Option<Current> {
        // A marker that was cut off has no values; one that was not says more.
        let mut shown = None;
        for number in &self.equal {
            let Some(source) = self.sources.get_mut(*number) else { continue };
            if let Some(Fragment::RangeMarker { deletion, clustering, .. }) = source.cursor.fragment() {
                if shown.is_none() || !clustering.0.is_empty() {
                    shown = Some(*number);
                }
                source.open = deletion;
            }
        }
        let newest = self.open();
        let mut deletion = if self.deletion.max(newest) == newest { newest } else { Deletion::LIVE };
        if let Some(purge) = &mut self.purge {
            deletion = purge.deletion(self.token, &self.key, deletion);
        }
        if deletion == self.told {
            return None;
        }
        self.told = deletion;
        shown.map(|source| Current::Marker(source, deletion))
    }

    /// Merges the rows of the sources that are at one place; `None` if nothing is left.
    fn merge(&mut self, deletion: Deletion) -> Option<Place> {
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
        (!left.is_empty()).then_some(Place { source, merged })
    }
}

/// Puts the source whose row has the newest deletion first: counters must not merge before it is known.
fn newest_deletion_first<C: Cursor>(sources: &[Source<C>], equal: &mut [usize]) {
    let deleted_at = |number: &usize| match sources.get(*number).and_then(|source| source.cursor.fragment()) {
        Some(Fragment::Row { row, .. }) => row.deletion().timestamp,
        _ => NO_TIMESTAMP,
    };
    let newest = equal.iter().enumerate().max_by_key(|(_, number)| deleted_at(number)).map_or(0, |(at, _)| at);
    equal.swap(0, newest);
}

/// Which of two fragments of a partition comes first.
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
