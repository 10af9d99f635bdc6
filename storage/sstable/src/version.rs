//! Versions of the SSTable format, and what tells their files apart.
//!
//! A version is described by what it adds to the one before, so a reader asks for a [`Features`] and compares no
//! versions.

/// A version of the file format, and with it the format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Version {
    /// The `big` format of Cassandra 3.0.0 and 3.1.
    Ma,
    /// The `big` format of Cassandra 3.0.7 and 3.7.
    Mb,
    /// The `big` format of Cassandra 3.0.8 and 3.9.
    Mc,
    /// The `big` format of Cassandra 3.0.18 and 3.11.4: that of [`Version::Mc`], with bounds of clusterings that hold
    /// range tombstones too.
    Md,
    /// The `big` format of Cassandra 3.0.25 and 3.11.11.
    Me,
    /// The `big` format of the betas and candidates of Cassandra 4.0.
    Na,
    /// The `big` format of Cassandra 4.
    Nb,
    /// The `big` format of Cassandra 5.
    Oa,
    /// The `bti` format of Cassandra 5.
    Da,
}

/// What the files of a version have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// The two letters that file names begin with.
    pub name: &'static str,
    /// Whether Statistics.db has the commit log position from which on the SSTable has the data.
    pub log_lower: bool,
    /// Whether Statistics.db has the intervals of the commit log whose data is in the SSTable.
    pub log_intervals: bool,
    /// Whether Statistics.db has the id of the node that wrote the SSTable.
    pub host_id: bool,
    /// Whether Statistics.db has the repair session, and whether the replica is transient.
    pub repair_session: bool,
    /// Whether the histogram of local deletion times states its count of bins twice, instead of the most it may have.
    pub drop_times_count_twice: bool,
    /// Whether Statistics.db has checksums.
    pub statistics_checksums: bool,
    /// Whether CompressionInfo.db has the longest compressed length; without it every chunk is compressed.
    pub compressed_len_max: bool,
    /// Whether Filter.db has its bytes in the order of their bits; without it those of each word are reversed.
    pub filter_in_order: bool,
    /// Whether the classes of frozen user types in Statistics.db say that they are; Cassandra 3.0, which had no others,
    /// left that out.
    pub frozen_user_types: bool,
}

const MA: Features = Features {
    name: "ma",
    log_lower: false,
    log_intervals: false,
    host_id: false,
    repair_session: false,
    drop_times_count_twice: false,
    statistics_checksums: false,
    compressed_len_max: false,
    filter_in_order: false,
    frozen_user_types: false,
};
const MB: Features = Features { name: "mb", log_lower: true, ..MA };
const MC: Features = Features { name: "mc", log_intervals: true, ..MB };
const MD: Features = Features { name: "md", ..MC };
const ME: Features = Features { name: "me", host_id: true, ..MD };
const NA: Features = Features {
    name: "na",
    repair_session: true,
    drop_times_count_twice: true,
    statistics_checksums: true,
    compressed_len_max: true,
    filter_in_order: true,
    frozen_user_types: true,
    ..MD
};
const NB: Features = Features { name: "nb", host_id: true, ..NA };
const OA: Features = Features { name: "oa", ..NB };
const DA: Features = Features { name: "da", ..OA };

impl Version {
    /// All versions, by age.
    pub const ALL: [Version; 9] = [
        Version::Ma,
        Version::Mb,
        Version::Mc,
        Version::Md,
        Version::Me,
        Version::Na,
        Version::Nb,
        Version::Oa,
        Version::Da,
    ];

    /// Returns what the files of the version have.
    pub fn features(self) -> &'static Features {
        match self {
            Version::Ma => &MA,
            Version::Mb => &MB,
            Version::Mc => &MC,
            Version::Md => &MD,
            Version::Me => &ME,
            Version::Na => &NA,
            Version::Nb => &NB,
            Version::Oa => &OA,
            Version::Da => &DA,
        }
    }

    /// Returns the two letters that file names begin with.
    pub fn name(self) -> &'static str {
        self.features().name
    }

    /// Returns the name of the format: `big` or `bti`.
    pub fn format(self) -> &'static str {
        if self.is_bti() { "bti" } else { "big" }
    }

    /// Returns whether tries index partitions and rows.
    pub fn is_bti(self) -> bool {
        self == Version::Da
    }

    /// Returns whether Cassandra 5 introduced the version (`oa`, `da`): local deletion times are unsigned (until 2106),
    /// a live partition's deletion takes one byte, and Statistics.db has a slice of clusterings, first and last key.
    pub fn is_cassandra_5(self) -> bool {
        self >= Version::Oa
    }

    /// Returns whether SSTables of the version are written (`nb`, `oa`, `da`); older ones are only read.
    pub fn is_written(self) -> bool {
        self >= Version::Nb
    }

    /// Returns the latest local deletion time that a file can hold, in seconds. Later ones are written as this one.
    pub fn deletion_time_max(self) -> i64 {
        if self.is_cassandra_5() { u32::MAX as i64 - 1 } else { i32::MAX as i64 - 1 }
    }

    /// Returns the version of a name and a format; `None` if it is not known.
    pub(crate) fn parse(name: &str, format: &str) -> Option<Version> {
        Version::ALL.into_iter().find(|known| known.name() == name && known.format() == format)
    }
}
