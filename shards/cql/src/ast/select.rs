//! SELECT and WHERE as written.

use super::{SelectItem, Selector, TableName, Term};
use std::fmt;

/// A SELECT.
#[derive(Clone, PartialEq, Debug)]
pub struct Select {
    /// DISTINCT.
    pub distinct: bool,
    /// SELECT JSON.
    pub json: bool,
    /// The selected items; `None` for `*`.
    pub items: Option<Vec<SelectItem>>,
    /// FROM.
    pub table: TableName,
    /// WHERE.
    pub relations: Vec<Relation>,
    /// GROUP BY: columns, and calls of `floor` on columns.
    pub group: Vec<Selector>,
    /// ORDER BY.
    pub order: Vec<Ordering>,
    /// PER PARTITION LIMIT.
    pub per_partition_limit: Option<Term>,
    /// LIMIT.
    pub limit: Option<Term>,
    /// ALLOW FILTERING.
    pub allow_filtering: bool,
    /// USING TIMEOUT.
    pub timeout: Option<Term>,
}

/// One column of ORDER BY.
#[derive(Clone, PartialEq, Debug)]
pub struct Ordering {
    /// The column.
    pub name: String,
    /// The value of `ANN OF`, if given.
    pub near: Option<Term>,
    /// DESC.
    pub descending: bool,
}

/// Comparison operators.
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
    /// The operator as written.
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

/// One relation of a WHERE clause.
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
    /// `(a, b) > (x, y)`.
    Tuple(Vec<String>, Operator, TupleValue),
    /// `(a, b) IN ((x, y), (z, w))` and `(a, b) IN (?, ?)`.
    TupleIn(Vec<String>, Vec<TupleValue>),
    /// `(a, b) IN ?`.
    TupleInMarker(Vec<String>, u16),
    /// `c CONTAINS x`.
    Contains(String, Term),
    /// `c CONTAINS KEY x`.
    ContainsKey(String, Term),
    /// `c[x] = y`.
    Entry(String, Term, Operator, Term),
    /// `c LIKE x`.
    Like(String, Term),
    /// `c IS NOT NULL`.
    IsNotNull(String),
}

/// The value of a relation on several columns.
#[derive(Clone, PartialEq, Debug)]
pub enum TupleValue {
    /// `(x, y)`.
    Terms(Vec<Term>),
    /// `?`.
    Marker(u16),
}

/// Formats the value as in error texts.
impl fmt::Display for TupleValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TupleValue::Marker(_) => f.write_str("?"),
            TupleValue::Terms(terms) => {
                f.write_str("(")?;
                for (at, term) in terms.iter().enumerate() {
                    write!(f, "{}{term}", if at > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
        }
    }
}
