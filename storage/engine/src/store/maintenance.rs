//! What operators and the node's own schedules ask of a store: flushes, compactions, imports, snapshots, splits,
//! checks.

use super::{LogPosition, Store};
use crate::compaction::{CompactionRecord, CompactionScope, CompactionStatistics, OwnedRanges};
use crate::error::Error;
use crate::operations::damaged::{self, DamagedSstable};
use crate::operations::key_sstables::sstables_with;
use crate::operations::snapshot;
use crate::operations::split::{PartNames, Parts};
use crate::operations::streams::{self, source::StreamView};
use crate::operations::verify::{self, Check, Invalid};
use crate::tables::size_estimates::{SizeEstimate, size_estimates};
use crate::tables::statistics::TableStatistics;
use model::tombstone_gc::{GcBefore, RepairedRanges};
use model::{DecoratedKey, Table, TableId, TokenRange};
use runtime::{Class, HashSet};
use sstable::Descriptor;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

impl Store {
    /// Writes what a table has in memory to an SSTable and lets the log forget it.
    ///
    /// # Errors
    /// The disk's; the data stays where it was.
    pub async fn flush(&self, table: TableId) -> Result<(), Error> {
        let pass = self.parts.gate.enter().ok_or(Error::Closing)?;
        let parts = self.parts.clone();
        let flush = async move {
            let _pass = pass;
            parts.faults.noted(parts.flusher.flush(table).await)
        };
        runtime::spawn_in(Class::Flush, flush).await
    }

    /// [`Store::flush`] of every table, as a drain does. Goes on after an error, which it returns.
    pub async fn flush_all(&self) -> Result<(), Error> {
        let mut outcome = Ok(());
        // Indexes are flushed with their bases.
        for table in self.parts.tables.bases() {
            match self.flush(table).await {
                Ok(()) | Err(Error::UnknownTable(_)) => {}
                failed => outcome = failed,
            }
        }
        outcome
    }

    /// Flushes under way and memtables written since the start.
    pub fn flush_activity(&self) -> (u64, u64) {
        self.parts.flusher.activity()
    }

    /// Merges or rewrites SSTables of a table. An upgrade also waits for the splits of foreign SSTables that this shard
    /// leads.
    ///
    /// # Errors
    /// The disk's, or an SSTable that cannot be read: what was not merged by then stays as it was.
    pub async fn compact(&self, table: TableId, chosen: CompactionScope) -> Result<(), Error> {
        let pass = self.parts.gate.enter().ok_or(Error::Closing)?;
        match chosen {
            CompactionScope::All { .. } => self.flush(table).await?,
            CompactionScope::Upgrade { .. } => self.parts.splits.settled(table).await,
            _ => {}
        }
        let holders = match &chosen {
            CompactionScope::Partition(key) => {
                self.sstables_with(table, key).await?.into_iter().map(|held| held.0).collect()
            }
            _ => HashSet::default(),
        };
        let compactor = self.parts.compactor.clone();
        let compaction = async move {
            let _pass = pass;
            compactor.compact_chosen(table, chosen, holders).await
        };
        runtime::spawn_in(Class::Background, compaction).await
    }

    /// Removes the keys of a table that are outside the ranges that `owned` tells; it is asked anew for each SSTable.
    /// Waits for the splits of foreign SSTables that this shard leads. Returns false if it told none, and some SSTables
    /// are as they were.
    ///
    /// # Errors
    /// The disk's, or an SSTable that cannot be read: what was not rewritten by then stays as it was.
    pub async fn clean_table(&self, table: TableId, owned: Rc<OwnedRanges>) -> Result<bool, Error> {
        let pass = self.parts.gate.enter().ok_or(Error::Closing)?;
        self.flush(table).await?;
        self.parts.splits.settled(table).await;
        let compactor = self.parts.compactor.clone();
        let cleanup = async move {
            let _pass = pass;
            compactor.clean(table, &*owned).await
        };
        runtime::spawn_in(Class::Background, cleanup).await
    }

    /// What compactions are doing and have done.
    pub fn compaction_statistics(&self) -> CompactionStatistics {
        self.parts.compactor.statistics()
    }

    /// Waits for compactions that are done and takes their records; none once the store closes.
    pub async fn compacted(&self) -> Vec<CompactionRecord> {
        self.parts.compactor.completed().await
    }

    /// Waits until the caller of [`Store::compacted`] has come back for more records than there are, which tells that
    /// it has stored them; or until the store closes.
    pub async fn compactions_stored(&self) {
        self.parts.compactor.stored().await;
    }

    /// How fast this shard's compactions may read, bytes per second; 0: as fast as it goes.
    pub fn set_compaction_throughput(&self, bytes_per_second: u64) {
        self.parts.compactor.set_throughput(bytes_per_second);
    }

    /// Whether the strategy of a table starts compactions by itself, until the next start; `false`: the table is
    /// unknown.
    pub fn set_auto_compaction(&self, table: TableId, on: bool) -> bool {
        self.parts.compactor.set_automatic(table, on)
    }

