//! A read of a partition in reverse gives what a forward read gives, for slices of every position and length.

use super::archive::Archive;
use super::database::Database;
use super::schema;
use super::sstables::{Sstable, sstables};
use model::DecoratedKey;
use model::fragment::Fragment;
use model::query::Slice;
use model::row::Deletion;
use model::token::TokenRange;
use sstable::Version;
use sstable::reader::Reader;
use std::sync::Arc;

/// A row with the range tombstone that is open there, or a position at which another one opens or closes: what is open
/// before and after it.
#[derive(Clone, PartialEq, Debug)]
enum Found {
    Row(Vec<u8>, Vec<u8>, Vec<u8>, Deletion),
    Change(Vec<u8>, Deletion, Deletion),
}

/// Reads slices of a partition. Returns what they hold in clustering order, and how many blocks that needed.
fn read(
    sstable: &Sstable<'_>,
    reader: &Arc<Reader>,
    key: &DecoratedKey,
    slices: &[Slice],
    reversed: bool,
) -> (Vec<Found>, usize) {
    let mut driver = sstable.driver(reader.partition(key.clone(), slices.into(), reversed));
    let mut found = Vec::new();
    let mut open = Deletion::LIVE;
    let mut ended = false;
    while driver.next().expect("reads") {
        match driver.cursor.fragment().expect("a fragment") {
            Fragment::PartitionStart { key: found, .. } => assert_eq!(*found, *key.key),
            Fragment::StaticRow { .. } => assert!(found.is_empty()),
            Fragment::Row { clustering, comparable, row } => {
                found.push(Found::Row(comparable.to_vec(), clustering.0.to_vec(), row.blob().to_vec(), open));
            }
            Fragment::RangeMarker { comparable, deletion, .. } => {
                let (before, after) = if reversed { (deletion, open) } else { (open, deletion) };
                found.push(Found::Change(comparable.to_vec(), before, after));
                open = deletion;
            }
            Fragment::PartitionEnd => ended = true,
        }
    }
    assert!(ended && open.is_live());
    if reversed {
        found.reverse();
    }
    // Several changes at one position are one change, or none.
    let mut joined: Vec<Found> = Vec::new();
    for next in found {
        if let (Some(Found::Change(place, _, last)), Found::Change(at, _, after)) = (joined.last_mut(), &next)
            && place == at
        {
            *last = *after;
        } else {
            joined.push(next);
        }
    }
    joined.retain(|found| !matches!(found, Found::Change(_, before, after) if before == after));
    (joined, driver.needs)
}

fn read_back(version: Version) {
    for (name, files) in &Archive::load(version) {
        let opened = sstables(files);
        let table = Arc::new(schema::table(files, &opened));
        for sstable in &opened {
            let reader = sstable.open(&table);
            let mut all = Database::default();
            all.read(&mut sstable.driver(reader.scan(TokenRange::FULL))).expect("reads");
            let step = all.partitions.len().div_ceil(12).max(1);
            for (key, partition) in all.partitions.iter().step_by(step) {
                let mut places: Vec<&[u8]> = partition.rows.keys().map(|place| &place[..]).collect();
                places.extend(partition.ranges.iter().flat_map(|(start, end, _)| [&start[..], &end[..]]));
                places.sort_unstable();
                let step = places.len().div_ceil(9).max(1);
                let places: Vec<&[u8]> = places.into_iter().step_by(step).collect();
                let slice = |start: &[u8], end: &[u8]| Slice { start: start.into(), end: end.into() };
                let mut cases = vec![vec![Slice::all()]];
                for (at, start) in places.iter().enumerate() {
                    cases.push(vec![slice(start, &[])]);
                    cases.push(vec![slice(&[], start)]);
                    cases.extend(places[at + 1..].iter().map(|end| vec![slice(start, end)]));
                    let after = [start, &[0xff][..]].concat();
                    cases.push(vec![slice(start, &after)]);
                }
                cases.push(places.chunks_exact(2).map(|pair| slice(pair[0], pair[1])).collect());
                for slices in cases {
                    let (forward, _) = read(sstable, &reader, key, &slices, false);
                    let (backward, _) = read(sstable, &reader, key, &slices, true);
                    assert_eq!(forward, backward, "{name}: {key:?} {slices:?}");
                }
            }
        }
    }
}

#[test]
fn da_is_read_in_reverse() {
    read_back(Version::Da);
}

#[test]
fn oa_is_read_in_reverse() {
    read_back(Version::Oa);
}

#[test]
fn nb_is_read_in_reverse() {
    read_back(Version::Nb);
}

#[test]
fn versions_before_nb_are_read_in_reverse() {
    crate::BEFORE_NB.into_iter().for_each(read_back);
}

/// Reading the last row of a long partition needs only the ends of data and index.
#[test]
fn the_end_of_a_partition_is_read_alone() {
    for version in [Version::Da, Version::Oa] {
        let tables = Archive::load(version);
        let files = &tables["wide_blocks"];
        let opened = sstables(files);
        let table = Arc::new(schema::table(files, &opened));
        let reader = opened[0].open(&table);
        let mut all = Database::default();
        all.read(&mut opened[0].driver(reader.scan(TokenRange::FULL))).expect("reads");
        let (key, partition) = all.partitions.iter().max_by_key(|(_, partition)| partition.rows.len()).expect("one");
        let (last, _) = partition.rows.last_key_value().expect("a row");
        let slices = [Slice { start: last[..].into(), end: Box::default() }];
        let (found, needs) = read(&opened[0], &reader, key, &slices, true);
        assert!(!found.is_empty());
        let (_, whole) = read(&opened[0], &reader, key, &[Slice::all()], false);
        assert!(needs < whole, "{needs} of {whole}");
    }
}
