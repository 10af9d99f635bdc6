//! A script: schema, statements and final reads, all from one seed.

use crate::dice::Dice;
use crate::schema::{self, Column, Kind, Table, UserType, ident};
use crate::types::Type;
use crate::value::{self, Bind, Datum};
use std::collections::BTreeSet;

/// One request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Step {
    pub(crate) text: String,
    /// Whether it is sent as PREPARE and EXECUTE rather than as a QUERY with values.
    pub(crate) prepared: bool,
    /// Values as literals, for reading, and as bytes.
    pub(crate) values: Vec<(String, Bind)>,
    pub(crate) page_size: Option<i32>,
    pub(crate) timestamp: Option<i64>,
    pub(crate) consistency: Consistency,
    /// The serial consistency level of a conditional update.
    pub(crate) serial: Option<Consistency>,
}

/// A consistency level. The others make no difference with one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Consistency {
    #[default]
    One,
    Quorum,
    Serial,
    LocalSerial,
}

impl Consistency {
    /// The level as requests have it.
    pub(crate) fn code(self) -> u16 {
        match self {
            Consistency::One => 1,
            Consistency::Quorum => 4,
            Consistency::Serial => 8,
            Consistency::LocalSerial => 9,
        }
    }
}

/// Makes the statements of one script.
pub(crate) struct Generator {
    pub(crate) dice: Dice,
    pub(crate) types: Vec<UserType>,
    pub(crate) tables: Vec<Table>,
    /// Values for the markers of the current statement; `None` if it may not have any.
    pub(crate) binds: Option<Vec<(String, Bind)>>,
    /// Whether the current statement is conditional and so gives no timestamp.
    pub(crate) conditioned: bool,
    /// The key of the partition that the current statements belong to, by column.
    pub(crate) pinned: Vec<(String, Datum)>,
    /// The number of the statement, from which timestamps and TTLs are made.
    pub(crate) number: i64,
}

/// The keyspace of every script.
pub(crate) const KEYSPACE: &str = "k";

/// The script of a seed: `count` statements after the schema.
pub(crate) fn script(seed: u64, count: usize, without: &BTreeSet<String>) -> Vec<Step> {
    let mut dice = Dice::new(seed, without);
    let types = schema::user_types(&mut dice);
    let tables: Vec<Table> = (0..2 + dice.below(2)).map(|index| schema::table(&mut dice, &types, index)).collect();
    let mut steps: Vec<Step> = types.iter().map(|one| plain(one.create())).collect();
    steps.extend(tables.iter().map(|table| plain(table.create())));
    let (binds, conditioned, pinned) = (None, false, Vec::new());
    let mut generator = Generator { dice, types, tables, binds, conditioned, pinned, number: 0 };
    for table in 0..generator.tables.len() {
        while generator.dice.use_of("index", 30) && generator.tables[table].indexes.len() < 2 {
            let text = generator.create_index(table);
            steps.push(plain(text));
            generator.number += 1;
        }
    }
    generator.dice.slips = true;
    for _ in 0..count {
        generator.number += 1;
        let step = generator.statement();
        steps.push(step);
    }
    steps.extend(generator.closing());
    steps
}

fn plain(text: String) -> Step {
    Step { text, ..Step::default() }
}

impl Generator {
    fn statement(&mut self) -> Step {
        let table = self.dice.below(self.tables.len());
        // Early statements fill the tables.
        let early = self.number < 25;
        let weights = if early { [60, 15, 4, 6, 15, 0] } else { [16, 14, 7, 4, 56, 4] };
        let kind = self.dice.weighted(&weights);
        if kind == 5 {
            return plain(match () {
                () if self.dice.use_of("index", 30) => self.index_definition(table),
                () if self.dice.has("alter") => self.alter(table),
                () => return self.select_step(table),
            });
        }
        if kind == 4 {
            return self.select_step(table);
        }
        if self.dice.use_of("prepared", 30) {
            self.binds = Some(Vec::new());
        }
        let own = &self.tables[table];
        let (conditional, counters, clocked) = (own.conditional, own.counters, own.clocked);
        let conditional = conditional && self.dice.percent(65) || counters && self.dice.slip();
        let (text, stamped) = match kind {
            _ if conditional => (self.conditional_change(table), true),
            0 => self.insert(table, false),
            1 => self.update(table, false),
            2 => self.delete(table, false),
            _ if self.dice.has("batch") => self.batch(table),
            _ => self.insert(table, false),
        };
        let values = self.binds.take().unwrap_or_default();
        // What the server stamps wins over a few that are as old as those of other tables.
        let given = !stamped && (!clocked || !counters && self.dice.one_in(20));
        let timestamp = given.then(|| self.timestamp(true));
        let prepared = !values.is_empty() && self.dice.percent(70);
        let serial = (conditional && self.dice.one_in(4)).then(|| self.serial_level());
        let consistency = if self.dice.slip() { self.serial_level() } else { Consistency::One };
        Step { text, prepared, values, timestamp, consistency, serial, ..Step::default() }
    }

