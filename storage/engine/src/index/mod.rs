//! Secondary indexes: hidden tables of a shard that lead from a value to the rows that may have it.
//!
//! The table of an index, in the directory `.NAME` under its base's: the partition is the indexed value; the clustering
//! is the base's token and partition key, then the clustering of its row (not of indexes of partition key components
//! and static columns, whose entries are of whole partitions), then the path of the element where one value may stand
//! at several. One cell says when, and until when, the value was there.
//! 1. Every write of the base adds the entries of its values (`entries`), in the same poll; replay does too.
//! 2. A flush of the base flushes its indexes first: the entries are on disk before the log forgets the rows.
//! 3. A read finds entries by value, reads their rows from the base, and deletes entries whose row no longer has the
//!    value.
//! 4. Rows that were there before the index, or came without entries (foreign SSTables), are read once and given
//!    entries.
//!
//! The last two are in the module `indexing`.
//!
//! Invariants: a live row of an index that is built has its entry; an entry need not have a row. So entries may be
//! added at any time and twice, and need no log of their own.

mod entries;

pub use entries::{ENTRY_EXTRA_BYTES, TooLong, VALUE_BYTES_MAX, entry_value, too_long};

use crate::memtable::Memtable;
use entries::ValueSource;
use model::schema::{Layout, TableOptions};
use model::{Column, ColumnId, ColumnKind, CqlType, Index, Partitioner, Table, TableId};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// What separates the base's name from the index's in the name of an index's table: no name has it.
const SEPARATOR: char = '.';

/// Which rows of a table: those that an index has under a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexLookup {
    /// The index's name.
    pub index: Arc<str>,
    /// The value: for the entries of a map as [`entry_value`] makes it.
    pub value: Arc<[u8]>,
}

/// An index of a table of this shard.
pub(crate) struct IndexState {
    pub(crate) index: Index,
    /// The index's own table.
    pub(crate) table: Arc<Table>,
    pub(crate) base: Arc<Table>,
    source: ValueSource,
    /// Whether every row of the base has its entry.
    pub(crate) built: Rc<Cell<bool>>,
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
    let name = Partitioner::Murmur3.token(index.as_bytes()).0.to_be_bytes();
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
    pub(crate) fn new(base: &Arc<Table>, index: &Index, built: Rc<Cell<bool>>) -> Option<IndexState> {
        let source = ValueSource::of(base, index)?;
        let table = Arc::new(hidden_table(base, index, &source));
        Some(IndexState { index: index.clone(), table, base: base.clone(), source, built })
    }

    pub(crate) fn id(&self) -> TableId {
        self.table.id
    }
}

/// The table of an index.
fn hidden_table(base: &Table, index: &Index, source: &ValueSource) -> Table {
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
        masks: Default::default(),
        options: TableOptions {
            // An entry that is deleted or expired is not needed by anybody else.
            gc_grace_seconds: 0,
            default_time_to_live: 0,
            ..base.options.clone()
        },
    }
}
