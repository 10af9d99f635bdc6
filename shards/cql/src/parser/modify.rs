//! Parses INSERT, UPDATE, DELETE and BATCH.

use super::{Parser, is_reserved};
use crate::ast::{Assignment, Batch, Body, Conditions, DeletePart, Modify, ModifyBody, TableName, Term, Using};
use crate::errors::syntax;
use crate::lexer::TokenKind;
use model::{BatchKind, Failure};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

type Result<T> = std::result::Result<T, Failure>;

impl Parser<'_> {
    pub(crate) fn modify(&mut self) -> Result<Modify> {
        if self.token.is("insert") {
            self.insert()
        } else if self.token.is("update") {
            self.update()
        } else {
            self.delete()
        }
    }

    fn insert(&mut self) -> Result<Modify> {
        self.expect_word("insert")?;
        self.expect_word("into")?;
        let table = self.table_name()?;
        if self.accept_word("json")? {
            return self.insert_json(table);
        }
        if !self.accept(TokenKind::ParenOpen)? {
            return Err(self.no_viable());
        }
        let columns = self.list(Self::name)?;
        self.expect(TokenKind::ParenClose, "')'")?;
        self.expect_word("values")?;
        self.expect(TokenKind::ParenOpen, "'('")?;
        let values = self.list(Self::value)?;
        self.expect(TokenKind::ParenClose, "')'")?;
        let conditions = self.insert_conditions()?;
        let using = self.using()?;
        Ok(Modify { kind: ModifyBody::Insert { columns, values }, table, using, conditions })
    }

    /// Parses what follows `INSERT INTO t JSON`.
    fn insert_json(&mut self, table: TableName) -> Result<Modify> {
        let json = match self.marker()? {
            Some(marker) => Term::Marker(marker),
            None if self.token.kind == TokenKind::String => self.simple_term()?,
            None => return Err(self.no_viable()),
        };
        let mut default_unset = false;
        if self.accept_word("default")? {
            default_unset = self.accept_word("unset")?;
            if !default_unset && !self.accept_word("null")? {
                return Err(self.no_viable());
            }
        }
        let conditions = self.insert_conditions()?;
        let using = self.using()?;
        Ok(Modify { kind: ModifyBody::InsertJson { json, default_unset }, table, using, conditions })
    }

    fn update(&mut self) -> Result<Modify> {
        self.expect_word("update")?;
        let table = self.table_name()?;
        let using = self.using()?;
        self.expect_word("set")?;
        let assignments = self.list(Self::assignment)?;
        self.expect_word("where")?;
        let relations = self.relations()?;
        let conditions = self.conditions()?;
        refuse_incompatible(&assignments)?;
        Ok(Modify { kind: ModifyBody::Update { assignments, relations }, table, using, conditions })
    }

    fn assignment(&mut self) -> Result<(String, Assignment)> {
        let name = self.name()?;
        let assignment = match self.token.kind {
            TokenKind::Equal => {
                self.advance()?;
                if self.at_name() && self.at_sum()? {
                    let left = self.name()?;
                    if left != name {
                        return Err(self.other_sum());
                    }
                    // The lexer reads a sign as part of the number: `v -1` is `v + -1`.
                    let minus = self.accept(TokenKind::Minus)?;
                    self.accept(TokenKind::Plus)?;
                    let amount = self.term()?;
                    if minus { Assignment::Subtract(amount) } else { Assignment::Add(amount) }
                } else if self.at_reference()? {
                    Assignment::Value(self.value()?)
                } else {
                    let term = self.sum(true)?;
                    if self.token.kind == TokenKind::Plus {
                        self.advance()?;
                        if self.name()? != name {
                            return Err(syntax(
                                "Only expressions of the form X = <value> + X are supported.".to_owned(),
                            ));
                        }
                        Assignment::Prepend(term)
                    } else {
                        self.end_term()?;
                        Assignment::Value(term)
                    }
                }
            }
            TokenKind::PlusEqual | TokenKind::MinusEqual => {
                let adds = self.advance()?.kind == TokenKind::PlusEqual;
                let term = self.value()?;
                if adds { Assignment::Add(term) } else { Assignment::Subtract(term) }
            }
            TokenKind::BracketOpen => {
                self.advance()?;
                let element = self.term()?;
                self.expect(TokenKind::BracketClose, "']'")?;
                self.expect(TokenKind::Equal, "'='")?;
                Assignment::Element(element, self.value()?)
            }
            TokenKind::Dot => {
                self.advance()?;
                let field = self.name()?;
                self.expect(TokenKind::Equal, "'='")?;
                Assignment::Field(field, self.value()?)
            }
            _ => return Err(self.no_viable()),
        };
        Ok((name, assignment))
    }

    /// The failure for a sum of another column than the one that is assigned, at its sign.
    fn other_sum(&self) -> Failure {
        let sign = if self.token.text.starts_with('-') { "-" } else { "+" };
        let gap = if self.token.kind == TokenKind::Integer { " " } else { "" };
        syntax(format!("Only expressions of the form X = X {sign}{gap}<value> are supported."))
    }

    /// Whether a `+` or `-` follows the current name.
    fn at_sum(&self) -> Result<bool> {
        let next = self.peek()?;
        Ok(matches!(next.kind, TokenKind::Plus | TokenKind::Minus)
            || (matches!(next.kind, TokenKind::Integer | TokenKind::Float | TokenKind::Duration)
                && next.text.starts_with('-')))
    }

    /// Whether a name that is not a function call follows the current token.
    pub(super) fn at_name_after(&self) -> Result<bool> {
        let mut lexer = self.lexer;
        let next = lexer.next()?;
        let named = match next.kind {
            TokenKind::Word => !is_reserved(next.text),
            TokenKind::QuotedName => true,
            _ => false,
        };
        Ok(named && lexer.next()?.kind != TokenKind::ParenOpen)
    }

    fn delete(&mut self) -> Result<Modify> {
        self.expect_word("delete")?;
        let columns = if !self.at_name() {
            Vec::new()
        } else {
            self.list(|parser| {
                let token = parser.token;
                let name = parser.name()?;
                parser.end_deleted_column(token)?;
                let part = match parser.token.kind {
                    TokenKind::BracketOpen => {
                        parser.advance()?;
                        let key = parser.term()?;
                        parser.expect(TokenKind::BracketClose, "']'")?;
                        DeletePart::Element(key)
                    }
                    TokenKind::Dot => {
                        parser.advance()?;
                        DeletePart::Field(parser.name()?)
                    }
                    _ => DeletePart::Whole,
                };
                Ok((name, part))
            })?
        };
        self.expect_word("from")?;
        let table = self.table_name()?;
        let mut using = Using::default();
        if self.accept_word("using")? {
            loop {
                if self.accept_word("timestamp")? {
                    using.timestamp = Some(self.integer_or_marker()?);
                } else if self.accept_word("timeout")? {
                    using.timeout = Some(self.duration_or_marker()?);
                } else {
                    return Err(self.mismatched("K_TIMESTAMP"));
                }
                // TTL may not follow AND here; Cassandra's error names the AND.
                if !self.token.is("and") || !(self.peek()?.is("timeout") || self.peek()?.is("timestamp")) {
                    break;
                }
                self.advance()?;
            }
        }
        self.expect_word("where")?;
        let relations = self.relations()?;
        let conditions = self.conditions()?;
        Ok(Modify { kind: ModifyBody::Delete { columns, relations }, table, using, conditions })
    }

    /// Parses the IF clause of an INSERT.
    fn insert_conditions(&mut self) -> Result<Conditions> {
        Ok(if self.if_not_exists()? { Conditions::NotExists } else { Conditions::None })
    }

    /// Parses `USING TIMESTAMP x AND TTL y AND TIMEOUT z`, in any order; of one given twice the last counts, as in
    /// Cassandra.
    fn using(&mut self) -> Result<Using> {
        let mut using = Using::default();
        if !self.accept_word("using")? {
            return Ok(using);
        }
        loop {
            if self.accept_word("timestamp")? {
                using.timestamp = Some(self.integer_or_marker()?);
            } else if self.accept_word("ttl")? {
                using.ttl = Some(self.integer_or_marker()?);
            } else if self.accept_word("timeout")? {
                using.timeout = Some(self.duration_or_marker()?);
            } else {
                return Err(self.no_viable());
            }
            if !self.accept_word("and")? {
                return Ok(using);
            }
        }
    }

    pub(crate) fn batch(&mut self) -> Result<Body> {
        self.expect_word("begin")?;
        let kind = if self.accept_word("unlogged")? {
            BatchKind::Unlogged
        } else if self.accept_word("counter")? {
            BatchKind::Counter
        } else {
            BatchKind::Logged
        };
        self.expect_word("batch")?;
        let using = self.using()?;
        let mut statements = Vec::new();
        while self.token.is("insert") || self.token.is("update") || self.token.is("delete") {
            statements.push(self.modify()?);
            self.accept(TokenKind::Semicolon)?;
        }
        self.expect_word("apply")?;
        self.expect_word("batch")?;
        Ok(Body::Batch(Batch { kind, using, statements }))
    }
}

/// Fails if a column is assigned as a whole and also in another way, or a field twice.
fn refuse_incompatible(assignments: &[(String, Assignment)]) -> Result<()> {
    let mut columns = BTreeMap::new();
    for (name, assignment) in assignments {
        let is_whole = matches!(assignment, Assignment::Value(_));
        let field = match assignment {
            Assignment::Field(field, _) => Some(field.as_str()),
            _ => None,
        };
        let compatible = match columns.entry(name) {
            Entry::Vacant(first) => {
                first.insert((is_whole, BTreeSet::from_iter(field)));
                true
            }
            Entry::Occupied(mut before) => {
                let (was_whole, fields) = before.get_mut();
                !is_whole && !*was_whole && field.is_none_or(|field| fields.insert(field))
            }
        };
        if !compatible {
            return Err(syntax(format!("Multiple incompatible setting of column {name}")));
        }
    }
    Ok(())
}
