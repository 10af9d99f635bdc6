//! Commands about the node and its port for clients: `version`, `info`, `statusbinary`, `enablebinary` and the like.

use super::table_names::keyspaces;
use crate::admin::error::CommandError;
use crate::admin::number_format::file_size;
use crate::admin::protocol::Request;
use crate::client_admin::PortOrder;
use crate::config::RELEASE_VERSION;
use crate::node_state::{LeavingState, NodeState};
use cluster::metadata::MemberState;
use model::schema::SYSTEM_KEYSPACES;
use shard::{CacheMetrics, TableStatistics};
use std::fmt::Write;

const NANOS_PER_MICROSECOND: f64 = 1e3;

/// `version`.
pub(crate) fn version(request: &Request, out: &mut String) -> Result<(), CommandError> {
    let _ = writeln!(out, "ReleaseVersion: {RELEASE_VERSION}");
    if request.has("-v") {
        out.push_str("GitSHA: Unknown\n");
    }
    Ok(())
}

/// `statusbinary`.
pub(crate) fn status_binary(node: &NodeState, out: &mut String) -> Result<(), CommandError> {
    out.push_str(if node.serves_clients.get() { "running\n" } else { "not running\n" });
    Ok(())
}

/// `enablebinary` and `disablebinary`.
pub(crate) async fn change_port(node: &NodeState, order: PortOrder) -> Result<(), CommandError> {
    node.clients.order(order).await.map_err(CommandError::Usage)
}

/// `enableoldprotocolversions` and `disableoldprotocolversions`.
pub(crate) async fn allow_older_protocols(node: &NodeState, allowed: bool) -> Result<(), CommandError> {
    node.clients.allow_older_protocols(allowed).await;
    Ok(())
}

/// The statistics of all tables together.
pub(crate) async fn load(node: &NodeState) -> Result<TableStatistics, CommandError> {
    let schema = node.shard.schema();
    let mut sum = TableStatistics::default();
    for keyspace in keyspaces(&schema) {
        for table in keyspace.tables.values() {
            sum.add(&node.shard.statistics(table.id).await?);
        }
    }
    Ok(sum)
}

/// How much of the data of user tables is repaired, in percent.
async fn percent_repaired(node: &NodeState) -> Result<f64, CommandError> {
    let schema = node.shard.schema();
    let (mut repaired, mut all) = (0, 0);
    for keyspace in keyspaces(&schema).filter(|keyspace| !SYSTEM_KEYSPACES.contains(&keyspace.name.as_str())) {
        for table in keyspace.tables.values() {
            let statistics = node.shard.statistics(table.id).await?;
            repaired += statistics.repaired_bytes;
            all += statistics.data_bytes;
        }
    }
    Ok(if all == 0 { 100.0 } else { repaired as f64 * 100.0 / all as f64 })
}

/// The line about the block cache, which Cassandra calls the chunk cache.
async fn chunk_cache(node: &NodeState) -> Result<String, CommandError> {
    let mut cache = CacheMetrics::default();
    node.shard.all_metrics().await?.iter().for_each(|metrics| cache.add(&metrics.cache));
    Ok(chunk_cache_line(&cache))
}

fn chunk_cache_line(cache: &CacheMetrics) -> String {
    let rate = |part: f64, all: u64| if all == 0 { "NaN".into() } else { format!("{:.3}", part / all as f64) };
    format!(
        "entries {}, size {}, capacity {}, {} misses, {} requests, {} recent hit rate, {} microseconds miss latency",
        cache.entries,
        file_size(cache.bytes),
        file_size(cache.capacity_bytes),
        cache.misses,
        cache.requests(),
        rate(cache.hits as f64, cache.requests()),
        rate(cache.miss_nanos as f64 / NANOS_PER_MICROSECOND, cache.misses),
    )
}

