//! Parses CREATE TABLE and ALTER TABLE.

use super::define;
use crate::ast::{AlterTable, Body, ColumnDefinition, CreateTable, Definition, Mask, TableChange};
use crate::errors::syntax;
use crate::lexer::{Token, TokenKind};
use crate::parser::Parser;
use model::Failure;

type Result<T> = std::result::Result<T, Failure>;

impl Parser<'_> {
    pub(super) fn create_table(&mut self) -> Result<Body> {
        let if_not_exists = self.if_not_exists()?;
        let table = self.table_name()?;
        let mut create = CreateTable {
            table,
            if_not_exists,
            columns: Vec::new(),
            primary_keys: Vec::new(),
            clustering_order: Vec::new(),
            compact: false,
            properties: Vec::new(),
        };
        self.expect(TokenKind::ParenOpen, "'('")?;
        self.table_column(&mut create)?;
        while self.accept(TokenKind::Comma)? {
            // Cassandra accepts a trailing comma.
            if self.at_name() || self.token.is("primary") {
                self.table_column(&mut create)?;
            }
        }
        self.expect(TokenKind::ParenClose, "')'")?;
        if self.accept_word("with")? {
            self.table_property(&mut create)?;
            while self.accept_word("and")? {
                self.table_property(&mut create)?;
            }
        }
        Ok(define(Definition::CreateTable(create)))
    }

    fn table_column(&mut self, create: &mut CreateTable) -> Result<()> {
        if self.accept_word("primary")? {
            self.expect_word("key")?;
            self.expect(TokenKind::ParenOpen, "'('")?;
            let partition = match self.accept(TokenKind::ParenOpen)? {
                true => {
                    let names = self.list(Self::name)?;
                    self.expect(TokenKind::ParenClose, "')'")?;
                    names
                }
                false => vec![self.name()?],
            };
            let clustering = match self.accept(TokenKind::Comma)? {
                true => self.list(Self::name)?,
                false => Vec::new(),
            };
            self.expect(TokenKind::ParenClose, "')'")?;
            create.primary_keys.push((partition, clustering));
            return Ok(());
        }
        let column = self.column_definition()?;
        if self.accept_word("primary")? {
            self.expect_word("key")?;
            create.primary_keys.push((vec![column.name.clone()], Vec::new()));
        }
        create.columns.push(column);
        Ok(())
    }

    /// Parses `name type [STATIC] [MASKED WITH ...]`.
    fn column_definition(&mut self) -> Result<ColumnDefinition> {
        let name = self.name()?;
        let type_name = self.type_name()?;
        let is_static = self.accept_word("static")?;
        let mask = if self.token.is("masked") { Some(self.mask()?) } else { None };
        Ok(ColumnDefinition { name, type_name, is_static, mask })
    }

    /// Parses, at the word MASKED, `MASKED WITH DEFAULT` or `MASKED WITH function(arguments)`.
    fn mask(&mut self) -> Result<Mask> {
        let masked = self.advance()?;
        if !self.accept_word("with")? {
            return Err(self.no_viable_since(masked));
        }
        if self.accept_word("default")? {
            return Ok(Mask { keyspace: None, function: "mask_default".into(), arguments: Vec::new() });
        }
        if !self.at_name() && !self.token.is("token") {
            return Err(self.no_viable_since(masked));
        }
        let (keyspace, function) = self.function_name()?;
        if !self.accept(TokenKind::ParenOpen)? || !self.at_term() && self.token.kind != TokenKind::ParenClose {
            return Err(self.no_viable());
        }
        let markers = self.marker_count();
        let arguments = self.terms_until(TokenKind::ParenClose, "')'", Self::term)?;
        if self.marker_count() > markers {
            return Err(Failure::invalid("Bind variables cannot be used for the arguments of masks"));
        }
        Ok(Mask { keyspace, function, arguments })
    }

    fn table_property(&mut self, create: &mut CreateTable) -> Result<()> {
        if self.token.is("compact") && self.peek()?.is("storage") {
            self.advance()?;
            self.advance()?;
            create.compact = true;
            return Ok(());
        }
        if (self.token.is("compact") || self.token.is("clustering")) && self.peek()?.kind != TokenKind::Equal {
            let first = self.advance()?;
            if first.is("compact") || !self.token.is("order") {
                return Err(self.no_viable_since(first));
            }
            return self.clustering_order(create);
        }
        if !self.at_name() {
            return Err(self.no_viable());
        }
        create.properties.push(self.property()?);
        Ok(())
    }

    /// Parses `ORDER BY (name DESC, ...)` after CLUSTERING.
    fn clustering_order(&mut self, create: &mut CreateTable) -> Result<()> {
        self.expect_word("order")?;
        self.expect_word("by")?;
        self.expect(TokenKind::ParenOpen, "'('")?;
        let order = self.list(|parser| {
            let name = parser.name()?;
            let descending = parser.accept_word("desc")?;
            if !descending && !parser.accept_word("asc")? {
                return Err(parser.no_viable());
            }
            Ok((name, descending))
        })?;
        self.expect(TokenKind::ParenClose, "')'")?;
        create.clustering_order.extend(order);
        Ok(())
    }

    pub(super) fn alter_table(&mut self) -> Result<Body> {
        let if_exists = self.if_exists()?;
        let table = self.table_name()?;
        let change = if self.accept_word("alter")? {
            self.alter_column()?
        } else if self.accept_word("add")? {
            let if_not_exists = self.if_not_exists()?;
            TableChange::Add { if_not_exists, columns: self.one_or_list(Self::column_definition)? }
        } else if self.token.is("drop") {
            let drop = self.advance()?;
            self.drop_columns(drop)?
        } else if self.accept_word("rename")? {
            self.if_exists()?;
            TableChange::Rename(self.renamings()?)
        } else if self.token.is("with") {
            TableChange::Options(self.properties()?)
        } else {
            return Err(self.no_viable());
        };
        Ok(define(Definition::AlterTable(AlterTable { table, if_exists, change })))
    }

    fn alter_column(&mut self) -> Result<TableChange> {
        let if_exists = self.if_exists()?;
        let column = self.name()?;
        if self.accept_word("type")? {
            self.type_name()?;
            return Ok(TableChange::Type);
        }
        if self.token.is("masked") {
            return Ok(TableChange::Mask { if_exists, column, mask: self.mask()? });
        }
        if self.accept_word("drop")? {
            self.expect_word("masked")?;
            return Ok(TableChange::Unmask { if_exists, column });
        }
        Err(self.no_viable())
    }

    /// Parses what follows the word `drop` of ALTER TABLE.
    fn drop_columns(&mut self, drop: Token<'_>) -> Result<TableChange> {
        if !self.at_name() && self.token.kind != TokenKind::ParenOpen && !self.token.is("if") {
            return Err(self.no_viable_since(drop));
        }
        if self.token.is("compact") && self.peek()?.is("storage") {
            self.advance()?;
            self.advance()?;
            return Ok(TableChange::DropCompactStorage);
        }
        let if_exists = self.if_exists()?;
        let names = self.one_or_list(Self::name)?;
        let mut timestamp = None;
        if self.accept_word("using")? {
            self.expect_word("timestamp")?;
            let token = self.token;
            self.expect(TokenKind::Integer, "INTEGER")?;
            timestamp = Some(token.text.parse().map_err(|_| {
                let (statement, number) = (self.lexer.statement(), token.text);
                syntax(format!(
                    "Failed parsing statement: [{statement}] reason: NumberFormatException For input string: \"{number}\""
                ))
            })?);
        }
        Ok(TableChange::Drop { if_exists, names, timestamp })
    }

    /// Parses `item` or `(item, item, ...)`.
    fn one_or_list<T>(&mut self, item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut item = item;
        if !self.accept(TokenKind::ParenOpen)? {
            return Ok(vec![item(self)?]);
        }
        let items = self.list(item)?;
        self.expect(TokenKind::ParenClose, "')'")?;
        Ok(items)
    }

    /// Parses `old TO new AND old TO new ...`.
    pub(super) fn renamings(&mut self) -> Result<Vec<(String, String)>> {
        let mut names = Vec::new();
        loop {
            let old = self.name()?;
            self.expect_word("to")?;
            names.push((old, self.name()?));
            if !self.accept_word("and")? {
                return Ok(names);
            }
        }
    }
}
