//! Compactions that an operator asks for: of all SSTables of a table, or of some.
//!
//! 1. All SSTables are merged into the layout of the table's strategy; the caller has flushed the table before.
//! 2. Some SSTables (those with certain tokens, those with a partition, or named ones) are merged into one, without a
//!    flush.
//! 3. An upgrade rewrites SSTables one by one, each at its level, without a flush.
//!
//! Each set of SSTables ([`crate::RepairSet`]) is compacted by itself; what is set apart for a repair is left as it is
//! by a compaction of all. Foreign SSTables and those with damaged bytes are left as they are.

use super::compactor::{Compactor, job_of, sets_of};
use super::run::CompactionJob;
use super::{Candidate, Moment, Picker, Task, TaskKind};
use crate::error::Error;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::repair_set::RepairSet;
use crate::sstables::sstable_id;
use model::compaction::CompactionOptions;
use model::{DecoratedKey, TableId, Token};
use runtime::HashSet;
use sstable::{Component, Descriptor};
use std::path::PathBuf;
use std::rc::Rc;

/// Which SSTables of a table to merge.
#[derive(Clone, PartialEq, Debug)]
pub enum CompactionScope {
    /// All SSTables.
    All {
        /// Whether the output of size-tiered and time-window tables is cut into a half, a quarter and so on.
        split: bool,
    },
    /// Those that may have a partition with a token from the first to the second, both included. If the second is
    /// smaller, the range goes past the end of the ring and on from its beginning.
    Tokens(Token, Token),
    /// Those that have this partition.
    Partition(DecoratedKey),
    /// Those with these names.
    Named(Vec<Descriptor>),
    /// Each by itself: those of another version than the one that is written, or all.
    Upgrade {
        /// Whether SSTables of the version that is written are rewritten too.
        all: bool,
        /// Only SSTables made at or before this moment, milliseconds since 1970.
        made_until: i64,
    },
    /// Each by itself that lies in another directory than the one that its shard writes to.
    Misplaced,
}

impl Compactor {
    /// Merges or rewrites SSTables of a table. `holders` are the Data.db files that have the partition if the scope is
    /// [`CompactionScope::Partition`]; otherwise it is not used.
    ///
    /// # Errors
    /// The disk's, or an SSTable cannot be read. SSTables that were not merged by then stay as they were.
    pub(crate) async fn compact_chosen(
        self: &Rc<Self>,
        table: TableId,
        chosen: CompactionScope,
        holders: HashSet<PathBuf>,
    ) -> Result<(), Error> {
        let is_chosen = |candidate: &Candidate| match &chosen {
            CompactionScope::All { .. } | CompactionScope::Upgrade { .. } | CompactionScope::Misplaced => true,
            CompactionScope::Tokens(start, end) if start <= end => candidate.last >= *start && candidate.first <= *end,
            CompactionScope::Tokens(start, end) => candidate.last >= *start || candidate.first <= *end,
            CompactionScope::Partition(_) => {
                self.file_of(table, candidate).is_some_and(|(_, file)| holders.contains(&file))
            }
            CompactionScope::Named(named) => {
                self.file_of(table, candidate).is_some_and(|(descriptor, _)| named.contains(&descriptor))
            }
        };
        match chosen {
            CompactionScope::All { split } => self.compact_all(table, split).await,
            CompactionScope::Upgrade { all, made_until } => self.upgrade(table, all, made_until).await,
            CompactionScope::Misplaced => {
                let own = self.files.directory_of(&*self.tables.description(table)?);
                self.rewrite(table, TaskKind::Relocate, |sstable| *sstable.directory != *own).await
            }
            _ => self.compact_some(table, TaskKind::Compaction, is_chosen).await,
        }
    }

