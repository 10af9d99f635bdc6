//! Tables without storage: their rows are made when they are read, and encoded the way stored rows are.
//!
//! 1. `contents` makes all rows of the table, in no particular order.
//! 2. They are sorted by partition key and clustering, not by token, as in Cassandra.
//! 3. Those that the command asks for go into the same sink as rows of a store, which applies filters and selection.
//!
//! Invariants: virtual tables live on shard 0, like tables with LocalStrategy; a page resumes after the key and
//! clustering of its last row, whatever has changed since; nothing is kept between two reads.

mod alerts;
mod changes;
mod contents;
mod damaged;
mod gossip;
mod hints;
mod links;
mod pools;
mod repairs;
pub(crate) mod settings;
mod streams;
mod sub_partitions;
mod tables;
mod tablets;
mod throughput;

pub(crate) use changes::{VirtualChange, change, truncate};

use crate::messages::data::{ReadReply, ReadRequest};
use crate::replica::row_sink::RowBlockSink;
use crate::shard_state::Shard;
use model::key::{components, push_composite};
use model::mutation::{Clustering, push_clustering};
use model::query::{LiveRow, Partitions, ReadCommand, ReadEnd, RowSink, SinkState};
use model::row::{Cell, CellContent};
use model::{ColumnId, ColumnKind, Failure, Partitioner, Table, Token, comparable, value};
use std::cmp::Ordering;

/// Reads a table without storage, on shard 0.
pub(crate) async fn read(shard: &Shard, table: &Table, request: &ReadRequest) -> Result<ReadReply, Failure> {
    let mut rows = VirtualRows { table, rows: Vec::new() };
    contents::fill(shard, &mut rows).await?;
    let mut sink = RowBlockSink::new(shard.partitioner(), table, request);
    let end = rows.give(shard.partitioner(), &request.command, &mut sink);
    Ok(sink.finish(end))
}

/// The rows of a virtual table as they are collected.
struct VirtualRows<'t> {
    table: &'t Table,
    rows: Vec<VirtualRow>,
}

struct VirtualRow {
    /// The partition key, serialised.
    key: Vec<u8>,
    clustering: Vec<u8>,
    comparable: Vec<u8>,
    cells: Vec<(ColumnId, Vec<u8>)>,
}

/// A column's name and value.
pub(super) type Named<'v> = (&'v str, Option<Vec<u8>>);

impl VirtualRows<'_> {
    /// Adds a row; columns that are not named are null. Panics if a name is not a column of the table.
    fn push<'v>(&mut self, values: impl IntoIterator<Item = Named<'v>>) {
        let mut row = VirtualRow { key: Vec::new(), clustering: Vec::new(), comparable: Vec::new(), cells: Vec::new() };
        let mut keys: Vec<Vec<u8>> = vec![Vec::new(); self.table.partition_key_len];
        let mut components: Vec<Vec<u8>> = vec![Vec::new(); self.table.clustering_len];
        for (name, value) in values {
            let column = self.table.column(name);
            let column = column.unwrap_or_else(|| panic!("{} has no column {name}", self.table.full_name()));
            let Some(value) = value else { continue };
            match column.kind {
                ColumnKind::PartitionKey => keys[column.position as usize] = value,
                ColumnKind::Clustering => components[column.position as usize] = value,
                ColumnKind::Static | ColumnKind::Regular => row.cells.push((column.id, value)),
            }
        }
        match keys.as_mut_slice() {
            [key] => row.key = std::mem::take(key),
            several => push_composite(several.iter().map(Vec::as_slice), &mut row.key),
        }
        row.cells.sort_by_key(|(id, _)| *id);
        components.iter().for_each(|component| push_clustering(&mut row.clustering, component));
        let components = components.iter().map(Vec::as_slice);
        comparable::clustering(self.table, components, &mut row.comparable);
        self.rows.push(row);
    }

    /// Gives the sink those rows that `command` asks for, in its order.
    fn give(mut self, partitioner: Partitioner, command: &ReadCommand, sink: &mut dyn RowSink) -> ReadEnd {
        let key = self.table.partition_key();
        let by_key = |a: &[u8], b: &[u8]| {
            let mut parts = key.iter().zip(components(a, key.len()).zip(components(b, key.len())));
            let differing = parts.find_map(|(column, (a, b))| {
                let order = value::compare(&column.cql_type, a, b);
                order.is_ne().then_some(order)
            });
            differing.unwrap_or(Ordering::Equal)
        };
        self.rows.sort_by(|a, b| by_key(&a.key, &b.key).then_with(|| a.comparable.cmp(&b.comparable)));
        let mut given = 0;
        for partition in self.rows.chunk_by(|a, b| a.key == b.key) {
            let key = &partition[0].key;
            let token = partitioner.token(key);
            let asked = match &command.partitions {
                Partitions::Key(asked) => *asked.key == **key,
                Partitions::Range(range) => range.contains(token, key),
            };
            let resumed = command.resume.as_ref().map(|position| (by_key(key, &position.key.key), position));
            if !asked || matches!(resumed, Some((Ordering::Less, _))) {
                continue;
            }
            let (mut of_partition, after) = match resumed {
                Some((Ordering::Equal, position)) => match &position.comparable {
                    Some(comparable) => (command.resume_partition_rows, Some(comparable)),
                    None => continue,
                },
                _ => (0, None),
            };
            let forward = (0..partition.len()).map(|at| if command.reversed { partition.len() - 1 - at } else { at });
            for row in forward.map(|at| &partition[at]) {
                let passed = after.is_some_and(|after| match row.comparable.as_slice().cmp(after) {
                    Ordering::Equal => true,
                    order => (order == Ordering::Less) != command.reversed,
                });
                if passed || !command.slices.iter().any(|slice| slice.contains(&row.comparable)) {
                    continue;
                }
                if of_partition >= command.per_partition_max {
                    break;
                }
                let state = row.give(token, sink);
                if state != SinkState::Rejected {
                    (given, of_partition) = (given + 1, of_partition + 1);
                }
                if state == SinkState::Full || given >= command.rows_max {
                    return ReadEnd::Stopped;
                }
            }
        }
        ReadEnd::Exhausted
    }
}

impl VirtualRow {
    fn give(&self, token: Token, sink: &mut dyn RowSink) -> SinkState {
        let mut cells: Vec<Cell<'_>> = Vec::with_capacity(self.cells.len());
        for (column, value) in &self.cells {
            cells.push(Cell { column: *column, timestamp: 0, content: CellContent::Live(value), path: None });
        }
        sink.row(&LiveRow {
            token,
            key: &self.key,
            clustering: Clustering(&self.clustering),
            comparable: &self.comparable,
            liveness: None,
            cells: &cells,
            static_cells: &[],
            static_only: false,
        })
    }
}

#[cfg(test)]
mod tests;
