//! Byte-comparable forms of values: their memcmp order is the order of the type.
//!
//! Source: Cassandra's `ByteComparable.md` (version OSS50), so that tries of the `da` format use the same bytes.
//! A clustering is a separator and the component's form per component, then a terminator (`0x38`). A bound ends with
//! `0x20` (before everything with this prefix) or `0x60` (after it) instead.
//! * A null at the end of a clustering: `0x3e` alone. It sorts before every value, also in reversed order.
//! * Separators: `0x40` before a form; `0x3f` alone for an empty value of a type whose empty value has no form; `0x41`
//!   for such a value in reversed order; inside collections and tuples `0x3e` both for it and for null.
//! * Text, ascii, blob, inet, duration: the bytes, with a run of zeros written as `00 fe.. ff`, then `00` (or `fe`
//!   after zeros).
//! * Int, smallint, tinyint, timestamp: sign bit flipped. Date and time: as they are. Boolean: 0 or 1.
//! * Bigint: the sign, one bit per byte that follows, the number; below zero all bits are inverted. Varint: the same up
//!   to 6 bytes, then `ff` or `00`, the length minus 7, the bytes.
//! * Float, double: sign bit flipped, below zero all bits inverted; every NaN as the one NaN that Java writes.
//! * Decimal: `80 + 40 + length` of the base-100 exponent (a negative number: `40 - length`), the exponent, pairs of
//!   digits plus `80`, then `00`. Uuids: version and time first.
//!   Lexical uuids: the sign bits of both halves flipped.
//! * Lists, sets, maps, tuples: separator and form per element, then `38`; trailing nulls of a tuple are left out.
//! * `CompositeType`: `40`, or `3e` for the static part of a row; per component its separator and form, then `40` and
//!   the end with its sign bit flipped; `38`. `DynamicCompositeType`: the same with the last word of the class and the
//!   class before each component, as texts with separators; before those `ReversedType`, if the class is reversed.
//!   Cassandra leaves out the parameters of the class, and writes `3e` instead of `41` for an empty component in
//!   reversed order: its forms of such values do not sort as it compares them.
//! * Reversed order: all bits of the form inverted.
//!
//! Invariants: forms sort like their values whatever separators or terminators follow (the empty text `00` is a prefix
//! of the form of a zero byte, `00 fe`, but every separator is below `fe`); equal values (1.0 and 1.00) have equal
//! forms.

mod prefix;

pub use prefix::prefix_of;

use crate::decimal::Scientific;
use crate::schema::{Column, Table};
use crate::types::{Component, CqlType};
use crate::value::{self, Comparator, Components, TupleElements, ValueError, VectorElements};

/// The separator before a form.
const NEXT: u8 = 0x40;
/// The separator of an empty value without a form.
const NEXT_EMPTY: u8 = 0x3f;
/// The separator of an empty value without a form in reversed order.
const NEXT_EMPTY_REVERSED: u8 = 0x41;
/// A null of a clustering in either order; inside a collection or tuple also an empty value without a form.
const NEXT_NULL: u8 = 0x3e;
/// Ends a clustering, collection or tuple.
pub const TERMINATOR: u8 = 0x38;
/// Ends a bound before everything with its prefix.
const BEFORE: u8 = 0x20;
/// Ends a bound after everything with its prefix.
const AFTER: u8 = 0x60;

/// Longest varint, in bytes without redundant sign bytes, that is written like a bigint.
const SHORT_VARINT_BYTES_MAX: usize = 6;

