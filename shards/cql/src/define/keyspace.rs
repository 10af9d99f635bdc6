//! CREATE, ALTER and DROP KEYSPACE.

use super::{
    Applied, Change, ChangeKind, ChangeTarget, DefinitionContext, KEYSPACES_MAX, Result, already_exists, changed,
    is_fixed, is_plain, no_keyspace, refuse_system,
};
use super::{quota, replication, table_options, tablets};
use crate::ast::{AlterKeyspace, CreateKeyspace, DropKeyspace, Property};
use crate::errors::{not_modifiable, syntax};
use model::quota::{QUOTA, Quota};
use model::schema::Replication;
use model::{Failure, Keyspace, Schema};
use std::collections::BTreeMap;

/// Longest name of a keyspace, in characters.
pub(super) const KEYSPACE_NAME_MAX: usize = 48;

/// The properties of a keyspace.
struct Properties<'a> {
    replication: Option<&'a table_options::OptionMap>,
    durable_writes: Option<bool>,
    tablets: Option<&'a table_options::OptionMap>,
    quota: Option<&'a table_options::OptionMap>,
}

fn properties(written: &[Property]) -> Result<Properties<'_>> {
    let mut found = Properties { replication: None, durable_writes: None, tablets: None, quota: None };
    for (at, property) in written.iter().enumerate() {
        if written[..at].iter().any(|other| other.name == property.name) {
            return Err(syntax(format!("Multiple definitions for property '{}'", property.name)));
        }
        match property.name.as_str() {
            "replication" => found.replication = Some(table_options::map_of(property)?),
            "durable_writes" => found.durable_writes = Some(table_options::boolean_of(property)?),
            "tablets" => found.tablets = Some(table_options::map_of(property)?),
            QUOTA => found.quota = Some(table_options::map_of(property)?),
            other => return Err(syntax(format!("Unknown property '{other}'"))),
        }
    }
    Ok(found)
}

pub(super) fn create(create: &CreateKeyspace, schema: &Schema, site: &DefinitionContext<'_>) -> Result<Applied> {
    let name = &create.name;
    if is_fixed(&name.to_ascii_lowercase()) {
        return Err(Failure::invalid(format!("System keyspace '{name}' is not user-modifiable")));
    }
    let Properties { replication, durable_writes, tablets, quota } = properties(&create.properties)?;
    let Some(options) = replication else {
        return Err(Failure::invalid("Missing mandatory option 'replication'"));
    };
    if schema.keyspace(name).is_some() {
        if create.if_not_exists {
            return Ok(Applied::nothing());
        }
        return Err(already_exists(format!("Cannot add existing keyspace \"{name}\""), name, ""));
    }
    if !is_plain(name) {
        return Err(Failure::invalid(format!(
            "Keyspace name must not be empty and must contain alphanumeric or underscore characters only (got \
             \"{name}\")"
        )));
    }
    if name.len() > KEYSPACE_NAME_MAX {
        return Err(Failure::invalid(format!(
            "Keyspace name must not be more than {KEYSPACE_NAME_MAX} characters long (got {} characters for \"{name}\")",
            name.len()
        )));
    }
    let replication = replication::check(name, options, None, site.nodes)?;
    let tablets =
        tablets::of_new_keyspace((tablets, replication::is_managed(options)), &replication, schema.partitioner, site)?;
    let quota = quota::of_keyspace(name, quota, Quota::default(), schema, site)?;
    if schema.keyspaces.len() >= KEYSPACES_MAX {
        return Err(Failure::invalid(format!("Cannot have more than {KEYSPACES_MAX} keyspaces")));
    }
    let after = Keyspace {
        name: name.clone(),
        replication,
        durable_writes: durable_writes.unwrap_or(true),
        tablets,
        quota,
        tables: BTreeMap::new(),
        types: BTreeMap::new(),
    };
    let warnings = too_few_nodes(&after, site.nodes);
    Ok(Applied { warnings, ..changed(ChangeKind::Created, ChangeTarget::Keyspace, "", after) })
}

pub(super) fn alter(alter: &AlterKeyspace, schema: &Schema, site: &DefinitionContext<'_>) -> Result<Applied> {
    let name = &alter.name;
    if is_fixed(name) {
        return Err(not_modifiable(name));
    }
    let Properties { replication, durable_writes, tablets, quota } = properties(&alter.properties)?;
    let Some(before) = schema.keyspace(name) else {
        return if alter.if_exists { Ok(Applied::nothing()) } else { Err(no_keyspace(name)) };
    };
    let mut after = Keyspace::clone(before);
    let mut is_managed = before.is_managed();
    // An empty map changes nothing.
    if let Some(options) = replication.filter(|options| !options.is_empty()) {
        after.replication = replication::check(name, options, Some(&before.replication), site.nodes)?;
        is_managed = replication::is_managed(options);
    }
    after.tablets = tablets::of_altered_keyspace((tablets, is_managed), before, &after, schema.partitioner, site)?;
    after.quota = quota::of_keyspace(name, quota, before.quota, schema, site)?;
    if let Some(durable_writes) = durable_writes {
        after.durable_writes = durable_writes;
    }
    // Cassandra warns even when nothing changes.
    let mut warnings = too_few_nodes(&after, site.nodes);
    if replicas(&before.replication) < replicas(&after.replication) {
        let text = "When increasing replication factor you need to run a full (-full) repair to distribute the data.";
        warnings.push(text.to_owned());
    }
    if after == **before {
        return Ok(Applied { change: None, warnings });
    }
    Ok(Applied { warnings, ..changed(ChangeKind::Updated, ChangeTarget::Keyspace, "", after) })
}

pub(super) fn drop(drop: &DropKeyspace, schema: &Schema) -> Result<Applied> {
    let name = &drop.name;
    refuse_system(name, "DROP", || format!("keyspace {name}"))?;
    if schema.keyspace(name).is_none() {
        return if drop.if_exists { Ok(Applied::nothing()) } else { Err(no_keyspace(name)) };
    }
    let (kind, target) = (ChangeKind::Dropped, ChangeTarget::Keyspace);
    let change = Change { kind, target, keyspace: name.clone(), name: String::new(), after: None, given_id: None };
    Ok(Applied { change: Some(change), warnings: Vec::new() })
}

/// The replication factor in an entry of a replication map.
fn factor(text: &str) -> u64 {
    text.split('/').next().and_then(|full| full.trim().parse().ok()).unwrap_or(0)
}

/// The number of replicas in all data centres together.
fn replicas(replication: &Replication) -> u64 {
    replication.options.values().map(|text| factor(text)).sum()
}

/// The warnings about a keyspace with more replicas than nodes.
fn too_few_nodes(keyspace: &Keyspace, nodes: &BTreeMap<String, usize>) -> Vec<String> {
    let options = &keyspace.replication.options;
    let warning = |found: Option<&String>, nodes: usize, place: &str| {
        let factor = factor(found?);
        (factor > nodes as u64).then(|| {
            let name = &keyspace.name;
            format!(
                "Your replication factor {factor} for keyspace {name} is higher than the number of nodes {nodes}{place}"
            )
        })
    };
    if keyspace.replication.class.ends_with("NetworkTopologyStrategy") {
        let of = |(data_center, nodes): (&String, &usize)| {
            warning(options.get(data_center), *nodes, &format!(" for datacenter {data_center}"))
        };
        nodes.iter().filter_map(of).collect()
    } else {
        warning(options.get("replication_factor"), nodes.values().sum(), "").into_iter().collect()
    }
}
