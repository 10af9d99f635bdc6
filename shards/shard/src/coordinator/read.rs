//! Reads of named partitions: each is read on its core, and their rows are returned in the order of the keys.
//!
//! Most reads are of one partition that this core has in memory. So each step is a pair: `read_*_now` answers without
//! awaiting, or returns what is pending; `finish_*` is its async twin.

use super::asked_replica::{AskedReplica, no_replica, pieces_of, too_many_tombstones};
use super::comparing;
use super::hot_reads;
use super::remote::Asked;
use super::too_many_calls;
use crate::guards::filtering::FilteredRows;
use crate::guards::tombstones::{ScanCounts, Tombstones};
use crate::mailbox::Call;
use crate::messages::data::{DigestReply, ReadCall, ReadReply, ReadRequest};
use crate::messages::{Reply, Request};
use crate::metrics::Measure;
use crate::replica;
use crate::request::AckTerms;
use crate::rows::block::RowBlock;
use crate::rows::filter::RowFilter;
use crate::shard_state::Shard;
use cluster::placement::{Replica, TablePlacement};
use cluster::plan::NextRead;
use cluster::topology::Topology;
use cql::plan::Selector;
use engine::PrefetchStage;
use engine::index::IndexLookup;
use model::query::{Partitions, ReadCommand, ReadEnd, Resume, Slice};
use model::{ColumnId, DecoratedKey, Failure, Table, TokenRange};
use runtime::sync::{boxed, join_all};
use runtime::{Instant, ShardId};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// A page ends when it has this many bytes, even if it lacks rows.
pub(crate) const PAGE_BYTES_MAX: usize = 1 << 20;
/// Most bytes of an unpaged result; a larger one fails.
pub(crate) const RESULT_BYTES_MAX: usize = 100 << 20;
/// A call to a core ends after this many visits ([`ReadCommand::VISIT_BYTES`]), even if it lacks rows.
pub(crate) const BLOCK_VISITS_MAX: u64 = 1 << 16;
/// Bytes of memory that a read sends along to another core for the rows; a small row fits.
const REPLY_ROOM_BYTES: usize = 512;
/// Partitions of an IN that are read concurrently.
const WINDOW_KEYS: usize = 16;

/// What all reads of one SELECT have in common.
pub(crate) struct ReadPlan {
    /// The table.
    pub(crate) table: Arc<Table>,
    /// Where the table's partitions are.
    pub(crate) placement: Rc<TablePlacement>,
    /// The columns of the result.
    pub(crate) selection: Arc<[Selector]>,
    /// See [`ReadCommand::row_columns`].
    pub(crate) row_columns: Option<Arc<[ColumnId]>>,
    /// The rows to read in each partition.
    pub(crate) slices: Arc<[Slice]>,
    /// Conditions that a row must meet to be returned.
    pub(crate) filter: Option<Arc<RowFilter>>,
    /// The index through which the rows are found.
    pub(crate) index: Option<IndexLookup>,
    /// PER PARTITION LIMIT, or 1 for DISTINCT; [`u64::MAX`] without either.
    pub(crate) per_partition_max: u64,
    /// Whether static columns are selected or filtered by.
    pub(crate) wants_static: bool,
    /// Whether a partition that has only static content counts as a row.
    pub(crate) static_only: bool,
    /// Whether rows are read last to first.
    pub(crate) reversed: bool,
    /// The request's time, by which cells have expired; seconds since 1970.
    pub(crate) now_in_seconds: i64,
    /// Consistency level and deadline.
    pub(crate) terms: AckTerms,
    /// Thresholds for tombstones, and the tombstones that were met.
    pub(crate) tombstones: Tombstones,
    /// Thresholds for rows that are filtered after replicas were merged, and whether they were met.
    pub(crate) filtered: FilteredRows,
    /// Rows and tombstones that were looked at.
    pub(crate) looked_at: Cell<u64>,
}

/// The limits of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageLimits {
    /// Rows, at least 1.
    pub(crate) rows_max: u64,
    /// The page ends when it has this many bytes; `None` for an unpaged result, which may grow to [`RESULT_BYTES_MAX`].
    pub(crate) bytes_max: Option<usize>,
}

