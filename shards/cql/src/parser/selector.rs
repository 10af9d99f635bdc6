//! Parses the items of a SELECT: columns and parts of them, function calls, casts, literals, and arithmetic.

use super::Parser;
use super::arithmetic::Operand;
use crate::ast::{CellAttribute, NEGATION, SelectItem, Selector, Term};
use crate::lexer::TokenKind;
use model::Failure;

type Result<T> = std::result::Result<T, Failure>;

impl Parser<'_> {
    pub(crate) fn select_item(&mut self) -> Result<SelectItem> {
        let selector = self.selector()?;
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

    /// Parses a selector without its parts. Each form is a function of its own, because an expression may nest deeply
    /// and a frame of the stack has room for all that its function may need.
    fn plain_selector(&mut self) -> Result<Selector> {
        match self.token.kind {
            TokenKind::ParenOpen if self.at_type_hint()? => self.hinted_selector(),
            TokenKind::ParenOpen => self.tuple_selector(),
            TokenKind::BracketOpen => self.list_selector(),
            TokenKind::BraceOpen => self.brace_selector(),
            TokenKind::QuotedName => self.named_selector(),
            TokenKind::Word => self.word_selector(),
            TokenKind::QuestionMark => self.marker_selector(),
            _ => self.term_selector(),
        }
    }

    /// Parses `(type)selector`.
    fn hinted_selector(&mut self) -> Result<Selector> {
        let type_name = self.type_hint()?;
        let of = self.nested(Self::plain_selector)?;
        Ok(Selector::TypeHint(type_name, Box::new(of)))
    }

    /// Parses `(a, b)`.
    fn tuple_selector(&mut self) -> Result<Selector> {
        self.advance()?;
        if !self.at_term() {
            self.looked_past = self.token.start;
            return Err(self.no_viable());
        }
        let parts = self.nested(|parser| parser.list(Self::selector))?;
        self.expect(TokenKind::ParenClose, "')'")?;
        Ok(Selector::Tuple(parts))
    }

    /// Parses `[a, b]`.
    fn list_selector(&mut self) -> Result<Selector> {
        self.advance()?;
        let parts = self.nested(|parser| parser.terms_until(TokenKind::BracketClose, "']'", Self::selector))?;
        Ok(Selector::List(parts))
    }

    /// Parses `{...}`: a set, a map, or the fields of a user type.
    fn brace_selector(&mut self) -> Result<Selector> {
        let open = self.advance()?;
        if !self.at_term() && self.token.kind != TokenKind::BraceClose {
            return Err(self.no_viable_since(open));
        }
        let selector = self.nested(Self::selectors_in_braces)?;
        self.expect(TokenKind::BraceClose, "'}'")?;
        Ok(selector)
    }

    fn marker_selector(&mut self) -> Result<Selector> {
        match self.marker()? {
            Some(marker) => Ok(Selector::Term(Term::Marker(marker))),
            None => Err(self.no_viable()),
        }
    }

    /// Parses a selector that begins with a word: a column, a constant, or a call.
    fn word_selector(&mut self) -> Result<Selector> {
        if self.peek()?.kind == TokenKind::ParenOpen {
            let attribute = match () {
                () if self.token.is("writetime") => Some(CellAttribute::WriteTime),
                () if self.token.is("maxwritetime") => Some(CellAttribute::MaxWriteTime),
                () if self.token.is("ttl") => Some(CellAttribute::Ttl),
                () => None,
            };
            match attribute {
                Some(attribute) => return self.cell_attribute(attribute),
                None if self.token.is("count") => return self.count(),
                None if self.token.is("cast") => return self.cast_selector(),
                None => {}
            }
        }
        if self.token.is("null") || self.is_word_constant() { self.term_selector() } else { self.named_selector() }
    }

    /// Parses `writetime(c)` and the like.
    fn cell_attribute(&mut self, attribute: CellAttribute) -> Result<Selector> {
        self.advance()?;
        self.advance()?;
        let column = Selector::Column(self.name()?);
        let of = self.selector_parts(column)?;
        self.end_column_part()?;
        self.expect(TokenKind::ParenClose, "')'")?;
        Ok(Selector::CellAttribute(attribute, Box::new(of)))
    }

    /// Parses `cast(a AS type)`.
    fn cast_selector(&mut self) -> Result<Selector> {
        self.advance()?;
        self.advance()?;
        let of = self.nested_call(Self::selector)?;
        self.expect_word("as")?;
        let at_native = super::native(&self.token.text.to_ascii_lowercase()).is_some();
        if self.token.kind != TokenKind::Word || !at_native {
            return Err(self.no_viable());
        }
        let type_name = self.type_name()?;
        self.expect(TokenKind::ParenClose, "')'")?;
        Ok(Selector::Cast(Box::new(of), type_name))
    }

    /// Parses a constant or marker.
    fn term_selector(&mut self) -> Result<Selector> {
        self.choice = None;
        let term = self.simple_term()?;
        self.looked_past = self.token.start;
        Ok(Selector::Term(term))
    }

    fn is_word_constant(&self) -> bool {
        ["true", "false", "nan", "infinity"].iter().any(|word| self.token.is(word))
    }

    /// Parses what stands between braces.
    fn selectors_in_braces(&mut self) -> Result<Selector> {
        if self.token.kind == TokenKind::BraceClose {
            return Ok(Selector::Set(Vec::new()));
        }
        let mut entries = Vec::new();
        let mut parts = vec![self.selector()?];
        if !matches!(self.token.kind, TokenKind::Colon | TokenKind::Comma | TokenKind::BraceClose) {
            return Err(self.no_viable());
        }
        if self.token.kind != TokenKind::Colon {
            while self.accept(TokenKind::Comma)? {
                parts.push(self.selector()?);
            }
            return Ok(Selector::Set(parts));
        }
        while let Some(key) = parts.pop() {
            self.expect(TokenKind::Colon, "':'")?;
            entries.push((key, self.selector()?));
            if self.accept(TokenKind::Comma)? {
                parts.push(self.selector()?);
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
        let open = self.advance()?;
        if self.accept(TokenKind::Star)? {
            self.expect(TokenKind::ParenClose, "')'")?;
            return Ok(Selector::CountRows);
        }
        if self.peek()?.kind == TokenKind::ParenClose && self.constant()?.is_some() {
            self.expect(TokenKind::ParenClose, "')'")?;
            return Ok(Selector::CountRows);
        }
        if !self.at_term() && self.token.kind != TokenKind::ParenClose {
            return Err(self.no_viable_since(open));
        }
        self.arguments(None, "count".to_owned())
    }

    /// Parses a column or a function call.
    fn named_selector(&mut self) -> Result<Selector> {
        if self.token.is("token") {
            self.advance()?;
            self.looked_past = self.token.start;
            self.expect(TokenKind::ParenOpen, "'('")?;
            return self.arguments(None, "token".to_owned());
        }
        let first = self.token;
        let name = self.name()?;
        match self.token.kind {
            TokenKind::ParenOpen => {
                self.advance()?;
                self.arguments(None, name)
            }
            TokenKind::Dot => {
                self.advance()?;
                let field = match self.accept_word("token")? {
                    true => "token".to_owned(),
                    false if self.at_name() => self.name()?,
                    false => return Err(self.no_viable_since(first)),
                };
                if !self.accept(TokenKind::ParenOpen)? {
                    self.end_column(first)?;
                    return Ok(Selector::Field(Box::new(Selector::Column(name)), field));
                }
                self.arguments(Some(name), field)
            }
            _ => {
                self.end_column(first)?;
                Ok(Selector::Column(name))
            }
        }
    }

    /// Parses arguments up to the closing parenthesis, after the opening one.
    fn arguments(&mut self, keyspace: Option<String>, name: String) -> Result<Selector> {
        let arguments = self.nested_call(|parser| parser.terms_until(TokenKind::ParenClose, "')'", Self::selector))?;
        Ok(Selector::Function { keyspace, name, arguments })
    }
}
