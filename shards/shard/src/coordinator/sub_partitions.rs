//! Reads of keys whose rows are spread over sub-partitions (write sharding, [`model::write_sharding`]): one stream of
//! row blocks for each sub-partition, merged in clustering order on the coordinating core.
//!
//! 1. The keys are read one after another, as they are named.
//! 2. All streams of a key are asked for their share of the page, [`UNDER_WAY_MAX`] at once.
//! 3. The stream whose next row is first in clustering order gives that row, until the page is full.
//! 4. A stream that has no rows left is asked again from its last row, for twice as many.
//!
//! A page goes on after the clustering of its last row, whatever sub-partition that came from: the paging state has the
//! logical key and this clustering.
//!
//! Invariants: a row that several sub-partitions have, which can only be where rows are placed by chance and one was
//! inserted twice, is given once, as the first of these sub-partitions has it; PER PARTITION LIMIT counts the rows of
//! the logical key; memory is bounded by a page and a block for each sub-partition.

use super::read::{Page, PageLimits, RESULT_BYTES_MAX, ReadPlan, read_request, result_too_large};
use super::scan::block_bytes;
use crate::guards::tombstones::ScanCounts;
use crate::messages::data::{ReadReply, ReadRequest};
use crate::rows::block::RowBlock;
use crate::shard_state::Shard;
use model::query::{Partitions, Position, ReadEnd, Resume};
use model::{DecoratedKey, Failure, Table};
use runtime::sync::join_all;
use std::cmp::Ordering;

/// Most sub-partitions that one request reads at once.
pub(crate) const UNDER_WAY_MAX: usize = 32;
/// Fewest and most rows that a stream is asked for.
const BLOCK_ROWS_MIN: u64 = 16;
const BLOCK_ROWS_MAX: u64 = 4096;
/// Bytes that the streams of an unpaged read are asked for together.
const UNPAGED_BYTES: usize = 16 << 20;

/// The sub-partitions that a SELECT reads.
#[derive(Clone)]
pub(crate) struct SubPartitions {
    /// The logical keys, each with its token, which is that of no partition.
    pub(crate) keys: Vec<DecoratedKey>,
    /// The numbers of the sub-partitions of each, ascending.
    pub(crate) shards: Vec<u16>,
}

impl SubPartitions {
    /// The stored keys, by logical key and number.
    pub(crate) fn stored(&self, table: &Table) -> impl Iterator<Item = DecoratedKey> {
        self.keys.iter().flat_map(move |key| self.shards.iter().map(move |shard| stored(table, key, *shard)))
    }
}

/// The stored key of a sub-partition.
fn stored(table: &Table, logical: &DecoratedKey, shard: u16) -> DecoratedKey {
    DecoratedKey::new(logical.partitioner, &table.stored_key(&logical.key, shard))
}

/// The same place in a sub-partition of its key.
pub(crate) fn within(table: &Table, resume: &Resume, shard: u16) -> Resume {
    let Resume { position: Position { key, comparable }, partition_rows } = resume;
    let position = Position { key: stored(table, key, shard), comparable: comparable.clone() };
    Resume { position, partition_rows: *partition_rows }
}

/// The place in the logical key of a place in one of its sub-partitions.
pub(crate) fn of_logical_key(table: &Table, mut resume: Resume) -> Resume {
    let key = &resume.position.key;
    if let Some((logical, _)) = table.logical_key(&key.key) {
        resume.position.key = DecoratedKey::new(key.partitioner, logical);
    }
    resume
}

/// The blocks of rows of one sub-partition.
struct Stream {
    key: DecoratedKey,
    reply: ReadReply,
    /// The next row of `reply`.
    row: usize,
    resume: Option<Resume>,
    /// Rows to ask for in the next call.
    credit: u64,
    is_exhausted: bool,
    met: ScanCounts,
}

impl Stream {
    fn has_row(&self) -> bool {
        self.row < self.reply.block.ends.len()
    }

    fn wants_more(&self) -> bool {
        !self.is_exhausted && !self.has_row()
    }

    /// The comparable clustering of the next row.
    fn place(&self) -> &[u8] {
        self.reply.places.comparable(self.row)
    }

