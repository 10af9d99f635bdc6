//! `restore`: tables of a snapshot of a cluster into this one, which may have another size.
//!
//! 1. What lies in the directories is looked at; nothing is done if it does not fit together ([`plan`]).
//! 2. Keyspaces and tables that are not there are made, as they were.
//! 3. Table by table: this node takes in all SSTables, of the whole ring ([`shard::imports`]); every other replica
//!    fetches from it what it should have ([`Shard::hand_out`](shard::Shard::hand_out)); what this node should not have
//!    is removed here.
//!
//! The files of the snapshot stay. What was written to a table since counts beside what is restored, by its timestamps.
//! After a failure the command can be given again.

use crate::admin::error::{CommandError, usage};
use crate::admin::number_format::file_size;
use crate::admin::protocol::Request;
use crate::node_state::NodeState;
use model::schema::SYSTEM_KEYSPACES;
use model::{Consistency, Failure, QueryParameters, Table};
use shard::imports::{Depth, ImportOptions, ImportRequest};
use shard::snapshots::{Snapshot, has_manifest, list_copied, read_cluster, read_schema};
use shard::{ClusterDescription, Session, StreamSummary, TableVerb, statements_of};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use uuid::Uuid;

/// How many cores remove at a time what the node should not have.
const CORES_MAX: u16 = 2;

/// A table to be restored.
struct Part {
    keyspace: String,
    table: String,
    /// Where its SSTables lie.
    directories: Vec<PathBuf>,
    /// The statements that make its keyspace, its types and the table, unless they are there.
    statements: Vec<String>,
}

/// What is to be restored.
struct Plan {
    parts: Vec<Part>,
    /// Nodes of the cluster that was, of which nothing lies in the directories.
    missing: BTreeSet<Uuid>,
}

/// `restore`.
pub(crate) async fn restore(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let Some(tag) = request.option("-t").filter(|tag| !tag.is_empty()) else {
        return usage("restore requires the name of a snapshot: -t <tag>");
    };
    if request.arguments.is_empty() {
        return usage("restore requires the directories in which the snapshot lies");
    }
    let directories: Vec<PathBuf> = request.arguments.iter().map(PathBuf::from).collect();
    let keyspaces: BTreeSet<&str> = request.option("-k").unwrap_or_default().split(',').collect();
    let is_wanted = |snapshot: &Snapshot| {
        let named = request.option("-k").is_some();
        let is_system = SYSTEM_KEYSPACES.contains(&snapshot.keyspace.as_str());
        snapshot.tag == tag && if named { keyspaces.contains(&*snapshot.keyspace) } else { !is_system }
    };
    let found = list_copied(&directories).await.map_err(failed)?;
    let found: Vec<Snapshot> = found.into_iter().filter(is_wanted).collect();
    if found.is_empty() {
        return Err(CommandError::Failed(format!("there is no snapshot {tag} to be restored in these directories")));
    }
    let Plan { parts, missing } = plan(node, found).await?;
    for host_id in missing {
        let _ = writeln!(
            out,
            "Nothing of node {host_id} lies in these directories: what only it had is not restored, which is nothing if \
             there is enough of other replicas"
        );
    }
    for part in &parts {
        let name = format!("{}.{}", part.keyspace, part.table);
        let (table, fetched) = restore_part(node, part).await.map_err(|failure| {
            CommandError::Failed(format!(
                "{name} is not restored as a whole, which can be tried again: {}",
                failure.text
            ))
        })?;
        let StreamSummary { files, bytes } = fetched;
        let _ =
            writeln!(out, "Restored {}; other nodes fetched {files} files, {}", table.full_name(), file_size(bytes));
    }
    Ok(())
}

