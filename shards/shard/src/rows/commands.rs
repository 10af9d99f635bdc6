//! Commands that read one row.

use model::comparable::{self, BoundSide};
use model::mutation::Clustering;
use model::query::{Partitions, ReadCommand, Slice};
use model::{DecoratedKey, Table};

/// The slice of one row, by its clustering.
pub(crate) fn row_slice(table: &Table, clustering: Clustering<'_>) -> Slice {
    let bound = |side| {
        let mut out = Vec::new();
        comparable::row_bound(table, clustering.components(), side, &mut out);
        out.into_boxed_slice()
    };
    Slice { start: bound(BoundSide::Before), end: bound(BoundSide::After) }
}

/// The command that reads a row by its clustering or, without one, the static row. `now_in_seconds` is since 1970.
pub(crate) fn row_command(table: &Table, key: &DecoratedKey, row: Option<&[u8]>, now_in_seconds: i64) -> ReadCommand {
    let slice = match row {
        Some(row) if table.clustering_len > 0 => row_slice(table, Clustering(row)),
        _ => Slice::all(),
    };
    ReadCommand {
        slices: [slice].into(),
        rows_max: 1,
        static_only: row.is_none(),
        wants_static: row.is_none(),
        ..ReadCommand::all(table.id, now_in_seconds, Partitions::Key(key.clone()))
    }
}
