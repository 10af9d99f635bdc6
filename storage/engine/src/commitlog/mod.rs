//! The commit log of a shard: records are committed in groups, to segments whose files are recycled.
//!
//! 1. `Log::append` copies a record into the group that is open. A group that is full is sealed and waits in a queue.
//! 2. The log's task (`writer`) takes one group at a time and makes it durable with one write. When that completes, the
//!    group's writers wake; meanwhile the next group fills.
//! 3. The next segment is prepared in the background before the active one is full.
//!
//! `shard_log` is a shard's log from a start to the stop, `segment` the file format of a segment, `record` the format
//! of its records. `segment_reader` and `segment_scan` read segments at a start, `old_segments` keeps track of them,
//! and `column_mapping` translates the column ids of segments that were written before the schema had ids.
//!
//! Invariants:
//! * one write is in flight, in one segment; a segment's first group is written after the last group of the segment
//!   before;
//! * a failed write poisons the log: nothing is written after it;
//! * at most one segment's length of records waits to be written; further writers wait for permits.
//!
//! The format is in `docs/commitlog.md`.
#![doc = include_str!("../../docs/commitlog.md")]

pub(crate) mod column_mapping;
pub(crate) mod group;
pub(crate) mod old_segments;
pub mod position;
pub mod record;

pub mod segment;
pub mod segment_reader;
pub(crate) mod segment_scan;
pub(crate) mod shard_log;
pub(crate) mod writer;

use crate::error::Error;
use crate::options::SyncMode;
use group::{ADDED_BYTES_MAX, Buffers, GROUP_BYTES_MAX, Group, GroupState, Outcome};
use model::row::NO_TIMESTAMP;
use model::{ShardMap, TableId};
use position::LogPosition;
use record::RECORD_HEADER_BYTES;
use runtime::gate::{Gate, Permit, Semaphore};
use runtime::sync::Condition;
use runtime::{HashMap, Instant, JoinHandle};
use segment::{GROUP_HEADER_BYTES, HEADER_BYTES, Segment};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

/// The settings of a log.
#[derive(Clone, Debug)]
pub(crate) struct LogOptions {
    /// The directory of the segments.
    pub(crate) directory: PathBuf,
    pub(crate) sync: SyncMode,
    pub(crate) segment_bytes: u32,
    /// The shard that writes.
    pub(crate) shard: u16,
    pub(crate) shard_map: ShardMap,
    pub(crate) clock: Rc<WriteClock>,
}

/// An upper bound of the write timestamps that were given out, which the log records for the next run.
#[derive(Debug)]
pub(crate) struct WriteClock {
    /// The latest time that earlier runs recorded, microseconds since 1970; [`NO_TIMESTAMP`] if they recorded none.
    pub(crate) recorded: Cell<i64>,
    /// Microseconds by which write timestamps are ahead of the wall clock.
    pub(crate) ahead: Cell<i64>,
}

impl WriteClock {
    pub(crate) fn new() -> WriteClock {
        WriteClock { recorded: Cell::new(NO_TIMESTAMP), ahead: Cell::new(0) }
    }

    /// Takes a time that an earlier run recorded into account.
    pub(crate) fn record(&self, timestamp: i64) {
        self.recorded.set(self.recorded.get().max(timestamp));
    }

    /// The time that a group records, microseconds since 1970: no write timestamp given out so far is later.
    pub(crate) fn now(&self) -> i64 {
        runtime::wall_micros().saturating_add(self.ahead.get()).max(self.recorded.get())
    }
}

/// The log of one shard, as its writers use it. Clones share it.
#[derive(Clone)]
pub(crate) struct Log(Rc<LogState>);

/// The state that the log's users and its task share.
pub(crate) struct LogState {
    options: LogOptions,
    buffers: Buffers,
    collecting: RefCell<Option<Group>>,
    sealed: RefCell<VecDeque<Group>>,
    /// The group that is being written, if any.
    in_flight: RefCell<Option<Rc<GroupState>>>,
    active: RefCell<ActiveSegment>,
    next: RefCell<NextSegment>,
    next_counter: Cell<u64>,
    /// Full segments of this run that hold records that are still needed.
    closed: RefCell<Vec<FullSegment>>,
    /// Ids of segments whose files may be recycled.
    recyclable: RefCell<Vec<u64>>,
    /// Permits for bytes of records that are not durable yet: as many as a segment has bytes.
    pending: Semaphore,
    /// Notified when the task may have something to do.
    work: Condition,
    /// Notified when `next` or `blocked` changes.
    changed: Condition,
    /// Notified when a segment becomes full.
    full: Rc<Condition>,
    /// Whether to write the open group without waiting for its period.
    hurried: Cell<bool>,
    stopping: Cell<bool>,
    failed: RefCell<Option<(io::ErrorKind, String)>>,
    /// Why no segment could be prepared, and when to try again.
    blocked: RefCell<Option<Blocked>>,
    /// Whether a group does not fit the active segment and there is no other.
    starved: Cell<bool>,
    background: Gate,
    task: RefCell<Option<JoinHandle<()>>>,
}

