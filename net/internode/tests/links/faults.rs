//! Cut, broken, slow and silent: every call ends in time and says what it knows.

use crate::world::{ECHO, HOLD, LATER, Node, ONE, SECOND, TWO, address, run, run_on, within};
use internode::{CallError, Lane, Links, Options, Presence, REST_MAX};
use runtime::Instant;
use runtime::sim::{self, Sim};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

fn sim(seed: u64) -> Sim {
    Sim::new(seed, sim::Options::default())
}

async fn echo(links: &Links, body: &[u8], time: Duration) -> Result<Vec<u8>, CallError> {
    links.call(address(TWO), Lane::Requests, ECHO, body, within(time)).await
}

/// Calls until an answer comes.
async fn until_answered(links: &Links) {
    while echo(links, b"again", SECOND).await.is_err() {
        runtime::sleep(SECOND / 100).await;
    }
}

/// Runs `sim` for `time` of its own.
fn pass(sim: &mut Sim, time: Duration) {
    sim.run_until(time, || false);
}

/// Starts both nodes and lets node 1 connect to node 2.
fn connected(sim: &mut Sim, one: &Node, two: &Node) {
    two.listen(sim);
    run(sim, one, |links| async move { until_answered(&links).await });
}

/// How long each call took and what it gave.
type Results = Rc<RefCell<Vec<(Duration, Result<Vec<u8>, CallError>)>>>;

/// Starts node 1, which calls as often as `calls` asks for, each with a deadline of a second.
fn caller(sim: &mut Sim, one: &Node) -> (Rc<Cell<u32>>, Results) {
    let (wanted, results) = (Rc::new(Cell::new(0)), Results::default());
    let (asked, gathered) = (wanted.clone(), results.clone());
    one.start(sim, move |_, links| {
        let (wanted, results) = (wanted.clone(), results.clone());
        async move {
            loop {
                while wanted.get() > 0 {
                    wanted.set(wanted.get() - 1);
                    let (links, results) = (links.clone(), results.clone());
                    runtime::spawn(async move {
                        let began = runtime::now();
                        let result = echo(&links, b"x", SECOND).await;
                        results.borrow_mut().push((runtime::now().since(began), result));
                    });
                }
                runtime::sleep(SECOND / 1000).await;
            }
        }
    });
    (asked, gathered)
}

#[test]
fn what_expired_on_its_way_is_dropped_by_the_receiver_and_counted() {
    let (mut sim, one, two) = (sim(1), Node::new(ONE, 1), Node::new(TWO, 1));
    two.listen(&mut sim);
    let (calls, results) = caller(&mut sim, &one);
    calls.set(1);
    pass(&mut sim, SECOND);
    assert_eq!(results.borrow()[0].1, Ok(b"x".to_vec()));
    sim.partition_one_way(ONE, TWO, true);
    calls.set(3);
    pass(&mut sim, 3 * SECOND);
    for (took, result) in &results.borrow()[1..] {
        assert_eq!(*result, Err(CallError::Expired));
        assert!((SECOND..SECOND * 11 / 10).contains(took));
    }
    assert_eq!(results.borrow().len(), 4);
    sim.partition_one_way(ONE, TWO, false);
    calls.set(1);
    pass(&mut sim, SECOND);
    assert_eq!(results.borrow()[4].1, Ok(b"x".to_vec()), "the connection goes on");
    assert_eq!(two.seen.borrow().len(), 2, "nobody waits for the others");
    assert_eq!(two.link(0).inbound()[0].1.expired.count, 3);
    assert_eq!(two.link(0).drops(), [(ECHO, 3)]);
}

#[test]
fn what_expires_in_the_queue_is_dropped_by_the_sender_and_counted() {
    let (mut sim, one, two) = (sim(2), Node::new(ONE, 1), Node::new(TWO, 1));
    connected(&mut sim, &one, &two);
    let before = two.seen.borrow().len();
    sim.partition(ONE, TWO, true);
    // More than the window, then messages that soon expire.
    run_on(&mut sim, &one, |links| {
        for n in 0..20 {
            let time = if n < 5 { 100 * SECOND } else { SECOND };
            links.post(address(TWO), Lane::Requests, ECHO, &[n; 100_000], within(time)).expect("room");
        }
    });
    pass(&mut sim, 10 * SECOND);
    let metrics = one.link(0).outbound()[0].1;
    assert!(metrics.expired.count >= 14, "{metrics:?}");
    assert_eq!(one.link(0).drops(), [(ECHO, metrics.expired.count)]);
    sim.partition(ONE, TWO, false);
    pass(&mut sim, 5 * SECOND);
    assert_eq!(two.seen.borrow().len() - before, 5, "those that have not expired arrive");
    assert_eq!(one.link(0).outbound()[0].1.using_bytes, 0);
}

