//! Builds indexes: adds entries for the rows that a table already has, once per index and shard.
//!
//! 1. The base is flushed, so that every write that began before its index was known is in an SSTable.
//! 2. Its rows are read in pieces and their entries added; meanwhile writes add their own entries.
//! 3. The index is flushed. Then a file in its directory, named after the shard and the shard map, marks it as built.
//!
//! A start that does not find the file builds the index again. So does a start that opens a foreign SSTable, whose
//! rows have no entries, and one with another shard map. Imported rows get their entries before they become visible
//! ([`Indexes::add_opened`]).
//!
//! Invariants: the file exists only if every row that the shard owns, in SSTables and log, has its entry.

use super::{BUILDING_WAIT, Indexes};
use crate::error::Error;
use crate::index::{IndexState, directory_name, table_id};
use crate::memtable::Memtable;
use crate::sstables::directory::entries;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::transaction;
use crate::sstables::view::View;
use crate::tables::Tables;
use crate::tables::table_state::TableState;
use model::query::{LiveRow, Partitions, Position, ReadCommand, ReadEnd, RowSink, SinkState};
use model::token::TokenRange;
use model::{Table, TableId};
use runtime::HashSet;
use runtime::file::{list_dir, remove, remove_dir, replace_small, sync_dir};
use sstable::Descriptor;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Rows and tombstones visited in one piece of the base.
const VISITS: u64 = 1024;

const BUILT: &str = "helenus-built";

impl Indexes {
    /// Builds an index of a table on this shard, unless it is built or there is no such index. The caller holds a
    /// pass of the gate.
    ///
    /// # Errors
    /// The disk's. Another call begins the build again.
    pub(crate) async fn build(&self, table: TableId, index: &str) -> Result<(), Error> {
        let id = table_id(table, index);
        while !self.building.borrow_mut().insert(id) {
            // Wait for the other build instead of assuming that it will succeed.
            runtime::sleep(BUILDING_WAIT).await;
        }
        let built = self.build_now(table, index).await;
        self.building.borrow_mut().remove(&id);
        built
    }

    /// Whether an index has entries for all rows of the table that this shard owns; `None` if there is no such index.
    pub(crate) fn is_built(&self, table: TableId, index: &str) -> Option<bool> {
        let indexes = self.tables.indexes_of(table);
        indexes.iter().find(|state| state.index.name == index).map(|state| state.built.get())
    }

