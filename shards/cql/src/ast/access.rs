//! Statements about roles, permissions and identities as written. They have no markers.

use super::TypeName;
use model::access::{PermissionSet, Resource};
use std::collections::BTreeSet;
use std::fmt;

/// A password or its hash, which no text or log ever shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<REDACTED>")
    }
}

/// Which of several things are allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AllowedSet {
    /// All of them.
    All,
    /// These alone.
    Some(BTreeSet<String>),
}

/// The options of CREATE ROLE, ALTER ROLE and their older forms for users.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RoleOptions {
    /// SUPERUSER.
    pub superuser: Option<bool>,
    /// LOGIN.
    pub login: Option<bool>,
    /// PASSWORD.
    pub password: Option<Secret>,
    /// HASHED PASSWORD.
    pub hashed_password: Option<Secret>,
    /// OPTIONS: names and values.
    pub custom: Option<Vec<(String, String)>>,
    /// ACCESS TO DATACENTERS.
    pub data_centers: Option<AllowedSet>,
    /// ACCESS FROM CIDRS.
    pub cidr_groups: Option<AllowedSet>,
}

/// A function as a resource: `FUNCTION keyspace.name(types)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionResource {
    /// The keyspace, if given.
    pub keyspace: Option<String>,
    /// The name.
    pub name: String,
    /// The types of its arguments.
    pub arguments: Vec<TypeName>,
}

/// A statement about roles, permissions or identities. A resource that is a table without a keyspace has an empty one.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as in CQL")]
pub enum AccessStatement {
    CreateRole {
        name: String,
        if_not_exists: bool,
        options: RoleOptions,
    },
    AlterRole {
        name: String,
        if_exists: bool,
        options: RoleOptions,
    },
    DropRole {
        name: String,
        if_exists: bool,
    },
    GrantRole {
        role: String,
        to: String,
    },
    RevokeRole {
        role: String,
        from: String,
    },
    Grant {
        permissions: PermissionSet,
        resource: Resource,
        to: String,
    },
    Revoke {
        permissions: PermissionSet,
        resource: Resource,
        from: String,
    },
    ListRoles {
        of: Option<String>,
        recursive: bool,
    },
    ListUsers,
    ListPermissions {
        permissions: PermissionSet,
        resource: Option<Resource>,
        of: Option<String>,
        recursive: bool,
    },
    /// GRANT, REVOKE or LIST of permissions on a single function, of which there is none that could be named.
    OnFunction(FunctionResource),
    AddIdentity {
        identity: String,
        role: String,
        if_not_exists: bool,
    },
    DropIdentity {
        identity: String,
        if_exists: bool,
    },
}
