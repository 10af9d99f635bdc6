//! Values with parts: collections, tuples, user types and vectors, made of the terms of their parts.
//!
//! Invariants: sets and maps come out in the order of their type, each element or key once (of a key given twice the last
//! value counts).

use super::{Context, Term, Value};
use model::value::{self, Bound, push_element, push_vector_element};
use model::{CqlType, Failure};
use std::borrow::Cow;
use std::cmp::Ordering;

/// A tuple, user type, vector or collection with the terms of its parts.
#[derive(Clone, PartialEq, Debug)]
pub struct Composite {
    /// What it is.
    pub cql_type: CqlType,
    /// Its elements; of a map keys and values in turn; of a tuple the first components, of a user type all fields.
    pub parts: Vec<Term>,
}

impl Composite {
    /// The encoded value.
    pub(super) fn evaluate(&self, values: &[Bound<'_>], context: &mut dyn Context) -> Result<Vec<u8>, Failure> {
        let mut parts = Vec::with_capacity(self.parts.len());
        for (at, part) in self.parts.iter().enumerate() {
            let part_type = part_type(&self.cql_type, at).unwrap_or(&CqlType::Blob);
            parts.push(match part.evaluate(part_type, values, context)? {
                Value::Null => None,
                Value::Bytes(bytes) => Some(bytes),
                Value::Unset => return Err(unset_part(&self.cql_type, at)),
            });
        }
        encode(&self.cql_type, parts)
    }
}

/// The type of part `at`, parts counted as in [`Composite::parts`]; `None` beyond the last of a tuple or user type, and
/// for a type without parts.
pub fn part_type(cql_type: &CqlType, at: usize) -> Option<&CqlType> {
    match cql_type {
        CqlType::List { element, .. } | CqlType::Set { element, .. } | CqlType::Vector { element, .. } => Some(element),
        CqlType::Map { key, value, .. } => Some(if at.is_multiple_of(2) { key } else { value }),
        CqlType::Tuple(elements) => elements.get(at),
        CqlType::User { definition, .. } => definition.fields.get(at).map(|(_, field)| field),
        _ => None,
    }
}

fn unset_part(cql_type: &CqlType, at: usize) -> Failure {
    match cql_type {
        CqlType::Tuple(_) => Failure::invalid(format!("Invalid unset value for tuple field number {at}")),
        CqlType::User { definition, .. } => {
            let field = definition.fields.get(at).map_or("", |(name, _)| name);
            Failure::invalid(format!(
                "Invalid unset value for field '{field}' of user defined type {}",
                definition.name
            ))
        }
        CqlType::Vector { .. } => Failure::invalid("unset value is not supported inside vectors"),
        _ => Failure::invalid("unset value is not supported inside collections"),
    }
}

/// The bytes of a value of valid parts. Only tuples and user types take nulls.
pub fn encode(cql_type: &CqlType, parts: Vec<Option<Cow<'_, [u8]>>>) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::with_capacity(4 + parts.iter().flatten().map(|part| 4 + part.len()).sum::<usize>());
    match cql_type {
        CqlType::Tuple(_) | CqlType::User { .. } => {
            for part in &parts {
                push_element(&mut out, part.as_deref());
            }
        }
        CqlType::Vector { element, .. } => {
            let parts: Option<Vec<_>> = parts.into_iter().collect();
            for part in parts.ok_or_else(|| Failure::invalid("null is not supported inside vectors"))? {
                push_vector_element(&mut out, element, &part);
            }
        }
        _ => {
            let parts: Option<Vec<_>> = parts.into_iter().collect();
            let mut parts = parts.ok_or_else(|| Failure::invalid("null is not supported inside collections"))?;
            sort_parts(cql_type, &mut parts);
            push_parts(cql_type, parts.iter().map(|part| &**part), parts.len(), &mut out);
        }
    }
    Ok(out)
}

fn push_parts<'p>(cql_type: &CqlType, parts: impl Iterator<Item = &'p [u8]>, len: usize, out: &mut Vec<u8>) {
    let count = if matches!(cql_type, CqlType::Map { .. }) { len / 2 } else { len };
    out.extend_from_slice(&(count as i32).to_be_bytes());
    for part in parts {
        push_element(out, Some(part));
    }
}

/// Puts the elements of a set and the entries of a map in order, each once. Lists stay as they are.
fn sort_parts<P: AsRef<[u8]>>(cql_type: &CqlType, parts: &mut Vec<P>) {
    match cql_type {
        CqlType::Set { element, .. } => {
            parts.sort_by(|a, b| value::compare(element, a.as_ref(), b.as_ref()));
            parts.dedup_by(|a, b| value::compare(element, a.as_ref(), b.as_ref()) == Ordering::Equal);
        }
        CqlType::Map { key, .. } => {
            let mut flat = std::mem::take(parts).into_iter();
            let mut entries: Vec<(P, P)> = Vec::with_capacity(flat.len() / 2);
            while let (Some(key), Some(value)) = (flat.next(), flat.next()) {
                entries.push((key, value));
            }
            // Stable, so that of equal keys the last is the last.
            entries.sort_by(|a, b| value::compare(key, a.0.as_ref(), b.0.as_ref()));
            entries.dedup_by(|next, before| {
                let same = value::compare(key, next.0.as_ref(), before.0.as_ref()) == Ordering::Equal;
                if same {
                    std::mem::swap(&mut next.1, &mut before.1);
                }
                same
            });
            parts.extend(entries.into_iter().flat_map(|(key, value)| [key, value]));
        }
        _ => {}
    }
}

/// A valid value with the elements of a set and the keys of a map in order, as clients need not send them.
pub(super) fn in_order<'a>(cql_type: &CqlType, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    let (order_type, step) = match cql_type {
        CqlType::Set { element, .. } => (element, 1),
        CqlType::Map { key, .. } => (key, 2),
        _ => return Cow::Borrowed(bytes),
    };
    let is_map = step == 2;
    let ordered = value::elements(bytes, is_map)
        .step_by(step)
        .is_sorted_by(|a, b| value::compare(order_type, a, b) == Ordering::Less);
    if ordered {
        return Cow::Borrowed(bytes);
    }
    let mut parts: Vec<&[u8]> = value::elements(bytes, is_map).collect();
    sort_parts(cql_type, &mut parts);
    let mut out = Vec::with_capacity(bytes.len());
    push_parts(cql_type, parts.iter().copied(), parts.len(), &mut out);
    Cow::Owned(out)
}