/// Appends the form of one valid value, without a separator. Appends nothing for an empty value of a type whose empty
/// value has no form, which is every type but text, ascii, blob, inet and duration.
pub fn encode(cql_type: &CqlType, value: &[u8], reversed: bool, out: &mut Vec<u8>) {
    let start = out.len();
    if has_form(cql_type, value) {
        push_form(cql_type, value, out);
        if reversed {
            out[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
}

/// The side on which a bound lies of all rows that begin with its prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BoundSide {
    /// Before all of them.
    Before,
    /// After all of them.
    After,
}

impl BoundSide {
    /// The last byte of a bound's form.
    fn end(self) -> u8 {
        match self {
            BoundSide::Before => BEFORE,
            BoundSide::After => AFTER,
        }
    }
}

/// Appends the form of a row's clustering. `components` are its values in table order; a row of a compact table may
/// lack the last ones, which are null then.
pub fn clustering<'a>(table: &Table, components: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    push_row(table, components, out);
    out.push(TERMINATOR);
}

/// Appends the form of a bound right before or after one row, whose clustering is given as for [`clustering`].
pub fn row_bound<'a>(table: &Table, components: impl Iterator<Item = &'a [u8]>, side: BoundSide, out: &mut Vec<u8>) {
    push_row(table, components, out);
    out.push(side.end());
}

fn push_row<'a>(table: &Table, components: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    let given = push_components(table.clustering(), components, out);
    out.extend(std::iter::repeat_n(NEXT_NULL, table.clustering_len.saturating_sub(given)));
}

/// Appends the form of a bound, whose prefix of the clustering may be empty.
pub fn bound<'a>(table: &Table, prefix: impl Iterator<Item = &'a [u8]>, side: BoundSide, out: &mut Vec<u8>) {
    push_components(table.clustering(), prefix, out);
    out.push(side.end());
}

/// The side of the bound with this form; `None` for the form of a clustering or for no bytes.
pub fn side(bound: &[u8]) -> Option<BoundSide> {
    match bound.last() {
        Some(&BEFORE) => Some(BoundSide::Before),
        Some(&AFTER) => Some(BoundSide::After),
        _ => None,
    }
}

/// Appends the forms of values and returns how many there were.
fn push_components<'a>(columns: &[Column], components: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) -> usize {
    let mut count = 0;
    for (column, component) in columns.iter().zip(components) {
        push_component(&column.cql_type, component, column.descending, out);
        count += 1;
    }
    count
}

/// Appends the separator and form of one clustering value.
fn push_component(cql_type: &CqlType, value: &[u8], reversed: bool, out: &mut Vec<u8>) {
    out.push(match (has_form(cql_type, value), reversed) {
        (true, _) => NEXT,
        (false, false) => NEXT_EMPTY,
        (false, true) => NEXT_EMPTY_REVERSED,
    });
    encode(cql_type, value, reversed, out);
}

fn has_form(cql_type: &CqlType, value: &[u8]) -> bool {
    !value.is_empty() || value::empty_has_form(cql_type)
}

/// Appends a form; bytes that are not of the type count as a blob.
fn push_form(cql_type: &CqlType, value: &[u8], out: &mut Vec<u8>) {
    if push_typed(cql_type, value, out).is_none() {
        push_escaped(value, out);
    }
}

