//! Memtables become SSTables, and the log forgets them.
//!
//! 1. The table gets an empty memtable in one step; the old one stays in its view, beside a cut of the log.
//! 2. Once the log has reached the cut and the writes under way are applied, the old one is written out.
//! 3. The SSTable takes its place in the view in one step; then the log's records up to the cut are no longer needed.
//!
//! What fails is tried again by the next flush of the table; its data stays readable and in the log. One flush runs at a
//! time. Flushes begin by memory, by the length of the log, by the age of a memtable (`period`), or by command.
//!
//! Indexes are flushed with their base, before it.
//!
//! Invariants: a table's memtables are flushed in the order they were written, so that one position per table says what
//! the log still has to keep; nothing is in neither the view nor an SSTable at any moment.

pub(crate) mod period;
mod rows;

use crate::Error;
use crate::commitlog::Cut;
use crate::commitlog::position::LogPosition;
use crate::commitlog::segment::id_of;
use crate::memtable::Memtable;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::sstable_id;
use crate::sstables::transaction::{Kind, Transaction};
use crate::store::{Inner, Store};
use crate::tables::table_state::is_system;
use model::{Table, TableId};
use runtime::Class;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Pause after a flush that failed, before the next attempt that memory or the log asks for.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// A memtable that takes no more writes and is not on disk.
pub(crate) struct Pending {
    pub(crate) memtable: Rc<Memtable>,
    /// Where in the log it ends.
    pub(crate) cut: Cut,
}

/// What the flusher is roused for.
enum Wanted {
    /// To end.
    Stop,
    /// To look at the tables' periods again.
    Periods,
    Flush(TableId),
}

impl Store {
    /// Writes what a table has in memory to an SSTable and lets the log forget it.
    ///
    /// # Errors
    /// The disk's; the data stays where it was.
    pub async fn flush(&self, table: TableId) -> Result<(), Error> {
        let pass = self.inner().gate.enter().ok_or(Error::Closing)?;
        let inner = self.inner().clone();
        let flush = async move {
            let _pass = pass;
            inner.faults.noted(inner.flush(table).await)
        };
        runtime::spawn_in(Class::Flush, flush).await
    }

    /// Flushes under way and memtables written since the start.
    pub fn flush_activity(&self) -> (u64, u64) {
        let inner = self.inner();
        (1 - inner.flush_turn.free().min(1), inner.flushes.get())
    }

    /// [`Store::flush`] of every table, as a drain does. Goes on after an error, which it returns.
    pub async fn flush_all(&self) -> Result<(), Error> {
        let tables: Vec<TableId> = {
            let tables = self.inner().tables.borrow();
            // Indexes are flushed with their bases.
            tables.iter().filter(|(_, state)| state.index_of.is_none()).map(|(id, _)| *id).collect()
        };
        let mut outcome = Ok(());
        for table in tables {
            match self.flush(table).await {
                Ok(()) | Err(Error::UnknownTable(_)) => {}
                failed => outcome = failed,
            }
        }
        outcome
    }
}

