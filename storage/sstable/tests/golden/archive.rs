//! The archives of Cassandra's SSTables, by version.

use super::versions;
use sstable::Version;

pub(crate) use super::unpack::{Files, Tables};

pub(crate) struct Archive;

impl Archive {
    /// Returns the tables of a version, with their schemas and rows.
    pub(crate) fn load(version: Version) -> Tables {
        versions::tables(version.name())
    }
}
