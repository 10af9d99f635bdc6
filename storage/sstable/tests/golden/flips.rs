//! Damaged SSTables: whatever byte is flipped, opening and reading end, with an error or with rows, and never panic.

use super::archive::Archive;
use super::database::Database;
use super::schema;
use super::sstables::{Sstable, sstables};
use super::written::written;
use model::Table;
use model::key::{ShardMap, TokenRange};
use model::query::Slice;
use sstable::sidecar::Sidecar;
use sstable::{Component, Error, Version};
use std::sync::Arc;

/// Tables with rows of every kind, tombstones and row indexes, small enough to be flipped often.
const TABLES: [&str; 6] = ["key_date", "key_map", "statics", "collections", "range_tombstones", "compression_none"];
/// Flips per component, spread over its bytes.
const FLIPS: usize = 60;

/// Opens and reads everything, by scan, by key and by slice.
fn read(sstable: &Sstable<'_>, table: &Arc<Table>, keys: &[model::DecoratedKey]) -> Result<Database, Error> {
    let reader = sstable.try_open(table)?;
    let mut all = Database::default();
    let scanned = all.read(&mut sstable.driver(reader.scan(TokenRange::FULL)));
    for key in keys {
        reader.may_contain(&key.key);
        let slice = Slice { start: [0x40, 0x60][..].into(), end: [0x40, 0x90][..].into() };
        for (slices, reversed) in [(Slice::all(), false), (Slice::all(), true), (slice.clone(), false), (slice, true)] {
            let cursor = reader.partition(key.clone(), [slices].into(), reversed);
            let mut driver = sstable.driver(cursor);
            while driver.next() == Ok(true) {
                let _ = driver.cursor.fragment();
            }
        }
    }
    scanned.map(|_| all)
}

fn flip(version: Version) {
    let tables = Archive::load(version);
    for name in TABLES {
        let files = &tables[name];
        let mut opened = sstables(files);
        let table = Arc::new(schema::table(files, &opened));
        for sstable in &mut opened {
            let whole = read(sstable, &table, &[]).expect("reads");
            let keys: Vec<_> = whole.partitions.keys().take(3).cloned().collect();
            for component in Component::ALL {
                let Some(original) = sstable.part(component.name()) else { continue };
                for step in 0..FLIPS.min(original.len()) {
                    let at = (step * original.len() / FLIPS.min(original.len())).min(original.len() - 1);
                    let mut damaged = original.to_vec();
                    damaged[at] ^= 1 << (step % 8);
                    let files = sstable.files.iter().map(|(name, bytes)| (*name, *bytes)).collect();
                    let mut copy = Sstable { descriptor: sstable.descriptor.clone(), sidecar: None, files };
                    copy.files.insert(component.name(), &damaged);
                    let result = read(&copy, &table, &keys);
                    if matches!(component, Component::Data | Component::Statistics) {
                        let same = result.as_ref().is_ok_and(|found| found.partitions == whole.partitions);
                        assert!(result.is_err() || same, "{name}: {component:?} at {at}");
                    }
                }
                for len in [0, 1, original.len() / 2, original.len().saturating_sub(1)] {
                    let files = sstable.files.iter().map(|(name, bytes)| (*name, *bytes)).collect();
                    let mut copy = Sstable { descriptor: sstable.descriptor.clone(), sidecar: None, files };
                    copy.files.insert(component.name(), &original[..len.min(original.len())]);
                    let _ = read(&copy, &table, &keys);
                }
            }
        }
    }
}

#[test]
fn flipped_bytes_of_da_never_panic() {
    flip(Version::Da);
}

#[test]
fn flipped_bytes_of_oa_never_panic() {
    flip(Version::Oa);
}

#[test]
fn flipped_bytes_of_nb_never_panic() {
    flip(Version::Nb);
}

/// Of what is written here every flip is found, or in bytes that nobody reads.
#[test]
fn flipped_bytes_of_our_own_are_found() {
    for version in [Version::Da, Version::Oa, Version::Nb] {
        let tables = Archive::load(version);
        for name in TABLES {
            for original in &sstables(&tables[name]) {
                let (finished, _) = written(name, original, Some((0, ShardMap::new(1))), None);
                let files =
                    finished.components.iter().map(|(component, bytes)| (component.name(), &bytes[..])).collect();
                let mut own = Sstable { descriptor: original.descriptor.clone(), sidecar: None, files };
                let sidecar = |own: &Sstable<'_>| {
                    Sidecar::open(&own.descriptor, own.part("Helenus.db").expect("there")).map(Some)
                };
                own.sidecar = sidecar(&own).expect("opens");
                let table = Arc::new(schema::table(&tables[name], std::slice::from_ref(original)));
                let whole = read(&own, &table, &[]).expect("reads");
                let keys: Vec<_> = whole.partitions.keys().take(3).cloned().collect();
                for component in Component::ALL {
                    let Some(bytes) = own.part(component.name()) else { continue };
                    for step in 0..FLIPS.min(bytes.len()) {
                        let at = (step * bytes.len() / FLIPS.min(bytes.len())).min(bytes.len() - 1);
                        let mut damaged = bytes.to_vec();
                        damaged[at] ^= 1 << (step % 8);
                        let files = own.files.iter().map(|(name, bytes)| (*name, *bytes)).collect();
                        let mut copy = Sstable { descriptor: own.descriptor.clone(), sidecar: None, files };
                        copy.files.insert(component.name(), &damaged);
                        let found = sidecar(&copy).and_then(|sidecar| {
                            copy.sidecar = sidecar;
                            read(&copy, &table, &keys)
                        });
                        // A scan does not read Rows.db, nor Index.db.
                        let unread = [Component::Digest, Component::Toc, Component::Rows, Component::Index];
                        match found {
                            Err(error) => assert_eq!(error.file, copy.descriptor.file_name(component)),
                            Ok(found) => {
                                assert!(unread.contains(&component), "{name}: {component:?} at {at}");
                                assert_eq!(found.partitions, whole.partitions);
                            }
                        }
                    }
                }
            }
        }
    }
}
