//! Tables and indexes that come, change, are truncated and go.

use super::{LogPosition, Store};
use crate::error::Error;
use crate::index::IndexState;
use crate::sstables::truncation_lists;
use crate::tables::table_state::TableState;
use model::{Home, Index, Table, TableId};
use runtime::Class;
use std::rc::Rc;
use std::sync::Arc;

impl Store {
    /// Makes a table known (idempotent; replaces the description on a new schema version). A column keeps its id, which
    /// no other column of the table ever has. Before a dropped column is added again, under a new id, the table must be
    /// flushed: cells in memtables stay hidden under the id that they were written with.
    pub fn add_table(&self, table: Arc<Table>, home: Home) {
        self.add_description(table.clone(), home);
        self.adopt_indexes(&table, home);
    }

    /// On shard 0: makes the directories of a table's SSTables, so that operators can put files there before the first
    /// flush.
    ///
    /// # Errors
    /// The disk's.
    pub async fn create_directories(&self, table: &Table) -> Result<(), Error> {
        for directory in self.parts.files.directories_of(table) {
            self.parts.faults.noted(runtime::file::create_dir_all(&directory).await.map_err(Error::Io))?;
        }
        Ok(())
    }

    /// Sets whether writes of a table, if it is known, go to the log; they do unless this says otherwise.
    pub fn set_durable_writes(&self, table: TableId, durable: bool) {
        if let Some(state) = self.parts.tables.borrow_mut().get_mut(&table) {
            state.durable_writes = durable;
        }
    }

    /// Sets whether other nodes have the rows of a table, if it is known, too; they do not unless this says so.
    pub fn set_replicated(&self, table: TableId, replicated: bool) {
        if let Some(state) = self.parts.tables.borrow_mut().get_mut(&table) {
            state.replicated = replicated;
        }
    }

    fn add_description(&self, table: Arc<Table>, home: Home) {
        let parts = &self.parts;
        parts.flusher.set_period(table.id, table.options.memtable_flush_period_in_ms);
        let mut tables = parts.tables.borrow_mut();
        match tables.get_mut(&table.id) {
            Some(state) => {
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
                if parts.memory.is_of_another_kind(&state.memtable, &table.options) {
                    parts.flusher.request(table.id);
                }
                state.table = table;
                state.home = home;
            }
            None => {
                if let Some(name) = table.options.memtable.as_deref()
                    && parts.memory.memtables().get(name).is_none()
                {
                    let table = table.full_name();
                    tracing::error!(%table, name, "this memtable is not configured: the table gets the default one");
                }
                let memtable = parts.memory.new_memtable(&table);
                tables.insert(table.id, TableState::new(table, home, memtable));
            }
        }
    }

    /// Lets the indexes of a table be those of its description: new ones are not built, old ones are forgotten.
    fn adopt_indexes(&self, base: &Arc<Table>, home: Home) {
        let tables = &self.parts.tables;
        let before = match tables.borrow().get(&base.id) {
            Some(state) if !(state.indexes.is_empty() && base.indexes.is_empty()) => state.indexes.clone(),
            _ => return,
        };
        let same = |old: &&Rc<IndexState>, index: &Index| old.index == *index;
        let made = base.indexes.iter().filter_map(|index| {
            let old = before.iter().find(|old| same(old, index));
            IndexState::new(base, index, old.map(|old| old.built.clone()).unwrap_or_default()).map(Rc::new)
        });
        let indexes: Vec<Rc<IndexState>> = made.collect();
        for old in before.iter().filter(|old| !base.indexes.iter().any(|index| same(old, index))) {
            self.drop_table(old.id());
        }
        for index in &indexes {
            self.add_table(index.table.clone(), home);
            if let Some(state) = tables.borrow_mut().get_mut(&index.id()) {
                state.index_of = Some(base.id);
            }
        }
        if let Some(state) = tables.borrow_mut().get_mut(&base.id) {
            state.indexes = indexes.into();
        }
    }

    /// Forgets a table and frees its memtable once writes under way are done. Its log records are ignored from then on;
    /// the caller records a [`super::Truncation`] as for TRUNCATE, so that a table created WITH the same ID starts
    /// empty.
    pub fn drop_table(&self, table: TableId) {
        let parts = &self.parts;
        parts.flusher.forget(table);
        let state = parts.tables.borrow_mut().remove(&table);
        if let Some(state) = state {
            state.indexes.iter().for_each(|index| self.drop_table(index.id()));
            parts.compactor.forget(table);
            parts.obsolete.keep_all(table, &state.view);
            parts.memory.discard(state.memtable);
            state.pending.into_iter().for_each(|pending| parts.memory.discard(pending.memtable));
        }
    }

