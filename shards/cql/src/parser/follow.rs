//! What may stand after a construct anywhere in Cassandra's grammar.
//!
//! Cassandra's parser decides at the end of a term, table name, type or selected column with the help of the next one.
//! If no statement allows that token there, the error is that of the construct ("no viable alternative"); if another
//! statement allows it, the error is that of the statement around it ("mismatched input"). In the second case it has
//! looked one token further, which the excerpt of the error then shows.

use super::Parser;
use crate::lexer::{Token, TokenKind};
use model::Failure;

type Result<T> = std::result::Result<T, Failure>;

/// Words after a term.
const AFTER_TERM: [&str; 14] = [
    "allow", "and", "apply", "asc", "delete", "desc", "group", "if", "insert", "limit", "order", "per", "update",
    "where",
];
/// Words after the name of a table.
const AFTER_TABLE: [&str; 18] = [
    "add",
    "allow",
    "alter",
    "as",
    "drop",
    "from",
    "group",
    "json",
    "limit",
    "norecursive",
    "of",
    "order",
    "per",
    "primary",
    "rename",
    "set",
    "to",
    "using",
];
/// Words after a selected column.
const AFTER_COLUMN: [&str; 6] = ["allow", "as", "from", "limit", "order", "per"];
/// Words after the name of a native type.
const AFTER_TYPE: [&str; 6] = ["finalfunc", "initcond", "language", "masked", "primary", "static"];
/// Words after a part of a column whose time or TTL is selected.
const AFTER_PART: [&str; 6] = AFTER_COLUMN;

impl<'a> Parser<'a> {
    fn at_one_of(&self, words: &[&str]) -> bool {
        self.token.kind == TokenKind::Word && words.iter().any(|word| self.token.is(word))
    }

    fn at_operator(&self) -> bool {
        use TokenKind::*;
        matches!(self.token.kind, Plus | Minus | Star | Slash | Percent)
    }

    fn may_follow_term(&self) -> bool {
        use TokenKind::*;
        self.at_operator()
            || matches!(
                self.token.kind,
                ParenClose | BracketClose | BraceClose | Semicolon | Colon | DotDot | Comma | End
            )
            || self.at_one_of(&AFTER_TERM)
            || self.token.is("primary")
            || self.at_timeout()
            || self.in_transaction && (self.token.is("then") || self.at_comparison())
    }

    /// Whether `USING TIMEOUT` begins here, which no statement of Cassandra has.
    fn at_timeout(&self) -> bool {
        self.token.is("using") && self.peek().is_ok_and(|next| next.is("timeout"))
    }

    /// Checks the token after a term.
    pub(super) fn end_term(&mut self) -> Result<()> {
        if !self.may_follow_term() {
            return Err(self.no_viable());
        }
        self.looked_past = self.token.start;
        Ok(())
    }

    /// Checks the token after the marker `?` in a term.
    pub(super) fn end_marker(&self, marker: Token<'a>) -> Result<()> {
        if self.may_follow_term() || self.token.is("as") { Ok(()) } else { Err(self.no_viable_since(marker)) }
    }

    /// Checks the token after the name of a table, which has no keyspace before it.
    pub(super) fn end_table_name(&mut self, name: Token<'a>) -> Result<()> {
        let follows = match self.token.kind {
            TokenKind::ParenOpen | TokenKind::Semicolon | TokenKind::End => true,
            _ => self.at_one_of(&AFTER_TABLE) || self.token.is("where") || self.token.is("with"),
        };
        if !follows {
            return Err(self.no_viable_since(name));
        }
        self.looked_past = self.token.start;
        Ok(())
    }

    /// Checks the token after the name of a native type, or after the name of a generic one that has no parameters.
    pub(super) fn end_native_type(&mut self, name: Token<'a>) -> Result<()> {
        use TokenKind::*;
        let follows = matches!(self.token.kind, Semicolon | Greater | ParenClose | Comma | Dot | End);
        if !follows && !self.at_one_of(&AFTER_TYPE) {
            return Err(self.no_viable_since(name));
        }
        self.looked_past = self.token.start;
        Ok(())
    }

    /// Checks the token after the name of a selected column.
    pub(super) fn end_column(&mut self, name: Token<'a>) -> Result<()> {
        use TokenKind::*;
        let follows = match self.token.kind {
            ParenClose | BracketClose | BraceClose | Semicolon | Colon | Comma => true,
            Dot | ParenOpen | BracketOpen | End => true,
            _ => self.at_operator() || self.at_one_of(&AFTER_COLUMN) || self.at_timeout(),
        };
        self.looked_past = self.token.start;
        if follows { Ok(()) } else { Err(self.no_viable_since(name)) }
    }

    /// Checks the token after a column, or part of one, whose time or TTL is selected.
    pub(super) fn end_column_part(&self) -> Result<()> {
        use TokenKind::*;
        let follows = match self.token.kind {
            ParenClose | BracketClose | BraceClose | Colon | Comma => true,
            _ => self.at_operator() || self.at_one_of(&AFTER_PART),
        };
        if follows { Ok(()) } else { Err(self.no_viable()) }
    }

    /// Checks the token after a column in DELETE.
    pub(super) fn end_deleted_column(&self, name: Token<'a>) -> Result<()> {
        let follows = matches!(self.token.kind, TokenKind::BracketOpen | TokenKind::Dot | TokenKind::Comma);
        if follows || self.token.is("from") { Ok(()) } else { Err(self.no_viable_since(name)) }
    }

    /// Whether a term may begin with the current token.
    pub(super) fn at_term(&self) -> bool {
        use TokenKind::*;
        match self.token.kind {
            Word => {
                self.at_name() || ["null", "true", "false", "nan", "infinity", "token"].iter().any(|w| self.token.is(w))
            }
            QuotedName | String | DollarString | Integer | Float | Hex | Uuid | Duration => true,
            QuestionMark | Colon | ParenOpen | BracketOpen | BraceOpen | Minus => true,
            _ => false,
        }
    }

    /// Reads `term, term, ...`, which may be empty, up to the token `close`.
    pub(super) fn terms_until<T>(
        &mut self,
        close: TokenKind,
        shown: &str,
        item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let terms = if self.at_term() { self.list(item)? } else { Vec::new() };
        self.expect(close, shown)?;
        Ok(terms)
    }
}
