//! DESCRIBE.

use cql::plan::{ColumnSpec, Describe};
use model::{Failure, Schema};
use std::sync::Arc;

/// What DESCRIBE answers, all pages together.
pub(crate) struct Described {
    /// The columns.
    pub(crate) columns: Arc<[ColumnSpec]>,
    /// One encoded row each: per column `[int length][bytes]`.
    pub(crate) rows: Vec<Vec<u8>>,
}

/// Describes what `schema` holds.
pub(crate) fn describe(schema: &Schema, cluster_name: &str, describe: &Describe) -> Result<Described, Failure> {
    let _ = (schema, cluster_name, describe);
    todo!()
}
