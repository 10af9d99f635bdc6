//! Requests and answers, lanes, cores, order, compression.

use crate::world::{DROP, ECHO, LATER, Node, ONE, REFUSE, SECOND, Seen, TOO_LONG, TWO, address, run, within};
use internode::{CallError, Compression, FailureReason, Lane, Options};
use runtime::ShardId;
use runtime::sim::{self, Sim, Stop};
use std::cell::Cell;
use std::rc::Rc;

fn sim(seed: u64) -> Sim {
    Sim::new(seed, sim::Options::default())
}

#[test]
fn a_request_is_answered_on_every_lane() {
    let (mut sim, one, two) = (sim(1), Node::new(ONE, 1), Node::new(TWO, 1));
    two.listen(&mut sim);
    run(&mut sim, &one, |links| async move {
        for lane in Lane::ALL {
            for body in [&b""[..], b"hello", &[7; 300_000]] {
                let answer = links.call(address(TWO), lane, ECHO, body, within(SECOND)).await;
                assert_eq!(answer.as_deref(), Ok(body));
            }
            assert_eq!(links.ping(address(TWO), lane, within(SECOND)).await, Ok(Vec::new()));
        }
        let peer = links.peer(address(TWO)).expect("connected");
        assert_eq!((peer.identity.address, peer.version), (address(TWO), 1));
        assert_eq!(links.calls_waiting(), 0);
        let (to, sent) = links.outbound()[0];
        assert_eq!((to, sent.sent.count, sent.sent.bytes), (address(TWO), 12, 3 * 300_005));
        assert_eq!((sent.active_connections, sent.successful_connection_attempts, sent.using_bytes), (3, 3, 0));
    });
    let lanes: Vec<Lane> = two.seen.borrow().iter().map(|seen| seen.lane).collect();
    assert_eq!(lanes, Lane::ALL.into_iter().flat_map(|lane| [lane; 3]).collect::<Vec<_>>());
    let (from, received) = two.link(0).inbound()[0];
    assert_eq!((from, received.received.count, received.processed.count), (address(ONE), 9, 9));
    assert_eq!((received.received.bytes, received.using_bytes), (3 * 300_005, 0));
}

#[test]
fn links_that_are_encrypted_carry_the_same() {
    let encrypted = |id| {
        let mut node = Node::new(id, 1);
        node.encryption = tls::Encryption::Required;
        node
    };
    let (mut sim, one, two) = (sim(9), encrypted(ONE), encrypted(TWO));
    two.listen(&mut sim);
    run(&mut sim, &one, |links| async move {
        for body in [&b""[..], b"hello", &[7; 300_000]] {
            let answer = links.call(address(TWO), Lane::Requests, ECHO, body, within(SECOND)).await;
            assert_eq!(answer.as_deref(), Ok(body));
        }
        assert!(!links.peer(address(TWO)).expect("connected").certificates.is_empty());
    });
    let handshakes = two.link(0).handshakes();
    assert_eq!((handshakes.completed, handshakes.failed), (1, 0));
    // A node that does not encrypt is closed.
    sim.crash(ONE);
    let plain = Node::new(ONE, 1);
    run(&mut sim, &plain, |links| async move {
        let refused = links.call(address(TWO), Lane::Requests, ECHO, b"x", within(SECOND)).await;
        assert_eq!(refused, Err(CallError::Unreachable));
    });
}

#[test]
fn core_i_talks_to_core_i_modulo_the_cores_of_the_other_node() {
    for (own, other) in [(1, 3), (3, 1), (2, 3), (4, 2), (3, 3)] {
        let (mut sim, one, two) = (sim(own), Node::new(ONE, own as usize), Node::new(TWO, other));
        two.listen(&mut sim);
        let done = Rc::new(Cell::new(0));
        let counted = done.clone();
        one.start(&mut sim, move |_, links| {
            let done = done.clone();
            async move {
                for _ in 0..2 {
                    let answer = links.call(address(TWO), Lane::Requests, ECHO, b"x", within(SECOND)).await;
                    assert_eq!(answer.as_deref(), Ok(&b"x"[..]));
                }
                done.set(done.get() + 1);
                std::future::pending().await
            }
        });
        assert_eq!(sim.run_until(60 * SECOND, || counted.get() == own), Stop::Condition);
        for Seen { from, on, .. } in &*two.seen.borrow() {
            assert_eq!(*on, ShardId(from.0 % other as u16), "{own} to {other}");
        }
        let attempts = |shard| one.link(shard).outbound()[0].1.connection_attempts;
        assert!((0..own as u16).all(|shard| attempts(shard) == 1));
    }
}

