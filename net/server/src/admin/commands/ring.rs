//! Commands about the ring: `status` and `ring`. Who is a member comes from the metadata of the cluster, who lives and
//! the loads of other nodes from gossip.

use super::node_info::load;
use super::table_names::keyspaces;
use crate::admin::error::CommandError;
use crate::admin::number_format::file_size;
use crate::admin::protocol::Request;
use crate::admin::text_table::TextTable;
use crate::node_state::NodeState;
use cluster::gossip::{ApplicationState, Gossiper};
use cluster::metadata::MemberState;
use cluster::topology::{Node, NodeIndex, Topology};
use model::schema::SYSTEM_KEYSPACES;
use model::{Keyspace, RingToken, Schema};
use std::fmt::Write;

/// The keyspace whose replication determines ownership if there are no user keyspaces.
const STAND_IN: &str = "system_traces";

/// The shares of the data that the nodes own; `None` if they are meaningless, and then the note says why.
pub(super) struct Ownership {
    /// In the order of the topology.
    parts: Option<Vec<f64>>,
    pub(super) note: Option<&'static str>,
}

impl Ownership {
    fn text(&self, node: NodeIndex, decimals: usize) -> String {
        let part = self.parts.as_ref().and_then(|parts| parts.get(usize::from(node.0)));
        part.map_or_else(|| "?".into(), |part| format!("{:.decimals$}%", part * 100.0))
    }
}

pub(super) fn ownership(node: &NodeState, schema: &Schema, keyspace: Option<&str>) -> Result<Ownership, CommandError> {
    let meaningless = |note| Ok(Ownership { parts: None, note: Some(note) });
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
    let groups = placement.groups(schema);
    let shares: Vec<Vec<f64>> =
        groups.iter().filter(|group| group.keyspace == keyspace.name).map(|group| group.placed.shares()).collect();
    // The tables of a keyspace with tablets are placed each by itself.
    let mean = |node: usize| shares.iter().map(|shares| shares[node]).sum::<f64>() / shares.len().max(1) as f64;
    let parts = (0..placement.topology().nodes().len()).map(mean).collect();
    Ok(Ownership { parts: Some(parts), note: None })
}

/// A member of the cluster as operators see it.
struct Row<'t> {
    node: &'t Node,
    is_up: bool,
    state: MemberState,
    load: String,
    /// How many tokens it has or claims.
    tokens: usize,
    ownership: String,
}

impl Row<'_> {
    fn address(&self) -> String {
        self.node.address.ip().to_string()
    }

    /// `UN` and the like.
    fn letters(&self) -> String {
        let state = match self.state {
            MemberState::Joining => 'J',
            MemberState::Normal => 'N',
            MemberState::Leaving => 'L',
            MemberState::Moving => 'M',
        };
        format!("{}{state}", if self.is_up { 'U' } else { 'D' })
    }
}

/// The members in the order of their first tokens, those without tokens last, and how much each one owns.
async fn rows<'t>(
    node: &NodeState,
    topology: &'t Topology,
    owned: &Ownership,
    decimals: usize,
) -> Result<Vec<Row<'t>>, CommandError> {
    let own_load = file_size(load(node).await?.disk_bytes);
    let metadata = node.shard.cluster_metadata();
    let here = topology.node(topology.here()).host_id;
    let row = |(at, member): (usize, &'t Node)| {
        let known = metadata.members.get(&member.host_id);
        // A node that is no member yet knows itself alone.
        let state = known.map_or(MemberState::Joining, |known| known.state);
        let told = |gossiper: &Gossiper| {
            let load = gossiper.state(member.address)?.value(ApplicationState::LOAD)?;
            load.parse::<f64>().ok().map(|bytes| file_size(bytes as u64))
        };
        let load = match member.host_id == here {
            true => own_load.clone(),
            false => node.gossip.view(told).unwrap_or_else(|| "?".into()),
        };
        let ownership = match state {
            MemberState::Joining => "?".into(),
            _ => owned.text(NodeIndex(at as u16), decimals),
        };
        Row {
            node: member,
            is_up: node.gossip.view(|gossiper| gossiper.is_alive(member.address)),
            state,
            load,
            tokens: known.map_or(member.tokens.len(), |known| known.tokens.len()),
            ownership,
        }
    };
    // A node that has left still knows the ring that it was part of.
    let stays = |(_, member): &(usize, &'t Node)| !metadata.left.contains(&member.host_id);
    let mut rows: Vec<Row<'_>> = topology.nodes().iter().enumerate().filter(stays).map(row).collect();
    rows.sort_by_key(|row| (row.node.tokens.is_empty(), row.node.tokens.iter().min().cloned()));
    Ok(rows)
}

