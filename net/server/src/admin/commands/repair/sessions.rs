//! `repair_admin`: the sessions of incremental repair, of which there are none, as every repair is a full one; the
//! data that such sessions of Cassandra have left behind; and the end of a repair under way, by the id of its command.

use crate::admin::commands::table_names;
use crate::admin::error::{CommandError, usage};
use crate::admin::number_format::file_size;
use crate::admin::protocol::Request;
use crate::admin::text_table::TextTable;
use crate::node_state::NodeState;
use model::Table;
use std::sync::Arc;
use uuid::Uuid;

/// What the part of the data that no session owns comes to.
const NOTHING: &str = "0 bytes (0 sstables / 0 sessions)";

/// `repair_admin`.
pub(crate) async fn administer(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let (command, arguments) = match request.arguments.split_first() {
        None => ("list", &[][..]),
        Some((command, arguments)) => (command.as_str(), arguments),
    };
    match command {
        "list" if arguments.is_empty() => {
            out.push_str("no sessions\n");
            Ok(())
        }
        "cancel" if arguments.is_empty() => cancel(node, request),
        "summarize-pending" => pending(node, request, arguments, out).await,
        "summarize-repaired" => {
            let is_verbose = request.has("-v");
            let columns = ["keyspace", "table", "min_repaired", "max_repaired", "detail"];
            let row = |table: &Table| [&table.keyspace, &table.name, "0", "0", ""].map(str::to_owned);
            let shown = if is_verbose { 5 } else { 4 };
            print(&columns[..shown], tables(node, arguments)?.iter().map(|table| row(table)[..shown].to_vec()), out);
            Ok(())
        }
        "cleanup" => {
            out.push_str("Cleaning up data from completed sessions...\n");
            let columns = ["keyspace", "table", "successful sessions", "unsuccessful sessions"];
            let row = |table: &Arc<Table>| [&table.keyspace, &table.name, "0", "0"].map(str::to_owned).to_vec();
            print(&columns, tables(node, arguments)?.iter().map(row), out);
            Ok(())
        }
        "list" | "cancel" => usage(format!("Found unexpected parameters: [{}]", arguments.join(", "))),
        other => usage(format!("Found unexpected parameters: [{other}]")),
    }
}

/// Ends a repair that this node leads.
fn cancel(node: &NodeState, request: &Request) -> Result<(), CommandError> {
    let Some(text) = request.option("-s") else { return usage("Required option '-s' is missing") };
    let Ok(id) = text.parse::<Uuid>() else { return usage(format!("Invalid UUID string: {text}")) };
    match node.shard.repairs().cancel(id) {
        true => Ok(()),
        // The braces are Cassandra's.
        false => usage(format!("Session {{}} does not exist [{id}]")),
    }
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
        let found = node.shard.statistics(table.id).await?;
        let (sstables, sessions) = (found.pending_repair_sstables, found.pending_repair_sessions.len());
        let size = file_size(found.pending_repair_bytes);
        let told = format!("{size} ({sstables} sstables / {sessions} sessions)");
        let mut row = vec![table.keyspace.clone(), table.name.clone(), told.clone()];
        if is_verbose {
            // Sessions that nobody knows of have failed.
            row.extend([NOTHING.into(), NOTHING.into(), told]);
        }
        rows.push(row);
    }
    let columns = ["keyspace", "table", "total", "pending", "finalized", "failed"];
    print(&columns[..if is_verbose { 6 } else { 3 }], rows.into_iter(), out);
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
