//! The projection of a SELECT: what the coordinating core computes from the values that the owning cores return per
//! row. Functions, parts of values, aggregates, groups, JSON.
//!
//! 1. [`Projection::row`] turns one fetched row into one result row.
//! 2. With aggregates or GROUP BY, a [`Group`] takes the fetched rows of one group. Values that are not aggregated are
//!    those of its first row.

use super::composite::{encode, part_type};
use super::{EvaluationContext, Term, Value, cell_attributes};
use crate::functions::{AggregateFunction, AggregateState, Function};
use model::value::{self, BoundValue, TupleElements, push_element};
use model::{CqlType, Failure, json};
use std::borrow::Cow;
use std::cmp::Ordering;

/// How fetched rows become result rows.
#[derive(Clone, PartialEq, Debug)]
pub struct Projection {
    /// The expressions of the result columns.
    pub outputs: Vec<Expression>,
    /// The types of `outputs`.
    pub types: Vec<CqlType>,
    /// The aggregates that `outputs` refer to, with their arguments; `count(*)` has none.
    pub aggregates: Vec<(AggregateFunction, Option<Expression>)>,
    /// Whether rows are grouped: there are aggregates or a GROUP BY.
    pub grouped: bool,
    /// The expressions of GROUP BY. Without them all rows are one group, which exists even if there are no rows.
    pub group_by: Vec<Grouping>,
    /// With GROUP BY: the indexes of the primary key's columns among the fetched values, in order.
    pub key_places: Vec<usize>,
    /// For SELECT JSON: the names of `outputs` as in the JSON text, with quotes; the result is then one text column.
    pub json: Option<Vec<String>>,
}

/// One expression of GROUP BY.
#[derive(Clone, PartialEq, Debug)]
pub struct Grouping {
    /// The value by which rows are grouped.
    pub expression: Expression,
}

/// An expression for a value of a result row.
#[derive(Clone, PartialEq, Debug)]
pub enum Expression {
    /// A value that the owning core returned, by its index.
    Fetched(usize),
    /// A term, and its type.
    Term(Term, CqlType),
    /// A function of other values.
    Call(Function, Vec<Expression>),
    /// A collection, tuple, user type or vector of other values.
    Composite(CqlType, Vec<Expression>),
    /// A field of a user type's value, by its index.
    Field(Box<Expression>, usize),
    /// The element of a set, or the value in a map, at a key; with the type of the set or map.
    Element(Box<Expression>, CqlType, Term),
    /// The part of a set or map between two keys, both inclusive; with the type of the set or map.
    Slice(Box<Expression>, CqlType, Option<Term>, Option<Term>),
    /// The write time or time to live of a column or of a part of one.
    CellAttribute {
        /// The column or a part of it.
        of: Box<Expression>,
        /// The index of the column's attributes among the fetched values.
        facts: usize,
        /// Whether the column has several cells, so that its attributes are a list.
        multicell: bool,
        /// Whether the result is a list instead of the greatest or only attribute.
        several: bool,
    },
    /// The result of an aggregate, by its index.
    Aggregate(usize),
}

pub(super) type Result<T> = std::result::Result<T, Failure>;
pub(super) type MaybeValue<'a> = Option<Cow<'a, [u8]>>;

/// The values against which expressions are evaluated.
pub(super) struct Row<'r, 'v> {
    fetched: &'r [Option<&'r [u8]>],
    aggregated: &'r [Option<Vec<u8>>],
    values: &'r [BoundValue<'v>],
}

