//! Changes of roles, their members and identities in the tables of `system_auth`, and telling all cores of all nodes.

use super::cidrs;
use super::load::{closure, record};
use super::login::hash_of;
use super::store::{Row, change, rows, set_of, text_of};
use super::{permissions, quotas};
use crate::config::CidrMode;
use crate::messages::{Reply, Request};
use crate::peer::head::Head;
use crate::ports::PeerLane;
use crate::shard_state::Shard;
use crate::verbs::Verb;
use cluster::topology::{Node, NodeIndex};
use cql::ast::{AllowedSet, RoleOptions};
use model::Failure;
use model::access::{Resource, RoleRecord};
use runtime::sync::join_all;
use std::collections::BTreeSet;
use std::time::Duration;

/// How often a password can be changed.
const PASSWORD_INTERVAL: Duration = Duration::from_millis(5000);
/// How long other nodes have to say that they have forgotten what they knew of roles. Those that do not hear of it
/// forget it by themselves after as long.
const TOLD_WITHIN: Duration = crate::roles::VALIDITY_MAX;

const INSERT: &str = "INSERT INTO system_auth.roles (role, is_superuser, can_login) VALUES (?, ?, ?)";
const SET_HASH: &str = "UPDATE system_auth.roles SET salted_hash = ? WHERE role = ?";
const SET_SUPERUSER: &str = "UPDATE system_auth.roles SET is_superuser = ? WHERE role = ?";
const SET_LOGIN: &str = "UPDATE system_auth.roles SET can_login = ? WHERE role = ?";
const HASHED_AT: &str = "SELECT writetime(salted_hash) FROM system_auth.roles WHERE role = ?";
const SET_CENTERS: &str = "UPDATE system_auth.network_permissions SET dcs = ? WHERE role = ?";
const DROP_CENTERS: &str = "DELETE FROM system_auth.network_permissions WHERE role = ?";
const DROP_CIDRS: &str = "DELETE FROM system_auth.cidr_permissions WHERE role = ?";
const JOIN: &str = "UPDATE system_auth.roles SET member_of = member_of + ? WHERE role = ?";
const LEAVE: &str = "UPDATE system_auth.roles SET member_of = member_of - ? WHERE role = ?";
const ADD_MEMBER: &str = "INSERT INTO system_auth.role_members (role, member) VALUES (?, ?)";
const REMOVE_MEMBER: &str = "DELETE FROM system_auth.role_members WHERE role = ? AND member = ?";
const MEMBERS: &str = "SELECT member FROM system_auth.role_members WHERE role = ?";
const DROP_MEMBERS: &str = "DELETE FROM system_auth.role_members WHERE role = ?";
const DROP: &str = "DELETE FROM system_auth.roles WHERE role = ?";
const IDENTITY: &str = "SELECT role FROM system_auth.identity_to_role WHERE identity = ?";
const IDENTITIES: &str = "SELECT identity, role FROM system_auth.identity_to_role";
const ADD_IDENTITY: &str = "INSERT INTO system_auth.identity_to_role (identity, role) VALUES (?, ?)";
const DROP_IDENTITY: &str = "DELETE FROM system_auth.identity_to_role WHERE identity = ?";

/// Makes a role.
pub(super) async fn create(shard: &Shard, name: &str, options: &RoleOptions) -> Result<(), Failure> {
    let flag = |flag: Option<bool>| [u8::from(flag.unwrap_or(false))];
    let hash = hash(options).await?;
    let role = name.as_bytes();
    change(shard, INSERT, &[role, &flag(options.superuser), &flag(options.login)]).await?;
    if let Some(hash) = &hash {
        change(shard, SET_HASH, &[hash.as_bytes(), role]).await?;
    }
    if shard.config().access.authorizes_networks {
        set_centers(shard, name, options.data_centers.as_ref().unwrap_or(&AllowedSet::All)).await?;
    }
    if shard.config().access.cidr_mode != CidrMode::Off {
        cidrs::set_of_role(shard, name, options.cidr_groups.as_ref().unwrap_or(&AllowedSet::All)).await?;
    }
    if let Some(quota) = quotas::checked(shard, options)?.filter(|quota| !quota.is_empty()) {
        quotas::set_of_role(shard, name, quota).await?;
    }
    tell_all(shard).await;
    Ok(())
}

