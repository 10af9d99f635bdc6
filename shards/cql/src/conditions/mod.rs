//! Conditions of IF clauses: preparing and evaluating them.
//!
//! 1. `prepare` resolves the conditions of one statement.
//! 2. [`Condition::bind`](crate::plan::Condition) binds each of them to the values of one request.
//! 3. [`BoundCondition::holds`] evaluates a condition for a column's value, encoded as in results.
//! 4. [`Transaction::holds`](crate::plan::Transaction::holds) evaluates those of a transaction.
//!
//! Invariants: the outcome depends on values alone, so that every replica and every retry decides alike.

mod evaluate;
mod transaction;

pub use evaluate::BoundCondition;

use crate::ast::{self, Operator};
use crate::literal::{Markers, Receiver, Scope, prepare_term};
use crate::names::column;
use crate::plan::{Condition, ConditionPart, ConditionTest, Conditions};
use model::{Column, ColumnKind, CqlType, Failure};

type Result<T> = std::result::Result<T, Failure>;

/// Prepares an IF clause.
pub(crate) fn prepare(conditions: &ast::Conditions, scope: &Scope, markers: &mut Markers<'_>) -> Result<Conditions> {
    Ok(match conditions {
        ast::Conditions::None => Conditions::None,
        ast::Conditions::Exists => Conditions::Exists,
        ast::Conditions::NotExists => Conditions::NotExists,
        ast::Conditions::Columns(written) => {
            let mut prepared = Vec::with_capacity(written.len());
            for condition in written {
                prepared.push(prepare_one(condition, scope, markers)?);
            }
            prepared.sort_by_key(|condition| condition.is_static);
            Conditions::Columns(prepared)
        }
    })
}

fn prepare_one(condition: &ast::Condition, scope: &Scope, markers: &mut Markers<'_>) -> Result<Condition> {
    let column = column(scope, &condition.name)?;
    if column.cql_type == CqlType::Counter {
        return Err(Failure::invalid("Conditions on counters are not supported"));
    }
    let place = ConditionTarget::of(&condition.part, column, scope, markers)?;
    let test = prepare_test(&condition.test, &place, column, scope, markers)?;
    if column.kind.is_key() {
        return Err(Failure::invalid(format!("PRIMARY KEY column '{}' cannot have IF conditions", column.name)));
    }
    Ok(Condition { column: column.id, is_static: column.kind == ColumnKind::Static, part: place.part, test })
}

/// The tested part of a column, with the name and type of markers for its value.
struct ConditionTarget<'c> {
    part: ConditionPart,
    name: String,
    cql_type: &'c CqlType,
}

impl<'c> ConditionTarget<'c> {
    fn of(
        part: &ast::ConditionPart,
        column: &'c Column,
        scope: &Scope,
        markers: &mut Markers<'_>,
    ) -> Result<ConditionTarget<'c>> {
        let name = &column.name;
        let not_a_collection =
            || Failure::invalid(format!("Invalid element access syntax for non-collection column {name}"));
        Ok(match (part, &column.cql_type) {
            // Cassandra does not recognise the type of such a column as a collection.
            (ast::ConditionPart::Element(_), _) if column.descending => return Err(not_a_collection()),
            (ast::ConditionPart::Whole, cql_type) => {
                ConditionTarget { part: ConditionPart::Whole, name: name.clone(), cql_type }
            }
            (ast::ConditionPart::Element(index), CqlType::List { element, .. }) => {
                let receiver = Receiver { scope, name: &format!("idx({name})"), cql_type: &CqlType::Int };
                let part = ConditionPart::Element(prepare_term(index, &receiver, markers)?);
                ConditionTarget { part, name: format!("value({name})"), cql_type: element }
            }
            (ast::ConditionPart::Element(key), CqlType::Map { key: key_type, value, .. }) => {
                let receiver = Receiver { scope, name: &format!("key({name})"), cql_type: key_type };
                let part = ConditionPart::Element(prepare_term(key, &receiver, markers)?);
                ConditionTarget { part, name: format!("value({name})"), cql_type: value }
            }
            (ast::ConditionPart::Element(_), CqlType::Set { .. }) => {
                return Err(Failure::invalid(format!("Invalid element access syntax for set column {name}")));
            }
            (ast::ConditionPart::Element(_), _) => return Err(not_a_collection()),
            (ast::ConditionPart::Field(field), CqlType::User { definition, .. }) => {
                let Some(at) = definition.field_index(field) else {
                    return Err(Failure::invalid(format!("Unknown field {field} for column {name}")));
                };
                let part = ConditionPart::Field(at as u16);
                ConditionTarget { part, name: format!("{name}.{field}"), cql_type: &definition.fields[at].1 }
            }
            (ast::ConditionPart::Field(_), _) => {
                return Err(Failure::invalid(format!("Invalid field access syntax for non-UDT column {name}")));
            }
        })
    }
}

