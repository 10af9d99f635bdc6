//! Runs one compaction: merges SSTables of a table into new ones and drops what no reader can miss.
//!
//! 1. The inputs are read side by side. Of several versions of a cell the last write wins, and tombstones are purged
//!    by the rule of [`Purge`].
//! 2. New SSTables are written under one transaction. An output ends at a partition boundary once it is long enough.
//! 3. When all are durable and open, the transaction commits, and the table's view changes in one step.
//!
//! Invariants: the inputs stay in the view, and on disk, until the outputs are durable; a failure leaves everything
//! as it was. A tombstone is purged only if neither a memtable nor an SSTable outside the inputs can have older data
//! of its partition.

use super::activity::TrackedCompaction;
use super::compactor::Compactor;
use crate::error::Error;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::retained_columns::RetainedColumns;
use crate::sstables::sstable_scan::SstableScan;
use crate::sstables::sstable_writer::SstableWriter;
use crate::sstables::transaction::{Transaction, TransactionKind};
use crate::sstables::{obsolete_sstables, purged_intervals, sstable_id};
use crate::tables::Tables;
use model::compaction::CompactionOptions;
use model::fragment::{Fragment, FragmentStep};
use model::merge::{EqualKeys, Merge, Purge};
use model::{Table, TableId, Token, TokenRange};
use runtime::HashSet;
use sstable::statistics::{EncodingStats, LogPosition};
use sstable::writer::Options;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// Rows merged between two calls of `yield_if_needed`.
const ROWS_PER_YIELD: usize = 128;

/// The inputs and the layout of the outputs of a compaction.
#[derive(Clone)]
pub(crate) struct CompactionJob {
    pub(crate) table: TableId,
    pub(crate) inputs: Vec<Rc<OpenSstable>>,
    /// The level of the outputs.
    pub(crate) level: u32,
    /// Bytes of Data.db after which an output ends; `u64::MAX` for a single output.
    pub(crate) output_bytes_max: u64,
    /// Tokens behind which another output begins, ascending.
    pub(crate) boundaries: Vec<Token>,
    /// Keys outside all of these ranges are left out; `None` if none are.
    pub(crate) owned: Option<Arc<[TokenRange]>>,
    /// What goes to an output of its own.
    pub(crate) set_apart: Option<SetApart>,
}

/// Keys that are set apart for an incremental repair.
#[derive(Clone)]
pub(crate) struct SetApart {
    /// Where they lie.
    pub(crate) ranges: Arc<[TokenRange]>,
    /// The id of the repair.
    pub(crate) session: [u8; 16],
}

/// The result of a compaction. The default value means that the inputs were gone and nothing was done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct CompactionOutcome {
    /// Bytes of the inputs' Data.db on disk.
    pub(crate) bytes_in: u64,
    /// Bytes of the outputs' Data.db on disk.
    pub(crate) bytes_out: u64,
    /// An estimate of how many partitions were written.
    pub(crate) partitions: u64,
    /// The numbers of the new SSTables.
    pub(crate) outputs: Vec<u64>,
}

impl Compactor {
    /// Runs a compaction. Cells that have expired at `now_in_seconds` count as deleted.
    pub(super) async fn run(
        self: &Rc<Self>,
        job: CompactionJob,
        now_in_seconds: i64,
        tracked: &TrackedCompaction,
    ) -> Result<CompactionOutcome, Error> {
        let table = self.tables.description(job.table)?;
        let directory = self.files.make_directory(&table, self.files.shard).await?;
        let mut transaction = Transaction::new(&directory, TransactionKind::Compaction, sstable_id::time_uuid());
        let outputs = match self.write(&job, &table, &directory, now_in_seconds, &mut transaction, tracked).await {
            Ok(outputs) => outputs,
            Err(error) => {
                if let Err(left) = transaction.abort().await {
                    tracing::warn!(error = %left, "an unfinished compaction stays until the next start");
                }
                return Err(error);
            }
        };
        let bytes = |sstables: &[Rc<OpenSstable>]| sstables.iter().map(|sstable| sstable.data_bytes).sum();
        let partitions = outputs.iter().map(|sstable| sstable.partitions()).sum();
        let done = CompactionOutcome {
            bytes_in: bytes(&job.inputs),
            bytes_out: bytes(&outputs),
            partitions,
            outputs: outputs.iter().map(|output| output.number).collect(),
        };
        match self.replace(job.table, &directory, job.inputs, outputs, transaction).await? {
            true => Ok(done),
            false => Ok(CompactionOutcome::default()),
        }
    }

