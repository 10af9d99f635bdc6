//! The parser: tokens to a statement, by recursive descent. This file has what all statements share; the files beside
//! it have one kind of statement each.
//!
//! 1. One token is current. The few places that must look further ahead copy the lexer, which is two words.
//! 2. Names become lower case unless quoted; a reserved word is not a name.
//! 3. Markers are numbered here, in the order of the text.
//!
//! Invariants: the depth of recursion is bounded by [`DEPTH_MAX`]; a syntax error (0x2000) names the offending token;
//! valid CQL that Helenus does not have is 0x2200 and names the feature.

mod arithmetic;
mod condition;
mod define;
mod excerpt;
mod follow;
mod modify;
mod relation;
mod select;
mod selector;
mod term;
mod transaction;
mod type_name;

use crate::ast::{Body, Constant, Statement, TableName};
use crate::errors::syntax;
use crate::lexer::{Lexer, Token, TokenKind};
use crate::limits::{CALL_DEPTH_MAX, DEPTH_MAX, MARKERS_MAX, OPERATORS_MAX, STATEMENT_BYTES_MAX};
use model::{CqlType, Failure};

type Result<T> = std::result::Result<T, Failure>;

/// Parses one statement; see [`crate::parse`].
pub(crate) fn parse(text: &str) -> Result<Statement> {
    if text.len() > STATEMENT_BYTES_MAX {
        return Err(Failure::invalid(format!(
            "The statement has {} bytes, more than the maximum of {STATEMENT_BYTES_MAX}",
            text.len()
        )));
    }
    let mut parser = Parser::new(text)?;
    let body = parser.statement()?;
    while parser.accept(TokenKind::Semicolon)? {}
    if parser.token.kind != TokenKind::End {
        return Err(parser.mismatched("EOF"));
    }
    Ok(Statement { body, markers: parser.markers })
}