impl PageLimits {
    /// Bytes at which one block of the page ends.
    pub(crate) fn block_bytes(&self) -> usize {
        self.bytes_max.unwrap_or(PAGE_BYTES_MAX)
    }
}

/// A page of rows.
#[derive(Default)]
pub(crate) struct Page {
    /// The rows.
    pub(crate) block: RowBlock,
    /// The position to continue from; `None` if nothing is left.
    pub(crate) stopped_at: Option<Resume>,
}

impl ReadPlan {
    /// A request for one read of this plan.
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

    /// The replica to read a partition from.
    ///
    /// # Errors
    /// Unavailable if too few replicas are alive.
    #[inline]
    pub(crate) fn ask_partition(&self, key: &DecoratedKey) -> Result<AskedReplica, Failure> {
        AskedReplica::of_partition(&self.placement, self.terms.consistency, key)
    }

    /// Adds the counts of one read to `met`. Fails if they exceed the tombstone threshold. `limit` is the number of
    /// rows that the read was asked for.
    pub(crate) fn count(
        &self,
        met: &mut ScanCounts,
        part: ScanCounts,
        key: Option<&DecoratedKey>,
        limit: u64,
    ) -> Result<(), Failure> {
        met.add(part);
        self.looked_at.set(self.looked_at.get() + part.live + part.dead);
        match met.dead > 0 && self.tombstones.are_too_many(met, key, limit) {
            true => Err(self.too_many_tombstones(key)),
            false => Ok(()),
        }
    }

    #[cold]
    fn too_many_tombstones(&self, key: Option<&DecoratedKey>) -> Failure {
        let (level, topology) = (self.terms.consistency, self.topology());
        let told = match key {
            Some(key) => self.ask_partition(key).map(|asked| asked.met_too_many_tombstones(topology)),
            None => pieces_of(&self.placement, level, &TokenRange::FULL).map(|mut pieces| match pieces.first_mut() {
                Some(first) => first.plan.refused(&too_many_tombstones(), topology),
                None => no_replica(),
            }),
        };
        told.unwrap_or_else(|unavailable| unavailable)
    }

    /// The nodes by which the read is planned.
    pub(crate) fn topology(&self) -> &Rc<Topology> {
        self.placement.keyspace().topology()
    }

    /// Reads a partition, or the part of a range that one core has, on that core of that node of `topology`.
    pub(crate) async fn read_at(
        &self,
        shard: &Shard,
        topology: &Rc<Topology>,
        at: Replica,
        request: ReadRequest,
    ) -> Result<ReadReply, Failure> {
        if at.node == topology.here() {
            return read_on(shard, ShardId(at.shard), request).await;
        }
        let asked = Asked::new(topology, at.node, self.terms.timeout);
        Box::pin(async move { asked.read(shard, &self.table, at, &request).await }).await
    }

    /// Records the latency of one read. Tables without storage have no metrics.
    pub(crate) fn took(&self, shard: &Shard, measure: Measure, began: Instant) {
        if !self.table.is_virtual() {
            shard.metrics().took(&self.table.id, measure, began);
        }
    }
}

/// Reads on the core `to`, which owns what is read.
pub(crate) async fn read_on(shard: &Shard, to: ShardId, request: ReadRequest) -> Result<ReadReply, Failure> {
    if to == shard.id() {
        return replica::read(shard, &request).await;
    }
    call(shard, to, request)?.await.read()
}

/// Reads on the core `to`, which owns what is read, with a digest. The future of a read that must wait is boxed: most
/// reads need not.
pub(crate) async fn read_digest_on(shard: &Shard, to: ShardId, request: &ReadRequest) -> Result<DigestReply, Failure> {
    if to == shard.id() {
        return match replica::fragments::read_digest_now(shard, request) {
            Some(result) => result,
            None => Box::pin(replica::fragments::read_digest(shard, request)).await,
        };
    }
    if !shard.mailbox().has_room() {
        return Err(too_many_calls());
    }
    Box::pin(shard.mailbox().call(to, Request::ReadDigest(Box::new(request.clone())))).await.digest()
}

