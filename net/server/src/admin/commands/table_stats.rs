//! Commands about what tables hold and how they are used: `tablestats` and `tablehistograms`.
//!
//! A line of Cassandra's whose figure is not counted here (false positives of filters, SSTables per read, cells in
//! memtables) is left out rather than shown as zero. Reads and writes are those of `system_views`.

use super::table_names::keyspaces;
use crate::admin::error::{CommandError, usage};
use crate::admin::number_format::{double, file_size, memory_size};
use crate::admin::protocol::Request;
use crate::node_state::NodeState;
use model::Table;
use shard::metrics::{Distribution, Measure, TableMetrics};
use shard::{Counts, TableStatistics};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

const RULE: &str = "----------------\n";
/// What `-s` takes, of what is counted here.
const SORT_KEYS: &[&str] = &[
    "average_live_cells_per_slice_last_five_minutes",
    "average_tombstones_per_slice_last_five_minutes",
    "bloom_filter_off_heap_memory_used",
    "bloom_filter_space_used",
    "compacted_partition_maximum_bytes",
    "compacted_partition_mean_bytes",
    "compacted_partition_minimum_bytes",
    "compression_metadata_off_heap_memory_used",
    "full_name",
    "index_summary_off_heap_memory_used",
    "local_read_count",
    "local_read_latency_ms",
    "local_write_latency_ms",
    "maximum_live_cells_per_slice_last_five_minutes",
    "maximum_tombstones_per_slice_last_five_minutes",
    "memtable_data_size",
    "memtable_off_heap_memory_used",
    "number_of_partitions_estimate",
    "off_heap_memory_used_total",
    "pending_flushes",
    "percent_repaired",
    "space_used_by_snapshots_total",
    "space_used_live",
    "space_used_total",
    "sstable_compression_ratio",
    "sstable_count",
    "table_name",
    "max_sstable_size",
    "local_read_write_ratio",
];
/// What is shown of reads and writes.
const MEASURES: [Measure; 4] = [Measure::LocalRead, Measure::LocalWrite, Measure::Rows, Measure::Tombstones];
const NANOS_PER_MILLISECOND: f64 = 1e6;
const NANOS_PER_MICROSECOND: f64 = 1e3;

/// A figure of a table: its name in JSON and YAML, its title in text, its value in each.
struct Figure {
    key: &'static str,
    title: &'static str,
    value: Value,
}

