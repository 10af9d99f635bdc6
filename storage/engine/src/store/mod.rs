//! A shard's storage as its users see it: the composition of the crate's parts, and their start and stop.
//!
//! The crate `shard` drives the start, so that the schema is known before data:
//! 1. [`Store::open`] lists the log's segments and reads their headers.
//! 2. On shard 0: [`Store::add_table`], [`Store::load`] and [`Store::replay`] for the system tables; then the schema is
//!    read from them.
//! 3. On every shard: the same for all tables. Each call of `replay` applies the records of the tables that became
//!    known since the call before, so that each record is applied once. It reads the segments again, which costs time
//!    once instead of memory for as long as the start takes.
//! 4. [`Store::start`], with one counter floor for all shards.
//!
//! `definitions` adds, truncates and drops tables, `requests` reads and writes, `maintenance` is what operators ask
//! for. What the parts do is described where they are defined.

mod definitions;
mod maintenance;
mod repairs;
mod requests;

pub use crate::commitlog::position::{LogPosition, Truncation};
pub use crate::recovery::replay::ReplayStats;

use crate::commitlog::shard_log::ShardLog;
use crate::compaction::Compactor;
use crate::error::Error;
use crate::faults::{Fault, Faults};
use crate::flush::{Flusher, FlusherParts};
use crate::guards::partition_guard::LargePartitions;
use crate::indexing::{Indexes, IndexesParts};
use crate::memory::MemoryBudget;
use crate::operations::import::Imports;
use crate::operations::pending_rows::PendingRows;
use crate::operations::split::Splits;
use crate::operations::streams;
use crate::options::Options;
use crate::partition_locks::PartitionLocks;
use crate::read::Reader;
use crate::recovery::load::{self, Loader};
use crate::recovery::replay;
use crate::sstables::block_cache::{BlockCache, CacheMetrics};
use crate::sstables::obsolete_sstables::ObsoleteSstables;
use crate::sstables::sstable_files::SstableFiles;
use crate::tables::Tables;
use model::{Partitioner, TableId};
use runtime::HashMap;
use runtime::gate::Gate;
use runtime::sync::Condition;
use std::cell::RefCell;
use std::rc::Rc;

/// A shard's storage. Cloning shares it.
#[derive(Clone)]
pub struct Store {
    parts: Rc<StoreParts>,
}

/// What a store is made of.
pub(crate) struct StoreParts {
    /// Work under way, which a stop waits for.
    pub(crate) gate: Gate,
    pub(crate) tables: Rc<Tables>,
    pub(crate) memory: Rc<MemoryBudget>,
    pub(crate) log: Rc<ShardLog>,
    faults: Rc<Faults>,
    files: Rc<SstableFiles>,
    obsolete: Rc<ObsoleteSstables>,
    reader: Rc<Reader>,
    compactor: Rc<Compactor>,
    flusher: Rc<Flusher>,
    indexes: Rc<Indexes>,
    imports: Imports,
    pending_rows: PendingRows,
    splits: Splits,
    locks: PartitionLocks,
    /// Where tables were truncated in this run.
    truncated: RefCell<HashMap<TableId, LogPosition>>,
}

