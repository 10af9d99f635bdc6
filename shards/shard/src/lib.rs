//! The actors. A [`Shard`] is one core's store, schema, statements and tasks; it executes requests of the connections
//! attached to it and serves messages of its sister cores.
//!
//! A request: find its plan (`planning`), evaluate its values (`execute`), ask the coordinator for the core that owns
//! the partition (`coordinator`): the own one is a plain call (`replica`), another one a message (`messages`,
//! `mailbox`, `dispatch`).
//!
//! Modules, from the bottom up; each imports only those before it:
//! 1. Nouns: `verbs`, `rows`, `ports`, `roles`, `request`, `guards`, `config`, `paxos`, `schema`, `describe`,
//!    `metrics`, `query_trace`, `statements`.
//! 2. `messages` own their payloads; `mailbox` carries them between cores; `peer` has their form between nodes.
//! 3. `shard_state`: the actor, made of parts with their own state.
//! 4. `replica`: reading and writing what this core owns. `coordinator`: finding the core that owns it,
//!    acknowledgements.
//! 5. `operations` of operators and background tasks; `repair` of replicas; `stream`: data from other nodes;
//!    `planning` of statements; `definitions` (DDL, TRUNCATE);
//!    `virtual_tables`; `execute`: running CQL statements; `metadata`: this node's part in what the cluster agrees on.
//! 6. `dispatch`: messages in, and what serves them. `start`: starting all cores together.
//!
//! Invariants: the state of a shard is reached by its own tasks only; a message is the only way in. Tables with
//! LocalStrategy live on shard 0; DDL runs one at a time on shard 0.

mod config;
mod coordinator;
mod definitions;
mod describe;
mod dispatch;
mod execute;
mod guards;
mod mailbox;
mod messages;
mod metadata;
pub mod metrics;
mod operations;
mod paxos;
mod peer;
mod planning;
mod ports;
mod query_trace;
mod repair;
mod replica;
mod request;
mod roles;
mod rows;
mod schema;
mod shard_state;
mod start;
mod start_error;
mod statements;
mod stream;
mod verbs;
mod virtual_tables;

pub use cluster::repair::session::SessionState;
pub use config::{
    AccessOptions, Authenticator, CidrMode, Config, HintOptions, ReplaceAddress, StreamOptions, Timeouts,
};
pub use cql::{with_masked_passwords, without_passwords};
pub use engine::RepairSet;
pub use guards::alerts::{Alert, AlertKind};
pub use guards::batches::BatchThresholds;
pub use guards::disk_usage::DiskThresholds;
pub use guards::filtering::FilteringThresholds;
pub use guards::tombstones::TombstoneThresholds;
pub use mailbox::MAILBOX_MESSAGES_MAX;
pub use messages::Message;
pub use messages::admin::{HintChange, TableAnswer, TableVerb};
pub use messages::data::{DigestReply, FragmentRequest, ReadReply, ReadRequest};
pub use messages::streams::{StreamProgress, Throughput, ThroughputChange};
pub use metadata::leaving::{AbortedOperation, AgreementStatus, RingError};
pub use metadata::moving::RebuildRequest;
pub use metadata::tablet_requests::TabletsLeft;
pub use model::access::Cidr;
pub use operations::hints::PendingHints;
pub use operations::tablet_figures::ShownTablet;
pub use operations::{compaction_history, imports, snapshots};
pub use planning::facts::{StatementFacts, statement_facts};
pub use ports::{
    Activity, ChangeKind, ChangeTarget, Client, Notifier, Observation, RecentClient, SchemaChange, Served,
};
pub use ports::{
    LaneCounts, NoPeers, PeerCall, PeerFailure, PeerLane, PeerTraffic, Peers, Presence, PresenceCheck, TrafficCounts,
    Unreadable,
};
pub use query_trace::Trace;
pub use repair::{RepairAction, RepairHistory, RepairOrder, RepairOutcome, RepairProof, RepairTerms};
pub use replica::row_sink::RowBlockSink;
pub use request::{Answer, LoggedIn, PreparedAnswer, Response, Rows, Session};
pub use rows::block::RowBlock;
pub use schema::system_tables::is_hidden;
pub use shard_state::repair_sessions::{RepairSession, RepairSessions};
pub use shard_state::repairs::{RepairState, RepairStates};
pub use shard_state::{Shard, WeakShard};
pub use start_error::StartError;
pub use stream::{StreamError, StreamOperation, StreamPart, StreamPlan, StreamSummary};
pub use verbs::Verb;
pub use virtual_tables::settings::OLD_NAMES as OLD_SETTINGS;

