//! Plans of schema changes and of DESCRIBE.

pub use crate::ast::DescribeTarget;

use crate::ast::Definition;
use std::sync::Arc;

/// A schema change with the keyspace that it changes. It is checked against the schema when it runs, by
/// [`crate::define::apply`].
#[derive(Clone, PartialEq, Debug)]
pub struct Define {
    /// The keyspace that it changes or creates.
    pub keyspace: String,
    /// The statement.
    pub definition: Arc<Definition>,
}

/// A DESCRIBE.
#[derive(Clone, PartialEq, Debug)]
pub struct Describe {
    /// The described object.
    pub target: DescribeTarget,
    /// Whether WITH INTERNALS was given.
    pub internals: bool,
    /// The session's keyspace.
    pub session_keyspace: Option<String>,
}
