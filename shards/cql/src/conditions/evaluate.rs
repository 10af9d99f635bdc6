//! Evaluates conditions.
//!
//! As in Cassandra, null equals only null and has no order. A column without a value differs from every value, and is
//! neither less nor greater than any. A collection that is not frozen and has no elements is both null and empty, and
//! can be compared with an empty one only for equality.
//!
//! Invariants: the outcome depends on values alone, never on timestamps.

use crate::ast::Operator;
use crate::plan::{Condition, ConditionPart, ConditionTest, EvaluationContext, Term, Value};
use model::value::{BoundValue, TupleElements, compare, elements, validate};
use model::{CqlType, Failure, Table};
use std::borrow::Cow;
use std::cmp::Ordering;

type Result<T> = std::result::Result<T, Failure>;

/// A condition with the values of one request.
#[derive(Debug)]
pub struct BoundCondition<'c> {
    /// The type of the whole column.
    cql_type: &'c CqlType,
    part: BoundPart<'c>,
    test: BoundTest<'c>,
}

#[derive(Debug)]
enum BoundPart<'c> {
    Whole,
    Element(Value<'c>),
    Field(usize),
}

#[derive(Debug)]
enum BoundTest<'c> {
    Compare(Operator, Value<'c>),
    In(Vec<Value<'c>>),
    Contains(Value<'c>),
    ContainsKey(Value<'c>),
}

impl Condition {
    /// Binds a condition to the values of one request, one per marker. `table` is the one that it was prepared for.
    pub fn bind<'c>(
        &'c self,
        table: &'c Table,
        values: &[BoundValue<'c>],
        context: &mut dyn EvaluationContext,
    ) -> Result<BoundCondition<'c>> {
        let Some(column) = table.column_by_id(self.column) else {
            return Err(Failure::server("a condition on a column that is not there"));
        };
        let whole = &column.cql_type;
        let mut evaluate = |term: &'c Term, cql_type: &CqlType| term.evaluate(cql_type, values, context);
        let (part, looked_at) = match (&self.part, whole) {
            (ConditionPart::Element(index), CqlType::List { element, .. }) => {
                (BoundPart::Element(evaluate(index, &CqlType::Int)?), &**element)
            }
            (ConditionPart::Element(term), CqlType::Map { key, value, .. }) => {
                (BoundPart::Element(evaluate(term, key)?), &**value)
            }
            (ConditionPart::Field(field), CqlType::User { definition, .. }) => {
                let at = usize::from(*field);
                (BoundPart::Field(at), definition.fields.get(at).map_or(whole, |(_, cql_type)| cql_type))
            }
            (_, whole) => (BoundPart::Whole, whole),
        };
        let test = match &self.test {
            ConditionTest::Compare(operator, term) => BoundTest::Compare(*operator, evaluate(term, looked_at)?),
            ConditionTest::In(terms) => {
                BoundTest::In(terms.iter().map(|term| evaluate(term, looked_at)).collect::<Result<_>>()?)
            }
            ConditionTest::InMarker(marker) => BoundTest::In(list(values, *marker, looked_at)?),
            ConditionTest::Contains(term) => match whole {
                CqlType::List { element, .. } | CqlType::Set { element, .. } | CqlType::Map { value: element, .. } => {
                    BoundTest::Contains(evaluate(term, element)?)
                }
                _ => BoundTest::Contains(Value::Unset),
            },
            ConditionTest::ContainsKey(term) => match whole {
                CqlType::Map { key, .. } => BoundTest::ContainsKey(evaluate(term, key)?),
                _ => BoundTest::ContainsKey(Value::Unset),
            },
        };
        Ok(BoundCondition { cql_type: whole, part, test })
    }
}

/// The values of `IN ?`.
fn list<'c>(values: &[BoundValue<'c>], marker: u16, cql_type: &CqlType) -> Result<Vec<Value<'c>>> {
    let invalid = |error: model::value::ValueError| Failure::invalid(error.0);
    let list = match values.get(usize::from(marker)) {
        Some(BoundValue::Bytes(list)) => *list,
        Some(BoundValue::Unset) => return Err(unset()),
        Some(BoundValue::Null) | None => return Err(Failure::invalid("Invalid null list in IN condition")),
    };
    let (count, rest) = match list.split_first_chunk() {
        Some((count, rest)) => (i32::from_be_bytes(*count), rest),
        None => (-1, list),
    };
    let found: Vec<Option<&[u8]>> = TupleElements::new(rest).take(count.max(0) as usize).collect();
    if found.len() as i64 != i64::from(count) {
        let whole = CqlType::List { element: Box::new(cql_type.clone()), frozen: true };
        model::value::validate_bound(&whole, list).map_err(invalid)?;
    }
    let mut out = Vec::with_capacity(found.len());
    for value in found {
        out.push(match value {
            None => Value::Null,
            Some(bytes) => {
                validate(cql_type, bytes).map_err(invalid)?;
                Value::Bytes(crate::plan::reserialized(cql_type, bytes))
            }
        });
    }
    Ok(out)
}

