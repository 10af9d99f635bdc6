//! Prepared statements as rows of `system.prepared_statements`, so that clients can go on using their ids after a
//! restart.

use super::Error;
use super::cells::{RowReader, RowWriter, StoredRow};
use super::rows::system_table;
use model::row::Deletion;
use model::{Mutation, MutationBuilder, Schema};
use std::sync::Arc;

/// One stored statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoredStatement {
    /// The id by which clients execute it.
    pub(crate) id: [u8; 16],
    /// The keyspace in which it was prepared.
    pub(crate) keyspace: Option<Arc<str>>,
    pub(crate) text: Arc<str>,
}

/// The mutation that stores a statement. `timestamp` is in microseconds.
pub(crate) fn stored(schema: &Schema, statement: &StoredStatement, timestamp: i64) -> Mutation {
    let table = system_table(schema, "system", "prepared_statements");
    let mut mutation = MutationBuilder::new(schema.partitioner, &statement.id);
    RowWriter::new(table, &[], timestamp)
        .set_some("logged_keyspace", statement.keyspace.as_deref())
        .set("query_string", &*statement.text)
        .finish(mutation.table(table.id));
    mutation.finish()
}

/// The mutation that deletes a statement. `timestamp` is in microseconds.
pub(crate) fn forgotten(schema: &Schema, id: &[u8; 16], timestamp: i64, now_in_seconds: i64) -> Mutation {
    let table = system_table(schema, "system", "prepared_statements");
    let mut mutation = MutationBuilder::new(schema.partitioner, id);
    let deletion = Deletion { timestamp, local_deletion_time: now_in_seconds };
    mutation.table(table.id).delete_partition(deletion);
    mutation.finish()
}

/// Reads all stored statements.
pub(crate) fn load(schema: &Schema, rows: &[StoredRow]) -> Result<Vec<StoredStatement>, Error> {
    let table = system_table(schema, "system", "prepared_statements");
    let statement = |row: &StoredRow| {
        let reader = RowReader::new(table, row);
        Ok(StoredStatement {
            id: row.key.as_slice().try_into().map_err(|_| reader.malformed("prepared_id"))?,
            keyspace: reader.optional_text("logged_keyspace")?.map(Arc::from),
            text: reader.text("query_string")?.into(),
        })
    };
    rows.iter().map(statement).collect()
}
