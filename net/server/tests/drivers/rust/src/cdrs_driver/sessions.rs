//! What surrounds statements: traces, warnings, the schema, the ring, routing, many requests, encryption, logins.

use super::{Kind, Settings, World, parameters, rows};
use crate::options::Options;
use crate::patience::{eventually, restarted};
use cdrs_tokio::cluster::Murmur3Token;
use cdrs_tokio::cluster::topology::ReplicationStrategy;
use cdrs_tokio::consistency::Consistency;
use cdrs_tokio::frame::events::{SchemaChange, SchemaChangeOptions, SchemaChangeType, ServerEvent};
use cdrs_tokio::query_values;
use cdrs_tokio::types::prelude::{List, Row};
use cdrs_tokio::types::{AsRustType, ByName};
use std::collections::BTreeSet;
use std::net::IpAddr;
use uuid::Uuid;

const REQUESTS: i32 = 1_000;

/// The texts of a column with a set.
fn texts(row: &Row, column: &str) -> Vec<String> {
    row.r_by_name::<List>(column).expect("a set").as_r_type().expect("texts")
}

impl<K: Kind> World<K> {
    /// What a node has of traces, of which there are two replicas, if there are two nodes.
    async fn trace_rows(&self, statement: &str) -> Vec<Row> {
        let parameters = parameters().with_consistency(Consistency::One).build();
        rows(self.session.query_with_params(statement, parameters).await.expect("read"))
    }

    /// The node that took a traced request.
    async fn coordinator(&self, trace: Uuid) -> IpAddr {
        let select = format!("SELECT coordinator FROM system_traces.sessions WHERE session_id = {trace}");
        let mut coordinator = None;
        eventually("the trace is written", async || {
            let found = self.trace_rows(&select).await;
            coordinator = found.first().and_then(|row| row.by_name("coordinator").expect("an address"));
            coordinator.is_some()
        })
        .await;
        coordinator.expect("found")
    }

    pub(super) async fn tracing(&self) {
        self.define("CREATE TABLE traced (pk int PRIMARY KEY, v text)").await;
        let insert = self.prepare("INSERT INTO traced (pk, v) VALUES (?, ?)").await;
        let mut parameters = parameters().with_values(query_values!(1, "x")).build();
        parameters.tracing = true;
        let written = self.session.exec_with_params(&insert, &parameters).await.expect("written");
        let trace = written.tracing_id.expect("traced");
        let coordinator = self.coordinator(trace).await;
        assert!(self.settings.options.nodes.iter().any(|node| node.ip() == coordinator), "{coordinator}");
        let select = format!("SELECT activity FROM system_traces.events WHERE session_id = {trace}");
        eventually("the events of the trace are written", async || !self.trace_rows(&select).await.is_empty()).await;
        assert_eq!(self.query("SELECT * FROM traced").await.tracing_id, None);
    }

    pub(super) async fn warnings(&self) {
        self.define("CREATE TABLE warned (pk int PRIMARY KEY, v text)").await;
        let count = self.query("SELECT count(*) FROM warned").await;
        assert_eq!(count.warnings, ["Aggregation query used without partition key"]);
        assert!(self.query("SELECT * FROM warned").await.warnings.is_empty());
    }

    /// The driver knows keyspaces, and nothing of their tables.
    pub(super) async fn metadata(&self) {
        eventually("the driver knows the keyspace", async || {
            let metadata = self.session.cluster_metadata();
            metadata.keyspace(&self.keyspace).is_some_and(|keyspace| {
                let ReplicationStrategy::SimpleStrategy { replication_factor } = keyspace.replication_strategy else {
                    panic!("{keyspace:?}")
                };
                replication_factor == self.settings.options.replicas()
            })
        })
        .await;
    }

    pub(super) async fn events(&self) {
        let mut events = self.session.create_event_receiver();
        self.define("CREATE TABLE watched (pk int PRIMARY KEY, v int)").await;
        self.define("ALTER TABLE watched ADD w text").await;
        self.define("DROP TABLE watched").await;
        let options = SchemaChangeOptions::TableType(self.keyspace.clone(), "watched".into());
        let mut expected = vec![SchemaChangeType::Dropped, SchemaChangeType::Updated, SchemaChangeType::Created];
        while let Some(change_type) = expected.last() {
            let event = tokio::time::timeout(crate::patience::PATIENCE, events.recv()).await;
            let event = event.expect("an event in time").expect("an event");
            if let ServerEvent::SchemaChange(SchemaChange { change_type: found, options: of, .. }) = event
                && of == options
            {
                assert_eq!(found, *change_type);
                expected.pop();
            }
        }
    }

    /// What the driver knows of the nodes is what they say of themselves.
    pub(super) async fn ring(&self) {
        let metadata = self.session.cluster_metadata();
        let known: BTreeSet<IpAddr> = metadata.nodes().values().map(|node| node.broadcast_rpc_address().ip()).collect();
        assert_eq!(known, self.settings.options.nodes.iter().map(|node| node.ip()).collect());
        for select in
            ["SELECT host_id, rack, tokens FROM system.local", "SELECT host_id, rack, tokens FROM system.peers"]
        {
            // Both statements may go to different nodes: each says what is so.
            for row in self.rows(select).await {
                let id: Uuid = row.r_by_name("host_id").expect("an id");
                let node = metadata.find_node_by_host_id(&id).expect("the driver knows the node");
                assert_eq!(node.rack(), row.r_by_name::<String>("rack").expect("a rack"));
                let mut known: Vec<String> = node.tokens().iter().map(|token| token.value.to_string()).collect();
                let mut said = texts(&row, "tokens");
                known.sort();
                said.sort();
                assert_eq!(known, said);
            }
        }
    }

