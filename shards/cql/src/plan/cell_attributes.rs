//! Write times and times to live of columns and of parts of them.
//!
//! 1. A column of one cell has one such attribute; a column of several cells has a list of them, in the order of its
//!    elements, entries or fields.
//! 2. A slice keeps the attributes of the elements that it keeps, an element or field its own.
//! 3. Missing elements and fields have none.

use super::EvaluationContext;
use super::composite::part_type;
use super::projection::{Expression, MaybeValue, Result, Row, element, element_place, slice, term_value};
use model::CqlType;
use model::value::{self, TupleElements};
use std::borrow::Cow;
use std::cmp::Ordering;

/// The attributes of a value's cells.
enum Attributes<'r> {
    /// The attribute of its only cell.
    One(Option<&'r [u8]>),
    /// The attribute of each cell, null for a field without one.
    Each(Vec<Option<&'r [u8]>>),
}

/// A part of a column with its attributes.
struct ColumnPart<'r> {
    value: MaybeValue<'r>,
    facts: Attributes<'r>,
}

/// The value of an attribute of `of` in a SELECT. `facts` is the fetched attribute of the column, a list if the column
/// is `multicell`. With `several` the result is a list too, else the greatest attribute.
pub(super) fn evaluate<'r>(
    of: &'r Expression,
    facts: Option<&'r [u8]>,
    (multicell, several): (bool, bool),
    row: &Row<'r, '_>,
    context: &mut dyn EvaluationContext,
) -> Result<MaybeValue<'r>> {
    let facts = match (multicell, facts) {
        (true, Some(list)) => Attributes::Each(TupleElements::new(list.get(4..).unwrap_or_default()).collect()),
        (true, None) => Attributes::Each(Vec::new()),
        (false, fact) => Attributes::One(fact),
    };
    let part = part(of, facts, row, context)?;
    if part.value.is_none() {
        return Ok(None);
    }
    Ok(match part.facts {
        Attributes::One(fact) => fact.map(Cow::Borrowed),
        Attributes::Each(facts) if several => Some(Cow::Owned(list_of(&facts))),
        Attributes::Each(facts) => {
            let greatest = |a: &&[u8], b: &&[u8]| value::compare(&CqlType::Bigint, a, b);
            facts.into_iter().flatten().max_by(greatest).map(Cow::Borrowed)
        }
    })
}

fn list_of(facts: &[Option<&[u8]>]) -> Vec<u8> {
    let mut out = (facts.len() as i32).to_be_bytes().to_vec();
    facts.iter().for_each(|fact| value::push_element(&mut out, *fact));
    out
}

fn part<'r>(
    of: &'r Expression,
    facts: Attributes<'r>,
    row: &Row<'r, '_>,
    context: &mut dyn EvaluationContext,
) -> Result<ColumnPart<'r>> {
    Ok(match of {
        Expression::Field(inner, at) => {
            let ColumnPart { value, facts } = part(inner, facts, row, context)?;
            let field = value.and_then(|bytes| TupleElements::new(&bytes).nth(*at).flatten().map(<[u8]>::to_vec));
            let facts = match facts {
                Attributes::Each(facts) => Attributes::One(facts.get(*at).copied().flatten()),
                one => one,
            };
            ColumnPart { value: field.map(Cow::Owned), facts }
        }
        Expression::Element(inner, cql_type, key) => {
            let ColumnPart { value, facts } = part(inner, facts, row, context)?;
            let key_type = part_type(cql_type, 0).unwrap_or(&CqlType::Blob);
            let key = term_value(key, key_type, row, context)?;
            let (Some(bytes), Some(key)) = (value, key) else { return Ok(ColumnPart { value: None, facts }) };
            let facts = match facts {
                Attributes::Each(facts) => {
                    let place = element_place(cql_type, &bytes, &key);
                    Attributes::One(place.and_then(|at| facts.get(at).copied().flatten()))
                }
                one => one,
            };
            ColumnPart { value: element(cql_type, &bytes, &key).map(|found| Cow::Owned(found.to_vec())), facts }
        }
        Expression::Slice(inner, cql_type, from, to) => {
            let ColumnPart { value, facts } = part(inner, facts, row, context)?;
            let key_type = part_type(cql_type, 0).unwrap_or(&CqlType::Blob);
            let mut bound = |term: &'r Option<super::Term>| match term {
                Some(term) => term_value(term, key_type, row, context),
                None => Ok(None),
            };
            let (from, to) = (bound(from)?, bound(to)?);
            let Some(bytes) = value else { return Ok(ColumnPart { value: None, facts }) };
            let kept = slice(cql_type, &bytes, from.as_deref(), to.as_deref())?;
            let facts = match facts {
                Attributes::Each(facts) => {
                    let step = if matches!(cql_type, CqlType::Map { .. }) { 2 } else { 1 };
                    let keys = value::elements(&bytes, step == 2).step_by(step);
                    let inside = |key: &[u8]| {
                        from.as_ref().is_none_or(|from| value::compare(key_type, key, from) != Ordering::Less)
                            && to.as_ref().is_none_or(|to| value::compare(key_type, key, to) != Ordering::Greater)
                    };
                    Attributes::Each(keys.zip(facts).filter(|(key, _)| inside(key)).map(|(_, fact)| fact).collect())
                }
                one => one,
            };
            let nothing = value::elements(&kept, false).next().is_none();
            ColumnPart { value: (!nothing).then_some(Cow::Owned(kept)), facts }
        }
        other => ColumnPart { value: other.evaluate(row, context)?, facts },
    })
}

#[cfg(test)]
mod tests {
    use super::super::encode_composite;
    use super::*;

    #[test]
    fn a_list_of_facts_is_a_list() {
        let list = CqlType::List { element: Box::new(CqlType::Bigint), frozen: false };
        let facts = [1i64.to_be_bytes(), 2i64.to_be_bytes()];
        let parts = facts.iter().map(|fact| Some(Cow::Borrowed(&fact[..]))).collect();
        let facts: Vec<Option<&[u8]>> = facts.iter().map(|fact| Some(&fact[..])).collect();
        assert_eq!(list_of(&facts), encode_composite(&list, parts).expect("a list"));
    }
}