    /// Sets what is known to be repaired of a table on all replicas.
    pub fn set_repaired(&self, table: TableId, ranges: Arc<RepairedRanges>) {
        if let Some(state) = self.parts.tables.borrow_mut().get_mut(&table) {
            state.repaired = Some(ranges);
        }
    }

    /// Before which second deletions of a table may be forgotten on this node; by its options alone if the table is not
    /// known.
    pub fn gc_before(&self, table: &Table, now_in_seconds: i64) -> GcBefore {
        let tables = self.parts.tables.borrow();
        let repaired = tables.get(&table.id).and_then(|state| state.repaired.as_ref());
        table.options.gc_before(repaired, now_in_seconds)
    }

    /// The Data.db and the level of each SSTable that has a partition, if this shard owns it.
    ///
    /// # Errors
    /// The disk's, and an SSTable that cannot be used.
    pub async fn sstables_with(&self, table: TableId, key: &DecoratedKey) -> Result<Vec<(PathBuf, u32)>, Error> {
        let _pass = self.parts.gate.enter().ok_or(Error::Closing)?;
        sstables_with(&self.parts.tables, table, key).await
    }

    /// What a table holds on this shard; `None` if it is not known here.
    pub fn statistics(&self, table: TableId, now_in_seconds: i64) -> Option<TableStatistics> {
        let tables = self.parts.tables.borrow();
        let state = tables.get(&table)?;
        Some(TableStatistics::of(state, &self.parts.files.directory_of(&state.table), now_in_seconds))
    }

    /// Estimates how many partitions this shard's SSTables of a table have in each range, and how large they are.
    pub fn size_estimates(&self, table: TableId, ranges: &[TokenRange]) -> Vec<SizeEstimate> {
        size_estimates(&self.parts.tables, table, ranges)
    }

    /// Checks the SSTables that this shard serves of a table, foreign ones on shard 0; the first that is not good.
    ///
    /// # Errors
    /// The disk's.
    pub async fn verify(&self, table: TableId, check: Check) -> Result<Option<Invalid>, Error> {
        let parts = self.parts.clone();
        let verify = async move {
            let _pass = parts.gate.enter().ok_or(Error::Closing)?;
            verify::verify(&parts.tables, &parts.faults, table, check).await
        };
        runtime::spawn_in(Class::Background, verify).await
    }

    /// Gives all files of the SSTables that this shard serves of a table, and of its indexes, a second name in its
    /// snapshot `tag`, durably; the names of the Data.db files.
    ///
    /// # Errors
    /// The disk's; what was linked stays.
    pub async fn link_snapshot(&self, table: TableId, tag: &str) -> Result<Vec<String>, Error> {
        let _pass = self.parts.gate.enter().ok_or(Error::Closing)?;
        snapshot::link_table(&self.parts.tables, &self.parts.files, table, tag).await
    }

    /// The SSTables in which reads, compactions or checks have met damaged bytes. Whether a table can do without one is
    /// known after a flush of the table.
    pub fn damaged_sstables(&self) -> Vec<DamagedSstable> {
        damaged::damaged(&self.parts.tables)
    }

    /// Marks an SSTable as damaged, as another shard that serves it has found. Nothing happens if this shard does not.
    pub fn mark_damaged(&self, table: TableId, name: &Descriptor) {
        damaged::mark(&self.parts.tables, table, name);
    }

    /// Takes a damaged SSTable out of its table and keeps it in the table's snapshot `tag`, of which the caller writes
    /// the manifest; the name of its Data.db. `None` if this shard does not serve it any more.
    ///
    /// # Errors
    /// The disk's: it is served as before, or the next start finishes its removal.
    pub async fn set_aside(&self, table: TableId, name: Descriptor, tag: Arc<str>) -> Result<Option<String>, Error> {
        let pass = self.parts.gate.enter().ok_or(Error::Closing)?;
        let parts = self.parts.clone();
        let removal = async move {
            let _pass = pass;
            let done = damaged::set_aside(&parts.tables, &parts.files, &parts.compactor, table, &name, &tag).await;
            parts.faults.noted(done)
        };
        runtime::spawn_in(Class::Background, removal).await
    }

    /// The SSTables of a table that this shard knows, once no flush and no compaction of it is under way: in view, or
    /// obsolete and not yet removed.
    pub async fn served(&self, table: TableId) -> Result<Vec<Descriptor>, Error> {
        let parts = &self.parts;
        let _pass = parts.gate.enter().ok_or(Error::Closing)?;
        let _flush = parts.flusher.turn.acquire(1).await;
        let _compaction = parts.compactor.turn.acquire(1).await;
        let (_, view) = parts.tables.readable(table)?;
        let obsolete = parts.obsolete.of(table);
        let known = view.sstables.iter().chain(&obsolete).map(|sstable| sstable.reader.descriptor());
        Ok(known.chain(view.unopened.iter().map(|sstable| &sstable.name)).cloned().collect())
    }

