//! Prepares the operations of SET and DELETE on one column.

use crate::ast::{Assignment, DeletePart, Term as Written};
use crate::functions;
use crate::literal::{Markers, Receiver, Scope, prepare_term};
use crate::plan::{ColumnChange, Operation, Term};
use model::{Column, CqlType, Failure};

type Result<T> = std::result::Result<T, Failure>;

/// What a statement knows of the values that are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Existing {
    /// Nothing.
    Unknown,
    /// Those of the row, if the statement has an IF: they can be added to.
    OfConditional,
    /// Those of the row, which a transaction reads: they can be added to and subtracted from.
    OfTransaction,
}

/// The operation of an assignment.
pub(crate) fn assign(
    column: &Column,
    assignment: &Assignment,
    existing: Existing,
    scope: &Scope,
    markers: &mut Markers<'_>,
) -> Result<Operation> {
    let name = column.name.as_str();
    let refused = |kind: &str| {
        Err(Failure::invalid(format!("Invalid operation ({}) for {kind} column {name}", assignment.text(name))))
    };
    let cql_type = &column.cql_type;
    let own = Receiver { scope, name, cql_type };
    let change = match assignment {
        Assignment::Value(term) => {
            let term = prepare_term(term, &own, markers)?;
            if *cql_type == CqlType::Counter {
                return Err(Failure::invalid(format!(
                    "Cannot set the value of counter column {name} (counters can only be incremented/decremented, not set)"
                )));
            }
            ColumnChange::Set(term)
        }
        Assignment::Add(term) if *cql_type == CqlType::Counter => {
            ColumnChange::Increment(prepare_term(term, &own, markers)?)
        }
        Assignment::Subtract(term) if *cql_type == CqlType::Counter => {
            ColumnChange::Decrement(prepare_term(term, &own, markers)?)
        }
        Assignment::Add(term)
            if existing != Existing::Unknown
                && !cql_type.is_collection()
                && !matches!(cql_type, CqlType::Tuple(_) | CqlType::User { .. }) =>
        {
            let Some(sum) = functions::sum_of(cql_type) else {
                let shown = assignment.text(name);
                return Err(Failure::invalid(format!(
                    "Invalid operation ({shown}) for non-numeric and non-text type {name}"
                )));
            };
            ColumnChange::Increase { sum, by: prepare_term(term, &own, markers)? }
        }
        Assignment::Subtract(term)
            if existing == Existing::OfTransaction
                && let Some(difference) = functions::difference_of(cql_type) =>
        {
            ColumnChange::Increase { sum: difference, by: prepare_term(term, &own, markers)? }
        }
        Assignment::Add(_) | Assignment::Subtract(_) if !cql_type.is_collection() => {
            return match (cql_type, assignment) {
                (CqlType::Tuple(_) | CqlType::User { .. }, Assignment::Add(_)) => refused("tuple"),
                _ => refused("non counter"),
            };
        }
        // A value before the column is checked first.
        Assignment::Prepend(term) if !cql_type.is_multicell() || !matches!(cql_type, CqlType::List { .. }) => {
            prepare_term(term, &own, markers)?;
            return refused(if matches!(cql_type, CqlType::List { .. }) { "frozen list" } else { "non list" });
        }
        Assignment::Element(..) if !cql_type.is_collection() => return refused("non collection"),
        Assignment::Field(..) if !cql_type.is_user_type() => return refused("non-UDT"),
        _ if !cql_type.is_multicell() => {
            return refused(match assignment {
                Assignment::Field(..) => "frozen UDT",
                _ => "frozen collection",
            });
        }
        Assignment::Add(term) => match cql_type {
            CqlType::Map { .. } => ColumnChange::Add(prepare_term(term, &own, markers).map_err(|_| {
                let shown = scope.qualified(term);
                Failure::invalid(format!("Value for a map addition has to be a map, but was: '{shown}'"))
            })?),
            _ => ColumnChange::Add(prepare_term(term, &own, markers)?),
        },
        Assignment::Prepend(term) => ColumnChange::Prepend(prepare_term(term, &own, markers)?),
        Assignment::Subtract(term) => match cql_type {
            CqlType::Map { key, .. } => {
                let keys = CqlType::Set { element: key.clone(), frozen: false };
                let receiver = Receiver { cql_type: &keys, ..own };
                ColumnChange::Remove(prepare_term(term, &receiver, markers).map_err(|_| {
                    let shown = scope.qualified(term);
                    Failure::invalid(format!("Value for a map substraction has to be a set, but was: '{shown}'"))
                })?)
            }
            CqlType::List { .. } => ColumnChange::RemoveValues(prepare_term(term, &own, markers)?),
            _ => ColumnChange::Remove(prepare_term(term, &own, markers)?),
        },
        Assignment::Element(key, value) => match cql_type {
            CqlType::Map { key: key_type, value: value_type, .. } => ColumnChange::SetEntry {
                key: part(key, "key", key_type, &own, markers)?,
                value: part(value, "value", value_type, &own, markers)?,
            },
            CqlType::List { element, .. } => ColumnChange::SetIndex {
                index: part(key, "idx", &CqlType::Int, &own, markers)?,
                value: part(value, "value", element, &own, markers)?,
            },
            _ => return refused("set"),
        },
        Assignment::Field(field, value) => {
            let (at, field_type) = field_of(column, field)?;
            let name = format!("{name}.{field}");
            let receiver = Receiver { scope, name: &name, cql_type: field_type };
            ColumnChange::SetField(at, prepare_term(value, &receiver, markers)?)
        }
    };
    Ok(Operation { column: column.id, change, written: 0 })
}

