//! What surrounds statements: traces, warnings, the schema, the ring, routing, many requests, encryption, logins.

use super::{World, builder, run, typed};
use crate::options::Options;
use crate::patience::{eventually, restarted};
use scylla::client::PoolSize;
use scylla::cluster::metadata::{ColumnKind, PeriodicFetchMode, Strategy};
use scylla::statement::Statement;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::time::Duration;

const REQUESTS: i32 = 1_000;

/// What keeps a session with other options from being made.
async fn refusal(options: &Options) -> String {
    format!("{:?}", builder(options, None).build().await.expect_err("refused"))
}

impl World<'_> {
    pub(super) async fn tracing(&self) {
        self.run("CREATE TABLE traced (pk int PRIMARY KEY, v text)").await;
        let text = "INSERT INTO traced (pk, v) VALUES (?, ?)";
        let mut insert = self.prepare(text).await;
        insert.set_tracing(true);
        let mut select = Statement::new("SELECT * FROM traced WHERE pk = 1");
        select.set_tracing(true);
        let written = self.session.execute_unpaged(&insert, (1, "x")).await.expect("written");
        let read = self.session.query_unpaged(select.clone(), &[]).await.expect("read");
        let requests =
            [(written, "Execute CQL3 prepared query", text), (read, "Execute CQL3 query", select.contents.as_str())];
        for (result, kind, query) in requests {
            let trace = self.session.get_tracing_info(&result.tracing_id().expect("traced")).await.expect("a trace");
            assert_eq!(trace.request.as_deref(), Some(kind));
            assert_eq!(trace.coordinator, Some(result.request_coordinator().node().address.ip()));
            assert_eq!(trace.parameters.expect("parameters").get("query").map(String::as_str), Some(query));
            assert!(trace.duration.is_some() && !trace.events.is_empty());
        }
        assert_eq!(self.run("SELECT * FROM traced").await.tracing_id(), None);
    }

    pub(super) async fn warnings(&self) {
        self.run("CREATE TABLE warned (pk int PRIMARY KEY, v text)").await;
        let count = self.run("SELECT count(*) FROM warned").await;
        assert_eq!(count.warnings().collect::<Vec<_>>(), ["Aggregation query used without partition key"]);
        assert_eq!(self.run("SELECT * FROM warned").await.warnings().count(), 0);
    }

    pub(super) async fn metadata(&self) {
        self.run("CREATE TYPE described_type (a int, b frozen<list<text>>)").await;
        let columns = "a int, b text, c timeuuid, s int static, v frozen<described_type>, PRIMARY KEY ((a, b), c)";
        self.run(&format!("CREATE TABLE described ({columns})")).await;
        self.session.refresh_metadata().await.expect("refreshed");
        let state = self.session.get_cluster_state();
        let keyspace = state.get_keyspace(&self.keyspace).expect("the keyspace");
        let Strategy::SimpleStrategy { replication_factor } = keyspace.strategy else { panic!("another strategy") };
        assert_eq!(replication_factor, self.options.replicas());
        let table = &keyspace.tables["described"];
        assert_eq!((table.partition_key.join(","), table.clustering_key.join(",")), ("a,b".into(), "c".into()));
        let kind = |name: &str| &table.columns[name].kind;
        assert_eq!(table.columns.len(), 5);
        assert_eq!((kind("s"), kind("v")), (&ColumnKind::Static, &ColumnKind::Regular));
        let described = &keyspace.user_defined_types["described_type"];
        assert_eq!(described.field_types.iter().map(|(name, _)| name.as_ref()).collect::<Vec<_>>(), ["a", "b"]);
    }

    /// One session sees what another changes, by events: it reads the keyspaces that they have named, and no others.
    pub(super) async fn events(&self) {
        let watching = self.builder().periodic_metadata_fetch_mode(PeriodicFetchMode::AffectedKeyspaces);
        let watching = watching.cluster_metadata_refresh_interval(Duration::from_millis(100)).build().await;
        let watching = watching.expect("a session");
        let sees = async |columns: Option<usize>| {
            let state = watching.get_cluster_state();
            let table = state.get_keyspace(&self.keyspace).and_then(|keyspace| keyspace.tables.get("watched"));
            table.map(|table| table.columns.len()) == columns
        };
        self.run("CREATE TABLE watched (pk int PRIMARY KEY, v int)").await;
        eventually("the table is seen", async || sees(Some(2)).await).await;
        self.run("ALTER TABLE watched ADD w text").await;
        eventually("its new column is seen", async || sees(Some(3)).await).await;
        self.run("DROP TABLE watched").await;
        eventually("the table is seen no more", async || sees(None).await).await;
    }

    /// What the driver knows of the nodes is what they say of themselves.
    pub(super) async fn ring(&self) {
        let state = self.session.get_cluster_state();
        let known: BTreeSet<String> = state.get_nodes_info().iter().map(|node| node.address.ip().to_string()).collect();
        let asked: BTreeSet<String> = self.options.nodes.iter().map(|node| node.ip().to_string()).collect();
        assert_eq!(known, asked);
        for node in state.get_nodes_info() {
            assert!(node.datacenter.is_some() && node.rack.is_some() && node.is_connected(), "{node:?}");
        }
        let tokens = |rows: Vec<(Vec<String>,)>| rows.into_iter().flat_map(|(tokens,)| tokens).collect::<Vec<_>>();
        let mut said = tokens(self.rows("SELECT tokens FROM system.local").await);
        if self.options.nodes.len() == 1 {
            let mut known: Vec<String> =
                state.replica_locator().ring().iter().map(|(token, _)| token.value().to_string()).collect();
            known.sort();
            said.sort();
            assert_eq!(known, said);
        }
        assert_eq!(state.replica_locator().ring().len(), said.len() * self.options.nodes.len());
        assert!(self.session.check_schema_agreement().await.expect("asked").is_some());
    }

    /// Every request goes to the one node that has its key, and there to the core that owns it.
    pub(super) async fn routing(&self) {
        let keyspace = format!("{}_single", self.keyspace);
        let session = &self.session;
        self.run(&format!("DROP KEYSPACE IF EXISTS {keyspace}")).await;
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        self.run(&format!("CREATE KEYSPACE {keyspace} WITH replication = {replication}")).await;
        self.run(&format!("CREATE TABLE {keyspace}.routed (pk int PRIMARY KEY, v int)")).await;
        let insert = self.prepare(&format!("INSERT INTO {keyspace}.routed (pk, v) VALUES (?, ?)")).await;
        // The driver opens the connections to the other cores after the session is made.
        eventually("every request goes where its key is", async || {
            let state = session.get_cluster_state();
            let (mut astray, mut nodes, mut cores) = (0, BTreeSet::new(), BTreeSet::new());
            for pk in 0..60 {
                let token = insert.calculate_token(&(pk, pk)).expect("values").expect("a token");
                let replicas = state.get_token_endpoints(&keyspace, "routed", token);
                let [(replica, core)] = &replicas[..] else { panic!("{replicas:?}") };
                let result = session.execute_unpaged(&insert, (pk, pk)).await.expect("written");
                let coordinator = result.request_coordinator();
                let is_core = coordinator.shard().is_none_or(|shard| shard == *core);
                astray += i32::from(coordinator.node().host_id != replica.host_id || !is_core);
                nodes.insert(replica.host_id);
                cores.insert(coordinator.shard());
            }
            assert_eq!(nodes.len(), self.options.nodes.len());
            let sharder = state.get_nodes_info()[0].sharder();
            astray == 0 && cores.len() == sharder.map_or(1, |sharder| usize::from(sharder.nr_shards.get()))
        })
        .await;
        assert_eq!(self.rows::<(i64,)>(&format!("SELECT count(*) FROM {keyspace}.routed")).await, [(60,)]);
        self.run(&format!("DROP KEYSPACE {keyspace}")).await;
    }

    /// Every answer is its own, when a thousand requests share a connection to each node.
    pub(super) async fn thousand_at_once(&self) {
        self.run("CREATE TABLE many (pk int PRIMARY KEY, v text)").await;
        let one = PoolSize::PerHost(NonZeroUsize::MIN);
        let session = self.builder().pool_size(one).disallow_shard_aware_port(true).use_keyspace(&self.keyspace, false);
        let session = session.build().await.expect("a session");
        let insert = session.prepare("INSERT INTO many (pk, v) VALUES (?, ?)").await.expect("prepared");
        let select = session.prepare("SELECT pk, v FROM many WHERE pk = ?").await.expect("prepared");
        let value = |pk: i32| format!("{pk}:{}", "x".repeat(pk as usize % 251));
        let requests = (0..REQUESTS).map(async |pk| {
            session.execute_unpaged(&insert, (pk, value(pk))).await.expect("written");
            let found = session.execute_unpaged(&select, (pk,)).await.expect("read");
            assert_eq!(typed::<(i32, String)>(found), [(pk, value(pk))]);
        });
        futures::future::join_all(requests).await;
    }

    /// The server says of the driver's connections what they are.
    pub(super) async fn encryption(&self) {
        type Client = (Option<String>, Option<String>, Option<bool>, Option<String>);
        let select = "SELECT driver_name, username, ssl_enabled, ssl_protocol FROM system_views.clients";
        // Connections of other sessions may be about to end.
        eventually("the server knows the connections", async || {
            let clients = self.rows::<Client>(select).await;
            let mut own =
                clients.iter().filter(|client| client.0.as_ref().is_some_and(|name| name.contains("Rust"))).peekable();
            own.peek().is_some()
                && own.all(|(_, user, encrypted, protocol)| {
                    let login = self.options.login.as_ref();
                    let is_user = login.is_none_or(|login| user.as_ref() == Some(&login.user));
                    let is_encrypted = self.options.trust.is_some();
                    let is_protocol = !is_encrypted || protocol.as_deref() == Some("TLSv1.3");
                    is_user && *encrypted == Some(is_encrypted) && is_protocol
                })
        })
        .await;
    }

    /// Certificates of an authority that is not trusted, and such for other addresses.
    pub(super) async fn strangers_refused(&self) {
        let trust = self.options.trust.as_ref().expect("an authority");
        let reason = refusal(&self.options.trusting(trust.stranger())).await;
        assert!(reason.contains("UnknownIssuer"), "{reason}");
        if !trust.names_match {
            let reason = refusal(&self.options.trusting(trust.insisting_on_names())).await;
            assert!(reason.contains("NotValidForName"), "{reason}");
        }
    }

    pub(super) async fn logins_refused(&self) {
        let login = self.options.login.as_ref().expect("a login");
        let reason = refusal(&self.options.with_login(Some(login.wrong()))).await;
        let text = format!("Provided username {} and/or password are incorrect", login.user);
        assert!(reason.contains(&text), "{reason}");
        let reason = refusal(&self.options.with_login(None)).await;
        assert!(reason.contains("MissingAuthentication"), "{reason}");
    }

    /// The session finds the server again by itself.
    pub(super) async fn restart(&self) {
        run(&self.session, "CREATE TABLE restarted (pk int PRIMARY KEY, v int)").await;
        let insert = self.prepare("INSERT INTO restarted (pk, v) VALUES (?, ?)").await;
        let select = self.prepare("SELECT v FROM restarted WHERE pk = ?").await;
        self.session.execute_unpaged(&insert, (1, 2)).await.expect("written");
        restarted().await;
        eventually("a read after the restart", async || {
            let found = self.session.execute_unpaged(&select, (1,)).await;
            found.is_ok_and(|found| typed::<(i32,)>(found) == [(2,)])
        })
        .await;
        self.session.execute_unpaged(&insert, (1, 3)).await.expect("written by a statement from before");
    }
}
