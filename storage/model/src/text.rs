//! Values as text, parsing and formatting: CQL literals for DESCRIBE, errors and the dump tools.
//!
//! Parsing follows `fromString` of Cassandra's types, formatting their `toCQLLiteral`, errors included. Numbers are in
//! `text/number.rs`, dates and times in `text/date.rs`, `text/time.rs` and `text/timestamp.rs`, the calendar in
//! `text/calendar.rs`, instants in UTC in `text/instant.rs`, durations in `text/duration.rs`, addresses in
//! `text/inet.rs`.
//!
//! What is not here: literals of collections, which the CQL parser takes apart; and what needs a clock or a name
//! service (`'now'` for a timestamp, host names for an address), which is an error.

pub mod calendar;
mod composite;
mod date;
mod duration;
pub(crate) mod floating;
pub(crate) mod inet;
pub mod instant;
mod number;
mod time;
pub(crate) mod timestamp;
mod zone;

use crate::identifier;
use crate::types::{CqlType, UserType};
use crate::value::{self, TupleElements, ValueError, VectorElements, elements, push_element};
use std::fmt::Write;

/// Most digits of a varint or decimal literal.
pub const NUMBER_DIGITS_MAX: usize = 100_000;

/// The value as a CQL literal: `'it''s'`, `0xcafe`, `1.50`, `'2024-01-31'`, `{1, 2}`. An empty value of a type that is
/// not text is `null`; bytes that are not of the type are written as a blob.
pub fn to_literal(cql_type: &CqlType, bytes: &[u8]) -> String {
    let mut out = String::new();
    push_literal(cql_type, bytes, &mut out);
    out
}

/// The value without quotes, as `getString` of Cassandra's types: collections and vectors in hex, tuples as `1:abc`,
/// composite types as `text/composite.rs` says; empty for an empty value.
pub fn to_plain(cql_type: &CqlType, bytes: &[u8]) -> String {
    use CqlType::*;
    let mut out = String::new();
    match cql_type {
        _ if bytes.is_empty() => {}
        Ascii | Text => out.push_str(&String::from_utf8_lossy(bytes)),
        Blob | List { .. } | Set { .. } | Map { .. } | Vector { .. } => push_hex(bytes, &mut out),
        Tuple(types) => push_fields(types.iter(), bytes, &mut out),
        User { definition, .. } => push_fields(definition.field_types(), bytes, &mut out),
        Composite(_) | DynamicComposite(_) => {
            if composite::push(cql_type, bytes, &mut out).is_none() {
                push_hex(bytes, &mut out);
            }
        }
        _ => {
            let literal = to_literal(cql_type, bytes);
            out.push_str(literal.strip_prefix('\'').and_then(|inner| inner.strip_suffix('\'')).unwrap_or(&literal));
        }
    }
    out
}

fn push_hex(bytes: &[u8], out: &mut String) {
    bytes.iter().for_each(|byte| push(out, format_args!("{byte:02x}")));
}

/// Appends the fields of a tuple: `1:abc`, `@` for null.
fn push_fields<'t>(types: impl Iterator<Item = &'t CqlType>, bytes: &[u8], out: &mut String) {
    for (i, (cql_type, field)) in types.zip(TupleElements::new(bytes)).enumerate() {
        out.push_str(if i == 0 { "" } else { ":" });
        match field {
            None => out.push('@'),
            Some(field) => out.push_str(&to_plain(cql_type, field).replace(':', "\\:").replace('@', "\\@")),
        }
    }
}

