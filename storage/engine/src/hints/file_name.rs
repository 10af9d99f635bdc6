//! Names of files of hints: `<host id>-<creation, milliseconds since 1970>-<core>.hints`.
//!
//! Cassandra's files are named alike, with the version of their format, 3, in the place of the core; they begin with
//! other bytes.

use std::fmt;
use uuid::Uuid;

const SUFFIX: &str = ".hints";

/// The name of a file of hints. The order is that of creation for files of one node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HintFileName {
    /// The node whose hints are in the file.
    pub host_id: Uuid,
    /// When the file was created, milliseconds since 1970.
    pub created_millis: u64,
    /// The core that wrote it.
    pub core: u16,
}

impl HintFileName {
    /// Reads a name; `None` if it is not that of a file of hints.
    pub fn parse(name: &str) -> Option<HintFileName> {
        let name = name.strip_suffix(SUFFIX)?;
        let (rest, core) = name.rsplit_once('-')?;
        let (host_id, created) = rest.rsplit_once('-')?;
        let found = HintFileName {
            host_id: Uuid::try_parse(host_id).ok()?,
            created_millis: created.parse().ok()?,
            core: core.parse().ok()?,
        };
        // Other spellings of the same numbers would be other files.
        (found.to_string().strip_suffix(SUFFIX) == Some(name)).then_some(found)
    }
}

impl fmt::Display for HintFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HintFileName { host_id, created_millis, core } = self;
        write!(f, "{host_id}-{created_millis}-{core}{SUFFIX}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        let text = "13ab2763-807f-407e-ad59-3988b256ce11-1795399820123-3.hints";
        let name = HintFileName::parse(text).expect("a name");
        assert_eq!((name.created_millis, name.core, name.to_string().as_str()), (1_795_399_820_123, 3, text));
        assert!(name < HintFileName { created_millis: name.created_millis + 1, core: 0, ..name });
    }

    #[test]
    fn other_names_are_none() {
        for name in [
            "",
            ".hints",
            "13ab2763-807f-407e-ad59-3988b256ce11.hints",
            "13ab2763-807f-407e-ad59-3988b256ce11-1-3",
            "13ab2763-807f-407e-ad59-3988b256ce11-1-3.crc32",
            "13ab2763-807f-407e-ad59-3988b256ce11-01-3.hints",
            "13ab2763-807f-407e-ad59-3988b256ce11-1-65536.hints",
            "13ab2763-807f-407e-ad59-3988b256ce1-1-3.hints",
            "13AB2763-807f-407e-ad59-3988b256ce11-1-3.hints",
        ] {
            assert_eq!(HintFileName::parse(name), None, "{name}");
        }
    }
}
