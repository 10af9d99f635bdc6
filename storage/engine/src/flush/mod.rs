//! Flushes: memtables become SSTables, and the log no longer needs their records.
//!
//! 1. The table gets an empty memtable in one step; the old one stays in its view and waits with a cut of the log.
//! 2. Once the log has reached the cut and the writes under way have been applied, the old memtable is written out.
//! 3. The SSTable takes its place in the view in one step; then the log's records up to the cut are released.
//!
//! If a flush fails, the data stays readable and in the log, and the table's next flush tries again. One flush runs
//! at a time. Flushes begin when memory or the log is half full, when a memtable is old (`period`), or by command.
//! Indexes are flushed together with their base, and before it.
//!
//! Flushes get 500 shares of the core when memory reaches half of the memtable budget, where flushing begins, and up
//! to 1000 when the budget is used up or writes wait for room. The shares are updated while a flush runs.
//!
//! Invariants: a table's memtables are flushed in the order in which they were written, so that one position per
//! table says what the log still has to keep; data is in the view at every moment, in a memtable or in an SSTable.

mod backups;
mod period;
mod rows;

use crate::commitlog::position::LogPosition;
use crate::commitlog::shard_log::ShardLog;
use crate::compaction::Compactor;
use crate::error::Error;
use crate::faults::Faults;
use crate::memory::MemoryBudget;
use crate::memtable::Memtable;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::sstable_files::SstableFiles;
use crate::sstables::sstable_id;
use crate::sstables::transaction::{self, Transaction, TransactionKind};
use crate::tables::Tables;
use crate::tables::table_state::PendingFlush;
use model::{Table, TableId};
use period::FlushPeriods;
use runtime::Class;
use runtime::gate::{Gate, Semaphore};
use runtime::shares::SHARES_MAX;
use runtime::sync::Condition;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Pause between a flush that failed and the next one that memory or the log asks for.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// The least shares that flushes get.
const FLUSH_SHARES_MIN: u32 = 500;

/// The shares of the core that flushes get while memtables hold `bytes`: more, the nearer that is to `bytes_max`.
fn shares_of(bytes: usize, begins_at: usize, bytes_max: usize) -> u32 {
    let (over, room) = (bytes.saturating_sub(begins_at), bytes_max.saturating_sub(begins_at).max(1));
    let more = u64::from(SHARES_MAX - FLUSH_SHARES_MIN) * over.min(room) as u64 / room as u64;
    FLUSH_SHARES_MIN + more as u32
}

/// Why the flusher's task woke up.
enum Wakeup {
    /// The gate was shut.
    Stop,
    /// A table's period has ended or changed.
    Periods,
    /// This table has to be flushed.
    Flush(TableId),
}

/// Flushes the memtables of a shard.
pub(crate) struct Flusher {
    tables: Rc<Tables>,
    files: Rc<SstableFiles>,
    log: Rc<ShardLog>,
    memory: Rc<MemoryBudget>,
    compactor: Rc<Compactor>,
    faults: Rc<Faults>,
    gate: Gate,
    log_bytes_max: u64,
    /// Whether new SSTables are linked into the backups of their tables.
    incremental_backups: bool,
    /// Held during a flush, so that one runs at a time.
    pub(crate) turn: Semaphore,
    /// Memtables written out since the start.
    flushes: Cell<u64>,
    /// Tables to flush whatever they hold: their memtable is too old, or its kind is not the one that the table asks
    /// for.
    requested: RefCell<BTreeSet<TableId>>,
    /// When memtables become too old.
    periods: FlushPeriods,
    /// Notified when the task may have something to do.
    wanted: Rc<Condition>,
}

/// What a flusher is made of.
pub(crate) struct FlusherParts {
    pub(crate) tables: Rc<Tables>,
    pub(crate) files: Rc<SstableFiles>,
    pub(crate) log: Rc<ShardLog>,
    pub(crate) memory: Rc<MemoryBudget>,
    pub(crate) compactor: Rc<Compactor>,
    pub(crate) faults: Rc<Faults>,
    pub(crate) gate: Gate,
    /// Notified when memory or the log may ask for a flush.
    pub(crate) wanted: Rc<Condition>,
    /// If full log segments have more bytes than this, a table of the oldest segment is flushed.
    pub(crate) log_bytes_max: u64,
    pub(crate) incremental_backups: bool,
}

