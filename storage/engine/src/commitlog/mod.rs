//! The commit log: group commit of records in recycled segments.
//!
//! 1. `Log::append` copies a record into the group that collects; a full group waits in a queue.
//! 2. The log's task (`writer`) takes one group at a time, adds the column lists that the segment lacks, and writes it
//!    with one durable write. The group's writers wake when that completes; meanwhile the next group collects.
//! 3. The next segment is prepared in the background before the active one is full.
//!
//! `shard_log` is the log over the whole run, `segment` the file format of a segment, `record` that of its records.
//! `segment_reader` and `segment_scan` read segments at a start, `old_segments` keeps track of them, and
//! `column_mapping` translates column ids of earlier runs.
//!
//! Invariants:
//! * one write is in flight, in one segment; a segment's first group follows the last group of the one before;
//! * a failed write poisons the log: nothing is written after it;
//! * at most one segment's length of records waits to be written; further writers wait in a queue.
//!
//! The format is in `docs/commitlog.md`.
#![doc = include_str!("../../docs/commitlog.md")]

pub(crate) mod column_mapping;
pub(crate) mod group;
pub(crate) mod logged_table;
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
use logged_table::LoggedTable;
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

/// How far write timestamps have come, as the log records it for the next run.
#[derive(Debug)]
pub(crate) struct WriteClock {
    /// The latest time that earlier runs recorded, microseconds; [`NO_TIMESTAMP`] if they recorded none.
    pub(crate) recorded: Cell<i64>,
    /// Microseconds by which write timestamps are ahead of the wall clock.
    pub(crate) ahead: Cell<i64>,
}

impl WriteClock {
    pub(crate) fn new() -> WriteClock {
        WriteClock { recorded: Cell::new(NO_TIMESTAMP), ahead: Cell::new(0) }
    }

    /// Notes a time that an earlier run recorded.
    pub(crate) fn record(&self, timestamp: i64) {
        self.recorded.set(self.recorded.get().max(timestamp));
    }

    /// The time that a group records: no write timestamp given out so far is later.
    pub(crate) fn now(&self) -> i64 {
        runtime::wall_micros().saturating_add(self.ahead.get()).max(self.recorded.get())
    }
}

/// The log of one shard, for writing. Cloning shares it.
#[derive(Clone)]
pub(crate) struct Log(Rc<LogState>);

