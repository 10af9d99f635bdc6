//! Commands about the node: `version`, `info`, `statusbinary`, `describecluster`.

use super::table_names::keyspaces;
use crate::admin::error::CommandError;
use crate::admin::number_format::file_size;
use crate::admin::protocol::Request;
use crate::config::RELEASE_VERSION;
use crate::node_state::NodeState;
use cluster::gossip::{ApplicationState, Gossiper};
use cluster::metadata::MemberState;
use cluster::topology::Node;
use model::schema::SYSTEM_KEYSPACES;
use shard::{CacheMetrics, TableStatistics};
use std::collections::BTreeMap;
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
    let serves = node.config.start_native_transport && !node.drained.is_set();
    out.push_str(if serves { "running\n" } else { "not running\n" });
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
    let serves = !node.drained.is_set();
    let load = load(node).await?;
    let config = shard.node_config();
    let mib = |bytes: u64| bytes as f64 / f64::from(1u32 << 20);
    let used = runtime::machine::resident_memory_bytes().unwrap_or_default();
    // Shown for the caches that do not exist here.
    let none = "entries 0, size 0 bytes, capacity 0 bytes, 0 hits, 0 requests, NaN recent hit rate, \
                 0 save period in seconds";
    let memory = format!("{:.2} / {:.2}", mib(used), mib(config.memory_bytes as u64));
    let mut lines: Vec<(&str, String)> = vec![
        ("ID", shard.host_id().to_string()),
        ("Gossip active", node.gossip.is_running().to_string()),
        ("Native Transport active", (serves && node.config.start_native_transport).to_string()),
        ("Load", file_size(load.disk_bytes)),
        ("Uncompressed load", file_size(load.disk_bytes + load.uncompressed - load.compressed as u64)),
        ("Generation No", node.gossip.view(|gossiper| gossiper.own().generation).to_string()),
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
    match tokens {
        [token] => lines.push(("Token", token.to_string())),
        _ if request.has("-T") => lines.extend(tokens.iter().map(|token| ("Token", token.to_string()))),
        _ => lines.push(("Token", format!("(invoke with -T/--tokens to see all {} tokens)", tokens.len()))),
    }
    lines.push(("Bootstrap state", "COMPLETED".into()));
    for never in ["Bootstrap failed", "Decommissioning", "Decommission failed"] {
        lines.push((never, "false".into()));
    }
    for (name, value) in lines {
        let _ = writeln!(out, "{name:<23}: {value}");
    }
    Ok(())
}

/// `describecluster`.
pub(crate) fn describe_cluster(node: &NodeState, out: &mut String) -> Result<(), CommandError> {
    let shard = &node.shard;
    let config = shard.node_config();
    let schema = shard.schema();
    let topology = shard.topology();
    let metadata = shard.cluster_metadata();
    let is_up = |member: &Node| node.gossip.view(|gossiper| gossiper.is_alive(member.address));
    let told = |member: &Node, number: ApplicationState| {
        let value = |gossiper: &Gossiper| Some(gossiper.state(member.address)?.value(number)?.to_owned());
        node.gossip.view(value).unwrap_or_else(|| "UNKNOWN".into())
    };
    let (mut schemas, mut versions): (BTreeMap<String, Vec<String>>, BTreeMap<String, Vec<String>>) =
        Default::default();
    let mut unreachable = Vec::new();
    for member in topology.nodes() {
        match is_up(member) {
            true => {
                let version = match member.host_id == shard.host_id() {
                    true => schema.version.to_string(),
                    false => told(member, ApplicationState::SCHEMA),
                };
                schemas.entry(version).or_default().push(member.address.ip().to_string());
            }
            false => unreachable.push(member.address.ip().to_string()),
        }
        let release = told(member, ApplicationState::RELEASE_VERSION);
        versions.entry(release).or_default().push(member.address.to_string());
    }
    let _ = write!(
        out,
        "Cluster Information:\n\tName: {}\n\tSnitch: {}\n\tDynamicEndPointSnitch: disabled\n\tPartitioner: {}\n\
         \tSchema versions:\n",
        config.cluster_name,
        node.config.snitch.class_name(),
        config.partitioner.class_name(),
    );
    for (version, nodes) in &schemas {
        let _ = writeln!(out, "\t\t{version}: [{}]\n", nodes.join(", "));
    }
    if !unreachable.is_empty() {
        let _ = writeln!(out, "\t\tUNREACHABLE: [{}]\n", unreachable.join(", "));
    }
    let in_state = |state| metadata.members.values().filter(|member| member.state == state).count();
    let _ = write!(
        out,
        "Stats for all nodes:\n\tLive: {}\n\tJoining: {}\n\tMoving: 0\n\tLeaving: {}\n\tUnreachable: {}\n\n\
         Data Centers: \n",
        topology.nodes().len() - unreachable.len(),
        in_state(MemberState::Joining),
        in_state(MemberState::Leaving),
        unreachable.len(),
    );
    for data_center in topology.data_centers() {
        let here = || topology.nodes().iter().filter(|member| member.data_center == *data_center);
        let down = here().filter(|member| !is_up(member)).count();
        let _ = writeln!(out, "\t{data_center} #Nodes: {} #Down: {down}", here().count());
    }
    out.push_str("\nDatabase versions:\n");
    for (version, nodes) in &versions {
        let _ = writeln!(out, "\t{version}: [{}]", nodes.join(", "));
    }
    out.push_str("\nKeyspaces:\n");
    for keyspace in keyspaces(&schema) {
        let (class, options) = &replication(keyspace);
        let options: Vec<String> = options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let _ = writeln!(out, "\t{} -> Replication class: {class} {{{}}}", keyspace.name, options.join(", "));
    }
    Ok(())
}

/// The replication of a keyspace: its class without the package, and its options.
pub(crate) fn replication(keyspace: &model::Keyspace) -> (String, Vec<(String, String)>) {
    let class = keyspace.replication.class.rsplit('.').next().unwrap_or_default();
    let options = keyspace.replication.options.iter().map(|(name, value)| (name.clone(), value.clone()));
    (class.to_owned(), options.collect())
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
