//! `nodetool repair`: a command of one or more keyspaces, one after the other.
//!
//! 1. What Cassandra checks before a command begins is checked at once.
//! 2. The command goes on by itself. nodetool asks for its lines ([`follow`]) until it has ended, so that an operator
//!    sees how far it is; if nodetool ends before, the repair does not.
//! 3. A repair that is incremental has all participants set apart what it is about first, and ends with all of them.
//! 4. Sessions run one after the other, as many tables of each at once as there are job threads.
//!
//! Invariants: a session that fails does not keep the others from running; the command then fails.

use super::options::{Parallelism, PreviewKind, RepairOptions, Told};
use super::plan::{self, RingPart, Session};
use crate::admin::commands::table_names;
use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use crate::node_state::NodeState;
use crate::repair_commands::{RepairCommand, RepairCommands};
use cluster::placement::{KeyspacePlacement, Placement};
use cluster::topology::{NodeIndex, Topology};
use model::text::instant;
use model::tombstone_gc::GcMode;
use model::{Failure, Keyspace, Table, TableId, TokenRange};
use runtime::Instant;
use runtime::sync::{Either, join_all, race};
use shard::{
    RepairAction, RepairHistory, RepairOrder, RepairOutcome, RepairProof, RepairSet, RepairState, RepairTerms, Shard,
};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use uuid::Uuid;

/// The keyspace that is repaired only if it is named.
const ONLY_NAMED: &str = "system_distributed";
/// The progress that a session reports: it is the fifth of seven steps of a command.
const SESSION_PROGRESS: &str = "(progress: 57%)";

/// `repair`: begins a repair, and waits for its first lines.
pub(crate) async fn repair(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let schema = node.shard.schema();
    let keyspaces: Vec<Arc<Keyspace>> = match request.arguments.first() {
        None => {
            let all = table_names::keyspaces(&schema);
            all.filter(|keyspace| !keyspace.is_local() && keyspace.name != ONLY_NAMED).cloned().collect()
        }
        Some(name) => {
            table_names::keyspace(&schema, name)?;
            table_names::keyspaces(&schema).filter(|keyspace| keyspace.name == *name).cloned().collect()
        }
    };
    let tables = request.arguments.get(1..).unwrap_or_default();
    let topology = node.shard.topology();
    let options = RepairOptions::of(request, tables, &topology.node(topology.here()).data_center, schema.partitioner)?;
    let Some((key, command)) = node.repairs.begin() else {
        return Err(CommandError::Failed("Too many repairs are under way".into()));
    };
    let (shard, commands) = (node.shard.clone(), node.repairs.clone());
    let told = command.clone();
    runtime::spawn(async move {
        let mut ended = Ok(());
        for keyspace in keyspaces {
            ended = keyspace_repaired(&shard, &commands, &told, &keyspace, &options).await;
            if ended.is_err() {
                break;
            }
        }
        told.end(ended);
    });
    answer(&command, key, 0, out).await
}

/// A repair that the node makes of its own accord.
pub(crate) struct OwnRepair {
    pub(crate) table: String,
    /// Whether of the ranges that the node has only those that it owns first are repaired.
    pub(crate) primary_range_only: bool,
    /// How many times as long as a part of a range took the repair rests behind it.
    pub(crate) rest: u32,
}

/// Repairs a table of a keyspace. Fails with what an operator would be told.
pub(crate) async fn repair_own(node: &NodeState, keyspace: &str, own: OwnRepair) -> Result<(), String> {
    let schema = node.shard.schema();
    let Some(keyspace) = schema.keyspace(keyspace) else { return Ok(()) };
    let options = RepairOptions {
        primary_range: own.primary_range_only,
        tables: vec![own.table],
        rest: own.rest,
        job_threads: 1,
        repair_paxos: true,
        ..RepairOptions::default()
    };
    keyspace_repaired(&node.shard, &node.repairs, &RepairCommand::default(), keyspace, &options).await
}

