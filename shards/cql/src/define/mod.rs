//! Schema changes: CREATE, ALTER and DROP of keyspaces, tables, user types and indexes.
//!
//! 1. `prepare` finds the keyspace and checks what Cassandra refuses without looking at the schema.
//! 2. [`apply`] gives the keyspace as it is after the change, or Cassandra's error. Nothing else changes, because every
//!    statement concerns one keyspace.
//!
//! Invariants: no clock, ids or configuration of its own, which come in as [`DefinitionContext`]; a statement without
//! effect gives no [`Change`]; a column keeps its id, and no other column of the table ever gets it.
//!
//! What is not here: making a change durable and announcing it to all cores (crate `shard`).

mod alter;
mod capacity_options;
mod columns;
mod compact;
pub mod compaction_options;
mod compression_options;
mod guardrail_checks;
mod index;
mod ineffective_options;
mod keyspace;
mod masks;
mod quota;
mod replication;
mod table;
mod table_options;
mod tablets;
mod user_type;
mod write_sharding;

use crate::ast::Definition;
use crate::errors::{not_modifiable, shortened};
use crate::guardrails::Guardrails;
use crate::plan::Define;
use crate::resolver::Resolver;
use model::failure::Detail;
use model::schema::{SYSTEM_KEYSPACES, VIRTUAL_KEYSPACES};
use model::{ErrorCode, Failure, Keyspace, MemtableConfigurations, Schema, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

pub use index::INDEXES_MAX;
pub use masks::Masking;
pub(crate) use table::table_id;
pub use write_sharding::GROWTH_GC_GRACE_SECONDS_MIN;

type Result<T> = std::result::Result<T, Failure>;

/// Most keyspaces, including those of the system.
pub const KEYSPACES_MAX: usize = 1_000;
/// Most tables, including those of the system.
pub const TABLES_MAX: usize = 10_000;
/// Most user types.
pub const USER_TYPES_MAX: usize = 10_000;

/// What applying a statement needs to know besides the schema: time, ids and the node's configuration.
#[derive(Clone, Copy, Debug)]
pub struct DefinitionContext<'a> {
    /// The node's data centre.
    pub data_center: &'a str,
    /// How many nodes each data centre has.
    pub nodes: &'a BTreeMap<String, usize>,
    /// The time of the change, microseconds since 1970.
    pub now_micros: i64,
    /// The id for a table that is created without WITH ID.
    pub new_id: TableId,
    /// The memtable configurations that tables may name.
    pub memtables: &'a MemtableConfigurations,
    /// The option `compaction` of tables that are created without it; `None`: that of a default
    /// [`model::schema::TableOptions`].
    pub default_compaction: Option<&'a BTreeMap<String, String>>,
    /// Whether ALTER TABLE DROP COMPACT STORAGE is enabled.
    pub drop_compact_storage: bool,
    /// Whether columns can be masked.
    pub masking: Masking,
    /// Whether all nodes can tell what is repaired, on which the option `tombstone_gc` relies.
    pub has_repair_proofs: bool,
    /// Whether all nodes can place tables by tablets.
    pub has_tablets: bool,
    /// Whether all nodes know the option `write_sharding`.
    pub has_write_sharding: bool,
    /// Whether all nodes find rows of tables whose number of sub-partitions grows.
    pub has_sub_partition_growth: bool,
    /// Whether all nodes know tables whose keys grow by themselves.
    pub has_key_growth: bool,
    /// Of the tables with keys that have grown by themselves, the most sub-partitions of a key.
    pub grown_keys: &'a BTreeMap<TableId, u16>,
    /// Whether all nodes keep to quotas of keyspaces.
    pub has_quotas: bool,
    /// Whether they know quotas of bytes stored.
    pub has_stored_quotas: bool,
    /// The guardrails that apply to the user; `None` if none do.
    pub guardrails: Option<&'a Guardrails>,
}

/// The effect of a statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Applied {
    /// The change; `None` if nothing changes.
    pub change: Option<Change>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// A change of the schema.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// Created, updated or dropped.
    pub kind: ChangeKind,
    /// The kind of object that changes.
    pub target: ChangeTarget,
    /// Its keyspace.
    pub keyspace: String,
    /// The object's name; empty for a keyspace.
    pub name: String,
    /// The keyspace after the change; `None` if it is dropped.
    pub after: Option<Keyspace>,
    /// The id that WITH ID gave to a new table.
    pub given_id: Option<TableId>,
}

/// The kind of a [`Change`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the protocol's words")]
pub enum ChangeKind {
    Created,
    Updated,
    Dropped,
}

/// The kind of object that a [`Change`] is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the protocol's words")]
pub enum ChangeTarget {
    Keyspace,
    Table,
    Type,
}

impl Applied {
    fn nothing() -> Applied {
        Applied { change: None, warnings: Vec::new() }
    }
}