/// Changes a role. Returns the hash of its new password, if it has one.
pub(super) async fn alter(shard: &Shard, name: &str, options: &RoleOptions) -> Result<Option<String>, Failure> {
    let role = name.as_bytes();
    if options.password.is_some() || options.hashed_password.is_some() {
        let found = rows(shard, HASHED_AT, &[role]).await?;
        let written = found.first().and_then(|row| row.first()?.as_deref()?.try_into().ok()).map(i64::from_be_bytes);
        let age = written.map_or(i64::MAX, |written| runtime::wall_micros().saturating_sub(written));
        if age < PASSWORD_INTERVAL.as_micros() as i64 {
            let interval = PASSWORD_INTERVAL.as_millis();
            let text = format!("Password for role {name} can only be changed every {interval}ms.");
            return Err(Failure::overloaded(text));
        }
    }
    let hash = hash(options).await?;
    if let Some(hash) = &hash {
        change(shard, SET_HASH, &[hash.as_bytes(), role]).await?;
    }
    for (text, flag) in [(SET_SUPERUSER, options.superuser), (SET_LOGIN, options.login)] {
        if let Some(flag) = flag {
            change(shard, text, &[&[u8::from(flag)], role]).await?;
        }
    }
    if let (Some(allowed), true) = (&options.data_centers, shard.config().access.authorizes_networks) {
        set_centers(shard, name, allowed).await?;
    }
    if let (Some(allowed), true) = (&options.cidr_groups, shard.config().access.cidr_mode != CidrMode::Off) {
        cidrs::set_of_role(shard, name, allowed).await?;
    }
    if let Some(quota) = quotas::checked(shard, options)? {
        quotas::set_of_role(shard, name, quota).await?;
    }
    tell_all(shard).await;
    Ok(hash)
}

async fn hash(options: &RoleOptions) -> Result<Option<String>, Failure> {
    match (&options.password, &options.hashed_password) {
        (Some(password), _) => hash_of(&password.0).await.map(Some),
        (None, hash) => Ok(hash.as_ref().map(|hash| hash.0.clone())),
    }
}

async fn set_centers(shard: &Shard, name: &str, allowed: &AllowedSet) -> Result<(), Failure> {
    let centers = match allowed {
        AllowedSet::All => set_of(std::iter::empty::<&str>()),
        AllowedSet::Some(centers) => set_of(centers.iter().map(String::as_str)),
    };
    // Cassandra names the role by its resource in this table alone.
    change(shard, SET_CENTERS, &[&centers, Resource::Role(name.to_owned()).name().as_bytes()]).await
}

/// Drops a role: its memberships, members, permissions, what is granted on it, its identities and its quota.
pub(super) async fn drop(shard: &Shard, name: &str, known: &RoleRecord) -> Result<(), Failure> {
    let role = name.as_bytes();
    permissions::revoke_all_from(shard, name).await?;
    permissions::revoke_all_on(shard, &Resource::Role(name.to_owned())).await?;
    change(shard, DROP, &[role]).await?;
    for member in rows(shard, MEMBERS, &[role]).await? {
        if let Some(member) = text_of(member.first()) {
            change(shard, LEAVE, &[&set_of([name].into_iter()), member.as_bytes()]).await?;
        }
    }
    change(shard, DROP_MEMBERS, &[role]).await?;
    for parent in &known.member_of {
        change(shard, REMOVE_MEMBER, &[parent.as_bytes(), role]).await?;
    }
    for identity in identities_of(shard, name).await? {
        change(shard, DROP_IDENTITY, &[identity.as_bytes()]).await?;
    }
    change(shard, DROP_CENTERS, &[Resource::Role(name.to_owned()).name().as_bytes()]).await?;
    change(shard, DROP_CIDRS, &[role]).await?;
    quotas::drop_of_role(shard, name).await?;
    tell_all(shard).await;
    Ok(())
}

