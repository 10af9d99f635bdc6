//! References of a transaction to the rows that its LET assignments read: names to columns, and columns to values.

use super::{Markers, Receiver, Scope, assignable, prepare_term};
use crate::ast;
use crate::limits::MARKERS_MAX;
use crate::plan::{ConditionPart, Reference, Term};
use model::identifier::quoted;
use model::{Column, ColumnId, CqlType, Failure};

type Result<T> = std::result::Result<T, Failure>;

/// The rows that a transaction may refer to, and the references to them that were found so far.
#[derive(Default)]
pub(crate) struct References {
    /// The LET assignments: their names, and the columns that they select.
    tuples: Vec<(String, Vec<ColumnId>)>,
    pub(crate) found: Vec<Reference>,
}

/// What a reference means.
pub(crate) enum Referenced {
    /// A row, by the number of its LET assignment.
    Row(usize),
    /// A value, by the number of the reference.
    Value(usize),
}

impl References {
    /// Whether a LET assignment has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.tuples.iter().any(|(tuple, _)| tuple == name)
    }

    pub(crate) fn add(&mut self, name: &str, columns: Vec<ColumnId>) {
        self.tuples.push((name.to_owned(), columns));
    }
}

/// Resolves a reference.
pub(crate) fn resolve(reference: &ast::Reference, scope: &Scope, markers: &mut Markers<'_>) -> Result<Referenced> {
    let name = &reference.tuple;
    let tuples = markers.references.iter().flat_map(|references| references.tuples.iter());
    let Some((tuple, (_, selected))) = tuples.enumerate().find(|(_, (tuple, _))| tuple == name) else {
        return Err(Failure::invalid(format!("Cannot resolve reference to tuple '{name}'.")));
    };
    let Some((column, part)) = &reference.column else { return Ok(Referenced::Row(tuple)) };
    let table = &scope.table;
    let Some(found) = table.column(column).filter(|found| !table.is_hidden(found)) else {
        return Err(Failure::invalid(format!("Column '{}' does not exist in tuple '{name}'.", quoted(column))));
    };
    if !selected.contains(&found.id) {
        return Err(Failure::invalid(format!("{reference} references a column not included in the select")));
    }
    let (part, cql_type) = part_of(part, found, scope, markers)?;
    let reference = Reference { tuple, column: found.id, part, cql_type };
    let room = MARKERS_MAX - markers.len();
    let Some(references) = &mut markers.references else {
        return Err(Failure::server("a reference outside a transaction"));
    };
    if references.found.len() == room {
        return Err(Failure::invalid(format!(
            "A transaction takes at most {MARKERS_MAX} bind markers and references together"
        )));
    }
    references.found.push(reference);
    Ok(Referenced::Value(references.found.len() - 1))
}

/// Prepares a reference as a value: the marker that stands for it.
pub(crate) fn prepare_value(
    reference: &ast::Reference,
    receiver: &Receiver<'_>,
    markers: &mut Markers<'_>,
) -> Result<Term> {
    let at = match resolve(reference, receiver.scope, markers)? {
        Referenced::Value(at) => at,
        Referenced::Row(_) => {
            return Err(Failure::invalid(format!("substitution references must reference a column ({reference})")));
        }
    };
    let given = markers.references.as_ref().and_then(|references| references.found.get(at));
    if let Some(given) = given
        && !assignable(receiver.cql_type, &given.cql_type)
    {
        return Err(Failure::invalid(format!(
            "Invalid reference type {} ({reference}) for \"{}\" of type {}",
            given.cql_type, receiver.name, receiver.cql_type
        )));
    }
    // Both fit: their sum is checked where a reference is resolved.
    Ok(Term::Marker((markers.len() + at) as u16))
}

/// Prepares the part of a column that is meant, and gives its type.
fn part_of(
    part: &ast::ConditionPart,
    column: &Column,
    scope: &Scope,
    markers: &mut Markers<'_>,
) -> Result<(ConditionPart, CqlType)> {
    let name = &column.name;
    let (key, place, key_type, cql_type) = match (part, &column.cql_type) {
        (ast::ConditionPart::Whole, cql_type) => return Ok((ConditionPart::Whole, cql_type.clone())),
        (ast::ConditionPart::Field(field), CqlType::User { definition, .. }) => {
            let Some(at) = definition.field_index(field) else {
                return Err(Failure::invalid(format!("Unknown field {field} for column {name}")));
            };
            return Ok((ConditionPart::Field(at as u16), definition.fields[at].1.clone()));
        }
        (ast::ConditionPart::Field(_), _) => {
            return Err(Failure::invalid(format!("Invalid field access syntax for non-UDT column {name}")));
        }
        (ast::ConditionPart::Element(key), CqlType::List { element, .. }) => (key, "idx", &CqlType::Int, element),
        (ast::ConditionPart::Element(key), CqlType::Set { element, .. }) => (key, "value", &**element, element),
        (ast::ConditionPart::Element(key), CqlType::Map { key: key_type, value, .. }) => {
            (key, "key", &**key_type, value)
        }
        (ast::ConditionPart::Element(_), _) => {
            return Err(Failure::invalid(format!("Invalid element access syntax for non-collection column {name}")));
        }
    };
    let receiver = Receiver { scope, name: &format!("{place}({name})"), cql_type: key_type };
    Ok((ConditionPart::Element(prepare_term(key, &receiver, markers)?), (**cql_type).clone()))
}