impl Expression {
    pub(super) fn evaluate<'r>(
        &'r self,
        row: &Row<'r, '_>,
        context: &mut dyn EvaluationContext,
    ) -> Result<MaybeValue<'r>> {
        Ok(match self {
            Expression::Fetched(at) => row.fetched.get(*at).copied().flatten().map(Cow::Borrowed),
            Expression::Aggregate(at) => row.aggregated.get(*at).and_then(Option::as_deref).map(Cow::Borrowed),
            Expression::Term(term, cql_type) => term_value(term, cql_type, row, context)?,
            Expression::Call(function, arguments) => {
                let mut evaluated = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    evaluated.push(match argument {
                        Expression::Term(term @ Term::Marker(_), cql_type) => {
                            match term.evaluate(cql_type, row.values, context)? {
                                Value::Bytes(bytes) => Some(Cow::Owned(bytes.into_owned())),
                                Value::Null => None,
                                Value::Unset => return Err(function.unset_argument()),
                            }
                        }
                        other => other.evaluate(row, context)?,
                    });
                }
                function.evaluate(&evaluated, context)?.map(Cow::Owned)
            }
            Expression::CellAttribute { of, facts, multicell, several } => {
                let facts = row.fetched.get(*facts).copied().flatten();
                cell_attributes::evaluate(of, facts, (*multicell, *several), row, context)?
            }
            Expression::Composite(cql_type, parts) => {
                let mut evaluated = Vec::with_capacity(parts.len());
                for part in parts {
                    evaluated.push(part.evaluate(row, context)?);
                }
                Some(Cow::Owned(encode(cql_type, evaluated)?))
            }
            Expression::Field(of, at) => match of.evaluate(row, context)? {
                Some(Cow::Borrowed(bytes)) => TupleElements::new(bytes).nth(*at).flatten().map(Cow::Borrowed),
                Some(Cow::Owned(bytes)) => {
                    TupleElements::new(&bytes).nth(*at).flatten().map(|field| Cow::Owned(field.to_vec()))
                }
                None => None,
            },
            Expression::Element(of, cql_type, key) => {
                let (Some(bytes), Some(key_type)) = (of.evaluate(row, context)?, part_type(cql_type, 0)) else {
                    return Ok(None);
                };
                let Some(key) = term_value(key, key_type, row, context)? else {
                    return Err(Failure::invalid(format!("Invalid null value for element selection on {cql_type}")));
                };
                element(cql_type, &bytes, &key).map(|found| Cow::Owned(found.to_vec()))
            }
            Expression::Slice(of, cql_type, from, to) => {
                let (Some(bytes), Some(key_type)) = (of.evaluate(row, context)?, part_type(cql_type, 0)) else {
                    return Ok(None);
                };
                let mut bound = |term: &'r Option<Term>| match term {
                    Some(term) => term_value(term, key_type, row, context),
                    None => Ok(None),
                };
                let (from, to) = (bound(from)?, bound(to)?);
                let part = slice(cql_type, &bytes, from.as_deref(), to.as_deref())?;
                // An empty part of a collection that is not frozen is null.
                let nothing = value::elements(&part, false).next().is_none();
                (!nothing || !cql_type.is_multicell()).then_some(Cow::Owned(part))
            }
        })
    }
}

pub(super) fn term_value<'r>(
    term: &'r Term,
    cql_type: &CqlType,
    row: &Row<'r, '_>,
    context: &mut dyn EvaluationContext,
) -> Result<MaybeValue<'r>> {
    // Bound values live as long as the request, which is longer than the row: they are copied.
    Ok(match term.evaluate(cql_type, row.values, context)? {
        Value::Bytes(bytes) => Some(Cow::Owned(bytes.into_owned())),
        Value::Null | Value::Unset => None,
    })
}

pub(super) fn element<'b>(cql_type: &CqlType, bytes: &'b [u8], key: &[u8]) -> Option<&'b [u8]> {
    let is_map = matches!(cql_type, CqlType::Map { .. });
    let key_type = part_type(cql_type, 0)?;
    let mut parts = value::elements(bytes, is_map);
    while let Some(found) = parts.next() {
        let found_value = if is_map { parts.next()? } else { found };
        if value::compare(key_type, found, key) == Ordering::Equal {
            return Some(found_value);
        }
    }
    None
}

/// The index of the element of a set or the entry of a map with this key.
pub(super) fn element_place(cql_type: &CqlType, bytes: &[u8], key: &[u8]) -> Option<usize> {
    let is_map = matches!(cql_type, CqlType::Map { .. });
    let key_type = part_type(cql_type, 0)?;
    let mut keys = value::elements(bytes, is_map).step_by(if is_map { 2 } else { 1 });
    keys.position(|found| value::compare(key_type, found, key) == Ordering::Equal)
}

