//! The items of a SELECT as written.

use super::{Quoted, Term, TypeName, write_list};
use std::fmt;

/// A selector with its alias.
#[derive(Clone, PartialEq, Debug)]
pub struct SelectItem {
    /// The selector.
    pub selector: Selector,
    /// The alias given with AS.
    pub alias: Option<String>,
}

/// An expression of a SELECT.
#[derive(Clone, PartialEq, Debug)]
pub enum Selector {
    /// A column.
    Column(String),
    /// `writetime(c)`, `maxwritetime(c)`, `ttl(c)` of a column or a part of one.
    CellAttribute(CellAttribute, Box<Selector>),
    /// `count(*)` and `count(1)`.
    CountRows,
    /// A function call.
    Function {
        /// Keyspace.
        keyspace: Option<String>,
        /// Name.
        name: String,
        /// Arguments.
        arguments: Vec<Selector>,
    },
    /// `CAST(x AS type)`.
    Cast(Box<Selector>, TypeName),
    /// `(type)x`, where `x` contains columns.
    TypeHint(TypeName, Box<Selector>),
    /// `x.field`.
    Field(Box<Selector>, String),
    /// `x[key]`.
    Element(Box<Selector>, Term),
    /// `x[from..to]`, where each end may be left out.
    Slice(Box<Selector>, Option<Term>, Option<Term>),
    /// `[a, b]`.
    List(Vec<Selector>),
    /// `{a, b}`.
    Set(Vec<Selector>),
    /// `{a: b}`.
    Map(Vec<(Selector, Selector)>),
    /// `{field: a}`.
    UserType(Vec<(String, Selector)>),
    /// `(a, b)`.
    Tuple(Vec<Selector>),
    /// A term without columns.
    Term(Term),
}

/// The keyspace of all built-in functions.
pub(crate) const SYSTEM: &str = "system";
/// The name of the function behind a negative sign.
pub(crate) const NEGATION: &str = "_negate";

/// Arithmetic operators. Each is another notation for a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as what they do")]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Arithmetic {
    /// All operators.
    pub(crate) const ALL: [Arithmetic; 5] =
        [Arithmetic::Add, Arithmetic::Subtract, Arithmetic::Multiply, Arithmetic::Divide, Arithmetic::Modulo];

    /// The name of its function.
    pub(crate) fn function_name(self) -> &'static str {
        match self {
            Arithmetic::Add => "_add",
            Arithmetic::Subtract => "_substract",
            Arithmetic::Multiply => "_multiply",
            Arithmetic::Divide => "_divide",
            Arithmetic::Modulo => "_modulo",
        }
    }

    /// The operator whose function has this name.
    pub(crate) fn of_function(name: &str) -> Option<Arithmetic> {
        Arithmetic::ALL.into_iter().find(|operator| operator.function_name() == name)
    }

    /// The operator as written.
    pub(crate) fn symbol(self) -> char {
        match self {
            Arithmetic::Add => '+',
            Arithmetic::Subtract => '-',
            Arithmetic::Multiply => '*',
            Arithmetic::Divide => '/',
            Arithmetic::Modulo => '%',
        }
    }
}

/// Attributes of a cell other than its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as in CQL")]
pub enum CellAttribute {
    WriteTime,
    MaxWriteTime,
    Ttl,
}

impl CellAttribute {
    /// Its function as written.
    pub fn name(self) -> &'static str {
        match self {
            CellAttribute::WriteTime => "writetime",
            CellAttribute::MaxWriteTime => "maxwritetime",
            CellAttribute::Ttl => "ttl",
        }
    }
}

