//! What the virtual tables hold: the virtual schema, the clients of all cores, the settings, what is under way.
//!
//! Tables about things that do not exist here are empty: there are no row, key or counter caches.

use super::VirtualRows;
use crate::compaction_history::kind_of;
use crate::ports::{Activity, Client, Observation};
use crate::schema::cells::frozen_text_map;
use crate::schema::local::inet;
use crate::verbs::{Reply, Request};
use crate::{Shard, TableAnswer, TableVerb};
use model::{ColumnKind, Failure, Table};
use std::sync::Arc;

/// Cassandra's name for who changes the schema.
const DEFINITIONS: &str = "MigrationStage";
/// Cassandra's name for who executes requests.
const REQUESTS: &str = "Native-Transport-Requests";

/// Makes all rows of a virtual table.
pub(super) async fn fill(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    match (rows.table.keyspace.as_str(), rows.table.name.as_str()) {
        ("system_virtual_schema", "keyspaces") => {
            for table in virtual_tables(shard) {
                if !rows.rows.iter().any(|row| row.key == table.keyspace.as_bytes()) {
                    rows.push([("keyspace_name", text(&table.keyspace))]);
                }
            }
        }
        ("system_virtual_schema", "tables") => {
            for table in virtual_tables(shard) {
                rows.push([
                    ("keyspace_name", text(&table.keyspace)),
                    ("table_name", text(&table.name)),
                    ("comment", text(&table.options.comment)),
                ]);
            }
        }
        ("system_virtual_schema", "columns") => columns(shard, rows),
        ("system_views", "settings") => {
            for (name, value) in &*shard.config().settings {
                rows.push([("name", text(name)), ("value", value.as_deref().and_then(text))]);
            }
        }
        ("system_views", "clients") => {
            observe(shard).await?.iter().flat_map(|observation| &observation.clients).for_each(|client| {
                push_client(rows, client);
            });
        }
        ("system_views", "thread_pools") => {
            let mut requests = Activity::default();
            for observation in observe(shard).await? {
                requests.add(&observation.requests);
            }
            push_pool(rows, REQUESTS, &requests);
            push_pool(rows, DEFINITIONS, &shard.definitions_activity());
        }
        ("system_views", "sstable_tasks") => sstable_tasks(shard, rows).await?,
        // Caches.
        _ => {}
    }
    Ok(())
}

/// What every core sees of its clients.
async fn observe(shard: &Shard) -> Result<Vec<Observation>, Failure> {
    shard.call_all(|| Request::Observe).await.into_iter().map(Reply::observed).collect()
}

/// The compactions under way on all cores.
async fn sstable_tasks(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    let schema = shard.schema();
    for answer in shard.on_every_shard(TableVerb::Compactions).await? {
        let TableAnswer::Compactions(statistics) = answer else { continue };
        for running in statistics.running {
            let Some(table) = schema.table_by_id(running.table) else { continue };
            let ratio = running.read_bytes as f64 / running.total_bytes.max(1) as f64;
            let directory = engine::directory_of(&shard.config().directory, table);
            rows.push([
                ("keyspace_name", text(&table.keyspace)),
                ("table_name", text(&table.name)),
                ("task_id", Some(running.id.as_bytes().to_vec())),
                ("completion_ratio", Some(ratio.to_be_bytes().to_vec())),
                ("kind", text(&kind_of(running.major).to_lowercase())),
                ("progress", bigint(running.read_bytes)),
                ("sstables", int(i32::try_from(running.sstables).unwrap_or(i32::MAX))),
                ("target_directory", text(&directory.display().to_string())),
                ("total", bigint(running.total_bytes)),
                ("total_compressed", bigint(running.stored_bytes)),
                ("unit", text("bytes")),
            ]);
        }
    }
    Ok(())
}

fn virtual_tables(shard: &Shard) -> Vec<Arc<Table>> {
    let schema = shard.schema();
    let keyspaces = schema.keyspaces.values().filter(|keyspace| keyspace.is_virtual());
    keyspaces.flat_map(|keyspace| keyspace.tables.values().cloned()).collect()
}

fn columns(shard: &Shard, rows: &mut VirtualRows<'_>) {
    for table in virtual_tables(shard) {
        for column in &table.columns {
            let (kind, position, order) = match column.kind {
                ColumnKind::PartitionKey => ("partition_key", i32::from(column.position), "none"),
                ColumnKind::Clustering => ("clustering", i32::from(column.position), "asc"),
                ColumnKind::Static => ("static", -1, "none"),
                ColumnKind::Regular => ("regular", -1, "none"),
            };
            rows.push([
                ("keyspace_name", text(&table.keyspace)),
                ("table_name", text(&table.name)),
                ("column_name", text(&column.name)),
                ("clustering_order", text(order)),
                ("column_name_bytes", text(&column.name)),
                ("kind", text(kind)),
                ("position", int(position)),
                ("type", text(&column.cql_type.to_string())),
            ]);
        }
    }
}

fn push_client(rows: &mut VirtualRows<'_>, client: &Client) {
    let option = |name: &str| {
        let found = client.options.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.and_then(|(_, value)| text(value))
    };
    // Names are not asked for: that of the loopback address is known.
    let address = client.address.to_string();
    let host = if matches!(address.as_str(), "127.0.0.1" | "::1") { "localhost" } else { &address };
    rows.push([
        ("address", Some(inet(client.address))),
        ("port", int(i32::from(client.port))),
        ("client_options", Some(frozen_text_map(&client.options))),
        ("connection_stage", text(if client.ready { "ready" } else { "established" })),
        ("driver_name", option("DRIVER_NAME")),
        ("driver_version", option("DRIVER_VERSION")),
        ("hostname", text(host)),
        ("keyspace_name", client.keyspace.as_deref().and_then(text)),
        ("protocol_version", int(i32::from(client.protocol_version))),
        ("request_count", bigint(client.requests)),
        ("ssl_enabled", Some(vec![u8::from(client.tls)])),
        ("username", text("anonymous")),
    ]);
}

fn push_pool(rows: &mut VirtualRows<'_>, name: &str, activity: &Activity) {
    let count = |count: u64| int(i32::try_from(count).unwrap_or(i32::MAX));
    rows.push([
        ("name", text(name)),
        ("active_tasks", count(activity.active)),
        ("active_tasks_limit", count(activity.active_max)),
        ("blocked_tasks", bigint(activity.blocked)),
        ("blocked_tasks_all_time", bigint(activity.blocked_in_all)),
        ("completed_tasks", bigint(activity.completed)),
        ("pending_tasks", count(activity.pending)),
    ]);
}

fn text(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

fn int(number: i32) -> Option<Vec<u8>> {
    Some(number.to_be_bytes().to_vec())
}

fn bigint(number: u64) -> Option<Vec<u8>> {
    Some(i64::try_from(number).unwrap_or(i64::MAX).to_be_bytes().to_vec())
}