    async fn compact_all(self: &Rc<Self>, table: TableId, split: bool) -> Result<(), Error> {
        let _turn = self.turn.acquire(1).await;
        let tasks: Vec<Task> = {
            let tables = self.tables.borrow();
            let state = tables.get(&table).ok_or(Error::UnknownTable(table))?;
            let options = CompactionOptions::of(&state.table.options.compaction);
            let of = |set| {
                let (candidates, moment) = self.moment_of(state, set);
                let major = |picker: &mut Picker| picker.major(&candidates, &moment, split);
                self.with_picker(table, set, options.clone(), &moment, major)
            };
            RepairSet::COMPACTED.into_iter().flat_map(of).collect()
        };
        for task in tasks {
            let job = self.tables.borrow().get(&table).map(|state| job_of(state, &task));
            let Some(job) = job else { return Ok(()) };
            self.faults.noted(self.compact(job, TaskKind::Major).await.map(|_| ()))?;
        }
        Ok(())
    }

    async fn upgrade(self: &Rc<Self>, table: TableId, all: bool, made_until: i64) -> Result<(), Error> {
        let written = self.files.version();
        let is_outdated = |sstable: &OpenSstable| {
            let name = sstable.reader.descriptor();
            let made_at = sstable_id::made_at(&name.id).map_or(i64::MIN, |seconds| seconds.saturating_mul(1000));
            (all || name.version != written) && made_at <= made_until
        };
        self.rewrite(table, TaskKind::Upgrade, is_outdated).await
    }

    /// Rewrites SSTables of a table, each by itself.
    async fn rewrite(
        self: &Rc<Self>,
        table: TableId,
        kind: TaskKind,
        is_chosen: impl Fn(&OpenSstable) -> bool,
    ) -> Result<(), Error> {
        let chosen: Vec<u64> = {
            let tables = self.tables.borrow();
            let sstables = &tables.get(&table).ok_or(Error::UnknownTable(table))?.view.sstables;
            sstables.iter().filter(|sstable| is_chosen(sstable)).map(|sstable| sstable.number).collect()
        };
        for number in chosen {
            self.compact_some(table, kind, |candidate| candidate.id == number).await?;
        }
        Ok(())
    }

    async fn compact_some(
        self: &Rc<Self>,
        table: TableId,
        kind: TaskKind,
        is_chosen: impl Fn(&Candidate) -> bool,
    ) -> Result<(), Error> {
        let _turn = self.turn.acquire(1).await;
        for (candidates, moment) in self.candidates(table)? {
            let chosen = candidates.iter().filter(|one| is_chosen(one)).map(|candidate| candidate.id);
            if let Some(job) = self.job_of_some(table, &candidates, &moment, &chosen.collect::<Vec<_>>())? {
                self.faults.noted(self.compact(job, kind).await.map(|_| ()))?;
            }
        }
        Ok(())
    }

    /// The candidates of each set, and the moment.
    pub(super) fn candidates(&self, table: TableId) -> Result<Vec<(Vec<Candidate>, Moment)>, Error> {
        let tables = self.tables.borrow();
        let state = tables.get(&table).ok_or(Error::UnknownTable(table))?;
        Ok(sets_of(state).into_iter().map(|set| self.moment_of(state, set)).collect())
    }

    /// The compaction of some candidates into one SSTable; `None` if there is nothing to do.
    pub(super) fn job_of_some(
        &self,
        table: TableId,
        candidates: &[Candidate],
        moment: &Moment,
        chosen: &[u64],
    ) -> Result<Option<CompactionJob>, Error> {
        let tables = self.tables.borrow();
        let state = tables.get(&table).ok_or(Error::UnknownTable(table))?;
        let options = CompactionOptions::of(&state.table.options.compaction);
        let task = Picker::new(options, moment.now).chosen(candidates, chosen);
        Ok(task.map(|task| job_of(state, &task)))
    }

    /// The name and the Data.db of a candidate; `None` if the table no longer has it.
    fn file_of(&self, table: TableId, candidate: &Candidate) -> Option<(Descriptor, PathBuf)> {
        let tables = self.tables.borrow();
        let view = &tables.get(&table)?.view;
        let sstable = view.sstables.iter().find(|sstable| sstable.number == candidate.id)?;
        let descriptor = sstable.reader.descriptor();
        Some((descriptor.clone(), sstable.directory.join(descriptor.file_name(Component::Data))))
    }
}
