//! Descriptions of result columns and bind markers: their types as `[option]`, and whether one table is given for all.

use crate::Version;
use crate::notation::{Reader, put_int, put_short, put_string};
use model::types::TYPE_DEPTH_MAX;
use model::{ColumnSpec, CqlType, Failure, UserType};
use std::sync::Arc;

/// Flags of a result's metadata.
pub mod flags {
    /// All columns belong to one table, given once.
    pub const GLOBAL_TABLES_SPEC: i32 = 0x1;
    /// A paging state follows: there are more pages.
    pub const HAS_MORE_PAGES: i32 = 0x2;
    /// The columns are left out.
    pub const NO_METADATA: i32 = 0x4;
    /// A new result metadata id follows (v5).
    pub const METADATA_CHANGED: i32 = 0x8;
}

/// The id of a type that is given by the name of its Java class.
const CUSTOM: u16 = 0x0000;

/// The id of a native type, and the first version that knows it.
fn native_id(cql_type: &CqlType) -> Option<(u16, Version)> {
    use CqlType::*;
    Some(match cql_type {
        Ascii => (0x01, Version::V3),
        Bigint => (0x02, Version::V3),
        Blob => (0x03, Version::V3),
        Boolean => (0x04, Version::V3),
        Counter => (0x05, Version::V3),
        Decimal => (0x06, Version::V3),
        Double => (0x07, Version::V3),
        Float => (0x08, Version::V3),
        Int => (0x09, Version::V3),
        Timestamp => (0x0B, Version::V3),
        Uuid => (0x0C, Version::V3),
        Text => (0x0D, Version::V3),
        Varint => (0x0E, Version::V3),
        Timeuuid => (0x0F, Version::V3),
        Inet => (0x10, Version::V3),
        Date => (0x11, Version::V4),
        Time => (0x12, Version::V4),
        Smallint => (0x13, Version::V4),
        Tinyint => (0x14, Version::V4),
        Duration => (0x15, Version::V5),
        Empty
        | LexicalUuid
        | Composite(_)
        | DynamicComposite(_)
        | List { .. }
        | Set { .. }
        | Map { .. }
        | Tuple(_)
        | Vector { .. }
        | User { .. } => return None,
    })
}

const LIST: u16 = 0x20;
const MAP: u16 = 0x21;
const SET: u16 = 0x22;
const USER: u16 = 0x30;
const TUPLE: u16 = 0x31;

/// Appends a type. Vectors, types that CQL writes as classes, and native types that `version` does not know, are sent
/// as custom types with their class. Only a class shows whether a type is frozen.
pub fn put_type(out: &mut Vec<u8>, version: Version, cql_type: &CqlType) {
    match cql_type {
        CqlType::List { element, .. } => {
            put_short(out, LIST);
            put_type(out, version, element);
        }
        CqlType::Set { element, .. } => {
            put_short(out, SET);
            put_type(out, version, element);
        }
        CqlType::Map { key, value, .. } => {
            put_short(out, MAP);
            put_type(out, version, key);
            put_type(out, version, value);
        }
        CqlType::Tuple(elements) => {
            put_short(out, TUPLE);
            put_short(out, elements.len() as u16);
            elements.iter().for_each(|element| put_type(out, version, element));
        }
        CqlType::User { definition, .. } => {
            put_short(out, USER);
            put_string(out, &definition.keyspace);
            put_string(out, &definition.name);
            put_short(out, definition.fields.len() as u16);
            for (name, cql_type) in &definition.fields {
                put_string(out, name);
                put_type(out, version, cql_type);
            }
        }
        native => match native_id(native) {
            Some((id, since)) if version >= since => put_short(out, id),
            _ => {
                put_short(out, CUSTOM);
                put_string(out, &native.class_name());
            }
        },
    }
}

/// Reads a type. Collections and user types count as not frozen, except in classes and within user types.
pub fn read_type(reader: &mut Reader<'_>) -> Result<CqlType, Failure> {
    read_nested(reader, 0)
}

