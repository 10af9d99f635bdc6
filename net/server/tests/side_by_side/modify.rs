//! INSERT, UPDATE, DELETE and BATCH.

use crate::schema::{Column, Kind, ident};
use crate::script::Generator;
use crate::types::Type;
use crate::value;

/// The most statements of a batch.
const BATCH_MAX: usize = 4;

impl Generator {
    /// INSERT with values or JSON, and whether it names a timestamp; a batch may name one for all its statements.
    pub(crate) fn insert(&mut self, table: usize, batched: bool) -> (String, bool) {
        if self.tables[table].counters && !self.dice.one_in(40) {
            return self.update(table, batched);
        }
        let name = self.table_name(table);
        let values = self.tables[table].values();
        let statics_only = self.dice.one_in(10) && values.iter().any(|column| column.kind == Kind::Static);
        let mut columns = self.of(table, Kind::Partition);
        if !statics_only {
            columns.extend(self.of(table, Kind::Clustering));
        }
        for column in values {
            if self.dice.percent(60) && (!statics_only || column.kind == Kind::Static) {
                columns.push(column);
            }
        }
        if self.dice.slip() && columns.len() > 1 {
            let at = self.dice.below(columns.len());
            columns.remove(at);
        }
        if self.tables[table].compact && self.dice.one_in(8) {
            // The clustering may lack its end.
            let clusterings = self.of(table, Kind::Clustering);
            let kept = self.dice.below(clusterings.len() + 1);
            columns.retain(|column| clusterings[kept..].iter().all(|other| other.name != column.name));
        }
        if self.dice.slip() {
            let again = self.dice.pick(&columns).clone();
            columns.push(again);
        }
        self.dice.shuffle(&mut columns);
        if self.dice.use_of("json", 12) {
            return self.insert_json(table, &name, &columns, batched);
        }
        let names: Vec<String> = columns.iter().map(|column| self.name(column)).collect();
        let terms: Vec<String> = columns.iter().map(|column| self.term_for(column)).collect();
        let (using, stamped) = self.using_in(table, batched, true);
        (format!("INSERT INTO {name} ({}) VALUES ({}){using}", names.join(", "), terms.join(", ")), stamped)
    }

    fn insert_json(&mut self, table: usize, name: &str, columns: &[Column], batched: bool) -> (String, bool) {
        let mut pairs = Vec::new();
        for column in columns {
            let key = matches!(column.kind, Kind::Partition | Kind::Clustering);
            let value = if self.dice.slip() {
                self.dice
                    .pick(&["null", "1", "\"x\"", "[]", "{}", "{\"a\": 1}", "true", "1.5", "[1", "\"\""])
                    .to_string()
            } else if !key && self.dice.one_in(10) {
                "null".into()
            } else {
                self.datum(&column.cql_type, key).json
            };
            pairs.push(format!("{}: {value}", value::json_name(&column.name)));
        }
        if self.dice.slip() {
            pairs.push("\"nosuch\": 1".into());
        }
        let default = *self.dice.pick(&["", "", " DEFAULT NULL", " DEFAULT UNSET"]);
        let text = format!("{{{}}}", pairs.join(", "));
        let literal = format!("'{}'", text.replace('\'', "''"));
        let term = self.place(value::Datum::new(literal, text.clone().into_bytes(), text));
        let (using, stamped) = self.using_in(table, batched, true);
        (format!("INSERT INTO {name} JSON {term}{default}{using}"), stamped)
    }

    fn term_for(&mut self, column: &Column) -> String {
        match column.kind {
            Kind::Partition | Kind::Clustering => self.key_term_of(column),
            Kind::Static | Kind::Regular => self.value_term(&column.cql_type),
        }
    }

    pub(crate) fn using_in(&mut self, table: usize, batched: bool, ttl: bool) -> (String, bool) {
        // A batch gives its own timestamp; those of its statements are a mistake beside it.
        if batched && !self.dice.slip() { (String::new(), false) } else { self.using(table, ttl) }
    }

