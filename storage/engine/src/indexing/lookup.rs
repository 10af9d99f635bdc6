//! Reads through an index: finds the entries of a value in the base's order, and reads their rows from the base.
//!
//! 1. Entries are read from the index's table in batches, within the command's partition or token range and from the
//!    position where it resumes.
//! 2. The entries of one partition become one read of the base: of their rows, or of the whole partition if entries
//!    stand for partitions. The sink's filter, which includes the indexed condition, sees every row.
//! 3. Entries whose row no longer has their value are deleted, with the entry's own timestamp.
//!
//! Invariants: rows come in the base's order, each once; the memory of a read does not grow with the index; a read
//! ends for the same reasons as a read of the base.

use crate::error::Error;
use crate::index::{IndexLookup, IndexState};
use crate::read::Reader;
use crate::tables::Tables;
use model::comparable::{self, BoundSide};
use model::mutation::Clustering;
use model::query::{LiveRow, Partitions, Position, ReadCommand, ReadEnd, Resume, RowSink, SinkState, Slice};
use model::row::CellContent;
use model::token::RingPosition;
use model::{DecoratedKey, Partitioner, Token, TokenRange};
use std::rc::Rc;
use std::sync::Arc;

/// The fewest and the most entries of one batch.
const BATCH_ENTRIES: (u64, u64) = (16, 512);
/// Most entries of one read of the base.
const GROUP_ENTRIES_MAX: usize = 128;

/// An entry of the index.
struct IndexEntry {
    key: DecoratedKey,
    /// The clustering of the base's row; empty if the entry stands for a partition.
    clustering: Vec<u8>,
    /// The comparable form of `clustering`; empty if the entry stands for a partition.
    comparable: Vec<u8>,
    /// The clustering of the entry in the index's table.
    place: Vec<u8>,
    path: Vec<u8>,
    timestamp: i64,
    /// Whether a row that was read still has the value.
    held: bool,
}

/// Reads the rows of `command` that have entries for a value. Stale entries may lead to other rows, so the sink's
/// filter must check the value. Ends as a read of the base does.
///
/// # Errors
/// [`Error::IndexNotBuilt`] if there is no such index or some rows may have no entry yet.
pub(crate) async fn read(
    tables: &Tables,
    reader: &Reader,
    command: &ReadCommand,
    lookup: &IndexLookup,
    sink: &mut dyn RowSink,
) -> Result<ReadEnd, Error> {
    let not_built = || Error::IndexNotBuilt { index: lookup.index.to_string() };
    let index = {
        let indexes = tables.indexes_of(command.table);
        indexes.iter().find(|index| *index.index.name == *lookup.index).cloned().ok_or_else(not_built)?
    };
    if !index.built.get() {
        return Err(not_built());
    }
    let mut reading = IndexRead {
        tables,
        reader,
        index: &index,
        command,
        value: &lookup.value,
        given: 0,
        is_full: false,
        partition: None,
    };
    reading.run(sink).await
}

/// An index read under way.
struct IndexRead<'r> {
    tables: &'r Tables,
    reader: &'r Reader,
    index: &'r Rc<IndexState>,
    command: &'r ReadCommand,
    value: &'r [u8],
    /// The number of rows given to the sink.
    given: u64,
    /// Whether the sink takes no more rows.
    is_full: bool,
    /// The partition that was read last, and how many of its rows were given, including those on earlier pages.
    partition: Option<(DecoratedKey, u64)>,
}

