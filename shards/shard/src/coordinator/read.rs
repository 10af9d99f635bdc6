//! Reads of named partitions: one core each, their rows in the order of the keys.

use super::too_many_calls;
use crate::guards::tombstones::{self, ScanCounts, Tombstones};
use crate::mailbox::Call;
use crate::messages::data::{ReadCall, ReadReply, ReadRequest};
use crate::messages::{Reply, Request};
use crate::metrics::Measure;
use crate::replica;
use crate::request::AckTerms;
use crate::rows::block::RowBlock;
use crate::rows::filter::RowFilter;
use crate::shard_state::Shard;
use cql::plan::Selector;
use engine::PrefetchStage;
use engine::index::IndexLookup;
use model::failure::Detail;
use model::query::{Partitions, ReadCommand, ReadEnd, Resume, Slice};
use model::{ColumnId, DecoratedKey, ErrorCode, Failure, Home, Table};
use runtime::sync::join_all;
use runtime::{Instant, ShardId};
use std::sync::Arc;

/// Bytes with which a page ends before it has all its rows.
pub(crate) const PAGE_BYTES_MAX: usize = 1 << 20;
/// Bytes of an unpaged result; one that is larger fails.
pub(crate) const RESULT_BYTES_MAX: usize = 100 << 20;
/// Visits ([`ReadCommand::VISIT_BYTES`]) with which a call to a core ends before it has all its rows.
pub(crate) const BLOCK_VISITS_MAX: u64 = 1 << 16;
/// Room that goes with a read to another core for its rows: those of a small row fit.
const REPLY_ROOM_BYTES: usize = 512;
/// Partitions of an IN that are read at the same time.
const WINDOW_KEYS: usize = 16;

/// What all parts of one SELECT have in common.
pub(crate) struct ReadPlan {
    /// The table.
    pub(crate) table: Arc<Table>,
    /// Whether it lives on shard 0.
    pub(crate) home: Home,
    /// The result's columns.
    pub(crate) selection: Arc<[Selector]>,
    /// See [`ReadCommand::row_columns`].
    pub(crate) row_columns: Option<Arc<[ColumnId]>>,
    /// Which rows of each partition.
    pub(crate) slices: Arc<[Slice]>,
    /// What rows are asked for before they count.
    pub(crate) filter: Option<Arc<RowFilter>>,
    /// The index that leads to the rows.
    pub(crate) index: Option<IndexLookup>,
    /// PER PARTITION LIMIT, and 1 for DISTINCT; [`u64::MAX`] without.
    pub(crate) per_partition_max: u64,
    /// Whether static columns are shown or asked for.
    pub(crate) wants_static: bool,
    /// Whether a partition with static content alone counts as a row.
    pub(crate) static_only: bool,
    /// Last row first.
    pub(crate) reversed: bool,
    /// Seconds since 1970.
    pub(crate) now_in_seconds: i64,
    /// Level and deadline.
    pub(crate) terms: AckTerms,
    /// How many tombstones it may meet, and what it met.
    pub(crate) tombstones: Tombstones,
}

/// How much a page may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageLimits {
    /// Rows, at least 1.
    pub(crate) rows_max: u64,
    /// Bytes that end a page; `None` for an unpaged result, which goes on to [`RESULT_BYTES_MAX`].
    pub(crate) bytes_max: Option<usize>,
}

impl PageLimits {
    /// Bytes of one block.
    pub(crate) fn block_bytes(&self) -> usize {
        self.bytes_max.unwrap_or(PAGE_BYTES_MAX)
    }
}

/// A page of rows and, if it was stopped by its limits, its last row.
#[derive(Default)]
pub(crate) struct Page {
    /// The rows.
    pub(crate) block: RowBlock,
    /// Where to go on; `None`: nothing is left.
    pub(crate) stopped_at: Option<Resume>,
}

