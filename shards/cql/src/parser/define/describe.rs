//! Parses DESCRIBE.

use crate::ast::DescribeTarget;
use crate::ast::{Body, TableName};
use crate::lexer::TokenKind;
use crate::parser::Parser;
use model::Failure;

type Result<T> = std::result::Result<T, Failure>;

impl Parser<'_> {
    pub(super) fn describe(&mut self) -> Result<Body> {
        let target = self.describe_target()?;
        let internals = self.accept_word("with")?;
        if internals {
            self.expect_word("internals")?;
        }
        Ok(Body::Describe { target, internals })
    }

    fn describe_target(&mut self) -> Result<DescribeTarget> {
        if self.accept_word("full")? {
            self.expect_word("schema")?;
            return Ok(DescribeTarget::Schema { full: true });
        }
        if self.accept_word("schema")? {
            return Ok(DescribeTarget::Schema { full: false });
        }
        if self.token.is("only") && self.peek()?.is("keyspace") {
            self.advance()?;
            return self.describe_keyspace(true);
        }
        if self.token.is("keyspace") {
            return self.describe_keyspace(false);
        }
        if self.token.is("table") || self.token.is("columnfamily") {
            self.advance()?;
            let TableName { keyspace, name } = self.table_name()?;
            return Ok(DescribeTarget::Table { keyspace, name });
        }
        if self.accept_word("index")? {
            let TableName { keyspace, name } = self.table_name()?;
            return Ok(DescribeTarget::Index { keyspace, name });
        }
        if self.accept_word("materialized")? {
            self.expect_word("view")?;
            let TableName { keyspace, name } = self.table_name()?;
            return Ok(DescribeTarget::MaterializedView { keyspace, name });
        }
        // The keywords below are also names: `DESCRIBE types` lists types, `DESCRIBE type.t` shows a table.
        let next = self.peek()?;
        let last = next.kind == TokenKind::End || next.kind == TokenKind::Semicolon || next.is("with");
        for (word, target) in [
            ("cluster", DescribeTarget::Cluster),
            ("keyspaces", DescribeTarget::Keyspaces),
            ("tables", DescribeTarget::Tables),
            ("columnfamilies", DescribeTarget::Tables),
            ("types", DescribeTarget::Types),
            ("functions", DescribeTarget::Functions),
            ("aggregates", DescribeTarget::Aggregates),
        ] {
            if last && self.accept_word(word)? {
                return Ok(target);
            }
        }
        type Target = fn(Option<String>, String) -> DescribeTarget;
        let named: [(&str, Target); 3] = [
            ("type", |keyspace, name| DescribeTarget::Type { keyspace, name }),
            ("function", |keyspace, name| DescribeTarget::Function { keyspace, name }),
            ("aggregate", |keyspace, name| DescribeTarget::Aggregate { keyspace, name }),
        ];
        for (word, target) in named {
            if !last && next.kind != TokenKind::Dot && self.accept_word(word)? {
                let TableName { keyspace, name } = self.table_name()?;
                return Ok(target(keyspace, name));
            }
        }
        let first = self.token;
        let name = self.name()?;
        if self.accept(TokenKind::Dot)? {
            return Ok(DescribeTarget::Any { keyspace: Some(name), name: self.name()? });
        }
        if !matches!(self.token.kind, TokenKind::Semicolon | TokenKind::End) && !self.token.is("with") {
            return Err(self.no_viable_since(first));
        }
        Ok(DescribeTarget::Any { keyspace: None, name })
    }

    fn describe_keyspace(&mut self, only: bool) -> Result<DescribeTarget> {
        self.expect_word("keyspace")?;
        let name = if self.at_name() { Some(self.name()?) } else { None };
        Ok(DescribeTarget::Keyspace { name, only })
    }
}
