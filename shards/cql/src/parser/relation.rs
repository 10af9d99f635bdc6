//! Parses WHERE clauses.

use super::Parser;
use crate::ast::{Operator, Relation, TupleValue};
use crate::lexer::{Token, TokenKind};
use crate::limits::RELATIONS_MAX;
use model::Failure;

type Result<T> = std::result::Result<T, Failure>;

impl Parser<'_> {
    pub(crate) fn relations(&mut self) -> Result<Vec<Relation>> {
        let mut relations = vec![self.relation()?];
        while self.accept_word("and")? {
            if relations.len() == RELATIONS_MAX {
                return Err(Failure::invalid(format!("A WHERE clause takes at most {RELATIONS_MAX} relations")));
            }
            relations.push(self.relation()?);
        }
        Ok(relations)
    }

    fn relation(&mut self) -> Result<Relation> {
        if self.token.is("token") {
            self.advance()?;
            self.expect(TokenKind::ParenOpen, "'('")?;
            let names = self.list(Self::name)?;
            self.expect(TokenKind::ParenClose, "')'")?;
            let operator = self.operator()?;
            return Ok(Relation::Token(names, operator, self.term()?));
        }
        if self.token.kind == TokenKind::ParenOpen {
            return self.parenthesised_relation();
        }
        let first = self.token;
        let name = self.name()?;
        if self.accept_word("in")? {
            return self.in_relation(first, name);
        }
        if self.accept_word("is")? {
            self.expect_word("not")?;
            self.expect_word("null")?;
            return Ok(Relation::IsNotNull(name));
        }
        if self.accept_word("like")? {
            return Ok(Relation::Like(name, self.term()?));
        }
        if self.accept_word("contains")? {
            if self.accept_word("key")? {
                return Ok(Relation::ContainsKey(name, self.term()?));
            }
            return Ok(Relation::Contains(name, self.term()?));
        }
        if self.accept(TokenKind::BracketOpen)? {
            let key = self.term()?;
            self.expect(TokenKind::BracketClose, "']'")?;
            let operator = self.operator()?;
            return Ok(Relation::Entry(name, key, operator, self.term()?));
        }
        let operator = self.operator_since(first)?;
        Ok(Relation::Compare(name, operator, self.term()?))
    }

    /// Parses what follows `name IN`; `first` is the name's token.
    fn in_relation(&mut self, first: Token<'_>, name: String) -> Result<Relation> {
        if let Some(marker) = self.marker()? {
            return Ok(Relation::InMarker(name, marker));
        }
        if !self.accept(TokenKind::ParenOpen)? {
            return Err(self.no_viable_since(first));
        }
        Ok(Relation::In(name, self.terms_until(TokenKind::ParenClose, "')'", Self::term)?))
    }

    /// Parses `(a, b) > (1, 2)`, or a relation in parentheses.
    fn parenthesised_relation(&mut self) -> Result<Relation> {
        let open = self.advance()?;
        if !self.at_name() && self.token.kind != TokenKind::ParenOpen && !self.token.is("token") {
            return Err(self.no_viable_since(open));
        }
        if self.at_name() && matches!(self.peek()?.kind, TokenKind::Comma | TokenKind::ParenClose) {
            let names = self.list(Self::name)?;
            self.expect(TokenKind::ParenClose, "')'")?;
            if self.accept_word("in")? {
                return self.tuple_in(names);
            }
            let begin = self.token;
            let operator = self.operator()?;
            let value = match self.marker()? {
                Some(marker) => TupleValue::Marker(marker),
                None if self.token.kind == TokenKind::ParenOpen => self.tuple_literal()?,
                None => return Err(self.no_viable_since(begin)),
            };
            return Ok(Relation::Tuple(names, operator, value));
        }
        let relation = self.nested(Self::relation)?;
        self.expect(TokenKind::ParenClose, "')'")?;
        Ok(relation)
    }

    /// Parses what follows `(a, b) IN`: a marker, or literals or markers in parentheses.
    fn tuple_in(&mut self, names: Vec<String>) -> Result<Relation> {
        if let Some(marker) = self.marker()? {
            return Ok(Relation::TupleInMarker(names, marker));
        }
        let open = self.token;
        if !self.accept(TokenKind::ParenOpen)? {
            return Err(self.no_viable());
        }
        let values = match self.token.kind {
            TokenKind::ParenClose => Vec::new(),
            TokenKind::ParenOpen => self.list(Self::tuple_literal)?,
            TokenKind::QuestionMark | TokenKind::Colon => self.list(|parser| match parser.marker()? {
                Some(marker) => Ok(TupleValue::Marker(marker)),
                None => Err(parser.no_viable()),
            })?,
            _ => return Err(self.no_viable_since(open)),
        };
        self.expect(TokenKind::ParenClose, "')'")?;
        Ok(Relation::TupleIn(names, values))
    }

    fn tuple_literal(&mut self) -> Result<TupleValue> {
        self.expect(TokenKind::ParenOpen, "'('")?;
        let terms = self.list(Self::term)?;
        self.expect(TokenKind::ParenClose, "')'")?;
        Ok(TupleValue::Terms(terms))
    }

    pub(crate) fn operator(&mut self) -> Result<Operator> {
        self.operator_since(self.token)
    }

    /// Reads an operator; `begin` is the token where the choice began of which it is a part.
    fn operator_since(&mut self, begin: Token<'_>) -> Result<Operator> {
        let operator = match self.token.kind {
            TokenKind::Equal => Operator::Equal,
            TokenKind::Less => Operator::Less,
            TokenKind::LessEqual => Operator::LessEqual,
            TokenKind::Greater => Operator::Greater,
            TokenKind::GreaterEqual => Operator::GreaterEqual,
            TokenKind::NotEqual => Operator::NotEqual,
            _ => return Err(self.no_viable_since(begin)),
        };
        self.advance()?;
        Ok(operator)
    }
}
