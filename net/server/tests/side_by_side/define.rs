//! ALTER TABLE and ALTER TYPE, right and wrong, and how they change the schema.

use crate::schema::{Column, Kind, Table, ident};
use crate::script::Generator;
use crate::types::{self, Type};

impl Generator {
    /// An ALTER statement. If it is right it changes the generator's schema too.
    pub(crate) fn alter(&mut self, table: usize) -> String {
        if self.dice.slip() || self.dice.one_in(12) {
            return self.wrong_definition(table);
        }
        if self.tables[table].compact && self.dice.percent(35) {
            return self.drop_compact_storage(table);
        }
        match self.dice.weighted(&[4, 3, 2, 1, 2]) {
            0 => self.add_column(table),
            1 => self.drop_column(table),
            // Cassandra flushes then, and what was deleted of counters before no longer counts.
            2 if !self.tables[table].counters || !self.tables[table].deletes_counters => self.rename_column(table),
            3 => self.table_options(table),
            _ if self.dice.has("alter_type") && !self.types.is_empty() => self.alter_type(),
            _ => self.add_column(table),
        }
    }

    fn add_column(&mut self, table: usize) -> String {
        let name = self.table_name(table);
        let has_clustering = !self.of(table, Kind::Clustering).is_empty();
        let dropped = self.tables[table].dropped.clone();
        let column = if !dropped.is_empty() && self.dice.percent(60) {
            self.dice.pick(&dropped).clone()
        } else {
            let fixed = has_clustering && self.dice.use_of("static", 20);
            let drawn = types::of_column(&mut self.dice, &self.types);
            let counter = self.tables[table].counters && !self.dice.one_in(8);
            Column {
                name: format!("n{}", self.number),
                cql_type: if counter { Type::Native("counter") } else { drawn },
                kind: if fixed { Kind::Static } else { Kind::Regular },
                descending: false,
            }
        };
        let word = if column.kind == Kind::Static { " static" } else { "" };
        let exists = if self.dice.one_in(5) { "IF NOT EXISTS " } else { "" };
        let text = format!("ALTER TABLE {name} ADD {exists}{} {}{word}", ident(&column.name), column.cql_type.cql());
        // Neither compact tables nor those of counters take any column.
        let own = &mut self.tables[table];
        if !own.compact && own.counters == (column.cql_type == Type::Native("counter")) {
            own.dropped.retain(|other| other.name != column.name);
            own.columns.push(column);
        }
        text
    }

    fn drop_column(&mut self, table: usize) -> String {
        let values = self.tables[table].values();
        if values.len() < 2 {
            return self.add_column(table);
        }
        let name = self.table_name(table);
        let column = self.dice.pick(&values).clone();
        let exists = if self.dice.one_in(5) { "IF EXISTS " } else { "" };
        // Once there was an index, and rows were flushed for it, nothing is dropped as of earlier.
        let own = &self.tables[table];
        let early = self.dice.one_in(2) && (own.dropped_early || !own.indexed) && !own.clocked;
        let using = if early { format!(" USING TIMESTAMP {}", self.timestamp(true)) } else { String::new() };
        self.tables[table].dropped_early |= early;
        let text = format!("ALTER TABLE {name} DROP {exists}{}{using}", ident(&column.name));
        let own = &mut self.tables[table];
        if !own.compact && !own.has_index_of(&column.name) {
            own.columns.retain(|other| other.name != column.name);
            // A counter never comes back; that it is refused is seen once in a while.
            if !own.counters || self.dice.one_in(4) {
                own.dropped.push(column);
            }
        }
        text
    }

    fn rename_column(&mut self, table: usize) -> String {
        let name = self.table_name(table);
        let Some(column) = self.column(table, |c| matches!(c.kind, Kind::Partition | Kind::Clustering)) else {
            return self.add_column(table);
        };
        let new = format!("k{}", self.number);
        let text = format!("ALTER TABLE {name} RENAME {} TO {new}", ident(&column.name));
        if self.tables[table].has_index_of(&column.name) {
            return text;
        }
        for other in &mut self.tables[table].columns {
            if other.name == column.name {
                other.name.clone_from(&new);
            }
        }
        text
    }