/// Appends the form; `None`, with nothing appended, if the value is not of the type.
fn push_typed(cql_type: &CqlType, value: &[u8], out: &mut Vec<u8>) -> Option<()> {
    use CqlType::*;
    match cql_type {
        Ascii | Text | Blob | Inet | Duration => push_escaped(value, out),
        Empty => {}
        Bigint | Counter => push_bigint(i64::from_be_bytes(value.try_into().ok()?), out),
        Timestamp => push_fixed(value, out, |bytes| (i64::from_be_bytes(bytes) ^ i64::MIN).to_be_bytes())?,
        Int => push_fixed(value, out, |bytes| (i32::from_be_bytes(bytes) ^ i32::MIN).to_be_bytes())?,
        Smallint => push_fixed(value, out, |bytes| (i16::from_be_bytes(bytes) ^ i16::MIN).to_be_bytes())?,
        Tinyint => push_fixed(value, out, |bytes| (i8::from_be_bytes(bytes) ^ i8::MIN).to_be_bytes())?,
        Boolean => push_fixed(value, out, |[byte]| [u8::from(byte != 0)])?,
        Date => push_fixed::<4>(value, out, |bytes| bytes)?,
        Time => push_fixed::<8>(value, out, |bytes| bytes)?,
        Double => push_fixed(value, out, |bytes| value::ordered_f64(f64::from_be_bytes(bytes)).to_be_bytes())?,
        Float => push_fixed(value, out, |bytes| value::ordered_f32(f32::from_be_bytes(bytes)).to_be_bytes())?,
        Uuid => push_fixed(value, out, |bytes| value::ordered_uuid(bytes).to_be_bytes())?,
        LexicalUuid => push_fixed(value, out, |bytes| value::ordered_lexical_uuid(bytes).to_be_bytes())?,
        Timeuuid => push_fixed(value, out, |bytes| value::ordered_timeuuid(bytes).to_be_bytes())?,
        Varint => push_varint(value, out),
        Decimal => push_decimal(&Scientific::read(value)?, out),
        List { element, .. } | Set { element, .. } => push_elements(&[element], value, out),
        Map { key, value: values, .. } => push_elements(&[key, values], value, out),
        Tuple(types) => push_tuple(types.iter(), value, out),
        User { definition, .. } => push_tuple(definition.field_types(), value, out),
        Vector { element, dimension } => push_vector(element, *dimension, value, out),
        Composite(_) | DynamicComposite(_) => push_composite(cql_type, value, out)?,
    }
    Some(())
}

/// Appends what `form` makes of a value of `N` bytes; `None` for any other length.
fn push_fixed<const N: usize>(value: &[u8], out: &mut Vec<u8>, form: impl Fn([u8; N]) -> [u8; N]) -> Option<()> {
    out.extend_from_slice(&form(value.try_into().ok()?));
    Some(())
}

fn push_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&byte| byte == 0) {
        let (before, after) = rest.split_at(at);
        let zeros = after.iter().take_while(|&&byte| byte == 0).count();
        rest = &after[zeros..];
        out.extend_from_slice(before);
        out.push(0);
        out.extend(std::iter::repeat_n(0xfe, zeros - 1));
        if rest.is_empty() {
            return out.push(0xfe);
        }
        out.push(0xff);
    }
    out.extend_from_slice(rest);
    out.push(0);
}

fn push_bigint(number: i64, out: &mut Vec<u8>) {
    let magnitude = (number ^ (number >> 63)) as u64;
    let bits = 64 - magnitude.leading_zeros() as usize;
    // The first byte holds 6 bits besides sign and mark, each further byte 7 more; nine bytes need no mark.
    let extra = bits.saturating_sub(6).div_ceil(7).min(8);
    let width = 8 * (extra + 1);
    let marks = ((1u128 << (extra + 1)) - 1) << (width - extra - 1);
    let form = u128::from(magnitude) | marks;
    let form = if number < 0 { !form } else { form };
    out.extend_from_slice(&form.to_be_bytes()[16 - extra - 1..]);
}

fn push_varint(bytes: &[u8], out: &mut Vec<u8>) {
    let (sign, stripped) = value::strip_sign(bytes);
    if stripped.len() <= SHORT_VARINT_BYTES_MAX {
        let number = stripped.iter().fold(i64::from(sign as i8), |number, &byte| (number << 8) | i64::from(byte));
        return push_bigint(number, out);
    }
    out.push(!sign);
    // The length, with one leading 1 bit per byte that follows.
    let length = (stripped.len() - SHORT_VARINT_BYTES_MAX - 1) as u64;
    let bits = 64 - (length | 1).leading_zeros() as usize;
    let extra = (bits - 1) / 7;
    let marks = !(u64::MAX >> extra) >> (56 - 8 * extra);
    let form = length | marks;
    out.extend(form.to_be_bytes()[7 - extra..].iter().map(|byte| byte ^ sign));
    out.extend_from_slice(stripped);
}

