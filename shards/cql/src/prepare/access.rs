//! Preparation of statements about roles, permissions and identities: the keyspace of a table, and the columns of
//! results.

use super::{Result, bare};
use crate::ast::AccessStatement;
use crate::plan::{Plan, Prepared};
use model::access::Resource;
use model::{ColumnSpec, CqlType, Failure};
use std::sync::Arc;

const NO_KEYSPACE: &str = "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename";

pub(super) fn prepare_access(statement: &Arc<AccessStatement>, session: Option<&str>) -> Result<Prepared> {
    let mut statement = statement.clone();
    if resource_of(&statement)
        .is_some_and(|resource| matches!(resource, Resource::Table(keyspace, _) if keyspace.is_empty()))
    {
        let session = session.ok_or_else(|| Failure::invalid(NO_KEYSPACE))?;
        if let Some(Resource::Table(keyspace, _)) = resource_of_mut(Arc::make_mut(&mut statement)) {
            *keyspace = session.to_owned();
        }
    }
    let result = columns_of(&statement);
    Ok(Prepared { result, ..bare(Plan::Access(statement)) })
}

fn resource_of(statement: &AccessStatement) -> Option<&Resource> {
    match statement {
        AccessStatement::Grant { resource, .. } | AccessStatement::Revoke { resource, .. } => Some(resource),
        AccessStatement::ListPermissions { resource, .. } => resource.as_ref(),
        _ => None,
    }
}

fn resource_of_mut(statement: &mut AccessStatement) -> Option<&mut Resource> {
    match statement {
        AccessStatement::Grant { resource, .. } | AccessStatement::Revoke { resource, .. } => Some(resource),
        AccessStatement::ListPermissions { resource, .. } => resource.as_mut(),
        _ => None,
    }
}

/// The columns of the rows that a statement gives.
fn columns_of(statement: &AccessStatement) -> Option<Arc<[ColumnSpec]>> {
    let text = CqlType::Text;
    let (table, columns) = match statement {
        AccessStatement::ListRoles { .. } => {
            let options = CqlType::Map { key: Box::new(CqlType::Text), value: Box::new(CqlType::Text), frozen: true };
            let columns = vec![
                ("role", text.clone()),
                ("super", CqlType::Boolean),
                ("login", CqlType::Boolean),
                ("options", options),
                ("datacenters", text),
            ];
            ("roles", columns)
        }
        AccessStatement::ListUsers => {
            ("users", vec![("name", text.clone()), ("super", CqlType::Boolean), ("datacenters", text)])
        }
        AccessStatement::ListPermissions { .. } => {
            let names = ["role", "username", "resource", "permission"];
            ("role_permissions", names.into_iter().map(|name| (name, text.clone())).collect())
        }
        _ => return None,
    };
    let (keyspace, table): (Arc<str>, Arc<str>) = ("system_auth".into(), table.into());
    let column = |(name, cql_type): (&str, CqlType)| ColumnSpec {
        keyspace: keyspace.clone(),
        table: table.clone(),
        name: name.into(),
        cql_type,
        class: None,
    };
    Some(columns.into_iter().map(column).collect())
}
