//! Single nodes, message by message.

use super::failure_detector::PHI_CONVICT_THRESHOLD;
use super::message::{Body, Digest, StateUpdate};
use super::*;
use std::net::SocketAddr;
use std::time::Duration;

/// 2026-11-23 12:00:00.
pub(super) const WALL_SECONDS: u64 = 1_795_435_200;
const GENERATION: u32 = WALL_SECONDS as u32;

pub(super) fn address(node: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, (node / 250) as u8, (node % 250) as u8 + 1], 7000))
}

/// Both clocks a while after the start of the test.
pub(super) fn at(millis: u64) -> Clocks {
    let monotonic = Duration::from_secs(1000) + Duration::from_millis(millis);
    Clocks { monotonic, wall: (WALL_SECONDS * 1_000_000 + millis * 1000) as i64 }
}

pub(super) fn options(node: u16, seeds: &[u16], generation: u32) -> Options {
    Options {
        cluster_name: "Test Cluster".into(),
        partitioner: "org.apache.cassandra.dht.Murmur3Partitioner".into(),
        address: address(node),
        seeds: seeds.iter().copied().map(address).collect(),
        phi_convict_threshold: PHI_CONVICT_THRESHOLD,
        ring_delay: Duration::from_secs(30),
        generation,
    }
}

pub(super) fn node(node: u16, seeds: &[u16]) -> Gossiper {
    let mut gossiper = Gossiper::new(options(node, seeds, GENERATION), at(0));
    gossiper.set(ApplicationState::STATUS_WITH_PORT, "NORMAL,0");
    gossiper.set_members((0..600).map(address), at(0));
    gossiper
}

/// Carries messages to and fro at one moment until there are none.
fn deliver(now: Clocks, from: SocketAddr, messages: Vec<(SocketAddr, Message)>, nodes: &mut [&mut Gossiper]) {
    let mut queue: Vec<_> = messages.into_iter().map(|(to, message)| (from, to, message)).collect();
    while !queue.is_empty() {
        for (from, to, message) in std::mem::take(&mut queue) {
            let message = Message::decode(&message.encode()).expect("what was encoded");
            if let Some(node) = nodes.iter_mut().find(|node| node.address() == to) {
                queue.extend(node.received(now, from, message).into_iter().map(|(next, message)| (to, next, message)));
            }
        }
    }
}

/// Two nodes that know each other and are up, one second after the start.
fn pair() -> (Gossiper, Gossiper) {
    let (mut a, mut b) = (node(0, &[0]), node(1, &[0]));
    let messages = b.tick(at(1000), &mut || 0);
    deliver(at(1000), address(1), messages, &mut [&mut a, &mut b]);
    assert_eq!(a.events(), [Event::Discovered(address(1)), Event::Up(address(1))]);
    assert_eq!(b.events(), [Event::Discovered(address(0)), Event::Up(address(0))]);
    (a, b)
}

/// A round of both at each of the given seconds.
fn rounds(seconds: std::ops::RangeInclusive<u64>, a: &mut Gossiper, b: &mut Gossiper) {
    for second in seconds {
        let messages = a.tick(at(second * 1000), &mut || 0);
        deliver(at(second * 1000), a.address(), messages, &mut [a, b]);
        let messages = b.tick(at(second * 1000), &mut || 0);
        deliver(at(second * 1000), b.address(), messages, &mut [a, b]);
    }
}

#[test]
fn a_value_reaches_the_other_node() {
    let (mut a, mut b) = pair();
    a.set(ApplicationState::LOAD, "171914.0");
    rounds(2..=2, &mut a, &mut b);
    assert_eq!(b.events(), [Event::Changed { address: address(0), state: ApplicationState::LOAD }]);
    assert_eq!(b.state(address(0)), Some(a.own()));
    a.set(ApplicationState::LOAD, "171914.0");
    rounds(3..=3, &mut a, &mut b);
    assert_eq!(b.events(), [], "an equal value is not set again");
}

