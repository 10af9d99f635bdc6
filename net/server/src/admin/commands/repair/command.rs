//! `nodetool repair`: a command of one or more keyspaces, one after the other.
//!
//! 1. What Cassandra checks before a command begins is checked at once.
//! 2. The command goes on by itself. nodetool asks for its lines ([`follow`]) until it has ended, so that an operator
//!    sees how far it is; if nodetool ends before, the repair does not.
//! 3. Sessions run one after the other, as many tables of each at once as there are job threads.
//!
//! Invariants: a session that fails does not keep the others from running; the command then fails.

use super::history::History;
use super::options::{Parallelism, PreviewKind, RepairOptions, Told};
use super::plan::{self, RingPart, Session};
use crate::admin::commands::table_names;
use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use crate::node_state::NodeState;
use crate::repair_commands::{RepairCommand, RepairCommands};
use cluster::topology::Topology;
use model::text::instant;
use model::{Keyspace, Table};
use runtime::Instant;
use runtime::sync::join_all;
use shard::{RepairAction, RepairOrder, RepairOutcome, Shard};
use std::net::SocketAddr;
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
    let options = RepairOptions::of(request, tables, &topology.node(topology.here()).data_center)?;
    let Some((key, command)) = node.repairs.begin() else {
        return Err(CommandError::Failed("Too many repairs are under way".into()));
    };
    let (shard, commands) = (node.shard.clone(), node.repairs.clone());
    let told = command.clone();
    runtime::spawn(async move {
        let mut ended = Ok(());
        for keyspace in keyspaces {
            ended = Run::keyspace(&shard, &commands, &told, &keyspace, &options).await;
            if ended.is_err() {
                break;
            }
        }
        told.end(ended);
    });
    answer(&command, key, 0, out).await
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
    options: &'a RepairOptions,
    number: u64,
    began: Instant,
}

/// What a command of a keyspace covers.
struct Scope {
    topology: Rc<Topology>,
    tables: Vec<Arc<Table>>,
    ranges: Vec<RingPart>,
    sessions: Vec<Session>,
}

impl<'a> Run<'a> {
    /// Repairs a keyspace. Fails with what nodetool prints as its error.
    async fn keyspace(
        shard: &'a Shard,
        commands: &RepairCommands,
        said: &'a RepairCommand,
        keyspace: &'a Keyspace,
        options: &'a RepairOptions,
    ) -> Result<(), String> {
        let placement = shard.placement();
        let replicas = placement.keyspace(&keyspace.name).map_or(0, |placed| {
            let all = placed.ranges(&model::TokenRange::FULL);
            all.map(|range| range.nodes.len()).max().unwrap_or(0)
        });
        let factor = replication_factor(keyspace).max(replicas);
        if factor < 2 || keyspace.is_local() {
            say(said, format!("Replication factor is 1. No repair is needed for keyspace '{}'", keyspace.name));
            return Ok(());
        }
        let number = commands.number();
        let run = Run { shard, said, keyspace, options, number, began: runtime::now() };
        let ended = run.run().await;
        let finished = match &ended {
            Ok(_) => format!("Repair command #{number} finished in {}", duration_words(run.began)),
            Err(_) => format!("Repair command #{number} finished with error"),
        };
        let ended = match ended {
            Ok(success) => {
                say(said, success.clone());
                say(said, finished);
                say(said, "condition satisfied queried for parent session status and discovered repair completed.");
                say(said, success);
                return Ok(());
            }
            Err(error) => error,
        };
        say(said, finished);
        say(said, "condition satisfied queried for parent session status and discovered repair failed.");
        Err(format!(
            "Repair job has failed with the error message: {ended}. Check the logs on the repair participants for \
             further details"
        ))
    }

