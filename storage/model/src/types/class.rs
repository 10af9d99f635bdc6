//! Marshal classes, Cassandra's Java names of types: parsing and formatting.
//!
//! They occur in result metadata ids, in custom types of the protocol and in file headers, and CREATE TABLE accepts
//! them. The name of a user type and its field names are in hex: `UserType(ks,61,62:Int32Type)`.

use super::{Component, CqlType, DIMENSION_MAX, FIELDS_MAX, TYPE_DEPTH_MAX, UserType, ValueError};
use std::fmt::Write;

/// The package of Cassandra's type classes.
const MARSHAL: &str = "org.apache.cassandra.db.marshal.";

/// The native types and their classes.
const NATIVES: [(&str, CqlType); 24] = [
    ("AsciiType", CqlType::Ascii),
    ("LongType", CqlType::Bigint),
    ("BytesType", CqlType::Blob),
    ("BooleanType", CqlType::Boolean),
    ("CounterColumnType", CqlType::Counter),
    ("SimpleDateType", CqlType::Date),
    ("DecimalType", CqlType::Decimal),
    ("DoubleType", CqlType::Double),
    ("DurationType", CqlType::Duration),
    ("EmptyType", CqlType::Empty),
    ("FloatType", CqlType::Float),
    ("InetAddressType", CqlType::Inet),
    ("Int32Type", CqlType::Int),
    ("LexicalUUIDType", CqlType::LexicalUuid),
    ("ShortType", CqlType::Smallint),
    ("UTF8Type", CqlType::Text),
    ("TimeType", CqlType::Time),
    ("TimestampType", CqlType::Timestamp),
    // The older class of timestamps; a column of it is stored as a timestamp.
    ("DateType", CqlType::Timestamp),
    ("TimeUUIDType", CqlType::Timeuuid),
    // The older class of timeuuids, which CQL shows as timeuuid too.
    ("LegacyTimeUUIDType", CqlType::Timeuuid),
    ("ByteType", CqlType::Tinyint),
    ("UUIDType", CqlType::Uuid),
    ("IntegerType", CqlType::Varint),
];

/// A class of Cassandra's index tables, which takes no values of users.
const UNSUPPORTED: &str = "PartitionerDefinedOrder";
const NOT_SUPPORTED: &str = "are not supported";
/// The characters that can be aliases of a `DynamicCompositeType`.
const ALIASES: std::ops::RangeInclusive<char> = '!'..='\u{7f}';

impl CqlType {
    /// The fully qualified marshal class, `org.apache.cassandra.db.marshal.Int32Type`, as result metadata ids hash it
    /// and as tools show it.
    pub fn class_name(&self) -> String {
        let mut out = String::new();
        self.push_class_name(&mut out, false);
        out
    }

    /// `FrozenType` is written around the outermost frozen type only.
    fn push_class_name(&self, out: &mut String, inside_frozen: bool) {
        use CqlType::*;
        let frozen = (self.is_collection() || self.is_user_type()) && !self.is_multicell();
        let wrapped = frozen && !inside_frozen;
        let inside_frozen = inside_frozen || frozen || matches!(self, Tuple(_));
        if wrapped {
            out.push_str(MARSHAL);
            out.push_str("FrozenType(");
        }
        out.push_str(MARSHAL);
        match self {
            List { element, .. } => push_class(out, "ListType", &[element], inside_frozen),
            Set { element, .. } => push_class(out, "SetType", &[element], inside_frozen),
            Map { key, value, .. } => push_class(out, "MapType", &[key, value], inside_frozen),
            Tuple(elements) => push_class(out, "TupleType", &elements.iter().collect::<Vec<_>>(), inside_frozen),
            Vector { element, dimension } => {
                out.push_str("VectorType(");
                element.push_class_name(out, inside_frozen);
                let _ = write!(out, " , {dimension})");
            }
            User { definition, .. } => {
                out.push_str("UserType(");
                out.push_str(&definition.keyspace);
                out.push(',');
                push_hex(out, &definition.name);
                for (name, cql_type) in &definition.fields {
                    out.push(',');
                    push_hex(out, name);
                    out.push(':');
                    cql_type.push_class_name(out, inside_frozen);
                }
                out.push(')');
            }
            Composite(components) => {
                out.push_str("CompositeType(");
                for (i, component) in components.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { "," });
                    component.push_class_name(out);
                }
                out.push(')');
            }
            DynamicComposite(aliases) => {
                out.push_str("DynamicCompositeType(");
                for (i, (alias, component)) in aliases.iter().enumerate() {
                    let _ = write!(out, "{}{}=>", if i == 0 { "" } else { "," }, *alias as char);
                    component.push_class_name(out);
                }
                out.push(')');
            }
            native => out.push_str(native.class_word()),
        }
        if wrapped {
            out.push(')');
        }
    }

    /// The last word of the class, without its package and parameters: `ListType`.
    pub(crate) fn class_word(&self) -> &'static str {
        use CqlType::*;
        match self {
            List { .. } => "ListType",
            Set { .. } => "SetType",
            Map { .. } => "MapType",
            Tuple(_) => "TupleType",
            Vector { .. } => "VectorType",
            User { .. } => "UserType",
            Composite(_) => "CompositeType",
            DynamicComposite(_) => "DynamicCompositeType",
            native => NATIVES.iter().find(|(_, known)| known == native).map_or("", |(name, _)| name),
        }
    }

    /// Parses a marshal class, given in full or without its package: the type, and whether it was wrapped in
    /// `ReversedType`. The errors are Cassandra's, except for the one class that is refused. Text after the class is
    /// ignored, as in Cassandra.
    pub fn parse_class(class: &str) -> Result<(CqlType, bool), ValueError> {
        let (found, reversed) = ClassParser { text: class, at: 0 }.parse_type(0)?;
        if found.depth() > TYPE_DEPTH_MAX {
            return Err(too_deep());
        }
        Ok((found, reversed))
    }
}

