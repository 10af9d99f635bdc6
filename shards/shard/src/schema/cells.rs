//! Rows of system tables by column name: writing them into mutations and reading them back from a store.
//!
//! Invariants: a column name given to a writer exists (else panic: a programmer's error); bytes read from the store are
//! checked against the column's type and give [`Error::Malformed`].

use super::Error;
use engine::Store;
use model::mutation::{Clustering, push_clustering};
use model::query::{LiveRow, Partitions, ReadCommand, RowSink, SinkState};
use model::row::{Cell, CellContent, Deletion, Liveness, RowBuilder};
use model::token::TokenRange;
use model::{ColumnId, DecoratedKey, MutationBuilder, Table, value};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Builds one row of a table and adds it to a mutation. Columns that are not set stay as they are in the store.
pub(crate) struct RowWriter<'t> {
    table: &'t Table,
    clustering: Vec<u8>,
    timestamp: i64,
    /// Time to live in seconds, and when it ends in seconds since 1970.
    expiry: Option<(i32, i64)>,
    /// By column, then deletion before cells, then by the cell's path.
    cells: BTreeMap<(ColumnId, Option<Vec<u8>>), Content>,
}

enum Content {
    Live(Vec<u8>),
    Deleted { now_in_seconds: i64 },
}

impl<'t> RowWriter<'t> {
    /// A row of `table` with these clustering values, written at `timestamp` (microseconds).
    pub(crate) fn new(table: &'t Table, clustering: &[&[u8]], timestamp: i64) -> RowWriter<'t> {
        assert_eq!(clustering.len(), table.clustering_len, "the clustering of {}", table.full_name());
        let mut bytes = Vec::new();
        clustering.iter().for_each(|component| push_clustering(&mut bytes, component));
        RowWriter { table, clustering: bytes, timestamp, expiry: None, cells: BTreeMap::new() }
    }

    /// Lets the row and its values expire `ttl` seconds after `now_in_seconds`.
    pub(crate) fn expire(&mut self, ttl: i32, now_in_seconds: i64) -> &mut Self {
        self.expiry = Some((ttl, now_in_seconds + i64::from(ttl)));
        self
    }

    /// Sets a column's value.
    pub(crate) fn set(&mut self, column: &str, value: impl Into<Vec<u8>>) -> &mut Self {
        self.cells.insert((self.id(column), None), Content::Live(value.into()));
        self
    }

    /// Sets a column's value if there is one.
    pub(crate) fn set_some(&mut self, column: &str, value: Option<impl Into<Vec<u8>>>) -> &mut Self {
        if let Some(value) = value {
            self.set(column, value);
        }
        self
    }

    /// Sets one element of a non-frozen collection: a set's by its path alone, a map's by key (`path`) and value.
    pub(crate) fn element(&mut self, column: &str, path: &[u8], value: &[u8]) -> &mut Self {
        self.cells.insert((self.id(column), Some(path.to_vec())), Content::Live(value.to_vec()));
        self
    }

    /// Removes one element of a non-frozen collection.
    pub(crate) fn remove_element(&mut self, column: &str, path: &[u8], now_in_seconds: i64) -> &mut Self {
        self.cells.insert((self.id(column), Some(path.to_vec())), Content::Deleted { now_in_seconds });
        self
    }

    /// Removes a column's value.
    pub(crate) fn remove(&mut self, column: &str, now_in_seconds: i64) -> &mut Self {
        self.cells.insert((self.id(column), None), Content::Deleted { now_in_seconds });
        self
    }

    fn id(&self, column: &str) -> ColumnId {
        let found = self.table.column(column);
        found.unwrap_or_else(|| panic!("{} has no column {column}", self.table.full_name())).id
    }

    /// Adds the row to `mutation`, whose current table must be this row's table.
    pub(crate) fn finish(&self, mutation: &mut MutationBuilder) {
        let timestamp = self.timestamp;
        mutation.row(Clustering(&self.clustering), |out| {
            let liveness = Liveness { timestamp, expiry: self.expiry };
            let mut row = RowBuilder::new(out, Some(liveness), Deletion::LIVE);
            for ((column, path), content) in &self.cells {
                let content = match content {
                    Content::Live(value) => match self.expiry {
                        Some((ttl, local_deletion_time)) => CellContent::Expiring { value, ttl, local_deletion_time },
                        None => CellContent::Live(value),
                    },
                    Content::Deleted { now_in_seconds } => {
                        CellContent::Deleted { local_deletion_time: *now_in_seconds }
                    }
                };
                row.cell(&Cell { column: *column, timestamp, content, path: path.as_deref() });
            }
        });
    }
}

/// A row as read from the store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct StoredRow {
    /// The serialised partition key.
    pub(crate) key: Vec<u8>,
    /// The clustering values.
    pub(crate) clustering: Vec<Vec<u8>>,
    /// The live cells.
    pub(crate) cells: Vec<StoredCell>,
}