    /// The bytes of the next row.
    fn row(&self) -> &[u8] {
        let end = |row: usize| self.reply.block.ends.get(row).map_or(0, |(_, end)| *end as usize);
        let start = self.row.checked_sub(1).map_or(0, end);
        self.reply.block.bytes.get(start..end(self.row)).unwrap_or_default()
    }

    fn fill(&mut self, reply: ReadReply) {
        self.is_exhausted = reply.end == ReadEnd::Exhausted;
        self.resume.clone_from(&reply.last);
        self.reply = reply;
        self.row = 0;
        self.credit = self.credit.saturating_mul(2).min(BLOCK_ROWS_MAX);
    }
}

/// Reads a page of the rows of `of`, starting after `resume`, which names a logical key. The rows' ends are kept.
///
/// # Errors
/// Those of the reads; a result that is too large. `Ok(None)`: `resume` is in none of the keys.
pub(crate) async fn read_page(
    shard: &Shard,
    plan: &ReadPlan,
    of: &SubPartitions,
    resume: Option<Resume>,
    limits: PageLimits,
) -> Result<Option<Page>, Failure> {
    let mut keys = &of.keys[..];
    if let Some(resume) = &resume {
        let Some(at) = keys.iter().position(|key| *key == resume.position.key) else { return Ok(None) };
        keys = &keys[at..];
    }
    let mut resume = resume;
    let mut out = RowBlock::default();
    for key in keys {
        let mut merge = Merge::new(plan, key, &of.shards, resume.take(), limits);
        if let Some(stopped_at) = merge.run(shard, &mut out).await? {
            return Ok(Some(Page { block: out, stopped_at: Some(stopped_at) }));
        }
    }
    Ok(Some(Page { block: out, stopped_at: None }))
}

/// The merge of the sub-partitions of one key.
struct Merge<'a> {
    plan: &'a ReadPlan,
    key: &'a DecoratedKey,
    limits: PageLimits,
    streams: Vec<Stream>,
    /// The streams that have a next row: the one whose row comes first is last.
    queue: Vec<usize>,
    /// The place of the last row given, and how many rows of the key were given, by earlier pages too.
    last: Option<Vec<u8>>,
    rows_given: u64,
}