pub use cluster::metadata::ClusterDescription;
pub use cluster::plan::BatchLogStrategy;
pub use cql::Prepared;
pub use cql::define::compaction_options;
pub use cql::guardrails;
pub use cql::guardrails::Guardrails;
pub use cql::statements_of;
pub use engine::compaction::{CompactionRecord, CompactionScope, CompactionStatistics, RunningCompaction, TaskKind};
pub use engine::{
    CacheMetrics, Component, Counts, Descriptor, Fault, FaultKind, FlushCompression, LoggedThreshold, LoggedThresholds,
    PendingRepair, SstableOptions, SyncMode, TableStatistics, Version,
};
pub use engine::{DataDirectories, directories_of, directory_of};

use messages::Request;
use metrics::running::{Task, watched};
use model::fragment_block::FragmentBlock;
use model::{BatchEntry, BatchKind, Failure, QueryParameters};
use runtime::ShardId;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use uuid::Uuid;

impl Shard {
    /// Starts the current core's actor: replays its log, loads the schema, serves its sister cores. Returns when all
    /// shards of the node are ready to serve. At the first start shard 0 makes the node's identity. The node is alone
    /// until [`Shard::switch_topology`] tells it of others, which it asks through `peers`.
    pub async fn start(
        config: Config,
        mesh: runtime::Mesh<Message>,
        notifier: Rc<dyn Notifier>,
        peers: Rc<dyn Peers>,
    ) -> Result<Shard, StartError> {
        start::start(config, mesh, notifier, peers).await
    }

    /// Logs a client in that has the name of a role and a password.
    ///
    /// # Errors
    /// Bad credentials, with Cassandra's texts.
    pub async fn log_in(&self, address: IpAddr, name: &str, password: &str) -> Result<LoggedIn, Failure> {
        let _pass = self.enter()?;
        Box::pin(execute::access::login::log_in(self, address, name, password)).await
    }

    /// Logs a client in whose certificate has an identity.
    ///
    /// # Errors
    /// Bad credentials, with Cassandra's texts.
    pub async fn log_in_by_certificate(&self, address: IpAddr, identity: String) -> Result<LoggedIn, Failure> {
        let _pass = self.enter()?;
        Box::pin(execute::access::login::log_in_by_certificate(self, address, identity)).await
    }

    /// Makes the role `cassandra` with that password, if there are no roles.
    pub async fn make_default_superuser(&self) -> Result<(), Failure> {
        let _pass = self.enter()?;
        Box::pin(execute::access::login::make_default_superuser(self)).await
    }

    /// Whether there is a role at all.
    pub async fn has_roles(&self) -> Result<bool, Failure> {
        let _pass = self.enter()?;
        Box::pin(execute::access::login::has_roles(self)).await
    }

    /// Makes a role a superuser with a password, on behalf of the operator of the machine.
    pub async fn make_superuser(&self, name: &str, password: &str) -> Result<(), Failure> {
        let _pass = self.enter()?;
        Box::pin(execute::access::login::make_superuser(self, name, password)).await
    }

    /// The groups of addresses, with their ranges.
    pub async fn cidr_groups(&self) -> Result<BTreeMap<String, Vec<Cidr>>, Failure> {
        let _pass = self.enter()?;
        Box::pin(execute::access::cidrs::groups(self)).await
    }

    /// Makes a group of addresses of these ranges, whatever it was before.
    ///
    /// # Errors
    /// All groups together would have too many ranges; the failures of writes.
    pub async fn set_cidr_group(&self, name: &str, ranges: &[Cidr]) -> Result<(), Failure> {
        let _pass = self.enter()?;
        Box::pin(execute::access::cidrs::set_group(self, name, ranges)).await
    }

    /// Drops a group of addresses; whether there was one.
    pub async fn drop_cidr_group(&self, name: &str) -> Result<bool, Failure> {
        let _pass = self.enter()?;
        Box::pin(execute::access::cidrs::drop_group(self, name)).await
    }

    /// The groups of an address.
    pub async fn cidr_groups_of(&self, address: IpAddr) -> Result<Vec<String>, Failure> {
        let _pass = self.enter()?;
        let table = Box::pin(execute::access::cidrs::table(self)).await?;
        Ok(table.of(address).into_iter().flatten().cloned().collect())
    }

    /// How often which groups of addresses were let in, by Cassandra's names.
    pub async fn cidr_accesses(&self) -> Result<BTreeMap<String, u64>, Failure> {
        self.cidr_counts().await
    }

    /// How long it took to look after addresses of clients, on all cores.
    pub async fn cidr_latencies(&self) -> Result<[(metrics::CidrLatency, metrics::Distribution); 3], Failure> {
        self.cidr_times().await
    }

    /// Has this core keep what it reads of roles as `options` say from now on.
    pub fn limit_role_caches(&self, options: &AccessOptions) {
        self.roles().limit(options.validity(), options.update_interval(), options.entries_max());
    }

    /// Has all cores of this node read roles and groups of addresses again.
    pub async fn reload_cidr_groups(&self) {
        self.roles().count_reload();
        self.forget_roles_here().await;
    }

    /// Forgets what this node has read of roles, on all its cores.
    pub async fn forget_roles(&self) {
        self.forget_roles_here().await;
    }