/// Makes a role a member of another one.
pub(super) async fn grant(shard: &Shard, role: &str, to: &str) -> Result<(), Failure> {
    let is_member = |member: &str, of: &str| Err(Failure::invalid(format!("{member} is a member of {of}")));
    if closure(shard, to).await?.0.contains(role) {
        return is_member(to, role);
    }
    if closure(shard, role).await?.0.contains(to) {
        return is_member(role, to);
    }
    change(shard, JOIN, &[&set_of([role].into_iter()), to.as_bytes()]).await?;
    change(shard, ADD_MEMBER, &[role.as_bytes(), to.as_bytes()]).await?;
    tell_all(shard).await;
    Ok(())
}

/// Ends a membership.
pub(super) async fn revoke(shard: &Shard, role: &str, from: &str) -> Result<(), Failure> {
    if !record(shard, from).await?.is_some_and(|record| record.member_of.contains(role)) {
        return Err(Failure::invalid(format!("{from} is not a member of {role}")));
    }
    change(shard, LEAVE, &[&set_of([role].into_iter()), from.as_bytes()]).await?;
    change(shard, REMOVE_MEMBER, &[role.as_bytes(), from.as_bytes()]).await?;
    tell_all(shard).await;
    Ok(())
}

/// The role that an identity belongs to.
pub(super) async fn role_of(shard: &Shard, identity: &str) -> Result<Option<String>, Failure> {
    let found = rows(shard, IDENTITY, &[identity.as_bytes()]).await?;
    Ok(found.first().and_then(|row| text_of(row.first())))
}

/// Whether an identity is known.
pub(super) async fn has_identity(shard: &Shard, identity: &str) -> Result<bool, Failure> {
    Ok(role_of(shard, identity).await?.is_some())
}

/// The identities of a role.
pub(super) async fn identities_of(shard: &Shard, role: &str) -> Result<BTreeSet<String>, Failure> {
    let of_role = |row: &Row| text_of(row.get(1)).as_deref() == Some(role);
    let all = rows(shard, IDENTITIES, &[]).await?;
    Ok(all.iter().filter(|row| of_role(row)).filter_map(|row| text_of(row.first())).collect())
}

/// Lets an identity log in as a role.
pub(super) async fn add_identity(shard: &Shard, identity: &str, role: &str) -> Result<(), Failure> {
    change(shard, ADD_IDENTITY, &[identity.as_bytes(), role.as_bytes()]).await?;
    tell_all(shard).await;
    Ok(())
}

/// Forgets an identity.
pub(super) async fn drop_identity(shard: &Shard, identity: &str) -> Result<(), Failure> {
    change(shard, DROP_IDENTITY, &[identity.as_bytes()]).await?;
    tell_all(shard).await;
    Ok(())
}

impl Shard {
    /// Forgets what was read of roles, on all cores of this node.
    pub(crate) async fn forget_roles_here(&self) {
        for reply in self.call_all(|| Request::ForgetRoles).await {
            if let Err(failure) = Reply::done(reply) {
                tracing::warn!(%failure, "a core keeps what it knows of roles until it has grown old");
            }
        }
    }
}

/// Has all cores of all live nodes forget what they have read of roles, because it has changed.
pub(super) async fn tell_all(shard: &Shard) {
    shard.forget_roles_here().await;
    let others: Vec<Node> = {
        let topology = shard.topology();
        let is_other = |at: &NodeIndex| *at != topology.here() && topology.live().contains(*at);
        (0..topology.nodes().len() as u16).map(NodeIndex).filter(is_other).map(|at| topology.node(at).clone()).collect()
    };
    let deadline = runtime::now().after(TOLD_WITHIN);
    let body = Head { epoch: 0 }.body(0);
    let ask = |node: Node| {
        let call = shard.peers().call(&node, PeerLane::Requests, Verb::ForgetRoles, &body, deadline);
        async move {
            if let Err(failure) = call.await {
                tracing::warn!(node = %node.address, ?failure, "a node keeps what it knows of roles for up to a second");
            }
        }
    };
    join_all(others.into_iter().map(ask).collect()).await;
}
