//! Parses CREATE TYPE and ALTER TYPE.

use super::define;
use crate::ast::{AlterType, Body, CreateType, Definition, TableName, TypeChange, TypeName};
use crate::errors::syntax;
use crate::lexer::TokenKind;
use crate::parser::{Parser, native};
use model::Failure;

type Result<T> = std::result::Result<T, Failure>;

/// Words that can name a user type only if quoted, because Cassandra reserves them for future native types.
const RESERVED_TYPES: [&str; 8] = ["bitstring", "byte", "complex", "date", "enum", "interval", "macaddr", "smallint"];
/// Words that are valid names, but not of user types.
const NOT_TYPES: [&str; 7] = ["cast", "count", "distinct", "json", "maxwritetime", "ttl", "writetime"];

impl Parser<'_> {
    pub(super) fn create_type(&mut self) -> Result<Body> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.user_type_name()?;
        self.expect(TokenKind::ParenOpen, "'('")?;
        let mut fields = vec![self.field()?];
        while self.accept(TokenKind::Comma)? {
            // Cassandra accepts a trailing comma.
            if self.at_name() {
                fields.push(self.field()?);
            }
        }
        self.expect(TokenKind::ParenClose, "')'")?;
        Ok(define(Definition::CreateType(CreateType { name, if_not_exists, fields })))
    }

    pub(super) fn alter_type(&mut self) -> Result<Body> {
        let if_exists = self.if_exists()?;
        let name = self.user_type_name()?;
        let change = if self.accept_word("alter")? {
            self.name()?;
            self.expect_word("type")?;
            self.type_name()?;
            TypeChange::Type
        } else if self.accept_word("add")? {
            let if_not_exists = self.if_not_exists()?;
            let (field, type_name) = self.field()?;
            TypeChange::Add { if_not_exists, field, type_name }
        } else if self.accept_word("rename")? {
            let if_exists = self.if_exists()?;
            TypeChange::Rename { if_exists, names: self.renamings()? }
        } else {
            return Err(self.no_viable());
        };
        Ok(define(Definition::AlterType(AlterType { name, if_exists, change })))
    }

    fn field(&mut self) -> Result<(String, TypeName)> {
        Ok((self.name()?, self.type_name()?))
    }

    /// Reads the name of a user type, with an optional keyspace.
    pub(super) fn user_type_name(&mut self) -> Result<TableName> {
        let first = self.token;
        let name = self.name()?;
        if self.accept(TokenKind::Dot)? {
            let second = self.token;
            let keyspace = Some(name);
            if second.kind == TokenKind::Word && is_no_type(second.text) {
                return Err(self.no_viable());
            }
            let name = self.name()?;
            check_reserved(second.kind, &name)?;
            return Ok(TableName { keyspace, name });
        }
        if first.kind == TokenKind::Word && is_no_type(first.text) {
            return Err(self.mismatched("'.'"));
        }
        check_reserved(first.kind, &name)?;
        Ok(TableName { keyspace: None, name })
    }
}

fn is_no_type(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    native(&word).is_some() || NOT_TYPES.contains(&word.as_str())
}

fn check_reserved(kind: TokenKind, name: &str) -> Result<()> {
    if kind == TokenKind::Word && RESERVED_TYPES.contains(&name) {
        return Err(syntax(format!("Invalid (reserved) user type name {name}")));
    }
    Ok(())
}
