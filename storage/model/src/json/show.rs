//! Writes values as JSON texts.

use crate::text::{self};
use crate::text::{floating, inet, timestamp};
use crate::types::{CqlType, UserType};
use crate::value::{TupleElements, VectorElements, elements};

/// The JSON text of a valid value: `1.5`, `"0xcafe"`, `{"a": [1, 2]}`. An empty value of a type that is not text is an
/// empty string; numbers that JSON cannot express are null. Bytes that are not of the type are written as a blob.
pub fn to_json(cql_type: &CqlType, bytes: &[u8]) -> String {
    let mut out = String::new();
    push_json(cql_type, bytes, &mut out);
    out
}

/// Appends [`to_json`].
pub fn push_json(cql_type: &CqlType, bytes: &[u8], out: &mut String) {
    let start = out.len();
    if push_typed(cql_type, bytes, out).is_none() {
        out.truncate(start);
        push_blob(bytes, out);
    }
}

/// Appends a JSON string, escaped as Jackson does.
pub fn push_string(text: &str, out: &mut String) {
    out.push('"');
    push_escaped(text, out);
    out.push('"');
}

fn push_escaped(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..=' ' if c != ' ' => text::push(out, format_args!("\\u{:04X}", c as u32)),
            c => out.push(c),
        }
    }
}

fn push_blob(bytes: &[u8], out: &mut String) {
    out.push_str("\"0x");
    bytes.iter().for_each(|byte| text::push(out, format_args!("{byte:02x}")));
    out.push('"');
}

/// Appends the text; `None`, with nothing appended, for blobs and for bytes that are not of the type.
fn push_typed(cql_type: &CqlType, bytes: &[u8], out: &mut String) -> Option<()> {
    use CqlType::*;
    let nested = cql_type.is_collection() || matches!(cql_type, Blob | Tuple(_) | User { .. } | Vector { .. });
    if bytes.is_empty() && !nested {
        out.push_str("\"\"");
        return Some(());
    }
    match cql_type {
        Ascii | Text => push_string(&String::from_utf8_lossy(bytes), out),
        Blob | Empty => return None,
        Float => {
            let number = f32::from_be_bytes(bytes.try_into().ok()?);
            if number.is_finite() { floating::push_float(number, out) } else { out.push_str("null") }
        }
        Double => {
            let number = f64::from_be_bytes(bytes.try_into().ok()?);
            if number.is_finite() { floating::push_double(number, out) } else { out.push_str("null") }
        }
        Timestamp => push_string(&timestamp::format_json(i64::from_be_bytes(bytes.try_into().ok()?)), out),
        Inet => push_string(&inet::format(bytes)?, out),
        Date | Time => push_string(text::to_literal(cql_type, bytes).trim_matches('\''), out),
        Duration => push_string(&text::to_literal(cql_type, bytes), out),
        Composite(_) | DynamicComposite(_) => push_string(&text::to_plain(cql_type, bytes), out),
        LexicalUuid | Uuid | Timeuuid => {
            uuid::Uuid::from_slice(bytes).ok()?;
            push_string(&text::to_literal(cql_type, bytes), out);
        }
        Boolean | Bigint | Counter | Int | Smallint | Tinyint | Varint | Decimal => {
            text::push_number(cql_type, bytes, out)?;
        }
        List { element, .. } | Set { element, .. } => {
            push_items(elements(bytes, false), |item, out| push_json(element, item, out), out);
        }
        Vector { element, dimension } => {
            let items = VectorElements::new(element, *dimension, bytes);
            push_items(items, |item, out| push_json(element, item, out), out);
        }
        Map { key, value, .. } => push_map(key, value, bytes, out),
        Tuple(types) => push_tuple(types, bytes, out),
        User { definition, .. } => push_user_type(definition, bytes, out),
    }
    Some(())
}

fn push_items<T>(items: impl Iterator<Item = T>, push_item: impl Fn(T, &mut String), out: &mut String) {
    out.push('[');
    for (i, item) in items.enumerate() {
        out.push_str(if i == 0 { "" } else { ", " });
        push_item(item, out);
    }
    out.push(']');
}

/// Appends a map. Keys that are not strings become strings of their JSON text.
fn push_map(key_type: &CqlType, value_type: &CqlType, bytes: &[u8], out: &mut String) {
    out.push('{');
    let mut entries = elements(bytes, true);
    let mut first = true;
    while let (Some(key), Some(value)) = (entries.next(), entries.next()) {
        out.push_str(if first { "" } else { ", " });
        first = false;
        let key = to_json(key_type, key);
        if key.starts_with('"') {
            out.push_str(&key)
        } else {
            push_string(&key, out)
        }
        out.push_str(": ");
        push_json(value_type, value, out);
    }
    out.push('}');
}

/// Appends a tuple. Missing trailing elements are null.
fn push_tuple(types: &[CqlType], bytes: &[u8], out: &mut String) {
    let values = TupleElements::new(bytes).chain(std::iter::repeat(None));
    let push_item = |(cql_type, value): (&CqlType, Option<&[u8]>), out: &mut String| match value {
        Some(value) => push_json(cql_type, value, out),
        None => out.push_str("null"),
    };
    push_items(types.iter().zip(values), push_item, out);
}

/// Appends a user type. Names that are not in lower case are in double quotes of their own.
fn push_user_type(definition: &UserType, bytes: &[u8], out: &mut String) {
    out.push('{');
    let values = TupleElements::new(bytes).chain(std::iter::repeat(None));
    for (i, ((name, cql_type), value)) in definition.fields.iter().zip(values).enumerate() {
        out.push_str(if i == 0 { "" } else { ", " });
        push_name(name, out);
        out.push_str(": ");
        match value {
            Some(value) => push_json(cql_type, value, out),
            None => out.push_str("null"),
        }
    }
    out.push('}');
}

/// Appends the name of a column or field as the name of a JSON member: `"a"`, `"\"A b\""`.
pub fn push_name(name: &str, out: &mut String) {
    if name == name.to_lowercase() { push_string(name, out) } else { push_string(&format!("\"{name}\""), out) }
}
