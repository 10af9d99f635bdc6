//! Terms: values that are known once the markers are bound.

use super::composite::Composite;
use crate::functions::Call;
use model::value::{BoundValue, validate_bound};
use model::{CqlType, Failure};
use std::borrow::Cow;

/// A value that is known once the markers are bound.
#[derive(Clone, PartialEq, Debug)]
pub enum Term {
    /// `null`.
    Null,
    /// A column that the text of INSERT JSON DEFAULT UNSET does not name.
    Unset,
    /// A literal, encoded and validated for the type of its place.
    Constant(Box<[u8]>),
    /// A bind marker.
    Marker(u16),
    /// A tuple, user type, vector or collection with parts that depend on markers or functions.
    Composite(Box<Composite>),
    /// A function call.
    Call(Box<Call>),
}

/// What evaluating a term may need from outside: a clock and unique ids.
pub trait EvaluationContext {
    /// Microseconds since 1970.
    fn wall_micros(&mut self) -> i64;
    /// A new, unique version 1 uuid.
    fn timeuuid(&mut self) -> [u8; 16];
    /// A new, unique version 4 uuid.
    fn uuid(&mut self) -> [u8; 16];
}

/// The value of a term.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    /// Null.
    Null,
    /// Unset.
    Unset,
    /// Bytes.
    Bytes(Cow<'a, [u8]>),
}

impl Term {
    /// The term's value for `values`, of which there is one per marker. Bound bytes are validated against `cql_type`,
    /// with Cassandra's texts; bound sets and maps are put in order, each element once.
    pub fn evaluate<'a>(
        &'a self,
        cql_type: &CqlType,
        values: &[BoundValue<'a>],
        context: &mut dyn EvaluationContext,
    ) -> Result<Value<'a>, Failure> {
        match self {
            Term::Null => Ok(Value::Null),
            Term::Unset => Ok(Value::Unset),
            Term::Constant(bytes) => Ok(Value::Bytes(Cow::Borrowed(bytes))),
            Term::Marker(marker) => match values.get(*marker as usize) {
                Some(BoundValue::Null) => Ok(Value::Null),
                Some(BoundValue::Unset) => Ok(Value::Unset),
                Some(BoundValue::Bytes(bytes)) => {
                    validate_bound(cql_type, bytes).map_err(|error| Failure::invalid(error.0))?;
                    Ok(Value::Bytes(super::composite::in_order(cql_type, bytes)))
                }
                None => Err(Failure::invalid("Invalid amount of bind variables")),
            },
            Term::Composite(composite) => Ok(Value::Bytes(Cow::Owned(composite.evaluate(values, context)?))),
            Term::Call(call) => Ok(match call.evaluate(values, context)? {
                Some(bytes) => Value::Bytes(Cow::Owned(bytes)),
                None => Value::Null,
            }),
        }
    }

    /// Whether the value depends on a marker.
    pub fn has_marker(&self) -> bool {
        match self {
            Term::Null | Term::Unset | Term::Constant(_) => false,
            Term::Marker(_) => true,
            Term::Composite(composite) => composite.parts.iter().any(Term::has_marker),
            Term::Call(call) => call.arguments.iter().any(|(argument, _)| argument.has_marker()),
        }
    }
}
