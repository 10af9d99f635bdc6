//! All tables of a shard: start, replay, writes, reads, truncation, stop.
//!
//! Start, driven by the crate `shard` so that schema comes before data:
//! 1. [`Store::open`] lists the log's segments and reads their headers.
//! 2. On shard 0: [`Store::add_table`] and [`Store::replay`] for the system tables, then the schema is read from them.
//! 3. On every shard: `add_table` for all tables, then `replay`: a call applies the records of the tables that became
//!    known since the call before, so that each record is applied once. Each call reads the segments again, which costs
//!    time once instead of memory for as long as the start takes.
//! 4. [`Store::start`], with one counter floor for all shards.
//!
//! Truncation: see [`Store::truncate`]. Old segments: those found at start stay until every table in them is dropped or
//! truncated; shard 0 removes them.

pub use crate::commitlog::position::{LogPosition, Truncation};

use crate::Error;
use crate::Options;
use crate::commitlog::replay::{self, Found};
use crate::commitlog::segment::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use crate::commitlog::{Log, LogOptions, WriteClock};
use crate::compaction::{Activity, Throttle};
use crate::faults::Faults;
use crate::flush::period::FlushPeriods;
use crate::memtable::partitions::Step;
use crate::memtable::{MemoryCounter, Memtable};
use crate::read::{self, CellScratch};
use crate::recovery::replay::OldSegments;
use crate::row_lock::{RowGuard, RowLocks};
use crate::sstables::block_cache::{BlockCache, CacheFigures};
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::view::View;
use crate::tables::table_state::{LoggedTable, TableState, is_system};
use crate::write::{Reserved, Undecided, Write};
use model::query::{ReadCommand, ReadEnd, RowSink};
use model::row::NO_TIMESTAMP;
use model::{DecoratedKey, Mutation, Table, TableId, Token};
use runtime::file::{create_dir_all, sync_dir};
use runtime::gate::{Gate, Semaphore};
use runtime::sync::Condition;
use runtime::{Class, HashMap};
use sstable::Descriptor;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A shard's storage. Cloning shares it.
#[derive(Clone)]
pub struct Store {
    inner: Rc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) options: Options,
    /// Where the segments are.
    pub(crate) directory: PathBuf,
    /// The shard that this store belongs to.
    pub(crate) shard: u16,
    pub(crate) tables: RefCell<HashMap<TableId, TableState>>,
    pub(crate) user_bytes: MemoryCounter,
    pub(crate) system_bytes: MemoryCounter,
    /// Bytes of writes on their way to a memtable.
    in_flight_bytes: Rc<Cell<usize>>,
    pub(crate) gate: Gate,
    pub(crate) log: OnceCell<Log>,
    pub(crate) floor: Cell<u64>,
    pub(crate) clock: Rc<WriteClock>,
    /// One flush runs at a time.
    pub(crate) flush_turn: Semaphore,
    /// One compaction runs at a time.
    pub(crate) compaction_turn: Semaphore,
    /// Tables whose SSTables have changed since their strategy was asked.
    pub(crate) to_compact: RefCell<BTreeSet<TableId>>,
    /// How many tasks the tables' strategies expect to have, of those with some.
    pub(crate) waiting_tasks: RefCell<BTreeMap<TableId, usize>>,
    /// Roused when `to_compact` grows.
    pub(crate) compaction_wanted: Rc<Condition>,
    /// What compactions do and did.
    pub(crate) activity: Activity,
    /// Roused when a compaction is done.
    pub(crate) compacted: Rc<Condition>,
    /// How fast compactions may read.
    pub(crate) throttle: Throttle,
    /// SSTables that are open and not yet their table's.
    pub(crate) importing: RefCell<HashMap<TableId, Vec<Rc<OpenSstable>>>>,
    /// Bytes of Data.db of the last flush.
    pub(crate) flushed_bytes: Cell<u64>,
    /// Memtables written since the start.
    pub(crate) flushes: Cell<u64>,
    /// Tables to be flushed whatever they hold: their memtable is old, or not of the kind that they ask for.
    pub(crate) to_flush: RefCell<BTreeSet<TableId>>,
    /// How old memtables may become.
    pub(crate) flush_periods: FlushPeriods,
    /// Roused when the flusher may have something to do.
    pub(crate) flush_wanted: Rc<Condition>,
    /// Whether the last flush that memory or the log asked for failed.
    pub(crate) flush_failed: Cell<bool>,
    /// Bytes of writes that wait for room.
    pub(crate) waiting_bytes: Rc<Cell<usize>>,
    /// Roused when memory was freed, or will not be.
    pub(crate) room: Condition,
    /// SSTables of dropped and truncated tables, until that is durable.
    pub(crate) given_up: RefCell<HashMap<TableId, Vec<Rc<OpenSstable>>>>,
    /// The node's id, once it is known: SSTables name who wrote them.
    pub(crate) host_id: Cell<Option<[u8; 16]>>,
    /// Numbers of SSTables given out.
    pub(crate) numbers: Cell<u64>,
    highest_counter: u64,
    pub(crate) old: RefCell<OldSegments>,
    /// Where tables were truncated in this run.
    truncated: RefCell<HashMap<TableId, LogPosition>>,
    pub(crate) scratch: CellScratch,
    /// Whether foreign SSTables are to be split, and whether those of this program too.
    pub(crate) splits: Cell<Option<bool>>,
    /// Roused when a foreign SSTable is there.
    pub(crate) foreign_found: Rc<Condition>,
    /// Foreign SSTables that stay.
    pub(crate) left_foreign: RefCell<BTreeSet<(TableId, Descriptor)>>,
    /// SSTables of indexes that no shard can use, with their directories, until the start removes them.
    pub(crate) unusable: RefCell<Vec<(PathBuf, Descriptor)>>,
    /// Indexes that are being built.
    pub(crate) building: RefCell<BTreeSet<TableId>>,
    /// Parts of foreign SSTables that this shard will serve, by those.
    pub(crate) parts: RefCell<BTreeMap<(TableId, Descriptor), Rc<OpenSstable>>>,
    /// Failures that the node's policies decide about.
    pub(crate) faults: Faults,
    /// Blocks of SSTables.
    pub(crate) cache: Rc<BlockCache>,
    locks: RowLocks,
}

