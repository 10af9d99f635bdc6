//! Measures how fast a shard writes and replays its commit log on a real disk, with mutations of 1 KiB, each of a
//! partition of its own.
//!
//! `cargo bench -p micro --bench log`; `REPLAY_ROWS` sets how many mutations are replayed and `REPLAY_ROUNDS` how
//! often, `COMMITS` how many mutations one writer makes durable one after another, `REPLAY_DIR` the directory.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a measurement")]

#[path = "../../../storage/engine/tests/support/mod.rs"]
mod support;

use engine::{Store, SyncMode};
use model::Home;
use runtime::uring;
use std::path::Path;
use std::time::{Duration, Instant};
use support::*;

const ROW_BYTES: usize = 1 << 10;
const WRITERS: u64 = 64;
const PERIODIC: SyncMode = SyncMode::Periodic { period: Duration::from_millis(100) };

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Bytes that this process has written to the disk.
fn bytes_written() -> u64 {
    let figures = std::fs::read_to_string("/proc/self/io").expect("figures");
    let line = figures.lines().find_map(|line| line.strip_prefix("write_bytes: ")).expect("write_bytes");
    line.parse().expect("a number")
}

/// Times the durable writes of a single writer, one after another, on a new log in the default mode.
fn commits_of_one_writer() {
    let commits = number("COMMITS", 5_000);
    let directory = tempfile::tempdir_in(std::env::var("REPLAY_DIR").unwrap_or("/tmp".into())).expect("a directory");
    let path = directory.path().to_path_buf();
    let before = bytes_written();
    let ran = uring::run(uring::Options::default(), move |_| {
        let path = path.clone();
        async move {
            let store = open(&path, GROUP).await;
            store.replay(&[]).await.expect("replay");
            store.start(store.highest_counter()).await.expect("start");
            let begun = Instant::now();
            for row in 0..commits {
                let mutation = insert(table(1).id, &row.to_be_bytes(), 0, 0, 1, &vec![b'v'; ROW_BYTES - 90]);
                store.apply(mutation, false).await.expect("apply");
            }
            let took = begun.elapsed().as_secs_f64();
            println!("{commits} commits in {took:.3} s: {:.0} us each", took * 1e6 / commits as f64);
            store.close().await.expect("close");
        }
    });
    ran.expect("the node ran");
    let volume = (bytes_written() - before) as f64 / (commits * 4096) as f64;
    println!("{volume:.2} bytes written per byte of groups");
}

async fn open(directory: &Path, sync: SyncMode) -> Store {
    let store = Store::open(roomy(directory, sync)).await.expect("open");
    store.add_table(table(1), Home::ByToken);
    store
}

fn replay_of_small_mutations() {
    let rows = number("REPLAY_ROWS", 200_000);
    let directory = tempfile::tempdir_in(std::env::var("REPLAY_DIR").unwrap_or("/tmp".into())).expect("a directory");
    let path = directory.path().to_path_buf();
    let before = bytes_written();
    let written = uring::run(uring::Options::default(), move |_| {
        let path = path.clone();
        async move {
            let store = open(&path, PERIODIC).await;
            store.replay(&[]).await.expect("replay");
            store.start(store.highest_counter()).await.expect("start");
            let writers = (0..WRITERS).map(|writer| {
                let store = store.clone();
                runtime::spawn(async move {
                    for row in (writer..rows).step_by(WRITERS as usize) {
                        let mutation = insert(table(1).id, &row.to_be_bytes(), 0, 0, 1, &vec![b'v'; ROW_BYTES - 90]);
                        store.apply(mutation, false).await.expect("apply");
                    }
                })
            });
            for writer in writers.collect::<Vec<_>>() {
                writer.await;
            }
            store.close().await.expect("close");
        }
    });
    written.expect("the node ran");
    let volume = (bytes_written() - before) as f64 / (rows as usize * ROW_BYTES) as f64;
    println!("{volume:.2} bytes written per byte of rows");
    for _ in 0..number("REPLAY_ROUNDS", 5) {
        let path = directory.path().to_path_buf();
        let replayed = uring::run(uring::Options::default(), move |_| {
            let path = path.clone();
            async move {
                let store = open(&path, PERIODIC).await;
                let begun = Instant::now();
                let stats = store.replay(&[]).await.expect("replay");
                let took = begun.elapsed().as_secs_f64();
                assert_eq!(stats.applied, rows);
                let megabytes = (rows as usize * ROW_BYTES) as f64 / 1e6;
                println!("{megabytes:.0} MB in {took:.3} s: {:.0} MB/s", megabytes / took);
            }
        });
        replayed.expect("the node ran");
    }
}

fn main() {
    commits_of_one_writer();
    replay_of_small_mutations();
}
