//! Commands that import or inspect SSTables: `import`, `refresh`, `verify`, `getsstables`.

use super::table_names::{self, keyspaces};
use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use crate::node_state::NodeState;
use model::compaction::Strategy;
use model::{CqlType, DecoratedKey, Schema, Table};
use shard::imports::{Check, Depth, ImportOptions, ImportRequest};
use shard::{TableAnswer, TableVerb};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// The table with these names, or the error of Cassandra's management interface.
fn store_of(schema: &Schema, keyspace: &str, table: &str) -> Result<Arc<Table>, CommandError> {
    let found = keyspaces(schema).find(|found| found.name == keyspace);
    match found.and_then(|keyspace| keyspace.tables.get(table)) {
        Some(table) => Ok(table.clone()),
        None => Err(CommandError::ToStderr(format!("ColumnFamilyStore for {keyspace}/{table} not found.\n"))),
    }
}

/// `refresh`.
pub(crate) async fn refresh(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    out.push_str("nodetool refresh is deprecated, use nodetool import instead\n");
    let [keyspace, table] = request.arguments.as_slice() else {
        return usage("refresh requires ks and cf args");
    };
    let schema = node.shard.schema();
    let Some(keyspace) = keyspaces(&schema).find(|found| found.name == *keyspace) else {
        return usage(format!("Keyspace {keyspace} does not exist"));
    };
    let Some(table) = keyspace.tables.get(table) else {
        return usage(format!("Unknown keyspace/cf pair ({}.{table})", keyspace.name));
    };
    let options = ImportOptions { depth: Depth::Quick, keep_level: false, keep_repaired: true, copy: false };
    node.shard.import(table, ImportRequest { directories: Vec::new(), options }).await?;
    Ok(())
}

/// `import`.
pub(crate) async fn import(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let [keyspace, table, directories @ ..] = request.arguments.as_slice() else {
        return usage("import requires keyspace, table name and directories");
    };
    if directories.is_empty() {
        return usage("import requires keyspace, table name and directories");
    }
    // `-ri` is about the components of indexes that are attached to SSTables; no SSTable has any.
    let quick = request.has("-q");
    if quick {
        out.push_str("Doing a quick import - skipping sstable verification and row cache invalidation\n");
    }
    let table = store_of(&node.shard.schema(), keyspace, table)?;
    let options = ImportOptions {
        depth: match (quick || request.has("-v"), request.has("-e")) {
            (true, _) => Depth::Quick,
            (false, false) => Depth::Checksums,
            (false, true) => Depth::Extended,
        },
        keep_level: request.has("-l"),
        keep_repaired: request.has("-r"),
        copy: request.has("-cd"),
    };
    let directories = directories.iter().map(PathBuf::from).collect();
    let failed = node.shard.import(&table, ImportRequest { directories, options }).await?;
    if failed.is_empty() {
        return Ok(());
    }
    let mut text = String::from("Some directories failed to import, check server logs for details:\n");
    for directory in failed {
        let _ = writeln!(text, "{}", directory.display());
    }
    Err(CommandError::ToStderr(text))
}

/// `verify`.
pub(crate) async fn verify(node: &NodeState, request: &Request) -> Result<(), CommandError> {
    if !request.has("-f") {
        let text = "verify is disabled unless a [-f|--force] override flag is provided. See CASSANDRA-9947 and \
                    CASSANDRA-17017 for details.\n";
        return Err(CommandError::ToStderr(text.into()));
    }
    if request.has("-t") && !request.has("-e") {
        return Err(CommandError::ToStderr("Token verification requires --extended-verify\n".into()));
    }
    // No token can belong to another node, so `-t` has nothing to check.
    if request.has("-r") {
        return Err(CommandError::Failed("verify --rsc is not supported: there is no repair".into()));
    }
    let depth = match (request.has("-q"), request.has("-e")) {
        (true, _) => Depth::Quick,
        (false, false) => Depth::Checksums,
        (false, true) => Depth::Extended,
    };
    let check = Check { depth, latest: request.has("-c"), invokes_policy: request.has("-d") };
    for table in table_names::tables(node, &request.arguments)? {
        let verb = TableVerb::Verify { table: table.id, check };
        for answer in node.shard.on_every_shard(verb).await? {
            if let TableAnswer::Verified(Some(invalid)) = answer {
                let file = invalid.file.display();
                tracing::error!(%file, fault = %invalid.text, "an SSTable is not good");
                let text = format!("Invalid SSTable {file}, please force a full repair: {}", invalid.text);
                return Err(CommandError::Failed(text));
            }
        }
    }
    Ok(())
}

