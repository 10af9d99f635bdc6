//! Splits foreign SSTables into SSTables of this node's shards.
//!
//! A foreign SSTable, of another program or another shard map, is served by every shard for its own tokens. One shard
//! leads its split; a failure before the commit leaves everything as it was:
//! 1. Every shard that still serves the SSTable gives a position in its log ([`crate::Store::begin_part`]).
//! 2. The leader reads the SSTable once and writes a part for every shard that has something in it, under one
//!    transaction ([`crate::Store::write_parts`]). Nothing is purged.
//! 3. Every shard opens its part ([`crate::Store::open_part`]).
//! 4. The leader commits ([`Parts::commit`]): from here on a start finds the parts alone.
//! 5. Every shard serves its part in the place of the foreign SSTable ([`crate::Store::adopt_part`]) and answers when
//!    none of its reads needs that any more; then the leader removes the foreign files ([`Parts::finish`]).
//!
//! A part covers no records of the log; it names a position behind every truncation before it and before every one
//! after it, so that a start knows whether it was truncated. Records that the foreign SSTable itself covers must no
//! longer be in the log, which is so once replayed rows were flushed and old segments released.
//!
//! Invariants: at every moment each shard serves either the foreign SSTable or its part; a shard that has truncated or
//! dropped the table in between removes its part.

use crate::commitlog::position::LogPosition;
use crate::commitlog::shard_log::ShardLog;
use crate::compaction::Compactor;
use crate::error::Error;
use crate::faults::Faults;
use crate::sstables::directory::components;
use crate::sstables::obsolete_sstables::{self, RETIRE_WAIT};
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::retained_columns::RetainedColumns;
use crate::sstables::sstable_files::SstableFiles;
use crate::sstables::sstable_id;
use crate::sstables::sstable_scan::SstableScan;
use crate::sstables::sstable_writer::SstableWriter;
use crate::sstables::transaction::{self, Transaction, TransactionKind};
use crate::tables::Tables;
use model::TableId;
use model::fragment::{Fragment, FragmentStep};
use model::merge::Merge;
use runtime::gate::Gate;
use runtime::sync::Condition;
use sstable::statistics::EncodingStats;
use sstable::{Component, Descriptor};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Rows written between two calls of `yield_if_needed`, each of which also looks whether the store closes.
const ROWS_PER_YIELD: usize = 128;

/// The names of the parts, by shard; none of a shard that has nothing in the SSTable.
pub type PartNames = Arc<[Option<Descriptor>]>;

/// The parts of a foreign SSTable, durable, before the SSTable is given up.
pub struct Parts {
    /// That of the foreign SSTable.
    directory: PathBuf,
    foreign: Descriptor,
    files: usize,
    names: PartNames,
    transaction: Transaction,
}

impl Parts {
    /// Their names.
    pub fn names(&self) -> &PartNames {
        &self.names
    }

    /// Gives the foreign SSTable up, durably.
    ///
    /// # Errors
    /// The disk's: whether it was given up is unknown until the next start.
    pub async fn commit(&mut self) -> Result<(), Error> {
        let millis = runtime::wall_micros() as u64 / 1000;
        self.transaction.remove(&self.directory, &self.foreign, millis, self.files);
        self.transaction.commit(millis).await
    }

    /// After the commit, when no shard reads the foreign SSTable: removes its files.
    ///
    /// # Errors
    /// The disk's: the next start removes them.
    pub async fn finish(self) -> Result<(), Error> {
        transaction::delete(&self.directory, |name| *name == self.foreign).await.map_err(Error::Io)?;
        self.transaction.finish().await
    }

    /// Removes the parts. Not after a commit was tried.
    pub async fn abort(self) -> Result<(), Error> {
        self.transaction.abort().await
    }
}

/// The foreign SSTables that a shard serves, and its part in splitting them.
pub(crate) struct Splits {
    tables: Rc<Tables>,
    files: Rc<SstableFiles>,
    log: Rc<ShardLog>,
    compactor: Rc<Compactor>,
    faults: Rc<Faults>,
    gate: Gate,
    /// Whether foreign SSTables are to be split, and whether those that this program wrote too.
    enabled: Cell<Option<bool>>,
    /// Notified when there may be a foreign SSTable to split.
    found: Rc<Condition>,
    /// Foreign SSTables whose split failed: they stay as they are.
    left: RefCell<BTreeSet<(TableId, Descriptor)>>,
    /// Open parts that this shard will serve, by the foreign SSTable that they replace.
    parts: RefCell<BTreeMap<(TableId, Descriptor), Rc<OpenSstable>>>,
}

impl Splits {
    pub(crate) fn new(
        tables: Rc<Tables>,
        files: Rc<SstableFiles>,
        log: Rc<ShardLog>,
        compactor: Rc<Compactor>,
        faults: Rc<Faults>,
        gate: Gate,
    ) -> Splits {
        Splits {
            tables,
            files,
            log,
            compactor,
            faults,
            gate,
            enabled: Cell::new(None),
            found: Rc::default(),
            left: RefCell::default(),
            parts: RefCell::default(),
        }
    }

