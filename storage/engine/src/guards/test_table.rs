//! Makes tables for unit tests from lists of columns.

use model::schema::{Column, Layout, TableOptions};
use model::{ColumnId, ColumnKind, CqlType, Table, TableId};

/// `g.t` with these columns: key columns in their order, then statics, then others.
pub(crate) fn table(columns: &[(&str, ColumnKind, CqlType)]) -> Table {
    let count = |wanted: ColumnKind| columns.iter().filter(|(_, kind, _)| *kind == wanted).count();
    let column = |at: usize, (name, kind, cql_type): &(&str, ColumnKind, CqlType)| {
        let is_key = matches!(kind, ColumnKind::PartitionKey | ColumnKind::Clustering);
        let before = columns[..at].iter().filter(|(_, before, _)| before == kind).count();
        Column {
            id: ColumnId(at as u16),
            name: (*name).into(),
            kind: *kind,
            position: if is_key { before as u16 } else { 0 },
            cql_type: cql_type.clone(),
            descending: false,
        }
    };
    Table {
        id: TableId([1; 16]),
        keyspace: "g".into(),
        name: "t".into(),
        columns: columns.iter().enumerate().map(|(at, described)| column(at, described)).collect(),
        partition_key_len: count(ColumnKind::PartitionKey),
        clustering_len: count(ColumnKind::Clustering),
        static_len: count(ColumnKind::Static),
        layout: Layout::Plain,
        dropped: Vec::new(),
        indexes: Vec::new(),
        masks: Default::default(),
        options: TableOptions::default(),
    }
}
