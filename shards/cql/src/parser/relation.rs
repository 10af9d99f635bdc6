//! WHERE.

use super::{Parser, unsupported};
use crate::RELATIONS_MAX;
use crate::ast::{Operator, OtherRelation, Relation};
use crate::lexer::Kind;
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
            self.expect(Kind::ParenOpen, "'('")?;
            let names = self.list(Self::name)?;
            self.expect(Kind::ParenClose, "')'")?;
            let operator = self.operator()?;
            return Ok(Relation::Token(names, operator, self.term()?));
        }
        if self.token.kind == Kind::ParenOpen {
            return self.parenthesised_relation();
        }
        let name = self.name()?;
        if self.accept_word("in")? {
            return self.in_relation(name);
        }
        if self.accept_word("is")? {
            self.expect_word("not")?;
            self.expect_word("null")?;
            return Ok(Relation::Other(name, OtherRelation::IsNotNull));
        }
        if self.accept_word("like")? {
            let term = self.term()?;
            return Ok(Relation::Other(name, OtherRelation::Like(term)));
        }
        if self.accept_word("contains")? {
            let other = if self.accept_word("key")? { OtherRelation::ContainsKey } else { OtherRelation::Contains };
            self.term()?;
            return Ok(Relation::Other(name, other));
        }
        if self.accept(Kind::BracketOpen)? {
            self.term()?;
            self.expect(Kind::BracketClose, "']'")?;
            self.operator()?;
            self.term()?;
            return Ok(Relation::Other(name, OtherRelation::Element));
        }
        let operator = self.operator()?;
        Ok(Relation::Compare(name, operator, self.term()?))
    }

    fn in_relation(&mut self, name: String) -> Result<Relation> {
        if let Some(marker) = self.marker()? {
            return Ok(Relation::InMarker(name, marker));
        }
        if !self.accept(Kind::ParenOpen)? {
            return Err(self.no_viable());
        }
        let terms = match self.token.kind {
            Kind::ParenClose => Vec::new(),
            _ => self.list(Self::term)?,
        };
        self.expect(Kind::ParenClose, "')'")?;
        Ok(Relation::In(name, terms))
    }

    /// `(a, b) > (1, 2)` or a relation in parentheses.
    fn parenthesised_relation(&mut self) -> Result<Relation> {
        self.advance()?;
        if self.at_name() && matches!(self.peek()?.kind, Kind::Comma | Kind::ParenClose) {
            self.list(Self::name)?;
            self.expect(Kind::ParenClose, "')'")?;
            if !self.accept_word("in")? {
                self.operator()?;
            }
            return Err(unsupported("multi-column relations"));
        }
        let relation = self.nested(Self::relation)?;
        self.expect(Kind::ParenClose, "')'")?;
        Ok(relation)
    }

    fn operator(&mut self) -> Result<Operator> {
        let operator = match self.token.kind {
            Kind::Equal => Operator::Equal,
            Kind::Less => Operator::Less,
            Kind::LessEqual => Operator::LessEqual,
            Kind::Greater => Operator::Greater,
            Kind::GreaterEqual => Operator::GreaterEqual,
            Kind::NotEqual => Operator::NotEqual,
            _ => return Err(self.no_viable()),
        };
        self.advance()?;
        Ok(operator)
    }
}
