//! Incremental repair: what was compared once is not compared again (Cassandra: consistent repair sessions).
//!
//! The coordinator, which takes part itself:
//! 1. [`Shard::begin_incremental`]: every participant sets the unrepaired data of the ranges apart, on all cores.
//! 2. What was set apart is compared, and made equal: [`Shard::repair`] of the set of the session alone. Rows that a
//!    replica lacks are added to its set.
//! 3. [`Shard::finish_incremental`]: every participant makes what was added durable and promises; then the coordinator
//!    decides by writing FINALIZED to its own `system.repairs`, and tells the others. The set becomes repaired.
//! 4. [`Shard::fail_incremental`], at any step before: the set is unrepaired again.
//!
//! A participant, on shard 0 ([`serve`]), writes each state to `system.repairs` before it answers. [`load`] gives up
//! what a restart has interrupted; [`keep`] runs beside: it asks the others what has become of sessions that nobody
//! goes on with, and repeats what could not be settled.
//!
//! Invariants: those of [`cluster::repair::session`]; what is set apart belongs to a session that is under way, or is
//! settled soon; reads see all sets at all times.

use crate::coordinator::remote::Asked;
use crate::messages::admin::{TableAnswer, TableVerb};
use crate::messages::repair::{SessionAsk, SessionRequest, SessionTerms};
use crate::schema::cells::{RowReader, RowWriter, StoredRow, read_all};
use crate::schema::local::inet;
use crate::schema::rows::system_table;
use crate::shard_state::Shard;
use crate::shard_state::repair_sessions::RepairSession;
use cluster::repair::session::{SessionState, SessionStep, decision};
use cluster::topology::{NodeIndex, features};
use model::{Failure, MutationBuilder, RingToken, Table, TableId, TokenRange};
use runtime::sync::{Either, join_all, race};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

/// How long a participant may take to set data apart.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(3600);
/// How long a participant may take for any other step.
const STEP_TIMEOUT: Duration = Duration::from_secs(600);
/// How long a participant may take to tell a state.
const STATE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a coordinator looks whether a participant that it waits for is alive.
const LIVENESS_PAUSE: Duration = Duration::from_secs(1);
/// How often a node looks after its sessions.
const KEEP_PAUSE: Duration = Duration::from_secs(10);
/// How long a session may rest before the others are asked about it, milliseconds.
const REST_MILLIS_MAX: i64 = 60_000;
/// How long a session may rest before it has failed, milliseconds: Cassandra's `repair_fail_timeout_seconds`.
const FAIL_MILLIS: i64 = 86_400_000;

/// The time, milliseconds since 1970.
fn now_millis() -> i64 {
    runtime::wall_micros().div_euclid(1000)
}

impl Shard {
    /// Begins a session of incremental repair with the nodes `others`: all set the unrepaired data of the tables in the
    /// ranges apart. It counts as repaired at `repaired_at`, milliseconds since 1970, in the end; if that is 0 the
    /// session compares and repairs, but leaves everything unrepaired. To be called on shard 0.
    ///
    /// # Errors
    /// A node is down or cannot; the session has failed then.
    pub async fn begin_incremental(
        &self,
        session: Uuid,
        others: &[Uuid],
        tables: &[TableId],
        ranges: &[TokenRange],
        repaired_at: i64,
    ) -> Result<(), Failure> {
        let topology = self.topology();
        if !topology.all_have(features::INCREMENTAL_REPAIRS) {
            let text = "Some nodes run a version without incremental repair; update them first, or use -full";
            return Err(Failure::invalid(text));
        }
        let coordinator = topology.node(topology.here()).address;
        let of_others = topology.nodes().iter().filter(|node| others.contains(&node.host_id));
        let mut participants: Vec<SocketAddr> = of_others.map(|node| node.address).collect();
        participants.push(coordinator);
        participants.sort_unstable();
        participants.dedup();
        let (tables, ranges) = (tables.to_vec(), ranges.to_vec());
        let terms = SessionTerms { coordinator, participants, repaired_at, tables, ranges };
        self.repair_sessions().lead(session, true);
        let ask = SessionAsk::Prepare(terms);
        // This node first: the others may ask it about the session from now on.
        let here = serve(self, SessionRequest { session, ask: ask.clone() }).await.map(drop);
        let done = match here {
            Ok(()) => self.tell(session, ask, PREPARE_TIMEOUT, SessionState::Prepared).await,
            failed => failed,
        };
        if done.is_err() {
            self.fail_incremental(session).await;
        }
        done
    }

