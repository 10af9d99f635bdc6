//! SELECT to its plan.

use super::{Resolver, bare, prepare_timeout, special};
use crate::ast;
use crate::functions::{column, select_item};
use crate::literal::{Markers, Scope};
use crate::plan::{Choice, ColumnSpec, PartitionRestriction, Plan, Prepared, Select, Selector, Term};
use crate::restrictions::Restrictions;
use model::{ColumnKind, CqlType, Failure};

type Result<T> = std::result::Result<T, Failure>;

pub(crate) fn prepare_select(
    select: &ast::Select,
    resolver: &Resolver<'_>,
    markers: &mut Markers<'_>,
) -> Result<Prepared> {
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