/// The value of a quoted literal, given without its quotes, for types that are written so: ascii, text, inet, date,
/// time, timestamp (all of Cassandra's patterns), ISO 8601 durations, tuples as `1:abc`, composite types; collections
/// and vectors as the hex of their bytes, as inside such a tuple.
pub fn from_quoted(cql_type: &CqlType, text: &str) -> Result<Vec<u8>, ValueError> {
    use CqlType::*;
    let fail = |text: String| Err(ValueError(text));
    if text.is_empty() && !matches!(cql_type, Boolean | Date | Time) {
        return Ok(Vec::new());
    }
    match cql_type {
        Ascii if !text.is_ascii() => fail(
            "Invalid ASCII character in string literal: \
             java.nio.charset.UnmappableCharacterException: Input length = 1"
                .into(),
        ),
        Ascii | Text => Ok(text.as_bytes().to_vec()),
        Blob => number::parse_hex(text),
        Boolean if text.eq_ignore_ascii_case("true") => Ok(vec![1]),
        Boolean if text.eq_ignore_ascii_case("false") || text.is_empty() => Ok(vec![0]),
        Boolean => fail(format!("Unable to make boolean from '{text}'")),
        Bigint | Counter => number::parse_int::<i64>(text, "long").map(|n| n.to_be_bytes().to_vec()),
        Int => number::parse_int::<i32>(text, "int").map(|n| n.to_be_bytes().to_vec()),
        Smallint => number::parse_int::<i16>(text, "short").map(|n| n.to_be_bytes().to_vec()),
        Tinyint => number::parse_int::<i8>(text, "byte").map(|n| n.to_be_bytes().to_vec()),
        Varint => number::parse_varint(text),
        Decimal => number::parse_decimal(text),
        Double => number::parse_double(text).map(|n| n.to_be_bytes().to_vec()),
        Float => number::parse_float(text).map(|n| n.to_be_bytes().to_vec()),
        Date => date::parse(text).map(|day| day.to_be_bytes().to_vec()),
        Time => time::parse(text).map(|nanoseconds| nanoseconds.to_be_bytes().to_vec()),
        Timestamp => timestamp::parse(text).map(|milliseconds| milliseconds.to_be_bytes().to_vec()),
        Duration => {
            let mut out = Vec::new();
            duration::parse(text)?.push(&mut out);
            Ok(out)
        }
        Empty if text.is_empty() => Ok(Vec::new()),
        Empty => fail(format!("'{text}' is not empty")),
        Inet => inet::parse(text),
        LexicalUuid => match parse_lenient_uuid(text) {
            Some(uuid) => Ok(uuid.to_be_bytes().to_vec()),
            None => fail(format!("unable to make UUID from '{text}'")),
        },
        Uuid => match parse_uuid(text) {
            Some(uuid) => Ok(uuid.to_vec()),
            None => fail(format!("Unable to make UUID from '{text}'")),
        },
        Timeuuid => match parse_uuid(text) {
            Some(uuid) if uuid[6] >> 4 == 1 => Ok(uuid.to_vec()),
            Some(_) => fail("TimeUUID supports only version 1 UUIDs".into()),
            None => fail(format!("Unknown timeuuid representation: {text}")),
        },
        List { .. } | Set { .. } | Map { .. } | Vector { .. } => {
            let bytes = number::parse_hex(text)?;
            value::validate(cql_type, &bytes).map(|()| bytes)
        }
        Tuple(types) => parse_fields(cql_type, types.iter(), text),
        User { definition, .. } => parse_fields(cql_type, definition.field_types(), text),
        Composite(_) | DynamicComposite(_) => composite::parse(cql_type, text),
    }
}

/// The value of a tuple written as `1:abc`: `@` is null, `\:` and `\@` are the characters themselves; missing trailing
/// elements stay missing.
fn parse_fields<'t>(
    cql_type: &CqlType,
    types: impl ExactSizeIterator<Item = &'t CqlType>,
    text: &str,
) -> Result<Vec<u8>, ValueError> {
    let mut fields = vec![String::new()];
    for (i, part) in text.split(':').enumerate() {
        match fields.last_mut() {
            Some(field) if i > 0 && field.ends_with('\\') => {
                field.push(':');
                field.push_str(part);
            }
            Some(field) if i == 0 => field.push_str(part),
            _ => fields.push(part.to_owned()),
        }
    }
    let (expected, given) = (types.len(), fields.len());
    if given > expected {
        return Err(ValueError(format!(
            "Invalid tuple literal: too many elements. Type {cql_type} expects {expected} but got {given}"
        )));
    }
    let mut out = Vec::new();
    for (field, cql_type) in fields.iter().zip(types) {
        match field.as_str() {
            "@" => push_element(&mut out, None),
            field => {
                let field = field.replace("\\:", ":").replace("\\@", "@");
                let value = from_quoted(cql_type, &field)?;
                // Cassandra would store an empty value of any type here.
                value::validate(cql_type, &value)?;
                push_element(&mut out, Some(&value));
            }
        }
    }
    Ok(out)
}

/// The value of a number, duration, uuid, boolean or blob literal, as written.
pub fn from_bare(cql_type: &CqlType, text: &str) -> Result<Vec<u8>, ValueError> {
    let text = match cql_type {
        CqlType::Blob => text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text),
        _ => text,
    };
    from_quoted(cql_type, text)
}

fn push_literal(cql_type: &CqlType, bytes: &[u8], out: &mut String) {
    use CqlType::*;
    let has_literal = matches!(cql_type, Ascii | Text | Blob | Tuple(_) | User { .. }) || cql_type.is_composite();
    if bytes.is_empty() && !has_literal {
        return out.push_str("null");
    }
    if push_typed(cql_type, bytes, out).is_none() {
        out.push_str("0x");
        push_hex(bytes, out);
    }
}

