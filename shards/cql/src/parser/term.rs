//! Parses values: constants, markers, function calls, collections, tuples, user types, type hints, and arithmetic.

use super::arithmetic::Operand;
use super::{Parser, is_reserved};
use crate::ast::{Constant, NEGATION, Term, TypeName};
use crate::lexer::{Token, TokenKind};
use model::Failure;

type Result<T> = std::result::Result<T, Failure>;

impl<'a> Parser<'a> {
    /// Parses a value, which may be an arithmetic expression.
    pub(crate) fn term(&mut self) -> Result<Term> {
        let term = self.sum(false)?;
        self.end_term()?;
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

    /// Parses a value that is not an arithmetic expression.
    pub(crate) fn simple_term(&mut self) -> Result<Term> {
        let first = self.token;
        if let Some(marker) = self.marker()? {
            if first.kind == TokenKind::QuestionMark {
                self.end_marker(first)?;
            }
            return Ok(Term::Marker(marker));
        }
        if let Some((family, text)) = self.constant()? {
            return Ok(Term::Constant(family, text));
        }
        match first.kind {
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
                self.choice = Some((first, self.token.start));
                let terms = self.nested(|parser| parser.list(Self::term))?;
                self.expect(TokenKind::ParenClose, "')'")?;
                Ok(Term::Tuple(terms))
            }
            TokenKind::BracketOpen => {
                self.advance()?;
                let terms = self.nested(|parser| parser.terms_until(TokenKind::BracketClose, "']'", Self::term))?;
                Ok(Term::List(terms))
            }
            TokenKind::BraceOpen => {
                self.advance()?;
                self.choice = Some((first, self.token.start));
                self.nested(Self::braces)
            }
            _ => Err(self.no_viable_since(self.choice_at(first))),
        }
    }

    /// The token where the choice began that the token `first` of a term belongs to: itself, or one right before it.
    fn choice_at(&self, first: Token<'a>) -> Token<'a> {
        match self.choice {
            Some((begin, start)) if start == first.start => begin,
            _ => first,
        }
    }

    /// Parses what follows `{` in a set, a map, or the fields of a user type, up to the `}`.
    fn braces(&mut self) -> Result<Term> {
        if self.accept(TokenKind::BraceClose)? {
            return Ok(Term::Set(Vec::new()));
        }
        if self.at_name() && self.peek()?.kind == TokenKind::Colon {
            let fields = self.list(|parser| {
                let name = parser.name()?;
                parser.expect(TokenKind::Colon, "':'")?;
                Ok((name, parser.term()?))
            })?;
            self.expect(TokenKind::BraceClose, "'}'")?;
            return Ok(Term::UserType(fields));
        }
        let first = self.term()?;
        if !matches!(self.token.kind, TokenKind::Colon | TokenKind::Comma | TokenKind::BraceClose) {
            return Err(self.no_viable());
        }
        if self.token.kind != TokenKind::Colon {
            let mut terms = vec![first];
            while self.accept(TokenKind::Comma)? {
                terms.push(self.term()?);
            }
            self.expect(TokenKind::BraceClose, "'}'")?;
            return Ok(Term::Set(terms));
        }
        self.advance()?;
        let mut entries = vec![(first, self.term()?)];
        while self.accept(TokenKind::Comma)? {
            let key = self.term()?;
            self.expect(TokenKind::Colon, "':'")?;
            entries.push((key, self.term()?));
        }
        self.expect(TokenKind::BraceClose, "'}'")?;
        Ok(Term::Map(entries))
    }

    /// Parses `cast(x AS type)`, a call of the type's conversion function.
    fn cast_term(&mut self) -> Result<Term> {
        self.advance()?;
        self.advance()?;
        let of = self.nested_call(Self::simple_term)?;
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
        let first = self.choice_at(self.token);
        let (keyspace, name) = self.function_name_since(first)?;
        if !self.accept(TokenKind::ParenOpen)? {
            return Err(self.no_viable_since(first));
        }
        if !self.at_term() && self.token.kind != TokenKind::ParenClose {
            return Err(self.no_viable_since(first));
        }
        let arguments = self.nested_call(|parser| parser.terms_until(TokenKind::ParenClose, "')'", Self::term))?;
        Ok(Term::Function { keyspace, name, arguments })
    }

    /// Reads `name` or `keyspace.name`; `token` is a function although the word is reserved.
    pub(crate) fn function_name(&mut self) -> Result<(Option<String>, String)> {
        self.function_name_since(self.token)
    }

    /// Reads the name of a function; `begin` is the token where the choice began of which it is a part.
    fn function_name_since(&mut self, begin: Token<'a>) -> Result<(Option<String>, String)> {
        if self.accept_word("token")? {
            return Ok((None, "token".to_owned()));
        }
        if !self.at_name() {
            return Err(self.no_viable_since(begin));
        }
        let first = self.name()?;
        if !self.accept(TokenKind::Dot)? {
            return Ok((None, first));
        }
        if self.accept_word("token")? {
            return Ok((Some(first), "token".to_owned()));
        }
        if !self.at_name() {
            return Err(self.no_viable_since(begin));
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
