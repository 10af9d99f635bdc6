//! Turning clustering restrictions into slices and into bounds of range deletions.
//!
//! A slice `(a, b) > (1, 2)` follows the order of the values. Where columns are descending, that is not the table's
//! order:
//! * If all columns of the slice have one direction, it is one range; its ends are swapped if they are descending.
//! * If directions are mixed, the slice is split into the rows with the bound's first value, which the rest of the
//!   bound restricts further, and those beyond it; adjacent ranges are joined.
//!
//! Invariants: slices come in the table's order and do not overlap; a restriction that no row can meet gives no slice.

use crate::execute::values::binding::{Prefixes, Values};
use crate::shard_state::Shard;
use cql::plan::{ClusteringRestriction, SliceBound, Tuple, Value};
use model::comparable::{self, BoundSide};
use model::query::Slice;
use model::{Column, Failure, Places, Table, WriteSharding, value};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

/// The slice of all rows that begin with some values, at least one; it is a single row if all clustering columns have a
/// value.
pub(crate) fn slice_of<'v>(table: &Table, values: impl Iterator<Item = &'v [u8]> + Clone) -> Slice {
    let bound = |side| {
        let mut out = Vec::new();
        comparable::bound(table, values.clone(), side, &mut out);
        out.into_boxed_slice()
    };
    Slice { start: bound(BoundSide::Before), end: bound(BoundSide::After) }
}

/// A clustering restriction with its values.
pub(crate) struct Bounds<'a> {
    /// Values of the first clustering columns, in all combinations.
    prefixes: Prefixes<'a>,
    /// The lower bound of the columns after them.
    lower: Option<Edge<'a>>,
    /// The upper bound of the columns after them.
    upper: Option<Edge<'a>>,
    /// Whether the rows end before every value, because the end is null.
    ends_at_null: bool,
}

/// One bound of a slice.
struct Edge<'a> {
    /// Values of the first columns that the slice restricts.
    values: Vec<Cow<'a, [u8]>>,
    /// Whether the bound is `<=` or `>=`.
    inclusive: bool,
}

/// The rows between two positions of a partition, in the table's order.
pub(crate) struct RowRange<'b> {
    pub(crate) start: RangeEnd<'b>,
    pub(crate) end: RangeEnd<'b>,
}

/// One end of a range.
#[derive(Clone)]
pub(crate) struct RangeEnd<'b> {
    /// The first values of a clustering; may be empty.
    pub(crate) values: Vec<&'b [u8]>,
    /// Whether rows that begin with these values belong to the range.
    pub(crate) inclusive: bool,
}