/// Sends a read to the core `to`, which owns what is read.
fn call(shard: &Shard, to: ShardId, request: ReadRequest) -> Result<Call, Failure> {
    if !shard.mailbox().has_room() {
        return Err(too_many_calls());
    }
    let room = Vec::with_capacity(REPLY_ROOM_BYTES);
    Ok(shard.mailbox().call(to, Request::Read(Box::new(ReadCall { request, room, result: None }))))
}

/// A read of one partition, as far as it could go without awaiting.
pub(crate) enum KeyRead {
    /// The answer.
    Done(ReadReply),
    /// The read must go to other cores or nodes or wait on this one.
    Pending(Box<PendingRead>),
}

/// A read of one partition that must wait.
pub(crate) struct PendingRead {
    pub(super) request: ReadRequest,
    pub(super) asked: AskedReplica,
    pub(super) began: Instant,
}

/// Reads one partition without awaiting if this core has it in memory; otherwise [`finish_key`] must do the rest.
pub(crate) fn read_key_now(
    shard: &Shard,
    plan: &ReadPlan,
    key: DecoratedKey,
    resume: Option<Resume>,
    limits: PageLimits,
    places: bool,
) -> Result<KeyRead, Failure> {
    let asked = plan.ask_partition(&key)?;
    let is_here = is_here(shard, plan, &asked);
    if is_here {
        shard.store().prefetch(plan.table.id, key.token, PrefetchStage::Partition);
    }
    let request = plan.request(Partitions::Key(key), resume, limits.rows_max, limits.block_bytes(), places);
    begin(shard, plan, request, asked, is_here)
}

/// Begins the read of one partition, and finishes it if it `is_here`, on this core alone, and can be read at once.
#[inline]
fn begin(
    shard: &Shard,
    plan: &ReadPlan,
    request: ReadRequest,
    mut asked: AskedReplica,
    is_here: bool,
) -> Result<KeyRead, Failure> {
    let began = runtime::now();
    let pending = |request, asked| Ok(KeyRead::Pending(Box::new(PendingRead { request, asked, began })));
    if !is_here {
        return pending(request, asked);
    }
    match replica::read_now(shard, &request, Vec::new()) {
        None => pending(request, asked),
        Some(Ok(reply)) => {
            asked.answered();
            shard.metrics().read_here(&plan.table.id, began, reply.scanned);
            Ok(KeyRead::Done(reply))
        }
        Some(Err(failure)) => match asked.plan.failed(asked.replica, failure, plan.topology()) {
            Some(NextRead::Ask(..)) => pending(request, asked),
            Some(NextRead::Fail(failure)) => Err(failure),
            Some(NextRead::Complete) | None => Err(no_replica()),
        },
    }
}

/// Whether the partition is read on this core, and nowhere else.
fn is_here(shard: &Shard, plan: &ReadPlan, asked: &AskedReplica) -> bool {
    ShardId(asked.replica.shard) == shard.id() && asked.replica.node == plan.topology().here() && asked.plan.asks_one()
}

/// Finishes a read that [`read_key_now`] began, within the deadline.
async fn finish_key(shard: &Shard, plan: &ReadPlan, begun: KeyRead) -> Result<ReadReply, Failure> {
    let pending = match begun {
        KeyRead::Done(reply) => return Ok(reply),
        KeyRead::Pending(pending) => pending,
    };
    if let Some(partition) = hot_reads::partition_of(shard, plan, &pending) {
        return boxed(|| hot_reads::read(shard, plan, partition, *pending)).await;
    }
    finish_alone(shard, plan, pending).await
}

/// Finishes a read by itself.
pub(super) async fn finish_alone(
    shard: &Shard,
    plan: &ReadPlan,
    pending: Box<PendingRead>,
) -> Result<ReadReply, Failure> {
    if pending.asked.plan.has_choice() {
        let PendingRead { request, asked, began } = *pending;
        let Partitions::Key(key) = &request.command.partitions else { return Err(no_replica()) };
        let reply = boxed(|| comparing::read(shard, plan, key, asked.plan, &request, began)).await;
        plan.took(shard, Measure::CoordinatorRead, began);
        return reply;
    }
    boxed(|| finish_at_one(shard, plan, *pending)).await
}

