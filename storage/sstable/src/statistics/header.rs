//! The header component of Statistics.db: the types that Data.db is encoded by, and what its times are relative to.
//!
//! ```text
//! smallest timestamp vint - 1442880000000000, local deletion time vint - 1442880000, time to live vint; class of the
//! partition key; classes of the clustering columns; name and class of the static, then of the regular columns. Counts
//! and lengths are vints
//! ```
//!
//! Invariants: what was parsed is written to the same bytes again.

use super::push_bytes;
use crate::error::{Fault, Problem};
use crate::input::{Input, push_vint};
use model::CqlType;
use model::schema::{Column, ColumnId, ColumnKind, Table, TableId, TableOptions};

/// Most columns of each kind in a header.
pub const COLUMNS_MAX: usize = 65535;
/// Longest name of a type class, in bytes.
pub const CLASS_BYTES_MAX: usize = 1 << 20;

pub(super) const TIMESTAMP_EPOCH: i64 = 1_442_880_000_000_000;
pub(super) const DELETION_TIME_EPOCH: i64 = 1_442_880_000;

/// How rows are encoded: their types, and what their times are relative to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// What timestamps are relative to, in microseconds.
    pub min_timestamp: i64,
    /// What local deletion times are relative to, in seconds.
    pub min_local_deletion_time: i64,
    /// What times to live are relative to, in seconds.
    pub min_ttl: i64,
    /// The class of the partition key; a `CompositeType` if it has several columns.
    pub key_class: String,
    /// The clustering columns.
    pub clustering: Vec<FieldType>,
    /// The static columns, simple ones first, by name.
    pub statics: Vec<HeaderColumn>,
    /// The regular columns, simple ones first, by name.
    pub regulars: Vec<HeaderColumn>,
}

/// A column of a header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeaderColumn {
    /// The bytes of the name.
    pub name: Vec<u8>,
    /// The type of the column.
    pub field: FieldType,
}

/// A type, by the name of its class in Cassandra.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldType {
    /// The full name of the class.
    pub class: String,
    /// The type that the class stands for.
    pub cql_type: CqlType,
    /// Whether the class reverses the order of values.
    pub descending: bool,
    /// The length that all values have, which is not written; `None` if lengths differ.
    pub fixed_len: Option<usize>,
}

impl FieldType {
    /// Returns the type of a class; `None` if it is unknown.
    pub fn parse(class: &str) -> Option<FieldType> {
        let (cql_type, descending) = CqlType::parse_class(class).ok()?;
        let fixed_len = fixed_len(&cql_type);
        Some(FieldType { class: class.to_owned(), cql_type, descending, fixed_len })
    }
}

/// Returns the length that all values of a type have. Values of the empty type have no bytes.
pub(super) fn fixed_len(cql_type: &CqlType) -> Option<usize> {
    if *cql_type == CqlType::Empty { Some(0) } else { cql_type.fixed_len() }
}

pub(super) const COMPOSITE_TYPE: &str = "org.apache.cassandra.db.marshal.CompositeType";

impl Header {
    /// Returns the types of the partition key's columns; `None` if one is unknown.
    pub fn key_types(&self) -> Option<Vec<FieldType>> {
        let Some(parts) = self.key_class.strip_prefix(COMPOSITE_TYPE) else {
            return FieldType::parse(&self.key_class).map(|field| vec![field]);
        };
        let parts = parts.strip_prefix('(')?.strip_suffix(')')?;
        let mut depth = 0usize;
        let mut found = Vec::new();
        let mut start = 0;
        for (at, byte) in parts.bytes().enumerate() {
            match byte {
                b'(' => depth += 1,
                b')' => depth = depth.checked_sub(1)?,
                b',' if depth == 0 => {
                    found.push(FieldType::parse(parts.get(start..at)?)?);
                    start = at + 1;
                }
                _ => {}
            }
        }
        found.push(FieldType::parse(parts.get(start..)?)?);
        Some(found)
    }

