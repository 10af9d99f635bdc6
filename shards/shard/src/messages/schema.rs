//! The answers to changes of the schema and to lookups of prepared statements.

use crate::ports::SchemaChange;
use std::sync::Arc;

/// The effect of a DDL statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Defined {
    /// What changed; `None` if nothing did.
    pub change: Option<SchemaChange>,
    /// Client warnings.
    pub warnings: Vec<String>,
}

/// The keyspace and the text of a prepared statement.
pub(crate) type PreparedText = (Option<Arc<str>>, Arc<str>);
