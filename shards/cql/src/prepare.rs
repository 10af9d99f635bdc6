//! Names to columns, markers to types: a statement as written to a plan that needs only values.

use crate::ast::{self, Assignment, Body, Constant, DeletePart, ModifyBody, TableName, Using};
use crate::define;
use crate::functions::{column, select_item};
use crate::lexer::syntax;
use crate::literal::{Markers, Receiver, Scope, prepare_term};
use crate::parser::unsupported;
use crate::plan::{
    Batch, BatchKind, Choice, ClusteringRestriction, ColumnSpec, Describe, DescribeTarget, Modify, ModifyKind,
    PartitionRestriction, Plan, Prepared, Select, Selector, Term, timeout_of,
};
use crate::restrictions::{Restrictions, join, note_key, refuse_null};
use model::schema::SYSTEM_KEYSPACES;
use model::{ColumnKind, CqlType, ErrorCode, Failure, Schema, Table};
use std::sync::Arc;

type Result<T> = std::result::Result<T, Failure>;

/// Longest time to live, seconds: 20 years.
const TTL_SECONDS_MAX: i64 = 630_720_000;

const NO_KEYSPACE: &str = "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename";

/// What names are resolved against.
#[derive(Clone, Copy)]
pub(crate) struct Resolver<'s> {
    pub(crate) schema: &'s Schema,
    pub(crate) session: Option<&'s str>,
}

impl<'s> Resolver<'s> {
    /// The keyspace of a name: its own, or the session's.
    pub(crate) fn keyspace_name<'n>(&self, name: &'n TableName) -> Result<&'n str>
    where
        's: 'n,
    {
        name.keyspace.as_deref().or(self.session).ok_or_else(|| Failure::invalid(NO_KEYSPACE))
    }

    fn table(&self, name: &TableName) -> Result<&'s Arc<Table>> {
        let keyspace_name = self.keyspace_name(name)?;
        let keyspace = self.schema.keyspace(keyspace_name);
        let keyspace = keyspace.ok_or_else(|| Failure::invalid(format!("keyspace {keyspace_name} does not exist")))?;
        let table = keyspace.tables.get(&name.name);
        table.ok_or_else(|| Failure::invalid(format!("table {} does not exist", name.name)))
    }

    /// The same for a table that clients may change.
    fn writable_table(&self, name: &TableName) -> Result<&'s Arc<Table>> {
        let table = self.table(name)?;
        if SYSTEM_KEYSPACES.contains(&table.keyspace.as_str()) {
            return Err(not_modifiable(&table.keyspace));
        }
        Ok(table)
    }
}

/// 0x2100 for changes of a system keyspace.
pub(crate) fn not_modifiable(keyspace: &str) -> Failure {
    Failure::new(ErrorCode::Unauthorized, format!("{keyspace} keyspace is not user-modifiable."))
}

