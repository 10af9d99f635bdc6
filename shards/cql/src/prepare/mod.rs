//! Preparation: names to columns and markers to types, from a statement as written to its plan.

mod access;
mod modify;
mod operation;
mod select;
mod transaction;
mod write_sharding;

use crate::ast::{self, Body};
use crate::define;
use crate::literal::{Markers, Receiver, Scope, prepare_term};
use crate::plan::{Describe, DescribeTarget, Plan, Prepared, Term, timeout_of};
use crate::resolver::{Author, Resolver};
use model::{ColumnSpec, CqlType, Failure, Schema};
use std::sync::Arc;

use operation::Existing;

use modify::{prepare_batch, prepare_modify};
use select::prepare_select;
use transaction::prepare_transaction;

type Result<T> = std::result::Result<T, Failure>;

/// Resolves a statement; see [`crate::prepare()`].
pub(crate) fn prepare(
    statement: &ast::Statement,
    session: Option<&str>,
    schema: &Schema,
    who: Author,
) -> Result<Prepared> {
    let resolver = Resolver { schema, session, who };
    let mut markers = Markers::new(&statement.markers);
    let mut prepared = match &statement.body {
        Body::Select(select) => prepare_select(select, &resolver, &mut markers)?,
        Body::Modify(modify) => {
            let scope = resolver.scope_of(resolver.writable_table(&modify.table)?);
            let timeout = prepare_timeout(modify.using.timeout.as_ref(), &scope, &mut markers)?;
            let modify_plan = prepare_modify(modify, &scope, Existing::OfConditional, &mut markers)?;
            modify_plan.check_counters()?;
            modify_plan.check_virtual()?;
            let plan = Plan::Modify(modify_plan);
            Prepared { timeout, fully_qualified: modify.table.keyspace.is_some(), ..bare(plan) }
        }
        Body::Batch(batch) => prepare_batch(batch, &resolver, &mut markers)?,
        Body::Transaction(transaction) => prepare_transaction(transaction, &resolver, &mut markers)?,
        Body::Truncate { table, timeout } => {
            let scope = resolver.scope_of(resolver.writable_table(table)?);
            let timeout = prepare_timeout(timeout.as_ref(), &scope, &mut markers)?;
            let fully_qualified = table.keyspace.is_some();
            Prepared { timeout, fully_qualified, ..bare(Plan::Truncate(scope.table)) }
        }
        Body::Use(name) => {
            if schema.keyspace(name).is_none() {
                return Err(Failure::invalid(format!("Keyspace '{name}' does not exist")));
            }
            bare(Plan::Use(name.clone()))
        }
        Body::Define(definition) => bare(Plan::Define(define::prepare(definition, &resolver)?)),
        Body::Describe { target, internals } => {
            let result = Some(describe_columns(target, session.is_some()));
            let target = target.clone();
            let session_keyspace = session.map(str::to_owned);
            Prepared { result, ..bare(Plan::Describe(Describe { target, internals: *internals, session_keyspace })) }
        }
        Body::Access(statement) => access::prepare_access(statement, &resolver)?,
    };
    (prepared.markers, prepared.partition_key_markers) = markers.finish()?;
    Ok(prepared)
}

/// A prepared statement without markers or results.
fn bare(plan: Plan) -> Prepared {
    Prepared {
        plan,
        markers: Vec::new(),
        partition_key_markers: Vec::new(),
        result: None,
        fully_qualified: false,
        warnings: Vec::new(),
        timeout: None,
        masked: None,
    }
}

/// Prepares a term that does not belong to a column: `[limit]` and the like.
fn special(
    term: Option<&ast::Term>,
    name: &str,
    cql_type: &CqlType,
    scope: &Scope,
    markers: &mut Markers<'_>,
) -> Result<Option<Term>> {
    term.map(|term| prepare_term(term, &Receiver { scope, name, cql_type }, markers)).transpose()
}

fn prepare_timeout(term: Option<&ast::Term>, scope: &Scope, markers: &mut Markers<'_>) -> Result<Option<Term>> {
    let timeout = special(term, "[timeout]", &CqlType::Duration, scope, markers)?;
    if let Some(Term::Constant(bytes)) = &timeout {
        timeout_of(bytes)?;
    }
    Ok(timeout)
}

fn prepare_timestamp(term: Option<&ast::Term>, scope: &Scope, markers: &mut Markers<'_>) -> Result<Option<Term>> {
    let timestamp = special(term, "[timestamp]", &CqlType::Bigint, scope, markers)?;
    if let Some(Term::Constant(bytes)) = &timestamp
        && **bytes == i64::MIN.to_be_bytes()
    {
        return Err(Failure::invalid(format!("Out of bound timestamp, must be in [{}, {}]", i64::MIN + 1, i64::MAX)));
    }
    Ok(timestamp)
}

fn prepare_ttl(term: Option<&ast::Term>, scope: &Scope, markers: &mut Markers<'_>) -> Result<Option<Term>> {
    special(term, "[ttl]", &CqlType::Int, scope, markers)
}

/// The result columns of DESCRIBE; their table `system.describe` does not exist.
fn describe_columns(target: &DescribeTarget, in_keyspace: bool) -> Arc<[ColumnSpec]> {
    let text = |name: &'static str| (name, CqlType::Text);
    let mut columns = vec![text("keyspace_name"), text("type"), text("name")];
    match target {
        DescribeTarget::Cluster => {
            columns = vec![text("cluster"), text("partitioner"), text("snitch")];
            if in_keyspace {
                let list = CqlType::List { element: Box::new(CqlType::Text), frozen: true };
                let map = CqlType::Map { key: Box::new(CqlType::Text), value: Box::new(list), frozen: false };
                columns.push(("range_ownership", map));
            }
        }
        DescribeTarget::Keyspaces
        | DescribeTarget::Tables
        | DescribeTarget::Types
        | DescribeTarget::Functions
        | DescribeTarget::Aggregates => {}
        _ => columns.push(text("create_statement")),
    }
    let (keyspace, table): (Arc<str>, Arc<str>) = ("system".into(), "describe".into());
    columns
        .into_iter()
        .map(|(name, cql_type)| ColumnSpec {
            keyspace: keyspace.clone(),
            table: table.clone(),
            name: name.into(),
            cql_type,
            class: None,
        })
        .collect()
}