/// The data centres of rows, in the order in which they come.
fn data_centers<'r>(rows: &'r [Row<'_>]) -> Vec<&'r str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.node.data_center.as_str()) {
            names.push(&row.node.data_center);
        }
    }
    names
}

/// `status`.
pub(crate) async fn status(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let schema = node.shard.schema();
    let owned = ownership(node, &schema, request.arguments.last().map(String::as_str))?;
    let topology = node.shard.topology();
    let rows = rows(node, &topology, &owned, 1).await?;
    for data_center in data_centers(&rows) {
        let title = format!("Datacenter: {data_center}");
        let _ = writeln!(out, "{title}\n{}", "=".repeat(title.len()));
        out.push_str("Status=Up/Down\n|/ State=Normal/Leaving/Joining/Moving\n");
        let mut table = TextTable::new(2);
        let owns = if owned.parts.is_some() { "Owns (effective)" } else { "Owns" };
        table.row(["--", "Address", "Load", "Tokens", owns, "Host ID", "Rack"]);
        for row in rows.iter().filter(|row| row.node.data_center == data_center) {
            table.row([
                row.letters(),
                row.address(),
                row.load.clone(),
                row.tokens.to_string(),
                row.ownership.clone(),
                row.node.host_id.to_string(),
                row.node.rack.clone(),
            ]);
        }
        table.print(out);
        out.push('\n');
    }
    if let Some(note) = owned.note {
        let _ = writeln!(out, "Note: {note}");
    }
    Ok(())
}

/// `ring`.
pub(crate) async fn ring(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let schema = node.shard.schema();
    let owned = ownership(node, &schema, request.arguments.last().map(String::as_str))?;
    let topology = node.shard.topology();
    let rows = rows(node, &topology, &owned, 2).await?;
    let width = rows.iter().map(|row| row.node.address.to_string().len()).max().unwrap_or_default();
    for data_center in data_centers(&rows) {
        let _ = write!(out, "\nDatacenter: {data_center}\n==========\n");
        let mut line = |cells: [&str; 7]| {
            let [address, rack, status, state, load, owns, token] = cells;
            let _ = writeln!(out, "{address:<width$}  {rack:<12}{status:<7}{state:<8}{load:<16}{owns:<20}{token:<44}");
        };
        let here = rows.iter().filter(|row| row.node.data_center == data_center);
        let mut tokens: Vec<(&RingToken, &Row<'_>)> =
            here.flat_map(|row| row.node.tokens.iter().map(move |token| (token, row))).collect();
        tokens.sort_by(|a, b| a.0.cmp(b.0));
        line(["Address", "Rack", "Status", "State", "Load", "Owns", "Token"]);
        if let [.., _, (last, _)] = tokens.as_slice() {
            line(["", "", "", "", "", "", &last.to_string()]);
        }
        for (token, row) in tokens {
            let status = if row.is_up { "Up" } else { "Down" };
            let state = match row.state {
                MemberState::Joining => "Joining",
                MemberState::Normal => "Normal",
                MemberState::Leaving => "Leaving",
                MemberState::Moving => "Moving",
            };
            let (address, token) = (row.address(), token.to_string());
            line([&address, &row.node.rack, status, state, &row.load, &row.ownership, &token]);
        }
        out.push('\n');
    }
    if rows.iter().any(|row| row.tokens > 1) {
        out.push_str("  Warning: \"nodetool ring\" is used to output all the tokens of a node.\n");
        out.push_str("  To view status related info of a node use \"nodetool status\" instead.\n\n");
    }
    out.push_str("\n  ");
    if let Some(note) = owned.note {
        let _ = writeln!(out, "Note: {note}");
    }
    Ok(())
}
