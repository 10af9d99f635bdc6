//! Parses SELECT.

use super::Parser;
use crate::ast::{Body, Ordering, Select, SelectItem, Selector, Term};
use crate::lexer::TokenKind;
use model::Failure;

type Result<T> = std::result::Result<T, Failure>;

/// What stands between SELECT and FROM.
pub(super) struct Selected {
    distinct: bool,
    json: bool,
    /// `None` for `*`.
    pub(super) items: Option<Vec<SelectItem>>,
}

impl Parser<'_> {
    pub(crate) fn select(&mut self) -> Result<Body> {
        let selected = self.selected()?;
        Ok(Body::Select(self.select_from(selected)?))
    }

    /// Parses SELECT and what is selected.
    pub(super) fn selected(&mut self) -> Result<Selected> {
        self.expect_word("select")?;
        // `distinct` and `json` are also names: `SELECT json FROM t`.
        let json = self.accept_clause("json")?;
        let first = self.token;
        let distinct = self.accept_clause("distinct")?;
        // DISTINCT may not precede JSON, where Cassandra's parser fails.
        if distinct && self.token.is("json") && self.at_clause()? {
            return Err(self.no_viable_since(first));
        }
        let items = match self.accept(TokenKind::Star)? {
            true => None,
            false => Some(self.list(Self::select_item)?),
        };
        Ok(Selected { distinct, json, items })
    }

    /// Parses what follows the selected items.
    pub(super) fn select_from(&mut self, Selected { distinct, json, items }: Selected) -> Result<Select> {
        self.expect_word("from")?;
        let table = self.table_name()?;
        let relations = if self.accept_word("where")? { self.relations()? } else { Vec::new() };
        let mut group = Vec::new();
        if self.accept_word("group")? {
            self.expect_word("by")?;
            group = self.list(Self::grouping)?;
        }
        let mut order = Vec::new();
        if self.accept_word("order")? {
            self.expect_word("by")?;
            order = self.list(Self::ordering)?;
        }
        let mut per_partition_limit = None;
        if self.token.is("per") {
            self.advance()?;
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
        Ok(Select {
            distinct,
            json,
            items,
            table,
            relations,
            group,
            order,
            per_partition_limit,
            limit,
            allow_filtering,
            timeout,
        })
    }

    /// Skips a word (DISTINCT or JSON) before the selected items, unless it is itself a selected column.
    fn accept_clause(&mut self, word: &str) -> Result<bool> {
        if !self.token.is(word) || !self.at_clause()? {
            return Ok(false);
        }
        self.advance()?;
        Ok(true)
    }

    /// Whether a selected item follows the current word, so that the word is not a name.
    fn at_clause(&self) -> Result<bool> {
        let next = self.peek()?;
        let is_name =
            next.is("from") || next.is("as") || matches!(next.kind, TokenKind::Comma | TokenKind::Dot | TokenKind::End);
        Ok(!is_name)
    }

    /// Parses a column of GROUP BY, or a function call on one.
    fn grouping(&mut self) -> Result<Selector> {
        self.selector()
    }

    /// Parses `USING TIMEOUT 5s`, where nothing else may be given.
    pub(crate) fn using_timeout(&mut self) -> Result<Option<Term>> {
        // With anything else after USING, Cassandra's error names USING itself.
        if !self.token.is("using") || !self.peek()?.is("timeout") {
            return Ok(None);
        }
        self.advance()?;
        self.advance()?;
        Ok(Some(self.duration_or_marker()?))
    }

    fn ordering(&mut self) -> Result<Ordering> {
        let name = self.name()?;
        let mut near = None;
        if self.accept_word("ann")? {
            self.expect_word("of")?;
            near = Some(self.term()?);
        }
        let descending = self.accept_word("desc")?;
        if !descending {
            self.accept_word("asc")?;
        }
        Ok(Ordering { name, near, descending })
    }
}