/// Looks at what is to be restored.
async fn plan(node: &NodeState, found: Vec<Snapshot>) -> Result<Plan, CommandError> {
    let mut plan = Plan { parts: Vec::new(), missing: BTreeSet::new() };
    let schema = node.shard.schema();
    let (mut members, mut present) = (BTreeSet::new(), BTreeSet::new());
    for snapshot in found {
        let name = format!("{}.{}", snapshot.keyspace, snapshot.table);
        if plan.parts.iter().any(|part| part.keyspace == snapshot.keyspace && part.table == snapshot.table) {
            return Err(CommandError::Failed(format!("there are snapshots of several tables with the name {name}")));
        }
        let (mut statements, mut is_complete) = (Vec::new(), false);
        for directory in &snapshot.directories {
            let has_manifest = has_manifest(directory).await.map_err(failed)?;
            is_complete |= has_manifest;
            let Some(json) = read_cluster(directory).await.map_err(failed)? else { continue };
            if !has_manifest {
                let text = format!("the snapshot in {} is not complete", directory.display());
                return Err(CommandError::Failed(text));
            }
            let described = ClusterDescription::from_json(&json);
            let cluster = described.map_err(|error| unreadable(directory, "cluster.json", &error))?;
            let own = node.config.node.partitioner.simple_name();
            if cluster.partitioner != own {
                let text = format!("the snapshot was taken with {}, and this cluster has {own}", cluster.partitioner);
                return Err(CommandError::Failed(text));
            }
            present.insert(cluster.host_id);
            members.extend(cluster.nodes.iter().map(|node| node.host_id));
            if statements.is_empty() {
                statements.push(cluster.keyspace);
            }
        }
        if !is_complete {
            return Err(CommandError::Failed(format!("no snapshot of {name} is complete in these directories")));
        }
        let keyspace = schema.keyspace(&snapshot.keyspace);
        if keyspace.is_none() && statements.is_empty() {
            let text =
                format!("there is no keyspace {}, and the snapshot does not say how it was made", snapshot.keyspace);
            return Err(CommandError::Failed(text));
        }
        match keyspace.is_some_and(|keyspace| keyspace.tables.contains_key(&snapshot.table)) {
            true => statements.clear(),
            false => statements.extend(table_statements(&snapshot.directories, &name).await?),
        }
        let Snapshot { keyspace, table, directories, .. } = snapshot;
        plan.parts.push(Part { keyspace, table, directories, statements });
    }
    plan.missing = members.difference(&present).copied().collect();
    Ok(plan)
}

/// The statements that make a table, as the first directory tells that has them.
async fn table_statements(directories: &[PathBuf], name: &str) -> Result<Vec<String>, CommandError> {
    for directory in directories {
        let Some(script) = read_schema(directory).await.map_err(failed)? else { continue };
        let script = String::from_utf8(script);
        let script = script.map_err(|error| unreadable(directory, "schema.cql", &error.to_string()))?;
        let statements = statements_of(&script);
        let statements = statements.map_err(|failure| unreadable(directory, "schema.cql", &failure.text))?;
        return Ok(statements.into_iter().map(str::to_owned).collect());
    }
    Err(CommandError::Failed(format!("there is no table {name}, and the snapshot does not say how it was made")))
}

/// Restores one table, and tells what other nodes fetched.
async fn restore_part(node: &NodeState, part: &Part) -> Result<(Arc<Table>, StreamSummary), Failure> {
    let shard = &node.shard;
    for statement in &part.statements {
        shard.query(&Session::internal(), statement, &QueryParameters::new(Consistency::Quorum)).await?;
    }
    let schema = shard.schema();
    let table = schema.table(&part.keyspace, &part.table);
    let table = table.ok_or_else(|| Failure::server("the snapshot's statements do not make it"))?.clone();
    let options = ImportOptions { depth: Depth::Checksums, keep_level: false, keep_repaired: false, copy: true };
    let directories = part.directories.clone();
    let refused = shard.import(&table, ImportRequest { directories, options }).await?;
    if let Some(directory) = refused.first() {
        return Err(Failure::server(format!("{} cannot be read; the log says why", directory.display())));
    }
    let is_replicated = schema.keyspace(&table.keyspace).is_some_and(|keyspace| !keyspace.is_local());
    if !is_replicated {
        return Ok((table, StreamSummary::default()));
    }
    let fetched = shard.hand_out(&table).await?;
    let verb = TableVerb::Clean(table.id);
    shard.on_every_shard_in_turn(verb, CORES_MAX).await?;
    Ok((table, fetched))
}

fn unreadable(directory: &std::path::Path, file: &str, error: &str) -> CommandError {
    CommandError::Failed(format!("{} cannot be read: {error}", directory.join(file).display()))
}

fn failed(error: impl std::fmt::Display) -> CommandError {
    CommandError::Failed(error.to_string())
}
