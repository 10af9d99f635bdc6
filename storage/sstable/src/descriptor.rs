//! Names of an SSTable's files: `da-3h5p_01dj_5xowq2e57arcx0ad8z-bti-Data.db`, and the table of contents.

use crate::input::{Fault, Problem};
use std::fmt;

/// Longest id in a file name, in bytes.
pub const ID_BYTES_MAX: usize = 40;
/// Most lines of a TOC.txt.
pub const TOC_LINES_MAX: usize = 1000;

/// A version of a format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Version {
    /// Big, Cassandra 4.
    Nb,
    /// Big, Cassandra 5.
    Oa,
    /// Bti, Cassandra 5.
    Da,
}

impl Version {
    /// Its two letters.
    pub fn name(self) -> &'static str {
        match self {
            Version::Nb => "nb",
            Version::Oa => "oa",
            Version::Da => "da",
        }
    }

    /// `big` or `bti`.
    pub fn format(self) -> &'static str {
        if self.is_bti() { "bti" } else { "big" }
    }

    /// Whether partitions and rows are indexed by tries.
    pub fn is_bti(self) -> bool {
        self == Version::Da
    }

    /// Whether deletion times are unsigned (until 2106), a live partition's takes one byte, and Statistics.db has covered
    /// clusterings, first and last key: `oa` and `da`.
    pub fn is_cassandra_5(self) -> bool {
        self != Version::Nb
    }

    /// The last local deletion time that a file can have, in seconds: later ones are written as this one.
    pub fn deletion_time_max(self) -> i64 {
        if self.is_cassandra_5() { u32::MAX as i64 - 1 } else { i32::MAX as i64 - 1 }
    }

    fn parse(version: &str, format: &str) -> Option<Version> {
        [Version::Nb, Version::Oa, Version::Da]
            .into_iter()
            .find(|known| known.name() == version && known.format() == format)
    }
}

/// A file of an SSTable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "named as their files")]
#[repr(u8)]
pub enum Component {
    Data,
    Index,
    Summary,
    Partitions,
    Rows,
    Filter,
    CompressionInfo,
    Crc,
    Statistics,
    Digest,
    Toc,
    Helenus,
}

impl Component {
    /// Every one.
    pub const ALL: [Component; 12] = [
        Component::Data,
        Component::Index,
        Component::Summary,
        Component::Partitions,
        Component::Rows,
        Component::Filter,
        Component::CompressionInfo,
        Component::Crc,
        Component::Statistics,
        Component::Digest,
        Component::Toc,
        Component::Helenus,
    ];

    /// The last part of its file's name: `Data.db`.
    pub fn name(self) -> &'static str {
        match self {
            Component::Data => "Data.db",
            Component::Index => "Index.db",
            Component::Summary => "Summary.db",
            Component::Partitions => "Partitions.db",
            Component::Rows => "Rows.db",
            Component::Filter => "Filter.db",
            Component::CompressionInfo => "CompressionInfo.db",
            Component::Crc => "CRC.db",
            Component::Statistics => "Statistics.db",
            Component::Digest => "Digest.crc32",
            Component::Toc => "TOC.txt",
            Component::Helenus => "Helenus.db",
        }
    }

    /// The component of a name.
    pub fn parse(name: &str) -> Option<Component> {
        Component::ALL.into_iter().find(|component| component.name() == name)
    }
}

/// One SSTable's name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Descriptor {
    /// Format and version.
    pub version: Version,
    /// A number or a time uuid as Cassandra writes it (`3h5p_01dj_5xowq2e57arcx0ad8z`).
    pub id: String,
}

impl Descriptor {
    /// The name of a component's file.
    pub fn file_name(&self, component: Component) -> String {
        format!("{self}-{}", component.name())
    }

    /// Splits a file name. `None`: not an SSTable's file of a version that is read here; the component is `None` if its
    /// name is none that is known.
    pub fn parse(file_name: &str) -> Option<(Descriptor, Option<Component>)> {
        let mut parts = file_name.splitn(4, '-');
        let (version, id, format, component) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let version = Version::parse(version, format)?;
        let digits = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if id.is_empty() || id.len() > ID_BYTES_MAX || !digits {
            return None;
        }
        Some((Descriptor { version, id: id.to_owned() }, Component::parse(component)))
    }

    /// The names in a TOC.txt, one per line, known or not.
    ///
    /// # Errors
    /// Not UTF-8, or more than [`TOC_LINES_MAX`] lines.
    pub fn parse_toc(&self, bytes: &[u8]) -> Result<Vec<String>, crate::Error> {
        let fault = |offset, problem| Fault { offset, problem }.in_file(self, Component::Toc);
        let text = std::str::from_utf8(bytes)
            .map_err(|error| fault(error.valid_up_to() as u64, Problem::Invalid("a text")))?;
        let names: Vec<String> =
            text.lines().filter(|line| !line.is_empty()).take(TOC_LINES_MAX + 1).map(str::to_owned).collect();
        if names.len() > TOC_LINES_MAX {
            return Err(fault(0, Problem::Limit("TOC_LINES_MAX")));
        }
        Ok(names)
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.version.name(), self.id, self.version.format())
    }
}

/// The bytes of a TOC.txt: names sorted, one per line.
pub fn write_toc(components: &[Component]) -> Vec<u8> {
    let mut names: Vec<&str> = components.iter().map(|component| component.name()).collect();
    names.sort_unstable();
    names.iter().flat_map(|name| [name, "\n"]).flat_map(str::bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for name in ["da-1-bti-Data.db", "oa-3h5p_01dj_5xowq2e57arcx0ad8z-big-CRC.db", "nb-12-big-TOC.txt"] {
            let (descriptor, component) = Descriptor::parse(name).unwrap();
            assert_eq!(descriptor.file_name(component.unwrap()), name);
        }
        assert_eq!(Descriptor::parse("da-1-bti-Other.db").unwrap().1, None);
        let long = "1".repeat(ID_BYTES_MAX);
        assert!(Descriptor::parse(&format!("da-{long}-bti-Data.db")).is_some());
        for bad in [
            "",
            "da-1-big-Data.db",
            "mc-1-big-Data.db",
            "da--bti-Data.db",
            "da-1-bti",
            &format!("da-1{long}-bti-Data.db"),
        ] {
            assert_eq!(Descriptor::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_table_of_contents_is_bounded() {
        let descriptor = Descriptor { version: Version::Da, id: "1".into() };
        let toc = "x\n".repeat(TOC_LINES_MAX);
        assert_eq!(descriptor.parse_toc(toc.as_bytes()).unwrap().len(), TOC_LINES_MAX);
        assert!(descriptor.parse_toc(format!("{toc}x").as_bytes()).is_err());
        assert!(descriptor.parse_toc(&[0xff]).is_err());
        assert_eq!(write_toc(&[Component::Toc, Component::Data]), b"Data.db\nTOC.txt\n");
    }
}
