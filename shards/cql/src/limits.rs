//! Limits on the size of a statement. Each is checked where the parser or a definition first sees the size.

/// Longest statement text in bytes.
pub const STATEMENT_BYTES_MAX: usize = 1 << 20;
/// Most relations in a WHERE clause.
pub const RELATIONS_MAX: usize = 100;
/// Deepest nesting of expressions and types.
pub const DEPTH_MAX: usize = 12;
/// Most arithmetic operators in one expression.
pub const OPERATORS_MAX: usize = 64;
/// Most columns of a table.
pub const COLUMNS_MAX: usize = 8192;
/// Longest error text in bytes; longer ones are cut.
pub const ERROR_BYTES_MAX: usize = 4096;
/// Most bind markers in a statement.
pub const MARKERS_MAX: usize = 65535;
