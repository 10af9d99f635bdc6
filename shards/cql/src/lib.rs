//! The CQL language: from a statement's text to a plan that needs only the values of its markers.
//!
//! 1. [`parse`] turns text into a statement as written ([`ast`]), or gives an error with line and column.
//! 2. [`prepare()`] resolves the statement against a schema: names to columns, markers to types, WHERE to restrictions
//!    of keys. The result is a [`plan::Prepared`].
//! 3. [`plan::Term::evaluate`] gives the bytes of one term for one set of bound values.
//! * [`define::apply`] applies CREATE, ALTER and DROP to a schema.
//! * [`conditions`] evaluates IF, [`functions`] the built-in functions and aggregates, [`guardrails`] the operator's
//!   limits.
//! | Invariants: no I/O, no clock and no randomness of its own ([`plan::EvaluationContext`] supplies them); error codes
//! and texts are Cassandra's; every limit on a statement's size is a constant of this crate, and no statement makes it
//! panic.
//!
//! What is not here: executing plans and making schema changes durable (crate `shard`).

pub mod ast;
pub mod compaction_options;
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

/// Parses one statement, with an optional `;` at the end. Fails with [`model::ErrorCode::Syntax`] and the `line L:C
/// ...` of the offending token, or, for a feature that Helenus does not have, with [`model::ErrorCode::Invalid`] and
/// the feature's name.
pub fn parse(text: &str) -> Result<ast::Statement, Failure> {
    parser::parse(text).map_err(shortened)
}

/// Resolves a statement. `keyspace` is the session's (from USE or the field of protocol v5) and counts for names
/// without one. Fails with Cassandra's codes and texts, or, for a feature that Helenus does not have, with
/// [`model::ErrorCode::Invalid`] and the feature's name.
pub fn prepare(statement: &ast::Statement, keyspace: Option<&str>, schema: &Schema) -> Result<Prepared, Failure> {
    prepare::prepare(statement, keyspace, schema).map_err(shortened)
}

/// Cuts the text of an error that quotes a long literal or name.
fn shortened(mut failure: Failure) -> Failure {
    if failure.text.len() > ERROR_BYTES_MAX {
        let end = failure.text.floor_char_boundary(ERROR_BYTES_MAX);
        failure.text = format!("{}...", &failure.text[..end]).into();
    }
    failure
}
