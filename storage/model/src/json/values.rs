//! Reads values from JSON texts.
//!
//! Numbers may be strings, and types for which JSON has nothing are strings. Where a list or map is expected, a string
//! is parsed as JSON once more, because map keys of such types are written that way.

use super::{Json, meant_names};
use crate::HashMap;
use crate::text;
use crate::types::{CqlType, UserType};
use crate::value::{self, ValueError, push_element, push_vector_element};

/// The value of a JSON text; `None` for `null`. The errors are Cassandra's. An empty string is an empty value even for
/// types that have none: whoever stores the value must validate it.
pub fn from_json(cql_type: &CqlType, json: &str) -> Result<Option<Vec<u8>>, ValueError> {
    from_parsed(cql_type, &decode(json)?)
}

/// [`from_json`] for a parsed text.
pub fn from_parsed(cql_type: &CqlType, json: &Json) -> Result<Option<Vec<u8>>, ValueError> {
    match json {
        Json::Null => Ok(None),
        json => value_of(cql_type, json).map(Some),
    }
}

fn decode(json: &str) -> Result<Json, ValueError> {
    Json::parse(json).map_err(|error| ValueError(format!("Error decoding JSON string: {}", error.0)))
}

fn value_of(cql_type: &CqlType, json: &Json) -> Result<Vec<u8>, ValueError> {
    use CqlType::*;
    match cql_type {
        Ascii => from_string(cql_type, json, "an ascii string"),
        Text => from_string(cql_type, json, "a UTF-8 string"),
        Blob => blob(json),
        Boolean => match json {
            Json::Boolean(value) => Ok(vec![u8::from(*value)]),
            json => from_string(cql_type, json, "a boolean value"),
        },
        Bigint | Counter => match json {
            Json::Integer(text) if text.parse::<i64>().is_ok() => text::from_quoted(cql_type, text),
            json => from_string(cql_type, json, "a bigint value"),
        },
        Int => match json {
            Json::Integer(text) if text.parse::<i32>().is_ok() => text::from_quoted(cql_type, text),
            json => from_string(cql_type, json, "an int value"),
        },
        Smallint => number_text(cql_type, json, "a short value"),
        Tinyint => number_text(cql_type, json, "a byte value"),
        Double => match json {
            Json::Integer(text) => text::from_quoted(cql_type, text),
            Json::Double(number) => Ok(number.to_be_bytes().to_vec()),
            json => from_string(cql_type, json, "a double value"),
        },
        Float => match json {
            Json::Integer(text) => text::from_quoted(cql_type, text),
            Json::Double(number) => Ok((*number as f32).to_be_bytes().to_vec()),
            json => from_string(cql_type, json, "a float value"),
        },
        Decimal => any_text(cql_type, json, "decimal"),
        Varint if *json == Json::String(String::new()) => {
            Err(ValueError("Value '' is not a valid representation of a varint value".into()))
        }
        Varint => any_text(cql_type, json, "varint"),
        Date => from_string(cql_type, json, "a string representation of a date value"),
        Time => from_string(cql_type, json, "a string representation of a time value"),
        Duration => from_string(cql_type, json, "a string representation of a duration"),
        Empty => match json {
            Json::String(text) => text::from_quoted(cql_type, text),
            json => Err(ValueError(format!("Expected an empty string, but got: {json}"))),
        },
        Inet => from_string(cql_type, json, "a string representation of an inet value"),
        LexicalUuid | Uuid => from_string(cql_type, json, "a string representation of a uuid"),
        Timeuuid => from_string(cql_type, json, "a string representation of a timeuuid"),
        Timestamp => match json {
            // Cassandra refuses numbers that fit Java's int.
            Json::Integer(text) if json.java_class() == "Long" => text::from_quoted(cql_type, text),
            json => from_string(cql_type, json, "a long or a datestring representation of a timestamp value"),
        },
        List { element, .. } => nested(json, |json| list(element, json)),
        Set { element, .. } => nested(json, |json| set(element, json)),
        Map { key, value, .. } => nested(json, |json| map(key, value, json)),
        Tuple(types) => nested(json, |json| tuple(types, json)),
        Vector { element, dimension } => nested(json, |json| vector(cql_type, element, *dimension, json)),
        User { definition, .. } => nested(json, |json| user_type(definition, json)),
        Composite(_) | DynamicComposite(_) => {
            from_string(cql_type, json, "a string representation of a composite value")
        }
    }
}

fn expected(wanted: &str, json: &Json) -> ValueError {
    ValueError(format!("Expected {wanted}, but got a {}: {json}", json.java_class()))
}

/// The value of a string, read by [`text::from_quoted`].
fn from_string(cql_type: &CqlType, json: &Json, wanted: &str) -> Result<Vec<u8>, ValueError> {
    match json {
        Json::String(text) => text::from_quoted(cql_type, text),
        json => Err(expected(wanted, json)),
    }
}

/// The value of a number's text.
fn number_text(cql_type: &CqlType, json: &Json, wanted: &str) -> Result<Vec<u8>, ValueError> {
    match json {
        Json::Integer(_) | Json::Double(_) => text::from_quoted(cql_type, &json.to_string()),
        json => from_string(cql_type, json, wanted),
    }
}

/// The value of the text of any kind of JSON value.
fn any_text(cql_type: &CqlType, json: &Json, name: &str) -> Result<Vec<u8>, ValueError> {
    let text = json.to_string();
    text::from_quoted(cql_type, &text)
        .map_err(|_| ValueError(format!("Value '{text}' is not a valid representation of a {name} value")))
}

