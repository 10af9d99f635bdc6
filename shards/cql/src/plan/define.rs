//! Plans of definitions and of DESCRIBE.

use crate::ast::Definition;
use std::sync::Arc;

/// A definition with the keyspace that it is about. Checked against the schema when it runs; see
/// [`crate::define::apply`].
#[derive(Clone, PartialEq, Debug)]
pub struct Define {
    /// The keyspace that it changes or makes.
    pub keyspace: String,
    /// What it says.
    pub definition: Arc<Definition>,
}

/// DESCRIBE.
#[derive(Clone, PartialEq, Debug)]
pub struct Describe {
    /// What.
    pub target: DescribeTarget,
    /// WITH INTERNALS.
    pub internals: bool,
    /// The session's keyspace.
    pub session_keyspace: Option<String>,
}

/// What DESCRIBE describes. Names are checked when it runs.
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
