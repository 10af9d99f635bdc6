//! What changes of the schema and prepared statements answer.

use crate::ports::SchemaChange;
use std::sync::Arc;

/// What a DDL statement did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Defined {
    /// What changed; `None`: nothing.
    pub change: Option<SchemaChange>,
    /// Client warnings.
    pub warnings: Vec<String>,
}

/// The keyspace and the text of a prepared statement.
pub(crate) type PreparedText = (Option<Arc<str>>, Arc<str>);
