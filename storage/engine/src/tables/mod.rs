//! The tables that a shard knows: their descriptions, memtables and SSTables.

pub(crate) mod size_estimates;
pub(crate) mod statistics;
pub(crate) mod table_state;

use crate::error::Error;
use crate::index::IndexState;
use crate::memtable::Memtable;
use crate::sstables::view::View;
use model::{Home, IdMap, ShardMap, Table, TableId, Token};
use std::cell::{Ref, RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;
use table_state::TableState;

/// The tables of a shard by id, hidden tables of indexes among them.
pub(crate) struct Tables {
    pub(crate) shard: u16,
    pub(crate) shard_map: ShardMap,
    states: RefCell<IdMap<TableId, TableState>>,
}

impl Tables {
    pub(crate) fn new(shard: u16, shard_map: ShardMap) -> Tables {
        Tables { shard, shard_map, states: RefCell::default() }
    }

    #[inline]
    pub(crate) fn borrow(&self) -> Ref<'_, IdMap<TableId, TableState>> {
        self.states.borrow()
    }

    #[inline]
    pub(crate) fn borrow_mut(&self) -> RefMut<'_, IdMap<TableId, TableState>> {
        self.states.borrow_mut()
    }

    /// The ids of all tables.
    pub(crate) fn ids(&self) -> Vec<TableId> {
        self.states.borrow().keys().copied().collect()
    }

    /// The ids of all tables that are not an index's.
    pub(crate) fn bases(&self) -> Vec<TableId> {
        let states = self.states.borrow();
        states.iter().filter(|(_, state)| state.index_of.is_none()).map(|(id, _)| *id).collect()
    }

    /// The ids of the tables, those of indexes not among them, whose writes do not go to the log.
    pub(crate) fn unlogged(&self) -> Vec<TableId> {
        let states = self.states.borrow();
        let unlogged = states.iter().filter(|(_, state)| !state.durable_writes && state.index_of.is_none());
        unlogged.map(|(id, _)| *id).collect()
    }

    pub(crate) fn contains(&self, table: TableId) -> bool {
        self.states.borrow().contains_key(&table)
    }

    /// A table's description.
    pub(crate) fn description(&self, table: TableId) -> Result<Arc<Table>, Error> {
        match self.states.borrow().get(&table) {
            Some(state) => Ok(state.table.clone()),
            None => Err(Error::UnknownTable(table)),
        }
    }

    /// A table's active memtable.
    pub(crate) fn memtable(&self, table: TableId) -> Result<Rc<Memtable>, Error> {
        match self.states.borrow().get(&table) {
            Some(state) => Ok(state.memtable.clone()),
            None => Err(Error::UnknownTable(table)),
        }
    }

    /// What a read of a table merges: the active memtable and what lies beside it.
    #[inline]
    pub(crate) fn readable(&self, table: TableId) -> Result<(Rc<Memtable>, Rc<View>), Error> {
        match self.states.borrow().get(&table) {
            Some(state) => Ok((state.memtable.clone(), state.view.clone())),
            None => Err(Error::UnknownTable(table)),
        }
    }

    /// The indexes of a table; none if it is not known.
    pub(crate) fn indexes_of(&self, table: TableId) -> Rc<[Rc<IndexState>]> {
        self.states.borrow().get(&table).map_or_else(|| Rc::from([]), |state| state.indexes.clone())
    }

    /// Whether this shard has the partitions of a token.
    pub(crate) fn owns(&self, table: TableId, token: Token) -> bool {
        let home = self.states.borrow().get(&table).map_or(Home::ByToken, |state| state.home);
        self.shard == home.owner(self.shard_map, token)
    }
}