/// Appends the literal; `None`, with nothing appended, for blobs and for bytes that are not of the type.
fn push_typed(cql_type: &CqlType, bytes: &[u8], out: &mut String) -> Option<()> {
    use CqlType::*;
    match cql_type {
        Ascii | Text => push_quoted(&String::from_utf8_lossy(bytes), out),
        Blob => return None,
        Boolean => out.push_str(if fixed(bytes)? == [0] { "false" } else { "true" }),
        Bigint | Counter => push(out, i64::from_be_bytes(fixed(bytes)?)),
        Int => push(out, i32::from_be_bytes(fixed(bytes)?)),
        Smallint => push(out, i16::from_be_bytes(fixed(bytes)?)),
        Tinyint => push(out, i8::from_be_bytes(fixed(bytes)?)),
        Varint => number::push_varint(bytes, out)?,
        Decimal => number::push_decimal(bytes, out)?,
        Double => floating::push_double(f64::from_be_bytes(fixed(bytes)?), out),
        Float => floating::push_float(f32::from_be_bytes(fixed(bytes)?), out),
        Date => push_quoted(&date::format(u32::from_be_bytes(fixed(bytes)?)), out),
        Time => push_quoted(&time::format(i64::from_be_bytes(fixed(bytes)?)), out),
        Timestamp => push_quoted(&timestamp::format(i64::from_be_bytes(fixed(bytes)?)), out),
        Duration => duration::push(&crate::value::Duration::read(bytes)?, out),
        Empty | Composite(_) | DynamicComposite(_) => return None,
        Inet => push_quoted(&inet::format(bytes)?, out),
        LexicalUuid | Uuid | Timeuuid => push(out, uuid::Uuid::from_bytes(fixed(bytes)?)),
        List { element, .. } => push_elements(&[element], bytes, ['[', ']'], out),
        Set { element, .. } => push_elements(&[element], bytes, ['{', '}'], out),
        Map { key, value, .. } => push_elements(&[key, value], bytes, ['{', '}'], out),
        Tuple(types) => push_tuple(types, bytes, out),
        Vector { element, dimension } => push_vector(element, *dimension, bytes, out),
        User { definition, .. } => push_user_type(definition, bytes, out),
    }
    Some(())
}

/// Appends a number or boolean; `None` if the bytes are not of the type.
pub(crate) fn push_number(cql_type: &CqlType, bytes: &[u8], out: &mut String) -> Option<()> {
    push_typed(cql_type, bytes, out)
}

/// Appends formatted text; writing to a `String` cannot fail.
pub(crate) fn push(out: &mut String, item: impl std::fmt::Display) {
    let _ = write!(out, "{item}");
}

/// A value of `N` bytes; `None` for another length.
fn fixed<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

fn push_quoted(text: &str, out: &mut String) {
    out.push('\'');
    out.push_str(&text.replace('\'', "''"));
    out.push('\'');
}

/// Appends a collection; `types` alternate (key and value of a map).
fn push_elements(types: &[&CqlType], bytes: &[u8], [open, close]: [char; 2], out: &mut String) {
    out.push(open);
    for (i, element) in elements(bytes, types.len() == 2).enumerate() {
        let place = i % types.len();
        out.push_str(match (i, place) {
            (0, _) => "",
            (_, 0) => ", ",
            _ => ": ",
        });
        push_literal(types[place], element, out);
    }
    out.push(close);
}

fn push_tuple(types: &[CqlType], bytes: &[u8], out: &mut String) {
    out.push('(');
    for (i, (cql_type, element)) in types.iter().zip(TupleElements::new(bytes)).enumerate() {
        out.push_str(if i == 0 { "" } else { ", " });
        match element {
            Some(element) => push_literal(cql_type, element, out),
            None => out.push_str("null"),
        }
    }
    out.push(')');
}

fn push_vector(element_type: &CqlType, dimension: u32, bytes: &[u8], out: &mut String) {
    out.push('[');
    for (i, element) in VectorElements::new(element_type, dimension, bytes).enumerate() {
        out.push_str(if i == 0 { "" } else { ", " });
        push_literal(element_type, element, out);
    }
    out.push(']');
}

fn push_user_type(definition: &UserType, bytes: &[u8], out: &mut String) {
    out.push('{');
    // Missing trailing fields are left out.
    for (i, ((name, cql_type), value)) in definition.fields.iter().zip(TupleElements::new(bytes)).enumerate() {
        push(out, format_args!("{}{}: ", if i == 0 { "" } else { ", " }, identifier::quoted(name)));
        match value {
            Some(value) => push_literal(cql_type, value, out),
            None => out.push_str("null"),
        }
    }
    out.push('}');
}

/// Parses a uuid as Java does: five hexadecimal numbers, of which the lowest 32, 16, 16, 16 and 48 bits count.
fn parse_lenient_uuid(text: &str) -> Option<u128> {
    let number = |part: &str| u64::from_str_radix(part, 16).ok().filter(|number| *number <= i64::MAX as u64);
    let parts: Vec<u64> = text.split('-').map(number).collect::<Option<_>>()?;
    let [a, b, c, d, e] = parts[..] else { return None };
    let short = |number: u64| u128::from(number as u16);
    let last = u128::from(e) & ((1 << 48) - 1);
    Some(u128::from(a as u32) << 96 | short(b) << 80 | short(c) << 64 | short(d) << 48 | last)
}

/// Parses a uuid, in the form `8-4-4-4-12` only.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let hyphenated = text.len() == 36;
    uuid::Uuid::try_parse(text).ok().filter(|_| hyphenated).map(uuid::Uuid::into_bytes)
}

/// The number that a non-empty text of ASCII digits stands for.
fn digits(text: &str) -> Option<u64> {
    let all = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| all)
}

/// Whether the text is an optional minus sign and digits: a raw number where a date or time is expected.
fn is_raw_number(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit())
}
