//! Damaged segments, full disks, failing disks, limits: what the log does when things are not as they should be.

mod support;

use engine::commitlog::replay::scan_bytes;
use engine::store::{ReplayStats, Truncation};
use engine::{Error, Options, Store, SyncMode};
use model::query::Partitions;
use model::{DecoratedKey, MutationBuilder, Table};
use runtime::mesh::NodeId;
use runtime::rng::Rng;
use runtime::sim::{self, DiskCall, Sim};
use std::cell::{Cell, RefCell};
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use support::*;

const NODE: NodeId = NodeId(1);

/// Runs `main` on one shard until it returns, and gives what it returned.
fn run<T: 'static, F: Future<Output = T> + 'static>(sim: &mut Sim, main: impl Fn() -> F + 'static) -> T {
    let slot = Rc::new(RefCell::new(None));
    let result = slot.clone();
    let main = Rc::new(main);
    sim.start_node(NODE, 1, move |_| {
        let (result, main) = (result.clone(), main.clone());
        async move {
            let value = main().await;
            *result.borrow_mut() = Some(value);
        }
    });
    sim.run_until(Duration::from_secs(3600), || slot.borrow().is_some());
    sim.kill(NODE);
    let value = slot.borrow_mut().take();
    value.expect("main returned")
}

fn calm(seed: u64) -> Sim {
    Sim::new(seed, sim::Options { buggify: false, ..sim::Options::default() })
}

fn small() -> Options {
    Options { segment_bytes: 32 << 10, ..options(1, GROUP) }
}

/// Opens and replays, as far as that goes.
async fn replay(options: Options) -> Result<(Store, ReplayStats), Error> {
    let store = Store::open(options).await?;
    store.add_table(table(1), false);
    let stats = store.replay(&[]).await?;
    Ok((store, stats))
}

async fn replayed_rows(options: Options) -> Result<Vec<i32>, Error> {
    let (store, _) = replay(options).await?;
    Ok(read_all(&store, table(1).id).await.into_iter().map(|row| row.1[0]).collect())
}

async fn write_rows(store: &Store, numbers: std::ops::Range<i32>, bytes: usize) {
    for number in numbers {
        let mutation = insert(table(1).id, b"p", number, 0, 1, &vec![b'x'; bytes]);
        store.apply(mutation, false).await.expect("apply");
    }
}

/// A disk with several segments of rows 0 to 29, one per group.
fn some_segments(seed: u64) -> (Sim, Vec<PathBuf>) {
    let mut sim = calm(seed);
    run(&mut sim, || async {
        let store = start(small(), &[table(1)]).await;
        write_rows(&store, 0..30, 100).await;
    });
    let names = sim.files(NODE).into_iter().map(|(path, _)| path);
    let segments: Vec<PathBuf> = names.filter(|path| path.extension().is_some_and(|end| end == "log")).collect();
    assert!(segments.len() >= 4, "{segments:?}");
    (sim, segments)
}

#[test]
fn s1_a_flipped_bit_in_an_old_group_is_corruption() {
    let mut rng = Rng::new(1);
    let (mut sim, segments) = some_segments(1);
    // The newest segment that holds groups.
    let groups = |bytes: &[u8]| bytes.chunks(4096).skip(1).filter(|block| block[..4] == *b"GRUP").count();
    let holding: Vec<&PathBuf> =
        segments.iter().filter(|path| groups(&sim.read_file(NODE, path).expect("a file")) > 0).collect();
    let newest = *holding.last().expect("a segment");
    for _ in 0..60 {
        let path = holding[rng.below(holding.len() as u64) as usize].clone();
        let bytes = sim.read_file(NODE, &path).expect("a file");
        let count = groups(&bytes);
        let group = rng.below(count as u64 + 1) as usize;
        // Group 0 is the header block. The payloads are about 200 bytes.
        let at = group * 4096 + rng.below(if group == 0 { 40 } else { 150 }) as usize;
        let bit = 1 << rng.below(8);
        sim.mutate_file(NODE, &path, |bytes| bytes[at] ^= bit);
        let result = run(&mut sim, || replayed_rows(small()));
        let last_group = path == *newest && group == count;
        match result {
            Err(Error::Corrupt { path: named, .. }) => {
                assert_eq!(named, path);
                assert!(!last_group, "it cannot be told from a torn tail");
            }
            Ok(rows) => {
                assert!(last_group, "{path:?} group {group} at {at}: damage went unnoticed");
                assert_eq!(rows, (0..29).collect::<Vec<_>>(), "all but the last");
            }
            Err(error) => panic!("{error}"),
        }
        sim.mutate_file(NODE, &path, |bytes| bytes[at] ^= bit);
    }
    assert_eq!(run(&mut sim, || replayed_rows(small())).expect("whole again"), (0..30).collect::<Vec<_>>());
}

