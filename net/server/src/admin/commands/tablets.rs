//! Commands about tablets, which Cassandra does not have: `tablets`, `splittablet`, `mergetablets`, `movetablet`,
//! `emptynode`.

use super::table_names;
use crate::admin::error::{CommandError, usage};
use crate::admin::number_format::file_size;
use crate::admin::protocol::Request;
use crate::admin::text_table::TextTable;
use crate::node_state::NodeState;
use model::Table;
use shard::RingError;
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Pause between two looks at the tablets that are left on a node.
const LEFT_PERIOD: Duration = Duration::from_secs(1);

/// `tablets`: all tablets, those of a keyspace, or those of a table, with their replicas.
pub(crate) async fn show(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let schema = node.shard.schema();
    let [keyspace, table] = [0, 1].map(|at| request.arguments.get(at));
    if let Some(name) = keyspace {
        table_names::keyspace(&schema, name)?;
    }
    let asked = schema.keyspaces.values().filter(|known| keyspace.is_none_or(|name| *name == known.name));
    let tables = asked.flat_map(|known| known.tables.values());
    let mut shown = TextTable::new(2);
    let head = ["Keyspace", "Table", "After", "Last token", "Size", "Units/s", "Replicas", "Moves to"];
    shown.row(head.map(str::to_owned).to_vec());
    let addresses = |nodes: &[IpAddr]| nodes.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",");
    let all = node.shard.shown_tablets().await?;
    for known in tables.filter(|known| table.is_none_or(|name| *name == known.name)) {
        for tablet in all.get(&known.id).into_iter().flatten() {
            shown.row(vec![
                known.keyspace.clone(),
                known.name.clone(),
                tablet.after.to_string(),
                tablet.until.to_string(),
                file_size(tablet.bytes),
                format!("{:.2}", tablet.units),
                addresses(&tablet.replicas),
                tablet.goal.as_deref().map(addresses).unwrap_or_default(),
            ]);
        }
    }
    shown.print(out);
    Ok(())
}

/// `splittablet`: a tablet becomes two.
pub(crate) async fn split(node: &NodeState, request: &Request) -> Result<(), CommandError> {
    let (table, token) = table_and_token(node, request, 3)?;
    node.shard.split_tablet(&table, token).await.map_err(failed)
}

/// `mergetablets`: two tablets become one.
pub(crate) async fn merge(node: &NodeState, request: &Request) -> Result<(), CommandError> {
    let (table, token) = table_and_token(node, request, 3)?;
    node.shard.merge_tablets(&table, token).await.map_err(failed)
}

/// `movetablet`: a tablet goes to another node.
pub(crate) async fn move_to(node: &NodeState, request: &Request) -> Result<(), CommandError> {
    let (table, token) = table_and_token(node, request, 5)?;
    let address = |at: usize| {
        let text = &request.arguments[at];
        text.parse::<IpAddr>().map_err(|_| CommandError::Usage(format!("{text} is not an IP address")))
    };
    node.shard.move_tablet(&table, token, address(3)?, address(4)?).await.map_err(failed)
}

/// `emptynode`: the node is to have no tablets, for as long as an operator works on it. Without a flag it tells how
/// many are left.
pub(crate) async fn empty_node(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    match (request.has("--begin"), request.has("--end")) {
        (true, true) => return usage("--begin and --end exclude each other"),
        (false, false) => {}
        (begins, _) => node.shard.empty_of_tablets(begins).await.map_err(failed)?,
    }
    loop {
        let left = node.shard.tablets_left();
        let is_waited_for = request.has("--wait") && left.is_emptied && left.count > left.stuck;
        if is_waited_for {
            runtime::sleep(LEFT_PERIOD).await;
            continue;
        }
        let mode = if left.is_emptied { "is to have no tablets" } else { "may have tablets" };
        let _ = writeln!(out, "This node {mode}. It has {}.", left.count);
        if left.is_emptied && left.stuck > 0 {
            let _ = writeln!(out, "{} of them stay until there is another node that can take them.", left.stuck);
        }
        return Ok(());
    }
}

/// The table and the token that the first three of so many arguments name.
fn table_and_token(node: &NodeState, request: &Request, count: usize) -> Result<(Arc<Table>, i64), CommandError> {
    let [keyspace, table, token, ..] = request.arguments.as_slice() else {
        return usage("The keyspace, the table and a token are required");
    };
    if request.arguments.len() < count {
        return usage("The addresses of two nodes are required");
    }
    let schema = node.shard.schema();
    let Some(known) = schema.table(keyspace, table) else {
        return usage(format!("Unknown keyspace/cf pair ({keyspace}.{table})"));
    };
    match token.parse() {
        Ok(token) => Ok((known.clone(), token)),
        Err(_) => usage(format!("{token} is not a token of Murmur3Partitioner")),
    }
}

fn failed(error: RingError) -> CommandError {
    match error {
        RingError::Unsupported(text) => CommandError::Usage(text),
        RingError::Failed(text) => CommandError::Failed(text),
    }
}
