//! LIST ROLES, LIST USERS and LIST PERMISSIONS: who may see what, and the rows.

use super::check::unauthorized;
use super::load::{closure, data_centers_of, permissions_of, record};
use super::quotas;
use super::statements::Asker;
use super::store::{rows, text_of};
use crate::rows::block::RowBlock;
use crate::schema::cells::frozen_text_map;
use crate::shard_state::Shard;
use model::Failure;
use model::access::{Permission, PermissionSet, Resource};
use model::quota::Quota;
use model::value::push_element;
use std::collections::BTreeSet;

const ALL_ROLES: &str = "SELECT role FROM system_auth.roles";
const ALL_PERMISSIONS: &str = "SELECT role, resource, permissions FROM system_auth.role_permissions";
const OF_RESOURCE: &str = "SELECT role FROM system_auth.resource_role_permissons_index WHERE resource = ?";

/// A role as it is shown.
pub(super) struct Listed {
    name: String,
    is_superuser: bool,
    pub(super) can_login: bool,
    data_centers: String,
    options: Quota,
}

/// The roles that LIST ROLES shows to a role: all of them if it may describe all, or else what it has.
pub(super) async fn roles(
    shard: &Shard,
    asker: &Asker,
    of: Option<&str>,
    recursive: bool,
) -> Result<Vec<Listed>, Failure> {
    if let Some(of) = of
        && record(shard, of).await?.is_none()
    {
        return Err(Failure::invalid(format!("{} doesn't exist", Resource::Role(of.to_owned()))));
    }
    let sees_all = asker.may(Permission::Describe, &Resource::AllRoles);
    let names: BTreeSet<String> = match of {
        None if sees_all => rows(shard, ALL_ROLES, &[]).await?.iter().filter_map(|row| text_of(row.first())).collect(),
        None => of_role(shard, &asker.name, recursive).await?,
        Some(of) if sees_all || asker.has_role(of) => of_role(shard, of, recursive).await?,
        Some(of) => return Err(unauthorized(format!("You are not authorized to view roles granted to {of} "))),
    };
    let mut listed = Vec::with_capacity(names.len());
    for name in names {
        let Some(record) = record(shard, &name).await? else { continue };
        let (_, is_superuser) = closure(shard, &name).await?;
        let data_centers = match record.can_login {
            false => "n/a".to_owned(),
            true if !shard.config().access.authorizes_networks => "ALL".to_owned(),
            true => match data_centers_of(shard, &name).await? {
                None => "ALL".to_owned(),
                Some(centers) => centers.into_iter().collect::<Vec<_>>().join(", "),
            },
        };
        let options = quotas::of_role(shard, &name).await?;
        listed.push(Listed { name, is_superuser, can_login: record.can_login, data_centers, options });
    }
    Ok(listed)
}

/// A role and what it has: directly, or by others too.
async fn of_role(shard: &Shard, role: &str, recursive: bool) -> Result<BTreeSet<String>, Failure> {
    if recursive {
        return Ok(closure(shard, role).await?.0);
    }
    let mut roles = record(shard, role).await?.unwrap_or_default().member_of;
    roles.insert(role.to_owned());
    Ok(roles)
}

/// The rows of LIST ROLES.
pub(super) fn role_rows(listed: &[Listed]) -> RowBlock {
    let mut block = RowBlock::default();
    for role in listed {
        let mut row = Vec::new();
        push_element(&mut row, Some(role.name.as_bytes()));
        push_element(&mut row, Some(&[u8::from(role.is_superuser)]));
        push_element(&mut row, Some(&[u8::from(role.can_login)]));
        push_element(&mut row, Some(&frozen_text_map(&role.options.to_map())));
        push_element(&mut row, Some(role.data_centers.as_bytes()));
        block.push_row(&row);
    }
    block
}

/// The rows of LIST USERS.
pub(super) fn user_rows(listed: &[Listed]) -> RowBlock {
    let mut block = RowBlock::default();
    for user in listed {
        let mut row = Vec::new();
        push_element(&mut row, Some(user.name.as_bytes()));
        push_element(&mut row, Some(&[u8::from(user.is_superuser)]));
        push_element(&mut row, Some(user.data_centers.as_bytes()));
        block.push_row(&row);
    }
    block
}

/// The rows of LIST PERMISSIONS, by role, resource and permission.
pub(super) async fn permissions(
    shard: &Shard,
    asker: &Asker,
    permissions: PermissionSet,
    resource: Option<&Resource>,
    of: Option<&str>,
    recursive: bool,
) -> Result<RowBlock, Failure> {
    if let Some(of) = of
        && record(shard, of).await?.is_none()
    {
        return Err(Failure::invalid(format!("{} doesn't exist", Resource::Role(of.to_owned()))));
    }
    if !shard.config().access.authorizes {
        return Err(Failure::invalid("LIST PERMISSIONS operation is not supported by AllowAllAuthorizer"));
    }
    let described = of.map_or(Resource::AllRoles, |of| Resource::Role(of.to_owned()));
    let sees = asker.is_superuser() || asker.may(Permission::Describe, &described);
    if !sees && !of.is_some_and(|of| asker.has_role(of)) {
        let whose = of.unwrap_or("everyone");
        return Err(unauthorized(format!("You are not authorized to view {whose}'s permissions")));
    }
    let on: Option<BTreeSet<String>> = resource.map(|resource| match recursive {
        true => resource.chain().iter().map(Resource::name).collect(),
        false => BTreeSet::from([resource.name()]),
    });
    let roles = match (of, &on) {
        (Some(of), _) => closure(shard, of).await?.0,
        (None, Some(resources)) => {
            let mut roles = BTreeSet::new();
            for resource in resources {
                let found = rows(shard, OF_RESOURCE, &[resource.as_bytes()]).await?;
                roles.extend(found.iter().filter_map(|row| text_of(row.first())));
            }
            roles
        }
        (None, None) => {
            rows(shard, ALL_PERMISSIONS, &[]).await?.iter().filter_map(|row| text_of(row.first())).collect()
        }
    };
    let mut block = RowBlock::default();
    for role in roles {
        let mut granted = permissions_of(shard, &role).await?;
        granted.retain(|(name, _)| on.as_ref().is_none_or(|on| on.contains(name)));
        granted.sort();
        for (resource, names) in granted {
            let Some(resource) = Resource::parse(&resource) else { continue };
            let set: PermissionSet = names.iter().filter_map(|name| Permission::named(name)).collect();
            for permission in set.intersection(permissions).iter() {
                let mut row = Vec::new();
                for text in [&role, &role, &resource.to_string(), permission.name()] {
                    push_element(&mut row, Some(text.as_bytes()));
                }
                block.push_row(&row);
            }
        }
    }
    Ok(block)
}
