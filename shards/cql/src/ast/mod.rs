//! Statements as written: names in their stored case, values not yet typed.
//!
//! Invariants: markers are numbered from 0 in the order of the text; nesting is at most [`crate::DEPTH_MAX`] deep.
//!
//! What Helenus does not do yet never gets here: the parser names it and stops. What Cassandra itself refuses once it
//! knows the columns (`CONTAINS` on an int, `v = v + 1`) is kept far enough to give Cassandra's text.

mod define;
mod modify;
mod select;
mod selector;

pub use define::*;
pub use modify::*;
pub use select::*;
pub use selector::*;

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
    Define(std::sync::Arc<Definition>),
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
    /// `[a, b]`: a list or a vector.
    List(Vec<Term>),
    /// `{a, b}`: a set. `{}` is an empty map as well.
    Set(Vec<Term>),
    /// `{a: b, c: d}`.
    Map(Vec<(Term, Term)>),
    /// `{field: a, other: b}`.
    UserType(Vec<(String, Term)>),
    /// `(a, b)`.
    Tuple(Vec<Term>),
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
            Term::List(terms) => write_list(f, ["[", "]"], terms, |f, term| term.fmt(f)),
            Term::Set(terms) => write_list(f, ["{", "}"], terms, |f, term| term.fmt(f)),
            Term::Tuple(terms) => write_list(f, ["(", ")"], terms, |f, term| term.fmt(f)),
            Term::Map(entries) => write_list(f, ["{", "}"], entries, |f, (key, value)| write!(f, "{key}: {value}")),
            Term::UserType(fields) => {
                write_list(f, ["{", "}"], fields, |f, (name, value)| write!(f, "{name}: {value}"))
            }
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
    List(Box<TypeName>),
    Set(Box<TypeName>),
    Map(Box<TypeName>, Box<TypeName>),
    Tuple(Vec<TypeName>),
    /// The dimension as written.
    Vector(Box<TypeName>, String),
    Frozen(Box<TypeName>),
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

/// Writes `items` between two brackets, with commas.
fn write_list<T>(
    f: &mut fmt::Formatter<'_>,
    brackets: [&str; 2],
    items: &[T],
    write: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    f.write_str(brackets[0])?;
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            f.write_str(", ")?;
        }
        write(f, item)?;
    }
    f.write_str(brackets[1])
}