impl Store {
    /// Opens the shard's part of the log directory: lists the segments and reads their headers.
    ///
    /// Panics on options outside their ranges.
    pub async fn open(options: Options) -> Result<Store, Error> {
        let valid = options.segment_bytes.is_power_of_two()
            && (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&options.segment_bytes);
        assert!(valid, "segment_bytes is a power of two between {SEGMENT_BYTES_MIN} and {SEGMENT_BYTES_MAX}");
        let directory = options.directory.join("commitlog");
        create_dir_all(&directory).await.map_err(Error::Io)?;
        sync_dir(&options.directory).await.map_err(Error::Io)?;
        let found: Found = replay::list(&directory).await?;
        let gate = Gate::new();
        let inner = Inner {
            faults: Faults::default(),
            cache: Rc::new(BlockCache::new(options.cache_bytes_max, gate.clone())),
            directory,
            shard: runtime::current_shard().0 as u16,
            tables: RefCell::default(),
            user_bytes: Rc::default(),
            system_bytes: Rc::default(),
            in_flight_bytes: Rc::default(),
            gate,
            log: OnceCell::new(),
            floor: Cell::new(0),
            clock: Rc::new(WriteClock::new()),
            flush_turn: Semaphore::new(1),
            compaction_turn: Semaphore::new(1),
            to_compact: RefCell::default(),
            waiting_tasks: RefCell::default(),
            compaction_wanted: Rc::default(),
            activity: Activity::new(),
            compacted: Rc::default(),
            throttle: Throttle::default(),
            importing: RefCell::default(),
            flushed_bytes: Cell::new(0),
            flushes: Cell::new(0),
            to_flush: RefCell::default(),
            flush_periods: FlushPeriods::default(),
            flush_wanted: Rc::default(),
            flush_failed: Cell::new(false),
            waiting_bytes: Rc::default(),
            room: Condition::default(),
            given_up: RefCell::default(),
            host_id: Cell::new(None),
            numbers: Cell::new(0),
            highest_counter: found.highest_counter(),
            old: RefCell::new(OldSegments::new(found)),
            truncated: RefCell::default(),
            scratch: CellScratch::default(),
            splits: Cell::new(None),
            foreign_found: Rc::default(),
            left_foreign: RefCell::default(),
            unusable: RefCell::default(),
            building: RefCell::default(),
            parts: RefCell::default(),
            locks: RowLocks::default(),
            options,
        };
        Ok(Store { inner: Rc::new(inner) })
    }