#[test]
fn values_have_limits() {
    let mut node = node(0, &[]);
    assert!(node.set(ApplicationState::LOAD, &"x".repeat(VALUE_BYTES_MAX)));
    assert!(!node.set(ApplicationState::LOAD, &"x".repeat(VALUE_BYTES_MAX + 1)));
    for number in 0..3 {
        // The fourth long value does not fit beside the others and the overhead of all.
        assert_eq!(node.set(ApplicationState(220 + number), &"y".repeat(VALUE_BYTES_MAX)), number < 2, "{number}");
    }
    assert_eq!(node.own().value(ApplicationState::LOAD).map(str::len), Some(VALUE_BYTES_MAX));
}

#[test]
fn a_silent_node_is_convicted_and_called_up_after_an_echo() {
    let (mut a, mut b) = pair();
    rounds(2..=1000, &mut a, &mut b);
    assert_eq!((a.events(), b.events()), (vec![], vec![]));
    let mut convicted = 0;
    for second in 1001..=1030 {
        a.tick(at(second * 1000), &mut || 0);
        if a.events() == [Event::Down(address(1))] {
            convicted = second - 1000;
        }
    }
    assert_eq!(convicted, 19, "the first round after 18.4 s");
    assert!(!a.is_alive(address(1)));

    // Its SYN alone does not make it live: the echo is lost.
    let now = at(1_031_000);
    let messages = b.tick(now, &mut || 0);
    let [(_, syn)] = messages.as_slice() else { panic!("{messages:?}") };
    let answers = a.received(now, address(1), syn.clone());
    let [(_, ack)] = answers.as_slice() else { panic!("{answers:?}") };
    let answers = b.received(now, address(0), ack.clone());
    let [(_, ack2)] = answers.as_slice() else { panic!("{answers:?}") };
    let echo = a.received(now, address(1), ack2.clone());
    assert!(matches!(echo.as_slice(), [(to, Message { body: Body::Echo, .. })] if *to == address(1)));
    assert_eq!(a.events(), []);
    // The next heartbeat makes a ask again, once the first echo is too old.
    rounds(1032..=1034, &mut a, &mut b);
    assert_eq!(a.events(), [Event::Up(address(1))]);
}

#[test]
fn an_echo_of_another_time_or_generation_counts_for_nothing() {
    let (mut a, _) = pair();
    let mut b = Gossiper::new(options(1, &[0], GENERATION + 7), at(2000));
    let now = at(2000);
    let mut messages: Vec<_> = b.tick(now, &mut || 0);
    let is_echo = |(to, message): &&(SocketAddr, Message)| *to == address(1) && message.body == Body::Echo;
    while messages.iter().find(is_echo).is_none() {
        messages = messages
            .into_iter()
            .flat_map(|(to, message)| {
                let (from, to) = if to == address(0) { (address(1), &mut a) } else { (address(0), &mut b) };
                to.received(now, from, message)
            })
            .collect();
    }
    assert_eq!(a.events(), [Event::Restarted(address(1))], "its values came with the new generation");
    assert!(!a.is_alive(address(1)));
    let echo = messages.iter().find(is_echo).expect("there is one");
    let reply = b.received(now, address(0), echo.1.clone()).remove(0).1;
    let old = Message { body: Body::EchoReply { generation: GENERATION }, ..reply.clone() };
    let late = Message { answers: reply.answers - Duration::from_nanos(1), ..reply.clone() };
    for wrong in [old, late] {
        a.received(now, address(1), wrong);
        assert_eq!(a.events(), []);
    }
    a.received(now, address(1), reply);
    assert_eq!(a.events(), [Event::Up(address(1))]);
}

