//! Serialised values: validation, order, collections.
//!
//! A value is its bytes as the native protocol (v3 and later) and Cassandra's files hold them. An empty value (no
//! bytes) is legal for every type but the collections, tuples aside; null is the absence of bytes.

use crate::types::CqlType;
use std::cmp::Ordering;

/// Why bytes are not a value of a type. The text is Cassandra's: `Expected 4 or 0 byte int (5)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueError(pub String);

/// A value that came with a request, for one bind marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound<'a> {
    /// Null.
    Null,
    /// Not set (v4 and later).
    Unset,
    /// Bytes, not validated yet.
    Bytes(&'a [u8]),
}

/// Checks `bytes` against `cql_type`, with Cassandra's error texts.
pub fn validate(cql_type: &CqlType, bytes: &[u8]) -> Result<(), ValueError> {
    use CqlType::*;
    let len = bytes.len();
    let fail = |text: String| Err(ValueError(text));
    match cql_type {
        Ascii => match bytes.iter().find(|byte| !byte.is_ascii()) {
            Some(&byte) => fail(format!("Invalid byte for ascii: {}", byte as i8)),
            None => Ok(()),
        },
        Text if std::str::from_utf8(bytes).is_err() => fail("String didn't validate.".into()),
        Blob | Text | Varint => Ok(()),
        Bigint | Counter if len != 8 && len != 0 => fail(format!("Expected 8 or 0 byte long ({len})")),
        Boolean if len > 1 => fail(format!("Expected 1 or 0 byte value ({len})")),
        Date if len != 4 => fail(format!("Expected 4 byte long for date ({len})")),
        Decimal if len != 0 && len < 4 => fail(format!("Expected 0 or at least 4 bytes ({len})")),
        Double if len != 8 && len != 0 => fail(format!("Expected 8 or 0 byte value for a double ({len})")),
        Duration => validate_duration(bytes),
        Float if len != 4 && len != 0 => fail(format!("Expected 4 or 0 byte value for a float ({len})")),
        Inet if !matches!(len, 0 | 4 | 16) => fail(format!("Expected 4 or 16 byte inetaddress; got {len}")),
        Int if len != 4 && len != 0 => fail(format!("Expected 4 or 0 byte int ({len})")),
        Smallint if len != 2 => fail(format!("Expected 2 bytes for a smallint ({len})")),
        Time if len != 8 => fail(format!("Expected 8 byte long for time ({len})")),
        Timestamp if len != 8 && len != 0 => fail(format!("Expected 8 or 0 byte long for date ({len})")),
        Uuid | Timeuuid if len != 16 && len != 0 => fail(format!("UUID should be 16 or 0 bytes ({len})")),
        Timeuuid if len == 16 && bytes[6] >> 4 != 1 => fail("Invalid version for TimeUUID type.".into()),
        Tinyint if len != 1 => fail(format!("Expected 1 byte for a tinyint ({len})")),
        List { element, .. } => validate_elements("list", &[element], bytes),
        Set { element, .. } => validate_elements("set", &[element], bytes),
        Map { key, value, .. } => validate_elements("map", &[key, value], bytes),
        Tuple(types) => validate_tuple(types, bytes),
        _ => Ok(()),
    }
}

/// Cassandra's order of two valid values of one type (not reversed). Empty sorts first. Invalid bytes sort by memcmp.
pub fn compare(cql_type: &CqlType, a: &[u8], b: &[u8]) -> Ordering {
    use CqlType::*;
    if a.is_empty() || b.is_empty() {
        return a.len().cmp(&b.len());
    }
    // `None` from either side: not a valid value.
    let order = match cql_type {
        // Dates and times are unsigned, or never negative.
        Ascii | Blob | Text | Date | Time | Duration | Inet => None,
        Bigint | Counter | Timestamp => fixed(a, b, i64::from_be_bytes),
        Boolean => fixed(a, b, |[byte]: [u8; 1]| byte != 0),
        Decimal => crate::decimal::compare(a, b),
        Double => fixed(a, b, |bytes| ordered_f64(f64::from_be_bytes(bytes))),
        Float => fixed(a, b, |bytes| ordered_f32(f32::from_be_bytes(bytes))),
        Int => fixed(a, b, i32::from_be_bytes),
        Smallint => fixed(a, b, i16::from_be_bytes),
        Timeuuid => fixed(a, b, ordered_timeuuid),
        Tinyint => fixed(a, b, i8::from_be_bytes),
        Uuid => fixed(a, b, ordered_uuid),
        Varint => Some(compare_varints(a, b)),
        List { element, .. } | Set { element, .. } => Some(compare_elements(&[element], a, b)),
        Map { key, value, .. } => Some(compare_elements(&[key, value], a, b)),
        Tuple(types) => Some(compare_tuples(types, a, b)),
    };
    order.unwrap_or_else(|| a.cmp(b))
}

