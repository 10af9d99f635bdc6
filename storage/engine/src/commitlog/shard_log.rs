//! The log of a shard over the whole run: first the segments found at the start, then the log that takes writes.
//!
//! 1. [`ShardLog::open`] lists the segments; replay (`recovery`) reads them.
//! 2. [`ShardLog::start`] ends replay and begins to write, with a counter above all those found.
//! 3. From then on [`ShardLog::started`] gives the log that takes writes.

use super::old_segments::OldSegments;
use super::position::LogPosition;
use super::segment::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, id_of};
use super::segment_reader;
use super::{Log, LogOptions, WriteClock};
use crate::error::Error;
use crate::options::{Options, SyncMode};
use model::row::NO_TIMESTAMP;
use model::{MutationBuilder, ShardMap};
use runtime::file::{create_dir_all, sync_dir};
use runtime::sync::Condition;
use std::cell::{Cell, OnceCell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

/// The log of one shard, from opening to the end of the process.
pub(crate) struct ShardLog {
    /// The directory of the segments.
    pub(crate) directory: PathBuf,
    pub(super) shard: u16,
    pub(super) shard_map: ShardMap,
    pub(super) segment_bytes: u32,
    pub(crate) clock: Rc<WriteClock>,
    /// The segments of earlier runs.
    pub(crate) old: RefCell<OldSegments>,
    sync: SyncMode,
    highest_counter: u64,
    counter_floor: Cell<u64>,
    log: OnceCell<Log>,
}

impl ShardLog {
    /// Creates the log's directory if there is none, lists its segments and reads their headers.
    ///
    /// Panics if the configured segment length is not a power of two in the allowed range.
    pub(crate) async fn open(options: &Options, shard: u16) -> Result<ShardLog, Error> {
        let valid = options.segment_bytes.is_power_of_two()
            && (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&options.segment_bytes);
        assert!(valid, "segment_bytes is a power of two between {SEGMENT_BYTES_MIN} and {SEGMENT_BYTES_MAX}");
        let directory = options.directories.first().join("commitlog");
        create_dir_all(&directory).await.map_err(Error::Io)?;
        sync_dir(options.directories.first()).await.map_err(Error::Io)?;
        let found = segment_reader::list(&directory).await?;
        Ok(ShardLog {
            directory,
            shard,
            shard_map: options.shard_map,
            segment_bytes: options.segment_bytes,
            clock: Rc::new(WriteClock::new()),
            sync: options.sync,
            highest_counter: found.highest_counter(),
            counter_floor: Cell::new(0),
            old: RefCell::new(OldSegments::new(found)),
            log: OnceCell::new(),
        })
    }

    /// Ends replay and starts a new segment with a counter above `counter_floor` and above all counters found here.
    /// `full` is notified whenever a segment becomes full.
    pub(crate) async fn start(&self, counter_floor: u64, full: Rc<Condition>) -> Result<(), Error> {
        let first = counter_floor.max(self.highest_counter) + 1;
        self.counter_floor.set(counter_floor + 1);
        let settled = self.settle().await?;
        let options = LogOptions {
            directory: self.directory.clone(),
            sync: self.sync,
            segment_bytes: self.segment_bytes,
            shard: self.shard,
            shard_map: self.shard_map,
            clock: self.clock.clone(),
        };
        let log = Log::start(options, first, settled.recyclable, &settled.ends, full).await?;
        assert!(self.log.set(log).is_ok(), "a store starts once");
        Ok(())
    }

    /// The log that takes writes. Panics before [`ShardLog::start`].
    pub(crate) fn started(&self) -> &Log {
        self.log.get().expect("the store was started")
    }

    /// The log that takes writes; `None` before [`ShardLog::start`].
    pub(crate) fn get(&self) -> Option<&Log> {
        self.log.get()
    }

    /// The highest counter of the files found at the start; 0 if there were none.
    pub(crate) fn highest_counter(&self) -> u64 {
        self.highest_counter
    }

    /// The lowest counter that a segment of this run can have, on any shard. 0 before the start.
    pub(crate) fn counter_floor(&self) -> u64 {
        self.counter_floor.get()
    }

    /// A position before all records that this shard writes in this run.
    pub(crate) fn run_start(&self) -> LogPosition {
        LogPosition { segment: id_of(self.counter_floor.get(), self.shard), offset: 0 }
    }

    /// The latest time that earlier runs recorded, microseconds since 1970; `None` if they recorded none.
    pub(crate) fn recorded_time(&self) -> Option<i64> {
        Some(self.clock.recorded.get()).filter(|recorded| *recorded != NO_TIMESTAMP)
    }

    /// Writes a record without contents and returns the position behind it: every truncation so far lies before it,
    /// every later one behind it.
    pub(crate) async fn place_marker(&self) -> Result<LogPosition, Error> {
        let log = self.started();
        let empty = MutationBuilder::new(self.shard_map.partitioner, &[]).finish();
        let permit = log.admit(empty.bytes().len()).await?;
        log.append(empty.bytes(), std::iter::empty(), permit)?;
        log.reach(&log.cut()).await
    }
}