impl ReadPlan {
    /// A request for a part of this plan.
    pub(crate) fn request(
        &self,
        partitions: Partitions,
        resume: Option<Resume>,
        rows_max: u64,
        bytes_max: usize,
        places: bool,
    ) -> ReadRequest {
        let (resume, resume_partition_rows) = match resume {
            Some(Resume { position, partition_rows }) => (Some(position), partition_rows),
            None => (None, 0),
        };
        let command = ReadCommand {
            table: self.table.id,
            now_in_seconds: self.now_in_seconds,
            partitions,
            slices: self.slices.clone(),
            reversed: self.reversed,
            rows_max,
            per_partition_max: self.per_partition_max,
            visits_max: BLOCK_VISITS_MAX,
            resume,
            resume_partition_rows,
            wants_static: self.wants_static,
            static_only: self.static_only,
            row_columns: self.row_columns.clone(),
        };
        let (selection, filter, index) = (self.selection.clone(), self.filter.clone(), self.index.clone());
        ReadRequest { command, selection, filter, index, bytes_max, places }
    }

    /// A replica's failure, as a client is told of it.
    #[cold]
    pub(crate) fn failed(&self, failure: Failure) -> Failure {
        if failure.code != ErrorCode::ReadFailure || failure.detail != Detail::None {
            return failure;
        }
        failure.with(Detail::ReadFailure {
            consistency: self.terms.consistency,
            received: 0,
            block_for: self.terms.block_for as i32,
            failures: Vec::new(),
            data_present: false,
        })
    }

    /// Adds what a part of a read met; fails if that is too much. `limit`: the rows that the read was asked for.
    pub(crate) fn count(
        &self,
        shard: &Shard,
        met: &mut ScanCounts,
        part: ScanCounts,
        key: Option<&DecoratedKey>,
        limit: u64,
    ) -> Result<(), Failure> {
        met.add(part);
        match met.dead > 0 && self.tombstones.are_too_many(met, key, limit) {
            true => {
                Err(tombstones::failure(shard.config().storage_address(), self.terms.consistency, self.terms.block_for))
            }
            false => Ok(()),
        }
    }

    /// Records how long a part of the read took. Tables without storage have no figures.
    pub(crate) fn took(&self, shard: &Shard, measure: Measure, began: Instant) {
        if !self.table.is_virtual() {
            shard.metrics().took(&self.table.id, measure, began);
        }
    }

    /// The failure of a read that took too long.
    pub(crate) fn timed_out(&self) -> Failure {
        let detail = Detail::ReadTimeout {
            consistency: self.terms.consistency,
            received: 0,
            block_for: self.terms.block_for as i32,
            data_present: false,
        };
        Failure::new(ErrorCode::ReadTimeout, "Operation timed out - received only 0 responses.").with(detail)
    }
}

/// One read on the core that owns it.
pub(crate) async fn read_on(shard: &Shard, to: ShardId, request: ReadRequest) -> Result<ReadReply, Failure> {
    if to == shard.id() {
        return replica::read(shard, &request).await;
    }
    call(shard, to, request)?.await.read()
}

/// Sends a read to the core that owns what it reads.
fn call(shard: &Shard, to: ShardId, request: ReadRequest) -> Result<Call, Failure> {
    if !shard.mailbox().has_room() {
        return Err(too_many_calls());
    }
    let room = Vec::with_capacity(REPLY_ROOM_BYTES);
    Ok(shard.mailbox().call(to, Request::Read(Box::new(ReadCall { request, room, result: None }))))
}

/// A read of one partition that was begun.
pub(crate) enum Begun {
    /// It needed no wait.
    Done(ReadReply),
    /// It is still to be done: on the core that owns it, or with a wait here. When it began.
    Open(ReadRequest, ShardId, Instant),
}

/// Begins a read of one partition: all of it, where it is at hand.
pub(crate) fn begin_key(
    shard: &Shard,
    plan: &ReadPlan,
    key: DecoratedKey,
    resume: Option<Resume>,
    limits: PageLimits,
    places: bool,
) -> Result<Begun, Failure> {
    let to = shard.route(plan.home, key.token);
    if to == shard.id() {
        shard.store().prefetch(plan.table.id, key.token, PrefetchStage::Partition);
    }
    let request = plan.request(Partitions::Key(key), resume, limits.rows_max, limits.block_bytes(), places);
    let began = runtime::now();
    if to != shard.id() {
        return Ok(Begun::Open(request, to, began));
    }
    match replica::read_now(shard, &request, Vec::new()) {
        None => Ok(Begun::Open(request, to, began)),
        Some(Ok(reply)) => {
            shard.metrics().read_here(&plan.table.id, began, reply.scanned);
            Ok(Begun::Done(reply))
        }
        Some(Err(failure)) => Err(plan.failed(failure)),
    }
}