    /// Puts `outputs`, which are durable, in the place of `inputs` and commits. Returns false if the table was dropped
    /// or truncated before: then the outputs are removed.
    pub(super) async fn replace(
        &self,
        table: TableId,
        directory: &Path,
        inputs: Vec<Rc<OpenSstable>>,
        outputs: Vec<Rc<OpenSstable>>,
        mut transaction: Transaction,
    ) -> Result<bool, Error> {
        if !self.is_live(table, &inputs) {
            drop(outputs);
            transaction.abort().await?;
            return Ok(false);
        }
        if outputs.is_empty() {
            self.keep_purged(directory, &inputs).await?;
        }
        let millis = runtime::wall_micros() as u64 / 1000;
        for input in &inputs {
            transaction.remove(&input.directory, input.reader.descriptor(), millis, input.files);
        }
        transaction.commit(millis).await?;
        let swapped = self.is_live(table, &inputs);
        if swapped && let Some(state) = self.tables.borrow_mut().get_mut(&table) {
            let outputs = state.adapted(&outputs)?;
            state.view = Rc::new(state.view.replaced(&inputs, &outputs));
        }
        obsolete_sstables::retire(inputs, transaction);
        if !swapped {
            // The table was dropped or truncated during the commit, so the outputs are removed like the inputs. If a
            // crash comes first, the next start sees that the truncation covers them.
            obsolete_sstables::remove(directory, outputs).await?;
        }
        Ok(true)
    }

    /// Removes fully expired inputs from the table without reading them.
    pub(super) async fn run_expired(&self, job: CompactionJob) -> Result<CompactionOutcome, Error> {
        let table = self.tables.description(job.table)?;
        let directory = self.files.make_directory(&table, self.files.shard).await?;
        self.keep_purged(&directory, &job.inputs).await?;
        if !self.is_live(job.table, &job.inputs) {
            return Ok(CompactionOutcome::default());
        }
        if let Some(state) = self.tables.borrow_mut().get_mut(&job.table) {
            state.view = Rc::new(state.view.replaced(&job.inputs, &[]));
        }
        let bytes_in = job.inputs.iter().map(|sstable| sstable.data_bytes).sum();
        obsolete_sstables::remove(&directory, job.inputs).await?;
        Ok(CompactionOutcome { bytes_in, ..CompactionOutcome::default() })
    }

    /// Whether the table still has all inputs.
    fn is_live(&self, table: TableId, inputs: &[Rc<OpenSstable>]) -> bool {
        let tables = self.tables.borrow();
        let Some(state) = tables.get(&table) else { return false };
        inputs.iter().all(|input| state.view.sstables.iter().any(|live| live.number == input.number))
    }

    /// Durably notes the log intervals of SSTables that leave no output, so that replay does not bring their rows
    /// back.
    async fn keep_purged(&self, directory: &Path, gone: &[Rc<OpenSstable>]) -> Result<(), Error> {
        let intervals = gone.iter().flat_map(|sstable| sstable.log_intervals());
        purged_intervals::add(directory, self.files.shard, self.files.shard_map, intervals).await
    }

