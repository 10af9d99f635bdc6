//! The syntax tree: statements as written, with names in the case that is stored and values not yet typed.
//!
//! Invariants: markers are numbered from 0 in the order of the text; nesting is at most [`crate::DEPTH_MAX`] levels.
//!
//! Features that Helenus does not have never get here: the parser refuses them by name. What Cassandra refuses only
//! once it knows the columns (`CONTAINS` on an int, `v = v + 1`) is represented, so that it is refused with Cassandra's
//! text.

mod access;
mod condition;
mod define;
mod modify;
mod select;
mod selector;
mod transaction;

pub use access::*;
pub use condition::*;
pub use define::*;
pub use modify::*;
pub use select::*;
pub use selector::*;
pub use transaction::*;

use crate::java_order;
use model::CqlType;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

/// A statement as written.
#[derive(Clone, PartialEq, Debug)]
pub struct Statement {
    /// Its content.
    pub body: Body,
    /// The bind markers in order, with their name if given (`:name`).
    pub markers: Vec<Option<String>>,
}

/// The content of a statement.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "named as in CQL")]
pub enum Body {
    Select(Select),
    Modify(Modify),
    Batch(Batch),
    Transaction(Box<Transaction>),
    Use(String),
    Truncate { table: TableName, timeout: Option<Term> },
    Define(std::sync::Arc<Definition>),
    Describe { target: DescribeTarget, internals: bool },
    Access(std::sync::Arc<AccessStatement>),
}

/// The name of a table or other schema object, with an optional keyspace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableName {
    /// The keyspace, if given.
    pub keyspace: Option<String>,
    /// The name within the keyspace.
    pub name: String,
}

/// A value as written.
#[derive(Clone, PartialEq, Debug)]
pub enum Term {
    /// `null`.
    Null,
    /// A constant: its kind and its text (strings without quotes).
    Constant(Constant, String),
    /// A bind marker.
    Marker(u16),
    /// A function call; the name is in lower case unless quoted.
    Function {
        /// The keyspace, if given.
        keyspace: Option<String>,
        /// The name.
        name: String,
        /// The arguments.
        arguments: Vec<Term>,
    },
    /// `(type)term`.
    Cast(TypeName, Box<Term>),
    /// `[a, b]`: a list or a vector.
    List(Vec<Term>),
    /// `{a, b}`: a set. `{}` can also be an empty map.
    Set(Vec<Term>),
    /// `{a: b, c: d}`.
    Map(Vec<(Term, Term)>),
    /// `{field: a, other: b}`.
    UserType(Vec<(String, Term)>),
    /// `(a, b)`.
    Tuple(Vec<Term>),
    /// `row1.c`, in a transaction: a value that is read.
    Reference(Box<Reference>),
}

/// Kinds of constants.
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

/// Formats terms as in column names and error texts: `'a'`, `-5`, `?`, `:name` as `?`, `now()` as it was written,
/// `(int)1`.
impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Null => f.write_str("NULL"),
            Term::Constant(Constant::String, text) => write!(f, "'{text}'"),
            Term::Constant(_, text) => f.write_str(text),
            Term::Marker(_) => f.write_str("?"),
            Term::Function { keyspace, name, arguments } => {
                keyspace.iter().try_for_each(|keyspace| write!(f, "{keyspace}."))?;
                write!(f, "{}(", Quoted(name))?;
                for (at, argument) in arguments.iter().enumerate() {
                    write!(f, "{}{argument}", if at > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
            Term::Cast(type_name, term) => write!(f, "({type_name}){term}"),
            Term::List(terms) => write_list(f, ["[", "]"], terms, |f, term| term.fmt(f)),
            Term::Set(terms) => write_list(f, ["{", "}"], terms, |f, term| term.fmt(f)),
            Term::Tuple(terms) => write_list(f, ["(", ")"], terms, |f, term| term.fmt(f)),
            Term::Reference(reference) => reference.fmt(f),
            Term::Map(entries) => write_list(f, ["{", "}"], entries, |f, (key, value)| write!(f, "{key}: {value}")),
            Term::UserType(fields) => {
                let fields = in_hash_order(fields);
                write_list(f, ["{", "}"], &fields, |f, (name, value)| write!(f, "{name}: {value}"))
            }
        }
    }
}

/// Fields in the order in which Cassandra shows them, which is that of a Java hash map.
pub(crate) fn in_hash_order<T>(fields: &[(String, T)]) -> Vec<&(String, T)> {
    // Of a field given twice the last value counts, at the place of the first.
    let mut once: Vec<&(String, T)> = Vec::with_capacity(fields.len());
    let mut places = BTreeMap::new();
    for field in fields {
        match places.entry(&field.0) {
            Entry::Occupied(place) => once[*place.get()] = field,
            Entry::Vacant(place) => {
                place.insert(once.len());
                once.push(field);
            }
        }
    }
    java_order::in_hash_order(once, |(name, _)| java_order::bytes_hash(name.as_bytes()))
}

