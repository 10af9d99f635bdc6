//! SSTables whose partitions or index entries are out of order: reading them ends with an error.

use super::archive::Archive;
use super::database::Database;
use super::schema;
use super::sstables::{Sstable, sstables};
use model::DecoratedKey;
use model::fragment::Fragment;
use model::query::Slice;
use model::token::TokenRange;
use sstable::{Problem, Version};
use std::sync::Arc;

/// A table with several partitions, and an uncompressed Data.db.
const TABLE: &str = "compression_none";

/// Bytes of the vint that begins with a byte.
fn vint_len(first: u8) -> usize {
    1 + first.leading_ones() as usize
}

/// Makes the second entry of an Index.db point to the first partition.
fn lead_back(index: &mut [u8]) {
    let position = |entry: usize| entry + 2 + usize::from(u16::from_be_bytes([index[entry], index[entry + 1]]));
    let row_index = position(0) + vint_len(index[position(0)]);
    assert_eq!(index[row_index], 0, "the first partition has no row index");
    let second = position(row_index + 1);
    let len = vint_len(index[second]);
    // The length of the vint stays, its value becomes 0.
    index[second] = !(0xff >> (len - 1)) as u8;
    index[second + 1..second + len].fill(0);
}

/// Scans an SSTable, after a key if there is one. Returns the keys that were found, or what was wrong.
fn keys(sstable: &Sstable<'_>, table: &Arc<model::Table>, after: Option<DecoratedKey>) -> Result<usize, Problem> {
    let reader = sstable.open(table);
    let mut driver = sstable.driver(reader.scan_from(TokenRange::FULL, after, [Slice::all()].into()));
    let mut count = 0;
    while driver.next().map_err(|error| error.problem)? {
        count += usize::from(matches!(driver.cursor.fragment(), Some(Fragment::PartitionStart { .. })));
        assert!(count < 1_000_000, "an endless scan");
    }
    Ok(count)
}

#[test]
fn partitions_that_come_twice_are_refused() {
    let tables = Archive::load(Version::Nb);
    let opened = sstables(&tables[TABLE]);
    let table = Arc::new(schema::table(&tables[TABLE], &opened));
    let original = &opened[0];
    assert!(keys(original, &table, None).is_ok_and(|count| count > 1));
    let twice = original.data(&original.open(&table)).repeat(2);
    let mut files = original.files.clone();
    files.remove("CRC.db");
    files.insert("Data.db", &twice);
    let copy = Sstable { descriptor: original.descriptor.clone(), sidecar: None, files };
    assert_eq!(keys(&copy, &table, None), Err(Problem::Invalid("a partition after the one before")));
}

#[test]
fn an_index_that_leads_back_does_not_scan_forever() {
    let tables = Archive::load(Version::Nb);
    let opened = sstables(&tables[TABLE]);
    let table = Arc::new(schema::table(&tables[TABLE], &opened));
    let original = &opened[0];
    let mut all = Database::default();
    all.read(&mut original.driver(original.open(&table).scan(TokenRange::FULL))).expect("reads");
    let first = all.partitions.keys().next().cloned();
    let mut index = original.part("Index.db").expect("there").to_vec();
    lead_back(&mut index);
    let mut files = original.files.clone();
    files.insert("Index.db", &index);
    let copy = Sstable { descriptor: original.descriptor.clone(), sidecar: None, files };
    assert_eq!(keys(original, &table, first.clone()), Ok(all.partitions.len() - 1));
    assert_eq!(keys(&copy, &table, first), Err(Problem::Invalid("a partition after the one before")));
}