    /// Every request goes to the one node that has its key.
    pub(super) async fn routing(&self) {
        let keyspace = format!("{}_single", self.keyspace);
        self.define(&format!("DROP KEYSPACE IF EXISTS {keyspace}")).await;
        self.create_keyspace(&keyspace, 1).await;
        self.define(&format!("CREATE TABLE {keyspace}.routed (pk int PRIMARY KEY, v int)")).await;
        let insert = self.prepare(&format!("INSERT INTO {keyspace}.routed (pk, v) VALUES (?, ?)")).await;
        eventually("the driver knows the keyspace", async || {
            self.session.cluster_metadata().keyspace(&keyspace).is_some()
        })
        .await;
        let metadata = self.session.cluster_metadata();
        let mut nodes = BTreeSet::new();
        for pk in 0..30_i32 {
            let token = Murmur3Token::generate(&pk.to_be_bytes());
            let owner = metadata.token_map().nodes_for_token_capped(token, 1).next().expect("an owner");
            let mut parameters = parameters().with_values(query_values!(pk, pk)).build();
            parameters.tracing = true;
            let written = self.session.exec_with_params(&insert, &parameters).await.expect("written");
            let coordinator = self.coordinator(written.tracing_id.expect("traced")).await;
            assert_eq!(coordinator, owner.broadcast_rpc_address().ip(), "the node that took {pk}");
            nodes.insert(coordinator);
        }
        assert_eq!(nodes.len(), self.settings.options.nodes.len());
        self.define(&format!("DROP KEYSPACE {keyspace}")).await;
    }

    /// Every answer is its own, when a thousand requests share a connection to each node.
    pub(super) async fn thousand_at_once(&self) {
        self.define("CREATE TABLE many (pk int PRIMARY KEY, v text)").await;
        let insert = &self.prepare("INSERT INTO many (pk, v) VALUES (?, ?)").await;
        let select = &self.prepare("SELECT pk, v FROM many WHERE pk = ?").await;
        let value = |pk: i32| format!("{pk}:{}", "x".repeat(pk as usize % 251));
        let requests = (0..REQUESTS).map(async |pk| {
            self.execute(insert, query_values!(pk, value(pk))).await;
            let found = self.execute(select, query_values!(pk)).await;
            assert_eq!(found[0].r_by_name::<String>("v").expect("a text"), value(pk));
        });
        futures::future::join_all(requests).await;
    }

    /// The server says of the driver's connections what they are. The driver names itself from version 5 on.
    pub(super) async fn encryption(&self) {
        let select = "SELECT driver_name, username, ssl_enabled, ssl_protocol FROM system_views.clients";
        let Options { login, trust, .. } = &self.settings.options;
        // Connections of other sessions may be about to end.
        eventually("the server knows the connections", async || {
            let clients = self.rows(select).await;
            let text = |row: &Row, column| row.by_name::<String>(column).expect("a text");
            let is_own = |row: &&Row| text(row, "driver_name").is_none_or(|name| name == "cdrs-tokio");
            let mut own = clients.iter().filter(is_own).peekable();
            own.peek().is_some()
                && own.all(|row| {
                    let is_user =
                        login.as_ref().is_none_or(|login| text(row, "username").as_ref() == Some(&login.user));
                    let is_protocol = trust.is_none() || text(row, "ssl_protocol").as_deref() == Some("TLSv1.3");
                    is_user && is_protocol && row.r_by_name::<bool>("ssl_enabled").expect("a flag") == trust.is_some()
                })
        })
        .await;
    }

    /// What keeps a connection with other options from being made.
    async fn refusal_of(&self, options: Options) -> String {
        Settings { options, ..self.settings.clone() }.refused::<K>(None).await
    }

    /// Certificates of an authority that is not trusted, and such for other names.
    pub(super) async fn strangers_refused(&self) {
        let options = &self.settings.options;
        let trust = options.trust.as_ref().expect("an authority");
        let reason = self.refusal_of(options.trusting(trust.stranger())).await;
        assert!(reason.contains("UnknownIssuer"), "{reason}");
        let reason = self.settings.refused::<K>(Some("elsewhere")).await;
        assert!(reason.contains("not valid for name"), "{reason}");
    }

    pub(super) async fn logins_refused(&self) {
        let options = &self.settings.options;
        let login = options.login.as_ref().expect("a login");
        let reason = self.refusal_of(options.with_login(Some(login.wrong()))).await;
        let text = format!("Provided username {} and/or password are incorrect", login.user);
        assert!(reason.contains(&text), "{reason}");
        let reason = self.refusal_of(options.with_login(None)).await;
        assert!(reason.contains("No authenticator was provided"), "{reason}");
    }

    /// The session finds the server again by itself.
    pub(super) async fn restart(&self) {
        self.define("CREATE TABLE restarted (pk int PRIMARY KEY, v int)").await;
        let insert = self.prepare("INSERT INTO restarted (pk, v) VALUES (?, ?)").await;
        let select = self.prepare("SELECT v FROM restarted WHERE pk = ?").await;
        self.execute(&insert, query_values!(1, 2)).await;
        restarted().await;
        eventually("a read after the restart", async || {
            let found = self.try_execute(&select, query_values!(1)).await;
            found.is_ok_and(|found| found[0].r_by_name::<i32>("v").is_ok_and(|v| v == 2))
        })
        .await;
        self.execute(&insert, query_values!(1, 3)).await;
        let read = self.session.exec_with_params(&select, &parameters().with_values(query_values!(1)).build()).await;
        assert_eq!(rows(read.expect("read"))[0].r_by_name::<i32>("v").expect("a number"), 3);
    }
}
