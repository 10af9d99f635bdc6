//! Setting data apart for an incremental repair, and what becomes of it (Cassandra: anti-compaction).
//!
//! 1. [`Compactor::set_apart`]: of the unrepaired SSTables that overlap the ranges of a session, those that lie within
//!    them are given the session's mark; any other is rewritten as two, what is in the ranges with the mark and the
//!    rest without. The caller has flushed the table before.
//! 2. [`Compactor::settle`]: the SSTables with the mark become repaired, or unrepaired again if the session has failed.
//!
//! A mark is changed by giving the files second names ([`crate::sstables::relabelled`]) under a transaction, so that a
//! start after a crash finds each SSTable with the old mark or with the new one. Both steps may be interrupted and
//! repeated.
//!
//! Invariants: every row is in the table's view at every moment; no compaction of the shard runs meanwhile; marked
//! SSTables of leveled tables are at level 0, because they may overlap those of the set that they come to. Foreign
//! SSTables, which all shards serve, stay unrepaired until they are split.

use super::TaskKind;
use super::compactor::Compactor;
use super::run::{CompactionJob, SetApart};
use crate::error::Error;
use crate::sstables::directory;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::relabelled::relabel;
use crate::sstables::repair_set::RepairSet;
use crate::sstables::sstable_id;
use crate::sstables::transaction::{Transaction, TransactionKind};
use model::{TableId, TokenRange};
use runtime::file::sync_dir;
use sstable::Descriptor;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// The SSTables of a session that is about some ranges.
#[derive(Default)]
struct Chosen {
    /// Those that lie within the ranges.
    within: Vec<Rc<OpenSstable>>,
    /// Those that have other keys too.
    across: Vec<Rc<OpenSstable>>,
}

impl Compactor {
    /// Sets the unrepaired data of a table in `ranges` apart for the session with this id.
    ///
    /// # Errors
    /// [`Error::SetApart`]: another session has some of it. The disk's; an SSTable cannot be read. What was set apart
    /// by then stays so until [`Compactor::settle`].
    pub(crate) async fn set_apart(
        self: &Rc<Self>,
        table: TableId,
        ranges: Arc<[TokenRange]>,
        session: [u8; 16],
    ) -> Result<(), Error> {
        let _turn = self.turn.acquire(1).await;
        let Chosen { within, across } = self.choose(table, &ranges, session)?;
        self.mark(table, within, Some(session), 0).await?;
        for sstable in across {
            let job = CompactionJob {
                table,
                level: sstable.reader.metadata().statistics.level,
                inputs: vec![sstable],
                output_bytes_max: u64::MAX,
                boundaries: Vec::new(),
                owned: None,
                set_apart: Some(SetApart { ranges: ranges.clone(), session }),
            };
            self.faults.noted(self.compact(job, TaskKind::AntiCompaction).await)?;
        }
        Ok(())
    }

    fn choose(&self, table: TableId, ranges: &[TokenRange], session: [u8; 16]) -> Result<Chosen, Error> {
        let tables = self.tables.borrow();
        let state = tables.get(&table).ok_or(Error::UnknownTable(table))?;
        let mut chosen = Chosen::default();
        for sstable in state.view.sstables.iter().filter(|sstable| !sstable.foreign) {
            let (first, last) = sstable.tokens();
            if !ranges.iter().any(|range| range.may_overlap(first, last)) {
                continue;
            }
            match RepairSet::of(sstable) {
                RepairSet::Repaired => continue,
                RepairSet::Pending(own) if own == session => continue,
                RepairSet::Pending(other) => return Err(Error::SetApart { session: other }),
                RepairSet::Unrepaired => {}
            }
            // Statistics.db of old versions has no room for a session.
            let is_marked = sstable.reader.descriptor().version.features().repair_session;
            let is_within = sstable.reader.key_bounds().is_some_and(|(first_key, last_key)| {
                ranges.iter().any(|range| range.contains(first, first_key) && range.contains(last, last_key))
            });
            match is_within && is_marked {
                true => chosen.within.push(sstable.clone()),
                false => chosen.across.push(sstable.clone()),
            }
        }
        Ok(chosen)
    }

