//! Parses values: constants, markers, function calls, collections, tuples, user types, type hints, and arithmetic.

use super::arithmetic::Operand;
use super::{Parser, is_reserved};
use crate::ast::{Constant, NEGATION, Term, TypeName};
use crate::lexer::TokenKind;
use model::Failure;

type Result<T> = std::result::Result<T, Failure>;

impl Parser<'_> {
    /// Parses a value, which may be an arithmetic expression.
    pub(crate) fn term(&mut self) -> Result<Term> {
        let term = self.sum(false)?;
        self.refuse_constant()?;
        Ok(term)
    }

    /// Parses a value that `+ column` may follow; with `before_name` the sum ends there.
    pub(crate) fn sum(&mut self, before_name: bool) -> Result<Term> {
        self.arithmetic(Self::signed_term, |parser| Ok(before_name && parser.at_name_after()?))
    }

    /// Parses a term, after at most one sign.
    fn signed_term(&mut self) -> Result<Term> {
        if self.token.kind != TokenKind::Minus {
            return self.simple_term();
        }
        self.pass_operator()?;
        let of = self.nested(Self::simple_term)?;
        Ok(Term::call(NEGATION, vec![of]))
    }

    /// Fails at a constant right after an expression: `3 -2` has no operator.
    pub(crate) fn refuse_constant(&self) -> Result<()> {
        let constant = matches!(
            self.token.kind,
            TokenKind::Integer
                | TokenKind::Float
                | TokenKind::Duration
                | TokenKind::String
                | TokenKind::DollarString
                | TokenKind::Hex
                | TokenKind::Uuid
        );
        if constant { Err(self.no_viable()) } else { Ok(()) }
    }

    /// Parses a value that is not an arithmetic expression.
    pub(crate) fn simple_term(&mut self) -> Result<Term> {
        if let Some(marker) = self.marker()? {
            return Ok(Term::Marker(marker));
        }
        if let Some((family, text)) = self.constant()? {
            return Ok(Term::Constant(family, text));
        }
        match self.token.kind {
            TokenKind::Word if self.token.is("null") => {
                self.advance()?;
                Ok(Term::Null)
            }
            TokenKind::Word if self.token.is("cast") && self.peek()?.kind == TokenKind::ParenOpen => self.cast_term(),
            TokenKind::Word | TokenKind::QuotedName => self.function_term(),
            TokenKind::ParenOpen if self.at_type_hint()? => {
                let type_name = self.type_hint()?;
                let term = self.nested(Self::simple_term)?;
                Ok(Term::Cast(type_name, Box::new(term)))
            }
            TokenKind::ParenOpen => {
                self.advance()?;
                let terms = self.nested(|parser| parser.list(Self::term))?;
                self.expect(TokenKind::ParenClose, "')'")?;
                Ok(Term::Tuple(terms))
            }
            TokenKind::BracketOpen => {
                self.advance()?;
                let terms = match self.token.kind {
                    TokenKind::BracketClose => Vec::new(),
                    _ => self.nested(|parser| parser.list(Self::term))?,
                };
                self.expect(TokenKind::BracketClose, "']'")?;
                Ok(Term::List(terms))
            }
            TokenKind::BraceOpen => {
                self.advance()?;
                let term = self.nested(Self::braces)?;
                self.expect(TokenKind::BraceClose, "'}'")?;
                Ok(term)
            }
            _ => Err(self.no_viable()),
        }
    }

    /// Parses `{...}`: a set, a map, or the fields of a user type.
    fn braces(&mut self) -> Result<Term> {
        if self.token.kind == TokenKind::BraceClose {
            return Ok(Term::Set(Vec::new()));
        }
        if self.at_name() && self.peek()?.kind == TokenKind::Colon {
            let fields = self.list(|parser| {
                let name = parser.name()?;
                parser.expect(TokenKind::Colon, "':'")?;
                Ok((name, parser.term()?))
            })?;
            return Ok(Term::UserType(fields));
        }
        let first = self.term()?;
        if self.token.kind != TokenKind::Colon {
            let mut terms = vec![first];
            while self.accept(TokenKind::Comma)? {
                terms.push(self.term()?);
            }
            return Ok(Term::Set(terms));
        }
        self.advance()?;
        let mut entries = vec![(first, self.term()?)];
        while self.accept(TokenKind::Comma)? {
            let key = self.term()?;
            self.expect(TokenKind::Colon, "':'")?;
            entries.push((key, self.term()?));
        }
        Ok(Term::Map(entries))
    }

    /// Parses `cast(x AS type)`, a call of the type's conversion function.
    fn cast_term(&mut self) -> Result<Term> {
        self.advance()?;
        self.advance()?;
        let of = self.nested(Self::simple_term)?;
        self.expect_word("as")?;
        let name = self.token.text.to_ascii_lowercase();
        if self.token.kind != TokenKind::Word || super::native(&name).is_none() {
            return Err(self.no_viable());
        }
        self.advance()?;
        self.expect(TokenKind::ParenClose, "')'")?;
        Ok(Term::call(&format!("cast_as_{name}"), vec![of]))
    }

    fn function_term(&mut self) -> Result<Term> {
        let (keyspace, name) = self.function_name()?;
        if self.token.kind != TokenKind::ParenOpen {
            return Err(self.no_viable());
        }
        self.advance()?;
        let arguments = match self.token.kind {
            TokenKind::ParenClose => Vec::new(),
            _ => self.nested(|parser| parser.list(Self::term))?,
        };
        self.expect(TokenKind::ParenClose, "')'")?;
        Ok(Term::Function { keyspace, name, arguments })
    }

    /// Reads `name` or `keyspace.name`; `token` is a function although the word is reserved.
    pub(crate) fn function_name(&mut self) -> Result<(Option<String>, String)> {
        if self.accept_word("token")? {
            return Ok((None, "token".to_owned()));
        }
        let first = self.name()?;
        if !self.accept(TokenKind::Dot)? {
            return Ok((None, first));
        }
        if self.accept_word("token")? {
            return Ok((Some(first), "token".to_owned()));
        }
        Ok((Some(first), self.name()?))
    }

    /// Whether `(type)` begins here: a parenthesis, the name of a type, and then what only a type can have. A lone name
    /// in parentheses is a type only if a value follows.
    pub(crate) fn at_type_hint(&self) -> Result<bool> {
        let mut lexer = self.lexer;
        let mut word = lexer.next()?;
        if !matches!(word.kind, TokenKind::Word | TokenKind::QuotedName) {
            return Ok(false);
        }
        let mut after = lexer.next()?;
        if after.kind == TokenKind::Dot {
            word = lexer.next()?;
            after = lexer.next()?;
        }
        let constant = ["null", "true", "false", "nan", "infinity"].iter().any(|constant| word.is(constant));
        if constant || after.kind != TokenKind::ParenClose {
            return Ok(!constant && after.kind == TokenKind::Less);
        }
        let value = lexer.next()?;
        Ok(match value.kind {
            TokenKind::Word if value.is("as") => false,
            TokenKind::Word => {
                !is_reserved(value.text)
                    || ["null", "true", "false", "token", "nan", "infinity"].iter().any(|word| value.is(word))
            }
            TokenKind::Plus | TokenKind::Minus | TokenKind::Star | TokenKind::Slash | TokenKind::Percent => false,
            TokenKind::ParenClose
            | TokenKind::BracketClose
            | TokenKind::BraceClose
            | TokenKind::Comma
            | TokenKind::Dot
            | TokenKind::DotDot => false,
            TokenKind::End | TokenKind::Semicolon => false,
            _ => true,
        })
    }

    pub(crate) fn type_hint(&mut self) -> Result<TypeName> {
        self.expect(TokenKind::ParenOpen, "'('")?;
        let type_name = self.type_name()?;
        self.expect(TokenKind::ParenClose, "')'")?;
        Ok(type_name)
    }

    /// Parses an integer or a marker, for LIMIT, TIMESTAMP and TTL.
    pub(crate) fn integer_or_marker(&mut self) -> Result<Term> {
        if let Some(marker) = self.marker()? {
            return Ok(Term::Marker(marker));
        }
        if self.token.kind != TokenKind::Integer {
            return Err(self.no_viable());
        }
        Ok(Term::Constant(Constant::Integer, self.advance()?.text.to_owned()))
    }

    /// Parses a duration or a marker, for TIMEOUT.
    pub(crate) fn duration_or_marker(&mut self) -> Result<Term> {
        if let Some(marker) = self.marker()? {
            return Ok(Term::Marker(marker));
        }
        if self.token.kind != TokenKind::Duration {
            return Err(self.no_viable());
        }
        Ok(Term::Constant(Constant::Duration, self.advance()?.text.to_owned()))
    }
}
