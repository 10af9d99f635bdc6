//! The quota of a keyspace or of a role: how much of the cluster its requests may use. It is written as a map of CQL,
//! in the property `quota` of keyspaces and in OPTIONS of roles.

use crate::byte_size;
use std::collections::BTreeMap;

/// Most request units a second that a quota can allow.
pub const QUOTA_UNITS_MAX: u32 = 1_000_000_000;

/// Most requests at once that a quota can allow.
pub const REQUESTS_AT_ONCE_MAX: u32 = 1_000_000;

/// Most bytes stored that a quota can allow: a pebibyte.
pub const BYTES_STORED_MAX: u64 = 1 << 50;

/// Most keyspaces with a quota of bytes: nodes tell each other what these store, in one value of gossip.
pub const STORED_QUOTAS_MAX: usize = 50;

/// The name of the property of keyspaces.
pub const QUOTA: &str = "quota";
const UNITS_PER_SECOND: &str = "units_per_second";
const REQUESTS_AT_ONCE: &str = "requests_at_once";
const BYTES_STORED: &str = "bytes_stored";

/// What is limited; the default limits nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quota {
    /// Request units a second, from 1 to [`QUOTA_UNITS_MAX`], in each data centre.
    pub units_per_second: Option<u32>,
    /// Requests that a node coordinates at the same time, from 1 to [`REQUESTS_AT_ONCE_MAX`].
    pub requests_at_once: Option<u32>,
    /// Bytes that the tables of a keyspace take on disk in each data centre, of one replica, from 1 to
    /// [`BYTES_STORED_MAX`]. Roles store nothing.
    pub bytes_stored: Option<u64>,
}

impl Quota {
    /// A quota as it is written in CQL; an empty map limits nothing.
    ///
    /// # Errors
    /// What is wrong with it: an unknown name, one that comes twice, or a value that is not a whole number within its
    /// limits.
    pub fn of_map<'m>(pairs: impl IntoIterator<Item = (&'m str, &'m str)>) -> Result<Quota, String> {
        let mut quota = Quota::default();
        for (name, value) in pairs {
            let (into, most) = match name {
                UNITS_PER_SECOND => (&mut quota.units_per_second, QUOTA_UNITS_MAX),
                REQUESTS_AT_ONCE => (&mut quota.requests_at_once, REQUESTS_AT_ONCE_MAX),
                BYTES_STORED => {
                    let bytes = byte_size::parse(value).filter(|bytes| (1..=BYTES_STORED_MAX).contains(bytes));
                    let bytes = bytes.ok_or_else(|| {
                        format!(
                            "Invalid value '{value}' for {name} of a quota: must be a size such as 500MiB, up to 1PiB"
                        )
                    })?;
                    if quota.bytes_stored.replace(bytes).is_some() {
                        return Err(twice(name));
                    }
                    continue;
                }
                other => return Err(format!("Unknown option '{other}' of a quota")),
            };
            if into.is_some() {
                return Err(twice(name));
            }
            // What Rust takes beside digits, a plus sign, Cassandra's numbers do not have.
            let number = value.parse::<u32>().ok().filter(|_| !value.starts_with('+'));
            let number = number.filter(|number| (1..=most).contains(number));
            *into = Some(number.ok_or_else(|| {
                format!("Invalid value '{value}' for {name} of a quota: must be a whole number from 1 to {most}")
            })?);
        }
        Ok(quota)
    }

    /// Whether this is the name of something that the quota of a role limits.
    pub fn is_of_roles(name: &str) -> bool {
        matches!(name, UNITS_PER_SECOND | REQUESTS_AT_ONCE)
    }

    /// The quota as a map of CQL.
    pub fn to_map(self) -> BTreeMap<String, String> {
        let named = [
            (BYTES_STORED, self.bytes_stored.map(byte_size::text)),
            (REQUESTS_AT_ONCE, self.requests_at_once.map(|number| number.to_string())),
            (UNITS_PER_SECOND, self.units_per_second.map(|number| number.to_string())),
        ];
        named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }

    /// Whether nothing is limited.
    pub fn is_empty(self) -> bool {
        self == Quota::default()
    }
}

fn twice(name: &str) -> String {
    format!("Multiple values for {name} of a quota")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_read_and_written() {
        let both = Quota { units_per_second: Some(1), requests_at_once: Some(7), ..Quota::default() };
        let all = Quota { bytes_stored: Some(3 << 20), ..both };
        for quota in [Quota::default(), Quota { requests_at_once: None, ..both }, both, all] {
            let map = quota.to_map();
            assert_eq!(Quota::of_map(map.iter().map(|(name, value)| (&**name, &**value))), Ok(quota));
            assert_eq!(quota.is_empty(), map.is_empty());
        }
        for (name, most) in [(UNITS_PER_SECOND, QUOTA_UNITS_MAX), (REQUESTS_AT_ONCE, REQUESTS_AT_ONCE_MAX)] {
            assert!(Quota::of_map([(name, &*most.to_string())]).is_ok());
            let beyond = (most + 1).to_string();
            for value in [&*beyond, "0", "-1", "1.5", "+1", "", "x", "99999999999"] {
                let text =
                    format!("Invalid value '{value}' for {name} of a quota: must be a whole number from 1 to {most}");
                assert_eq!(Quota::of_map([(name, value)]), Err(text));
            }
        }
        let twice = [(UNITS_PER_SECOND, "1"), (UNITS_PER_SECOND, "1")];
        assert_eq!(Quota::of_map(twice), Err("Multiple values for units_per_second of a quota".into()));
        assert!(Quota::is_of_roles(UNITS_PER_SECOND) && !Quota::is_of_roles(BYTES_STORED));
        assert_eq!(Quota::of_map([("bytes", "1")]), Err("Unknown option 'bytes' of a quota".into()));
    }

    #[test]
    fn bytes_are_sizes() {
        let read = |text| Quota::of_map([(BYTES_STORED, text)]).ok().and_then(|quota| quota.bytes_stored);
        for (text, bytes, shown) in [
            ("1", 1, "1B"),
            ("1024B", 1 << 10, "1KiB"),
            ("1536KiB", 1536 << 10, "1536KiB"),
            ("20480MiB", 20 << 30, "20GiB"),
            ("1048576GiB", BYTES_STORED_MAX, "1048576GiB"),
        ] {
            assert_eq!(read(text), Some(bytes));
            assert_eq!(byte_size::text(bytes), shown);
        }
        for wrong in
            ["0", "0GiB", "-1", "+1", "1.5GiB", "1 GiB", "1gib", "1MB", "GiB", "", "1048577GiB", "99999999999GiB", "1é"]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(
            Quota::of_map([(BYTES_STORED, "1"), (BYTES_STORED, "2")]),
            Err("Multiple values for bytes_stored of a quota".into())
        );
    }
}
