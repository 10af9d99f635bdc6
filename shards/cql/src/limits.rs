//! Limits on the size of a statement. Each is checked where the parser or a definition first sees the size.

/// Longest statement text in bytes: the largest envelope of the protocol.
pub const STATEMENT_BYTES_MAX: usize = 16 << 20;
/// Most relations in a WHERE clause.
pub const RELATIONS_MAX: usize = 100;
/// Deepest nesting of expressions and of written types. Cassandra has no limit but its stack, which overflows at 500 to
/// 1000 levels; two megabytes of stack are enough for this one without optimisation, which a test shows.
pub const DEPTH_MAX: usize = 64;
/// How deep function calls and arithmetic operators may stand in an expression: choosing their overloads takes time
/// that grows exponentially with the depth, as it does in Cassandra.
pub const CALL_DEPTH_MAX: usize = 12;
/// Most LET assignments of a transaction.
pub const LETS_MAX: usize = 64;
/// Most arithmetic operators in one expression.
pub const OPERATORS_MAX: usize = 64;
/// Most columns of a table.
pub const COLUMNS_MAX: usize = 8192;
/// Longest error text in bytes; longer ones are cut.
pub const ERROR_BYTES_MAX: usize = 4096;
/// Most bind markers in a statement.
pub const MARKERS_MAX: usize = 65535;
/// Most types in one type, with all user types in it expanded.
pub const TYPE_PARTS_MAX: usize = 65_536;
