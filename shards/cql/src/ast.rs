//! Statements as written: names in their stored case, values not yet typed.
//!
//! Invariants: markers are numbered from 0 in the order of the text; nesting is at most [`crate::DEPTH_MAX`] deep.
//!
//! What Helenus does not do yet never gets here: the parser names it and stops. What Cassandra itself refuses once it
//! knows the columns (`CONTAINS` on an int, `v = v + 1`) is kept far enough to give Cassandra's text.

use model::CqlType;
use std::fmt;

/// A statement as written.
#[derive(Clone, PartialEq, Debug)]
pub struct Statement {
    /// What it says.
    pub body: Body,
    /// The bind markers in order; a name if one was given (`:name`).
    pub markers: Vec<Option<String>>,
}

/// What a statement says.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "named as in CQL")]
pub enum Body {
    Select(Select),
    Modify(Modify),
    Batch(Batch),
    Use(String),
    Truncate { table: TableName, timeout: Option<Term> },
    CreateKeyspace(CreateKeyspace),
    DropKeyspace { name: String, if_exists: bool },
    CreateTable(CreateTable),
    DropTable { table: TableName, if_exists: bool },
    Describe { target: crate::plan::DescribeTarget, internals: bool },
}

/// A table's name, perhaps with its keyspace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableName {
    /// Keyspace.
    pub keyspace: Option<String>,
    /// Table.
    pub name: String,
}

/// A value as written.
#[derive(Clone, PartialEq, Debug)]
pub enum Term {
    /// `null`.
    Null,
    /// A constant: its family and text (strings without quotes).
    Constant(Constant, String),
    /// A bind marker.
    Marker(u16),
    /// A call; the name is in lower case unless quoted.
    Function {
        /// Keyspace.
        keyspace: Option<String>,
        /// Name.
        name: String,
        /// Arguments.
        arguments: Vec<Term>,
    },
    /// `(type)term`.
    Cast(TypeName, Box<Term>),
    /// A literal of something that is not scalar. User tables have no such columns yet: all that is left is to say so.
    Composite(Composite),
}

/// Families of constants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as in Cassandra's error texts")]
pub enum Constant {
    String,
    Integer,
    Uuid,
    Float,
    Boolean,
    Hex,
    Duration,
}

impl Constant {
    /// The name in error texts.
    pub fn name(self) -> &'static str {
        match self {
            Constant::String => "STRING",
            Constant::Integer => "INTEGER",
            Constant::Uuid => "UUID",
            Constant::Float => "FLOAT",
            Constant::Boolean => "BOOLEAN",
            Constant::Hex => "HEX",
            Constant::Duration => "DURATION",
        }
    }
}

/// Kinds of literals that are not scalar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as in CQL")]
pub enum Composite {
    List,
    Set,
    Map,
    UserType,
    Tuple,
}

/// As names and error texts show terms: `'a'`, `-5`, `?`, `:name` as `?`, `system.now()`, `(int)1`.
impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Null => f.write_str("NULL"),
            Term::Constant(Constant::String, text) => write!(f, "'{text}'"),
            Term::Constant(_, text) => f.write_str(text),
            Term::Marker(_) => f.write_str("?"),
            Term::Function { keyspace, name, arguments } => {
                // Built-in functions are shown with the keyspace they live in.
                write!(f, "{}.{name}(", keyspace.as_deref().unwrap_or("system"))?;
                for (at, argument) in arguments.iter().enumerate() {
                    write!(f, "{}{argument}", if at > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
            Term::Cast(type_name, term) => write!(f, "({type_name}){term}"),
            Term::Composite(Composite::List) => f.write_str("[...]"),
            Term::Composite(Composite::Tuple) => f.write_str("(...)"),
            Term::Composite(_) => f.write_str("{...}"),
        }
    }
}

/// A type as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypeName {
    /// What it is.
    pub kind: TypeKind,
    /// Its text as Cassandra shows it: `map<int, text>`.
    pub text: String,
}

/// What a type name denotes.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as in CQL")]
pub enum TypeKind {
    Native(CqlType),
    /// A list, set or map, with what stands in it.
    Collection {
        frozen: bool,
    },
    Tuple,
    Vector,
    User {
        keyspace: Option<String>,
        name: String,
    },
    /// `'org.apache...'`.
    Custom,
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// SELECT.
#[derive(Clone, PartialEq, Debug)]
pub struct Select {
    /// `None`: `*`.
    pub items: Option<Vec<SelectItem>>,
    /// FROM.
    pub table: TableName,
    /// WHERE.
    pub relations: Vec<Relation>,
    /// ORDER BY: columns and whether they descend.
    pub order: Vec<(String, bool)>,
    /// LIMIT.
    pub limit: Option<Term>,
    /// ALLOW FILTERING.
    pub allow_filtering: bool,
    /// USING TIMEOUT.
    pub timeout: Option<Term>,
}

/// One selector with its alias.
#[derive(Clone, PartialEq, Debug)]
pub struct SelectItem {
    /// What.
    pub selector: Selector,
    /// AS.
    pub alias: Option<String>,
}

/// What a SELECT asks for.
#[derive(Clone, PartialEq, Debug)]
pub enum Selector {
    /// A column.
    Column(String),
    /// `writetime(c)`.
    WriteTime(String),
    /// `count(*)` and `count(1)`.
    CountRows,
    /// A call.
    Function {
        /// Keyspace.
        keyspace: Option<String>,
        /// Name.
        name: String,
        /// Arguments.
        arguments: Vec<Selector>,
    },
    /// A term without columns.
    Term(Term),
}

/// As error texts show selectors.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::Column(name) => f.write_str(name),
            Selector::WriteTime(name) => write!(f, "writetime({name})"),
            Selector::CountRows => f.write_str("count(*)"),
            Selector::Function { keyspace, name, arguments } => {
                // Built-in functions are shown with the keyspace they live in.
                write!(f, "{}.{name}(", keyspace.as_deref().unwrap_or("system"))?;
                for (at, argument) in arguments.iter().enumerate() {
                    write!(f, "{}{argument}", if at > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
            Selector::Term(term) => term.fmt(f),
        }
    }
}

/// Comparisons.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as in CQL")]
pub enum Operator {
    Equal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    NotEqual,
}

impl Operator {
    /// As written.
    pub fn symbol(self) -> &'static str {
        match self {
            Operator::Equal => "=",
            Operator::Less => "<",
            Operator::LessEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterEqual => ">=",
            Operator::NotEqual => "!=",
        }
    }
}

