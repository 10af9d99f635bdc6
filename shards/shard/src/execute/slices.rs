//! Clustering restrictions to slices and to bounds of range deletions.
//!
//! Invariants: slices come in the table's order and do not overlap; a restriction that no row can meet gives no slice.

use super::binding::{Values, combinations};
use crate::Shard;
use cql::plan::{ClusteringRestriction, Limit, Value};
use model::comparable::{self, BoundSide};
use model::query::Slice;
use model::{Column, Failure, Table};
use std::borrow::Cow;

/// A restriction with its values.
pub(crate) struct Bounds<'a> {
    /// Values of the first clustering columns, one list per column.
    pub(crate) columns: Vec<Vec<Cow<'a, [u8]>>>,
    /// Bounds of the next column.
    pub(crate) lower: Option<Edge<'a>>,
    /// See `lower`.
    pub(crate) upper: Option<Edge<'a>>,
}

/// A bound of a slice.
pub(crate) struct Edge<'a> {
    /// The value.
    pub(crate) value: Cow<'a, [u8]>,
    /// `<=` and `>=`.
    pub(crate) inclusive: bool,
}

impl<'a> Bounds<'a> {
    /// Evaluates a restriction. Null sorts before every value, as on Cassandra: a null lower bound is none, and a null
    /// upper bound gives `None`, for no row is below it. A deletion ([`NullBound::Refused`]) takes neither.
    pub(crate) fn of(
        shard: &Shard,
        table: &Table,
        restriction: &'a ClusteringRestriction,
        values: &'a Values<'_>,
        nulls: NullBound,
    ) -> Result<Option<Bounds<'a>>, Failure> {
        let restricted = table.clustering().iter().zip(&restriction.choices);
        let columns =
            restricted.map(|(column, choice)| values.choices(shard, choice, column)).collect::<Result<Vec<_>, _>>()?;
        let next = table.clustering().get(restriction.choices.len());
        let edge = |limit: &'a Option<Limit>| match (limit, next) {
            (Some(limit), Some(column)) => edge(shard, limit, column, values, nulls),
            _ => Ok(None),
        };
        let (lower, upper) = (edge(&restriction.lower)?, edge(&restriction.upper)?);
        if restriction.upper.is_some() && upper.is_none() {
            return Ok(None);
        }
        Ok(Some(Bounds { columns, lower, upper }))
    }

    /// The slices, in order.
    pub(crate) fn slices(&self, table: &Table) -> Result<Vec<Slice>, Failure> {
        if self.columns.is_empty() && self.lower.is_none() && self.upper.is_none() {
            return Ok(vec![Slice::all()]);
        }
        let prefixes = combinations(&self.columns)?;
        let mut slices: Vec<Slice> =
            prefixes.iter().map(|prefix| self.slice(table, prefix)).filter(|slice| slice.start < slice.end).collect();
        slices.sort_by(|a, b| a.start.cmp(&b.start));
        slices.dedup_by(|next, before| {
            let overlaps = next.start < before.end;
            if overlaps && next.end > before.end {
                before.end = std::mem::take(&mut next.end);
            }
            overlaps
        });
        Ok(slices)
    }

    /// The slice of the rows that begin with `prefix`.
    pub(crate) fn slice(&self, table: &Table, prefix: &[&[u8]]) -> Slice {
        let bound = |edge: &Option<Edge<'_>>, sides: [BoundSide; 3]| {
            let mut out = Vec::new();
            let (value, side) = match edge {
                None => (None, sides[0]),
                Some(edge) => (Some(&*edge.value), if edge.inclusive { sides[1] } else { sides[2] }),
            };
            comparable::bound(table, prefix.iter().copied().chain(value), side, &mut out);
            out.into_boxed_slice()
        };
        use BoundSide::{After, Before};
        Slice { start: bound(&self.lower, [Before, Before, After]), end: bound(&self.upper, [After, After, Before]) }
    }
}

/// What a null bound means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NullBound {
    /// It sorts before every value.
    SortsFirst,
    /// It is an error.
    Refused,
}

/// `Ok(None)`: the bound is null.
fn edge<'a>(
    shard: &Shard,
    limit: &'a Limit,
    column: &Column,
    values: &'a Values<'_>,
    nulls: NullBound,
) -> Result<Option<Edge<'a>>, Failure> {
    match values.evaluate(shard, &limit.term, &column.cql_type)? {
        Value::Bytes(value) => Ok(Some(Edge { value, inclusive: limit.inclusive })),
        Value::Null if nulls == NullBound::SortsFirst => Ok(None),
        Value::Null => Err(Failure::invalid(format!("Invalid null value in condition for column {}", column.name))),
        Value::Unset => Err(Failure::invalid(format!("Invalid unset value for column {}", column.name))),
    }
}
