//! The CQL language, pure: text to [`ast`], names to columns, markers to types, WHERE to key restrictions.
//!
//! 1. [`parse`] turns text into a statement as written, or an error with line and column.
//! 2. [`prepare()`] resolves it against a schema into a [`plan::Prepared`] that needs only values.
//! 3. [`plan::Term::evaluate`] gives the bytes of one term for one set of bound values.
//!
//! What is not here: executing a plan (crate `shard`).

pub mod ast;
mod compaction_options;
mod compression_options;
pub mod conditions;
pub mod define;
pub mod functions;
pub mod guardrails;
pub mod java_order;
mod lexer;
mod literal;
mod names;
mod parser;
pub mod plan;
mod prepare;
mod replication;
mod restrictions;
mod selection;
mod table_options;
mod types;

pub use plan::{Plan, Prepared, Statement};

use model::{Failure, Schema};

/// Longest statement text, bytes.
pub const STATEMENT_BYTES_MAX: usize = 1 << 20;
/// Most relations in a WHERE clause.
pub const RELATIONS_MAX: usize = 100;
/// Deepest nesting of expressions and types.
pub const DEPTH_MAX: usize = 12;
/// Most arithmetic operators of one expression.
pub const OPERATORS_MAX: usize = 64;
/// Most columns of a table.
pub const COLUMNS_MAX: usize = 8192;
/// Longest text of an error, bytes; what quotes more of the statement is cut there.
pub const ERROR_BYTES_MAX: usize = 4096;
/// Most bind markers in a statement.
pub const MARKERS_MAX: usize = 65535;

/// Parses one statement (an optional `;` at the end). Fails with [`model::ErrorCode::Syntax`] and
/// `line L:C ...` of the offending token; what Helenus does not do yet fails with [`model::ErrorCode::Invalid`] and
/// names the feature.
pub fn parse(text: &str) -> Result<ast::Statement, Failure> {
    parser::parse(text).map_err(shortened)
}

/// Resolves a statement. `keyspace` is the session's (USE or the v5 field) for unqualified names. Fails with
/// Cassandra's codes and texts; what Helenus does not do yet fails with [`model::ErrorCode::Invalid`] and names the
/// feature.
pub fn prepare(statement: &ast::Statement, keyspace: Option<&str>, schema: &Schema) -> Result<Prepared, Failure> {
    prepare::prepare(statement, keyspace, schema).map_err(shortened)
}

/// Cuts an error that quotes a long literal or name.
fn shortened(mut failure: Failure) -> Failure {
    if failure.text.len() > ERROR_BYTES_MAX {
        let end = failure.text.floor_char_boundary(ERROR_BYTES_MAX);
        failure.text = format!("{}...", &failure.text[..end]).into();
    }
    failure
}
