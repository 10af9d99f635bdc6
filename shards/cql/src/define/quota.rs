//! The property `quota` of keyspaces: `{'units_per_second': N, 'requests_at_once': M}`; `{}` limits nothing.

use super::table_options::OptionMap;
use super::{DefinitionContext, Result};
use model::Failure;
use model::quota::{QUOTA, Quota};
use model::schema::is_system_keyspace;

/// The quota of a keyspace that had `before`, with the property `written`; `None`: it is not named.
pub(super) fn of_keyspace(
    keyspace: &str,
    written: Option<&OptionMap>,
    before: Quota,
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
    Ok(quota)
}
