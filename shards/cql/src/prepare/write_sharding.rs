//! Refuses by name what tables with write sharding cannot do ([`model::write_sharding`]).

use crate::ast;
use crate::ast::WRITE_SHARDING;
use crate::plan::{Modify, ModifyKind};
use crate::restrictions::SelectedRows;
use model::{Failure, Table};

type Result<T> = std::result::Result<T, Failure>;

/// Refuses changes of rows that are placed by chance, unless they are made wherever the row may be.
pub(super) fn check_modify(modify: &Modify) -> Result<()> {
    if !modify.table.write_sharding().is_some_and(model::WriteSharding::is_random) {
        return Ok(());
    }
    let what = match modify.kind {
        _ if modify.is_conditional() => "Conditional updates",
        ModifyKind::Update => "UPDATE",
        ModifyKind::Delete if modify.reads() => "DELETE of elements of lists",
        ModifyKind::Insert | ModifyKind::Delete => return Ok(()),
    };
    let name = modify.table.full_name();
    Err(Failure::invalid(format!(
        "{what} cannot be used with table {name}: {WRITE_SHARDING} has the mode random, so it is not known where a row is"
    )))
}

/// Refuses reads that need all rows of a key together, or in the order of its token, where partitions are read in the
/// order in which they are stored.
pub(super) fn check_select(select: &ast::Select, table: &Table, rows: &SelectedRows, groups: bool) -> Result<()> {
    if table.write_sharding().is_none() {
        return Ok(());
    }
    let name = table.full_name();
    if rows.key_tokens.is_some() {
        return Err(Failure::invalid(format!(
            "Table {name} has {WRITE_SHARDING}: its partition key cannot be restricted together with its token"
        )));
    }
    if !rows.key_range {
        return Ok(());
    }
    let what = match () {
        () if select.distinct => "SELECT DISTINCT",
        () if select.per_partition_limit.is_some() => "PER PARTITION LIMIT",
        () if groups => "GROUP BY",
        () => return Ok(()),
    };
    Err(Failure::invalid(format!(
        "{what} needs the whole partition key, restricted by = or IN: table {name} has {WRITE_SHARDING}, so the rows of \
         a key are not together"
    )))
}