/// A column's type as a condition sees it; a descending column is never a collection.
fn seen<'c>(column: &Column, cql_type: &'c CqlType) -> &'c CqlType {
    if column.descending { &CqlType::Blob } else { cql_type }
}

fn prepare_test(
    test: &ast::ConditionTest,
    place: &ConditionTarget<'_>,
    column: &Column,
    scope: &Scope,
    markers: &mut Markers<'_>,
) -> Result<ConditionTest> {
    let receiver = Receiver { scope, name: &place.name, cql_type: place.cql_type };
    Ok(match test {
        ast::ConditionTest::Compare(operator, term) => {
            if !matches!(operator, Operator::Equal | Operator::NotEqual) {
                refuse_durations(place.cql_type, *operator)?;
            }
            ConditionTest::Compare(*operator, prepare_term(term, &receiver, markers)?)
        }
        ast::ConditionTest::In(terms) => {
            let terms = terms.iter().map(|term| prepare_term(term, &receiver, markers));
            ConditionTest::In(terms.collect::<Result<_>>()?)
        }
        ast::ConditionTest::InMarker(marker) => {
            let list = CqlType::List { element: Box::new(place.cql_type.clone()), frozen: false };
            markers.bind_as(*marker, scope, &format!("in({})", place.name), list);
            ConditionTest::InMarker(*marker)
        }
        ast::ConditionTest::Contains(term) => {
            let name = &column.name;
            let (CqlType::List { element, .. } | CqlType::Set { element, .. } | CqlType::Map { value: element, .. }) =
                seen(column, place.cql_type)
            else {
                return Err(Failure::invalid(format!("Cannot use CONTAINS on non-collection column {name}")));
            };
            let receiver = Receiver { scope, name: &format!("value({name})"), cql_type: element };
            ConditionTest::Contains(prepare_term(term, &receiver, markers)?)
        }
        ast::ConditionTest::ContainsKey(term) => {
            let name = &column.name;
            let CqlType::Map { key, .. } = seen(column, place.cql_type) else {
                return Err(Failure::invalid(format!("Cannot use CONTAINS KEY on non-map column {name}")));
            };
            let receiver = Receiver { scope, name: &format!("key({name})"), cql_type: key };
            ConditionTest::ContainsKey(prepare_term(term, &receiver, markers)?)
        }
    })
}

/// Refuses order comparisons of durations, which have no order.
pub(crate) fn refuse_durations(cql_type: &CqlType, operator: Operator) -> Result<()> {
    if !crate::restrictions::has_duration(cql_type) {
        return Ok(());
    }
    let what = match cql_type {
        CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. } => "collections containing durations",
        CqlType::Tuple(_) => "tuples containing durations",
        CqlType::User { .. } => "UDTs containing durations",
        _ => {
            let symbol = operator.symbol();
            return Err(Failure::invalid(format!("Slice conditions ( {symbol} ) are not supported on durations")));
        }
    };
    Err(Failure::invalid(format!("Slice conditions are not supported on {what}")))
}
