//! Prepares INSERT, UPDATE, DELETE and BATCH.

use super::operation::Existing;
use super::{Resolver, bare, operation, prepare_timeout, prepare_timestamp, prepare_ttl, write_sharding};
use crate::ast::{self, ModifyBody, Using};
use crate::conditions;
use crate::literal::{Markers, Receiver, Scope, prepare_term};
use crate::names::{column, undefined};
use crate::plan::{
    Batch, Choice, ClusteringRestriction, ColumnChange, Conditions, JsonInsert, JsonValue, Modify, ModifyKind,
    Operation, Plan, Prepared, Term, json_values, no_insert,
};
use crate::restrictions::{Purpose, Restrictions, gap, join, note_key};
use model::schema::{Layout, VIRTUAL_KEYSPACES};
use model::{BatchKind, ColumnKind, CqlType, Failure, Table};
use std::collections::BTreeSet;
use std::sync::Arc;

type Result<T> = std::result::Result<T, Failure>;

const CONDITIONAL_TIMESTAMP: &str = "Cannot provide custom timestamp for conditional updates";

/// A conditional batch must be about one partition of one table.
const SEVERAL_TABLES: &str = "Batch with conditions cannot span multiple tables";

/// Prepares one change. `existing` says whether a statement may compute from values that are there.
pub(crate) fn prepare_modify(
    modify: &ast::Modify,
    scope: &Scope,
    existing: Existing,
    markers: &mut Markers<'_>,
) -> Result<Modify> {
    let Using { timestamp, ttl, .. } = &modify.using;
    let timestamp = prepare_timestamp(timestamp.as_ref(), scope, markers)?;
    let ttl = prepare_ttl(ttl.as_ref(), scope, markers)?;
    let table = scope.table.clone();
    if matches!(modify.conditions, ast::Conditions::Columns(_)) && modify.using.timestamp.is_some() {
        return Err(Failure::invalid(CONDITIONAL_TIMESTAMP));
    }
    let conditions = conditions::prepare(&modify.conditions, scope, markers)?;
    let conditional = conditions != Conditions::None;
    let existing = match existing {
        Existing::OfConditional if !conditional => Existing::Unknown,
        existing => existing,
    };
    if table.is_counter() && matches!(modify.kind, ModifyBody::Insert { .. } | ModifyBody::InsertJson { .. }) {
        return Err(no_insert());
    }
    // A condition on a row needs the row's whole clustering, even if nothing of the row changes.
    let asks_rows = conditions.columns().iter().any(|condition| !condition.is_static);
    let mut json = None;
    let built = match &modify.kind {
        ModifyBody::Insert { columns, values } => prepare_insert(columns, values, scope, markers)?,
        ModifyBody::InsertJson { json: text, default_unset } => {
            let (built, insert) = prepare_insert_json(text, *default_unset, scope, markers)?;
            json = insert;
            built
        }
        ModifyBody::Update { assignments, relations } => {
            let mut operations = Vec::with_capacity(assignments.len());
            for (name, assignment) in assignments {
                let column = column(scope, name)?;
                if column.kind.is_key() {
                    return Err(Failure::invalid(format!("PRIMARY KEY part {name} found in SET part")));
                }
                operations.push(operation::assign(column, assignment, existing, scope, markers)?);
            }
            let (statics, operations) = by_kind(operations, &table);
            let only_statics = operations.is_empty() && !statics.is_empty() && !asks_rows;
            let restrictions = Restrictions::read(Purpose::Update, relations, scope, markers)?;
            let (keys, clustering) = restrictions.modify(only_statics)?;
            Built { kind: ModifyKind::Update, keys, clustering, operations, statics, rows: !only_statics }
        }
        ModifyBody::Delete { columns, relations } => {
            let mut operations: Vec<Operation> = Vec::with_capacity(columns.len());
            for (name, part) in columns {
                let column = column(scope, name)?;
                if column.kind.is_key() {
                    return Err(Failure::invalid(format!(
                        "Invalid identifier {name} for deletion (should not be a PRIMARY KEY part)"
                    )));
                }
                operations.push(operation::delete(column, part, scope, markers)?);
            }
            let (statics, mut operations) = by_kind(operations, &table);
            let only_statics = operations.is_empty() && !statics.is_empty() && !asks_rows;
            let changes_rows = statics.is_empty() || !operations.is_empty();
            let restrictions = Restrictions::read(Purpose::Delete, relations, scope, markers)?;
            let (keys, clustering) = restrictions.modify(only_statics)?;
            if operations.is_empty() && statics.is_empty() && names_one_row(&clustering, &table) {
                let value = only_value(&table);
                operations.extend(value.map(|column| Operation {
                    column: column.id,
                    change: ColumnChange::Delete,
                    written: 0,
                }));
            }
            check_conditional(conditional, modify, &table)?;
            if conditional && !only_statics && !names_one_row(&clustering, &table) {
                let purpose = match changes_rows {
                    true => "delete non static columns",
                    false => "use IF condition on non static columns",
                };
                return Err(Failure::invalid(format!(
                    "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to {purpose}"
                )));
            }
            Built { kind: ModifyKind::Delete, keys, clustering, operations, statics, rows: !only_statics }
        }
    };
    check_conditional(conditional, modify, &table)?;
    let Built { kind, keys, clustering, operations, statics, rows } = built;
    let is_virtual = VIRTUAL_KEYSPACES.contains(&table.keyspace.as_str());
    let planned = Modify {
        kind,
        table,
        keys,
        clustering,
        operations,
        statics,
        rows,
        timestamp,
        ttl,
        json,
        conditions,
        is_virtual,
    };
    write_sharding::check_modify(&planned)?;
    Ok(planned)
}