fn blob(json: &Json) -> Result<Vec<u8>, ValueError> {
    let found = match json {
        Json::String(text) => match text.strip_prefix("0x") {
            Some(digits) => text::from_quoted(&CqlType::Blob, digits).map_err(|error| error.0),
            None => Err(format!("String representation of blob is missing 0x prefix: {text}")),
        },
        json => {
            let package = match json {
                Json::Array(_) | Json::Object(_) => "util",
                _ if json.java_class() == "BigInteger" => "math",
                _ => "lang",
            };
            let class = format!("java.{package}.{}", json.java_class());
            Err(format!(
                "class {class} cannot be cast to class java.lang.String ({class} and java.lang.String are in module \
                 java.base of loader 'bootstrap')"
            ))
        }
    };
    found.map_err(|error| ValueError(format!("Value '{json}' is not a valid blob representation: {error}")))
}

/// Reads a list or map, which may be given as a string.
fn nested(json: &Json, read: impl Fn(&Json) -> Result<Vec<u8>, ValueError>) -> Result<Vec<u8>, ValueError> {
    match json {
        Json::String(text) => read(&decode(text)?),
        json => read(json),
    }
}

/// Reads an element, which must not be null.
fn element_of(cql_type: &CqlType, json: &Json, kind: &str) -> Result<Vec<u8>, ValueError> {
    match json {
        Json::Null => Err(ValueError(format!("Invalid null {kind}"))),
        json => value_of(cql_type, json),
    }
}

fn list(element: &CqlType, json: &Json) -> Result<Vec<u8>, ValueError> {
    let Json::Array(items) = json else { return Err(expected("a list", json)) };
    let mut out = (items.len() as i32).to_be_bytes().to_vec();
    for item in items {
        push_element(&mut out, Some(&element_of(element, item, "element in list")?));
    }
    Ok(out)
}

fn set(element: &CqlType, json: &Json) -> Result<Vec<u8>, ValueError> {
    let Json::Array(items) = json else { return Err(expected("a list (representing a set)", json)) };
    let values = items.iter().map(|item| element_of(element, item, "element in set"));
    let mut values = values.collect::<Result<Vec<_>, _>>()?;
    values.sort_by(|a, b| value::compare(element, a, b));
    values.dedup_by(|later, first| value::compare(element, later, first).is_eq());
    let mut out = (values.len() as i32).to_be_bytes().to_vec();
    values.iter().for_each(|value| push_element(&mut out, Some(value)));
    Ok(out)
}

fn map(key_type: &CqlType, value_type: &CqlType, json: &Json) -> Result<Vec<u8>, ValueError> {
    let Json::Object(members) = json else { return Err(expected("a map", json)) };
    let mut entries = Vec::new();
    for (name, value) in members {
        if *value == Json::Null {
            return Err(ValueError("Invalid null value in map".into()));
        }
        let key = value_of(key_type, &Json::String(name.clone()))?;
        entries.push((key, value_of(value_type, value)?));
    }
    // Of equal keys the first one remains, with the last value.
    entries.sort_by(|(a, _), (b, _)| value::compare(key_type, a, b));
    entries.dedup_by(|later, first| {
        let same = value::compare(key_type, &later.0, &first.0).is_eq();
        if same {
            std::mem::swap(&mut first.1, &mut later.1);
        }
        same
    });
    let mut out = (entries.len() as i32).to_be_bytes().to_vec();
    for (key, value) in &entries {
        push_element(&mut out, Some(key));
        push_element(&mut out, Some(value));
    }
    Ok(out)
}

fn tuple(types: &[CqlType], json: &Json) -> Result<Vec<u8>, ValueError> {
    let Json::Array(items) = json else { return Err(expected("a list representation of a tuple", json)) };
    let count = types.len();
    if items.len() > count {
        return Err(ValueError(format!("Tuple contains extra items (expected {count}): {json}")));
    }
    if items.len() < count {
        return Err(ValueError(format!("Tuple is missing items (expected {count}): {json}")));
    }
    let mut out = Vec::new();
    for (cql_type, item) in types.iter().zip(items) {
        push_element(&mut out, from_parsed(cql_type, item)?.as_deref());
    }
    Ok(out)
}

fn vector(vector: &CqlType, element: &CqlType, dimension: u32, json: &Json) -> Result<Vec<u8>, ValueError> {
    let Json::Array(items) = json else { return Err(expected("a list", json)) };
    if items.len() != dimension as usize {
        let given = items.len();
        return Err(ValueError(format!("List had incorrect size: expected {dimension} but given {given}; {json}")));
    }
    let mut out = Vec::new();
    for item in items {
        let value = element_of(element, item, "element in list")?;
        if element.fixed_len().is_some_and(|len| len != value.len()) {
            return Err(ValueError(format!("Not enough bytes to read a {vector}")));
        }
        push_vector_element(&mut out, element, &value);
    }
    Ok(out)
}

fn user_type(definition: &UserType, json: &Json) -> Result<Vec<u8>, ValueError> {
    let Json::Object(members) = json else { return Err(expected("a map", json)) };
    let names = meant_names(members);
    let places: HashMap<&str, usize> = names.iter().map(|(name, at)| (name.as_str(), *at)).collect();
    let mut out = Vec::new();
    for (name, cql_type) in &definition.fields {
        let value = match places.get(name.as_str()) {
            Some(&at) => from_parsed(cql_type, &members[at].1)?,
            None => None,
        };
        push_element(&mut out, value.as_deref());
    }
    match names.iter().find(|(name, _)| definition.field_index(name).is_none()) {
        Some((name, _)) => {
            Err(ValueError(format!("Unknown field '{name}' in value of user defined type {}", definition.name)))
        }
        None => Ok(out),
    }
}
