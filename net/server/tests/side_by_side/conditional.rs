//! Conditional updates: IF [NOT] EXISTS, conditions on columns and their parts, conditional batches.

use crate::schema::{Column, Kind};
use crate::script::Generator;
use crate::types::Type;
use crate::value::{self, Bind};

/// The most statements of a conditional batch.
const BATCH_MAX: usize = 4;

/// Operators, those to be used often more than once; equality comes first.
const OPERATORS: [&str; 9] = ["=", "=", "=", "!=", "!=", "<", "<=", ">", ">="];
const EQUALITIES: usize = 5;

impl Generator {
    /// A conditional update of a table.
    pub(crate) fn conditional_change(&mut self, table: usize) -> String {
        self.conditioned = true;
        let text = match self.dice.weighted(&[6, 9, 4, 3]) {
            0 => self.insert_if(table),
            1 => {
                let (text, _) = self.update(table, false);
                self.with_condition(table, text)
            }
            2 => {
                let (text, _) = self.delete(table, false);
                self.with_condition(table, text)
            }
            _ if self.dice.has("batch") => self.batch_if(table),
            _ => self.insert_if(table),
        };
        self.conditioned = false;
        text
    }

    fn insert_if(&mut self, table: usize) -> String {
        let (text, _) = self.insert(table, true);
        // An UPDATE comes instead at times.
        if !text.starts_with("INSERT") {
            return self.with_condition(table, text);
        }
        let condition = if self.dice.one_in(60) { "IF EXISTS" } else { "IF NOT EXISTS" };
        let (using, _) = self.using(table, true);
        format!("{text} {condition}{using}")
    }

    fn with_condition(&mut self, table: usize, text: String) -> String {
        if text.starts_with("INSERT") {
            return format!("{text} IF NOT EXISTS");
        }
        if self.dice.percent(25) || self.tables[table].values().is_empty() {
            let word = if self.dice.one_in(40) { "IF NOT EXISTS" } else { "IF EXISTS" };
            return format!("{text} {word}");
        }
        let mut parts = Vec::new();
        loop {
            let column = if self.dice.slip() {
                self.dice.pick(&self.tables[table].columns.clone()).clone()
            } else {
                self.dice.pick(&self.tables[table].values()).clone()
            };
            parts.push(self.condition(&column));
            if parts.len() == 3 || !self.dice.one_in(3) {
                return format!("{text} IF {}", parts.join(" AND "));
            }
        }
    }

    /// A condition on a column, or on an element or field of it.
    fn condition(&mut self, column: &Column) -> String {
        let name = self.name(column);
        let whole = !self.dice.has("element") || self.dice.percent(45);
        match column.cql_type.clone() {
            Type::List(element, _) if !whole => match self.dice.below(4) {
                0 => format!("{name} CONTAINS {}", self.compared_term(&element)),
                1 if self.dice.one_in(8) => format!("{name} CONTAINS KEY {}", self.compared_term(&element)),
                _ => {
                    let left = format!("{name}[{}]", self.index());
                    self.comparison_of(&left, &element)
                }
            },
            Type::Set(element, _) if !whole => match self.dice.one_in(12) {
                true => format!("{name}[{}] = true", self.compared_term(&element)),
                false => format!("{name} CONTAINS {}", self.compared_term(&element)),
            },
            Type::Map(key, value, _) if !whole => match self.dice.below(4) {
                0 => format!("{name} CONTAINS {}", self.compared_term(&value)),
                1 => format!("{name} CONTAINS KEY {}", self.compared_term(&key)),
                // Cassandra compares an element's values as if they were keys, of which these may be equal though they
                // differ.
                _ if key != value && matches!(*key, Type::Native("boolean" | "decimal" | "varint")) => {
                    format!("{name} CONTAINS KEY {}", self.compared_term(&key))
                }
                _ => {
                    let left = format!("{name}[{}]", self.compared_term(&key));
                    // Their order is that of keys as well.
                    let operators = if key == value { &OPERATORS[..] } else { &OPERATORS[..EQUALITIES] };
                    self.comparison_with(&left, &value, operators)
                }
            },
            Type::User(user_type, _) if !whole => match self.field(&user_type) {
                Some((field, field_type)) => self.comparison_of(&format!("{name}.{field}"), &field_type),
                None => format!("{name} = null"),
            },
            other => self.comparison_of(&name, &other),
        }
    }

    fn comparison_of(&mut self, left: &str, cql_type: &Type) -> String {
        self.comparison_with(left, cql_type, &OPERATORS)
    }

    fn comparison_with(&mut self, left: &str, cql_type: &Type, operators: &[&str]) -> String {
        if self.dice.one_in(60) {
            let rest = *self.dice.pick(&[
                "LIKE 'a%'",
                "IS NOT NULL",
                "IN (null)",
                "IN null",
                "> null",
                "CONTAINS 1",
                "CONTAINS KEY 1",
                "CONTAINS null",
                "IN ()",
                "!= null",
            ]);
            return format!("{left} {rest}");
        }
        if self.dice.use_of("in", 14) {
            let data: Vec<_> = (0..self.dice.below(4)).map(|_| self.datum(cql_type, true)).collect();
            if self.dice.one_in(3) {
                let whole = value::sequence(&data, "(", ")");
                return format!("{left} IN {}", self.place(whole));
            }
            let terms: Vec<String> = data.into_iter().map(|datum| self.place(datum)).collect();
            return format!("{left} IN ({})", terms.join(", "));
        }
        let operator = *self.dice.pick(operators);
        format!("{left} {operator} {}", self.compared_term(cql_type))
    }

    /// The operand of a comparison, mostly a value that may well be there.
    fn compared_term(&mut self, cql_type: &Type) -> String {
        if self.dice.slip() {
            return self.value_term(cql_type);
        }
        match self.dice.below(16) {
            0 => "null".into(),
            1 if self.binds.is_some() && self.dice.one_in(3) => self.bind("null".into(), Bind::Null),
            2 if self.binds.is_some() && self.dice.one_in(4) => self.bind("unset".into(), Bind::Unset),
            _ => {
                let common = self.dice.percent(70);
                let datum = self.datum(cql_type, common);
                self.place(datum)
            }
        }
    }

    /// A conditional batch over one partition, sometimes over more, which is a mistake.
    fn batch_if(&mut self, table: usize) -> String {
        for column in self.of(table, Kind::Partition) {
            let datum = self.datum(&column.cql_type, true);
            self.pinned.push((column.name, datum));
        }
        let mut parts = Vec::new();
        for _ in 0..self.dice.below(BATCH_MAX) + 1 {
            let (mut text, _) = match self.dice.weighted(&[5, 6, 2]) {
                0 => self.insert(table, true),
                1 => self.update(table, true),
                _ => self.delete(table, true),
            };
            if self.dice.percent(60) {
                text = self.with_condition(table, text);
            }
            parts.push(format!("{text};"));
        }
        self.pinned.clear();
        if self.dice.slip() {
            let other = self.dice.below(self.tables.len());
            let (text, _) = self.update(other, true);
            parts.push(format!("{text};"));
        }
        let kind = *self.dice.pick(&["BATCH", "UNLOGGED BATCH", "BATCH"]);
        let using = if self.dice.one_in(40) { " USING TIMESTAMP 1234" } else { "" };
        format!("BEGIN {kind}{using} {} APPLY BATCH", parts.join(" "))
    }
}