    /// A place in this shard's log for what is imported: behind every truncation so far and before all to come.
    ///
    /// # Errors
    /// The log's.
    pub async fn log_place(&self) -> Result<LogPosition, Error> {
        let _pass = self.parts.gate.enter().ok_or(Error::Closing)?;
        self.parts.log.place_marker().await
    }

    /// Opens what was placed in a table's directory, as far as this shard serves it, for [`Store::end_import`].
    ///
    /// # Errors
    /// The disk's, and SSTables that cannot be used; nothing is open then.
    pub async fn open_imported(&self, table: TableId, placed: &[Descriptor]) -> Result<(), Error> {
        let _pass = self.parts.gate.enter().ok_or(Error::Closing)?;
        self.parts.imports.open(table, placed).await
    }

    /// Shows a table's readers what [`Store::open_imported`] opened, or forgets it if the import was not committed.
    pub fn end_import(&self, table: TableId, committed: bool) {
        if self.parts.imports.end(table, committed) {
            self.parts.compactor.want(table);
            self.parts.splits.notify();
        }
    }

    /// Holds the SSTables of a table that overlap some ranges, with all that was acknowledged before; those that lie
    /// within the ranges are to be given as they are if `whole`.
    ///
    /// # Errors
    /// The disk's; the table is not known.
    pub async fn open_stream(&self, table: TableId, ranges: &[TokenRange], whole: bool) -> Result<StreamView, Error> {
        self.flush(table).await?;
        let parts = &self.parts;
        let _pass = parts.gate.enter().ok_or(Error::Closing)?;
        StreamView::new(&parts.tables, &parts.files, &parts.faults, &parts.gate, table, ranges, whole)
    }

    /// How many SSTables of a table overlap some ranges, and about how many bytes of them, memtables included.
    ///
    /// # Errors
    /// The table is not known.
    pub fn measure_stream(&self, table: TableId, ranges: &[TokenRange]) -> Result<(u64, u64), Error> {
        streams::source::measure(&self.parts.tables, table, ranges)
    }

    /// After the start: from now on [`Store::next_foreign`] gives foreign SSTables. `released`: what was replayed is in
    /// SSTables, and no segment of an earlier run is left.
    pub fn begin_splitting(&self, released: bool) {
        self.parts.splits.enable(released);
    }

    /// Waits for a foreign SSTable whose split this shard leads; `None` when the store closes.
    pub async fn next_foreign(&self) -> Option<(TableId, Descriptor)> {
        self.parts.splits.next().await
    }

    /// Leaves a foreign SSTable whose split failed as it is, until [`Store::retry_foreign`] or the next start.
    pub fn leave_foreign(&self, table: TableId, foreign: &Descriptor) {
        self.parts.splits.leave(table, foreign);
    }

    /// Has [`Store::next_foreign`] give a foreign SSTable once more whose split failed.
    pub fn retry_foreign(&self, table: TableId, foreign: &Descriptor) {
        self.parts.splits.retry(table, foreign);
    }

    /// A place in this shard's log for its part of a foreign SSTable; `None` if the shard does not serve that.
    ///
    /// # Errors
    /// The log's.
    pub async fn begin_part(&self, table: TableId, foreign: &Descriptor) -> Result<Option<LogPosition>, Error> {
        let _pass = self.parts.gate.enter().ok_or(Error::Closing)?;
        self.parts.splits.begin_part(table, foreign).await
    }

    /// Writes the parts of a foreign SSTable, durably; `None` if this shard does not serve it any more. `places` are
    /// what each shard answered to [`Store::begin_part`].
    ///
    /// # Errors
    /// The disk's, bytes that cannot be used, a closing store: no file of a part stays.
    pub async fn write_parts(
        &self,
        table: TableId,
        foreign: &Descriptor,
        places: &[LogPosition],
    ) -> Result<Option<Parts>, Error> {
        let _pass = self.parts.gate.enter().ok_or(Error::Closing)?;
        self.parts.splits.write_parts(table, foreign, places).await
    }

    /// Opens this shard's part, to be adopted later.
    ///
    /// # Errors
    /// It cannot be opened.
    pub async fn open_part(&self, table: TableId, foreign: &Descriptor, names: &PartNames) -> Result<(), Error> {
        let _pass = self.parts.gate.enter().ok_or(Error::Closing)?;
        self.parts.splits.open_part(table, foreign, names).await
    }

    /// Forgets a part that was opened: there will be no commit.
    pub fn drop_part(&self, table: TableId, foreign: &Descriptor) {
        self.parts.splits.drop_part(table, foreign);
    }

    /// After the commit: serves the part in the place of the foreign SSTable. Returns when no read of this shard needs
    /// that any more.
    ///
    /// # Errors
    /// The disk's, of the removal of a part of a table that was truncated or dropped meanwhile.
    pub async fn adopt_part(&self, table: TableId, foreign: &Descriptor) -> Result<(), Error> {
        self.parts.splits.adopt_part(table, foreign).await
    }

    /// How many foreign SSTables this shard serves.
    pub fn foreign_count(&self) -> usize {
        self.parts.splits.count()
    }
}
