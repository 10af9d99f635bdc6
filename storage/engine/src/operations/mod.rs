//! What operators and other nodes ask of a table's SSTables: imports, snapshots, verification, damaged ones, streams,
//! rows of incremental repairs, and splitting those of another shard map.

pub mod damaged;
pub mod import;
pub(crate) mod key_sstables;
pub(crate) mod pending_rows;
pub mod snapshot;
pub(crate) mod split;
pub mod streams;
pub mod verify;