/// One condition of a WHERE clause.
#[derive(Clone, PartialEq, Debug)]
pub enum Relation {
    /// `c = x`, `c < x`, ...
    Compare(String, Operator, Term),
    /// `c IN (x, y)`.
    In(String, Vec<Term>),
    /// `c IN ?`.
    InMarker(String, u16),
    /// `token(a, b) > x`.
    Token(Vec<String>, Operator, Term),
    /// What Cassandra refuses on scalar columns without an index.
    Other(String, OtherRelation),
}

/// Conditions that no scalar column without an index takes.
#[derive(Clone, PartialEq, Debug)]
pub enum OtherRelation {
    /// `IS NOT NULL`.
    IsNotNull,
    /// `LIKE x`.
    Like(Term),
    /// `CONTAINS x`.
    Contains,
    /// `CONTAINS KEY x`.
    ContainsKey,
    /// `c[x] = y`.
    Element,
}

/// INSERT, UPDATE, DELETE.
#[derive(Clone, PartialEq, Debug)]
pub struct Modify {
    /// Which.
    pub kind: ModifyBody,
    /// Where.
    pub table: TableName,
    /// USING.
    pub using: Using,
}

/// What differs between INSERT, UPDATE and DELETE.
#[derive(Clone, PartialEq, Debug)]
pub enum ModifyBody {
    /// INSERT INTO t (columns) VALUES (values).
    Insert {
        /// Columns as written.
        columns: Vec<String>,
        /// Values as written; perhaps not as many.
        values: Vec<Term>,
    },
    /// UPDATE t SET ... WHERE.
    Update {
        /// SET.
        assignments: Vec<(String, Assignment)>,
        /// WHERE.
        relations: Vec<Relation>,
    },
    /// DELETE columns FROM t WHERE.
    Delete {
        /// Columns, and whether an element or field of them was meant.
        columns: Vec<(String, DeletePart)>,
        /// WHERE.
        relations: Vec<Relation>,
    },
}

/// What DELETE removes of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeletePart {
    /// All of it.
    Whole,
    /// `c[x]`.
    Element,
    /// `c.f`.
    Field,
}

/// The right side of a SET.
#[derive(Clone, PartialEq, Debug)]
pub enum Assignment {
    /// `c = x`.
    Value(Term),
    /// Something that scalar columns do not take: the operation and the kind of column that would, for the error text.
    Other {
        /// `v = v + 1`.
        operation: String,
        /// `non counter`.
        wrong_kind: &'static str,
    },
}

/// USING.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Using {
    /// TIMESTAMP.
    pub timestamp: Option<Term>,
    /// TTL.
    pub ttl: Option<Term>,
    /// TIMEOUT.
    pub timeout: Option<Term>,
}

/// BEGIN ... APPLY BATCH.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// How it was declared.
    pub kind: crate::plan::BatchKind,
    /// USING of the whole.
    pub using: Using,
    /// The statements.
    pub statements: Vec<Modify>,
}

/// One `name = value` of WITH.
#[derive(Clone, PartialEq, Debug)]
pub struct Property {
    /// Its name, in lower case unless quoted.
    pub name: String,
    /// Its value.
    pub value: PropertyValue,
}

/// The value of a property: constants as their text, without quotes.
#[derive(Clone, PartialEq, Debug)]
pub enum PropertyValue {
    /// A constant.
    Text(String),
    /// `{'k': 'v', ...}`.
    Map(Vec<(String, String)>),
}

/// CREATE KEYSPACE.
#[derive(Clone, PartialEq, Debug)]
pub struct CreateKeyspace {
    /// Name.
    pub name: String,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// WITH.
    pub properties: Vec<Property>,
}

/// CREATE TABLE.
#[derive(Clone, PartialEq, Debug)]
pub struct CreateTable {
    /// Name.
    pub table: TableName,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// Columns in order.
    pub columns: Vec<ColumnDefinition>,
    /// Every PRIMARY KEY clause (a column's own too): partition key and clustering columns.
    pub primary_keys: Vec<(Vec<String>, Vec<String>)>,
    /// CLUSTERING ORDER BY: columns and whether they descend.
    pub clustering_order: Vec<(String, bool)>,
    /// WITH COMPACT STORAGE.
    pub compact: bool,
    /// The other properties.
    pub properties: Vec<Property>,
}

/// A column of CREATE TABLE.
#[derive(Clone, PartialEq, Debug)]
pub struct ColumnDefinition {
    /// Name.
    pub name: String,
    /// Type.
    pub type_name: TypeName,
    /// STATIC.
    pub is_static: bool,
}