    /// Runs a QUERY.
    pub async fn query(
        &self,
        session: &Session,
        text: &str,
        parameters: &QueryParameters<'_>,
    ) -> Result<Answer, Failure> {
        let _pass = self.enter()?;
        let served = pin!(execute::query(self, session, text, parameters));
        watched(self.metrics(), served, || Task::query(text, parameters.page_size, parameters.consistency)).await
    }

    /// Prepares a statement: it is installed on all shards and durable on return.
    pub async fn prepare(
        &self,
        session: &Session,
        text: &str,
        keyspace: Option<&str>,
    ) -> Result<PreparedAnswer, Failure> {
        let _pass = self.enter()?;
        let served = pin!(planning::prepared::prepare(self, session, text, keyspace));
        watched(self.metrics(), served, || Task::prepare(text)).await
    }

    /// Runs a prepared statement.
    pub async fn execute(
        &self,
        session: &Session,
        id: &[u8],
        parameters: &QueryParameters<'_>,
    ) -> Result<Answer, Failure> {
        let _pass = self.enter()?;
        let served = pin!(execute::execute(self, session, id, parameters));
        watched(self.metrics(), served, || Task::execute(id, parameters.values.len(), parameters.consistency)).await
    }

    /// The text of a prepared statement; `None` if there is none with this id.
    pub async fn prepared_text(&self, id: &[u8]) -> Option<std::sync::Arc<str>> {
        planning::prepared::find(self, id).await.ok().map(|statement| statement.text.clone())
    }

    /// Runs a BATCH; `parameters.values` is empty.
    pub async fn batch(
        &self,
        session: &Session,
        kind: BatchKind,
        entries: &[BatchEntry<'_>],
        parameters: &QueryParameters<'_>,
    ) -> Result<Answer, Failure> {
        let _pass = self.enter()?;
        let served = pin!(execute::write::batch::message(self, session, kind, entries, parameters));
        watched(self.metrics(), served, || Task::batch(entries, parameters.consistency)).await
    }

    /// What this node has of a read, with the digests of what its cores saw: for comparing it with other replicas.
    pub async fn read_digests(&self, request: &ReadRequest) -> Result<Vec<DigestReply>, Failure> {
        let _pass = self.enter()?;
        coordinator::fragments::read_digests(self, request).await
    }

    /// What this node has of a read as fragments, a block of each core: for merging it with other replicas.
    pub async fn read_fragments(&self, request: &FragmentRequest) -> Result<Vec<FragmentBlock>, Failure> {
        let _pass = self.enter()?;
        coordinator::fragments::read_fragments(self, request).await
    }

    /// Fetches data from other nodes. To be called on shard 0. See [`StreamPlan`]; what came of an earlier call with
    /// the same id is not fetched again.
    ///
    /// # Errors
    /// See [`StreamError`].
    pub async fn fetch(&self, plan: StreamPlan) -> Result<StreamSummary, StreamError> {
        stream::fetch(self, plan).await
    }

    /// Forgets what is kept of a plan that has ended. To be called on shard 0.
    ///
    /// # Errors
    /// The disk's.
    pub async fn forget_fetched(&self, plan: Uuid) -> Result<(), StreamError> {
        stream::forget(self, plan).await
    }

    /// What is streamed to and from this node, and was lately, on all its cores.
    pub async fn stream_progress(&self) -> Result<Vec<StreamProgress>, Failure> {
        stream::progress(self).await
    }

    /// Sets a limit of what this node sends, on all its cores.
    pub async fn set_stream_throughput(&self, change: ThroughputChange) {
        self.call_all(|| Request::Stream(Box::new(messages::streams::StreamVerb::Change(change)))).await;
    }

    /// A limit of what this node sends, bytes per second; 0: no limit.
    pub fn stream_throughput(&self, which: Throughput) -> u64 {
        self.streams().rate(which)
    }

    /// Answers another node's request with the body of the answer. Must be polled to its end, because a write that has
    /// begun must run to its end.
    ///
    /// # Errors
    /// This node cannot serve it: the verb is none of this module, or the body does not decode.
    pub async fn serve_peer(&self, from: Uuid, verb: u8, body: Vec<u8>) -> Result<Vec<u8>, Unreadable> {
        tracing::trace!(%from, verb, "a request of another node");
        dispatch::peers::serve(self, verb, body).await
    }

    /// Stops: refuses new requests, waits for those under way, closes the store. All shards stop together.
    pub async fn stop(&self) -> Result<(), Failure> {
        self.drain().await;
        // Others may still ask this shard on behalf of their clients, until all have drained.
        self.call(ShardId(0), Request::Barrier("drained")).await.done()?;
        self.hints().stop().await;
        let closed = self.store().close().await;
        // Lets shard 0 send the answers of the barrier before its executor ends.
        runtime::yield_now().await;
        closed.map_err(|error| replica::failure(&self.schema(), None, error))
    }
}
