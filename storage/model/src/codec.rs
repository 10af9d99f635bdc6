//! Bytes of a mutation for the commit log, hints and internode messages; versioned.
//!
//! ```text
//! version u8 = 1
//! key length u16, key
//! tables, until the end:
//!   table id 16 bytes
//!   body length u32
//!   body:
//!     partition deletion flag u8 [timestamp i64, local deletion time i64]
//!     operations, until the end of the body:
//!       kind u8   1 row:            clustering length u32, clustering, blob length u32, blob
//!                 2 range deletion: timestamp i64, local deletion time i64,
//!                                   start inclusive u8, start length u32, start prefix, the same for the end
//! ```
//! All integers little-endian.

/// The version written.
pub const VERSION: u8 = 1;

/// Bytes that are not a mutation: which part, at which offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodeError {
    /// What was being read.
    pub what: &'static str,
    /// Where, from the start.
    pub offset: usize,
}