#[test]
fn calls_to_a_node_that_is_not_there_fail_at_once_and_attempts_are_spaced() {
    let (mut sim, one, two) = (sim(3), Node::new(ONE, 1), Node::new(TWO, 1));
    let (calls, results) = caller(&mut sim, &one);
    for _ in 0..1000 {
        calls.set(calls.get() + 1);
        pass(&mut sim, SECOND / 100);
    }
    for (took, result) in &*results.borrow() {
        assert_eq!(*result, Err(CallError::Unreachable));
        assert!(*took < SECOND / 50);
    }
    let attempts = one.link(0).outbound()[0].1.connection_attempts;
    // Rests double from 25-50 ms to 0.5-1 s.
    assert!((12..=28).contains(&attempts), "{attempts} in 10 seconds");
    two.listen(&mut sim);
    pass(&mut sim, REST_MAX);
    results.borrow_mut().clear();
    calls.set(1);
    pass(&mut sim, SECOND);
    assert_eq!(results.borrow()[0].1, Ok(b"x".to_vec()));
}

#[test]
fn a_crash_fails_calls_under_way_and_a_restart_is_found() {
    for seed in 0..10 {
        let (mut sim, one, two) = (sim(seed), Node::new(ONE, 1), Node::new(TWO, 2));
        two.listen(&mut sim);
        let (calls, results) = caller(&mut sim, &one);
        calls.set(1);
        pass(&mut sim, SECOND);
        calls.set(5);
        sim.kill(TWO);
        pass(&mut sim, 2 * SECOND);
        assert_eq!(results.borrow().len(), 6);
        assert!(results.borrow()[1..].iter().all(|(_, result)| result.is_err()));
        two.listen(&mut sim);
        // A peer may notice as late as 10 seconds after the crash.
        pass(&mut sim, 12 * SECOND);
        calls.set(1);
        pass(&mut sim, SECOND);
        calls.set(1);
        pass(&mut sim, SECOND);
        assert_eq!(results.borrow().last().expect("a result").1, Ok(b"x".to_vec()), "seed {seed}");
    }
}

#[test]
fn what_was_sent_before_the_end_arrives_once_it_is_flushed() {
    for is_flushed in [true, false] {
        let (mut sim, one, two) = (sim(6), Node::new(ONE, 1), Node::new(TWO, 1));
        connected(&mut sim, &one, &two);
        let before = two.seen.borrow().len();
        run_on(&mut sim, &one, move |links| {
            for n in 0..20 {
                links.post(address(TWO), Lane::Urgent, ECHO, &[n; 100_000], within(60 * SECOND)).expect("room");
            }
            let links = links.clone();
            runtime::spawn(async move {
                if is_flushed {
                    links.flush(60 * SECOND).await;
                }
                links.close();
            });
        });
        pass(&mut sim, 60 * SECOND);
        let arrived = two.seen.borrow().len() - before;
        assert_eq!(arrived == 20, is_flushed, "{arrived} of 20");
    }
}

#[test]
fn a_flush_does_not_wait_for_a_node_that_takes_nothing() {
    let (mut sim, one, two) = (sim(7), Node::new(ONE, 1), Node::new(TWO, 1));
    connected(&mut sim, &one, &two);
    sim.partition(ONE, TWO, true);
    let ended = Rc::new(Cell::new(false));
    let set = ended.clone();
    run_on(&mut sim, &one, move |links| {
        links.post(address(TWO), Lane::Requests, ECHO, &[0; 4_000_000], within(60 * SECOND)).expect("room");
        let links = links.clone();
        runtime::spawn(async move {
            links.flush(SECOND).await;
            set.set(true);
        });
    });
    pass(&mut sim, 2 * SECOND);
    assert!(ended.get());
}

