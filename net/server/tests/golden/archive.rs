//! SSTables that real Cassandra wrote, a data directory of it, and one of an earlier version of this program.

#[path = "../../../../storage/sstable/tests/golden/unpack.rs"]
mod unpack;
#[path = "../../../../storage/sstable/tests/golden/versions.rs"]
mod versions;

pub(crate) use unpack::{Files, Tables};
pub(crate) use versions::tables;

const DIRECTORY: &[u8] = include_bytes!("directory.tar.zst");
const BEFORE_COLUMN_IDS: &[u8] = include_bytes!("before_column_ids.tar.zst");

/// A data directory of Cassandra 5.0.9 after a drain: files by their paths in it, and in `rows/<table>.json` the rows
/// that Cassandra read from the keyspace `golden`.
pub(crate) fn directory() -> Files {
    unpack::unpack(DIRECTORY)
}

/// A data directory that this program wrote before it stored ids of columns: files by their paths in it, and in
/// `rows/<table>.json` the rows that it read from the keyspace `old`.
pub(crate) fn before_column_ids() -> Files {
    unpack::unpack(BEFORE_COLUMN_IDS)
}
