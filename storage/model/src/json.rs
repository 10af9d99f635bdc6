//! JSON as CQL has it: `toJson()` and SELECT JSON, `fromJson()` and INSERT JSON.
//!
//! What a text means is what Cassandra's parser (Jackson) makes of it, errors included: text behind the value is
//! ignored, of two members of one name the last one counts at the place of the first, whole numbers are as long as they
//! are and all others are doubles. Texts of values are `AbstractType.toJSONString`, values of texts its
//! `fromJSONObject`.
//!
//! The parser is in `json/reader.rs`, values to texts in `json/show.rs`, texts to values in `json/values.rs`.
//!
//! Not here: the columns of SELECT JSON and INSERT JSON.

mod reader;
mod show;
mod values;

pub use reader::{JSON_DEPTH_MAX, JSON_NAME_MAX, JSON_NUMBER_MAX};
pub use show::{push_json, push_name, push_string, to_json};
pub use values::{from_json, from_parsed};

use crate::HashMap;
use crate::text::floating;
use std::fmt;

/// A JSON text, parsed.
#[derive(Clone, PartialEq, Debug)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// A number without a fraction or exponent: its sign and digits.
    Integer(String),
    /// Any other number.
    Double(f64),
    /// A string.
    String(String),
    /// A list.
    Array(Vec<Json>),
    /// Members by name, in order, none twice.
    Object(Vec<(String, Json)>),
}

/// Why a text is no JSON, as Jackson says it: two lines, of which the second tells where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JsonError(pub String);

impl JsonError {
    /// The exception as Java prints it: its class, then the text.
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
    /// Parses the value at the start of a text; what follows it is ignored.
    pub fn parse(text: &str) -> Result<Json, JsonError> {
        reader::parse(text)
    }

    /// Why a value that is no object, parsed from `text`, cannot be read as a map, as Java prints it.
    pub fn not_a_map(&self, text: &str) -> String {
        reader::not_a_map(self, text)
    }

    /// The Java class that errors call a value by: `Integer`, `LinkedHashMap`.
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

/// Names of columns and fields as JSON texts write them: in double quotes they count as they are, else in lower case.
/// The names change as in Cassandra, one after the other: where two become the same the later one counts.
pub fn unquote_names(members: Vec<(String, Json)>) -> Vec<(String, Json)> {
    let meant = meant_names(&members);
    let mut values: Vec<Json> = members.into_iter().map(|(_, value)| value).collect();
    meant.into_iter().map(|(name, at)| (name, std::mem::replace(&mut values[at], Json::Null))).collect()
}

/// The names that are meant, each once, with the index of its member.
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

/// As Java shows the parsed value: `[1, abc]`, `{a=null}`.
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