    /// Makes a table known (idempotent; replaces the description on a new schema version). The ids of the columns of a
    /// table that holds data do not change.
    pub fn add_table(&self, table: Arc<Table>, local: bool) {
        self.add_description(table.clone(), local);
        self.adopt_indexes(&table, local);
    }

    fn add_description(&self, table: Arc<Table>, local: bool) {
        let inner = &self.inner;
        inner.flush_periods.set(table.id, table.options.memtable_flush_period_in_ms);
        inner.flush_wanted.notify();
        let mut tables = inner.tables.borrow_mut();
        match tables.get_mut(&table.id) {
            Some(state) => {
                if state.table.columns != table.columns {
                    state.list = Rc::new(LoggedTable::new(&table));
                    // Mutations of the new columns go to a group of their own, behind the new list.
                    if let Some(log) = inner.log.get() {
                        let _ = log.cut();
                    }
                }
                state.memtable.set_table(table.clone());
                let same_cells = state.table.columns == table.columns && state.table.dropped == table.dropped;
                let adapted = (!same_cells).then(|| state.view.with_table(&table));
                match adapted {
                    None => {}
                    Some(Ok(view)) => state.view = Rc::new(view),
                    // Clusterings do not change: the description is not of this table, and reads go on as they are.
                    Some(Err(error)) => tracing::error!(%error, "SSTables do not suit their table"),
                }
                // Rows of the other kind of memtable go to an SSTable, and the next writes to one of the new kind.
                if inner.options.memtables.kind_of(&table.options) != state.memtable.read().partitions.kind() {
                    inner.to_flush.borrow_mut().insert(table.id);
                }
                state.table = table;
                state.local = local;
            }
            None => {
                if let Some(name) = table.options.memtable.as_deref()
                    && inner.options.memtables.get(name).is_none()
                {
                    let table = table.full_name();
                    tracing::error!(%table, name, "this memtable is not configured: the table gets the default one");
                }
                let memtable = inner.new_memtable(&table);
                tables.insert(table.id, TableState::new(table, local, memtable));
            }
        }
    }

    /// Forgets a table and frees its memtable once writes under way are done. Its log records are ignored from then on;
    /// the caller records a [`Truncation`] as for TRUNCATE, so that a table created WITH the same ID starts empty.
    pub fn drop_table(&self, table: TableId) {
        self.inner.flush_periods.remove(table);
        let state = self.inner.tables.borrow_mut().remove(&table);
        if let Some(state) = state {
            state.indexes.iter().for_each(|index| self.drop_table(index.id()));
            self.inner.weigh_compactions(table);
            self.inner.give_up(table, &state.view);
            self.inner.discard(state.memtable);
            state.pending.into_iter().for_each(|pending| self.inner.discard(pending.memtable));
        }
    }

    /// Replays the records of the tables known so far that this shard owns, less what `truncations` cover; each record
    /// is applied once over all calls. Idempotent against a crash: nothing is changed on disk. May exceed the budget.
    pub async fn replay(&self, truncations: &[(TableId, Truncation)]) -> Result<ReplayStats, Error> {
        assert!(self.inner.log.get().is_none(), "replay comes before start");
        crate::recovery::replay::replay(&self.inner, truncations).await
    }

