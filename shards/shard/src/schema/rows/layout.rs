//! The `flags` column of `system_schema.tables`: how a table's rows are laid out.
//!
//! | flags | table |
//! |---|---|
//! | `compound` | an ordinary CQL table |
//! | none | WITH COMPACT STORAGE and without clustering columns |
//! | `dense`, with several clustering columns `compound` as well | WITH COMPACT STORAGE and clustering columns |
//!
//! A table of counters has the flag `counter` too.

use crate::schema::Error;
use crate::schema::cells::RowReader;
use model::Table;
use model::schema::Layout;

const COMPOUND: &str = "compound";
const COUNTER: &str = "counter";
const DENSE: &str = "dense";

/// The flags of a table, in the order in which they are stored.
pub(super) fn flags(table: &Table) -> Vec<String> {
    let compound = match table.layout {
        Layout::Plain => true,
        Layout::StaticCompact => false,
        Layout::DenseCompact => table.clustering_len > 1,
    };
    let dense = table.layout == Layout::DenseCompact;
    let flags = [(COMPOUND, compound), (COUNTER, table.is_counter()), (DENSE, dense)];
    flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name.to_owned()).collect()
}

/// The layout that a row's flags describe.
///
/// # Errors
/// Flags that no CQL statement gives a table: super column families, and tables with several clustering columns that
/// are not compound.
pub(super) fn of(row: RowReader<'_>, clustering_len: usize) -> Result<Layout, Error> {
    let flags = row.text_list("flags")?;
    let has = |name: &str| flags.iter().any(|flag| flag == name);
    let known = flags.iter().all(|flag| [COMPOUND, COUNTER, DENSE].contains(&flag.as_str()));
    match (has(COMPOUND), has(DENSE)) {
        (true, false) if known => Ok(Layout::Plain),
        (false, false) if known && clustering_len == 1 => Ok(Layout::StaticCompact),
        (compound, true) if known && clustering_len > 0 && compound == (clustering_len > 1) => Ok(Layout::DenseCompact),
        _ => Err(Error::Unsupported {
            what: format!("the COMPACT STORAGE table {}.{}", row.text("keyspace_name")?, row.text("table_name")?),
        }),
    }
}