impl<'a> Bounds<'a> {
    /// Evaluates a restriction; `None` if no row can meet it.
    ///
    /// Null sorts before every value, as in Cassandra. A null at the start of a range is no bound. A null at the end
    /// leaves no rows: the result is `None` if the range has a start too, otherwise bounds without slices. Deletions
    /// accept a null only at the end of a range that also has a start; other nulls are an error for a deletion of rows
    /// ([`NullBound::Refused`]) and no bound for one that names columns ([`NullBound::Open`]). After an empty IN no
    /// bound is evaluated, and the result is `None`.
    pub(crate) fn of(
        shard: &Shard,
        table: &Table,
        restriction: &'a ClusteringRestriction,
        values: &'a Values<'_>,
        nulls: NullBound,
    ) -> Result<Option<Bounds<'a>>, Failure> {
        let prefixes = values.prefixes(shard, table.clustering(), &restriction.choices)?;
        if prefixes.len() == 0 {
            return Ok(None);
        }
        let mut bounds = Bounds { prefixes, lower: None, upper: None, ends_at_null: false };
        let columns = table.clustering().get(bounds.prefixes.width()..).unwrap_or_default();
        let descending = columns.first().is_some_and(|column| column.descending);
        for (limit, is_lower) in [(&restriction.lower, true), (&restriction.upper, false)] {
            let Some(limit) = limit else { continue };
            let at_end = is_lower == descending;
            let other = if is_lower { &restriction.upper } else { &restriction.lower };
            let nulls = match nulls {
                _ if restriction.tuples => NullBound::Refused,
                _ if at_end && other.is_some() => NullBound::SortsFirst,
                nulls => nulls,
            };
            let edge = edge(shard, limit, columns, values, nulls)?;
            if edge.is_none() && at_end && nulls != NullBound::Open {
                if other.is_some() {
                    return Ok(None);
                }
                bounds.ends_at_null = true;
            }
            *(if is_lower { &mut bounds.lower } else { &mut bounds.upper }) = edge;
        }
        Ok(Some(bounds))
    }

    /// Whether the rows end before every value, because the end is null.
    pub(crate) fn ends_at_null(&self) -> bool {
        self.ends_at_null
    }

    /// The numbers of the sub-partitions, among `places`, that the rows may be in, ascending; `None` if the values of
    /// the first columns do not tell.
    pub(crate) fn sub_partitions(&self, sharding: &WriteSharding, places: Places) -> Option<Vec<u16>> {
        let by = &sharding.by;
        let numbers = self.prefixes.iter().map(|prefix| by.number_of(prefix.iter().map(|value| &**value), places));
        let mut numbers = numbers.collect::<Option<Vec<u16>>>()?;
        numbers.sort_unstable();
        numbers.dedup();
        Some(numbers)
    }

    /// The slices, in the table's order.
    pub(crate) fn slices(&self, table: &Table) -> Arc<[Slice]> {
        if self.ends_at_null {
            return Arc::from([]);
        }
        let mut prefixes = self.prefixes.iter();
        if let (None, None, Some(prefix), None) = (&self.lower, &self.upper, prefixes.next(), prefixes.next()) {
            // Most reads name one row: make its slice without any detour.
            return match prefix {
                [] => Arc::from([Slice::all()]),
                _ => Arc::from([slice_of(table, prefix.iter().map(|value| &**value))]),
            };
        }
        self.ranges(table).into_iter().map(|(_, slice)| slice).collect()
    }

    /// The ranges with their slices, in the table's order.
    pub(crate) fn ranges(&self, table: &Table) -> Vec<(RowRange<'_>, Slice)> {
        let mut ranges = Vec::with_capacity(self.prefixes.len());
        for prefix in self.prefixes.iter() {
            self.ranges_within(table, prefix, &mut ranges);
        }
        let mut found: Vec<(RowRange<'_>, Slice)> = Vec::with_capacity(ranges.len());
        for range in ranges {
            let slice = slice(table, &range);
            if slice.start < slice.end {
                found.push((range, slice));
            }
        }
        if found.len() > 1 {
            found.sort_by(|(_, a), (_, b)| a.start.cmp(&b.start));
            found.dedup_by(|(next_range, next), (range, before)| {
                let touches = next.start <= before.end;
                if touches && next.end > before.end {
                    before.end = std::mem::take(&mut next.end);
                    range.end = next_range.end.clone();
                }
                touches
            });
        }
        found
    }

    fn ranges_within<'b>(&'b self, table: &Table, prefix: &'b [Cow<'_, [u8]>], out: &mut Vec<RowRange<'b>>) {
        let mut values: Vec<&[u8]> = Vec::with_capacity(table.clustering_len);
        values.extend(prefix.iter().map(|value| &**value));
        let len = |edge: &Option<Edge<'_>>| edge.as_ref().map_or(0, |edge| edge.values.len());
        let columns = table.clustering().get(prefix.len()..).unwrap_or_default();
        let columns = columns.get(..len(&self.lower).max(len(&self.upper))).unwrap_or(columns);
        let descending = columns.first().is_some_and(|column| column.descending);
        if columns.iter().any(|column| column.descending != descending) {
            let rest = |edge: &'b Option<Edge<'_>>| edge.as_ref().map(|edge| (&edge.values[..], edge.inclusive));
            return split(&mut values, columns, rest(&self.lower), rest(&self.upper), out);
        }
        let end = |edge: &'b Option<Edge<'_>>| {
            let mut values = values.clone();
            values.extend(edge.iter().flat_map(|edge| &edge.values).map(|value| &**value));
            RangeEnd { values, inclusive: edge.as_ref().is_none_or(|edge| edge.inclusive) }
        };
        let (low, high) = (end(&self.lower), end(&self.upper));
        let (start, end) = if descending { (high, low) } else { (low, high) };
        out.push(RowRange { start, end });
    }
}

