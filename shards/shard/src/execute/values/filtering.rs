//! Evaluating the conditions of ALLOW FILTERING: terms and bound values become a [`RowFilter`].

use crate::execute::values::binding::Values;
use crate::rows::filter::{Condition, RowFilter, Test, element_type};
use crate::shard_state::Shard;
use cql::plan::{Choice, Comparison, Filter, Term, Tuple, Value};
use model::{Column, ColumnId, CqlType, Failure, Table};
use std::sync::Arc;

/// Evaluates the conditions of a SELECT; `None` if there are none.
pub(crate) fn row_filter(
    shard: &Shard,
    table: &Arc<Table>,
    filters: &[Filter],
    values: &Values<'_>,
) -> Result<Option<Arc<RowFilter>>, Failure> {
    if filters.is_empty() {
        return Ok(None);
    }
    let mut conditions = Vec::with_capacity(filters.len());
    for filter in filters {
        push_conditions(shard, table, filter, values, &mut conditions)?;
    }
    Ok(Some(Arc::new(RowFilter::new(table.clone(), conditions))))
}

fn push_conditions(
    shard: &Shard,
    table: &Table,
    filter: &Filter,
    values: &Values<'_>,
    out: &mut Vec<Condition>,
) -> Result<(), Failure> {
    let operand =
        |term: &Term, cql_type: &CqlType, what: &str, column: &Column| match values.evaluate(shard, term, cql_type)? {
            Value::Bytes(bytes) => Ok::<Box<[u8]>, Failure>(bytes.as_ref().into()),
            Value::Null => Err(unsupported("null", what, column)),
            Value::Unset => Err(unsupported("unset", what, column)),
        };
    let id = match filter {
        Filter::Compare { column, .. }
        | Filter::In { column, .. }
        | Filter::Contains { column, .. }
        | Filter::ContainsKey { column, .. }
        | Filter::Entry { column, .. } => column,
        Filter::Tuple { columns, marker } => return push_tuple(shard, table, columns, *marker, values, out),
        Filter::Refused(text) => return Err(Failure::invalid(*text)),
    };
    let place = place_of(table, *id)?;
    let column = &table.columns[place];
    let cql_type = &column.cql_type;
    let test = match (filter, cql_type) {
        (Filter::Compare { comparison, term, .. }, _) => {
            Test::Compare(*comparison, operand(term, cql_type, "value", column)?)
        }
        (Filter::In { choice, .. }, _) => Test::In(list(shard, choice, column, values)?),
        (Filter::Contains { term, .. }, _) => {
            Test::Contains(operand(term, element_type(cql_type).unwrap_or(cql_type), "value", column)?)
        }
        (Filter::ContainsKey { term, .. }, CqlType::Map { key, .. }) => {
            Test::ContainsKey(operand(term, key, "value", column)?)
        }
        (Filter::Entry { key, value, .. }, CqlType::Map { key: key_type, value: value_type, .. }) => {
            let key = operand(key, key_type, "map key", column)?;
            Test::Entry(key, operand(value, value_type, "map value", column)?)
        }
        (Filter::ContainsKey { .. } | Filter::Entry { .. } | Filter::Tuple { .. } | Filter::Refused(_), _) => {
            return Err(Failure::server("a condition of a map stands for another type"));
        }
    };
    out.push(Condition { column: place, test });
    Ok(())
}

/// Adds `(a, b) = ?` as one condition per column.
fn push_tuple(
    shard: &Shard,
    table: &Table,
    ids: &[ColumnId],
    marker: u16,
    values: &Values<'_>,
    out: &mut Vec<Condition>,
) -> Result<(), Failure> {
    let Some(first) = ids.first() else { return Ok(()) };
    let first = place_of(table, *first)?;
    let columns = table.columns.get(first..first + ids.len()).unwrap_or_default();
    let tuple = Tuple::Marker { marker, columns: columns.len() };
    let mut found = values.tuple(shard, &tuple, columns)?.into_iter();
    for (at, column) in columns.iter().enumerate() {
        let value = found.next().flatten().ok_or_else(|| unsupported("null", "value", column))?;
        out.push(Condition { column: first + at, test: Test::Compare(Comparison::Equal, value.as_ref().into()) });
    }
    Ok(())
}

fn place_of(table: &Table, id: ColumnId) -> Result<usize, Failure> {
    let place = table.columns.iter().position(|column| column.id == id);
    place.ok_or_else(|| Failure::invalid("A column of the WHERE clause was dropped"))
}

/// The values of IN up to the first that is null or unset, as in Cassandra.
fn list(shard: &Shard, choice: &Choice, column: &Column, values: &Values<'_>) -> Result<Vec<Box<[u8]>>, Failure> {
    let mut found = Vec::new();
    match choice {
        Choice::Marker(marker) => {
            let values = values.list(*marker, column)?.into_iter();
            found.extend(values.map_while(|value| value).map(|value| value.as_ref().into()));
        }
        Choice::Many(terms) => {
            let mut ended = false;
            for term in terms {
                match values.evaluate(shard, term, &column.cql_type)? {
                    Value::Bytes(bytes) if !ended => found.push(bytes.as_ref().into()),
                    Value::Bytes(_) => {}
                    Value::Null | Value::Unset => ended = true,
                }
            }
        }
        Choice::One(_) | Choice::Tuples { .. } | Choice::TuplesMarker { .. } => {
            return Err(Failure::server("a condition of IN has no list"));
        }
    }
    Ok(found)
}

fn unsupported(given: &str, what: &str, column: &Column) -> Failure {
    Failure::invalid(format!("Unsupported {given} {what} for column {}", column.name))
}
