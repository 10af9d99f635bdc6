//! Parses CREATE INDEX.

use super::define;
use crate::ast::{Body, CreateIndex, Definition};
use crate::lexer::TokenKind;
use crate::parser::Parser;
use model::{Failure, IndexedPart};

type Result<T> = std::result::Result<T, Failure>;

/// The indexed part of a column's values, as written around its name.
const PARTS: [(&str, IndexedPart); 4] = [
    ("values", IndexedPart::Values),
    ("keys", IndexedPart::Keys),
    ("entries", IndexedPart::Entries),
    ("full", IndexedPart::Full),
];

impl Parser<'_> {
    /// Parses what follows `CREATE [CUSTOM] INDEX`.
    pub(super) fn create_index(&mut self, custom: bool) -> Result<Body> {
        let if_not_exists = self.if_not_exists()?;
        let named = self.at_name() || self.token.kind == TokenKind::QuestionMark;
        let name = if named { Some(self.name_of("index")?) } else { None };
        self.expect_word("on")?;
        let table = self.table_name()?;
        self.expect(TokenKind::ParenOpen, "'('")?;
        let targets = if self.at_name() || self.token.is("entries") || self.token.is("full") {
            self.list(Self::index_target)?
        } else {
            Vec::new()
        };
        self.expect(TokenKind::ParenClose, "')'")?;
        let class = match self.accept_word("using")? {
            true if self.token.kind == TokenKind::String => self.constant()?.map(|(_, text)| text),
            true => return Err(self.mismatched("STRING_LITERAL")),
            false => None,
        };
        let properties = if self.token.is("with") { self.properties()? } else { Vec::new() };
        let create = CreateIndex { name, if_not_exists, table, targets, custom, class, properties };
        Ok(define(Definition::CreateIndex(create)))
    }

    fn index_target(&mut self) -> Result<(String, IndexedPart)> {
        for (word, part) in PARTS {
            if self.token.is(word) && self.peek()?.kind == TokenKind::ParenOpen {
                self.advance()?;
                self.advance()?;
                let column = self.name()?;
                self.expect(TokenKind::ParenClose, "')'")?;
                return Ok((column, part));
            }
        }
        Ok((self.name()?, IndexedPart::Simple))
    }
}