impl Flusher {
    pub(crate) fn new(parts: FlusherParts) -> Flusher {
        let FlusherParts {
            tables,
            files,
            log,
            memory,
            compactor,
            faults,
            gate,
            wanted,
            log_bytes_max,
            incremental_backups,
        } = parts;
        Flusher {
            tables,
            files,
            log,
            memory,
            compactor,
            faults,
            gate,
            log_bytes_max,
            incremental_backups,
            turn: Semaphore::new(1),
            flushes: Cell::new(0),
            requested: RefCell::default(),
            periods: FlushPeriods::default(),
            wanted,
        }
    }

    /// Sets a table's option `memtable_flush_period_in_ms`.
    pub(crate) fn set_period(&self, table: TableId, millis: i32) {
        self.periods.set(table, millis);
        self.wanted.notify();
    }

    /// Forgets a table that was dropped.
    pub(crate) fn forget(&self, table: TableId) {
        self.periods.remove(table);
    }

    /// Begins a table's period anew, because it has a new memtable.
    pub(crate) fn restart_period(&self, table: TableId) {
        self.periods.restart(table);
    }

    /// Has a table flushed soon, whatever it holds.
    pub(crate) fn request(&self, table: TableId) {
        self.requested.borrow_mut().insert(table);
    }

    /// The signal that wakes the task.
    pub(crate) fn wanted(&self) -> Rc<Condition> {
        self.wanted.clone()
    }

    /// Wakes the task, so that it sees that the gate was shut.
    pub(crate) fn notify(&self) {
        self.wanted.notify();
    }

    /// The number of flushes under way (0 or 1), and of memtables written out since the start.
    pub(crate) fn activity(&self) -> (u64, u64) {
        (1 - self.turn.free().min(1), self.flushes.get())
    }

    /// Flushes a table: writes what it has in memory to SSTables and releases the log's records. An index is flushed
    /// together with its base. The caller holds a pass of the gate.
    ///
    /// # Errors
    /// The disk's; the data stays where it was.
    pub(crate) async fn flush(&self, table: TableId) -> Result<(), Error> {
        let _turn = self.turn.acquire(1).await;
        // Flushing an index with its base frees more memory and costs only one more file.
        let table = self.tables.borrow().get(&table).and_then(|state| state.index_of).unwrap_or(table);
        self.switch_memtable(table)?;
        // A base's records may be released only once their index entries are on disk. So indexes are switched to new
        // memtables after the base and written before it.
        let indexes = self.tables.indexes_of(table);
        for index in indexes.iter() {
            match self.switch_memtable(index.id()) {
                Err(Error::UnknownTable(_)) => continue,
                switched => switched?,
            }
            while self.flush_pending(index.id()).await? {}
        }
        while self.flush_pending(table).await? {}
        Ok(())
    }

    /// Waits until the flush under way, if there is one, has ended.
    pub(crate) async fn settled(&self) {
        drop(self.turn.acquire(1).await);
    }

    /// Gives a table an empty memtable and queues the old one to be flushed, unless there is nothing to flush.
    fn switch_memtable(&self, table: TableId) -> Result<(), Error> {
        let log = self.log.started();
        {
            let mut tables = self.tables.borrow_mut();
            let state = tables.get_mut(&table).ok_or(Error::UnknownTable(table))?;
            let is_empty = state.memtable.read().partitions.is_empty();
            // The rows that a batch table keeps are being copied to the active memtable, which must stay.
            if !state.shedding.get() && (!is_empty || state.pending.is_empty()) {
                let empty = self.memory.new_memtable(&state.table);
                let memtable = std::mem::replace(&mut state.memtable, empty);
                state.view = Rc::new(state.view.with_flushing(memtable.clone()));
                state.pending.push_back(PendingFlush { memtable, cut: log.cut() });
                self.periods.restart(table);
            }
        }
        Ok(())
    }