/// Ends a read that [`begin_key`] began, within the deadline.
async fn end_key(shard: &Shard, plan: &ReadPlan, begun: Begun) -> Result<ReadReply, Failure> {
    let (request, to, began) = match begun {
        Begun::Done(reply) => return Ok(reply),
        Begun::Open(request, to, began) => (request, to, began),
    };
    let read = if to == shard.id() {
        // Boxed: what has to wait must not make the requests larger that do not.
        Box::pin(runtime::timeout(plan.terms.timeout, replica::read_waiting(shard, &request))).await
    } else {
        let call = call(shard, to, request)?;
        runtime::timeout(plan.terms.timeout, call).await.map(Reply::read)
    };
    match read {
        Some(result) => {
            plan.took(shard, Measure::CoordinatorRead, began);
            result.map_err(|failure| plan.failed(failure))
        }
        None => Err(plan.timed_out()),
    }
}

/// One read of one partition, within the deadline.
pub(crate) async fn read_key(
    shard: &Shard,
    plan: &ReadPlan,
    key: DecoratedKey,
    resume: Option<Resume>,
    limits: PageLimits,
    places: bool,
) -> Result<ReadReply, Failure> {
    end_key(shard, plan, begin_key(shard, plan, key, resume, limits, places)?).await
}

/// A page that is being filled with the rows of partitions.
struct Filling {
    limits: PageLimits,
    out: RowBlock,
    /// What was met in the partition that is read.
    met: ScanCounts,
    /// The rows that the page could still take when that partition began.
    asked: u64,
}

/// What comes after a part of a page.
enum Filled {
    /// Nothing: it is complete.
    Page(Page),
    /// The rest of the same partition, whose part ended by the size of a block.
    Same(Option<Resume>),
    /// The next partition.
    Next,
}

impl Filling {
    fn new(limits: PageLimits) -> Filling {
        Filling { limits, out: RowBlock::default(), met: ScanCounts::default(), asked: limits.rows_max }
    }

    /// What the rest of the page may hold.
    fn left(&self) -> PageLimits {
        PageLimits { rows_max: self.limits.rows_max - u64::from(self.out.rows), ..self.limits }
    }

    fn page(&mut self, stopped_at: Option<Resume>) -> Page {
        Page { block: std::mem::take(&mut self.out), stopped_at }
    }

    /// Adds what was read of the partition of `key`.
    fn add(&mut self, shard: &Shard, plan: &ReadPlan, key: &DecoratedKey, reply: ReadReply) -> Result<Filled, Failure> {
        let limits = self.limits;
        plan.count(shard, &mut self.met, reply.scanned, Some(key), self.asked)?;
        let left = (limits.rows_max - u64::from(self.out.rows)) as usize;
        let rows = reply.block.rows as usize;
        let bytes_left = limits.bytes_max.map(|bytes_max| bytes_max.saturating_sub(self.out.bytes.len()));
        let filled = bytes_left.and_then(|left| reply.block.ends.iter().position(|(_, end)| *end as usize >= left));
        if let Some(filled) = filled.filter(|filled| *filled < left) {
            // The row that reaches the bytes is the page's last, even if the block goes on.
            append(&mut self.out, reply.block, filled + 1)?;
            plan.tombstones.end(&self.met, Some(key), self.asked);
            return Ok(Filled::Page(self.page(Some(reply.places.resume(filled)))));
        }
        if rows > left || rows == left && rows > 0 {
            let stopped_at = if rows == left { reply.last } else { None };
            let stopped_at =
                stopped_at.or_else(|| (!reply.block.ends.is_empty()).then(|| reply.places.resume(left - 1)));
            append(&mut self.out, reply.block, left)?;
            plan.tombstones.end(&self.met, Some(key), self.asked);
            return Ok(Filled::Page(self.page(stopped_at)));
        }
        let last = reply.last;
        append(&mut self.out, reply.block, rows)?;
        if last.is_some() && limits.bytes_max.is_some_and(|bytes_max| self.out.bytes.len() >= bytes_max) {
            plan.tombstones.end(&self.met, Some(key), self.asked);
            return Ok(Filled::Page(self.page(last)));
        }
        if reply.end == ReadEnd::Stopped {
            return Ok(Filled::Same(last));
        }
        plan.tombstones.end(&self.met, Some(key), self.asked);
        self.met = ScanCounts::default();
        self.asked = match limits.rows_max {
            u64::MAX => u64::MAX,
            rows_max => rows_max - u64::from(self.out.rows),
        };
        Ok(Filled::Next)
    }
}

