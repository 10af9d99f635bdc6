//! The Rust driver against the real binary, as applications use it.

mod schema;
mod sessions;
mod statements;
mod values;

use crate::node::Node;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::deserialize::row::DeserializeRow;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::response::query_result::QueryResult;
use tempfile::TempDir;

/// A node of two cores on an empty directory, and a session in its keyspace `d`. The node is killed on drop.
struct Served {
    session: Session,
    node: Node,
    _directory: TempDir,
}

impl Served {
    /// Starts the node on an address that no other test uses, and makes the tables.
    async fn start(address: &'static str, tables: &[&str]) -> Served {
        let directory = tempfile::tempdir().expect("a directory");
        let node = Node::start(address, directory.path(), &["--cores", "2"]);
        let session = builder(&node).build().await.expect("a session");
        create_keyspace(&session).await;
        session.use_keyspace("d", false).await.expect("the keyspace is there");
        for table in tables {
            run(&session, table).await;
        }
        Served { session, node, _directory: directory }
    }

    /// Stops the node in order.
    fn stop(self) {
        drop(self.session);
        assert_eq!(self.node.stop(), Some(0));
    }
}

fn builder(node: &Node) -> SessionBuilder {
    SessionBuilder::new().known_node(format!("{}:9042", node.address))
}

async fn create_keyspace(session: &Session) {
    run(session, "CREATE KEYSPACE d WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").await;
}

async fn run(session: &Session, statement: &str) -> QueryResult {
    session.query_unpaged(statement, &[]).await.unwrap_or_else(|error| panic!("{statement}: {error}"))
}

/// The rows of a result, each of which must have the type.
fn typed<R: for<'frame> DeserializeRow<'frame, 'frame>>(result: QueryResult) -> Vec<R> {
    let result = result.into_rows_result().expect("rows");
    result.rows().expect("rows of the type").map(|row| row.expect("a row of the type")).collect()
}

async fn rows<R: for<'frame> DeserializeRow<'frame, 'frame>>(session: &Session, statement: &str) -> Vec<R> {
    typed(run(session, statement).await)
}

/// The error and the text with which the node refused a request.
fn refusal<T>(result: Result<T, ExecutionError>) -> (DbError, String) {
    match result.err().expect("refused") {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, text)) => (error, text),
        other => panic!("no answer of the node: {other}"),
    }
}