/// Compares two values of `N` bytes by what `key` makes of them.
fn fixed<const N: usize, K: Ord>(a: &[u8], b: &[u8], key: impl Fn([u8; N]) -> K) -> Option<Ordering> {
    Some(key(a.try_into().ok()?).cmp(&key(b.try_into().ok()?)))
}

/// An unsigned integer that sorts as the number does: -0 before 0, every NaN the same and last, as in Java.
pub(crate) fn ordered_f64(number: f64) -> u64 {
    let bits = if number.is_nan() { 0x7ff8_0000_0000_0000 } else { number.to_bits() };
    if bits >> 63 == 1 { !bits } else { bits ^ (1 << 63) }
}

/// [`ordered_f64`] for a float.
pub(crate) fn ordered_f32(number: f32) -> u32 {
    let bits = if number.is_nan() { 0x7fc0_0000 } else { number.to_bits() };
    if bits >> 31 == 1 { !bits } else { bits ^ (1 << 31) }
}

/// The version and timestamp of a version 1 uuid, most significant part first.
fn reorder_timestamp(high: u64) -> u64 {
    (high << 48) | ((high << 16) & 0xffff_0000_0000) | (high >> 32)
}

fn halves(uuid: [u8; 16]) -> (u64, u64) {
    let uuid = u128::from_be_bytes(uuid);
    ((uuid >> 64) as u64, uuid as u64)
}

/// An unsigned integer that sorts as timeuuids do: by time, then by the rest as signed bytes.
pub(crate) fn ordered_timeuuid(uuid: [u8; 16]) -> u128 {
    let (high, low) = halves(uuid);
    (u128::from(reorder_timestamp(high)) << 64) | u128::from(low ^ 0x8080_8080_8080_8080)
}

/// An unsigned integer that sorts as uuids do: by version, version 1 by time, then by the bytes.
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

/// The bytes of a two's complement number without those that only repeat its sign, and that sign byte. At least one
/// byte stays, and it may disagree with the sign (`00ff` gives `ff` and `00`).
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

/// Element by element (`types` take turns), then by count.
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

