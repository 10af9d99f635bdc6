//! DESCRIBE.

use crate::Config;
use crate::schema::local::Identity;
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

/// Describes what `schema` holds; `config` and `identity` are for DESCRIBE CLUSTER.
pub(crate) fn describe(
    schema: &Schema,
    config: &Config,
    identity: &Identity,
    describe: &Describe,
) -> Result<Described, Failure> {
    let _ = (schema, config, identity, describe);
    todo!()
}
