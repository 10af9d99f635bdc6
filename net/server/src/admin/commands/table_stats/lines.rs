//! The lines that `tablestats` shows about a table.

use crate::admin::commands::table_usage::{NANOS_PER_MILLISECOND, TableUsage};
use crate::admin::number_format::{double, file_size, memory_size};
use shard::metrics::Distribution;
use shard::{Counts, TableStatistics};

/// One line about a table: its key in JSON and YAML, its title in text, and its value.
pub(super) struct Line {
    pub(super) key: &'static str,
    pub(super) title: &'static str,
    pub(super) value: Value,
}

/// A value and how it is written.
pub(super) enum Value {
    Count(u64),
    /// Bytes, with a unit if the caller asked for that.
    Size(u64),
    /// Bytes, in text always with a unit.
    Memory(u64),
    Float(f64),
    /// A ratio, with five decimals in text. The flag says whether JSON and YAML show that text rather than a number.
    Ratio(f64, bool),
    /// Milliseconds; a string in JSON and YAML.
    Latency(f64),
    /// A mean; NaN if there was nothing to measure.
    Mean(f64),
    Flag(bool),
    /// A literal that only JSON and YAML show.
    Raw(&'static str),
    /// A string that only JSON and YAML show.
    RawText(&'static str),
}

/// All lines about a table, in Cassandra's order.
pub(super) fn lines(
    s: &TableStatistics,
    TableUsage([reads, writes, live, dead, speculative]): &TableUsage,
    snapshot_bytes: u64,
) -> Vec<Line> {
    use Value::{Count, Float, Latency, Mean, Memory, Ratio, Raw, RawText, Size};
    let latency = |found: &Distribution| Latency(found.mean() / NANOS_PER_MILLISECOND);
    let share = if writes.count == 0 { 0.0 } else { reads.count as f64 / writes.count as f64 };
    let line = |key, title, value| Line { key, title, value };
    let percent = if s.data_bytes == 0 { 100.0 } else { s.repaired_bytes as f64 * 100.0 / s.data_bytes as f64 };
    let percent = (percent * 100.0).round() / 100.0;
    let compression = if s.uncompressed == 0 { -1.0 } else { s.compressed / s.uncompressed as f64 };
    let droppable = if s.cells > 0.0 { s.droppable / s.cells } else { 0.0 };
    let unrepaired = s.data_bytes - s.repaired_bytes - s.pending_repair_bytes.min(s.data_bytes - s.repaired_bytes);
    // Each filter file begins with a header of 8 bytes.
    let filter_files = s.filter_bytes + 8 * s.sstables * u64::from(s.filter_bytes > 0);
    let size = |counts: &Counts, pick: fn(&Counts) -> i64| Count(pick(counts).max(0) as u64);
    vec![
        line("twcs", "", Raw("null")),
        line("sai_total_queryable_index_ratio", "", Raw("null")),
        line("sai_post_filtering_read_latency", "", RawText("0.000")),
        line("sstable_count", "SSTable count", Count(s.sstables)),
        line("old_sstable_count", "Old SSTable count", Count(s.old_sstables)),
        line("max_sstable_size", "Max SSTable size", Memory(s.largest_bytes)),
        line("space_used_live", "Space used (live)", Size(s.disk_bytes)),
        line("space_used_total", "Space used (total)", Size(s.disk_bytes)),
        line("space_used_by_snapshots_total", "Space used by snapshots (total)", Size(snapshot_bytes)),
        line("off_heap_memory_used_total", "Off heap memory used (total)", Size(s.filter_bytes + s.chunk_bytes)),
        line("sstable_compression_ratio", "SSTable Compression Ratio", Ratio(compression, false)),
        line("number_of_partitions_estimate", "Number of partitions (estimate)", Count(s.partitions)),
        line("memtable_data_size", "Memtable data size", Size(s.memtable_bytes)),
        line("memtable_off_heap_memory_used", "Memtable off heap memory used", Size(0)),
        line("speculative_retries", "Speculative retries", Count(speculative.count)),
        line("local_read_count", "Local read count", Count(reads.count)),
        line("local_read_latency_ms", "Local read latency", latency(reads)),
        line("local_write_count", "Local write count", Count(writes.count)),
        line("local_write_latency_ms", "Local write latency", latency(writes)),
        line("local_read_write_ratio", "Local read/write ratio", Ratio(share, true)),
        line("pending_flushes", "Pending flushes", Count(s.flushing)),
        line("percent_repaired", "Percent repaired", Float(percent)),
        line("bytes_repaired", "Bytes repaired", Memory(s.repaired_bytes)),
        line("bytes_unrepaired", "Bytes unrepaired", Memory(unrepaired)),
        line("bytes_pending_repair", "Bytes pending repair", Memory(s.pending_repair_bytes)),
        line("bloom_filter_space_used", "Bloom filter space used", Size(filter_files)),
        line("bloom_filter_off_heap_memory_used", "Bloom filter off heap memory used", Size(s.filter_bytes)),
        line("index_summary_off_heap_memory_used", "Index summary off heap memory used", Size(0)),
        line(
            "compression_metadata_off_heap_memory_used",
            "Compression metadata off heap memory used",
            Size(s.chunk_bytes),
        ),
        line(
            "compacted_partition_minimum_bytes",
            "Compacted partition minimum bytes",
            size(&s.partition_sizes, Counts::min),
        ),
        line(
            "compacted_partition_maximum_bytes",
            "Compacted partition maximum bytes",
            size(&s.partition_sizes, Counts::max),
        ),
        line(
            "compacted_partition_mean_bytes",
            "Compacted partition mean bytes",
            size(&s.partition_sizes, Counts::mean),
        ),
        line(
            "average_live_cells_per_slice_last_five_minutes",
            "Average live cells per slice (last five minutes)",
            Mean(live.mean()),
        ),
        line(
            "maximum_live_cells_per_slice_last_five_minutes",
            "Maximum live cells per slice (last five minutes)",
            Count(live.max()),
        ),
        line(
            "average_tombstones_per_slice_last_five_minutes",
            "Average tombstones per slice (last five minutes)",
            Mean(dead.mean()),
        ),
        line(
            "maximum_tombstones_per_slice_last_five_minutes",
            "Maximum tombstones per slice (last five minutes)",
            Count(dead.max()),
        ),
        line("droppable_tombstone_ratio", "Droppable tombstone ratio", Ratio(droppable, true)),
        line("top_tombstone_partitions", "", Raw("{ }")),
        line("top_size_partitions", "", Raw("{ }")),
        line("sai_total_query_timeouts", "", Raw("0")),
        line("sai_local_query_latency_ms", "", RawText("0.000")),
        line("sai_index_segments_hit", "", Raw("0.0")),
        line("sai_rows_filtered", "", Raw("0.0")),
        line("sai_sstable_indexes_hit", "", Raw("0.0")),
        line("sai_disk_used_bytes", "", Raw("null")),
    ]
}

impl Line {
    /// The value as a number, by which tables are sorted.
    pub(super) fn number(&self) -> f64 {
        match self.value {
            Value::Count(n) | Value::Size(n) | Value::Memory(n) => n as f64,
            Value::Float(f) | Value::Ratio(f, _) => f,
            Value::Latency(f) | Value::Mean(f) if f.is_nan() => 0.0,
            Value::Latency(f) | Value::Mean(f) => f,
            Value::Flag(_) | Value::Raw(_) | Value::RawText(_) => 0.0,
        }
    }

    /// The value in text; `None` if the line is not shown there.
    pub(super) fn text(&self, human: bool) -> Option<String> {
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

    /// The value in JSON and YAML, and whether it is a string there.
    pub(super) fn data(&self, human: bool) -> (String, bool) {
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