fn read_nested(reader: &mut Reader<'_>, depth: usize) -> Result<CqlType, Failure> {
    use CqlType::*;
    if depth > TYPE_DEPTH_MAX {
        return Err(Failure::protocol("Type is nested too deeply"));
    }
    const NATIVES: [CqlType; 20] = [
        Ascii, Bigint, Blob, Boolean, Counter, Decimal, Double, Float, Int, Timestamp, Uuid, Text, Varint, Timeuuid,
        Inet, Date, Time, Smallint, Tinyint, Duration,
    ];
    let id = reader.short()?;
    Ok(match id {
        CUSTOM => {
            let class = reader.string()?;
            match CqlType::parse_class(class) {
                Ok((cql_type, _)) => cql_type,
                Err(_) => return Err(Failure::protocol(format!("Unknown custom type {class}"))),
            }
        }
        LIST => List { element: Box::new(read_nested(reader, depth + 1)?), frozen: false },
        SET => Set { element: Box::new(read_nested(reader, depth + 1)?), frozen: false },
        MAP => {
            let key = Box::new(read_nested(reader, depth + 1)?);
            Map { key, value: Box::new(read_nested(reader, depth + 1)?), frozen: false }
        }
        USER => {
            let (keyspace, name) = (reader.string()?.to_owned(), reader.string()?.to_owned());
            let count = reader.short()?;
            let mut fields = Vec::new();
            for _ in 0..count {
                let field = reader.string()?.to_owned();
                let cql_type = read_nested(reader, depth + 1)?;
                fields.push((field, if cql_type.is_user_type() { cql_type.frozen() } else { cql_type }));
            }
            User { definition: UserType { keyspace, name, fields }.into(), frozen: false }
        }
        TUPLE => {
            let count = reader.short()?;
            let mut elements = Vec::new();
            for _ in 0..count {
                elements.push(read_nested(reader, depth + 1)?);
            }
            Tuple(elements)
        }
        id => match NATIVES.into_iter().find(|native| native_id(native).is_some_and(|(known, _)| known == id)) {
            Some(native) => native,
            None => return Err(Failure::protocol(format!("Unknown type id {id}"))),
        },
    })
}

/// Whether there are columns and all belong to one table.
pub fn one_table(columns: &[ColumnSpec]) -> bool {
    let Some((first, others)) = columns.split_first() else { return false };
    others.iter().all(|column| column.keyspace == first.keyspace && column.table == first.table)
}

/// Appends the columns. With `global` their common table is given once, before them.
pub fn put_columns(out: &mut Vec<u8>, version: Version, columns: &[ColumnSpec], global: bool) {
    if let (true, Some(first)) = (global, columns.first()) {
        put_string(out, &first.keyspace);
        put_string(out, &first.table);
    }
    for column in columns {
        if !global {
            put_string(out, &column.keyspace);
            put_string(out, &column.table);
        }
        put_string(out, &column.name);
        match column.class {
            Some(class) => {
                put_short(out, CUSTOM);
                put_string(out, class);
            }
            None => put_type(out, version, &column.cql_type),
        }
    }
}

/// Reads `count` columns as [`put_columns`] writes them.
pub fn read_columns(reader: &mut Reader<'_>, count: i32, global: bool) -> Result<Vec<ColumnSpec>, Failure> {
    let table = if global { Some(read_table(reader)?) } else { None };
    let mut columns = Vec::new();
    for _ in 0..count {
        let (keyspace, table) = match &table {
            Some(table) => table.clone(),
            None => read_table(reader)?,
        };
        let name = reader.string()?.into();
        columns.push(ColumnSpec { keyspace, table, name, cql_type: read_type(reader)?, class: None });
    }
    Ok(columns)
}

fn read_table(reader: &mut Reader<'_>) -> Result<(Arc<str>, Arc<str>), Failure> {
    Ok((reader.string()?.into(), reader.string()?.into()))
}

/// Appends what metadata begins with: flags and the number of columns.
pub(crate) fn put_head(out: &mut Vec<u8>, flags: i32, count: usize) {
    put_int(out, flags);
    put_int(out, count as i32);
}
