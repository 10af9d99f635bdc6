//! Preparation of statements about roles, permissions and identities: the keyspace of a table, and the columns of
//! results.

use super::{Result, bare};
use crate::ast::{AccessStatement, FunctionResource, SYSTEM};
use crate::plan::{Plan, Prepared};
use crate::resolver::Resolver;
use crate::types;
use model::access::Resource;
use model::{ColumnSpec, CqlType, Failure};
use std::sync::Arc;

const NO_KEYSPACE: &str = "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename";

const UNQUALIFIED: &str = "In this context function name must be explictly qualified by a keyspace";
const BUILTIN: &str = "Altering permissions on builtin functions is not supported";

pub(super) fn prepare_access(statement: &Arc<AccessStatement>, resolver: &Resolver<'_>) -> Result<Prepared> {
    let (mut statement, session) = (statement.clone(), resolver.session);
    if let AccessStatement::OnFunction(function) = &*statement {
        return Err(refuse_function(function, resolver)?);
    }
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

/// The failure for permissions on a function: users have none, and everybody may call those of the system.
fn refuse_function(function: &FunctionResource, resolver: &Resolver<'_>) -> Result<Failure> {
    let FunctionResource { keyspace, name, arguments } = function;
    let Some(keyspace) = keyspace else { return Ok(Failure::invalid(UNQUALIFIED)) };
    if keyspace == SYSTEM {
        return Ok(Failure::invalid(BUILTIN));
    }
    if resolver.schema.keyspace(keyspace).is_none() {
        return Ok(Failure::config(format!("Keyspace {keyspace} doesn't exist")));
    }
    let mut types = Vec::with_capacity(arguments.len());
    for argument in arguments {
        types.push(types::resolve(argument, keyspace, resolver.schema)?.to_string());
    }
    Ok(Failure::invalid(format!("<function {keyspace}.{name}({})> doesn't exist", types.join(", "))))
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
