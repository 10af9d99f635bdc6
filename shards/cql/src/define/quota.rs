//! The property `quota` of keyspaces: `{'units_per_second': N, 'requests_at_once': M, 'bytes_stored': '10GiB'}`; `{}`
//! limits nothing.

use super::table_options::OptionMap;
use super::{DefinitionContext, Result};
use model::quota::{QUOTA, Quota, STORED_QUOTAS_MAX};
use model::schema::is_system_keyspace;
use model::{Failure, Schema};

/// The quota of a keyspace that had `before`, with the property `written`; `None`: it is not named.
pub(super) fn of_keyspace(
    keyspace: &str,
    written: Option<&OptionMap>,
    before: Quota,
    schema: &Schema,
    site: &DefinitionContext<'_>,
) -> Result<Quota> {
    let Some(written) = written else { return Ok(before) };
    let pairs = written.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let quota = Quota::of_map(pairs).map_err(Failure::config)?;
    if !quota.is_empty() && is_system_keyspace(keyspace) {
        return Err(Failure::invalid(format!("The system keyspace {keyspace} cannot have a {QUOTA}")));
    }
    if !quota.is_empty() && !site.has_quotas {
        return Err(Failure::invalid("Some nodes run a version without quotas; update them first"));
    }
    if quota.bytes_stored.is_none() {
        return Ok(quota);
    }
    if !site.has_stored_quotas {
        return Err(Failure::invalid("Some nodes run a version without quotas of bytes; update them first"));
    }
    let others = schema.keyspaces.values().filter(|other| other.quota.bytes_stored.is_some());
    if others.filter(|other| other.name != keyspace).count() >= STORED_QUOTAS_MAX {
        return Err(Failure::invalid(format!(
            "At most {STORED_QUOTAS_MAX} keyspaces can have a quota of bytes_stored"
        )));
    }
    Ok(quota)
}
