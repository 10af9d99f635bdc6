//! Measures CPU time and disk writes of a major compaction of four SSTables. Rows have 1 KiB, half of which is random
//! hexadecimal digits.
//!
//! `cargo bench -p micro --bench compaction`; `ROWS` sets the number of rows, `ROUNDS` the number of compactions,
//! `DIRECTORY` a place on a real disk. With `SIMULATED` set it runs in the simulator, for callgrind: runs with `ROUNDS`
//! of 0 and 1 differ by one compaction.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a measurement")]

#[path = "../../../storage/engine/tests/support/mod.rs"]
mod support;

use engine::{Component, Store, SyncMode};
use model::Partitioner;
use model::mutation::Clustering;
use model::row::{Deletion, RowBuilder};
use model::{Column, ColumnId, ColumnKind, CqlType, Mutation, MutationBuilder, Table};
use runtime::uring;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use support::*;

const VALUE_BYTES: usize = 1 << 10;
const PARTS: u64 = 4;
const VALUE: ColumnId = ColumnId(1);
const PERIODIC: SyncMode = SyncMode::Periodic { period: Duration::from_millis(100) };

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// `CREATE TABLE ks.t1 (k bigint PRIMARY KEY, v blob)`.
fn blobs() -> Arc<Table> {
    let columns = [("k", ColumnKind::PartitionKey, CqlType::Bigint), ("v", ColumnKind::Regular, CqlType::Blob)];
    let columns = columns.into_iter().enumerate().map(|(id, (name, kind, cql_type))| Column {
        id: ColumnId(id as u16),
        name: name.into(),
        kind,
        position: 0,
        cql_type,
        descending: false,
    });
    uncompacted(&Table { columns: columns.collect(), clustering_len: 0, ..(*table(1)).clone() })
}

/// A value of which half is random hexadecimal digits and half one byte repeated.
fn value_of(row: u64) -> Vec<u8> {
    let mut state = row.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
    let mut value = Vec::with_capacity(VALUE_BYTES);
    while value.len() < VALUE_BYTES / 2 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        value.extend_from_slice(format!("{state:016x}").as_bytes());
    }
    value.resize(VALUE_BYTES, row as u8);
    value
}

fn write_of(row: u64) -> Mutation {
    let mut builder = MutationBuilder::new(Partitioner::Murmur3, &row.to_be_bytes());
    builder.table(blobs().id);
    let timestamp = 1_700_000_000_000_000 + row as i64 * 37;
    builder.row(Clustering(&[]), |out| {
        RowBuilder::new(out, live(timestamp), Deletion::LIVE).cell(&value(VALUE, timestamp, &value_of(row)));
    });
    builder.finish()
}

/// Seconds of CPU time that the threads of this process have used.
fn cpu_seconds() -> f64 {
    let nanoseconds = std::fs::read_dir("/proc/self/task").expect("threads").filter_map(|thread| {
        let times = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        times.split(' ').next()?.parse::<u64>().ok()
    });
    nanoseconds.sum::<u64>() as f64 / 1e9
}

async fn fill(directory: &Path, rows: u64) -> Store {
    let store = start(roomy(directory, PERIODIC), &[blobs()]).await;
    for part in 0..PARTS {
        for row in part * rows / PARTS..(part + 1) * rows / PARTS {
            store.apply(write_of(row), false).await.expect("apply");
        }
        store.flush(blobs().id).await.expect("flush");
    }
    store
}

fn on_disk(rows: u64, rounds: u64) {
    let directory = tempfile::tempdir_in(std::env::var("DIRECTORY").unwrap_or("/tmp".into())).expect("a directory");
    let path = directory.path().to_path_buf();
    let raw = rows as f64 * VALUE_BYTES as f64;
    let ran = uring::run(uring::Options::default(), move |_| {
        let path = path.clone();
        async move {
            let store = fill(&path, rows).await;
            for _ in 0..rounds {
                let before = cpu_seconds();
                store.compact(blobs().id, EVERYTHING).await.expect("compact");
                let took = cpu_seconds() - before;
                println!("{:.3} CPU-seconds, {:.1} MB of rows per CPU-second", took, raw / 1e6 / took);
            }
            store.close().await.expect("close");
            let table = engine::directory_of(&path, &blobs());
            let files: Vec<_> = std::fs::read_dir(table).expect("files").flatten().collect();
            for component in Component::ALL {
                let of = |file: &&std::fs::DirEntry| file.file_name().to_string_lossy().ends_with(component.name());
                let bytes: u64 = files.iter().filter(of).map(|file| file.metadata().expect("a length").len()).sum();
                println!("{:<20} {bytes:>12} bytes, {:.5} per byte of rows", component.name(), bytes as f64 / raw);
            }
        }
    });
    ran.expect("the node ran");
}

fn simulated(rows: u64, rounds: u64) {
    run(&mut calm(1), move || async move {
        let store = fill(&PathBuf::from("/data"), rows).await;
        for _ in 0..rounds {
            store.compact(blobs().id, EVERYTHING).await.expect("compact");
        }
    });
}

fn main() {
    let (rows, rounds) = (number("ROWS", 40_000), number("ROUNDS", 3));
    match std::env::var_os("SIMULATED") {
        Some(_) => simulated(rows, rounds),
        None => on_disk(rows, rounds),
    }
}
