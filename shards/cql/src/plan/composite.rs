//! Values with parts (collections, tuples, user types and vectors) and how Cassandra normalises them.
//!
//! Invariants: sets and maps are written in the order of their type, each element or key once (of a key given twice the
//! last value counts).

use super::{EvaluationContext, Term, Value};
use model::value::{self, BoundValue, TupleElements, VectorElements, push_element, push_vector_element};
use model::{CqlType, Failure};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A tuple, user type, vector or collection with the terms of its parts.
#[derive(Clone, PartialEq, Debug)]
pub struct Composite {
    /// The type of the value.
    pub cql_type: CqlType,
    /// The terms of its elements; for a map keys and values alternating; for a tuple at least the first components; for
    /// a user type all fields.
    pub parts: Vec<Term>,
}

impl Composite {
    /// Evaluates the parts and encodes the value.
    pub(super) fn evaluate(
        &self,
        values: &[BoundValue<'_>],
        context: &mut dyn EvaluationContext,
    ) -> Result<Vec<u8>, Failure> {
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

/// The type of part `at`, counted as in [`Composite::parts`]; `None` beyond the last part of a tuple or user type, and
/// for types without parts.
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

/// Encodes a value of valid parts. Only tuples and user types may have null parts.
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

/// Sorts the elements of a set or the entries of a map, and removes duplicates. Lists stay as they are.
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
            // The sort is stable, so that the last of equal keys stays the last.
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

/// A valid bound value as Cassandra stores it: [`reserialized`], with one of the elements or keys of a set or map that
/// are equal by type.
pub(super) fn in_order<'a>(cql_type: &CqlType, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    let (order_type, step) = match cql_type {
        CqlType::List { .. } => return reserialized(cql_type, bytes),
        CqlType::Set { element, .. } => (element, 1),
        CqlType::Map { key, .. } => (key, 2),
        _ => return Cow::Borrowed(bytes),
    };
    let bytes = reserialized(cql_type, bytes);
    if is_ordered(order_type, step, &bytes) {
        return bytes;
    }
    let mut parts: Vec<&[u8]> = value::elements(&bytes, step == 2).collect();
    sort_parts(cql_type, &mut parts);
    let mut out = Vec::with_capacity(bytes.len());
    push_parts(cql_type, parts.iter().copied(), parts.len(), &mut out);
    Cow::Owned(out)
}

/// Whether the elements of a set (`step` 1) or the keys of a map (`step` 2) are strictly ascending.
fn is_ordered(order_type: &CqlType, step: usize, bytes: &[u8]) -> bool {
    let keys = value::elements(bytes, step == 2).step_by(step);
    keys.is_sorted_by(|a, b| value::compare(order_type, a, b) == Ordering::Less)
}

/// A valid value as Cassandra serialises it again after reading it, as it does with bound collections and everything in
/// them: sets and maps in order with each element or key once (of a key given twice the last value counts), numbers in
/// as few bytes as possible. Only identical elements count as duplicates here: a set may hold both 1.0 and 1.00. Tuples
/// and user types are unchanged. Borrows if nothing changes.
pub fn reserialized<'a>(cql_type: &CqlType, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    match cql_type {
        CqlType::List { element, .. } | CqlType::Vector { element, .. } if is_written_as_read(element) => {
            Cow::Borrowed(bytes)
        }
        CqlType::Varint => Cow::Borrowed(shortest_integer(bytes)),
        CqlType::Decimal if bytes.len() > 4 => {
            let (scale, unscaled) = bytes.split_at(4);
            match shortest_integer(unscaled) {
                short if short.len() == unscaled.len() => Cow::Borrowed(bytes),
                short => Cow::Owned([scale, short].concat()),
            }
        }
        CqlType::Boolean => match bytes {
            [2..=0xff] => Cow::Borrowed(&[1]),
            _ => Cow::Borrowed(bytes),
        },
        // An IPv4-mapped IPv6 address.
        CqlType::Inet => match bytes.strip_prefix(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]) {
            Some(short) => Cow::Borrowed(short),
            None => Cow::Borrowed(bytes),
        },
        CqlType::List { element, .. } => rewritten_list(element, bytes),
        CqlType::Set { element, .. } => rewritten_parts(cql_type, &[element], bytes),
        CqlType::Map { key, value, .. } => rewritten_parts(cql_type, &[key, value], bytes),
        CqlType::Vector { element, dimension } => {
            let mut out = Vec::with_capacity(bytes.len());
            for part in VectorElements::new(element, *dimension, bytes) {
                push_vector_element(&mut out, element, &reserialized(element, part));
            }
            if out == bytes { Cow::Borrowed(bytes) } else { Cow::Owned(out) }
        }
        _ => Cow::Borrowed(bytes),
    }
}