    /// UPDATE, of counters too.
    pub(crate) fn update(&mut self, table: usize, batched: bool) -> (String, bool) {
        let values = self.tables[table].values();
        if values.is_empty() {
            return self.insert(table, batched);
        }
        let name = self.table_name(table);
        let (using, stamped) = self.using_in(table, batched, true);
        let first = self.dice.pick(&values).clone();
        let mut columns = vec![first];
        while self.dice.one_in(3) && columns.len() < 3 {
            let next = self.dice.pick(&values).clone();
            if columns.iter().all(|column| column.name != next.name) || self.dice.slip() || next.cql_type.is_multicell()
            {
                columns.push(next);
            }
        }
        let assign = if self.tables[table].counters { Self::counted } else { Self::assignment };
        let assignments: Vec<String> = columns.iter().map(|column| assign(self, column)).collect();
        let only_static = columns.iter().all(|column| column.kind == Kind::Static);
        let mut key = self.of(table, Kind::Partition);
        if !only_static || self.dice.slip() {
            key.extend(self.of(table, Kind::Clustering));
        }
        let wheres = self.row(&key);
        (format!("UPDATE {name}{using} SET {} WHERE {wheres}", assignments.join(", ")), stamped)
    }

    /// One assignment to a column: of the whole, of an element, or one that adds or removes something.
    fn assignment(&mut self, column: &Column) -> String {
        let name = self.name(column);
        if !self.dice.has("element") || (!column.cql_type.is_multicell() && !self.dice.slip()) || self.dice.percent(25)
        {
            return format!("{name} = {}", self.value_term(&column.cql_type));
        }
        match column.cql_type.clone() {
            Type::List(element, _) => match self.dice.below(6) {
                0 => format!("{name}[{}] = {}", self.index(), self.value_term(&element)),
                1 => format!("{name} = {} + {name}", self.collection_term(&column.cql_type)),
                2 => format!("{name} = {name} - {}", self.collection_term(&column.cql_type)),
                3 => format!("{name} -= {}", self.collection_term(&column.cql_type)),
                4 => format!("{name} += {}", self.collection_term(&column.cql_type)),
                _ => format!("{name} = {name} + {}", self.collection_term(&column.cql_type)),
            },
            Type::Set(..) => match self.dice.below(4) {
                0 => format!("{name} = {name} - {}", self.collection_term(&column.cql_type)),
                1 => format!("{name} -= {}", self.collection_term(&column.cql_type)),
                2 => format!("{name} += {}", self.collection_term(&column.cql_type)),
                _ => format!("{name} = {name} + {}", self.collection_term(&column.cql_type)),
            },
            Type::Map(key, value, _) => match self.dice.below(5) {
                0 | 1 => format!("{name}[{}] = {}", self.value_term(&key), self.value_term(&value)),
                2 => format!("{name} = {name} - {}", self.collection_term(&Type::Set(key, false))),
                3 => format!("{name} += {}", self.collection_term(&column.cql_type)),
                _ => format!("{name} = {name} + {}", self.collection_term(&column.cql_type)),
            },
            Type::User(user_type, _) => match self.field(&user_type) {
                Some((field, field_type)) => format!("{name}.{field} = {}", self.value_term(&field_type)),
                None => format!("{name} = null"),
            },
            other => match self.dice.below(4) {
                0 => format!("{name} = {name} + {}", self.value_term(&other)),
                1 => format!("{name}[0] = {}", self.value_term(&other)),
                2 => format!("{name}.f0 = {}", self.value_term(&other)),
                _ => format!("{name} = v0"),
            },
        }
    }

    fn collection_term(&mut self, cql_type: &Type) -> String {
        self.value_term(cql_type)
    }

    /// An index into a list, sometimes beyond its end.
    pub(crate) fn index(&mut self) -> String {
        let index = if self.dice.one_in(12) { *self.dice.pick(&[-1, 50]) } else { self.dice.below(3) as i64 };
        self.number_term(index, 4)
    }