    /// A serial consistency level, sometimes a wrong one.
    fn serial_level(&mut self) -> Consistency {
        if self.dice.slip() {
            return Consistency::Quorum;
        }
        *self.dice.pick(&[Consistency::Serial, Consistency::LocalSerial])
    }

    fn select_step(&mut self, table: usize) -> Step {
        if self.dice.use_of("prepared", 25) {
            self.binds = Some(Vec::new());
        }
        let text = self.select(table);
        let values = self.binds.take().unwrap_or_default();
        let prepared = !values.is_empty() && self.dice.percent(70);
        let page_size = self.dice.use_of("paging", 35).then(|| 1 + self.dice.below(5) as i32);
        // Cassandra loses its place between groups that have no clustering: pages too long, or a state it refuses
        // itself.
        let lost = text.contains(" GROUP BY ") && self.of(table, Kind::Clustering).is_empty();
        let page_size = page_size.filter(|_| !lost && !self.looks_up_statics_in_a_partition(table, &text));
        let serial = self.tables[table].conditional && self.dice.percent(20) || self.dice.slip();
        let consistency = if serial { self.serial_level() } else { Consistency::One };
        Step { text, prepared, values, page_size, consistency, ..Step::default() }
    }

    /// Whether a SELECT uses an index of a static column within one partition, where Cassandra stops after one page.
    fn looks_up_statics_in_a_partition(&self, table: usize, text: &str) -> bool {
        let Some((_, relations)) = text.split_once(" WHERE ") else { return false };
        let names = |column: &Column, operator: &str| relations.contains(&format!("{}{operator}", ident(&column.name)));
        let is_indexed = |column: &Column| self.tables[table].has_index_of(&column.name);
        self.of(table, Kind::Partition).iter().all(|column| names(column, " = ") || names(column, " IN "))
            && self.of(table, Kind::Static).iter().any(|column| is_indexed(column) && names(column, ""))
    }

    /// The final steps: reading all tables, and describing the schema.
    fn closing(&mut self) -> Vec<Step> {
        let mut texts = Vec::new();
        for table in &self.tables {
            texts.push(format!("SELECT * FROM {}", ident(&table.name)));
            for index in table.indexes.iter().filter(|_| self.dice.has("describe")) {
                texts.push(format!("DESCRIBE INDEX {KEYSPACE}.{}", ident(&index.name)));
            }
            if self.dice.has("describe") {
                texts.push(format!("DESCRIBE TABLE {KEYSPACE}.{}", ident(&table.name)));
            }
        }
        for name in ["columns", "types", "dropped_columns", "indexes"] {
            let columns = match name {
                "indexes" => "table_name, index_name, kind, options",
                "columns" => "table_name, column_name, clustering_order, kind, position, type",
                "types" => "type_name, field_names, field_types",
                _ => "table_name, column_name, kind, type",
            };
            texts.push(format!("SELECT {columns} FROM system_schema.{name} WHERE keyspace_name = '{KEYSPACE}'"));
        }
        if self.dice.has("describe") {
            for one in &self.types {
                texts.push(format!("DESCRIBE TYPE {KEYSPACE}.{}", ident(&one.name)));
            }
        }
        texts.into_iter().map(plain).collect()
    }

    /// A timestamp, microseconds, near the statement's number so that statements overtake each other. `distinct` ones
    /// never tie, because the winner of a tie between expiring values would depend on the clock.
    pub(crate) fn timestamp(&mut self, distinct: bool) -> i64 {
        let near = (1000 + self.number + self.dice.below(16) as i64 - 8) * 10_000;
        if distinct { near + self.number } else { near }
    }

    /// Whether a table has a default time to live.
    fn expires(&self, table: usize) -> bool {
        self.tables[table].default_ttl > 0
    }