impl Store {
    /// Opens the shard's part of the log directory: lists the segments and reads their headers.
    ///
    /// Panics on options outside their ranges.
    pub async fn open(options: Options) -> Result<Store, Error> {
        let shard = runtime::current_shard().0 as u16;
        let log = Rc::new(ShardLog::open(&options, shard).await?);
        let gate = Gate::new();
        let faults = Rc::new(Faults::default());
        let flush_wanted: Rc<Condition> = Rc::default();
        let memory = Rc::new(MemoryBudget::new(&options, gate.clone(), flush_wanted.clone()));
        let cache = Rc::new(BlockCache::new(options.cache_bytes_max, gate.clone()));
        let files = Rc::new(SstableFiles::new(&options, shard, cache.clone()));
        let obsolete = Rc::new(ObsoleteSstables::new(shard));
        let tables = Rc::new(Tables::new(shard, options.shard_map));
        let reader = Rc::new(Reader::new(tables.clone(), cache));
        let compactor = Rc::new(Compactor::new(tables.clone(), files.clone(), faults.clone(), gate.clone()));
        let flusher = Rc::new(Flusher::new(FlusherParts {
            tables: tables.clone(),
            files: files.clone(),
            log: log.clone(),
            memory: memory.clone(),
            compactor: compactor.clone(),
            faults: faults.clone(),
            gate: gate.clone(),
            wanted: flush_wanted,
            log_bytes_max: options.log_bytes_max,
            incremental_backups: options.incremental_backups,
        }));
        let indexes = Rc::new(Indexes::new(IndexesParts {
            tables: tables.clone(),
            files: files.clone(),
            reader: reader.clone(),
            memory: memory.clone(),
            flusher: flusher.clone(),
            obsolete: obsolete.clone(),
            gate: gate.clone(),
        }));
        let imports = Imports::new(tables.clone(), files.clone(), indexes.clone());
        let splits =
            Splits::new(tables.clone(), files.clone(), log.clone(), compactor.clone(), faults.clone(), gate.clone());
        let pending_rows = PendingRows::new(
            tables.clone(),
            files.clone(),
            log.clone(),
            flusher.clone(),
            indexes.clone(),
            compactor.clone(),
            faults.clone(),
        );
        let (locks, truncated) = (PartitionLocks::default(), RefCell::default());
        let parts = StoreParts {
            gate,
            tables,
            memory,
            log,
            faults,
            files,
            obsolete,
            reader,
            compactor,
            flusher,
            indexes,
            imports,
            pending_rows,
            splits,
            locks,
            truncated,
        };
        Ok(Store { parts: Rc::new(parts) })
    }

    /// On shard 0, before any shard loads: finishes or takes back what transactions left in the directories of all
    /// tables, dropped ones among them.
    pub async fn clean(&self) -> Result<(), Error> {
        streams::directories::clean_outgoing(&self.parts.files.data).await?;
        load::clean(&self.parts.files.data).await
    }

    /// Opens the SSTables of the tables that became known since the call before, less what `truncations` cover, which
    /// [`Store::start`] removes. Comes before the [`Store::replay`] of those tables.
    pub async fn load(&self, truncations: &[(TableId, Truncation)]) -> Result<(), Error> {
        let StoreParts { tables, files, log, obsolete, indexes, .. } = &*self.parts;
        let loaded = Loader { tables, files, log, obsolete }.load(truncations).await?;
        for error in &loaded.unopened {
            self.parts.faults.note(error);
        }
        indexes.add_unusable(loaded.unusable);
        for table in loaded.bases {
            indexes.load_built(table).await?;
        }
        Ok(())
    }

    /// Replays the records of the tables known so far that this shard owns, less what `truncations` cover; each record
    /// is applied once over all calls. Idempotent against a crash: nothing is changed on disk. May exceed the budget.
    pub async fn replay(&self, truncations: &[(TableId, Truncation)]) -> Result<ReplayStats, Error> {
        assert!(self.parts.log.get().is_none(), "replay comes before start");
        replay::replay(&self.parts.log, &self.parts.tables, truncations).await
    }

    /// Ends replay: makes what was replayed durable and starts a fresh log segment. Its counter is above
    /// `counter_floor`, the highest [`Store::highest_counter`] of all shards or more. Comes after the [`Store::load`]
    /// of every shard: from here on SSTables are made and removed.
    pub async fn start(&self, counter_floor: u64) -> Result<(), Error> {
        let parts = &self.parts;
        parts.log.start(counter_floor, parts.flusher.wanted()).await?;
        for table in parts.obsolete.tables() {
            parts.obsolete.remove(table).await?;
        }
        parts.indexes.clear_unusable().await?;
        parts.flusher.start();
        parts.compactor.start();
        Ok(())
    }

