//! Scans of token ranges: pieces with the same node one after another; in each one stream of row blocks per core of the
//! node, merged by token on the coordinating core.
//!
//! 0. Pieces follow each other in token order. As many are read at once as are likely to fill the page, by the rows of
//!    those before.
//! 1. Every core is asked at once for its share of the page (rows / cores, bytes / cores).
//! 2. The stream whose next row has the lowest token gives its rows up to the next token of another stream, until the
//!    page is full.
//! 3. A stream that has no rows left is asked again from its last row, for twice as many rows and its share of the
//!    remaining bytes.
//!
//! Invariants: no token belongs to two cores, so rows of one partition come from one stream in its order; a page
//! resumes from the position of its last row, whatever core that came from, so that the number of cores may change
//! between two pages.

use super::asked_replica::Piece;
use super::read::{Page, PageLimits, RESULT_BYTES_MAX, ReadPlan, append, result_too_large};
use crate::guards::tombstones::ScanCounts;
use crate::messages::data::ReadReply;
use crate::metrics::Measure;
use crate::rows::block::{RowBlock, merge_counted};
use crate::shard_state::Shard;
use cluster::placement::Replica;
use model::query::{Partitions, ReadEnd, Resume};
use model::token::{Token, TokenRange};
use model::{DecoratedKey, Failure};
use runtime::sync::join_all;

/// Fewest rows a stream is asked for.
const BLOCK_ROWS_MIN: u64 = 16;
/// Most rows a stream is asked for.
const BLOCK_ROWS_MAX: u64 = 4096;
/// Fewest bytes a stream is asked for.
const BLOCK_BYTES_MIN: usize = 16 << 10;
/// Most pieces of a range that are read at once.
const WINDOW_PIECES: usize = 16;
/// Most cores that an aggregate asks at once.
const WINDOW_CORES: usize = 256;
/// Rows that an aggregate visits per call to a core; each call has its own deadline.
const AGGREGATE_ROWS: u64 = 1 << 16;