    /// Makes a table what it is after DROP COMPACT STORAGE: a static one shows its inner clustering and value columns.
    fn drop_compact_storage(&mut self, table: usize) -> String {
        let name = self.table_name(table);
        let own = &mut self.tables[table];
        let text = format!("ALTER TABLE {name} DROP COMPACT STORAGE");
        if !own.indexes.is_empty() {
            return text;
        }
        own.compact = false;
        let column = |name: &str, cql_type, kind| Column { name: name.into(), cql_type, kind, descending: false };
        if own.of(Kind::Clustering).is_empty() {
            for column in own.columns.iter_mut().filter(|column| column.kind == Kind::Regular) {
                column.kind = Kind::Static;
            }
            let value = Type::Native(if own.counters { "counter" } else { "blob" });
            own.columns.push(column("column1", Type::Native("text"), Kind::Clustering));
            own.columns.push(column("value", value, Kind::Regular));
        }
        text
    }

    fn table_options(&mut self, table: usize) -> String {
        let name = self.table_name(table);
        let option = *self.dice.pick(&[
            "comment = 'it''s'",
            "gc_grace_seconds = 1000000",
            "bloom_filter_fp_chance = 0.1",
            "compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}",
            "compression = {'enabled': false}",
            "compaction = {'class': 'LeveledCompactionStrategy'}",
            "compaction = {'class': 'SizeTieredCompactionStrategy', 'min_threshold': 6}",
            "caching = {'keys': 'ALL', 'rows_per_partition': '10'}",
            "speculative_retry = '95p'",
            "min_index_interval = 64",
            "crc_check_chance = 0.5",
            "memtable_flush_period_in_ms = 3600000",
            "nosuch = 1",
            "gc_grace_seconds = -1",
            "bloom_filter_fp_chance = 2",
            "compaction = {'class': 'Nosuch'}",
            "caching = {'keys': 'SOME'}",
        ]);
        format!("ALTER TABLE {name} WITH {option}")
    }

    fn alter_type(&mut self) -> String {
        let at = self.dice.below(self.types.len());
        let name = ident(&self.types[at].name);
        // Vectors of a type do not see in Cassandra that it was changed.
        let in_vector =
            |column: &Column| column.cql_type.cql().contains("vector") && column.cql_type.cql().contains(&name);
        // Nor do indexes.
        let in_index = |table: &Table| {
            let indexed = |column: &&Column| table.has_index_of(&column.name);
            table.columns.iter().filter(indexed).any(|column| self.mentions(&column.cql_type, &self.types[at].name))
        };
        if self.tables.iter().any(|table| table.columns.iter().any(in_vector) || in_index(table)) {
            return format!("ALTER TYPE {name} RENAME nosuch TO other");
        }
        if self.dice.percent(60) {
            // Only of natives: no type may come to hold itself.
            let added = types::native(&mut self.dice, true);
            let field = format!("g{}", self.number);
            let text = format!("ALTER TYPE {name} ADD {field} {}", added.cql());
            self.types[at].fields.push((field, added));
            return text;
        }
        let field = self.dice.below(self.types[at].fields.len());
        let new = format!("h{}", self.number);
        let old = std::mem::replace(&mut self.types[at].fields[field].0, new.clone());
        format!("ALTER TYPE {name} RENAME {} TO {new}", ident(&old))
    }

    /// Whether a type contains a user type, however deeply.
    fn mentions(&self, cql_type: &Type, user_type: &str) -> bool {
        cql_type.has(&self.types, &|part| matches!(part, Type::User(name, _) if name == user_type))
    }