/// A live cell of a [`StoredRow`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoredCell {
    pub(crate) column: ColumnId,
    /// Write timestamp, microseconds.
    pub(crate) timestamp: i64,
    /// The path of the element, for a cell of a non-frozen collection.
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) value: Vec<u8>,
}

/// A sink that collects rows.
#[derive(Default)]
pub(crate) struct Collector {
    now_in_seconds: i64,
    pub(crate) rows: Vec<StoredRow>,
}

impl RowSink for Collector {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        let cells = row.cells.iter().filter_map(|cell| {
            let value = cell.value_at(self.now_in_seconds)?.to_vec();
            let path = cell.path.map(<[u8]>::to_vec);
            Some(StoredCell { column: cell.column, timestamp: cell.timestamp, path, value })
        });
        self.rows.push(StoredRow {
            key: row.key.to_vec(),
            clustering: row.clustering.components().map(<[u8]>::to_vec).collect(),
            cells: cells.collect(),
        });
        SinkState::Open
    }
}

/// All rows of a table that this shard holds, by token and clustering.
pub(crate) async fn read_all(store: &Store, table: &Table) -> Result<Vec<StoredRow>, Error> {
    read(store, table, Partitions::Range(TokenRange::FULL)).await
}

/// The rows of one partition.
pub(crate) async fn read_partition(store: &Store, table: &Table, key: &[u8]) -> Result<Vec<StoredRow>, Error> {
    read(store, table, Partitions::Key(DecoratedKey::new(store.partitioner(), key))).await
}

async fn read(store: &Store, table: &Table, partitions: Partitions) -> Result<Vec<StoredRow>, Error> {
    let now_in_seconds = runtime::wall_micros().div_euclid(1_000_000);
    let command = ReadCommand::all(table.id, now_in_seconds, partitions);
    let mut collector = Collector { now_in_seconds, rows: Vec::new() };
    store.read(&command, &mut collector).await?;
    Ok(collector.rows)
}

/// Typed access to the columns of a [`StoredRow`].
#[derive(Clone, Copy)]
pub(crate) struct RowReader<'a> {
    table: &'a Table,
    row: &'a StoredRow,
}

