//! Reads that merge several sources.
//!
//! 1. Blocks that the merge needs are read concurrently; a scan reads ahead.
//! 2. The read of a range that resumes within a partition first reads the rest of that partition by its key.
//! 3. The read of a range in reversed clustering order walks the partitions in ring order and reads each of them by its
//!    key.
//!
//! Invariants: fragments from the merge are not shadowed by anything, so that deletions of partitions and ranges are
//! not checked again.

use super::memory::{ResumeIn, first_row_after};
use super::sources::{self, Source};
use super::{Reader, STRETCH_ROWS_MAX};
use crate::error::Error;
use crate::memtable::Memtable;
use crate::sstables::view::View;
use model::fragment::{self, Fragment};
use model::merge::Merge;
use model::query::{LiveRow, Partitions, ReadCommand, ReadEnd, RowSink, Slice};
use model::row::{Cell, Deletion, RowView};
use model::shape::live::{live_cells, recycle};
use model::shape::progress::{Reached, ReadProgress};
use model::shape::tap::Tap;
use model::token::TokenRange;
use model::{DecoratedKey, Table, Token};
use std::rc::Rc;
use std::sync::Arc;

/// Fragments of an unwanted partition that are read before the index is asked for the next partition.
const LEAVE_STEPS_MAX: usize = 64;

/// What a read merges, and for whom.
struct ReadSources<'r> {
    reader: &'r Reader,
    memtable: &'r Rc<Memtable>,
    view: &'r Rc<View>,
    table: Arc<Table>,
}

/// Reads `command` from all sources.
pub(super) async fn read<T: Tap>(
    reader: &Reader,
    memtable: &Rc<Memtable>,
    view: &Rc<View>,
    command: &ReadCommand,
    sink: &mut dyn RowSink,
    tap: T,
) -> Result<ReadEnd, Error> {
    let table = memtable.table().clone();
    let sources = ReadSources { reader, memtable, view, table };
    let mut progress = ReadProgress::new(command, sink, tap, STRETCH_ROWS_MAX);
    match &command.partitions {
        Partitions::Key(key) => {
            let ResumeIn::After(after) = first_row_after(command, key) else { return Ok(ReadEnd::Exhausted) };
            progress.begin_partition(after.is_some());
            let reached = sources.partition(key, after, &mut progress).await?;
            Ok(progress.end(reached, || key.clone()).unwrap_or(ReadEnd::Exhausted))
        }
        Partitions::Range(range) => Ok(sources.range(range, &mut progress).await?.unwrap_or(ReadEnd::Exhausted)),
    }
}

