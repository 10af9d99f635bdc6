//! Which sub-partitions of a key a change is made in, for tables with write sharding ([`model::write_sharding`]).
//!
//! A row whose place follows from its clustering is changed there. A row that is inserted where rows are placed by
//! chance goes anywhere. What else may concern rows in any sub-partition is changed in all of them: deletions of whole
//! partitions, of ranges whose rows have no hashed value in common, and of rows that chance has placed.

use super::mutations::Rows;
use cluster::sub_partitions::KeyPlaces;
use cql::plan::ModifyKind;
use model::mutation::Clustering;
use model::{Failure, ShardedBy, Table};

/// Most sub-partitions that one statement changes: those of all its keys.
pub(super) const CHANGED_MAX: usize = 5_000;

/// What a change makes in one sub-partition.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct SubChange {
    /// The sub-partition.
    pub(super) shard: u16,
    /// The rows, as indexes into those that the statement names; `None` if the change is not about named rows.
    pub(super) rows: Option<Vec<usize>>,
}

/// What a change of `rows` makes in each sub-partition of a key with these places, in ascending order. `random` gives a
/// number below its argument.
pub(super) fn spread(
    by: &ShardedBy,
    places: KeyPlaces,
    rows: &Rows,
    kind: ModifyKind,
    mut random: impl FnMut(u64) -> u64,
) -> Vec<SubChange> {
    let everywhere = |rows: Option<Vec<usize>>| -> Vec<SubChange> {
        places.read.numbers().map(|shard| SubChange { shard, rows: rows.clone() }).collect()
    };
    let of_range = |start, end| by.number_of_range(Clustering(start), Clustering(end), places.read);
    match rows {
        Rows::None => Vec::new(),
        Rows::Partition => everywhere(None),
        Rows::Ranges(ranges) => {
            let found = ranges.iter().map(|[start, end]| of_range(&start.0, &end.0));
            match found.collect::<Option<Vec<u16>>>().as_deref() {
                // One of them, because a change makes all of its ranges wherever it is made.
                Some([first, rest @ ..]) if rest.iter().all(|shard| shard == first) => {
                    vec![SubChange { shard: *first, rows: None }]
                }
                Some([]) => Vec::new(),
                _ => everywhere(None),
            }
        }
        Rows::These(rows) => {
            let mut placed: Vec<(u16, usize)> = Vec::with_capacity(rows.len());
            for (at, row) in rows.iter().enumerate() {
                match by.number_of_row(Clustering(row), places.read) {
                    Some(shard) => placed.push((shard, at)),
                    None if kind == ModifyKind::Insert => {
                        let shards = places.inserted.shards.into();
                        placed.push((places.inserted.first + random(shards) as u16, at));
                    }
                    None => return everywhere(Some((0..rows.len()).collect())),
                }
            }
            placed.sort_unstable();
            let groups = placed.chunk_by(|(a, _), (b, _)| a == b);
            groups.map(|of| SubChange { shard: of[0].0, rows: Some(of.iter().map(|(_, at)| *at).collect()) }).collect()
        }
    }
}

/// Fails if a statement changes more than [`CHANGED_MAX`] sub-partitions.
pub(super) fn check_count(table: &Table, count: usize) -> Result<(), Failure> {
    if count <= CHANGED_MAX {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "The statement changes {count} sub-partitions of table {}, which has write_sharding; at most {CHANGED_MAX} can be \
         changed at once",
        table.full_name()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Places;
    use model::mutation::push_clustering;

    fn row(values: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        values.iter().for_each(|value| push_clustering(&mut out, value.as_bytes()));
        out
    }

    fn spread_of(by: ShardedBy, rows: Rows, kind: ModifyKind) -> Vec<SubChange> {
        spread(&by, KeyPlaces::settled(Places::created(4)), &rows, kind, |below| below - 1)
    }

    fn second() -> ShardedBy {
        ShardedBy::Clustering(vec![1])
    }

    #[test]
    fn rows_are_changed_where_they_are() {
        let names: Vec<String> = (0..20).map(|name| name.to_string()).collect();
        let rows = || Rows::These(names.iter().map(|name| row(&["a", name])).collect());
        let found = spread_of(second(), rows(), ModifyKind::Update);
        assert!(found.len() > 1 && found.windows(2).all(|pair| pair[0].shard < pair[1].shard));
        let mut named: Vec<usize> = Vec::new();
        for SubChange { shard, rows } in &found {
            for at in rows.as_ref().expect("rows") {
                let row = [&b"a"[..], names[*at].as_bytes()].into_iter();
                assert_eq!(second().number_of(row, Places::created(4)), Some(*shard));
                named.push(*at);
            }
        }
        named.sort_unstable();
        assert_eq!(named, (0..20).collect::<Vec<_>>());
        let all = |found: Vec<SubChange>| found.into_iter().map(|of| of.shard).collect::<Vec<_>>();
        let inserted = spread_of(ShardedBy::Random, Rows::These(vec![row(&["a", "b"])]), ModifyKind::Insert);
        assert_eq!(inserted, [SubChange { shard: 3, rows: Some(vec![0]) }]);
        let deleted = spread_of(ShardedBy::Random, Rows::These(vec![row(&["a", "b"])]), ModifyKind::Delete);
        assert_eq!(all(deleted), [0, 1, 2, 3]);
        // While a table grows, rows are still inserted where all reads look.
        let growing = KeyPlaces { inserted: Places::created(2), ..KeyPlaces::settled(Places::created(4)) };
        let one = Rows::These(vec![row(&["a", "b"])]);
        let changed = |kind| all(spread(&ShardedBy::Random, growing, &one, kind, |below| below - 1));
        assert_eq!((changed(ModifyKind::Insert), changed(ModifyKind::Delete)), (vec![1], vec![0, 1, 2, 3]));
    }

    #[test]
    fn ranges_are_deleted_wherever_their_rows_may_be() {
        let range = |start: &[&str], end: &[&str]| [(row(start), true), (row(end), false)];
        let all = |rows: Rows| -> Vec<u16> {
            spread_of(second(), rows, ModifyKind::Delete).into_iter().map(|of| of.shard).collect()
        };
        assert_eq!(all(Rows::Partition), [0, 1, 2, 3]);
        assert_eq!(all(Rows::Ranges(vec![range(&["a"], &["a"])])), [0, 1, 2, 3]);
        assert_eq!(all(Rows::Ranges(vec![range(&["a", "b"], &["a", "c"])])), [0, 1, 2, 3]);
        assert_eq!(all(Rows::Ranges(vec![range(&["a", "b"], &["b", "b"])])), [0, 1, 2, 3]);
        let one = all(Rows::Ranges(vec![range(&["a", "b", "c"], &["a", "b"])]));
        assert_eq!(one.len(), 1);
        assert_eq!(all(Rows::Ranges(vec![range(&["a", "b"], &["a", "b"]), range(&["c", "b"], &["c", "b", "x"])])), one);
        assert_eq!(all(Rows::Ranges(Vec::new())), [0; 0]);
        assert_eq!(all(Rows::None), [0; 0]);
    }

    #[test]
    fn the_most_sub_partitions_are_taken_and_one_more_is_not() {
        let table = model::arbitrary::table("k", "t", &mut |_| 0);
        assert!(check_count(&table, CHANGED_MAX).is_ok());
        assert!(check_count(&table, CHANGED_MAX + 1).is_err());
    }
}