#[test]
fn a_node_that_stops_says_so() {
    let (mut a, mut b) = pair();
    b.set(ApplicationState::RPC_READY, "true");
    rounds(2..=2, &mut a, &mut b);
    a.events();
    let messages = b.shutdown(at(2500));
    let late = messages[0].1.clone();
    deliver(at(2500), address(1), messages, &mut [&mut a]);
    let changed = |state| Event::Changed { address: address(1), state };
    assert_eq!(
        a.events(),
        [changed(ApplicationState::RPC_READY), changed(ApplicationState::STATUS_WITH_PORT), Event::Down(address(1))]
    );
    let state = a.state(address(1)).expect("known");
    assert_eq!((state.heartbeat, state.value(ApplicationState::RPC_READY)), (SHUTDOWN_HEARTBEAT, Some("false")));
    assert_eq!(state.value(ApplicationState::STATUS_WITH_PORT), Some("shutdown,true"));

    // It starts again, and its last words arrive a second time.
    let mut b = Gossiper::new(options(1, &[0], Gossiper::next_generation(0, Some(GENERATION))), at(3000));
    b.set(ApplicationState::STATUS_WITH_PORT, "NORMAL,0");
    let messages = b.tick(at(3000), &mut || 0);
    deliver(at(3000), address(1), messages, &mut [&mut a, &mut b]);
    assert_eq!(
        a.events(),
        [Event::Restarted(address(1)), changed(ApplicationState::STATUS_WITH_PORT), Event::Up(address(1))]
    );
    a.received(at(3100), address(1), late.clone());
    assert_eq!(a.events(), []);
    // Nobody else can say that it stops.
    let Body::Shutdown { mut state } = late.body.clone() else { unreachable!() };
    state.state.generation = GENERATION + 1;
    a.received(at(3100), address(2), Message { body: Body::Shutdown { state }, ..late });
    assert_eq!(a.events(), []);
}

#[test]
fn gossip_that_begins_again_wins_over_the_end_of_it() {
    let (mut a, mut b) = pair();
    let messages = b.shutdown(at(2000));
    deliver(at(2000), address(1), messages, &mut [&mut a]);
    a.events();
    b.restart(GENERATION + 2);
    b.set(ApplicationState::STATUS_WITH_PORT, "NORMAL,0");
    rounds(3..=4, &mut a, &mut b);
    let events = a.events();
    assert_eq!((events.first(), events.last()), (Some(&Event::Restarted(address(1))), Some(&Event::Up(address(1)))));
    assert_eq!(a.state(address(1)), Some(b.own()));
}

#[test]
fn a_paused_process_convicts_nobody() {
    let (mut a, mut b) = pair();
    rounds(2..=100, &mut a, &mut b);
    a.tick(at(146_000), &mut || 0);
    assert_eq!(a.events(), [Event::LocalPause(Duration::from_secs(46))]);
    (147..151).for_each(|second| drop(a.tick(at(second * 1000), &mut || 0)));
    assert_eq!(a.events(), []);
    a.tick(at(151_000), &mut || 0);
    assert_eq!(a.events(), [Event::Down(address(1))]);
}

