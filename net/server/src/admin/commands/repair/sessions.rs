//! `repair_admin`: the sessions of incremental repair that this node takes part in, what is set apart for them, and the
//! end of a session or of a repair under way, by the id of its command.

use super::options::RepairOptions;
use super::plan::{self, RingPart};
use crate::admin::commands::table_names;
use crate::admin::error::{CommandError, usage};
use crate::admin::number_format::file_size;
use crate::admin::protocol::Request;
use crate::admin::text_table::TextTable;
use crate::node_state::NodeState;
use model::Table;
use shard::{PendingRepair, SessionState};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// `repair_admin`.
pub(crate) async fn administer(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let (command, arguments) = match request.arguments.split_first() {
        None => ("list", &[][..]),
        Some((command, arguments)) => (command.as_str(), arguments),
    };
    if let Some(option) = ["-st", "-et"].into_iter().find(|option| request.option(option).is_some()) {
        return usage(format!("repair_admin {option} is not supported"));
    }
    if command == "cleanup" && request.has("-f") {
        return usage("repair_admin cleanup --force is not supported");
    }
    match command {
        "list" if arguments.is_empty() => {
            list(node, request.has("-a"), out);
            Ok(())
        }
        "cancel" if arguments.is_empty() => cancel(node, request).await,
        "summarize-pending" => pending(node, request, arguments, out).await,
        "summarize-repaired" => {
            let is_verbose = request.has("-v");
            let columns = ["keyspace", "table", "min_repaired", "max_repaired", "detail"];
            let shown = if is_verbose { 5 } else { 4 };
            let rows = tables(node, arguments)?.into_iter().map(|table| repaired(node, &table)[..shown].to_vec());
            print(&columns[..shown], rows, out);
            Ok(())
        }
        "cleanup" => cleanup(node, arguments, out).await,
        "list" | "cancel" => usage(format!("Found unexpected parameters: [{}]", arguments.join(", "))),
        other => usage(format!("Found unexpected parameters: [{other}]")),
    }
}

/// Lists sessions: those under way, or all.
fn list(node: &NodeState, all: bool, out: &mut String) {
    let sessions = node.shard.repair_sessions().all();
    let shown = sessions.iter().filter(|(_, session)| all || !session.state.is_over());
    let now = runtime::wall_micros().div_euclid(1000);
    let row = |(id, session): (&Uuid, &std::rc::Rc<shard::RepairSession>)| {
        let joined = |texts: Vec<String>| texts.join(",");
        vec![
            id.to_string(),
            session.state.name().to_owned(),
            format!("{} (s)", now.saturating_sub(session.last_update).div_euclid(1000)),
            format!("/{}", session.coordinator),
            joined(session.participants.iter().map(|participant| format!("/{}", participant.ip())).collect()),
            joined(session.participants.iter().map(|participant| format!("/{participant}")).collect()),
        ]
    };
    let rows: Vec<Vec<String>> = shown.map(row).collect();
    match rows.is_empty() {
        true => out.push_str("no sessions\n"),
        false => {
            let columns = ["id", "state", "last activity", "coordinator", "participants", "participants_wp"];
            print(&columns, rows.into_iter(), out);
        }
    }
}

/// Ends a session, or a repair that this node leads.
async fn cancel(node: &NodeState, request: &Request) -> Result<(), CommandError> {
    let Some(text) = request.option("-s") else { return usage("Required option '-s' is missing") };
    let Ok(id) = text.parse::<Uuid>() else { return usage(format!("Invalid UUID string: {text}")) };
    let is_command = node.shard.repairs().cancel(id);
    let Some(session) = node.shard.repair_sessions().get(id) else {
        return match is_command {
            true => Ok(()),
            // The braces are Cassandra's.
            false => usage(format!("Session {{}} does not exist [{id}]")),
        };
    };
    if session.coordinator != node.shard.own_address() && !request.has("-f") {
        let coordinator = session.coordinator;
        return usage(format!("Cancel session {id} from it's coordinator (/{coordinator}) or use --force"));
    }
    if session.state.is_over() {
        return usage(format!("Session {id} is {}", session.state.name()));
    }
    node.shard.fail_incremental(id).await;
    Ok(())
}

/// What sessions have set apart of a table, as text.
fn told<'a>(sessions: impl Iterator<Item = &'a PendingRepair>) -> String {
    let (mut sum, mut count) = (PendingRepair::default(), 0);
    for session in sessions {
        sum.bytes += session.bytes;
        sum.sstables += session.sstables;
        count += 1;
    }
    format!("{} ({} sstables / {count} sessions)", file_size(sum.bytes), sum.sstables)
}

