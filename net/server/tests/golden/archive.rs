//! SSTables that real Cassandra wrote, and a data directory of it.

#[path = "../../../../storage/sstable/tests/golden/unpack.rs"]
mod unpack;
#[path = "../../../../storage/sstable/tests/golden/versions.rs"]
mod versions;

pub(crate) use unpack::{Files, Tables};
pub(crate) use versions::tables;

const DIRECTORY: &[u8] = include_bytes!("directory.tar.zst");

/// A data directory of Cassandra 5.0.9 after a drain: files by their paths in it, and in `rows/<table>.json` the rows
/// that Cassandra read from the keyspace `golden`.
pub(crate) fn directory() -> Files {
    unpack::unpack(DIRECTORY)
}