    /// Ends replay: makes what was replayed durable, starts a fresh active segment with a counter above every one found
    /// by any shard: `counter_floor` is the highest [`Store::highest_counter`] of all shards, or more. Comes after the
    /// [`Store::load`] of every shard: SSTables are removed and made from here on.
    pub async fn start(&self, counter_floor: u64) -> Result<(), Error> {
        let inner = &self.inner;
        let first = counter_floor.max(inner.highest_counter) + 1;
        inner.floor.set(counter_floor + 1);
        let (recyclable, ends) = crate::recovery::replay::settle(inner).await?;
        let options = LogOptions {
            directory: inner.directory.clone(),
            sync: inner.options.sync,
            segment_bytes: inner.options.segment_bytes,
            shard: inner.shard,
            shard_map: inner.options.shard_map,
            clock: inner.clock.clone(),
        };
        let log = Log::start(options, first, recyclable, &ends, inner.flush_wanted.clone()).await?;
        assert!(inner.log.set(log).is_ok(), "a store starts once");
        let truncated: Vec<TableId> = inner.given_up.borrow().keys().copied().collect();
        for table in truncated {
            inner.remove_given_up(table).await?;
        }
        inner.clear_indexes().await?;
        inner.start_flusher();
        inner.start_compactor();
        let tables: Vec<TableId> = inner.tables.borrow().keys().copied().collect();
        tables.into_iter().for_each(|table| inner.want_compaction(table));
        Ok(())
    }

    /// The latest time, microseconds since 1970, that the log of the shard recorded in earlier runs: no durable write has
    /// a later timestamp that a node gave it. Known after [`Store::replay`]; `None` if there is none.
    pub fn recorded_time(&self) -> Option<i64> {
        Some(self.inner.clock.recorded.get()).filter(|recorded| *recorded != NO_TIMESTAMP)
    }

    /// Says that write timestamps are `micros` ahead of the wall clock, which was set back over a restart.
    pub fn set_clock_ahead(&self, micros: i64) {
        self.inner.clock.ahead.set(micros);
    }

    /// Tells who the node is: SSTables that it writes name it.
    pub fn set_host_id(&self, host_id: [u8; 16]) {
        self.inner.host_id.set(Some(host_id));
    }

    /// The highest segment counter found in the directory; 0 if it is empty.
    pub fn highest_counter(&self) -> u64 {
        self.inner.highest_counter
    }

    /// The lowest counter that a segment of this run can have, on any shard: what [`Truncation::counter_floor`] takes.
    /// Set by [`Store::start`].
    pub fn counter_floor(&self) -> u64 {
        self.inner.floor.get()
    }

    /// Writes a mutation of this shard: durable (by mode) and visible when it returns. `system` writes may exceed the
    /// memtable budget. An error other than [`Error::LogFailed`] is definite. If the future is dropped the write may
    /// still happen, whole.
    pub async fn apply(&self, mutation: Mutation, system: bool) -> Result<(), Error> {
        self.inner.faults.noted(self.write(mutation, system, false).await)
    }

    /// [`Store::apply`] that returns only when the write is durable, in `periodic` mode too. There what the log could not
    /// write is not lost but waits for room, so that the error is [`Error::LogFailed`]: unknown.
    pub async fn apply_durably(&self, mutation: Mutation, system: bool) -> Result<(), Error> {
        self.inner.faults.noted(self.write(mutation, system, true).await)
    }