    /// Writes the outputs, makes them durable and opens them.
    async fn write(
        self: &Rc<Self>,
        job: &CompactionJob,
        table: &Arc<Table>,
        directory: &Path,
        now_in_seconds: i64,
        transaction: &mut Transaction,
        tracked: &TrackedCompaction,
    ) -> Result<Vec<Rc<OpenSstable>>, Error> {
        let options = self.options(job, table)?;
        let apart = job.set_apart.as_ref().map(|apart| apart.options(&options));
        let gc_before = {
            let tables = self.tables.borrow();
            let state = tables.get(&job.table).ok_or(Error::UnknownTable(job.table))?;
            state.gc_before(now_in_seconds)
        };
        let purge = Purge::new(now_in_seconds, gc_before, &table.dropped, max_purgeable(&self.tables, job, table));
        let inputs = job.inputs.iter().cloned().map(SstableScan::new).collect();
        let partitioner = self.tables.shard_map.partitioner;
        let mut merge = Merge::new(partitioner, inputs, false).with_keys(EqualKeys::of(table)).with_purge(purge);
        // What is set apart is the second.
        let mut writing: [Option<SstableWriter>; 2] = [None, None];
        let mut at = 0;
        let mut outputs = Vec::new();
        let mut boundaries = &job.boundaries[..];
        let mut rows = 0;
        let mut is_unowned = false;
        loop {
            let progress =
                merge.advance().map_err(|error| Error::BadSstable { directory: directory.to_owned(), error })?;
            match progress {
                FragmentStep::End => break,
                FragmentStep::Need(_) => {
                    for need in merge.needs().to_vec() {
                        if let Some(input) = merge.source_mut(need.source) {
                            input.bring(need).await?;
                            let read_bytes = input.take_read_bytes();
                            tracked.read(read_bytes);
                            self.throttle.read(read_bytes, &self.gate).await;
                        }
                    }
                    continue;
                }
                FragmentStep::Fragment => {}
            }
            let Some(fragment) = merge.fragment() else { continue };
            if matches!(fragment, Fragment::PartitionStart { .. }) {
                tracked.merged(merge.active());
            }
            if let Fragment::PartitionStart { token, .. } = fragment {
                let passed = boundaries.iter().take_while(|boundary| **boundary < token).count();
                boundaries = &boundaries[passed..];
                if passed > 0
                    && let Some(full) = writing[0].take()
                {
                    outputs.extend(self.finish(full, table, directory).await?);
                }
            }
            let Some(fragment) = merge.fragment() else { continue };
            if let (Some(owned), Fragment::PartitionStart { token, key, .. }) = (&job.owned, &fragment) {
                is_unowned = !owned.iter().any(|range| range.contains(*token, key));
            }
            if is_unowned {
                rows += 1;
                if rows % ROWS_PER_YIELD == 0 {
                    runtime::yield_if_needed().await;
                }
                continue;
            }
            if let (Some(apart), Fragment::PartitionStart { token, key, .. }) = (&job.set_apart, &fragment) {
                at = usize::from(apart.ranges.iter().any(|range| range.contains(*token, key)));
            }
            let output = match &mut writing[at] {
                Some(output) => output,
                None => {
                    let descriptor = self.files.new_descriptor();
                    transaction.add(directory, &descriptor).await?;
                    let options = apart.as_ref().filter(|_| at == 1).unwrap_or(&options).clone();
                    writing[at].insert(SstableWriter::new(&self.files, directory, descriptor, table, options))
                }
            };
            let is_much = output.fragment(&fragment);
            let ended = matches!(fragment, Fragment::PartitionEnd);
            if is_much {
                output.take().await?;
            }
            if ended
                && output.bytes_written() >= job.output_bytes_max
                && let Some(full) = writing[at].take()
            {
                outputs.extend(self.finish(full, table, directory).await?);
            }
            rows += 1;
            if rows % ROWS_PER_YIELD == 0 {
                runtime::yield_if_needed().await;
            }
        }
        for last in writing.into_iter().flatten() {
            outputs.extend(self.finish(last, table, directory).await?);
        }
        Ok(outputs)
    }

    /// Makes an output durable and opens it; `None` if nothing was written to it.
    async fn finish(
        &self,
        output: SstableWriter,
        table: &Arc<Table>,
        directory: &Path,
    ) -> Result<Option<Rc<OpenSstable>>, Error> {
        let descriptor = output.descriptor.clone();
        let Some(components) = output.close().await? else { return Ok(None) };
        self.files.open(directory, &descriptor, &components, table).await.map(|opened| Some(Rc::new(opened)))
    }

