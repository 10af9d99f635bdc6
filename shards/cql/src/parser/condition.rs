//! Parses the IF clause of UPDATE and DELETE.

use super::Parser;
use crate::RELATIONS_MAX;
use crate::ast::{Condition, ConditionPart, ConditionTest, Conditions};
use crate::lexer::Kind;
use model::Failure;

type Result<T> = std::result::Result<T, Failure>;

impl Parser<'_> {
    /// Parses `IF EXISTS` or `IF c = 1 AND ...`, if the clause is there.
    pub(crate) fn conditions(&mut self) -> Result<Conditions> {
        if !self.accept_word("if")? {
            return Ok(Conditions::None);
        }
        if self.token.is("exists") && !self.at_column_condition()? {
            self.advance()?;
            // `exists` is read as a column's name here, which needs an operator.
            return if self.token.is("and") { Err(self.no_viable()) } else { Ok(Conditions::Exists) };
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
            Kind::Equal | Kind::NotEqual | Kind::Less | Kind::LessEqual | Kind::Greater | Kind::GreaterEqual => true,
            Kind::BracketOpen | Kind::Dot => true,
            _ => next.is("in") || next.is("contains"),
        })
    }

    fn condition(&mut self) -> Result<Condition> {
        let name = self.name()?;
        let part = match self.token.kind {
            Kind::BracketOpen => {
                self.advance()?;
                let element = self.term()?;
                self.expect(Kind::BracketClose, "']'")?;
                ConditionPart::Element(element)
            }
            Kind::Dot => {
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
        if !self.accept(Kind::ParenOpen)? {
            return Err(self.no_viable());
        }
        let terms = match self.token.kind {
            Kind::ParenClose => Vec::new(),
            _ => self.list(Self::term)?,
        };
        self.expect(Kind::ParenClose, "')'")?;
        Ok(ConditionTest::In(terms))
    }
}
