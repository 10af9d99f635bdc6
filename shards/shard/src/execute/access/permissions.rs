//! Changes of what is granted, in `system_auth.role_permissions` and in its index by resource.

use super::load::permissions_of;
use super::roles::tell_all;
use super::store::{change, rows, set_of, text_of};
use crate::shard_state::Shard;
use model::Failure;
use model::access::{Permission, PermissionSet, Resource};

const GRANT: &str =
    "UPDATE system_auth.role_permissions SET permissions = permissions + ? WHERE role = ? AND resource = ?";
const REVOKE: &str =
    "UPDATE system_auth.role_permissions SET permissions = permissions - ? WHERE role = ? AND resource = ?";
const REVOKE_ALL: &str = "DELETE FROM system_auth.role_permissions WHERE role = ? AND resource = ?";
const REVOKE_ALL_FROM: &str = "DELETE FROM system_auth.role_permissions WHERE role = ?";
// The misspelling is Cassandra's.
const ADD_TO_INDEX: &str = "INSERT INTO system_auth.resource_role_permissons_index (resource, role) VALUES (?, ?)";
const REMOVE_FROM_INDEX: &str =
    "DELETE FROM system_auth.resource_role_permissons_index WHERE resource = ? AND role = ?";
const REMOVE_RESOURCE: &str = "DELETE FROM system_auth.resource_role_permissons_index WHERE resource = ?";
const ROLES_OF: &str = "SELECT role FROM system_auth.resource_role_permissons_index WHERE resource = ?";

/// What a role itself was granted on a resource.
async fn granted(shard: &Shard, resource: &str, role: &str) -> Result<PermissionSet, Failure> {
    let all = permissions_of(shard, role).await?;
    let on_resource = all.iter().filter(|(name, _)| name == resource).flat_map(|(_, permissions)| permissions);
    Ok(on_resource.filter_map(|name| Permission::named(name)).collect())
}

fn names(permissions: PermissionSet) -> Vec<u8> {
    let mut names: Vec<&str> = permissions.iter().map(Permission::name).collect();
    names.sort_unstable();
    set_of(names.into_iter())
}

/// Grants permissions. Returns those that were granted before.
pub(super) async fn grant(
    shard: &Shard,
    permissions: PermissionSet,
    resource: &Resource,
    role: &str,
) -> Result<PermissionSet, Failure> {
    let name = resource.name();
    let before = granted(shard, &name, role).await?;
    let new = permissions.without(before);
    if !new.is_empty() {
        change(shard, GRANT, &[&names(new), role.as_bytes(), name.as_bytes()]).await?;
        change(shard, ADD_TO_INDEX, &[name.as_bytes(), role.as_bytes()]).await?;
        tell_all(shard).await;
    }
    Ok(permissions.intersection(before))
}

/// Revokes permissions. Returns those that were not granted.
pub(super) async fn revoke(
    shard: &Shard,
    permissions: PermissionSet,
    resource: &Resource,
    role: &str,
) -> Result<PermissionSet, Failure> {
    let name = resource.name();
    let before = granted(shard, &name, role).await?;
    let gone = permissions.intersection(before);
    if !gone.is_empty() {
        change(shard, REVOKE, &[&names(gone), role.as_bytes(), name.as_bytes()]).await?;
        if before.without(gone).is_empty() {
            change(shard, REMOVE_FROM_INDEX, &[name.as_bytes(), role.as_bytes()]).await?;
        }
        tell_all(shard).await;
    }
    Ok(permissions.without(before))
}

/// Revokes everything that was granted to a role.
pub(super) async fn revoke_all_from(shard: &Shard, role: &str) -> Result<(), Failure> {
    for (resource, _) in permissions_of(shard, role).await? {
        change(shard, REMOVE_FROM_INDEX, &[resource.as_bytes(), role.as_bytes()]).await?;
    }
    change(shard, REVOKE_ALL_FROM, &[role.as_bytes()]).await
}

/// Revokes everything that was granted on a resource. Returns whether there was something. Others are not told.
pub(super) async fn revoke_all_on(shard: &Shard, resource: &Resource) -> Result<bool, Failure> {
    let name = resource.name();
    let roles = rows(shard, ROLES_OF, &[name.as_bytes()]).await?;
    if roles.is_empty() {
        return Ok(false);
    }
    for role in roles.iter().filter_map(|row| text_of(row.first())) {
        change(shard, REVOKE_ALL, &[role.as_bytes(), name.as_bytes()]).await?;
    }
    change(shard, REMOVE_RESOURCE, &[name.as_bytes()]).await?;
    Ok(true)
}
