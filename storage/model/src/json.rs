//! JSON in CQL: `toJson()` and SELECT JSON, `fromJson()` and INSERT JSON.
//!
//! Texts are parsed as Cassandra's parser (Jackson) does, errors included: text after the value is ignored, the last of
//! several members with one name counts, at the place of the first, whole numbers have any length and all other numbers
//! are doubles. Values are written as `AbstractType.toJSONString` writes them, and read as its `fromJSONObject` reads
//! them.
//!
//! The parser is in `json/reader.rs`, writing values in `json/show.rs`, reading values in `json/values.rs`.
//!
//! What is not here: the columns of SELECT JSON and INSERT JSON (crate `cql`).

mod reader;
mod show;
mod values;

pub use reader::{JSON_DEPTH_MAX, JSON_NAME_MAX, JSON_NUMBER_MAX};
pub use show::{push_json, push_name, push_string, to_json};
pub use values::{from_json, from_parsed};

use crate::HashMap;
use crate::text::floating;
use std::fmt;

/// A parsed JSON value.
#[derive(Clone, PartialEq, Debug)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// A number without fraction or exponent: its sign and digits.
    Integer(String),
    /// Any other number.
    Double(f64),
    /// A string.
    String(String),
    /// A list.
    Array(Vec<Json>),
    /// Names and values of the members, in order and without duplicates.
    Object(Vec<(String, Json)>),
}

/// Why a text is not JSON: Jackson's two lines, the second of which says where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JsonError(pub String);

impl JsonError {
    /// The exception as Java prints it: the class, then the text.
    pub fn thrown(&self) -> String {
        let class = match self.0.as_str() {
            text if text.starts_with("No content") => "databind.exc.MismatchedInputException",
            text if text.starts_with("Unexpected end-of-input") => "core.io.JsonEOFException",
            text if text.contains("StreamReadConstraints") => "core.exc.StreamConstraintsException",
            _ => "core.JsonParseException",
        };
        format!("com.fasterxml.jackson.{class}: {}", self.0)
    }
}

impl Json {
    /// Parses the value at the start of a text and ignores what follows it.
    pub fn parse(text: &str) -> Result<Json, JsonError> {
        reader::parse(text)
    }

    /// Why this value, which is not an object and was parsed from `text`, cannot be read as a map: the exception as
    /// Java prints it.
    pub fn not_a_map(&self, text: &str) -> String {
        reader::not_a_map(self, text)
    }

    /// The Java class by which errors name a value: `Integer`, `LinkedHashMap`.
    pub fn java_class(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Boolean(_) => "Boolean",
            Json::Integer(digits) if digits.parse::<i32>().is_ok() => "Integer",
            Json::Integer(digits) if digits.parse::<i64>().is_ok() => "Long",
            Json::Integer(_) => "BigInteger",
            Json::Double(_) => "Double",
            Json::String(_) => "String",
            Json::Array(_) => "ArrayList",
            Json::Object(_) => "LinkedHashMap",
        }
    }
}

/// Turns names in a JSON text into names of columns and fields: exact if in double quotes, else in lower case. As in
/// Cassandra the names are replaced one after the other, and where two become equal the later one counts.
pub fn unquote_names(members: Vec<(String, Json)>) -> Vec<(String, Json)> {
    let meant = meant_names(&members);
    let mut values: Vec<Json> = members.into_iter().map(|(_, value)| value).collect();
    meant.into_iter().map(|(name, at)| (name, std::mem::replace(&mut values[at], Json::Null))).collect()
}

/// The resulting names, each once, with the index of its member.
fn meant_names(members: &[(String, Json)]) -> Vec<(String, usize)> {
    let mut places: HashMap<String, usize> = HashMap::default();
    let mut found: Vec<Option<(String, usize)>> = Vec::with_capacity(members.len());
    for (at, (name, _)) in members.iter().enumerate() {
        places.insert(name.clone(), at);
        found.push(Some((name.clone(), at)));
    }
    for (name, _) in members {
        let quoted = name.len() > 1 && name.starts_with('"') && name.ends_with('"');
        let meant = if quoted { name[1..name.len() - 1].to_owned() } else { name.to_lowercase() };
        if meant == *name {
            continue;
        }
        let Some((_, at)) = places.remove(name).and_then(|place| found[place].take()) else { continue };
        match places.get(&meant).and_then(|&place| found[place].as_mut()) {
            Some((_, known)) => *known = at,
            None => {
                places.insert(meant.clone(), found.len());
                found.push(Some((meant, at)));
            }
        }
    }
    found.into_iter().flatten().collect()
}

/// The parsed value as Java prints it: `[1, abc]`, `{a=null}`.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Boolean(value) => value.fmt(f),
            Json::Integer(text) | Json::String(text) => f.write_str(text),
            Json::Double(number) => {
                let mut text = String::new();
                floating::push_double(*number, &mut text);
                f.write_str(&text)
            }
            Json::Array(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Json::Object(members) => {
                f.write_str("{")?;
                for (i, (name, value)) in members.iter().enumerate() {
                    write!(f, "{}{name}={value}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
        }
    }
}