/// A change of an object in a keyspace, or of the keyspace itself if `name` is empty.
fn changed(kind: ChangeKind, target: ChangeTarget, name: &str, after: Keyspace) -> Applied {
    let (keyspace, name) = (after.name.clone(), name.to_owned());
    let change = Change { kind, target, keyspace, name, after: Some(after), given_id: None };
    Applied { change: Some(change), warnings: Vec::new() }
}

/// Finds the keyspace of a statement and checks what needs no schema.
pub(crate) fn prepare(definition: &Arc<Definition>, resolver: &Resolver<'_>) -> Result<Define> {
    let keyspace = match &**definition {
        Definition::CreateKeyspace(create) => &create.name,
        Definition::AlterKeyspace(alter) => &alter.name,
        Definition::DropKeyspace(drop) => &drop.name,
        Definition::CreateTable(create) => {
            let keyspace = resolver.keyspace_name(&create.table)?;
            table::check_names(create)?;
            keyspace
        }
        Definition::AlterTable(alter) => resolver.keyspace_name(&alter.table)?,
        Definition::DropTable(drop) => resolver.keyspace_name(&drop.table)?,
        Definition::CreateType(create) => resolver.keyspace_name(&create.name)?,
        Definition::AlterType(alter) => resolver.keyspace_name(&alter.name)?,
        Definition::DropType(drop) => resolver.keyspace_name(&drop.name)?,
        Definition::CreateIndex(create) => resolver.keyspace_name(&create.table)?,
        Definition::DropIndex(drop) => resolver.keyspace_name(&drop.name)?,
    };
    Ok(Define { keyspace: keyspace.to_owned(), definition: definition.clone() })
}

/// Applies `define` to `schema`. Fails with Cassandra's codes and texts, or, for a feature that Helenus does not have,
/// with [`ErrorCode::Invalid`] and the feature's name.
pub fn apply(define: &Define, schema: &Schema, site: &DefinitionContext<'_>) -> Result<Applied> {
    masks::check_allowed(&define.definition, site.masking)?;
    let Some(guardrails) = site.guardrails else {
        return apply_to(&define.definition, &define.keyspace, schema, site);
    };
    let (mut told, definition) = guardrail_checks::before(guardrails, &define.definition, schema)?;
    let mut applied = apply_to(&definition, &define.keyspace, schema, site)?;
    told.extend(guardrail_checks::after(guardrails, &definition, &applied, schema, site)?);
    told.append(&mut applied.warnings);
    Ok(Applied { warnings: told, ..applied })
}

fn apply_to(definition: &Definition, keyspace: &str, schema: &Schema, site: &DefinitionContext<'_>) -> Result<Applied> {
    let applied = match definition {
        Definition::CreateKeyspace(create) => keyspace::create(create, schema, site),
        Definition::AlterKeyspace(alter) => keyspace::alter(alter, schema, site),
        Definition::DropKeyspace(drop) => keyspace::drop(drop, schema),
        Definition::CreateTable(create) => table::create(create, keyspace, schema, site),
        Definition::AlterTable(alter) => alter::alter(alter, keyspace, schema, site),
        Definition::DropTable(drop) => table::drop(drop, keyspace, schema),
        Definition::CreateType(create) => user_type::create(create, keyspace, schema),
        Definition::AlterType(alter) => user_type::alter(alter, keyspace, schema),
        Definition::DropType(drop) => user_type::drop(drop, keyspace, schema),
        Definition::CreateIndex(create) => index::create(create, keyspace, schema),
        Definition::DropIndex(drop) => index::drop(drop, keyspace, schema),
    };
    applied.map_err(shortened)
}

/// Whether no statement may change a keyspace. The other system keyspaces can be altered, but tables can be neither
/// created nor dropped in them.
fn is_fixed(keyspace: &str) -> bool {
    matches!(keyspace, "system" | "system_schema") || VIRTUAL_KEYSPACES.contains(&keyspace)
}

/// Refuses `verb` on a system keyspace: any change of a fixed one, and creating or dropping `resource` in the others.
fn refuse_system(keyspace: &str, verb: &str, resource: impl FnOnce() -> String) -> Result<()> {
    if is_fixed(keyspace) {
        return Err(not_modifiable(keyspace));
    }
    if SYSTEM_KEYSPACES.contains(&keyspace) {
        return Err(Failure::new(ErrorCode::Unauthorized, format!("Cannot {verb} <{}>", resource())));
    }
    Ok(())
}

/// Whether a name consists of letters, digits and underscores.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn no_keyspace(name: &str) -> Failure {
    Failure::invalid(format!("Keyspace '{name}' doesn't exist"))
}

fn already_exists(text: String, keyspace: &str, table: &str) -> Failure {
    let detail = Detail::AlreadyExists { keyspace: keyspace.to_owned(), table: table.to_owned() };
    Failure::new(ErrorCode::AlreadyExists, text).with(detail)
}

/// `keyspace.table`, each in quotes where CQL needs them.
fn quoted_full_name(keyspace: &str, name: &str) -> String {
    format!("{}.{}", model::identifier::quoted(keyspace), model::identifier::quoted(name))
}
