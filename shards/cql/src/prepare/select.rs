//! Prepares SELECT.

use super::{Resolver, bare, prepare_timeout, special, write_sharding};
use crate::ast;
use crate::java_order::{bytes_hash, in_hash_order};
use crate::literal::{Markers, Receiver, Scope, prepare_term};
use crate::names::column;
use crate::plan::{MaskedPlan, Plan, Prepared, Select, Term};
use crate::restrictions::{NEEDS_FILTERING, Purpose, Restrictions, SelectedRows};
use crate::selection::{self, Selection, Shown};
use model::schema::Layout;
use model::{Column, ColumnKind, CqlType, Failure, Table};

type Result<T> = std::result::Result<T, Failure>;

pub(crate) fn prepare_select(
    select: &ast::Select,
    resolver: &Resolver<'_>,
    markers: &mut Markers<'_>,
) -> Result<Prepared> {
    let scope = resolver.scope(&select.table)?;
    let table = &scope.table;
    if has_statics(table) {
        // Cassandra first checks whether only static columns are selected, if there are any.
        selection::check(select, &scope)?;
    }
    let order = order_columns(&select.order, &scope)?;
    let purpose = Purpose::Select { allow_filtering: select.allow_filtering };
    let near = prepare_near(&select.order, &scope, markers)?;
    let restrictions = Restrictions::read(purpose, &select.relations, &scope, markers)?;
    if let Some(column) = near {
        let is_indexed = scope.table.indexes_of(&column.name).next().is_some();
        return Err(refuse_near(&select.order, column, is_indexed, &restrictions));
    }
    let equal: Vec<bool> = match order.is_empty() {
        true => Vec::new(),
        false => table.clustering().iter().map(|column| restrictions.is_equal(column)).collect(),
    };
    let key = &table.columns[..table.primary_key_len()];
    let equal_keys: Vec<_> =
        key.iter().filter(|column| restrictions.is_equal(column)).map(|column| column.id).collect();
    let restricted = restricted_masks(&restrictions, &scope);
    let rows = restrictions.select(selects_only_statics(select, &scope))?;
    let is_equal = |column: &Column| equal_keys.contains(&column.id);
    let masked = match scope.table.masks.is_empty() {
        true => None,
        false => Some(selection::select(select, &scope, &mut markers.again(), &is_equal, Shown::Masked)),
    };
    let selected = selection::select(select, &scope, markers, &is_equal, Shown::Clear)?;
    let grouped = selected.projection.as_ref().is_some_and(|projection| projection.grouped);
    let group_by = selected.projection.as_ref().is_some_and(|projection| !projection.group_by.is_empty());
    let aggregate = selected.aggregate || grouped;
    if select.distinct {
        if select.per_partition_limit.is_some() {
            return Err(Failure::invalid("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries"));
        }
        check_distinct(select, &scope, &order, &rows)?;
    }
    write_sharding::check_select(select, &scope.table, &rows, group_by)?;
    if aggregate && !group_by && select.per_partition_limit.is_some() {
        return Err(Failure::invalid("PER PARTITION LIMIT is not allowed with aggregate queries."));
    }
    let reversed = !order.is_empty() && is_reversed(&order, &equal, &rows)?;
    if rows.lacks_filtering {
        return Err(Failure::invalid(NEEDS_FILTERING));
    }
    let limit = prepare_limit(select.limit.as_ref(), "[limit]", &scope, markers)?;
    let per_partition_limit =
        prepare_limit(select.per_partition_limit.as_ref(), "[per_partition_limit]", &scope, markers)?;
    let timeout = prepare_timeout(select.timeout.as_ref(), &scope, markers)?;
    let mut warnings = Vec::new();
    if aggregate && !rows.key_restricted {
        warnings.push("Aggregation query used without partition key".to_owned());
    } else if aggregate && rows.key_in {
        warnings.push("Aggregation query used on multiple partition keys (IN restriction)".to_owned());
    }
    let plan = Select {
        table: scope.table.clone(),
        selection: selected.fetched,
        plain: selected.plain,
        aggregate: selected.aggregate,
        projection: selected.projection,
        partitions: rows.partitions,
        key_tokens: rows.key_tokens,
        clustering: rows.clustering,
        filter: rows.filter,
        index: rows.index,
        static_rows: rows.static_rows,
        distinct: select.distinct,
        // DISTINCT reads only the first row, whatever the order.
        reversed: reversed && !select.distinct,
        per_partition_limit,
        limit,
        order: order.iter().map(|(column, _)| column.id).collect(),
    };
    let masked = match masked.transpose()? {
        Some(Selection { fetched: selection, plain, aggregate, projection, .. }) => {
            let shown = Select { selection, plain, aggregate, projection, ..plan.clone() };
            let (table, plan) = (scope.table.clone(), Plan::Select(shown));
            Some(Box::new(MaskedPlan { plan, table, restricted, referenced: Vec::new() }))
        }
        None => None,
    };
    let result = Some(selected.result.into());
    let fully_qualified = select.table.keyspace.is_some();
    Ok(Prepared { result, fully_qualified, warnings, timeout, masked, ..bare(Plan::Select(plan)) })
}

/// The masked columns that are restricted, in the order of Cassandra's map of all columns.
fn restricted_masks(restrictions: &Restrictions<'_>, scope: &Scope) -> Vec<String> {
    let table = &scope.table;
    if table.masks.is_empty() {
        return Vec::new();
    }
    let columns = in_hash_order(table.columns.iter(), |column| bytes_hash(column.name.as_bytes()));
    let is_meant = |column: &&&Column| table.masks.contains_key(&column.id) && restrictions.restricts(column);
    columns.iter().filter(is_meant).map(|column| column.name.clone()).collect()
}