fn unset() -> Failure {
    Failure::invalid("Invalid 'unset' value in condition")
}

impl BoundCondition<'_> {
    /// Whether a column with this value, encoded as in results, meets the condition. `None` means that it has no value,
    /// or that there is no row. Fails with Cassandra's texts for values that cannot be compared.
    pub fn holds(&self, value: Option<&[u8]>) -> Result<bool> {
        // A multi-cell collection has a value as long as it has elements.
        let multicell = self.cql_type.is_multicell() && self.cql_type.is_collection();
        let (value, cql_type, multicell) = match &self.part {
            BoundPart::Whole => (value, self.cql_type, multicell),
            BoundPart::Element(place) => {
                let (value, cql_type) = self.element(value, place)?;
                (value, cql_type, false)
            }
            BoundPart::Field(field) => {
                let CqlType::User { definition, .. } = self.cql_type else { return Ok(false) };
                let Some((_, cql_type)) = definition.fields.get(*field) else { return Ok(false) };
                (value.and_then(|value| TupleElements::new(value).nth(*field).flatten()), cql_type, false)
            }
        };
        match &self.test {
            BoundTest::Compare(operator, expected) => compares(*operator, cql_type, multicell, expected, value),
            BoundTest::In(candidates) => {
                for candidate in candidates {
                    // Unset values are not candidates.
                    if *candidate != Value::Unset && compares(Operator::Equal, cql_type, multicell, candidate, value)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            // A multi-cell collection contains no unset value.
            BoundTest::Contains(Value::Unset) | BoundTest::ContainsKey(Value::Unset) if !multicell => Err(unset()),
            BoundTest::Contains(expected) => contains(cql_type, expected, value, false),
            BoundTest::ContainsKey(expected) => contains(cql_type, expected, value, true),
        }
    }

    /// The element of a list or map at an index or key, and its type.
    fn element<'v>(&self, value: Option<&'v [u8]>, place: &Value<'_>) -> Result<(Option<&'v [u8]>, &CqlType)> {
        element(self.cql_type, value, place)
    }
}

/// The value of a part of a column, given that of the whole column; `None` is null.
pub(crate) fn part_of<'v>(
    part: &ConditionPart,
    cql_type: &CqlType,
    whole: Option<&'v [u8]>,
    values: &[BoundValue<'_>],
    context: &mut dyn EvaluationContext,
) -> Result<Option<&'v [u8]>> {
    let place = match part {
        ConditionPart::Whole => return Ok(whole),
        ConditionPart::Field(at) => {
            return Ok(whole.and_then(|whole| TupleElements::new(whole).nth(usize::from(*at)).flatten()));
        }
        ConditionPart::Element(place) => place,
    };
    let place_type = match cql_type {
        CqlType::Map { key, .. } => key,
        CqlType::Set { element, .. } => element,
        _ => &CqlType::Int,
    };
    let place = place.evaluate(place_type, values, context)?;
    match (cql_type, &place) {
        (CqlType::Set { .. }, Value::Bytes(wanted)) => {
            let mut found = whole.into_iter().flat_map(|whole| elements(whole, false));
            Ok(found.find(|found| compare(place_type, found, wanted) == Ordering::Equal))
        }
        (CqlType::Set { .. }, _) => Ok(None),
        _ => element(cql_type, whole, &place).map(|(found, _)| found),
    }
}

/// Whether a value compares with an expected one as a condition says.
pub(crate) fn compares_values(
    operator: Operator,
    cql_type: &CqlType,
    expected: &Value<'_>,
    value: Option<&[u8]>,
) -> Result<bool> {
    let multicell = cql_type.is_multicell() && cql_type.is_collection();
    compares(operator, cql_type, multicell, expected, value)
}

