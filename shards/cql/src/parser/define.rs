//! CREATE, ALTER, DROP, USE, TRUNCATE, DESCRIBE, and the statements about roles.

use crate::ast::{Body, ColumnDefinition, CreateKeyspace, CreateTable, Property, PropertyValue, TableName};
use crate::lexer::{Kind, syntax};
use crate::parser::{Parser, anonymous, unsupported};
use crate::plan::DescribeTarget;
use model::Failure;

type Result<T> = std::result::Result<T, Failure>;

/// What can be created, altered and dropped but is not in Helenus yet: the keyword and the feature's name.
const KINDS: [(&str, &str); 5] = [
    ("index", "secondary indexes"),
    ("type", "user-defined types"),
    ("function", "user-defined functions"),
    ("aggregate", "user-defined aggregates"),
    ("trigger", "triggers"),
];

/// What can be granted.
const PERMISSIONS: [&str; 11] = [
    "all",
    "create",
    "alter",
    "drop",
    "select",
    "modify",
    "authorize",
    "describe",
    "execute",
    "unmask",
    "select_masked",
];

impl Parser<'_> {
    /// Any statement that does not begin with SELECT, INSERT, UPDATE, DELETE or BEGIN.
    pub(crate) fn definition(&mut self) -> Result<Body> {
        let first = self.token;
        if first.kind != Kind::Word {
            return Err(self.no_viable());
        }
        match first.text.to_ascii_lowercase().as_str() {
            "use" => {
                self.advance()?;
                Ok(Body::Use(self.name()?))
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
                self.create()
            }
            "drop" => {
                self.advance()?;
                self.drop_statement()
            }
            "alter" => {
                self.advance()?;
                self.alter()
            }
            "describe" | "desc" => {
                self.advance()?;
                self.describe()
            }
            "grant" | "revoke" => {
                self.advance()?;
                if self.at_name() || PERMISSIONS.iter().any(|word| self.token.is(word)) {
                    return Err(anonymous());
                }
                Err(self.no_viable())
            }
            "list" => {
                self.advance()?;
                if ["roles", "users"].iter().chain(&PERMISSIONS).any(|word| self.token.is(word)) {
                    return Err(anonymous());
                }
                Err(self.no_viable())
            }
            "add" if self.peek()?.is("identity") => Err(anonymous()),
            _ => Err(self.no_viable()),
        }
    }

    fn create(&mut self) -> Result<Body> {
        if self.accept_word("keyspace")? {
            let if_not_exists = self.if_not_exists()?;
            let name = self.name()?;
            self.expect_word("with")?;
            let mut properties = vec![self.property()?];
            while self.accept_word("and")? {
                properties.push(self.property()?);
            }
            return Ok(Body::CreateKeyspace(CreateKeyspace { name, if_not_exists, properties }));
        }
        if self.token.is("table") || self.token.is("columnfamily") {
            self.advance()?;
            return self.create_table();
        }
        if self.token.is("custom") && self.peek()?.is("index") {
            self.advance()?;
        }
        if self.token.is("or") && self.peek()?.is("replace") {
            self.advance()?;
            self.advance()?;
        }
        self.other_kind(false)
    }

    fn drop_statement(&mut self) -> Result<Body> {
        if self.accept_word("keyspace")? {
            let if_exists = self.if_exists()?;
            return Ok(Body::DropKeyspace { name: self.name()?, if_exists });
        }
        if self.token.is("table") || self.token.is("columnfamily") {
            self.advance()?;
            let if_exists = self.if_exists()?;
            return Ok(Body::DropTable { table: self.table_name()?, if_exists });
        }
        if self.token.is("identity") {
            return Err(anonymous());
        }
        self.other_kind(true)
    }

    fn alter(&mut self) -> Result<Body> {
        for (word, feature) in
            [("keyspace", "ALTER KEYSPACE"), ("table", "ALTER TABLE"), ("columnfamily", "ALTER TABLE")]
        {
            if self.accept_word(word)? {
                self.if_exists()?;
                self.table_name()?;
                if self.token.kind == Kind::End {
                    return Err(self.no_viable());
                }
                return Err(unsupported(feature));
            }
        }
        self.other_kind(true)
    }

    /// Names what can be created, altered or dropped but is not there yet.
    fn other_kind(&mut self, existing: bool) -> Result<Body> {
        for (word, feature) in KINDS {
            if self.accept_word(word)? {
                if !existing && word == "index" && self.token.is("on") {
                    return Err(unsupported(feature));
                }
                if existing {
                    self.if_exists()?
                } else {
                    self.if_not_exists()?
                };
                if !self.token.is("on") {
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
        if self.token.is("role") || self.token.is("user") {
            return Err(anonymous());
        }
        Err(self.no_viable())
    }

    // CREATE TABLE.

    fn create_table(&mut self) -> Result<Body> {
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
        self.expect(Kind::ParenOpen, "'('")?;
        self.table_column(&mut create)?;
        while self.accept(Kind::Comma)? {
            // Cassandra lets a comma stand before the end.
            if self.token.kind != Kind::Comma && self.token.kind != Kind::ParenClose {
                self.table_column(&mut create)?;
            }
        }
        self.expect(Kind::ParenClose, "')'")?;
        if self.accept_word("with")? {
            self.table_property(&mut create)?;
            while self.accept_word("and")? {
                self.table_property(&mut create)?;
            }
        }
        Ok(Body::CreateTable(create))
    }

    fn table_column(&mut self, create: &mut CreateTable) -> Result<()> {
        if self.accept_word("primary")? {
            self.expect_word("key")?;
            self.expect(Kind::ParenOpen, "'('")?;
            let partition = match self.accept(Kind::ParenOpen)? {
                true => {
                    let names = self.list(Self::name)?;
                    self.expect(Kind::ParenClose, "')'")?;
                    names
                }
                false => vec![self.name()?],
            };
            let clustering = match self.accept(Kind::Comma)? {
                true => self.list(Self::name)?,
                false => Vec::new(),
            };
            self.expect(Kind::ParenClose, "')'")?;
            create.primary_keys.push((partition, clustering));
            return Ok(());
        }
        let name = self.name()?;
        let type_name = self.type_name()?;
        let is_static = self.accept_word("static")?;
        if self.token.is("masked") {
            return Err(unsupported("dynamic data masking"));
        }
        if self.accept_word("primary")? {
            self.expect_word("key")?;
            create.primary_keys.push((vec![name.clone()], Vec::new()));
        }
        create.columns.push(ColumnDefinition { name, type_name, is_static });
        Ok(())
    }

    fn table_property(&mut self, create: &mut CreateTable) -> Result<()> {
        if self.token.is("compact") && self.peek()?.is("storage") {
            self.advance()?;
            self.advance()?;
            create.compact = true;
            return Ok(());
        }
        if self.token.is("clustering") && self.peek()?.is("order") {
            self.advance()?;
            self.advance()?;
            self.expect_word("by")?;
            self.expect(Kind::ParenOpen, "'('")?;
            let order = self.list(|parser| {
                let name = parser.name()?;
                let descending = parser.accept_word("desc")?;
                if !descending && !parser.accept_word("asc")? {
                    return Err(parser.no_viable());
                }
                Ok((name, descending))
            })?;
            self.expect(Kind::ParenClose, "')'")?;
            create.clustering_order.extend(order);
            return Ok(());
        }
        create.properties.push(self.property()?);
        Ok(())
    }

    fn property(&mut self) -> Result<Property> {
        let name = self.name()?;
        self.expect(Kind::Equal, "'='")?;
        if let Some((_, text)) = self.constant()? {
            return Ok(Property { name, value: PropertyValue::Text(text) });
        }
        if !self.accept(Kind::BraceOpen)? {
            return Err(self.no_viable());
        }
        let mut pairs: Vec<(String, String)> = Vec::new();
        if self.token.kind != Kind::BraceClose {
            pairs = self.list(|parser| {
                let key = parser.property_constant()?;
                parser.expect(Kind::Colon, "':'")?;
                Ok((key, parser.property_constant()?))
            })?;
        }
        self.expect(Kind::BraceClose, "'}'")?;
        let mut keys: Vec<&str> = pairs.iter().map(|(key, _)| key.as_str()).collect();
        keys.sort_unstable();
        if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(syntax(format!("Multiple definition for property {}", twice[0])));
        }
        Ok(Property { name, value: PropertyValue::Map(pairs) })
    }

    fn property_constant(&mut self) -> Result<String> {
        match self.constant()? {
            Some((_, text)) => Ok(text),
            None => {
                // A name could be a user type's field up to here.
                if self.at_name() {
                    self.advance()?;
                }
                Err(self.no_viable())
            }
        }
    }

    // DESCRIBE.

    fn describe(&mut self) -> Result<Body> {
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
        // The words below are also names: `DESCRIBE types` lists types, `DESCRIBE type.t` shows a table.
        let next = self.peek()?;
        let last = next.kind == Kind::End || next.kind == Kind::Semicolon || next.is("with");
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
            if !last && next.kind != Kind::Dot && self.accept_word(word)? {
                let TableName { keyspace, name } = self.table_name()?;
                return Ok(target(keyspace, name));
            }
        }
        let TableName { keyspace, name } = self.table_name()?;
        Ok(DescribeTarget::Any { keyspace, name })
    }

    fn describe_keyspace(&mut self, only: bool) -> Result<DescribeTarget> {
        self.expect_word("keyspace")?;
        let name = if self.at_name() { Some(self.name()?) } else { None };
        Ok(DescribeTarget::Keyspace { name, only })
    }
}
