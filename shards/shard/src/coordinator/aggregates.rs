//! Aggregates over all rows of partitions: every core that has some of them counts its own, in blocks of rows, and the
//! parts are added up. A call for a block has its own deadline.

use super::asked_replica::{no_replica, pieces_of};
use super::gathering::Unread;
use super::read::{ReadPlan, read_request};
use super::scan::{Scan, WINDOW_PIECES};
use super::sub_partitions::UNDER_WAY_MAX;
use crate::guards::tombstones::ScanCounts;
use crate::messages::data::{ReadReply, ReadRequest};
use crate::metrics::Measure;
use crate::rows::block::{RowBlock, merge_counted};
use crate::shard_state::Shard;
use cluster::placement::Replica;
use cluster::plan::RangePiece;
use model::query::{Partitions, ReadEnd, Resume};
use model::{DecoratedKey, Failure, TokenRange};
use runtime::sync::join_all;

/// Rows that an aggregate visits per call to a core.
const AGGREGATE_ROWS: u64 = 1 << 16;

/// The partitions over which an aggregate runs.
pub(crate) enum Aggregated<'a> {
    /// These partitions.
    Keys(&'a [DecoratedKey]),
    /// These partitions, some at once: it does not matter which row is the first.
    Together(&'a [DecoratedKey]),
    /// All partitions of a range.
    Range(&'a TokenRange),
}

/// The row of an aggregate over `partitions`; no row if the partitions have none.
pub(crate) async fn aggregate(shard: &Shard, plan: &ReadPlan, partitions: Aggregated<'_>) -> Result<RowBlock, Failure> {
    let began = runtime::now();
    let measure = match partitions {
        Aggregated::Keys(_) | Aggregated::Together(_) => Measure::CoordinatorRead,
        Aggregated::Range(_) => Measure::CoordinatorScan,
    };
    // Values other than counts are those of the first row: of the first key in the given order, or of the smallest
    // token.
    let mut parts = match partitions {
        Aggregated::Keys(keys) => {
            let mut parts = Vec::new();
            for key in keys {
                parts.push(over_key(shard, plan, key).await?);
            }
            parts
        }
        Aggregated::Together(keys) => {
            let mut parts = Vec::new();
            for window in keys.chunks(UNDER_WAY_MAX) {
                let reads = window.iter().map(|key| Box::pin(over_key(shard, plan, key)));
                parts.extend(join_all(reads.collect()).await.into_iter().collect::<Result<Vec<_>, Failure>>()?);
            }
            parts
        }
        Aggregated::Range(range) => {
            let mut parts = over_range(shard, plan, range).await?;
            parts.sort_by_key(|part| part.ends.first().map(|(token, _)| *token));
            parts
        }
    };
    plan.took(shard, measure, began);
    parts.retain(|part| part.rows > 0);
    Ok(merge_counted(&plan.selection, &parts))
}

/// The part of one partition.
async fn over_key(shard: &Shard, plan: &ReadPlan, key: &DecoratedKey) -> Result<RowBlock, Failure> {
    let mut blocks = Blocks::new(plan, Partitions::Key(key.clone()));
    while !blocks.take(read_request(shard, plan, blocks.next()).await?)? {}
    Ok(blocks.part())
}

/// Partitions that are read one block after another.
struct Blocks<'a> {
    plan: &'a ReadPlan,
    partitions: Partitions,
    parts: Vec<RowBlock>,
    resume: Option<Resume>,
    met: ScanCounts,
}

impl<'a> Blocks<'a> {
    fn new(plan: &'a ReadPlan, partitions: Partitions) -> Blocks<'a> {
        Blocks { plan, partitions, parts: Vec::new(), resume: None, met: ScanCounts::default() }
    }

    /// The request for the next block.
    fn next(&self) -> ReadRequest {
        self.plan.request(self.partitions.clone(), self.resume.clone(), AGGREGATE_ROWS, usize::MAX, false)
    }

    /// Takes a block. Returns whether it is the last. Fails if too many tombstones were met.
    fn take(&mut self, reply: ReadReply) -> Result<bool, Failure> {
        let key = match &self.partitions {
            Partitions::Key(key) => Some(key),
            Partitions::Range(_) => None,
        };
        self.plan.count(&mut self.met, reply.scanned, key, u64::MAX)?;
        if reply.block.rows > 0 {
            self.parts.push(reply.block);
        }
        self.resume = reply.last;
        let is_last = reply.end == ReadEnd::Exhausted;
        if is_last {
            self.plan.tombstones.end(&self.met, key, u64::MAX);
        }
        Ok(is_last)
    }

    /// The row of all blocks.
    fn part(&self) -> RowBlock {
        merge_counted(&self.plan.selection, &self.parts)
    }
}

/// The parts of an aggregate over a range.
async fn over_range(shard: &Shard, plan: &ReadPlan, range: &TokenRange) -> Result<Vec<RowBlock>, Failure> {
    let mut placement = plan.placement.clone();
    loop {
        let pieces = pieces_of(&placement, plan.terms.consistency, range)?;
        let scan = Scan { shard, plan, placement, deadline: runtime::now() };
        match over_pieces(&scan, &pieces).await {
            Ok(parts) => return Ok(parts),
            Err(Unread::Failed(failure)) => return Err(failure),
            Err(Unread::Moved) => placement = shard.placement_of(&plan.table)?,
        }
    }
}

async fn over_pieces(scan: &Scan<'_>, pieces: &[RangePiece]) -> Result<Vec<RowBlock>, Unread> {
    let mut parts = Vec::new();
    for window in pieces.chunks(WINDOW_PIECES) {
        for part in join_all(window.iter().map(|piece| over_piece(scan, piece)).collect()).await {
            parts.extend(part?);
        }
    }
    Ok(parts)
}

/// The parts of an aggregate over a piece.
async fn over_piece(scan: &Scan<'_>, piece: &RangePiece) -> Result<Vec<RowBlock>, Unread> {
    let mut asked = piece.plan.clone();
    if !asked.asks_one() {
        let mut blocks = Blocks::new(scan.plan, Partitions::Range(piece.range.clone()));
        loop {
            let deadline = runtime::now().after(scan.plan.terms.timeout);
            let call = Scan { deadline, placement: scan.placement.clone(), ..*scan };
            if blocks.take(call.reconciled(&mut asked, &blocks.next()).await?)? {
                return Ok(vec![blocks.part()]);
            }
        }
    }
    loop {
        let Some((replica, _)) = asked.targets().next() else { return Err(no_replica().into()) };
        let cores = scan.owners(replica.node).into_iter();
        let parts = join_all(cores.map(|owner| over_core(scan, owner, &piece.range)).collect()).await;
        match parts.into_iter().collect::<Option<Result<Vec<RowBlock>, Failure>>>() {
            None => return Err(asked.expired().into()),
            Some(Ok(parts)) => return Ok(parts),
            Some(Err(failure)) => scan.another(&mut asked, replica, failure)?,
        }
    }
}

/// The part of one core; `None` if a call takes too long.
async fn over_core(scan: &Scan<'_>, owner: Replica, range: &TokenRange) -> Option<Result<RowBlock, Failure>> {
    let plan = scan.plan;
    let mut blocks = Blocks::new(plan, Partitions::Range(range.clone()));
    loop {
        let read = plan.read_at(scan.shard, scan.placement.keyspace().topology(), owner, blocks.next());
        match runtime::timeout(plan.terms.timeout, read).await?.and_then(|reply| blocks.take(reply)) {
            Ok(false) => {}
            Ok(true) => return Some(Ok(blocks.part())),
            Err(failure) => return Some(Err(failure)),
        }
    }
}
