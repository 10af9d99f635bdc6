//! Tasks, classes, timers, clocks, gates.

use crate::world::World;
use runtime::gate::{Gate, Semaphore};
use runtime::{Class, now, sleep, sleep_until, spawn, spawn_in, timeout, yield_now};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

pub(crate) async fn join_returns_the_value(_: World) {
    let handles: Vec<_> = (0..100u64)
        .map(|i| {
            spawn(async move {
                for _ in 0..i % 7 {
                    yield_now().await;
                }
                i * i
            })
        })
        .collect();
    for (i, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.await, (i * i) as u64);
    }
    let dropped = Rc::new(Cell::new(false));
    let flag = dropped.clone();
    drop(spawn(async move { flag.set(true) }));
    while !dropped.get() {
        yield_now().await;
    }
}

pub(crate) async fn tasks_take_turns(_: World) {
    let running = Rc::new(Cell::new(2));
    let other = Rc::new(Cell::new(0u32));
    let tasks: Vec<_> = (0..2)
        .map(|_| {
            let (running, other) = (running.clone(), other.clone());
            spawn(async move {
                for _ in 0..1000 {
                    other.set(other.get() + 1);
                    yield_now().await;
                }
                running.set(running.get() - 1);
            })
        })
        .collect();
    for task in tasks {
        task.await;
    }
    assert_eq!((running.get(), other.get()), (0, 2000));
}

pub(crate) async fn a_busy_class_does_not_starve_another(_: World) {
    let stop = Rc::new(Cell::new(false));
    let mut busy = Vec::new();
    for _ in 0..4 {
        let stop = stop.clone();
        busy.push(spawn(async move {
            while !stop.get() {
                yield_now().await;
            }
        }));
    }
    for class in [Class::Log, Class::Flush, Class::Streaming, Class::Background] {
        spawn_in(class, async {
            for _ in 0..50 {
                yield_now().await;
            }
        })
        .await;
    }
    stop.set(true);
    for task in busy {
        task.await;
    }
}

pub(crate) async fn yield_if_needed_lets_others_run(_: World) {
    let stop = Rc::new(Cell::new(false));
    let flag = stop.clone();
    spawn(async move {
        sleep(Duration::from_millis(5)).await;
        flag.set(true);
    });
    // In the simulator time stands still within a poll: the plain yield is what ends the loop there.
    let mut turns = 0u64;
    while !stop.get() {
        runtime::yield_if_needed().await;
        turns += 1;
        if turns.is_multiple_of(1000) {
            yield_now().await;
        }
    }
}

pub(crate) async fn sleep_lasts(_: World) {
    for millis in [1, 3, 10] {
        let before = now();
        sleep(Duration::from_millis(millis)).await;
        assert!(now().since(before) >= Duration::from_millis(millis));
    }
}

pub(crate) async fn timers_fire_in_order(_: World) {
    let order = Rc::new(RefCell::new(Vec::new()));
    let start = now();
    let tasks: Vec<_> = [9u64, 1, 5, 3, 7]
        .into_iter()
        .map(|millis| {
            let order = order.clone();
            spawn(async move {
                sleep_until(start.after(Duration::from_millis(4 * millis))).await;
                order.borrow_mut().push(millis);
            })
        })
        .collect();
    for task in tasks {
        task.await;
    }
    assert_eq!(*order.borrow(), [1, 3, 5, 7, 9]);
}

pub(crate) async fn a_passed_deadline_still_yields(_: World) {
    let ran = Rc::new(Cell::new(false));
    let flag = ran.clone();
    spawn(async move { flag.set(true) });
    // The other task need not run during the first of these calls, but a loop of them must not starve it.
    while !ran.get() {
        sleep(Duration::ZERO).await;
    }
}