/// Element by element, null and missing ones first.
fn compare_tuples(types: &[CqlType], a: &[u8], b: &[u8]) -> Ordering {
    let (mut a, mut b) = (TupleElements::new(a), TupleElements::new(b));
    for cql_type in types {
        let order = match (a.next().flatten(), b.next().flatten()) {
            (Some(a), Some(b)) => compare(cql_type, a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

fn validate_duration(bytes: &[u8]) -> Result<(), ValueError> {
    let len = bytes.len();
    if len < 3 {
        return Err(ValueError(format!("Expected at least 3 bytes for a duration ({len})")));
    }
    let Some((months, days, nanoseconds)) = read_duration(bytes) else {
        return Err(ValueError(format!("Expected at least 3 bytes for a duration ({len})")));
    };
    for (name, number) in [("months", months), ("days", days)] {
        if i32::try_from(number).is_err() {
            return Err(ValueError(format!("The duration {name} must be a 32 bits integer but was: {number}")));
        }
    }
    let parts = [months, days, nanoseconds];
    if parts.iter().any(|&part| part < 0) && parts.iter().any(|&part| part > 0) {
        return Err(ValueError(format!(
            "The duration months, days and nanoseconds must be all of the same sign ({months}, {days}, {nanoseconds})"
        )));
    }
    Ok(())
}

/// Months, days and nanoseconds of a serialised duration: three signed vints.
pub(crate) fn read_duration(mut bytes: &[u8]) -> Option<(i64, i64, i64)> {
    Some((read_vint(&mut bytes)?, read_vint(&mut bytes)?, read_vint(&mut bytes)?))
}

/// Appends a serialised duration.
pub(crate) fn push_duration(out: &mut Vec<u8>, months: i32, days: i32, nanoseconds: i64) {
    for number in [months.into(), days.into(), nanoseconds] {
        push_vint(out, number);
    }
}

/// A zigzag number whose first byte has one leading 1 bit per byte that follows.
fn read_vint(bytes: &mut &[u8]) -> Option<i64> {
    let (&first, rest) = bytes.split_first()?;
    let extra = first.leading_ones() as usize;
    let (tail, rest) = rest.split_at_checked(extra)?;
    *bytes = rest;
    let head = if extra < 8 { u64::from(first) & (0xff >> extra) } else { 0 };
    let raw = tail.iter().fold(head, |raw, &byte| (raw << 8) | u64::from(byte));
    Some((raw >> 1) as i64 ^ -((raw & 1) as i64))
}

fn push_vint(out: &mut Vec<u8>, number: i64) {
    let raw = ((number << 1) ^ (number >> 63)) as u64;
    let bits = 64 - (raw | 1).leading_zeros() as usize;
    let extra = ((bits - 1) / 7).min(8);
    let bytes = raw.to_be_bytes();
    match extra {
        8 => out.push(0xff),
        _ => out.push(bytes[7 - extra] | !(0xffu16 >> extra) as u8),
    }
    out.extend_from_slice(&bytes[8 - extra..]);
}

/// Checks a list, set or map; `types` take turns.
fn validate_elements(name: &str, types: &[&CqlType], bytes: &[u8]) -> Result<(), ValueError> {
    if bytes.is_empty() {
        return Ok(());
    }
    let short = || ValueError(format!("Not enough bytes to read a {name}"));
    let (count, mut rest) = bytes.split_first_chunk().ok_or_else(short)?;
    for _ in 0..i32::from_be_bytes(*count) {
        for cql_type in types {
            let element = take_element(&mut rest).ok_or_else(short)?;
            validate(cql_type, element.ok_or_else(|| ValueError("Null value read when not allowed".into()))?)?;
        }
    }
    if !rest.is_empty() {
        return Err(ValueError(format!("Unexpected extraneous bytes after {name} value")));
    }
    Ok(())
}

fn validate_tuple(types: &[CqlType], bytes: &[u8]) -> Result<(), ValueError> {
    let mut rest = bytes;
    for (i, cql_type) in types.iter().enumerate() {
        // Elements may be missing at the end.
        if rest.is_empty() {
            return Ok(());
        }
        if rest.len() < 4 {
            return Err(ValueError(format!("Not enough bytes to read size of {i}th component")));
        }
        let element =
            take_element(&mut rest).ok_or_else(|| ValueError(format!("Not enough bytes to read {i}th component")))?;
        if let Some(element) = element {
            validate(cql_type, element)?;
        }
    }
    if !rest.is_empty() {
        return Err(ValueError("Invalid remaining data after end of tuple value".into()));
    }
    Ok(())
}

/// The next element: `Some(None)` is a null, `None` malformed.
fn take_element<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (len, tail) = rest.split_first_chunk()?;
    let len = i32::from_be_bytes(*len);
    let (element, tail) = tail.split_at_checked(len.max(0) as usize)?;
    *rest = tail;
    Some((len >= 0).then_some(element))
}

/// The elements of a serialised tuple, null for null; ends where the bytes end.
#[derive(Clone, Debug)]
pub struct TupleElements<'a> {
    rest: &'a [u8],
}

impl<'a> TupleElements<'a> {
    /// Over a valid tuple.
    pub fn new(bytes: &'a [u8]) -> TupleElements<'a> {
        TupleElements { rest: bytes }
    }
}

impl<'a> Iterator for TupleElements<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        take_element(&mut self.rest)
    }
}

/// Appends a collection's or tuple's element: `[int length][bytes]`, -1 for null.
pub fn push_element(out: &mut Vec<u8>, element: Option<&[u8]>) {
    match element {
        Some(bytes) => {
            out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
            out.extend_from_slice(bytes);
        }
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
    }
}

/// The elements of a serialised list, set or map (keys and values alternating for a map: `2 * count` elements).
/// Ends early at the first malformed element; `validate` tells malformed bytes beforehand.
pub fn elements(bytes: &[u8], map: bool) -> impl Iterator<Item = &[u8]> {
    let (count, mut rest) = match bytes.split_first_chunk() {
        Some((count, rest)) => (i32::from_be_bytes(*count), rest),
        None => (0, bytes),
    };
    let mut left = i64::from(count.max(0)) * if map { 2 } else { 1 };
    std::iter::from_fn(move || {
        left = (left > 0).then(|| left - 1)?;
        take_element(&mut rest)?
    })
}