/// The blocks of rows that one core contributes to a scan.
struct Stream {
    owner: Replica,
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

/// Reads a page of the rows of `range` in token order, starting after `resume`.
pub(crate) async fn scan(
    shard: &Shard,
    plan: &ReadPlan,
    range: TokenRange,
    resume: Option<Resume>,
    limits: PageLimits,
) -> Result<Page, Failure> {
    let began = runtime::now();
    let mut asked = plan.ask_range(&range)?;
    trace_ranges(shard, asked.pieces().iter().map(|piece| owners(plan, piece).len()).sum());
    let page = match asked.pieces() {
        [piece] => {
            let read = read_piece(shard, plan, piece, resume, limits);
            runtime::timeout(plan.terms.timeout, read).await.map(|read| read.map_err(|failure| (0, failure)))
        }
        pieces => {
            let read = Box::pin(read_pieces(shard, plan, pieces, resume, limits));
            runtime::timeout(plan.terms.timeout, read).await
        }
    };
    match page {
        Some(page) => {
            plan.took(shard, Measure::CoordinatorScan, began);
            let (page, met) = page.map_err(|(piece, failure)| asked.failed(piece, failure))?;
            plan.tombstones.end(&met, None, limits.rows_max);
            Ok(page)
        }
        None => Err(asked.expired()),
    }
}

/// The cores that have rows of a piece.
fn owners(plan: &ReadPlan, piece: &Piece) -> Vec<Replica> {
    let node = piece.replica.node;
    plan.placement.shards_of(node).map(|shard| Replica { node, shard }).collect()
}

/// Reads a page of the rows of one piece, and counts what the read met.
async fn read_piece(
    shard: &Shard,
    plan: &ReadPlan,
    piece: &Piece,
    resume: Option<Resume>,
    limits: PageLimits,
) -> Result<(Page, ScanCounts), Failure> {
    merge(shard, plan, owners(plan, piece), piece.range.clone(), resume, limits).await
}

/// Reads a page of the rows of several pieces, and counts what the read met. A failure is that of the piece at a
/// position.
async fn read_pieces(
    shard: &Shard,
    plan: &ReadPlan,
    pieces: &[Piece],
    mut resume: Option<Resume>,
    limits: PageLimits,
) -> Result<(Page, ScanCounts), (usize, Failure)> {
    let is_done = |piece: &&Piece| {
        let key = resume.as_ref().map(|resume| &resume.position.key);
        key.is_some_and(|key| piece.range.is_passed(key.token, &key.key))
    };
    let mut next = pieces.iter().take_while(is_done).count();
    let mut window = if limits.rows_max == u64::MAX { WINDOW_PIECES } else { 1 };
    let mut out = RowBlock::default();
    let mut met = ScanCounts::default();
    while next < pieces.len() {
        let left = PageLimits {
            rows_max: limits.rows_max - u64::from(out.rows),
            bytes_max: limits.bytes_max.map(|bytes_max| bytes_max - out.bytes.len()),
        };
        let (begun, rows_before) = (next, out.rows);
        let asked = &pieces[begun..pieces.len().min(begun + window)];
        let reads = asked.iter().map(|piece| read_piece(shard, plan, piece, resume.take(), left));
        for (at, page) in (begun..).zip(join_all(reads.collect()).await) {
            let failed = |failure| (at, failure);
            let (page, part) = page.map_err(failed)?;
            let rows = u64::from(out.rows - rows_before) + u64::from(page.block.rows);
            let bytes = out.bytes.len() + page.block.bytes.len();
            let is_full = rows >= left.rows_max || limits.bytes_max.is_some_and(|bytes_max| bytes >= bytes_max);
            if is_full && out.rows > rows_before {
                // The page ends within this piece, which is read again for as much as there is room for.
                break;
            }
            plan.count(&mut met, part, None, limits.rows_max).map_err(failed)?;
            let rows = page.block.rows as usize;
            append(&mut out, page.block, rows).map_err(failed)?;
            next += 1;
            if page.stopped_at.is_some() {
                return Ok((Page { block: out, stopped_at: page.stopped_at }, met));
            }
        }
        let rows_max = limits.rows_max - u64::from(out.rows);
        window = next_window(window, next - begun, (out.rows - rows_before).into(), rows_max);
    }
    Ok((Page { block: out, stopped_at: None }, met))
}

/// How many pieces to ask next, after `pieces` of the last `window` gave `rows` rows and `left` are missing.
fn next_window(window: usize, pieces: usize, rows: u64, left: u64) -> usize {
    let next = match rows {
        0 => window as u64 * 4,
        rows => left.saturating_mul(pieces as u64).div_ceil(rows),
    };
    usize::try_from(next).unwrap_or(WINDOW_PIECES).clamp(1, WINDOW_PIECES)
}

async fn merge(
    shard: &Shard,
    plan: &ReadPlan,
    owners: Vec<Replica>,
    range: TokenRange,
    resume: Option<Resume>,
    limits: PageLimits,
) -> Result<(Page, ScanCounts), Failure> {
    let share = limits.rows_max.div_ceil(owners.len() as u64);
    // A single core fills the page with one block.
    let credit = if owners.len() == 1 { limits.rows_max } else { share.clamp(BLOCK_ROWS_MIN, BLOCK_ROWS_MAX) };
    let stream = |owner| Stream {
        owner,
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
            plan.read_at(shard, stream.owner, request)
        });
        let replies = match asked.len() {
            0 => Vec::new(),
            _ => join_all(reads.collect()).await,
        };
        for (i, reply) in asked.into_iter().zip(replies) {
            let reply = reply?;
            plan.count(&mut met, reply.scanned, None, limits.rows_max)?;
            streams[i].fill(reply);
        }
        if out.rows == 0 {
            out.bytes.reserve(streams.iter().map(|stream| stream.reply.block.bytes.len()).sum());
        }
        while !streams.iter().any(Stream::wants_more) {
            let with_token = streams.iter().enumerate().filter_map(|(i, stream)| Some((stream.next_token()?, i)));
            let Some((_, i)) = with_token.min() else {
                return Ok((Page { block: out, stopped_at: None }, met));
            };
            let others = streams.iter().enumerate().filter(|(other, _)| *other != i);
            let before = others.filter_map(|(_, stream)| stream.next_token()).min();
            let stream = &mut streams[i];
            let full = stream.take(before, limits, &mut out);
            if full {
                let stopped_at = stream.reply.places.resume(shard.partitioner(), stream.row - 1);
                return Ok((Page { block: out, stopped_at: Some(stopped_at) }, met));
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
                let asked = plan.ask_partition(key)?;
                let part = aggregate_on(shard, plan, asked.replica, Partitions::Key(key.clone())).await;
                parts.push(asked.finish_in_time(plan.topology(), part)?);
            }
            parts
        }
        Aggregated::Range(range) => {
            let mut asked = plan.ask_range(range)?;
            let cores = |(at, piece)| owners(plan, piece).into_iter().map(move |owner| (at, owner, piece));
            let cores: Vec<(usize, Replica, &Piece)> = asked.pieces().iter().enumerate().flat_map(cores).collect();
            let mut parts = Vec::new();
            let mut failed = None;
            for together in cores.chunks(WINDOW_CORES) {
                let reads = together
                    .iter()
                    .map(|(_, owner, piece)| aggregate_on(shard, plan, *owner, Partitions::Range(piece.range.clone())));
                let read = join_all(reads.collect()).await;
                for ((at, ..), part) in together.iter().zip(read) {
                    match part {
                        Some(Ok(part)) => parts.push(part),
                        ended => failed = failed.or(Some((*at, ended.and_then(Result::err)))),
                    }
                }
                if failed.is_some() {
                    break;
                }
            }
            match failed {
                Some((at, Some(failure))) => return Err(asked.failed(at, failure)),
                Some((_, None)) => return Err(asked.expired()),
                None => {}
            }
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
    owner: Replica,
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
        let reply = match runtime::timeout(plan.terms.timeout, plan.read_at(shard, owner, request)).await? {
            Ok(reply) => reply,
            Err(failure) => return Some(Err(failure)),
        };
        if let Err(failure) = plan.count(&mut met, reply.scanned, key, u64::MAX) {
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
    use cluster::topology::NodeIndex;

    /// A stream whose rows have these tokens, each its token as one byte.
    fn stream(tokens: &[i64]) -> Stream {
        let mut reply = ReadReply::default();
        for token in tokens {
            reply.block.push_row(&[*token as u8]);
            reply.block.ends.push((Token(*token), reply.block.bytes.len() as u32));
        }
        Stream {
            owner: Replica { node: NodeIndex(0), shard: 0 },
            reply,
            row: 0,
            start: 0,
            resume: None,
            credit: 16,
            exhausted: true,
        }
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
    fn pieces_are_asked_as_those_before_were_filled() {
        assert_eq!(next_window(1, 1, 0, 100), 4, "nothing so far");
        assert_eq!(next_window(8, 8, 0, 100), WINDOW_PIECES);
        assert_eq!(next_window(1, 1, 10, 90), 9);
        assert_eq!(next_window(4, 2, 100, 90), 2);
        assert_eq!(next_window(4, 4, 4_000, 1), 1);
        assert_eq!(next_window(1, 1, 1, u64::MAX), WINDOW_PIECES);
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
