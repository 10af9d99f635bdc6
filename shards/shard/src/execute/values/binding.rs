//! Bound values: matching them with markers, and evaluating the choices that restrict columns.

use crate::shard_state::Shard;
use cql::plan::{Choice, EvaluationContext, Term, Tuple, Value, reserialized};
use model::value::{self, BoundValue, TupleElements, ValueError};
use model::{Column, ColumnSpec, CqlType, Failure, QueryParameters};
use std::borrow::Cow;
use std::cmp::Ordering;

/// Most partitions, rows or slices that the IN restrictions of one statement may name together.
pub(crate) const COMBINATIONS_MAX: usize = 65_536;

/// The values of a request in the order of the markers, with what is needed to evaluate terms.
pub(crate) struct Values<'v> {
    /// One per marker.
    pub(crate) bound: Cow<'v, [BoundValue<'v>]>,
}

impl<'v> Values<'v> {
    /// Bytes of all values.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = |value: &BoundValue<'_>| if let BoundValue::Bytes(bytes) = value { bytes.len() as u64 } else { 0 };
        self.bound.iter().map(bytes).sum()
    }

    /// Matches a request's values with `markers`; `wrong_count` makes the failure's text if there are too many or too
    /// few.
    pub(crate) fn of(
        markers: &[ColumnSpec],
        parameters: &'v QueryParameters<'v>,
        wrong_count: fn(usize, usize) -> String,
    ) -> Result<Values<'v>, Failure> {
        let bound: Cow<'v, [BoundValue<'v>]> = match &parameters.names {
            None => Cow::Borrowed(&parameters.values),
            // A marker for which no value of its name was sent makes the count wrong.
            Some(names) => markers
                .iter()
                .filter_map(|marker| {
                    let at = names.iter().position(|name| **name == *marker.name)?;
                    parameters.values.get(at).copied()
                })
                .collect(),
        };
        if bound.len() != markers.len() {
            return Err(Failure::invalid(wrong_count(markers.len(), bound.len())));
        }
        Ok(Values { bound })
    }

    /// Values in the order of the markers, whose count the caller has checked.
    pub(crate) fn in_order(bound: &'v [BoundValue<'v>]) -> Values<'v> {
        Values { bound: Cow::Borrowed(bound) }
    }

    /// Evaluates a term.
    pub(crate) fn evaluate<'a>(
        &'a self,
        shard: &Shard,
        term: &'a Term,
        cql_type: &CqlType,
    ) -> Result<Value<'a>, Failure> {
        let mut context = shard.evaluation();
        term.evaluate(cql_type, &self.bound, &mut context as &mut dyn EvaluationContext)
    }

    /// Evaluates a term that restricts a key column.
    fn evaluate_for<'a>(&'a self, shard: &Shard, term: &'a Term, column: &Column) -> Result<Value<'a>, Failure> {
        if let (Term::Marker(marker), true) = (term, column.descending && column.cql_type.is_collection())
            && let Some(BoundValue::Bytes(bytes)) = self.bound.get(*marker as usize)
        {
            // Cassandra does not see a collection in the type of a descending column, so it takes the bytes as they
            // are.
            value::validate(&column.cql_type, bytes).map_err(|error| Failure::invalid(error.0))?;
            return Ok(Value::Bytes(Cow::Borrowed(bytes)));
        }
        self.evaluate(shard, term, &column.cql_type)
    }

    /// The value of a term that restricts `column`. Fails for null and unset.
    pub(crate) fn restriction<'a>(
        &'a self,
        shard: &Shard,
        term: &'a Term,
        column: &Column,
    ) -> Result<Cow<'a, [u8]>, Failure> {
        match self.evaluate_for(shard, term, column)? {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Null => Err(null_condition(column)),
            Value::Unset => Err(unset(column)),
        }
    }

    /// The values of a choice, sorted and without duplicates; those of several columns follow each other.
    fn choices<'a>(
        &'a self,
        shard: &Shard,
        choice: &'a Choice,
        columns: &[Column],
    ) -> Result<Vec<Cow<'a, [u8]>>, Failure> {
        let [column, ..] = columns else { return Ok(Vec::new()) };
        let mut found: Vec<Cow<'a, [u8]>> = match choice {
            Choice::One(term) => return Ok(vec![self.restriction(shard, term, column)?]),
            Choice::Many(terms) => {
                terms.iter().map(|term| self.restriction(shard, term, column)).collect::<Result<_, Failure>>()?
            }
            Choice::Marker(marker) => {
                let values = self.list(*marker, column)?.into_iter();
                values.map(|value| value.ok_or_else(|| null_condition(column))).collect::<Result<_, Failure>>()?
            }
            Choice::Tuples { tuples, .. } => return self.tuples(shard, tuples, columns),
            Choice::TuplesMarker { marker, .. } => return self.tuple_list(*marker, columns),
        };
        found.sort_by(|a, b| in_table_order(column, a, b));
        found.dedup_by(|b, a| in_table_order(column, a, b).is_eq());
        Ok(found)
    }

    /// The values of `IN ?`; null elements give `None`.
    pub(crate) fn list<'a>(&'a self, marker: u16, column: &Column) -> Result<Vec<Option<Cow<'a, [u8]>>>, Failure> {
        let invalid = |error: ValueError| Failure::invalid(error.0);
        let list = match self.bound.get(marker as usize) {
            Some(BoundValue::Bytes(list)) => *list,
            Some(BoundValue::Null) | None => {
                return Err(Failure::invalid(format!("Invalid null value for column {}", column.name)));
            }
            Some(BoundValue::Unset) => return Err(unset(column)),
        };
        let (count, rest) =
            list.split_first_chunk().map_or((0, list), |(count, rest)| (i32::from_be_bytes(*count), rest));
        let found: Vec<Option<&[u8]>> = TupleElements::new(rest).take(count.max(0) as usize).collect();
        if found.len() as i64 != i64::from(count) || list.is_empty() {
            let element = Box::new(column.cql_type.clone());
            value::validate_bound(&CqlType::List { element, frozen: true }, list).map_err(invalid)?;
        }
        found.iter().flatten().try_for_each(|value| value::validate(&column.cql_type, value)).map_err(invalid)?;
        Ok(found.into_iter().map(|value| value.map(|value| reserialized(&column.cql_type, value))).collect())
    }

    /// The values of `(a, b) = (x, y)` and `(a, b) IN ((x, y), (z, w))`.
    fn tuples<'a>(
        &'a self,
        shard: &Shard,
        tuples: &'a [Tuple],
        columns: &[Column],
    ) -> Result<Vec<Cow<'a, [u8]>>, Failure> {
        let mut found = Vec::with_capacity(tuples.len());
        for tuple in tuples {
            let values = self.tuple(shard, tuple, columns)?;
            let values = complete(values, columns).map_err(|column| match tuples.len() {
                1 => Failure::invalid(format!("Invalid null value for column {}", column.name)),
                _ => null_in_tuple(columns),
            })?;
            found.push(values);
        }
        Ok(in_order(found, columns))
    }

    /// The values of `(a, b) IN ?`.
    fn tuple_list<'a>(&'a self, marker: u16, columns: &[Column]) -> Result<Vec<Cow<'a, [u8]>>, Failure> {
        let list = match self.bound.get(marker as usize) {
            Some(BoundValue::Bytes(list)) => *list,
            Some(BoundValue::Null) | None => return Err(Failure::invalid("Invalid null value for IN restriction")),
            Some(BoundValue::Unset) => {
                return Err(Failure::invalid(format!("Invalid unset value for in{}", tuple_name(columns))));
            }
        };
        value::validate(&CqlType::List { element: Box::new(tuple_type(columns)), frozen: true }, list)
            .map_err(|error| Failure::invalid(error.0))?;
        let mut found = Vec::new();
        for tuple in value::elements(list, false) {
            let values = TupleElements::new(tuple).map(|element| element.map(Cow::Borrowed)).collect();
            found.push(complete(values, columns).map_err(|_| null_in_tuple(columns))?);
        }
        Ok(in_order(found, columns))
    }

    /// The values of a tuple; null gives `None`. There are fewer than `columns` if a bound tuple is shorter.
    pub(crate) fn tuple<'a>(
        &'a self,
        shard: &Shard,
        tuple: &'a Tuple,
        columns: &[Column],
    ) -> Result<Vec<Option<Cow<'a, [u8]>>>, Failure> {
        match tuple {
            Tuple::Terms(terms) => {
                let mut found = Vec::with_capacity(terms.len());
                for (at, (term, column)) in terms.iter().zip(columns).enumerate() {
                    found.push(match self.evaluate_for(shard, term, column)? {
                        Value::Bytes(bytes) => Some(bytes),
                        Value::Null => None,
                        Value::Unset => {
                            return Err(Failure::invalid(format!("Invalid unset value for tuple field number {at}")));
                        }
                    });
                }
                Ok(found)
            }
            Tuple::Marker { marker, columns: count } => {
                let columns = columns.get(..*count).unwrap_or(columns);
                match self.bound.get(*marker as usize) {
                    Some(BoundValue::Bytes(bytes)) => {
                        value::validate(&tuple_type(columns), bytes).map_err(|error| Failure::invalid(error.0))?;
                        Ok(TupleElements::new(bytes).map(|element| element.map(Cow::Borrowed)).collect())
                    }
                    Some(BoundValue::Null) | None => {
                        let name = columns.first().map_or("", |column| &column.name);
                        Err(Failure::invalid(format!("Invalid null value for column {name}")))
                    }
                    Some(BoundValue::Unset) => {
                        Err(Failure::invalid(format!("Invalid unset value for tuple {}", tuple_name(columns))))
                    }
                }
            }
        }
    }

    /// All combinations of choices for the first of `columns`, in order. As in Cassandra, choices after an empty IN are
    /// not evaluated.
    pub(crate) fn prefixes<'a>(
        &'a self,
        shard: &Shard,
        columns: &[Column],
        choices: &'a [Choice],
    ) -> Result<Prefixes<'a>, Failure> {
        if choices.iter().all(|choice| matches!(choice, Choice::One(_))) {
            let mut flat = Vec::with_capacity(choices.len());
            for (choice, column) in choices.iter().zip(columns) {
                if let Choice::One(term) = choice {
                    flat.push(self.restriction(shard, term, column)?);
                }
            }
            return Ok(Prefixes::new(flat.len(), 1, flat));
        }
        let mut prefixes = Prefixes::new(0, 1, Vec::new());
        for choice in choices {
            let width = choice.columns();
            let columns = columns.get(prefixes.width..prefixes.width + width).unwrap_or_default();
            prefixes = prefixes.times(width, &self.choices(shard, choice, columns)?)?;
            if prefixes.len == 0 {
                let width = choices.iter().map(Choice::columns).sum();
                return Ok(Prefixes::new(width, 0, Vec::new()));
            }
        }
        Ok(prefixes)
    }
}