    /// Runs the command. Returns what it says at its end, or the error that it has said.
    async fn run(&self) -> Result<String, String> {
        let parent = self.shard.time_uuid();
        let scope = match self.scope(parent) {
            Ok(scope) => scope,
            Err(error) => return Err(self.failed(&error)),
        };
        let topology = &scope.topology;
        let is_preview = self.options.preview != PreviewKind::None;
        let tables: Vec<String> = scope.tables.iter().map(|table| table.name.clone()).collect();
        let coordinator = topology.node(topology.here()).address;
        let history = History { shard: self.shard, parent, keyspace: &self.keyspace.name, coordinator };
        if !is_preview {
            history.begin(&tables, &scope.ranges, &self.recorded()).await;
        }
        let mut outcome = RepairOutcome::default();
        let mut error: Option<String> = None;
        for session in &scope.sessions {
            match self.session(&history, &scope, session, &tables).await {
                Ok(done) => outcome += done,
                Err(failed) => error = error.or(Some(failed)),
            }
        }
        if let Some(error) = error {
            if !is_preview {
                history.fail("Some repair failed").await;
            }
            return Err(error);
        }
        if !is_preview {
            history.succeed(&scope.ranges).await;
            return Ok("Repair completed successfully".into());
        }
        let subject = match self.options.preview {
            PreviewKind::Repaired => "Repaired data",
            _ => "Previewed data",
        };
        let found = match outcome.differing {
            0 if self.options.preview == PreviewKind::Repaired => format!("{subject} is in sync"),
            0 => format!("{subject} was in sync"),
            differing => {
                format!("Preview complete: {differing} partitions of {} bytes differ", outcome.differing_bytes)
            }
        };
        say(self.said, found.clone());
        Ok(format!("Repair preview completed successfully; {found}"))
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
        let Some(placed) = placement.keyspace(&self.keyspace.name) else {
            return Err(format!("Keyspace {} does not exist", self.keyspace.name));
        };
        let ranges = plan::ranges(&topology, placed, self.shard.schema().partitioner, self.options)?;
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
        let is_live = |node: &cluster::topology::NodeIndex| topology.live().contains(*node);
        if self.options.force {
            sessions.iter_mut().for_each(|session| session.others.retain(is_live));
            sessions.retain(|session| !session.others.is_empty());
        }
        if let Some(dead) = sessions.iter().flat_map(|session| &session.others).find(|node| !is_live(node)) {
            return Err(format!("Endpoint not alive: /{}", topology.node(*dead).address));
        }
        if sessions.is_empty() {
            return Err(format!("Nothing to repair for {} in {} - aborting", listed(&ranges), self.keyspace.name));
        }
        Ok(Scope { topology, tables, ranges, sessions })
    }

    /// Repairs the tables of a session. Fails with the error that it has said.
    async fn session(
        &self,
        history: &History<'_>,
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
        let node = |node: &cluster::topology::NodeIndex| scope.topology.node(*node);
        let addresses: Vec<SocketAddr> = session.others.iter().map(|other| node(other).address).collect();
        let others: Vec<Uuid> = session.others.iter().map(|other| node(other).host_id).collect();
        if !is_preview {
            history.begin_session(id, tables, &session.ranges, &addresses).await;
        }
        let (ranges, others) = (session.scanned(), &others);
        let mut outcome = RepairOutcome::default();
        let mut error: Option<String> = None;
        for some in scope.tables.chunks(self.options.job_threads) {
            let jobs = some.iter().map(|table| self.shard.repair(table.id, &ranges, others, action, order));
            for (table, done) in some.iter().zip(join_all(jobs.collect()).await) {
                if !is_preview {
                    let done = done.as_ref().map(drop).map_err(|failure| &*failure.text);
                    history.end_job(id, &table.name, done).await;
                }
                match done {
                    Ok(done) => outcome += done,
                    Err(failure) => error = error.or_else(|| Some(failure.text.to_string())),
                }
            }
        }
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

    /// Says that the command failed.
    fn failed(&self, error: &str) -> String {
        let text = format!("Repair command #{} failed with error {error}", self.number);
        say(self.said, text.clone());
        text
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
