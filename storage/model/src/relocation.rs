//! What a change of one sub-partition is in other places of the same key ([`crate::write_sharding`]), with the same
//! timestamps: rows go to the one place of theirs, and deletions of ranges and partitions to all places that rows of
//! this sub-partition may go to.
//!
//! Where one number of sub-partitions is a multiple of the other, the token of a row modulo the smaller one is the same
//! in both: so each place of few stands for as many of many, and no others.

use crate::mutation::{Mutation, MutationBuilder, Operation};
use crate::partitioner::Partitioner;
use crate::row::{RowBuilder, RowView};
use crate::schema::Table;
use crate::write_sharding::{Places, WriteSharding};
use std::collections::BTreeMap;

/// What `mutation` changes of `table`, as changes of the places `to` of its key; nothing if its key is not one of the
/// places `from`. The changes of each place come in the order in which they are in the mutation.
pub fn relocated(
    partitioner: Partitioner,
    (table, sharding): (&Table, &WriteSharding),
    mutation: &Mutation,
    (from, to): (Places, Places),
) -> Vec<Mutation> {
    let Some((logical, number)) = table.logical_key(mutation.key()).filter(|(_, number)| from.has(*number)) else {
        return Vec::new();
    };
    let mut made: BTreeMap<u16, MutationBuilder> = BTreeMap::new();
    let begun = |number: &u16| {
        let mut builder = MutationBuilder::new(partitioner, &table.stored_key(logical, *number));
        builder.table(table.id);
        builder
    };
    let derived: Vec<u16> = derived(number, (from, to)).collect();
    for update in mutation.updates().filter(|update| update.table == table.id) {
        if !update.partition_deletion.is_live() {
            for number in &derived {
                let builder = made.entry(*number).or_insert_with_key(begun);
                builder.delete_partition(update.partition_deletion);
            }
        }
        for operation in update.operations() {
            match operation {
                Operation::Row { clustering, row } => {
                    let Some(number) = sharding.by.number_of_row(clustering, to) else { continue };
                    let builder = made.entry(number).or_insert_with_key(begun);
                    builder.row(clustering, |out| copy(row, out));
                }
                Operation::RangeDeletion { start, end, deletion } => {
                    let one = sharding.by.number_of_range(start.prefix, end.prefix, to);
                    for number in derived.iter().filter(|number| one.is_none_or(|one| one == **number)) {
                        made.entry(*number).or_insert_with_key(begun).delete_range(start, end, deletion);
                    }
                }
                // Tables with write sharding have no static columns.
                Operation::StaticRow { .. } => {}
            }
        }
    }
    made.into_values().map(MutationBuilder::finish).collect()
}

/// The places to which rows of the place `number` of `from` may go.
fn derived(number: u16, (from, to): (Places, Places)) -> impl Iterator<Item = u16> {
    let index = number.saturating_sub(from.first);
    let few = from.shards.min(to.shards).max(1);
    let is_multiple = from.shards.max(to.shards).is_multiple_of(few);
    to.numbers().filter(move |other| !is_multiple || (other - to.first) % few == index % few)
}

fn copy(row: RowView<'_>, out: &mut Vec<u8>) {
    let mut builder = RowBuilder::new(out, row.liveness(), row.deletion());
    row.cells().for_each(|cell| builder.cell(&cell));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clustering::{Clustering, ClusteringBound, push_clustering};
    use crate::row::{Cell, CellContent, Deletion, Liveness};
    use crate::schema::ColumnId;
    use crate::write_sharding::ShardedBy;

    const PARTITIONER: Partitioner = Partitioner::Murmur3;

    fn row(value: &str) -> Vec<u8> {
        let mut out = Vec::new();
        push_clustering(&mut out, value.as_bytes());
        out
    }

    /// The number of each mutation's place, with the first values of the rows and how much it deletes.
    fn shown(table: &Table, mutations: &[Mutation]) -> Vec<(u16, Vec<Vec<u8>>, usize)> {
        let of = |mutation: &Mutation| {
            let (logical, number) = table.logical_key(mutation.key()).expect("a stored key");
            assert_eq!(logical, b"key");
            let (mut rows, mut deletions) = (Vec::new(), 0);
            for update in mutation.updates() {
                deletions += usize::from(!update.partition_deletion.is_live());
                for operation in update.operations() {
                    match operation {
                        Operation::Row { clustering, row } => {
                            assert_eq!(row.cells().count(), 1);
                            assert_eq!(row.liveness().map(|liveness| liveness.timestamp), Some(5));
                            rows.push(clustering.0.to_vec());
                        }
                        Operation::RangeDeletion { deletion, .. } => {
                            assert_eq!(deletion.timestamp, 7);
                            deletions += 1;
                        }
                        Operation::StaticRow { .. } => panic!("there is none"),
                    }
                }
            }
            (number, rows, deletions)
        };
        mutations.iter().map(of).collect()
    }

    #[test]
    fn changes_go_to_the_places_that_derive_from_theirs() {
        let mut below = |_| 0;
        let mut table = crate::arbitrary::table("k", "t", &mut below);
        table.partition_key_len = 1;
        let sharding = WriteSharding { shards: 2, by: ShardedBy::Clustering(vec![0]), growth: None };
        let (from, to) = (Places::grown(2), Places::grown(6));
        let names: Vec<String> = (0..40).map(|name| name.to_string()).collect();
        let of_place = |number: u16| {
            let rows = names.iter().map(|name| row(name));
            rows.filter(|row| sharding.by.number_of_row(Clustering(row), from) == Some(number)).collect::<Vec<_>>()
        };
        let rows = of_place(3);
        let mut builder = MutationBuilder::new(PARTITIONER, &table.stored_key(b"key", 3));
        builder.table(table.id);
        for row in &rows {
            builder.row(Clustering(row), |out| {
                let content = CellContent::Live(b"v");
                let liveness = Liveness { timestamp: 5, expiry: None };
                RowBuilder::new(out, Some(liveness), Deletion::LIVE).cell(&Cell {
                    column: ColumnId(9),
                    path: None,
                    timestamp: 5,
                    content,
                });
            });
        }
        let bound = |prefix| ClusteringBound { prefix: Clustering(prefix), inclusive: true };
        let deletion = Deletion { timestamp: 7, local_deletion_time: 1 };
        builder.delete_range(bound(&[]), bound(&[]), deletion);
        builder.delete_range(bound(&rows[0]), bound(&rows[0]), deletion);
        builder.delete_partition(deletion);
        let mutation = builder.finish();
        let moved = relocated(PARTITIONER, (&table, &sharding), &mutation, (from, to));
        let moved_back: Vec<_> = moved
            .iter()
            .flat_map(|mutation| relocated(PARTITIONER, (&table, &sharding), mutation, (to, from)))
            .collect();
        let found = shown(&table, &moved);
        assert_eq!(found.iter().map(|(number, ..)| *number).collect::<Vec<_>>(), [7, 9, 11]);
        let first = sharding.by.number_of_row(Clustering(&rows[0]), to);
        for (number, moved, deletions) in &found {
            assert!(moved.iter().all(|row| sharding.by.number_of_row(Clustering(row), to) == Some(*number)));
            assert_eq!(*deletions, if Some(*number) == first { 3 } else { 2 });
        }
        assert_eq!(found.iter().map(|(_, rows, _)| rows.len()).sum::<usize>(), rows.len());
        assert!(shown(&table, &moved_back).iter().all(|(number, ..)| *number == 3));
        assert!(relocated(PARTITIONER, (&table, &sharding), &mutation, (to, from)).is_empty(), "it is not there");
    }
}
