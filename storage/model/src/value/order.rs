//! The order of serialised values.

use crate::decimal::Scientific;
use crate::types::CqlType;
use crate::value::composite::Ordered;
use crate::value::{TupleElements, VectorElements, elements};
use std::cmp::Ordering;

/// Cassandra's order of two valid values of one type, not reversed. Empty values sort first. Invalid bytes sort after
/// valid values, by memcmp, so that the order is total for all bytes.
pub fn compare(cql_type: &CqlType, a: &[u8], b: &[u8]) -> Ordering {
    use CqlType::*;
    if a.is_empty() || b.is_empty() {
        return a.len().cmp(&b.len());
    }
    // `None` if neither is a valid value, or the type's order is memcmp.
    let order = match cql_type {
        // Dates are unsigned, times never negative.
        Ascii | Blob | Text | Date | Time | Duration | Empty | Inet => None,
        Bigint | Counter | Timestamp => fixed(a, b, i64::from_be_bytes),
        Boolean => fixed(a, b, |[byte]: [u8; 1]| byte != 0),
        Decimal => valid_first(Scientific::read(a), Scientific::read(b)),
        Double => fixed(a, b, |bytes| ordered_f64(f64::from_be_bytes(bytes))),
        Float => fixed(a, b, |bytes| ordered_f32(f32::from_be_bytes(bytes))),
        Int => fixed(a, b, i32::from_be_bytes),
        Smallint => fixed(a, b, i16::from_be_bytes),
        Timeuuid => fixed(a, b, ordered_timeuuid),
        Tinyint => fixed(a, b, i8::from_be_bytes),
        LexicalUuid => fixed(a, b, ordered_lexical_uuid),
        Uuid => fixed(a, b, ordered_uuid),
        Varint => Some(compare_varints(a, b)),
        List { element, .. } | Set { element, .. } => Some(compare_elements(&[element], a, b)),
        Map { key, value, .. } => Some(compare_elements(&[key, value], a, b)),
        Tuple(types) => Some(compare_tuples(types.iter(), a, b)),
        User { definition, .. } => Some(compare_tuples(definition.field_types(), a, b)),
        Vector { element, dimension } => Some(compare_vectors(element, *dimension, a, b)),
        Composite(_) | DynamicComposite(_) => valid_first(Ordered::read(cql_type, a), Ordered::read(cql_type, b)),
    };
    order.unwrap_or_else(|| a.cmp(b))
}

/// Compares two values of `N` bytes by their sort key; see [`valid_first`] for other lengths.
fn fixed<const N: usize, K: Ord>(a: &[u8], b: &[u8], key: impl Fn([u8; N]) -> K) -> Option<Ordering> {
    let read = |bytes: &[u8]| bytes.try_into().ok().map(&key);
    valid_first(read(a), read(b))
}

/// The order of two parsed values, a valid one before an invalid one; `None` if both are invalid.
fn valid_first<K: Ord>(a: Option<K>, b: Option<K>) -> Option<Ordering> {
    match (a, b) {
        (None, None) => None,
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        (a, b) => Some(b.is_some().cmp(&a.is_some())),
    }
}

/// An unsigned integer that sorts like the number: -0 before 0; every NaN equal and last, as in Java.
pub(crate) fn ordered_f64(number: f64) -> u64 {
    let bits = if number.is_nan() { 0x7ff8_0000_0000_0000 } else { number.to_bits() };
    if bits >> 63 == 1 { !bits } else { bits ^ (1 << 63) }
}

/// The number that [`ordered_f64`] makes this one of.
pub(crate) fn unordered_f64(ordered: u64) -> f64 {
    f64::from_bits(if ordered >> 63 == 1 { ordered ^ (1 << 63) } else { !ordered })
}

/// [`ordered_f64`] for a float.
pub(crate) fn ordered_f32(number: f32) -> u32 {
    let bits = if number.is_nan() { 0x7fc0_0000 } else { number.to_bits() };
    if bits >> 31 == 1 { !bits } else { bits ^ (1 << 31) }
}

/// [`unordered_f64`] for a float.
pub(crate) fn unordered_f32(ordered: u32) -> f32 {
    f32::from_bits(if ordered >> 31 == 1 { ordered ^ (1 << 31) } else { !ordered })
}

/// Reorders the first half of a version 1 uuid: version and timestamp, most significant part first.
fn reorder_timestamp(high: u64) -> u64 {
    (high << 48) | ((high << 16) & 0xffff_0000_0000) | (high >> 32)
}

/// The half that [`reorder_timestamp`] makes this one of.
fn reorder_back(high: u64) -> u64 {
    (high << 32) | ((high >> 16) & 0xffff_0000) | (high >> 48)
}

fn halves(uuid: [u8; 16]) -> (u64, u64) {
    let uuid = u128::from_be_bytes(uuid);
    ((uuid >> 64) as u64, uuid as u64)
}

/// An unsigned integer that sorts like timeuuids: by time, then by the remaining bytes as signed numbers.
pub(crate) fn ordered_timeuuid(uuid: [u8; 16]) -> u128 {
    let (high, low) = halves(uuid);
    (u128::from(reorder_timestamp(high)) << 64) | u128::from(low ^ 0x8080_8080_8080_8080)
}

