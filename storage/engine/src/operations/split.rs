//! Foreign SSTables become ones of this node's shards.
//!
//! A foreign SSTable, of another program or another map of tokens to cores, is served by every shard for its own tokens.
//! One shard leads its end; a failure before the commit leaves everything as it was:
//! 1. Every shard tells where its log is ([`Store::begin_part`]), if it still serves the SSTable.
//! 2. The leader reads it once and writes a part for every shard that has something in it, under one transaction
//!    ([`Store::write_parts`]). Nothing is purged.
//! 3. Every shard opens its part ([`Store::open_part`]).
//! 4. The leader commits ([`Parts::commit`]): from here on a start finds the parts alone.
//! 5. Every shard puts its part in the place of the foreign one ([`Store::adopt_part`]) and answers when none of its reads
//!    needs that any more; then the leader removes its files ([`Parts::finish`]).
//!
//! A part stands for no record of the log, but for a place behind every truncation before it and before every one after it:
//! so a start knows whether it was truncated. What the SSTable itself stood for must no longer be in the log, which is so
//! once what was replayed has been flushed and released.
//!
//! Invariants: at every moment each shard serves either the foreign SSTable or its part; a shard that has truncated or
//! dropped the table in between removes its part.

use crate::Error;
use crate::commitlog::position::LogPosition;
use crate::compaction::input::Input;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::retained_columns::KeptColumns;
use crate::sstables::sstable_id;
use crate::sstables::sstable_writer::Writing;
use crate::sstables::transaction::{Kind, Transaction};
use crate::sstables::view::{self, RETIRE_WAIT};
use crate::sstables::write_options;
use crate::store::{Inner, Store};
use model::fragment::{Fragment, Progress};
use model::merge::Merge;
use model::{MutationBuilder, TableId};
use sstable::statistics::EncodingStats;
use sstable::{Component, Descriptor};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Rows written between two questions whether to yield or to stop.
const ROWS_PER_YIELD: usize = 128;

/// The names of the parts, by shard; none of a shard that has nothing in the SSTable.
pub type PartNames = Arc<[Option<Descriptor>]>;

/// The parts of a foreign SSTable, durable, before the SSTable is given up.
pub struct Parts {
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
        self.transaction.remove(&self.foreign, millis, self.files);
        self.transaction.commit(millis).await
    }

    /// After the commit, when no shard reads the foreign SSTable: removes its files.
    ///
    /// # Errors
    /// The disk's: the next start removes them.
    pub async fn finish(self) -> Result<(), Error> {
        crate::sstables::transaction::delete(&self.directory, |name| *name == self.foreign).await.map_err(Error::Io)?;
        self.transaction.finish().await
    }

    /// Removes the parts. Not after a commit was tried.
    pub async fn abort(self) -> Result<(), Error> {
        self.transaction.abort().await
    }
}

impl Store {
    /// After the start: from now on [`Store::next_foreign`] gives foreign SSTables. `released`: what was replayed is in
    /// SSTables, and no segment of an earlier run is left.
    pub fn begin_splitting(&self, released: bool) {
        self.inner().splits.set(Some(released));
        self.inner().foreign_found.notify();
    }

    /// Waits for a foreign SSTable whose end this shard leads; `None` when the store closes.
    pub async fn next_foreign(&self) -> Option<(TableId, Descriptor)> {
        let inner = self.inner();
        inner
            .foreign_found
            .wait(|| match inner.gate.is_closed() {
                true => Some(None),
                false => inner.foreign_to_lead().map(Some),
            })
            .await
    }

    /// A foreign SSTable whose end failed stays as it is until [`Store::retry_foreign`] or the next start.
    pub fn leave_foreign(&self, table: TableId, foreign: &Descriptor) {
        self.inner().left_foreign.borrow_mut().insert((table, foreign.clone()));
    }

    /// A foreign SSTable whose end failed is to be given by [`Store::next_foreign`] once more.
    pub fn retry_foreign(&self, table: TableId, foreign: &Descriptor) {
        let inner = self.inner();
        if inner.left_foreign.borrow_mut().remove(&(table, foreign.clone())) {
            inner.foreign_found.notify();
        }
    }