    /// The latest time, microseconds since 1970, that earlier runs recorded in this shard's log: no durable write has a
    /// later timestamp that a node gave it. Known after [`Store::replay`]; `None` if there is none.
    pub fn recorded_time(&self) -> Option<i64> {
        self.parts.log.recorded_time()
    }

    /// Sets how far write timestamps are ahead of the wall clock, microseconds: it was set back over a restart.
    pub fn set_clock_ahead(&self, micros: i64) {
        self.parts.log.clock.ahead.set(micros);
    }

    /// The partitioner of the node.
    pub fn partitioner(&self) -> Partitioner {
        self.parts.tables.shard_map.partitioner
    }

    /// Sets the node's id, which SSTables written from now on name.
    pub fn set_host_id(&self, host_id: [u8; 16]) {
        self.parts.files.set_host_id(host_id);
    }

    /// Sets who is told, where an SSTable is written, of large partitions: their table, key and bytes. Those are of
    /// [`crate::LARGE_PARTITION_BYTES`] or more in tables whose throughput is limited, and an eighth of the size at
    /// which keys grow by themselves, or more, in tables where they do.
    pub fn on_large_partition(&self, told: LargePartitions) {
        self.parts.files.on_large_partition(told);
    }

    /// The highest segment counter found in the directory; 0 if it is empty.
    pub fn highest_counter(&self) -> u64 {
        self.parts.log.highest_counter()
    }

    /// The lowest counter that a segment of this run can have, on any shard: what [`Truncation::counter_floor`] takes.
    /// Set by [`Store::start`].
    pub fn counter_floor(&self) -> u64 {
        self.parts.log.counter_floor()
    }

    /// After [`Store::start`]: flushes what replay brought. Once every shard has, shard 0 calls
    /// [`Store::release_replayed`].
    pub async fn flush_replayed(&self) -> Result<(), Error> {
        let replayed: Vec<TableId> = {
            let tables = self.parts.tables.borrow();
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
        let tables = self.parts.tables.ids();
        if tables.is_empty() {
            return Ok(());
        }
        self.parts.log.release_old(tables, |table| self.parts.tables.contains(table)).await
    }

    /// Whether [`Store::close`] was called.
    pub fn is_closing(&self) -> bool {
        self.parts.gate.is_closed()
    }

    /// Makes everything written durable (in every mode).
    pub async fn sync(&self) -> Result<(), Error> {
        self.parts.log.started().sync().await
    }

    /// Refuses new writes, waits for those under way, syncs the log. First flushes the tables whose writes are not in
    /// the log: what is written to those meanwhile is lost, so that the caller lets no writes in before it.
    pub async fn close(&self) -> Result<(), Error> {
        let parts = &self.parts;
        let mut flushed = Ok(());
        for table in parts.tables.unlogged() {
            match self.flush(table).await {
                Ok(()) | Err(Error::UnknownTable(_) | Error::Closing) => {}
                failed => flushed = failed,
            }
        }
        parts.gate.shut();
        parts.flusher.notify();
        parts.compactor.notify();
        parts.splits.notify();
        parts.memory.notify();
        parts.gate.close().await;
        match parts.log.get() {
            Some(log) => log.close().await.and(flushed),
            None => Ok(()),
        }
    }

    /// Bytes in a table's memtable; 0 of a table that is not known.
    pub fn memory_of(&self, table: TableId) -> usize {
        self.parts.tables.memtable(table).map_or(0, |memtable| memtable.bytes())
    }

    /// Bytes in memtables of user tables, and the budget.
    pub fn memory(&self) -> (usize, usize) {
        (self.parts.memory.user_bytes(), self.parts.memory.bytes_max())
    }

    /// What the cache of SSTable blocks holds and how it was used.
    pub fn cache_metrics(&self) -> CacheMetrics {
        self.parts.files.cache.metrics()
    }

    /// Waits for the first failure of a kind that was not told before.
    pub async fn next_fault(&self) -> Fault {
        self.parts.faults.next().await
    }

    pub(crate) fn parts(&self) -> &Rc<StoreParts> {
        &self.parts
    }
}