/// A type as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypeName {
    /// Its structure.
    pub kind: TypeKind,
    /// Its text as Cassandra shows it: `map<int, text>`.
    pub text: String,
}

/// The structure of a type name.
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
    /// A class name in quotes: `'org.apache...'`.
    Custom,
}

impl Term {
    /// The term with `keyspace` before the names of user types that have none, as Cassandra shows it once it has
    /// resolved the types.
    pub(crate) fn qualified(&self, keyspace: &str) -> Term {
        let all = |terms: &[Term]| terms.iter().map(|term| term.qualified(keyspace)).collect();
        match self {
            Term::Null | Term::Constant(..) | Term::Marker(_) | Term::Reference(_) => self.clone(),
            Term::Function { keyspace: own, name, arguments } => {
                Term::Function { keyspace: own.clone(), name: name.clone(), arguments: all(arguments) }
            }
            Term::Cast(type_name, term) => {
                Term::Cast(type_name.qualified(keyspace), Box::new(term.qualified(keyspace)))
            }
            Term::List(terms) => Term::List(all(terms)),
            Term::Set(terms) => Term::Set(all(terms)),
            Term::Tuple(terms) => Term::Tuple(all(terms)),
            Term::Map(entries) => Term::Map(
                entries.iter().map(|(key, value)| (key.qualified(keyspace), value.qualified(keyspace))).collect(),
            ),
            Term::UserType(fields) => {
                Term::UserType(fields.iter().map(|(name, term)| (name.clone(), term.qualified(keyspace))).collect())
            }
        }
    }
}

impl TypeName {
    /// The type name with `keyspace` before the names of user types that have none.
    pub(crate) fn qualified(&self, keyspace: &str) -> TypeName {
        match &self.kind {
            TypeKind::Frozen(inner) => inner.qualified(keyspace).frozen(),
            TypeKind::User { keyspace: own, name } => {
                let keyspace = own.as_deref().unwrap_or(keyspace).to_owned();
                let text = format!("{keyspace}.{name}");
                TypeName { kind: TypeKind::User { keyspace: Some(keyspace), name: name.clone() }, text }
            }
            TypeKind::Tuple(_) => self.with_parts(|part| part.qualified(keyspace).frozen()),
            _ => self.with_parts(|part| part.qualified(keyspace)),
        }
    }

    /// The type name, frozen with everything in it, as Cassandra shows the content of a frozen type or tuple.
    fn frozen(&self) -> TypeName {
        match self.kind {
            TypeKind::List(_) | TypeKind::Set(_) | TypeKind::Map(..) | TypeKind::User { .. } => {
                let inner = self.with_parts(TypeName::frozen);
                TypeName { text: format!("frozen<{inner}>"), kind: TypeKind::Frozen(Box::new(inner)) }
            }
            _ => self.clone(),
        }
    }

    /// The type name with `part` applied to the types directly inside it.
    fn with_parts(&self, part: impl Fn(&TypeName) -> TypeName) -> TypeName {
        let one = |inner: &TypeName| Box::new(part(inner));
        let (text, kind) = match &self.kind {
            TypeKind::Native(_) | TypeKind::Custom | TypeKind::User { .. } => return self.clone(),
            TypeKind::List(element) => {
                let element = one(element);
                (format!("list<{element}>"), TypeKind::List(element))
            }
            TypeKind::Set(element) => {
                let element = one(element);
                (format!("set<{element}>"), TypeKind::Set(element))
            }
            TypeKind::Map(key, value) => {
                let (key, value) = (one(key), one(value));
                (format!("map<{key}, {value}>"), TypeKind::Map(key, value))
            }
            TypeKind::Tuple(elements) => {
                let elements: Vec<TypeName> = elements.iter().map(&part).collect();
                let texts: Vec<&str> = elements.iter().map(|element| element.text.as_str()).collect();
                (format!("tuple<{}>", texts.join(", ")), TypeKind::Tuple(elements))
            }
            TypeKind::Vector(element, dimension) => {
                let element = one(element);
                (format!("vector<{element}, {dimension}>"), TypeKind::Vector(element, dimension.clone()))
            }
            TypeKind::Frozen(inner) => {
                let inner = one(inner);
                (format!("frozen<{inner}>"), TypeKind::Frozen(inner))
            }
        };
        TypeName { kind, text }
    }
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Formats a function's name as in texts: in quotes if CQL needs them.
pub(crate) struct Quoted<'n>(pub(crate) &'n str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // A reserved word that is also the name of a function.
            "token" => f.write_str(self.0),
            name => f.write_str(&model::identifier::quoted(name)),
        }
    }
}

/// Writes `items` between two brackets, separated by commas.
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
