//! Scans of token ranges: one stream of row blocks per core, merged by token on the coordinating core.
//!
//! 1. Every core is asked at once for its share of the page (rows / cores, bytes / cores).
//! 2. The stream whose next row has the lowest token gives its rows up to the next token of another stream, until the
//!    page is full.
//! 3. A stream that has no rows left is asked again from its last row, for twice as many rows and its share of the
//!    remaining bytes.
//!
//! Invariants: no token belongs to two cores, so rows of one partition come from one stream in its order; a page
//! resumes from the position of its last row, whatever core that came from, so that the number of cores may change
//! between two pages.

use super::asked_replica::AskedReplica;
use super::read::{Page, PageLimits, RESULT_BYTES_MAX, ReadPlan, read_on, result_too_large};
use crate::guards::tombstones::ScanCounts;
use crate::messages::data::ReadReply;
use crate::metrics::Measure;
use crate::rows::block::{RowBlock, merge_counted};
use crate::shard_state::Shard;
use model::query::{Partitions, ReadEnd, Resume};
use model::token::{Token, TokenRange};
use model::{DecoratedKey, Failure};
use runtime::ShardId;
use runtime::sync::join_all;

/// Fewest rows a stream is asked for.
const BLOCK_ROWS_MIN: u64 = 16;
/// Most rows a stream is asked for.
const BLOCK_ROWS_MAX: u64 = 4096;
/// Fewest bytes a stream is asked for.
const BLOCK_BYTES_MIN: usize = 16 << 10;
/// Rows that an aggregate visits per call to a core; each call has its own deadline.
const AGGREGATE_ROWS: u64 = 1 << 16;

/// The blocks of rows that one core contributes to a scan.
struct Stream {
    shard: ShardId,
    reply: ReadReply,
    /// The next row of `reply`, and where its bytes start.
    row: usize,
    start: usize,
    resume: Option<Resume>,
    /// Rows to ask for in the next call.
    credit: u64,
    exhausted: bool,
}

impl Stream {
    fn next_token(&self) -> Option<Token> {
        self.reply.block.ends.get(self.row).map(|(token, _)| *token)
    }

    fn wants_more(&self) -> bool {
        !self.exhausted && self.next_token().is_none()
    }

    /// Moves the next row, and those that follow it below the token `before`, to the end of `out` with one copy.
    /// Returns whether they fill the page.
    fn take(&mut self, before: Option<Token>, limits: PageLimits, out: &mut RowBlock) -> bool {
        let mut full = false;
        let (mut rows, mut end) = (0, self.start);
        for (token, row_end) in &self.reply.block.ends[self.row..] {
            if full || rows > 0 && before.is_some_and(|before| *token > before) {
                break;
            }
            rows += 1;
            end = *row_end as usize;
            full = u64::from(out.rows + rows) == limits.rows_max
                || limits.bytes_max.is_some_and(|bytes_max| out.bytes.len() + end - self.start >= bytes_max);
        }
        out.bytes.extend_from_slice(&self.reply.block.bytes[self.start..end]);
        out.rows += rows;
        self.row += rows as usize;
        self.start = end;
        full
    }

    fn fill(&mut self, reply: ReadReply) {
        self.exhausted = reply.end == ReadEnd::Exhausted;
        self.resume.clone_from(&reply.last);
        self.reply = reply;
        self.row = 0;
        self.start = 0;
        self.credit = self.credit.saturating_mul(2).min(BLOCK_ROWS_MAX);
    }
}

/// The cores of a node that have rows of the plan's table.
fn owners(plan: &ReadPlan, asked: &AskedReplica) -> Vec<ShardId> {
    plan.placement.shards_of(asked.replica.node).map(ShardId).collect()
}

/// Reads a page of the rows of `range` in token order, starting after `resume`.
pub(crate) async fn scan(
    shard: &Shard,
    plan: &ReadPlan,
    range: TokenRange,
    resume: Option<Resume>,
    limits: PageLimits,
) -> Result<Page, Failure> {
    let began = runtime::now();
    let asked = plan.ask_range(&range)?;
    let owners = owners(plan, &asked);
    match runtime::timeout(plan.terms.timeout, merge(shard, plan, owners, range, resume, limits)).await {
        Some(page) => {
            plan.took(shard, Measure::CoordinatorScan, began);
            asked.finish(shard, page)
        }
        None => Err(asked.expired()),
    }
}