/// The element of a list or map at an index or key, and its type.
fn element<'v, 't>(
    cql_type: &'t CqlType,
    value: Option<&'v [u8]>,
    place: &Value<'_>,
) -> Result<(Option<&'v [u8]>, &'t CqlType)> {
    match cql_type {
        CqlType::List { element, .. } => {
            let index = match place {
                Value::Bytes(bytes) => <[u8; 4]>::try_from(&**bytes).ok().map(i32::from_be_bytes),
                Value::Unset => return Err(Failure::invalid("Invalid unset value for list element access")),
                Value::Null => None,
            };
            let Some(index) = index else {
                return Err(Failure::invalid("Invalid null value for list element access"));
            };
            // The index is not checked for a frozen list that is null.
            if value.is_none() && !cql_type.is_multicell() {
                return Ok((None, element));
            }
            let Ok(at) = usize::try_from(index) else {
                return Err(Failure::invalid(format!("Invalid negative list index {index}")));
            };
            Ok((value.and_then(|value| elements(value, false).nth(at)), element))
        }
        CqlType::Map { key: key_type, value: value_type, .. } => {
            let key = match place {
                Value::Bytes(bytes) => bytes,
                Value::Unset => return Ok((None, value_type)),
                Value::Null => return Err(Failure::invalid("Invalid null value for map element access")),
            };
            let mut parts = value.into_iter().flat_map(|value| elements(value, true));
            while let (Some(found), Some(value)) = (parts.next(), parts.next()) {
                if compare(key_type, found, key) == Ordering::Equal {
                    return Ok((Some(value), value_type));
                }
            }
            Ok((None, value_type))
        }
        other => Ok((None, other)),
    }
}

fn compares(
    operator: Operator,
    cql_type: &CqlType,
    multicell: bool,
    expected: &Value<'_>,
    value: Option<&[u8]>,
) -> Result<bool> {
    let expected: &Cow<'_, [u8]> = match expected {
        Value::Unset => return Err(unset()),
        Value::Null => {
            return match operator {
                Operator::Equal => Ok(value.is_none()),
                Operator::NotEqual => Ok(value.is_some()),
                _ => Err(null_comparison(operator.symbol())),
            };
        }
        Value::Bytes(bytes) => bytes,
    };
    if multicell && elements(expected, false).next().is_none() {
        return match operator {
            Operator::Equal => Ok(value.is_none()),
            Operator::NotEqual => Ok(value.is_some()),
            _ => {
                let kind = match cql_type {
                    CqlType::List { .. } => "list",
                    CqlType::Set { .. } => "set",
                    _ => "map",
                };
                let symbol = operator.symbol();
                Err(Failure::invalid(format!("Invalid comparison with an empty {kind} for operator \"{symbol}\"")))
            }
        };
    }
    let Some(value) = value else { return Ok(operator == Operator::NotEqual) };
    let order = compare(cql_type, value, expected);
    Ok(match operator {
        Operator::Equal => order.is_eq(),
        Operator::NotEqual => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::LessEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        Operator::GreaterEqual => order.is_ge(),
    })
}

fn contains(cql_type: &CqlType, expected: &Value<'_>, value: Option<&[u8]>, key: bool) -> Result<bool> {
    let expected = match expected {
        Value::Null => return Err(null_comparison(if key { "CONTAINS KEY" } else { "CONTAINS" })),
        Value::Unset => return Ok(false),
        Value::Bytes(bytes) => bytes,
    };
    let Some(value) = value else { return Ok(false) };
    let is = |cql_type: &CqlType, part: &[u8]| compare(cql_type, part, expected) == Ordering::Equal;
    Ok(match cql_type {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            elements(value, false).any(|part| is(element, part))
        }
        CqlType::Map { key: keys, .. } if key => elements(value, true).step_by(2).any(|part| is(keys, part)),
        CqlType::Map { value: values, .. } => elements(value, true).skip(1).step_by(2).any(|part| is(values, part)),
        _ => false,
    })
}