/// Finishes a read that no other replica can answer.
async fn finish_at_one(shard: &Shard, plan: &ReadPlan, pending: PendingRead) -> Result<ReadReply, Failure> {
    let PendingRead { request, asked, began } = pending;
    let to = ShardId(asked.replica.shard);
    let read = if asked.replica.node != plan.topology().here() {
        Some(plan.read_at(shard, plan.topology(), asked.replica, request).await)
    } else if to == shard.id() {
        // Boxed, so that reads that do not wait have smaller futures.
        Box::pin(runtime::timeout(plan.terms.timeout, replica::read_waiting(shard, &request))).await
    } else {
        let call = call(shard, to, request)?;
        runtime::timeout(plan.terms.timeout, call).await.map(Reply::read)
    };
    match read {
        Some(result) => {
            plan.took(shard, Measure::CoordinatorRead, began);
            asked.finish(plan.topology(), result)
        }
        None => Err(asked.expired()),
    }
}

/// Reads as `request` says, which names one partition, within the deadline.
pub(crate) async fn read_request(shard: &Shard, plan: &ReadPlan, request: ReadRequest) -> Result<ReadReply, Failure> {
    let Partitions::Key(key) = &request.command.partitions else { return Err(no_replica()) };
    let asked = plan.ask_partition(key)?;
    let is_here = is_here(shard, plan, &asked);
    let begun = begin(shard, plan, request, asked, is_here)?;
    finish_key(shard, plan, begun).await
}

/// Reads one partition within the deadline.
pub(crate) async fn read_key(
    shard: &Shard,
    plan: &ReadPlan,
    key: DecoratedKey,
    resume: Option<Resume>,
    limits: PageLimits,
    places: bool,
) -> Result<ReadReply, Failure> {
    finish_key(shard, plan, read_key_now(shard, plan, key, resume, limits, places)?).await
}

/// A page under construction: rows of one partition after another.
struct PageBuilder {
    limits: PageLimits,
    out: RowBlock,
    /// Live rows and tombstones met in the current partition.
    met: ScanCounts,
    /// How many rows the page could still take when the current partition began.
    asked: u64,
}

/// What follows after a block was added to a page.
enum AddedPart {
    /// Nothing: the page is complete.
    PageDone(Page),
    /// The rest of the same partition, whose block was full.
    SamePartition(Option<Resume>),
    /// The next partition.
    NextPartition,
}

impl PageBuilder {
    fn new(limits: PageLimits) -> PageBuilder {
        PageBuilder { limits, out: RowBlock::default(), met: ScanCounts::default(), asked: limits.rows_max }
    }

    /// The limits of what the page still lacks.
    fn left(&self) -> PageLimits {
        PageLimits { rows_max: self.limits.rows_max - u64::from(self.out.rows), ..self.limits }
    }

    fn page(&mut self, stopped_at: Option<Resume>) -> Page {
        Page { block: std::mem::take(&mut self.out), stopped_at }
    }

    /// Adds the rows that were read from the partition of `key`.
    fn add(&mut self, plan: &ReadPlan, key: &DecoratedKey, reply: ReadReply) -> Result<AddedPart, Failure> {
        let limits = self.limits;
        plan.count(&mut self.met, reply.scanned, Some(key), self.asked)?;
        let left = (limits.rows_max - u64::from(self.out.rows)) as usize;
        let rows = reply.block.rows as usize;
        let bytes_left = limits.bytes_max.map(|bytes_max| bytes_max.saturating_sub(self.out.bytes.len()));
        let filled = bytes_left.and_then(|left| reply.block.ends.iter().position(|(_, end)| *end as usize >= left));
        if let Some(filled) = filled.filter(|filled| *filled < left) {
            // The row with which the page has enough bytes is its last, even if the block has more.
            append(&mut self.out, reply.block, filled + 1)?;
            plan.tombstones.end(&self.met, Some(key), self.asked);
            return Ok(AddedPart::PageDone(self.page(Some(reply.places.resume(key.partitioner, filled)))));
        }
        if rows > left || rows == left && rows > 0 {
            let stopped_at = if rows == left { reply.last } else { None };
            let stopped_at = stopped_at
                .or_else(|| (!reply.block.ends.is_empty()).then(|| reply.places.resume(key.partitioner, left - 1)));
            append(&mut self.out, reply.block, left)?;
            plan.tombstones.end(&self.met, Some(key), self.asked);
            return Ok(AddedPart::PageDone(self.page(stopped_at)));
        }
        let last = reply.last;
        append(&mut self.out, reply.block, rows)?;
        if last.is_some() && limits.bytes_max.is_some_and(|bytes_max| self.out.bytes.len() >= bytes_max) {
            plan.tombstones.end(&self.met, Some(key), self.asked);
            return Ok(AddedPart::PageDone(self.page(last)));
        }
        if reply.end == ReadEnd::Stopped {
            return Ok(AddedPart::SamePartition(last));
        }
        plan.tombstones.end(&self.met, Some(key), self.asked);
        self.met = ScanCounts::default();
        self.asked = match limits.rows_max {
            u64::MAX => u64::MAX,
            rows_max => rows_max - u64::from(self.out.rows),
        };
        Ok(AddedPart::NextPartition)
    }
}

