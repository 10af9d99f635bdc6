//! Statements about roles, permissions and identities: what the session's role needs for each, and what is checked
//! before anything changes. The order of checks is Cassandra's, because it decides what is told.

use super::check::{of_session, unauthorized};
use super::listing::{self, Listed};
use super::load::record;
use super::{cidrs, login, permissions, quotas, roles};
use crate::request::{Response, Rows, Session};
use crate::roles::Entry;
use crate::shard_state::Shard;
use crate::statements::Statement;
use cql::ast::{AccessStatement, AllowedSet, RoleOptions};
use model::access::{Permission, PermissionSet, Required, Resource};
use model::schema::SYSTEM_KEYSPACES;
use model::{ErrorCode, Failure};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

const ANONYMOUS: &str = "You have to be logged in and not anonymous to perform this request";
const BAD_HASH: &str = "Invalid hashed password value. Please use jBcrypt.";
const LIMITED: &str = "Granting permissions on system keyspaces is strictly limited, this operation is not permitted";
const OWN_STATUS: &str = "You aren't allowed to alter your own superuser status or that of a role granted to you";
const NO_NETWORKS: &str = "ACCESS TO DATACENTERS operations not supported by AllowAllNetworkAuthorizer";

/// The role that runs a statement.
pub(super) struct Asker {
    pub(super) name: Rc<str>,
    entry: Rc<Entry>,
    authorizes: bool,
}

impl Asker {
    pub(super) fn is_superuser(&self) -> bool {
        self.entry.grants.is_superuser
    }

    /// Whether it is this role, or a member of it.
    pub(super) fn has_role(&self, role: &str) -> bool {
        self.entry.grants.roles.contains(role)
    }

    pub(super) fn may(&self, permission: Permission, resource: &Resource) -> bool {
        !self.authorizes || self.entry.grants.may(permission, &resource.chain())
    }

    fn ensure(&self, permission: Permission, resource: &Resource) -> Result<(), Failure> {
        match self.may(permission, resource) {
            true => Ok(()),
            false => Err(unauthorized(Required::new(permission, resource.clone()).denial(&self.name))),
        }
    }

    /// As [`Asker::ensure`], with the text that Cassandra has where roles are concerned.
    fn ensure_privileges(&self, permission: Permission, resource: &Resource) -> Result<(), Failure> {
        match self.may(permission, resource) {
            true => Ok(()),
            false => Err(unauthorized(format!(
                "User {} does not have sufficient privileges to perform the requested operation",
                self.name
            ))),
        }
    }
}

/// Runs a statement.
pub(crate) async fn run(
    shard: &Shard,
    session: &Session,
    statement: &Statement,
    access: &AccessStatement,
    warnings: &mut Vec<String>,
) -> Result<Response, Failure> {
    let name = session.user.borrow().as_ref().map(|user| user.name.clone());
    let (Some(name), true) = (name, shard.config().access.requires_login()) else {
        return Err(unauthorized(ANONYMOUS));
    };
    let entry = of_session(shard, session).await?;
    let asker = Asker { name, entry, authorizes: shard.config().access.authorizes };
    match access {
        AccessStatement::CreateRole { name, if_not_exists, options } => {
            create(shard, &asker, name, *if_not_exists, options).await?;
        }
        AccessStatement::AlterRole { name, if_exists, options } => {
            let hash = alter(shard, &asker, name, *if_exists, options).await?;
            // Whoever changes the own password need not log in again on this connection.
            if let (Some(hash), Some(user)) = (hash, session.user.borrow().as_ref().filter(|user| *user.name == **name))
            {
                user.salted_hash.replace(Some(hash));
            }
        }
        AccessStatement::DropRole { name, if_exists } => drop_role(shard, &asker, name, *if_exists).await?,
        AccessStatement::GrantRole { role, to } => {
            asker.ensure_privileges(Permission::Authorize, &Resource::Role(role.clone()))?;
            ensure_roles(shard, &[role, to]).await?;
            roles::grant(shard, role, to).await?;
        }
        AccessStatement::RevokeRole { role, from } => {
            asker.ensure_privileges(Permission::Authorize, &Resource::Role(role.clone()))?;
            ensure_roles(shard, &[role, from]).await?;
            roles::revoke(shard, role, from).await?;
        }
        AccessStatement::Grant { permissions, resource, to } => {
            check_grant(shard, &asker, *permissions, resource, to, true).await?;
            let had = permissions::grant(shard, *permissions, resource, to).await?;
            if !had.is_empty() {
                warnings.push(format!("Role '{to}' was already granted {had} on {resource}"));
            }
        }
        AccessStatement::Revoke { permissions, resource, from } => {
            check_grant(shard, &asker, *permissions, resource, from, false).await?;
            let lacked = permissions::revoke(shard, *permissions, resource, from).await?;
            if !lacked.is_empty() {
                warnings.push(format!("Role '{from}' was not granted {lacked} on {resource}"));
            }
        }
        AccessStatement::ListRoles { of, recursive } => {
            let listed = listing::roles(shard, &asker, of.as_deref(), *recursive).await?;
            return Ok(rows(statement, listing::role_rows(&listed)));
        }
        AccessStatement::ListUsers => {
            let listed = listing::roles(shard, &asker, None, true).await?;
            let users: Vec<Listed> = listed.into_iter().filter(|role| role.can_login).collect();
            return Ok(rows(statement, listing::user_rows(&users)));
        }
        AccessStatement::ListPermissions { permissions, resource, of, recursive } => {
            if let Some(resource) = resource
                && !exists(shard, resource).await?
            {
                return Err(Failure::invalid(format!("{resource} doesn't exist")));
            }
            let found = listing::permissions(shard, &asker, *permissions, resource.as_ref(), of.as_deref(), *recursive);
            let found = found.await?;
            return Ok(if found.rows == 0 { Response::Void } else { rows(statement, found) });
        }
        // Refused when it is prepared.
        AccessStatement::OnFunction(_) => return Err(Failure::invalid("There are no user-defined functions")),
        AccessStatement::AddIdentity { identity, role, if_not_exists } => {
            asker.ensure_privileges(Permission::Create, &Resource::AllRoles)?;
            // Whoever may make roles must not become a superuser by a certificate.
            if is_superuser(shard, role).await? && !asker.is_superuser() {
                return Err(unauthorized("Only superusers can add identities of a role with superuser status"));
            }
            if record(shard, role).await?.is_none() {
                return Err(Failure::invalid(format!("Can not add identity for non-existent role '{role}'")));
            }
            match (roles::has_identity(shard, identity).await?, if_not_exists) {
                (true, true) => {}
                (true, false) => return Err(Failure::invalid(format!("{identity} already exists"))),
                (false, _) => roles::add_identity(shard, identity, role).await?,
            }
        }
        AccessStatement::DropIdentity { identity, if_exists } => {
            asker.ensure_privileges(Permission::Drop, &Resource::AllRoles)?;
            match (roles::has_identity(shard, identity).await?, if_exists) {
                (true, _) => roles::drop_identity(shard, identity).await?,
                (false, true) => {}
                (false, false) => return Err(Failure::invalid(format!("identity '{identity}' doesn't exist"))),
            }
        }
    }
    Ok(Response::Void)
}

