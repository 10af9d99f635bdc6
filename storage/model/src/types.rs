//! CQL types and their names, in CQL and as Cassandra's marshal classes.

use std::fmt;

/// A CQL type. Collections carry whether they are frozen; a type inside a collection or tuple is always frozen.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the natives are named as in CQL")]
pub enum CqlType {
    Ascii,
    Bigint,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    Float,
    Inet,
    Int,
    Smallint,
    Text,
    Time,
    Timestamp,
    Timeuuid,
    Tinyint,
    Uuid,
    Varint,
    List { element: Box<CqlType>, frozen: bool },
    Set { element: Box<CqlType>, frozen: bool },
    Map { key: Box<CqlType>, value: Box<CqlType>, frozen: bool },
    Tuple(Vec<CqlType>),
}

/// Deepest nesting of a type expression.
pub const TYPE_DEPTH_MAX: usize = 12;

impl CqlType {
    /// Reads a type as `system_schema.columns.type` holds it: `frozen<map<text, int>>`; `varchar` is `text`.
    /// `None` for anything else, also for nesting beyond [`TYPE_DEPTH_MAX`].
    pub fn parse(name: &str) -> Option<CqlType> {
        parse_type(name, 0, false)
    }

    /// The fully qualified marshal class, as result metadata ids hash it and DESCRIBE tools expect it:
    /// `org.apache.cassandra.db.marshal.Int32Type`.
    pub fn class_name(&self) -> String {
        let mut out = String::new();
        self.push_class_name(&mut out, false);
        out
    }

    /// `FrozenType` is written around the outermost frozen collection only.
    fn push_class_name(&self, out: &mut String, inside_frozen: bool) {
        use CqlType::*;
        let parameters: &[&CqlType] = match self {
            List { element, .. } | Set { element, .. } => &[element],
            Map { key, value, .. } => &[key, value],
            Tuple(elements) => &elements.iter().collect::<Vec<_>>(),
            _ => &[],
        };
        let frozen = self.is_collection() && !self.is_multicell();
        let wrapped = frozen && !inside_frozen;
        let inside_frozen = inside_frozen || frozen || matches!(self, Tuple(_));
        if wrapped {
            out.push_str(MARSHAL);
            out.push_str("FrozenType(");
        }
        out.push_str(MARSHAL);
        out.push_str(self.simple_class_name());
        for (i, parameter) in parameters.iter().enumerate() {
            out.push(if i == 0 { '(' } else { ',' });
            parameter.push_class_name(out, inside_frozen);
        }
        if !parameters.is_empty() {
            out.push(')');
        }
        if wrapped {
            out.push(')');
        }
    }

    fn simple_class_name(&self) -> &'static str {
        use CqlType::*;
        match self {
            Ascii => "AsciiType",
            Bigint => "LongType",
            Blob => "BytesType",
            Boolean => "BooleanType",
            Counter => "CounterColumnType",
            Date => "SimpleDateType",
            Decimal => "DecimalType",
            Double => "DoubleType",
            Duration => "DurationType",
            Float => "FloatType",
            Inet => "InetAddressType",
            Int => "Int32Type",
            Smallint => "ShortType",
            Text => "UTF8Type",
            Time => "TimeType",
            Timestamp => "TimestampType",
            Timeuuid => "TimeUUIDType",
            Tinyint => "ByteType",
            Uuid => "UUIDType",
            Varint => "IntegerType",
            List { .. } => "ListType",
            Set { .. } => "SetType",
            Map { .. } => "MapType",
            Tuple(_) => "TupleType",
        }
    }

    /// The native type of a CQL name, in any case.
    fn native(name: &str) -> Option<CqlType> {
        let found = NATIVES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, native)| native.clone())
    }

    /// Whether cells of a column of this type carry a path: a collection that is not frozen.
    pub fn is_multicell(&self) -> bool {
        matches!(
            self,
            CqlType::List { frozen: false, .. }
                | CqlType::Set { frozen: false, .. }
                | CqlType::Map { frozen: false, .. }
        )
    }

    /// Whether this is a list, set or map.
    pub fn is_collection(&self) -> bool {
        matches!(self, CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. })
    }

    /// The length in bytes of every non-empty value, for types where there is one.
    pub fn fixed_len(&self) -> Option<usize> {
        use CqlType::*;
        match self {
            Boolean | Tinyint => Some(1),
            Smallint => Some(2),
            Int | Float | Date => Some(4),
            Bigint | Counter | Double | Time | Timestamp => Some(8),
            Uuid | Timeuuid => Some(16),
            _ => None,
        }
    }
}