#[derive(Clone)]
struct Blocked {
    kind: io::ErrorKind,
    text: String,
    until: Instant,
}

/// The segment to which groups are written.
struct ActiveSegment {
    segment: Rc<Segment>,
    /// The offset of the next group.
    offset: u32,
    /// For each table with records in the segment, the offset of the last group that has some.
    dirty: HashMap<TableId, u32>,
    /// Id and end of the previous segment, until this segment's first group has recorded them.
    previous: Option<(u64, u32)>,
}

/// The state of the segment that will follow the active one.
enum NextSegment {
    Idle,
    Preparing,
    Ready(Segment),
}

impl NextSegment {
    /// Takes the prepared segment: `None` while one is being prepared, `Some(None)` if that has not begun or has
    /// failed.
    fn take(&mut self) -> Option<Option<Segment>> {
        match std::mem::replace(self, NextSegment::Idle) {
            NextSegment::Ready(segment) => Some(Some(segment)),
            NextSegment::Idle => Some(None),
            NextSegment::Preparing => {
                *self = NextSegment::Preparing;
                None
            }
        }
    }
}

/// A point between two appended records: see [`Log::cut`].
#[derive(Clone)]
pub(crate) struct Cut {
    /// The last group before the point, if it is not durable yet.
    last: Option<Rc<GroupState>>,
    /// The position of the point, if there is no such group.
    position: LogPosition,
}

/// A full segment.
struct FullSegment {
    id: u64,
    dirty: HashMap<TableId, u32>,
}

/// Most segment files kept for recycling; others are deleted.
const RECYCLABLE_MAX: usize = 2;

/// The most bytes that a group may have to fit an empty segment with everything that the writer adds.
fn group_room(segment_bytes: u32) -> usize {
    (segment_bytes - HEADER_BYTES) as usize - ADDED_BYTES_MAX
}

impl Log {
    /// Starts the log with a first segment whose counter is `counter`. `recyclable` are segments of this length
    /// without any mutation; `ends` lists segments found at the start, and where their records end. `full` is
    /// notified whenever a segment becomes full.
    pub(crate) async fn start(
        options: LogOptions,
        counter: u64,
        recyclable: Vec<u64>,
        ends: &[(u64, u32)],
        full: Rc<Condition>,
    ) -> Result<Log, Error> {
        let header = writer::new_header(&options, counter);
        let mut recyclable = recyclable;
        // The last segment may hold the only record of the time that earlier runs reached; it stays until the new
        // segment records it.
        let first = if recyclable.len() > 1 { Some(recyclable.remove(0)) } else { None };
        let segment = match first {
            Some(old) => segment::recycle(&options.directory, old, header).await,
            None => segment::create(&options.directory, header).await,
        };
        let segment = segment.map_err(Error::Io)?;
        let pending = Semaphore::new(u64::from(options.segment_bytes));
        let log = Log(Rc::new(LogState {
            options,
            buffers: Buffers::default(),
            collecting: RefCell::default(),
            sealed: RefCell::default(),
            in_flight: RefCell::default(),
            active: RefCell::new(ActiveSegment::new(segment, None)),
            next: RefCell::new(NextSegment::Idle),
            next_counter: Cell::new(counter + 1),
            closed: RefCell::default(),
            recyclable: RefCell::new(recyclable),
            pending,
            work: Condition::default(),
            changed: Condition::default(),
            full,
            hurried: Cell::new(false),
            stopping: Cell::new(false),
            failed: RefCell::default(),
            blocked: RefCell::default(),
            starved: Cell::new(false),
            background: Gate::new(),
            task: RefCell::default(),
        }));
        log.0.write_ends(ends).await?;
        let task = runtime::spawn_in(runtime::Class::Log, writer::run(log.0.clone()));
        *log.0.task.borrow_mut() = Some(task);
        Ok(log)
    }