/// `info`.
pub(crate) async fn info(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let shard = &node.shard;
    let load = load(node).await?;
    let config = shard.node_config();
    let mib = |bytes: u64| bytes as f64 / f64::from(1u32 << 20);
    // Cassandra's gossip has none while it does not run.
    let generation = match node.gossip.is_running() {
        true => node.gossip.view(|gossiper| gossiper.own().generation),
        false => 0,
    };
    let used = runtime::machine::resident_memory_bytes().unwrap_or_default();
    // Shown for the caches that do not exist here.
    let none = "entries 0, size 0 bytes, capacity 0 bytes, 0 hits, 0 requests, NaN recent hit rate, \
                 0 save period in seconds";
    let memory = format!("{:.2} / {:.2}", mib(used), mib(config.memory_bytes as u64));
    let mut lines: Vec<(&str, String)> = vec![
        ("ID", shard.host_id().to_string()),
        ("Gossip active", node.gossip.is_running().to_string()),
        ("Native Transport active", node.serves_clients.get().to_string()),
        ("Load", file_size(load.disk_bytes)),
        ("Uncompressed load", file_size(load.disk_bytes + load.uncompressed - load.compressed as u64)),
        ("Generation No", generation.to_string()),
        ("Uptime (seconds)", runtime::now().since(node.started).as_secs().to_string()),
        ("Heap Memory (MB)", memory),
        ("Off Heap Memory (MB)", format!("{:.2}", mib(load.filter_bytes + load.chunk_bytes))),
        ("Data Center", config.data_center.clone()),
        ("Rack", config.rack.clone()),
        ("Exceptions", "0".into()),
        ("Key Cache", none.into()),
        ("Row Cache", none.into()),
        ("Counter Cache", none.into()),
        ("Chunk Cache", chunk_cache(node).await?),
        ("Network Cache", "size 0 bytes, overflow size: 0 bytes, capacity 0 bytes".into()),
        ("Percent Repaired", format!("{:?}%", percent_repaired(node).await?)),
    ];
    let tokens = shard.tokens();
    let is_in_the_ring =
        matches!(shard.member_state(), Some(MemberState::Normal | MemberState::Leaving | MemberState::Moving));
    match tokens.as_slice() {
        _ if !is_in_the_ring => lines.push(("Token", "(node is not joined to the cluster)".into())),
        [token] => lines.push(("Token", token.to_string())),
        _ if request.has("-T") => lines.extend(tokens.iter().map(|token| ("Token", token.to_string()))),
        _ => lines.push(("Token", format!("(invoke with -T/--tokens to see all {} tokens)", tokens.len()))),
    }
    let bootstrap = match shard.member_state() {
        _ if node.has_left() => "DECOMMISSIONED",
        Some(MemberState::Joining) | None => "NEEDS_BOOTSTRAP",
        _ => "COMPLETED",
    };
    let leaving = node.leaving.get();
    lines.extend([
        ("Bootstrap state", bootstrap.into()),
        // A node that did not become a member does not go on.
        ("Bootstrap failed", "false".into()),
        ("Decommissioning", (leaving == LeavingState::UnderWay).to_string()),
        ("Decommission failed", (leaving == LeavingState::Failed).to_string()),
    ]);
    for (name, value) in lines {
        let _ = writeln!(out, "{name:<23}: {value}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_told_in_cassandras_words() {
        let empty = "entries 0, size 0 bytes, capacity 0 bytes, 0 misses, 0 requests, NaN recent hit rate, NaN microseconds \
                     miss latency";
        assert_eq!(chunk_cache_line(&CacheMetrics::default()), empty);
        let used = CacheMetrics {
            entries: 22,
            bytes: 1_447_034,
            capacity_bytes: 480 << 20,
            hits: 151,
            misses: 36,
            miss_nanos: 36 * 4_371_926,
        };
        let line = "entries 22, size 1.38 MiB, capacity 480 MiB, 36 misses, 187 requests, 0.807 recent hit rate, 4371.926 \
                    microseconds miss latency";
        assert_eq!(chunk_cache_line(&used), line);
    }
}