    /// Ends a session well that [`Shard::begin_incremental`] began and whose replicas are equal. To be called on
    /// shard 0.
    ///
    /// # Errors
    /// A participant is down, or has lost what it was brought; the session has failed then.
    pub async fn finish_incremental(&self, session: Uuid) -> Result<(), Failure> {
        let promise = SessionAsk::Step(SessionStep::Promise);
        let promised = async {
            self.tell(session, promise.clone(), STEP_TIMEOUT, SessionState::FinalizePromised).await?;
            serve(self, SessionRequest { session, ask: promise.clone() }).await?;
            // The decision.
            serve(self, SessionRequest { session, ask: SessionAsk::Step(SessionStep::Commit) }).await
        };
        match promised.await {
            Ok(_) => {
                self.repair_sessions().lead(session, false);
                let commit = SessionAsk::Step(SessionStep::Commit);
                if let Err(failure) = self.tell(session, commit, STEP_TIMEOUT, SessionState::Finalized).await {
                    // Those that do not hear of it ask.
                    tracing::info!(%failure, %session, "a participant does not know yet that a repair has ended well");
                }
                Ok(())
            }
            Err(failure) => {
                self.fail_incremental(session).await;
                Err(failure)
            }
        }
    }

    /// Gives a session up. To be called on shard 0.
    pub async fn fail_incremental(&self, session: Uuid) {
        self.repair_sessions().lead(session, false);
        let fail = SessionAsk::Step(SessionStep::Fail);
        if let Err(failure) = serve(self, SessionRequest { session, ask: fail.clone() }).await {
            tracing::warn!(%failure, %session, "an incremental repair cannot be given up yet");
        }
        if let Err(failure) = self.tell(session, fail, STEP_TIMEOUT, SessionState::Failed).await {
            tracing::info!(%failure, %session, "a participant does not know yet that a repair has failed");
        }
    }

    /// Settles what is set apart on this node for sessions if they are over or not known. To be called on shard 0.
    ///
    /// # Errors
    /// The disk's.
    pub async fn settle_repairs(&self, sessions: &[Uuid]) -> Result<(), Failure> {
        for session in sessions {
            settle(self, *session).await?;
        }
        Ok(())
    }

    /// The address of this node, by which other participants know it.
    pub fn own_address(&self) -> SocketAddr {
        let topology = self.topology();
        topology.node(topology.here()).address
    }

    /// Asks the other participants of a session, all at once. Fails if one is not in the state `expected` then.
    async fn tell(
        &self,
        session: Uuid,
        ask: SessionAsk,
        timeout: Duration,
        expected: SessionState,
    ) -> Result<(), Failure> {
        let Some(known) = self.repair_sessions().get(session) else { return Ok(()) };
        let request = SessionRequest { session, ask };
        let own = self.own_address();
        let others = known.participants.iter().filter(|participant| **participant != own);
        let asked = others.map(|participant| self.ask_participant(*participant, &request, timeout));
        for answer in join_all(asked.collect()).await {
            match answer? {
                Some(state) if state == expected => {}
                _ => return Err(Failure::server(format!("Repair session {session} has failed on a participant"))),
            }
        }
        Ok(())
    }

    async fn ask_participant(
        &self,
        participant: SocketAddr,
        request: &SessionRequest,
        timeout: Duration,
    ) -> Result<Option<SessionState>, Failure> {
        let topology = self.topology();
        let found = topology.nodes().iter().position(|node| node.address == participant);
        let dead = || Failure::server(format!("Endpoint not alive: /{participant}"));
        let node = found.map(|at| NodeIndex(at as u16)).filter(|node| topology.live().contains(*node));
        let asked_node = node.ok_or_else(dead)?;
        let asked = Asked::new(&topology, asked_node, timeout).in_bulk();
        let dying = async {
            while topology.live().contains(asked_node) {
                runtime::sleep(LIVENESS_PAUSE).await;
            }
        };
        match race(std::pin::pin!(dying), std::pin::pin!(asked.session(self, request))).await {
            Either::Left(()) => Err(dead()),
            Either::Right(answer) => answer,
        }
    }
}

/// Does what is asked about a session on this node. Returns its state then. To be called on shard 0.
pub(crate) async fn serve(shard: &Shard, request: SessionRequest) -> Result<Option<SessionState>, Failure> {
    let SessionRequest { session, ask } = request;
    let state = |shard: &Shard| shard.repair_sessions().get(session).map(|known| known.state);
    match ask {
        SessionAsk::State => {}
        SessionAsk::Prepare(terms) => prepare(shard, session, terms).await?,
        SessionAsk::Step(step) => {
            let Some(before) = state(shard) else { return Ok(None) };
            if before.after(step).is_none() {
                return Ok(Some(before));
            }
            if step == SessionStep::Promise {
                shard.on_every_shard(TableVerb::KeepPending(session)).await?;
            }
            advance(shard, session, step).await?;
            if let Err(failure) = settle(shard, session).await {
                tracing::warn!(%failure, %session, "what a repair has set apart is not settled yet");
            }
        }
    }
    Ok(state(shard))
}