/// The package of Cassandra's type classes.
const MARSHAL: &str = "org.apache.cassandra.db.marshal.";

/// The native types by name; `varchar` after `text`, so that `text` is what is written.
const NATIVES: [(&str, CqlType); 21] = [
    ("ascii", CqlType::Ascii),
    ("bigint", CqlType::Bigint),
    ("blob", CqlType::Blob),
    ("boolean", CqlType::Boolean),
    ("counter", CqlType::Counter),
    ("date", CqlType::Date),
    ("decimal", CqlType::Decimal),
    ("double", CqlType::Double),
    ("duration", CqlType::Duration),
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

/// `frozen` says that a `frozen<>` stands around it, directly or further out. Nothing may follow the type in `name`.
fn parse_type(name: &str, depth: usize, frozen: bool) -> Option<CqlType> {
    if depth > TYPE_DEPTH_MAX {
        return None;
    }
    let name = name.trim();
    let Some((outer, rest)) = name.split_once('<') else {
        return CqlType::native(name);
    };
    let inner = rest.strip_suffix('>')?;
    // An element must be frozen by its own word unless the collection around it is.
    let element = |text: &str| parse_type(text, depth + 1, frozen).filter(|element| !element.is_multicell());
    match outer.trim().to_ascii_lowercase().as_str() {
        "frozen" => {
            // `frozen` itself is no level of nesting, but twice in a row is not a type.
            let found = parse_type(inner, depth, true)?;
            let word = inner.trim_start().get(..6).unwrap_or_default();
            let nested = found.is_collection() || matches!(found, CqlType::Tuple(_));
            (nested && !word.eq_ignore_ascii_case("frozen")).then_some(found)
        }
        "list" => Some(CqlType::List { element: element(inner)?.into(), frozen }),
        "set" => Some(CqlType::Set { element: element(inner)?.into(), frozen }),
        "map" => {
            let mut parts = split_parameters(inner);
            let (key, value) = (element(parts.next()?)?, element(parts.next()?)?);
            parts.next().is_none().then_some(CqlType::Map { key: key.into(), value: value.into(), frozen })
        }
        "tuple" => {
            // A tuple freezes what is in it.
            split_parameters(inner)
                .map(|part| parse_type(part, depth + 1, true))
                .collect::<Option<_>>()
                .map(CqlType::Tuple)
        }
        _ => None,
    }
}

/// The parts between the commas that stand outside of any `<>`.
fn split_parameters(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    text.split(move |c| {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

/// The CQL name: `text`, `list<int>`, `frozen<set<uuid>>`, `frozen<tuple<int, text>>`.
impl fmt::Display for CqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use CqlType::*;
        let frozen = matches!(self, Tuple(_)) || self.is_collection() && !self.is_multicell();
        if frozen {
            f.write_str("frozen<")?;
        }
        match self {
            List { element, .. } => write!(f, "list<{element}>")?,
            Set { element, .. } => write!(f, "set<{element}>")?,
            Map { key, value, .. } => write!(f, "map<{key}, {value}>")?,
            Tuple(elements) => {
                f.write_str("tuple<")?;
                for (i, element) in elements.iter().enumerate() {
                    write!(f, "{}{element}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str(">")?;
            }
            native => {
                let found = NATIVES.iter().find(|(_, known)| known == native);
                f.write_str(found.map_or("", |(name, _)| name))?;
            }
        }
        if frozen { f.write_str(">") } else { Ok(()) }
    }
}