impl Inner {
    /// See [`Store::flush`]. The caller holds a pass of the gate.
    pub(crate) async fn flush(self: &Rc<Self>, table: TableId) -> Result<(), Error> {
        let _turn = self.flush_turn.acquire(1).await;
        // An index alone is not flushed: with its base more memory is freed by one file more.
        let table = self.tables.borrow().get(&table).and_then(|state| state.index_of).unwrap_or(table);
        self.switch_memtable(table)?;
        // What the log forgets of the base has its entries on disk: the indexes are switched after it and written before.
        let indexes = self.indexes_of(table);
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

    /// Gives a table an empty memtable; the old one, unless it is empty too, is to be flushed.
    fn switch_memtable(&self, table: TableId) -> Result<(), Error> {
        let log = self.started();
        {
            let mut tables = self.tables.borrow_mut();
            let state = tables.get_mut(&table).ok_or(Error::UnknownTable(table))?;
            let is_empty = state.memtable.read().partitions.is_empty();
            // What a batch table sheds is on its way to the active memtable.
            if !state.shedding.get() && (!is_empty || state.pending.is_empty()) {
                let empty = self.new_memtable(&state.table);
                let memtable = std::mem::replace(&mut state.memtable, empty);
                state.view = Rc::new(state.view.with_flushing(memtable.clone()));
                state.pending.push_back(Pending { memtable, cut: log.cut() });
                self.flush_periods.restart(table);
            }
        }
        Ok(())
    }

    /// Writes the oldest pending memtable of a table; whether there was one.
    async fn flush_pending(self: &Rc<Self>, table: TableId) -> Result<bool, Error> {
        let (memtable, description, cut, is_index) = {
            let tables = self.tables.borrow();
            let Some(state) = tables.get(&table) else { return Ok(false) };
            let Some(pending) = state.pending.front() else { return Ok(false) };
            (pending.memtable.clone(), state.table.clone(), pending.cut.clone(), state.index_of.is_some())
        };
        let position = self.started().reach(&cut).await?;
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
                // Dropped or truncated meanwhile.
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
                self.flushed_bytes.set(opened.data_bytes);
                self.flushes.set(self.flushes.get() + 1);
                self.want_compaction(table);
            }
            if !is_index {
                self.started().release(table, Some(position)).await?;
            }
        } else if let Some(opened) = opened {
            let name = opened.reader.descriptor();
            crate::sstables::transaction::delete(&opened.directory, |found| found == name).await.map_err(Error::Io)?;
        }
        self.discard(memtable);
        Ok(true)
    }

    /// Writes a memtable as an SSTable and opens it; `None` if nothing is left of what it holds.
    async fn write_out(
        &self,
        memtable: &Rc<Memtable>,
        table: &Arc<Table>,
        position: LogPosition,
    ) -> Result<Option<Rc<OpenSstable>>, Error> {
        let directory = self.directory_of(table);
        runtime::file::create_dir_all(&directory).await.map_err(Error::Io)?;
        let descriptor = self.new_descriptor();
        let mut transaction = Transaction::new(&directory, Kind::Flush, sstable_id::time_uuid());
        let intervals = self.flushed_intervals(table.id, position);
        let made = async {
            transaction.add(&descriptor).await?;
            let components = rows::write(self, memtable, table, &directory, &descriptor, intervals).await?;
            if components.is_empty() {
                return Ok(None);
            }
            self.open_sstable(&directory, &descriptor, &components, table).await.map(Some)
        };
        match made.await {
            Ok(Some(opened)) => {
                transaction.commit(runtime::wall_micros() as u64 / 1000).await?;
                transaction.finish().await?;
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

    /// The parts of the log that a flush up to `position` stands for.
    fn flushed_intervals(&self, table: TableId, position: LogPosition) -> Vec<(LogPosition, LogPosition)> {
        let tables = self.tables.borrow();
        let Some(state) = tables.get(&table) else { return Vec::new() };
        let run = LogPosition { segment: id_of(self.floor.get(), self.shard), offset: 0 };
        let mut intervals = Vec::new();
        if state.holds_replayed {
            intervals = self.old.borrow().intervals();
        }
        intervals.push((state.flushed.unwrap_or(run), position));
        intervals
    }

    /// Starts the task that flushes when memory or the log asks for it.
    pub(crate) fn start_flusher(self: &Rc<Self>) {
        let inner = Rc::downgrade(self);
        runtime::spawn_in(Class::Flush, async move {
            loop {
                let Some(owner) = inner.upgrade() else { return };
                let (signal, end) = (owner.flush_wanted.clone(), owner.flush_periods.next_end());
                drop(owner);
                let wanted = signal.wait(|| match inner.upgrade() {
                    None => Some(Wanted::Stop),
                    Some(inner) if inner.gate.is_closed() => Some(Wanted::Stop),
                    Some(inner) if inner.flush_periods.next_end() != end => Some(Wanted::Periods),
                    Some(inner) => inner.table_to_flush().map(Wanted::Flush),
                });
                let wanted = match end {
                    None => wanted.await,
                    Some(end) => runtime::timeout(end.since(runtime::now()), wanted).await.unwrap_or(Wanted::Periods),
                };
                let Some(inner) = inner.upgrade() else { return };
                let table = match wanted {
                    Wanted::Stop => return,
                    Wanted::Periods => {
                        inner.end_periods();
                        continue;
                    }
                    Wanted::Flush(table) => table,
                };
                let Some(_pass) = inner.gate.enter() else { return };
                let outcome = inner.faults.noted(inner.flush(table).await);
                inner.flush_failed.set(outcome.is_err());
                inner.room.notify();
                if let Err(error) = outcome {
                    tracing::error!(%error, %table, "flush failed, to be tried again");
                    runtime::sleep(RETRY_WAIT).await;
                }
            }
        });
    }

    /// Has the memtables flushed whose period is over.
    fn end_periods(&self) {
        let tables = self.tables.borrow();
        let written =
            |table: &TableId| tables.get(table).is_some_and(|state| !state.memtable.read().partitions.is_empty());
        self.to_flush.borrow_mut().extend(self.flush_periods.ended().into_iter().filter(written));
    }

    /// The table whose flush helps most, if one has to be flushed.
    fn table_to_flush(&self) -> Option<TableId> {
        let tables = self.tables.borrow();
        while let Some(table) = self.to_flush.borrow_mut().pop_first() {
            if tables.contains_key(&table) {
                return Some(table);
            }
        }
        // The counters count memtables too that are on disk and about to be freed.
        let in_memory = |system: bool| {
            let of_kind = tables.iter().filter(move |(_, state)| is_system(&state.table) == system);
            let sizes = of_kind.map(|(id, state)| {
                let pending: usize = state.pending.iter().map(|pending| pending.memtable.bytes()).sum();
                (pending + state.memtable.bytes(), *id)
            });
            sizes.fold((0, None), |(sum, largest): (usize, Option<(usize, TableId)>), size| {
                (sum + size.0, largest.max(Some(size)))
            })
        };
        // Whoever waits for room may wait for less than what flushing begins at.
        let user_max = if self.waiting_bytes.get() > 0 { 1 } else { self.flush_at() };
        if self.user_bytes.get() >= user_max {
            let (bytes, table) = in_memory(false);
            if bytes >= user_max {
                return table.map(|(_, id)| id);
            }
        }
        let system_max = self.options.memtable_bytes_max / SYSTEM_SHARE;
        if self.system_bytes.get() >= system_max {
            let (bytes, table) = in_memory(true);
            if bytes >= system_max {
                return table.map(|(_, id)| id);
            }
        }
        self.log.get().and_then(|log| log.oldest_needed(self.options.log_bytes_max))
    }

    /// Bytes of user tables in memory at which flushing begins.
    pub(crate) fn flush_at(&self) -> usize {
        self.options.memtable_bytes_max / 2
    }
}

/// Memtables of system tables are flushed at this share of the budget of user tables.
const SYSTEM_SHARE: usize = 8;