    /// A field of a user type, with the field's type.
    pub(crate) fn field(&mut self, user_type: &str) -> Option<(String, Type)> {
        let fields = self.types.iter().find(|known| known.name == user_type)?.fields.clone();
        let (name, field_type) = self.dice.pick(&fields).clone();
        let name = if self.dice.slip() { "nosuch".into() } else { ident(&name) };
        Some((name, field_type))
    }

    /// A WHERE clause that gives a whole key: equalities, sometimes IN or a relation over several columns.
    pub(crate) fn row(&mut self, key: &[Column]) -> String {
        let mut key = key.to_vec();
        if self.dice.slip() && key.len() > 1 {
            key.pop();
        }
        let mut parts = Vec::new();
        let clusterings: Vec<Column> = key.iter().filter(|column| column.kind == Kind::Clustering).cloned().collect();
        let together = clusterings.len() > 1 && self.dice.use_of("multi_column", 15);
        for column in &key {
            if together && column.kind == Kind::Clustering {
                continue;
            }
            let name = self.name(column);
            if self.dice.use_of("in", 6) {
                let terms: Vec<String> = (0..1 + self.dice.below(3)).map(|_| self.key_term(&column.cql_type)).collect();
                parts.push(format!("{name} IN ({})", terms.join(", ")));
            } else {
                parts.push(format!("{name} = {}", self.key_term_of(column)));
            }
        }
        if together {
            parts.push(self.tuple_relation(&clusterings));
        }
        if self.may_shuffle() && self.dice.one_in(8) {
            self.dice.shuffle(&mut parts);
        }
        parts.join(" AND ")
    }

    /// `(c0, c1) = (...)` or `(c0, c1) IN (...)`.
    fn tuple_relation(&mut self, columns: &[Column]) -> String {
        let names: Vec<String> = columns.iter().map(|column| self.name(column)).collect();
        let tuples: Vec<String> = (0..1 + self.dice.below(2)).map(|_| self.tuple_of(columns)).collect();
        if tuples.len() == 1 {
            format!("({}) = {}", names.join(", "), tuples[0])
        } else {
            format!("({}) IN ({})", names.join(", "), tuples.join(", "))
        }
    }

    /// `(a, b)` of values of these columns.
    pub(crate) fn tuple_of(&mut self, columns: &[Column]) -> String {
        let terms: Vec<String> = columns.iter().map(|column| self.key_term(&column.cql_type)).collect();
        format!("({})", terms.join(", "))
    }

    /// DELETE of columns, elements, a row, rows in a range or a partition.
    pub(crate) fn delete(&mut self, table: usize, batched: bool) -> (String, bool) {
        if self.tables[table].counters && !self.dice.has("counter_delete") {
            return self.update(table, batched);
        }
        if self.tables[table].counters {
            // A key that lacks its end would delete more than is meant.
            let slips = std::mem::replace(&mut self.dice.slips, false);
            let deletion = self.deletion_of(table, batched);
            self.dice.slips = slips;
            return deletion;
        }
        self.deletion_of(table, batched)
    }