/// A page that must await reads.
pub(crate) struct UnfinishedPage {
    builder: PageBuilder,
    /// The position to continue from.
    resume: Option<Resume>,
    /// The read of the only key, if it was begun.
    begun: Option<KeyRead>,
}

/// Reads a page of the rows of `keys` without awaiting, in their order. It starts after `resume`, whose partition is
/// `keys[0]`. If there is one partition and it is in memory, as in most reads, fills `page`; otherwise returns the rest
/// for [`finish_page`].
pub(crate) fn read_page_now(
    shard: &Shard,
    plan: &ReadPlan,
    keys: &[DecoratedKey],
    resume: Option<Resume>,
    limits: PageLimits,
    page: &mut Page,
) -> Result<Option<Box<UnfinishedPage>>, Failure> {
    let mut builder = PageBuilder::new(limits);
    let [key] = keys else { return Ok(Some(Box::new(UnfinishedPage { builder, resume, begun: None }))) };
    let (resume, begun) = match read_key_now(shard, plan, key.clone(), resume, limits, false)? {
        KeyRead::Done(reply) => match builder.add(plan, key, reply)? {
            AddedPart::PageDone(filled) => {
                *page = filled;
                return Ok(None);
            }
            AddedPart::NextPartition => {
                *page = builder.page(None);
                return Ok(None);
            }
            AddedPart::SamePartition(resume) => (resume, None),
        },
        pending => (None, Some(pending)),
    };
    Ok(Some(Box::new(UnfinishedPage { builder, resume, begun })))
}

/// Finishes a page that [`read_page_now`] began.
pub(crate) async fn finish_page(
    shard: &Shard,
    plan: &ReadPlan,
    keys: &[DecoratedKey],
    mut part: Box<UnfinishedPage>,
) -> Result<Page, Failure> {
    let UnfinishedPage { builder, resume, begun } = &mut *part;
    let mut next = 0;
    while next < keys.len() {
        let window = &keys[next..keys.len().min(next + WINDOW_KEYS)];
        let places = window.len() > 1;
        let part = builder.left();
        let mut one = None;
        let mut several = Vec::new();
        if let [key] = window {
            let begun = match begun.take() {
                Some(begun) => begun,
                None => read_key_now(shard, plan, key.clone(), resume.take(), part, places)?,
            };
            one = Some(finish_key(shard, plan, begun).await);
        } else {
            let mut resume = resume.take();
            let reads = window.iter().map(|key| read_key(shard, plan, key.clone(), resume.take(), part, places));
            several = Box::pin(join_all(reads.collect())).await;
        }
        for (key, reply) in window.iter().zip(one.into_iter().chain(several)) {
            match builder.add(plan, key, reply?)? {
                AddedPart::PageDone(page) => return Ok(page),
                AddedPart::SamePartition(at) => {
                    *resume = at;
                    break;
                }
                AddedPart::NextPartition => next += 1,
            }
        }
    }
    Ok(builder.page(None))
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

/// The failure of a read whose result does not fit into one answer.
pub(crate) fn result_too_large() -> Failure {
    Failure::invalid(format!("The result is larger than {RESULT_BYTES_MAX} bytes; ask for it in pages"))
}