pub(crate) struct Parser<'a> {
    pub(crate) lexer: Lexer<'a>,
    /// The current token.
    pub(crate) token: Token<'a>,
    markers: Vec<Option<String>>,
    depth: usize,
    /// Offset of the last token of which Cassandra's parser has seen the next one before an error there.
    looked_past: usize,
    /// The token where a choice began that goes on to the first tokens of a term, and the offset of that term.
    choice: Option<(Token<'a>, usize)>,
    /// Number of arithmetic operators so far in the outermost expression being read.
    operators: usize,
    /// Whether values may be references to rows that a transaction reads.
    in_transaction: bool,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Parser<'a>> {
        let mut lexer = Lexer::new(text);
        let token = lexer.next()?;
        Ok(Parser {
            lexer,
            token,
            markers: Vec::new(),
            depth: 0,
            looked_past: usize::MAX,
            choice: None,
            operators: 0,
            in_transaction: false,
        })
    }

    fn statement(&mut self) -> Result<Body> {
        let first = self.token;
        if first.is("select") {
            self.select()
        } else if first.is("insert") || first.is("update") || first.is("delete") {
            Ok(Body::Modify(self.modify()?))
        } else if first.is("begin") && self.peek()?.is("transaction") {
            self.transaction()
        } else if first.is("begin") {
            self.batch()
        } else {
            self.definition()
        }
    }

    // Tokens.

    /// Makes the next token current and returns the previous one.
    pub(crate) fn advance(&mut self) -> Result<Token<'a>> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    /// The token after the current one.
    pub(crate) fn peek(&self) -> Result<Token<'a>> {
        let mut lexer = self.lexer;
        lexer.next()
    }

    /// Skips the current token if it is of this kind; returns whether it was.
    pub(crate) fn accept(&mut self, kind: TokenKind) -> Result<bool> {
        let there = self.token.kind == kind;
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    /// Skips the current token if it is this keyword, given in lower case; returns whether it was.
    pub(crate) fn accept_word(&mut self, keyword: &str) -> Result<bool> {
        let there = self.token.is(keyword);
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    pub(crate) fn expect(&mut self, kind: TokenKind, shown: &str) -> Result<()> {
        if self.accept(kind)? { Ok(()) } else { Err(self.mismatched(shown)) }
    }

    pub(crate) fn expect_word(&mut self, keyword: &str) -> Result<()> {
        if self.accept_word(keyword)? {
            return Ok(());
        }
        Err(self.mismatched(&format!("K_{}", keyword.to_ascii_uppercase())))
    }

    /// Skips `IF NOT EXISTS`; returns whether it was there.
    pub(crate) fn if_not_exists(&mut self) -> Result<bool> {
        let there = self.accept_word("if")?;
        if there {
            self.expect_word("not")?;
            self.expect_word("exists")?;
        }
        Ok(there)
    }

    /// Skips `IF EXISTS`; returns whether it was there.
    pub(crate) fn if_exists(&mut self) -> Result<bool> {
        let there = self.accept_word("if")?;
        if there {
            self.expect_word("exists")?;
        }
        Ok(there)
    }

    // Errors at the current token.

    /// The failure of a choice between alternatives that the current token decides.
    pub(crate) fn no_viable(&self) -> Failure {
        self.no_viable_since(self.token)
    }

    /// The failure of a choice that begins at the token `first` and that the current token decides. Cassandra's excerpt
    /// marks the first token, its position is that of the current one.
    pub(crate) fn no_viable_since(&self, first: Token<'_>) -> Failure {
        self.error_at(first, "no viable alternative at input", "")
    }

    pub(crate) fn mismatched(&self, expected: &str) -> Failure {
        self.error_at(self.token, "mismatched input", &format!(" expecting {expected}"))
    }

    fn error_at(&self, first: Token<'_>, what: &str, tail: &str) -> Failure {
        let token = self.token;
        let next = if token.start == self.looked_past { self.peek().ok() } else { None };
        let excerpt = excerpt::excerpt(self.lexer.statement(), first.start, next.unwrap_or(token).start);
        // Cassandra reports the end of the text at this position.
        if token.kind == TokenKind::End {
            return syntax(format!("line 0:-1 {what} '<EOF>'{tail}{excerpt}"));
        }
        let shown = token.content().replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
        syntax(format!("{} {what} '{shown}'{tail}{excerpt}", self.lexer.position(token.start)))
    }

    /// Runs `inner` one level deeper; fails if that is too deep.
    pub(crate) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.nested_at_most(DEPTH_MAX, inner)
    }

    /// [`Parser::nested`] for types, of which each may have a `frozen` around it.
    pub(crate) fn nested_type<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.nested_at_most(2 * DEPTH_MAX + 2, inner)
    }

    fn nested_at_most<T>(&mut self, depth_max: usize, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= depth_max {
            return Err(Failure::invalid(format!("Expressions and types nest at most {DEPTH_MAX} levels deep")));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Runs `inner` for the arguments of a function, one level deeper; fails if that is too deep.
    pub(crate) fn nested_call<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= CALL_DEPTH_MAX {
            return Err(deep_call());
        }
        self.nested(inner)
    }

    /// Starts an expression. The operators of an outermost one are counted from 0.
    pub(crate) fn begin_expression(&mut self) {
        if self.depth == 0 {
            self.operators = 0;
        }
    }

    /// Skips an operator; fails if the expression has too many.
    pub(crate) fn pass_operator(&mut self) -> Result<()> {
        if self.depth > CALL_DEPTH_MAX {
            return Err(deep_call());
        }
        if self.operators == OPERATORS_MAX {
            return Err(Failure::invalid(format!("An expression takes at most {OPERATORS_MAX} arithmetic operators")));
        }
        self.operators += 1;
        self.advance().map(|_| ())
    }

    // Names.

    /// Reads a name: a word that is not reserved, in lower case, or a quoted name.
    pub(crate) fn name(&mut self) -> Result<String> {
        let name = match self.token.kind {
            TokenKind::Word if !is_reserved(self.token.text) => self.token.text.to_ascii_lowercase(),
            TokenKind::QuotedName => self.token.content().into_owned(),
            _ => return Err(self.no_viable()),
        };
        self.advance()?;
        Ok(name)
    }

    /// Whether the current token is a name.
    pub(crate) fn at_name(&self) -> bool {
        match self.token.kind {
            TokenKind::Word => !is_reserved(self.token.text),
            TokenKind::QuotedName => true,
            _ => false,
        }
    }

    /// Reads `keyspace.table` or `table`.
    pub(crate) fn table_name(&mut self) -> Result<TableName> {
        if self.token.kind == TokenKind::QuestionMark && self.peek()?.kind == TokenKind::Dot {
            return Err(bound_name("keyspace"));
        }
        let token = self.token;
        let first = self.name_of("table")?;
        if self.accept(TokenKind::Dot)? {
            return Ok(TableName { keyspace: Some(first), name: self.name_of("table")? });
        }
        self.end_table_name(token)?;
        Ok(TableName { keyspace: None, name: first })
    }

    /// Reads the name of a keyspace or table; Cassandra has an error of its own for a marker here.
    pub(crate) fn name_of(&mut self, what: &str) -> Result<String> {
        match self.token.kind {
            TokenKind::QuestionMark => Err(bound_name(what)),
            _ => self.name(),
        }
    }

    /// Reads `item, item, ...`, at least one.
    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept(TokenKind::Comma)? {
            items.push(item(self)?);
        }
        Ok(items)
    }

    // Terms.

    /// How many markers were read so far.
    pub(crate) fn marker_count(&self) -> usize {
        self.markers.len()
    }

    /// Reads `?` or `:name`, if one is there, and returns its number.
    pub(crate) fn marker(&mut self) -> Result<Option<u16>> {
        let name = match self.token.kind {
            TokenKind::QuestionMark => {
                self.advance()?;
                None
            }
            TokenKind::Colon => {
                self.advance()?;
                Some(self.name()?)
            }
            _ => return Ok(None),
        };
        let number = self.markers.len();
        if number == MARKERS_MAX {
            return Err(Failure::invalid(format!("A statement takes at most {MARKERS_MAX} bind markers")));
        }
        self.markers.push(name);
        Ok(Some(number as u16))
    }

    /// Reads a constant, if one is there: strings, numbers, booleans, `NaN`, `-Infinity`, blobs, uuids, durations.
    pub(crate) fn constant(&mut self) -> Result<Option<(Constant, String)>> {
        let token = self.token;
        let constant = match token.kind {
            TokenKind::String => (Constant::String, token.content().into_owned()),
            TokenKind::DollarString => (Constant::String, token.text.to_owned()),
            TokenKind::Integer => (Constant::Integer, token.text.to_owned()),
            TokenKind::Float => (Constant::Float, canonical_float(token.text)),
            TokenKind::Hex => (Constant::Hex, token.text.to_owned()),
            TokenKind::Uuid => (Constant::Uuid, token.text.to_owned()),
            TokenKind::Duration => (Constant::Duration, token.text.to_owned()),
            TokenKind::Word if token.is("true") || token.is("false") => (Constant::Boolean, token.text.to_owned()),
            TokenKind::Word if token.is("nan") => (Constant::Float, "NaN".to_owned()),
            TokenKind::Word if token.is("infinity") => (Constant::Float, "Infinity".to_owned()),
            _ => return Ok(None),
        };
        self.advance()?;
        Ok(Some(constant))
    }
}

