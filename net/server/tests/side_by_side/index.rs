//! Secondary indexes: CREATE INDEX, DROP INDEX, and relations that use them.

use crate::restrict::Restrictions;
use crate::schema::{Column, Index, Kind, Target, ident};
use crate::script::{Generator, KEYSPACE};
use crate::types::Type;

/// The most indexes of a table.
const INDEXES_MAX: usize = 4;

impl Generator {
    /// CREATE or DROP INDEX, right or wrong.
    pub(crate) fn index_definition(&mut self, table: usize) -> String {
        if self.dice.one_in(8) {
            return self.wrong_index(table);
        }
        if self.tables[table].dropped_early {
            return "DROP INDEX IF EXISTS nosuch".into();
        }
        let existing = self.tables[table].indexes.len();
        if existing == INDEXES_MAX || existing > 0 && self.dice.one_in(3) {
            return self.drop_index(table);
        }
        self.create_index(table)
    }

    /// CREATE INDEX. If it is right the generator's table has the index too.
    pub(crate) fn create_index(&mut self, table: usize) -> String {
        let column = self.dice.pick(&self.tables[table].columns.clone()).clone();
        // Whether Cassandra still finds 1.0 by the 1.00 that it replaced depends on what it has flushed.
        let is_decimal = |cql_type: &Type| matches!(cql_type, Type::Native("decimal"));
        if matches!(column.kind, Kind::Static | Kind::Regular) && column.cql_type.has(&self.types, &is_decimal) {
            return self.wrong_index(table);
        }
        let target = match (&column.cql_type, self.dice.below(12)) {
            (_, 0) => *self.dice.pick(&[Target::Plain, Target::Values, Target::Keys, Target::Entries, Target::Full]),
            (Type::Map(_, _, false), 1..=3) => Target::Keys,
            (Type::Map(_, _, false), 4..=6) => Target::Entries,
            (Type::Map(_, _, false) | Type::Set(_, false) | Type::List(_, false), 7..=8) => Target::Values,
            (Type::Map(_, _, true) | Type::Set(_, true) | Type::List(_, true), _) => Target::Full,
            _ => Target::Plain,
        };
        let plain = ident(&column.name);
        let what = match target {
            Target::Plain => plain,
            Target::Values => format!("values({plain})"),
            Target::Keys => format!("keys({plain})"),
            Target::Entries => format!("entries({plain})"),
            Target::Full => format!("full({plain})"),
        };
        let unnamed = self.dice.one_in(6);
        let letters = |text: &str| text.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>();
        let name = if unnamed {
            format!("{}_{}_idx", letters(&self.tables[table].name), letters(&column.name))
        } else if self.dice.one_in(10) {
            format!("Idx{}", self.number)
        } else {
            format!("i{}", self.number)
        };
        let on = self.table_name(table);
        let exists = if self.dice.one_in(8) { "IF NOT EXISTS " } else { "" };
        let named = if unnamed { String::new() } else { format!("{} ", ident(&name)) };
        self.tables[table].indexed = true;
        if self.takes_index(table, &column, target) {
            self.tables[table].indexes.push(Index { name, column: column.name, target });
        }
        format!("CREATE INDEX {exists}{named}ON {on} ({what})")
    }

    /// Whether CREATE INDEX succeeds, as far as the statements that follow depend on it.
    fn takes_index(&self, table: usize, column: &Column, target: Target) -> bool {
        let own = &self.tables[table];
        let fits = match (&column.cql_type, target) {
            (Type::User(_, false), _) => false,
            (Type::List(_, false) | Type::Set(_, false), Target::Plain | Target::Values) => true,
            (Type::Map(_, _, false), Target::Plain | Target::Values | Target::Keys | Target::Entries) => true,
            (Type::Set(_, false), Target::Keys) => true,
            (Type::Map(_, _, true) | Type::Set(_, true) | Type::List(_, true), Target::Full) => true,
            (Type::Map(..) | Type::Set(..) | Type::List(..), _) => false,
            (other, Target::Plain) => !other.has_duration(&self.types),
            _ => false,
        };
        let alone = column.kind == Kind::Partition && own.of(Kind::Partition).len() == 1;
        let double = own.indexes.iter().any(|index| index.column == column.name && index.target == target);
        let of_compact = own.compact && (column.kind != Kind::Regular || !own.of(Kind::Clustering).is_empty());
        fits && !alone && !double && !of_compact && !own.counters
    }

