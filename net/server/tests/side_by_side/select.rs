//! SELECT: its clauses in order. Restrictions are in `restrict.rs`, selectors in `selector.rs`.

use crate::schema::{Column, Kind, ident};
use crate::script::Generator;

impl Generator {
    /// A SELECT over a table.
    pub(crate) fn select(&mut self, table: usize) -> String {
        let name = self.table_name(table);
        let distinct = self.dice.use_of("distinct", 7);
        let json = self.dice.use_of("json", 8);
        let selection = if distinct { self.distinct_selection(table) } else { self.selection(table) };
        let mut text = format!(
            "SELECT {}{}{selection} FROM {name}",
            if json { "JSON " } else { "" },
            if distinct { "DISTINCT " } else { "" }
        );
        let restrictions = self.restrictions(table, distinct);
        if !restrictions.relations.is_empty() {
            text.push_str(&format!(" WHERE {}", restrictions.relations.join(" AND ")));
        }
        if self.dice.use_of("group_by", 8) && !distinct {
            text.push_str(&self.group_by(table));
        }
        if (restrictions.one_partition && self.dice.percent(22)) || self.dice.slip() {
            text.push_str(&self.order_by(table));
        }
        if self.dice.use_of("per_partition_limit", 7) {
            let limit = self.limit();
            text.push_str(&format!(" PER PARTITION LIMIT {limit}"));
        }
        if self.dice.percent(15) {
            let limit = self.limit();
            text.push_str(&format!(" LIMIT {limit}"));
        }
        if restrictions.filtering && self.dice.percent(88) || self.dice.one_in(30) {
            text.push_str(" ALLOW FILTERING");
        }
        text
    }

    fn limit(&mut self) -> String {
        let limit = if self.dice.slip() { *self.dice.pick(&[0, -1]) } else { 1 + self.dice.below(5) as i64 };
        self.number_term(limit, 4)
    }

    /// The selectors of a SELECT DISTINCT: the whole partition key, and static columns.
    fn distinct_selection(&mut self, table: usize) -> String {
        let mut names: Vec<String> = self.of(table, Kind::Partition).iter().map(|c| self.name(c)).collect();
        for column in self.of(table, Kind::Static) {
            if self.dice.one_in(2) {
                names.push(self.name(&column));
            }
        }
        if self.dice.slip() {
            names.remove(0);
        }
        if self.dice.slip() || names.is_empty() {
            let column = self.dice.pick(&self.tables[table].columns.clone()).clone();
            names.push(self.name(&column));
        }
        names.join(", ")
    }

    fn group_by(&mut self, table: usize) -> String {
        let mut columns = self.of(table, Kind::Partition);
        let clustering = self.of(table, Kind::Clustering);
        let more = self.dice.below(clustering.len() + 1);
        columns.extend_from_slice(&clustering[..more]);
        if self.dice.slip() {
            columns.remove(0);
        }
        if self.dice.slip() {
            columns.extend(self.tables[table].values().into_iter().take(1));
        }
        let names: Vec<String> = columns.iter().map(|column| self.name(column)).collect();
        if names.is_empty() { String::new() } else { format!(" GROUP BY {}", names.join(", ")) }
    }

    fn order_by(&mut self, table: usize) -> String {
        let clustering = self.of(table, Kind::Clustering);
        if clustering.is_empty() {
            let Some(column) = self.tables[table].columns.last().cloned() else { return String::new() };
            return if self.dice.slip() { format!(" ORDER BY {} DESC", ident(&column.name)) } else { String::new() };
        }
        let count = 1 + self.dice.below(clustering.len());
        let backward = self.dice.one_in(2);
        let parts: Vec<String> = clustering[..count]
            .iter()
            .map(|column: &Column| {
                let backward = backward != self.dice.slip();
                let name = self.name(column);
                match (column.descending != backward, self.dice.one_in(3)) {
                    (true, _) => format!("{name} DESC"),
                    (false, true) => name,
                    (false, false) => format!("{name} ASC"),
                }
            })
            .collect();
        format!(" ORDER BY {}", parts.join(", "))
    }
}