async fn prepare(shard: &Shard, session: Uuid, terms: SessionTerms) -> Result<(), Failure> {
    let sessions = shard.repair_sessions();
    if sessions.get(session).is_some() {
        return Err(Failure::server(format!("Repair session {session} exists already")));
    }
    if !sessions.has_room() {
        return Err(Failure::server("Too many repair sessions are under way"));
    }
    let now = now_millis();
    let known = RepairSession {
        state: SessionState::Preparing,
        coordinator: terms.coordinator,
        participants: terms.participants,
        tables: terms.tables.iter().map(|table| table.uuid()).collect(),
        ranges: terms.ranges.iter().map(|range| stored_range(shard, range)).collect(),
        repaired_at: terms.repaired_at,
        started_at: now,
        last_update: now,
    };
    put(shard, session, known).await?;
    let ranges: std::sync::Arc<[TokenRange]> = terms.ranges.into();
    let mut done = Ok(());
    for table in terms.tables {
        let set_apart = TableVerb::SetApart { table, ranges: ranges.clone(), session };
        done = shard.on_every_shard(set_apart).await.map(drop);
        if done.is_err() {
            break;
        }
    }
    let step = if done.is_ok() { SessionStep::Prepared } else { SessionStep::Fail };
    advance(shard, session, step).await?;
    settle(shard, session).await?;
    done
}

/// Brings a session to the state behind a step, durably; it stays as it is if it cannot take that step any more.
async fn advance(shard: &Shard, session: Uuid, step: SessionStep) -> Result<(), Failure> {
    let Some(known) = shard.repair_sessions().get(session) else { return Ok(()) };
    match known.state.after(step) {
        Some(state) if state != known.state => {
            put(shard, session, RepairSession { state, last_update: now_millis(), ..(*known).clone() }).await
        }
        _ => Ok(()),
    }
}

/// Settles what is set apart for a session, if that is over.
async fn settle(shard: &Shard, session: Uuid) -> Result<(), Failure> {
    let repaired_at = match shard.repair_sessions().get(session) {
        Some(known) if known.state == SessionState::Finalized => known.repaired_at,
        Some(known) if !known.state.is_over() => return Ok(()),
        _ => 0,
    };
    shard.on_every_shard(TableVerb::SettleRepair { session, repaired_at }).await.map(drop)
}

/// Looks after the sessions for as long as the node runs.
pub(crate) async fn keep(shard: Shard) {
    loop {
        match look_after(&shard).await {
            Ok(()) => {}
            Err(_) if shard.enter().is_err() => return,
            Err(failure) => tracing::warn!(%failure, "sessions of incremental repair cannot be looked after"),
        }
        runtime::sleep(KEEP_PAUSE).await;
    }
}

/// Loads the sessions of earlier runs, and gives up those that this start has interrupted. Comes before the node is
/// asked about sessions.
pub(crate) async fn load(shard: &Shard) -> Result<(), Failure> {
    let schema = shard.schema();
    let table = system_table(&schema, "system", "repairs");
    let failed = |error: crate::schema::Error| Failure::server(error.to_string());
    let own = shard.own_address();
    for row in read_all(shard.store(), table).await.map_err(failed)? {
        // What cannot be read is not gone on with: what is set apart for it becomes unrepaired.
        let (id, known) = match session_of(table, &row) {
            Ok(session) => session,
            Err(error) => {
                tracing::warn!(%error, "a session of incremental repair is left out");
                continue;
            }
        };
        let state = known.state.restarted(known.coordinator == own);
        match state == known.state {
            true => drop(shard.repair_sessions().put(id, known)),
            false => put(shard, id, RepairSession { state, last_update: now_millis(), ..known }).await?,
        }
    }
    Ok(())
}

async fn look_after(shard: &Shard) -> Result<(), Failure> {
    let _pass = shard.enter()?;
    let mut set_apart: BTreeSet<Uuid> = BTreeSet::new();
    for answer in shard.on_every_shard(TableVerb::PendingRepairs).await? {
        if let TableAnswer::Sessions(sessions) = answer {
            set_apart.extend(sessions);
        }
    }
    for session in set_apart {
        settle(shard, session).await?;
    }
    for (session, known) in shard.repair_sessions().all() {
        let rest = now_millis() - known.last_update;
        if known.state.is_over() || shard.repair_sessions().is_led(session) || rest < REST_MILLIS_MAX {
            continue;
        }
        let step = if rest > FAIL_MILLIS { Some(SessionStep::Fail) } else { heard(shard, session, &known).await };
        if let Some(step) = step {
            serve(shard, SessionRequest { session, ask: SessionAsk::Step(step) }).await?;
        }
    }
    Ok(())
}

