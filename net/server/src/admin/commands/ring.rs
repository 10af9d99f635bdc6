//! Commands about the ring: `status` and `ring`.

use super::node_info::load;
use super::table_names::keyspaces;
use crate::admin::error::CommandError;
use crate::admin::number_format::file_size;
use crate::admin::protocol::Request;
use crate::admin::text_table::TextTable;
use crate::node_state::NodeState;
use model::schema::SYSTEM_KEYSPACES;
use model::{Keyspace, RingToken, Schema};
use std::fmt::Write;

/// The keyspace whose replication determines ownership if there are no user keyspaces.
const STAND_IN: &str = "system_traces";

/// The share of the data that the node owns; `None` if it is meaningless, and then the note says why.
struct Ownership {
    part: Option<f64>,
    note: Option<&'static str>,
}

impl Ownership {
    fn text(&self, decimals: usize) -> String {
        self.part.map_or_else(|| "?".into(), |part| format!("{:.decimals$}%", part * 100.0))
    }
}

fn ownership(node: &NodeState, schema: &Schema, keyspace: Option<&str>) -> Result<Ownership, CommandError> {
    let meaningless = |note| Ok(Ownership { part: None, note: Some(note) });
    let keyspace = match keyspace {
        Some(name) => {
            let found = keyspaces(schema).find(|keyspace| keyspace.name == name);
            found.ok_or_else(|| CommandError::ToStdout(format!("\nError: The keyspace {name}, does not exist\n")))?
        }
        None => {
            let of_users = |keyspace: &&std::sync::Arc<Keyspace>| !SYSTEM_KEYSPACES.contains(&keyspace.name.as_str());
            let mut users = keyspaces(schema).filter(of_users);
            match users.next() {
                Some(first) => {
                    if users.any(|other| other.replication != first.replication) {
                        return meaningless(
                            "Non-system keyspaces don't have the same replication settings, effective ownership \
                             information is meaningless",
                        );
                    }
                    first
                }
                None => match schema.keyspaces.get(STAND_IN) {
                    Some(keyspace) => keyspace,
                    None => return meaningless("There are no keyspaces"),
                },
            }
        }
    };
    if keyspace.is_local() {
        return meaningless("Ownership values for keyspaces with LocalStrategy are meaningless");
    }
    let placement = node.shard.placement();
    let here = placement.topology().here();
    let part = placement.keyspace(&keyspace.name).map(|placed| placed.ownership(here));
    Ok(Ownership { part: Some(part.unwrap_or_default()), note: None })
}

/// `status`.
pub(crate) async fn status(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let schema = node.shard.schema();
    let owned = ownership(node, &schema, request.arguments.last().map(String::as_str))?;
    let load = file_size(load(node).await?.disk_bytes);
    let config = node.shard.node_config();
    let title = format!("Datacenter: {}", config.data_center);
    let _ = writeln!(out, "{title}\n{}", "=".repeat(title.len()));
    out.push_str("Status=Up/Down\n|/ State=Normal/Leaving/Joining/Moving\n");
    let mut table = TextTable::new(2);
    let owns = if owned.part.is_some() { "Owns (effective)" } else { "Owns" };
    table.row(["--", "Address", "Load", "Tokens", owns, "Host ID", "Rack"]);
    table.row([
        "UN".into(),
        config.listen_address.to_string(),
        load,
        node.shard.tokens().len().to_string(),
        owned.text(1),
        node.shard.host_id().to_string(),
        config.rack.clone(),
    ]);
    table.print(out);
    out.push('\n');
    if let Some(note) = owned.note {
        let _ = writeln!(out, "Note: {note}");
    }
    Ok(())
}

/// `ring`.
pub(crate) async fn ring(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let schema = node.shard.schema();
    let owned = ownership(node, &schema, request.arguments.last().map(String::as_str))?;
    let load = file_size(load(node).await?.disk_bytes);
    let config = node.shard.node_config();
    let address = config.listen_address.to_string();
    let width = format!("{address}:{}", config.storage_port).len();
    let _ = write!(out, "\nDatacenter: {}\n==========\n", config.data_center);
    let mut line = |cells: [&str; 7]| {
        let [address, rack, status, state, load, owns, token] = cells;
        let _ = writeln!(out, "{address:<width$}  {rack:<12}{status:<7}{state:<8}{load:<16}{owns:<20}{token:<44}");
    };
    let tokens: Vec<String> = node.shard.tokens().iter().map(RingToken::to_string).collect();
    line(["Address", "Rack", "Status", "State", "Load", "Owns", "Token"]);
    if let [.., _, last] = tokens.as_slice() {
        line(["", "", "", "", "", "", last]);
    }
    let owns = owned.text(2);
    for token in &tokens {
        line([&address, &config.rack, "Up", "Normal", &load, &owns, token]);
    }
    out.push('\n');
    if tokens.len() > 1 {
        out.push_str("  Warning: \"nodetool ring\" is used to output all the tokens of a node.\n");
        out.push_str("  To view status related info of a node use \"nodetool status\" instead.\n\n");
    }
    out.push_str("\n  ");
    if let Some(note) = owned.note {
        let _ = writeln!(out, "Note: {note}");
    }
    Ok(())
}