/// Resolves a statement; see [`crate::prepare()`].
pub(crate) fn prepare(statement: &ast::Statement, session: Option<&str>, schema: &Schema) -> Result<Prepared> {
    let resolver = Resolver { schema, session };
    let mut markers = Markers::new(&statement.markers);
    let mut prepared = match &statement.body {
        Body::Select(select) => prepare_select(select, &resolver, &mut markers)?,
        Body::Modify(modify) => {
            let scope = Scope::new(resolver.writable_table(&modify.table)?.clone());
            let timeout = prepare_timeout(modify.using.timeout.as_ref(), &scope, &mut markers)?;
            let plan = Plan::Modify(prepare_modify(modify, &scope, &mut markers)?);
            Prepared { timeout, fully_qualified: modify.table.keyspace.is_some(), ..bare(plan) }
        }
        Body::Batch(batch) => prepare_batch(batch, &resolver, &mut markers)?,
        Body::Truncate { table, timeout } => {
            let scope = Scope::new(resolver.writable_table(table)?.clone());
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
        Body::CreateKeyspace(create) => bare(Plan::Define(define::create_keyspace(create, &resolver)?)),
        Body::DropKeyspace { name, if_exists } => {
            bare(Plan::Define(define::drop_keyspace(name, *if_exists, &resolver)?))
        }
        Body::CreateTable(create) => bare(Plan::Define(define::create_table(create, &resolver)?)),
        Body::DropTable { table, if_exists } => bare(Plan::Define(define::drop_table(table, *if_exists, &resolver)?)),
        Body::Describe { target, internals } => {
            let result = Some(describe_columns(target, session.is_some()));
            let target = target.clone();
            let session_keyspace = session.map(str::to_owned);
            Prepared { result, ..bare(Plan::Describe(Describe { target, internals: *internals, session_keyspace })) }
        }
    };
    (prepared.markers, prepared.partition_key_markers) = markers.finish()?;
    Ok(prepared)
}

/// A plan without anything around it.
fn bare(plan: Plan) -> Prepared {
    Prepared {
        plan,
        markers: Vec::new(),
        partition_key_markers: Vec::new(),
        result: None,
        fully_qualified: false,
        warnings: Vec::new(),
        timeout: None,
    }
}

/// A term that is not a column's: `[limit]` and its like.
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

/// Only TTL 0, which means none, can be given.
fn check_ttl(ttl: Option<&ast::Term>) -> Result<()> {
    let Some(ast::Term::Constant(Constant::Integer, text)) = ttl else {
        return if ttl.is_some() { Err(unsupported("TTL")) } else { Ok(()) };
    };
    match text.parse::<i32>().map(i64::from) {
        Ok(0) => Ok(()),
        Ok(seconds) if seconds < 0 => {
            Err(Failure::invalid(format!("A TTL must be greater or equal to 0, but was {seconds}")))
        }
        Ok(seconds) if seconds > TTL_SECONDS_MAX => {
            Err(Failure::invalid(format!("ttl is too large. requested ({seconds}) maximum ({TTL_SECONDS_MAX})")))
        }
        Ok(_) => Err(unsupported("TTL")),
        Err(_) => Err(Failure::invalid(format!("Unable to make int from '{text}'"))),
    }
}

// SELECT.

fn prepare_select(select: &ast::Select, resolver: &Resolver<'_>, markers: &mut Markers<'_>) -> Result<Prepared> {
    let scope = Scope::new(resolver.table(&select.table)?.clone());
    let table = &scope.table;
    let order = order_columns(&select.order, &scope)?;
    let restrictions = Restrictions::read(&select.relations, &scope, markers)?;
    let mut selection = Vec::new();
    let mut result: Vec<ColumnSpec> = Vec::new();
    match &select.items {
        None => {
            selection.reserve(table.columns.len());
            result.reserve(table.columns.len());
            for column in &table.columns {
                selection.push(Selector::Column(column.id));
                result.push(scope.spec(&column.name, column.cql_type.clone()));
            }
        }
        Some(items) => {
            for item in items {
                let (selector, spec) = select_item(item, &scope, markers)?;
                selection.push(selector);
                result.push(spec);
            }
        }
    }
    let equal: Vec<bool> = match order.is_empty() {
        true => Vec::new(),
        false => table.clustering().iter().map(|column| restrictions.is_equal(column)).collect(),
    };
    let (partitions, clustering) = restrictions.select(select.allow_filtering)?;
    let ordered = !order.is_empty();
    let reversed = ordered && is_reversed(&order, &equal, &partitions)?;
    let limit = special(select.limit.as_ref(), "[limit]", &CqlType::Int, &scope, markers)?;
    if let Some(Term::Constant(bytes)) = &limit
        && let Ok(bytes) = <[u8; 4]>::try_from(&**bytes)
        && i32::from_be_bytes(bytes) <= 0
    {
        return Err(Failure::invalid("LIMIT must be strictly positive"));
    }
    let timeout = prepare_timeout(select.timeout.as_ref(), &scope, markers)?;
    let plain = selection.iter().all(|selector| matches!(selector, Selector::Column(_)));
    let aggregate = selection.iter().any(|selector| matches!(selector, Selector::CountRows | Selector::Count(_)));
    let mut warnings = Vec::new();
    if aggregate {
        match &partitions {
            PartitionRestriction::Keys(choices) => {
                if choices.iter().any(|choice| !matches!(choice, Choice::One(_))) {
                    warnings.push("Aggregation query used on multiple partition keys (IN restriction)".to_owned());
                }
            }
            _ => warnings.push("Aggregation query used without partition key".to_owned()),
        }
    }
    let plan = Plan::Select(Select {
        table: scope.table,
        selection,
        plain,
        aggregate,
        partitions,
        clustering,
        reversed,
        limit,
        ordered,
    });
    let fully_qualified = select.table.keyspace.is_some();
    Ok(Prepared { result: Some(result.into()), fully_qualified, warnings, timeout, ..bare(plan) })
}

/// The columns of ORDER BY and whether they descend; of a column named twice the last counts, as in Cassandra.
fn order_columns<'s>(order: &[(String, bool)], scope: &'s Scope) -> Result<Vec<(&'s model::Column, bool)>> {
    let mut columns: Vec<(&model::Column, bool)> = Vec::new();
    let mut seen = vec![None; if order.is_empty() { 0 } else { scope.table.columns.len() }];
    for (name, descending) in order {
        let column = column(scope, name)?;
        let Some(seen) = seen.get_mut(column.id.0 as usize) else { continue };
        match *seen {
            Some(at) => columns[at] = (column, *descending),
            None => {
                *seen = Some(columns.len());
                columns.push((column, *descending));
            }
        }
    }
    Ok(columns)
}

