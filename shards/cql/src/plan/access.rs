//! The permissions that a plan needs, as Cassandra's statements ask for them.
//!
//! What roles must have for statements about roles depends on the roles, and is decided where these run.

use super::{Define, Modify, Plan, Returning};
use crate::ast::Definition;
use model::access::Permission::{Alter, Create, Drop, Modify as ModifyPermission, Select};
use model::access::{Permission, Required, Resource};
use model::schema::{SYSTEM_KEYSPACES, VIRTUAL_KEYSPACES};
use model::{Schema, Table};

/// Tables of `system` that everybody may read, because drivers and tools rely on them.
const READABLE: [&str; 5] = ["local", "peers", "peers_v2", "size_estimates", "table_estimates"];
/// Keyspaces of which everybody may read all tables.
const READABLE_KEYSPACES: [&str; 3] = ["system_schema", "system_traces", "system_virtual_schema"];

/// What reading, writing or truncating needs. Definitions are asked with [`required_by_definition`] when they run.
pub fn required(plan: &Plan) -> Vec<Required> {
    match plan {
        Plan::Select(select) => read(&select.table).into_iter().collect(),
        Plan::Modify(modify) => modified(modify),
        Plan::Batch(batch) => {
            let mut all: Vec<Required> = Vec::new();
            for required in batch.statements.iter().flat_map(modified) {
                if !all.contains(&required) {
                    all.push(required);
                }
            }
            all
        }
        Plan::Transaction(transaction) => {
            let reads = !transaction.lets.is_empty() || matches!(transaction.returning, Some(Returning::Select(_)));
            let table = &transaction.table;
            let mut all: Vec<Required> = read(table).filter(|_| reads).into_iter().collect();
            if !transaction.updates.is_empty() {
                all.push(on_table(ModifyPermission, table));
            }
            all
        }
        Plan::Truncate(table) => vec![on_table(ModifyPermission, table)],
        Plan::Use(_) | Plan::Define(_) | Plan::Describe(_) | Plan::Access(_) => Vec::new(),
    }
}

/// What a definition needs. An index that is to be dropped and does not exist needs nothing.
pub fn required_by_definition(define: &Define, schema: &Schema) -> Option<Required> {
    let keyspace = || define.keyspace.clone();
    let (permission, resource) = match &*define.definition {
        Definition::CreateKeyspace(_) => (Create, Resource::AllKeyspaces),
        Definition::AlterKeyspace(_) => (Alter, Resource::Keyspace(keyspace())),
        Definition::DropKeyspace(_) => (Drop, Resource::Keyspace(keyspace())),
        Definition::CreateTable(_) | Definition::CreateType(_) => (Create, Resource::AllTables(keyspace())),
        Definition::AlterTable(alter) => (Alter, Resource::Table(keyspace(), alter.table.name.clone())),
        Definition::DropTable(drop) => (Drop, Resource::Table(keyspace(), drop.table.name.clone())),
        Definition::AlterType(_) => (Alter, Resource::AllTables(keyspace())),
        Definition::DropType(_) => (Drop, Resource::AllTables(keyspace())),
        Definition::CreateIndex(create) => (Alter, Resource::Table(keyspace(), create.table.name.clone())),
        Definition::DropIndex(drop) => {
            let tables = &schema.keyspace(&define.keyspace)?.tables;
            let has_index = |table: &Table| table.indexes.iter().any(|index| *index.name == *drop.name.name);
            let table = tables.values().find(|table| has_index(table))?;
            (Alter, Resource::Table(keyspace(), table.name.clone()))
        }
    };
    let name = define.keyspace.as_str();
    let is_fixed = matches!(name, "system" | "system_schema") || VIRTUAL_KEYSPACES.contains(&name);
    let alters_keyspace = matches!(&*define.definition, Definition::AlterKeyspace(_));
    // Such a change is refused whoever asks for it, but for the replication of a keyspace.
    if is_fixed || SYSTEM_KEYSPACES.contains(&name) && !alters_keyspace {
        return None;
    }
    Some(Required::new(permission, resource))
}

fn modified(modify: &Modify) -> Vec<Required> {
    let mut all = vec![on_table(ModifyPermission, &modify.table)];
    if modify.is_conditional() {
        all.extend(read(&modify.table));
    }
    all
}

fn read(table: &Table) -> Option<Required> {
    let keyspace = table.keyspace.as_str();
    let is_readable =
        READABLE_KEYSPACES.contains(&keyspace) || keyspace == "system" && READABLE.contains(&table.name.as_str());
    (!is_readable).then(|| on_table(Select, table))
}

fn on_table(permission: Permission, table: &Table) -> Required {
    Required::new(permission, Resource::Table(table.keyspace.clone(), table.name.clone()))
}