/// Repairs a keyspace: its tables that follow the ring with one command, each of those with tablets with one of its
/// own, because the ranges of each are others. Fails with what nodetool prints as its error.
async fn keyspace_repaired(
    shard: &Shard,
    commands: &RepairCommands,
    said: &RepairCommand,
    keyspace: &Keyspace,
    options: &RepairOptions,
) -> Result<(), String> {
    let placement = shard.placement();
    let is_asked = |table: &&Arc<Table>| options.tables.is_empty() || options.tables.contains(&table.name);
    let has_tablets = |table: &&Arc<Table>| placement.tablets(table.id).is_some();
    let asked: Vec<&Arc<Table>> = keyspace.tables.values().filter(is_asked).collect();
    let (by_tablets, by_ring): (Vec<&Arc<Table>>, Vec<&Arc<Table>>) = asked.into_iter().partition(has_tablets);
    if by_tablets.is_empty() {
        return Run::group(shard, commands, said, (keyspace, None), options).await;
    }
    if !by_ring.is_empty() {
        let tables = by_ring.iter().map(|table| table.name.clone()).collect();
        let options = RepairOptions { tables, ..options.clone() };
        Run::group(shard, commands, said, (keyspace, None), &options).await?;
    }
    for table in by_tablets {
        let options = RepairOptions { tables: vec![table.name.clone()], ..options.clone() };
        Run::group(shard, commands, said, (keyspace, Some(table.id)), &options).await?;
    }
    Ok(())
}

/// Where a table with tablets is, or, without one, the tables of a keyspace that follow the ring.
fn placed_of<'p>(placement: &'p Placement, keyspace: &str, table: Option<TableId>) -> Option<&'p KeyspacePlacement> {
    match table {
        Some(table) => placement.table(table).map(|placed| placed.keyspace()),
        None => placement.keyspace(keyspace),
    }
}

/// The ranges of a table that this node repairs of its own accord, as texts; `None` if no other node has any.
pub(crate) fn own_ranges(shard: &Shard, table: &Table, primary_range_only: bool) -> Option<Vec<String>> {
    let placement = shard.placement();
    let placed = placement.table(table.id)?.keyspace();
    let topology = placement.topology();
    let options = RepairOptions { primary_range: primary_range_only, ..RepairOptions::default() };
    let ranges = plan::ranges(topology, placed, &options);
    let is_shared = ranges.iter().any(|range| placed.nodes_of(&range.until).len() > 1);
    is_shared.then(|| ranges.iter().map(RingPart::to_string).collect())
}

/// `follow`: what a command has said behind the lines that are known.
pub(crate) async fn follow(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let number = |at: usize| request.arguments.get(at).and_then(|text| text.parse::<u64>().ok());
    let (Some(key), Some(known)) = (number(0), number(1)) else { return usage("follow takes two numbers") };
    match node.repairs.get(key) {
        Some(command) => answer(&command, key, known as usize, out).await,
        None => Err(CommandError::Failed("There is no such command".into())),
    }
}

async fn answer(command: &RepairCommand, key: u64, known: usize, out: &mut String) -> Result<(), CommandError> {
    let said = command.said(known).await;
    for line in &said.lines {
        out.push_str(line);
        out.push('\n');
    }
    match said.ended {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(CommandError::Failed(error)),
        None => Err(CommandError::GoesOn(format!("{key} {}", known + said.lines.len()))),
    }
}

/// A command of one keyspace under way.
struct Run<'a> {
    shard: &'a Shard,
    said: &'a RepairCommand,
    keyspace: &'a Keyspace,
    /// The only table, if it has tablets.
    table: Option<TableId>,
    options: &'a RepairOptions,
    number: u64,
    began: Instant,
    /// What is proven once the data that was compared counts as repaired.
    proofs: RefCell<Vec<RepairProof>>,
}

/// What a command of a keyspace covers.
struct Scope {
    topology: Rc<Topology>,
    tables: Vec<Arc<Table>>,
    ranges: Vec<RingPart>,
    sessions: Vec<Session>,
    /// Whether replicas that are down were left out.
    is_partial: bool,
}

