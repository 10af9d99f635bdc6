//! A role with all that it has, from the tables of `system_auth` or from what this core has read lately.

use super::store::{is_true, rows, text_of, texts_of};
use super::{cidrs, quotas, roles};
use crate::config::CidrMode;
use crate::roles::Entry;
use crate::shard_state::Shard;
use model::access::{Permission, Resource, RoleGrants, RoleRecord, RoleWalk};
use model::{Consistency, ErrorCode, Failure};
use runtime::Class;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The superuser that is made if there are no roles. Cassandra reads it at QUORUM.
pub(super) const DEFAULT_SUPERUSER: &str = "cassandra";

const ROLE: &str = "SELECT is_superuser, can_login, salted_hash, member_of FROM system_auth.roles WHERE role = ?";
const PERMISSIONS: &str = "SELECT resource, permissions FROM system_auth.role_permissions WHERE role = ?";
const DATA_CENTERS: &str = "SELECT dcs FROM system_auth.network_permissions WHERE role = ?";

/// What a role may do, read at most [`crate::roles::VALIDITY_MAX`] ago.
pub(crate) async fn entry(shard: &Shard, role: &str) -> Result<Rc<Entry>, Failure> {
    loop {
        if let Some(entry) = shard.roles().get(role) {
            refresh_if_due(shard, role, &entry);
            return Ok(entry);
        }
        match shard.roles().begin_loading(role) {
            Ok(loading) => {
                let loaded = load(shard, role).await;
                drop(loading);
                return loaded;
            }
            Err(latch) => latch.wait().await,
        }
        // The role may not exist, which is not kept: whoever has waited reads by itself.
        if shard.roles().get(role).is_none() {
            return load(shard, role).await;
        }
    }
}

/// Reads a role again in the background if what is known of it grows old.
pub(super) fn refresh_if_due(shard: &Shard, role: &str, entry: &Entry) {
    if shard.roles().should_refresh(entry) {
        let (shard, role) = (shard.clone(), role.to_owned());
        runtime::spawn_in(Class::Background, async move {
            if let Err(failure) = load(&shard, &role).await {
                tracing::debug!(%failure, "a role cannot be read again");
            }
        });
    }
}

async fn load(shard: &Shard, role: &str) -> Result<Rc<Entry>, Failure> {
    let (read_at, generation) = (runtime::now(), shard.roles().generation());
    let grants = Box::pin(grants_of(shard, role)).await?;
    // What was read before a change must not undo what was read after it.
    if generation == shard.roles().generation() {
        shard.throughput().note_role(role, grants.quota, read_at);
    }
    Ok(shard.roles().put(role, grants, read_at, generation))
}

async fn grants_of(shard: &Shard, role: &str) -> Result<RoleGrants, Failure> {
    let mut grants = RoleGrants::default();
    let Some(own) = record(shard, role).await? else {
        grants.roles.insert(role.to_owned());
        return Ok(grants);
    };
    (grants.exists, grants.can_login, grants.salted_hash) = (true, own.can_login, own.salted_hash);
    (grants.roles, grants.is_superuser) = closure(shard, role).await?;
    if shard.config().access.authorizes {
        for role in grants.roles.clone() {
            for (resource, permissions) in permissions_of(shard, &role).await? {
                if let Some(resource) = Resource::parse(&resource) {
                    grants.add(resource, permissions.iter().filter_map(|name| Permission::named(name)).collect());
                }
            }
        }
    }
    grants.quota = quotas::of_role(shard, role).await?;
    if shard.config().access.authenticator.takes_certificates() {
        grants.identities = roles::identities_of(shard, role).await?;
    }
    if shard.config().access.authorizes_networks {
        grants.data_centers = data_centers_of(shard, role).await?;
    }
    let mode = shard.config().access.cidr_mode;
    if mode != CidrMode::Off {
        grants.cidr_groups = cidrs::of_role(shard, role).await?;
        if grants.cidr_groups.is_some() || mode == CidrMode::Monitor {
            grants.address_groups = cidrs::table(shard).await?;
        }
    }
    Ok(grants)
}

/// A role as it is stored.
pub(super) async fn record(shard: &Shard, role: &str) -> Result<Option<RoleRecord>, Failure> {
    let level = match role {
        DEFAULT_SUPERUSER => Consistency::Quorum,
        _ => shard.config().access.read_level,
    };
    let found = super::store::read(shard, ROLE, &[role.as_bytes()], level).await?;
    Ok(found.first().map(|row| RoleRecord {
        is_superuser: is_true(row.first()),
        can_login: is_true(row.get(1)),
        salted_hash: text_of(row.get(2)).filter(|hash| !hash.is_empty()),
        member_of: texts_of(row.get(3).and_then(Option::as_ref)).into_iter().collect(),
    }))
}

/// A role and all roles that it has, and whether one of them is a superuser.
pub(super) async fn closure(shard: &Shard, role: &str) -> Result<(BTreeSet<String>, bool), Failure> {
    let mut walk = RoleWalk::from([role.to_owned()]);
    while let Some(next) = walk.next_role() {
        let record = record(shard, &next).await?.unwrap_or_default();
        if !walk.take(&record) {
            return Err(Failure::new(ErrorCode::Unauthorized, format!("Role {role} has too many roles")));
        }
    }
    Ok(walk.finish())
}

/// What is granted to a role itself: names of resources and of permissions.
pub(super) async fn permissions_of(shard: &Shard, role: &str) -> Result<Vec<(String, Vec<String>)>, Failure> {
    let found = rows(shard, PERMISSIONS, &[role.as_bytes()]).await?;
    let named = |row: &super::store::Row| Some((text_of(row.first())?, texts_of(row.get(1).and_then(Option::as_ref))));
    Ok(found.iter().filter_map(named).collect())
}

/// The data centres that a role has access to; `None`: all of them.
pub(super) async fn data_centers_of(shard: &Shard, role: &str) -> Result<Option<BTreeSet<String>>, Failure> {
    // Cassandra names the role by its resource in this table alone.
    let key = Resource::Role(role.to_owned()).name();
    let found = rows(shard, DATA_CENTERS, &[key.as_bytes()]).await?;
    let centers = texts_of(found.first().and_then(|row| row.first()).and_then(Option::as_ref));
    Ok((!centers.is_empty()).then(|| centers.into_iter().collect()))
}