    /// Removes an index's directories with everything in them, on shard 0 before an index is created or after it was
    /// dropped.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) async fn clear_directories(&self, base: &Table, index: &str) -> Result<(), Error> {
        for directory in self.files.directories_of(base) {
            clear(&directory.join(directory_name(index))).await?;
        }
        Ok(())
    }

    /// Removes the SSTables of a dropped index that no core knows any more. Waits for a build or a flush that is still
    /// running, because the index's directory is going to be cleared.
    ///
    /// # Errors
    /// The disk's. The next start removes what is left.
    pub(crate) async fn remove(&self, base: &Table, index: &str) -> Result<(), Error> {
        let id = table_id(base.id, index);
        while self.building.borrow().contains(&id) {
            runtime::sleep(BUILDING_WAIT).await;
        }
        self.flusher.settled().await;
        self.obsolete.remove(id).await
    }

    async fn build_now(&self, table: TableId, name: &str) -> Result<(), Error> {
        let find = || self.tables.indexes_of(table).iter().find(|state| state.index.name == name).cloned();
        let Some(index) = find() else { return Ok(()) };
        if index.built.get() {
            return Ok(());
        }
        self.flusher.flush(table).await?;
        let mut after: Option<Position> = None;
        loop {
            // The index may have been dropped, or made again, since the last piece.
            let Some(index) = find() else { return Ok(()) };
            let (memtable, view) = self.tables.readable(table)?;
            let end = self.add_entries(&index, &memtable, &view, after.take()).await?;
            match end {
                ReadEnd::Exhausted | ReadEnd::Stopped => break,
                ReadEnd::Paused(resume) => after = Some(resume.position),
            }
            if self.gate.is_closed() {
                return Err(Error::Closing);
            }
            runtime::yield_if_needed().await;
        }
        self.flusher.flush(table).await?;
        let Some(index) = find() else { return Ok(()) };
        let directory = self.files.make_directory(&index.table, self.files.shard).await?;
        replace_small(&directory.join(self.built_file()), b"1\n").await.map_err(Error::Io)?;
        index.built.set(true);
        Ok(())
    }

    /// Adds entries for the next rows that are live now; returns where and why the read ended.
    async fn add_entries(
        &self,
        index: &Rc<IndexState>,
        memtable: &Rc<Memtable>,
        view: &Rc<View>,
        resume: Option<Position>,
    ) -> Result<ReadEnd, Error> {
        self.wait_for_entries().await?;
        let now = runtime::wall_micros().div_euclid(1_000_000);
        let command = ReadCommand {
            visits_max: VISITS,
            resume,
            static_only: index.base.static_len > 0,
            wants_static: index.base.static_len > 0,
            ..ReadCommand::all(index.base.id, now, Partitions::Range(TokenRange::FULL))
        };
        let mut entries = EntryWriter { tables: &self.tables, index };
        self.reader.read(memtable, view, &command, &mut entries, ()).await
    }

    /// Waits until memtables have room for entries.
    async fn wait_for_entries(&self) -> Result<(), Error> {
        if self.memory.user_bytes() >= self.memory.flush_at() {
            let _reserved = self.memory.wait_for_room(0).await?;
        }
        Ok(())
    }

    /// Durably adds index entries for the rows of SSTables that are about to become part of a table.
    pub(crate) async fn add_opened(&self, table: TableId, opened: &[Rc<OpenSstable>]) -> Result<(), Error> {
        let indexes = self.tables.indexes_of(table);
        if indexes.is_empty() || opened.is_empty() {
            return Ok(());
        }
        let view = Rc::new(View::default().replaced(&[], opened));
        for index in indexes.iter() {
            let empty = self.memory.new_memtable(&index.base);
            let mut after = None;
            while let ReadEnd::Paused(resume) = self.add_entries(index, &empty, &view, after.take()).await? {
                after = Some(resume.position);
            }
        }
        self.flusher.flush(table).await
    }

    fn built_file(&self) -> String {
        let map = self.files.shard_map;
        format!("{BUILT}-{}-{}-{}", self.files.shard, map.shards, map.rule())
    }

    /// Finds out which indexes of a table are built. Called after the SSTables of the table and its indexes were
    /// opened.
    pub(crate) async fn load_built(&self, table: TableId) -> Result<(), Error> {
        let indexes = self.tables.indexes_of(table);
        let foreign = match self.tables.borrow().get(&table) {
            Some(state) if !indexes.is_empty() => state.view.sstables.iter().any(|sstable| sstable.foreign),
            _ => return Ok(()),
        };
        for index in indexes.iter() {
            // With another number of data directories the shard may have written the file to another one.
            let directories = self.files.directories_of(&index.table);
            let lacks_rows = foreign || self.unusable.borrow().iter().any(|one| directories.contains(&one.directory));
            let mut is_built = false;
            for directory in directories {
                let path = directory.join(self.built_file());
                if !entries(&directory).await?.contains(&path) {
                    continue;
                }
                if lacks_rows {
                    remove(&path).await.map_err(Error::Io)?;
                    sync_dir(&directory).await.map_err(Error::Io)?;
                }
                is_built = !lacks_rows;
            }
            index.built.set(is_built);
        }
        Ok(())
    }

    /// Cleans up once every shard has opened its SSTables: removes SSTables of indexes that only this shard would have.
    /// On shard 0 also removes the files that mark indexes as built under another shard map, then SSTables of indexes
    /// that no shard can use, then directories of indexes that no longer exist.
    pub(crate) async fn clear_unusable(&self) -> Result<(), Error> {
        let unusable = std::mem::take(&mut *self.unusable.borrow_mut());
        let (own, unusable): (Vec<_>, Vec<_>) = unusable.into_iter().partition(|one| one.is_own);
        for one in own {
            transaction::delete(&one.directory, |found| *found == one.name).await.map_err(Error::Io)?;
        }
        if self.files.shard != 0 {
            return Ok(());
        }
        let tables: Vec<(PathBuf, HashSet<String>)> = {
            let tables = self.tables.borrow();
            let bases = tables.values().filter(|state| state.index_of.is_none());
            let bases = bases.filter(|state| !state.table.is_system());
            let named = |state: &TableState| {
                let names = state.indexes.iter().map(|index| directory_name(&index.index.name));
                let names: HashSet<String> = names.collect();
                let directories = self.files.directories_of(&state.table);
                directories.into_iter().map(move |directory| (directory, names.clone()))
            };
            bases.flat_map(named).collect()
        };
        let map = self.files.shard_map;
        let own = format!("-{}-{}", map.shards, map.rule());
        for (directory, names) in &tables {
            for index in names.iter().map(|name| directory.join(name)) {
                forget_others(&index, &own).await?;
            }
        }
        // In this order, because a start under that other map must not take the remaining SSTables for a complete
        // index.
        for one in unusable {
            transaction::delete(&one.directory, |found| *found == one.name).await.map_err(Error::Io)?;
        }
        for (directory, names) in tables {
            for path in entries(&directory).await? {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if name.starts_with('.') && !names.contains(name) && is_index(&path).await {
                    clear(&path).await?;
                }
            }
        }
        Ok(())
    }
}

