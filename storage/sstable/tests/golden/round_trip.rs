//! Random tables are written in every version and read again.

use super::sstables::Sstable;
use model::Partitioner;
use model::arbitrary;
use model::comparable::{self, BoundSide};
use model::fragment::Fragment;
use model::mutation::Clustering;
use model::query::Slice;
use model::row::{Deletion, RowBuilder, RowView};
use model::{DecoratedKey, Table};
use model::{ShardMap, TokenRange};
use sstable::compression::{CompressionParams, Compressor};
use sstable::index::ROW_INDEX_BYTES_MAX;
use sstable::sidecar::Sidecar;
use sstable::statistics::{EncodingStats, FieldType, Header};
use sstable::writer::{Builder, FinishedSstable, Options};
use sstable::{BlockId, Component, Descriptor, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

const VERSIONS: [Version; 3] = [Version::Da, Version::Oa, Version::Nb];
const COMPRESSORS: [Compressor; 5] =
    [Compressor::Lz4, Compressor::Snappy, Compressor::Deflate, Compressor::Zstd, Compressor::Noop];

/// The rows and markers of a partition by comparable form, with their clustering values.
type Items = BTreeMap<Vec<u8>, (Vec<u8>, Item)>;

#[derive(Clone, PartialEq, Debug)]
enum Item {
    Row(Vec<u8>),
    Marker(Deletion),
}

type Partitions = BTreeMap<DecoratedKey, (Deletion, Items)>;

fn random(partitioner: Partitioner, table: &Table, below: &mut impl FnMut(u64) -> u64) -> Partitions {
    let mut partitions = Partitions::new();
    for _ in 0..1 + below(30) {
        let key = DecoratedKey::new(partitioner, &arbitrary::key(table, below));
        let deletion = if below(4) == 0 { arbitrary::deletion(below) } else { Deletion::LIVE };
        let mut items = Items::new();
        for _ in 0..below(60) {
            let clustering = arbitrary::clustering(table, table.clustering_len, below);
            let mut form = Vec::new();
            comparable::clustering(table, Clustering(&clustering).components(), &mut form);
            let mut blob = Vec::new();
            arbitrary::row(table, below, &mut blob);
            if !RowView::trusted(&blob).is_empty() {
                items.insert(form, (clustering, Item::Row(blob)));
            }
        }
        let mut bounds = BTreeMap::new();
        for _ in 0..2 * below(8) {
            let len = below(1 + table.clustering_len as u64) as usize;
            let prefix = arbitrary::clustering(table, len, below);
            let side = if below(2) == 0 { BoundSide::Before } else { BoundSide::After };
            let mut form = Vec::new();
            comparable::bound(table, Clustering(&prefix).components(), side, &mut form);
            bounds.insert(form, prefix);
        }
        let mut open = Deletion::LIVE;
        let count = bounds.len();
        for (at, (form, prefix)) in bounds.into_iter().enumerate() {
            let next = arbitrary::deletion(below);
            let next = if at + 1 == count || below(2) == 0 { Deletion::LIVE } else { next };
            if next != open {
                open = next;
                items.insert(form, (prefix, Item::Marker(next)));
            }
        }
        if !items.is_empty() || !deletion.is_live() {
            partitions.insert(key, (deletion, items));
        }
    }
    partitions
}

fn write(descriptor: &Descriptor, table: &Arc<Table>, partitions: &Partitions, options: Options) -> FinishedSstable {
    let mut builder = Builder::new(descriptor.clone(), table.clone(), options);
    for (key, (deletion, items)) in partitions {
        builder.start_partition(&key.key, *deletion);
        for (form, (clustering, item)) in items {
            let clustering = Clustering(clustering);
            match item {
                Item::Row(blob) => builder.row(clustering, RowView::trusted(blob)),
                Item::Marker(deletion) => {
                    // Of two markers at one position the last one counts.
                    let side = comparable::side(form).expect("a bound");
                    builder.marker(clustering, side, Deletion::LIVE);
                    builder.marker(clustering, side, *deletion);
                }
            }
        }
        builder.end_partition();
    }
    builder.finish().expect("finishes")
}

fn stats(partitions: &Partitions) -> EncodingStats {
    let mut stats = EncodingStats::default();
    for (deletion, items) in partitions.values() {
        stats.add_deletion(*deletion);
        items.values().for_each(|(_, item)| match item {
            Item::Row(blob) => stats.add_row(RowView::trusted(blob)),
            Item::Marker(deletion) => stats.add_deletion(*deletion),
        });
    }
    stats
}

fn files(finished: &FinishedSstable) -> BTreeMap<&'static str, &[u8]> {
    finished.components.iter().map(|(component, bytes)| (component.name(), &bytes[..])).collect()
}