/// The part of a bound that is not used yet: its next values, and whether it is inclusive.
type Rest<'b> = Option<(&'b [Cow<'b, [u8]>], bool)>;

/// Adds the ranges of a slice over `columns`, whose directions differ, below the rows that begin with `prefix`.
fn split<'b>(
    prefix: &mut Vec<&'b [u8]>,
    columns: &[Column],
    lower: Rest<'b>,
    upper: Rest<'b>,
    out: &mut Vec<RowRange<'b>>,
) {
    let mut open = [lower, upper];
    for bound in &mut open {
        match bound {
            // The whole bound is used: only the rows at its end are left.
            Some(([], true)) => *bound = None,
            Some(([], false)) => return,
            _ => {}
        }
    }
    let [lower, upper] = open;
    let next = |bound: Rest<'b>| {
        let (values, inclusive) = bound?;
        let (first, rest) = values.split_first()?;
        Some((&**first, (rest, inclusive)))
    };
    let (low, high) = (next(lower), next(upper));
    let Some((column, columns)) = columns.split_first().filter(|_| low.is_some() || high.is_some()) else {
        let all = RangeEnd { values: prefix.clone(), inclusive: true };
        return out.push(RowRange { start: all.clone(), end: all });
    };
    let mut at = |value: &'b [u8], lower, upper| {
        prefix.push(value);
        split(prefix, columns, lower, upper, out);
        prefix.pop();
    };
    if let (Some((low, low_rest)), Some((high, high_rest))) = (low, high) {
        match value::compare(&column.cql_type, low, high) {
            Ordering::Less => {}
            Ordering::Equal => return at(low, Some(low_rest), Some(high_rest)),
            Ordering::Greater => return,
        }
    }
    if let Some((low, rest)) = low {
        at(low, Some(rest), None);
    }
    if let Some((high, rest)) = high {
        at(high, None, Some(rest));
    }
    let end = |value: Option<(&'b [u8], _)>| {
        let mut values = prefix.clone();
        values.extend(value.map(|(value, _)| value));
        RangeEnd { values, inclusive: value.is_none() }
    };
    let (low, high) = (end(low), end(high));
    let (start, end) = if column.descending { (high, low) } else { (low, high) };
    out.push(RowRange { start, end });
}

fn slice(table: &Table, range: &RowRange<'_>) -> Slice {
    let bound = |end: &RangeEnd<'_>, before: bool| {
        let mut out = Vec::new();
        let side = if before { BoundSide::Before } else { BoundSide::After };
        comparable::bound(table, end.values.iter().copied(), side, &mut out);
        out.into_boxed_slice()
    };
    Slice { start: bound(&range.start, range.start.inclusive), end: bound(&range.end, !range.end.inclusive) }
}

/// What a null bound means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NullBound {
    /// It sorts before every value.
    SortsFirst,
    /// It is no bound.
    Open,
    /// It is an error.
    Refused,
}

/// Evaluates a bound. `Ok(None)` if it is null and `nulls` allows that.
fn edge<'a>(
    shard: &Shard,
    limit: &'a SliceBound,
    columns: &[Column],
    values: &'a Values<'_>,
    nulls: NullBound,
) -> Result<Option<Edge<'a>>, Failure> {
    let inclusive = limit.inclusive;
    if let (Tuple::Terms(terms), [column, ..]) = (&limit.values, columns)
        && let [term] = terms.as_slice()
    {
        return match values.evaluate(shard, term, &column.cql_type)? {
            Value::Bytes(value) => Ok(Some(Edge { values: vec![value], inclusive })),
            Value::Null if nulls == NullBound::Refused => Err(null_bound(column)),
            Value::Null => Ok(None),
            Value::Unset => Err(Failure::invalid(format!("Invalid unset value for column {}", column.name))),
        };
    }
    let found = values.tuple(shard, &limit.values, columns)?;
    let bound = found.into_iter().zip(columns).map(|(value, column)| value.ok_or_else(|| null_bound(column)));
    Ok(Some(Edge { values: bound.collect::<Result<_, Failure>>()?, inclusive }))
}

fn null_bound(column: &Column) -> Failure {
    Failure::invalid(format!("Invalid null value in condition for column {}", column.name))
}

#[cfg(test)]
#[path = "slices_tests.rs"]
mod tests;