/// Durably removes the files that mark an index as built, except those whose names end with `own`.
async fn forget_others(directory: &Path, own: &str) -> Result<(), Error> {
    let mut removed = false;
    for path in entries(directory).await? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(BUILT) && !name.ends_with(own) {
            remove(&path).await.map_err(Error::Io)?;
            removed = true;
        }
    }
    if removed {
        sync_dir(directory).await.map_err(Error::Io)?;
    }
    Ok(())
}

/// Adds the entries of the rows that it is given.
struct EntryWriter<'b> {
    tables: &'b Tables,
    index: &'b Rc<IndexState>,
}

impl RowSink for EntryWriter<'_> {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        // Looked up for each row, as a flush may have replaced the memtable. Nothing is awaited before the entry is
        // added.
        if let Ok(memtable) = self.tables.memtable(self.index.id()) {
            self.index.note_live(&memtable, row);
        }
        SinkState::Open
    }
}

/// Whether a directory contains only files that an index leaves.
async fn is_index(path: &Path) -> bool {
    let is_own = |file: &PathBuf| {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(BUILT) || Descriptor::parse(name).is_some() || transaction::is_log(name)
    };
    list_dir(path).await.is_ok_and(|files| files.iter().all(is_own))
}

/// Removes an index's directory with all files in it: first those of SSTables, durably, because a start after a crash
/// removes what is left of them only by the logs of transactions.
pub(super) async fn clear(directory: &Path) -> Result<(), Error> {
    transaction::delete(directory, |_| true).await.map_err(Error::Io)?;
    let files = match list_dir(directory).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        listed => listed.map_err(Error::Io)?,
    };
    for file in files {
        match remove(&file).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(Error::Io)?,
        }
    }
    remove_dir(directory).await.map_err(Error::Io)?;
    match directory.parent() {
        Some(parent) => sync_dir(parent).await.map_err(Error::Io),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::NodeId;
    use runtime::file::create_dir_all;
    use runtime::sim::{Options, Sim};
    use std::cell::Cell;
    use std::time::Duration;

    const SSTABLE: &str = "/t/.i/da-3gb2_1pqa_24vs02hl1s8dhqqg8x-bti-Data.db";
    const LOG: &str = "/t/.i/da_txn_unknown_0654ccac-833b-11ee-9af9-712ad68032af.log";

    /// Crashes at a random moment while a directory is cleared. Returns whether a file of an SSTable and the log of the
    /// transaction that removes it are left.
    fn left_by_a_crash(seed: u64) -> [bool; 2] {
        let mut sim = Sim::new(seed, Options::default());
        let begun = Rc::new(Cell::new(false));
        let told = begun.clone();
        sim.start_node(NodeId(1), 1, move |_| {
            let told = told.clone();
            async move {
                create_dir_all(Path::new("/t/.i")).await.expect("made");
                replace_small(Path::new(SSTABLE), b"a").await.expect("written");
                replace_small(Path::new(LOG), b"a").await.expect("written");
                told.set(true);
                clear(Path::new("/t/.i")).await.expect("cleared");
                std::future::pending::<()>().await;
            }
        });
        let has = |sim: &Sim, path: &str| sim.files(NodeId(1)).iter().any(|(file, _)| file == Path::new(path));
        sim.run_until(Duration::from_secs(60), || begun.get());
        sim.run_until(Duration::from_micros(10 * (seed % 200)), || false);
        sim.crash_to(NodeId(1), seed);
        [has(&sim, SSTABLE), has(&sim, LOG)]
    }

    #[test]
    fn sstables_of_a_cleared_index_are_gone_before_the_log_that_removes_them() {
        let left: Vec<[bool; 2]> = (0..400).map(left_by_a_crash).collect();
        assert!(left.contains(&[true, true]) && left.contains(&[false, true]) && left.contains(&[false, false]));
        assert!(!left.contains(&[true, false]));
    }
}