/// The uuid that [`ordered_timeuuid`] makes this number of.
pub(crate) fn unordered_timeuuid(ordered: u128) -> [u8; 16] {
    let (high, low) = halves(ordered.to_be_bytes());
    (u128::from(reorder_back(high)) << 64 | u128::from(low ^ 0x8080_8080_8080_8080)).to_be_bytes()
}

/// An unsigned integer that sorts like uuids: by version; version 1 by time; then by the bytes.
pub(crate) fn ordered_uuid(uuid: [u8; 16]) -> u128 {
    let (high, low) = halves(uuid);
    let version = (high >> 12) & 0xf;
    let high = if version == 1 {
        reorder_timestamp(high)
    } else {
        (version << 60) | ((high >> 4) & 0x0fff_ffff_ffff_f000) | (high & 0xfff)
    };
    (u128::from(high) << 64) | u128::from(low)
}

/// The uuid that [`ordered_uuid`] makes this number of.
pub(crate) fn unordered_uuid(ordered: u128) -> [u8; 16] {
    let (high, low) = halves(ordered.to_be_bytes());
    let version = high >> 60;
    let high = if version == 1 {
        reorder_back(high)
    } else {
        ((high << 4) & 0xffff_ffff_ffff_0000) | version << 12 | (high & 0xfff)
    };
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

/// An unsigned integer that sorts like lexical uuids: as two signed numbers.
pub(crate) fn ordered_lexical_uuid(uuid: [u8; 16]) -> u128 {
    u128::from_be_bytes(uuid) ^ (1 << 127 | 1 << 63)
}

/// Splits a two's complement number into its sign byte and its bytes without redundant sign bytes. At least one byte
/// remains, whose own sign bit may disagree with the sign (`00ff` gives `00` and `ff`).
pub(crate) fn strip_sign(bytes: &[u8]) -> (u8, &[u8]) {
    let sign = if bytes.first().is_some_and(|first| first >> 7 == 1) { 0xff } else { 0 };
    let repeated = bytes.iter().take_while(|&&byte| byte == sign).count();
    (sign, &bytes[repeated.min(bytes.len().saturating_sub(1))..])
}

fn compare_varints(a: &[u8], b: &[u8]) -> Ordering {
    let ((a_sign, a), (b_sign, b)) = (strip_sign(a), strip_sign(b));
    if a_sign != b_sign {
        return b_sign.cmp(&a_sign);
    }
    let longer = if a_sign == 0 { a.len().cmp(&b.len()) } else { b.len().cmp(&a.len()) };
    longer.then_with(|| a.cmp(b))
}

/// Compares collections element by element (`types` alternate), then by count.
fn compare_elements(types: &[&CqlType], a: &[u8], b: &[u8]) -> Ordering {
    let map = types.len() == 2;
    let (mut a, mut b) = (elements(a, map), elements(b, map));
    for cql_type in types.iter().cycle() {
        let order = match (a.next(), b.next()) {
            (Some(a), Some(b)) => compare(cql_type, a, b),
            (a, b) => return a.is_some().cmp(&b.is_some()),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

/// Compares tuples element by element. Trailing nulls count as missing. Other nulls count as an empty value, except
/// where an empty value has a comparable form, as in Cassandra's tries.
fn compare_tuples<'t>(types: impl ExactSizeIterator<Item = &'t CqlType>, a: &[u8], b: &[u8]) -> Ordering {
    let count = types.len();
    let present = |bytes| TupleElements::new(bytes).take(count).enumerate().filter(|(_, e)| e.is_some());
    let len = |bytes| present(bytes).last().map_or(0, |(last, _)| last + 1);
    let (a_len, b_len) = (len(a), len(b));
    for ((cql_type, a), b) in types.zip(TupleElements::new(a).take(a_len)).zip(TupleElements::new(b).take(b_len)) {
        let value = |element: Option<&'_ [u8]>| element.filter(|e| !e.is_empty() || empty_has_form(cql_type)).is_some();
        let order = match (a, b) {
            (Some(a), Some(b)) => compare(cql_type, a, b),
            (a, b) => value(a).cmp(&value(b)),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    a_len.cmp(&b_len)
}

/// Compares vectors element by element, then by count, which can differ only in malformed values.
fn compare_vectors(element: &CqlType, dimension: u32, a: &[u8], b: &[u8]) -> Ordering {
    let (mut a, mut b) = (VectorElements::new(element, dimension, a), VectorElements::new(element, dimension, b));
    loop {
        let order = match (a.next(), b.next()) {
            (Some(a), Some(b)) => compare(element, a, b),
            (None, None) => return a.rest().cmp(b.rest()),
            (a, b) => return a.is_some().cmp(&b.is_some()),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Whether an empty value of the type has a byte-comparable form, and so differs from null inside a tuple.
pub(crate) fn empty_has_form(cql_type: &CqlType) -> bool {
    use CqlType::*;
    matches!(cql_type, Ascii | Text | Blob | Inet | Duration | DynamicComposite(_))
}
