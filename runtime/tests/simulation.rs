//! The simulator keeps its promises: equal runs, faulty disks, cut networks, crashes between any two steps.

use runtime::file::{self, OpenOptions};
use runtime::mesh::{Mesh, NodeId, ShardId};
use runtime::rng::Rng;
use runtime::sim::{DiskCall, Options, Sim, Stop};
use runtime::{AlignedBuf, Endpoint, File, Listener, Stream};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);
const WRITABLE: OpenOptions = OpenOptions { write: true, create: true, exclusive: false };
const LONG: Duration = Duration::from_secs(600);

fn filled(byte: u8, pages: usize) -> AlignedBuf {
    let mut buffer = AlignedBuf::zeroed(pages * 4096);
    buffer.fill(byte);
    buffer
}

fn at(node: NodeId, port: u16) -> SocketAddr {
    SocketAddr::new(Sim::address_of(node), port)
}

/// Runs one `main` on one shard of node 1 until it returns.
fn run<Fut: Future<Output = ()> + 'static>(sim: &mut Sim, main: impl Fn(ShardId) -> Fut + 'static) {
    sim.start_node(ONE, 1, main);
    let stop = sim.run_until(LONG, || false);
    assert!(!sim.is_running(ONE), "seed {}: {stop:?}", sim.seed());
}

/// Sends what it receives back, on every connection.
async fn echo(port: u16) {
    let listener = Listener::bind(at(runtime::current_node(), port)).await.expect("the port is free");
    loop {
        let accepted = listener.accept().await.expect("accept");
        let stream = accepted.attach().expect("attach");
        runtime::spawn(async move {
            while let Ok(Some(bytes)) = stream.recv().await {
                stream.write(|out| out.extend_from_slice(&bytes));
                if stream.drained_to(1 << 16).await.is_err() {
                    return;
                }
            }
        });
    }
}

