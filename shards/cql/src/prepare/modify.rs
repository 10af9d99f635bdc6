//! INSERT, UPDATE, DELETE and BATCH to their plans.

use super::{Resolver, bare, check_ttl, prepare_timeout, prepare_timestamp};
use crate::ast::{self, Assignment, DeletePart, ModifyBody, Using};
use crate::lexer::syntax;
use crate::literal::{Markers, Receiver, Scope, prepare_term};
use crate::names::column;
use crate::plan::{Batch, BatchKind, Choice, ClusteringRestriction, Modify, ModifyKind, Plan, Prepared, Term};
use crate::restrictions::{Purpose, Restrictions, join, note_key, refuse_null};
use model::{ColumnKind, Failure};
use std::collections::BTreeSet;
use std::sync::Arc;

type Result<T> = std::result::Result<T, Failure>;

pub(crate) fn prepare_modify(modify: &ast::Modify, scope: &Scope, markers: &mut Markers<'_>) -> Result<Modify> {
    let Using { timestamp, ttl, .. } = &modify.using;
    let timestamp = prepare_timestamp(timestamp.as_ref(), scope, markers)?;
    check_ttl(ttl.as_ref())?;
    let table = scope.table.clone();
    match &modify.kind {
        ModifyBody::Insert { columns, values } => {
            let (keys, clustering, assignments) = prepare_insert(columns, values, scope, markers)?;
            let kind = ModifyKind::Insert;
            Ok(Modify { kind, table, keys, clustering, assignments, columns: Vec::new(), timestamp })
        }
        ModifyBody::Update { assignments, relations } => {
            let mut prepared = Vec::with_capacity(assignments.len());
            let mut seen = vec![false; table.columns.len()];
            for (name, assignment) in assignments {
                let column = column(scope, name)?;
                if column.kind != ColumnKind::Regular {
                    return Err(Failure::invalid(format!("PRIMARY KEY part {name} found in SET part")));
                }
                let term = match assignment {
                    Assignment::Value(term) => term,
                    Assignment::Other { operation, wrong_kind } => {
                        return Err(Failure::invalid(format!(
                            "Invalid operation ({operation}) for {wrong_kind} column {name}"
                        )));
                    }
                };
                if seen.get_mut(column.id.0 as usize).is_some_and(|seen| std::mem::replace(seen, true)) {
                    return Err(syntax(format!("Multiple incompatible setting of column {name}")));
                }
                let receiver = Receiver { scope, name, cql_type: &column.cql_type };
                prepared.push((column.id, prepare_term(term, &receiver, markers)?));
            }
            let restrictions = Restrictions::read(Purpose::Update, relations, scope, markers)?;
            let (keys, clustering) = restrictions.modify(true, false)?;
            let kind = ModifyKind::Update;
            Ok(Modify { kind, table, keys, clustering, assignments: prepared, columns: Vec::new(), timestamp })
        }
        ModifyBody::Delete { columns, relations } => {
            let mut ids = Vec::with_capacity(columns.len());
            let mut seen = vec![false; table.columns.len()];
            for (name, part) in columns {
                let column = column(scope, name)?;
                if column.kind != ColumnKind::Regular {
                    return Err(Failure::invalid(format!(
                        "Invalid identifier {name} for deletion (should not be a PRIMARY KEY part)"
                    )));
                }
                match part {
                    DeletePart::Whole => {
                        if seen.get_mut(column.id.0 as usize).is_some_and(|seen| !std::mem::replace(seen, true)) {
                            ids.push(column.id);
                        }
                    }
                    DeletePart::Element => {
                        return Err(Failure::invalid(format!(
                            "Invalid deletion operation for non collection column {name}"
                        )));
                    }
                    DeletePart::Field => {
                        return Err(Failure::invalid(format!(
                            "Invalid field deletion operation for non-UDT column {name}"
                        )));
                    }
                }
            }
            let restrictions = Restrictions::read(Purpose::Delete, relations, scope, markers)?;
            let (keys, clustering) = restrictions.modify(!ids.is_empty(), false)?;
            let kind = ModifyKind::Delete;
            Ok(Modify { kind, table, keys, clustering, assignments: Vec::new(), columns: ids, timestamp })
        }
    }
}

