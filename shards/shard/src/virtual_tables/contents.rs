//! What the virtual tables hold: the virtual schema, the clients of all cores, the settings, what is under way.
//!
//! Tables about things that do not exist here are empty, as in a Cassandra where those things do not happen:
//! storage-attached indexes, caches of permissions, and the log as a table (which Cassandra fills only
//! if its logging is configured so). Caches have rows of zeros.

use super::{
    VirtualRows, alerts, damaged, gossip, hints, links, pools, repairs, streams, sub_partitions, tables, tablets,
    throughput,
};
use crate::messages::admin::{TableAnswer, TableVerb};
use crate::operations::compaction_history::name_of;
use crate::ports::Client;
use crate::schema::cells::frozen_text_map;
use crate::schema::local::inet;
use crate::schema::system_tables::is_hidden;
use crate::shard_state::Shard;
use model::{ColumnKind, Failure, Table};
use std::sync::Arc;

/// Caches that have a row in Cassandra whatever their size; they do not exist here, so their size is 0.
const CACHES: [&str; 3] = ["counters", "keys", "rows"];
/// This machine's kind, as Java names it.
const JAVA_ARCH: &str = if cfg!(target_arch = "x86_64") { "amd64" } else { std::env::consts::ARCH };

/// Adds all rows of a virtual table to `rows`.
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
        ("system_views", "system_properties") => {
            let directory = shard.config().directories.first().display().to_string();
            let properties =
                [("cassandra.storagedir", directory.as_str()), ("os.arch", JAVA_ARCH), ("os.name", "Linux")];
            for (name, value) in properties {
                rows.push([("name", text(name)), ("value", text(value))]);
            }
        }
        ("system_views", "clients") => {
            shard.observed().await?.iter().flat_map(|observation| &observation.clients).for_each(|client| {
                push_client(rows, client);
            });
        }
        ("system_views", "caches") => CACHES.iter().for_each(|name| push_cache(rows, name)),
        ("system_views", "cidr_filtering_metrics_counts") => {
            for (name, count) in shard.cidr_counts().await? {
                rows.push([("name", text(&name)), ("value", bigint(count))]);
            }
        }
        ("system_views", "cidr_filtering_metrics_latencies") => {
            for (latency, times) in shard.cidr_times().await? {
                let at = |part| double(times.percentile(part) as f64);
                rows.push([
                    ("name", text(latency.name())),
                    ("max", double(times.max() as f64)),
                    ("p50th", at(0.5)),
                    ("p95th", at(0.95)),
                    ("p999th", at(0.999)),
                    ("p99th", at(0.99)),
                ]);
            }
        }
        ("system_views", "thread_pools") => pools::thread_pools(shard, rows).await?,
        ("system_views", "queries") => pools::queries(shard, rows).await?,
        ("system_views", "batch_metrics") => pools::batch_metrics(shard, rows).await?,
        ("system_views", "cql_metrics") => pools::cql_metrics(shard, rows).await?,
        ("system_views", "sstable_tasks") => sstable_tasks(shard, rows).await?,
        ("system_views", "snapshots") => snapshots(shard, rows).await?,
        ("system_views", "internode_inbound") => links::fill(shard, rows, |traffic| &traffic.inbound).await?,
        ("system_views", "internode_outbound") => links::fill(shard, rows, |traffic| &traffic.outbound).await?,
        ("system_views", "pending_hints") => hints::fill(shard, rows).await?,
        ("system_views", "streaming") => streams::fill(shard, rows).await?,
        ("system_views", "damaged_sstables") => damaged::fill(shard, rows).await?,
        ("system_views", "alerts") => alerts::fill(shard, rows).await?,
        ("system_views", "hot_partitions") => throughput::fill_hot(shard, rows).await?,
        ("system_views", "physical_partitions") => tablets::fill_physical(shard, rows).await?,
        ("system_views", "sub_partitions") => sub_partitions::fill(shard, rows),
        ("system_views", "tablets") => tablets::fill(shard, rows).await?,
        ("system_views", "throughput") => throughput::fill(shard, rows).await?,
        ("system_views", name) if name.starts_with("repair") => repairs::fill(shard, name, rows),
        ("system_views", "gossip_info") => gossip::fill(shard, rows),
        ("system_views", name) => tables::fill(shard, name, rows).await?,
        _ => {}
    }
    Ok(())
}