    /// Returns the table as far as the file describes it. Key columns are named `PartitionKey`, `clustering`,
    /// `clustering1`, as Cassandra's tools name them. `None`: the type of a key column is unknown, or a column's name
    /// is not UTF-8.
    pub fn table(&self) -> Option<Table> {
        let column = |name: String, kind, position, field: &FieldType| {
            let (cql_type, descending) = (field.cql_type.clone(), field.descending);
            Column { id: ColumnId(0), name, kind, position, cql_type, descending }
        };
        let keys = self.key_types()?;
        let mut columns = Vec::new();
        for (i, field) in keys.iter().enumerate() {
            let name = format!("PartitionKey{}", if i == 0 { String::new() } else { i.to_string() });
            columns.push(column(name, ColumnKind::PartitionKey, i as u16, field));
        }
        for (i, field) in self.clustering.iter().enumerate() {
            let name = format!("clustering{}", if i == 0 { String::new() } else { i.to_string() });
            columns.push(column(name, ColumnKind::Clustering, i as u16, field));
        }
        for (list, kind) in [(&self.statics, ColumnKind::Static), (&self.regulars, ColumnKind::Regular)] {
            let mut named = Vec::new();
            for found in list {
                named.push(column(String::from_utf8(found.name.clone()).ok()?, kind, 0, &found.field));
            }
            named.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
            columns.append(&mut named);
        }
        let mut table = Table {
            id: TableId([0; 16]),
            keyspace: "keyspace".into(),
            name: "table".into(),
            columns,
            partition_key_len: keys.len(),
            clustering_len: self.clustering.len(),
            static_len: self.statics.len(),
            layout: model::schema::Layout::Plain,
            dropped: Vec::new(),
            indexes: Vec::new(),
            masks: Default::default(),
            options: TableOptions::default(),
        };
        table.number_columns();
        Some(table)
    }

    pub(super) fn parse(input: &mut Input<'_>) -> Result<Header, Fault> {
        let min_timestamp = (input.vint()? as i64).wrapping_add(TIMESTAMP_EPOCH);
        let min_local_deletion_time = (input.vint()? as i64).wrapping_add(DELETION_TIME_EPOCH);
        let min_ttl = input.vint()? as i64;
        let key_class = class(input)?.to_owned();
        let count = column_count(input)?;
        let mut clustering = Vec::new();
        for _ in 0..count {
            clustering.push(field(input)?);
        }
        let statics = columns(input)?;
        let regulars = columns(input)?;
        Ok(Header { min_timestamp, min_local_deletion_time, min_ttl, key_class, clustering, statics, regulars })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        push_vint(out, self.min_timestamp.wrapping_sub(TIMESTAMP_EPOCH) as u64);
        // Cassandra takes a signed 32-bit number.
        push_vint(out, i64::from(self.min_local_deletion_time.wrapping_sub(DELETION_TIME_EPOCH) as i32) as u64);
        push_vint(out, self.min_ttl as u64);
        push_bytes(out, self.key_class.as_bytes());
        push_vint(out, self.clustering.len() as u64);
        self.clustering.iter().for_each(|field| push_bytes(out, field.class.as_bytes()));
        for columns in [&self.statics, &self.regulars] {
            push_vint(out, columns.len() as u64);
            for column in columns {
                push_bytes(out, &column.name);
                push_bytes(out, column.field.class.as_bytes());
            }
        }
    }
}

fn class<'a>(input: &mut Input<'a>) -> Result<&'a str, Fault> {
    let start = *input;
    let bytes = input.vint_bytes()?;
    if bytes.len() > CLASS_BYTES_MAX {
        return start.fail(Problem::Limit("CLASS_BYTES_MAX"));
    }
    std::str::from_utf8(bytes).or_else(|_| start.invalid("a text"))
}

pub(super) fn field(input: &mut Input<'_>) -> Result<FieldType, Fault> {
    let start = *input;
    FieldType::parse(class(input)?).map_or_else(|| start.fail(Problem::Unsupported("this type")), Ok)
}

pub(super) fn column_count(input: &mut Input<'_>) -> Result<usize, Fault> {
    let count = input.vint()?;
    if count > COLUMNS_MAX as u64 {
        return input.fail(Problem::Limit("COLUMNS_MAX"));
    }
    input.count(count, 1)
}

fn columns(input: &mut Input<'_>) -> Result<Vec<HeaderColumn>, Fault> {
    let count = column_count(input)?;
    let mut columns = Vec::new();
    for _ in 0..count {
        columns.push(HeaderColumn { name: input.vint_bytes()?.to_vec(), field: field(input)? });
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem<T>(result: Result<T, Fault>) -> Option<Problem> {
        result.err().map(|fault| fault.problem)
    }

    #[test]
    fn columns_and_classes_are_bounded() {
        let columns = |count: usize| {
            let mut bytes = Vec::new();
            push_vint(&mut bytes, count as u64);
            bytes.resize(bytes.len() + count, 0);
            problem(column_count(&mut Input::new(&bytes, 0)))
        };
        assert_eq!(columns(COLUMNS_MAX), None);
        assert_eq!(columns(COLUMNS_MAX + 1), Some(Problem::Limit("COLUMNS_MAX")));
        let class_of = |len: usize| {
            let mut bytes = Vec::new();
            push_bytes(&mut bytes, &vec![b'a'; len]);
            problem(class(&mut Input::new(&bytes, 0)))
        };
        assert_eq!(class_of(CLASS_BYTES_MAX), None);
        assert_eq!(class_of(CLASS_BYTES_MAX + 1), Some(Problem::Limit("CLASS_BYTES_MAX")));
    }
}