impl ReadSources<'_> {
    /// Reads the rows of a partition behind a place.
    async fn partition<T: Tap>(
        &self,
        key: &DecoratedKey,
        after: Option<&[u8]>,
        progress: &mut ReadProgress<'_, T>,
    ) -> Result<Reached, Error> {
        let command = progress.command;
        let slices = match after {
            None => command.slices.clone(),
            Some(place) => Slice::remaining(&command.slices, place, true, command.reversed),
        };
        let (cache, wants_static) = (&self.reader.cache, command.wants_static);
        let found =
            sources::of_key(cache, self.memtable, self.view, key, &slices, command.reversed, wants_static).await?;
        let mut reading = MergeRead::new(self, found, command.reversed, false);
        if !reading.next().await? {
            return Ok(Reached::PartitionEnd);
        }
        reading.rows(progress).await
    }

    /// Reads the partitions of a range; `None` at its end.
    async fn range<T: Tap>(
        &self,
        range: &TokenRange,
        progress: &mut ReadProgress<'_, T>,
    ) -> Result<Option<ReadEnd>, Error> {
        let command = progress.command;
        let mut after = None;
        let is_begun = |key: &DecoratedKey| range.is_begun(key.token, &key.key);
        if let Some(resume) = command.resume.as_ref().filter(|resume| is_begun(&resume.key)) {
            let ended = range.is_passed(resume.token(), &resume.key.key);
            // Every shard resumes at the same position; only the owner of that partition gives the rest of it.
            let several = self.table.clustering_len > 0;
            let rest = resume.comparable.as_deref().filter(|_| several && !ended && self.owns(resume.token()));
            if let Some(place) = rest {
                progress.begin_partition(true);
                let reached = self.partition(&resume.key, Some(place), progress).await?;
                if let Some(end) = end(reached, progress, || resume.key.clone()) {
                    return Ok(Some(end));
                }
            }
            after = Some(&resume.key);
        }
        let partitioner = self.reader.tables.shard_map.partitioner;
        let decorated = |token, key: &[u8]| DecoratedKey { token, partitioner, key: key.into() };
        let found = sources::of_range(&self.reader.cache, self.memtable, self.view, range, after, &command.slices);
        let mut reading = MergeRead::new(self, found, false, true);
        while reading.next().await? {
            if progress.stretch == 0 {
                runtime::yield_if_needed().await;
                progress.stretch = STRETCH_ROWS_MAX;
            }
            let (token, key) = reading.merge.key();
            if !self.owns(token) {
                reading.leave().await?;
                continue;
            }
            progress.begin_partition(false);
            let reached = if command.reversed {
                let key = decorated(token, key);
                self.partition(&key, None, progress).await?
            } else {
                reading.rows(progress).await?
            };
            let (token, key) = reading.merge.key();
            if let Some(end) = end(reached, progress, || decorated(token, key)) {
                return Ok(Some(end));
            }
            reading.leave().await?;
        }
        Ok(None)
    }

    /// Whether this shard serves a token: foreign SSTables have partitions of all shards.
    fn owns(&self, token: Token) -> bool {
        !self.view.sstables.iter().any(|sstable| sstable.foreign) || self.reader.tables.owns(self.table.id, token)
    }
}

/// The end of a read that came so far in a partition of a range; `None` if it goes on behind it.
fn end<T: Tap>(
    reached: Reached,
    progress: &mut ReadProgress<'_, T>,
    key: impl Fn() -> DecoratedKey,
) -> Option<ReadEnd> {
    progress.end(reached, &key).or_else(|| progress.leave_partition(&key))
}

/// A merge under way.
struct MergeRead<'r> {
    sources: &'r ReadSources<'r>,
    merge: Merge<Source>,
    /// Whether blocks are read ahead.
    scans: bool,
    /// Whether the merge is between a partition's start and its end.
    inside: bool,
    /// Room for a static row and for the cells of a row.
    static_row: Vec<u8>,
    cells: Vec<Cell<'static>>,
}