pub(super) fn slice(cql_type: &CqlType, bytes: &[u8], from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Vec<u8>> {
    let is_map = matches!(cql_type, CqlType::Map { .. });
    let mut kept = Vec::new();
    if let Some(key_type) = part_type(cql_type, 0) {
        let mut parts = value::elements(bytes, is_map);
        while let Some(key) = parts.next() {
            let entry_value = if is_map { parts.next() } else { None };
            let inside = from.is_none_or(|from| value::compare(key_type, key, from) != Ordering::Less)
                && to.is_none_or(|to| value::compare(key_type, key, to) != Ordering::Greater);
            if inside {
                kept.push(Some(Cow::Borrowed(key)));
                kept.extend(entry_value.map(|entry_value| Some(Cow::Borrowed(entry_value))));
            }
        }
    }
    encode(cql_type, kept)
}

impl Projection {
    /// Appends the result row of one fetched row to `out`, encoded as in the protocol.
    pub fn row(
        &self,
        fetched: &[Option<&[u8]>],
        values: &[BoundValue<'_>],
        context: &mut dyn EvaluationContext,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.push(&Row { fetched, aggregated: &[], values }, context, out)
    }

    fn push(&self, row: &Row<'_, '_>, context: &mut dyn EvaluationContext, out: &mut Vec<u8>) -> Result<()> {
        let Some(names) = &self.json else {
            for output in &self.outputs {
                push_element(out, output.evaluate(row, context)?.as_deref());
            }
            return Ok(());
        };
        let mut text = String::from("{");
        for (at, ((name, output), cql_type)) in names.iter().zip(&self.outputs).zip(&self.types).enumerate() {
            if at > 0 {
                text.push_str(", ");
            }
            text.push_str(name);
            text.push_str(": ");
            match output.evaluate(row, context)? {
                Some(bytes) => json::push_json(cql_type, &bytes, &mut text),
                None => text.push_str("null"),
            }
        }
        text.push('}');
        push_element(out, Some(text.as_bytes()));
        Ok(())
    }

    /// The values that identify the group of a fetched row.
    pub fn group_key(
        &self,
        fetched: &[Option<&[u8]>],
        values: &[BoundValue<'_>],
        context: &mut dyn EvaluationContext,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let row = Row { fetched, aggregated: &[], values };
        for grouping in &self.group_by {
            push_element(out, grouping.expression.evaluate(&row, context)?.as_deref());
        }
        Ok(())
    }
}

/// A group under construction: the state of its aggregates.
#[derive(Default, Debug)]
pub struct Group {
    states: Vec<AggregateState>,
    /// The first row's fetched values, encoded as in the protocol.
    first: Option<Vec<u8>>,
}

impl Group {
    /// A group without rows.
    pub fn new(projection: &Projection) -> Group {
        let states = projection.aggregates.iter().map(|(function, _)| AggregateState::new(function)).collect();
        Group { states, first: None }
    }

    /// Whether no row has been added.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Adds one fetched row.
    pub fn add(
        &mut self,
        projection: &Projection,
        fetched: &[Option<&[u8]>],
        values: &[BoundValue<'_>],
        context: &mut dyn EvaluationContext,
    ) -> Result<()> {
        let row = Row { fetched, aggregated: &[], values };
        for ((function, argument), state) in projection.aggregates.iter().zip(&mut self.states) {
            let input = match argument {
                Some(argument) => argument.evaluate(&row, context)?,
                None => None,
            };
            state.add(function, input.as_deref())?;
        }
        if self.first.is_none() {
            let mut first = Vec::new();
            fetched.iter().for_each(|fetched| push_element(&mut first, *fetched));
            self.first = Some(first);
        }
        Ok(())
    }

    /// The first row's fetched values from index `at` on.
    pub fn first_values(&self, at: usize) -> Vec<Option<Vec<u8>>> {
        let first = self.first.as_deref().unwrap_or_default();
        TupleElements::new(first).skip(at).map(|value| value.map(<[u8]>::to_vec)).collect()
    }

    /// Appends the group's result row to `out` and starts a new group.
    pub fn finish(
        &mut self,
        projection: &Projection,
        values: &[BoundValue<'_>],
        context: &mut dyn EvaluationContext,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let states = std::mem::take(self);
        let mut aggregated = Vec::with_capacity(states.states.len());
        for ((function, _), state) in projection.aggregates.iter().zip(&states.states) {
            aggregated.push(state.finish(function)?);
        }
        let first = states.first.unwrap_or_default();
        let fetched: Vec<Option<&[u8]>> = TupleElements::new(&first).collect();
        *self = Group::new(projection);
        projection.push(&Row { fetched: &fetched, aggregated: &aggregated, values }, context, out)
    }
}
