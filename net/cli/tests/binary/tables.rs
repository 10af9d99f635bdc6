//! What several tests do with a table: statements through the Rust driver, and its directory.

use scylla::client::session::Session;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) async fn run(session: &Session, statements: &[&str]) {
    for statement in statements {
        session.query_unpaged(*statement, &[]).await.expect(statement);
    }
}

/// The number of rows of a table.
pub(crate) async fn count(session: &Session, table: &str) -> usize {
    let rows = session.query_unpaged(format!("SELECT * FROM {table}"), &[]).await.expect("rows");
    rows.into_rows_result().expect("rows").rows_num()
}

/// The directory of the table in a data directory whose name begins with `table`.
pub(crate) fn table_directory(data: &Path, keyspace: &str, table: &str) -> PathBuf {
    let entries = fs::read_dir(data.join("data").join(keyspace)).expect("a keyspace");
    let mut found = entries.map(|entry| entry.expect("an entry").path());
    let is_table = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(table));
    found.find(is_table).expect("a table")
}
