//! The log's task: it writes one durable group at a time and has the next segment prepared in the background.
//!
//! If no segment can be prepared, usually because the disk is full, no byte of the group has been written: its
//! writers get a definite error, and the log tries again with later groups, but no sooner than [`RETRY_AFTER`]. A
//! periodic log has acknowledged its writes already; it keeps the group until it can be written and refuses new
//! writes meanwhile.

use super::group::{ADDED_BYTES_MAX, Group, GroupWaiters, Outcome};
use super::position::LogPosition;
use super::record::{TIMESTAMP_BYTES, push_ends, push_timestamp};
use super::segment::{self, ColumnIds, HEADER_BYTES, Header, Segment, id_of};
use super::{ActiveSegment, Blocked, FullSegment, LogOptions, LogState, NextSegment};
use crate::error::Error;
use crate::options::SyncMode;
use model::row::NO_TIMESTAMP;
use runtime::{Class, Instant, now};
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// Time between a failed attempt to prepare a segment and the next one.
pub(crate) const RETRY_AFTER: Duration = Duration::from_millis(100);
/// The next segment is prepared once this share of the active one is used: late, so that a flush may release one to
/// recycle.
const PREPARE_AT: (u32, u32) = (3, 4);
/// Groups shorter than this, in bytes, are written with zeros behind them for the groups that follow.
const SHORT_GROUP_BYTES: u32 = 64 << 10;
/// Zeros written behind a short group, bytes.
const ZEROS_BYTES: u32 = 256 << 10;
/// Most segments whose ends are recorded at a start; only the newest are.
pub(crate) const ENDS_MAX: usize = 512;

/// The header of a new segment.
pub(crate) fn new_header(options: &LogOptions, counter: u64) -> Header {
    Header {
        id: id_of(counter, options.shard),
        nonce: runtime::rng::u64(),
        segment_bytes: options.segment_bytes,
        shard_map: options.shard_map,
        column_ids: ColumnIds::OfSchema,
    }
}

/// How many zeros to write behind a group of `blocks` bytes at `offset`, in the same write.
///
/// The first write of a block makes the file system write its journal too, which doubles the time of a short group
/// and hardly matters to a long one. So a short group that reaches new blocks also writes the blocks of the groups to
/// come. Under load, when groups are long, nothing is written twice.
fn zeros_behind(segment: &Segment, offset: u32, blocks: u32) -> u32 {
    let end = offset + blocks;
    if end <= segment.written.get() {
        return 0;
    }
    let zeros = if blocks < SHORT_GROUP_BYTES { ZEROS_BYTES.min(segment.header.segment_bytes - end) } else { 0 };
    segment.written.set(end + zeros);
    zeros
}

/// Writes groups until the log stops or fails.
pub(crate) async fn run(shared: Rc<LogState>) {
    let mut started = None;
    loop {
        let go_on = shared
            .work
            .wait(|| match (shared.has_work(), shared.stopping.get()) {
                (true, _) => Some(true),
                (false, true) => Some(false),
                (false, false) => None,
            })
            .await;
        if !go_on {
            return;
        }
        shared.pace(started).await;
        started = Some(now());
        let Some(group) = shared.take_group() else { continue };
        if !shared.write(group).await {
            return;
        }
    }
}

impl LogState {
    fn has_work(&self) -> bool {
        self.collecting.borrow().is_some() || !self.sealed.borrow().is_empty()
    }

    fn take_group(&self) -> Option<Group> {
        let sealed = self.sealed.borrow_mut().pop_front();
        let group = sealed.or_else(|| {
            self.hurried.set(false);
            self.collecting.borrow_mut().take()
        })?;
        *self.in_flight.borrow_mut() = Some(group.state.clone());
        Some(group)
    }