    /// Whether writes are acknowledged before they are durable.
    pub(crate) fn acknowledges_early(&self) -> bool {
        matches!(self.0.options.sync, SyncMode::Periodic { .. })
    }

    /// Waits for room for a mutation of this many bytes. Fails at once if it can never fit or the log takes no writes.
    pub(crate) async fn admit(&self, mutation_bytes: usize) -> Result<Permit, Error> {
        if mutation_bytes > self.0.options.segment_bytes as usize / 2 {
            return Err(Error::MutationTooLarge { bytes: mutation_bytes });
        }
        self.0.usable()?;
        let units = (RECORD_HEADER_BYTES + mutation_bytes) as u64;
        let permit = match self.0.pending.try_acquire(units) {
            Some(permit) => permit,
            None => {
                self.0.work.notify();
                self.0.acquire(units).await?
            }
        };
        self.0.usable()?;
        Ok(permit)
    }

    /// Adds an admitted mutation of `tables` to the open group. The caller must not await anything between
    /// [`Log::admit`] and this. Fails if the mutation does not fit an empty segment.
    pub(crate) fn append(
        &self,
        mutation: &[u8],
        tables: impl Iterator<Item = TableId> + Clone,
        permit: Permit,
    ) -> Result<Rc<GroupState>, Error> {
        let shared = &self.0;
        let most = group_room(shared.options.segment_bytes);
        if GROUP_HEADER_BYTES + group::mutation_bytes(mutation, tables.clone()) > most {
            return Err(Error::MutationTooLarge { bytes: mutation.len() });
        }
        let mut collecting = shared.collecting.borrow_mut();
        if collecting.as_ref().is_some_and(|g| g.bytes_with(mutation, tables.clone()) > most.min(GROUP_BYTES_MAX)) {
            shared.sealed.borrow_mut().extend(collecting.take());
        }
        let group = collecting.get_or_insert_with(|| Group::new(&shared.buffers));
        group.push(mutation, tables, permit);
        let state = group.state.clone();
        drop(collecting);
        shared.work.notify();
        Ok(state)
    }

    /// The result that a writer of a group gets for the group's outcome.
    pub(crate) fn result(outcome: Outcome) -> Result<LogPosition, Error> {
        match outcome {
            Outcome::Durable(position) => Ok(position),
            Outcome::NotWritten(kind, text, _) => Err(Error::LogFull(io::Error::new(kind, text))),
            Outcome::Failed(kind, text) => Err(Error::LogFailed(io::Error::new(kind, text))),
        }
    }

    /// Seals the open group: every record appended so far lies before the cut, every later one behind it.
    pub(crate) fn cut(&self) -> Cut {
        let shared = &self.0;
        let group = shared.collecting.borrow_mut().take();
        let mut sealed = shared.sealed.borrow_mut();
        sealed.extend(group);
        let last = sealed.back().map(|group| group.state.clone()).or_else(|| shared.in_flight.borrow().clone());
        drop(sealed);
        shared.work.notify();
        Cut { last, position: shared.active.borrow().position() }
    }

    /// Waits until everything before the cut is durable or refused for good. Returns the cut's position.
    pub(crate) async fn reach(&self, cut: &Cut) -> Result<LogPosition, Error> {
        let shared = &self.0;
        let Some(last) = &cut.last else {
            return Ok(cut.position);
        };
        // A periodic log keeps a group for which there is no room. Its writers are not waiting; a caller that does
        // must learn why.
        let outcome = shared
            .changed
            .wait(|| match last.outcome() {
                Some(outcome) => Some(Self::result(outcome)),
                None if self.acknowledges_early() => shared.starved_error().map(Err),
                None => None,
            })
            .await;
        match (outcome, last.outcome()) {
            // A group that was refused leaves nothing to wait for: its writers got the error.
            (_, Some(Outcome::NotWritten(_, _, position))) if !self.acknowledges_early() => Ok(position),
            (outcome, _) => outcome,
        }
    }

    /// Makes `group`, to which a record was just appended, durable ahead of its period. Concurrent callers share one
    /// write.
    pub(crate) async fn hurry(&self, group: Rc<GroupState>) -> Result<(), Error> {
        self.usable()?;
        let shared = &self.0;
        shared.hurried.set(true);
        shared.work.notify();
        let position = shared.active.borrow().position();
        self.reach(&Cut { last: Some(group), position }).await.map(|_| ())
    }

