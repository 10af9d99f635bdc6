//! Definitions as written: CREATE, ALTER and DROP.

use super::{TableName, TypeName};
use model::IndexedPart;

/// One `name = value` of WITH.
#[derive(Clone, PartialEq, Debug)]
pub struct Property {
    /// Its name, in lower case unless quoted.
    pub name: String,
    /// Its value.
    pub value: PropertyValue,
}

/// The value of a property: constants as their text, without quotes.
#[derive(Clone, PartialEq, Debug)]
pub enum PropertyValue {
    /// A constant.
    Text(String),
    /// `{'k': 'v', ...}`.
    Map(Vec<(String, String)>),
}

/// What a definition says.
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
    /// Name.
    pub name: String,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// WITH.
    pub properties: Vec<Property>,
}

/// ALTER KEYSPACE.
#[derive(Clone, PartialEq, Debug)]
pub struct AlterKeyspace {
    /// Name.
    pub name: String,
    /// IF EXISTS.
    pub if_exists: bool,
    /// WITH.
    pub properties: Vec<Property>,
}

/// DROP KEYSPACE.
#[derive(Clone, PartialEq, Debug)]
pub struct DropKeyspace {
    /// Name.
    pub name: String,
    /// IF EXISTS.
    pub if_exists: bool,
}

/// CREATE TABLE.
#[derive(Clone, PartialEq, Debug)]
pub struct CreateTable {
    /// Name.
    pub table: TableName,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// Columns in order.
    pub columns: Vec<ColumnDefinition>,
    /// Every PRIMARY KEY clause (a column's own too): partition key and clustering columns.
    pub primary_keys: Vec<(Vec<String>, Vec<String>)>,
    /// CLUSTERING ORDER BY: columns and whether they descend.
    pub clustering_order: Vec<(String, bool)>,
    /// WITH COMPACT STORAGE.
    pub compact: bool,
    /// The other properties.
    pub properties: Vec<Property>,
}

/// A column of CREATE TABLE or ALTER TABLE ADD.
#[derive(Clone, PartialEq, Debug)]
pub struct ColumnDefinition {
    /// Name.
    pub name: String,
    /// Type.
    pub type_name: TypeName,
    /// STATIC.
    pub is_static: bool,
}

/// ALTER TABLE.
#[derive(Clone, PartialEq, Debug)]
pub struct AlterTable {
    /// Name.
    pub table: TableName,
    /// IF EXISTS, of the table.
    pub if_exists: bool,
    /// What is altered.
    pub change: TableChange,
}

/// What ALTER TABLE alters.
#[derive(Clone, PartialEq, Debug)]
pub enum TableChange {
    /// ADD.
    Add {
        /// IF NOT EXISTS, of the columns.
        if_not_exists: bool,
        /// The columns in order.
        columns: Vec<ColumnDefinition>,
    },
    /// DROP.
    Drop {
        /// IF EXISTS, of the columns.
        if_exists: bool,
        /// The columns' names.
        names: Vec<String>,
        /// USING TIMESTAMP, microseconds.
        timestamp: Option<i64>,
    },
    /// RENAME: old and new names. IF EXISTS does not change anything, as in Cassandra.
    Rename(Vec<(String, String)>),
    /// WITH.
    Options(Vec<Property>),
    /// ALTER column TYPE type, which is no longer possible.
    Type,
    /// ALTER column DROP MASKED: no column has a mask.
    Unmask {
        /// IF EXISTS, of the column.
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
    /// Name.
    pub table: TableName,
    /// IF EXISTS.
    pub if_exists: bool,
}

/// CREATE INDEX.
#[derive(Clone, PartialEq, Debug)]
pub struct CreateIndex {
    /// Name, if one is given.
    pub name: Option<String>,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The table.
    pub table: TableName,
    /// The columns and what of them.
    pub targets: Vec<(String, IndexedPart)>,
    /// CUSTOM.
    pub custom: bool,
    /// USING.
    pub class: Option<String>,
    /// WITH.
    pub properties: Vec<Property>,
}

/// DROP INDEX.
#[derive(Clone, PartialEq, Debug)]
pub struct DropIndex {
    /// Name.
    pub name: TableName,
    /// IF EXISTS.
    pub if_exists: bool,
}

/// CREATE TYPE.
#[derive(Clone, PartialEq, Debug)]
pub struct CreateType {
    /// Name.
    pub name: TableName,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// Fields in order.
    pub fields: Vec<(String, TypeName)>,
}

/// ALTER TYPE.
#[derive(Clone, PartialEq, Debug)]
pub struct AlterType {
    /// Name.
    pub name: TableName,
    /// IF EXISTS, of the type.
    pub if_exists: bool,
    /// What is altered.
    pub change: TypeChange,
}

/// What ALTER TYPE alters.
#[derive(Clone, PartialEq, Debug)]
pub enum TypeChange {
    /// ADD.
    Add {
        /// IF NOT EXISTS, of the field.
        if_not_exists: bool,
        /// Its name.
        field: String,
        /// Its type.
        type_name: TypeName,
    },
    /// RENAME.
    Rename {
        /// IF EXISTS, of the fields.
        if_exists: bool,
        /// Old and new names.
        names: Vec<(String, String)>,
    },
    /// ALTER field TYPE type, which is no longer possible.
    Type,
}

/// DROP TYPE.
#[derive(Clone, PartialEq, Debug)]
pub struct DropType {
    /// Name.
    pub name: TableName,
    /// IF EXISTS.
    pub if_exists: bool,
}