#[test]
fn a_node_that_left_is_remembered_for_three_days() {
    let (mut a, mut b) = pair();
    rounds(2..=100, &mut a, &mut b);
    b.set(ApplicationState::STATUS_WITH_PORT, &Gossiper::left_status("17", at(101_000)));
    rounds(101..=101, &mut a, &mut b);
    let changed = Event::Changed { address: address(1), state: ApplicationState::STATUS_WITH_PORT };
    assert_eq!(a.events(), [changed, Event::Left(address(1))]);
    a.set_members([address(0)], at(0));
    let later = |hours: u64| at(101_000 + hours * 3_600_000);
    for second in 102..125 {
        a.tick(at(second * 1000), &mut || 0);
    }
    assert_eq!(a.events(), [Event::Down(address(1))]);
    let rounds_at = |a: &mut Gossiper, now| drop(a.tick(now, &mut || 0));
    rounds_at(&mut a, later(72));
    assert!(matches!(a.events().as_slice(), [Event::LocalPause(_)]));
    let after = Clocks { wall: later(72).wall + 1000, ..later(72) };
    rounds_at(&mut a, after);
    assert_eq!(a.events(), [Event::Removed { address: address(1), reason: Removal::Expired }]);

    // Others that still remember it do not bring it back for twice the ring delay.
    let mut c = node(2, &[]);
    c.assassinate(address(1), "17", at(101_000));
    let syn = |c: &mut Gossiper, now| {
        c.set_seeds(vec![address(0)]);
        c.tick(now, &mut || 0)
    };
    let messages = syn(&mut c, after);
    deliver(after, address(2), messages, &mut [&mut a, &mut c]);
    assert!(a.state(address(1)).is_none());
    let over = Clocks { monotonic: after.monotonic + Duration::from_secs(61), ..after };
    a.tick(over, &mut || 0);
    a.tick(over, &mut || 0);
    let messages = syn(&mut c, over);
    deliver(over, address(2), messages, &mut [&mut a, &mut c]);
    assert!(a.state(address(1)).is_some());
}

#[test]
fn a_silent_stranger_is_forgotten_after_the_ring_delay() {
    let (mut a, _) = pair();
    a.set_members([address(0)], at(0));
    (2..=31).for_each(|second| drop(a.tick(at(second * 1000), &mut || 0)));
    assert!(a.state(address(1)).is_some());
    a.events();
    a.tick(at(32_000), &mut || 0);
    let removed = Event::Removed { address: address(1), reason: Removal::Silent(Duration::from_secs(30)) };
    assert_eq!(a.events().last(), Some(&removed));
    // Once it is a member, it is heard of at once.
    a.set_members([address(0), address(1)], at(0));
    let mut b = node(1, &[0]);
    let messages = b.tick(at(33_000), &mut || 0);
    deliver(at(33_000), address(1), messages, &mut [&mut a, &mut b]);
    assert!(a.is_alive(address(1)));
}

#[test]
fn a_node_that_was_removed_is_not_learnt_of_again_from_others() {
    let (mut a, mut b) = pair();
    a.set_members([address(0)], at(2000));
    assert!(a.is_alive(address(1)), "it lives, and may say that it leaves");
    a.set_members([address(0), address(1)], at(2000));
    (2..=40).for_each(|second| drop(a.tick(at(second * 1000), &mut || 0)));
    assert_eq!(a.events(), [Event::Down(address(1))]);
    a.set_members([address(0)], at(41_000));
    assert_eq!(a.events(), [Event::Removed { address: address(1), reason: Removal::NoMember }]);
    let messages = b.tick(at(42_000), &mut || 0);
    deliver(at(42_000), address(1), messages, &mut [&mut a, &mut b]);
    assert!(a.state(address(1)).is_none());
}

#[test]
fn a_member_that_is_none_any_more_has_left_or_was_removed() {
    let (mut a, mut b) = pair();
    b.set(ApplicationState::STATUS_WITH_PORT, "NORMAL,17");
    b.set(ApplicationState::HOST_ID, "some-id");
    rounds(2..=3, &mut a, &mut b);
    a.events();
    let expiry = at(4000).wall / 1000 + 3 * 24 * 3600 * 1000;
    let status = |a: &Gossiper| {
        let state = a.state(address(1)).expect("remembered");
        (state.value(ApplicationState::STATUS_WITH_PORT).expect("a status").to_owned(), state.has_left())
    };
    let mut alive = a;
    alive.mark_gone(address(1), Departure::Left, at(4000));
    alive.mark_gone(address(1), Departure::Removed, at(5000));
    assert_eq!(alive.events(), [Event::Left(address(1))], "once");
    assert_eq!(status(&alive), (format!("LEFT,17,{expiry}"), true));
    alive.set_members([address(0)], at(4000));
    assert!(alive.is_alive(address(1)), "until it is convicted");
    alive.convict_now(address(1), at(4000));
    assert_eq!(alive.events(), [Event::Down(address(1))]);
    alive.mark_gone(address(7), Departure::Left, at(4000));
    assert!(alive.state(address(7)).is_none());

    let (mut a, mut b) = pair();
    b.set(ApplicationState::STATUS_WITH_PORT, "NORMAL,17");
    b.set(ApplicationState::HOST_ID, "some-id");
    rounds(2..=3, &mut a, &mut b);
    a.events();
    a.mark_gone(address(1), Departure::Removed, at(4000));
    assert_eq!(a.events(), [Event::Down(address(1)), Event::Left(address(1))]);
    a.set_members([address(0)], at(4000));
    assert_eq!(status(&a), (format!("removed,some-id,{expiry}"), true));
    rounds(5..=6, &mut a, &mut b);
    assert!(!a.is_alive(address(1)), "it is not called up again");
}