    async fn write(&self, mutation: Mutation, system: bool, durably: bool) -> Result<(), Error> {
        let inner = &self.inner;
        let pass = inner.gate.enter().ok_or(Error::Closing)?;
        let log = inner.started();
        let bytes = mutation.bytes().len();
        let reserved = match inner.reserve(bytes) {
            _ if system => None,
            Some(reserved) => Some(reserved),
            None => Some(inner.wait_for_room(bytes).await?),
        };
        let permit = log.admit(bytes).await?;
        // From here to the append nothing is awaited: a truncation sees the write as before it or as after it.
        let Some(targets) = inner.targets(&mutation)? else { return Ok(()) };
        if log.acknowledges_early() {
            targets.as_slice().iter().for_each(|target| target.memtable.prefetch(mutation.token(), Step::Partition));
        }
        let lists = targets.as_slice().iter().map(|target| &target.list);
        let group = log.append(mutation.bytes(), lists, permit)?;
        let write = Write { mutation, targets, _reserved: reserved, _pass: pass };
        if log.acknowledges_early() {
            write.apply();
            if durably {
                log.hurry(group).await.map_err(unknown)?;
            }
            return Ok(());
        }
        let undecided = Undecided::new(write, group.clone());
        let outcome = group.ended().await;
        let write = undecided.decided();
        Log::result(outcome)?;
        if let Some(write) = write {
            write.apply();
        }
        Ok(())
    }

    /// Reads: gives the live rows that `command` asks for to `sink`, in order. Yields in long scans; a partition is seen
    /// as it was when the read reached it, or any later state, but never half of a mutation.
    pub async fn read(&self, command: &ReadCommand, sink: &mut dyn RowSink) -> Result<ReadEnd, Error> {
        let (memtable, view) = self.inner.readable(command.table)?;
        self.inner.faults.noted(read::read(&self.inner, &memtable, &view, command, sink).await)
    }

    /// Tries to read without waiting: `None` if the read would have to yield or wait (nothing was given to the sink).
    /// The fast path of single-partition reads from memory.
    pub fn read_now(&self, command: &ReadCommand, sink: &mut dyn RowSink) -> Option<Result<ReadEnd, Error>> {
        match self.inner.readable(command.table) {
            Ok((memtable, view)) => read::read_now(&self.inner, &memtable, &view, command, sink),
            Err(error) => Some(Err(error)),
        }
    }

    /// Begins to bring near what a read or a write of a partition will look at, while the caller does something else.
    pub fn prefetch(&self, table: TableId, token: Token, step: Step) {
        if let Some(state) = self.inner.tables.borrow().get(&table) {
            state.memtable.prefetch(token, step);
        }
    }

    /// Waits, first come first served, for the lock of a partition, which whoever changes what it has read holds from
    /// the read until the change is visible. [`Error::LockQueueFull`] once [`crate::row_lock::WAITERS_MAX`] wait. Writes
    /// that do not read take no lock.
    pub async fn lock(&self, table: TableId, key: &DecoratedKey) -> Result<RowGuard, Error> {
        self.inner.locks.lock(table, key.token).await
    }

    /// The locks of several partitions, in an order in which no two callers wait for each other. Who holds a lock must
    /// not ask for more.
    pub async fn lock_all<'k>(
        &self,
        partitions: impl Iterator<Item = (TableId, &'k DecoratedKey)>,
    ) -> Result<Vec<RowGuard>, Error> {
        self.inner.locks.lock_all(partitions).await
    }

    /// Switches a table to an empty memtable in one step and returns the log position of the switch, once every write
    /// that was under way before has finished (those go with the old memtable). On an error the table is empty, but its
    /// records may come back with the next start.
    pub async fn truncate(&self, table: TableId) -> Result<LogPosition, Error> {
        let inner = &self.inner;
        let _pass = inner.gate.enter().ok_or(Error::Closing)?;
        let log = inner.started();
        log.usable()?;
        let (old, pending, cut) = {
            let mut tables = inner.tables.borrow_mut();
            let state = tables.get_mut(&table).ok_or(Error::UnknownTable(table))?;
            let indexes = state.indexes.clone();
            let (mut old, mut pending) = (Vec::new(), Vec::new());
            for id in std::iter::once(table).chain(indexes.iter().map(|index| index.id())) {
                let Some(state) = tables.get_mut(&id) else { continue };
                let empty = inner.new_memtable(&state.table);
                let view = std::mem::take(&mut state.view);
                inner.give_up(id, &view);
                old.push(std::mem::replace(&mut state.memtable, empty));
                inner.flush_periods.restart(id);
                pending.extend(std::mem::take(&mut state.pending));
            }
            (old, pending, log.cut())
        };
        pending.into_iter().for_each(|pending| inner.discard(pending.memtable));
        let reached = log.reach(&cut).await;
        for old in old {
            old.seal().await;
            inner.discard(old);
        }
        let position = reached?;
        inner.truncated.borrow_mut().insert(table, position);
        Ok(position)
    }

