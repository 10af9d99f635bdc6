//! The messages of the handshake: OPTIONS with its answer SUPPORTED, and STARTUP.

use crate::cql::context::Context;
use model::key::IGNORE_MSB;
use model::{Failure, Partitioner};
use wire::Version;
use wire::compression::{self, Compression};
use wire::response::{self, To};

/// The CQL version that SUPPORTED names.
pub(crate) const CQL_VERSION: &str = "3.4.7";
/// The protocol versions that SUPPORTED names, which are those that are spoken.
pub(crate) const PROTOCOL_VERSIONS: [&str; 4] = ["3/v3", "4/v4", "5/v5", "6/v6-beta"];
/// The lowest protocol version that is spoken.
pub(crate) const LOWEST_VERSION: Version = Version::V3;

/// What a STARTUP asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Startup {
    /// Whether to answer OVERLOADED instead of making the client wait; `None` if the client does not say.
    pub(crate) throw_on_overload: Option<bool>,
    /// The algorithm with which all answers, READY too, are compressed, and requests may be.
    pub(crate) compression: Option<Compression>,
}

impl Startup {
    /// Checks the options of a STARTUP. Names ignore case and unknown options are ignored. Error texts are Cassandra's.
    pub(crate) fn check(version: Version, options: &[(&str, &str)]) -> Result<Startup, Failure> {
        let option =
            |name: &str| options.iter().rev().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| *value);
        let Some(cql_version) = option("CQL_VERSION") else {
            return Err(Failure::protocol("Missing value CQL_VERSION in STARTUP message"));
        };
        let Some(number) = parse_version(cql_version) else {
            return Err(Failure::protocol(format!("Invalid version value: {cql_version}")));
        };
        if number < (2, 99, 0) {
            return Err(Failure::protocol(format!(
                "CQL version {cql_version} is not supported by the binary protocol (supported version are >= 3.0.0)"
            )));
        }
        let compression = match option("COMPRESSION").filter(|name| !name.is_empty()) {
            None => None,
            Some(name) => match Compression::of_name(name) {
                Some(Compression::Snappy) if version >= Version::V5 => {
                    return Err(Failure::protocol("Snappy compression is not supported in protocol V5"));
                }
                Some(compression) => Some(compression),
                None => return Err(Failure::protocol(format!("Unknown compression algorithm: {name}"))),
            },
        };
        let throw_on_overload = option("THROW_ON_OVERLOAD").map(|value| value == "1");
        Ok(Startup { throw_on_overload, compression })
    }
}

/// The numbers of a version written as `major.minor[.patch][-...]`.
fn parse_version(text: &str) -> Option<(u32, u32, u32)> {
    let numbers = text.split_once('-').map_or(text, |(numbers, _)| numbers);
    let mut parts = numbers.split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?.parse().ok()?;
    let patch = parts.next().unwrap_or("0").parse().ok()?;
    parts.next().is_none().then_some((major, minor, patch))
}

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
    ];
    // Clients can compute the core of a token of Murmur3 only.
    if partitioner == Partitioner::Murmur3 {
        options.extend(of_shard.iter().zip(&values).map(|((name, _), value)| (*name, &value[..])));
    }
    response::supported(out, to, &options);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(options: &[(&str, &str)]) -> String {
        Startup::check(Version::V4, options).expect_err("refused").text.into_owned()
    }

    #[test]
    fn startup_is_checked_as_cassandra_does() {
        for accepted in ["3.0.0", "3.4.7", "4.0.0", "2.99.0", "3.4.5-SNAPSHOT"] {
            assert!(Startup::check(Version::V4, &[("cql_version", accepted)]).is_ok(), "{accepted}");
        }
        assert_eq!(failure(&[]), "Missing value CQL_VERSION in STARTUP message");
        assert_eq!(failure(&[("CQL_VERSION", "abc")]), "Invalid version value: abc");
        assert_eq!(
            failure(&[("CQL_VERSION", "2.0.0")]),
            "CQL version 2.0.0 is not supported by the binary protocol (supported version are >= 3.0.0)"
        );
        for (name, expected) in [
            ("lz4", Some(Compression::Lz4)),
            ("LZ4", Some(Compression::Lz4)),
            ("Snappy", Some(Compression::Snappy)),
            ("", None),
        ] {
            let options = [("CQL_VERSION", "3.0.0"), ("COMPRESSION", name)];
            assert_eq!(Startup::check(Version::V4, &options).expect("accepted").compression, expected, "{name}");
        }
        assert_eq!(
            failure(&[("CQL_VERSION", "3.0.0"), ("COMPRESSION", "none")]),
            "Unknown compression algorithm: none"
        );
        let snappy = [("CQL_VERSION", "3.0.0"), ("COMPRESSION", "Snappy")];
        let failure = Startup::check(Version::V5, &snappy).expect_err("refused");
        assert_eq!(failure.text, "Snappy compression is not supported in protocol V5");
        let overload = [("CQL_VERSION", "3.0.0"), ("THROW_ON_OVERLOAD", "1"), ("DRIVER_NAME", "x")];
        assert_eq!(Startup::check(Version::V5, &overload).expect("accepted").throw_on_overload, Some(true));
        let plain = Startup::check(Version::V5, &overload[..1]).expect("accepted");
        assert_eq!(plain.throw_on_overload, None);
    }
}