fn push_decimal(decimal: &Scientific, out: &mut Vec<u8>) {
    if decimal.digits.is_empty() {
        return out.push(0x80);
    }
    // Rounded up to keep the mantissa below one.
    let exponent = (decimal.exponent + 1).div_euclid(2);
    let signed = if decimal.negative { -exponent } else { exponent };
    let len = (64 - signed.unsigned_abs().leading_zeros() as usize).div_ceil(8);
    let header = if signed < 0 { 0x40 - len as u8 } else { 0x40 + len as u8 };
    out.push(header + if decimal.negative { 0 } else { 0x80 });
    out.extend_from_slice(&signed.to_be_bytes()[8 - len..]);
    let lead = (2 * exponent - decimal.exponent) as usize;
    let mut digits = std::iter::repeat_n(0, lead).chain(decimal.digits.iter().copied());
    let mut pair = || digits.next().map(|tens| tens * 10 + digits.next().unwrap_or(0));
    let mut first = true;
    let mut next = pair();
    while let Some(current) = next {
        next = pair();
        let last = u8::from(next.is_none());
        out.push(match (decimal.negative, first) {
            (false, _) => 0x80 + current,
            // Rounded down: the digits after this pair are added again by what follows.
            (true, true) => 0x80 - current - 1 + last,
            (true, false) => 0x80 + 99 - current + last,
        });
        first = false;
    }
    out.push(0);
}

/// Appends the elements of a collection; `types` alternate (key and value of a map).
fn push_elements(types: &[&CqlType], bytes: &[u8], out: &mut Vec<u8>) {
    for (cql_type, element) in types.iter().cycle().zip(value::elements(bytes, types.len() == 2)) {
        push_element(cql_type, element, out);
    }
    out.push(TERMINATOR);
}

fn push_element(cql_type: &CqlType, element: &[u8], out: &mut Vec<u8>) {
    if has_form(cql_type, element) {
        out.push(NEXT);
        push_form(cql_type, element, out);
    } else {
        out.push(NEXT_NULL);
    }
}

fn push_tuple<'t>(types: impl Iterator<Item = &'t CqlType>, bytes: &[u8], out: &mut Vec<u8>) {
    let mut nulls = 0;
    for (cql_type, element) in types.zip(TupleElements::new(bytes)) {
        match element {
            None => nulls += 1,
            Some(element) => {
                out.extend(std::iter::repeat_n(NEXT_NULL, nulls));
                nulls = 0;
                push_element(cql_type, element, out);
            }
        }
    }
    out.push(TERMINATOR);
}

fn push_vector(element_type: &CqlType, dimension: u32, bytes: &[u8], out: &mut Vec<u8>) {
    for element in VectorElements::new(element_type, dimension, bytes) {
        push_element(element_type, element, out);
    }
    out.push(TERMINATOR);
}

/// Appends the form; `None`, with nothing appended, if the value is not of the type.
fn push_composite(cql_type: &CqlType, bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    let pushed = push_parts(cql_type, bytes, out);
    if pushed.is_err() {
        out.truncate(start);
    }
    pushed.ok()
}

fn push_parts(cql_type: &CqlType, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let mut components = Components::new(cql_type, bytes);
    out.push(if components.is_static { NEXT_NULL } else { NEXT });
    while let Some(part) = components.component()? {
        let Component { cql_type, reversed } = &*part.component;
        if !matches!(part.comparator, Comparator::Position) {
            let words = part.component.class_words().map(str::to_owned);
            for name in words.chain([cql_type.class_name()]) {
                out.push(NEXT);
                push_escaped(name.as_bytes(), out);
            }
        }
        match (has_form(cql_type, part.value), reversed) {
            (false, false) => out.push(NEXT_NULL),
            _ => push_component(cql_type, part.value, *reversed, out),
        }
        out.extend_from_slice(&[NEXT, components.end()? as u8 ^ 0x80]);
    }
    out.push(TERMINATOR);
    Ok(())
}
