//! Rows in the native protocol's form, encoded once on the owning core: they cross cores as one move and go into the
//! send buffer as one copy.
//!
//! Per row and column: `[int length][bytes]`, big-endian, length -1 for null. Range scans also keep a token per row, by
//! which the coordinating core merges the blocks of several cores.

use model::key::Token;

/// Encoded rows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RowBlock {
    /// The cells of all rows, one after another.
    pub bytes: Vec<u8>,
    /// How many rows.
    pub rows: u32,
    /// For range reads: each row's token and where its bytes end; empty for reads of one partition.
    pub ends: Vec<(Token, u32)>,
}
