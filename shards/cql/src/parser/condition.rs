//! Parses the IF clause of UPDATE and DELETE.

use super::Parser;
use crate::ast::{Condition, ConditionPart, ConditionTest, Conditions};
use crate::lexer::TokenKind;
use crate::limits::RELATIONS_MAX;
use model::Failure;

type Result<T> = std::result::Result<T, Failure>;

impl Parser<'_> {
    /// Parses `IF EXISTS` or `IF c = 1 AND ...`, if the clause is there.
    pub(crate) fn conditions(&mut self) -> Result<Conditions> {
        if !self.accept_word("if")? {
            return Ok(Conditions::None);
        }
        if self.token.is("exists") && !self.at_column_condition()? {
            let exists = self.advance()?;
            // Anything else makes `exists` the name of a column.
            let ends = matches!(self.token.kind, TokenKind::Semicolon | TokenKind::End);
            let in_batch = ["apply", "insert", "update", "delete"].iter().any(|word| self.token.is(word));
            return if ends || in_batch { Ok(Conditions::Exists) } else { Err(self.no_viable_since(exists)) };
        }
        let mut conditions = vec![self.condition()?];
        while self.accept_word("and")? {
            if conditions.len() == RELATIONS_MAX {
                return Err(Failure::invalid(format!("An IF clause takes at most {RELATIONS_MAX} conditions")));
            }
            conditions.push(self.condition()?);
        }
        Ok(Conditions::Columns(conditions))
    }

    /// Whether the current name is followed by what makes it a column's name.
    fn at_column_condition(&self) -> Result<bool> {
        let next = self.peek()?;
        Ok(match next.kind {
            TokenKind::Equal
            | TokenKind::NotEqual
            | TokenKind::Less
            | TokenKind::LessEqual
            | TokenKind::Greater
            | TokenKind::GreaterEqual => true,
            TokenKind::BracketOpen | TokenKind::Dot => true,
            _ => next.is("in") || next.is("contains"),
        })
    }

    fn condition(&mut self) -> Result<Condition> {
        let name = self.name()?;
        let part = match self.token.kind {
            TokenKind::BracketOpen => {
                self.advance()?;
                let element = self.term()?;
                self.expect(TokenKind::BracketClose, "']'")?;
                ConditionPart::Element(element)
            }
            TokenKind::Dot => {
                self.advance()?;
                ConditionPart::Field(self.name()?)
            }
            _ => ConditionPart::Whole,
        };
        let test = if self.accept_word("in")? {
            self.condition_values()?
        } else if part == ConditionPart::Whole && self.accept_word("contains")? {
            if self.accept_word("key")? {
                ConditionTest::ContainsKey(self.term()?)
            } else {
                ConditionTest::Contains(self.term()?)
            }
        } else {
            let operator = self.operator()?;
            ConditionTest::Compare(operator, self.term()?)
        };
        Ok(Condition { name, part, test })
    }

    /// Parses what follows IN: a marker, or terms in parentheses.
    fn condition_values(&mut self) -> Result<ConditionTest> {
        if let Some(marker) = self.marker()? {
            return Ok(ConditionTest::InMarker(marker));
        }
        if !self.accept(TokenKind::ParenOpen)? {
            return Err(self.no_viable());
        }
        Ok(ConditionTest::In(self.terms_until(TokenKind::ParenClose, "')'", Self::term)?))
    }
}