impl Component {
    /// The last words of the classes, outermost first: `ReversedType` and `Int32Type`.
    pub(crate) fn class_words(&self) -> impl Iterator<Item = &'static str> {
        self.reversed.then_some("ReversedType").into_iter().chain([self.cql_type.class_word()])
    }

    /// A composite type writes its components as if they stood alone.
    fn push_class_name(&self, out: &mut String) {
        if self.reversed {
            out.push_str(MARSHAL);
            out.push_str("ReversedType(");
        }
        self.cql_type.push_class_name(out, false);
        out.push_str(if self.reversed { ")" } else { "" });
    }
}

fn push_class(out: &mut String, class: &str, parameters: &[&CqlType], inside_frozen: bool) {
    out.push_str(class);
    out.push('(');
    for (i, parameter) in parameters.iter().enumerate() {
        out.push_str(if i == 0 { "" } else { "," });
        parameter.push_class_name(out, inside_frozen);
    }
    out.push(')');
}

fn push_hex(out: &mut String, text: &str) {
    for byte in text.bytes() {
        let _ = write!(out, "{byte:02x}");
    }
}

fn too_deep() -> ValueError {
    ValueError(format!("Types are nested deeper than {TYPE_DEPTH_MAX} levels"))
}

fn from_hex(text: &str) -> Option<String> {
    let digit = |byte: &u8| (*byte as char).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes: Vec<u8> =
        pairs.iter().map(|[high, low]| Some((digit(high)? * 16 + digit(low)?) as u8)).collect::<Option<_>>()?;
    String::from_utf8(bytes).ok().filter(|_| rest.is_empty())
}