#[test]
fn others_understand_a_node_that_has_seen_a_stopped_one_removed() {
    let (mut a, mut b) = pair();
    let messages = b.shutdown(at(2000));
    deliver(at(2000), address(1), messages, &mut [&mut a]);
    a.mark_gone(address(1), Departure::Removed, at(3000));
    assert_eq!(
        a.state(address(1)).map(|state| (state.status(), state.version())),
        Some(("removed", SHUTDOWN_HEARTBEAT))
    );
    let mut c = node(2, &[0]);
    let messages = c.tick(at(4000), &mut || 0);
    deliver(at(4000), address(2), messages, &mut [&mut a, &mut c]);
    assert_eq!(c.state(address(1)), a.state(address(1)));
    let messages = a.tick(at(5000), &mut || 0);
    deliver(at(5000), address(0), messages, &mut [&mut a, &mut c]);
    assert!(c.is_alive(address(0)) && a.is_alive(address(2)));
}

#[test]
fn a_state_does_not_grow_beyond_its_limit_part_by_part() {
    let (mut a, _) = pair();
    let known = a.state(address(1)).expect("known").clone();
    let used = message::state_bytes(address(1), &known);
    let part = |number: u8, length: usize| {
        let mut state = EndpointState::new(GENERATION, known.heartbeat + u32::from(number));
        let value = VersionedValue { version: state.heartbeat, value: "x".repeat(length).into() };
        state.replace(ApplicationState(100 + number), value);
        let base = known.heartbeat;
        Message::new(
            at(2000),
            Duration::ZERO,
            Body::Ack2 { states: vec![StateUpdate { address: address(1), base, state }] },
        )
    };
    // A number, a version and a length precede each value.
    let mut left = STATE_BYTES_MAX - used;
    let mut number = 0;
    while left > 7 + VALUE_BYTES_MAX {
        number += 1;
        a.received(at(2000), address(1), part(number, VALUE_BYTES_MAX));
        left -= 7 + VALUE_BYTES_MAX;
    }
    let before = a.state(address(1)).cloned();
    a.received(at(2000), address(1), part(number + 1, left - 7 + 1));
    assert_eq!(a.state(address(1)), before.as_ref(), "one byte too many");
    a.received(at(2000), address(1), part(number + 1, left - 7));
    let state = a.state(address(1)).expect("known");
    assert_eq!(message::state_bytes(address(1), state), STATE_BYTES_MAX);
}

#[test]
fn an_assassinated_node_is_dead_to_all_and_hears_of_it() {
    let (mut a, mut b) = pair();
    a.assassinate(address(1), "17", at(2000));
    assert_eq!(
        a.events(),
        [
            Event::Down(address(1)),
            Event::Changed { address: address(1), state: ApplicationState::STATUS_WITH_PORT },
            Event::Left(address(1))
        ]
    );
    let state = a.state(address(1)).expect("remembered");
    assert_eq!((state.generation, state.heartbeat, state.status()), (GENERATION + 1, 9999, "LEFT"));
    rounds(3..=3, &mut a, &mut b);
    assert!(b.events().contains(&Event::Expelled));
    assert_eq!((a.is_alive(address(1)), b.own().generation), (false, GENERATION));
    a.assassinate(address(0), "17", at(2000));
    assert!(!a.own().has_left(), "nobody ends itself");
}

