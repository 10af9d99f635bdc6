//! Virtual tables with a row per table of the node: latencies, rows and tombstones per read, bytes on disk.

use super::VirtualRows;
use super::contents::{bigint, double, text};
use crate::metrics::{Distribution, Measure};
use crate::shard_state::Shard;
use engine::TableStatistics;
use model::{Failure, Table};
use std::sync::Arc;

const MEBIBYTE: f64 = 1_048_576.0;
const NANOS_PER_MILLISECOND: f64 = 1e6;

/// What a virtual table shows about each table of the node.
#[derive(Clone, Copy)]
enum Shown {
    /// Latencies.
    Latency(Measure),
    /// How many rows or tombstones reads met.
    ScanCounts(Measure),
    /// A statistic of the SSTables: the column's name, and how to get its value.
    Disk(&'static str, fn(&TableStatistics) -> u64),
}

fn shown(name: &str) -> Option<Shown> {
    Some(match name {
        "local_read_latency" => Shown::Latency(Measure::LocalRead),
        "local_scan_latency" => Shown::Latency(Measure::LocalScan),
        "local_write_latency" => Shown::Latency(Measure::LocalWrite),
        "coordinator_read_latency" => Shown::Latency(Measure::CoordinatorRead),
        "coordinator_scan_latency" => Shown::Latency(Measure::CoordinatorScan),
        "coordinator_write_latency" => Shown::Latency(Measure::CoordinatorWrite),
        "rows_per_read" => Shown::ScanCounts(Measure::Rows),
        "tombstones_per_read" => Shown::ScanCounts(Measure::Tombstones),
        "disk_usage" => Shown::Disk("mebibytes", |table| mebibytes(table.disk_bytes)),
        "max_sstable_size" => Shown::Disk("mebibytes", |table| mebibytes(table.largest_bytes)),
        "max_partition_size" => {
            Shown::Disk("mebibytes", |table| mebibytes(table.partition_sizes.max().max(0).unsigned_abs()))
        }
        "max_sstable_duration" => Shown::Disk("max_sstable_duration", |table| table.longest_micros / 1000),
        _ => return None,
    })
}

/// Bytes in MiB, rounded up.
fn mebibytes(bytes: u64) -> u64 {
    (bytes as f64 / MEBIBYTE).ceil() as u64
}

/// A double rounded to three decimals.
fn rounded(number: f64) -> Option<Vec<u8>> {
    double((number * 1000.0).round() / 1000.0)
}

/// Adds the rows of the virtual table `name`, if it is one of these.
pub(super) async fn fill(shard: &Shard, name: &str, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    let Some(shown) = shown(name) else { return Ok(()) };
    let schema = shard.schema();
    let keyspaces = schema.keyspaces.values().filter(|keyspace| !keyspace.is_virtual());
    let tables: Vec<Arc<Table>> = keyspaces
        .flat_map(|keyspace| keyspace.tables.values())
        .filter(|table| !crate::schema::system_tables::is_hidden(table))
        .cloned()
        .collect();
    let measured = match shown {
        Shown::Latency(measure) | Shown::ScanCounts(measure) => shard.measured(&[measure]).await?,
        Shown::Disk(..) => Default::default(),
    };
    let nothing = Distribution::default();
    for table in tables {
        let (keyspace, name) = (("keyspace_name", text(&table.keyspace)), ("table_name", text(&table.name)));
        let of = |measure| measured.get(&table.id).and_then(|measured| measured.get(&measure)).unwrap_or(&nothing);
        match shown {
            Shown::Latency(measure) => {
                let found = of(measure);
                let millis = |nanos: u64| rounded(nanos as f64 / NANOS_PER_MILLISECOND);
                rows.push([
                    keyspace,
                    name,
                    ("count", bigint(found.count)),
                    ("max_ms", millis(found.max())),
                    ("p50th_ms", millis(found.percentile(0.5))),
                    ("p99th_ms", millis(found.percentile(0.99))),
                    ("per_second", rounded(found.rate)),
                ]);
            }
            Shown::ScanCounts(measure) => {
                let found = of(measure);
                rows.push([
                    keyspace,
                    name,
                    ("count", bigint(found.count)),
                    ("max", double(found.max() as f64)),
                    ("p50th", double(found.percentile(0.5) as f64)),
                    ("p99th", double(found.percentile(0.99) as f64)),
                ]);
            }
            Shown::Disk(column, value) => {
                let statistics = shard.statistics(table.id).await?;
                rows.push([keyspace, name, (column, bigint(value(&statistics)))]);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_mebibyte_counts() {
        assert_eq!([0, 1, 1 << 20, (1 << 20) + 1].map(mebibytes), [0, 1, 1, 2]);
    }
}
