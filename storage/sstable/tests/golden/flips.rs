//! Damaged SSTables: whatever bit is flipped, opening and reading end with an error or with rows, and never panic.

use super::archive::Archive;

use super::database::Database;
use super::schema;
use super::sstables::{Sstable, sstables};
use super::written::written;
use model::Partitioner;
use model::fragment::Fragment;
use model::query::Slice;
use model::{ShardMap, TokenRange};
use model::{Table, arbitrary};
use sstable::sidecar::Sidecar;
use sstable::{Component, Error, Version};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Small tables that have rows of every kind, tombstones and row indexes.
const TABLES: [&str; 6] = ["key_date", "key_map", "statics", "collections", "range_tombstones", "compression_none"];
/// Those of them that are damaged in versions that are only read.
const TABLES_BEFORE_NB: [&str; 2] = ["collections", "range_tombstones"];
/// How many bits are flipped in each component, spread over its bytes.
const FLIPS: usize = 60;
/// The variable that sets another number; `all` stands for each byte of each component, and [`RANDOM_FLIPS_ALL`].
const VARIABLE: &str = "HELENUS_FLIPS";
/// How many random bits are flipped in a large table.
const RANDOM_FLIPS: usize = 300;
const RANDOM_FLIPS_ALL: usize = 100_000;

/// Returns how many bits to flip: in each component, and in the large table.
fn flips() -> (usize, usize) {
    match std::env::var(VARIABLE) {
        Err(_) => (FLIPS, RANDOM_FLIPS),
        Ok(all) if all == "all" => (usize::MAX, RANDOM_FLIPS_ALL),
        Ok(number) => number.parse().map(|number| (number, number)).expect("a number of flips, or `all`"),
    }
}

/// Returns the bytes to damage in a component of `len` bytes, and the bit to flip in each.
fn places(len: usize) -> impl Iterator<Item = (usize, u8)> {
    let count = flips().0.min(len);
    (0..count).map(move |step| ((step * len / count).min(len - 1), 1 << (step % 8)))
}

/// Opens an SSTable and reads it by scan, by key and by slice. Returns what the scan gave.
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
    let chosen = if version.is_written() { &TABLES[..] } else { &TABLES_BEFORE_NB[..] };
    for name in chosen {
        let files = &tables[*name];
        let mut opened = sstables(files);
        let table = Arc::new(schema::table(files, &opened));
        for sstable in &mut opened {
            let whole = read(sstable, &table, &[]).expect("reads");
            let keys: Vec<_> = whole.partitions.keys().take(3).cloned().collect();
            for component in Component::ALL {
                let Some(original) = sstable.part(component.name()) else { continue };
                for (at, bit) in places(original.len()) {
                    let mut flipped = original.to_vec();
                    flipped[at] ^= bit;
                    let copy = damaged(sstable, component, &flipped);
                    let result = read(&copy, &table, &keys);
                    let has_checksum = match component {
                        Component::Data => true,
                        Component::Statistics => version.features().statistics_checksums,
                        _ => false,
                    };
                    if has_checksum {
                        let same = result.as_ref().is_ok_and(|found| found.partitions == whole.partitions);
                        assert!(result.is_err() || same, "{name}: {component:?} at {at}");
                    }
                }
                for len in [0, 1, original.len() / 2, original.len().saturating_sub(1)] {
                    let copy = damaged(sstable, component, &original[..len.min(original.len())]);
                    let _ = read(&copy, &table, &keys);
                }
            }
        }
    }
}

/// Returns a copy of an SSTable with other bytes for one component.
fn damaged<'a>(sstable: &Sstable<'a>, component: Component, bytes: &'a [u8]) -> Sstable<'a> {
    let mut files = sstable.files.clone();
    files.insert(component.name(), bytes);
    Sstable { descriptor: sstable.descriptor.clone(), sidecar: None, files }
}

/// Reads an SSTable as [`read`] does. Returns a hash of all fragments.
fn fragments_hash(sstable: &Sstable<'_>, table: &Arc<Table>, keys: &[model::DecoratedKey]) -> Result<u64, Error> {
    let reader = sstable.try_open(table)?;
    let mut sum = DefaultHasher::new();
    let mut drain = |cursor| {
        let mut driver = sstable.driver(cursor);
        while driver.next()? {
            match driver.cursor.fragment().expect("a fragment") {
                Fragment::PartitionStart { token, key, deletion } => {
                    (0, token, key, deletion.timestamp, deletion.local_deletion_time).hash(&mut sum);
                }
                Fragment::StaticRow { row } => (1, row.blob()).hash(&mut sum),
                Fragment::Row { clustering, comparable, row } => {
                    (2, clustering.0, comparable, row.blob()).hash(&mut sum);
                }
                Fragment::RangeMarker { clustering, comparable, deletion } => {
                    let deletion = (deletion.timestamp, deletion.local_deletion_time);
                    (3, clustering.0, comparable, deletion).hash(&mut sum);
                }
                Fragment::PartitionEnd => 4.hash(&mut sum),
            }
        }
        Ok(())
    };
    let scanned = drain(reader.scan(TokenRange::FULL));
    for key in keys {
        reader.may_contain(&key.key);
        let slice = Slice { start: [0x40, 0x60][..].into(), end: [0x40, 0x90][..].into() };
        for (slices, reversed) in [(Slice::all(), false), (Slice::all(), true), (slice.clone(), false), (slice, true)] {
            // Damage that only a read by key meets must not panic; its error does not matter here.
            let _: Result<(), Error> = drain(reader.partition(key.clone(), [slices].into(), reversed));
        }
    }
    scanned.map(|()| sum.finish())
}

