//! `scylla`, which knows version 4 of the protocol alone, and the cores of a node that names them.

mod sessions;
mod statements;
mod values;

use crate::options::{Options, Variant};
use scylla::client::Compression;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::deserialize::row::DeserializeRow;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::response::query_result::QueryResult;
use scylla::statement::prepared::PreparedStatement;

/// A session in a keyspace, which the checks share.
struct World<'a> {
    options: &'a Options,
    compression: Option<Compression>,
    keyspace: String,
    session: Session,
}

pub async fn walk(options: &Options, variant: &Variant) {
    assert_eq!(variant.version, "v4", "the driver has no other version");
    let world = World::open(options, variant).await;
    checks!(
        world,
        options,
        variant,
        [
            scalars,
            composites,
            nulls_and_unset,
            large_values,
            paging,
            paging_resumed,
            prepared_across_alter,
            prepared_across_drop,
            batches,
            conditional,
            counters,
            errors,
            tracing,
            warnings,
            metadata,
            events,
            ring,
            routing,
            thousand_at_once,
            encryption,
            strangers_refused,
            logins_refused,
            restart,
        ]
    );
    // By a new session: after a restart some connections of the old one may be gone.
    let last = world.builder().build().await.expect("a session");
    run(&last, &format!("DROP KEYSPACE {}", world.keyspace)).await;
}

fn builder(options: &Options, compression: Option<Compression>) -> SessionBuilder {
    let mut builder = SessionBuilder::new().known_nodes_addr(&options.nodes).compression(compression);
    builder = builder.tls_context(options.trust.as_ref().map(|trust| trust.config(trust.names_match)));
    if let Some(login) = &options.login {
        builder = builder.user(&login.user, &login.password);
    }
    builder
}

impl<'a> World<'a> {
    async fn open(options: &'a Options, variant: &Variant) -> World<'a> {
        let compression = match variant.compression.as_str() {
            "none" => None,
            "lz4" => Some(Compression::Lz4),
            "snappy" => Some(Compression::Snappy),
            other => panic!("no compression {other}"),
        };
        let session = builder(options, compression).build().await.expect("a session");
        let world = World { options, compression, keyspace: variant.keyspace(), session };
        let World { session, keyspace, .. } = &world;
        run(session, &format!("DROP KEYSPACE IF EXISTS {keyspace}")).await;
        let replication = format!("{{'class': 'SimpleStrategy', 'replication_factor': {}}}", options.replicas());
        run(session, &format!("CREATE KEYSPACE {keyspace} WITH replication = {replication}")).await;
        session.use_keyspace(keyspace, false).await.expect("the keyspace is there");
        world
    }

    fn builder(&self) -> SessionBuilder {
        builder(self.options, self.compression)
    }

    async fn run(&self, statement: &str) -> QueryResult {
        run(&self.session, statement).await
    }

    async fn rows<R: for<'frame> DeserializeRow<'frame, 'frame>>(&self, statement: &str) -> Vec<R> {
        typed(self.run(statement).await)
    }

    async fn prepare(&self, statement: &str) -> PreparedStatement {
        self.session.prepare(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"))
    }
}

async fn run(session: &Session, statement: &str) -> QueryResult {
    session.query_unpaged(statement, &[]).await.unwrap_or_else(|error| panic!("{statement}: {error}"))
}

/// The rows of a result, each of which must have the type.
fn typed<R: for<'frame> DeserializeRow<'frame, 'frame>>(result: QueryResult) -> Vec<R> {
    let result = result.into_rows_result().expect("rows");
    result.rows().expect("rows of the type").map(|row| row.expect("a row of the type")).collect()
}

/// The error and the text with which a node refused a request.
fn refusal<T>(result: Result<T, ExecutionError>) -> (DbError, String) {
    match result.err().expect("refused") {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, text)) => (error, text),
        other => panic!("no answer of a node: {other}"),
    }
}