/// SSTables that belong to sessions.
async fn pending(
    node: &NodeState,
    request: &Request,
    arguments: &[String],
    out: &mut String,
) -> Result<(), CommandError> {
    let is_verbose = request.has("-v");
    let mut rows = Vec::new();
    for table in tables(node, arguments)? {
        let found = node.shard.statistics(table.id).await?.pending_repair_sessions;
        let mut row = vec![table.keyspace.clone(), table.name.clone(), told(found.values())];
        if is_verbose {
            let of = |is_one: fn(Option<SessionState>) -> bool| {
                told(found.iter().filter(|(id, _)| is_one(state_of(node, id))).map(|(_, pending)| pending))
            };
            row.push(of(|state| state.is_some_and(|state| !state.is_over())));
            row.push(of(|state| state == Some(SessionState::Finalized)));
            // Sessions that nobody knows of have failed.
            row.push(of(|state| matches!(state, None | Some(SessionState::Failed))));
        }
        rows.push(row);
    }
    let columns = ["keyspace", "table", "total", "pending", "finalized", "failed"];
    print(&columns[..if is_verbose { 6 } else { 3 }], rows.into_iter(), out);
    Ok(())
}

fn state_of(node: &NodeState, id: &[u8; 16]) -> Option<SessionState> {
    node.shard.repair_sessions().get(Uuid::from_bytes(*id)).map(|session| session.state)
}

/// When the ranges of this node were repaired, by the sessions that are known: the earliest and latest, and all.
fn repaired(node: &NodeState, table: &Table) -> [String; 5] {
    let placement = node.shard.placement();
    let topology = placement.topology();
    let own = placement.table(table.id).map(|placed| placed.keyspace());
    let own = own.map_or_else(Vec::new, |placed| plan::ranges(topology, placed, &RepairOptions::default()));
    let partitioner = node.shard.schema().partitioner;
    let mut latest: BTreeMap<RingPart, i64> = own.into_iter().map(|part| (part, 0)).collect();
    for session in node.shard.repair_sessions().all().values() {
        if session.state != SessionState::Finalized || !session.tables.contains(&table.id.uuid()) {
            continue;
        }
        for (after, until) in session.token_ranges(partitioner) {
            let whole = RingPart { after, until };
            let within = latest.iter_mut().filter(|(part, _)| whole.contains(part));
            within.for_each(|(_, at)| *at = (*at).max(session.repaired_at));
        }
    }
    let of = |found: Option<&i64>| found.copied().unwrap_or(0).to_string();
    let detail: Vec<String> = latest.iter().map(|(part, at)| format!("{part}={at}")).collect();
    let (least, most) = (of(latest.values().min()), of(latest.values().max()));
    [table.keyspace.clone(), table.name.clone(), least, most, format!("[{}]", detail.join(", "))]
}

/// Settles what sessions that are over have set apart.
async fn cleanup(node: &NodeState, arguments: &[String], out: &mut String) -> Result<(), CommandError> {
    out.push_str("Cleaning up data from completed sessions...\n");
    let mut rows = Vec::new();
    for table in tables(node, arguments)? {
        let set_apart = node.shard.statistics(table.id).await?.pending_repair_sessions;
        let over: Vec<[u8; 16]> =
            set_apart.into_keys().filter(|id| state_of(node, id).is_none_or(SessionState::is_over)).collect();
        let ids: Vec<Uuid> = over.iter().map(|id| Uuid::from_bytes(*id)).collect();
        node.shard.settle_repairs(&ids).await?;
        let left = node.shard.statistics(table.id).await?.pending_repair_sessions;
        let failed = over.iter().filter(|id| left.contains_key(*id)).count();
        let (done, failed) = ((over.len() - failed).to_string(), failed.to_string());
        rows.push(vec![table.keyspace.clone(), table.name.clone(), done, failed]);
    }
    print(&["keyspace", "table", "successful sessions", "unsuccessful sessions"], rows.into_iter(), out);
    Ok(())
}

/// The tables that were named, of all replicated keyspaces, or of one.
fn tables(node: &NodeState, arguments: &[String]) -> Result<Vec<Arc<Table>>, CommandError> {
    let schema = node.shard.schema();
    let Some((name, named)) = arguments.split_first() else {
        let is_replicated = |table: &&Arc<Table>| !schema.keyspaces[&table.keyspace].is_local();
        return Ok(table_names::listed_tables(&schema).filter(is_replicated).cloned().collect());
    };
    // Cassandra has nothing else to say of a keyspace that is not there.
    let found = table_names::keyspaces(&schema).find(|keyspace| keyspace.name == *name);
    let Some(keyspace) = found else { return usage("null") };
    let unknown = |table: &String| CommandError::Usage(format!("Unknown keyspace/cf pair ({name}.{table})"));
    match named.is_empty() {
        true => Ok(keyspace.tables.values().filter(|table| !shard::is_hidden(table)).cloned().collect()),
        false => named
            .iter()
            .map(|table| table_names::listed_table(keyspace, table).cloned().ok_or_else(|| unknown(table)))
            .collect(),
    }
}

/// Prints a table whose columns are set apart by lines.
fn print(columns: &[&str], rows: impl Iterator<Item = Vec<String>>, out: &mut String) {
    let mut table = TextTable::new(1);
    let all = std::iter::once(columns.iter().map(|name| (*name).to_owned()).collect()).chain(rows);
    for row in all {
        let mut cells = Vec::new();
        for cell in row {
            if !cells.is_empty() {
                cells.push("|".to_owned());
            }
            cells.push(cell);
        }
        table.row(cells);
    }
    table.print(out);
}