    fn wrong_definition(&mut self, table: usize) -> String {
        let own = ident(&self.tables[table].name);
        let key = ident(&self.tables[table].columns[0].name);
        let last = self.tables[table].columns.last().map(|c| ident(&c.name)).unwrap_or_default();
        let user = self.types.first().map_or("nosuch".into(), |one| ident(&one.name));
        let field = self.types.first().map_or("nosuch".into(), |one| ident(&one.fields[0].0));
        let texts = [
            format!("ALTER TABLE {own} DROP {key}"),
            format!("ALTER TABLE {own} DROP nosuch"),
            format!("ALTER TABLE {own} ADD {key} int"),
            format!("ALTER TABLE {own} ADD {last} int"),
            format!("ALTER TABLE {own} ADD w nosuch"),
            format!("ALTER TABLE {own} ADD w counter"),
            format!("ALTER TABLE {own} ADD w list<list<int>>"),
            format!("ALTER TABLE {own} ADD w set<duration>"),
            format!("ALTER TABLE {own} ADD w int static, w int"),
            format!("ALTER TABLE {own} RENAME {last} TO w"),
            format!("ALTER TABLE {own} RENAME {key} TO {last}"),
            format!("ALTER TABLE {own} RENAME nosuch TO w"),
            format!("ALTER TABLE {own} ALTER {last} TYPE blob"),
            "ALTER TABLE nosuch ADD w int".into(),
            "ALTER TABLE IF EXISTS nosuch ADD w int".into(),
            format!("CREATE TABLE {own} (a int PRIMARY KEY)"),
            format!("CREATE TABLE IF NOT EXISTS {own} (a int PRIMARY KEY)"),
            "CREATE TABLE bad (a int)".into(),
            "CREATE TABLE bad (a int PRIMARY KEY, b int PRIMARY KEY)".into(),
            "CREATE TABLE bad (a int PRIMARY KEY, a int)".into(),
            "CREATE TABLE bad (a duration PRIMARY KEY)".into(),
            "CREATE TABLE bad (a list<int> PRIMARY KEY)".into(),
            "CREATE TABLE bad (a int, b int static, PRIMARY KEY (a))".into(),
            "CREATE TABLE bad (a int, b int static, PRIMARY KEY (a, b))".into(),
            "CREATE TABLE bad (a int, b int, PRIMARY KEY (a, c))".into(),
            "CREATE TABLE bad (a int, b int, PRIMARY KEY (a)) WITH CLUSTERING ORDER BY (b DESC)".into(),
            "CREATE TABLE bad (a int, b nosuch, PRIMARY KEY (a))".into(),
            "CREATE TABLE bad (a int, b frozen<int>, PRIMARY KEY (a))".into(),
            "CREATE TABLE bad (a int, b set<list<int>>, PRIMARY KEY (a))".into(),
            "CREATE TABLE bad (a int, b vector<int, 0>, PRIMARY KEY (a))".into(),
            "CREATE TABLE bad (a int PRIMARY KEY, b counter, c int)".into(),
            "CREATE TABLE bad (a counter PRIMARY KEY, b int)".into(),
            "CREATE TABLE bad (a int PRIMARY KEY, b list<counter>)".into(),
            "CREATE TABLE bad (a int PRIMARY KEY, b counter) WITH default_time_to_live = 100".into(),
            "CREATE TABLE bad (a int PRIMARY KEY) WITH COMPACT STORAGE".into(),
            "CREATE TABLE bad (a int PRIMARY KEY, b list<int>) WITH COMPACT STORAGE".into(),
            "CREATE TABLE bad (a int, b int, c int, d int, PRIMARY KEY (a, b)) WITH COMPACT STORAGE".into(),
            "CREATE TABLE bad (a int, b int, c int static, d int, PRIMARY KEY (a, b)) WITH COMPACT STORAGE".into(),
            "CREATE TABLE bad (a int PRIMARY KEY, b counter, c int) WITH COMPACT STORAGE".into(),
            format!("ALTER TABLE {own} DROP COMPACT STORAGE"),
            format!("ALTER TABLE {own} ADD w int"),
            format!("ALTER TABLE {own} WITH default_time_to_live = 3"),
            format!("CREATE TYPE {user} (a int)"),
            format!("CREATE TYPE IF NOT EXISTS {user} (a int)"),
            "CREATE TYPE bad (a int, a text)".into(),
            "CREATE TYPE bad (a counter)".into(),
            "CREATE TYPE bad (a list<list<int>>)".into(),
            format!("DROP TYPE {user}"),
            "DROP TYPE nosuch".into(),
            "DROP TYPE IF EXISTS nosuch".into(),
            format!("ALTER TYPE {user} ADD {field} int"),
            format!("ALTER TYPE {user} RENAME nosuch TO w"),
            format!("ALTER TYPE {user} ALTER {field} TYPE blob"),
            format!("ALTER TYPE {user} ADD w frozen<{user}>"),
            "ALTER TYPE nosuch ADD w int".into(),
            "DROP TABLE nosuch".into(),
            "DROP TABLE IF EXISTS nosuch".into(),
            "USE nosuch".into(),
            "ALTER KEYSPACE k WITH durable_writes = true".into(),
            "ALTER KEYSPACE nosuch WITH durable_writes = true".into(),
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}".into(),
        ];
        self.dice.pick(&texts).clone()
    }
}