enum Value {
    Count(u64),
    /// Bytes, in units if asked for.
    Size(u64),
    /// Bytes, always in units in text.
    Memory(u64),
    Float(f64),
    /// With five decimals; a text in JSON or not.
    Ratio(f64, bool),
    /// Milliseconds; a text in JSON.
    Latency(f64),
    /// NaN without any.
    Mean(f64),
    Flag(bool),
    /// Only in JSON and YAML, as it is there.
    Raw(&'static str),
    RawText(&'static str),
}

struct Shown {
    table: Arc<Table>,
    figures: Vec<Figure>,
    flushing: u64,
}

/// What is measured of a table.
#[derive(Default)]
struct Used([Distribution; MEASURES.len()]);

impl Used {
    fn of(measured: &TableMetrics, table: &Table) -> Used {
        let figures = measured.get(&table.id);
        Used(MEASURES.map(|measure| figures.and_then(|figures| figures.get(&measure)).cloned().unwrap_or_default()))
    }
}

/// Reads and writes of a keyspace: how many, and how long they took in all, nanoseconds.
#[derive(Clone, Copy, Default)]
struct Work {
    reads: u64,
    read_nanos: u64,
    writes: u64,
    write_nanos: u64,
}

impl Work {
    fn add(&mut self, Used([reads, writes, ..]): &Used) {
        self.reads += reads.count;
        self.read_nanos += reads.total;
        self.writes += writes.count;
        self.write_nanos += writes.total;
    }

    /// Mean times, milliseconds; NaN of none.
    fn latencies(&self) -> [f64; 2] {
        let mean = |nanos: u64, count: u64| nanos as f64 / count as f64 / NANOS_PER_MILLISECOND;
        [mean(self.read_nanos, self.reads), mean(self.write_nanos, self.writes)]
    }
}

fn figures(s: &TableStatistics, Used([reads, writes, live, dead]): &Used, snapshot_bytes: u64) -> Vec<Figure> {
    use Value::{Count, Float, Latency, Mean, Memory, Ratio, Raw, RawText, Size};
    let latency = |found: &Distribution| Latency(found.mean() / NANOS_PER_MILLISECOND);
    let share = if writes.count == 0 { 0.0 } else { reads.count as f64 / writes.count as f64 };
    let figure = |key, title, value| Figure { key, title, value };
    let percent = if s.data_bytes == 0 { 100.0 } else { s.repaired_bytes as f64 * 100.0 / s.data_bytes as f64 };
    let percent = (percent * 100.0).round() / 100.0;
    let compression = if s.uncompressed == 0 { -1.0 } else { s.compressed / s.uncompressed as f64 };
    let droppable = if s.cells > 0.0 { s.droppable / s.cells } else { 0.0 };
    let unrepaired = s.data_bytes - s.repaired_bytes - s.pending_repair_bytes.min(s.data_bytes - s.repaired_bytes);
    // Each file has a head of 8 bytes.
    let filter_files = s.filter_bytes + 8 * s.sstables * u64::from(s.filter_bytes > 0);
    let size = |counts: &Counts, pick: fn(&Counts) -> i64| Count(pick(counts).max(0) as u64);
    vec![
        figure("twcs", "", Raw("null")),
        figure("sai_total_queryable_index_ratio", "", Raw("null")),
        figure("sai_post_filtering_read_latency", "", RawText("0.000")),
        figure("sstable_count", "SSTable count", Count(s.sstables)),
        figure("old_sstable_count", "Old SSTable count", Count(s.old_sstables)),
        figure("max_sstable_size", "Max SSTable size", Memory(s.largest_bytes)),
        figure("space_used_live", "Space used (live)", Size(s.disk_bytes)),
        figure("space_used_total", "Space used (total)", Size(s.disk_bytes)),
        figure("space_used_by_snapshots_total", "Space used by snapshots (total)", Size(snapshot_bytes)),
        figure("off_heap_memory_used_total", "Off heap memory used (total)", Size(s.filter_bytes + s.chunk_bytes)),
        figure("sstable_compression_ratio", "SSTable Compression Ratio", Ratio(compression, false)),
        figure("number_of_partitions_estimate", "Number of partitions (estimate)", Count(s.partitions)),
        figure("memtable_data_size", "Memtable data size", Size(s.memtable_bytes)),
        figure("memtable_off_heap_memory_used", "Memtable off heap memory used", Size(0)),
        figure("speculative_retries", "Speculative retries", Count(0)),
        figure("local_read_count", "Local read count", Count(reads.count)),
        figure("local_read_latency_ms", "Local read latency", latency(reads)),
        figure("local_write_count", "Local write count", Count(writes.count)),
        figure("local_write_latency_ms", "Local write latency", latency(writes)),
        figure("local_read_write_ratio", "Local read/write ratio", Ratio(share, true)),
        figure("pending_flushes", "Pending flushes", Count(s.flushing)),
        figure("percent_repaired", "Percent repaired", Float(percent)),
        figure("bytes_repaired", "Bytes repaired", Memory(s.repaired_bytes)),
        figure("bytes_unrepaired", "Bytes unrepaired", Memory(unrepaired)),
        figure("bytes_pending_repair", "Bytes pending repair", Memory(s.pending_repair_bytes)),
        figure("bloom_filter_space_used", "Bloom filter space used", Size(filter_files)),
        figure("bloom_filter_off_heap_memory_used", "Bloom filter off heap memory used", Size(s.filter_bytes)),
        figure("index_summary_off_heap_memory_used", "Index summary off heap memory used", Size(0)),
        figure(
            "compression_metadata_off_heap_memory_used",
            "Compression metadata off heap memory used",
            Size(s.chunk_bytes),
        ),
        figure(
            "compacted_partition_minimum_bytes",
            "Compacted partition minimum bytes",
            size(&s.partition_sizes, Counts::min),
        ),
        figure(
            "compacted_partition_maximum_bytes",
            "Compacted partition maximum bytes",
            size(&s.partition_sizes, Counts::max),
        ),
        figure(
            "compacted_partition_mean_bytes",
            "Compacted partition mean bytes",
            size(&s.partition_sizes, Counts::mean),
        ),
        figure(
            "average_live_cells_per_slice_last_five_minutes",
            "Average live cells per slice (last five minutes)",
            Mean(live.mean()),
        ),
        figure(
            "maximum_live_cells_per_slice_last_five_minutes",
            "Maximum live cells per slice (last five minutes)",
            Count(live.max()),
        ),
        figure(
            "average_tombstones_per_slice_last_five_minutes",
            "Average tombstones per slice (last five minutes)",
            Mean(dead.mean()),
        ),
        figure(
            "maximum_tombstones_per_slice_last_five_minutes",
            "Maximum tombstones per slice (last five minutes)",
            Count(dead.max()),
        ),
        figure("droppable_tombstone_ratio", "Droppable tombstone ratio", Ratio(droppable, true)),
        figure("top_tombstone_partitions", "", Raw("{ }")),
        figure("top_size_partitions", "", Raw("{ }")),
        figure("sai_total_query_timeouts", "", Raw("0")),
        figure("sai_local_query_latency_ms", "", RawText("0.000")),
        figure("sai_index_segments_hit", "", Raw("0.0")),
        figure("sai_rows_filtered", "", Raw("0.0")),
        figure("sai_sstable_indexes_hit", "", Raw("0.0")),
        figure("sai_disk_used_bytes", "", Raw("null")),
    ]
}

impl Figure {
    fn number(&self) -> f64 {
        match self.value {
            Value::Count(n) | Value::Size(n) | Value::Memory(n) => n as f64,
            Value::Float(f) | Value::Ratio(f, _) => f,
            Value::Latency(f) | Value::Mean(f) if f.is_nan() => 0.0,
            Value::Latency(f) | Value::Mean(f) => f,
            Value::Flag(_) | Value::Raw(_) | Value::RawText(_) => 0.0,
        }
    }

    /// In text; `None`: not shown there.
    fn text(&self, human: bool) -> Option<String> {
        Some(match self.value {
            Value::Count(n) => n.to_string(),
            Value::Size(n) if human => file_size(n),
            Value::Size(n) => n.to_string(),
            Value::Memory(n) => memory_size(n),
            Value::Float(f) => double(f),
            Value::Ratio(f, _) => format!("{f:.5}"),
            Value::Latency(f) => format!("{f:.3} ms"),
            Value::Mean(f) => double(f),
            Value::Flag(flag) => flag.to_string(),
            Value::Raw(_) | Value::RawText(_) => return None,
        })
    }

    /// In JSON and YAML, with whether it is a text.
    fn data(&self, human: bool) -> (String, bool) {
        match self.value {
            Value::Count(n) | Value::Memory(n) => (n.to_string(), false),
            Value::Size(_) => (self.text(human).unwrap_or_default(), true),
            Value::Float(f) | Value::Ratio(f, false) => (double(f), false),
            Value::Ratio(f, true) => (format!("{f:.5}"), true),
            Value::Latency(f) => (format!("{f:.3}"), true),
            Value::Mean(f) => (double(f), f.is_nan()),
            Value::Flag(flag) => (flag.to_string(), false),
            Value::Raw(raw) => (raw.into(), false),
            Value::RawText(raw) => (raw.into(), true),
        }
    }
}

/// `tablestats`.
pub(crate) async fn table_stats(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let format = request.option("-F").unwrap_or_default();
    if !matches!(format, "" | "json" | "yaml") {
        return usage("arguments for -F are json,yaml only.");
    }
    let sort = request.option("-s");
    if let Some(key) = sort
        && !SORT_KEYS.contains(&key)
    {
        return usage(format!("argument for sort must be one of: {}", SORT_KEYS.join(", ")));
    }
    let top = match request.option("-t") {
        None => None,
        Some(_) if sort.is_none() => return usage("cannot filter top K tables without specifying a sort key."),
        Some(top) => match top.parse::<usize>() {
            Ok(top) if top > 0 => Some(top),
            Ok(_) => return usage("argument for top must be a positive integer."),
            Err(_) => return usage(format!("top: can not convert \"{top}\" to a Integer")),
        },
    };
    let human = request.has("-H");
    let tables = chosen(node, request)?;
    let all = tables.len();
    let mut measured = Vec::with_capacity(all);
    let snapshots = node.shard.snapshots().await?;
    let used = node.shard.measured(&MEASURES).await?;
    for table in tables {
        let statistics = node.shard.statistics(table.id).await?;
        let directory = shard::directory_of(&node.shard.node_config().directory, &table);
        let own = snapshots.iter().filter(|found| found.directory.starts_with(&directory));
        let snapshot_bytes = own.map(|found| found.sstable_bytes).sum();
        let mut figures = figures(&statistics, &Used::of(&used, &table), snapshot_bytes);
        if request.has("-l") {
            // With one data directory there is no wrong one.
            figures.push(Figure {
                key: "sstables_in_correct_location",
                title: "SSTables in correct location",
                value: Value::Flag(true),
            });
        }
        measured.push(Shown { table, figures, flushing: statistics.flushing });
    }
    let mut work: BTreeMap<String, Work> = BTreeMap::new();
    for table in keyspaces(&node.shard.schema()).flat_map(|keyspace| keyspace.tables.values()) {
        work.entry(table.keyspace.clone()).or_default().add(&Used::of(&used, table));
    }
    if let Some(key) = sort {
        measured.sort_by(|a, b| compare(key, a, b));
        measured.truncate(top.unwrap_or(usize::MAX));
    }
    match format {
        "" => text(&measured, &work, all, sort, top, human, out),
        "json" => json(&measured, &work, all, human, out),
        _ => yaml(&measured, &work, all, human, out),
    }
    Ok(())
}

/// The tables that the arguments mean.
fn chosen(node: &NodeState, request: &Request) -> Result<Vec<Arc<Table>>, CommandError> {
    let schema = node.shard.schema();
    let mut named: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for argument in &request.arguments {
        let (keyspace, table) = match argument.split_once('.') {
            Some((keyspace, table)) => (keyspace, Some(table)),
            None => (argument.as_str(), None),
        };
        named.entry(keyspace).or_default().extend(table);
    }
    for (name, tables) in &named {
        let Some(keyspace) = keyspaces(&schema).find(|keyspace| keyspace.name == **name) else {
            return usage(format!("Unknown keyspace: {name}"));
        };
        let unknown: Vec<&str> = tables.iter().copied().filter(|table| !keyspace.tables.contains_key(*table)).collect();
        if !unknown.is_empty() {
            return usage(format!("Unknown tables: [{}] in keyspace: {name}", unknown.join(", ")));
        }
    }
    let ignored = request.has("-i");
    let is_named = |table: &Table| {
        named
            .get(table.keyspace.as_str())
            .is_some_and(|tables| tables.is_empty() || tables.contains(&table.name.as_str()))
    };
    let tables = keyspaces(&schema).flat_map(|keyspace| keyspace.tables.values());
    Ok(tables.filter(|table| named.is_empty() || is_named(table) != ignored).cloned().collect())
}

/// Names ascend, figures descend.
fn compare(key: &str, a: &Shown, b: &Shown) -> Ordering {
    let figure =
        |measured: &Shown| measured.figures.iter().find(|figure| figure.key == key).map_or(0.0, Figure::number);
    let by_name = (&a.table.keyspace, &a.table.name).cmp(&(&b.table.keyspace, &b.table.name));
    match key {
        "full_name" => by_name,
        "table_name" => a.table.name.cmp(&b.table.name).then(by_name),
        _ => figure(b).total_cmp(&figure(a)).then(by_name),
    }
}

fn by_keyspace(measured: &[Shown]) -> BTreeMap<&str, Vec<&Shown>> {
    let mut found: BTreeMap<&str, Vec<&Shown>> = BTreeMap::new();
    for one in measured {
        found.entry(&one.table.keyspace).or_default().push(one);
    }
    found
}

fn text(
    measured: &[Shown],
    work: &BTreeMap<String, Work>,
    all: usize,
    sort: Option<&str>,
    top: Option<usize>,
    human: bool,
    out: &mut String,
) {
    let _ = write!(out, "Total number of tables: {all}");
    if let Some(top) = top {
        let _ = write!(out, " (showing top {} by {})", top.min(measured.len()), sort.unwrap_or_default());
    }
    out.push('\n');
    out.push_str(RULE);
    let show = |indent: &str, one: &Shown, out: &mut String| {
        for figure in &one.figures {
            if let Some(text) = figure.text(human) {
                let _ = writeln!(out, "{indent}{}: {text}", figure.title);
            }
        }
        out.push('\n');
    };
    if sort.is_some() {
        for one in measured {
            let _ = writeln!(out, "\tTable: {}.{}", one.table.keyspace, one.table.name);
            show("\t", one, out);
        }
        out.push_str(RULE);
        return;
    }
    for (keyspace, tables) in by_keyspace(measured) {
        let flushing: u64 = tables.iter().map(|one| one.flushing).sum();
        let work = work.get(keyspace).copied().unwrap_or_default();
        let [read, write] = work.latencies().map(double);
        let _ = write!(
            out,
            "Keyspace: {keyspace}\n\tRead Count: {}\n\tRead Latency: {read} ms\n\tWrite Count: {}\n\tWrite Latency: {write} \
             ms\n\tPending Flushes: {flushing}\n",
            work.reads, work.writes
        );
        for one in tables {
            let _ = writeln!(out, "\t\tTable: {}", one.table.name);
            show("\t\t", one, out);
        }
        out.push_str(RULE);
    }
}

fn json(measured: &[Shown], work: &BTreeMap<String, Work>, all: usize, human: bool, out: &mut String) {
    let _ = write!(out, "{{\n  \"total_number_of_tables\" : {all}");
    for (keyspace, tables) in by_keyspace(measured) {
        let flushing: u64 = tables.iter().map(|one| one.flushing).sum();
        let _ = write!(out, ",\n  \"{keyspace}\" : {{\n    \"tables\" : {{\n");
        let tables: Vec<String> = tables
            .iter()
            .map(|one| {
                let figures: Vec<String> = one
                    .figures
                    .iter()
                    .map(|figure| match figure.data(human) {
                        (value, true) => format!("        \"{}\" : \"{value}\"", figure.key),
                        (value, false) => format!("        \"{}\" : {value}", figure.key),
                    })
                    .collect();
                format!("      \"{}\" : {{\n{}\n      }}", one.table.name, figures.join(",\n"))
            })
            .collect();
        let work = work.get(keyspace).copied().unwrap_or_default();
        let [read, write] = work.latencies().map(|mean| if mean.is_nan() { "null".into() } else { double(mean) });
        let _ = write!(
            out,
            "{}\n    }},\n    \"read_latency_ms\" : {read},\n    \"pending_flushes\" : {flushing},\n    \"write_count\" : \
             {},\n    \"read_latency\" : {read},\n    \"write_latency_ms\" : {write},\n    \"read_count\" : {}\n  }}",
            tables.join(",\n"),
            work.writes,
            work.reads
        );
    }
    out.push_str("\n}\n");
}

fn yaml(measured: &[Shown], work: &BTreeMap<String, Work>, all: usize, human: bool, out: &mut String) {
    let _ = writeln!(out, "total_number_of_tables: {all}");
    for (keyspace, tables) in by_keyspace(measured) {
        let flushing: u64 = tables.iter().map(|one| one.flushing).sum();
        let _ = write!(out, "{keyspace}:\n  tables:\n");
        for one in tables {
            let _ = writeln!(out, "    {}:", one.table.name);
            for figure in &one.figures {
                let _ = match figure.data(human) {
                    (value, true) if value == "NaN" => {
                        let dot = if matches!(figure.value, Value::Mean(_)) { "." } else { "" };
                        writeln!(out, "      {}: {dot}NaN", figure.key)
                    }
                    (value, true) => writeln!(out, "      {}: '{value}'", figure.key),
                    (value, false) => writeln!(out, "      {}: {}", figure.key, value.replace("{ }", "{}")),
                };
            }
        }
        let work = work.get(keyspace).copied().unwrap_or_default();
        let [read, write] = work.latencies().map(|mean| if mean.is_nan() { ".NaN".into() } else { double(mean) });
        let _ = writeln!(
            out,
            "  read_latency_ms: {read}\n  pending_flushes: {flushing}\n  write_count: {}\n  read_latency: {read}\n  \
             write_latency_ms: {write}\n  read_count: {}",
            work.writes, work.reads
        );
    }
    out.push('\n');
}

/// `tablehistograms`: of SSTables what is in their statistics.
pub(crate) async fn table_histograms(
    node: &NodeState,
    request: &Request,
    out: &mut String,
) -> Result<(), CommandError> {
    let schema = node.shard.schema();
    let find = |keyspace: &str, table: &str| {
        let keyspace = keyspaces(&schema).find(|found| found.name == keyspace);
        keyspace.and_then(|keyspace| keyspace.tables.get(table).cloned())
    };
    let tables: Vec<Arc<Table>> = match request.arguments.as_slice() {
        [] => keyspaces(&schema).flat_map(|keyspace| keyspace.tables.values().cloned()).collect(),
        [keyspace, table] => match find(keyspace, table) {
            Some(table) => vec![table],
            None => return usage(format!("Unknown table {keyspace}.{table}")),
        },
        [name] if name.split('.').count() == 2 => {
            let (keyspace, table) = name.split_once('.').unwrap_or_default();
            match find(keyspace, table) {
                Some(table) => vec![table],
                None => return usage(format!("Unknown table {name}")),
            }
        }
        _ => return usage("tablehistograms requires keyspace and table name arguments"),
    };
    let used = node.shard.measured(&MEASURES).await?;
    for table in tables {
        let Used([reads, writes, ..]) = &Used::of(&used, &table);
        let statistics = node.shard.statistics(table.id).await?;
        let (sizes, cells) = (&statistics.partition_sizes, &statistics.cell_counts);
        let _ = writeln!(out, "{}/{} histograms", table.keyspace, table.name);
        let mut rest = String::new();
        let mut line = |part: &str, read: u64, write: u64, size: i64, cells: i64| {
            let micros = |nanos: u64| nanos as f64 / NANOS_PER_MICROSECOND;
            let (read, write) = (micros(read), micros(write));
            let _ = writeln!(rest, "{part:<10}{read:>18.2}{write:>18.2}{size:>18}{cells:>18}");
        };
        for part in [50u8, 75, 95, 98, 99] {
            let share = f64::from(part) / 100.0;
            let of = |counts: &Counts| counts.percentile(share);
            line(&format!("{part}%"), reads.percentile(share), writes.percentile(share), of(sizes), of(cells));
        }
        line("Min", reads.min(), writes.min(), sizes.min(), cells.min());
        line("Max", reads.max(), writes.max(), sizes.max(), cells.max());
        let heads = ["Percentile", "Read Latency", "Write Latency", "Partition Size", "Cell Count"];
        let units = ["", "(micros)", "(micros)", "(bytes)", ""];
        for [first, others @ ..] in [heads, units] {
            let _ = write!(out, "{first:<10}");
            others.iter().for_each(|head| {
                let _ = write!(out, "{head:>18}");
            });
            out.push('\n');
        }
        let _ = writeln!(out, "{rest}");
    }
    Ok(())
}