/// Reads all rows and markers of an SSTable by a scan.
fn read(sstable: &Sstable<'_>, table: &Arc<Table>) -> Partitions {
    let reader = sstable.open(table);
    let mut found = Partitions::new();
    let mut driver = sstable.driver(reader.scan(TokenRange::FULL));
    let mut current = None;
    while driver.next().expect("reads") {
        let item = match driver.cursor.fragment().expect("a fragment") {
            Fragment::PartitionStart { key, deletion, .. } => {
                current =
                    Some(found.entry(DecoratedKey::new(reader.partitioner(), key)).or_insert((deletion, Items::new())));
                continue;
            }
            Fragment::StaticRow { .. } => panic!("without static columns"),
            Fragment::Row { clustering, comparable, row } => {
                (comparable.to_vec(), (clustering.0.to_vec(), Item::Row(row.blob().to_vec())))
            }
            Fragment::RangeMarker { clustering, comparable, deletion } => {
                (comparable.to_vec(), (clustering.0.to_vec(), Item::Marker(deletion)))
            }
            Fragment::PartitionEnd => continue,
        };
        current.as_mut().expect("started").1.insert(item.0, item.1);
    }
    found
}

#[test]
fn what_is_written_is_read() {
    for seed in 0..80 {
        let mut below = arbitrary::generator(seed);
        let table = Arc::new(arbitrary::table("ks", "t", &mut below));
        let partitioner = Partitioner::ALL[seed as usize % 4];
        let partitions = random(partitioner, &table, &mut below);
        if partitions.is_empty() {
            continue;
        }
        for version in VERSIONS {
            let descriptor = Descriptor { version, id: "1".into() };
            let mut options = Options::of(&table, stats(&partitions)).expect("options");
            options.partitioner = partitioner;
            options.expected_partitions = partitions.len() as u64;
            options.row_index_bytes = Some(64 << below(6));
            options.owner = Some((1, ShardMap::new(Partitioner::Murmur3, 3)));
            options.min_index_interval = 1 + below(5) as u32;
            options.compression = arbitrary::pick(&COMPRESSORS, &mut below).to_owned().into_params(&mut below);
            let compressed = options.compression.is_some();
            let finished = write(&descriptor, &table, &partitions, options);
            let sstable = Sstable { descriptor: descriptor.clone(), sidecar: None, files: files(&finished) };
            assert_eq!(read(&sstable, &table), partitions, "seed {seed} {version:?}");
            assert_eq!(finished.partitions, partitions.len() as u64);
            assert_eq!(sstable.part("CRC.db").is_none(), compressed);
            check_sidecar(&sstable, &finished);
            let reader = sstable.open(&table);
            for (key, (_, items)) in &partitions {
                assert!(reader.may_contain(&key.key));
                let Some(form) = items.keys().nth(below(items.len().max(1) as u64) as usize) else { continue };
                let slices: Arc<[Slice]> = [Slice { start: form[..].into(), end: Box::default() }].into();
                for reversed in [false, true] {
                    let mut driver = sstable.driver(reader.partition(key.clone(), slices.clone(), reversed));
                    let mut rows = 0;
                    while driver.next().expect("reads") {
                        rows += usize::from(matches!(driver.cursor.fragment(), Some(Fragment::Row { .. })));
                    }
                    let expected = items.range(form.clone()..).filter(|(_, (_, item))| matches!(item, Item::Row(_)));
                    assert_eq!(rows, expected.count(), "seed {seed} {version:?} {reversed}");
                }
            }
        }
    }
}