/// Flips random bits of a large table, in components with a probability proportional to their length: in Cassandra's
/// files, where a flip may give other fragments only in unprotected components, and in our own, where it may not.
#[test]
fn random_flips_of_a_large_table_are_found_or_harmless() {
    std::thread::scope(|scope| {
        for (number, version) in [Version::Da, Version::Oa, Version::Nb].into_iter().enumerate() {
            scope.spawn(move || random_flips(version, number as u64 + 1, flips().1 / 6));
        }
    });
}

/// Flips `count` bits, one at a time, of an SSTable of Cassandra's, and as many of our own with the same rows.
fn random_flips(version: Version, seed: u64, count: usize) {
    const TABLE: &str = "wide";
    let mut below = arbitrary::generator(seed);
    let tables = Archive::load(version);
    let opened = sstables(&tables[TABLE]);
    let original = &opened[0];
    let table = Arc::new(schema::table(&tables[TABLE], &opened));
    let (finished, _) = written(TABLE, original, Some((0, ShardMap::new(Partitioner::Murmur3, 1))), None);
    let files = finished.components.iter().map(|(component, bytes)| (component.name(), &bytes[..])).collect();
    let own = Sstable { descriptor: original.descriptor.clone(), sidecar: None, files };
    let whole = read(original, &table, &[]).expect("reads");
    let keys: Vec<_> = whole.partitions.keys().take(1).cloned().collect();
    for (sstable, is_own) in [(original, false), (&own, true)] {
        let undamaged = fragments_hash(sstable, &table, &keys).expect("reads");
        let parts: Vec<(Component, &[u8])> = Component::ALL
            .into_iter()
            .filter_map(|component| sstable.part(component.name()).map(|bytes| (component, bytes)))
            .collect();
        let bytes_of_all: u64 = parts.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        for _ in 0..count {
            let mut at = below(bytes_of_all) as usize;
            let mut found = parts.iter();
            let (component, bytes) = loop {
                let (component, bytes) = found.next().expect("within the bytes");
                match at.checked_sub(bytes.len()) {
                    Some(rest) => at = rest,
                    None => break (*component, *bytes),
                }
            };
            let mut flipped = bytes.to_vec();
            flipped[at] ^= 1 << below(8);
            let mut copy = damaged(sstable, component, &flipped);
            let sidecar = match is_own {
                true => Sidecar::open(&copy.descriptor, copy.part("Helenus.db").expect("there")).map(Some),
                false => Ok(None),
            };
            let hashed = sidecar.and_then(|sidecar| {
                copy.sidecar = sidecar;
                fragments_hash(&copy, &table, &keys)
            });
            let must = is_own || matches!(component, Component::Data | Component::Statistics);
            let harmless = match hashed {
                Err(_) => true,
                Ok(sum) if sum == undamaged => true,
                // The fragments may differ for the same rows, and reads by key may have ended with an error.
                Ok(_) => !must || read(&copy, &table, &keys).is_ok_and(|found| found.partitions == whole.partitions),
            };
            assert!(harmless, "{version:?} {component:?} at {at}, own: {is_own}");
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

#[test]
fn flipped_bytes_of_versions_before_nb_never_panic() {
    crate::BEFORE_NB.into_iter().for_each(flip);
}

/// In files written here every flip is detected, or in bytes that are not read.
#[test]
fn flipped_bytes_of_our_own_are_found() {
    for version in [Version::Da, Version::Oa, Version::Nb] {
        let tables = Archive::load(version);
        for name in TABLES {
            for original in &sstables(&tables[name]) {
                let (finished, _) = written(name, original, Some((0, ShardMap::new(Partitioner::Murmur3, 1))), None);
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
                    for (at, bit) in places(bytes.len()) {
                        let mut flipped = bytes.to_vec();
                        flipped[at] ^= bit;
                        let mut copy = damaged(&own, component, &flipped);
                        let found = sidecar(&copy).and_then(|sidecar| {
                            copy.sidecar = sidecar;
                            read(&copy, &table, &keys)
                        });
                        // A scan reads neither Rows.db nor Index.db.
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
