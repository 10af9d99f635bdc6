//! The text by which warnings and the log name a part of a SELECT: a query, in Cassandra's words, for what was read
//! from one partition or by one page of a scan.
//!
//! `SELECT columns FROM table WHERE keys, clusterings, filters ORDER BY ... LIMIT rows ALLOW FILTERING`
//!
//! Invariants: the text is made after the read, for which all values were evaluated; what cannot be shown is left out.

use crate::execute::values::binding::Values;
use crate::guards::tombstones::ScanNote;
use crate::shard_state::Shard;
use cql::plan::{Choice, Comparison, Filter, PartitionRestriction, Select, Selector, SliceBound, Term, Tuple, Value};
use model::identifier::quoted;
use model::text::to_literal;
use model::{Column, ColumnId, CqlType};
use std::fmt::Write;

/// A SELECT that was run, with its values.
pub(super) struct QueryText<'s, 'v> {
    pub(super) shard: &'s Shard,
    pub(super) select: &'s Select,
    pub(super) values: &'s Values<'v>,
    /// Rows per page, if the request is paged.
    pub(super) page: Option<u64>,
}

impl QueryText<'_, '_> {
    /// A query that reads what `note` is about.
    pub(super) fn of(&self, note: &ScanNote) -> String {
        let table = &self.select.table;
        let mut conditions = Vec::new();
        match &note.key {
            Some(of) => {
                let parts = table.key_values(&of.key);
                conditions.extend(parts.zip(table.partition_key()).map(|(part, column)| equal(column, part)));
            }
            None => self.tokens(&mut conditions),
        }
        self.clustering(&mut conditions);
        self.select.filter.iter().for_each(|filter| self.filter(filter, &mut conditions));
        let mut out = format!("SELECT {} FROM {}.{}", self.columns(), quoted(&table.keyspace), quoted(&table.name));
        if !conditions.is_empty() {
            write!(out, " WHERE {}", conditions.join(" AND ")).unwrap_or_default();
        }
        if self.select.reversed {
            let order = table
                .clustering()
                .iter()
                .map(|column| format!("{} {}", quoted(&column.name), if column.descending { "ASC" } else { "DESC" }));
            write!(out, " ORDER BY {}", order.collect::<Vec<_>>().join(", ")).unwrap_or_default();
        }
        let groups = self.select.projection.as_ref().is_some_and(|projection| !projection.group_by.is_empty());
        if let Some(rows) = self.page.filter(|_| groups) {
            write!(out, " GROUP LIMIT {rows} LIMIT {rows}").unwrap_or_default();
        } else if let Some(rows) = note.limit.or(self.page) {
            write!(out, " LIMIT {rows}").unwrap_or_default();
        }
        if self.select.distinct {
            out.push_str(" PER PARTITION LIMIT 1");
        } else if let Some(limit) = &self.select.per_partition_limit {
            write!(out, " PER PARTITION LIMIT {}", self.literal(limit, &CqlType::Int)).unwrap_or_default();
        }
        out + " ALLOW FILTERING"
    }

    /// The static and regular columns that are looked at, or `*`.
    fn columns(&self) -> String {
        let table = &self.select.table;
        let mut asked: Vec<ColumnId> = self.select.selection.iter().filter_map(Selector::column).collect();
        asked.extend(self.select.filter.iter().flat_map(|filter| filter.columns().iter().copied()));
        let names = table.data_columns().iter().filter(|column| asked.contains(&column.id));
        let names: Vec<_> = names.map(|column| quoted(&column.name)).collect();
        match names.is_empty() || names.len() == table.data_columns().len() {
            true => "*".to_owned(),
            false => names.join(", "),
        }
    }

    fn literal(&self, term: &Term, cql_type: &CqlType) -> String {
        match self.values.evaluate(self.shard, term, cql_type) {
            Ok(Value::Bytes(bytes)) => to_literal(cql_type, &bytes),
            _ => "null".to_owned(),
        }
    }

    fn tokens(&self, out: &mut Vec<String>) {
        let PartitionRestriction::Tokens { lower, upper } = &self.select.partitions else { return };
        let names: Vec<_> = self.select.table.partition_key().iter().map(|column| quoted(&column.name)).collect();
        for (limit, open, closed) in [(lower, ">", ">="), (upper, "<", "<=")] {
            let Some(limit) = limit else { continue };
            let operator = if limit.inclusive { closed } else { open };
            let token = self.literal(&limit.term, &CqlType::Bigint);
            out.push(format!("token({}) {operator} {token}", names.join(", ")));
        }
    }