    /// `USING ...` or nothing, and whether it names a timestamp.
    pub(crate) fn using(&mut self, table: usize, ttl: bool) -> (String, bool) {
        let often = if self.tables[table].counters { 2 } else { 14 };
        let ttl = ttl && self.dice.use_of("ttl", often);
        // Counters, conditional changes and what stands beside these are stamped by the server.
        let refused = self.conditioned || self.tables[table].counters;
        let often = if refused {
            2
        } else if self.tables[table].clocked {
            5
        } else {
            75
        };
        let stamped = self.dice.percent(often);
        let mut parts = Vec::new();
        if stamped {
            let distinct = ttl || self.expires(table);
            let timestamp = self.timestamp(distinct);
            parts.push(format!("TIMESTAMP {}", self.number_term(timestamp, 8)));
        }
        if ttl {
            let seconds = if self.dice.slip() {
                *self.dice.pick(&[-1, 630_720_001])
            } else if self.dice.one_in(12) {
                0
            } else {
                400_000 + self.number * 1000
            };
            parts.push(format!("TTL {}", self.number_term(seconds, 4)));
        }
        if self.dice.one_in(2) {
            parts.reverse();
        }
        let text = if parts.is_empty() { String::new() } else { format!(" USING {}", parts.join(" AND ")) };
        (text, stamped)
    }

    /// A number for `TIMESTAMP`, `TTL` or `LIMIT`, whose type has so many bytes.
    pub(crate) fn number_term(&mut self, number: i64, len: usize) -> String {
        if self.binds.is_some() && self.dice.one_in(2) {
            let bytes = number.to_be_bytes()[8 - len..].to_vec();
            return self.bind(number.to_string(), Bind::Bytes(bytes));
        }
        number.to_string()
    }

    pub(crate) fn bind(&mut self, literal: String, bind: Bind) -> String {
        if let Some(binds) = &mut self.binds {
            binds.push((literal, bind));
        }
        "?".into()
    }

    /// Whether parts of a statement may be reordered: not if they have markers, whose values are in order.
    pub(crate) fn may_shuffle(&self) -> bool {
        self.binds.is_none()
    }

    /// A marker for a value, or the value's literal.
    pub(crate) fn place(&mut self, datum: Datum) -> String {
        if self.binds.is_some() && self.dice.percent(75) {
            return self.bind(datum.bound, Bind::Bytes(datum.bytes));
        }
        datum.literal
    }

    /// A value of a type.
    pub(crate) fn datum(&mut self, cql_type: &Type, key: bool) -> Datum {
        value::datum(&mut self.dice, &self.types, cql_type, key)
    }

    /// A term for a key column.
    pub(crate) fn key_term(&mut self, cql_type: &Type) -> String {
        if self.dice.slip() {
            return self.wrong_term(cql_type);
        }
        let datum = self.datum(cql_type, true);
        let wrapped = self.wrapped(cql_type, &datum);
        wrapped.unwrap_or_else(|| self.place(datum))
    }

    /// A term for a key column; that of the current partition if there is one.
    pub(crate) fn key_term_of(&mut self, column: &Column) -> String {
        match self.pinned.iter().find(|(name, _)| *name == column.name) {
            Some((_, datum)) if !self.dice.slip() => {
                let datum = datum.clone();
                self.place(datum)
            }
            _ => self.key_term(&column.cql_type),
        }
    }

    /// A term for a column outside the key, sometimes null, unset or empty.
    pub(crate) fn value_term(&mut self, cql_type: &Type) -> String {
        if self.dice.slip() {
            return self.wrong_term(cql_type);
        }
        let binding = self.binds.is_some();
        match self.dice.below(30) {
            0 if binding => self.bind("null".into(), Bind::Null),
            1 if binding => self.bind("unset".into(), Bind::Unset),
            2 if binding && self.dice.has("empty") && matches!(cql_type, Type::Native(_)) => {
                self.bind("0x".into(), Bind::Bytes(Vec::new()))
            }
            0..=1 => "null".into(),
            _ => {
                // Values that keys have too are found by more conditions.
                let common = self.dice.one_in(3);
                let datum = self.datum(cql_type, common);
                let wrapped = self.wrapped(cql_type, &datum);
                wrapped.unwrap_or_else(|| self.place(datum))
            }
        }
    }

