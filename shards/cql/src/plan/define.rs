//! Plans of schema changes and of DESCRIBE.

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

/// The object of a DESCRIBE. Names are checked when it runs.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "as in CQL")]
pub enum DescribeTarget {
    Cluster,
    Keyspaces,
    Tables,
    Types,
    Functions,
    Aggregates,
    Schema { full: bool },
    Keyspace { name: Option<String>, only: bool },
    Table { keyspace: Option<String>, name: String },
    Type { keyspace: Option<String>, name: String },
    Function { keyspace: Option<String>, name: String },
    Aggregate { keyspace: Option<String>, name: String },
    Index { keyspace: Option<String>, name: String },
    MaterializedView { keyspace: Option<String>, name: String },
    Any { keyspace: Option<String>, name: String },
}
