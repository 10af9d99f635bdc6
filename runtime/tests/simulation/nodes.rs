//! Nodes and shards: repeatable runs, clocks, the mesh, crashes and stops.

use super::{LONG, ONE, TWO, WRITABLE, at, connect, echo, filled, read_exact, run};
use runtime::mesh::{Mesh, NodeId, ShardId};
use runtime::sim::{Options, Sim, Stop};
use runtime::{Endpoint, File, Stream, file};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// Runs two nodes that use everything; returns the trace hash, the steps and the virtual time of the run.
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

thread_local! {
    static POLLS: Cell<u64> = const { Cell::new(0) };
}

#[test]
fn polls_of_a_node_and_bytes_between_nodes_are_seen_from_outside() {
    let mut sim = Sim::new(1, Options::default());
    sim.start_node(TWO, 1, |_| echo(9000));
    sim.start_node(ONE, 1, |_| async {
        let stream = connect(at(TWO, 9000)).await;
        stream.write(|out| out.extend_from_slice(&[7; 5000]));
        read_exact(&stream, 5000).await.expect("the echo");
    });
    sim.poll_through(ONE, |poll| {
        POLLS.set(POLLS.get() + 1);
        poll();
    });
    sim.run_until(LONG, || false);
    assert!(!sim.is_running(ONE) && POLLS.get() >= 2, "{} polls", POLLS.get());
    assert_eq!((sim.bytes(ONE, TWO), sim.bytes(TWO, ONE), sim.bytes(TWO, TWO)), (5000, 5000, 0));
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
        assert_eq!(runtime::now_if_running(), None);
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
                    assert!(runtime::now_if_running().is_some());
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
    sim.forget_reached();
    assert!(sim.reached().is_empty());
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
fn nodes_that_believe_different_things_contradict_each_other() {
    let mut sim = Sim::new(1, Options::default());
    let tell = |sim: &mut Sim, node: u32, history: u128, at: u64, belief: u64| {
        sim.start_node(NodeId(node), 1, move |_| async move { runtime::fault::believe(history, at, || belief) });
        sim.run_until(Duration::from_secs(1), || false);
        sim.contradiction()
    };
    for (node, history, at, belief) in [(1, 7, 1, 10), (2, 7, 1, 10), (2, 7, 2, 20), (3, 8, 1, 30)] {
        assert_eq!(tell(&mut sim, node, history, at, belief), None);
    }
    let told = Some("nodes 2 and 3 believe different things at 2".to_owned());
    assert_eq!(tell(&mut sim, 3, 7, 2, 21), told);
    assert_eq!(tell(&mut sim, 1, 7, 1, 11), told, "the first one is kept");
}

#[test]
fn a_node_runs_to_its_result() {
    let mut sim = Sim::new(5, Options::default());
    let slept = sim.run_node(ONE, Duration::from_secs(9), || async {
        runtime::sleep(Duration::from_secs(3)).await;
        7
    });
    assert_eq!(slept, 7);
    assert!(sim.now().0 < 9_000_000_000, "it is not waited for the limit");
}

#[test]
#[should_panic(expected = "the node has ended in time")]
fn a_node_that_takes_longer_than_its_limit_is_told() {
    Sim::new(6, Options::default()).run_node(ONE, Duration::from_secs(2), || runtime::sleep(Duration::from_secs(3)));
}