    /// Writes out the oldest queued memtable of a table. Returns whether there was one.
    async fn flush_pending(&self, table: TableId) -> Result<bool, Error> {
        let (memtable, description, cut, is_index) = {
            let tables = self.tables.borrow();
            let Some(state) = tables.get(&table) else { return Ok(false) };
            let Some(pending) = state.pending.front() else { return Ok(false) };
            (pending.memtable.clone(), state.table.clone(), pending.cut.clone(), state.index_of.is_some())
        };
        let position = self.log.started().reach(&cut).await?;
        memtable.seal().await;
        let is_empty = memtable.read().partitions.is_empty();
        let opened = match is_empty {
            true => None,
            false => self.write_out(&memtable, &description, position).await?,
        };
        let kept = {
            let mut tables = self.tables.borrow_mut();
            let state = tables
                .get_mut(&table)
                .filter(|state| state.pending.front().is_some_and(|pending| Rc::ptr_eq(&pending.memtable, &memtable)));
            match state {
                // The table was dropped or truncated during the flush.
                None => false,
                Some(state) => {
                    let added = state.adapted(opened.as_slice())?;
                    state.pending.pop_front();
                    let view = state.view.without_flushing(&memtable);
                    state.view = Rc::new(view.replaced(&[], &added));
                    state.flushed = Some(position);
                    state.holds_replayed = false;
                    true
                }
            }
        };
        if kept {
            if let Some(opened) = &opened {
                self.flushes.set(self.flushes.get() + 1);
                self.compactor.flushed(table, opened.data_bytes);
            }
            if !is_index {
                self.log.started().release(table, Some(position)).await?;
            }
        } else if let Some(opened) = opened {
            let name = opened.reader.descriptor();
            transaction::delete(&opened.directory, |found| found == name).await.map_err(Error::Io)?;
        }
        self.memory.discard(memtable);
        Ok(true)
    }

    /// Writes a memtable as an SSTable and opens it; `None` if nothing in it has to be kept.
    async fn write_out(
        &self,
        memtable: &Rc<Memtable>,
        table: &Arc<Table>,
        position: LogPosition,
    ) -> Result<Option<Rc<OpenSstable>>, Error> {
        let directory = self.files.make_directory(table, self.files.shard).await?;
        let descriptor = self.files.new_descriptor();
        let mut transaction = Transaction::new(&directory, TransactionKind::Flush, sstable_id::time_uuid());
        let intervals = self.flushed_intervals(table.id, position);
        let made = async {
            transaction.add(&directory, &descriptor).await?;
            let written = self.write_rows(memtable, table, &directory, &descriptor, intervals, None).await?;
            let Some(components) = written else { return Ok(None) };
            let opened = self.files.open(&directory, &descriptor, &components, table).await?;
            Ok(Some((opened, components)))
        };
        match made.await {
            Ok(Some((opened, components))) => {
                transaction.commit(runtime::wall_micros() as u64 / 1000).await?;
                transaction.finish().await?;
                if self.incremental_backups && table.options.incremental_backups.unwrap_or(true) {
                    // The SSTable is committed: a missing backup must not fail the flush.
                    let linked = backups::link_sstable(&directory, &descriptor, &components).await;
                    if let Err(error) = self.faults.noted(linked.map_err(Error::Io)) {
                        tracing::error!(%error, sstable = %descriptor, "the incremental backup lacks an SSTable");
                    }
                }
                Ok(Some(Rc::new(opened)))
            }
            Ok(None) => transaction.abort().await.map(|()| None),
            Err(error) => {
                if let Err(left) = transaction.abort().await {
                    tracing::warn!(error = %left, "an unfinished SSTable stays until the next start");
                }
                Err(error)
            }
        }
    }

    /// The intervals of the log whose records of this table a flush up to `position` makes durable.
    fn flushed_intervals(&self, table: TableId, position: LogPosition) -> Vec<(LogPosition, LogPosition)> {
        let tables = self.tables.borrow();
        let Some(state) = tables.get(&table) else { return Vec::new() };
        let mut intervals = Vec::new();
        if state.holds_replayed {
            intervals = self.log.old.borrow().intervals();
        }
        intervals.push((state.flushed.unwrap_or_else(|| self.log.run_start()), position));
        intervals
    }

