//! Mutations of several tables.

use model::mutation::MutationBuilder;
use model::row::Deletion;
use model::{Partitioner, TableId};

#[test]
fn tables_can_be_left_out() {
    let tables = [1, 2, 3].map(|number| TableId([number; 16]));
    let of = |tables: &[TableId]| {
        let mut builder = MutationBuilder::new(Partitioner::Murmur3, b"key");
        tables.iter().for_each(|table| {
            builder.table(*table).delete_partition(Deletion { timestamp: 7, local_deletion_time: 1 });
        });
        builder.finish()
    };
    let whole = of(&tables);
    assert_eq!(whole.clone().of_tables(|_| true), Some(whole.clone()));
    assert_eq!(whole.clone().of_tables(|table| table != tables[1]), Some(of(&[tables[0], tables[2]])));
    assert_eq!(whole.of_tables(|_| false), None);
}
