//! Secondary indexes: hidden tables of a shard that lead from a value to the rows that may have it.
//!
//! The table of an index, in the directory `.NAME` under its base's: the partition is the indexed value; the clustering is
//! the base's token and partition key, then the clustering of its row (not of indexes of partition key components and
//! static columns, whose entries are of whole partitions), then the path of the element where one value may stand at
//! several. One cell says when, and until when, the value was there.
//! 1. Every write of the base adds the entries of its values (`entries`), in the same poll; replay does too.
//! 2. A flush of the base flushes its indexes first: what the log forgets has its entries on disk.
//! 3. A read (`lookup`) finds entries by value, reads their rows from the base, and deletes entries whose row no longer has
//!    the value.
//! 4. What was there before the index, or came without entries (foreign SSTables), is read once (`build`).
//!
//! Invariants: a live row of an index that is built has its entry; an entry need not have a row. So entries may be added at
//! any time and twice, and need no log of their own.

mod build;
mod entries;
mod lookup;

pub use entries::{ENTRY_EXTRA_BYTES, TooLong, VALUE_BYTES_MAX, entry_value, too_long};
pub use lookup::IndexLookup;

use crate::Error;
use crate::memtable::Memtable;
use crate::store::{Inner, Store};
use entries::Source;
use model::schema::{Layout, TableOptions};
use model::{Column, ColumnId, ColumnKind, CqlType, Index, Table, TableId, Token};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long who removes an index waits between two looks whether it is being built.
const BUILDING_WAIT: Duration = Duration::from_millis(1);

/// What separates the base's name from the index's in the name of an index's table: no name has it.
const SEPARATOR: char = '.';

/// An index of a table of this shard.
pub(crate) struct IndexState {
    pub(crate) index: Index,
    /// The index's own table.
    pub(crate) table: Arc<Table>,
    base: Arc<Table>,
    source: Source,
    /// Whether every row of the base has its entry.
    built: Rc<Cell<bool>>,
}

/// An index that a write goes to.
pub(crate) struct IndexTarget {
    pub(crate) index: Rc<IndexState>,
    pub(crate) memtable: Rc<Memtable>,
    pub(crate) _pass: runtime::gate::Pass,
}

/// The id of an index's table: that of its base with the index's name in it.
pub fn table_id(base: TableId, index: &str) -> TableId {
    let mut id = base.0;
    let name = Token::of(index.as_bytes()).0.to_be_bytes();
    id[8..].iter_mut().zip(name).for_each(|(byte, name)| *byte ^= name);
    TableId(id)
}

/// Where the files of an index's table are, under its base's directory; `None` of a table that is no index's.
pub(crate) fn directory_of(data: &Path, table: &Table) -> Option<PathBuf> {
    let (base, index) = table.name.split_once(SEPARATOR)?;
    // The name taken out of the id again.
    let id = table_id(table.id, index);
    let base = data.join("data").join(&table.keyspace).join(format!("{base}-{}", id.uuid().simple()));
    Some(base.join(directory_name(index)))
}

/// The table whose index has this table; `None` of a table that is no index's.
pub(crate) fn base_of(table: &Table) -> Option<TableId> {
    table.name.split_once(SEPARATOR).map(|(_, index)| table_id(table.id, index))
}

/// The name of an index's directory.
pub(crate) fn directory_name(index: &str) -> String {
    format!(".{index}")
}

impl IndexState {
    /// `None` if the table has no such column: it would be a schema that nobody makes.
    fn new(base: &Arc<Table>, index: &Index, built: Rc<Cell<bool>>) -> Option<IndexState> {
        let source = Source::of(base, index)?;
        let table = Arc::new(hidden_table(base, index, &source));
        Some(IndexState { index: index.clone(), table, base: base.clone(), source, built })
    }

    pub(crate) fn id(&self) -> TableId {
        self.table.id
    }
}

/// The table of an index.
fn hidden_table(base: &Table, index: &Index, source: &Source) -> Table {
    let mut columns = Vec::new();
    let mut push = |kind, position, name: &str, cql_type: CqlType, descending| {
        let id = ColumnId(columns.len() as u16);
        columns.push(Column { id, name: name.to_owned(), kind, position, cql_type, descending });
    };
    push(ColumnKind::PartitionKey, 0, "value", CqlType::Blob, false);
    push(ColumnKind::Clustering, 0, "token", CqlType::Bigint, false);
    push(ColumnKind::Clustering, 1, "key", CqlType::Blob, false);
    let mut position = 2;
    if !source.is_of_partitions() {
        for column in base.clustering() {
            let name = format!("clustering{position}");
            push(ColumnKind::Clustering, position, &name, column.cql_type.clone(), column.descending);
            position += 1;
        }
    }
    if source.has_path() {
        push(ColumnKind::Clustering, position, "path", CqlType::Blob, false);
        position += 1;
    }
    push(ColumnKind::Regular, 0, "entry", CqlType::Blob, false);
    Table {
        id: table_id(base.id, &index.name),
        keyspace: base.keyspace.clone(),
        name: format!("{}{SEPARATOR}{}", base.name, index.name),
        columns,
        partition_key_len: 1,
        clustering_len: usize::from(position),
        static_len: 0,
        dropped: Vec::new(),
        layout: Layout::Plain,
        indexes: Vec::new(),
        options: TableOptions {
            // An entry that is deleted or expired is not needed by anybody else.
            gc_grace_seconds: 0,
            default_time_to_live: 0,
            ..base.options.clone()
        },
    }
}

impl Store {
    /// Lets the indexes of a table be those of its description: new ones are not built, old ones are forgotten.
    pub(crate) fn adopt_indexes(&self, base: &Arc<Table>, local: bool) {
        let inner = self.inner();
        let before = match inner.tables.borrow().get(&base.id) {
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
            self.add_table(index.table.clone(), local);
            if let Some(state) = inner.tables.borrow_mut().get_mut(&index.id()) {
                state.index_of = Some(base.id);
            }
        }
        if let Some(state) = inner.tables.borrow_mut().get_mut(&base.id) {
            state.indexes = indexes.into();
        }
    }

    /// After a definition that drops an index is durable and no core knows the index: removes its SSTables, once nobody
    /// builds it any more.
    ///
    /// # Errors
    /// The disk's: the next start removes them.
    pub async fn remove_index(&self, base: &Table, index: &str) -> Result<(), Error> {
        let inner = self.inner();
        let _pass = inner.gate.enter().ok_or(Error::Closing)?;
        let id = table_id(base.id, index);
        while inner.building.borrow().contains(&id) {
            runtime::sleep(BUILDING_WAIT).await;
        }
        inner.remove_given_up(id).await
    }
}

impl Inner {
    /// The indexes of a table.
    pub(crate) fn indexes_of(&self, table: TableId) -> Rc<[Rc<IndexState>]> {
        self.tables.borrow().get(&table).map_or_else(|| Rc::from([]), |state| state.indexes.clone())
    }
}