#[test]
fn s1_a_group_lost_from_a_segment_that_a_later_start_knows_is_corruption() {
    let (mut sim, _) = some_segments(2);
    // A second run records where the segments of the first end.
    run(&mut sim, || async {
        let (store, _) = replay(small()).await.expect("replay");
        store.start(store.highest_counter()).await.expect("start");
        write_rows(&store, 30..31, 10).await;
    });
    assert_eq!(run(&mut sim, || replayed_rows(small())).expect("replay").len(), 31);
    let mut damaged = 0;
    for (path, _) in sim.files(NODE) {
        let before = sim.read_file(NODE, &path).expect("a file");
        let last = before.chunks(4096).rposition(|block| block[..4] == *b"GRUP");
        let Some(last) = last else { continue };
        sim.mutate_file(NODE, &path, |bytes| bytes[last * 4096 + 50] ^= 1);
        let result = run(&mut sim, || replayed_rows(small()));
        damaged += usize::from(matches!(result, Err(Error::Corrupt { .. })));
        sim.mutate_file(NODE, &path, |bytes| bytes.clone_from(&before));
    }
    assert!(damaged >= 4, "{damaged}");
}

#[test]
fn s1_every_tear_of_the_last_group_is_a_torn_tail() {
    let mut sim = calm(3);
    run(&mut sim, || async {
        let store = start(Options { segment_bytes: 64 << 10, ..small() }, &[table(1)]).await;
        write_rows(&store, 0..2, 10).await;
        write_rows(&store, 2..3, 9000).await;
    });
    let path = sim.files(NODE).into_iter().map(|(path, _)| path).next().expect("a segment");
    let whole = sim.read_file(NODE, &path).expect("a file");
    let start = whole.chunks(4096).rposition(|block| block[..4] == *b"GRUP").expect("a group") * 4096;
    for cut in (start..start + 9000 + 512).step_by(512) {
        sim.mutate_file(NODE, &path, |bytes| bytes[cut..].fill(0));
        let (rows, torn) = run(&mut sim, || async {
            let (store, stats) = replay(Options { segment_bytes: 64 << 10, ..small() }).await.expect("replay");
            (read_all(&store, table(1).id).await.len(), stats.torn_tails)
        });
        let whole_group = cut >= start + 9000 + 200;
        assert_eq!(rows, if whole_group { 3 } else { 2 }, "cut at {cut}");
        assert_eq!(torn, u64::from(!whole_group && cut > start), "cut at {cut}");
        sim.mutate_file(NODE, &path, |bytes| bytes.clone_from(&whole));
    }
}