#[test]
fn a_silent_node_is_given_up_after_the_user_timeout() {
    let (mut sim, mut one, two) = (sim(5), Node::new(ONE, 1), Node::new(TWO, 1));
    one.options = Options { user_timeout: 8 * SECOND, ..Options::default() };
    two.listen(&mut sim);
    let (calls, results) = caller(&mut sim, &one);
    calls.set(1);
    pass(&mut sim, SECOND);
    let active = |one: &Node| one.link(0).outbound()[0].1.active_connections;
    sim.partition(ONE, TWO, true);
    calls.set(1);
    pass(&mut sim, 6 * SECOND);
    assert_eq!((active(&one), results.borrow()[1].1.clone()), (1, Err(CallError::Expired)));
    pass(&mut sim, 5 * SECOND);
    assert_eq!(active(&one), 0);
    sim.partition(ONE, TWO, false);
    pass(&mut sim, 30 * SECOND);
    assert_eq!(two.link(0).inbound().len(), 1);
    calls.set(1);
    pass(&mut sim, 5 * SECOND);
    assert_eq!(results.borrow()[2].1, Ok(b"x".to_vec()));
    pass(&mut sim, 60 * SECOND);
    assert_eq!(active(&one), 1, "an idle connection stays");
}

/// What became of each call, by its body.
type Outcomes = BTreeMap<Vec<u8>, Result<(), CallError>>;

#[test]
fn whatever_happens_a_call_ends_once_and_definite_failures_were_not_served() {
    for seed in 0..12 {
        let options = sim::Options { network_reset: 0.002, ..sim::Options::of_seed(seed) };
        let (mut sim, one, two) = (Sim::new(seed, options), Node::new(ONE, 2), Node::new(TWO, 1));
        two.listen(&mut sim);
        let outcomes = Rc::<RefCell<Outcomes>>::default();
        let gathered = outcomes.clone();
        one.start(&mut sim, move |shard, links| {
            let outcomes = outcomes.clone();
            async move {
                for n in 0..100_u16 {
                    let (links, outcomes) = (links.clone(), outcomes.clone());
                    runtime::spawn(async move {
                        let mut body = [n.to_le_bytes(), shard.0.to_le_bytes()].concat();
                        body.resize(4 + [0, 1000, 60_000][runtime::rng::below(3) as usize], 3);
                        let verb = [ECHO, LATER, HOLD][runtime::rng::below(3) as usize];
                        let lane = Lane::ALL[runtime::rng::below(3) as usize];
                        let (began, time) = (runtime::now(), SECOND / 10 * (1 + runtime::rng::below(20) as u32));
                        let result = links.call(address(TWO), lane, verb, &body, began.after(time)).await;
                        assert!(runtime::now().since(began) < time + SECOND);
                        let result = result.map(|answer| assert_eq!(answer, body));
                        assert!(outcomes.borrow_mut().insert(body, result).is_none());
                    });
                    runtime::sleep(SECOND / 20).await;
                }
                std::future::pending().await
            }
        });
        let mut rng = runtime::rng::Rng::new(seed);
        for _ in 0..10 {
            pass(&mut sim, SECOND);
            match rng.below(6) {
                0 => sim.partition_one_way(ONE, TWO, true),
                1 => sim.partition_one_way(TWO, ONE, true),
                2 => sim.pause(TWO, SECOND),
                3 => {
                    sim.kill(TWO);
                    two.held.borrow_mut().clear();
                    two.listen(&mut sim);
                }
                _ => sim.partition(ONE, TWO, false),
            }
        }
        sim.partition(ONE, TWO, false);
        pass(&mut sim, 30 * SECOND);
        let (outcomes, seen) = (gathered.borrow(), two.seen.borrow());
        assert_eq!(outcomes.len(), 200, "seed {seed}");
        for (body, outcome) in &*outcomes {
            let served = seen.iter().filter(|seen| seen.body == *body).count();
            match outcome {
                Ok(()) => assert_eq!(served, 1, "seed {seed}"),
                Err(error) if error.is_definite() => assert_eq!(served, 0, "seed {seed}: {error}"),
                Err(_) => assert!(served <= 1, "seed {seed}"),
            }
        }
        assert!(outcomes.values().any(Result::is_ok) || seen.is_empty(), "seed {seed}");
        assert!([0, 1].iter().all(|shard| one.link(*shard).calls_waiting() == 0));
    }
}