    /// Switches a table to an empty memtable in one step and returns the log position of the switch, once every write
    /// that was under way before has finished (those go with the old memtable). On an error the table is empty, but its
    /// records may come back with the next start.
    pub async fn truncate(&self, table: TableId) -> Result<LogPosition, Error> {
        let parts = &self.parts;
        let _pass = parts.gate.enter().ok_or(Error::Closing)?;
        let log = parts.log.started();
        log.usable()?;
        let (old, pending, cut) = {
            let mut tables = parts.tables.borrow_mut();
            let state = tables.get_mut(&table).ok_or(Error::UnknownTable(table))?;
            let indexes = state.indexes.clone();
            let (mut old, mut pending) = (Vec::new(), Vec::new());
            for id in std::iter::once(table).chain(indexes.iter().map(|index| index.id())) {
                let Some(state) = tables.get_mut(&id) else { continue };
                let empty = parts.memory.new_memtable(&state.table);
                state.truncations += 1;
                let view = std::mem::take(&mut state.view);
                parts.obsolete.keep_all(id, &view);
                old.push(std::mem::replace(&mut state.memtable, empty));
                parts.flusher.restart_period(id);
                pending.extend(std::mem::take(&mut state.pending));
            }
            (old, pending, log.cut())
        };
        pending.into_iter().for_each(|pending| parts.memory.discard(pending.memtable));
        let reached = log.reach(&cut).await;
        for old in old {
            old.seal().await;
            parts.memory.discard(old);
        }
        let position = reached?;
        parts.truncated.borrow_mut().insert(table, position);
        Ok(position)
    }

    /// On shard 0, after every shard's [`Store::truncate`] and before the truncation is recorded: names the foreign
    /// SSTables that it takes, durably. `at_millis` is [`super::Truncation::at_millis`].
    ///
    /// # Errors
    /// The disk's: the truncation must not be recorded.
    pub async fn note_truncation(&self, table: TableId, at_millis: i64) -> Result<(), Error> {
        truncation_lists::write(&self.parts.obsolete.of(table), at_millis).await
    }

    /// After a drop or truncation of a table is durable: frees the segments of this shard that no longer hold anything
    /// needed; on shard 0 also removes old segments, of all shards.
    pub async fn release(&self, table: TableId) -> Result<(), Error> {
        let parts = &self.parts;
        let Some(_pass) = parts.gate.enter() else { return Err(Error::Closing) };
        parts.obsolete.remove(table).await?;
        for index in parts.obsolete.indexes_of(table) {
            parts.obsolete.remove(index).await?;
        }
        let known = parts.tables.contains(table);
        let position = parts.truncated.borrow().get(&table).copied();
        if !known {
            parts.log.started().release(table, None).await?;
        } else if let Some(position) = position {
            parts.log.started().release(table, Some(position)).await?;
        }
        if parts.tables.shard == 0 && (!known || position.is_some()) {
            parts.log.release_old([table], |table| parts.tables.contains(table)).await?;
        }
        Ok(())
    }

    /// Builds an index of a table on this shard, unless it is built; nothing if the table has no such index.
    ///
    /// # Errors
    /// The disk's; another call goes on with it.
    pub async fn build_index(&self, table: TableId, index: &str) -> Result<(), Error> {
        let pass = self.parts.gate.enter().ok_or(Error::Closing)?;
        let parts = self.parts.clone();
        let index = index.to_owned();
        runtime::spawn_in(Class::Background, async move {
            let _pass = pass;
            parts.faults.noted(parts.indexes.build(table, &index).await)
        })
        .await
    }

    /// Whether every row of a table that this shard owns is in an index; `None` if there is no such index.
    pub fn is_index_built(&self, table: TableId, index: &str) -> Option<bool> {
        self.parts.indexes.is_built(table, index)
    }

    /// On shard 0, before an index is made or once it is gone: removes its directories with all that is in them.
    ///
    /// # Errors
    /// The disk's.
    pub async fn prepare_index(&self, base: &Table, index: &str) -> Result<(), Error> {
        self.parts.indexes.clear_directories(base, index).await
    }

    /// After a definition that drops an index is durable and no core knows the index: removes its SSTables, once nobody
    /// builds it any more.
    ///
    /// # Errors
    /// The disk's: the next start removes them.
    pub async fn remove_index(&self, base: &Table, index: &str) -> Result<(), Error> {
        let _pass = self.parts.gate.enter().ok_or(Error::Closing)?;
        self.parts.indexes.remove(base, index).await
    }
}
