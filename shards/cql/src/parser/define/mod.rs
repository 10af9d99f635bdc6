//! Parses CREATE, ALTER, DROP, USE, TRUNCATE: the kind of statement, keyspaces and properties. Tables, types, indexes,
//! DESCRIBE and statements about roles are in the files beside this one.

mod access;
mod describe;
mod index;
mod table;
mod user_type;

use crate::ast::{
    AlterKeyspace, Body, CUSTOM_PROPERTIES, CreateKeyspace, Definition, DropIndex, DropKeyspace, DropTable, DropType,
    Property, PropertyValue, Term, WRITE_SHARDING,
};
use crate::errors::{syntax, unsupported};
use crate::lexer::{Token, TokenKind};
use crate::parser::Parser;
use model::Failure;
use std::collections::BTreeSet;

type Result<T> = std::result::Result<T, Failure>;

/// Kinds of schema objects that Helenus does not have: the keyword and the feature's name.
const KINDS: [(&str, &str); 3] =
    [("function", "user-defined functions"), ("aggregate", "user-defined aggregates"), ("trigger", "triggers")];

impl Parser<'_> {
    /// Parses any statement that does not begin with SELECT, INSERT, UPDATE, DELETE or BEGIN.
    pub(crate) fn definition(&mut self) -> Result<Body> {
        let first = self.token;
        if first.kind != TokenKind::Word {
            return Err(self.no_viable());
        }
        match first.text.to_ascii_lowercase().as_str() {
            "use" => {
                self.advance()?;
                Ok(Body::Use(self.name_of("keyspace")?))
            }
            "truncate" => {
                self.advance()?;
                if !self.accept_word("table")? {
                    self.accept_word("columnfamily")?;
                }
                Ok(Body::Truncate { table: self.table_name()?, timeout: self.using_timeout()? })
            }
            "create" => {
                self.advance()?;
                self.create(first)
            }
            "drop" => {
                self.advance()?;
                self.drop_statement(first)
            }
            "alter" => {
                self.advance()?;
                self.alter(first)
            }
            "describe" | "desc" => {
                self.advance()?;
                self.describe()
            }
            "grant" | "revoke" => {
                self.advance()?;
                self.grant_or_revoke(first.is("grant"))
            }
            "list" => {
                self.advance()?;
                match self.list_statement()? {
                    Some(body) => Ok(body),
                    None => Err(self.no_viable_since(first)),
                }
            }
            "add" => {
                self.advance()?;
                self.add_identity()
            }
            _ => Err(self.no_viable()),
        }
    }

    /// Parses what follows the word CREATE.
    fn create(&mut self, first: Token<'_>) -> Result<Body> {
        if self.accept_word("keyspace")? {
            let if_not_exists = self.if_not_exists()?;
            let name = self.name_of("keyspace")?;
            let properties = self.properties()?;
            return Ok(define(Definition::CreateKeyspace(CreateKeyspace { name, if_not_exists, properties })));
        }
        if self.accept_table()? {
            return self.create_table();
        }
        if self.accept_word("type")? {
            return self.create_type();
        }
        if self.accept_word("role")? {
            return self.create_role();
        }
        if self.accept_word("user")? {
            return self.create_user();
        }
        let custom = self.token.is("custom") && self.peek()?.is("index");
        if custom {
            self.advance()?;
        }
        if self.accept_word("index")? {
            return self.create_index(custom);
        }
        if self.token.is("or") && self.peek()?.is("replace") {
            self.advance()?;
            self.advance()?;
        }
        self.other_kind(first, false)
    }

    /// Parses what follows the word DROP.
    fn drop_statement(&mut self, first: Token<'_>) -> Result<Body> {
        if self.accept_word("keyspace")? {
            let if_exists = self.if_exists()?;
            return Ok(define(Definition::DropKeyspace(DropKeyspace { name: self.name_of("keyspace")?, if_exists })));
        }
        if self.accept_table()? {
            let if_exists = self.if_exists()?;
            return Ok(define(Definition::DropTable(DropTable { table: self.table_name()?, if_exists })));
        }
        if self.accept_word("type")? {
            let if_exists = self.if_exists()?;
            return Ok(define(Definition::DropType(DropType { name: self.user_type_name()?, if_exists })));
        }
        if self.accept_word("index")? {
            let if_exists = self.if_exists()?;
            return Ok(define(Definition::DropIndex(DropIndex { name: self.table_name()?, if_exists })));
        }
        if self.accept_word("role")? {
            return self.drop_role();
        }
        if self.accept_word("user")? {
            return self.drop_user();
        }
        if self.accept_word("identity")? {
            return self.drop_identity();
        }
        self.other_kind(first, true)
    }

    /// Parses what follows the word ALTER.
    fn alter(&mut self, first: Token<'_>) -> Result<Body> {
        if self.accept_word("keyspace")? {
            let if_exists = self.if_exists()?;
            let name = self.name_of("keyspace")?;
            let properties = self.properties()?;
            return Ok(define(Definition::AlterKeyspace(AlterKeyspace { name, if_exists, properties })));
        }
        if self.accept_table()? {
            return self.alter_table();
        }
        if self.accept_word("type")? {
            return self.alter_type();
        }
        if self.accept_word("role")? {
            return self.alter_role();
        }
        if self.accept_word("user")? {
            return self.alter_user();
        }
        self.other_kind(first, true)
    }

    /// Refuses a kind of schema object that Helenus does not have, by name. `first` is the statement's first token.
    fn other_kind(&mut self, first: Token<'_>, existing: bool) -> Result<Body> {
        for (word, feature) in KINDS {
            if self.accept_word(word)? {
                if existing {
                    self.if_exists()?
                } else {
                    self.if_not_exists()?
                };
                if word == "trigger" {
                    self.name()?;
                } else {
                    self.table_name()?;
                }
                return Err(unsupported(feature));
            }
        }
        if self.accept_word("materialized")? {
            self.expect_word("view")?;
            if existing {
                self.if_exists()?
            } else {
                self.if_not_exists()?
            };
            self.table_name()?;
            return Err(unsupported("materialized views"));
        }
        Err(self.no_viable_since(first))
    }

    /// Skips TABLE or COLUMNFAMILY; returns whether it was there.
    fn accept_table(&mut self) -> Result<bool> {
        Ok(self.accept_word("table")? || self.accept_word("columnfamily")?)
    }

    // Properties.

    /// Parses `WITH property AND property ...`.
    fn properties(&mut self) -> Result<Vec<Property>> {
        self.expect_word("with")?;
        let mut properties = vec![self.property()?];
        while self.accept_word("and")? {
            properties.push(self.property()?);
        }
        Ok(properties)
    }

    fn property(&mut self) -> Result<Property> {
        let first = self.token;
        let property = self.name()?;
        if !self.accept(TokenKind::Equal)? {
            return Err(self.no_viable_since(first));
        }
        if let Some((_, text)) = self.constant()? {
            return Ok(Property { name: property, value: PropertyValue::Text(text) });
        }
        if !self.accept(TokenKind::BraceOpen)? {
            return Err(self.no_viable_since(first));
        }
        let entries = self.terms_until(TokenKind::BraceClose, "'}'", |parser| {
            let key = parser.term()?;
            parser.expect(TokenKind::Colon, "':'")?;
            Ok((key, parser.term()?))
        })?;
        let mut pairs = Vec::with_capacity(entries.len());
        let mut names = BTreeSet::new();
        for (name, value) in entries {
            let (name, value) = match (name, value) {
                (Term::Constant(_, name), Term::Constant(_, value)) => (name, value),
                (Term::Constant(_, outer), Term::Map(inner)) if property == CUSTOM_PROPERTIES => {
                    pairs.extend(flattened(&outer, inner)?);
                    continue;
                }
                (Term::Constant(_, name), Term::List(elements)) if property == WRITE_SHARDING => {
                    if !names.insert(name.clone()) {
                        return Err(syntax(format!("Multiple definition for property {name}")));
                    }
                    pairs.extend(repeated(&name, elements)?);
                    continue;
                }
                (name @ Term::Constant(..), value) => {
                    let text = format!("Invalid property value: {value} for property: {name}");
                    return Err(no_constant(text, &value));
                }
                (name, _) => return Err(no_constant(format!("Invalid property name: {name}"), &name)),
            };
            if !names.insert(name.clone()) {
                return Err(syntax(format!("Multiple definition for property {name}")));
            }
            pairs.push((name, value));
        }
        Ok(Property { name: property, value: PropertyValue::Map(pairs) })
    }
}