/// The values of a tuple if all are present, otherwise the first column without one.
fn complete<'a, 'c>(
    values: Vec<Option<Cow<'a, [u8]>>>,
    columns: &'c [Column],
) -> Result<Vec<Cow<'a, [u8]>>, &'c Column> {
    let mut values = values.into_iter();
    columns.iter().map(|column| values.next().flatten().ok_or(column)).collect()
}

/// The order of two values of a key column in which Cassandra works through rows. Of values that are equal in this
/// order (1.0 and 1.00) the first is taken.
fn in_table_order(column: &Column, a: &[u8], b: &[u8]) -> Ordering {
    let order = value::compare(&column.cql_type, a, b);
    if column.descending { order.reverse() } else { order }
}

/// Tuples sorted by the columns' order, without duplicates; their values follow each other.
fn in_order<'a>(mut tuples: Vec<Vec<Cow<'a, [u8]>>>, columns: &[Column]) -> Vec<Cow<'a, [u8]>> {
    let order = |a: &[Cow<'_, [u8]>], b: &[Cow<'_, [u8]>]| {
        let each = columns.iter().zip(a.iter().zip(b));
        let mut orders = each.map(|(column, (a, b))| in_table_order(column, a, b));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    tuples.sort_by(|a, b| order(a, b));
    tuples.dedup_by(|b, a| order(a, b).is_eq());
    tuples.into_iter().flatten().collect()
}