    /// After a drop or truncation of a table is durable: frees the segments of this shard that no longer hold anything
    /// needed; on shard 0 also removes old segments, of all shards.
    pub async fn release(&self, table: TableId) -> Result<(), Error> {
        let inner = &self.inner;
        let Some(_pass) = inner.gate.enter() else { return Err(Error::Closing) };
        inner.remove_given_up(table).await?;
        for index in inner.given_up_indexes_of(table) {
            inner.remove_given_up(index).await?;
        }
        let known = inner.tables.borrow().contains_key(&table);
        let position = inner.truncated.borrow().get(&table).copied();
        if !known {
            inner.started().release(table, None).await?;
        } else if let Some(position) = position {
            inner.started().release(table, Some(position)).await?;
        }
        if inner.shard == 0 && (!known || position.is_some()) {
            crate::recovery::replay::release(inner, table).await?;
        }
        Ok(())
    }

    /// After [`Store::start`]: writes what replay brought to SSTables. Once every shard has, shard 0 calls
    /// [`Store::release_replayed`].
    pub async fn flush_replayed(&self) -> Result<(), Error> {
        let replayed: Vec<TableId> = {
            let tables = self.inner.tables.borrow();
            let of_log = tables.iter().filter(|(_, state)| state.holds_replayed && state.index_of.is_none());
            of_log.map(|(id, _)| *id).collect()
        };
        for table in replayed {
            self.flush(table).await?;
        }
        Ok(())
    }

    /// On shard 0: removes the segments of earlier runs, which no shard needs any more.
    pub async fn release_replayed(&self) -> Result<(), Error> {
        crate::recovery::replay::release_all(&self.inner).await
    }

    /// Whether [`Store::close`] was called.
    pub fn is_closing(&self) -> bool {
        self.inner.gate.is_closed()
    }

    /// Makes everything written durable (in every mode).
    pub async fn sync(&self) -> Result<(), Error> {
        self.inner.started().sync().await
    }

    /// Refuses new writes, waits for those under way, syncs the log.
    pub async fn close(&self) -> Result<(), Error> {
        self.inner.gate.shut();
        self.inner.flush_wanted.notify();
        self.inner.compaction_wanted.notify();
        self.inner.foreign_found.notify();
        self.inner.compacted.notify();
        self.inner.room.notify();
        self.inner.gate.close().await;
        match self.inner.log.get() {
            Some(log) => log.close().await,
            None => Ok(()),
        }
    }

    /// Bytes in a table's memtable; 0 of a table that is not known.
    pub fn memory_of(&self, table: TableId) -> usize {
        self.inner.memtable(table).map_or(0, |memtable| memtable.bytes())
    }

    /// The cache of blocks of SSTables.
    pub fn cache_figures(&self) -> CacheFigures {
        self.inner.cache.figures()
    }

    pub(crate) fn inner(&self) -> &Rc<Inner> {
        &self.inner
    }

    /// Bytes in memtables of user tables, and the budget.
    pub fn memory(&self) -> (usize, usize) {
        (self.inner.user_bytes.get(), self.inner.options.memtable_bytes_max)
    }
}

impl Inner {
    pub(crate) fn started(&self) -> &Log {
        self.log.get().expect("the store was started")
    }

