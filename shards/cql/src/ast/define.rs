//! Definitions as written.

use super::{TableName, TypeName};

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

/// A column of CREATE TABLE.
#[derive(Clone, PartialEq, Debug)]
pub struct ColumnDefinition {
    /// Name.
    pub name: String,
    /// Type.
    pub type_name: TypeName,
    /// STATIC.
    pub is_static: bool,
}
