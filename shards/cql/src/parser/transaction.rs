//! Parses BEGIN TRANSACTION ... COMMIT TRANSACTION.
//!
//! 1. LET assignments, each a SELECT of one row.
//! 2. An optional SELECT, of columns or of references to the rows of LET.
//! 3. An optional IF with the statements up to END IF, or statements alone.
//!
//! References may stand only where a value of INSERT or SET stands alone, and in IF, as in Cassandra.

use super::Parser;
use crate::ast::{
    Body, ConditionPart, Let, Position, Reference, Returning, Select, SelectItem, Selector, Term, Transaction,
    TransactionCondition,
};
use crate::lexer::TokenKind;
use crate::limits::{LETS_MAX, RELATIONS_MAX};
use model::Failure;

type Result<T> = std::result::Result<T, Failure>;

/// Words that are constants where a value is expected.
const CONSTANTS: [&str; 5] = ["null", "true", "false", "nan", "infinity"];

impl Parser<'_> {
    pub(super) fn transaction(&mut self) -> Result<Body> {
        self.expect_word("begin")?;
        self.expect_word("transaction")?;
        self.in_transaction = true;
        let mut lets = Vec::new();
        while self.token.is("let") {
            if lets.len() == LETS_MAX {
                return Err(Failure::invalid(format!("A transaction takes at most {LETS_MAX} LET assignments")));
            }
            lets.push(self.assigned_row()?);
            self.expect(TokenKind::Semicolon, "';'")?;
        }
        let returning = match self.token.is("select") {
            true => Some(self.returning()?),
            false => None,
        };
        let is_conditional = self.accept_word("if")?;
        let mut conditions = Vec::new();
        if is_conditional {
            conditions = self.transaction_conditions()?;
            self.expect_word("then")?;
        }
        let mut updates = Vec::new();
        while self.token.is("insert") || self.token.is("update") || self.token.is("delete") {
            let position = self.here();
            updates.push((self.modify()?, position));
            self.expect(TokenKind::Semicolon, "';'")?;
        }
        if is_conditional {
            self.expect_word("end")?;
            self.expect_word("if")?;
        }
        self.expect_word("commit")?;
        self.expect_word("transaction")?;
        Ok(Body::Transaction(Box::new(Transaction { lets, returning, conditions, updates })))
    }

    /// Parses `LET name = (SELECT items FROM t WHERE ... LIMIT n)`.
    fn assigned_row(&mut self) -> Result<Let> {
        self.expect_word("let")?;
        let name = self.name()?;
        self.expect(TokenKind::Equal, "'='")?;
        self.expect(TokenKind::ParenOpen, "'('")?;
        let position = self.here();
        self.expect_word("select")?;
        let item = |parser: &mut Self| Ok(SelectItem { selector: parser.selector()?, alias: None });
        let items = match self.accept(TokenKind::Star)? {
            true => None,
            false => Some(self.list(item)?),
        };
        self.expect_word("from")?;
        let table = self.table_name()?;
        self.expect_word("where")?;
        let relations = self.relations()?;
        let limit = if self.accept_word("limit")? { Some(self.integer_or_marker()?) } else { None };
        self.expect(TokenKind::ParenClose, "')'")?;
        let select = Select {
            distinct: false,
            json: false,
            items,
            table,
            relations,
            group: Vec::new(),
            order: Vec::new(),
            per_partition_limit: None,
            limit,
            allow_filtering: false,
            timeout: None,
        };
        Ok(Let { name, select, position })
    }

    /// Parses the SELECT of the transaction and the semicolon after it.
    fn returning(&mut self) -> Result<Returning> {
        let position = self.here();
        let selected = self.selected()?;
        let references = match &selected.items {
            Some(items) if self.token.kind == TokenKind::Semicolon => {
                items.iter().map(reference_of).collect::<Option<Vec<_>>>()
            }
            _ => None,
        };
        let returning = match references {
            Some(references) => Returning::References(references),
            None => Returning::Select(Box::new(self.select_from(selected)?), position),
        };
        self.expect(TokenKind::Semicolon, "';'")?;
        Ok(returning)
    }

    fn transaction_conditions(&mut self) -> Result<Vec<TransactionCondition>> {
        let mut conditions = vec![self.transaction_condition()?];
        while self.accept_word("and")? {
            if conditions.len() == RELATIONS_MAX {
                return Err(Failure::invalid(format!("An IF clause takes at most {RELATIONS_MAX} conditions")));
            }
            conditions.push(self.transaction_condition()?);
        }
        Ok(conditions)
    }

    fn transaction_condition(&mut self) -> Result<TransactionCondition> {
        let left = self.value()?;
        if let Term::Reference(reference) = &left
            && self.accept_word("is")?
        {
            let not = self.accept_word("not")?;
            self.expect_word("null")?;
            return Ok(TransactionCondition::Null { reference: (**reference).clone(), not });
        }
        let operator = self.operator()?;
        let right = self.value()?;
        match (&left, &right) {
            (Term::Reference(_), _) | (_, Term::Reference(_)) => {}
            _ => return Err(self.no_viable()),
        }
        Ok(TransactionCondition::Compare { left, operator, right })
    }

    /// Parses a value, which in a transaction may be a reference.
    pub(super) fn value(&mut self) -> Result<Term> {
        match self.at_reference()? {
            true => Ok(Term::Reference(Box::new(self.reference()?))),
            false => self.term(),
        }
    }

    /// Whether a reference begins here, not a constant or the call of a function.
    pub(super) fn at_reference(&self) -> Result<bool> {
        if !self.in_transaction || !self.at_name() || CONSTANTS.iter().any(|word| self.token.is(word)) {
            return Ok(false);
        }
        let mut lexer = self.lexer;
        let mut next = lexer.next()?;
        if next.kind == TokenKind::Dot {
            lexer.next()?;
            next = lexer.next()?;
        }
        Ok(next.kind != TokenKind::ParenOpen)
    }

    fn reference(&mut self) -> Result<Reference> {
        let tuple = self.name()?;
        if !self.accept(TokenKind::Dot)? {
            return Ok(Reference { tuple, column: None });
        }
        let column = self.name()?;
        let part = match self.token.kind {
            TokenKind::BracketOpen => {
                self.advance()?;
                let key = self.term()?;
                self.expect(TokenKind::BracketClose, "']'")?;
                ConditionPart::Element(key)
            }
            TokenKind::Dot => {
                self.advance()?;
                ConditionPart::Field(self.name()?)
            }
            _ => ConditionPart::Whole,
        };
        Ok(Reference { tuple, column: Some((column, part)) })
    }

    /// Whether the current token compares two values.
    pub(super) fn at_comparison(&self) -> bool {
        use TokenKind::*;
        matches!(self.token.kind, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual)
    }

    /// The position of the current token.
    fn here(&self) -> Position {
        let (line, column) = self.lexer.line_and_column(self.token.start);
        Position { line, column: column + 1 }
    }
}

/// A selected item as a reference, if it has the form of one.
fn reference_of(item: &SelectItem) -> Option<Reference> {
    let (of, part) = match (&item.alias, &item.selector) {
        (None, Selector::Element(of, key)) => (&**of, ConditionPart::Element(key.clone())),
        (None, Selector::Field(of, field)) if matches!(**of, Selector::Field(..)) => {
            (&**of, ConditionPart::Field(field.clone()))
        }
        (None, whole) => (whole, ConditionPart::Whole),
        (Some(_), _) => return None,
    };
    match (of, part) {
        (Selector::Column(tuple), ConditionPart::Whole) => Some(Reference { tuple: tuple.clone(), column: None }),
        (Selector::Field(tuple, column), part) => match &**tuple {
            Selector::Column(tuple) => Some(Reference { tuple: tuple.clone(), column: Some((column.clone(), part)) }),
            _ => None,
        },
        _ => None,
    }
}
