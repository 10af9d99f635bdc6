//! Scans of token ranges: pieces with the same nodes one after another; in each one stream of row blocks per core of a
//! node, merged by token on the coordinating core.
//!
//! 0. Pieces follow each other in token order. As many are read at once as are likely to fill the page, by the rows of
//!    those before. Where the answer of one node is enough, the steps below are for that node, and another one is asked
//!    in its place if it fails; where several must agree, they are read by merging what they have (`reconciling`).
//! 1. Every core is asked at once for its share of the page (rows / cores, bytes / cores).
//! 2. The stream whose next row has the lowest token gives its rows up to the next token of another stream, until the
//!    page is full.
//! 3. A stream that has no rows left is asked again from its last row, for twice as many rows and its share of the
//!    remaining bytes.
//!
//! Invariants: no token belongs to two cores, so rows of one partition come from one stream in its order; a page
//! resumes from the position of its last row, whatever core that came from, so that the number of cores may change
//! between two pages. A page of which some part must be planned again, because other nodes have it now, begins again.

use super::asked_replica::{no_replica, pieces_of};
use super::gathering::{Patience, PlacedRead, Unread, is_moved};
use super::index_candidates;
use super::read::{Page, PageLimits, RESULT_BYTES_MAX, ReadPlan, append, result_too_large};
use super::reconciling::{Reconciling, begin};
use crate::guards::tombstones::ScanCounts;
use crate::messages::data::{ReadReply, ReadRequest};
use crate::metrics::Measure;
use crate::replica::row_sink::RowBlockSink;
use crate::rows::block::RowBlock;
use crate::shard_state::Shard;
use cluster::placement::{Replica, TablePlacement};
use cluster::plan::{NextRead, PartitionReadPlan, RangePiece};
use cluster::topology::NodeIndex;
use model::Failure;
use model::query::{Partitions, ReadEnd, Resume};
use model::token::{Token, TokenRange};
use runtime::Instant;
use runtime::sync::join_all;
use std::rc::Rc;

/// Fewest rows a stream is asked for.
const BLOCK_ROWS_MIN: u64 = 16;
/// Most rows a stream is asked for.
const BLOCK_ROWS_MAX: u64 = 4096;
/// Fewest bytes a stream is asked for.
const BLOCK_BYTES_MIN: usize = 16 << 10;
/// Most pieces of a range that are read at once.
pub(super) const WINDOW_PIECES: usize = 16;

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

/// A scan as it is planned by one placement.
pub(super) struct Scan<'a> {
    pub(super) shard: &'a Shard,
    pub(super) plan: &'a ReadPlan,
    pub(super) placement: Rc<TablePlacement>,
    /// The end of the request's time.
    pub(super) deadline: Instant,
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
    let deadline = began.after(plan.terms.timeout);
    let mut placement = plan.placement.clone();
    loop {
        let pieces = pieces_of(&placement, plan.terms.consistency, &range)?;
        let scan = Scan { shard, plan, placement, deadline };
        trace_ranges(shard, pieces.iter().map(|piece| scan.cores_of(piece)).sum());
        let page = match &*pieces {
            [piece] => scan.piece(piece, resume.clone(), limits).await,
            pieces => Box::pin(scan.pieces(pieces, resume.clone(), limits)).await,
        };
        match page {
            Ok((page, met)) => {
                plan.took(shard, Measure::CoordinatorScan, began);
                plan.tombstones.end(&met, None, limits.rows_max);
                return Ok(page);
            }
            Err(Unread::Failed(failure)) => return Err(failure),
            Err(Unread::Moved) => placement = shard.placement_of(&plan.table)?,
        }
    }
}

