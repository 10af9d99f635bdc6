//! SELECT.

use super::{Parser, unsupported};
use crate::ast::{Body, Select, SelectItem, Selector, Term};
use crate::lexer::{Kind, Token};
use model::Failure;

type Result<T> = std::result::Result<T, Failure>;

impl Parser<'_> {
    pub(crate) fn select(&mut self) -> Result<Body> {
        self.expect_word("select")?;
        if self.accept_option("json")? {
            return Err(unsupported("SELECT JSON"));
        }
        let distinct = self.accept_option("distinct")?;
        let items = match self.accept(Kind::Star)? {
            true => None,
            false => Some(self.list(Self::select_item)?),
        };
        self.expect_word("from")?;
        let table = self.table_name()?;
        let relations = if self.accept_word("where")? { self.relations()? } else { Vec::new() };
        if self.accept_word("group")? {
            self.expect_word("by")?;
            self.name()?;
            return Err(unsupported("GROUP BY"));
        }
        let mut order = Vec::new();
        if self.accept_word("order")? {
            self.expect_word("by")?;
            order = self.list(Self::ordering)?;
        }
        let mut per_partition_limit = None;
        if self.accept_word("per")? {
            self.expect_word("partition")?;
            self.expect_word("limit")?;
            per_partition_limit = Some(self.integer_or_marker()?);
        }
        let limit = if self.accept_word("limit")? { Some(self.integer_or_marker()?) } else { None };
        let allow_filtering = self.accept_word("allow")?;
        if allow_filtering {
            self.expect_word("filtering")?;
        }
        let timeout = self.using_timeout()?;
        Ok(Body::Select(Select {
            distinct,
            items,
            table,
            relations,
            order,
            per_partition_limit,
            limit,
            allow_filtering,
            timeout,
        }))
    }

    /// Steps over JSON or DISTINCT. Both words are also names: `SELECT json FROM t`.
    fn accept_option(&mut self, word: &str) -> Result<bool> {
        let is_name = |next: Token<'_>| {
            next.is("from")
                || next.is("as")
                || matches!(next.kind, Kind::Comma | Kind::Dot | Kind::ParenOpen | Kind::BracketOpen | Kind::End)
        };
        let there = self.token.is(word) && !is_name(self.peek()?);
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    /// `USING TIMEOUT 5s`, where nothing else may be given.
    pub(crate) fn using_timeout(&mut self) -> Result<Option<Term>> {
        // Anything else after USING is wrong, and so is the word itself, as Cassandra says.
        if !self.token.is("using") || !self.peek()?.is("timeout") {
            return Ok(None);
        }
        self.advance()?;
        self.advance()?;
        Ok(Some(self.duration_or_marker()?))
    }

    fn ordering(&mut self) -> Result<(String, bool)> {
        let name = self.name()?;
        if self.accept_word("ann")? {
            self.expect_word("of")?;
            return Err(unsupported("ORDER BY ... ANN OF"));
        }
        let descending = self.accept_word("desc")?;
        if !descending {
            self.accept_word("asc")?;
        }
        Ok((name, descending))
    }

    fn select_item(&mut self) -> Result<SelectItem> {
        let selector = self.selector()?;
        self.refuse_arithmetic()?;
        let alias = if self.accept_word("as")? { Some(self.name()?) } else { None };
        Ok(SelectItem { selector, alias })
    }

    fn selector(&mut self) -> Result<Selector> {
        match self.token.kind {
            Kind::ParenOpen if self.at_type_hint()? => {
                let type_name = self.type_hint()?;
                let term = match self.nested(Self::selector)? {
                    Selector::Term(term) => Some(term),
                    function => as_term(function),
                };
                match term {
                    Some(term) => Ok(Selector::Term(Term::Cast(type_name, Box::new(term)))),
                    None => Err(unsupported("type hints on columns")),
                }
            }
            Kind::ParenOpen | Kind::BracketOpen | Kind::BraceOpen => {
                self.advance()?;
                Err(unsupported("tuples and collections in a selection"))
            }
            Kind::Minus => match self.constant()? {
                Some((family, text)) => Ok(Selector::Term(Term::Constant(family, text))),
                None => Err(unsupported("arithmetic operations")),
            },
            Kind::QuotedName => self.named_selector(),
            Kind::Word => {
                let called = self.peek()?.kind == Kind::ParenOpen;
                if called && self.token.is("count") {
                    self.count()
                } else if called && self.token.is("writetime") {
                    self.advance()?;
                    self.advance()?;
                    let name = self.name()?;
                    self.refuse_parts()?;
                    self.expect(Kind::ParenClose, "')'")?;
                    Ok(Selector::WriteTime(name))
                } else if called && self.token.is("ttl") {
                    Err(unsupported("ttl()"))
                } else if called && self.token.is("maxwritetime") {
                    Err(unsupported("maxwritetime()"))
                } else if called && self.token.is("cast") {
                    Err(unsupported("CAST"))
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

    /// `count(*)`, `count(1)` or `count(c)`.
    fn count(&mut self) -> Result<Selector> {
        self.advance()?;
        self.advance()?;
        if self.accept(Kind::Star)? || self.constant()?.is_some() {
            self.expect(Kind::ParenClose, "')'")?;
            return Ok(Selector::CountRows);
        }
        self.arguments(None, "count".to_owned())
    }

    /// A column or a function.
    fn named_selector(&mut self) -> Result<Selector> {
        if self.token.is("token") {
            self.advance()?;
            self.expect(Kind::ParenOpen, "'('")?;
            return self.arguments(None, "token".to_owned());
        }
        let name = self.name()?;
        match self.token.kind {
            Kind::ParenOpen => {
                self.advance()?;
                self.arguments(None, name)
            }
            Kind::Dot => {
                self.advance()?;
                let field = if self.accept_word("token")? { "token".to_owned() } else { self.name()? };
                if !self.accept(Kind::ParenOpen)? {
                    return Err(unsupported("field selection"));
                }
                self.arguments(Some(name), field)
            }
            _ => {
                self.refuse_parts()?;
                Ok(Selector::Column(name))
            }
        }
    }

    fn refuse_parts(&self) -> Result<()> {
        match self.token.kind {
            Kind::BracketOpen => Err(unsupported("element selection")),
            Kind::Dot => Err(unsupported("field selection")),
            _ => Ok(()),
        }
    }

    /// Arguments up to the closing parenthesis; the opening one is passed.
    fn arguments(&mut self, keyspace: Option<String>, name: String) -> Result<Selector> {
        let arguments = match self.token.kind {
            Kind::ParenClose => Vec::new(),
            Kind::Star => return Err(self.mismatched("')'")),
            _ => self.nested(|parser| {
                parser.list(|parser| {
                    let argument = parser.selector()?;
                    parser.refuse_arithmetic()?;
                    Ok(argument)
                })
            })?,
        };
        self.expect(Kind::ParenClose, "')'")?;
        Ok(Selector::Function { keyspace, name, arguments })
    }
}

/// A call without columns as a term.
fn as_term(selector: Selector) -> Option<Term> {
    match selector {
        Selector::Term(term) => Some(term),
        Selector::Function { keyspace, name, arguments } => {
            let arguments = arguments.into_iter().map(as_term).collect::<Option<Vec<_>>>()?;
            Some(Term::Function { keyspace, name, arguments })
        }
        Selector::Column(_) | Selector::WriteTime(_) | Selector::CountRows => None,
    }
}