    fn drop_index(&mut self, table: usize) -> String {
        let at = self.dice.below(self.tables[table].indexes.len());
        let index = self.tables[table].indexes.remove(at);
        let name = ident(&index.name);
        let name = if self.dice.one_in(3) { format!("{KEYSPACE}.{name}") } else { name };
        let exists = if self.dice.one_in(6) { "IF EXISTS " } else { "" };
        format!("DROP INDEX {exists}{name}")
    }

    fn wrong_index(&mut self, table: usize) -> String {
        let own = ident(&self.tables[table].name);
        let column = ident(&self.dice.pick(&self.tables[table].columns.clone()).name);
        let taken = self.tables.iter().flat_map(|table| &table.indexes).next().map_or("i0".into(), |i| ident(&i.name));
        let texts = [
            format!("CREATE INDEX ON {own} (nosuch)"),
            "CREATE INDEX ON nosuch (a)".into(),
            format!("CREATE INDEX ON {own} ()"),
            format!("CREATE INDEX bad ON {own} ({column}, {column})"),
            format!("CREATE INDEX {taken} ON {own} ({column})"),
            format!("CREATE INDEX IF NOT EXISTS {taken} ON {own} ({column})"),
            format!("CREATE INDEX bad ON {own} (keys({column}))"),
            format!("CREATE INDEX bad ON {own} (values({column})) USING 'nosuch'"),
            format!("CREATE INDEX bad ON {own} ({column}) WITH OPTIONS = {{'a': 'b'}}"),
            format!("CREATE CUSTOM INDEX bad ON {own} ({column})"),
            "DROP INDEX nosuch".into(),
            "DROP INDEX IF EXISTS nosuch".into(),
            "DROP INDEX nosuch.i0".into(),
            "DROP INDEX IF EXISTS nosuch.i0".into(),
            format!("DROP TABLE {taken}"),
        ];
        self.dice.pick(&texts).clone()
    }

    /// Relations on columns with indexes: mostly those that an index answers.
    pub(crate) fn indexed_relations(&mut self, table: usize, out: &mut Restrictions) {
        let count = 1 + usize::from(self.dice.one_in(5));
        for _ in 0..count {
            let index = self.dice.pick(&self.tables[table].indexes.clone()).clone();
            let Some(column) = self.tables[table].columns.iter().find(|c| c.name == index.column).cloned() else {
                continue;
            };
            let relation = self.indexed_relation(&column, index.target);
            out.relations.push(relation);
        }
        out.filtering = count > 1 && self.dice.percent(80) || self.dice.one_in(4);
    }

    fn indexed_relation(&mut self, column: &Column, target: Target) -> String {
        let name = self.name(column);
        if self.dice.one_in(12) {
            if self.dice.one_in(3) {
                return self.membership(column);
            }
            let operator = *self.dice.pick(&["<", ">", "<=", ">="]);
            return format!("{name} {operator} {}", self.key_term(&column.cql_type));
        }
        match column.cql_type.clone() {
            Type::List(element, false) | Type::Set(element, false) => {
                format!("{name} CONTAINS {}", self.indexed_term(&element))
            }
            Type::Map(key, value, false) => match target {
                Target::Keys => format!("{name} CONTAINS KEY {}", self.indexed_term(&key)),
                Target::Entries => format!("{name}[{}] = {}", self.indexed_term(&key), self.indexed_term(&value)),
                _ => format!("{name} CONTAINS {}", self.indexed_term(&value)),
            },
            other => format!("{name} = {}", self.indexed_term(&other)),
        }
    }

    fn indexed_term(&mut self, cql_type: &Type) -> String {
        if self.dice.slip() {
            return self.value_term(cql_type);
        }
        let common = self.dice.percent(75);
        let datum = self.datum(cql_type, common);
        self.place(datum)
    }
}