trait IntoParams {
    fn into_params(self, below: &mut impl FnMut(u64) -> u64) -> Option<CompressionParams>;
}

impl IntoParams for Compressor {
    /// Returns parameters with a random chunk length and, often, a ratio that many chunks do not reach; `None` at
    /// times.
    fn into_params(self, below: &mut impl FnMut(u64) -> u64) -> Option<CompressionParams> {
        let chunk_len = 64 << below(8);
        let compressed_len_max = [i32::MAX as u32, chunk_len as u32, chunk_len as u32 * 2 / 3][below(3) as usize];
        let params = CompressionParams { compressor: self, chunk_len, compressed_len_max, ..CompressionParams::fast() };
        (below(6) != 0).then_some(params)
    }
}

/// Checks that Helenus.db has checksums for every byte of every component.
fn check_sidecar(sstable: &Sstable<'_>, finished: &FinishedSstable) {
    let bytes = sstable.part("Helenus.db").expect("there");
    let sidecar = Sidecar::open(&sstable.descriptor, bytes).expect("opens");
    assert_eq!((sidecar.shard, sidecar.map), (1, ShardMap::new(Partitioner::Murmur3, 3)));
    let toc = sstable.descriptor.parse_toc(sstable.part("TOC.txt").expect("there")).expect("a text");
    assert_eq!(toc, sstable.files.keys().copied().collect::<Vec<_>>());
    for (name, bytes) in &sstable.files {
        let component = Component::parse(name).expect("known");
        assert!(finished.lens.contains(&(component, bytes.len() as u64)), "{name}");
        if component != Component::Helenus {
            sidecar.check(&sstable.descriptor, BlockId { component, offset: 0 }, bytes).expect("passes");
            assert_eq!(sidecar.len(component), Some(bytes.len() as u64));
        }
    }
}

#[test]
fn what_holds_nothing_is_left_out() {
    let mut below = arbitrary::generator(5);
    let table = Arc::new(arbitrary::table("ks", "t", &mut below));
    let descriptor = Descriptor { version: Version::Da, id: "1".into() };
    let mut builder =
        Builder::new(descriptor, table.clone(), Options::of(&table, EncodingStats::default()).expect("options"));
    builder.start_partition(&arbitrary::key(&table, &mut below), Deletion::LIVE);
    let clustering = arbitrary::clustering(&table, table.clustering_len, &mut below);
    builder.row(Clustering(&clustering), RowView::parse(&[0]).expect("an empty row"));
    builder.marker(Clustering(&[]), BoundSide::Before, Deletion::LIVE);
    builder.end_partition();
    assert_eq!((builder.partitions(), builder.data_len(), builder.pending_bytes()), (0, 0, 0));
}

#[test]
#[should_panic(expected = "partitions ascend")]
fn partitions_that_do_not_ascend_are_a_mistake() {
    let mut below = arbitrary::generator(5);
    let table = Arc::new(arbitrary::table("ks", "t", &mut below));
    let descriptor = Descriptor { version: Version::Da, id: "1".into() };
    let options = Options::of(&table, EncodingStats::default()).expect("options");
    let mut builder = Builder::new(descriptor, table, options);
    let deletion = Deletion { timestamp: 1, local_deletion_time: 1 };
    for _ in 0..2 {
        builder.start_partition(b"key", deletion);
        builder.end_partition();
    }
}

#[test]
fn keys_are_bounded() {
    let mut below = arbitrary::generator(5);
    let table = Arc::new(arbitrary::table("ks", "t", &mut below));
    let write = |len: usize| {
        let descriptor = Descriptor { version: Version::Da, id: "1".into() };
        let options = Options::of(&table, EncodingStats::default()).expect("options");
        let mut builder = Builder::new(descriptor, table.clone(), options);
        builder.start_partition(&vec![7; len], Deletion { timestamp: 1, local_deletion_time: 1 });
        builder.end_partition();
        builder.finish().expect("finishes").partitions
    };
    assert_eq!(write(model::key::KEY_BYTES_MAX), 1);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| write(model::key::KEY_BYTES_MAX + 1))).is_err());
}