async fn merge(
    shard: &Shard,
    plan: &ReadPlan,
    owners: Vec<ShardId>,
    range: TokenRange,
    resume: Option<Resume>,
    limits: PageLimits,
) -> Result<Page, Failure> {
    let share = limits.rows_max.div_ceil(owners.len() as u64);
    trace_ranges(shard, owners.len());
    // A single core fills the page with one block.
    let credit = if owners.len() == 1 { limits.rows_max } else { share.clamp(BLOCK_ROWS_MIN, BLOCK_ROWS_MAX) };
    let stream = |shard| Stream {
        shard,
        reply: ReadReply::default(),
        row: 0,
        start: 0,
        resume: resume.clone(),
        credit,
        exhausted: false,
    };
    let mut streams: Vec<Stream> = owners.into_iter().map(stream).collect();
    let mut out = RowBlock::default();
    let mut met = ScanCounts::default();
    loop {
        let left = limits.rows_max - u64::from(out.rows);
        let bytes_max = block_bytes(limits, out.bytes.len(), streams.len());
        let asked: Vec<usize> = (0..streams.len()).filter(|&i| streams[i].wants_more()).collect();
        let reads = asked.iter().map(|&i| {
            let stream = &streams[i];
            let rows_max = stream.credit.min(left);
            let resume = stream.resume.clone();
            let request = plan.request(Partitions::Range(range.clone()), resume, rows_max, bytes_max, true);
            read_on(shard, stream.shard, request)
        });
        let replies = match asked.len() {
            0 => Vec::new(),
            _ => join_all(reads.collect()).await,
        };
        for (i, reply) in asked.into_iter().zip(replies) {
            let reply = reply?;
            plan.count(shard, &mut met, reply.scanned, None, limits.rows_max)?;
            streams[i].fill(reply);
        }
        if out.rows == 0 {
            out.bytes.reserve(streams.iter().map(|stream| stream.reply.block.bytes.len()).sum());
        }
        while !streams.iter().any(Stream::wants_more) {
            let with_token = streams.iter().enumerate().filter_map(|(i, stream)| Some((stream.next_token()?, i)));
            let Some((_, i)) = with_token.min() else {
                plan.tombstones.end(&met, None, limits.rows_max);
                return Ok(Page { block: out, stopped_at: None });
            };
            let others = streams.iter().enumerate().filter(|(other, _)| *other != i);
            let before = others.filter_map(|(_, stream)| stream.next_token()).min();
            let stream = &mut streams[i];
            let full = stream.take(before, limits, &mut out);
            if full {
                plan.tombstones.end(&met, None, limits.rows_max);
                return Ok(Page {
                    block: out,
                    stopped_at: Some(stream.reply.places.resume(shard.partitioner(), stream.row - 1)),
                });
            }
            if out.bytes.len() > RESULT_BYTES_MAX {
                return Err(result_too_large());
            }
        }
        // Copying the rows took a while without awaiting.
        runtime::yield_if_needed().await;
    }
}

/// How many bytes to ask each of `streams` for when the page has `filled` bytes: an equal share of the rest. More would
/// not fit, and would be read again for the next page.
fn block_bytes(limits: PageLimits, filled: usize, streams: usize) -> usize {
    match limits.bytes_max {
        Some(bytes_max) => bytes_max.saturating_sub(filled).div_ceil(streams).max(BLOCK_BYTES_MIN),
        None => limits.block_bytes(),
    }
}

/// Adds to the request's trace that all cores read their part of the range concurrently.
fn trace_ranges(shard: &Shard, count: usize) {
    shard.trace(|| "Computing ranges to query".into());
    shard.trace(|| {
        format!(
            "Submitting range requests on {count} ranges with a concurrency of {count} (0.0 rows per range expected)"
        )
    });
    shard.trace(|| format!("Submitted {count} concurrent range requests"));
}