pub(crate) async fn timeout_drops_what_is_late(_: World) {
    assert_eq!(timeout(Duration::from_secs(5), async { 7 }).await, Some(7));
    struct Flag(Rc<Cell<bool>>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let dropped = Rc::new(Cell::new(false));
    let flag = Flag(dropped.clone());
    let late = async move {
        let _flag = flag;
        sleep(Duration::from_secs(3600)).await;
    };
    let mut kept = std::pin::pin!(timeout(Duration::from_millis(2), late));
    assert_eq!(kept.as_mut().await, None);
    assert!(dropped.get(), "while the timeout itself is still there");
}

pub(crate) async fn clocks_advance_together(_: World) {
    let (instant, wall) = (now(), runtime::wall_micros());
    sleep(Duration::from_millis(20)).await;
    let (elapsed, wall_elapsed) = (now().since(instant), runtime::wall_micros() - wall);
    assert!(elapsed >= Duration::from_millis(20));
    // The two clocks are not read at the same moment, and other processes may run in between.
    assert!((wall_elapsed - elapsed.as_micros() as i64).abs() < 500_000, "{wall_elapsed} us of {elapsed:?}");
    assert!(wall > 1_500_000_000_000_000, "a date after 2017");
}

pub(crate) async fn random_words_differ(world: World) {
    let mine = runtime::rng::u64();
    assert_ne!(mine, runtime::rng::u64());
    let (a, b) = if runtime::current_shard().0 == 0 { ("first", "second") } else { ("second", "first") };
    world.put(a, mine);
    assert_ne!(world.wait_for(b, 0).await, mine);
    assert!((0..1000).all(|_| runtime::rng::below(10) < 10));
}

pub(crate) async fn a_gate_waits_for_its_passes(_: World) {
    let gate = Gate::new();
    let left = Rc::new(Cell::new(0));
    for millis in [3, 1, 2] {
        let (pass, left) = (gate.enter().unwrap(), left.clone());
        spawn(async move {
            sleep(Duration::from_millis(millis)).await;
            left.set(left.get() + 1);
            drop(pass);
        });
    }
    gate.close().await;
    assert_eq!(left.get(), 3);
    assert!(gate.enter().is_none());
}

pub(crate) async fn a_semaphore_is_fair(_: World) {
    let semaphore = Semaphore::new(10);
    let first = semaphore.acquire(8).await;
    let order = Rc::new(RefCell::new(Vec::new()));
    let mut tasks = Vec::new();
    // The last one would fit beside the first, but must not overtake the second.
    for units in [9, 2, 1] {
        let (waiting, order) = (semaphore.clone(), order.clone());
        tasks.push(spawn(async move {
            let _permit = waiting.acquire(units).await;
            order.borrow_mut().push(units);
        }));
        // Each gets in line before the next one starts.
        for _ in 0..10 {
            yield_now().await;
        }
        sleep(Duration::from_millis(1)).await;
    }
    assert!(semaphore.try_acquire(1).is_none(), "nobody overtakes the line");
    drop(first);
    for task in tasks {
        task.await;
    }
    assert_eq!((order.borrow()[0], semaphore.free()), (9, 10));
}

pub(crate) async fn a_dropped_waiter_leaves_the_line(_: World) {
    let semaphore = Semaphore::new(1);
    let held = semaphore.acquire(1).await;
    assert!(timeout(Duration::from_millis(1), semaphore.acquire(1)).await.is_none());
    drop(held);
    assert!(semaphore.try_acquire(1).is_some());
}

pub(crate) async fn every_shard_knows_its_place(world: World) {
    assert_eq!(runtime::shard_count(), 3);
    world.add("shards", 1 << (8 * runtime::current_shard().0));
    world.wait_for("shards", 0x01_01_01).await;
    assert_eq!(world.get("shards"), Some(0x01_01_01));
}

pub(crate) async fn shards_go_on_until_all_mains_returned(world: World) {
    if runtime::current_shard().0 == 1 {
        world.wait_for("returning", 1).await;
        // A task that shard 0 left behind still runs.
        let seen = world.wait_for("ticks", 1).await;
        world.wait_for("ticks", seen + 3).await;
        return;
    }
    let ticking = world.clone();
    spawn(async move {
        loop {
            sleep(Duration::from_millis(1)).await;
            ticking.add("ticks", 1);
        }
    });
    world.put("returning", 1);
}
