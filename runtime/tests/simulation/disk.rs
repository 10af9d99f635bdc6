//! The faulty disk: what a crash may leave, names, errors.

use super::{ONE, WRITABLE, filled, run};
use runtime::file::{self, OpenOptions};
use runtime::mesh::ShardId;
use runtime::rng::Rng;
use runtime::sim::{DiskCall, Options, Sim};
use runtime::{AlignedBuf, File};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// Writes page after page durably, records the acknowledged ones, and writes pages that are not durable behind them.
fn durable_writer(acknowledged: Rc<Cell<u64>>) -> impl Fn(ShardId) -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
    move |_| {
        let acknowledged = acknowledged.clone();
        Box::pin(async move {
            file::create_dir_all(Path::new("/log/shard")).await.expect("made");
            let path = Path::new("/log/shard/0");
            let file = File::open(path, WRITABLE).await.expect("opened");
            file::sync_dir(Path::new("/log/shard")).await.expect("synced");
            let (result, _) = file.write_at(filled(0xee, 4), 16 * 4096).await;
            result.expect("written");
            for page in 0..4 {
                let (result, _) = file.write_durable(filled(page as u8 + 1, 1), page * 4096).await;
                result.expect("written");
                acknowledged.set(page + 1);
            }
            let (result, _) = file.write_at(filled(5, 1), 4 * 4096).await;
            result.expect("written");
            file.sync().await.expect("synced");
            acknowledged.set(5);
            // The write is dropped while it runs: its outcome is unknown until it completes.
            let again = file.write_at(filled(0xdd, 1), 15 * 4096);
            runtime::timeout(Duration::from_nanos(1), again).await;
            runtime::sleep(Duration::from_millis(5)).await;
        })
    }
}

#[test]
fn a_crash_at_any_step_keeps_durable_writes() {
    let (mut lost, mut torn, mut kept, mut unacknowledged) = (0, 0, 0, 0);
    for seed in 0..10 {
        for steps in 0.. {
            let mut sim = Sim::new(seed, Options::default());
            let acknowledged = Rc::new(Cell::new(0));
            sim.start_node(ONE, 1, durable_writer(acknowledged.clone()));
            let mut running = true;
            for _ in 0..steps {
                running = running && sim.step();
            }
            sim.crash(ONE);
            assert!(!sim.is_running(ONE));
            let contents = sim.read_file(ONE, Path::new("/log/shard/0")).unwrap_or_default();
            for page in 0..acknowledged.get() {
                let found = &contents[page as usize * 4096..][..4096];
                assert!(found.iter().all(|b| *b == page as u8 + 1), "seed {seed} steps {steps} page {page}");
            }
            let page = acknowledged.get() as usize;
            unacknowledged += usize::from(contents.get(page * 4096).is_some_and(|b| *b == page as u8 + 1));
            if let Some(tail) = contents.get(16 * 4096..20 * 4096) {
                let good = tail.chunks(512).filter(|sector| sector.iter().all(|b| *b == 0xee)).count();
                let empty = tail.chunks(512).filter(|sector| sector.iter().all(|b| *b == 0)).count();
                assert_eq!(good + empty, 32, "a sector is written whole or not at all");
                lost += usize::from(good == 0);
                kept += usize::from(good == 32);
                torn += usize::from(good > 0 && empty > 0);
            } else if page > 0 {
                lost += 1;
            }
            if !running {
                break;
            }
        }
    }
    assert!(lost > 0 && torn > 0 && kept > 0 && unacknowledged > 0, "{lost} {torn} {kept} {unacknowledged}");
}

#[test]
fn names_are_durable_after_a_sync_of_the_directory_only() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let mut sim = Sim::new(seed, Options::default());
        let synced = seed % 2 == 0;
        run(&mut sim, move |_| async move {
            let (from, to) = (Path::new("/a"), Path::new("/b"));
            let old = File::open(to, WRITABLE).await.expect("opened");
            old.write_durable(filled(1, 1), 0).await.0.expect("written");
            file::sync_dir(Path::new("/")).await.expect("synced");
            let new = File::open(from, WRITABLE).await.expect("opened");
            new.write_durable(filled(2, 1), 0).await.0.expect("written");
            file::rename(from, to).await.expect("renamed");
            assert_eq!(file::list_dir(Path::new("/")).await.expect("listed"), [to]);
            if synced {
                file::sync_dir(Path::new("/")).await.expect("synced");
            }
        });
        sim.crash(ONE);
        let first = |path| sim.read_file(ONE, Path::new(path)).map(|contents| contents[0]);
        let found = (first("/a"), first("/b"));
        if synced {
            assert_eq!(found, (None, Some(2)), "seed {seed}");
        }
        seen.insert(found);
    }
    let possible = [(None, Some(1)), (None, Some(2)), (Some(2), Some(1))];
    assert_eq!(seen, BTreeSet::from(possible));
}

