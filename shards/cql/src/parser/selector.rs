//! Parses the items of a SELECT: columns and parts of them, function calls, casts, literals, and arithmetic.

use super::Parser;
use super::arithmetic::Operand;
use crate::ast::{CellAttribute, NEGATION, SelectItem, Selector};
use crate::lexer::TokenKind;
use model::Failure;

type Result<T> = std::result::Result<T, Failure>;

impl Parser<'_> {
    pub(crate) fn select_item(&mut self) -> Result<SelectItem> {
        let selector = self.argument()?;
        let alias = if self.accept_word("as")? { Some(self.name()?) } else { None };
        Ok(SelectItem { selector, alias })
    }

    /// Parses a selector, which may be an arithmetic expression.
    pub(crate) fn selector(&mut self) -> Result<Selector> {
        self.arithmetic(Self::signed_selector, |_| Ok(false))
    }

    /// Parses a selector with its parts, after any number of signs.
    fn signed_selector(&mut self) -> Result<Selector> {
        if self.token.kind == TokenKind::Minus {
            self.pass_operator()?;
            let of = self.nested(Self::signed_selector)?;
            return Ok(Selector::call(NEGATION, vec![of]));
        }
        let plain = self.plain_selector()?;
        self.selector_parts(plain)
    }

    /// Parses `.field`, `[key]` and `[from..to]` after a selector.
    fn selector_parts(&mut self, mut selector: Selector) -> Result<Selector> {
        for _ in 0..=crate::limits::DEPTH_MAX {
            if self.accept(TokenKind::Dot)? {
                selector = Selector::Field(Box::new(selector), self.name()?);
            } else if self.accept(TokenKind::BracketOpen)? {
                selector = self.subscript(selector)?;
            } else {
                return Ok(selector);
            }
        }
        Err(Failure::invalid(format!("A selector takes at most {} parts", crate::limits::DEPTH_MAX)))
    }

    fn subscript(&mut self, of: Selector) -> Result<Selector> {
        let of = Box::new(of);
        if self.accept(TokenKind::DotDot)? {
            let to = self.term()?;
            self.expect(TokenKind::BracketClose, "']'")?;
            return Ok(Selector::Slice(of, None, Some(to)));
        }
        let from = self.term()?;
        if !self.accept(TokenKind::DotDot)? {
            self.expect(TokenKind::BracketClose, "']'")?;
            return Ok(Selector::Element(of, from));
        }
        let to = if self.token.kind == TokenKind::BracketClose { None } else { Some(self.term()?) };
        self.expect(TokenKind::BracketClose, "']'")?;
        Ok(Selector::Slice(of, Some(from), to))
    }

    fn plain_selector(&mut self) -> Result<Selector> {
        match self.token.kind {
            TokenKind::ParenOpen if self.at_type_hint()? => {
                let type_name = self.type_hint()?;
                let of = self.nested(Self::plain_selector)?;
                Ok(Selector::TypeHint(type_name, Box::new(of)))
            }
            TokenKind::ParenOpen => {
                self.advance()?;
                let parts = self.nested(|parser| parser.list(Self::argument))?;
                self.expect(TokenKind::ParenClose, "')'")?;
                Ok(Selector::Tuple(parts))
            }
            TokenKind::BracketOpen => {
                self.advance()?;
                let parts = match self.token.kind {
                    TokenKind::BracketClose => Vec::new(),
                    _ => self.nested(|parser| parser.list(Self::argument))?,
                };
                self.expect(TokenKind::BracketClose, "']'")?;
                Ok(Selector::List(parts))
            }
            TokenKind::BraceOpen => {
                self.advance()?;
                let selector = self.nested(Self::selectors_in_braces)?;
                self.expect(TokenKind::BraceClose, "'}'")?;
                Ok(selector)
            }
            TokenKind::QuotedName => self.named_selector(),
            TokenKind::Word => {
                let called = self.peek()?.kind == TokenKind::ParenOpen;
                let fact = match () {
                    () if !called => None,
                    () if self.token.is("writetime") => Some(CellAttribute::WriteTime),
                    () if self.token.is("maxwritetime") => Some(CellAttribute::MaxWriteTime),
                    () if self.token.is("ttl") => Some(CellAttribute::Ttl),
                    () => None,
                };
                if let Some(fact) = fact {
                    self.advance()?;
                    self.advance()?;
                    let column = Selector::Column(self.name()?);
                    let of = self.selector_parts(column)?;
                    self.expect(TokenKind::ParenClose, "')'")?;
                    Ok(Selector::CellAttribute(fact, Box::new(of)))
                } else if called && self.token.is("count") {
                    self.count()
                } else if called && self.token.is("cast") {
                    self.advance()?;
                    self.advance()?;
                    let of = self.nested(Self::argument)?;
                    self.expect_word("as")?;
                    let at_native = super::native(&self.token.text.to_ascii_lowercase()).is_some();
                    if self.token.kind != TokenKind::Word || !at_native {
                        return Err(self.no_viable());
                    }
                    let type_name = self.type_name()?;
                    self.expect(TokenKind::ParenClose, "')'")?;
                    Ok(Selector::Cast(Box::new(of), type_name))
                } else if self.token.is("null") || self.is_word_constant() {
                    Ok(Selector::Term(self.simple_term()?))
                } else {
                    self.named_selector()
                }
            }
            _ => Ok(Selector::Term(self.simple_term()?)),
        }
    }

    fn is_word_constant(&self) -> bool {
        ["true", "false", "nan", "infinity"].iter().any(|word| self.token.is(word))
    }

    /// Parses `{...}`: a set, a map, or the fields of a user type.
    fn selectors_in_braces(&mut self) -> Result<Selector> {
        if self.token.kind == TokenKind::BraceClose {
            return Ok(Selector::Set(Vec::new()));
        }
        let mut entries = Vec::new();
        let mut parts = vec![self.argument()?];
        if self.token.kind != TokenKind::Colon {
            while self.accept(TokenKind::Comma)? {
                parts.push(self.argument()?);
            }
            return Ok(Selector::Set(parts));
        }
        while let Some(key) = parts.pop() {
            self.expect(TokenKind::Colon, "':'")?;
            entries.push((key, self.argument()?));
            if self.accept(TokenKind::Comma)? {
                parts.push(self.argument()?);
            }
        }
        // Names before all colons make it a user type.
        let names = entries.iter().map(|(key, value)| match key {
            Selector::Column(name) => Some((name.clone(), value.clone())),
            _ => None,
        });
        Ok(match names.collect::<Option<Vec<_>>>() {
            Some(fields) => Selector::UserType(fields),
            None => Selector::Map(entries),
        })
    }

    /// Parses `count(*)`, `count(1)` or `count(c)`.
    fn count(&mut self) -> Result<Selector> {
        self.advance()?;
        self.advance()?;
        if self.accept(TokenKind::Star)? {
            self.expect(TokenKind::ParenClose, "')'")?;
            return Ok(Selector::CountRows);
        }
        if self.peek()?.kind == TokenKind::ParenClose && self.constant()?.is_some() {
            self.expect(TokenKind::ParenClose, "')'")?;
            return Ok(Selector::CountRows);
        }
        self.arguments(None, "count".to_owned())
    }

    /// Parses a column or a function call.
    fn named_selector(&mut self) -> Result<Selector> {
        if self.token.is("token") {
            self.advance()?;
            self.expect(TokenKind::ParenOpen, "'('")?;
            return self.arguments(None, "token".to_owned());
        }
        let name = self.name()?;
        match self.token.kind {
            TokenKind::ParenOpen => {
                self.advance()?;
                self.arguments(None, name)
            }
            TokenKind::Dot => {
                self.advance()?;
                let field = if self.accept_word("token")? { "token".to_owned() } else { self.name()? };
                if !self.accept(TokenKind::ParenOpen)? {
                    return Ok(Selector::Field(Box::new(Selector::Column(name)), field));
                }
                self.arguments(Some(name), field)
            }
            _ => Ok(Selector::Column(name)),
        }
    }

    fn argument(&mut self) -> Result<Selector> {
        let argument = self.selector()?;
        self.refuse_constant()?;
        Ok(argument)
    }

    /// Parses arguments up to the closing parenthesis, after the opening one.
    fn arguments(&mut self, keyspace: Option<String>, name: String) -> Result<Selector> {
        let arguments = match self.token.kind {
            TokenKind::ParenClose => Vec::new(),
            TokenKind::Star => return Err(self.mismatched("')'")),
            _ => self.nested(|parser| parser.list(Self::argument))?,
        };
        self.expect(TokenKind::ParenClose, "')'")?;
        Ok(Selector::Function { keyspace, name, arguments })
    }
}
