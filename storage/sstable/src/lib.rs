//! Cassandra's SSTables, without I/O: `nb` and `oa` (the format `big`) and `da` (`bti`) are read and written, `ma` to
//! `me` and `na` (`big`) are read.
//!
//! 1. [`descriptor`] names the files of an SSTable; [`statistics`] and [`compression`] describe how its data is
//!    encoded.
//! 2. [`reader::Reader`] is an open SSTable, made from the bytes of its small components. It finds partitions through
//!    [`filter`] and [`trie`] (`bti`) or [`index`] (`big`), and returns cursors over them.
//! 3. A cursor is a state machine: a step gives a fragment, or names a [`BlockId`] that it needs. The caller reads the
//!    bytes of [`reader::Reader::block_range`], has them checked and decompressed by [`reader::Reader::decode_block`],
//!    supplies the block, and steps again.
//! 4. [`writer::Builder`] turns sorted partitions into the components of an SSTable.
//! 5. [`row_codec`] is the encoding of rows and markers in Data.db; [`walker`] shows them as they are in the file.
//! 6. [`sidecar::Sidecar`] is our own component: the shard that owns the SSTable, and checksums of all other
//!    components.
//!
//! Invariants: no I/O, no clock, no randomness. Bytes from files result in an [`Error`] with file and offset, never in
//! a panic: no slice is indexed. A length that a file states is checked against a limit, or against the bytes that are
//! there, before anything is allocated.
//!
//! Not here: reading and caching blocks, flushes and compaction are the crate `engine`.
#![doc = include_str!("../docs/format.md")]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod block;
mod bound_kind;
pub mod compression;
pub mod descriptor;
mod error;
mod estimates;
pub mod filter;
pub mod index;
mod input;
mod key_bounds;
mod output;
pub mod reader;
pub mod row_codec;
pub mod sidecar;
pub mod statistics;
pub mod toc;
pub mod trie;
mod version;
pub mod walker;
pub mod writer;

pub use block::BlockId;
pub use descriptor::{Component, Descriptor};
pub use error::{Error, Problem};
pub use key_bounds::key_bounds;
pub use version::{Features, Version};