#[test]
fn s1_mutated_segments_never_panic_and_never_give_what_was_not_written() {
    let (sim, segments) = some_segments(4);
    let mut rng = Rng::new(4);
    for round in 0..4000 {
        let path = &segments[rng.below(segments.len() as u64) as usize];
        let mut bytes = sim.read_file(NODE, path).expect("a file");
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let id = u64::from_str_radix(&name, 16).expect("an id");
        let mut original = Vec::new();
        scan_bytes(&bytes, id, |offset, record| original.push((offset, format!("{record:?}")))).expect("whole");
        for _ in 0..1 + rng.below(4) {
            let at = rng.below(bytes.len() as u64) as usize;
            match rng.below(6) {
                0 => bytes.truncate(at),
                1 => bytes[at] ^= 1 << rng.below(8),
                2 => bytes[at % 4200] = rng.below(256) as u8,
                3 => bytes.copy_within(4096..8192, (at / 4096 * 4096).min(28 << 10)),
                4 => bytes[at..].fill(0),
                _ => {
                    let other = rng.below(bytes.len() as u64) as usize;
                    bytes.swap(at, other);
                }
            }
            if bytes.len() < (32 << 10) {
                bytes.resize(if rng.chance(0.5) { 32 << 10 } else { bytes.len() + 1 }, 0);
                if bytes.len() < (32 << 10) {
                    break;
                }
            }
        }
        let mut found = Vec::new();
        let _ = scan_bytes(&bytes, id, |offset, record| found.push((offset, format!("{record:?}"))));
        assert!(original.starts_with(&found), "round {round}");
    }
}

#[test]
fn s1_bytes_that_a_client_chose_are_never_a_group() {
    // A value that holds a whole segment, so that groups of it lie at block boundaries; then a torn tail before it.
    let (sim, segments) = some_segments(5);
    let image = sim.read_file(NODE, &segments[0]).expect("a file");
    let mut sim = calm(6);
    let options = Options { segment_bytes: 256 << 10, ..small() };
    let (first, value) = (options.clone(), image);
    run(&mut sim, move || {
        let (options, value) = (first.clone(), value.clone());
        async move {
            let store = start(options, &[table(1)]).await;
            write_rows(&store, 0..1, 10).await;
            // One of these alignments puts the groups of the value at block boundaries.
            let mut aligned = vec![0; 4096];
            aligned.extend_from_slice(&value);
            store.apply(insert(table(1).id, b"p", 1, 0, 1, &aligned), false).await.expect("apply");
        }
    });
    let path = sim.files(NODE).into_iter().map(|(path, _)| path).next().expect("a segment");
    for shift in 0..4096usize {
        if shift % 97 != 0 && shift > 300 {
            continue;
        }
        let before = sim.read_file(NODE, &path).expect("a file");
        sim.mutate_file(NODE, &path, |bytes| {
            let end = bytes.len();
            bytes.copy_within(8192 + shift..end, 8192);
        });
        let options = options.clone();
        let rows = run(&mut sim, move || replayed_rows(options.clone()));
        let expected = if shift == 0 { vec![0, 1] } else { vec![0] };
        assert_eq!(rows.expect("a torn tail"), expected, "shift {shift}");
        sim.mutate_file(NODE, &path, |bytes| bytes.clone_from(&before));
    }
}