#[test]
fn a_small_file_is_replaced_whole_or_not_at_all() {
    let mut seen = BTreeSet::new();
    for seed in 0..150 {
        let mut sim = Sim::new(seed, Options::default());
        let path = Path::new("/marker");
        run(&mut sim, move |_| async move {
            file::replace_small(path, &[1; 700]).await.expect("replaced");
            assert_eq!(file::read_small(path, 700).await.expect("read"), [1; 700]);
            let error = file::read_small(path, 699).await.expect_err("one byte over the limit");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        });
        let done = Rc::new(Cell::new(false));
        let flag = done.clone();
        sim.start_node(ONE, 1, move |_| {
            let flag = flag.clone();
            async move {
                file::replace_small(path, &[2; 5000]).await.expect("replaced");
                flag.set(true);
            }
        });
        for _ in 0..Rng::new(seed).below(30) {
            sim.step();
        }
        sim.crash(ONE);
        let contents = sim.read_file(ONE, path).expect("never lost");
        assert!(contents == [1; 700] && !done.get() || contents == [2; 5000], "seed {seed}");
        seen.insert(contents[0]);
    }
    assert_eq!(seen.len(), 2);
}

#[test]
fn errors_of_the_disk() {
    let mut sim = Sim::new(5, Options { disk_bytes: 8 * 4096, ..Options::default() });
    sim.fail_next_sync(ONE);
    run(&mut sim, |_| async {
        let path = Path::new("/full");
        let file = File::open(path, WRITABLE).await.expect("opened");
        file.write_at(filled(1, 8), 0).await.0.expect("the limit fits");
        let error = file.write_at(filled(1, 1), 8 * 4096).await.0.expect_err("one past it");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        file.write_at(filled(2, 8), 0).await.0.expect("overwriting takes no space");
        assert!(file.sync().await.is_err());
        assert!(file.sync().await.is_err() && file.len().await.is_err(), "poisoned");
        assert!(file.read_at(AlignedBuf::zeroed(4096), 0).await.0.is_err(), "poisoned");
        let again = File::open(path, WRITABLE).await.expect("opened");
        again.sync().await.expect("nothing left to fail");
        let missing = File::open(Path::new("/no/file"), WRITABLE).await.err().expect("no directory");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let exclusive = OpenOptions { exclusive: true, ..WRITABLE };
        let exists = File::open(path, exclusive).await.err().expect("exists");
        assert_eq!(exists.kind(), io::ErrorKind::AlreadyExists);
        drop((file, again));
        file::remove(path).await.expect("removed");
        assert_eq!(file::remove(path).await.expect_err("gone").kind(), io::ErrorKind::NotFound);
        file::sync_dir(Path::new("/")).await.expect("synced");
    });
    assert_eq!(sim.disk_used(ONE), 0);
    sim.set_disk_fault(ONE, |call, _| (call == DiskCall::Rename).then(|| io::ErrorKind::PermissionDenied.into()));
    run(&mut sim, |_| async {
        let error = file::replace_small(Path::new("/x"), b"1").await.expect_err("the hook says so");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let held = file::lock(Path::new("/lock")).await.expect("free");
        let error = file::lock(Path::new("/lock")).await.err().expect("held");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(held);
        std::mem::forget(file::lock(Path::new("/lock")).await.expect("free again"));
    });
    run(&mut sim, |_| async {
        file::lock(Path::new("/lock")).await.expect("the holder is gone");
    });
    assert!(sim.mutate_file(ONE, Path::new("/lock"), |contents| contents.push(1)));
    assert_eq!(sim.files(ONE), [("/lock".into(), 1), ("/x.tmp".into(), 1)]);
}

#[test]
fn errors_by_chance_happen() {
    let failed = Rc::new(Cell::new(0));
    let count = failed.clone();
    let mut sim = Sim::new(6, Options { disk_error: 0.1, ..Options::default() });
    run(&mut sim, move |_| {
        let count = count.clone();
        async move {
            let file = File::open(Path::new("/f"), WRITABLE).await.expect("opened");
            for _ in 0..200 {
                let (result, buffer) = file.write_at(filled(1, 1), 0).await;
                let (read, _) = file.read_at(buffer, 0).await;
                count.set(count.get() + usize::from(result.is_err()) + usize::from(read.is_err()));
            }
        }
    });
    assert!((10..100).contains(&failed.get()), "{}", failed.get());
}

