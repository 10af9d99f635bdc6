//! Quotas of roles (`OPTIONS`), in a hidden table of `system_auth`.
//!
//! Invariants: a role without a quota has no row; the table is neither read nor written while some node runs a version
//! that does not know it.

use super::store::{change, rows};
use crate::schema::cells::frozen_text_map;
use crate::shard_state::Shard;
use cluster::topology::features;
use cql::ast::RoleOptions;
use model::Failure;
use model::quota::Quota;
use model::value::elements;

const OF_ROLE: &str = "SELECT quota FROM system_auth.helenus_role_quotas WHERE role = ?";
const SET: &str = "INSERT INTO system_auth.helenus_role_quotas (role, quota) VALUES (?, ?)";
const DROP: &str = "DELETE FROM system_auth.helenus_role_quotas WHERE role = ?";
const NO_OPTIONS: &str = "org.apache.cassandra.auth.CassandraRoleManager doesn't support OPTIONS";

/// The quota that a statement's OPTIONS say; `None` if it has none.
///
/// # Errors
/// Invalid: an option that is none of quotas, a value that is none, or nodes that do not know quotas.
pub(super) fn checked(shard: &Shard, options: &RoleOptions) -> Result<Option<Quota>, Failure> {
    let Some(pairs) = &options.custom else { return Ok(None) };
    // Roles store nothing, so that `bytes_stored` is none of theirs.
    if pairs.iter().any(|(name, _)| !Quota::is_of_roles(name)) {
        return Err(Failure::invalid(NO_OPTIONS));
    }
    let quota = Quota::of_map(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let quota = quota.map_err(Failure::invalid)?;
    match quota.is_empty() || is_known(shard) {
        true => Ok(Some(quota)),
        false => Err(Failure::invalid("Some nodes run a version without quotas; update them first")),
    }
}

fn is_known(shard: &Shard) -> bool {
    shard.topology().all_have(features::QUOTAS)
}

/// The quota of a role.
pub(super) async fn of_role(shard: &Shard, role: &str) -> Result<Quota, Failure> {
    if !is_known(shard) {
        return Ok(Quota::default());
    }
    let found = rows(shard, OF_ROLE, &[role.as_bytes()]).await?;
    let Some(map) = found.first().and_then(|row| row.first()?.as_deref()) else { return Ok(Quota::default()) };
    let texts: Vec<String> = elements(map, true).map(|element| String::from_utf8_lossy(element).into_owned()).collect();
    let pairs = texts.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str()));
    Quota::of_map(pairs).map_err(|why| Failure::server(format!("The quota of role {role} is damaged: {why}")))
}

/// Gives a role a quota, or takes it away.
pub(super) async fn set_of_role(shard: &Shard, role: &str, quota: Quota) -> Result<(), Failure> {
    match quota.is_empty() {
        true => drop_of_role(shard, role).await,
        false => change(shard, SET, &[role.as_bytes(), &frozen_text_map(&quota.to_map())]).await,
    }
}

/// Forgets the quota of a role.
pub(super) async fn drop_of_role(shard: &Shard, role: &str) -> Result<(), Failure> {
    match is_known(shard) {
        true => change(shard, DROP, &[role.as_bytes()]).await,
        false => Ok(()),
    }
}