/// The partitions over which an aggregate runs.
pub(crate) enum Aggregated<'a> {
    /// These partitions.
    Keys(&'a [DecoratedKey]),
    /// All partitions of a range.
    Range(&'a TokenRange),
}

/// The row of an aggregate over `partitions`; no row if the partitions have none.
pub(crate) async fn aggregate(shard: &Shard, plan: &ReadPlan, partitions: Aggregated<'_>) -> Result<RowBlock, Failure> {
    let began = runtime::now();
    let measure = match partitions {
        Aggregated::Keys(_) => Measure::CoordinatorRead,
        Aggregated::Range(_) => Measure::CoordinatorScan,
    };
    // Values other than counts are those of the first row: of the first key in the given order, or of the smallest
    // token.
    let mut parts = match partitions {
        Aggregated::Keys(keys) => {
            let mut parts = Vec::new();
            for key in keys {
                let asked = plan.ask_partition(key.token)?;
                let part = aggregate_on(shard, plan, ShardId(asked.replica.shard), Partitions::Key(key.clone())).await;
                parts.push(asked.finish_in_time(shard, part)?);
            }
            parts
        }
        Aggregated::Range(range) => {
            let asked = plan.ask_range(range)?;
            let read = |to| aggregate_on(shard, plan, to, Partitions::Range(range.clone()));
            let reads = owners(plan, &asked).into_iter().map(read);
            let parts = join_all(reads.collect()).await.into_iter().collect::<Option<Result<Vec<RowBlock>, Failure>>>();
            let mut parts = asked.finish_in_time(shard, parts)?;
            parts.sort_by_key(|part| part.ends.first().map(|(token, _)| *token));
            parts
        }
    };
    plan.took(shard, measure, began);
    parts.retain(|part| part.rows > 0);
    Ok(merge_counted(&plan.selection, &parts))
}

/// Aggregates over the partitions of one core; `None` if a call takes too long.
async fn aggregate_on(
    shard: &Shard,
    plan: &ReadPlan,
    to: ShardId,
    partitions: Partitions,
) -> Option<Result<RowBlock, Failure>> {
    let mut parts = Vec::new();
    let mut resume = None;
    let mut met = ScanCounts::default();
    let key = match &partitions {
        Partitions::Key(key) => Some(key),
        Partitions::Range(_) => None,
    };
    loop {
        let request = plan.request(partitions.clone(), resume, AGGREGATE_ROWS, usize::MAX, false);
        let reply = match runtime::timeout(plan.terms.timeout, read_on(shard, to, request)).await? {
            Ok(reply) => reply,
            Err(failure) => return Some(Err(failure)),
        };
        if let Err(failure) = plan.count(shard, &mut met, reply.scanned, key, u64::MAX) {
            return Some(Err(failure));
        }
        if reply.block.rows > 0 {
            parts.push(reply.block);
        }
        if reply.end == ReadEnd::Exhausted {
            plan.tombstones.end(&met, key, u64::MAX);
        }
        if reply.end == ReadEnd::Exhausted {
            return Some(Ok(merge_counted(&plan.selection, &parts)));
        }
        resume = reply.last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream whose rows have these tokens, each its token as one byte.
    fn stream(tokens: &[i64]) -> Stream {
        let mut reply = ReadReply::default();
        for token in tokens {
            reply.block.push_row(&[*token as u8]);
            reply.block.ends.push((Token(*token), reply.block.bytes.len() as u32));
        }
        Stream { shard: ShardId(0), reply, row: 0, start: 0, resume: None, credit: 16, exhausted: true }
    }

    #[test]
    fn rows_before_those_of_other_streams_are_taken_at_once() {
        let limits = |rows_max, bytes_max| PageLimits { rows_max, bytes_max: Some(bytes_max) };
        let taken = |stream: &mut Stream, before: Option<i64>, limits, out: &mut RowBlock| {
            let full = stream.take(before.map(Token), limits, out);
            (full, out.bytes.clone(), out.rows, stream.next_token().map(|token| token.0))
        };
        let mut out = RowBlock::default();
        let mut rows = stream(&[1, 2, 5, 7, 7, 9]);
        assert_eq!(taken(&mut rows, Some(4), limits(9, 99), &mut out), (false, vec![1, 2], 2, Some(5)));
        assert_eq!(taken(&mut rows, Some(6), limits(4, 99), &mut out), (false, vec![1, 2, 5], 3, Some(7)));
        assert_eq!(taken(&mut rows, None, limits(4, 99), &mut out), (true, vec![1, 2, 5, 7], 4, Some(7)));
        assert_eq!(taken(&mut rows, None, limits(9, 5), &mut out), (true, vec![1, 2, 5, 7, 7], 5, Some(9)));
        assert_eq!(taken(&mut rows, None, limits(9, 99), &mut out), (false, vec![1, 2, 5, 7, 7, 9], 6, None));
    }

    #[test]
    fn cores_are_asked_for_one_page_together() {
        let page = PageLimits { rows_max: 5000, bytes_max: Some(1 << 20) };
        assert_eq!(block_bytes(page, 0, 1), 1 << 20);
        assert_eq!(block_bytes(page, 0, 4) * 4, 1 << 20);
        assert_eq!(block_bytes(page, 1 << 19, 2) * 2, 1 << 19, "of what is left");
        assert_eq!(block_bytes(page, 2 << 20, 2), BLOCK_BYTES_MIN);
        let unpaged = PageLimits { bytes_max: None, ..page };
        assert_eq!(block_bytes(unpaged, 5 << 20, 2), unpaged.block_bytes());
    }
}
