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
        let _ = name;
        todo!()
    }

    /// The fully qualified marshal class, as result metadata ids hash it and DESCRIBE tools expect it:
    /// `org.apache.cassandra.db.marshal.Int32Type`.
    pub fn class_name(&self) -> String {
        todo!()
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

/// The CQL name: `text`, `list<int>`, `frozen<set<uuid>>`, `frozen<tuple<int, text>>`.
impl fmt::Display for CqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _ = f;
        todo!()
    }
}
