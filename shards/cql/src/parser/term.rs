//! Parses values: constants, markers, function calls, collections, tuples, user types, type hints, and arithmetic.

use super::arithmetic::Operand;
use super::{Parser, is_reserved};
use crate::ast::{Constant, NEGATION, Term, TypeName};
use crate::lexer::Kind;
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
        if self.token.kind != Kind::Minus {
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
            Kind::Integer | Kind::Float | Kind::Duration | Kind::String | Kind::DollarString | Kind::Hex | Kind::Uuid
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
            Kind::Word if self.token.is("null") => {
                self.advance()?;
                Ok(Term::Null)
            }
            Kind::Word if self.token.is("cast") && self.peek()?.kind == Kind::ParenOpen => self.cast_term(),
            Kind::Word | Kind::QuotedName => self.function_term(),
            Kind::ParenOpen if self.at_type_hint()? => {
                let type_name = self.type_hint()?;
                let term = self.nested(Self::simple_term)?;
                Ok(Term::Cast(type_name, Box::new(term)))
            }
            Kind::ParenOpen => {
                self.advance()?;
                let terms = self.nested(|parser| parser.list(Self::term))?;
                self.expect(Kind::ParenClose, "')'")?;
                Ok(Term::Tuple(terms))
            }
            Kind::BracketOpen => {
                self.advance()?;
                let terms = match self.token.kind {
                    Kind::BracketClose => Vec::new(),
                    _ => self.nested(|parser| parser.list(Self::term))?,
                };
                self.expect(Kind::BracketClose, "']'")?;
                Ok(Term::List(terms))
            }
            Kind::BraceOpen => {
                self.advance()?;
                let term = self.nested(Self::braces)?;
                self.expect(Kind::BraceClose, "'}'")?;
                Ok(term)
            }
            _ => Err(self.no_viable()),
        }
    }

    /// Parses `{...}`: a set, a map, or the fields of a user type.
    fn braces(&mut self) -> Result<Term> {
        if self.token.kind == Kind::BraceClose {
            return Ok(Term::Set(Vec::new()));
        }
        if self.at_name() && self.peek()?.kind == Kind::Colon {
            let fields = self.list(|parser| {
                let name = parser.name()?;
                parser.expect(Kind::Colon, "':'")?;
                Ok((name, parser.term()?))
            })?;
            return Ok(Term::UserType(fields));
        }
        let first = self.term()?;
        if self.token.kind != Kind::Colon {
            let mut terms = vec![first];
            while self.accept(Kind::Comma)? {
                terms.push(self.term()?);
            }
            return Ok(Term::Set(terms));
        }
        self.advance()?;
        let mut entries = vec![(first, self.term()?)];
        while self.accept(Kind::Comma)? {
            let key = self.term()?;
            self.expect(Kind::Colon, "':'")?;
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
        if self.token.kind != Kind::Word || super::native(&name).is_none() {
            return Err(self.no_viable());
        }
        self.advance()?;
        self.expect(Kind::ParenClose, "')'")?;
        Ok(Term::call(&format!("cast_as_{name}"), vec![of]))
    }

    fn function_term(&mut self) -> Result<Term> {
        let (keyspace, name) = self.function_name()?;
        if self.token.kind != Kind::ParenOpen {
            return Err(self.no_viable());
        }
        self.advance()?;
        let arguments = match self.token.kind {
            Kind::ParenClose => Vec::new(),
            _ => self.nested(|parser| parser.list(Self::term))?,
        };
        self.expect(Kind::ParenClose, "')'")?;
        Ok(Term::Function { keyspace, name, arguments })
    }

    /// Reads `name` or `keyspace.name`; `token` is a function although the word is reserved.
    pub(crate) fn function_name(&mut self) -> Result<(Option<String>, String)> {
        if self.accept_word("token")? {
            return Ok((None, "token".to_owned()));
        }
        let first = self.name()?;
        if !self.accept(Kind::Dot)? {
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
        if !matches!(word.kind, Kind::Word | Kind::QuotedName) {
            return Ok(false);
        }
        let mut after = lexer.next()?;
        if after.kind == Kind::Dot {
            word = lexer.next()?;
            after = lexer.next()?;
        }
        let constant = ["null", "true", "false", "nan", "infinity"].iter().any(|constant| word.is(constant));
        if constant || after.kind != Kind::ParenClose {
            return Ok(!constant && after.kind == Kind::Less);
        }
        let value = lexer.next()?;
        Ok(match value.kind {
            Kind::Word if value.is("as") => false,
            Kind::Word => {
                !is_reserved(value.text)
                    || ["null", "true", "false", "token", "nan", "infinity"].iter().any(|word| value.is(word))
            }
            Kind::Plus | Kind::Minus | Kind::Star | Kind::Slash | Kind::Percent => false,
            Kind::ParenClose | Kind::BracketClose | Kind::BraceClose | Kind::Comma | Kind::Dot | Kind::DotDot => false,
            Kind::End | Kind::Semicolon => false,
            _ => true,
        })
    }

    pub(crate) fn type_hint(&mut self) -> Result<TypeName> {
        self.expect(Kind::ParenOpen, "'('")?;
        let type_name = self.type_name()?;
        self.expect(Kind::ParenClose, "')'")?;
        Ok(type_name)
    }

    /// Parses an integer or a marker, for LIMIT, TIMESTAMP and TTL.
    pub(crate) fn integer_or_marker(&mut self) -> Result<Term> {
        if let Some(marker) = self.marker()? {
            return Ok(Term::Marker(marker));
        }
        if self.token.kind != Kind::Integer {
            return Err(self.no_viable());
        }
        Ok(Term::Constant(Constant::Integer, self.advance()?.text.to_owned()))
    }

    /// Parses a duration or a marker, for TIMEOUT.
    pub(crate) fn duration_or_marker(&mut self) -> Result<Term> {
        if let Some(marker) = self.marker()? {
            return Ok(Term::Marker(marker));
        }
        if self.token.kind != Kind::Duration {
            return Err(self.no_viable());
        }
        Ok(Term::Constant(Constant::Duration, self.advance()?.text.to_owned()))
    }
}
