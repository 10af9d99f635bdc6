//! SUPPORTED, the answer to OPTIONS. STARTUP is in [`wire::startup`].

use crate::cql::context::Context;
use model::Partitioner;
use model::key::IGNORE_MSB;
use wire::Version;
use wire::compression;
use wire::response::{self, To};
use wire::startup::{RATE_LIMIT_ERROR, TABLETS_ROUTING};

/// The CQL version that SUPPORTED names.
pub(crate) const CQL_VERSION: &str = "3.4.7";
/// The protocol versions that SUPPORTED names, which are those that are spoken.
pub(crate) const PROTOCOL_VERSIONS: [&str; 4] = ["3/v3", "4/v4", "5/v5", "6/v6-beta"];
/// The lowest protocol version that is spoken.
pub(crate) const LOWEST_VERSION: Version = Version::V3;

/// Appends SUPPORTED, whose options for shard-aware drivers are those of the current shard.
pub(crate) fn supported(context: &Context, out: &mut Vec<u8>, to: To) {
    let ports = context.shard_aware_ports.get();
    let partitioner = context.shard.node_config().partitioner;
    let mut of_shard = vec![
        ("SCYLLA_SHARD", runtime::current_shard().to_string()),
        ("SCYLLA_NR_SHARDS", runtime::shard_count().to_string()),
        ("SCYLLA_PARTITIONER", partitioner.class_name().to_owned()),
        ("SCYLLA_SHARDING_ALGORITHM", "biased-token-round-robin".to_owned()),
        ("SCYLLA_SHARDING_IGNORE_MSB", IGNORE_MSB.to_string()),
    ];
    let named = [("SCYLLA_SHARD_AWARE_PORT", ports.plain), ("SCYLLA_SHARD_AWARE_PORT_SSL", ports.encrypted)];
    of_shard.extend(named.into_iter().filter_map(|(name, port)| Some((name, port?.to_string()))));
    let values: Vec<[&str; 1]> = of_shard.iter().map(|(_, value)| [value.as_str()]).collect();
    let mut options: Vec<(&str, &[&str])> = vec![
        ("PROTOCOL_VERSIONS", &PROTOCOL_VERSIONS),
        ("COMPRESSION", &compression::NAMES),
        ("CQL_VERSION", &[CQL_VERSION]),
        ("HELENUS_VERSION", &[env!("CARGO_PKG_VERSION")]),
        (RATE_LIMIT_ERROR[0], &RATE_LIMIT_ERROR[1..]),
    ];
    // Clients can compute the core of a token of Murmur3 only, and only tables of that have tablets.
    if partitioner == Partitioner::Murmur3 {
        options.push((TABLETS_ROUTING, &[""]));
        options.extend(of_shard.iter().zip(&values).map(|((name, _), value)| (*name, &value[..])));
    }
    response::supported(out, to, &options);
}