    /// Ends a session on this shard: what was set apart for it counts as repaired at `repaired_at`, in milliseconds
    /// since 1970, or is unrepaired if that is 0.
    ///
    /// # Errors
    /// The disk's. Some of it may still be set apart.
    pub(crate) async fn settle(self: &Rc<Self>, session: [u8; 16], repaired_at: i64) -> Result<(), Error> {
        for table in self.tables.ids() {
            let _turn = self.turn.acquire(1).await;
            let of_session = {
                let tables = self.tables.borrow();
                let Some(state) = tables.get(&table) else { continue };
                let is_own = |sstable: &&Rc<OpenSstable>| {
                    !sstable.foreign && RepairSet::of(sstable) == RepairSet::Pending(session)
                };
                state.view.sstables.iter().filter(is_own).cloned().collect::<Vec<_>>()
            };
            if !of_session.is_empty() {
                self.mark(table, of_session, None, repaired_at).await?;
                self.want(table);
            }
        }
        Ok(())
    }

    /// The sessions for which data of this shard is set apart.
    pub(crate) fn sessions(&self) -> BTreeSet<[u8; 16]> {
        let tables = self.tables.borrow();
        let own = tables.values().flat_map(|state| &state.view.sstables).filter(|sstable| !sstable.foreign);
        let sessions = own.filter_map(|sstable| match RepairSet::of(sstable) {
            RepairSet::Pending(session) => Some(session),
            _ => None,
        });
        sessions.collect()
    }

    /// Puts SSTables that differ in their mark alone in the places of others. The caller holds the turn.
    async fn mark(
        &self,
        table: TableId,
        marked: Vec<Rc<OpenSstable>>,
        session: Option<[u8; 16]>,
        repaired_at: i64,
    ) -> Result<(), Error> {
        if marked.is_empty() {
            return Ok(());
        }
        let description = self.tables.description(table)?;
        let own = self.files.make_directory(&description, self.files.shard).await?;
        let mut transaction = Transaction::new(&own, TransactionKind::Compaction, sstable_id::time_uuid());
        let renamed = |sstable: &Rc<OpenSstable>| Descriptor {
            version: sstable.reader.descriptor().version,
            id: sstable_id::sstable_id(),
        };
        let names: Vec<Descriptor> = marked.iter().map(renamed).collect();
        let made = async {
            let directories = marked.iter().map(|sstable| sstable.directory.as_path());
            transaction.add_all(directories.zip(&names)).await?;
            let mut listed: BTreeMap<&Path, _> = BTreeMap::new();
            for sstable in &marked {
                if !listed.contains_key(sstable.directory.as_path()) {
                    listed.insert(&*sstable.directory, directory::list(&sstable.directory).await?);
                }
            }
            let mut opened = Vec::with_capacity(marked.len());
            for (sstable, name) in marked.iter().zip(&names) {
                let (directory, from) = (&*sstable.directory, sstable.reader.descriptor());
                let components = listed.get(directory).and_then(|found| found.get(from)).cloned().unwrap_or_default();
                let change = |statistics: &mut sstable::statistics::Statistics| {
                    (statistics.pending_repair, statistics.repaired_at) = (session, repaired_at);
                    statistics.level = 0;
                };
                relabel(directory, from, &components, name, change).await?;
                opened.push((directory, name, components));
                runtime::yield_if_needed().await;
            }
            for directory in listed.keys() {
                sync_dir(directory).await.map_err(Error::Io)?;
            }
            let mut outputs = Vec::with_capacity(opened.len());
            for (directory, name, components) in opened {
                outputs.push(Rc::new(self.files.open(directory, name, &components, &description).await?));
            }
            Ok(outputs)
        };
        let outputs = match self.faults.noted(made.await) {
            Ok(outputs) => outputs,
            Err(error) => {
                if let Err(left) = transaction.abort().await {
                    tracing::warn!(error = %left, "SSTables of a repair stay unfinished until the next start");
                }
                return Err(error);
            }
        };
        self.faults.noted(self.replace(table, &own, marked, outputs, transaction).await).map(drop)
    }
}