/// Whether ORDER BY asks for the reverse of the table's order. `equal` tells the clustering columns with one value.
fn is_reversed(columns: &[(&model::Column, bool)], equal: &[bool], partitions: &PartitionRestriction) -> Result<bool> {
    if !matches!(partitions, PartitionRestriction::Keys(_)) {
        return Err(Failure::invalid(
            "ORDER BY is only supported when the partition key is restricted by an EQ or an IN.",
        ));
    }
    let mut next = 0;
    for (column, _) in columns {
        if column.kind != ColumnKind::Clustering {
            return Err(Failure::invalid(format!(
                "Order by is currently only supported on the clustered columns of the PRIMARY KEY, got {}",
                column.name
            )));
        }
        while next != column.position as usize {
            if !equal.get(next).copied().unwrap_or(false) {
                return Err(Failure::invalid(
                    "Order by currently only supports the ordering of columns following their declared order in the \
                     PRIMARY KEY",
                ));
            }
            next += 1;
        }
        next += 1;
    }
    let reversed = columns.first().is_some_and(|(_, descending)| *descending);
    if columns.iter().any(|(_, descending)| *descending != reversed) {
        return Err(Failure::invalid("Unsupported order by relation"));
    }
    Ok(reversed)
}

// INSERT, UPDATE, DELETE, BATCH.

fn prepare_modify(modify: &ast::Modify, scope: &Scope, markers: &mut Markers<'_>) -> Result<Modify> {
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
            let restrictions = Restrictions::read(relations, scope, markers)?;
            let (keys, clustering) = restrictions.modify("UPDATE", true)?;
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
            let restrictions = Restrictions::read(relations, scope, markers)?;
            let (keys, clustering) = restrictions.modify("DELETE", !ids.is_empty())?;
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
    let mut keys: Vec<Option<Term>> = vec![None; table.partition_key_len];
    let mut clustering: Vec<Option<Term>> = vec![None; table.clustering_len];
    let mut assignments = Vec::with_capacity(columns.len());
    let mut seen = vec![false; table.columns.len()];
    for (name, value) in columns.iter().zip(values) {
        let column = column(scope, name)?;
        if seen.get_mut(column.id.0 as usize).is_some_and(|seen| std::mem::replace(seen, true)) {
            return Err(Failure::invalid("The column names contains duplicates"));
        }
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

fn prepare_batch(batch: &ast::Batch, resolver: &Resolver<'_>, markers: &mut Markers<'_>) -> Result<Prepared> {
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
                scope.insert(Scope::new(table.clone()))
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

/// The result columns of DESCRIBE, of a table `system.describe` that does not exist.
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
        })
        .collect()
}