/// The operation for one column of a DELETE.
pub(crate) fn delete(
    column: &Column,
    part_of: &DeletePart,
    scope: &Scope,
    markers: &mut Markers<'_>,
) -> Result<Operation> {
    let name = column.name.as_str();
    let cql_type = &column.cql_type;
    let own = Receiver { scope, name, cql_type };
    let refused = |kind: &str| Err(Failure::invalid(format!("Invalid deletion operation for {kind} column {name}")));
    let change = match part_of {
        DeletePart::Whole => ColumnChange::Delete,
        DeletePart::Element(_) if !cql_type.is_collection() => return refused("non collection"),
        DeletePart::Element(_) if !cql_type.is_multicell() => return refused("frozen collection"),
        DeletePart::Element(key) => match cql_type {
            CqlType::Map { key: key_type, .. } => ColumnChange::DeleteEntry(part(key, "key", key_type, &own, markers)?),
            CqlType::Set { element, .. } => ColumnChange::DeleteEntry(part(key, "value", element, &own, markers)?),
            _ => ColumnChange::DeleteIndex(part(key, "idx", &CqlType::Int, &own, markers)?),
        },
        DeletePart::Field(_) if !cql_type.is_user_type() => {
            return Err(Failure::invalid(format!("Invalid field deletion operation for non-UDT column {name}")));
        }
        DeletePart::Field(_) if !cql_type.is_multicell() => {
            return Err(Failure::invalid(format!("Frozen UDT column {name} does not support field deletions")));
        }
        DeletePart::Field(field) => ColumnChange::DeleteField(field_of(column, field)?.0),
    };
    Ok(Operation { column: column.id, change, written: 0 })
}

/// Prepares a key, index or value of a collection; its markers are named `key(c)` and the like.
fn part(term: &Written, word: &str, cql_type: &CqlType, own: &Receiver<'_>, markers: &mut Markers<'_>) -> Result<Term> {
    let name = format!("{word}({})", own.name);
    prepare_term(term, &Receiver { scope: own.scope, name: &name, cql_type }, markers)
}

fn field_of<'c>(column: &'c Column, field: &str) -> Result<(u16, &'c CqlType)> {
    let CqlType::User { definition, .. } = &column.cql_type else {
        return Err(Failure::server("a field of something without fields"));
    };
    match definition.field_index(field) {
        Some(at) => Ok((at as u16, &definition.fields[at].1)),
        None => Err(Failure::invalid(format!("UDT column {} does not have a field named {field}", column.name))),
    }
}
