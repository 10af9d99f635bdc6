//! File names of an SSTable: `<version>-<id>-<format>-<component>`, as in
//! `da-3h5p_01dj_5xowq2e57arcx0ad8z-bti-Data.db`.

use crate::version::Version;
use std::fmt;

/// Longest id in a file name, in bytes.
pub const ID_BYTES_MAX: usize = 40;

/// A kind of file that an SSTable consists of.
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
    /// All components, in the order of their discriminants.
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

    /// Returns the last part of the file's name, as `Data.db`.
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

    /// Returns the component of a name that [`Component::name`] gives.
    pub fn parse(name: &str) -> Option<Component> {
        Component::ALL.into_iter().find(|component| component.name() == name)
    }
}

/// The name of one SSTable, which all its files share.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Descriptor {
    /// The version, which implies the format.
    pub version: Version,
    /// A number, or a time UUID in Cassandra's notation (`3h5p_01dj_5xowq2e57arcx0ad8z`).
    pub id: String,
}

impl Descriptor {
    /// Returns the name of a component's file.
    pub fn file_name(&self, component: Component) -> String {
        format!("{self}-{}", component.name())
    }

    /// Splits a file name into descriptor and component. Returns `None` unless it is the name of an SSTable's file in a
    /// supported version; the component is `None` if its name is unknown.
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
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.version.name(), self.id, self.version.format())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for name in [
            "da-1-bti-Data.db",
            "oa-3h5p_01dj_5xowq2e57arcx0ad8z-big-CRC.db",
            "nb-12-big-TOC.txt",
            "mc-7-big-Digest.crc32",
        ] {
            let (descriptor, component) = Descriptor::parse(name).unwrap();
            assert_eq!(descriptor.file_name(component.unwrap()), name);
        }
        assert_eq!(Descriptor::parse("da-1-bti-Other.db").unwrap().1, None);
        let long = "1".repeat(ID_BYTES_MAX);
        assert!(Descriptor::parse(&format!("da-{long}-bti-Data.db")).is_some());
        for bad in [
            "",
            "da-1-big-Data.db",
            "mc-1-bti-Data.db",
            "jb-1-big-Data.db",
            "da--bti-Data.db",
            "da-1-bti",
            &format!("da-1{long}-bti-Data.db"),
        ] {
            assert_eq!(Descriptor::parse(bad), None, "{bad}");
        }
    }
}