impl<'a> Run<'a> {
    /// Repairs the tables of a keyspace that follow the ring, or one that has tablets. Fails with what nodetool prints
    /// as its error.
    async fn group(
        shard: &'a Shard,
        commands: &RepairCommands,
        said: &'a RepairCommand,
        (keyspace, table): (&'a Keyspace, Option<TableId>),
        options: &'a RepairOptions,
    ) -> Result<(), String> {
        let placement = shard.placement();
        let replicas = placed_of(&placement, &keyspace.name, table).map_or(0, |placed| {
            let all = placed.ranges(&model::TokenRange::FULL);
            all.map(|range| range.nodes.len()).max().unwrap_or(0)
        });
        let factor = replication_factor(keyspace).max(replicas);
        if factor < 2 || keyspace.is_local() {
            say(said, format!("Replication factor is 1. No repair is needed for keyspace '{}'", keyspace.name));
            return Ok(());
        }
        let number = commands.number();
        let proofs = RefCell::default();
        let run = Run { shard, said, keyspace, table, options, number, began: runtime::now(), proofs };
        match run.run().await {
            Ok(success) => {
                say(said, success.clone());
                say(said, format!("Repair command #{number} finished in {}", duration_words(run.began)));
                say(said, "condition satisfied queried for parent session status and discovered repair completed.");
                say(said, success);
                Ok(())
            }
            Err(error) => {
                say(said, format!("Repair command #{number} finished with error"));
                Err(format!(
                    "Repair job has failed with the error message: {error}. Check the logs on the repair participants \
                     for further details"
                ))
            }
        }
    }

    /// Runs the command. Returns what it says at its end, or the error that it has said.
    async fn run(&self) -> Result<String, String> {
        let parent = self.shard.time_uuid();
        let states = self.shard.repairs();
        states.begin(parent, self.state());
        states.pass(parent, "setup");
        let history = RepairHistory { shard: self.shard, parent, keyspace: &self.keyspace.name };
        let scope = match self.scope(parent) {
            Ok(scope) => scope,
            Err(error) => {
                let text = format!("Repair command #{} failed with error {error}", self.number);
                say(self.said, text.clone());
                states.end(parent, "failure", Err(error.clone()));
                if self.options.preview == PreviewKind::None {
                    history.fail(&error).await;
                }
                return Err(text);
            }
        };
        if scope.sessions.is_empty() {
            let text = format!(
                "Nothing to repair for {} in {} - unreplicated keyspace is ignored since repair was called with \
                 --ignore-unreplicated-keyspaces",
                listed(&scope.ranges),
                self.keyspace.name
            );
            states.end(parent, "skipped", Err(text.clone()));
            say(self.said, format!("Repair {parent} skipped: {text}"));
            return Ok(text);
        }
        let done = self.sessions(&history, &scope).await;
        match &done {
            Ok(said) => states.end(parent, "success", Ok(said.clone())),
            Err(error) => states.end(parent, "failure", Err(error.clone())),
        }
        done
    }

    /// Runs the sessions of a command, and writes its history.
    async fn sessions(&self, history: &RepairHistory<'_>, scope: &Scope) -> Result<String, String> {
        let states = self.shard.repairs();
        let is_preview = self.options.preview != PreviewKind::None;
        let tables: Vec<String> = scope.tables.iter().map(|table| table.name.clone()).collect();
        let ranges: Vec<String> = scope.ranges.iter().map(RingPart::to_string).collect();
        states.change(history.parent, |state| {
            let others = scope.sessions.iter().flat_map(|session| &session.others);
            state.tables = tables.clone();
            state.participants = others.map(|node| format!("/{}", scope.topology.node(*node).address)).collect();
            state.participants.sort_unstable();
            state.participants.dedup();
            let asked = state.lists.iter_mut().find(|(name, _)| *name == "ranges");
            asked.into_iter().for_each(|(_, list)| *list = ranges.clone());
        });
        ["start", "prepare_start"].into_iter().for_each(|step| states.pass(history.parent, step));
        if !is_preview {
            history.begin(&tables, &ranges, &self.recorded()).await;
        }
        // Replicas need no preparation for a full repair: they answer requests that stand alone.
        if self.is_incremental()
            && let Err(failure) = self.prepare(history.parent, scope).await
        {
            let text = format!("Repair command #{} failed with error {}", self.number, failure.text);
            say(self.said, text.clone());
            history.fail(&failure.text).await;
            return Err(text);
        }
        ["prepare_complete", "repair_start"].into_iter().for_each(|step| states.pass(history.parent, step));
        let mut outcome = RepairOutcome::default();
        let mut error: Option<String> = None;
        for session in &scope.sessions {
            match self.session(history, scope, session, &tables).await {
                Ok(done) => outcome += done,
                Err(failed) => error = error.or(Some(failed)),
            }
            if !self.is_incremental() {
                self.end_proofs().await;
            }
            if states.is_cancelled(history.parent) {
                break;
            }
        }
        if self.is_incremental() {
            match error {
                Some(_) => self.shard.fail_incremental(history.parent).await,
                None => {
                    let finished = self.shard.finish_incremental(history.parent).await;
                    error = finished.err().map(|failure| failure.text.to_string());
                    if error.is_none() {
                        self.end_proofs().await;
                    }
                }
            }
        }
        if let Some(error) = error {
            if !is_preview {
                history.fail("Some repair failed").await;
            }
            return Err(error);
        }
        states.pass(history.parent, "repair_complete");
        if !is_preview {
            // Ranges without another node that lives, or without any other, were left out.
            let done = scope.sessions.iter().flat_map(|session| &session.ranges).map(RingPart::to_string);
            history.succeed(&done.collect::<Vec<_>>()).await;
            return Ok("Repair completed successfully".into());
        }
        let found = match (self.options.preview, outcome.differing) {
            (PreviewKind::Repaired, 0) => "Repaired data is in sync".into(),
            (PreviewKind::Repaired, differing) => {
                let bytes = outcome.differing_bytes;
                format!("Repaired data is inconsistent: {differing} partitions of {bytes} bytes differ")
            }
            (_, 0) => "Previewed data was in sync".into(),
            (_, differing) => {
                format!("Preview complete: {differing} partitions of {} bytes differ", outcome.differing_bytes)
            }
        };
        say(self.said, found.clone());
        Ok(format!("Repair preview completed successfully; {found}"))
    }

    fn is_incremental(&self) -> bool {
        self.options.incremental && self.options.preview == PreviewKind::None
    }

    /// Has all participants set apart what an incremental repair is about.
    async fn prepare(&self, parent: Uuid, scope: &Scope) -> Result<(), Failure> {
        let o = self.options;
        let node = |node: &NodeIndex| scope.topology.node(*node).host_id;
        let others: Vec<Uuid> = scope.sessions.iter().flat_map(|session| &session.others).map(node).collect();
        let tables: Vec<TableId> = scope.tables.iter().map(|table| table.id).collect();
        let ranges: Vec<TokenRange> = scope.sessions.iter().flat_map(Session::scanned).collect();
        // Data counts as repaired only if all of its replicas were compared.
        let is_global = o.data_centers.is_empty() && o.hosts.is_empty() && !scope.is_partial;
        let repaired_at = if is_global { runtime::wall_micros().div_euclid(1000) } else { 0 };
        let prepared = self.shard.begin_incremental(parent, &others, &tables, &ranges, repaired_at);
        let states = self.shard.repairs();
        match race(pin!(states.cancellation(parent)), pin!(prepared)).await {
            Either::Right(done) => done,
            Either::Left(()) => {
                self.shard.fail_incremental(parent).await;
                Err(Failure::server("The repair was cancelled"))
            }
        }
    }

    /// What is known of the command before it begins.
    fn state(&self) -> RepairState {
        let o = self.options;
        let kind = match (o.preview, o.incremental) {
            (PreviewKind::None, false) => "full",
            (PreviewKind::None, true) => "incremental",
            (PreviewKind::All, _) => "preview full",
            (PreviewKind::Unrepaired, _) => "preview unrepaired",
            (PreviewKind::Repaired, _) => "preview repaired",
        };
        RepairState {
            command: self.number,
            keyspace: self.keyspace.name.clone(),
            kind: kind.into(),
            flags: vec![
                ("force_repair", o.force),
                ("ignore_unreplicated_keyspaces", o.ignore_unreplicated),
                ("incremental", o.incremental),
                ("optimise_streams", o.optimise_streams),
                ("primary_range", o.primary_range),
                ("pull_repair", o.pull),
                ("subrange_repair", o.range.is_some()),
                ("trace", false),
            ],
            lists: vec![
                ("column_families", o.tables.clone()),
                ("data_centers", o.data_centers.clone()),
                ("hosts", o.hosts.clone()),
                ("ranges", Vec::new()),
            ],
            job_threads: i32::try_from(o.job_threads).unwrap_or(i32::MAX),
            parallelism: match o.parallelism {
                Parallelism::Parallel => "PARALLEL",
                Parallelism::Sequential => "SEQUENTIAL",
                Parallelism::DataCenterAware => "DATACENTER_AWARE",
            }
            .into(),
            preview_kind: o.preview.name().into(),
            ..RepairState::default()
        }
    }

    /// What the command covers.
    fn scope(&self, parent: Uuid) -> Result<Scope, String> {
        let named = &self.options.tables;
        let unknown = |name: &String| format!("Unknown keyspace/cf pair ({}.{name})", self.keyspace.name);
        let find = |name: &String| table_names::listed_table(self.keyspace, name).cloned().ok_or_else(|| unknown(name));
        let tables: Vec<Arc<Table>> = match named.is_empty() {
            true => self.keyspace.tables.values().filter(|table| !shard::is_hidden(table)).cloned().collect(),
            false => named.iter().map(find).collect::<Result<_, _>>()?,
        };
        let placement = self.shard.placement();
        let topology = placement.topology().clone();
        let Some(placed) = placed_of(&placement, &self.keyspace.name, self.table) else {
            return Err(format!("Keyspace {} does not exist", self.keyspace.name));
        };
        let ranges = plan::ranges(&topology, placed, self.options);
        say(
            self.said,
            format!(
                "Starting repair command #{} ({parent}), repairing keyspace {} with repair options ({})",
                self.number,
                self.keyspace.name,
                Told { options: self.options, ranges: ranges.len() }
            ),
        );
        let mut sessions = plan::sessions(&topology, placed, &self.keyspace.name, self.options, &ranges)?;
        let is_live = |node: &NodeIndex| topology.live().contains(*node);
        let mut is_partial = false;
        if self.options.force {
            is_partial = sessions.iter().flat_map(|session| &session.others).any(|node| !is_live(node));
            sessions.iter_mut().for_each(|session| session.others.retain(is_live));
            sessions.retain(|session| !session.others.is_empty());
        }
        if let Some(dead) = sessions.iter().flat_map(|session| &session.others).find(|node| !is_live(node)) {
            return Err(format!("Endpoint not alive: /{}", topology.node(*dead).address));
        }
        if sessions.is_empty() && !self.options.ignore_unreplicated {
            return Err(format!("Nothing to repair for {} in {} - aborting", listed(&ranges), self.keyspace.name));
        }
        Ok(Scope { topology, tables, ranges, sessions, is_partial })
    }

    /// Repairs the tables of a session. Fails with the error that it has said.
    async fn session(
        &self,
        history: &RepairHistory<'_>,
        scope: &Scope,
        session: &Session,
        tables: &[String],
    ) -> Result<RepairOutcome, String> {
        let id = self.shard.time_uuid();
        let is_preview = self.options.preview != PreviewKind::None;
        let action = match () {
            () if is_preview => RepairAction::Preview,
            () if self.options.pull => RepairAction::Pull,
            () => RepairAction::Repair,
        };
        let order = match self.options.parallelism {
            Parallelism::Parallel => RepairOrder::Parallel,
            Parallelism::Sequential => RepairOrder::Sequential,
            Parallelism::DataCenterAware => RepairOrder::DataCenterAware,
        };
        let set = match self.options.preview {
            PreviewKind::None if self.is_incremental() => Some(RepairSet::Pending(*history.parent.as_bytes())),
            PreviewKind::None | PreviewKind::All => None,
            PreviewKind::Unrepaired => Some(RepairSet::Unrepaired),
            PreviewKind::Repaired => Some(RepairSet::Repaired),
        };
        let terms = RepairTerms { action, order, rest: self.options.rest, set };
        let node = |node: &NodeIndex| scope.topology.node(*node);
        let addresses: Vec<SocketAddr> = session.others.iter().map(|other| node(other).address).collect();
        let others: Vec<Uuid> = session.others.iter().map(|other| node(other).host_id).collect();
        let (states, parent) = (self.shard.repairs(), history.parent);
        let texts: Vec<String> = session.ranges.iter().map(RingPart::to_string).collect();
        let participants: Vec<String> = addresses.iter().map(|address| format!("/{address}")).collect();
        states.begin_session(parent, id, &texts, &participants);
        if let Some(range) = session.ranges.last().filter(|_| !is_preview) {
            let ends = (&*range.after.to_string(), &*range.until.to_string());
            history.begin_session(id, tables, ends, &addresses).await;
        }
        let (ranges, others) = (session.scanned(), &others);
        let mut outcome = RepairOutcome::default();
        let mut error: Option<String> = None;
        for some in scope.tables.chunks(self.options.job_threads) {
            for table in some {
                ["start", "validation_start"]
                    .into_iter()
                    .for_each(|step| states.pass_job(parent, id, &table.name, step));
            }
            let jobs = some.iter().map(|table| self.job(id, table, &ranges, others, terms));
            let done = match race(pin!(states.cancellation(parent)), join_all(jobs.collect())).await {
                Either::Left(()) => some.iter().map(|_| Err(Failure::server("The repair was cancelled"))).collect(),
                Either::Right(done) => done,
            };
            for (table, done) in some.iter().zip(done) {
                if !is_preview {
                    let done = done.as_ref().map(drop).map_err(|failure| &*failure.text);
                    history.end_job(id, &table.name, done).await;
                }
                if done.is_ok() {
                    states.pass_job(parent, id, &table.name, "validation_complete");
                }
                states.end_job(parent, id, &table.name, done.as_ref().map(drop).map_err(|it| it.text.to_string()));
                match done {
                    Ok(done) => {
                        if !self.options.paxos_only {
                            self.log_pairs(id, &table.name, &done, scope, session);
                        }
                        outcome += done;
                    }
                    Err(failure) => error = error.or_else(|| Some(failure.text.to_string())),
                }
            }
        }
        states.end_session(parent, id, error.clone().map_or(Ok(()), Err));
        match error {
            None => {
                say(
                    self.said,
                    format!("Repair session {id} for range {} finished {SESSION_PROGRESS}", session.listed()),
                );
                Ok(outcome)
            }
            Some(error) => {
                let error = format!("Repair session {id} for range {} failed with error {error}", session.listed());
                say(self.said, format!("{error} {SESSION_PROGRESS}"));
                Err(error)
            }
        }
    }

    /// Repairs a table: first what rounds of Paxos have left unfinished in it, so that the data has it.
    async fn job(
        &self,
        session: Uuid,
        table: &Table,
        ranges: &[TokenRange],
        others: &[Uuid],
        terms: RepairTerms,
    ) -> Result<RepairOutcome, Failure> {
        let (o, name) = (self.options, format!("{}.{}", table.keyspace, table.name));
        let is_proof = table.options.tombstone_gc.mode == GcMode::Repair
            && terms.action == RepairAction::Repair
            && o.repair_paxos
            && !o.paxos_only
            && self.shard.can_finish_proposals();
        let proof = if is_proof { self.shard.begin_proof(table.id, ranges, others).await } else { None };
        // A cluster with older nodes repairs its data all the same: the next round of a partition finishes the rest.
        if o.paxos_only || o.repair_paxos && self.shard.can_finish_proposals() {
            tracing::info!("[repair #{session}] {name} starting paxos repair");
            let partitions = self.shard.finish_proposals(table.id, ranges, others).await?;
            tracing::info!(partitions, "[repair #{session}] {name} paxos repair completed");
        }
        if o.paxos_only {
            return Ok(RepairOutcome::default());
        }
        let done = self.shard.repair(table.id, ranges, others, terms).await?;
        self.proofs.borrow_mut().extend(proof);
        Ok(done)
    }

    /// Has the replicas note what was proven, by which they may forget deletions.
    async fn end_proofs(&self) {
        for proof in self.proofs.take() {
            self.shard.end_proof(proof).await;
        }
    }

    /// Tells the log which replicas of a table differed, as Cassandra does: by each two of them. A pull looks at pairs
    /// with this node alone.
    fn log_pairs(&self, id: Uuid, table: &str, done: &RepairOutcome, scope: &Scope, session: &Session) {
        let prefix = match self.options.preview {
            PreviewKind::None => "repair",
            _ => "preview repair",
        };
        let nodes: Vec<NodeIndex> = std::iter::once(scope.topology.here()).chain(session.others.clone()).collect();
        let address = |at: usize| scope.topology.node(nodes[at]).address;
        let firsts = if self.options.pull { 1 } else { nodes.len() };
        for (one, other) in (0..firsts).flat_map(|one| (one + 1..nodes.len()).map(move |other| (one, other))) {
            let found = match done.out_of_sync.get(&(one, other)) {
                None => "are consistent".to_owned(),
                Some(ranges) => format!("have {ranges} range(s) out of sync"),
            };
            tracing::info!("[{prefix} #{id}] Endpoints /{} and /{} {found} for {table}", address(one), address(other));
        }
    }

    /// The options as `parent_repair_history` has them.
    fn recorded(&self) -> Vec<(&'static str, String)> {
        let o = self.options;
        vec![
            ("dataCenters", o.data_centers.join(",")),
            ("forceRepair", o.force.to_string()),
            ("hosts", o.hosts.join(",")),
            ("incremental", o.incremental.to_string()),
            ("jobThreads", o.job_threads.to_string()),
            ("optimiseStreams", o.optimise_streams.to_string()),
            ("parallelism", o.parallelism.name().into()),
            ("paxosOnly", o.paxos_only.to_string()),
            ("previewKind", o.preview.name().into()),
            ("primaryRange", o.primary_range.to_string()),
            ("pullRepair", o.pull.to_string()),
            ("repairPaxos", o.repair_paxos.to_string()),
            ("sub_range_repair", o.range.is_some().to_string()),
            ("trace", "false".into()),
        ]
    }
}

/// The highest replication factor that a keyspace asks for, of all data centres together.
fn replication_factor(keyspace: &Keyspace) -> usize {
    let numbers = keyspace.replication.options.values().filter_map(|value| value.parse::<usize>().ok());
    numbers.sum()
}

fn listed(ranges: &[RingPart]) -> String {
    format!("[{}]", ranges.iter().map(RingPart::to_string).collect::<Vec<_>>().join(", "))
}

/// Notes a line with the time.
fn say(command: &RepairCommand, text: impl Into<String>) {
    let millis = runtime::wall_micros().div_euclid(1000);
    let at = instant::format(millis - millis.rem_euclid(1000)).replace('T', " ").replace('Z', "");
    command.say(format!("[{at},{:03}] {}", millis.rem_euclid(1000), text.into()));
}

/// The time since an instant in words, from its largest unit that is not zero to its smallest.
fn duration_words(began: Instant) -> String {
    words(runtime::now().since(began).as_secs())
}

fn words(seconds: u64) -> String {
    let units = [(seconds / 86_400, "day"), (seconds / 3600 % 24, "hour"), (seconds / 60 % 60, "minute")];
    let units = [units[0], units[1], units[2], (seconds % 60, "second")];
    let first = units.iter().position(|(count, _)| *count > 0).unwrap_or(units.len() - 1);
    let last = units.iter().rposition(|(count, _)| *count > 0).unwrap_or(units.len() - 1);
    let text = |(count, unit): &(u64, &str)| format!("{count} {unit}{}", if *count == 1 { "" } else { "s" });
    units[first..=last].iter().map(text).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_in_words() {
        let told = [(0, "0 seconds"), (1, "1 second"), (61, "1 minute 1 second"), (120, "2 minutes")];
        for (seconds, text) in told {
            assert_eq!(words(seconds), text);
        }
        assert_eq!(words(3601), "1 hour 0 minutes 1 second");
        assert_eq!(words(90_000), "1 day 1 hour");
    }
}
