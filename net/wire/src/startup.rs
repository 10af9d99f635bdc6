//! What a STARTUP asks for.

use crate::Version;
use crate::compression::Compression;
use model::Failure;

/// What a STARTUP asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Startup {
    /// Whether to answer OVERLOADED instead of making the client wait; `None` if the client does not say.
    pub throw_on_overload: Option<bool>,
    /// The algorithm with which all answers, READY too, are compressed, and requests may be.
    pub compression: Option<Compression>,
    /// Whether the client knows ScyllaDB's error for rate limits ([`RATE_LIMIT_ERROR`]).
    pub knows_rate_limits: bool,
    /// Whether the client wants to be told where tablets are ([`TABLETS_ROUTING`]).
    pub knows_tablets: bool,
}

/// The option with which clients say that they know ScyllaDB's error for rate limits, and the value of it in SUPPORTED.
pub const RATE_LIMIT_ERROR: [&str; 2] = ["SCYLLA_RATE_LIMIT_ERROR", "ERROR_CODE=61440"];

/// The option with which clients say that they understand answers that tell where a tablet is, ScyllaDB's. SUPPORTED
/// has it with an empty value.
pub const TABLETS_ROUTING: &str = "TABLETS_ROUTING_V1";

impl Startup {
    /// Checks the options of a STARTUP. Names ignore case and unknown options are ignored. Error texts are Cassandra's.
    pub fn check(version: Version, options: &[(&str, &str)]) -> Result<Startup, Failure> {
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
        let knows_rate_limits = option(RATE_LIMIT_ERROR[0]).is_some();
        let knows_tablets = option(TABLETS_ROUTING).is_some();
        Ok(Startup { throw_on_overload, compression, knows_rate_limits, knows_tablets })
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
        assert!(!plain.knows_rate_limits && !plain.knows_tablets);
        let limits = [("CQL_VERSION", "3.0.0"), ("SCYLLA_RATE_LIMIT_ERROR", "")];
        assert!(Startup::check(Version::V4, &limits).expect("accepted").knows_rate_limits);
        let tablets = [("CQL_VERSION", "3.0.0"), ("TABLETS_ROUTING_V1", "")];
        assert!(Startup::check(Version::V4, &tablets).expect("accepted").knows_tablets);
    }
}