    /// From now on [`Splits::next`] gives foreign SSTables. `released`: what was replayed is in SSTables, and no
    /// segment of an earlier run is left.
    pub(crate) fn enable(&self, released: bool) {
        self.enabled.set(Some(released));
        self.found.notify();
    }

    /// Has [`Splits::next`] look again: there is another foreign SSTable, or the gate was shut.
    pub(crate) fn notify(&self) {
        self.found.notify();
    }

    /// Waits for a foreign SSTable whose split this shard leads; `None` once the gate is shut.
    pub(crate) async fn next(&self) -> Option<(TableId, Descriptor)> {
        self.found
            .wait(|| match self.gate.is_closed() {
                true => Some(None),
                false => self.to_lead(|_| true).map(Some),
            })
            .await
    }

    /// Waits until no foreign SSTable of a table is left whose split this shard leads, but those that failed; or until
    /// the gate is shut.
    pub(crate) async fn settled(&self, table: TableId) {
        let is_settled = || self.gate.is_closed() || self.to_lead(|of| of == table).is_none();
        self.found.wait(|| is_settled().then_some(())).await;
    }

    /// Leaves a foreign SSTable as it is, until [`Splits::retry`] or the next start.
    pub(crate) fn leave(&self, table: TableId, foreign: &Descriptor) {
        self.left.borrow_mut().insert((table, foreign.clone()));
        self.found.notify();
    }

    /// Has [`Splits::next`] give a foreign SSTable once more that was left.
    pub(crate) fn retry(&self, table: TableId, foreign: &Descriptor) {
        if self.left.borrow_mut().remove(&(table, foreign.clone())) {
            self.found.notify();
        }
    }

    /// A place in this shard's log for its part of a foreign SSTable; `None` if the shard does not serve that.
    ///
    /// # Errors
    /// The log's.
    pub(crate) async fn begin_part(&self, table: TableId, foreign: &Descriptor) -> Result<Option<LogPosition>, Error> {
        if self.foreign(table, foreign).is_none() {
            return Ok(None);
        }
        self.log.place_marker().await.map(Some)
    }

    /// Writes the parts of a foreign SSTable, durably; `None` if this shard does not serve it any more. `places` are
    /// what the shards answered to [`Splits::begin_part`], in their order.
    ///
    /// # Errors
    /// The disk's, bytes that cannot be used, a shut gate: no file of a part stays.
    pub(crate) async fn write_parts(
        &self,
        table: TableId,
        foreign: &Descriptor,
        places: &[LogPosition],
    ) -> Result<Option<Parts>, Error> {
        let _turn = self.compactor.turn.acquire(1).await;
        let Some(source) = self.foreign(table, foreign) else { return Ok(None) };
        let directory = source.directory.clone();
        let files = source.files;
        let mut transaction = Transaction::new(&directory, TransactionKind::Compaction, sstable_id::time_uuid());
        let written = self.write_all(table, source, &directory, places, &mut transaction).await;
        match self.faults.noted(written) {
            Ok(names) => {
                let names = names.into();
                Ok(Some(Parts { directory, foreign: foreign.clone(), files, names, transaction }))
            }
            Err(error) => {
                if let Err(left) = transaction.abort().await {
                    tracing::warn!(error = %left, "unfinished parts of an SSTable stay until the next start");
                }
                Err(error)
            }
        }
    }

