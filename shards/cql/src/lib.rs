//! The CQL language: from a statement's text to a plan that needs only the values of its markers.
//!
//! 1. [`parse`] turns text into a statement as written ([`ast`]), or gives an error with line and column.
//! 2. [`prepare()`] resolves the statement against a schema: names to columns, markers to types, WHERE to restrictions
//!    of keys. The result is a [`plan::Prepared`].
//! 3. [`plan::Term::evaluate`] gives the bytes of one term for one set of bound values.
//!
//! Beside this path:
//! * [`define::apply`] applies CREATE, ALTER and DROP to a schema.
//! * [`conditions`] evaluates IF, [`functions`] the built-in functions and aggregates, [`guardrails`] the operator's
//!   limits.
//!
//! Invariants: no I/O, no clock and no randomness of its own ([`plan::EvaluationContext`] supplies them); error codes
//! and texts are Cassandra's; every limit on a statement's size is a constant of this crate, and no statement makes it
//! panic.
//!
//! What is not here: executing plans and making schema changes durable (crate `shard`).

pub mod ast;
pub mod conditions;
pub mod define;
mod errors;
pub mod functions;
pub mod guardrails;
pub mod java_order;
mod lexer;
mod limits;
mod literal;
mod names;
mod parser;
pub mod plan;
mod prepare;
mod resolver;
mod restrictions;
mod script;
mod secrets;
mod selection;
mod types;

pub use limits::{
    CALL_DEPTH_MAX, COLUMNS_MAX, DEPTH_MAX, ERROR_BYTES_MAX, LETS_MAX, MARKERS_MAX, OPERATORS_MAX, RELATIONS_MAX,
    STATEMENT_BYTES_MAX, TYPE_PARTS_MAX,
};
pub use plan::{Plan, Prepared, Statement};
pub use script::statements_of;
pub use secrets::{with_masked_passwords, without_passwords};

use errors::shortened;
use model::{Failure, Schema};
use resolver::Author;

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
    prepare::prepare(statement, keyspace, schema, Author::Client).map_err(shortened)
}

/// Resolves a statement that this program has written itself, which may modify tables of system keyspaces. Fails as
/// [`prepare()`] does.
pub fn prepare_own(statement: &ast::Statement, schema: &Schema) -> Result<Prepared, Failure> {
    prepare::prepare(statement, None, schema, Author::Node).map_err(shortened)
}