fn null_comparison(operator: &str) -> Failure {
    Failure::invalid(format!("Invalid comparison with null for operator \"{operator}\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::value::push_element;

    fn int(number: i32) -> Vec<u8> {
        number.to_be_bytes().to_vec()
    }

    fn list_of(numbers: &[i32]) -> Vec<u8> {
        let mut out = int(numbers.len() as i32);
        numbers.iter().for_each(|number| push_element(&mut out, Some(&int(*number))));
        out
    }

    fn bytes(value: Vec<u8>) -> Value<'static> {
        Value::Bytes(Cow::Owned(value))
    }

    fn whole<'c>(cql_type: &'c CqlType, operator: Operator, expected: Value<'c>) -> BoundCondition<'c> {
        BoundCondition { cql_type, part: BoundPart::Whole, test: BoundTest::Compare(operator, expected) }
    }

    #[test]
    fn a_missing_value_differs_from_every_value_and_equals_null() {
        let int_type = CqlType::Int;
        let holds = |operator, expected| whole(&int_type, operator, expected).holds(None).ok();
        assert_eq!(holds(Operator::Equal, Value::Null), Some(true));
        assert_eq!(holds(Operator::NotEqual, Value::Null), Some(false));
        assert_eq!(holds(Operator::NotEqual, bytes(int(1))), Some(true));
        for operator in [Operator::Less, Operator::LessEqual, Operator::Greater, Operator::GreaterEqual] {
            assert_eq!(holds(operator, bytes(int(1))), Some(false));
            assert_eq!(holds(operator, Value::Null), None);
        }
        assert_eq!(holds(Operator::Equal, Value::Unset), None);
    }

    #[test]
    fn a_collection_of_cells_without_elements_is_empty_and_null() {
        for (frozen, empty) in [(false, true), (true, false)] {
            let list = CqlType::List { element: Box::new(CqlType::Int), frozen };
            let holds = |operator, expected| whole(&list, operator, expected).holds(None);
            assert_eq!(holds(Operator::Equal, Value::Null), Ok(true));
            assert_eq!(holds(Operator::Equal, bytes(list_of(&[]))), Ok(empty));
            assert_eq!(holds(Operator::NotEqual, bytes(list_of(&[]))), Ok(!empty));
            assert_eq!(holds(Operator::Less, bytes(list_of(&[1]))), Ok(false));
            assert_eq!(holds(Operator::Less, bytes(list_of(&[]))).is_err(), empty);
        }
    }

    #[test]
    fn elements_beyond_the_end_are_missing() {
        let list = CqlType::List { element: Box::new(CqlType::Int), frozen: false };
        let at = |index: Value<'static>, expected| {
            let test = BoundTest::Compare(Operator::Equal, expected);
            let condition = BoundCondition { cql_type: &list, part: BoundPart::Element(index), test };
            condition.holds(Some(&list_of(&[7, 8]))).map_err(|failure| failure.text.into_owned())
        };
        assert_eq!(at(bytes(int(1)), bytes(int(8))), Ok(true));
        assert_eq!(at(bytes(int(2)), bytes(int(8))), Ok(false));
        assert_eq!(at(bytes(int(2)), Value::Null), Ok(true));
        assert_eq!(at(bytes(int(-1)), Value::Null), Err("Invalid negative list index -1".into()));
        assert_eq!(at(Value::Null, Value::Null), Err("Invalid null value for list element access".into()));
    }

    #[test]
    fn candidates_that_are_not_set_are_none() {
        let condition = BoundCondition {
            cql_type: &CqlType::Int,
            part: BoundPart::Whole,
            test: BoundTest::In(vec![Value::Unset, bytes(int(3)), Value::Null]),
        };
        let holds = |value: Option<Vec<u8>>| condition.holds(value.as_deref()).expect("comparable");
        assert!(holds(Some(int(3))) && holds(None) && !holds(Some(int(4))));
    }

    #[test]
    fn maps_contain_keys_and_values() {
        let map = CqlType::Map { key: Box::new(CqlType::Int), value: Box::new(CqlType::Int), frozen: false };
        let mut value = int(1);
        push_element(&mut value, Some(&int(5)));
        push_element(&mut value, Some(&int(6)));
        let holds = |test| BoundCondition { cql_type: &map, part: BoundPart::Whole, test }.holds(Some(&value)).ok();
        assert_eq!(holds(BoundTest::Contains(bytes(int(6)))), Some(true));
        assert_eq!(holds(BoundTest::Contains(bytes(int(5)))), Some(false));
        assert_eq!(holds(BoundTest::ContainsKey(bytes(int(5)))), Some(true));
        assert_eq!(holds(BoundTest::ContainsKey(bytes(int(6)))), Some(false));
        assert_eq!(holds(BoundTest::ContainsKey(Value::Unset)), Some(false));
        assert_eq!(holds(BoundTest::Contains(Value::Null)), None);
    }
}
