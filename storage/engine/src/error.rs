//! Why the store refuses or fails, by what a caller does about it.

use model::Partitioner;
use std::path::PathBuf;

/// Why the store refused. Definite unless said otherwise.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The memtable budget is used up: nothing was written.
    MemtableFull,
    /// The mutation is larger than half a segment.
    MutationTooLarge {
        /// Its size in bytes.
        bytes: usize,
    },
    /// The table is not known here (dropped meanwhile).
    UnknownTable(model::TableId),
    /// The store is closing: nothing was written.
    Closing,
    /// Too many wait for the lock of the partition: nothing was done.
    LockQueueFull,
    /// There is no room for another segment of the log, or it could not be made: nothing was written. Later writes may
    /// succeed.
    LogFull(std::io::Error),
    /// The log could not be written: whether the write survives is unknown, and the log takes no more writes.
    LogFailed(std::io::Error),
    /// Data on disk cannot be trusted: file, offset, what is wrong. The node must not start (exit 3).
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What.
        what: &'static str,
    },
    /// A commit log segment of Cassandra that may hold mutations. The node must not start.
    ForeignLog {
        /// The file.
        path: PathBuf,
    },
    /// An SSTable's bytes cannot be used: the read that met them fails.
    BadSstable {
        /// The table's directory.
        directory: PathBuf,
        /// File, offset and fault.
        error: sstable::Error,
    },
    /// An SSTable of a node with another partitioner: it is not opened, and the node must not start.
    OtherPartitioner {
        /// The SSTable, without a component's name.
        path: PathBuf,
        /// The partitioner that it names.
        partitioner: Partitioner,
        /// The partitioner of this node.
        own: Partitioner,
    },
    /// An index does not have all rows of its table yet: nothing was read.
    IndexNotBuilt {
        /// Its name.
        index: String,
    },
    /// A table cannot be written as SSTables as its options say.
    Unwritable {
        /// What is not supported.
        what: String,
    },
    /// An incremental repair has set some of the data apart that another one wants.
    SetApart {
        /// Its id.
        session: [u8; 16],
    },
    /// The disk failed.
    Io(std::io::Error),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::MemtableFull => write!(f, "the memtables are full"),
            Error::MutationTooLarge { bytes } => {
                write!(f, "a mutation of {bytes} bytes is too large for the commit log")
            }
            Error::UnknownTable(table) => write!(f, "unknown table {table}"),
            Error::LockQueueFull => write!(f, "too many requests wait for one partition"),
            Error::Closing => write!(f, "the store is closing"),
            Error::LogFull(error) => write!(f, "no room for the commit log: {error}"),
            Error::LogFailed(error) => write!(f, "the commit log failed: {error}"),
            Error::Corrupt { path, offset, what } => write!(f, "{}: {what} at offset {offset}", path.display()),
            Error::ForeignLog { path } => write!(
                f,
                "{} is a commit log segment of Cassandra with unflushed writes: run `nodetool drain` on Cassandra first",
                path.display()
            ),
            Error::BadSstable { directory, error } => write!(f, "{}/{error}", directory.display()),
            Error::OtherPartitioner { path, partitioner, own } => write!(
                f,
                "Cannot open {}; partitioner {} does not match system partitioner {}. Note that the default partitioner \
                 starting with Cassandra 1.2 is Murmur3Partitioner, so you will need to edit that to match your old \
                 partitioner if upgrading.",
                path.display(),
                partitioner.class_name(),
                own.class_name(),
            ),
            Error::IndexNotBuilt { index } => write!(f, "the index {index} is not built yet"),
            Error::SetApart { session } => {
                write!(f, "data is set apart for the repair {}", uuid::Uuid::from_bytes(*session))
            }
            Error::Unwritable { what } => f.write_str(what),
            Error::Io(error) => write!(f, "disk: {error}"),
        }
    }
}

impl std::error::Error for Error {}
