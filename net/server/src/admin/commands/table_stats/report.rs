//! The report of `tablestats` as text, JSON or YAML.

use super::lines::{Line, Value};
use crate::admin::commands::table_usage::KeyspaceUsage;
use crate::admin::number_format::double;
use model::Table;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

const RULE: &str = "----------------\n";

/// What the report shows about one table.
pub(super) struct TableReport {
    pub(super) table: Arc<Table>,
    pub(super) lines: Vec<Line>,
    /// Memtables that are being flushed.
    pub(super) flushing: u64,
}

/// What the report shows about tables and their keyspaces.
pub(super) struct Report<'r> {
    /// The tables to show, in the order in which to show them.
    pub(super) tables: Vec<TableReport>,
    /// Reads and writes by keyspace.
    pub(super) usage: BTreeMap<String, KeyspaceUsage>,
    /// How many tables were chosen, shown or not.
    pub(super) table_count: usize,
    /// The key by which the tables are sorted; `None` to show them by keyspace.
    pub(super) sort: Option<&'r str>,
    /// How many tables to show at most.
    pub(super) top: Option<usize>,
    /// Whether sizes have units.
    pub(super) human: bool,
}

impl Report<'_> {
    fn by_keyspace(&self) -> BTreeMap<&str, Vec<&TableReport>> {
        let mut found: BTreeMap<&str, Vec<&TableReport>> = BTreeMap::new();
        for report in &self.tables {
            found.entry(&report.table.keyspace).or_default().push(report);
        }
        found
    }

    fn usage_of(&self, keyspace: &str) -> KeyspaceUsage {
        self.usage.get(keyspace).copied().unwrap_or_default()
    }

    /// Appends the report as text.
    pub(super) fn text(&self, out: &mut String) {
        let _ = write!(out, "Total number of tables: {}", self.table_count);
        if let Some(top) = self.top {
            let _ = write!(out, " (showing top {} by {})", top.min(self.tables.len()), self.sort.unwrap_or_default());
        }
        out.push('\n');
        out.push_str(RULE);
        let show = |indent: &str, one: &TableReport, out: &mut String| {
            for line in &one.lines {
                if let Some(text) = line.text(self.human) {
                    let _ = writeln!(out, "{indent}{}: {text}", line.title);
                }
            }
            out.push('\n');
        };
        if self.sort.is_some() {
            for one in &self.tables {
                let _ = writeln!(out, "\tTable: {}.{}", one.table.keyspace, one.table.name);
                show("\t", one, out);
            }
            out.push_str(RULE);
            return;
        }
        for (keyspace, tables) in self.by_keyspace() {
            let flushing: u64 = tables.iter().map(|one| one.flushing).sum();
            let usage = self.usage_of(keyspace);
            let [read, write] = usage.latencies().map(double);
            let _ = write!(
                out,
                "Keyspace: {keyspace}\n\tRead Count: {}\n\tRead Latency: {read} ms\n\tWrite Count: {}\n\tWrite Latency: {write} \
             ms\n\tPending Flushes: {flushing}\n",
                usage.reads, usage.writes
            );
            for one in tables {
                let _ = writeln!(out, "\t\tTable: {}", one.table.name);
                show("\t\t", one, out);
            }
            out.push_str(RULE);
        }
    }

    /// Appends the report as JSON.
    pub(super) fn json(&self, out: &mut String) {
        let _ = write!(out, "{{\n  \"total_number_of_tables\" : {}", self.table_count);
        for (keyspace, tables) in self.by_keyspace() {
            let flushing: u64 = tables.iter().map(|one| one.flushing).sum();
            let _ = write!(out, ",\n  \"{keyspace}\" : {{\n    \"tables\" : {{\n");
            let tables: Vec<String> = tables
                .iter()
                .map(|one| {
                    let lines: Vec<String> = one
                        .lines
                        .iter()
                        .map(|line| match line.data(self.human) {
                            (value, true) => format!("        \"{}\" : \"{value}\"", line.key),
                            (value, false) => format!("        \"{}\" : {value}", line.key),
                        })
                        .collect();
                    format!("      \"{}\" : {{\n{}\n      }}", one.table.name, lines.join(",\n"))
                })
                .collect();
            let usage = self.usage_of(keyspace);
            let [read, write] = usage.latencies().map(|mean| if mean.is_nan() { "null".into() } else { double(mean) });
            let _ = write!(
                out,
                "{}\n    }},\n    \"read_latency_ms\" : {read},\n    \"pending_flushes\" : {flushing},\n    \"write_count\" : \
             {},\n    \"read_latency\" : {read},\n    \"write_latency_ms\" : {write},\n    \"read_count\" : {}\n  }}",
                tables.join(",\n"),
                usage.writes,
                usage.reads
            );
        }
        out.push_str("\n}\n");
    }

    /// Appends the report as YAML.
    pub(super) fn yaml(&self, out: &mut String) {
        let _ = writeln!(out, "total_number_of_tables: {}", self.table_count);
        for (keyspace, tables) in self.by_keyspace() {
            let flushing: u64 = tables.iter().map(|one| one.flushing).sum();
            let _ = write!(out, "{keyspace}:\n  tables:\n");
            for one in tables {
                let _ = writeln!(out, "    {}:", one.table.name);
                for line in &one.lines {
                    let _ = match line.data(self.human) {
                        (value, true) if value == "NaN" => {
                            let dot = if matches!(line.value, Value::Mean(_)) { "." } else { "" };
                            writeln!(out, "      {}: {dot}NaN", line.key)
                        }
                        (value, true) => writeln!(out, "      {}: '{value}'", line.key),
                        (value, false) => writeln!(out, "      {}: {}", line.key, value.replace("{ }", "{}")),
                    };
                }
            }
            let usage = self.usage_of(keyspace);
            let [read, write] = usage.latencies().map(|mean| if mean.is_nan() { ".NaN".into() } else { double(mean) });
            let _ = writeln!(
                out,
                "  read_latency_ms: {read}\n  pending_flushes: {flushing}\n  write_count: {}\n  read_latency: {read}\n  \
             write_latency_ms: {write}\n  read_count: {}",
                usage.writes, usage.reads
            );
        }
        out.push('\n');
    }
}