impl<'a> Merge<'a> {
    fn new(
        plan: &'a ReadPlan,
        key: &'a DecoratedKey,
        shards: &[u16],
        resume: Option<Resume>,
        limits: PageLimits,
    ) -> Merge<'a> {
        let rows_given = resume.as_ref().map_or(0, |resume| resume.partition_rows);
        let rows_max = limits.rows_max.min(plan.per_partition_max.saturating_sub(rows_given));
        let credit = match shards.len() {
            1 => rows_max,
            streams => rows_max.div_ceil(streams.max(1) as u64).clamp(BLOCK_ROWS_MIN, BLOCK_ROWS_MAX),
        };
        let stream = |shard: &u16| Stream {
            key: stored(&plan.table, key, *shard),
            reply: ReadReply::default(),
            row: 0,
            resume: resume.as_ref().map(|resume| within(&plan.table, resume, *shard)),
            credit,
            is_exhausted: false,
            met: ScanCounts::default(),
        };
        Merge {
            plan,
            key,
            limits,
            streams: shards.iter().map(stream).collect(),
            queue: Vec::new(),
            last: None,
            rows_given,
        }
    }

    /// Appends rows to `out` until the page is full, and then returns where it ends, or until the key has no more.
    async fn run(&mut self, shard: &Shard, out: &mut RowBlock) -> Result<Option<Resume>, Failure> {
        while self.rows_given < self.plan.per_partition_max {
            self.refill(shard, out).await?;
            if self.queue.is_empty() {
                break;
            }
            while let Some(at) = self.queue.pop() {
                if self.rows_given >= self.plan.per_partition_max {
                    break;
                }
                self.give(at, out)?;
                let limits = self.limits;
                let is_full = u64::from(out.rows) >= limits.rows_max
                    || limits.bytes_max.is_some_and(|bytes_max| out.bytes.len() >= bytes_max);
                if is_full {
                    self.end();
                    return Ok(self.resume());
                }
                if self.streams[at].has_row() {
                    self.enqueue(at);
                } else if self.streams[at].wants_more() {
                    break;
                }
            }
            // Copying the rows took a while without awaiting.
            runtime::yield_if_needed().await;
        }
        self.end();
        Ok(None)
    }

    /// Appends the next row of a stream, unless it is the one given before.
    fn give(&mut self, at: usize, out: &mut RowBlock) -> Result<(), Failure> {
        let stream = &mut self.streams[at];
        if self.last.as_deref() != Some(stream.place()) {
            let last = self.last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(stream.place());
            out.push_row(stream.row());
            if out.bytes.len() > RESULT_BYTES_MAX {
                return Err(result_too_large());
            }
            out.ends.push((self.key.token, out.bytes.len() as u32));
            self.rows_given += 1;
        }
        stream.row += 1;
        Ok(())
    }

    /// Where a page goes on that ends with the last row given.
    fn resume(&self) -> Option<Resume> {
        let comparable = Some(self.last.as_deref()?.into());
        let position = Position { key: self.key.clone(), comparable };
        Some(Resume { position, partition_rows: self.rows_given })
    }

    /// Reads until every stream has a row or is exhausted, and puts those that have one in order.
    async fn refill(&mut self, shard: &Shard, out: &RowBlock) -> Result<(), Failure> {
        let left =
            self.limits.rows_max.saturating_sub(out.rows.into()).min(self.plan.per_partition_max - self.rows_given);
        let bytes_max = match self.limits.bytes_max {
            Some(_) => block_bytes(self.limits, out.bytes.len(), self.streams.len()),
            // What is read but not yet given must stay within bounds here too.
            None => block_bytes(PageLimits { bytes_max: Some(UNPAGED_BYTES), ..self.limits }, 0, self.streams.len()),
        };
        loop {
            let wanting = (0..self.streams.len()).filter(|at| self.streams[*at].wants_more());
            let asked: Vec<usize> = wanting.take(UNDER_WAY_MAX).collect();
            if asked.is_empty() {
                break;
            }
            let reads = asked.iter().map(|at| {
                let stream = &self.streams[*at];
                let request = self.request(stream, stream.credit.min(left), bytes_max);
                read_request(shard, self.plan, request)
            });
            for (at, reply) in asked.iter().zip(join_all(reads.collect()).await) {
                let (reply, stream) = (reply?, &mut self.streams[*at]);
                self.plan.count(&mut stream.met, reply.scanned, Some(&stream.key), self.limits.rows_max)?;
                stream.fill(reply);
            }
        }
        self.queue = (0..self.streams.len()).filter(|at| self.streams[*at].has_row()).collect();
        let (streams, reversed) = (&self.streams, self.plan.reversed);
        self.queue.sort_by(|a, b| order(streams, reversed, *b, *a));
        Ok(())
    }

    fn request(&self, stream: &Stream, rows_max: u64, bytes_max: usize) -> ReadRequest {
        let mut request =
            self.plan.request(Partitions::Key(stream.key.clone()), stream.resume.clone(), rows_max, bytes_max, true);
        // The limit is that of the rows of all sub-partitions.
        request.command.per_partition_max = u64::MAX;
        request.command.resume_partition_rows = 0;
        request
    }

    /// Puts a stream that has a row where it belongs in the queue.
    fn enqueue(&mut self, at: usize) {
        let (streams, reversed) = (&self.streams, self.plan.reversed);
        let place = self.queue.partition_point(|other| order(streams, reversed, *other, at).is_gt());
        self.queue.insert(place, at);
    }

    fn end(&self) {
        for stream in &self.streams {
            self.plan.tombstones.end(&stream.met, Some(&stream.key), self.limits.rows_max);
        }
    }
}

/// The order of the next rows of two streams; of equal ones that of the streams.
fn order(streams: &[Stream], reversed: bool, a: usize, b: usize) -> Ordering {
    let order = streams[a].place().cmp(streams[b].place());
    (if reversed { order.reverse() } else { order }).then(a.cmp(&b))
}