    /// A native value, sometimes passed through functions or with a cast.
    fn wrapped(&mut self, cql_type: &Type, datum: &Datum) -> Option<String> {
        let Type::Native(name) = cql_type else { return None };
        if *name == "varchar" || !self.dice.use_of("function", 5) {
            return None;
        }
        let literal = &datum.literal;
        Some(match self.dice.below(4) {
            0 => format!("({name}) {literal}"),
            1 if *name != "blob" => format!("blobAs{0}({1})", capital(name), hex(&datum.bytes)),
            2 if *name != "blob" => format!("blob_as_{name}({name}_as_blob(({name}) {literal}))"),
            _ => format!("from_json('{}')", datum.json.replace('\'', "''")),
        })
    }

    /// A term that mostly does not fit the type.
    fn wrong_term(&mut self, cql_type: &Type) -> String {
        let other = crate::types::of_column(&mut self.dice, &self.types);
        let literal = self.datum(&other, false).literal;
        match self.dice.below(7) {
            0 => "null".into(),
            1 => "nosuch(1)".into(),
            // Cassandra reads the collections of such a tuple as bytes, without looking at them: behind a hint those of
            // anything.
            2 if matches!(cql_type, Type::Tuple(_))
                && cql_type.cql().contains("frozen")
                && !literal.starts_with('(') =>
            {
                "null".into()
            }
            2 => format!("({}) {literal}", cql_type.cql()),
            // Cassandra takes user types that are not frozen for frozen ones, in descending columns alone.
            3 if matches!((cql_type, &other), (Type::User(..), Type::User(_, false))) => "null".into(),
            3 => format!("({}) {literal}", other.cql()),
            // Cassandra takes tuples for user types, and then fails inside.
            _ if literal.starts_with('(') && matches!(cql_type, Type::User(..)) => "null".into(),
            _ if (literal.starts_with('\'') || literal.starts_with("0x"))
                && matches!(cql_type, Type::Tuple(_))
                && cql_type.cql().contains("frozen") =>
            {
                "null".into()
            }
            // Nor does it look at bytes for the tuples in a collection.
            _ if literal.contains("0x") && !matches!(cql_type, Type::Tuple(_)) && cql_type.cql().contains("tuple<") => {
                "null".into()
            }
            // Cassandra takes empty parts of such a tuple for small numbers, and then cannot read them.
            _ if literal.starts_with('\'')
                && ["':", "::", ":'"].iter().any(|empty_part| literal.contains(empty_part))
                && matches!(cql_type, Type::Tuple(_))
                && ["tinyint", "smallint"].iter().any(|number| cql_type.cql().contains(number)) =>
            {
                "null".into()
            }
            // Cassandra takes bytes of any length for a tinyint, and then cannot read them.
            _ if literal.starts_with("0x") && cql_type.cql().contains("tinyint") => "null".into(),
            _ => literal,
        }
    }

    /// A column's name, sometimes a wrong one.
    pub(crate) fn name(&mut self, column: &Column) -> String {
        if self.dice.slip() {
            return self.dice.pick(&["nosuch", "p0", "c0", "v0", "s0", "\"V0\"", "v1"]).to_string();
        }
        ident(&column.name)
    }

    /// The table's name, sometimes with its keyspace.
    pub(crate) fn table_name(&mut self, table: usize) -> String {
        let name = ident(&self.tables[table].name);
        if self.dice.slip() {
            return self.dice.pick(&["nosuch", "nosuch.t0", "k.nosuch", "system.t0"]).to_string();
        }
        if self.dice.one_in(3) { format!("{KEYSPACE}.{name}") } else { name }
    }

    /// A column of a table that satisfies `wanted`.
    pub(crate) fn column(&mut self, table: usize, wanted: impl Fn(&Column) -> bool) -> Option<Column> {
        let found: Vec<Column> = self.tables[table].columns.iter().filter(|c| wanted(c)).cloned().collect();
        if found.is_empty() { None } else { Some(self.dice.pick(&found).clone()) }
    }

    /// The columns of a kind.
    pub(crate) fn of(&self, table: usize, kind: Kind) -> Vec<Column> {
        self.tables[table].of(kind)
    }
}

/// The name as `blobAsX` has it: `blobAsTimeuuid`, `blobAsInt`.
pub(crate) fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}

/// A blob literal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_string(), |out, byte| out + &format!("{byte:02x}"))
}