impl IndexRead<'_> {
    async fn run(&mut self, sink: &mut dyn RowSink) -> Result<ReadEnd, Error> {
        let command = self.command;
        if let Some(resume) = &command.resume {
            self.partition = Some((resume.key.clone(), command.resume_partition_rows));
        }
        let Some(mut slice) = self.first_slice() else { return Ok(ReadEnd::Exhausted) };
        let mut visits = 0u64;
        loop {
            let (batch, last) = self.batch(&slice).await?;
            let mut rest = batch.into_iter().peekable();
            while let Some(first) = rest.next() {
                let mut group = vec![first];
                while group.len() < GROUP_ENTRIES_MAX
                    && let Some(next) = rest.next_if(|next| next.key == group[0].key)
                {
                    group.push(next);
                }
                visits += group.len() as u64;
                let position = self.position_of(&group);
                self.read_group(group, sink).await?;
                if self.is_full {
                    return Ok(ReadEnd::Stopped);
                }
                if visits >= command.visits_max
                    && let Some(position) = position
                {
                    let partition_rows = self.rows_of(&position.key);
                    return Ok(ReadEnd::Paused(Box::new(Resume { position, partition_rows })));
                }
            }
            match last {
                None => return Ok(ReadEnd::Exhausted),
                Some(mut last) => {
                    last.push(0);
                    slice.start = last.into();
                }
            }
        }
    }

    fn partitioner(&self) -> Partitioner {
        self.tables.shard_map.partitioner
    }

    /// How many rows of a partition were given so far.
    fn rows_of(&self, key: &DecoratedKey) -> u64 {
        self.partition.as_ref().filter(|(of, _)| of == key).map_or(0, |(_, rows)| *rows)
    }

    /// The position from which a read resumes behind a group.
    fn position_of(&self, group: &[IndexEntry]) -> Option<Position> {
        let last = group.last()?;
        let comparable = (!self.index.is_of_partitions()).then(|| last.comparable.clone().into());
        Some(Position { key: last.key.clone(), comparable })
    }

    /// A bound in the index's table, in front of or behind all entries of a token, or of a key if there is one.
    fn bound(&self, token: Token, key: Option<&[u8]>, side: BoundSide) -> Vec<u8> {
        let token = token.0.to_be_bytes();
        let parts = [Some(&token[..]), key];
        let mut out = Vec::new();
        comparable::bound(&self.index.table, parts.into_iter().flatten(), side, &mut out);
        out
    }

    /// The slice of entries that the command asks for; `None` if it is empty.
    fn first_slice(&self) -> Option<Slice> {
        let (mut start, end) = match &self.command.partitions {
            Partitions::Key(key) => (
                self.bound(key.token, Some(&key.key), BoundSide::Before),
                self.bound(key.token, Some(&key.key), BoundSide::After),
            ),
            Partitions::Range(range) => {
                // Entries that share the first 64 bits of an end's token may lie outside; the sink leaves those out.
                let bound = |position: &Option<RingPosition>, side| {
                    position.as_ref().map_or(Vec::new(), |at| self.bound(at.token.token(), None, side))
                };
                (bound(&range.start, BoundSide::Before), bound(&range.end, BoundSide::After))
            }
        };
        if let Some(resume) = &self.command.resume {
            let key = Some(&*resume.key.key);
            let from = match &resume.comparable {
                None => self.bound(resume.key.token, key, BoundSide::After),
                Some(_) if self.index.is_of_partitions() => self.bound(resume.key.token, key, BoundSide::Before),
                Some(row) => {
                    // The row's components are put in front of the bound's last byte. So the entry of the row itself
                    // is read again; `slices_of` leaves it out.
                    let mut from = self.bound(resume.key.token, key, BoundSide::Before);
                    let end = from.pop();
                    from.extend_from_slice(row.split_last().map_or(&[], |(_, row)| row));
                    from.extend(end);
                    from
                }
            };
            start = start.max(from);
        }
        let slice = Slice { start: start.into(), end: end.into() };
        (slice.end.is_empty() || slice.start < slice.end).then_some(slice)
    }

    /// The next entries, and the comparable form of the last one if there may be more.
    async fn batch(&self, slice: &Slice) -> Result<(Vec<IndexEntry>, Option<Vec<u8>>), Error> {
        let rows_max = self.command.rows_max.clamp(BATCH_ENTRIES.0, BATCH_ENTRIES.1);
        let partition = Partitions::Key(DecoratedKey::new(self.partitioner(), self.value));
        let command = ReadCommand {
            slices: [slice.clone()].into(),
            rows_max,
            ..ReadCommand::all(self.index.id(), self.command.now_in_seconds, partition)
        };
        let range = match &self.command.partitions {
            Partitions::Key(_) => &TokenRange::FULL,
            Partitions::Range(range) => range,
        };
        let partitioner = self.partitioner();
        let mut entries = EntrySink { index: self.index, partitioner, range, found: Vec::new(), last: None };
        let (memtable, view) = self.tables.readable(self.index.id())?;
        let end = self.reader.read(&memtable, &view, &command, &mut entries, ()).await?;
        let last = entries.last.filter(|_| end != ReadEnd::Exhausted);
        Ok((entries.found, last))
    }

    /// Reads the rows of the base to which the entries of one partition lead.
    async fn read_group(&mut self, mut group: Vec<IndexEntry>, sink: &mut dyn RowSink) -> Result<(), Error> {
        let command = self.command;
        let Some(key) = group.first().map(|candidate| candidate.key.clone()) else { return Ok(()) };
        let of_partitions = self.index.is_of_partitions();
        let before = self.rows_of(&key);
        let seen = self.partition.as_ref().is_some_and(|(of, _)| *of == key);
        let resume = command.resume.as_ref().filter(|resume| resume.key == key);
        if before >= command.per_partition_max {
            return Ok(());
        }
        // The whole partition is read for its first group, here or on an earlier page, so further groups add nothing.
        if of_partitions && seen && resume.is_none_or(|resume| resume.comparable.is_none() || self.given > 0) {
            return Ok(());
        }
        let mut part = ReadCommand {
            partitions: Partitions::Key(key.clone()),
            rows_max: command.rows_max - self.given,
            visits_max: u64::MAX,
            row_columns: None,
            ..command.clone()
        };
        if of_partitions {
            part.resume = resume.cloned();
            part.resume_partition_rows = before;
        } else {
            part.resume = None;
            part.resume_partition_rows = 0;
            part.per_partition_max = command.per_partition_max - before;
            let done = resume.and_then(|resume| resume.comparable.as_deref());
            part.slices = slices_of(&group, &command.slices, done);
            if part.slices.is_empty() {
                return Ok(());
            }
        }
        let mut rows =
            ConfirmingSink { index: self.index, value: self.value, group: &mut group, sink, given: 0, is_full: false };
        let (memtable, view) = self.tables.readable(part.table)?;
        let end = self.reader.read(&memtable, &view, &part, &mut rows, ()).await?;
        let (given, is_full) = (rows.given, rows.is_full);
        self.given += given;
        self.is_full = is_full || self.given >= command.rows_max;
        self.partition = Some((key, before + given));
        let all_seen = end == ReadEnd::Exhausted && !self.is_full && before + given < command.per_partition_max;
        if all_seen && self.index.is_of_cells() && (!of_partitions || part.resume.is_none()) {
            self.delete_stale(&group, &part);
        }
        Ok(())
    }

    /// Deletes the entries of a group whose rows do not have the value. All rows of the group must have been looked
    /// for.
    fn delete_stale(&self, group: &[IndexEntry], part: &ReadCommand) {
        // If only some rows of the partition were read, its static row may have the value although none of them told
        // so.
        if self.index.is_of_partitions() && !(part.static_only && part.wants_static) {
            return;
        }
        let Ok(memtable) = self.tables.memtable(self.index.id()) else { return };
        let content = CellContent::Deleted { local_deletion_time: self.command.now_in_seconds };
        for entry in group.iter().filter(|entry| !entry.held) {
            let asked =
                self.index.is_of_partitions() || part.slices.iter().any(|slice| slice.contains(&entry.comparable));
            if asked {
                self.index.put(&memtable, self.value, &entry.place, entry.timestamp, content);
            }
        }
    }
}

