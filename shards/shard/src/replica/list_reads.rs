//! Reading elements of lists, for changes by index or by value, and locking their partitions on this core.

use super::failure;
use crate::messages::data::{ListElement, ListRead, Lists, ListsByRow, LockRequest, LockedPartition};
use crate::rows::commands::row_command;
use crate::shard_state::Shard;
use model::query::{LiveRow, ReadCommand, RowSink, SinkState};
use model::value::compare;
use model::{ColumnId, CqlType, Failure};

/// Reads lists of partitions of this core.
async fn read(shard: &Shard, reads: &[ListRead]) -> Result<ListsByRow, Failure> {
    let mut found = ListsByRow::new();
    for read in reads {
        let (command, mut collected) = begin(read);
        let done = shard.store().read(&command, &mut collected).await;
        done.map_err(|error| failure(&shard.schema(), Some(read.table.id), error))?;
        end(read, collected, &mut found);
    }
    Ok(found)
}

/// The command that reads the lists of a row, or of the static row if no row is given, and the sink for what it finds.
pub(crate) fn begin(read: &ListRead) -> (ReadCommand, CollectedLists<'_>) {
    let ListRead { table, key, row, columns, now_in_seconds } = read;
    let command = row_command(table, key, row.as_deref(), *now_in_seconds);
    let lists = CollectedLists { now: *now_in_seconds, is_static: row.is_none(), columns, lists: Lists::new() };
    (command, lists)
}

/// Adds the lists that were found to `found`.
pub(crate) fn end(read: &ListRead, mut collected: CollectedLists<'_>, found: &mut ListsByRow) {
    for list in collected.lists.values_mut() {
        list.sort_by(|a, b| compare(&CqlType::Timeuuid, &a.path, &b.path));
    }
    let place = (read.table.id, read.key.key.to_vec(), read.row.clone());
    found.entry(place).or_default().extend(collected.lists);
}

/// Collects the elements of some lists of a row.
pub(crate) struct CollectedLists<'w> {
    now: i64,
    is_static: bool,
    columns: &'w [ColumnId],
    lists: Lists,
}

impl RowSink for CollectedLists<'_> {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        let cells = if self.is_static { row.static_cells } else { row.cells };
        for cell in cells.iter().filter(|cell| self.columns.contains(&cell.column)) {
            if let (Some(path), Some(value)) = (cell.path, cell.value_at(self.now)) {
                let element = ListElement { path: path.to_vec(), value: value.to_vec(), timestamp: cell.timestamp };
                self.lists.entry(cell.column).or_default().push(element);
            }
        }
        SinkState::Full
    }
}

/// Locks a partition of this core and reads the lists asked for. The lock is held until its ticket is released.
///
/// # Errors
/// Overloaded if too many locks are held.
pub(crate) async fn lock(shard: &Shard, request: &LockRequest) -> Result<LockedPartition, Failure> {
    let failed = |error| failure(&shard.schema(), Some(request.table), error);
    let guard = shard.store().lock(request.table, &request.key).await.map_err(failed)?;
    let lists = read(shard, &request.reads).await?;
    match shard.partition_locks().keep(guard) {
        Some(ticket) => Ok(LockedPartition { ticket, lists }),
        None => Err(Failure::overloaded("Too many batches wait for partitions of this core; nothing was written")),
    }
}
