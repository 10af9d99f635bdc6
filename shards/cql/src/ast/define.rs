//! Schema changes as written: CREATE, ALTER and DROP.

use super::{TableName, Term, TypeName};
use model::IndexedPart;

/// The property whose values may be maps.
pub const CUSTOM_PROPERTIES: &str = "custom_properties";
/// The table option whose map may have a list as a value.
pub const WRITE_SHARDING: &str = "write_sharding";

/// One `name = value` of a WITH clause.
#[derive(Clone, PartialEq, Debug)]
pub struct Property {
    /// Its name, in lower case unless quoted.
    pub name: String,
    /// Its value.
    pub value: PropertyValue,
}

/// The value of a property; constants are given as their text without quotes.
#[derive(Clone, PartialEq, Debug)]
pub enum PropertyValue {
    /// A constant.
    Text(String),
    /// `{'k': 'v', ...}`. In [`CUSTOM_PROPERTIES`] values may be maps: `{'a': {'b': 1}}` is given as `{'a.b': 1}`. In
    /// [`WRITE_SHARDING`] they may be lists: `{'a': ['b', 'c']}` is given as `'a': 'b'` and `'a': 'c'`.
    Map(Vec<(String, String)>),
}

/// A statement that changes the schema.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "named as in CQL")]
pub enum Definition {
    CreateKeyspace(CreateKeyspace),
    AlterKeyspace(AlterKeyspace),
    DropKeyspace(DropKeyspace),
    CreateTable(CreateTable),
    AlterTable(AlterTable),
    DropTable(DropTable),
    CreateType(CreateType),
    AlterType(AlterType),
    DropType(DropType),
    CreateIndex(CreateIndex),
    DropIndex(DropIndex),
}

/// CREATE KEYSPACE.
#[derive(Clone, PartialEq, Debug)]
pub struct CreateKeyspace {
    /// The name.
    pub name: String,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The properties of WITH.
    pub properties: Vec<Property>,
}

/// ALTER KEYSPACE.
#[derive(Clone, PartialEq, Debug)]
pub struct AlterKeyspace {
    /// The name.
    pub name: String,
    /// IF EXISTS.
    pub if_exists: bool,
    /// The properties of WITH.
    pub properties: Vec<Property>,
}

/// DROP KEYSPACE.
#[derive(Clone, PartialEq, Debug)]
pub struct DropKeyspace {
    /// The name.
    pub name: String,
    /// IF EXISTS.
    pub if_exists: bool,
}

/// CREATE TABLE.
#[derive(Clone, PartialEq, Debug)]
pub struct CreateTable {
    /// The name.
    pub table: TableName,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The columns in order.
    pub columns: Vec<ColumnDefinition>,
    /// Every PRIMARY KEY clause, also one on a column: names of the partition key and of the clustering columns.
    pub primary_keys: Vec<(Vec<String>, Vec<String>)>,
    /// CLUSTERING ORDER BY: columns, and whether they descend.
    pub clustering_order: Vec<(String, bool)>,
    /// WITH COMPACT STORAGE.
    pub compact: bool,
    /// The other properties of WITH.
    pub properties: Vec<Property>,
}

/// A column of CREATE TABLE or ALTER TABLE ADD.
#[derive(Clone, PartialEq, Debug)]
pub struct ColumnDefinition {
    /// The name.
    pub name: String,
    /// The type.
    pub type_name: TypeName,
    /// STATIC.
    pub is_static: bool,
    /// MASKED WITH.
    pub mask: Option<Mask>,
}

/// `MASKED WITH function(arguments)`; `MASKED WITH DEFAULT` is that with `mask_default()`.
#[derive(Clone, PartialEq, Debug)]
pub struct Mask {
    /// The keyspace of the function, if given.
    pub keyspace: Option<String>,
    /// The name of the function.
    pub function: String,
    /// Its arguments after the first, which is the masked value.
    pub arguments: Vec<Term>,
}

/// ALTER TABLE.
#[derive(Clone, PartialEq, Debug)]
pub struct AlterTable {
    /// The name.
    pub table: TableName,
    /// IF EXISTS, for the table.
    pub if_exists: bool,
    /// The change.
    pub change: TableChange,
}

