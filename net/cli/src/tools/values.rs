//! The texts of values, as `getString` and `fromString` of Cassandra's types define them: tools show keys and cells so.

use model::text::to_plain;
use model::{CqlType, text};
use sstable::statistics::Header;
use std::fmt::Write;

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// Returns the sum of a counter's shards.
pub(crate) fn counter(context: &[u8]) -> i64 {
    let Some((count, _)) = context.split_first_chunk::<2>() else { return 0 };
    let header = 2 + 2 * usize::from(u16::from_be_bytes(*count));
    let shards = context.get(header..).unwrap_or_default().as_chunks::<32>().0;
    let count = |shard: &[u8; 32]| shard.last_chunk::<8>().map_or(0, |count| i64::from_be_bytes(*count));
    shards.iter().map(count).fold(0, i64::wrapping_add)
}

/// The types of a partition key's columns.
#[derive(Debug)]
pub(crate) struct KeyTypes {
    types: Vec<CqlType>,
    composite: bool,
}

impl KeyTypes {
    /// Returns the types that a header names; `None` if one is unknown.
    pub(crate) fn of(header: &Header) -> Option<KeyTypes> {
        let types: Vec<CqlType> = header.key_types()?.into_iter().map(|field| field.cql_type).collect();
        let composite = header.key_class.starts_with("org.apache.cassandra.db.marshal.CompositeType(");
        Some(KeyTypes { types, composite })
    }

    /// Returns the values of a key's columns.
    pub(crate) fn values<'k>(&self, key: &'k [u8]) -> Vec<&'k [u8]> {
        if !self.composite {
            return vec![key];
        }
        let mut rest = key;
        let mut found = Vec::new();
        while found.len() < self.types.len()
            && let Some((len, tail)) = rest.split_first_chunk::<2>()
            && let Some((value, tail)) = tail.split_at_checked(u16::from_be_bytes(*len).into())
            && let Some((_, tail)) = tail.split_first()
        {
            found.push(value);
            rest = tail;
        }
        found
    }

    /// Returns the texts of the values of a key's columns.
    pub(crate) fn texts(&self, key: &[u8]) -> Vec<String> {
        self.values(key).into_iter().zip(&self.types).map(|(value, cql_type)| to_plain(cql_type, value)).collect()
    }

    /// Returns the text of a key; for a composite one the escaped texts of its values, separated by colons.
    pub(crate) fn text(&self, key: &[u8]) -> String {
        let texts = self.texts(key);
        if !self.composite {
            return texts.concat();
        }
        texts.iter().map(|text| text.replace(':', "\\:")).collect::<Vec<_>>().join(":")
    }

    /// Parses the text of a key.
    ///
    /// # Errors
    /// A value is not of its type; the text is Cassandra's.
    pub(crate) fn parse(&self, key: &str) -> Result<Vec<u8>, String> {
        let parse = |cql_type: &CqlType, part: &str| match cql_type {
            CqlType::Ascii | CqlType::Text => Ok(part.as_bytes().to_vec()),
            _ => text::from_quoted(cql_type, part).map_err(|error| error.0),
        };
        if !self.composite {
            return match self.types.first() {
                Some(cql_type) => parse(cql_type, key),
                None => Ok(Vec::new()),
            };
        }
        let mut parts = vec![String::new()];
        let mut chars = key.chars().peekable();
        while let Some(c) = chars.next() {
            let escaped = c == '\\' && chars.peek() == Some(&':');
            match (c, parts.last_mut()) {
                (':', _) => parts.push(String::new()),
                (_, Some(part)) => part.push(if escaped { chars.next().unwrap_or(c) } else { c }),
                (_, None) => {}
            }
        }
        let mut out = Vec::new();
        for (part, cql_type) in parts.iter().zip(&self.types) {
            let value = parse(cql_type, part)?;
            out.extend_from_slice(&(value.len() as u16).to_be_bytes());
            out.extend_from_slice(&value);
            out.push(0);
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_sums_of_shards() {
        let mut context = vec![0, 1, 0, 0];
        for count in [5i64, -2] {
            context.extend_from_slice(&[0; 24]);
            context.extend_from_slice(&count.to_be_bytes());
        }
        assert_eq!((counter(&context), counter(&[])), (3, 0));
    }

    #[test]
    fn composite_keys_come_back() {
        let types = KeyTypes { types: vec![CqlType::Text, CqlType::Int], composite: true };
        let key = types.parse("a\\:b:7").expect("a key");
        assert_eq!(key, [0, 3, b'a', b':', b'b', 0, 0, 4, 0, 0, 0, 7, 0]);
        assert_eq!((types.text(&key).as_str(), types.texts(&key)), ("a\\:b:7", vec!["a:b".into(), "7".to_owned()]));
        assert!(types.values(&key[..4]).is_empty());
        assert_eq!(types.parse("a:b").expect_err("no number"), "Unable to make int from 'b'");
    }
}
