//! Who may do what: permissions, the resources that they are about, and the decision.
//!
//! 1. A [`Permission`] is granted to a role on a [`Resource`]; resources form trees, and what is granted on a resource
//!    holds for all below it.
//! 2. A role may be a member of others and has what they have. [`RoleWalk`] finds all of them, one record at a time.
//! 3. [`RoleGrants`] is what a role and all of its roles together have, and decides.
//! 4. [`CidrGroups`] says to which groups of addresses a client's belongs.
//!
//! Invariants: what is not granted is denied, but to superusers; a cycle among roles does not keep a walk from ending.
//!
//! What is not here: the tables of `system_auth` (crate `shard`), statements (crate `cql`).

mod cidr;
mod grants;
mod permission;
mod resource;
mod walk;

pub use cidr::{Cidr, CidrGroups};
pub use grants::{Required, RoleGrants};
pub use permission::{Permission, PermissionSet};
pub use resource::Resource;
pub use walk::{ROLES_MAX, RoleRecord, RoleWalk};