/// Whether [`reserialized`] leaves every value of the type unchanged.
fn is_written_as_read(cql_type: &CqlType) -> bool {
    use CqlType::*;
    !matches!(cql_type, Varint | Decimal | Boolean | Inet | List { .. } | Set { .. } | Map { .. } | Vector { .. })
}

/// An integer without redundant sign bytes.
fn shortest_integer(mut bytes: &[u8]) -> &[u8] {
    while let [0, 0..=0x7f, ..] | [0xff, 0x80..=0xff, ..] = bytes {
        bytes = &bytes[1..];
    }
    bytes
}

/// Reserialises a list, which keeps its order and its nulls.
fn rewritten_list<'a>(element: &CqlType, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    let Some((count, rest)) = bytes.split_first_chunk::<4>() else { return Cow::Borrowed(bytes) };
    let parts: Vec<Option<Cow<'_, [u8]>>> =
        TupleElements::new(rest).map(|part| part.map(|part| reserialized(element, part))).collect();
    let mut out = Vec::with_capacity(bytes.len());
    out.extend_from_slice(count);
    parts.iter().for_each(|part| push_element(&mut out, part.as_deref()));
    if out == bytes { Cow::Borrowed(bytes) } else { Cow::Owned(out) }
}

/// Reserialises a set or map; `types` alternate (key and value of a map).
fn rewritten_parts<'a>(cql_type: &CqlType, types: &[&CqlType], bytes: &'a [u8]) -> Cow<'a, [u8]> {
    let step = types.len();
    if types.iter().all(|part_type| is_written_as_read(part_type)) && is_ordered(types[0], step, bytes) {
        return Cow::Borrowed(bytes);
    }
    let parts = value::elements(bytes, step == 2).zip(types.iter().cycle());
    let parts: Vec<Cow<'_, [u8]>> = parts.map(|(part, part_type)| reserialized(part_type, part)).collect();
    let mut entries: Vec<&[Cow<'_, [u8]>]> = Vec::with_capacity(parts.len() / step);
    // Of identical keys the first position and the last value count: an entry is replaced where its key stands first.
    let mut places: BTreeMap<&[u8], usize> = BTreeMap::new();
    for entry in parts.chunks_exact(step) {
        match places.entry(&entry[0]) {
            Entry::Occupied(place) => entries[*place.get()] = entry,
            Entry::Vacant(place) => {
                place.insert(entries.len());
                entries.push(entry);
            }
        }
    }
    // The sort is stable: keys that are equal by type stay in the order of the request.
    entries.sort_by(|a, b| value::compare(types[0], &a[0], &b[0]));
    let mut out = Vec::with_capacity(bytes.len());
    push_parts(
        cql_type,
        entries.iter().flat_map(|entry| entry.iter().map(|part| &**part)),
        entries.len() * step,
        &mut out,
    );
    if out == bytes { Cow::Borrowed(bytes) } else { Cow::Owned(out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(parts: &[&[u8]]) -> Vec<u8> {
        let mut out = (parts.len() as i32).to_be_bytes().to_vec();
        parts.iter().for_each(|part| push_element(&mut out, Some(part)));
        out
    }

    #[test]
    fn nested_sets_are_in_order_and_equal_decimals_stay() {
        let inner = CqlType::Set { element: Box::new(CqlType::Decimal), frozen: true };
        let outer = CqlType::List { element: Box::new(inner.clone()), frozen: false };
        let (one, one_longer, zero) = ([0, 0, 0, 1, 10], [0, 0, 0, 2, 100], [0, 0, 0, 0, 0]);
        let value = set(&[&one, &one_longer, &zero, &one]);
        let kept = set(&[&zero, &one, &one_longer]);
        assert_eq!(*reserialized(&inner, &value), *kept);
        assert_eq!(*in_order(&inner, &value), *set(&[&zero, &one]));
        assert_eq!(*in_order(&outer, &set(&[&value])), *set(&[&kept]));
        assert!(matches!(in_order(&outer, &set(&[&kept])), Cow::Borrowed(_)));
    }

    #[test]
    fn of_a_key_given_twice_the_last_value_counts() {
        let map = CqlType::Map { key: Box::new(CqlType::Varint), value: Box::new(CqlType::Boolean), frozen: false };
        let mut given = set(&[&[0, 1], &[1], &[0xff, 0xff], &[9], &[1], &[0]]);
        given[..4].copy_from_slice(&3i32.to_be_bytes());
        let mut kept = set(&[&[0xff], &[1], &[1], &[0]]);
        kept[..4].copy_from_slice(&2i32.to_be_bytes());
        assert_eq!(*in_order(&map, &given), *kept);
    }
}