fn rows(statement: &Statement, block: crate::rows::block::RowBlock) -> Response {
    let columns = statement.prepared.result.clone().unwrap_or_else(|| Arc::from([]));
    let result_metadata_id = Some(statement.result_metadata_id);
    Response::Rows(Rows { columns, result_metadata_id, block, paging_state: None })
}

async fn is_superuser(shard: &Shard, role: &str) -> Result<bool, Failure> {
    Ok(super::load::closure(shard, role).await?.1)
}

async fn ensure_roles(shard: &Shard, names: &[&String]) -> Result<(), Failure> {
    for name in names {
        if record(shard, name).await?.is_none() {
            return Err(Failure::invalid(format!("{name} doesn't exist")));
        }
    }
    Ok(())
}

/// Whether there is such a resource.
pub(super) async fn exists(shard: &Shard, resource: &Resource) -> Result<bool, Failure> {
    let schema = shard.schema();
    Ok(match resource {
        Resource::AllKeyspaces | Resource::AllRoles | Resource::AllFunctions | Resource::AllMbeans => true,
        Resource::Keyspace(keyspace) | Resource::AllTables(keyspace) | Resource::FunctionsIn(keyspace) => {
            schema.keyspace(keyspace).is_some()
        }
        Resource::Table(keyspace, table) => schema.table(keyspace, table).is_some(),
        Resource::Role(role) => record(shard, role).await?.is_some(),
        // There are no MBeans here; what is granted on them is kept.
        Resource::Mbean(_) => true,
    })
}

async fn check_options(shard: &Shard, options: &RoleOptions) -> Result<(), Failure> {
    quotas::checked(shard, options)?;
    if options.hashed_password.as_ref().is_some_and(|hash| !login::is_hash(&hash.0)) {
        return Err(Failure::invalid(BAD_HASH));
    }
    check_centers(shard, options.data_centers.as_ref())?;
    cidrs::check(shard, options.cidr_groups.as_ref()).await
}

fn check_centers(shard: &Shard, allowed: Option<&AllowedSet>) -> Result<(), Failure> {
    let Some(AllowedSet::Some(centers)) = allowed else { return Ok(()) };
    let known: BTreeSet<String> = shard.topology().nodes().iter().map(|node| node.data_center.clone()).collect();
    if !centers.is_subset(&known) {
        return Err(Failure::invalid(format!(
            "Invalid value(s) for DATACENTERS '[{}]',All values must be valid datacenters",
            joined(centers)
        )));
    }
    match shard.config().access.authorizes_networks {
        true => Ok(()),
        false => Err(Failure::invalid(NO_NETWORKS)),
    }
}