/// `getsstables`.
pub(crate) async fn get_sstables(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let [keyspace, table, key] = request.arguments.as_slice() else {
        return usage("getsstables requires ks, cf and key args");
    };
    let table = store_of(&node.shard.schema(), keyspace, table)?;
    let key = match request.has("-hf") {
        true => match model::text::from_quoted(&CqlType::Blob, key) {
            Ok(key) => key,
            Err(error) => return Err(CommandError::Failed(error.0)),
        },
        false => key_of(&table, key).map_err(CommandError::Failed)?,
    };
    let options = model::compaction::CompactionOptions::of(&table.options.compaction);
    let levels = request.has("-l") && matches!(options.strategy, Strategy::Leveled(_));
    let mut found = Vec::new();
    let key = DecoratedKey::new(node.shard.node_config().partitioner, &key);
    let verb = TableVerb::SstablesWith { table: table.id, key };
    for answer in node.shard.on_every_shard(verb).await? {
        if let TableAnswer::Files(files) = answer {
            found.extend(files);
        }
    }
    found.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    for (file, level) in found {
        let file = runtime::file::canonical(&file).await.unwrap_or(file);
        let _ = match levels {
            true => writeln!(out, "{level}: {}", file.display()),
            false => writeln!(out, "{}", file.display()),
        };
    }
    Ok(())
}

/// The bytes of a stored partition key that is written as nodetool takes it: colons separate the components of a
/// compound key, and a backslash before a colon makes it part of a component. With write sharding the number of the
/// sub-partition is the last component.
pub(super) fn key_of(table: &Table, text: &str) -> Result<Vec<u8>, String> {
    let types: Vec<&CqlType> = table.stored_key_types().collect();
    if let [cql_type] = types.as_slice() {
        return component_of(cql_type, text);
    }
    let (mut parts, mut part) = (Vec::new(), String::new());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => part.push(characters.next_if_eq(&':').unwrap_or('\\')),
            ':' => parts.push(std::mem::take(&mut part)),
            other => part.push(other),
        }
    }
    parts.push(part);
    if parts.len() != types.len() {
        return Err(format!("{text} has {} of the {} components of the partition key", parts.len(), types.len()));
    }
    let mut components = Vec::new();
    for (cql_type, part) in types.into_iter().zip(&parts) {
        let bytes = component_of(cql_type, part)?;
        if bytes.len() > usize::from(u16::MAX) {
            return Err(format!("{} bytes are too many for a component of a key", bytes.len()));
        }
        components.push(bytes);
    }
    let mut key = Vec::new();
    model::key::push_composite(components.iter().map(Vec::as_slice), &mut key);
    Ok(key)
}

/// The bytes of one column of a key. A text that is no number is refused in the words of Java's parser, which is what
/// nodetool shows.
fn component_of(cql_type: &CqlType, text: &str) -> Result<Vec<u8>, String> {
    model::text::from_quoted(cql_type, text).map_err(|error| match cql_type {
        CqlType::Tinyint | CqlType::Smallint | CqlType::Int | CqlType::Bigint | CqlType::Counter => {
            format!("For input string: \"{text}\"")
        }
        _ => error.0,
    })
}
