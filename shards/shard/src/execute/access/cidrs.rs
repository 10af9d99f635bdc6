//! Groups of addresses, and which roles may log in from which of them, in the tables of `system_auth`.
//!
//! 1. Operators name ranges of addresses as groups (`nodetool updatecidrgroup`).
//! 2. CREATE and ALTER ROLE keep a role to groups (`ACCESS FROM CIDRS`).
//! 3. With a role all groups are read, if it is kept to some. The address of a connection is looked up at its login,
//!    and again with every request, because groups and roles change.
//!
//! Invariants: a role that is kept to groups is refused from an address without a group; all groups together have at
//! most [`RANGES_MAX`] ranges, and more are not read, which refuses those roles everywhere.

use super::store::{Row, change, rows, set_of, text_of, texts_of};
use crate::config::CidrMode;
use crate::metrics::CidrLatency;
use crate::shard_state::Shard;
use cql::ast::AllowedSet;
use cql::java_order::{in_hash_order, string_hash};
use model::Failure;
use model::access::{Cidr, CidrGroups, RoleGrants};
use model::value::{TupleElements, elements, push_element};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Most ranges of all groups.
pub(crate) const RANGES_MAX: usize = 10_000;

const GROUPS: &str = "SELECT cidr_group, cidrs FROM system_auth.cidr_groups";
const SET_GROUP: &str = "UPDATE system_auth.cidr_groups SET cidrs = ? WHERE cidr_group = ?";
const DROP_GROUP: &str = "DELETE FROM system_auth.cidr_groups WHERE cidr_group = ?";
const OF_ROLE: &str = "SELECT cidr_groups FROM system_auth.cidr_permissions WHERE role = ?";
const SET_OF_ROLE: &str = "UPDATE system_auth.cidr_permissions SET cidr_groups = ? WHERE role = ?";
const NOT_SUPPORTED: &str = "ACCESS FROM CIDRS operations not supported by AllowAllCIDRAuthorizer";

/// The groups by name, with their ranges.
pub(crate) async fn groups(shard: &Shard) -> Result<BTreeMap<String, Vec<Cidr>>, Failure> {
    let group = |row: &Row| Some((text_of(row.first())?, ranges_of(row.get(1)?.as_deref()?)));
    Ok(rows(shard, GROUPS, &[]).await?.iter().filter_map(group).collect())
}

/// The ranges of a cell, a set of tuples of an address and a length.
fn ranges_of(cell: &[u8]) -> Vec<Cidr> {
    let range = |tuple| {
        let mut fields = TupleElements::new(tuple);
        let (address, prefix) = (fields.next()??, fields.next()??);
        let address = match *address {
            [a, b, c, d] => IpAddr::from([a, b, c, d]),
            _ => IpAddr::from(<[u8; 16]>::try_from(address).ok()?),
        };
        Cidr::new(address, u8::try_from(i16::from_be_bytes(prefix.try_into().ok()?)).ok()?)
    };
    elements(cell, false).filter_map(range).collect()
}

/// The cell of ranges.
fn cell_of(ranges: &[Cidr]) -> Vec<u8> {
    let octets = |address| match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let ordered: BTreeSet<(Vec<u8>, u8)> =
        ranges.iter().map(|range| (octets(range.address()), range.prefix())).collect();
    let mut out = (ordered.len() as i32).to_be_bytes().to_vec();
    for (address, prefix) in ordered {
        let mut tuple = Vec::new();
        push_element(&mut tuple, Some(&address));
        push_element(&mut tuple, Some(&i16::from(prefix).to_be_bytes()));
        push_element(&mut out, Some(&tuple));
    }
    out
}

/// Makes a group of these ranges, whatever it was before.
pub(crate) async fn set_group(shard: &Shard, name: &str, ranges: &[Cidr]) -> Result<(), Failure> {
    let others = groups(shard).await?.into_iter().filter(|(other, _)| other != name);
    let count = others.map(|(_, ranges)| ranges.len()).sum::<usize>() + ranges.len();
    if count > RANGES_MAX {
        return Err(Failure::invalid(format!("All CIDR groups together have at most {RANGES_MAX} ranges")));
    }
    change(shard, SET_GROUP, &[&cell_of(ranges), name.as_bytes()]).await?;
    super::roles::tell_all(shard).await;
    Ok(())
}

/// Drops a group; whether there was one.
pub(crate) async fn drop_group(shard: &Shard, name: &str) -> Result<bool, Failure> {
    if !groups(shard).await?.contains_key(name) {
        return Ok(false);
    }
    change(shard, DROP_GROUP, &[name.as_bytes()]).await?;
    super::roles::tell_all(shard).await;
    Ok(true)
}

