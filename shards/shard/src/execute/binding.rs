//! Bound values: matching them with markers, and evaluating the choices that restrict columns.

use crate::{Parameters, Shard};
use cql::plan::{Choice, ColumnSpec, Context, Term, Value};
use model::key::{KEY_BYTES_MAX, push_composite};
use model::value::{self, Bound};
use model::{Column, CqlType, Failure, Table};
use std::borrow::Cow;

/// Most partitions, rows or slices that the IN restrictions of one statement may name together.
pub(crate) const COMBINATIONS_MAX: usize = 65_536;

/// The values of one request in the order of the markers, with what evaluating needs.
pub(crate) struct Values<'v> {
    /// One per marker.
    pub(crate) bound: Cow<'v, [Bound<'v>]>,
}

impl<'v> Values<'v> {
    /// Matches a request's values with `markers`; `wrong_count` makes the text for too many or too few.
    pub(crate) fn of(
        markers: &[ColumnSpec],
        parameters: &'v Parameters<'v>,
        wrong_count: fn(usize, usize) -> String,
    ) -> Result<Values<'v>, Failure> {
        let bound: Cow<'v, [Bound<'v>]> = match &parameters.names {
            None => Cow::Borrowed(&parameters.values),
            // A marker without a value of its name is missed by the count.
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

    /// Values in the order of the markers, already counted.
    pub(crate) fn in_order(bound: &'v [Bound<'v>]) -> Values<'v> {
        Values { bound: Cow::Borrowed(bound) }
    }

    /// A term's value.
    pub(crate) fn evaluate<'a>(
        &'a self,
        shard: &Shard,
        term: &'a Term,
        cql_type: &CqlType,
    ) -> Result<Value<'a>, Failure> {
        let mut context = shard.evaluation();
        term.evaluate(cql_type, &self.bound, &mut context as &mut dyn Context)
    }

    /// The value of a term that restricts `column`: neither null nor unset.
    pub(crate) fn restriction<'a>(
        &'a self,
        shard: &Shard,
        term: &'a Term,
        column: &Column,
    ) -> Result<Cow<'a, [u8]>, Failure> {
        match self.evaluate(shard, term, &column.cql_type)? {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Null => Err(Failure::invalid(format!("Invalid null value in condition for column {}", column.name))),
            Value::Unset => Err(unset(column)),
        }
    }

    /// The values of a choice, each once and in the column's order.
    pub(crate) fn choices<'a>(
        &'a self,
        shard: &Shard,
        choice: &'a Choice,
        column: &Column,
    ) -> Result<Vec<Cow<'a, [u8]>>, Failure> {
        let mut found: Vec<Cow<'a, [u8]>> = match choice {
            Choice::One(term) => return Ok(vec![self.restriction(shard, term, column)?]),
            Choice::Many(terms) => {
                terms.iter().map(|term| self.restriction(shard, term, column)).collect::<Result<_, Failure>>()?
            }
            Choice::Marker(marker) => match self.bound.get(*marker as usize) {
                Some(Bound::Bytes(list)) => {
                    let element = Box::new(column.cql_type.clone());
                    value::validate(&CqlType::List { element, frozen: true }, list)
                        .map_err(|error| Failure::invalid(error.0))?;
                    value::elements(list, false).map(Cow::Borrowed).collect()
                }
                Some(Bound::Null) | None => {
                    return Err(Failure::invalid(format!("Invalid null value for column {}", column.name)));
                }
                Some(Bound::Unset) => return Err(unset(column)),
            },
        };
        found.sort_by(|a, b| value::compare(&column.cql_type, a, b).then_with(|| a.cmp(b)));
        found.dedup();
        Ok(found)
    }
}

fn unset(column: &Column) -> Failure {
    Failure::invalid(format!("Invalid unset value for column {}", column.name))
}

/// `there were 3 markers(?) in CQL but 1 bound variables`
pub(crate) fn wrong_count_executed(markers: usize, values: usize) -> String {
    format!("there were {markers} markers(?) in CQL but {values} bound variables")
}

/// The same for a statement of a BATCH message.
pub(crate) fn wrong_count_in_batch(markers: usize, values: usize) -> String {
    format!("There were {markers} markers(?) in CQL but {values} bound variables")
}

/// The same for QUERY.
pub(crate) fn wrong_count_queried(_markers: usize, _values: usize) -> String {
    "Invalid amount of bind variables".into()
}

/// Serialised partition keys.
pub(crate) enum Keys<'a> {
    /// One, borrowed where the key has one column.
    One(Cow<'a, [u8]>),
    /// In the order of their values.
    Many(Vec<Vec<u8>>),
}

impl<'a> Keys<'a> {
    /// The keys that `choices` (one per partition key column) name.
    pub(crate) fn of(
        shard: &Shard,
        table: &Table,
        choices: &'a [Choice],
        values: &'a Values<'_>,
    ) -> Result<Keys<'a>, Failure> {
        if let [Choice::One(term)] = choices
            && let [column] = table.partition_key()
        {
            let key = values.restriction(shard, term, column)?;
            check_key(&key)?;
            return Ok(Keys::One(key));
        }
        let columns = table.partition_key().iter().zip(choices);
        let components =
            columns.map(|(column, choice)| values.choices(shard, choice, column)).collect::<Result<Vec<_>, _>>()?;
        let mut keys = Vec::new();
        for combination in combinations(&components)? {
            let key = match combination.as_slice() {
                [key] => key.to_vec(),
                several => {
                    let len: usize = several.iter().map(|component| component.len() + 3).sum();
                    check_len(len)?;
                    let mut key = Vec::with_capacity(len);
                    push_composite(several.iter().copied(), &mut key);
                    key
                }
            };
            check_key(&key)?;
            keys.push(key);
        }
        Ok(match keys.len() {
            1 => Keys::One(Cow::Owned(keys.swap_remove(0))),
            _ => Keys::Many(keys),
        })
    }

    /// The keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let (one, many) = match self {
            Keys::One(key) => (Some(&**key), [].as_slice()),
            Keys::Many(keys) => (None, keys.as_slice()),
        };
        one.into_iter().chain(many.iter().map(Vec::as_slice))
    }
}

fn check_key(key: &[u8]) -> Result<(), Failure> {
    if key.is_empty() {
        return Err(Failure::invalid("Key may not be empty"));
    }
    check_len(key.len())
}

fn check_len(len: usize) -> Result<(), Failure> {
    if len > KEY_BYTES_MAX {
        return Err(Failure::invalid(format!("Key length of {len} is longer than maximum of {KEY_BYTES_MAX}")));
    }
    Ok(())
}

/// Every way to take one value of each column, the last column's values changing fastest.
pub(crate) fn combinations<'c>(columns: &'c [Vec<Cow<'_, [u8]>>]) -> Result<Vec<Vec<&'c [u8]>>, Failure> {
    let count = columns.iter().try_fold(1usize, |count, column| count.checked_mul(column.len()));
    if count.is_none_or(|count| count > COMBINATIONS_MAX) {
        return Err(Failure::invalid(format!(
            "The IN restrictions name more than {COMBINATIONS_MAX} combinations of values"
        )));
    }
    let mut found: Vec<Vec<&[u8]>> = vec![Vec::with_capacity(columns.len())];
    for column in columns {
        found = found
            .iter()
            .flat_map(|prefix| {
                column.iter().map(|value| {
                    let mut longer = prefix.clone();
                    longer.push(value);
                    longer
                })
            })
            .collect();
    }
    Ok(found)
}