impl Scan<'_> {
    /// The cores of a node that have rows of the table.
    pub(super) fn owners(&self, node: NodeIndex) -> Vec<Replica> {
        self.placement.shards_of(node).map(|shard| Replica { node, shard }).collect()
    }

    /// How many cores are asked for a piece at first.
    fn cores_of(&self, piece: &RangePiece) -> usize {
        piece.plan.targets().map(|(replica, _)| self.placement.shards_of(replica.node).len()).sum()
    }

    /// Reads a page of the rows of one piece, and counts what the read met.
    async fn piece(
        &self,
        piece: &RangePiece,
        resume: Option<Resume>,
        limits: PageLimits,
    ) -> Result<(Page, ScanCounts), Unread> {
        let mut plan = piece.plan.clone();
        if !plan.asks_one() {
            return Box::pin(self.reconciled_page(plan, &piece.range, resume, limits)).await;
        }
        loop {
            let Some((replica, _)) = plan.targets().next() else { return Err(no_replica().into()) };
            let left = self.deadline.since(runtime::now());
            let read = self.merge(self.owners(replica.node), piece.range.clone(), resume.clone(), limits);
            match runtime::timeout(left, read).await {
                None => return Err(plan.expired().into()),
                Some(Ok(found)) => return Ok(found),
                Some(Err(failure)) => self.another(&mut plan, replica, failure)?,
            }
        }
    }

    /// Lets `plan` ask another replica in the place of one that has failed, or fails.
    pub(super) fn another(
        &self,
        plan: &mut PartitionReadPlan,
        replica: Replica,
        failure: Failure,
    ) -> Result<(), Unread> {
        let topology = self.placement.keyspace().topology();
        if is_moved(self.shard, topology, &failure) {
            return Err(Unread::Moved);
        }
        match plan.failed(replica, failure, topology) {
            Some(NextRead::Fail(failure)) => Err(failure.into()),
            _ => Ok(()),
        }
    }

    /// Reads a page of the rows of a piece by merging what its replicas have, and counts what the read met.
    async fn reconciled_page(
        &self,
        mut plan: PartitionReadPlan,
        range: &TokenRange,
        mut resume: Option<Resume>,
        limits: PageLimits,
    ) -> Result<(Page, ScanCounts), Unread> {
        let (mut out, mut met) = (RowBlock::default(), ScanCounts::default());
        loop {
            let rows_max = limits.rows_max - u64::from(out.rows);
            let bytes_max = block_bytes(limits, out.bytes.len(), 1);
            let request = self.plan.request(Partitions::Range(range.clone()), resume, rows_max, bytes_max, true);
            let reply = self.reconciled(&mut plan, &request).await?;
            self.plan.count(&mut met, reply.scanned, None, limits.rows_max)?;
            let rows = reply.block.rows as usize;
            append(&mut out, reply.block, rows)?;
            let is_full = u64::from(out.rows) >= limits.rows_max
                || limits.bytes_max.is_some_and(|bytes_max| out.bytes.len() >= bytes_max);
            if reply.end == ReadEnd::Exhausted || is_full {
                return Ok((Page { block: out, stopped_at: reply.last }, met));
            }
            resume = reply.last;
        }
    }

    /// Reads a block of rows by merging what the replicas of a piece have.
    pub(super) async fn reconciled(
        &self,
        plan: &mut PartitionReadPlan,
        request: &ReadRequest,
    ) -> Result<ReadReply, Unread> {
        let (shard, table, placement) = (self.shard, &*self.plan.table, &self.placement);
        let patience = Patience { deadline: self.deadline, late_at: None };
        if request.index.is_some() {
            plan.merge();
            let read = PlacedRead { shard, plan: self.plan, placement, request, patience };
            return index_candidates::read(&read, plan).await;
        }
        let has_conditions = request.filter.as_ref().is_some_and(|filter| filter.has_conditions());
        let filtered = has_conditions.then_some(&self.plan.filtered);
        let mut sink = RowBlockSink::new(shard.partitioner(), table, request);
        let reconciling = Reconciling { shard, table, placement, patience, filtered };
        let end = reconciling.run(plan, &mut begin(request.command.clone()), &mut sink).await?;
        Ok(sink.finish(end))
    }

    /// Reads a page of the rows of several pieces, and counts what the read met.
    async fn pieces(
        &self,
        pieces: &[RangePiece],
        mut resume: Option<Resume>,
        limits: PageLimits,
    ) -> Result<(Page, ScanCounts), Unread> {
        let is_done = |piece: &&RangePiece| {
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
            let reads = asked.iter().map(|piece| self.piece(piece, resume.take(), left));
            for page in join_all(reads.collect()).await {
                let (page, part) = page?;
                let rows = u64::from(out.rows - rows_before) + u64::from(page.block.rows);
                let bytes = out.bytes.len() + page.block.bytes.len();
                let is_full = rows >= left.rows_max || limits.bytes_max.is_some_and(|bytes_max| bytes >= bytes_max);
                if is_full && out.rows > rows_before {
                    // The page ends within this piece, which is read again for as much as there is room for.
                    break;
                }
                self.plan.count(&mut met, part, None, limits.rows_max)?;
                let rows = page.block.rows as usize;
                append(&mut out, page.block, rows)?;
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

    /// Reads a page of the rows of a range from some cores of one node, and counts what the read met.
    async fn merge(
        &self,
        owners: Vec<Replica>,
        range: TokenRange,
        resume: Option<Resume>,
        limits: PageLimits,
    ) -> Result<(Page, ScanCounts), Failure> {
        let (shard, plan, topology) = (self.shard, self.plan, self.placement.keyspace().topology());
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
                plan.read_at(shard, topology, stream.owner, request)
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
}

/// How many pieces to ask next, after `pieces` of the last `window` gave `rows` rows and `left` are missing.
fn next_window(window: usize, pieces: usize, rows: u64, left: u64) -> usize {
    let next = match rows {
        0 => window as u64 * 4,
        rows => left.saturating_mul(pieces as u64).div_ceil(rows),
    };
    usize::try_from(next).unwrap_or(WINDOW_PIECES).clamp(1, WINDOW_PIECES)
}

/// How many bytes to ask each of `streams` for when the page has `filled` bytes: an equal share of the rest. More would
/// not fit, and would be read again for the next page.
pub(super) fn block_bytes(limits: PageLimits, filled: usize, streams: usize) -> usize {
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