/// Times beyond the last one of a version are written as that.
#[test]
fn times_of_deletions_are_bounded() {
    let mut below = arbitrary::generator(5);
    let table = Arc::new(arbitrary::table("ks", "t", &mut below));
    let clustering = arbitrary::clustering(&table, table.clustering_len, &mut below);
    let mut form = Vec::new();
    comparable::clustering(&table, Clustering(&clustering).components(), &mut form);
    for version in VERSIONS {
        let max = version.deletion_time_max();
        for time in [max, max + 1, i64::MAX] {
            let deletion = Deletion { timestamp: 7, local_deletion_time: time };
            let mut blob = Vec::new();
            RowBuilder::new(&mut blob, None, deletion);
            let items = Items::from([(form.clone(), (clustering.clone(), Item::Row(blob)))]);
            let partitions = Partitions::from([(DecoratedKey::new(Partitioner::Murmur3, b"key"), (deletion, items))]);
            let options = Options::of(&table, stats(&partitions)).expect("options");
            let descriptor = Descriptor { version, id: "1".into() };
            let finished = write(&descriptor, &table, &partitions, options);
            let found = read(&Sstable { descriptor, sidecar: None, files: files(&finished) }, &table);
            let (_, (partition, items)) = found.first_key_value().expect("one");
            let (_, Item::Row(blob)) = &items[&form] else { panic!("a row") };
            let row = RowView::trusted(blob).deletion();
            assert_eq!([partition.local_deletion_time, row.local_deletion_time], [max; 2], "{version:?} {time}");
            assert_eq!(i64::from(finished.metadata.statistics.max_local_deletion_time), max);
        }
    }
}

/// Each block of the row index names two clusterings of 40 kB.
#[test]
fn a_row_index_that_is_too_long_is_done_without() {
    let field = FieldType::parse("org.apache.cassandra.db.marshal.BytesType").expect("known");
    let header = Header {
        min_timestamp: 0,
        min_local_deletion_time: 0,
        min_ttl: 0,
        key_class: field.class.clone(),
        clustering: vec![field],
        statics: Vec::new(),
        regulars: Vec::new(),
    };
    let table = Arc::new(header.table().expect("known types"));
    let key = DecoratedKey::new(Partitioner::Murmur3, b"key");
    for (version, rows) in [(Version::Nb, 20u8), (Version::Nb, 64), (Version::Oa, 64)] {
        let items = (0..rows).map(|row| {
            let (mut clustering, mut form, mut blob) = (Vec::new(), Vec::new(), Vec::new());
            model::mutation::push_clustering(&mut clustering, &[&[row][..], &[7; 40_000]].concat());
            comparable::clustering(&table, Clustering(&clustering).components(), &mut form);
            RowBuilder::new(&mut blob, None, Deletion { timestamp: 1, local_deletion_time: 1 });
            (form, (clustering, Item::Row(blob)))
        });
        let items: Items = items.collect();
        let (last, _) = items.last_key_value().expect("a row");
        let slice = Slice { start: last[..].into(), end: Box::default() };
        let partitions = Partitions::from([(key.clone(), (Deletion::LIVE, items.clone()))]);
        let mut options = Options::of(&table, stats(&partitions)).expect("options");
        options.row_index_bytes = Some(1);
        let descriptor = Descriptor { version, id: "1".into() };
        let finished = write(&descriptor, &table, &partitions, options);
        let sstable = Sstable { descriptor, sidecar: None, files: files(&finished) };
        let len = sstable.part("Index.db").expect("there").len();
        assert_eq!(len > ROW_INDEX_BYTES_MAX, rows == 64, "{len}");
        let reader = sstable.open(&table);
        for reversed in [false, true] {
            let mut driver = sstable.driver(reader.partition(key.clone(), [slice.clone()].into(), reversed));
            let mut found = 0;
            while driver.next().expect("reads") {
                found += usize::from(matches!(driver.cursor.fragment(), Some(Fragment::Row { .. })));
            }
            assert_eq!(found, 1, "{version:?} {rows} {reversed}");
        }
    }
}
