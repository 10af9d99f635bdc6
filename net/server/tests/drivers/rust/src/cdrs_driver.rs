//! `cdrs-tokio`, whose sessions with and without TLS have types of their own.

mod kinds;
mod sessions;
mod statements;
mod values;

use crate::options::{Options, Variant};
use crate::patience::eventually;
use cdrs_tokio::cluster::session;
use cdrs_tokio::compression::Compression;
use cdrs_tokio::consistency::Consistency;
use cdrs_tokio::error::{Error, Result};
use cdrs_tokio::frame::message_error::ErrorBody;
use cdrs_tokio::frame::{Envelope, Version};
use cdrs_tokio::load_balancing::TopologyAwareLoadBalancingStrategy;
use cdrs_tokio::query::{PreparedQuery, QueryValues};
use cdrs_tokio::statement::StatementParamsBuilder;
use cdrs_tokio::types::ByName;
use cdrs_tokio::types::prelude::Row;
use kinds::{Encrypted, Kind, Plain};
use std::collections::HashSet;
use uuid::Uuid;

type Strategy<K> = TopologyAwareLoadBalancingStrategy<<K as Kind>::Transport, <K as Kind>::Manager>;
type Session<K> = session::Session<<K as Kind>::Transport, <K as Kind>::Manager, Strategy<K>>;

/// What the driver must know before it connects.
#[derive(Clone)]
struct Settings {
    options: Options,
    version: Version,
    compression: Compression,
}

/// A session in a keyspace, which the checks share.
struct World<K: Kind> {
    settings: Settings,
    keyspace: String,
    session: Session<K>,
}

pub async fn walk(options: &Options, variant: &Variant) {
    let version = match variant.version.as_str() {
        "v4" => Version::V4,
        "v5" => Version::V5,
        other => panic!("no version {other}"),
    };
    let compression = match variant.compression.as_str() {
        "none" => Compression::None,
        "lz4" => Compression::Lz4,
        "snappy" => Compression::Snappy,
        other => panic!("no compression {other}"),
    };
    let settings = Settings { options: options.clone(), version, compression };
    match options.trust {
        Some(_) => walk_as::<Encrypted>(settings, variant).await,
        None => walk_as::<Plain>(settings, variant).await,
    }
}

async fn walk_as<K: Kind>(settings: Settings, variant: &Variant) {
    let world = World::<K>::open(settings, variant).await;
    checks!(
        world,
        world.settings.options,
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
    let World { settings, keyspace, session } = world;
    drop(session);
    let last = World::<K> { session: K::session(&settings, None).await, settings, keyspace };
    last.define(&format!("DROP KEYSPACE {}", last.keyspace)).await;
}

impl<K: Kind> World<K> {
    async fn open(settings: Settings, variant: &Variant) -> World<K> {
        let keyspace = variant.keyspace();
        let first = World::<K> { session: K::session(&settings, None).await, settings, keyspace };
        first.define(&format!("DROP KEYSPACE IF EXISTS {}", first.keyspace)).await;
        first.create_keyspace(&first.keyspace, first.settings.options.replicas()).await;
        let World { settings, keyspace, .. } = first;
        World { session: K::session(&settings, Some(&keyspace)).await, settings, keyspace }
    }

    async fn create_keyspace(&self, name: &str, replicas: usize) {
        let replication = format!("{{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}");
        self.define(&format!("CREATE KEYSPACE {name} WITH replication = {replication}")).await;
    }

    async fn try_query(&self, statement: &str) -> Result<Envelope> {
        self.session.query_with_params(statement, parameters().build()).await
    }

    async fn query(&self, statement: &str) -> Envelope {
        self.try_query(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    async fn rows(&self, statement: &str) -> Vec<Row> {
        rows(self.query(statement).await)
    }

    /// Changes the schema, and waits until the nodes agree about it, which the driver does not do by itself.
    async fn define(&self, statement: &str) {
        self.query(statement).await;
        eventually("the nodes agree about the schema", async || {
            let mut versions = HashSet::new();
            for table in ["system.local", "system.peers"] {
                for row in self.rows(&format!("SELECT schema_version FROM {table}")).await {
                    versions.insert(row.r_by_name::<Uuid>("schema_version").expect("a version"));
                }
            }
            versions.len() == 1
        })
        .await;
    }

    async fn prepare(&self, statement: &str) -> PreparedQuery {
        self.session.prepare(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    async fn try_execute(&self, statement: &PreparedQuery, values: QueryValues) -> Result<Vec<Row>> {
        let parameters = parameters().with_values(values).build();
        self.session.exec_with_params(statement, &parameters).await.map(rows)
    }

    async fn execute(&self, statement: &PreparedQuery, values: QueryValues) -> Vec<Row> {
        let query = &statement.query;
        self.try_execute(statement, values).await.unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    /// The error with which a node refused a statement.
    async fn refusal(&self, statement: &str) -> ErrorBody {
        match self.try_query(statement).await.expect_err("refused") {
            Error::Server { body, .. } => body,
            other => panic!("no answer of a node: {other}"),
        }
    }
}

/// Those of every statement: by itself the driver asks one replica.
fn parameters() -> StatementParamsBuilder {
    StatementParamsBuilder::new().with_consistency(Consistency::Quorum)
}

fn rows(answer: Envelope) -> Vec<Row> {
    answer.response_body().expect("a body").into_rows().unwrap_or_default()
}