    /// Makes everything appended so far durable.
    pub(crate) async fn sync(&self) -> Result<(), Error> {
        self.usable()?;
        self.reach(&self.cut()).await.map(|_| ())
    }

    /// Fails if the log takes no writes: because it has failed, or because there is no room for another segment.
    pub(crate) fn usable(&self) -> Result<(), Error> {
        self.0.usable()
    }

    /// Declares that a table's records in full segments of this run are no longer needed if they lie before `before`,
    /// or all of them if it is `None`. Segments without needed records are kept for recycling or deleted.
    pub(crate) async fn release(&self, table: TableId, before: Option<LogPosition>) -> Result<(), Error> {
        let shared = &self.0;
        let mut free = Vec::new();
        shared.closed.borrow_mut().retain_mut(|closed| {
            let gone = closed.dirty.get(&table).is_some_and(|offset| {
                before.is_none_or(|before| LogPosition { segment: closed.id, offset: *offset } < before)
            });
            if gone {
                closed.dirty.remove(&table);
            }
            if closed.dirty.is_empty() {
                free.push(closed.id);
            }
            !closed.dirty.is_empty()
        });
        for id in free {
            if shared.recyclable.borrow().len() < RECYCLABLE_MAX {
                shared.recyclable.borrow_mut().push(id);
            } else {
                segment_reader::delete(&shared.options.directory, id).await.map_err(Error::Io)?;
            }
        }
        Ok(())
    }

    /// A table with records in the oldest full segment, if the full segments have more than `bytes_max` bytes
    /// together. Flushing it helps to release that segment.
    pub(crate) fn oldest_needed(&self, bytes_max: u64) -> Option<TableId> {
        let closed = self.0.closed.borrow();
        let bytes = closed.len() as u64 * u64::from(self.0.options.segment_bytes);
        let oldest = closed.iter().min_by_key(|closed| closed.id).filter(|_| bytes > bytes_max)?;
        oldest.dirty.keys().min_by_key(|table| table.0).copied()
    }

    /// Writes all groups that wait and ends the log's tasks.
    pub(crate) async fn close(&self) -> Result<(), Error> {
        let synced = self.reach(&self.cut()).await;
        self.0.stopping.set(true);
        self.0.work.notify();
        self.0.changed.notify();
        let task = self.0.task.borrow_mut().take();
        if let Some(task) = task {
            task.await;
        }
        self.0.background.close().await;
        self.0.unfailed()?;
        synced.map(|_| ())
    }
}

impl LogState {
    /// Fails if the log takes no writes: because it has failed, or because there is no room for another segment.
    fn usable(&self) -> Result<(), Error> {
        self.unfailed()?;
        match self.starved_error() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn unfailed(&self) -> Result<(), Error> {
        match &*self.failed.borrow() {
            Some((kind, text)) => Err(Error::LogFailed(io::Error::new(*kind, text.clone()))),
            None => Ok(()),
        }
    }

    /// Waits for permits; fails once it is known that there is no room for another segment for the time being.
    async fn acquire(&self, units: u64) -> Result<Permit, Error> {
        let mut acquire = pin!(self.pending.acquire(units));
        let mut starved = pin!(self.changed.wait(|| self.starved_error()));
        poll_fn(|cx| match acquire.as_mut().poll(cx) {
            Poll::Ready(permit) => Poll::Ready(Ok(permit)),
            Poll::Pending => starved.as_mut().poll(cx).map(Err),
        })
        .await
    }

    /// Why no group can be written at the moment, if there is no room for one.
    fn starved_error(&self) -> Option<Error> {
        let blocked = self.blocked.borrow();
        let blocked = blocked.as_ref().filter(|blocked| {
            let kept = matches!(self.options.sync, SyncMode::Periodic { .. });
            self.starved.get() && (kept || runtime::now() < blocked.until)
        })?;
        Some(Error::LogFull(io::Error::new(blocked.kind, blocked.text.clone())))
    }
}

impl ActiveSegment {
    fn new(segment: Segment, previous: Option<(u64, u32)>) -> ActiveSegment {
        ActiveSegment { segment: Rc::new(segment), offset: HEADER_BYTES, dirty: HashMap::default(), previous }
    }

    fn position(&self) -> LogPosition {
        LogPosition { segment: self.segment.header.id, offset: self.offset }
    }
}