/// A page of which some is read.
pub(crate) struct Part {
    filling: Filling,
    /// Where to go on.
    resume: Option<Resume>,
    /// The read of the only key.
    begun: Option<Begun>,
}

/// Begins a page of the rows of `keys`, in their order, after `resume`, whose partition is `keys[0]`. One partition
/// that is at hand, as for most reads, fills `page` at once; else what is given is the rest, for [`read_rest`].
pub(crate) fn begin_keys(
    shard: &Shard,
    plan: &ReadPlan,
    keys: &[DecoratedKey],
    resume: Option<Resume>,
    limits: PageLimits,
    page: &mut Page,
) -> Result<Option<Box<Part>>, Failure> {
    let mut filling = Filling::new(limits);
    let [key] = keys else { return Ok(Some(Box::new(Part { filling, resume, begun: None }))) };
    let (resume, begun) = match begin_key(shard, plan, key.clone(), resume, limits, false)? {
        Begun::Done(reply) => match filling.add(shard, plan, key, reply)? {
            Filled::Page(filled) => {
                *page = filled;
                return Ok(None);
            }
            Filled::Next => {
                *page = filling.page(None);
                return Ok(None);
            }
            Filled::Same(resume) => (resume, None),
        },
        open => (None, Some(open)),
    };
    Ok(Some(Box::new(Part { filling, resume, begun })))
}

/// Reads what is missing of a page.
pub(crate) async fn read_rest(
    shard: &Shard,
    plan: &ReadPlan,
    keys: &[DecoratedKey],
    part: Box<Part>,
) -> Result<Page, Failure> {
    let Part { mut filling, mut resume, mut begun } = *part;
    let mut next = 0;
    while next < keys.len() {
        let window = &keys[next..keys.len().min(next + WINDOW_KEYS)];
        let places = window.len() > 1;
        let part = filling.left();
        let mut one = None;
        let mut several = Vec::new();
        if let [key] = window {
            let begun = match begun.take() {
                Some(begun) => begun,
                None => begin_key(shard, plan, key.clone(), resume.take(), part, places)?,
            };
            one = Some(end_key(shard, plan, begun).await);
        } else {
            let mut resume = resume.take();
            let reads = window.iter().map(|key| read_key(shard, plan, key.clone(), resume.take(), part, places));
            several = Box::pin(join_all(reads.collect())).await;
        }
        for (key, reply) in window.iter().zip(one.into_iter().chain(several)) {
            match filling.add(shard, plan, key, reply?)? {
                Filled::Page(page) => return Ok(page),
                Filled::Same(at) => {
                    resume = at;
                    break;
                }
                Filled::Next => next += 1,
            }
        }
    }
    Ok(filling.page(None))
}

/// Appends the first `rows` rows of a block.
pub(crate) fn append(out: &mut RowBlock, block: RowBlock, rows: usize) -> Result<(), Failure> {
    if rows == 0 {
        return Ok(());
    }
    let end = match block.ends.get(rows - 1) {
        Some((_, end)) => *end as usize,
        None => block.bytes.len(),
    };
    if out.bytes.len() + end > RESULT_BYTES_MAX {
        return Err(result_too_large());
    }
    if out.rows == 0 && end == block.bytes.len() {
        *out = RowBlock { ends: Vec::new(), ..block };
        return Ok(());
    }
    out.bytes.extend_from_slice(&block.bytes[..end]);
    out.rows += rows as u32;
    Ok(())
}

/// A result that does not fit into one answer.
pub(crate) fn result_too_large() -> Failure {
    Failure::invalid(format!("The result is larger than {RESULT_BYTES_MAX} bytes; ask for it in pages"))
}