/// Refuses clauses that a statement with IF may not have. Reported after errors of the statement itself.
fn check_conditional(conditional: bool, modify: &ast::Modify, table: &Table) -> Result<()> {
    if conditional && table.is_counter() {
        return Err(Failure::invalid("Conditional updates are not supported on counter tables"));
    }
    if conditional && modify.using.timestamp.is_some() {
        return Err(Failure::invalid(CONDITIONAL_TIMESTAMP));
    }
    Ok(())
}

/// The value column of a dense compact table, without which a row does not exist: deleting the row means deleting this
/// column. For a counter that also deletes what is counted later.
fn only_value(table: &Table) -> Option<&model::Column> {
    table.regular().first().filter(|_| table.layout == Layout::DenseCompact)
}

/// Whether every clustering column has a single value.
fn names_one_row(clustering: &ClusteringRestriction, table: &Table) -> bool {
    !clustering.is_slice() && clustering.chosen() == table.clustering_len
}

/// The parts of a plan that depend on the kind of statement.
struct Built {
    kind: ModifyKind,
    keys: Vec<Choice>,
    clustering: ClusteringRestriction,
    operations: Vec<Operation>,
    statics: Vec<Operation>,
    rows: bool,
}

/// Splits operations into those on static columns and those on others, each in the order of column ids.
fn by_kind(mut operations: Vec<Operation>, table: &Table) -> (Vec<Operation>, Vec<Operation>) {
    let is_static = |operation: &Operation| {
        table.column_by_id(operation.column).is_some_and(|column| column.kind == ColumnKind::Static)
    };
    for (at, operation) in operations.iter_mut().enumerate() {
        operation.written = u16::try_from(at).unwrap_or(u16::MAX);
    }
    let (mut statics, mut others): (Vec<Operation>, Vec<Operation>) = operations.into_iter().partition(is_static);
    statics.sort_by_key(|operation| operation.column);
    others.sort_by_key(|operation| operation.column);
    (statics, others)
}