    /// Waits until the log's sync mode allows the next group, or the group is urgent.
    async fn pace(&self, last_started: Option<Instant>) {
        let interval = match self.options.sync {
            SyncMode::Group { window } => window,
            SyncMode::Batch => Duration::ZERO,
            SyncMode::Periodic { period } => period,
        };
        let Some(last) = last_started.filter(|_| !interval.is_zero()) else { return };
        let passed = now().since(last);
        if passed < interval {
            let urgent = self.work.wait(|| self.is_urgent().then_some(()));
            let _ = runtime::timeout(interval - passed, urgent).await;
        }
    }

    /// Whether the log is stopping, a sync was asked for, permits are short, or a sealed group waits.
    fn is_urgent(&self) -> bool {
        let few_left = self.pending.free() < u64::from(self.options.segment_bytes) / 2;
        self.stopping.get() || self.hurried.get() || few_left || !self.sealed.borrow().is_empty()
    }

    /// Writes one group. Returns false if the log has failed.
    async fn write(self: &Rc<Self>, group: Group) -> bool {
        let mut group = group;
        while let Err(error) = self.make_room(&group).await {
            let keep = matches!(self.options.sync, SyncMode::Periodic { .. }) && !self.stopping.get();
            if !keep {
                self.in_flight.borrow_mut().take();
                let position = self.active.borrow().position();
                group.finish(Outcome::NotWritten(error.kind(), error.to_string(), position));
                self.changed.notify();
                return true;
            }
            let stopped = self.changed.wait(|| self.stopping.get().then_some(()));
            let _ = runtime::timeout(RETRY_AFTER, stopped).await;
        }
        let (segment, offset) = {
            let mut active = self.active.borrow_mut();
            let active = &mut *active;
            for table in group.close_tables() {
                active.dirty.insert(table, active.offset);
            }
            if let Some(previous) = active.previous.take() {
                let mut record = Vec::new();
                push_ends(&mut record, &[previous]);
                group.push_encoded(&record);
            }
            self.push_timestamp(&mut group);
            (active.segment.clone(), active.offset)
        };
        let blocks = group.block_bytes();
        let (bytes, waiting) = group.into_bytes(&segment.header, offset, zeros_behind(&segment, offset, blocks));
        let (written, bytes) = segment.file.write_durable(bytes, u64::from(offset)).await;
        self.buffers.give(bytes);
        self.in_flight.borrow_mut().take();
        match written {
            Ok(()) => {
                let position = LogPosition { segment: segment.header.id, offset: offset + blocks };
                self.active.borrow_mut().offset = position.offset;
                waiting.finish(Outcome::Durable(position));
                self.changed.notify();
                self.prepare_ahead();
                true
            }
            Err(error) => {
                self.fail(waiting, &error);
                false
            }
        }
    }

    /// Adds an upper bound of the write timestamps given out so far, from which the next run goes on.
    fn push_timestamp(&self, group: &mut Group) {
        let mut record = Vec::with_capacity(TIMESTAMP_BYTES);
        push_timestamp(&mut record, self.options.clock.now());
        group.push_encoded(&record);
    }

    /// Poisons the log and fails the group that was being written and all that wait.
    fn fail(&self, written: GroupWaiters, error: &io::Error) {
        tracing::error!(%error, "the commit log could not be written; it takes no more writes");
        let (kind, text) = (error.kind(), error.to_string());
        *self.failed.borrow_mut() = Some((kind, text.clone()));
        let groups: Vec<Group> =
            self.sealed.borrow_mut().drain(..).chain(self.collecting.borrow_mut().take()).collect();
        written.finish(Outcome::Failed(kind, text.clone()));
        for group in groups {
            group.finish(Outcome::Failed(kind, text.clone()));
        }
        self.changed.notify();
    }

