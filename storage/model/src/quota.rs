//! The quota of a keyspace or of a role: how much of the cluster its requests may use. It is written as a map of CQL,
//! in the property `quota` of keyspaces and in OPTIONS of roles.

use std::collections::BTreeMap;

/// Most request units a second that a quota can allow.
pub const QUOTA_UNITS_MAX: u32 = 1_000_000_000;

/// Most requests at once that a quota can allow.
pub const REQUESTS_AT_ONCE_MAX: u32 = 1_000_000;

/// The name of the property of keyspaces.
pub const QUOTA: &str = "quota";
const UNITS_PER_SECOND: &str = "units_per_second";
const REQUESTS_AT_ONCE: &str = "requests_at_once";

/// What is limited; the default limits nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quota {
    /// Request units a second, from 1 to [`QUOTA_UNITS_MAX`], in each data centre.
    pub units_per_second: Option<u32>,
    /// Requests that a node coordinates at the same time, from 1 to [`REQUESTS_AT_ONCE_MAX`].
    pub requests_at_once: Option<u32>,
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
                other => return Err(format!("Unknown option '{other}' of a quota")),
            };
            if into.is_some() {
                return Err(format!("Multiple values for {name} of a quota"));
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

    /// Whether this is the name of something that a quota limits.
    pub fn has_option(name: &str) -> bool {
        matches!(name, UNITS_PER_SECOND | REQUESTS_AT_ONCE)
    }

    /// The quota as a map of CQL.
    pub fn to_map(self) -> BTreeMap<String, String> {
        let named = [(REQUESTS_AT_ONCE, self.requests_at_once), (UNITS_PER_SECOND, self.units_per_second)];
        named.into_iter().filter_map(|(name, number)| Some((name.to_owned(), number?.to_string()))).collect()
    }

    /// Whether nothing is limited.
    pub fn is_empty(self) -> bool {
        self == Quota::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_read_and_written() {
        let both = Quota { units_per_second: Some(1), requests_at_once: Some(7) };
        for quota in [Quota::default(), Quota { requests_at_once: None, ..both }, both] {
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
        assert!(Quota::has_option(UNITS_PER_SECOND) && !Quota::has_option("bytes"));
        assert_eq!(Quota::of_map([("bytes", "1")]), Err("Unknown option 'bytes' of a quota".into()));
    }
}
