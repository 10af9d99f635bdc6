//! Reads YAML into values as the options take them. Whole numbers that need more than 64 bits, as tokens of
//! RandomPartitioner do, become text: [`Value`] has no number for them.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_norway::{Mapping, Value};
use std::fmt;

/// Reads a document.
///
/// # Errors
/// It is not YAML, gives a key of a mapping twice, or has a tag.
pub(super) fn parse(text: &str) -> Result<Value, serde_norway::Error> {
    serde_norway::from_str(text).map(|Node(value)| value)
}

struct Node(Value);

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(NodeVisitor).map(Node)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("any YAML value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Value, E> {
        Ok(Value::String(value.to_string()))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Value, E> {
        Ok(Value::String(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Node(element)) = elements.next_element()? {
            list.push(element);
        }
        Ok(Value::Sequence(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut mapping = Mapping::new();
        while let Some((Node(key), Node(value))) = entries.next_entry()? {
            let text = key.as_str().unwrap_or("of another type").to_owned();
            if mapping.insert(key, value).is_some() {
                return Err(A::Error::custom(format!("duplicate entry with key \"{text}\"")));
            }
        }
        Ok(Value::Mapping(mapping))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_library_but_for_large_numbers() {
        for text in
            ["", "a", "1", "-1", "18446744073709551615", "1.5", "true", "~", "[1, [x], {}]", "a: {b: [c, ~]}", "1: 2"]
        {
            let expected: Value = serde_norway::from_str(text).expect("YAML");
            assert_eq!(parse(text).expect("YAML"), expected, "{text}");
        }
        let token = "170141183460469231731687303715884105727";
        for text in [token, "18446744073709551616", "-9223372036854775809"] {
            assert_eq!(parse(text).expect("YAML"), Value::String(text.into()), "{text}");
        }
        assert!(parse("{a: 1, a: 2}").is_err_and(|error| error.to_string().contains("duplicate entry with key \"a\"")));
        assert!(parse("!tag 1").is_err());
    }
}