/// The change that ALTER TABLE makes.
#[derive(Clone, PartialEq, Debug)]
pub enum TableChange {
    /// ADD.
    Add {
        /// IF NOT EXISTS, for the columns.
        if_not_exists: bool,
        /// The columns in order.
        columns: Vec<ColumnDefinition>,
    },
    /// DROP.
    Drop {
        /// IF EXISTS, for the columns.
        if_exists: bool,
        /// The names of the columns.
        names: Vec<String>,
        /// USING TIMESTAMP, microseconds.
        timestamp: Option<i64>,
    },
    /// RENAME: old and new names. IF EXISTS changes nothing, as in Cassandra.
    Rename(Vec<(String, String)>),
    /// The properties of WITH.
    Options(Vec<Property>),
    /// ALTER column TYPE type, which is always refused.
    Type,
    /// ALTER column MASKED WITH.
    Mask {
        /// IF EXISTS, for the column.
        if_exists: bool,
        /// The column.
        column: String,
        /// Its mask.
        mask: Mask,
    },
    /// ALTER column DROP MASKED.
    Unmask {
        /// IF EXISTS, for the column.
        if_exists: bool,
        /// The column.
        column: String,
    },
    /// DROP COMPACT STORAGE.
    DropCompactStorage,
}

/// DROP TABLE.
#[derive(Clone, PartialEq, Debug)]
pub struct DropTable {
    /// The name.
    pub table: TableName,
    /// IF EXISTS.
    pub if_exists: bool,
}

/// CREATE INDEX.
#[derive(Clone, PartialEq, Debug)]
pub struct CreateIndex {
    /// The name, if one is given.
    pub name: Option<String>,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The table.
    pub table: TableName,
    /// The columns, and which part of each is indexed.
    pub targets: Vec<(String, IndexedPart)>,
    /// Whether CUSTOM was given.
    pub custom: bool,
    /// The class given with USING.
    pub class: Option<String>,
    /// The properties of WITH.
    pub properties: Vec<Property>,
}

/// DROP INDEX.
#[derive(Clone, PartialEq, Debug)]
pub struct DropIndex {
    /// The name.
    pub name: TableName,
    /// IF EXISTS.
    pub if_exists: bool,
}

/// CREATE TYPE.
#[derive(Clone, PartialEq, Debug)]
pub struct CreateType {
    /// The name.
    pub name: TableName,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// Names and types of the fields, in order.
    pub fields: Vec<(String, TypeName)>,
}

/// ALTER TYPE.
#[derive(Clone, PartialEq, Debug)]
pub struct AlterType {
    /// The name.
    pub name: TableName,
    /// IF EXISTS, for the type.
    pub if_exists: bool,
    /// The change.
    pub change: TypeChange,
}

/// The change that ALTER TYPE makes.
#[derive(Clone, PartialEq, Debug)]
pub enum TypeChange {
    /// ADD.
    Add {
        /// IF NOT EXISTS, for the field.
        if_not_exists: bool,
        /// Its name.
        field: String,
        /// Its type.
        type_name: TypeName,
    },
    /// RENAME.
    Rename {
        /// IF EXISTS, for the fields.
        if_exists: bool,
        /// Old and new names.
        names: Vec<(String, String)>,
    },
    /// ALTER field TYPE type, which is always refused.
    Type,
}

/// DROP TYPE.
#[derive(Clone, PartialEq, Debug)]
pub struct DropType {
    /// The name.
    pub name: TableName,
    /// IF EXISTS.
    pub if_exists: bool,
}

/// The object of a DESCRIBE. Names are checked when it runs.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "as in CQL")]
pub enum DescribeTarget {
    Cluster,
    Keyspaces,
    Tables,
    Types,
    Functions,
    Aggregates,
    Schema { full: bool },
    Keyspace { name: Option<String>, only: bool },
    Table { keyspace: Option<String>, name: String },
    Type { keyspace: Option<String>, name: String },
    Function { keyspace: Option<String>, name: String },
    Aggregate { keyspace: Option<String>, name: String },
    Index { keyspace: Option<String>, name: String },
    MaterializedView { keyspace: Option<String>, name: String },
    Any { keyspace: Option<String>, name: String },
}