/// Prepares INSERT JSON: all columns of the table, with values from the text or from markers that stand for the text's
/// values.
fn prepare_insert_json(
    text: &ast::Term,
    default_unset: bool,
    scope: &Scope,
    markers: &mut Markers<'_>,
) -> Result<(Built, Option<JsonInsert>)> {
    let table = &scope.table;
    let receiver = Receiver { scope, name: "[json]", cql_type: &CqlType::Text };
    let (terms, insert): (Vec<Term>, _) = match prepare_term(text, &receiver, markers)? {
        Term::Marker(marker) => {
            let first = markers.len();
            let terms = (0..table.columns.len()).map(|at| Term::Marker((first + at) as u16));
            (terms.collect(), Some(JsonInsert { marker, default_unset }))
        }
        Term::Constant(text) => {
            let values = json_values(table, &String::from_utf8_lossy(&text), default_unset)?;
            let terms = values.into_iter().map(|value| match value {
                JsonValue::Unset => Term::Unset,
                JsonValue::Null => Term::Null,
                JsonValue::Bytes(bytes) => Term::Constant(bytes.into()),
            });
            (terms.collect(), None)
        }
        _ => return Err(Failure::invalid("Got null for INSERT JSON values")),
    };
    if let (Layout::StaticCompact, Some(column)) = (table.layout, table.clustering().first()) {
        // Cassandra requires the hidden column, so that there is no such INSERT.
        return Err(undefined(table, &column.name));
    }
    let mut keys = Vec::with_capacity(table.primary_key_len());
    let mut operations = Vec::new();
    for (column, term) in table.columns.iter().zip(terms) {
        match (column.kind.is_key(), term) {
            (true, term) => keys.push(Choice::One(term)),
            // Columns that are not set are named nevertheless.
            (false, term) => {
                operations.push(Operation { column: column.id, change: ColumnChange::Set(term), written: 0 })
            }
        }
    }
    let (statics, operations) = by_kind(operations, table);
    let clustering = keys.split_off(table.partition_key_len);
    let clustering = ClusteringRestriction { choices: clustering, ..ClusteringRestriction::default() };
    Ok((Built { kind: ModifyKind::Insert, keys, clustering, operations, statics, rows: true }, insert))
}

