//! The archives, by version.

use super::versions;
use sstable::Version;

pub(crate) use super::unpack::{Files, Tables};

pub(crate) struct Archive;

impl Archive {
    /// The tables of a version, with the schema and rows of `da` where they are the same.
    pub(crate) fn load(version: Version) -> Tables {
        versions::tables(match version {
            Version::Da => "da",
            Version::Oa => "oa",
            Version::Nb => "nb",
        })
    }
}