/// Prepares LIMIT or PER PARTITION LIMIT.
fn prepare_limit(
    limit: Option<&ast::Term>,
    name: &str,
    scope: &Scope,
    markers: &mut Markers<'_>,
) -> Result<Option<Term>> {
    special(limit, name, &CqlType::Int, scope, markers)
}

/// The columns that the selectors of a SELECT name, in their order; unknown names are left out.
fn named_columns<'s>(select: &ast::Select, scope: &'s Scope) -> Vec<&'s Column> {
    let mut names = Vec::new();
    select.items.iter().flatten().for_each(|item| item.selector.names(&mut names));
    names.into_iter().filter_map(|name| column(scope, name).ok()).collect()
}

/// Whether a table has static columns that clients see as such. In a compact table they are its ordinary columns.
fn has_statics(table: &Table) -> bool {
    table.static_len > 0 && table.layout != Layout::StaticCompact
}

/// Whether static columns are selected, and apart from them only partition key columns.
fn selects_only_statics(select: &ast::Select, scope: &Scope) -> bool {
    if !has_statics(&scope.table) || select.items.is_none() {
        return false;
    }
    let columns = named_columns(select, scope);
    let is = |kind| move |column: &&Column| column.kind == kind;
    columns.iter().any(is(ColumnKind::Static))
        && !columns.iter().any(is(ColumnKind::Regular))
        && !columns.iter().any(is(ColumnKind::Clustering))
}

/// Checks Cassandra's conditions on SELECT DISTINCT.
fn check_distinct(select: &ast::Select, scope: &Scope, order: &[(&Column, bool)], rows: &SelectedRows) -> Result<()> {
    if !rows.static_rows {
        return Err(Failure::invalid(
            "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns.",
        ));
    }
    let mut columns: Vec<&Column> = match select.items {
        None => scope.table.visible_columns().collect(),
        Some(_) => named_columns(select, scope),
    };
    if rows.key_in {
        // Rows of several partitions are sorted by these columns, which must then be read.
        columns.extend(order.iter().map(|(column, _)| *column));
    }
    if let Some(column) =
        columns.iter().find(|column| !matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Static))
    {
        return Err(Failure::invalid(format!(
            "SELECT DISTINCT queries must only request partition key columns and/or static columns (not {})",
            column.name
        )));
    }
    let missing = |key: &&Column| !columns.iter().any(|column| column.id == key.id);
    if rows.key_range
        && let Some(column) = scope.table.partition_key().iter().find(missing)
    {
        return Err(Failure::invalid(format!(
            "SELECT DISTINCT queries must request all the partition key columns (missing {})",
            column.name
        )));
    }
    Ok(())
}

/// The columns of ORDER BY, and whether they descend; of a column named twice the last one counts, as in Cassandra.
fn order_columns<'s>(order: &[ast::Ordering], scope: &'s Scope) -> Result<Vec<(&'s Column, bool)>> {
    let mut columns: Vec<(&Column, bool)> = Vec::new();
    let mut seen = vec![None; if order.is_empty() { 0 } else { scope.table.columns.len() }];
    for ast::Ordering { name, descending, .. } in order {
        let column = column(scope, name)?;
        let place = scope.table.index_of(column.id).unwrap_or_default();
        let Some(seen) = seen.get_mut(place) else { continue };
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

/// The column of `ORDER BY c ANN OF v`, if there is one. Checks the value.
fn prepare_near<'s>(
    order: &[ast::Ordering],
    scope: &'s Scope,
    markers: &mut Markers<'_>,
) -> Result<Option<&'s Column>> {
    let mut found = None;
    for ordering in order {
        if let Some(value) = &ordering.near {
            let column = column(scope, &ordering.name)?;
            prepare_term(value, &Receiver { scope, name: &column.name, cql_type: &column.cql_type }, markers)?;
            found = found.or(Some(column));
        }
    }
    Ok(found)
}

/// The failure for ordering rows by distance, which needs a storage-attached index on the column; no table has one.
fn refuse_near(order: &[ast::Ordering], column: &Column, is_indexed: bool, restrictions: &Restrictions<'_>) -> Failure {
    let is_float_vector = matches!(&column.cql_type, CqlType::Vector { element, .. } if **element == CqlType::Float);
    Failure::invalid(if order.iter().filter(|ordering| ordering.near.is_some()).count() > 1 {
        "Cannot specify more than one ANN ordering".to_owned()
    } else if order.len() > 1 {
        "ANN ordering does not support any other ordering".to_owned()
    } else if order.iter().any(|ordering| ordering.descending) {
        "Descending ANN ordering is not supported".to_owned()
    } else if restrictions.is_equal(column) {
        format!("{} cannot be restricted by more than one relation if it includes an Equal", column.name)
    } else if is_float_vector && is_indexed {
        NEEDS_FILTERING.to_owned()
    } else if is_float_vector {
        "ANN ordering by vector requires the column to be indexed".to_owned()
    } else {
        "ANN ordering is only supported on float vector indexes".to_owned()
    })
}

/// Whether ORDER BY asks for the reverse of the table's order. `equal` says which clustering columns are restricted to
/// one value.
fn is_reversed(columns: &[(&Column, bool)], equal: &[bool], rows: &SelectedRows) -> Result<bool> {
    if rows.uses_index {
        return Err(Failure::invalid("ORDER BY with 2ndary indexes is not supported, except for ANN queries."));
    }
    if rows.key_range {
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
    let against = |(column, descending): &(&Column, bool)| *descending != column.descending;
    let reversed = columns.first().is_some_and(against);
    if columns.iter().any(|column| against(column) != reversed) {
        return Err(Failure::invalid("Unsupported order by relation"));
    }
    Ok(reversed)
}