struct ClassParser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> ClassParser<'a> {
    /// Parses a class with its parameters; also gives whether it is reversed.
    fn parse_type(&mut self, depth: usize) -> Result<(CqlType, bool), ValueError> {
        // Each level may be wrapped in a `FrozenType`.
        if depth > 2 * TYPE_DEPTH_MAX + 1 {
            return Err(too_deep());
        }
        self.skip_blank();
        let word = self.word();
        if word.is_empty() {
            return Ok((CqlType::Blob, false));
        }
        let name = if word.contains('.') { word.to_owned() } else { format!("{MARSHAL}{word}") };
        let unknown = || ValueError(format!("Unable to find abstract-type class '{name}'"));
        let short = name.strip_prefix(MARSHAL).ok_or_else(unknown)?;
        let native = NATIVES.iter().find(|(known, _)| *known == short);
        self.skip_blank();
        let open = self.peek() == Some('(');
        if let Some((_, native)) = native {
            self.skip_parameters(open)?;
            return Ok((native.clone(), false));
        }
        if short == UNSUPPORTED {
            return Err(ValueError(format!("Types of class {name} {NOT_SUPPORTED}")));
        }
        let known = [
            "FrozenType",
            "ReversedType",
            "ListType",
            "SetType",
            "MapType",
            "TupleType",
            "VectorType",
            "UserType",
            "CompositeType",
            "DynamicCompositeType",
        ];
        if !known.contains(&short) {
            return Err(unknown());
        }
        let invalid = || ValueError(format!("Invalid definition for comparator {name}."));
        if open {
            self.at += 1;
        }
        match self.parameters(short, open, depth) {
            Ok(found) => found.ok_or_else(invalid),
            // Cassandra names the outermost class, whatever is wrong inside it.
            Err(error) if error != too_deep() && !error.0.ends_with(NOT_SUPPORTED) => Err(invalid()),
            Err(error) => Err(error),
        }
    }

    /// Parses the parameters of a class; `None` if they do not suit it.
    fn parameters(&mut self, class: &str, open: bool, depth: usize) -> Result<Option<(CqlType, bool)>, ValueError> {
        if class == "UserType" {
            return Ok(if open { self.user_type(depth)?.map(|found| (found, false)) } else { None });
        }
        if class == "DynamicCompositeType" {
            return Ok(self.aliases(open, depth)?.map(|aliases| (CqlType::dynamic_composite(aliases), false)));
        }
        let mut types = Vec::new();
        let mut dimension = None;
        let mut closed = !open;
        while !closed {
            self.skip_blank();
            match self.peek() {
                None => return Ok(None),
                Some(',') => self.at += 1,
                Some(')') => {
                    self.at += 1;
                    closed = true;
                }
                Some(_) if class == "VectorType" && !types.is_empty() => {
                    let word = self.word();
                    let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
                    dimension = word.parse::<u32>().ok().filter(|found| digits && (1..=DIMENSION_MAX).contains(found));
                    if dimension.is_none() {
                        return Ok(None);
                    }
                }
                Some(c) if !is_word(c) => return Ok(None),
                Some(_) => types.push(self.parse_type(depth + 1)?),
            }
        }
        if class == "CompositeType" {
            let components = types.into_iter().map(|(cql_type, reversed)| Component { cql_type, reversed });
            return Ok(Some((CqlType::Composite(components.collect()), false)));
        }
        let mut frozen = types.iter().map(|(cql_type, _)| cql_type.frozen());
        let found = match (class, &types[..]) {
            ("ReversedType", [(inner, reversed)]) => return Ok(Some((inner.clone(), !reversed))),
            ("FrozenType", [_]) => frozen.next(),
            ("ListType", [_]) => frozen.next().map(|element| CqlType::List { element: element.into(), frozen: false }),
            ("SetType", [_]) => frozen.next().map(|element| CqlType::Set { element: element.into(), frozen: false }),
            ("MapType", [_, _]) => frozen.next().zip(frozen.next()).map(|(key, value)| CqlType::Map {
                key: key.into(),
                value: value.into(),
                frozen: false,
            }),
            ("TupleType", _) => Some(CqlType::Tuple(frozen.collect())),
            ("VectorType", [_]) => dimension
                .zip(frozen.next())
                .map(|(dimension, element)| CqlType::Vector { element: element.into(), dimension }),
            _ => None,
        };
        Ok(found.map(|found| (found, false)))
    }

    /// Parses `(a=>class,b=>class)`; `None` if that is not what comes next.
    fn aliases(&mut self, open: bool, depth: usize) -> Result<Option<Vec<(u8, Component)>>, ValueError> {
        let mut found = Vec::new();
        if !open {
            return Ok(Some(found));
        }
        loop {
            self.skip_blank_and_comma();
            match self.peek() {
                None => return Ok(None),
                Some(')') => break,
                Some(_) => {}
            }
            let mut word = self.word().chars();
            let (Some(alias), None) = (word.next().filter(|alias| ALIASES.contains(alias)), word.next()) else {
                return Ok(None);
            };
            self.skip_blank();
            if !self.text[self.at..].starts_with("=>") {
                return Ok(None);
            }
            self.at += 2;
            self.skip_blank();
            if !self.peek().is_some_and(is_word) {
                return Ok(None);
            }
            let (cql_type, reversed) = self.parse_type(depth + 1)?;
            found.push((alias as u8, Component { cql_type, reversed }));
        }
        self.at += 1;
        Ok(Some(found))
    }

    /// Parses the keyspace, name and fields of a user type, up to the closing parenthesis.
    fn user_type(&mut self, depth: usize) -> Result<Option<CqlType>, ValueError> {
        self.skip_blank();
        let keyspace = self.word().to_owned();
        self.skip_blank_and_comma();
        let Some(name) = from_hex(self.word()) else { return Ok(None) };
        let mut fields = Vec::new();
        loop {
            self.skip_blank_and_comma();
            match self.peek() {
                None => return Ok(None),
                Some(')') => break,
                Some(_) => {}
            }
            let field = from_hex(self.word());
            self.skip_blank();
            let (Some(field), Some(':')) = (field, self.peek()) else { return Ok(None) };
            self.at += 1;
            self.skip_blank();
            if !self.peek().is_some_and(is_word) || fields.len() == FIELDS_MAX {
                return Ok(None);
            }
            let (cql_type, _) = self.parse_type(depth + 1)?;
            // A user type inside another is always frozen, but a class does not repeat the word inside a frozen type.
            fields.push((field, if cql_type.is_user_type() { cql_type.frozen() } else { cql_type }));
        }
        self.at += 1;
        Ok(Some(CqlType::User { definition: UserType { keyspace, name, fields }.into(), frozen: false }))
    }

    /// Skips parameters that have no meaning.
    fn skip_parameters(&mut self, open: bool) -> Result<(), ValueError> {
        if !open {
            return Ok(());
        }
        match self.text[self.at..].find(')') {
            Some(len) => {
                self.at += len + 1;
                Ok(())
            }
            None => {
                let (text, start) = (self.text, self.at + 1);
                Err(ValueError(format!("Syntax error parsing '{text}' at char {start}: unexpected end of string")))
            }
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn skip_blank(&mut self) {
        while self.peek().is_some_and(|c| matches!(c, ' ' | '\t' | '\n')) {
            self.at += 1;
        }
    }

    fn skip_blank_and_comma(&mut self) {
        while self.peek().is_some_and(|c| matches!(c, ' ' | '\t' | '\n' | ',')) {
            self.at += 1;
        }
    }

    /// The longest run of name characters from here on.
    fn word(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let word = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }
}

/// Whether Cassandra takes a character as part of a name or number.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.' | '_' | '&')
}