/// The rows of a group as slices, without those that were not asked for or are not behind `done`.
fn slices_of(group: &[IndexEntry], asked: &[Slice], done: Option<&[u8]>) -> Arc<[Slice]> {
    let mut slices: Vec<Slice> = Vec::with_capacity(group.len());
    for candidate in group {
        let row = &candidate.comparable;
        let again = slices.last().is_some_and(|last| *last.start == **row);
        let is_done = done.is_some_and(|done| **row <= *done);
        if !again && !is_done && asked.iter().any(|slice| slice.contains(row)) {
            let end = [row, &[0][..]].concat();
            slices.push(Slice { start: row.clone().into(), end: end.into() });
        }
    }
    slices.into()
}

/// Collects index entries from the rows of the index's table.
struct EntrySink<'i> {
    index: &'i IndexState,
    partitioner: Partitioner,
    /// Entries of other partitions are left out.
    range: &'i TokenRange,
    found: Vec<IndexEntry>,
    last: Option<Vec<u8>>,
}

impl RowSink for EntrySink<'_> {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        self.last = Some(row.comparable.to_vec());
        let mut parts = row.clustering.components();
        let (token, key) = (parts.next(), parts.next());
        let token = token.and_then(|token| <[u8; 8]>::try_from(token).ok()).map(i64::from_be_bytes);
        let (Some(token), Some(key), Some(cell)) = (token, key, row.cells.first()) else { return SinkState::Rejected };
        let key = DecoratedKey { token: Token(token), partitioner: self.partitioner, key: key.into() };
        if !self.range.contains(key.token, &key.key) {
            return SinkState::Rejected;
        }
        let mut clustering = Vec::new();
        let mut comparable = Vec::new();
        if !self.index.is_of_partitions() {
            let base = &self.index.base;
            let own = || parts.clone().take(base.clustering_len);
            own().for_each(|part| model::mutation::push_clustering(&mut clustering, part));
            comparable::clustering(base, own(), &mut comparable);
        }
        let path = match self.index.has_path() {
            true => row.clustering.components().last().unwrap_or_default().to_vec(),
            false => Vec::new(),
        };
        self.found.push(IndexEntry {
            key,
            clustering,
            comparable,
            place: row.clustering.0.to_vec(),
            path,
            timestamp: cell.timestamp,
            held: false,
        });
        SinkState::Open
    }
}

/// Passes rows on to the read's sink and marks the entries that they confirm.
struct ConfirmingSink<'s> {
    index: &'s IndexState,
    value: &'s [u8],
    group: &'s mut [IndexEntry],
    sink: &'s mut dyn RowSink,
    given: u64,
    is_full: bool,
}

impl RowSink for ConfirmingSink<'_> {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        let of_partitions = self.index.is_of_partitions();
        for entry in self.group.iter_mut() {
            if !entry.held && (of_partitions || Clustering(&entry.clustering) == row.clustering) {
                entry.held = self.index.is_held(row, self.value, &entry.path);
            }
        }
        let state = self.sink.row(row);
        if state != SinkState::Rejected {
            self.given += 1;
        }
        self.is_full |= state == SinkState::Full;
        state
    }

    fn dead(&mut self, count: u64) {
        self.sink.dead(count);
    }
}