/// The pairs of a map within a map: their names follow that of the map, after a dot.
fn flattened(outer: &str, inner: Vec<(Term, Term)>) -> Result<Vec<(String, String)>> {
    let mut pairs: Vec<(String, String)> = Vec::with_capacity(inner.len());
    for entry in inner {
        let (name, value) = match entry {
            (Term::Constant(_, name), Term::Constant(_, value)) => (format!("{outer}.{name}"), value),
            (name, value) => {
                return Err(no_constant(format!("Invalid property value: {value} for property: {name}"), &value));
            }
        };
        if pairs.iter().any(|(other, _)| *other == name) {
            return Err(syntax(format!("Multiple definition for property {name}")));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

/// The pairs of a list: one with the same name for each element.
fn repeated(name: &str, elements: Vec<Term>) -> Result<Vec<(String, String)>> {
    let pair = |element| match element {
        Term::Constant(_, element) => Ok((name.to_owned(), element)),
        other => Err(no_constant(format!("Invalid property value: {other} for property: {name}"), &other)),
    };
    elements.into_iter().map(pair).collect()
}

/// The failure for a part of a property that is no constant.
fn no_constant(mut text: String, part: &Term) -> Failure {
    if matches!(part, Term::Marker(_)) {
        text.push_str(" (bind variables are not supported in DDL queries)");
    }
    syntax(text)
}

fn define(definition: Definition) -> Body {
    Body::Define(definition.into())
}
