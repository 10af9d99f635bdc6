//! Cassandra's SSTables: the formats `nb`, `oa` (big) and `da` (bti), without I/O.
//!
//! 1. [`descriptor`] names an SSTable's files, [`statistics`] and [`compression`] say how its data is written.
//! 2. [`reader::Reader`] is an open SSTable: made of the bytes of its small components, it finds partitions by [`filter`],
//!    [`trie`] (bti) or [`index`] (big) and gives cursors over them.
//! 3. A cursor is a state machine: a step gives a fragment or names a [`BlockId`] that it needs. The engine reads the bytes
//!    of [`reader::Reader::block_range`], has them checked and decompressed by [`reader::Reader::decode_block`], hands the
//!    block over and steps again.
//! 4. [`writer::Builder`] makes all components of an SSTable from sorted partitions, as they come.
//! 5. [`row_codec`] is the encoding of rows and markers in Data.db.
//! 6. [`sidecar::Sidecar`] is our own component: whose the SSTable is, and checksums of all the others.
//!
//! Invariants: no I/O, no clock, no randomness; bytes from files give an [`Error`] with file and offset, never a panic; what
//! a file says about lengths is checked against a limit or the bytes that are there before anything is allocated.
#![doc = include_str!("../docs/format.md")]

pub mod compression;
pub mod descriptor;
mod estimates;
pub mod filter;
pub mod index;
mod input;
pub mod reader;
pub mod row_codec;
pub mod sidecar;
pub mod statistics;
pub mod trie;
pub mod walker;
pub mod writer;

pub use descriptor::{Component, Descriptor, Version};
pub use input::Problem;

use std::fmt;

/// Bytes of an SSTable that cannot be used: which file, where and why.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Error {
    /// The file's name, without its directory.
    pub file: String,
    /// Where, in bytes; of a compressed Data.db the place in the uncompressed data, unless the chunk itself is bad.
    pub offset: u64,
    /// What is wrong.
    pub problem: Problem,
}

impl Error {
    /// A fault of a component.
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

/// A block of a component: what cursors ask for and caches hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockId {
    /// The component.
    pub component: Component,
    /// The block's first byte: a multiple of [`reader::Reader::block_len`]; of Data.db a place in the uncompressed data.
    pub offset: u64,
}