fn prepare_insert(columns: &[String], values: &[ast::Term], scope: &Scope, markers: &mut Markers<'_>) -> Result<Built> {
    let table = &scope.table;
    if columns.len() != values.len() {
        return Err(Failure::invalid("Unmatched column names/values"));
    }
    if columns.iter().collect::<BTreeSet<_>>().len() < columns.len() {
        return Err(Failure::invalid("The column names contains duplicates"));
    }
    let mut keys: Vec<Option<Term>> = vec![None; table.partition_key_len];
    let mut clustering: Vec<Option<Term>> = vec![None; table.clustering_len];
    let mut operations = Vec::with_capacity(columns.len());
    let mut of_key = Vec::with_capacity(table.primary_key_len());
    for (name, value) in columns.iter().zip(values) {
        let column = column(scope, name)?;
        if column.kind.is_key() {
            if let ast::Term::Reference(reference) = value {
                return Err(Failure::invalid(format!(
                    "Value reference {reference} cannot be used to insert PRIMARY KEY column {name}"
                )));
            }
            of_key.push((column, value));
            continue;
        }
        let term = prepare_term(value, &Receiver { scope, name, cql_type: &column.cql_type }, markers)?;
        operations.push(Operation { column: column.id, change: ColumnChange::Set(term), written: 0 });
    }
    // Cassandra treats the key as a WHERE clause, which it checks last.
    for (column, value) in of_key {
        let receiver = Receiver { scope, name: &column.name, cql_type: &column.cql_type };
        let term = prepare_term(value, &receiver, markers)?;
        let position = usize::from(column.position);
        let place = match column.kind {
            ColumnKind::PartitionKey => keys.get_mut(position),
            _ => clustering.get_mut(position),
        };
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
    let (statics, operations) = by_kind(operations, table);
    let only_statics = operations.is_empty() && !statics.is_empty() && clustering.iter().all(Option::is_none);
    if !missing_clustering.is_empty() && !only_statics {
        if table.layout != Layout::DenseCompact || clustering.iter().all(Option::is_none) {
            return Err(Failure::invalid(format!("Some clustering keys are missing: {missing_clustering}")));
        }
        refuse_gap(&clustering, table)?;
    }
    let operations = match operations.is_empty() {
        true => hidden_value(table).into_iter().collect(),
        false => operations,
    };
    let choices = |terms: Vec<Option<Term>>| terms.into_iter().flatten().map(Choice::One).collect();
    let clustering = ClusteringRestriction { choices: choices(clustering), ..ClusteringRestriction::default() };
    let rows = !only_statics || table.clustering_len == 0;
    Ok(Built { kind: ModifyKind::Insert, keys: choices(keys), clustering, operations, statics, rows })
}

/// Refuses a value for a clustering column after one without a value: only the last ones may be left out.
fn refuse_gap(clustering: &[Option<Term>], table: &Table) -> Result<()> {
    let free = clustering.iter().position(Option::is_none).unwrap_or(clustering.len());
    match clustering.iter().skip(free).position(Option::is_some) {
        None => Ok(()),
        Some(behind) => Err(gap(&table.clustering()[free + behind], &table.clustering()[free])),
    }
}

/// The operation on the hidden value column of a dense table, which records that the row exists.
fn hidden_value(table: &Table) -> Option<Operation> {
    let column = only_value(table)?;
    let empty = Term::Constant(Vec::new().into());
    table.is_hidden(column).then_some(Operation { column: column.id, change: ColumnChange::Set(empty), written: 0 })
}

/// Refuses batches whose statements are valid by themselves but not together.
fn check_batch(batch: &ast::Batch, conditional: bool) -> Result<()> {
    if batch.using.ttl.is_some() {
        return Err(Failure::invalid("Global TTL on the BATCH statement is not supported."));
    }
    if batch.using.timestamp.is_some() {
        if conditional {
            return Err(Failure::invalid("Cannot provide custom timestamp for conditional BATCH"));
        }
        if batch.kind == BatchKind::Counter {
            return Err(Failure::invalid("Cannot provide custom timestamp for counter BATCH"));
        }
        if batch.statements.iter().any(|statement| statement.using.timestamp.is_some()) {
            return Err(Failure::invalid("Timestamp must be set either on BATCH or individual statements"));
        }
    }
    Ok(())
}

pub(crate) fn prepare_batch(
    batch: &ast::Batch,
    resolver: &Resolver<'_>,
    markers: &mut Markers<'_>,
) -> Result<Prepared> {
    let mut statements = Vec::with_capacity(batch.statements.len());
    let mut scope: Option<Scope> = None;
    let mut one_table = true;
    let mut fully_qualified = true;
    let mut conditional = false;
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
        if modify.using.timeout.is_some() {
            return Err(Failure::invalid("Timeout must be set on BATCH, not on individual statements"));
        }
        conditional |= modify.conditions != ast::Conditions::None;
        if !one_table {
            markers.keys.clear();
        }
        statements.push(prepare_modify(modify, scope, Existing::OfConditional, markers)?);
    }
    if !one_table {
        markers.keys.clear();
    }
    let scope = Scope::of_batch();
    let timestamp = prepare_timestamp(batch.using.timestamp.as_ref(), &scope, markers)?;
    // A marker of the batch itself counts as a marker of another table.
    if matches!(timestamp, Some(Term::Marker(_))) {
        markers.keys.clear();
    }
    let timeout = prepare_timeout(batch.using.timeout.as_ref(), &scope, markers)?;
    check_batch(batch, conditional)?;
    let planned = Batch { kind: batch.kind, statements, conditional, timestamp };
    planned.check_counters()?;
    planned.check_virtual()?;
    if conditional && !one_table {
        return Err(Failure::invalid(SEVERAL_TABLES));
    }
    let plan = Plan::Batch(planned);
    Ok(Prepared { fully_qualified, timeout, ..bare(plan) })
}