impl<'a> RowReader<'a> {
    /// A reader of `row`, which must come from `table`.
    pub(crate) fn new(table: &'a Table, row: &'a StoredRow) -> RowReader<'a> {
        RowReader { table, row }
    }

    /// The error for a column of this table that is missing or has the wrong bytes.
    pub(crate) fn malformed(&self, column: &str) -> Error {
        Error::Malformed { table: self.table.full_name(), column: column.to_string() }
    }

    /// A column's bytes, checked against its type; works for key and clustering columns too (a partition key of one
    /// column only).
    pub(crate) fn bytes(&self, name: &str) -> Result<Option<&'a [u8]>, Error> {
        let column = self.table.column(name).ok_or_else(|| self.malformed(name))?;
        let found = match column.kind {
            model::ColumnKind::PartitionKey => Some(&*self.row.key),
            model::ColumnKind::Clustering => {
                self.row.clustering.get(column.position as usize).map(|component| &**component)
            }
            model::ColumnKind::Static | model::ColumnKind::Regular => self.cell(column.id).map(|cell| &*cell.value),
        };
        match found {
            Some(bytes) if value::validate(&column.cql_type, bytes).is_err() => Err(self.malformed(name)),
            found => Ok(found),
        }
    }

    fn cell(&self, column: ColumnId) -> Option<&'a StoredCell> {
        self.row.cells.iter().find(|cell| cell.column == column)
    }

    /// The bytes of a column that must not be null.
    fn required(&self, name: &str) -> Result<&'a [u8], Error> {
        self.bytes(name)?.ok_or_else(|| self.malformed(name))
    }

    fn fixed<const N: usize>(&self, name: &str, bytes: &[u8]) -> Result<[u8; N], Error> {
        bytes.try_into().map_err(|_| self.malformed(name))
    }

    /// A text; null is an error.
    pub(crate) fn text(&self, name: &str) -> Result<String, Error> {
        self.optional_text(name)?.ok_or_else(|| self.malformed(name))
    }

    /// A text; null gives `None`.
    pub(crate) fn optional_text(&self, name: &str) -> Result<Option<String>, Error> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| self.malformed(name));
        self.bytes(name)?.map(text).transpose()
    }

    /// An int; null is an error.
    pub(crate) fn int(&self, name: &str) -> Result<i32, Error> {
        Ok(i32::from_be_bytes(self.fixed(name, self.required(name)?)?))
    }

    /// A bigint or a timestamp; null is an error.
    pub(crate) fn bigint(&self, name: &str) -> Result<i64, Error> {
        Ok(i64::from_be_bytes(self.fixed(name, self.required(name)?)?))
    }

    /// A double; null is an error.
    pub(crate) fn double(&self, name: &str) -> Result<f64, Error> {
        Ok(f64::from_be_bytes(self.fixed(name, self.required(name)?)?))
    }

    /// A boolean; null gives `None`.
    pub(crate) fn optional_boolean(&self, name: &str) -> Result<Option<bool>, Error> {
        Ok(self.bytes(name)?.map(|bytes| bytes.first().is_some_and(|&byte| byte != 0)))
    }

    /// A boolean; null is an error.
    pub(crate) fn boolean(&self, name: &str) -> Result<bool, Error> {
        self.optional_boolean(name)?.ok_or_else(|| self.malformed(name))
    }

    /// A uuid; null gives `None`.
    pub(crate) fn optional_uuid(&self, name: &str) -> Result<Option<Uuid>, Error> {
        let uuid = |bytes| Ok(Uuid::from_bytes(self.fixed(name, bytes)?));
        self.bytes(name)?.map(uuid).transpose()
    }

    /// A uuid; null is an error.
    pub(crate) fn uuid(&self, name: &str) -> Result<Uuid, Error> {
        self.optional_uuid(name)?.ok_or_else(|| self.malformed(name))
    }

    /// A frozen list of texts; null is an error.
    pub(crate) fn text_list(&self, name: &str) -> Result<Vec<String>, Error> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| self.malformed(name));
        value::elements(self.required(name)?, false).map(text).collect()
    }

    /// A frozen map with text keys; its values stay bytes. Null is an error.
    pub(crate) fn map(&self, name: &str) -> Result<BTreeMap<String, Vec<u8>>, Error> {
        let mut elements = value::elements(self.required(name)?, true);
        let mut map = BTreeMap::new();
        while let (Some(key), Some(value)) = (elements.next(), elements.next()) {
            let key = String::from_utf8(key.to_vec()).map_err(|_| self.malformed(name))?;
            map.insert(key, value.to_vec());
        }
        Ok(map)
    }

    /// A frozen map from text to text; null is an error.
    pub(crate) fn text_map(&self, name: &str) -> Result<BTreeMap<String, String>, Error> {
        let text = |bytes| String::from_utf8(bytes).map_err(|_| self.malformed(name));
        self.map(name)?.into_iter().map(|(key, bytes)| Ok((key, text(bytes)?))).collect()
    }

    /// The elements of a non-frozen collection, each as path and value.
    pub(crate) fn elements(&self, name: &str) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let id = self.table.column(name).map(|column| column.id);
        let cells = self.row.cells.iter().filter(move |cell| Some(cell.column) == id);
        cells.filter_map(|cell| Some((cell.path.as_deref()?, &*cell.value)))
    }
}

/// The bytes of a frozen map; `entries` must come in the order of their keys.
pub(crate) fn frozen_map<'a>(entries: impl ExactSizeIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut out = (entries.len() as i32).to_be_bytes().to_vec();
    for (key, bytes) in entries {
        value::push_element(&mut out, Some(key.as_bytes()));
        value::push_element(&mut out, Some(bytes));
    }
    out
}

pub(crate) fn frozen_text_map(map: &BTreeMap<String, String>) -> Vec<u8> {
    frozen_map(map.iter().map(|(key, value)| (key.as_str(), value.as_bytes())))
}