#[test]
fn each_lane_keeps_its_order_and_delays_no_other() {
    for seed in 0..10 {
        let (mut sim, one, two) = (sim(seed), Node::new(ONE, 1), Node::new(TWO, 1));
        two.listen(&mut sim);
        run(&mut sim, &one, |links| async move {
            let deadline = within(300 * SECOND);
            let mut last = Vec::new();
            for n in 0..300_u32 {
                let lane = Lane::ALL[runtime::rng::below(3) as usize];
                let mut body = n.to_le_bytes().to_vec();
                // Some fill the window, so that later ones wait in the queue.
                body.resize(4 + [0, 100, 100_000][runtime::rng::below(3) as usize], 1);
                if n % 10 == 9 {
                    last.push(links.call(address(TWO), lane, ECHO, &body, deadline));
                } else {
                    links.post(address(TWO), lane, ECHO, &body, deadline).expect("room");
                }
                if runtime::rng::below(20) == 0 {
                    runtime::sleep(SECOND / 100).await;
                }
            }
            for lane in Lane::ALL {
                last.push(links.call(address(TWO), lane, ECHO, &[255; 4], deadline));
            }
            for call in last {
                assert!(call.await.is_ok());
            }
        });
        let seen = two.seen.borrow();
        assert_eq!(seen.len(), 303);
        for lane in Lane::ALL {
            let numbers = seen.iter().filter(|seen| seen.lane == lane);
            let numbers: Vec<u32> =
                numbers.map(|seen| u32::from_le_bytes(*seen.body.first_chunk().expect("a number"))).collect();
            assert!(numbers.is_sorted(), "seed {seed}, {lane:?}");
        }
    }
}

#[test]
fn a_full_lane_leaves_the_others_fast() {
    let (mut sim, one, two) = (sim(3), Node::new(ONE, 1), Node::new(TWO, 1));
    two.listen(&mut sim);
    run(&mut sim, &one, |links| async move {
        links.ping(address(TWO), Lane::Urgent, within(SECOND)).await.expect("reachable");
        for _ in 0..4 {
            links.post(address(TWO), Lane::Bulk, ECHO, &[0; 1_000_000], within(300 * SECOND)).expect("room");
        }
        let began = runtime::now();
        links.ping(address(TWO), Lane::Urgent, within(SECOND)).await.expect("reachable");
        assert!(runtime::now().since(began) < SECOND / 50, "a round trip is 4 ms at most");
        assert!(links.outbound()[0].1.using_bytes > 2_000_000, "while the bulk is still being sent");
    });
}

#[test]
fn answers_may_come_later_and_in_another_order() {
    let (mut sim, one, two) = (sim(4), Node::new(ONE, 1), Node::new(TWO, 1));
    two.listen(&mut sim);
    run(&mut sim, &one, |links| async move {
        let late = links.call(address(TWO), Lane::Requests, LATER, b"late", within(SECOND));
        let soon = links.call(address(TWO), Lane::Requests, ECHO, b"soon", within(SECOND));
        assert_eq!(soon.await.as_deref(), Ok(&b"soon"[..]));
        assert_eq!(late.await.as_deref(), Ok(&b"late"[..]));
    });
}

#[test]
fn a_request_without_an_answer_fails_at_once() {
    let (mut sim, one, mut two) = (sim(5), Node::new(ONE, 1), Node::new(TWO, 1));
    two.options = Options { message_bytes_max: 100_000, ..Options::default() };
    two.listen(&mut sim);
    run(&mut sim, &one, |links| async move {
        let call = |verb| links.call(address(TWO), Lane::Requests, verb, b"x", within(100 * SECOND));
        assert_eq!(call(DROP).await, Err(CallError::Failed(FailureReason::Unanswered)));
        assert_eq!(call(REFUSE).await, Err(CallError::Failed(FailureReason::NotUnderstood)));
        assert_eq!(call(TOO_LONG).await, Err(CallError::Failed(FailureReason::ReplyTooLong)));
        assert!(runtime::now().since(runtime::Instant(0)) < 50 * SECOND);
        links.post(address(TWO), Lane::Requests, DROP, b"x", within(SECOND)).expect("room");
        assert_eq!(call(ECHO).await.as_deref(), Ok(&b"x"[..]), "the connection goes on");
    });
    assert_eq!(two.link(0).inbound()[0].1.error.count, 3);
}

#[test]
fn bodies_are_compressed_as_the_option_says() {
    let cases = [
        (Compression::None, "datacenter2", false),
        (Compression::BetweenDataCenters, "datacenter1", false),
        (Compression::BetweenDataCenters, "datacenter2", true),
        (Compression::All, "datacenter1", true),
    ];
    for (compression, data_center, expected) in cases {
        let (mut sim, mut one, mut two) = (sim(6), Node::new(ONE, 1), Node::new(TWO, 1));
        for node in [&mut one, &mut two] {
            node.options.compression = compression;
        }
        two.introduce = Rc::new(move |identity| internode::Identity { data_center: data_center.into(), ..identity });
        two.listen(&mut sim);
        run(&mut sim, &one, |links| async move {
            let answer = links.call(address(TWO), Lane::Bulk, ECHO, &[9; 50_000], within(SECOND)).await;
            assert_eq!(answer, Ok(vec![9; 50_000]));
        });
        let received = two.link(0).inbound()[0].1.received.bytes;
        assert_eq!(received < 1000, expected, "{compression:?} to {data_center}: {received}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let trace = |seed| {
        let (mut sim, one, two) = (sim(seed), Node::new(ONE, 2), Node::new(TWO, 3));
        two.listen(&mut sim);
        run(&mut sim, &one, |links| async move {
            for n in 0..20 {
                let lane = Lane::ALL[n % 3];
                links.call(address(TWO), lane, LATER, &[n as u8; 5000], within(SECOND)).await.expect("an answer");
            }
        });
        sim.trace_hash()
    };
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7), trace(8));
}
