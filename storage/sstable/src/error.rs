//! What can be wrong with the bytes of an SSTable.
//!
//! Parsers report a [`Fault`], a problem and its offset. Whoever knows which file the bytes came from turns it into an
//! [`Error`], which names the file.

use crate::descriptor::{Component, Descriptor};
use std::fmt;

/// Bytes of an SSTable that cannot be used: which file, where and why.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Error {
    /// The file's name, without its directory.
    pub file: String,
    /// The offset in bytes. For a compressed Data.db it counts uncompressed bytes, unless the chunk itself is damaged.
    pub offset: u64,
    /// What is wrong.
    pub problem: Problem,
}

impl Error {
    /// An error in the file of `component`.
    pub fn new(descriptor: &Descriptor, component: Component, offset: u64, problem: Problem) -> Error {
        Error { file: descriptor.file_name(component), offset, problem }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}: {}", self.file, self.offset, self.problem)
    }
}

impl std::error::Error for Error {}

/// Why bytes cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Problem {
    /// The bytes end too early.
    Truncated,
    /// The bytes do not match their checksum.
    Checksum,
    /// The bytes are not the thing named here.
    Invalid(&'static str),
    /// A length or count exceeds the limit named here.
    Limit(&'static str),
    /// The bytes need the feature named here.
    Unsupported(&'static str),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Truncated => f.write_str("ends too early"),
            Problem::Checksum => f.write_str("checksum mismatch"),
            Problem::Invalid(what) => write!(f, "not {what}"),
            Problem::Limit(what) => write!(f, "more than {what}"),
            Problem::Unsupported(what) => write!(f, "{what} is not supported"),
        }
    }
}

/// A [`Problem`] and its offset, for code that does not know the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    pub(crate) offset: u64,
    pub(crate) problem: Problem,
}

impl Fault {
    pub(crate) fn invalid(offset: u64, what: &'static str) -> Fault {
        Fault { offset, problem: Problem::Invalid(what) }
    }

    pub(crate) fn in_file(self, descriptor: &Descriptor, component: Component) -> Error {
        Error::new(descriptor, component, self.offset, self.problem)
    }
}