/// `-NaN` and `-Infinity` as Cassandra shows them, whatever case they were written in.
fn canonical_float(text: &str) -> String {
    match text.as_bytes() {
        [b'-', b'n' | b'N', ..] => "-NaN".to_owned(),
        [b'-', b'i' | b'I', ..] => "-Infinity".to_owned(),
        _ => text.to_owned(),
    }
}

fn deep_call() -> Failure {
    Failure::invalid(format!("Function calls and operators nest at most {CALL_DEPTH_MAX} levels deep"))
}

/// The failure for a marker in place of a name.
fn bound_name(what: &str) -> Failure {
    syntax(format!("Bind variables cannot be used for {what} names"))
}

use model::identifier::is_reserved;

/// The native type with this name, which is in lower case.
pub(crate) fn native(name: &str) -> Option<CqlType> {
    Some(match name {
        "ascii" => CqlType::Ascii,
        "bigint" => CqlType::Bigint,
        "blob" => CqlType::Blob,
        "boolean" => CqlType::Boolean,
        "counter" => CqlType::Counter,
        "date" => CqlType::Date,
        "decimal" => CqlType::Decimal,
        "double" => CqlType::Double,
        "duration" => CqlType::Duration,
        "float" => CqlType::Float,
        "inet" => CqlType::Inet,
        "int" => CqlType::Int,
        "smallint" => CqlType::Smallint,
        "text" | "varchar" => CqlType::Text,
        "time" => CqlType::Time,
        "timestamp" => CqlType::Timestamp,
        "timeuuid" => CqlType::Timeuuid,
        "tinyint" => CqlType::Tinyint,
        "uuid" => CqlType::Uuid,
        "varint" => CqlType::Varint,
        _ => return None,
    })
}