fn null_in_tuple(columns: &[Column]) -> Failure {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    Failure::invalid(format!("Invalid null value in condition for columns: [{}]", names.join(", ")))
}

fn tuple_type(columns: &[Column]) -> CqlType {
    CqlType::Tuple(columns.iter().map(|column| column.cql_type.clone()).collect())
}

/// The columns of a tuple as error texts show them: `(a,b)`.
fn tuple_name(columns: &[Column]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    format!("({})", names.join(","))
}

/// All combinations of values for the first columns of a key.
pub(crate) struct Prefixes<'a> {
    /// Values per prefix.
    width: usize,
    /// How many prefixes there are; one even if it has no values.
    len: usize,
    flat: Vec<Cow<'a, [u8]>>,
}

impl<'a> Prefixes<'a> {
    /// `len` prefixes of `width` values each, one after another.
    pub(super) fn new(width: usize, len: usize, flat: Vec<Cow<'a, [u8]>>) -> Prefixes<'a> {
        Prefixes { width, len, flat }
    }

    /// Values per prefix.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// How many prefixes there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The prefixes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[Cow<'a, [u8]>]> {
        (0..self.len).map(|n| &self.flat[n * self.width..(n + 1) * self.width])
    }

    /// Appends each of `choices` (of `width` values each) to each prefix; the choices vary fastest.
    fn times(&self, width: usize, choices: &[Cow<'a, [u8]>]) -> Result<Prefixes<'a>, Failure> {
        let count = choices.len() / width.max(1);
        let len = self.len.checked_mul(count).filter(|&len| len <= COMBINATIONS_MAX).ok_or_else(|| {
            Failure::invalid(format!("The IN restrictions name more than {COMBINATIONS_MAX} combinations of values"))
        })?;
        let mut flat = Vec::with_capacity(len * (self.width + width));
        for prefix in self.iter() {
            for choice in choices.chunks_exact(width.max(1)) {
                flat.extend_from_slice(prefix);
                flat.extend_from_slice(choice);
            }
        }
        Ok(Prefixes::new(self.width + width, len, flat))
    }
}

fn null_condition(column: &Column) -> Failure {
    Failure::invalid(format!("Invalid null value in condition for column {}", column.name))
}

fn unset(column: &Column) -> Failure {
    Failure::invalid(format!("Invalid unset value for column {}", column.name))
}

/// The failure's text for an EXECUTE with too many or too few values.
pub(crate) fn wrong_count_executed(markers: usize, values: usize) -> String {
    format!("there were {markers} markers(?) in CQL but {values} bound variables")
}

/// The failure's text for a statement of a BATCH message with too many or too few values.
pub(crate) fn wrong_count_in_batch(markers: usize, values: usize) -> String {
    format!("There were {markers} markers(?) in CQL but {values} bound variables")
}

/// The failure's text for a QUERY with too many or too few values.
pub(crate) fn wrong_count_queried(_markers: usize, _values: usize) -> String {
    "Invalid amount of bind variables".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_combinations_are_taken_and_one_more_is_not() {
        let choices = |count: usize| (0..count).map(|n| Cow::Owned(n.to_be_bytes().to_vec())).collect::<Vec<_>>();
        let none = Prefixes::new(0, 1, Vec::new());
        let half = none.times(1, &choices(COMBINATIONS_MAX / 2)).expect("half");
        assert_eq!(half.times(1, &choices(2)).expect("all").len(), COMBINATIONS_MAX);
        assert!(half.times(1, &choices(3)).is_err());
        assert!(none.times(1, &choices(COMBINATIONS_MAX + 1)).is_err());
    }

    #[test]
    fn the_last_choices_change_fastest() {
        let values = |text: &'static str| text.bytes().map(|byte| Cow::Owned(vec![byte])).collect::<Vec<_>>();
        let prefixes = Prefixes::new(0, 1, Vec::new()).times(1, &values("ab")).expect("two");
        // Two tuples, each of two columns.
        let prefixes = prefixes.times(2, &values("xyzw")).expect("four");
        let rows: Vec<String> = prefixes.iter().map(|row| row.iter().map(|value| value[0] as char).collect()).collect();
        assert_eq!(rows, ["axy", "azw", "bxy", "bzw"]);
        // A choice without values leaves no prefixes.
        assert_eq!(prefixes.times(1, &[]).expect("none").len(), 0);
    }
}
