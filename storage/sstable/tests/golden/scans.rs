//! Scans that begin after a partition, leave partitions early, or read only slices of them.

use super::archive::Archive;
use super::database::Database;
use super::schema;
use super::sstables::sstables;
use model::fragment::Fragment;
use model::query::Slice;
use model::token::TokenRange;
use model::{DecoratedKey, Token};
use sstable::Version;
use std::ops::Bound;
use std::sync::Arc;

fn scans(version: Version) {
    for (name, files) in &Archive::load(version) {
        let opened = sstables(files);
        let table = Arc::new(schema::table(files, &opened));
        for sstable in &opened {
            let reader = sstable.open(&table);
            let all_slices: Arc<[Slice]> = [Slice::all()].into();
            let mut all = Database::default();
            all.read(&mut sstable.driver(reader.scan(TokenRange::FULL))).expect("reads");
            let step = all.partitions.len().div_ceil(25).max(1);
            let mut places: Vec<DecoratedKey> = all.partitions.keys().step_by(step).cloned().collect();
            // Absent keys before, between and after those of the table, some of them with tokens of the table.
            let partitioner = reader.partitioner();
            for key in places.clone() {
                let (before, behind) = ([&key.key[..], &[0]].concat(), b"".to_vec());
                for bytes in [before, behind] {
                    places.push(DecoratedKey { token: key.token, partitioner, key: bytes.into() });
                }
                let token = Token(key.token.0.saturating_add(1));
                places.push(DecoratedKey { token, partitioner, key: b"k".as_slice().into() });
            }
            for after in places {
                let mut rest = Database::default();
                let scan = reader.scan_from(TokenRange::FULL, Some(after.clone()), all_slices.clone());
                rest.read(&mut sstable.driver(scan)).expect("reads");
                let expected = all.partitions.range((Bound::Excluded(&after), Bound::Unbounded));
                assert!(rest.partitions.iter().eq(expected), "{name}: behind {after:?}");
            }
            // However early each partition is left, the next one is found.
            for steps in [0, 1, 2, 7] {
                let mut driver = sstable.driver(reader.scan(TokenRange::FULL));
                let (mut found, mut left, mut inside) = (Vec::new(), 0, false);
                while driver.next().expect("reads") {
                    match driver.cursor.fragment().expect("a fragment") {
                        Fragment::PartitionStart { token, key, .. } => {
                            assert!(!inside);
                            found.push(DecoratedKey { token, partitioner: reader.partitioner(), key: key.into() });
                            (left, inside) = (steps, true);
                        }
                        Fragment::PartitionEnd => inside = false,
                        _ => left -= 1,
                    }
                    if inside && left == 0 {
                        driver.cursor.skip_partition();
                        inside = false;
                    }
                }
                assert!(found.iter().eq(all.partitions.keys()), "{name}: {steps} steps");
            }
            // A scan gives the same slices of a partition as a read by its key.
            let Some(row) = all.partitions.values().flat_map(|partition| partition.rows.keys()).nth(1) else {
                continue;
            };
            let slices: Arc<[Slice]> = [
                Slice { start: row[..1].into(), end: row[..].into() },
                Slice { start: [&row[..], &[0]].concat().into(), end: [&row[..], &[0xff]].concat().into() },
            ]
            .into();
            let mut sliced = Database::default();
            let scan = reader.scan_from(TokenRange::FULL, None, slices.clone());
            sliced.read(&mut sstable.driver(scan)).expect("reads");
            assert_eq!(sliced.partitions.len(), all.partitions.len());
            for (key, partition) in sliced.partitions.iter().step_by(step) {
                let mut one = Database::default();
                one.read(&mut sstable.driver(reader.partition(key.clone(), slices.clone(), false))).expect("reads");
                assert_eq!(one.partitions.get(key), Some(partition), "{name}: {key:?}");
            }
        }
    }
}

#[test]
fn da_is_scanned_from_any_partition_on() {
    scans(Version::Da);
}

#[test]
fn oa_is_scanned_from_any_partition_on() {
    scans(Version::Oa);
}

#[test]
fn nb_is_scanned_from_any_partition_on() {
    scans(Version::Nb);
}

#[test]
fn versions_before_nb_are_scanned_from_any_partition_on() {
    crate::BEFORE_NB.into_iter().for_each(scans);
}