async fn read_exact(stream: &Stream, len: usize) -> io::Result<Vec<u8>> {
    let mut got = Vec::new();
    while got.len() < len {
        match stream.recv().await? {
            Some(bytes) => got.extend_from_slice(&bytes),
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
    Ok(got)
}

async fn connect(address: SocketAddr) -> Stream {
    loop {
        match Stream::connect(address, None).await {
            Ok(stream) => return stream,
            Err(_) => runtime::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Two nodes that use everything; the trace hash, steps and virtual time of the run.
fn sample(seed: u64) -> (u64, u64, u64) {
    let options = Options { disk_error: 0.01, network_reset: 0.001, ..Options::default() };
    let mut sim = Sim::new(seed, options);
    sim.start_node(TWO, 1, |_| echo(9000));
    let mesh: Mesh<u64> = Mesh::simulated(3, 4);
    sim.start_node(ONE, 3, move |shard| {
        let mesh = mesh.clone();
        async move {
            let end = mesh.attach();
            let next = ShardId((shard.0 + 1) % 3);
            for n in 0..50 {
                end.send(next, runtime::rng::below(100) + n).await;
                end.recv().await;
            }
            let path = format!("/data-{shard}");
            let file = File::open(Path::new(&path), WRITABLE).await.expect("opened");
            for n in 0..20 {
                let (_, buffer) = file.write_at(filled(n as u8, 2), n * 8192).await;
                let _ = if runtime::fault::buggify("sample") { file.write_durable(buffer, 0).await.0 } else { Ok(()) };
            }
            let _ = file.sync().await;
            let stream = connect(at(TWO, 9000)).await;
            for _ in 0..10 {
                stream.write(|out| out.extend_from_slice(&[7; 5000]));
                if read_exact(&stream, 5000).await.is_err() {
                    break;
                }
            }
        }
    });
    assert_eq!(sim.run_until(LONG, || false), Stop::Idle);
    assert!(!sim.is_running(ONE));
    sim.crash(TWO);
    (sim.trace_hash(), sim.steps(), sim.now().0)
}

#[test]
fn equal_seeds_give_equal_traces() {
    let mut hashes = BTreeSet::new();
    for seed in 0..20 {
        let first = sample(seed);
        assert_eq!(first, sample(seed), "seed {seed}");
        hashes.insert(first.0);
    }
    assert_eq!(hashes.len(), 20, "another seed is another run");
}

#[test]
fn time_is_virtual_and_timers_fire_in_order() {
    let mut sim = Sim::new(1, Options::default());
    let order = Rc::new(RefCell::new(Vec::new()));
    let log = order.clone();
    run(&mut sim, move |_| {
        let log = log.clone();
        async move {
            let begin = runtime::now();
            let mut tasks = Vec::new();
            for hours in [3u64, 1, 2] {
                let log = log.clone();
                tasks.push(runtime::spawn(async move {
                    runtime::sleep(Duration::from_secs(60 * hours)).await;
                    log.borrow_mut().push(hours);
                }));
            }
            assert!(runtime::timeout(Duration::from_secs(30), std::future::pending::<()>()).await.is_none());
            for task in tasks {
                task.await;
            }
            let taken = runtime::now().since(begin);
            assert!(taken >= Duration::from_secs(180) && taken < Duration::from_secs(181), "{taken:?}");
        }
    });
    assert_eq!(*order.borrow(), [1, 2, 3]);
}

#[test]
fn a_cancelled_timer_takes_no_time() {
    let mut sim = Sim::new(2, Options::default());
    run(&mut sim, |_| async {
        assert!(runtime::timeout(Duration::from_secs(500), runtime::yield_now()).await.is_some());
    });
    assert!(sim.now().0 < 1_000_000_000);
}

#[test]
fn a_loop_that_watches_the_clock_ends() {
    let mut sim = Sim::new(3, Options::default());
    run(&mut sim, |_| async {
        let end = runtime::now().after(Duration::from_millis(1));
        while runtime::now() < end {}
        let end = runtime::now().after(Duration::from_millis(1));
        while runtime::now() < end {
            runtime::yield_if_needed().await;
        }
    });
}

#[test]
fn wall_clocks_are_skewed_and_never_go_back() {
    let shown = Rc::new(RefCell::new(Vec::new()));
    let mut sim = Sim::new(4, Options::default());
    for id in [ONE, TWO] {
        let shown = shown.clone();
        sim.start_node(id, 1, move |_| {
            let shown = shown.clone();
            async move {
                let mut last = 0;
                for _ in 0..100 {
                    let now = runtime::wall_micros();
                    assert!(now >= last);
                    last = now;
                    runtime::sleep(Duration::from_millis(10)).await;
                }
                shown.borrow_mut().push(last);
            }
        });
    }
    sim.run_until(Duration::from_millis(500), || false);
    sim.step_wall_clock(ONE, -5_000_000);
    sim.run_until(LONG, || false);
    let shown = shown.borrow();
    assert!(shown.len() == 2 && shown[0] != shown[1]);
}

/// Writes page after page durably, says which ones were acknowledged, and puts pages that are not durable behind.
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
            // Dropped while it runs: unknown until it is done, then like any other.
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

#[test]
fn two_nodes_talk_under_back_pressure() {
    let mut sim = Sim::new(7, Options::default());
    const BYTES: usize = 1 << 20;
    sim.start_node(TWO, 1, |_| async {
        let listener = Listener::bind(at(TWO, 0)).await.expect("a free port");
        assert!(listener.local_address().port() > 0);
        let listener = Listener::bind(at(TWO, 9000)).await.expect("free");
        let taken = Listener::bind(at(TWO, 9000)).await.err().expect("taken");
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        let accepted = listener.accept().await.expect("accepted");
        assert_eq!(accepted.peer(), at(ONE, 40_000));
        let stream = accepted.attach().expect("attached");
        stream.pause();
        runtime::sleep(Duration::from_secs(5)).await;
        stream.resume();
        let got = read_exact(&stream, BYTES).await.expect("all of it");
        assert!(got.iter().enumerate().all(|(n, b)| *b == (n / 7) as u8), "in order");
        stream.write(|out| out.extend_from_slice(b"done"));
        drop(stream);
    });
    run(&mut sim, |_| async {
        let stream = loop {
            match Stream::connect(at(TWO, 9000), Some(at(ONE, 40_000))).await {
                Ok(stream) => break stream,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused),
            }
        };
        let again = Stream::connect(at(TWO, 9000), Some(at(ONE, 40_000))).await.err().expect("port in use");
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
        stream.write(|out| out.extend((0..BYTES).map(|n| (n / 7) as u8)));
        assert_eq!(stream.queued(), BYTES);
        let begin = runtime::now();
        assert!(runtime::timeout(Duration::from_secs(4), stream.drained_to(0)).await.is_none());
        assert!(stream.queued() > BYTES / 2 && stream.queued() < BYTES);
        stream.drained_to(0).await.expect("drained");
        assert!(runtime::now().since(begin) > Duration::from_secs(4));
        assert_eq!(read_exact(&stream, 4).await.expect("sent before the drop"), b"done");
        assert!(stream.recv().await.expect("the end").is_none());
        stream.shutdown();
        assert!(stream.recv().await.expect("closed here").is_none());
        assert!(stream.drained_to(0).await.is_err());
    });
}

#[test]
fn a_cut_network_holds_bytes_up_until_it_heals() {
    let mut sim = Sim::new(8, Options::default());
    sim.start_node(TWO, 1, |_| echo(9000));
    let received = Rc::new(Cell::new(0));
    let timed_out = Rc::new(Cell::new(false));
    let (count, late) = (received.clone(), timed_out.clone());
    sim.start_node(ONE, 1, move |_| {
        let (count, late) = (count.clone(), late.clone());
        async move {
            let stream = connect(at(TWO, 9000)).await;
            for _ in 0..1000 {
                stream.write(|out| out.extend_from_slice(b"ping"));
                read_exact(&stream, 4).await.expect("echoed");
                count.set(count.get() + 1);
            }
            stream.write(|out| out.extend_from_slice(&[1; 500_000]));
            read_exact(&stream, 500_000).await.expect("echoed");
            drop(stream);
            count.set(count.get() + 1);
            runtime::sleep(Duration::from_secs(1)).await;
            let error = Stream::connect(at(TWO, 9000), None).await.err().expect("cut");
            late.set(error.kind() == io::ErrorKind::TimedOut);
        }
    });
    for _ in 0..5 {
        let stop = sim.run_until(LONG, || received.get() % 7 == 6);
        assert_eq!(stop, Stop::Condition);
        sim.partition(ONE, TWO, true);
        let before = received.get();
        sim.run_until(Duration::from_secs(20), || false);
        assert!(received.get() <= before + 1, "what had arrived already");
        sim.partition(ONE, TWO, false);
        let stop = sim.run_until(LONG, || received.get() > before + 1);
        assert_eq!(stop, Stop::Condition);
    }
    assert_eq!(sim.run_until(LONG, || received.get() == 1001), Stop::Condition);
    sim.partition_one_way(TWO, ONE, true);
    assert_eq!(sim.run_until(LONG, || timed_out.get()), Stop::Condition);
}

#[test]
fn peers_of_a_crashed_node_notice() {
    let mut slow = 0;
    for seed in 0..20 {
        let mut sim = Sim::new(seed, Options::default());
        sim.start_node(TWO, 1, |_| echo(9000));
        let connected = Rc::new(Cell::new(false));
        let flag = connected.clone();
        sim.start_node(ONE, 1, move |_| {
            let flag = flag.clone();
            async move {
                let stream = connect(at(TWO, 9000)).await;
                flag.set(true);
                assert!(!matches!(stream.recv().await, Ok(Some(_))));
            }
        });
        assert_eq!(sim.run_until(LONG, || connected.get()), Stop::Condition);
        let before = sim.now();
        if seed % 2 == 0 {
            sim.crash(TWO)
        } else {
            sim.kill(TWO)
        }
        sim.run_until(LONG, || false);
        assert!(!sim.is_running(ONE), "seed {seed}");
        slow += usize::from(sim.now().since(before) > Duration::from_secs(1));
    }
    assert!(slow > 0, "some crash leaves a connection half open for a while");
}

#[test]
fn resets_by_chance_happen() {
    let mut sim = Sim::new(9, Options { network_reset: 0.05, ..Options::default() });
    sim.start_node(TWO, 1, |_| echo(9000));
    run(&mut sim, |_| async {
        let mut broken = 0;
        while broken < 5 {
            let stream = connect(at(TWO, 9000)).await;
            for _ in 0..200 {
                stream.write(|out| out.extend_from_slice(b"ping"));
                if read_exact(&stream, 4).await.is_err() {
                    broken += 1;
                    break;
                }
            }
        }
    });
}

#[test]
fn the_mesh_keeps_order_and_bounds_under_load() {
    const SHARDS: u16 = 4;
    const MESSAGES: u64 = 500;
    for seed in 0..3 {
        let mut sim = Sim::new(seed, Options::default());
        let mesh: Mesh<u64> = Mesh::simulated(usize::from(SHARDS), 8);
        sim.start_node(ONE, usize::from(SHARDS), move |shard| {
            let mesh = mesh.clone();
            async move {
                let end = Rc::new(mesh.attach());
                let senders: Vec<_> = (0..SHARDS)
                    .filter(|to| *to != shard.0)
                    .map(|to| {
                        let end = end.clone();
                        runtime::spawn(async move {
                            for n in 0..MESSAGES {
                                end.send(ShardId(to), n).await;
                            }
                        })
                    })
                    .collect();
                let mut next = [0; SHARDS as usize];
                for _ in 0..MESSAGES * u64::from(SHARDS - 1) {
                    let (from, n) = end.recv().await;
                    assert_eq!(n, next[usize::from(from.0)]);
                    next[usize::from(from.0)] += 1;
                }
                for sender in senders {
                    sender.await;
                }
                assert_eq!(end.sent(), MESSAGES * u64::from(SHARDS - 1));
                assert!(end.try_recv().is_none());
            }
        });
        assert_eq!(sim.run_until(LONG, || false), Stop::Idle);
        assert!(!sim.is_running(ONE));
    }
}

#[test]
fn a_full_mesh_queue_gives_the_message_back() {
    let mut sim = Sim::new(10, Options::default());
    let mesh: Mesh<u64> = Mesh::simulated(2, 3);
    sim.start_node(ONE, 2, move |shard| {
        let mesh = mesh.clone();
        async move {
            let end = mesh.attach();
            if shard.0 == 0 {
                // Capacities are rounded up to a power of two.
                (0..4).for_each(|n| assert!(end.try_send(ShardId(1), n).is_ok()));
                assert_eq!(end.try_send(ShardId(1), 4), Err(4));
                end.send(ShardId(1), 4).await;
            } else {
                runtime::sleep(Duration::from_secs(1)).await;
                for n in 0..5 {
                    assert_eq!(end.recv().await, (ShardId(0), n));
                }
            }
        }
    });
    sim.run_until(LONG, || false);
    assert!(!sim.is_running(ONE));
}

/// Calls the runtime when dropped, as guards of real code do.
struct Busy {
    stream: Rc<Stream>,
    end: Rc<Endpoint<u64>>,
    dropped: Rc<Cell<usize>>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stream.write(|out| out.extend_from_slice(b"bye"));
        self.stream.shutdown();
        let _ = self.end.try_send(ShardId(1), 1);
        runtime::fault::reached("dropped");
        self.dropped.set(self.dropped.get() + 1);
    }
}

#[test]
fn a_crash_drops_tasks_without_effects() {
    for seed in 0..20 {
        let mut sim = Sim::new(seed, Options::default());
        sim.start_node(TWO, 1, |_| echo(9000));
        let dropped = Rc::new(Cell::new(0));
        let ready = Rc::new(Cell::new(false));
        let mesh: Mesh<u64> = Mesh::simulated(2, 8);
        let (count, flag) = (dropped.clone(), ready.clone());
        sim.start_node(ONE, 2, move |_| {
            let (mesh, count, flag) = (mesh.clone(), count.clone(), flag.clone());
            async move {
                let end = Rc::new(mesh.attach());
                if runtime::current_shard() == ShardId(0) {
                    let stream = Rc::new(connect(at(TWO, 9000)).await);
                    for _ in 0..10 {
                        let busy = Busy { stream: stream.clone(), end: end.clone(), dropped: count.clone() };
                        runtime::spawn(async move {
                            let _busy = busy;
                            let _lock = file::lock(Path::new("/lock")).await;
                            runtime::sleep(Duration::from_secs(3600)).await;
                        });
                    }
                    flag.set(true);
                }
                std::future::pending::<()>().await;
            }
        });
        assert_eq!(sim.run_until(LONG, || ready.get()), Stop::Condition);
        assert_eq!(sim.tasks(ONE), 12);
        for _ in 0..seed {
            sim.step();
        }
        sim.crash(ONE);
        assert_eq!(dropped.get(), 10);
        assert!(sim.reached().is_empty());
        sim.run_until(LONG, || false);
    }
}

#[test]
fn a_node_is_asked_to_stop() {
    let mut sim = Sim::new(11, Options::default());
    sim.start_node(ONE, 2, |shard| async move {
        if shard.0 == 0 {
            runtime::signal::terminated().await;
            runtime::fault::reached("terminated");
        }
    });
    assert_eq!(sim.run_until(LONG, || false), Stop::Idle);
    assert!(sim.is_running(ONE));
    sim.terminate(ONE);
    sim.run_until(LONG, || false);
    assert!(!sim.is_running(ONE));
    assert_eq!(sim.reached(), BTreeSet::from(["terminated"]));
}

#[test]
fn a_quarter_of_the_sites_fires_a_quarter_of_the_time() {
    let (mut enabled, mut fired) = (0, 0);
    for seed in 0..400 {
        let hits = Rc::new(Cell::new(0));
        let count = hits.clone();
        let mut sim = Sim::new(seed, Options::default());
        run(&mut sim, move |_| {
            let count = count.clone();
            async move { count.set((0..100).filter(|_| runtime::fault::buggify("site")).count()) }
        });
        enabled += usize::from(hits.get() > 0);
        fired += hits.get();
    }
    assert!((60..140).contains(&enabled), "{enabled}");
    assert!((15..35).contains(&(fired / enabled)), "{}", fired / enabled);
}

#[test]
fn a_paused_node_polls_nothing() {
    let mut sim = Sim::new(12, Options::default());
    let ticks = Rc::new(Cell::new(0));
    let count = ticks.clone();
    sim.start_node(ONE, 1, move |_| {
        let count = count.clone();
        async move {
            loop {
                runtime::sleep(Duration::from_millis(1)).await;
                count.set(count.get() + 1);
            }
        }
    });
    sim.run_until(Duration::from_millis(100), || false);
    let before = ticks.get();
    sim.pause(ONE, Duration::from_secs(1));
    sim.run_until(Duration::from_millis(900), || false);
    assert_eq!(ticks.get(), before);
    assert_eq!(sim.run_until(Duration::from_secs(2), || ticks.get() > before), Stop::Condition);
}

/// Pages of the file that [`shaker`] writes.
const PAGES: usize = 6;

/// What a crash may leave of each page: the numbers written there, ascending, and the number to write next.
type Possible = Rc<RefCell<[(Vec<u8>, u8); PAGES]>>;

/// Three tasks write numbered pages, sync at times, and keep book of what they may rely on.
async fn shaker(possible: Possible, seed: u64) {
    let file = Rc::new(File::open(Path::new("/shaken"), WRITABLE).await.expect("opened"));
    file::sync_dir(Path::new("/")).await.expect("synced");
    let mut tasks = Vec::new();
    for task in 0..3 {
        let (file, possible) = (file.clone(), possible.clone());
        tasks.push(runtime::spawn(async move {
            let mut rng = Rng::new(seed * 3 + task as u64);
            // Of this life: what an earlier one has left may be torn.
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
                // What is in flight goes on, and would overtake writes of the next life.
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
                // All that is there now is durable, mixed or not.
                possible.retain(|n| sectors.contains(n));
            }
        }
    }
    assert!(old > 100 && mixed > 50, "{old} {mixed}");
}

#[test]
fn a_backlog_holds_1024_connections() {
    let mut sim = Sim::new(14, Options::default());
    let (connected, late) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (count, slow) = (connected.clone(), late.clone());
    sim.start_node(TWO, 1, |_| async {
        let listener = Listener::bind(at(TWO, 9000)).await.expect("free");
        runtime::sleep(Duration::from_millis(900)).await;
        for _ in 0..1025 {
            std::mem::forget(listener.accept().await.expect("accepted"));
        }
        std::future::pending::<()>().await;
    });
    sim.start_node(ONE, 1, move |_| {
        let (count, slow) = (count.clone(), slow.clone());
        async move {
            runtime::sleep(Duration::from_millis(100)).await;
            let begin = runtime::now();
            for _ in 0..1025 {
                let (count, slow) = (count.clone(), slow.clone());
                runtime::spawn(async move {
                    let _stream = Stream::connect(at(TWO, 9000), None).await.expect("connected");
                    count.set(count.get() + 1);
                    let delay = runtime::now().since(begin);
                    slow.set(slow.get() + usize::from(delay > Duration::from_millis(500)));
                    std::future::pending::<()>().await;
                });
            }
            std::future::pending::<()>().await;
        }
    });
    assert_eq!(sim.run_until(LONG, || connected.get() == 1025), Stop::Condition);
    assert_eq!(late.get(), 1, "one past the limit is asked again");
}

#[test]
fn a_window_holds_128_kibibytes() {
    for (bytes, left) in [(128 << 10, 0), ((128 << 10) + 1, 1)] {
        let mut sim = Sim::new(15, Options::default());
        sim.start_node(TWO, 1, |_| async {
            let listener = Listener::bind(at(TWO, 9000)).await.expect("free");
            let _stream = listener.accept().await.expect("accepted").attach().expect("attached");
            std::future::pending::<()>().await;
        });
        run(&mut sim, move |_| async move {
            let stream = connect(at(TWO, 9000)).await;
            stream.write(|out| out.resize(bytes, 1));
            runtime::sleep(Duration::from_secs(1)).await;
            assert_eq!(stream.queued(), left);
        });
    }
}

#[test]
#[should_panic(expected = "node ids fit 16 bits")]
fn node_ids_fit_16_bits() {
    let mut sim = Sim::new(16, Options::default());
    sim.start_node(NodeId(65_535), 1, |_| async {});
    sim.start_node(NodeId(65_536), 1, |_| async {});
}

#[test]
fn a_sweep_meets_calm_and_bad_worlds() {
    let all: Vec<Options> = (0..100).map(Options::of_seed).collect();
    let calm: [fn(&Options) -> bool; 3] = [|o| o.disk_error == 0.0, |o| o.network_reset == 0.0, |o| !o.buggify];
    for calm in calm {
        assert!((10..90).contains(&all.iter().filter(|o| calm(o)).count()));
    }
    assert!(all.iter().all(|o| o.disk_latency.0 <= o.disk_latency.1 && o.network_latency.0 <= o.network_latency.1));
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
