//! `compact`: compacts all SSTables of tables, or some of them.

use super::imports::key_of;
use super::table_names;
use crate::admin::error::CommandError;
use crate::admin::protocol::Request;
use crate::node_state::NodeState;
use model::{DecoratedKey, Partitioner, Table, TableId, Token};
use shard::{CompactionScope, Component, Descriptor, TableVerb};
use std::collections::BTreeMap;
use std::path::Path;

/// Runs the command. Its checks and texts are those of Cassandra's `Compact`.
pub(crate) async fn compact(node: &NodeState, request: &Request) -> Result<(), CommandError> {
    let failed = |text: &str| Err(CommandError::Failed(text.into()));
    let tokens = [request.option("-st"), request.option("-et")];
    let (has_tokens, partition) = (tokens.iter().any(Option::is_some), request.option("--partition"));
    let named = request.has("--user-defined");
    let narrowed = has_tokens || partition.is_some();
    if request.has("-s") && (named || narrowed) {
        return failed("Invalid option combination: Can not use split-output here");
    }
    if named && narrowed {
        return failed("Invalid option combination: Can not provide tokens when using user-defined");
    }
    if named {
        for (table, named) in sstables(node, &request.arguments).await? {
            run(node, table, CompactionScope::Named(named)).await?;
        }
        return Ok(());
    }
    let tables = table_names::tables(node, &request.arguments)?;
    let partitioner = node.shard.node_config().partitioner;
    let between = match has_tokens {
        true => {
            let token = |text: Option<&str>| token(partitioner, text.unwrap_or_default());
            Some((token(tokens[0])?, token(tokens[1])?))
        }
        false => None,
    };
    for table in tables {
        let chosen = match (between, partition) {
            (Some((start, end)), _) => CompactionScope::Tokens(start, end),
            (None, Some(text)) => CompactionScope::Partition(key(partitioner, &table, text)?),
            (None, None) => CompactionScope::All { split: request.has("-s") },
        };
        run(node, table.id, chosen).await?;
    }
    Ok(())
}

async fn run(node: &NodeState, table: TableId, chosen: CompactionScope) -> Result<(), CommandError> {
    node.shard.on_every_shard(TableVerb::Compact { table, chosen }).await?;
    Ok(())
}

fn token(partitioner: Partitioner, text: &str) -> Result<Token, CommandError> {
    partitioner.parse_token(text).map(|token| token.token()).map_err(CommandError::Failed)
}

fn key(partitioner: Partitioner, table: &Table, text: &str) -> Result<DecoratedKey, CommandError> {
    let unparsed = |error| {
        let table = table.full_name();
        CommandError::Failed(format!("Unable to parse partition key '{text}' for table {table}; {error}"))
    };
    key_of(table, text).map(|key| DecoratedKey::new(partitioner, &key)).map_err(unparsed)
}

/// The SSTables of the given `Data.db` files, by table. A file that belongs to no table is left out.
async fn sstables(node: &NodeState, files: &[String]) -> Result<BTreeMap<TableId, Vec<Descriptor>>, CommandError> {
    let schema = node.shard.schema();
    let data = &node.shard.node_config().directories;
    let mut directories = Vec::new();
    for table in table_names::keyspaces(&schema).flat_map(|keyspace| keyspace.tables.values()) {
        for directory in shard::directories_of(data, table) {
            directories.push((table.id, runtime::file::canonical(&directory).await.unwrap_or(directory)));
        }
    }
    let mut found: BTreeMap<TableId, Vec<Descriptor>> = BTreeMap::new();
    if files.is_empty() {
        return Err(no_sstable(""));
    }
    for file in files.iter().flat_map(|argument| argument.split(',')) {
        let path = Path::new(file.trim());
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let Some((descriptor, Some(Component::Data))) = Descriptor::parse(&name) else { return Err(no_sstable(&name)) };
        let parent = path.parent().unwrap_or(Path::new("."));
        let parent = runtime::file::canonical(parent).await.unwrap_or_else(|_| parent.to_owned());
        match directories.iter().find(|(_, directory)| *directory == parent) {
            Some((table, _)) => found.entry(*table).or_default().push(descriptor),
            None => tracing::warn!(file, "no table has this file: it is left out"),
        }
    }
    Ok(found)
}

fn no_sstable(name: &str) -> CommandError {
    let text = format!("Invalid sstable file {name}: the name doesn't look like a supported sstable file name");
    CommandError::Failed(text)
}