/// The compactions under way on all cores.
async fn sstable_tasks(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    let schema = shard.schema();
    for answer in shard.on_every_shard(TableVerb::Compactions).await? {
        let TableAnswer::Compactions(statistics) = answer else { continue };
        for running in statistics.running {
            let Some(table) = schema.table_by_id(running.table) else { continue };
            let ratio = running.read_bytes as f64 / running.total_bytes.max(1) as f64;
            rows.push([
                ("keyspace_name", text(&table.keyspace)),
                ("table_name", text(&table.name)),
                ("task_id", Some(running.id.as_bytes().to_vec())),
                ("completion_ratio", Some(ratio.to_be_bytes().to_vec())),
                ("kind", text(&name_of(running.kind).to_lowercase())),
                ("progress", bigint(running.read_bytes)),
                ("sstables", int(i32::try_from(running.sstables).unwrap_or(i32::MAX))),
                ("target_directory", text(&running.directory.display().to_string())),
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
    let tables = keyspaces.flat_map(|keyspace| keyspace.tables.values().cloned());
    tables.filter(|table| !is_hidden(table)).collect()
}

fn columns(shard: &Shard, rows: &mut VirtualRows<'_>) {
    for table in virtual_tables(shard) {
        for column in &table.columns {
            let (kind, position, order) = match column.kind {
                ColumnKind::PartitionKey => ("partition_key", i32::from(column.position), "none"),
                ColumnKind::Clustering if column.descending => ("clustering", i32::from(column.position), "desc"),
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
    let address = client.address.to_string();
    let host = host_name(&address);
    let encryption = client.encryption.as_ref();
    rows.push([
        ("address", Some(inet(client.address))),
        ("port", int(i32::from(client.port))),
        ("client_options", Some(frozen_text_map(&client.options))),
        ("connection_stage", text(if client.ready { "ready" } else { "authenticating" })),
        ("driver_name", option("DRIVER_NAME")),
        ("driver_version", option("DRIVER_VERSION")),
        ("hostname", text(host)),
        ("keyspace_name", client.keyspace.as_deref().and_then(text)),
        ("protocol_version", int(i32::from(client.protocol_version))),
        ("request_count", bigint(client.requests)),
        ("ssl_cipher_suite", encryption.and_then(|(_, suite)| text(suite))),
        ("ssl_enabled", Some(vec![u8::from(encryption.is_some())])),
        ("ssl_protocol", encryption.and_then(|(protocol, _)| text(protocol))),
        ("username", client.user.as_deref().and_then(text)),
    ]);
}

fn push_cache(rows: &mut VirtualRows<'_>, name: &str) {
    rows.push([
        ("name", text(name)),
        ("capacity_bytes", bigint(0)),
        ("entry_count", int(0)),
        ("hit_count", bigint(0)),
        ("hit_ratio", double(f64::NAN)),
        ("recent_hit_rate_per_second", bigint(0)),
        ("recent_request_rate_per_second", bigint(0)),
        ("request_count", bigint(0)),
        ("size_bytes", bigint(0)),
    ]);
}

/// Snapshots of all tables.
async fn snapshots(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    for found in shard.snapshots().await? {
        let millis = |at: i64| at.to_be_bytes().to_vec();
        rows.push([
            ("name", text(&found.tag)),
            ("keyspace_name", text(&found.keyspace)),
            ("table_name", text(&found.table)),
            ("created_at", found.manifest.created_at.map(millis)),
            ("ephemeral", Some(vec![u8::from(found.manifest.ephemeral)])),
            ("expires_at", found.manifest.expires_at.map(millis)),
            ("size_on_disk", bigint(found.disk_bytes)),
            ("true_size", bigint(found.true_bytes)),
        ]);
    }
    Ok(())
}

pub(super) fn text(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

pub(super) fn int(number: i32) -> Option<Vec<u8>> {
    Some(number.to_be_bytes().to_vec())
}

pub(super) fn bigint(number: u64) -> Option<Vec<u8>> {
    Some(i64::try_from(number).unwrap_or(i64::MAX).to_be_bytes().to_vec())
}

pub(super) fn double(number: f64) -> Option<Vec<u8>> {
    Some(number.to_be_bytes().to_vec())
}

/// The host name of an address: only that of the loopback address is known, as no name server is asked.
pub(super) fn host_name(address: &str) -> &str {
    if matches!(address, "127.0.0.1" | "::1") { "localhost" } else { address }
}