impl Selector {
    /// Appends the names of the columns in the selector, in their order.
    pub(crate) fn names<'s>(&'s self, out: &mut Vec<&'s str>) {
        match self {
            Selector::Column(name) => out.push(name),
            Selector::CellAttribute(_, of)
            | Selector::Cast(of, _)
            | Selector::TypeHint(_, of)
            | Selector::Field(of, _)
            | Selector::Element(of, _)
            | Selector::Slice(of, ..) => of.names(out),
            Selector::Function { arguments: parts, .. }
            | Selector::List(parts)
            | Selector::Set(parts)
            | Selector::Tuple(parts) => parts.iter().for_each(|part| part.names(out)),
            Selector::Map(entries) => entries.iter().for_each(|(key, value)| {
                key.names(out);
                value.names(out);
            }),
            Selector::UserType(fields) => fields.iter().for_each(|(_, value)| value.names(out)),
            Selector::CountRows | Selector::Term(_) => {}
        }
    }

    /// The selector with `keyspace` before the names of user types that have none.
    pub(crate) fn qualified(&self, keyspace: &str) -> Selector {
        let one = |of: &Selector| Box::new(of.qualified(keyspace));
        let all = |parts: &[Selector]| parts.iter().map(|part| part.qualified(keyspace)).collect::<Vec<_>>();
        match self {
            Selector::Column(_) | Selector::CellAttribute(..) | Selector::CountRows => self.clone(),
            Selector::Function { keyspace: own, name, arguments } => {
                Selector::Function { keyspace: own.clone(), name: name.clone(), arguments: all(arguments) }
            }
            Selector::Cast(of, type_name) => Selector::Cast(one(of), type_name.clone()),
            Selector::TypeHint(type_name, of) => Selector::TypeHint(type_name.qualified(keyspace), one(of)),
            Selector::Field(of, name) => Selector::Field(one(of), name.clone()),
            Selector::Element(of, key) => Selector::Element(one(of), key.qualified(keyspace)),
            Selector::Slice(of, from, to) => {
                let end = |term: &Option<Term>| term.as_ref().map(|term| term.qualified(keyspace));
                Selector::Slice(one(of), end(from), end(to))
            }
            Selector::List(parts) => Selector::List(all(parts)),
            Selector::Set(parts) => Selector::Set(all(parts)),
            Selector::Tuple(parts) => Selector::Tuple(all(parts)),
            Selector::Map(entries) => Selector::Map(
                entries.iter().map(|(key, value)| (key.qualified(keyspace), value.qualified(keyspace))).collect(),
            ),
            Selector::UserType(fields) => Selector::UserType(
                fields.iter().map(|(name, value)| (name.clone(), value.qualified(keyspace))).collect(),
            ),
            Selector::Term(term) => Selector::Term(term.qualified(keyspace)),
        }
    }

    /// The selector as a term, if it contains no column.
    pub(crate) fn as_term(&self) -> Option<Term> {
        let all = |selectors: &[Selector]| selectors.iter().map(Selector::as_term).collect::<Option<Vec<_>>>();
        Some(match self {
            Selector::Term(term) => term.clone(),
            Selector::Function { keyspace, name, arguments } => {
                Term::Function { keyspace: keyspace.clone(), name: name.clone(), arguments: all(arguments)? }
            }
            Selector::TypeHint(type_name, inner) => Term::Cast(type_name.clone(), Box::new(inner.as_term()?)),
            Selector::List(parts) => Term::List(all(parts)?),
            Selector::Set(parts) => Term::Set(all(parts)?),
            Selector::Tuple(parts) => Term::Tuple(all(parts)?),
            Selector::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| Some((key.as_term()?, value.as_term()?)));
                Term::Map(entries.collect::<Option<_>>()?)
            }
            Selector::UserType(fields) => {
                let fields = fields.iter().map(|(name, value)| Some((name.clone(), value.as_term()?)));
                Term::UserType(fields.collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }
}

impl Selector {
    /// The selector as a term, if it consists of literals only.
    pub(crate) fn as_literal(&self) -> Option<Term> {
        if self.calls() { None } else { self.as_term() }
    }

    /// Whether it contains a function call.
    fn calls(&self) -> bool {
        match self {
            Selector::Function { .. } => true,
            Selector::TypeHint(_, of) => of.calls(),
            Selector::List(parts) | Selector::Set(parts) | Selector::Tuple(parts) => parts.iter().any(Selector::calls),
            Selector::Map(entries) => entries.iter().any(|(key, value)| key.calls() || value.calls()),
            Selector::UserType(fields) => fields.iter().any(|(_, value)| value.calls()),
            _ => false,
        }
    }
}

/// Formats selectors as in error texts and names of result columns.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |f: &mut fmt::Formatter<'_>, selector: &Selector| selector.fmt(f);
        match self {
            Selector::Column(name) => f.write_str(name),
            Selector::CellAttribute(fact, of) => write!(f, "{}({of})", fact.name()),
            Selector::CountRows => f.write_str("count"),
            Selector::Function { keyspace, name, arguments } => {
                // Built-in functions are shown with their keyspace, operators as written.
                let keyspace = keyspace.as_deref().unwrap_or(SYSTEM);
                match arguments.as_slice() {
                    [left, right] if let (SYSTEM, Some(operator)) = (keyspace, Arithmetic::of_function(name)) => {
                        write!(f, "{left} {} {right}", operator.symbol())
                    }
                    [of] if keyspace == SYSTEM && name == NEGATION => write!(f, "-{of}"),
                    _ => {
                        write!(f, "{keyspace}.{}", Quoted(name))?;
                        write_list(f, ["(", ")"], arguments, shown)
                    }
                }
            }
            Selector::Cast(of, type_name) => write!(f, "cast({of} as {type_name})"),
            Selector::TypeHint(type_name, of) => write!(f, "({type_name}){of}"),
            Selector::Field(of, name) => write!(f, "{of}.{name}"),
            Selector::Element(of, key) => write!(f, "{of}[{key}]"),
            Selector::Slice(of, from, to) => {
                write!(f, "{of}[")?;
                from.iter().try_for_each(|from| from.fmt(f))?;
                f.write_str("..")?;
                to.iter().try_for_each(|to| to.fmt(f))?;
                f.write_str("]")
            }
            Selector::List(parts) => write_list(f, ["[", "]"], parts, shown),
            Selector::Set(parts) => write_list(f, ["{", "}"], parts, shown),
            Selector::Tuple(parts) => write_list(f, ["(", ")"], parts, shown),
            Selector::Map(entries) => write_list(f, ["{", "}"], entries, |f, (key, value)| write!(f, "{key}: {value}")),
            Selector::UserType(fields) => {
                write_list(f, ["{", "}"], fields, |f, (name, value)| write!(f, "{name}: {value}"))
            }
            Selector::Term(term) => term.fmt(f),
        }
    }
}
