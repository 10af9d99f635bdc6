//! What a role may do, and the decision whether it may.

use super::cidr::CidrGroups;
use super::permission::{Permission, PermissionSet};
use super::resource::Resource;
use crate::HashMap;
use crate::quota::Quota;
use std::collections::BTreeSet;

/// A permission that something needs, on a resource.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Required {
    /// The permission.
    pub permission: Permission,
    /// The resource, its parent, and so on.
    pub chain: Box<[Resource]>,
}

impl Required {
    /// The permission on a resource or on one of its parents.
    pub fn new(permission: Permission, resource: Resource) -> Required {
        Required { permission, chain: resource.chain().into() }
    }

    /// Cassandra's text for a role that lacks it.
    pub fn denial(&self, role: &str) -> String {
        let permission = self.permission;
        let resource = self.chain.first().map(ToString::to_string).unwrap_or_default();
        format!("User {role} has no {permission} permission on {resource} or any of its parents")
    }
}

/// What a role and all roles that it has may do together.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RoleGrants {
    /// Whether there is such a role.
    pub exists: bool,
    /// Whether clients may log in with it.
    pub can_login: bool,
    /// Whether it, or a role that it has, may do everything.
    pub is_superuser: bool,
    /// The hash of its own password.
    pub salted_hash: Option<String>,
    /// The identities of certificates with which clients log in as it.
    pub identities: BTreeSet<String>,
    /// The role itself and all that it has, directly or by others.
    pub roles: BTreeSet<String>,
    /// What is granted to any of these roles.
    pub permissions: HashMap<Resource, PermissionSet>,
    /// The data centres where it may log in; `None`: all.
    pub data_centers: Option<BTreeSet<String>>,
    /// The groups of addresses from which it may log in; `None`: all addresses.
    pub cidr_groups: Option<BTreeSet<String>>,
    /// All groups of addresses, if they matter to the role.
    pub address_groups: CidrGroups,
    /// How much it may use, by itself: that of other roles does not count.
    pub quota: Quota,
}

impl RoleGrants {
    /// Adds what is granted to one of the roles.
    pub fn add(&mut self, resource: Resource, permissions: PermissionSet) {
        let known = self.permissions.entry(resource).or_default();
        *known = known.union(permissions);
    }

    /// The permissions on the first resource of a chain, those of its parents among them.
    pub fn permissions_on(&self, chain: &[Resource]) -> PermissionSet {
        if self.is_superuser {
            return chain.first().map_or(PermissionSet::NONE, Resource::applicable);
        }
        let granted = chain.iter().filter_map(|resource| self.permissions.get(resource));
        granted.fold(PermissionSet::NONE, |sum, permissions| sum.union(*permissions))
    }

    /// Whether the role has a permission on the first resource of a chain, or on one of its parents.
    #[inline]
    pub fn may(&self, permission: Permission, chain: &[Resource]) -> bool {
        self.is_superuser
            || chain.iter().any(|resource| {
                self.permissions.get(resource).is_some_and(|permissions| permissions.contains(permission))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_granted_on_a_resource_holds_for_all_below_it() {
        let (table, other) = (Resource::Table("ks".into(), "t".into()), Resource::Table("k2".into(), "t".into()));
        for (granted, above) in [(table.clone(), 0), (Resource::AllTables("ks".into()), 1), (Resource::AllKeyspaces, 3)]
        {
            let mut grants = RoleGrants::default();
            grants.add(granted.clone(), PermissionSet::of(&[Permission::Select]));
            for (at, resource) in table.chain().iter().enumerate() {
                assert_eq!(grants.may(Permission::Select, &resource.chain()), at <= above, "{resource} of {granted}");
                assert!(!grants.may(Permission::Modify, &resource.chain()));
            }
            assert_eq!(grants.may(Permission::Select, &other.chain()), granted == Resource::AllKeyspaces);
        }
    }

    #[test]
    fn nothing_is_granted_by_default_and_everything_to_superusers() {
        let chain = Resource::Role("a".into()).chain();
        let mut grants = RoleGrants::default();
        assert!(Permission::ALL.into_iter().all(|permission| !grants.may(permission, &chain)));
        assert_eq!(grants.permissions_on(&chain), PermissionSet::NONE);
        grants.is_superuser = true;
        assert!(Permission::ALL.into_iter().all(|permission| grants.may(permission, &chain)));
        assert_eq!(grants.permissions_on(&chain), Resource::Role(String::new()).applicable());
    }

    #[test]
    fn grants_of_several_roles_add_up() {
        let keyspace = Resource::Keyspace("ks".into());
        let mut grants = RoleGrants::default();
        grants.add(keyspace.clone(), PermissionSet::of(&[Permission::Select]));
        grants.add(keyspace.clone(), PermissionSet::of(&[Permission::Modify]));
        grants.add(Resource::AllKeyspaces, PermissionSet::of(&[Permission::Drop]));
        assert_eq!(grants.permissions_on(&keyspace.chain()).to_string(), "DROP, SELECT, MODIFY");
    }
}