#[test]
fn a_generation_that_others_know_to_be_higher_is_passed() {
    let (mut a, _) = pair();
    // The clock went back and the data directory was lost.
    let mut b = Gossiper::new(options(1, &[0], GENERATION - 5000), at(2000));
    b.set(ApplicationState::LOAD, "1.0");
    rounds(3..=6, &mut a, &mut b);
    assert!(b.events().contains(&Event::GenerationRaised(GENERATION + 1)));
    assert_eq!(a.state(address(1)), Some(b.own()));
    assert!(a.is_alive(address(1)));
}

#[test]
fn a_generation_of_the_far_future_is_ignored() {
    let (mut a, _) = pair();
    let year = 365 * 24 * 3600;
    let update = |generation| StateUpdate { address: address(1), base: 0, state: EndpointState::new(generation, 1) };
    let ack2 = |generation| Message::new(at(0), Duration::ZERO, Body::Ack2 { states: vec![update(generation)] });
    a.received(at(0), address(2), ack2(GENERATION + year + 1));
    assert_eq!(a.events(), [Event::InvalidGeneration { address: address(1), generation: GENERATION + year + 1 }]);
    a.received(at(0), address(2), ack2(GENERATION + year));
    assert_eq!(a.events(), [Event::Restarted(address(1))]);
}

#[test]
fn a_state_computed_from_more_than_is_known_is_not_applied() {
    let (mut a, b) = pair();
    let version = b.own().version();
    let mut state = EndpointState::new(GENERATION, version + 9);
    state.replace(ApplicationState::LOAD, VersionedValue { version: version + 8, value: "2.0".into() });
    let ack2 = |base, state: &EndpointState| {
        let states = vec![StateUpdate { address: address(1), base, state: state.clone() }];
        Message::new(at(0), Duration::ZERO, Body::Ack2 { states })
    };
    a.received(at(2000), address(2), ack2(version + 1, &state));
    assert_eq!(a.events(), []);
    a.received(at(2000), address(2), ack2(version, &state));
    assert_eq!(a.events(), [Event::Changed { address: address(1), state: ApplicationState::LOAD }]);
    state.generation += 1;
    a.received(at(2000), address(2), ack2(version, &state));
    assert_eq!(a.events(), [], "part of a generation that is not known");
}

#[test]
fn other_clusters_and_partitioners_are_not_answered() {
    let mut a = node(0, &[0]);
    let mut foreign = options(1, &[0], GENERATION);
    foreign.cluster_name = "Foo".into();
    let mut other = options(1, &[0], GENERATION);
    other.partitioner = "org.apache.cassandra.dht.RandomPartitioner".into();
    for (options, expected) in [
        (foreign, Event::ClusterNameMismatch { from: address(1), theirs: "Foo".into() }),
        (other.clone(), Event::PartitionerMismatch { from: address(1), theirs: other.partitioner.clone() }),
    ] {
        let (_, syn) = Gossiper::new(options, at(0)).tick(at(0), &mut || 0).remove(0);
        assert_eq!(a.received(at(0), address(1), syn), []);
        assert_eq!(a.events(), [expected]);
    }
}