#[test]
fn a_stopped_process_loses_nothing_but_a_later_power_failure_does() {
    let mut lost = 0;
    for seed in 0..20 {
        let mut sim = Sim::new(seed, Options::default());
        let path = Path::new("/f");
        run(&mut sim, move |_| async move {
            let file = File::open(path, WRITABLE).await.expect("opened");
            file::sync_dir(Path::new("/")).await.expect("synced");
            file.write_at(filled(1, 1), 0).await.0.expect("written");
        });
        assert_eq!(sim.read_file(ONE, path).expect("there").len(), 4096);
        sim.crash(ONE);
        lost += usize::from(sim.read_file(ONE, path).expect("there").is_empty());
        sim.wipe(ONE);
        assert!(sim.files(ONE).is_empty());
    }
    assert!(lost > 0 && lost < 20, "{lost}");
}

/// Pages of the file that [`shaker`] writes.
const PAGES: usize = 6;

/// What a crash may leave of each page: the numbers written there, ascending, and the number to write next.
type Possible = Rc<RefCell<[(Vec<u8>, u8); PAGES]>>;

/// Three tasks write numbered pages, sync now and then, and record what must survive a crash.
async fn shaker(possible: Possible, seed: u64) {
    let file = Rc::new(File::open(Path::new("/shaken"), WRITABLE).await.expect("opened"));
    file::sync_dir(Path::new("/")).await.expect("synced");
    let mut tasks = Vec::new();
    for task in 0..3 {
        let (file, possible) = (file.clone(), possible.clone());
        tasks.push(runtime::spawn(async move {
            let mut rng = Rng::new(seed * 3 + task as u64);
            // Only pages of this life: those of an earlier one may be torn.
            let mut written = BTreeMap::new();
            for _ in 0..12 {
                // Each task has pages of its own.
                let page = task + 3 * rng.below(PAGES as u64 / 3) as usize;
                let number = possible.borrow()[page].1;
                possible.borrow_mut()[page].1 += 1;
                possible.borrow_mut()[page].0.push(number);
                let durable = rng.below(3) == 0;
                let (buffer, offset) = (filled(number, 1), page as u64 * 4096);
                let (result, _) = match durable {
                    true => file.write_durable(buffer, offset).await,
                    false => file.write_at(buffer, offset).await,
                };
                result.expect("written");
                written.insert(page, number);
                let sure = |page: usize, number| possible.borrow_mut()[page].0.retain(|n| *n >= number);
                if durable {
                    sure(page, number);
                }
                if rng.below(4) == 0 {
                    file.sync().await.expect("synced");
                    written.iter().for_each(|(page, number)| sure(*page, *number));
                }
            }
        }));
    }
    for task in tasks {
        task.await;
    }
}

#[test]
fn what_a_crash_leaves_is_possible() {
    let (mut old, mut mixed) = (0, 0);
    for seed in 0..150 {
        let mut sim = Sim::new(seed, Options::default());
        let mut rng = Rng::new(seed);
        let possible: Possible = Rc::new(RefCell::new(std::array::from_fn(|_| (vec![0], 1))));
        for life in 0..4 {
            let shared = possible.clone();
            sim.start_node(ONE, 1, move |_| shaker(shared.clone(), seed * 4 + life));
            for _ in 0..rng.below(150) {
                sim.step();
            }
            if rng.below(4) == 0 {
                // Writes in flight go on, and would overtake those of the next life.
                sim.kill(ONE);
                sim.run_until(Duration::from_millis(5), || false);
                continue;
            }
            sim.crash(ONE);
            let contents = sim.read_file(ONE, Path::new("/shaken")).unwrap_or_default();
            let mut possible = possible.borrow_mut();
            for (page, (possible, _)) in possible.iter_mut().enumerate() {
                let found = contents.get(page * 4096..(page + 1) * 4096).unwrap_or(&[0; 4096]);
                let sectors: BTreeSet<u8> = found.chunks(512).map(|sector| sector[0]).collect();
                assert!(found.chunks(512).all(|sector| sector.iter().all(|b| *b == sector[0])));
                assert!(sectors.iter().all(|n| possible.contains(n)), "seed {seed}: {sectors:?} of {possible:?}");
                old += usize::from(sectors.iter().any(|n| n != possible.last().expect("one")));
                mixed += usize::from(sectors.len() > 1);
                // Everything that is there is durable, torn or not.
                possible.retain(|n| sectors.contains(n));
            }
        }
    }
    assert!(old > 100 && mixed > 50, "{old} {mixed}");
}

#[test]
#[should_panic(expected = "not aligned")]
fn unaligned_direct_writes_are_a_bug() {
    let mut sim = Sim::new(13, Options::default());
    run(&mut sim, |_| async {
        let file = File::open(Path::new("/f"), WRITABLE).await.expect("opened");
        let mut buffer = AlignedBuf::zeroed(4096);
        buffer.set_len(100);
        let _ = file.write_at(buffer, 0).await;
    });
}