/// The state that the log's users and its task share.
pub(crate) struct LogState {
    options: LogOptions,
    buffers: Buffers,
    collecting: RefCell<Option<Group>>,
    sealed: RefCell<VecDeque<Group>>,
    /// The group that is being written.
    in_flight: RefCell<Option<Rc<GroupState>>>,
    active: RefCell<ActiveSegment>,
    next: RefCell<NextSegment>,
    next_counter: Cell<u64>,
    /// Full segments of this run that hold records still needed.
    closed: RefCell<Vec<FullSegment>>,
    /// Segments whose files may be used again.
    recyclable: RefCell<Vec<u64>>,
    /// Bytes of records not yet durable.
    pending: Semaphore,
    /// Notified when there is something for the task.
    work: Condition,
    /// Notified when `next` or `blocked` changes.
    changed: Condition,
    /// Notified when a segment is full.
    full: Rc<Condition>,
    /// Whether the group that collects is to be written without waiting for its period.
    hurried: Cell<bool>,
    stopping: Cell<bool>,
    failed: RefCell<Option<(io::ErrorKind, String)>>,
    /// Why no segment could be prepared, and when the next attempt is due.
    blocked: RefCell<Option<Blocked>>,
    /// Whether a group does not fit the active segment while there is no other.
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

/// The segment that takes groups.
struct ActiveSegment {
    segment: Rc<Segment>,
    /// The offset of the next group.
    offset: u32,
    /// The tables whose column lists are in the segment.
    listed: HashMap<TableId, Rc<LoggedTable>>,
    /// The offset of the last group with records of each table.
    dirty: HashMap<TableId, u32>,
    /// Id and end of the segment before, until the first group has recorded them.
    previous: Option<(u64, u32)>,
}

/// The segment after the active one.
enum NextSegment {
    Idle,
    Preparing,
    Ready(Segment),
}

impl NextSegment {
    /// Takes the prepared segment: `None` while it is being prepared, `Some(None)` if none is.
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

/// A point in the sequence of appended records: see [`Log::cut`].
#[derive(Clone)]
pub(crate) struct Cut {
    /// The last group before it, if that is not durable yet.
    last: Option<Rc<GroupState>>,
    /// The position, if there is no such group.
    position: LogPosition,
}

/// A full segment.
struct FullSegment {
    id: u64,
    dirty: HashMap<TableId, u32>,
}

/// Files kept for reuse; further ones are deleted.
const RECYCLABLE_MAX: usize = 2;

/// The most bytes of records that a group may hold, so that it fits an empty segment with what the writer adds.
fn group_room(segment_bytes: u32) -> usize {
    (segment_bytes - HEADER_BYTES) as usize - ADDED_BYTES_MAX
}

impl Log {
    /// Starts the log with a first segment of counter `counter`. `recyclable` are segments of this length without any
    /// record; `ends` are segments found at start and where their records end.
    pub(crate) async fn start(
        options: LogOptions,
        counter: u64,
        recyclable: Vec<u64>,
        ends: &[(u64, u32)],
        full: Rc<Condition>,
    ) -> Result<Log, Error> {
        let header = writer::new_header(&options, counter);
        let mut recyclable = recyclable;
        // The last one may hold the only record of the time that earlier runs reached, until the new segment does.
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

    /// Adds an admitted mutation of `tables` to the group that collects, before anything is awaited after
    /// [`Log::admit`]. Fails if it does not fit a segment together with its tables' column lists.
    pub(crate) fn append<'t>(
        &self,
        mutation: &[u8],
        tables: impl Iterator<Item = &'t Rc<LoggedTable>> + Clone,
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

    /// The outcome of a group as its writers report it.
    pub(crate) fn result(outcome: Outcome) -> Result<LogPosition, Error> {
        match outcome {
            Outcome::Durable(position) => Ok(position),
            Outcome::NotWritten(kind, text, _) => Err(Error::LogFull(io::Error::new(kind, text))),
            Outcome::Failed(kind, text) => Err(Error::LogFailed(io::Error::new(kind, text))),
        }
    }

    /// Closes the group that collects: all records appended so far lie before the cut, later ones behind it.
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

    /// Waits until everything before the cut is durable, or known never to be; gives the position of the cut.
    pub(crate) async fn reach(&self, cut: &Cut) -> Result<LogPosition, Error> {
        let shared = &self.0;
        let Some(last) = &cut.last else {
            return Ok(cut.position);
        };
        // A periodic log keeps a group that it has no room for; a caller that waits for the group learns why.
        let outcome = shared
            .changed
            .wait(|| match last.outcome() {
                Some(outcome) => Some(Self::result(outcome)),
                None if self.acknowledges_early() => shared.starved_error().map(Err),
                None => None,
            })
            .await;
        match (outcome, last.outcome()) {
            // Its writers know that it was refused.
            (_, Some(Outcome::NotWritten(_, _, position))) if !self.acknowledges_early() => Ok(position),
            (outcome, _) => outcome,
        }
    }

    /// Makes the group durable that a record was just appended to, ahead of its period. Callers that do so at the same
    /// time share one write.
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

    /// An error if the log takes no writes: it has failed, or there is no room for another segment.
    pub(crate) fn usable(&self) -> Result<(), Error> {
        self.0.usable()
    }

    /// Releases a table's records in the full segments of this run, up to `before` (`None`: all of them). Segments in
    /// which nothing is needed any more are kept for reuse or deleted.
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

    /// A table whose flush releases the oldest full segment, if the full segments are longer than `bytes_max` in all.
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
    /// An error if the log takes no writes: it has failed, or there is no room for another segment.
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

    /// Waits for room, or until it is known that there will be none for now.
    async fn acquire(&self, units: u64) -> Result<Permit, Error> {
        let mut acquire = pin!(self.pending.acquire(units));
        let mut starved = pin!(self.changed.wait(|| self.starved_error()));
        poll_fn(|cx| match acquire.as_mut().poll(cx) {
            Poll::Ready(permit) => Poll::Ready(Ok(permit)),
            Poll::Pending => starved.as_mut().poll(cx).map(Err),
        })
        .await
    }

    /// Why no group can be written now, if there is no room for one.
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
        ActiveSegment {
            segment: Rc::new(segment),
            offset: HEADER_BYTES,
            listed: HashMap::default(),
            dirty: HashMap::default(),
            previous,
        }
    }

    fn position(&self) -> LogPosition {
        LogPosition { segment: self.segment.header.id, offset: self.offset }
    }
}