#[test]
fn clocks_are_compared_in_rounds() {
    let (mut a, mut b) = pair();
    let ahead = |millis: i64, now: Clocks| Clocks { wall: now.wall + millis * 1000, ..now };
    // One round of a; its messages take 10 ms each way.
    let round = |a: &mut Gossiper, b: &mut Gossiper, second: u64, offset: i64| {
        let (sent, there, back) = (at(second * 1000), at(second * 1000 + 10), at(second * 1000 + 20));
        for (_, syn) in a.tick(sent, &mut || 0) {
            for (_, ack) in b.received(ahead(offset, there), address(0), syn) {
                a.received(back, address(1), ack);
            }
        }
        a.events()
    };
    assert_eq!(round(&mut a, &mut b, 2, 110), [], "100 ms and the error of the measurement");
    assert_eq!(a.clock_offset(address(1)), Some(ClockOffset { micros: 110_000, error_micros: 10_000 }));
    let offset = ClockOffset { micros: 111_000, error_micros: 10_000 };
    assert_eq!(round(&mut a, &mut b, 3, 111), [Event::ClockSkewed { address: address(1), offset }]);
    assert_eq!(round(&mut a, &mut b, 4, 120), [], "told once");
    assert_eq!(round(&mut a, &mut b, 5, -20), [Event::ClockAgrees(address(1))]);
    round(&mut a, &mut b, 6, -20_000);
    let offset = ClockOffset { micros: -20_000_000, error_micros: 10_000 };
    assert_eq!(a.clock_beyond(Duration::from_secs(10)), Some((address(1), offset)));
    assert_eq!(a.clock_beyond(Duration::from_millis(19_990)), None);
}