    /// A place in this shard's log for its part of a foreign SSTable; `None` if the shard does not serve that.
    ///
    /// # Errors
    /// The log's.
    pub async fn begin_part(&self, table: TableId, foreign: &Descriptor) -> Result<Option<LogPosition>, Error> {
        let inner = self.inner();
        let _pass = inner.gate.enter().ok_or(Error::Closing)?;
        if inner.foreign(table, foreign).is_none() {
            return Ok(None);
        }
        inner.log_place().await.map(Some)
    }

    /// Writes the parts of a foreign SSTable, durably; `None` if this shard does not serve it any more. `places` are what
    /// each shard answered to [`Store::begin_part`].
    ///
    /// # Errors
    /// The disk's, bytes that cannot be used, a closing store: nothing of it stays.
    pub async fn write_parts(
        &self,
        table: TableId,
        foreign: &Descriptor,
        places: &[LogPosition],
    ) -> Result<Option<Parts>, Error> {
        let inner = self.inner();
        let _pass = inner.gate.enter().ok_or(Error::Closing)?;
        let _turn = inner.compaction_turn.acquire(1).await;
        let Some(source) = inner.foreign(table, foreign) else { return Ok(None) };
        let directory = source.directory.clone();
        let files = source.files;
        let mut transaction = Transaction::new(&directory, Kind::Compaction, sstable_id::time_uuid());
        let written = inner.write_parts(table, source, &directory, places, &mut transaction).await;
        match inner.faults.noted(written) {
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
    pub async fn open_part(&self, table: TableId, foreign: &Descriptor, names: &PartNames) -> Result<(), Error> {
        let inner = self.inner();
        let _pass = inner.gate.enter().ok_or(Error::Closing)?;
        let Some(name) = names.get(usize::from(inner.shard)).cloned().flatten() else { return Ok(()) };
        let description = {
            let tables = inner.tables.borrow();
            tables.get(&table).ok_or(Error::UnknownTable(table))?.table.clone()
        };
        let directory = inner.directory_of(&description);
        let components = view::components(&directory, &name).await?;
        let part = inner.open_sstable(&directory, &name, &components, &description).await?;
        inner.parts.borrow_mut().insert((table, foreign.clone()), Rc::new(part));
        Ok(())
    }

    /// Forgets a part that was opened: there will be no commit.
    pub fn drop_part(&self, table: TableId, foreign: &Descriptor) {
        self.inner().parts.borrow_mut().remove(&(table, foreign.clone()));
    }

    /// After the commit: serves the part in the place of the foreign SSTable. Returns when no read of this shard needs
    /// that any more.
    ///
    /// # Errors
    /// The disk's, of the removal of a part of a table that was truncated or dropped meanwhile.
    pub async fn adopt_part(&self, table: TableId, foreign: &Descriptor) -> Result<(), Error> {
        let inner = self.inner();
        let part = inner.parts.borrow_mut().remove(&(table, foreign.clone()));
        let Some(gone) = inner.foreign(table, foreign) else {
            let Some(part) = part else { return Ok(()) };
            return inner.faults.noted(crate::compaction::remove(&part.directory.clone(), vec![part]).await);
        };
        if let Some(state) = inner.tables.borrow_mut().get_mut(&table) {
            let added = state.adapted(part.as_slice())?;
            state.view = Rc::new(state.view.replaced(std::slice::from_ref(&gone), &added));
        }
        drop(part);
        inner.want_compaction(table);
        while gone.is_read() {
            runtime::sleep(RETIRE_WAIT).await;
        }
        Ok(())
    }

    /// How many foreign SSTables this shard serves.
    pub fn foreign_count(&self) -> usize {
        let tables = self.inner().tables.borrow();
        tables.values().flat_map(|state| &state.view.sstables).filter(|sstable| sstable.foreign).count()
    }
}

impl Inner {
    /// A place in the log behind every truncation so far and before all to come.
    pub(crate) async fn log_place(&self) -> Result<LogPosition, Error> {
        // An empty record lies between the truncations before and those after.
        let log = self.started();
        let empty = MutationBuilder::new(&[]).finish();
        let permit = log.admit(empty.bytes().len()).await?;
        log.append(empty.bytes(), std::iter::empty(), permit)?;
        log.reach(&log.cut()).await
    }

    /// A foreign SSTable that this shard serves, by its name.
    fn foreign(&self, table: TableId, name: &Descriptor) -> Option<Rc<OpenSstable>> {
        let tables = self.tables.borrow();
        let mut served = tables.get(&table)?.view.sstables.iter();
        served.find(|sstable| sstable.foreign && sstable.reader.descriptor() == name).cloned()
    }

    /// The first foreign SSTable, by table and name, whose end this shard leads and that has not failed.
    fn foreign_to_lead(&self) -> Option<(TableId, Descriptor)> {
        let released = self.splits.get()?;
        let (tables, left) = (self.tables.borrow(), self.left_foreign.borrow());
        let served =
            tables.iter().flat_map(|(id, state)| state.view.sstables.iter().map(move |sstable| (*id, sstable)));
        let candidates = served.filter(|(table, sstable)| {
            let name = sstable.reader.descriptor();
            sstable.foreign
                && (released || sstable.sidecar().is_none())
                && self.leads(*table, name)
                && !left.contains(&(*table, name.clone()))
        });
        candidates.map(|(table, sstable)| (table, sstable.reader.descriptor().clone())).min()
    }

    /// Whether the end of a foreign SSTable is this shard's to lead: they are spread over the shards.
    fn leads(&self, table: TableId, name: &Descriptor) -> bool {
        let mut sum = crc32fast::Hasher::new();
        sum.update(&table.0);
        sum.update(name.to_string().as_bytes());
        sum.finalize() % u32::from(self.options.shard_map.shards) == u32::from(self.shard)
    }

    async fn write_parts(
        self: &Rc<Self>,
        table: TableId,
        source: Rc<OpenSstable>,
        directory: &Path,
        places: &[LogPosition],
        transaction: &mut Transaction,
    ) -> Result<Vec<Option<Descriptor>>, Error> {
        let table = {
            let tables = self.tables.borrow();
            tables.get(&table).ok_or(Error::UnknownTable(table))?.table.clone()
        };
        let metadata = source.reader.metadata();
        let mut stats = EncodingStats::default();
        stats.add_header(&metadata.header);
        let mut kept = KeptColumns::of(&table);
        kept.sstable(metadata);
        let mut options = write_options::of(self, &table, stats, false)?;
        kept.keep(&mut options.header);
        options.expected_partitions = source.partitions().div_ceil(places.len() as u64);
        options.repaired_at = metadata.statistics.repaired_at;
        options.pending_repair = metadata.statistics.pending_repair;
        let map = self.options.shard_map;
        let bad = |error| Error::BadSstable { directory: directory.to_owned(), error };
        let mut parts: Vec<Option<Writing>> = places.iter().map(|_| None).collect();
        let mut merge = Merge::new(vec![Input::new(source)], false);
        let (mut owner, mut rows) = (0, 0);
        loop {
            match merge.advance().map_err(bad)? {
                Progress::End => break,
                Progress::Need(_) => {
                    for need in merge.needs().to_vec() {
                        if let Some(input) = merge.source_mut(need.source) {
                            input.bring(need).await?;
                        }
                    }
                    continue;
                }
                Progress::Fragment => {}
            }
            if let Some(Fragment::PartitionStart { token, .. }) = merge.fragment() {
                owner = usize::from(map.owner(token));
            }
            let (Some(part), Some(place)) = (parts.get_mut(owner), places.get(owner)) else { continue };
            let part = match part {
                Some(part) => part,
                None => {
                    let descriptor = self.new_descriptor();
                    transaction.add(&descriptor).await?;
                    let mut options = options.clone();
                    options.owner = Some((owner as u16, map));
                    options.log_intervals = vec![((*place).into(), (*place).into())];
                    part.insert(Writing::new(self, directory, descriptor, &table, options))
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