    /// The options with which the outputs are written.
    fn options(&self, job: &CompactionJob, table: &Table) -> Result<Options, Error> {
        let mut stats = EncodingStats::default();
        let mut kept = RetainedColumns::of(table);
        let mut intervals: Vec<(LogPosition, LogPosition)> = Vec::new();
        for input in &job.inputs {
            let metadata = input.reader.metadata();
            stats.add_header(&metadata.header);
            kept.sstable(metadata);
            intervals.extend(&metadata.statistics.log_intervals);
        }
        let mut options = self.files.compaction_options(table, stats)?;
        kept.keep(&mut options.header);
        options.expected_partitions = job.inputs.iter().map(|input| input.partitions()).sum();
        options.log_intervals = union(intervals);
        options.level = job.level;
        // All inputs are of one set.
        let marks = || job.inputs.iter().map(|input| &input.reader.metadata().statistics);
        options.repaired_at = marks().map(|statistics| statistics.repaired_at).min().unwrap_or(0);
        options.pending_repair = marks().next().and_then(|statistics| statistics.pending_repair);
        Ok(options)
    }
}

impl SetApart {
    /// The options with which what is set apart is written, those of the rest being given.
    fn options(&self, rest: &Options) -> Options {
        Options { level: 0, repaired_at: 0, pending_repair: Some(self.session), ..rest.clone() }
    }
}

/// Sorts intervals and joins those that overlap or touch and lie in segments of the same shard.
fn union(mut intervals: Vec<(LogPosition, LogPosition)>) -> Vec<(LogPosition, LogPosition)> {
    let shard = |position: LogPosition| crate::commitlog::segment::shard_of(position.segment as u64);
    intervals.sort_by_key(|(lower, upper)| (shard(*lower), *lower, *upper));
    let mut out: Vec<(LogPosition, LogPosition)> = Vec::new();
    for (lower, upper) in intervals {
        match out.last_mut() {
            Some(last) if shard(last.0) == shard(lower) && lower <= last.1 => last.1 = last.1.max(upper),
            _ => out.push((lower, upper)),
        }
    }
    out.sort();
    out
}

/// A function that returns the purge limit of a partition: only tombstones older than it may be purged. It is the
/// smallest timestamp of an SSTable outside the inputs that may have the partition, or `i64::MIN` if a memtable has
/// it, or if the table's tombstones may be purged only once they are repaired and an input is not.
fn max_purgeable(
    tables: &Rc<Tables>,
    job: &CompactionJob,
    description: &Table,
) -> impl FnMut(Token, &[u8]) -> i64 + 'static {
    let (tables, table) = (Rc::downgrade(tables), job.table);
    let inputs: HashSet<u64> = job.inputs.iter().map(|input| input.number).collect();
    let is_repaired = |input: &Rc<OpenSstable>| input.reader.metadata().statistics.repaired_at != 0;
    let only_repaired = CompactionOptions::of(&description.options.compaction).common.only_repaired;
    let never = only_repaired && !job.inputs.iter().all(is_repaired);
    move |token, key| {
        if never {
            return i64::MIN;
        }
        let Some(tables) = tables.upgrade() else { return i64::MIN };
        let tables = tables.borrow();
        let Some(state) = tables.get(&table) else { return i64::MIN };
        let in_memory = std::iter::once(&state.memtable).chain(&state.view.flushing).any(|memtable| {
            let contents = memtable.read();
            contents.partitions.get(&contents.arena, token.prefix(), key).is_some()
        });
        if in_memory {
            return i64::MIN;
        }
        if state.view.unopened.iter().any(|sstable| sstable.may_have_token(token)) {
            return i64::MIN;
        }
        let others = state.view.sstables.iter().filter(|sstable| !inputs.contains(&sstable.number));
        let overlapping = others.filter(|sstable| {
            let (first, last) = sstable.tokens();
            first <= token && token <= last && sstable.reader.may_contain(key)
        });
        overlapping.map(|sstable| sstable.reader.metadata().statistics.min_timestamp).min().unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commitlog::segment::id_of;

    #[test]
    fn intervals_of_one_shard_join_and_those_of_two_do_not() {
        let at = |counter, shard, position| LogPosition { segment: id_of(counter, shard) as i64, position };
        let joined = union(vec![
            (at(4, 0, 0), at(5, 0, 10)),
            (at(1, 1, 0), at(9, 1, 0)),
            (at(5, 0, 10), at(6, 0, 7)),
            (at(8, 0, 0), at(9, 0, 0)),
        ]);
        let expected = [(at(1, 1, 0), at(9, 1, 0)), (at(4, 0, 0), at(6, 0, 7)), (at(8, 0, 0), at(9, 0, 0))];
        assert_eq!(joined, expected);
    }
}