#[test]
fn messages_have_golden_bytes() {
    let mut state = EndpointState::new(0x6b00_0001, 300);
    state.replace(ApplicationState::RACK, VersionedValue { version: 4, value: "rack1".into() });
    let digest = Digest { address: address(1), generation: 0x6b00_0001, version: 0x0102 };
    let update = StateUpdate { address: "[::1]:7001".parse().expect("an address"), base: 2, state };
    let message = |body| Message { sent: Duration::from_nanos(5), answers: Duration::from_nanos(4), wall: -2, body };
    let header = |kind: u8| format!("01{kind:02x}00000000000000050000000000000004fffffffffffffffe");
    let digest_bytes = "047f00000200001b58".replace("0200001b58", "021b58") + "6b00000100000102";
    let state_bytes =
        "06000000000000000000000000000000011b59".to_owned() + "6b000001000000020000012c0104000000040005" + "7261636b31";
    for (body, expected) in [
        (
            Body::Syn { cluster_name: "ab".into(), partitioner: "c".into(), digests: vec![digest] },
            header(1) + "00026162" + "000163" + "00000001" + &digest_bytes,
        ),
        (
            Body::Ack { wanted: vec![digest], states: vec![update.clone()] },
            header(2) + "00000001" + &digest_bytes + "00000001" + &state_bytes,
        ),
        (Body::Ack2 { states: vec![update.clone()] }, header(3) + "00000001" + &state_bytes),
        (Body::Echo, header(4)),
        (Body::EchoReply { generation: 0x0a0b_0c0d }, header(5) + "0a0b0c0d"),
        (Body::Shutdown { state: update.clone() }, header(6) + &state_bytes),
    ] {
        let message = message(body);
        let bytes = message.encode();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
        assert_eq!(Message::decode(&bytes), Ok(message));
        for cut in 0..bytes.len() {
            assert!(Message::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        assert!(Message::decode(&[&bytes[..], &[0]].concat()).is_err());
    }
}

#[test]
fn messages_beyond_the_limits_are_refused() {
    let refused = |body: Body| {
        let message = Message { sent: Duration::ZERO, answers: Duration::ZERO, wall: 0, body };
        Message::decode(&message.encode()).err().map(|error| error.0)
    };
    let syn = |name: usize, nodes: usize| Body::Syn {
        cluster_name: "x".repeat(name),
        partitioner: String::new(),
        digests: vec![Digest { address: address(0), generation: 1, version: 1 }; nodes],
    };
    assert_eq!(refused(syn(message::NAME_BYTES_MAX, ENDPOINTS_MAX)), None);
    assert_eq!(refused(syn(message::NAME_BYTES_MAX + 1, 1)), Some("text too long"));
    assert_eq!(refused(syn(1, ENDPOINTS_MAX + 1)), Some("too many nodes"));
    let state = |heartbeat: u32, values: usize, bytes: usize| {
        let mut state = EndpointState::new(1, heartbeat);
        for number in 0..values {
            let value = VersionedValue { version: 1, value: "z".repeat(bytes).into() };
            state.replace(ApplicationState(number as u8), value);
        }
        Body::Ack2 { states: vec![StateUpdate { address: address(0), base: 0, state }] }
    };
    assert_eq!(refused(state(SHUTDOWN_HEARTBEAT, 3, VALUE_BYTES_MAX)), None);
    assert_eq!(refused(state(SHUTDOWN_HEARTBEAT + 1, 0, 0)), Some("version out of range"));
    assert_eq!(refused(state(1, 1, VALUE_BYTES_MAX + 1)), Some("text too long"));
    assert_eq!(refused(state(1, 4, VALUE_BYTES_MAX)), Some("state too long"));
    assert_eq!(Message::decode(&vec![1; message::MESSAGE_BYTES_MAX + 1]), Err(message::InvalidMessage("too long")));
}

#[test]
fn damaged_messages_never_panic() {
    let mut random = super::simulation_tests::generator(7);
    let (mut a, mut b) = pair();
    a.set(ApplicationState::LOAD, "1.0");
    let syn = b.tick(at(2000), &mut || 0).remove(0).1;
    let ack = a.received(at(2000), address(1), syn.clone()).remove(0).1;
    for message in [syn, ack, b.shutdown(at(2000)).remove(0).1] {
        let bytes = message.encode();
        for _ in 0..20_000 {
            let mut damaged = bytes.clone();
            for _ in 0..=random() % 3 {
                let at = random() as usize % damaged.len();
                damaged[at] = random() as u8;
            }
            if let Ok(message) = Message::decode(&damaged) {
                assert_eq!(message.encode(), damaged, "one layout for each message");
                drop(a.received(at(3000), address(1), message));
            }
        }
    }
}

#[test]
fn more_nodes_than_the_limit_are_ignored() {
    let mut a = node(0, &[]);
    let nth = |at: usize| SocketAddr::from(([10, 0, (at / 250) as u8, (at % 250) as u8], 7000));
    for chunk in (0..ENDPOINTS_MAX).collect::<Vec<_>>().chunks(1000) {
        let update = |at: &usize| StateUpdate { address: nth(*at), base: 0, state: EndpointState::new(GENERATION, 1) };
        let body = Body::Ack2 { states: chunk.iter().map(update).collect() };
        a.received(at(0), address(1), Message::new(at(0), Duration::ZERO, body));
    }
    assert_eq!(a.states().count(), ENDPOINTS_MAX);
    assert!(a.state(nth(ENDPOINTS_MAX - 2)).is_some() && a.state(nth(ENDPOINTS_MAX - 1)).is_none());
}

#[test]
fn states_that_do_not_fit_into_a_message_come_later() {
    let (mut a, mut b) = (node(0, &[0]), node(1, &[0]));
    for at_node in 2..22 {
        let mut state = EndpointState::new(GENERATION, 9);
        for number in 0..3 {
            let value = VersionedValue { version: 1 + number, value: "z".repeat(VALUE_BYTES_MAX).into() };
            state.replace(ApplicationState(210 + number as u8), value);
        }
        let body = Body::Ack2 { states: vec![StateUpdate { address: address(at_node), base: 0, state }] };
        a.received(at(0), address(1), Message::new(at(0), Duration::ZERO, body));
    }
    rounds(1..=1, &mut a, &mut b);
    let known = b.states().count();
    assert!((10..22).contains(&known), "{known}");
    rounds(2..=4, &mut a, &mut b);
    assert_eq!(b.states().count(), 22);
}