type Insert = (Vec<Choice>, ClusteringRestriction, Vec<(model::ColumnId, Term)>);

fn prepare_insert(
    columns: &[String],
    values: &[ast::Term],
    scope: &Scope,
    markers: &mut Markers<'_>,
) -> Result<Insert> {
    let table = &scope.table;
    if columns.len() != values.len() {
        return Err(Failure::invalid("Unmatched column names/values"));
    }
    if columns.iter().collect::<BTreeSet<_>>().len() < columns.len() {
        return Err(Failure::invalid("The column names contains duplicates"));
    }
    let mut keys: Vec<Option<Term>> = vec![None; table.partition_key_len];
    let mut clustering: Vec<Option<Term>> = vec![None; table.clustering_len];
    let mut assignments = Vec::with_capacity(columns.len());
    for (name, value) in columns.iter().zip(values) {
        let column = column(scope, name)?;
        let term = prepare_term(value, &Receiver { scope, name, cql_type: &column.cql_type }, markers)?;
        let place = match column.kind {
            ColumnKind::PartitionKey => keys.get_mut(column.position as usize),
            ColumnKind::Clustering => clustering.get_mut(column.position as usize),
            ColumnKind::Static | ColumnKind::Regular => {
                assignments.push((column.id, term));
                continue;
            }
        };
        refuse_null(&term, name)?;
        note_key(column, table, &term, markers);
        if let Some(place) = place {
            *place = Some(term);
        }
    }
    let missing = |given: &[Option<Term>], all: &[model::Column]| {
        join(given.iter().zip(all).filter(|(term, _)| term.is_none()).map(|(_, column)| column))
    };
    let missing_keys = missing(&keys, table.partition_key());
    if !missing_keys.is_empty() {
        return Err(Failure::invalid(format!("Some partition key parts are missing: {missing_keys}")));
    }
    let missing_clustering = missing(&clustering, table.clustering());
    if !missing_clustering.is_empty() {
        return Err(Failure::invalid(format!("Some clustering keys are missing: {missing_clustering}")));
    }
    let choices = |terms: Vec<Option<Term>>| terms.into_iter().flatten().map(Choice::One).collect();
    let clustering = ClusteringRestriction { choices: choices(clustering), ..ClusteringRestriction::default() };
    Ok((choices(keys), clustering, assignments))
}

pub(crate) fn prepare_batch(
    batch: &ast::Batch,
    resolver: &Resolver<'_>,
    markers: &mut Markers<'_>,
) -> Result<Prepared> {
    if batch.using.ttl.is_some() {
        return Err(Failure::invalid("Global TTL on the BATCH statement is not supported."));
    }
    let mut statements = Vec::with_capacity(batch.statements.len());
    let mut scope: Option<Scope> = None;
    let mut one_table = true;
    let mut fully_qualified = true;
    for modify in &batch.statements {
        let table = resolver.writable_table(&modify.table)?;
        fully_qualified &= modify.table.keyspace.is_some();
        let scope = match &mut scope {
            Some(scope) if Arc::ptr_eq(&scope.table, table) => scope,
            scope => {
                one_table &= scope.is_none();
                scope.insert(resolver.scope_of(table))
            }
        };
        if batch.using.timestamp.is_some() && modify.using.timestamp.is_some() {
            return Err(Failure::invalid("Timestamp must be set either on BATCH or individual statements"));
        }
        if modify.using.timeout.is_some() {
            return Err(Failure::invalid("Timeout must be set on BATCH, not on individual statements"));
        }
        if batch.kind == BatchKind::Counter {
            return Err(Failure::invalid("Cannot include non-counter statement in a counter batch"));
        }
        if !one_table {
            markers.keys.clear();
        }
        statements.push(prepare_modify(modify, scope, markers)?);
    }
    if !one_table {
        markers.keys.clear();
    }
    // Without a statement there is no table that the markers of USING could name.
    let scope = scope.unwrap_or_else(Scope::nameless);
    let timestamp = prepare_timestamp(batch.using.timestamp.as_ref(), &scope, markers)?;
    let timeout = prepare_timeout(batch.using.timeout.as_ref(), &scope, markers)?;
    let plan = Plan::Batch(Batch { kind: batch.kind, statements, timestamp });
    Ok(Prepared { fully_qualified, timeout, ..bare(plan) })
}