    /// Moves on to the next segment if the group does not fit the active one. Fails if there is no next segment for
    /// now.
    async fn make_room(self: &Rc<Self>, group: &Group) -> io::Result<()> {
        let needed = group.bytes_max() + ADDED_BYTES_MAX;
        let fits = {
            let active = self.active.borrow();
            let left = (self.options.segment_bytes - active.offset) as usize;
            needed.next_multiple_of(segment::BLOCK_BYTES as usize) <= left
        };
        if fits {
            return Ok(());
        }
        let next = loop {
            self.prepare_ahead_now().inspect_err(|_| {
                self.starved.set(true);
                self.changed.notify();
            })?;
            let ready = self.changed.wait(|| self.next.borrow_mut().take()).await;
            if let Some(segment) = ready {
                break segment;
            }
        };
        let mut active = self.active.borrow_mut();
        let previous = (active.offset > HEADER_BYTES).then_some((active.segment.header.id, active.offset));
        let full = std::mem::replace(&mut *active, ActiveSegment::new(next, previous));
        self.closed.borrow_mut().push(FullSegment { id: full.segment.header.id, dirty: full.dirty });
        self.full.notify();
        Ok(())
    }

    /// Prepares the next segment once enough of the active one is used.
    fn prepare_ahead(self: &Rc<Self>) {
        let (share, of) = PREPARE_AT;
        let used = u64::from(self.active.borrow().offset) * u64::from(of);
        if used >= u64::from(self.options.segment_bytes) * u64::from(share) {
            let _ = self.prepare_ahead_now();
        }
    }

    /// Begins to prepare the next segment unless that has begun already. Fails after a failed attempt until it is
    /// time for another.
    fn prepare_ahead_now(self: &Rc<Self>) -> io::Result<()> {
        if !matches!(*self.next.borrow(), NextSegment::Idle) {
            return Ok(());
        }
        if let Some(blocked) = &*self.blocked.borrow()
            && now() < blocked.until
        {
            return Err(io::Error::new(blocked.kind, blocked.text.clone()));
        }
        let Some(pass) = self.background.enter() else {
            return Err(io::Error::other("the log is closing"));
        };
        *self.next.borrow_mut() = NextSegment::Preparing;
        let shared = self.clone();
        runtime::spawn_in(Class::Log, async move {
            let made = shared.prepare().await;
            let state = match made {
                Ok(segment) => {
                    *shared.blocked.borrow_mut() = None;
                    shared.starved.set(false);
                    NextSegment::Ready(segment)
                }
                Err(error) => {
                    let blocked =
                        Blocked { kind: error.kind(), text: error.to_string(), until: now().after(RETRY_AFTER) };
                    if shared.blocked.borrow_mut().replace(blocked).is_none() {
                        tracing::warn!(%error, "no new commit log segment; writes will be refused until there is");
                    }
                    NextSegment::Idle
                }
            };
            *shared.next.borrow_mut() = state;
            shared.changed.notify();
            drop(pass);
        });
        Ok(())
    }

    async fn prepare(&self) -> io::Result<Segment> {
        let counter = self.next_counter.get();
        self.next_counter.set(counter + 1);
        let header = new_header(&self.options, counter);
        let old = self.recyclable.borrow_mut().pop();
        match old {
            Some(old) => segment::recycle(&self.options.directory, old, header).await,
            None => segment::create(&self.options.directory, header).await,
        }
    }

    /// Writes the first group of a run: where segments found at the start end, and the time that write timestamps
    /// reached.
    pub(super) async fn write_ends(&self, ends: &[(u64, u32)]) -> Result<(), Error> {
        let ends = ends.get(ends.len().saturating_sub(ENDS_MAX)..).unwrap_or_default();
        if ends.is_empty() && self.options.clock.recorded.get() == NO_TIMESTAMP {
            return Ok(());
        }
        let mut group = Group::new(&self.buffers);
        if !ends.is_empty() {
            let mut record = Vec::new();
            push_ends(&mut record, ends);
            group.push_encoded(&record);
        }
        self.push_timestamp(&mut group);
        let (segment, offset) = {
            let active = self.active.borrow();
            (active.segment.clone(), active.offset)
        };
        let blocks = group.block_bytes();
        let (bytes, _) = group.into_bytes(&segment.header, offset, 0);
        let (written, bytes) = segment.file.write_durable(bytes, u64::from(offset)).await;
        self.buffers.give(bytes);
        written.map_err(Error::Io)?;
        self.active.borrow_mut().offset = offset + blocks;
        Ok(())
    }
}