    fn clustering(&self, out: &mut Vec<String>) {
        let table = &self.select.table;
        let restriction = &self.select.clustering;
        let Ok(prefixes) = self.values.prefixes(self.shard, table.clustering(), &restriction.choices) else { return };
        let chosen = restriction.chosen();
        let rows: Vec<Vec<String>> = prefixes
            .iter()
            .map(|row| row.iter().zip(table.clustering()).map(|(part, of)| to_literal(&of.cql_type, part)).collect())
            .collect();
        let columns = table.clustering().get(..chosen).unwrap_or_default();
        if rows.len() > 1 && chosen > 1 && chosen == table.clustering_len {
            let names: Vec<_> = columns.iter().map(|column| quoted(&column.name)).collect();
            let rows: Vec<String> = rows.iter().map(|row| format!("({})", row.join(", "))).collect();
            out.push(format!("({}) IN ({})", names.join(", "), rows.join(", ")));
        } else {
            for (at, column) in columns.iter().enumerate() {
                let mut parts: Vec<&str> = Vec::new();
                for part in rows.iter().filter_map(|row| row.get(at)) {
                    if !parts.contains(&part.as_str()) {
                        parts.push(part);
                    }
                }
                out.push(match parts.as_slice() {
                    [one] => format!("{} = {one}", quoted(&column.name)),
                    several => format!("{} IN ({})", quoted(&column.name), several.join(", ")),
                });
            }
        }
        let rest = table.clustering().get(chosen..).unwrap_or_default();
        let bounds = [&restriction.lower, &restriction.upper].map(|limit| self.bound(limit.as_ref(), rest));
        for (at, column) in rest.iter().enumerate() {
            for (parts, operator) in bounds.iter().zip([[">", ">="], ["<", "<="]]) {
                if let Some((parts, inclusive)) = parts
                    && let Some(part) = parts.get(at)
                {
                    out.push(format!("{} {} {part}", quoted(&column.name), operator[usize::from(*inclusive)]));
                }
            }
        }
    }

    /// The values of a bound, and whether it is inclusive.
    fn bound(&self, limit: Option<&SliceBound>, columns: &[Column]) -> Option<(Vec<String>, bool)> {
        let limit = limit?;
        let shown = match &limit.values {
            Tuple::Terms(terms) => {
                terms.iter().zip(columns).map(|(term, column)| self.literal(term, &column.cql_type)).collect()
            }
            tuple => {
                let parts = self.values.tuple(self.shard, tuple, columns).ok()?;
                let literal = |(part, column): (Option<_>, &Column)| {
                    part.map_or("null".to_owned(), |part: std::borrow::Cow<'_, [u8]>| {
                        to_literal(&column.cql_type, &part)
                    })
                };
                parts.into_iter().zip(columns).map(literal).collect()
            }
        };
        Some((shown, limit.inclusive))
    }

    fn filter(&self, filter: &Filter, out: &mut Vec<String>) {
        let table = &self.select.table;
        let column = |id: &ColumnId| table.column_by_id(*id);
        let part_type = |column: &Column, key: bool| match &column.cql_type {
            CqlType::List { element, .. } | CqlType::Set { element, .. } => (**element).clone(),
            CqlType::Map { key: of, value, .. } => if key { of } else { value }.as_ref().clone(),
            other => other.clone(),
        };
        match filter {
            Filter::Compare { column: id, comparison, term } => {
                let Some(column) = column(id) else { return };
                let operator = match comparison {
                    Comparison::Equal => "=",
                    Comparison::Less => "<",
                    Comparison::LessEqual => "<=",
                    Comparison::Greater => ">",
                    Comparison::GreaterEqual => ">=",
                };
                out.push(format!("{} {operator} {}", quoted(&column.name), self.literal(term, &column.cql_type)));
            }
            Filter::In { column: id, choice } => {
                let (Some(column), Choice::Many(terms)) = (column(id), choice) else { return };
                let shown: Vec<String> = terms.iter().map(|term| self.literal(term, &column.cql_type)).collect();
                out.push(format!("{} IN ({})", quoted(&column.name), shown.join(", ")));
            }
            Filter::Contains { column: id, term } | Filter::ContainsKey { column: id, term } => {
                let Some(column) = column(id) else { return };
                let of_key = matches!(filter, Filter::ContainsKey { .. });
                let (word, of) = (if of_key { " KEY" } else { "" }, part_type(column, of_key));
                out.push(format!("{} CONTAINS{word} {}", quoted(&column.name), self.literal(term, &of)));
            }
            Filter::Entry { column: id, key, value } => {
                let Some(column) = column(id) else { return };
                let key = self.literal(key, &part_type(column, true));
                let value = self.literal(value, &part_type(column, false));
                out.push(format!("{}[{key}] = {value}", quoted(&column.name)));
            }
            Filter::Tuple { .. } | Filter::Refused(_) => {}
        }
    }
}

fn equal(column: &Column, value: &[u8]) -> String {
    format!("{} = {}", quoted(&column.name), to_literal(&column.cql_type, value))
}