    pub(crate) fn counter_of(&self, table: &Table) -> MemoryCounter {
        if is_system(table) { self.system_bytes.clone() } else { self.user_bytes.clone() }
    }

    /// An empty memtable of the kind that a table asks for.
    pub(crate) fn new_memtable(&self, table: &Arc<Table>) -> Rc<Memtable> {
        let kind = self.options.memtables.kind_of(&table.options);
        Rc::new(Memtable::new(table.clone(), kind, self.counter_of(table)))
    }

    fn memtable(&self, table: TableId) -> Result<Rc<Memtable>, Error> {
        match self.tables.borrow().get(&table) {
            Some(state) => Ok(state.memtable.clone()),
            None => Err(Error::UnknownTable(table)),
        }
    }

    /// What a read of a table merges: the active memtable and what lies beside it.
    pub(crate) fn readable(&self, table: TableId) -> Result<(Rc<Memtable>, Rc<View>), Error> {
        match self.tables.borrow().get(&table) {
            Some(state) => Ok((state.memtable.clone(), state.view.clone())),
            None => Err(Error::UnknownTable(table)),
        }
    }

    /// Whether this shard has the partitions of a token.
    pub(crate) fn owns(&self, table: TableId, token: Token) -> bool {
        let local = self.tables.borrow().get(&table).is_some_and(|state| state.local);
        self.shard == if local { 0 } else { self.options.shard_map.owner(token) }
    }

    /// Room for a write; `None` if there is none now.
    fn reserve(&self, bytes: usize) -> Option<Reserved> {
        let used = self.user_bytes.get() + self.in_flight_bytes.get() + bytes;
        if used >= self.flush_at() {
            self.flush_wanted.notify();
        }
        (used <= self.options.memtable_bytes_max).then(|| Reserved::new(&self.in_flight_bytes, bytes))
    }

    /// Waits until a flush makes room. [`Error::MemtableFull`] if flushes fail, and for a write beyond the budget.
    #[cold]
    pub(crate) async fn wait_for_room(&self, bytes: usize) -> Result<Reserved, Error> {
        let _waiting = Reserved::new(&self.waiting_bytes, bytes);
        self.flush_wanted.notify();
        loop {
            let answer = self.room.wait(|| match self.reserve(bytes) {
                Some(reserved) => Some(Ok(reserved)),
                None if self.gate.is_closed() => Some(Err(Error::Closing)),
                None if self.flush_failed.get() || self.in_memory() == 0 => Some(Err(Error::MemtableFull)),
                None => None,
            });
            // A reader that was the last to hold a flushed memtable frees it without a word.
            if let Some(answer) = runtime::timeout(ROOM_WAIT, answer).await {
                return answer;
            }
        }
    }

    /// Bytes of writes and memtables that will be freed.
    fn in_memory(&self) -> usize {
        self.user_bytes.get() + self.in_flight_bytes.get()
    }

    /// A number for an SSTable.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.set(self.numbers.get() + 1);
        self.numbers.get()
    }

    /// Frees a memtable in pieces once the writes under way are done.
    pub(crate) fn discard(self: &Rc<Self>, memtable: Rc<Memtable>) {
        let Some(pass) = self.gate.enter() else { return };
        let inner = self.clone();
        runtime::spawn_in(Class::Background, async move {
            memtable.seal().await;
            Memtable::dismantle(memtable).await;
            inner.room.notify();
            drop(pass);
        });
    }
}

/// How long a write waits for room before it looks by itself.
const ROOM_WAIT: Duration = Duration::from_millis(20);

/// What could not be written yet, and may be later.
fn unknown(error: Error) -> Error {
    match error {
        Error::LogFull(error) => Error::LogFailed(error),
        error => error,
    }
}

/// What a replay did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReplayStats {
    /// Segments read.
    pub segments: u64,
    /// Mutations applied.
    pub applied: u64,
    /// Mutations skipped: of other shards, unknown tables, truncated.
    pub skipped: u64,
    /// Torn tails met (at most one per segment).
    pub torn_tails: u64,
}
