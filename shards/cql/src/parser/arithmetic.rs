//! Sums and products of terms and of selectors: products bind tighter, operators of equal rank associate to the left.

use super::Parser;
use crate::ast::{Arithmetic, SYSTEM, Selector, Term};
use crate::lexer::TokenKind;
use model::Failure;

type Result<T> = std::result::Result<T, Failure>;

/// What arithmetic expressions consist of. An operation becomes the call of a function of the system keyspace.
pub(super) trait Operand: Sized {
    fn call(name: &str, arguments: Vec<Self>) -> Self;
}

impl Operand for Term {
    fn call(name: &str, arguments: Vec<Term>) -> Term {
        Term::Function { keyspace: Some(SYSTEM.to_owned()), name: name.to_owned(), arguments }
    }
}

impl Operand for Selector {
    fn call(name: &str, arguments: Vec<Selector>) -> Selector {
        Selector::Function { keyspace: Some(SYSTEM.to_owned()), name: name.to_owned(), arguments }
    }
}

impl Parser<'_> {
    /// Parses an expression whose operands `operand` reads. `ends` says whether the expression ends before a `+`.
    pub(super) fn arithmetic<T: Operand>(
        &mut self,
        operand: fn(&mut Self) -> Result<T>,
        ends: impl Fn(&Self) -> Result<bool>,
    ) -> Result<T> {
        self.begin_expression();
        let mut left = self.product(operand)?;
        loop {
            let operator = match self.token.kind {
                TokenKind::Plus if ends(self)? => return Ok(left),
                TokenKind::Plus => Arithmetic::Add,
                TokenKind::Minus => Arithmetic::Subtract,
                _ => return Ok(left),
            };
            let begin = self.token;
            self.pass_operator()?;
            // A `+` may also end the term of `c = term + c`, so that the choice goes on after it.
            if operator == Arithmetic::Add {
                self.choice = Some((begin, self.token.start));
            }
            left = T::call(operator.function_name(), vec![left, self.product(operand)?]);
        }
    }

    fn product<T: Operand>(&mut self, operand: fn(&mut Self) -> Result<T>) -> Result<T> {
        let mut left = operand(self)?;
        loop {
            let operator = match self.token.kind {
                TokenKind::Star => Arithmetic::Multiply,
                TokenKind::Slash => Arithmetic::Divide,
                TokenKind::Percent => Arithmetic::Modulo,
                _ => return Ok(left),
            };
            self.pass_operator()?;
            left = T::call(operator.function_name(), vec![left, operand(self)?]);
        }
    }
}
