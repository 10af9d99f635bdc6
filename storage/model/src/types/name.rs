//! CQL names of types, parsing and formatting: for `system_schema`, DESCRIBE and errors.
//!
//! ```text
//! type: native | user | 'frozen' '<' type '>' | ('list' | 'set') '<' type '>' | 'map' '<' type ',' type '>'
//!     | 'tuple' '<' type (',' type)* '>' | 'vector' '<' type ',' digits '>' | "'" class "'"
//! user: word | '"' (character | '""')* '"'
//! ```
//! A vector's element is frozen only if it says so itself, even inside a frozen collection, as in Cassandra.

use super::{CqlType, DIMENSION_MAX, TYPE_DEPTH_MAX, UserType};
use crate::identifier;
use std::fmt;
use std::sync::Arc;

/// The native types by name. `text` comes before `varchar`, so that it is the one that is written.
const NATIVES: [(&str, CqlType); 22] = [
    ("ascii", CqlType::Ascii),
    ("bigint", CqlType::Bigint),
    ("blob", CqlType::Blob),
    ("boolean", CqlType::Boolean),
    ("counter", CqlType::Counter),
    ("date", CqlType::Date),
    ("decimal", CqlType::Decimal),
    ("double", CqlType::Double),
    ("duration", CqlType::Duration),
    ("empty", CqlType::Empty),
    ("float", CqlType::Float),
    ("inet", CqlType::Inet),
    ("int", CqlType::Int),
    ("smallint", CqlType::Smallint),
    ("text", CqlType::Text),
    ("varchar", CqlType::Text),
    ("time", CqlType::Time),
    ("timestamp", CqlType::Timestamp),
    ("timeuuid", CqlType::Timeuuid),
    ("tinyint", CqlType::Tinyint),
    ("uuid", CqlType::Uuid),
    ("varint", CqlType::Varint),
];

impl CqlType {
    /// Parses a type as `system_schema.columns.type` holds it: `frozen<map<text, int>>`; `varchar` is `text`. `None`
    /// for anything else, including user types and nesting beyond [`TYPE_DEPTH_MAX`].
    pub fn parse(name: &str) -> Option<CqlType> {
        CqlType::parse_in(name, &|_| None)
    }

    /// [`CqlType::parse`], but names may also be user types, which `user_type` looks up by their stored names.
    pub fn parse_in(name: &str, user_type: &dyn Fn(&str) -> Option<Arc<UserType>>) -> Option<CqlType> {
        let mut parser = NameParser { rest: name, user_type };
        let found = parser.parse_type(0, false)?;
        (parser.rest.trim_start().is_empty() && found.depth() <= TYPE_DEPTH_MAX).then_some(found)
    }

    /// The native type with this CQL name, in any case.
    pub fn native(name: &str) -> Option<CqlType> {
        let found = NATIVES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, native)| native.clone())
    }
}

struct NameParser<'a> {
    rest: &'a str,
    user_type: &'a dyn Fn(&str) -> Option<Arc<UserType>>,
}