impl<'r> MergeRead<'r> {
    fn new(sources: &'r ReadSources<'r>, found: Vec<Source>, reversed: bool, scans: bool) -> MergeRead<'r> {
        let keys = sources.memtable.equal_keys();
        let merge = Merge::new(sources.reader.tables.shard_map.partitioner, found, reversed).with_keys(keys);
        MergeRead { sources, merge, scans, inside: false, static_row: Vec::new(), cells: Vec::new() }
    }

    /// Goes on to the next fragment; false if there is none.
    async fn next(&mut self) -> Result<bool, Error> {
        loop {
            match self.merge.advance() {
                Ok(fragment::FragmentStep::Fragment) => {
                    self.inside = !matches!(self.merge.fragment(), None | Some(Fragment::PartitionEnd));
                    return Ok(true);
                }
                Ok(fragment::FragmentStep::End) => {
                    self.inside = false;
                    return Ok(false);
                }
                Ok(fragment::FragmentStep::Need(_)) => self.bring().await?,
                Err(error) => {
                    let source = self.merge.failed().and_then(|number| self.merge.source_mut(number));
                    return Err(match source {
                        Some(source) => source.fault(error),
                        None => Error::BadSstable { directory: Default::default(), error },
                    });
                }
            }
        }
    }

    /// Brings the blocks that the merge needs.
    async fn bring(&mut self) -> Result<(), Error> {
        let cache = &self.sources.reader.cache;
        let needs = self.merge.needs().to_vec();
        if needs.len() > 1 {
            for need in &needs {
                let needed = self.merge.source_mut(need.source).and_then(|source| source.needed(*need));
                if let Some((sstable, block)) = needed {
                    cache.ahead(&sstable, block);
                }
            }
        }
        for need in needs {
            let Some(source) = self.merge.source_mut(need.source) else { continue };
            let Some((sstable, block)) = source.needed(need) else { continue };
            let bytes = cache.load(&sstable, block).await?;
            source.supply(block, bytes);
            if self.scans {
                source.read_ahead(cache, block);
            }
        }
        runtime::yield_if_needed().await;
        Ok(())
    }

    /// Skips the rest of the partition.
    async fn leave(&mut self) -> Result<(), Error> {
        for _ in 0..LEAVE_STEPS_MAX {
            if !self.inside || !self.next().await? {
                return Ok(());
            }
        }
        if self.inside {
            self.merge.skip_partition();
            self.inside = false;
        }
        Ok(())
    }

    /// Gives the live rows of the partition that was begun.
    async fn rows<T: Tap>(&mut self, progress: &mut ReadProgress<'_, T>) -> Result<Reached, Error> {
        let command = progress.command;
        if progress.partition_rows >= command.per_partition_max {
            return Ok(Reached::PartitionEnd);
        }
        // Borrowed instead of cloned: all shards share the count of the `Arc`, which they would contend for at every
        // partition.
        let (table, now) = (&*self.sources.table, command.now_in_seconds);
        if let Some(start) = self.merge.fragment() {
            progress.pass_head(start, Deletion::LIVE);
        }
        let mut more = self.next().await?;
        let mut static_row = std::mem::take(&mut self.static_row);
        static_row.clear();
        if let Some(Fragment::StaticRow { row }) = self.merge.fragment() {
            if command.wants_static {
                progress.pass_head(Fragment::StaticRow { row }, Deletion::LIVE);
                static_row.extend_from_slice(row.blob());
            }
            more = self.next().await?;
        }
        let mut statics = Vec::new();
        if !static_row.is_empty() {
            live_cells(RowView::trusted(&static_row), Deletion::LIVE, now, table, &mut statics, &mut progress.dead);
        }
        let mut room = std::mem::take(&mut self.cells);
        let mut reached = None;
        while more && self.inside && reached.is_none() {
            let (token, key) = self.merge.key();
            match self.merge.fragment() {
                Some(fragment @ Fragment::Row { clustering, comparable, row }) => {
                    progress.pass_row(fragment, Deletion::LIVE);
                    let mut cells = recycle(room);
                    let live = progress.live(row, Deletion::LIVE, table, &mut cells);
                    progress.tell_dead();
                    if let Some(liveness) = live {
                        let (cells, static_cells, static_only) = (&*cells, &*statics, false);
                        let row =
                            LiveRow { token, key, clustering, comparable, liveness, cells, static_cells, static_only };
                        reached = progress.give(&row);
                    }
                    room = recycle(cells);
                    if reached.is_none() && progress.visit(row.blob().len()) {
                        progress.last.clear();
                        progress.last.extend_from_slice(comparable);
                        reached = Some(Reached::Paused);
                    }
                }
                Some(marker @ Fragment::RangeMarker { .. }) => {
                    progress.dead += 1;
                    if progress.pass_marker(marker) {
                        reached = Some(Reached::Paused);
                    }
                }
                _ => {}
            }
            if reached.is_some() {
                break;
            }
            progress.stretch = progress.stretch.saturating_sub(1);
            if progress.stretch == 0 {
                runtime::yield_if_needed().await;
                progress.stretch = STRETCH_ROWS_MAX;
            }
            more = self.next().await?;
        }
        self.cells = room;
        progress.tell_dead();
        let reached = reached.unwrap_or_else(|| {
            progress.pass_end();
            let (token, key) = self.merge.key();
            progress.give_static(token, key, &statics).unwrap_or(Reached::PartitionEnd)
        });
        drop(statics);
        self.static_row = static_row;
        Ok(reached)
    }
}