    /// Starts the task that flushes when memory, the log or a table's period asks for it. The task ends when the gate
    /// is shut.
    pub(crate) fn start(self: &Rc<Self>) {
        let flusher = Rc::downgrade(self);
        runtime::spawn_in(Class::Flush, async move {
            loop {
                let Some(owner) = flusher.upgrade() else { return };
                let (signal, end) = (owner.wanted.clone(), owner.periods.next_end());
                drop(owner);
                let wakeup = signal.wait(|| match flusher.upgrade() {
                    None => Some(Wakeup::Stop),
                    Some(flusher) if flusher.gate.is_closed() => Some(Wakeup::Stop),
                    Some(flusher) if flusher.periods.next_end() != end => Some(Wakeup::Periods),
                    Some(flusher) => flusher.table_to_flush().map(Wakeup::Flush),
                });
                let wakeup = match end {
                    None => wakeup.await,
                    Some(end) => runtime::timeout(end.since(runtime::now()), wakeup).await.unwrap_or(Wakeup::Periods),
                };
                let Some(flusher) = flusher.upgrade() else { return };
                let table = match wakeup {
                    Wakeup::Stop => return,
                    Wakeup::Periods => {
                        flusher.end_periods();
                        continue;
                    }
                    Wakeup::Flush(table) => table,
                };
                let Some(_pass) = flusher.gate.enter() else { return };
                let outcome = flusher.faults.noted(flusher.flush(table).await);
                flusher.memory.flush_ended(outcome.is_err());
                if let Err(error) = outcome {
                    tracing::error!(%error, %table, "flush failed, to be tried again");
                    runtime::sleep(RETRY_WAIT).await;
                }
            }
        });
    }

    /// Requests a flush of the tables whose period has ended.
    fn end_periods(&self) {
        let tables = self.tables.borrow();
        let written =
            |table: &TableId| tables.get(table).is_some_and(|state| !state.memtable.read().partitions.is_empty());
        self.requested.borrow_mut().extend(self.periods.ended().into_iter().filter(written));
    }

    /// The table whose flush helps most, if one has to be flushed now.
    fn table_to_flush(&self) -> Option<TableId> {
        let tables = self.tables.borrow();
        while let Some(table) = self.requested.borrow_mut().pop_first() {
            if tables.contains_key(&table) {
                return Some(table);
            }
        }
        // The budget also counts memtables that are written already but not freed yet.
        let in_memory = |system: bool| {
            let of_kind = tables.iter().filter(move |(_, state)| state.table.is_system() == system);
            let sizes = of_kind.map(|(id, state)| {
                let pending: usize = state.pending.iter().map(|pending| pending.memtable.bytes()).sum();
                (pending + state.memtable.bytes(), *id)
            });
            sizes.fold((0, None), |(sum, largest): (usize, Option<(usize, TableId)>), size| {
                (sum + size.0, largest.max(Some(size)))
            })
        };
        // A waiting write may need room before flushing would begin by itself.
        let user_max = if self.memory.is_awaited() { 1 } else { self.memory.flush_at() };
        if self.memory.user_bytes() >= user_max {
            let (bytes, table) = in_memory(false);
            if bytes >= user_max {
                return table.map(|(_, id)| id);
            }
        }
        let system_max = self.memory.system_flush_at();
        if self.memory.system_bytes() >= system_max {
            let (bytes, table) = in_memory(true);
            if bytes >= system_max {
                return table.map(|(_, id)| id);
            }
        }
        self.log.get().and_then(|log| log.oldest_needed(self.log_bytes_max))
    }

    /// Updates the shares of flushes.
    fn weigh(&self) {
        let memory = &self.memory;
        let shares = match memory.is_awaited() {
            false => shares_of(memory.user_bytes(), memory.flush_at(), memory.bytes_max()),
            true => SHARES_MAX,
        };
        runtime::set_shares(Class::Flush, shares);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fuller_memory_gets_more_shares() {
        let of = |bytes| shares_of(bytes, 50, 100);
        assert_eq!([0, 50, 60, 75, 100, 1000].map(of), [500, 500, 600, 750, 1000, 1000]);
        assert_eq!(shares_of(7, 7, 7), 500);
    }
}
