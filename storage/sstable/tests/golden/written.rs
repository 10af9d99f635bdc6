//! Cassandra's SSTables are written again from their rows, byte by byte the same.

use super::archive::{Archive, Files};
use super::database::Database;
use super::schema;
use super::sstables::{Sstable, sstables};
use model::Table;
use model::{ShardMap, TokenRange};
use sstable::compression::CompressionParams;
use sstable::statistics::{EncodingStats, Header, HeaderColumn, Metadata};
use sstable::writer::{Builder, FinishedSstable, Options};
use sstable::{Component, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the length of a block of the row index, for tables that were written with another one than the default.
fn row_index_bytes(table: &str) -> Option<usize> {
    let small = table.starts_with("key_") && table != "key_only";
    (small || ["composite_key", "wide_text", "wide_blocks"].contains(&table)).then_some(1 << 10)
}

/// Writes the rows of an SSTable again: with the columns and the compression of the file, or with those of a `table`.
/// Returns the new SSTable, and the Statistics.db of the old one.
pub(crate) fn written(
    name: &str,
    sstable: &Sstable<'_>,
    owner: Option<(u16, ShardMap)>,
    table: Option<Arc<Table>>,
) -> (FinishedSstable, Metadata) {
    let bytes = sstable.part("Statistics.db").expect("there");
    let metadata = Metadata::open(&sstable.descriptor, bytes).expect("opens");
    let as_is = table.is_none();
    // The table that the file describes has the columns that were dropped from the real one.
    let table = table.unwrap_or_else(|| Arc::new(metadata.header.table().expect("known types")));
    let reader = sstable.open(&table);
    let statistics = &metadata.statistics;
    let mut stats = EncodingStats::default();
    stats.add_header(&metadata.header);
    let mut options = Options::of(&table, stats).expect("options");
    if as_is {
        options.header = metadata.header.clone();
        options.compression = reader.compression().map(CompressionParams::from);
    }
    options.partitioner = reader.partitioner();
    options.filter_chance = metadata.filter_chance;
    let mut keys = Database::default();
    keys.read(&mut sstable.driver(reader.scan(TokenRange::FULL))).expect("reads");
    options.expected_partitions = keys.partitions.len() as u64;
    options.min_index_interval = reader.index_interval().unwrap_or(128);
    options.row_index_bytes = row_index_bytes(name);
    options.owner = owner;
    options.log_intervals = statistics.log_intervals.clone();
    options.level = statistics.level;
    options.repaired_at = statistics.repaired_at;
    options.host_id = statistics.host_id;
    options.token_space_coverage = statistics.token_space_coverage;
    let mut builder = Builder::new(sstable.descriptor.clone(), table, options);
    let mut driver = sstable.driver(reader.scan(TokenRange::FULL));
    let mut drained: BTreeMap<Component, Vec<u8>> = BTreeMap::new();
    while driver.next().expect("reads") {
        builder.fragment(&driver.cursor.fragment().expect("a fragment"));
        if builder.pending_bytes() > 10_000 {
            builder.drain(|component, bytes| drained.entry(component).or_default().extend_from_slice(bytes));
        }
    }
    let mut finished = builder.finish().expect("finishes");
    for (component, rest) in &mut finished.components {
        if let Some(mut whole) = drained.remove(component) {
            whole.append(rest);
            *rest = whole;
        }
    }
    (finished, metadata)
}

fn compare(failures: &mut Vec<String>, what: &str, written: &[u8], expected: &[u8]) {
    if written != expected {
        let at = written.iter().zip(expected).position(|(a, b)| a != b);
        let (found, expected) = (written.len(), expected.len());
        failures.push(format!("{what} at {at:?} of {found} and {expected} bytes"));
    }
}

fn write_again(version: Version) {
    let mut failures = Vec::new();
    for (name, files) in &Archive::load(version) {
        check_again(name, files, version, &mut failures);
    }
    assert!(failures.is_empty(), "{} differ\n{}", failures.len(), failures.join("\n"));
}

/// Checks that a table's SSTables are written again, byte by byte the same.
pub(crate) fn check_again(name: &str, files: &Files, version: Version, failures: &mut Vec<String>) {
    for sstable in &sstables(files) {
        let (finished, metadata) = written(name, sstable, None, None);
        let bytes: BTreeMap<&str, &[u8]> =
            finished.components.iter().map(|(component, bytes)| (component.name(), &bytes[..])).collect();
        let expected: Vec<&str> = sstable.files.keys().copied().collect();
        assert_eq!(bytes.keys().copied().collect::<Vec<_>>(), expected, "{name}");
        let again = Sstable {
            descriptor: sstable.descriptor.clone(),
            sidecar: None,
            files: bytes.clone().into_iter().collect(),
        };
        let table = Arc::new(metadata.header.table().expect("known types"));
        let reader = again.open(&table);
        let mut check = |what: &str, found: &[u8], expected: &[u8]| {
            compare(failures, &format!("{name}: {what}"), found, expected);
        };
        let original = sstable.open(&table);
        check("data", &again.data(&reader), &sstable.data(&original));
        // Cassandra's compactions may append an empty chunk, which is not written here.
        let empty_at = original.compression().and_then(|info| {
            let needed = info.data_len.div_ceil(info.chunk_len as u64) as usize;
            info.offsets.get(needed).map(|offset| *offset as usize)
        });
        for (component, bytes) in &bytes {
            let expected = sstable.part(component).expect("there");
            match (*component, empty_at) {
                ("Data.db", Some(end)) => check(component, bytes, &expected[..end]),
                ("CompressionInfo.db" | "Digest.crc32", Some(_)) | ("Statistics.db", _) => {}
                // Its filter was made for an estimated number of partitions.
                ("Filter.db", _) if name == "scrubbed" => {}
                _ => check(component, bytes, expected),
            }
        }
        let mut found = finished.metadata;
        if empty_at.is_some() {
            found.statistics.compression_ratio = metadata.statistics.compression_ratio;
        }
        let (found, expected) = (found.write(version), sstable.part("Statistics.db").expect("there"));
        if found != expected {
            let lines = |bytes: &[u8]| format!("{:#?}", Metadata::open(&sstable.descriptor, bytes));
            let (found, expected) = (lines(&found), lines(expected));
            let differ = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
            failures.push(format!("{name}: Statistics.db {differ:?}"));
        }
    }
}

#[test]
fn da_is_written_again() {
    write_again(Version::Da);
}

#[test]
fn oa_is_written_again() {
    write_again(Version::Oa);
}

#[test]
fn nb_is_written_again() {
    write_again(Version::Nb);
}

#[test]
fn headers_are_made_of_tables() {
    for (name, files) in &Archive::load(Version::Da) {
        // Its file has columns that were dropped from the table.
        if name == "dropped" {
            continue;
        }
        let opened = sstables(files);
        let table = schema::table(files, &opened);
        for sstable in &opened {
            let bytes = sstable.part("Statistics.db").expect("there");
            let written = Metadata::open(&sstable.descriptor, bytes).expect("opens").header;
            let made = Header::of(&table, EncodingStats::default());
            let clustering =
                |header: &Header| header.clustering.iter().map(|field| field.class.clone()).collect::<Vec<_>>();
            assert_eq!(made.key_class, written.key_class, "{name}");
            assert_eq!(clustering(&made), clustering(&written), "{name}");
            // Cassandra's flush leaves out columns that no row has.
            for (made, written) in [(made.statics, written.statics), (made.regulars, written.regulars)] {
                let column = |column: HeaderColumn| (column.name, column.field.class, column.field.fixed_len);
                let written: Vec<_> = written.into_iter().map(column).collect();
                let made =
                    made.into_iter().map(column).filter(|made| written.iter().any(|written| written.0 == made.0));
                assert_eq!(made.collect::<Vec<_>>(), written, "{name}");
            }
        }
    }
}