/// All groups, to look up addresses in.
pub(crate) async fn table(shard: &Shard) -> Result<CidrGroups, Failure> {
    let began = runtime::now();
    let groups = groups(shard).await?;
    let mut table = CidrGroups::default();
    if groups.values().map(Vec::len).sum::<usize>() > RANGES_MAX {
        tracing::error!("system_auth.cidr_groups has more than {RANGES_MAX} ranges, which are not read");
        return Ok(table);
    }
    for (name, ranges) in &groups {
        ranges.iter().for_each(|range| table.add(name, *range));
    }
    shard.metrics().cidrs.record(CidrLatency::Reloads, began);
    Ok(table)
}

/// The groups that a role is kept to; `None`: it may log in from everywhere.
pub(super) async fn of_role(shard: &Shard, role: &str) -> Result<Option<BTreeSet<String>>, Failure> {
    let found = rows(shard, OF_ROLE, &[role.as_bytes()]).await?;
    let groups = texts_of(found.first().and_then(|row| row.first()).and_then(Option::as_ref));
    Ok((!groups.is_empty()).then(|| groups.into_iter().collect()))
}

/// Keeps a role to groups, or to none.
pub(super) async fn set_of_role(shard: &Shard, role: &str, allowed: &AllowedSet) -> Result<(), Failure> {
    let groups = match allowed {
        AllowedSet::All => set_of(std::iter::empty::<&str>()),
        AllowedSet::Some(groups) => set_of(groups.iter().map(String::as_str)),
    };
    change(shard, SET_OF_ROLE, &[&groups, role.as_bytes()]).await
}

/// Refuses groups that do not exist, and any where roles are not kept to groups.
pub(super) async fn check(shard: &Shard, allowed: Option<&AllowedSet>) -> Result<(), Failure> {
    let Some(allowed) = allowed else { return Ok(()) };
    if let AllowedSet::Some(names) = allowed {
        let known = groups(shard).await?;
        if !names.iter().all(|name| known.contains_key(name)) {
            let shown = |names: Vec<&String>| {
                let ordered = in_hash_order(names, |name| string_hash(name));
                ordered.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ")
            };
            return Err(Failure::invalid(format!(
                "Invalid CIDR group(s): [{}]. Available CIDR Groups are: [{}]",
                shown(names.iter().collect()),
                shown(known.keys().collect())
            )));
        }
    }
    match (shard.config().access.cidr_mode, allowed) {
        (CidrMode::Off, AllowedSet::Some(_)) => Err(Failure::invalid(NOT_SUPPORTED)),
        _ => Ok(()),
    }
}

/// Whether a role may be used from an address.
#[inline]
pub(super) fn may_access(shard: &Shard, grants: &RoleGrants, address: IpAddr) -> bool {
    match &grants.cidr_groups {
        Some(allowed) if shard.config().access.cidr_mode == CidrMode::Enforce => {
            grants.is_superuser && !shard.config().access.cidr_checks_for_superusers
                || grants.address_groups.of(address).is_some_and(|groups| !groups.is_disjoint(allowed))
        }
        _ => true,
    }
}

/// Whether a role may log in from an address; counts it.
pub(super) fn admits(shard: &Shard, role: &str, grants: &RoleGrants, address: IpAddr) -> bool {
    let access = &shard.config().access;
    let is_exempt = grants.is_superuser && !access.cidr_checks_for_superusers;
    let is_unrestricted = grants.cidr_groups.is_none() && access.cidr_mode != CidrMode::Monitor;
    if access.cidr_mode == CidrMode::Off || is_exempt || is_unrestricted {
        return true;
    }
    let began = runtime::now();
    let groups = grants.address_groups.of(address);
    shard.metrics().cidrs.record(CidrLatency::Lookups, began);
    let is_admitted = may_access(shard, grants, address);
    shard.metrics().cidrs.record(CidrLatency::Checks, began);
    if access.cidr_mode == CidrMode::Monitor {
        let is_meant = |allowed: &BTreeSet<String>| groups.is_some_and(|groups| !groups.is_disjoint(allowed));
        match grants.cidr_groups.as_ref().is_none_or(is_meant) {
            true => tracing::info!(role, %address, ?groups, "a role is used from an address"),
            false => tracing::warn!(role, %address, ?groups, "a role is used from an address that it is not kept to"),
        }
    }
    shard.roles().count_access(is_admitted, groups);
    is_admitted
}