    fn deletion_of(&mut self, table: usize, batched: bool) -> (String, bool) {
        let name = self.table_name(table);
        let (using, stamped) = self.using_in(table, batched, false);
        let partition = self.of(table, Kind::Partition);
        let clustering = self.of(table, Kind::Clustering);
        let values = self.tables[table].values();
        let whole: Vec<Column> = partition.iter().chain(&clustering).cloned().collect();
        let own = &self.tables[table];
        let weights = match (own.counters, own.deletes_counters) {
            // A row of a compact table is its counter.
            (true, true) if own.compact && !clustering.is_empty() => [4, 3, 0, 0],
            (true, true) => [1, 0, 0, 0],
            (true, false) if own.compact => [0, 0, 2, 3],
            (true, false) => [0, 3, 2, 3],
            _ => [4, 3, 2, 3],
        };
        let clustering = match own.counters && own.compact && !own.deletes_counters && clustering.is_empty() {
            // Without clustering there is nothing but partitions to delete.
            true => return (format!("DELETE FROM {name}{using} WHERE {}", self.row(&partition)), stamped),
            false => clustering,
        };
        match self.dice.weighted(&weights) {
            0 if !values.is_empty() => {
                let column = self.dice.pick(&values).clone();
                let what = self.deletion(&column);
                let key = if column.kind == Kind::Static && !self.dice.slip() { &partition } else { &whole };
                let wheres = self.row(key);
                (format!("DELETE {what} FROM {name}{using} WHERE {wheres}"), stamped)
            }
            2 => {
                let wheres = self.row(&partition);
                (format!("DELETE FROM {name}{using} WHERE {wheres}"), stamped)
            }
            3 if !clustering.is_empty() => {
                let mut parts = vec![self.row(&partition)];
                let fixed = self.dice.below(clustering.len());
                for column in &clustering[..fixed] {
                    parts.push(format!("{} = {}", self.name(column), self.key_term(&column.cql_type)));
                }
                parts.extend(self.slice(&clustering[fixed..]));
                (format!("DELETE FROM {name}{using} WHERE {}", parts.join(" AND ")), stamped)
            }
            _ => {
                let wheres = self.row(&whole);
                (format!("DELETE FROM {name}{using} WHERE {wheres}"), stamped)
            }
        }
    }

    /// What a DELETE names of a column: the column, an element or a field.
    fn deletion(&mut self, column: &Column) -> String {
        let name = self.name(column);
        if !self.dice.has("element") || self.dice.one_in(3) {
            return name;
        }
        match column.cql_type.clone() {
            Type::List(_, false) => format!("{name}[{}]", self.index()),
            Type::Set(element, false) => format!("{name}[{}]", self.value_term(&element)),
            Type::Map(key, _, false) => format!("{name}[{}]", self.value_term(&key)),
            Type::User(user_type, false) => match self.field(&user_type) {
                Some((field, _)) => format!("{name}.{field}"),
                None => name,
            },
            _ if self.dice.slip() => format!("{name}[0]"),
            _ => name,
        }
    }

    /// BATCH over this table and others.
    pub(crate) fn batch(&mut self, table: usize) -> (String, bool) {
        let own = &self.tables[table];
        let (counters, clocked) = (own.counters, own.clocked);
        let stamped = self.dice.percent(if counters || clocked { 4 } else { 60 });
        let timestamp = self.timestamp(true);
        let using =
            if stamped { format!(" USING TIMESTAMP {}", self.number_term(timestamp, 8)) } else { String::new() };
        // Whether Cassandra counts before or after a deletion of the same batch is chance.
        let weights = match counters && self.dice.one_in(6) {
            true => [0, 0, 1],
            false if counters => [5, 4, 0],
            false => [5, 4, 2],
        };
        let mut parts = Vec::new();
        for _ in 0..self.dice.below(BATCH_MAX) + 1 {
            let mut at = if self.dice.percent(70) { table } else { self.dice.below(self.tables.len()) };
            let other = &self.tables[at];
            if other.clocked != clocked || other.counters != counters && !self.dice.one_in(12) {
                at = table;
            }
            let (text, _) = match self.dice.weighted(&weights) {
                0 => self.insert(at, true),
                1 => self.update(at, true),
                _ => self.delete(at, true),
            };
            parts.push(format!("{text};"));
        }
        let kind = *self.dice.pick(&["BATCH", "UNLOGGED BATCH", "BATCH"]);
        let kind = if counters != self.dice.one_in(40) { "COUNTER BATCH" } else { kind };
        (format!("BEGIN {kind}{using} {} APPLY BATCH", parts.join(" ")), stamped)
    }
}