#[test]
fn a_forgotten_node_s_calls_fail_and_its_connections_close() {
    let (mut sim, one, two) = (sim(7), Node::new(ONE, 1), Node::new(TWO, 1));
    two.listen(&mut sim);
    run(&mut sim, &one, |links| async move {
        until_answered(&links).await;
        let call = links.call(address(TWO), Lane::Requests, HOLD, b"x", within(100 * SECOND));
        runtime::sleep(SECOND).await;
        links.forget(address(TWO));
        assert_eq!(call.await, Err(CallError::Disconnected));
        assert!(runtime::now() < Instant(10_000_000_000));
        assert!(links.outbound().is_empty() && links.peer(address(TWO)).is_none());
        until_answered(&links).await;
        links.close();
        assert_eq!(echo(&links, b"x", SECOND).await, Err(CallError::Unreachable));
    });
    assert_eq!(two.link(0).inbound()[0].1.scheduled.count, 1);
    let held = two.held.clone();
    run_on(&mut sim, &two, move |_| held.borrow_mut().clear());
    assert_eq!(two.link(0).inbound()[0].1.scheduled.count, 0);
}

#[test]
fn a_node_whose_process_is_gone_is_told_from_one_that_is_cut_off() {
    let (mut sim, one, two) = (sim(9), Node::new(ONE, 1), Node::new(TWO, 1));
    two.listen(&mut sim);
    let (looks, seen) = (Rc::new(Cell::new(0)), Rc::new(Cell::new((Presence::Listening, Duration::ZERO))));
    let (wanted, told) = (looks.clone(), seen.clone());
    one.start(&mut sim, move |_, links| {
        let (wanted, told) = (wanted.clone(), told.clone());
        async move {
            until_answered(&links).await;
            let mut made = 0;
            loop {
                let _ = echo(&links, b"x", SECOND / 10).await;
                if wanted.get() > made {
                    let presence = links.presence(address(TWO)).await;
                    told.set((presence, links.unreachable_for(address(TWO), Lane::Requests)));
                    made += 1;
                }
                runtime::sleep(SECOND / 20).await;
            }
        }
    });
    let look = |sim: &mut Sim| {
        looks.set(looks.get() + 1);
        pass(sim, SECOND);
        seen.get()
    };
    pass(&mut sim, SECOND);
    assert_eq!(look(&mut sim), (Presence::Listening, Duration::ZERO));
    sim.kill(TWO);
    let (presence, unreachable_for) = look(&mut sim);
    assert!(presence == Presence::Gone && unreachable_for < SECOND, "{unreachable_for:?}");
    pass(&mut sim, 4 * SECOND);
    let (presence, unreachable_for) = look(&mut sim);
    assert!(
        presence == Presence::Gone && unreachable_for > 4 * SECOND && unreachable_for < 7 * SECOND,
        "{unreachable_for:?}"
    );
    two.listen(&mut sim);
    pass(&mut sim, 3 * SECOND);
    assert_eq!(look(&mut sim), (Presence::Listening, Duration::ZERO));
    // A connection that is open stays so, and says nothing of the way; a new one cannot be made.
    sim.partition(ONE, TWO, true);
    run_on(&mut sim, &one, |links| links.forget(address(TWO)));
    pass(&mut sim, 6 * SECOND);
    let (presence, unreachable_for) = look(&mut sim);
    assert!(presence == Presence::Silent && unreachable_for >= 5 * SECOND, "{unreachable_for:?}");
    sim.partition(ONE, TWO, false);
    pass(&mut sim, 5 * SECOND);
    assert_eq!(look(&mut sim), (Presence::Listening, Duration::ZERO));
}

#[test]
fn a_node_is_dialled_at_the_address_that_it_has_for_its_data_centre() {
    let (mut sim, one, two) = (sim(12), Node::new(ONE, 1), Node::new(TWO, 1));
    two.listen(&mut sim);
    run(&mut sim, &one, |links| async move {
        // Nobody listens at the address by which the node is known.
        let known = SocketAddr::new(address(TWO).ip(), 7999);
        let call = || links.call(known, Lane::Requests, ECHO, b"x", within(SECOND));
        assert_eq!(call().await, Err(CallError::Unreachable));
        assert_eq!(links.presence(known).await, Presence::Gone);
        links.dial_at(Arc::new(BTreeMap::from([(known, address(TWO))])));
        while call().await != Ok(b"x".to_vec()) {
            runtime::sleep(SECOND / 100).await;
        }
        assert_eq!(links.peer(known).expect("connected").socket, known);
        assert_eq!(links.presence(known).await, Presence::Listening);
        // Without it the connection is closed, and there is none to be had.
        links.dial_at(Arc::default());
        while call().await.is_ok() {
            runtime::sleep(SECOND / 100).await;
        }
        assert_eq!(call().await, Err(CallError::Unreachable));
    });
}