fn joined(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

async fn create(
    shard: &Shard,
    asker: &Asker,
    name: &str,
    if_not_exists: bool,
    options: &RoleOptions,
) -> Result<(), Failure> {
    asker.ensure_privileges(Permission::Create, &Resource::AllRoles)?;
    if options.superuser == Some(true) && !asker.is_superuser() {
        return Err(unauthorized("Only superusers can create a role with superuser status"));
    }
    check_options(shard, options).await?;
    if name.is_empty() {
        return Err(Failure::invalid("Role name can't be an empty string"));
    }
    if record(shard, name).await?.is_some() {
        return match if_not_exists {
            true => Ok(()),
            false => Err(Failure::invalid(format!("{name} already exists"))),
        };
    }
    roles::create(shard, name, options).await?;
    super::ownership::created(shard, Some(&asker.name), &[Resource::Role(name.to_owned())]).await
}

async fn alter(
    shard: &Shard,
    asker: &Asker,
    name: &str,
    if_exists: bool,
    options: &RoleOptions,
) -> Result<Option<String>, Failure> {
    if options.superuser.is_some() {
        if asker.has_role(name) {
            return Err(unauthorized(OWN_STATUS));
        }
        if !asker.is_superuser() {
            return Err(unauthorized("Only superusers are allowed to alter superuser status"));
        }
    }
    if options.data_centers.is_some() && !asker.is_superuser() {
        return Err(unauthorized("Only superusers are allowed to alter access to datacenters."));
    }
    if options.cidr_groups.is_some() && !asker.is_superuser() {
        return Err(unauthorized("Only superusers are allowed to alter access from CIDR groups."));
    }
    if !asker.is_superuser() {
        if *asker.name == *name {
            let refused = [(options.login.is_some(), "LOGIN"), (options.custom.is_some(), "OPTIONS")];
            if let Some((_, option)) = refused.iter().find(|(given, _)| *given) {
                return Err(unauthorized(format!("You aren't allowed to alter {option}")));
            }
        } else {
            asker.ensure_privileges(Permission::Alter, &Resource::Role(name.to_owned()))?;
        }
    }
    check_options(shard, options).await?;
    if *options == RoleOptions::default() {
        return Err(Failure::invalid("ALTER [ROLE|USER] can't be empty"));
    }
    if record(shard, name).await?.is_none() {
        return match if_exists {
            true => Ok(None),
            false => Err(Failure::invalid(format!("Role {name} doesn't exist"))),
        };
    }
    // Whoever may change a role must not become a superuser by its password.
    if !asker.is_superuser() && *asker.name != *name && is_superuser(shard, name).await? {
        return Err(unauthorized("Only superusers are allowed to alter a role with superuser status"));
    }
    roles::alter(shard, name, options).await
}

async fn drop_role(shard: &Shard, asker: &Asker, name: &str, if_exists: bool) -> Result<(), Failure> {
    asker.ensure_privileges(Permission::Drop, &Resource::Role(name.to_owned()))?;
    let known = record(shard, name).await?;
    if known.is_some() && !asker.is_superuser() && is_superuser(shard, name).await? {
        return Err(unauthorized("Only superusers can drop a role with superuser status"));
    }
    let Some(known) = known else {
        return match if_exists {
            true => Ok(()),
            false => Err(Failure::invalid(format!("{name} doesn't exist"))),
        };
    };
    if *asker.name == *name {
        return Err(Failure::invalid("Cannot DROP primary role for current login"));
    }
    roles::drop(shard, name, &known).await
}

/// What GRANT and REVOKE of permissions need: the right to do so, and the permissions themselves.
async fn check_grant(
    shard: &Shard,
    asker: &Asker,
    permissions: PermissionSet,
    resource: &Resource,
    role: &str,
    grants: bool,
) -> Result<(), Failure> {
    if !asker.authorizes {
        let what = if grants { "GRANT" } else { "REVOKE" };
        return Err(Failure::invalid(format!("{what} operation is not supported by AllowAllAuthorizer")));
    }
    asker.ensure(Permission::Authorize, resource)?;
    permissions.iter().try_for_each(|permission| asker.ensure(permission, resource))?;
    if let (Some(keyspace), true) = (resource.keyspace_of_data(), grants)
        && SYSTEM_KEYSPACES.contains(&keyspace)
    {
        let is_replicated = !matches!(keyspace, "system" | "system_schema");
        let granted = match is_replicated {
            true => PermissionSet::of(&[Permission::Select, Permission::Alter]),
            false => PermissionSet::of(&[Permission::Select]),
        };
        if !permissions.without(granted).is_empty() {
            return Err(Failure::new(ErrorCode::Unauthorized, LIMITED));
        }
    }
    if record(shard, role).await?.is_none() {
        return Err(Failure::invalid(format!("Role {role} doesn't exist")));
    }
    match exists(shard, resource).await? {
        true => Ok(()),
        false => Err(Failure::invalid(format!("Resource {resource} doesn't exist"))),
    }
}