    /// Opens this shard's part, to be adopted later.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) async fn open_part(&self, table: TableId, foreign: &Descriptor, names: &PartNames) -> Result<(), Error> {
        let Some(name) = names.get(usize::from(self.files.shard)).cloned().flatten() else { return Ok(()) };
        let description = self.tables.description(table)?;
        let directory = self.files.directory_of(&description);
        let components = components(&directory, &name).await?;
        let part = self.files.open(&directory, &name, &components, &description).await?;
        self.parts.borrow_mut().insert((table, foreign.clone()), Rc::new(part));
        Ok(())
    }

    /// Forgets a part that was opened: there will be no commit.
    pub(crate) fn drop_part(&self, table: TableId, foreign: &Descriptor) {
        self.parts.borrow_mut().remove(&(table, foreign.clone()));
    }

    /// After the commit: serves the part in the place of the foreign SSTable. Returns when no read of this shard needs
    /// that any more.
    ///
    /// # Errors
    /// The disk's, of the removal of a part of a table that was truncated or dropped meanwhile.
    pub(crate) async fn adopt_part(&self, table: TableId, foreign: &Descriptor) -> Result<(), Error> {
        let part = self.parts.borrow_mut().remove(&(table, foreign.clone()));
        let Some(gone) = self.foreign(table, foreign) else {
            let Some(part) = part else { return Ok(()) };
            return self.faults.noted(obsolete_sstables::remove(&part.directory.clone(), vec![part]).await);
        };
        if let Some(state) = self.tables.borrow_mut().get_mut(&table) {
            let added = state.adapted(part.as_slice())?;
            state.view = Rc::new(state.view.replaced(std::slice::from_ref(&gone), &added));
        }
        drop(part);
        self.compactor.want(table);
        self.found.notify();
        while gone.is_read() {
            runtime::sleep(RETIRE_WAIT).await;
        }
        Ok(())
    }

    /// How many foreign SSTables this shard serves.
    pub(crate) fn count(&self) -> usize {
        let tables = self.tables.borrow();
        tables.values().flat_map(|state| &state.view.sstables).filter(|sstable| sstable.foreign).count()
    }

    /// A foreign SSTable that this shard serves, by its name.
    fn foreign(&self, table: TableId, name: &Descriptor) -> Option<Rc<OpenSstable>> {
        let tables = self.tables.borrow();
        let mut served = tables.get(&table)?.view.sstables.iter();
        served.find(|sstable| sstable.foreign && sstable.reader.descriptor() == name).cloned()
    }

    /// The first foreign SSTable of some tables, by table and name, whose split this shard leads and that has not
    /// failed.
    fn to_lead(&self, is_of: impl Fn(TableId) -> bool) -> Option<(TableId, Descriptor)> {
        let released = self.enabled.get()?;
        let (tables, left) = (self.tables.borrow(), self.left.borrow());
        let served =
            tables.iter().flat_map(|(id, state)| state.view.sstables.iter().map(move |sstable| (*id, sstable)));
        let candidates = served.filter(|(table, sstable)| {
            let name = sstable.reader.descriptor();
            sstable.foreign
                && is_of(*table)
                && (released || sstable.sidecar().is_none())
                && self.leads(*table, name)
                && !left.contains(&(*table, name.clone()))
        });
        candidates.map(|(table, sstable)| (table, sstable.reader.descriptor().clone())).min()
    }

    /// Whether this shard leads the split of a foreign SSTable: they are spread over the shards.
    fn leads(&self, table: TableId, name: &Descriptor) -> bool {
        let mut sum = crc32fast::Hasher::new();
        sum.update(&table.0);
        sum.update(name.to_string().as_bytes());
        sum.finalize() % u32::from(self.files.shard_map.shards) == u32::from(self.files.shard)
    }

    async fn write_all(
        &self,
        table: TableId,
        source: Rc<OpenSstable>,
        directory: &Path,
        places: &[LogPosition],
        transaction: &mut Transaction,
    ) -> Result<Vec<Option<Descriptor>>, Error> {
        let table = self.tables.description(table)?;
        let metadata = source.reader.metadata();
        let mut stats = EncodingStats::default();
        stats.add_header(&metadata.header);
        let mut kept = RetainedColumns::of(&table);
        kept.sstable(metadata);
        let mut options = self.files.compaction_options(&table, stats)?;
        kept.keep(&mut options.header);
        options.expected_partitions = source.partitions().div_ceil(places.len() as u64);
        options.repaired_at = metadata.statistics.repaired_at;
        options.pending_repair = metadata.statistics.pending_repair;
        let map = self.files.shard_map;
        let bad = |error| Error::BadSstable { directory: directory.to_owned(), error };
        let mut parts: Vec<Option<SstableWriter>> = places.iter().map(|_| None).collect();
        let mut merge = Merge::new(map.partitioner, vec![SstableScan::new(source)], false);
        let (mut owner, mut rows) = (0, 0);
        loop {
            match merge.advance().map_err(bad)? {
                FragmentStep::End => break,
                FragmentStep::Need(_) => {
                    for need in merge.needs().to_vec() {
                        if let Some(input) = merge.source_mut(need.source) {
                            input.bring(need).await?;
                        }
                    }
                    continue;
                }
                FragmentStep::Fragment => {}
            }
            if let Some(Fragment::PartitionStart { token, .. }) = merge.fragment() {
                owner = usize::from(map.owner(token));
            }
            let (Some(part), Some(place)) = (parts.get_mut(owner), places.get(owner)) else { continue };
            let part = match part {
                Some(part) => part,
                None => {
                    let descriptor = self.files.new_descriptor();
                    let directory = self.files.make_directory(&table, owner as u16).await?;
                    transaction.add(&directory, &descriptor).await?;
                    let mut options = options.clone();
                    options.owner = Some((owner as u16, map));
                    options.log_intervals = vec![((*place).into(), (*place).into())];
                    part.insert(SstableWriter::new(&self.files, &directory, descriptor, &table, options))
                }
            };
            if let Some(fragment) = merge.fragment()
                && part.fragment(&fragment)
            {
                part.take().await?;
            }
            rows += 1;
            if rows % ROWS_PER_YIELD == 0 {
                runtime::yield_if_needed().await;
                if self.gate.is_closed() {
                    return Err(Error::Closing);
                }
            }
        }
        let mut names = Vec::new();
        for part in parts {
            names.push(match part {
                None => None,
                Some(part) => {
                    let name = part.descriptor.clone();
                    part.close().await?.map(|_: runtime::HashSet<Component>| name)
                }
            });
        }
        Ok(names)
    }
}
