//! DDL and TRUNCATE on shard 0.

use crate::{SchemaChange, Shard};
use cql::plan::Define;
use model::{Failure, TableId};

/// Runs one DDL statement; `None`: nothing changed. Returns when every shard serves the new schema
/// (`Shard::call_all` with `Request::SwitchSchema`). Only one runs at a time.
pub(crate) async fn define(shard: &Shard, define: Define) -> Result<Option<SchemaChange>, Failure> {
    let _ = (shard, define);
    todo!()
}

/// Empties a table on every shard and records it.
pub(crate) async fn truncate(shard: &Shard, table: TableId) -> Result<(), Failure> {
    let _ = (shard, table);
    todo!()
}
