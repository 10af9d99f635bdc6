//! The schema and session against which the names of a statement are resolved.

use crate::ast::TableName;
use crate::errors::not_modifiable;
use crate::literal::Scope;
use model::schema::SYSTEM_KEYSPACES;
use model::{Failure, Schema, Table};
use std::sync::Arc;

type Result<T> = std::result::Result<T, Failure>;

const NO_KEYSPACE: &str = "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename";

/// Who has written a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Author {
    /// A client, who may not modify tables of system keyspaces.
    Client,
    /// This program.
    Node,
}

/// The schema and session against which names are resolved.
#[derive(Clone, Copy)]
pub(crate) struct Resolver<'s> {
    pub(crate) schema: &'s Schema,
    pub(crate) session: Option<&'s str>,
    pub(crate) who: Author,
}

/// Tables of the keyspace `system` that clients may modify, as all in Cassandra: the node makes them anew periodically,
/// and nothing depends on them.
const ADVICE: [&str; 2] = ["size_estimates", "table_estimates"];

impl<'s> Resolver<'s> {
    /// The keyspace of a name: its own or the session's.
    pub(crate) fn keyspace_name<'n>(&self, name: &'n TableName) -> Result<&'n str>
    where
        's: 'n,
    {
        name.keyspace.as_deref().or(self.session).ok_or_else(|| Failure::invalid(NO_KEYSPACE))
    }

    pub(crate) fn table(&self, name: &TableName) -> Result<&'s Arc<Table>> {
        let keyspace_name = self.keyspace_name(name)?;
        let keyspace = self.schema.keyspace(keyspace_name);
        let keyspace = keyspace.ok_or_else(|| Failure::invalid(format!("keyspace {keyspace_name} does not exist")))?;
        let table = keyspace.tables.get(&name.name);
        table.ok_or_else(|| Failure::invalid(format!("table {} does not exist", name.name)))
    }

    /// The scope for a statement on the table with this name.
    pub(crate) fn scope(&self, name: &TableName) -> Result<Scope> {
        Ok(self.scope_of(self.table(name)?))
    }

    /// The scope for a statement on this table.
    pub(crate) fn scope_of(&self, table: &Arc<Table>) -> Scope {
        Scope::new(self.schema.partitioner, table.clone(), self.schema.keyspace(&table.keyspace).cloned())
    }

    /// The table with this name, if clients may modify it or it is virtual and decides by itself.
    pub(crate) fn writable_table(&self, name: &TableName) -> Result<&'s Arc<Table>> {
        let table = self.table(name)?;
        let keyspace = table.keyspace.as_str();
        let is_advice = keyspace == "system" && ADVICE.contains(&table.name.as_str());
        if self.who == Author::Client && SYSTEM_KEYSPACES.contains(&keyspace) && !is_advice {
            return Err(not_modifiable(keyspace));
        }
        Ok(table)
    }
}
