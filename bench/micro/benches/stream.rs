//! Measures the CPU time of streaming without the network: extracting ranges of an SSTable, and reading, checking and
//! writing whole files in pieces. Rows have 1 KiB, half of which is random hexadecimal digits.
//!
//! `cargo bench -p micro --bench stream`; `ROWS` sets the number of rows, `ROUNDS` how often, `DIRECTORY` a place on a
//! real disk.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a measurement")]

#[path = "../../../storage/engine/tests/support/mod.rs"]
mod support;

use engine::streams::directories::remove_all;
use engine::streams::source::ReadySstable;
use engine::streams::target::StagedSstable;
use engine::{Component, Store, SyncMode};
use model::Partitioner;
use model::mutation::Clustering;
use model::row::{Deletion, RowBuilder};
use model::{Column, ColumnId, ColumnKind, CqlType, Mutation, MutationBuilder, RingToken, Table, TokenRange};
use runtime::uring;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use support::*;

const VALUE_BYTES: usize = 1 << 10;
const PARTS: u64 = 4;
const PIECE_BYTES: usize = 256 << 10;
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

/// Copies the files of one SSTable in pieces as a receiver does. Returns their bytes.
async fn copy(ready: &ReadySstable, to: &Path) -> u64 {
    let components = ready.components();
    let sidecar_bytes = components[0].1 as usize;
    let sidecar = ready.read(Component::Helenus, 0, sidecar_bytes).await.expect("read").expect("a component").to_vec();
    let staged = StagedSstable::begin(to, ready.descriptor().clone(), sidecar, &components).await.expect("begun");
    for (component, len) in &components[1..] {
        for offset in (0..*len).step_by(PIECE_BYTES) {
            let piece = ready.read(*component, offset, PIECE_BYTES).await.expect("read").expect("a component");
            staged.write(*component, offset, &piece).await.expect("good");
        }
    }
    staged.finish().await.expect("complete");
    ready.bytes()
}

/// Streams ranges of the table once and tells what that cost.
async fn stream(store: &Store, path: &Path, name: &str, ranges: &[TokenRange], whole: bool) {
    let view = store.open_stream(blobs().id, ranges, whole).await.expect("a view");
    let (mut extracting, mut copying, mut bytes) = (0.0, 0.0, 0);
    for number in 0..view.items().len() {
        let (out, incoming) = (path.join("out").join(number.to_string()), path.join("in").join(number.to_string()));
        let began = cpu_seconds();
        let Some(ready) = view.ready(number, &out).await.expect("ready") else { continue };
        let extracted = cpu_seconds();
        bytes += copy(&ready, &incoming).await;
        copying += cpu_seconds() - extracted;
        extracting += extracted - began;
        ready.finish().await.expect("removed");
        remove_all(&incoming).await.expect("removed");
    }
    let megabytes = bytes as f64 / 1e6;
    let rate = |seconds: f64| megabytes / seconds;
    println!(
        "{name}: {megabytes:.1} MB of files; extracting {extracting:.3} CPU-seconds, {:.0} MB each; copying \
         {copying:.3}, {:.0}; both {:.0} MB per CPU-second",
        rate(extracting),
        rate(copying),
        rate(extracting + copying),
    );
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick" || argument == "--test");
    let (rows, rounds) =
        (number("ROWS", if quick { 2_000 } else { 400_000 }), number("ROUNDS", if quick { 1 } else { 3 }));
    let directory = tempfile::tempdir_in(std::env::var("DIRECTORY").unwrap_or("/tmp".into())).expect("a directory");
    let path = directory.path().to_path_buf();
    let ran = uring::run(uring::Options::default(), move |_| {
        let path = path.clone();
        async move {
            let store = fill(&path, rows).await;
            let half = TokenRange::between(RingToken::Murmur3(i64::MIN), RingToken::Murmur3(0));
            for _ in 0..rounds {
                stream(&store, &path, "whole files", &[TokenRange::FULL], true).await;
                stream(&store, &path, "half of the ring", std::slice::from_ref(&half), true).await;
            }
            store.close().await.expect("close");
        }
    });
    ran.expect("the node ran");
}