impl<'a> NameParser<'a> {
    /// Parses a type; `frozen` says that it is inside a `frozen<>`, directly or not.
    fn parse_type(&mut self, depth: usize, frozen: bool) -> Option<CqlType> {
        if depth > TYPE_DEPTH_MAX {
            return None;
        }
        self.rest = self.rest.trim_start();
        if let Some(rest) = self.rest.strip_prefix('"') {
            self.rest = rest;
            let name = self.quoted()?;
            return self.user(&name, frozen);
        }
        if let Some(rest) = self.rest.strip_prefix('\'') {
            let (class, rest) = rest.split_once('\'')?;
            self.rest = rest;
            return self.class(class);
        }
        let word = self.word();
        if !self.takes('<') {
            return CqlType::native(word).or_else(|| self.user(&word.to_ascii_lowercase(), frozen));
        }
        let found = match word.to_ascii_lowercase().as_str() {
            "frozen" => {
                // `frozen` is not a level of nesting, but it may not be repeated.
                let twice = self.rest.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("frozen"));
                if twice {
                    return None;
                }
                let found = self.parse_type(depth, true)?;
                let nested = !matches!(found.parts()[..], []) || found.is_user_type();
                nested.then_some(found)?
            }
            "list" => CqlType::List { element: self.element(depth, frozen)?.into(), frozen },
            "set" => CqlType::Set { element: self.element(depth, frozen)?.into(), frozen },
            "map" => {
                let key = self.element(depth, frozen)?.into();
                self.takes(',').then_some(())?;
                CqlType::Map { key, value: self.element(depth, frozen)?.into(), frozen }
            }
            "tuple" => {
                // Everything in a tuple is frozen.
                let mut elements = vec![self.parse_type(depth + 1, true)?];
                while self.takes(',') {
                    elements.push(self.parse_type(depth + 1, true)?);
                }
                CqlType::Tuple(elements)
            }
            "vector" => {
                let element = self.parse_type(depth + 1, false)?.into();
                self.takes(',').then_some(())?;
                self.rest = self.rest.trim_start();
                let dimension = self.word();
                let digits = dimension.bytes().all(|byte| byte.is_ascii_digit());
                let dimension = dimension.parse().ok().filter(|found| digits && (1..=DIMENSION_MAX).contains(found))?;
                CqlType::Vector { element, dimension }
            }
            _ => return None,
        };
        self.takes('>').then_some(found)
    }

    /// An element must say itself that it is frozen, unless the collection around it is.
    fn element(&mut self, depth: usize, frozen: bool) -> Option<CqlType> {
        self.parse_type(depth + 1, frozen).filter(|element| !element.is_multicell())
    }

    fn user(&self, name: &str, frozen: bool) -> Option<CqlType> {
        Some(CqlType::User { definition: (self.user_type)(name)?, frozen })
    }

    /// A class spells its user types out: those that are known by name take the place of what it says.
    fn class(&self, class: &str) -> Option<CqlType> {
        let (mut found, _) = CqlType::parse_class(class).ok()?;
        let written: Vec<Arc<UserType>> = found.references().into_iter().cloned().collect();
        for definition in written {
            if let Some(known) = (self.user_type)(&definition.name) {
                found = found.with_user_type(&known);
            }
        }
        Some(found)
    }

    /// The longest run of letters, digits and underscores from here on.
    fn word(&mut self) -> &'a str {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// Reads a quoted name up to its closing quote.
    fn quoted(&mut self) -> Option<String> {
        let mut name = String::new();
        loop {
            let (part, rest) = self.rest.split_once('"')?;
            name.push_str(part);
            self.rest = rest;
            match rest.strip_prefix('"') {
                Some(rest) => {
                    name.push('"');
                    self.rest = rest;
                }
                None => return Some(name),
            }
        }
    }

    /// Skips `sign`, with the space before it, if it comes next.
    fn takes(&mut self, sign: char) -> bool {
        match self.rest.trim_start().strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
}

/// The CQL name: `text`, `list<int>`, `frozen<set<uuid>>`, `frozen<tuple<int, text>>`, `address`, `vector<float, 3>`.
impl fmt::Display for CqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use CqlType::*;
        let freezable = self.is_collection() || self.is_user_type();
        let frozen = matches!(self, Tuple(_)) || freezable && !self.is_multicell();
        if frozen {
            f.write_str("frozen<")?;
        }
        match self {
            List { element, .. } => write!(f, "list<{element}>")?,
            Set { element, .. } => write!(f, "set<{element}>")?,
            Map { key, value, .. } => write!(f, "map<{key}, {value}>")?,
            Vector { element, dimension } => write!(f, "vector<{element}, {dimension}>")?,
            User { definition, .. } => f.write_str(&identifier::quoted(&definition.name))?,
            Tuple(elements) => {
                f.write_str("tuple<")?;
                for (i, element) in elements.iter().enumerate() {
                    write!(f, "{}{element}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str(">")?;
            }
            class if class.is_class() => write!(f, "'{}'", class.class_name())?,
            native => {
                let found = NATIVES.iter().find(|(_, known)| known == native);
                f.write_str(found.map_or("", |(name, _)| name))?;
            }
        }
        if frozen { f.write_str(">") } else { Ok(()) }
    }
}