#[test]
fn s1_cassandras_own_segments_are_refused_unless_empty() {
    let cassandra = |body: &[u8]| {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&8i32.to_be_bytes());
        bytes.extend_from_slice(&1234i64.to_be_bytes());
        bytes.extend_from_slice(&2i16.to_be_bytes());
        bytes.extend_from_slice(b"{}");
        bytes.extend_from_slice(&[1, 2, 3, 4, 0, 0, 1, 0, 5, 6, 7, 8]);
        bytes.extend_from_slice(body);
        bytes.resize(600 << 10, 0);
        bytes
    };
    for (body, refused) in [(&b""[..], false), (&[0, 0, 1][..], true)] {
        let mut sim = calm(1);
        let bytes = cassandra(body);
        let result = run(&mut sim, move || {
            let bytes = bytes.clone();
            async move {
                let path = PathBuf::from("/data/commitlog/CommitLog-8-1234.log");
                runtime::file::create_dir_all(path.parent().expect("a directory")).await.expect("create");
                runtime::file::replace_small(&path, &bytes).await.expect("write");
                Store::open(small()).await.map(|_| ())
            }
        });
        match result {
            Err(error @ Error::ForeignLog { .. }) if refused => assert!(error.to_string().contains("nodetool drain")),
            Ok(()) if !refused => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn s18_a_full_disk_refuses_writes_serves_reads_and_recovers() {
    for sync in [GROUP, SyncMode::Batch, SyncMode::Periodic { period: Duration::from_millis(5) }] {
        let mut sim = Sim::new(8, sim::Options { buggify: false, disk_bytes: 200 << 10, ..sim::Options::default() });
        let phase = Rc::new(Cell::new(0));
        let shared = phase.clone();
        sim.start_node(NODE, 1, move |_| {
            let phase = shared.clone();
            async move {
                let store = start(Options { sync, ..small() }, &[table(1)]).await;
                let mut acked = Vec::new();
                let mut number = 0;
                let mut refused = 0;
                while refused < 3 {
                    number += 1;
                    match store.apply(insert(table(1).id, b"p", number, 0, 1, &[0; 900]), false).await {
                        Ok(()) => acked.push(number),
                        Err(Error::LogFull(_)) => refused += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
                let rows = |store: Store| async move {
                    read_all(&store, table(1).id).await.into_iter().map(|row| row.1[0]).collect::<Vec<_>>()
                };
                assert_eq!(rows(store.clone()).await, acked, "refused writes are definite");
                phase.set(1);
                while phase.get() == 1 {
                    runtime::sleep(Duration::from_millis(1)).await;
                }
                runtime::sleep(Duration::from_millis(300)).await;
                for number in 1000..1010 {
                    store.apply(insert(table(1).id, b"p", number, 0, 1, b""), false).await.expect("room again");
                    acked.push(number);
                }
                assert_eq!(rows(store.clone()).await, acked);
                store.close().await.expect("close");
                phase.set(3);
            }
        });
        sim.run_until(Duration::from_secs(60), || phase.get() == 1);
        assert_eq!(phase.get(), 1, "{sync:?}");
        sim.set_options(sim::Options { buggify: false, ..sim::Options::default() });
        phase.set(2);
        sim.run_until(Duration::from_secs(60), || phase.get() == 3);
        assert_eq!(phase.get(), 3, "{sync:?}");
        sim.crash(NODE);
        let rows = run(&mut sim, || replayed_rows(small())).expect("replay");
        assert_eq!(rows.iter().filter(|row| **row >= 1000).count(), 10, "{sync:?}");
    }
}

#[test]
fn s18_no_space_at_every_kth_call_loses_nothing_acknowledged() {
    for k in 1..100 {
        let mut sim = calm(k);
        let left = Rc::new(Cell::new(k as i64));
        sim.set_disk_fault(NODE, move |call, _| {
            if !matches!(call, DiskCall::Write | DiskCall::Open | DiskCall::Rename | DiskCall::SyncDir) {
                return None;
            }
            left.set(left.get() - 1);
            (left.get() == 0).then(|| io::Error::from(io::ErrorKind::StorageFull))
        });
        let acked = run(&mut sim, move || async move {
            let store = Store::open(small()).await.ok()?;
            store.add_table(table(1), false);
            store.replay(&[]).await.ok()?;
            store.start(0).await.ok()?;
            let mut acked = Vec::new();
            for number in 0..40 {
                match store.apply(insert(table(1).id, b"p", number, 0, 1, &[1; 3000]), false).await {
                    Ok(()) => acked.push(number),
                    Err(Error::LogFull(_)) => runtime::sleep(Duration::from_millis(150)).await,
                    Err(error) => panic!("k {k}: {error}"),
                }
            }
            Some(acked)
        });
        sim.clear_disk_fault(NODE);
        let acked = acked.unwrap_or_else(|| {
            assert!(k < 16, "k {k}: the start failed");
            Vec::new()
        });
        assert!(k < 16 || acked.len() >= 39, "k {k}: {acked:?}");
        assert_eq!(run(&mut sim, || replayed_rows(small())).expect("replay"), acked, "k {k}");
    }
}

#[test]
fn s19_a_failed_durable_write_poisons_the_log() {
    for seed in 0..20 {
        let mut sim = calm(seed);
        let armed = Rc::new(Cell::new(false));
        let shared = armed.clone();
        let wanted = Rc::new(Cell::new(false));
        let arm = wanted.clone();
        let result = Rc::new(RefCell::new(None));
        let slot = result.clone();
        sim.start_node(NODE, 1, move |_| {
            let (armed, arm, slot) = (shared.clone(), arm.clone(), slot.clone());
            async move {
                // Large enough that no segment is prepared meanwhile.
                let store = start(Options { segment_bytes: 256 << 10, ..small() }, &[table(1)]).await;
                write_rows(&store, 0..5, 100).await;
                arm.set(true);
                while !armed.get() {
                    runtime::sleep(Duration::from_millis(1)).await;
                }
                let writes: Vec<_> = (5..9)
                    .map(|number| {
                        let store = store.clone();
                        runtime::spawn(
                            async move { store.apply(insert(table(1).id, b"p", number, 0, 1, b""), false).await },
                        )
                    })
                    .collect();
                for write in writes {
                    assert!(matches!(write.await, Err(Error::LogFailed(_))), "no write after the failure succeeds");
                }
                let later = store.apply(insert(table(1).id, b"p", 9, 0, 1, b""), false).await;
                assert!(matches!(later, Err(Error::LogFailed(_))));
                assert!(store.sync().await.is_err());
                assert!(store.truncate(table(1).id).await.is_err());
                assert_eq!(read_all(&store, table(1).id).await.len(), 5, "reads go on; the unknown is not shown");
                assert!(store.close().await.is_err());
                *slot.borrow_mut() = Some(());
            }
        });
        sim.run_until(Duration::from_secs(60), || wanted.get());
        if seed % 2 == 0 {
            sim.fail_next_sync(NODE);
        } else {
            let once = Cell::new(true);
            sim.set_disk_fault(NODE, move |call, _| {
                (call == DiskCall::WriteDurable && once.take()).then(|| io::Error::from_raw_os_error(5))
            });
        }
        armed.set(true);
        sim.run_until(Duration::from_secs(60), || result.borrow().is_some());
        assert!(result.borrow().is_some(), "seed {seed}");
        sim.clear_disk_fault(NODE);
        sim.crash(NODE);
        let rows = run(&mut sim, || replayed_rows(small())).expect("replay");
        assert!(rows.starts_with(&[0, 1, 2, 3, 4]), "{rows:?}");
    }
}

#[test]
fn s3_dropped_and_truncated_tables_free_their_segments_and_stay_gone() {
    let mut sim = calm(9);
    let kept = || table(1);
    let gone = || table(2);
    let (most, truncation) = run(&mut sim, move || async move {
        let store = start(small(), &[kept(), gone()]).await;
        write_rows(&store, 0..1, 10).await;
        let mut most = 0;
        let mut truncation = Truncation::default();
        for round in 0..12 {
            for number in 0..20 {
                let mutation = insert(gone().id, b"p", number, round, 1, &[7; 500]);
                store.apply(mutation, false).await.expect("apply");
            }
            let position = store.truncate(gone().id).await.expect("truncate");
            truncation = Truncation { counter_floor: store.counter_floor(), positions: vec![position], at_millis: 0 };
            store.release(gone().id).await.expect("release");
            let files = runtime::file::list_dir(&PathBuf::from("/data/commitlog")).await.expect("list").len();
            if round > 1 {
                most = files.max(most);
            }
        }
        assert!(read_all(&store, gone().id).await.is_empty());
        store.apply(insert(gone().id, b"p", 99, 99, 1, b"new"), false).await.expect("apply");
        (most, truncation)
    });
    assert!(most <= 11, "{most} files: segments are not used again");
    sim.crash(NODE);
    for _ in 0..2 {
        let truncation = truncation.clone();
        let (kept_rows, gone_rows) = run(&mut sim, move || {
            let truncation = truncation.clone();
            async move {
                let store = Store::open(small()).await.expect("open");
                store.add_table(kept(), false);
                store.add_table(gone(), false);
                store.replay(&[(gone().id, truncation)]).await.expect("replay");
                store.start(store.highest_counter()).await.expect("start");
                (read_all(&store, kept().id).await.len(), read_all(&store, gone().id).await)
            }
        });
        assert_eq!(kept_rows, 1);
        assert_eq!(gone_rows.iter().map(|row| row.1.clone()).collect::<Vec<_>>(), [[99, 99]]);
    }
    // Once the other table is dropped as well no old segment is left.
    let files = run(&mut sim, move || async move {
        let store = start(small(), &[]).await;
        store.release(kept().id).await.expect("release");
        runtime::file::list_dir(&PathBuf::from("/data/commitlog")).await.expect("list").len()
    });
    assert!(files <= 2, "{files} files");
}

#[test]
fn s3_segments_written_between_a_truncation_and_its_release_stay() {
    let mut sim = calm(15);
    let truncation = run(&mut sim, || async {
        let store = start(small(), &[table(1), table(2)]).await;
        write_rows(&store, 0..20, 500).await;
        let position = store.truncate(table(1).id).await.expect("truncate");
        write_rows(&store, 100..130, 500).await;
        store.release(table(1).id).await.expect("release");
        // What was freed is used again.
        for number in 0..60 {
            store.apply(insert(table(2).id, b"p", number, 0, 1, &[9; 500]), false).await.expect("apply");
        }
        Truncation { counter_floor: store.counter_floor(), positions: vec![position], at_millis: 0 }
    });
    sim.crash(NODE);
    let rows = run(&mut sim, move || {
        let truncation = truncation.clone();
        async move {
            let store = Store::open(small()).await.expect("open");
            store.add_table(table(1), false);
            store.replay(&[(table(1).id, truncation)]).await.expect("replay");
            read_all(&store, table(1).id).await.into_iter().map(|row| row.1[0]).collect::<Vec<_>>()
        }
    });
    assert_eq!(rows, (100..130).collect::<Vec<_>>());
}

#[test]
fn s3_writes_around_a_truncation_fall_on_the_same_side_live_and_replayed() {
    for seed in 0..30 {
        let mut sim = Sim::new(seed, sim::Options::of_seed(seed));
        sim.set_options(sim::Options { disk_error: 0.0, ..sim::Options::of_seed(seed) });
        let sync = if seed % 3 == 0 { SyncMode::Periodic { period: Duration::from_millis(3) } } else { GROUP };
        let (live, truncation) = run(&mut sim, move || async move {
            let store = start(Options { sync, ..small() }, &[table(1)]).await;
            let mut tasks = Vec::new();
            for writer in 0..8 {
                let store = store.clone();
                tasks.push(runtime::spawn(async move {
                    for number in 0..8 {
                        let mutation = insert(table(1).id, b"p", writer, number, 1, &[3; 200]);
                        store.apply(mutation, false).await.expect("apply");
                        runtime::sleep(Duration::from_micros(runtime::rng::below(3000))).await;
                    }
                }));
            }
            runtime::sleep(Duration::from_micros(runtime::rng::below(9000))).await;
            let position = store.truncate(table(1).id).await.expect("truncate");
            for task in tasks {
                task.await;
            }
            store.sync().await.expect("sync");
            let truncation =
                Truncation { counter_floor: store.counter_floor(), positions: vec![position], at_millis: 0 };
            (read_all(&store, table(1).id).await, truncation)
        });
        sim.crash(NODE);
        let replayed = run(&mut sim, move || {
            let truncation = truncation.clone();
            async move {
                let store = Store::open(small()).await.expect("open");
                store.add_table(table(1), false);
                store.replay(&[(table(1).id, truncation)]).await.expect("replay");
                read_all(&store, table(1).id).await
            }
        });
        assert_eq!(replayed, live, "seed {seed}");
    }
}

#[test]
fn s1_what_a_start_has_shown_survives_a_power_failure() {
    for seed in 0..20 {
        let mut sim = calm(seed);
        run(&mut sim, || async {
            let store = start(small(), &[table(1)]).await;
            write_rows(&store, 0..2, 10).await;
        });
        // The last group is in the file, but not durably: as after a write whose process was killed before the flush.
        let path = sim.files(NODE).into_iter().map(|(path, _)| path).next().expect("a segment");
        let whole = sim.read_file(NODE, &path).expect("a file");
        let last = whole.chunks(4096).rposition(|block| block[..4] == *b"GRUP").expect("a group") * 4096;
        sim.mutate_file(NODE, &path, |bytes| bytes[last..last + 4096].fill(0));
        run(&mut sim, move || {
            let (path, block) = (path.clone(), whole[last..last + 4096].to_vec());
            async move {
                let options = runtime::file::OpenOptions { write: true, ..Default::default() };
                let file = runtime::File::open(&path, options).await.expect("open");
                let mut buffer = runtime::AlignedBuf::zeroed(4096);
                buffer.copy_from_slice(&block);
                file.write_at(buffer, last as u64).await.0.expect("write");
            }
        });
        let shown = run(&mut sim, || async {
            let store = start(small(), &[table(1)]).await;
            read_all(&store, table(1).id).await.len()
        });
        sim.crash(NODE);
        assert_eq!((shown, run(&mut sim, || replayed_rows(small())).expect("replay").len()), (2, 2), "seed {seed}");
    }
}

#[test]
fn columns_are_found_by_name_when_their_ids_have_moved() {
    let mut sim = calm(10);
    run(&mut sim, || async {
        let store = start(small(), &[table(1)]).await;
        let mut builder = MutationBuilder::new(b"p");
        builder.table(table(1).id);
        builder.row(model::mutation::Clustering(&clustering(&[1, 1])), |out| {
            let mut row = model::row::RowBuilder::new(out, live(1), model::row::Deletion::LIVE);
            row.cell(&value(A, 1, b"of a"));
            row.cell(&value(B, 1, b"of b"));
        });
        store.apply(builder.finish(), false).await.expect("apply");
    });
    for (columns, expected) in [
        (&["a", "aa", "b"][..], vec![(3, b"of a".to_vec()), (5, b"of b".to_vec())]),
        (&["b"][..], vec![(3, b"of b".to_vec())]),
        (&["c"][..], vec![]),
    ] {
        let rows = run(&mut sim, move || async move {
            let store = Store::open(small()).await.expect("open");
            store.add_table(table_of("ks", 1, columns), false);
            store.replay(&[]).await.expect("replay");
            read_all(&store, table(1).id).await
        });
        assert_eq!(rows, [(b"p".to_vec(), vec![1, 1], true, expected)]);
    }
}

#[test]
fn a_mutation_of_half_a_segment_is_taken_and_one_byte_more_refused() {
    let mut sim = calm(11);
    run(&mut sim, || async {
        let store = start(small(), &[table(1)]).await;
        let overhead = insert(table(1).id, b"p", 0, 0, 1, b"").bytes().len();
        let most = (32 << 10) / 2 - overhead;
        for number in 0..5 {
            let mutation = insert(table(1).id, b"p", number, 0, 1, &vec![0; most]);
            store.apply(mutation, false).await.expect("at the limit");
        }
        let mutation = insert(table(1).id, b"p", 9, 0, 1, &vec![0; most + 1]);
        assert!(matches!(store.apply(mutation, false).await, Err(Error::MutationTooLarge { bytes: 16385 })));
    });
    assert_eq!(run(&mut sim, || replayed_rows(small())).expect("replay"), [0, 1, 2, 3, 4]);
}

#[test]
fn s18_a_full_memtable_refuses_writes_until_something_is_freed() {
    let mut sim = calm(12);
    let full = Options { memtable_bytes_max: 1 << 20, segment_bytes: 256 << 10, ..small() };
    let (options, after) = (full.clone(), full);
    let written = run(&mut sim, move || {
        let options = options.clone();
        async move {
            let store = start(options, &[table(1), table(2), table_of("system", 3, &["a", "b"])]).await;
            let mut written = 0;
            loop {
                match store.apply(insert(table(1).id, &[written as u8], written, 0, 1, &[0; 10_000]), false).await {
                    Ok(()) => written += 1,
                    Err(Error::MemtableFull) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            let (used, budget) = store.memory();
            // What is allocated counts, so the last chunk may reach beyond.
            let most = budget + engine::memtable::arena::CHUNK_BYTES_MAX;
            assert!(used <= most && used > budget / 2, "{used} of {budget}");
            let refused = store.apply(insert(table(2).id, b"p", 0, 0, 1, &[0; 10_000]), false).await;
            assert!(matches!(refused, Err(Error::MemtableFull)));
            let system = insert(table_of("system", 3, &[]).id, b"p", 0, 0, 1, &[0; 10_000]);
            store.apply(system, true).await.expect("system writes go on");
            assert_eq!(store.memory().0, used, "system tables have no part in the budget");
            assert_eq!(read_all(&store, table(1).id).await.len(), written as usize);
            store.truncate(table(1).id).await.expect("truncate");
            while store.memory().0 == used {
                runtime::sleep(Duration::from_millis(1)).await;
            }
            store.apply(insert(table(1).id, b"q", 0, 0, 1, b""), false).await.expect("room again");
            written
        }
    });
    // Replay knows nothing of the truncation and may exceed a smaller budget; writes are refused then.
    run(&mut sim, move || {
        let options = Options { memtable_bytes_max: 100_000, ..after.clone() };
        async move {
            let store = start(options, &[table(1)]).await;
            assert_eq!(read_all(&store, table(1).id).await.len(), written as usize + 1);
            let refused = store.apply(insert(table(1).id, b"p", 0, 0, 1, b""), false).await;
            assert!(matches!(refused, Err(Error::MemtableFull)));
        }
    });
}

#[test]
fn a_write_whose_future_is_dropped_is_applied_when_it_is_durable() {
    let mut sim = Sim::new(
        13,
        sim::Options {
            buggify: false,
            disk_latency: (Duration::from_millis(5), Duration::from_millis(6)),
            ..sim::Options::default()
        },
    );
    run(&mut sim, || async {
        let store = start(small(), &[table(1)]).await;
        let write = store.apply(insert(table(1).id, b"p", 1, 0, 1, b"x"), false);
        assert!(runtime::timeout(Duration::from_millis(2), write).await.is_none());
        assert!(read_all(&store, table(1).id).await.is_empty());
        runtime::sleep(Duration::from_millis(20)).await;
        assert_eq!(read_all(&store, table(1).id).await.len(), 1);
        store.close().await.expect("nothing is left under way");
    });
}

#[test]
fn o1_a_periodic_log_makes_writers_wait_beyond_a_segment_of_unsynced_bytes() {
    let latency = Duration::from_millis(400);
    let mut sim =
        Sim::new(14, sim::Options { buggify: false, disk_latency: (latency, latency), ..sim::Options::default() });
    run(&mut sim, || async {
        let store =
            start(Options { sync: SyncMode::Periodic { period: Duration::from_secs(9) }, ..small() }, &[table(1)])
                .await;
        let acked = Rc::new(Cell::new(0));
        let tables: Arc<Table> = table(1);
        let mutation = insert(tables.id, b"p", 0, 0, 1, &[0; 1000]);
        let most = (32 << 10) / (mutation.bytes().len() + 5);
        for number in 0..100 {
            let (store, acked) = (store.clone(), acked.clone());
            runtime::spawn(async move {
                store.apply(insert(table(1).id, b"p", number, 0, 1, &[0; 1000]), false).await.expect("apply");
                acked.set(acked.get() + 1);
            });
        }
        runtime::sleep(Duration::from_millis(300)).await;
        assert_eq!(acked.get(), most, "as many as fit, and not one more");
        runtime::sleep(Duration::from_secs(60)).await;
        assert_eq!(acked.get(), 100);
        let command = command(table(1).id, Partitions::Key(DecoratedKey::new(b"p")));
        let mut rows = Rows::default();
        store.read(&command, &mut rows).await.expect("read");
        assert_eq!(rows.rows.len(), 100);
    });
}