/// What follows from what the others say of a session.
async fn heard(shard: &Shard, session: Uuid, known: &Rc<RepairSession>) -> Option<SessionStep> {
    let request = SessionRequest { session, ask: SessionAsk::State };
    let own = shard.own_address();
    let others: Vec<SocketAddr> =
        known.participants.iter().copied().filter(|participant| *participant != own).collect();
    let asked = others.iter().map(|participant| shard.ask_participant(*participant, &request, STATE_TIMEOUT));
    let answers = join_all(asked.collect()).await;
    let of = |participant: SocketAddr| {
        let at = others.iter().position(|other| *other == participant)?;
        answers[at].as_ref().ok().copied()
    };
    decision(of(known.coordinator), answers.iter().filter_map(|answer| answer.as_ref().ok().copied().flatten()))
}

/// Keeps what is known of a session, durably.
async fn put(shard: &Shard, id: Uuid, session: RepairSession) -> Result<(), Failure> {
    let schema = shard.schema();
    let table = system_table(&schema, "system", "repairs");
    let mut row = RowWriter::new(table, &[], shard.clock().timestamp());
    row.set("coordinator", inet(session.coordinator.ip()))
        .set("coordinator_port", i32::from(session.coordinator.port()).to_be_bytes())
        .set("last_update", session.last_update.to_be_bytes())
        .set("repaired_at", session.repaired_at.to_be_bytes())
        .set("started_at", session.started_at.to_be_bytes())
        .set("state", (session.state as i32).to_be_bytes());
    for participant in &session.participants {
        row.element("participants", &inet(participant.ip()), &[]);
        row.element("participants_wp", participant.to_string().as_bytes(), &[]);
    }
    for table in &session.tables {
        row.element("cfids", table.as_bytes(), &[]);
    }
    for range in &session.ranges {
        row.element("ranges", range, &[]);
    }
    let mut mutation = MutationBuilder::new(shard.partitioner(), id.as_bytes());
    row.finish(mutation.table(table.id));
    let failed = |error: engine::Error| Failure::server(error.to_string());
    shard.store().apply_durably(mutation.finish(), true).await.map_err(failed)?;
    for forgotten in shard.repair_sessions().put(id, session) {
        let mut mutation = MutationBuilder::new(shard.partitioner(), forgotten.as_bytes());
        let timestamp = shard.clock().timestamp();
        let deletion = model::row::Deletion { timestamp, local_deletion_time: timestamp.div_euclid(1_000_000) };
        mutation.table(table.id).delete_partition(deletion);
        shard.store().apply_durably(mutation.finish(), true).await.map_err(failed)?;
    }
    Ok(())
}

fn session_of(table: &Table, row: &StoredRow) -> Result<(Uuid, RepairSession), crate::schema::Error> {
    let row = RowReader::new(table, row);
    let state = SessionState::of(row.int("state")?).ok_or_else(|| row.malformed("state"))?;
    let address: Option<IpAddr> = match row.bytes("coordinator")? {
        Some(bytes) => match bytes.len() {
            4 => bytes.first_chunk::<4>().map(|octets| IpAddr::from(*octets)),
            _ => bytes.first_chunk::<16>().map(|octets| IpAddr::from(*octets)),
        },
        None => None,
    };
    let port = u16::try_from(row.int("coordinator_port")?).map_err(|_| row.malformed("coordinator_port"))?;
    let participant = |(path, _): (&[u8], &[u8])| {
        let text = std::str::from_utf8(path).ok().and_then(|text| text.parse::<SocketAddr>().ok());
        text.ok_or_else(|| row.malformed("participants_wp"))
    };
    let table_id = |(path, _): (&[u8], &[u8])| Uuid::from_slice(path).map_err(|_| row.malformed("cfids"));
    let session = RepairSession {
        state,
        coordinator: SocketAddr::new(address.ok_or_else(|| row.malformed("coordinator"))?, port),
        participants: row.elements("participants_wp").map(participant).collect::<Result<_, _>>()?,
        tables: row.elements("cfids").map(table_id).collect::<Result<_, _>>()?,
        ranges: row.elements("ranges").map(|(path, _)| path.to_vec()).collect(),
        repaired_at: row.bigint("repaired_at")?,
        started_at: row.bigint("started_at")?,
        last_update: row.bigint("last_update")?,
    };
    Ok((row.uuid("parent_id")?, session))
}

/// A range as Cassandra stores it: length i32 and bytes of the token behind which it begins, and of its last one.
fn stored_range(shard: &Shard, range: &TokenRange) -> Vec<u8> {
    let minimum = shard.partitioner().minimum();
    let mut out = Vec::new();
    for end in [&range.start, &range.end] {
        let token: &RingToken = end.as_ref().map_or(&minimum, |position| &position.token);
        let bytes = token.to_value();
        out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
        out.extend_from_slice(&bytes);
    }
    out
}
