//! BEGIN TRANSACTION ... COMMIT TRANSACTION as written.

use super::{ConditionPart, Modify, Operator, Select, Term};
use std::fmt;

/// A transaction.
#[derive(Clone, PartialEq, Debug)]
pub struct Transaction {
    /// The LET assignments, at most [`crate::LETS_MAX`].
    pub lets: Vec<Let>,
    /// What the transaction answers with, if it does.
    pub returning: Option<Returning>,
    /// The conditions of IF, which must all hold; none without IF.
    pub conditions: Vec<TransactionCondition>,
    /// The statements that change something, each with its position.
    pub updates: Vec<(Modify, Position)>,
}

/// `LET name = (SELECT ...)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Let {
    /// The name by which references find the row.
    pub name: String,
    /// The SELECT, which has neither GROUP BY, ORDER BY nor aliases.
    pub select: Select,
    /// Where the SELECT begins.
    pub position: Position,
}

/// The SELECT of a transaction.
#[derive(Clone, PartialEq, Debug)]
pub enum Returning {
    /// `SELECT ... FROM ...`.
    Select(Box<Select>, Position),
    /// `SELECT row1.v, row2.v`.
    References(Vec<Reference>),
}

/// `row1`, `row1.c`, `row1.c[k]` or `row1.c.f`.
#[derive(Clone, PartialEq, Debug)]
pub struct Reference {
    /// The name of a LET assignment.
    pub tuple: String,
    /// The column and which part of it is meant; `None` for the whole row.
    pub column: Option<(String, ConditionPart)>,
}

/// One condition of the IF of a transaction.
#[derive(Clone, PartialEq, Debug)]
pub enum TransactionCondition {
    /// `row1 IS NULL`, `row1.c IS NOT NULL`.
    Null {
        /// What is tested.
        reference: Reference,
        /// Whether it was written with NOT.
        not: bool,
    },
    /// `row1.c = x` or `x = row1.c`: one side at least is a reference.
    Compare {
        /// The left side.
        left: Term,
        /// The comparison.
        operator: Operator,
        /// The right side.
        right: Term,
    },
}

/// A place in the text of a statement, both numbers from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in UTF-16 units.
    pub column: usize,
}

/// Formats the place as in error texts.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at [{}:{}]", self.line, self.column)
    }
}

/// Formats the reference as written.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tuple)?;
        let Some((column, part)) = &self.column else { return Ok(()) };
        write!(f, ".{column}")?;
        match part {
            ConditionPart::Whole => Ok(()),
            ConditionPart::Element(key) => write!(f, "[{key}]"),
            ConditionPart::Field(field) => write!(f, ".{field}"),
        }
    }
}
