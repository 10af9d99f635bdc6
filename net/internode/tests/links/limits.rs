//! Queues in both directions, at their limits and past them.

use crate::world::{ECHO, HOLD, Node, ONE, SECOND, TWO, address, run, run_on, within};
use internode::{CallError, Lane, Options, QueueLimits};
use runtime::sim::{self, Sim};
use std::time::Duration;

/// A frame's bytes beside its body.
const HEAD: usize = internode::frame::HEAD_BYTES;

fn sim(seed: u64) -> Sim {
    Sim::new(seed, sim::Options::default())
}

fn limits(capacity_bytes: u64, reserve_endpoint_bytes: u64, reserve_global_bytes: u64) -> QueueLimits {
    QueueLimits { capacity_bytes, reserve_endpoint_bytes, reserve_global_bytes }
}

fn pass(sim: &mut Sim, time: Duration) {
    sim.run_until(time, || false);
}

#[test]
fn a_send_queue_takes_its_capacity_and_reserve_and_not_a_byte_more() {
    let (mut sim, mut one, two) = (sim(1), Node::new(ONE, 1), Node::new(TWO, 1));
    one.options.send = limits(1000, 500, 700);
    two.listen(&mut sim);
    run(&mut sim, &one, |links| async move {
        // While the connection is being made, everything waits.
        let post = |lane, bytes: usize| links.post(address(TWO), lane, ECHO, &vec![0; bytes - HEAD], within(SECOND));
        assert_eq!(post(Lane::Requests, 600), Ok(()));
        assert_eq!(post(Lane::Requests, 901), Err(CallError::Overloaded));
        assert_eq!(post(Lane::Requests, 900), Ok(()));
        assert_eq!(post(Lane::Requests, HEAD), Err(CallError::Overloaded));
        assert_eq!(links.outbound()[0].1.using_reserve_bytes, 500);
        assert_eq!(post(Lane::Bulk, 1000), Ok(()), "another lane has its own capacity");
        assert_eq!(post(Lane::Bulk, HEAD), Err(CallError::Overloaded), "but not its own reserve");
        let metrics = links.outbound()[0].1;
        assert_eq!((metrics.pending.count, metrics.overload.count, metrics.using_bytes), (3, 3, 2500));
        assert_eq!(links.drops(), [(ECHO, 3)]);
        runtime::sleep(SECOND).await;
        assert_eq!(post(Lane::Requests, 1000), Ok(()));
    });
    pass(&mut sim, SECOND);
    assert_eq!(two.seen.borrow().len(), 4);
}

#[test]
fn a_queue_full_of_expired_messages_makes_room() {
    let (mut sim, mut one, two) = (sim(2), Node::new(ONE, 1), Node::new(TWO, 1));
    one.options.send = limits(1000, 0, 0);
    one.options.connect_timeout = 100 * SECOND;
    two.listen(&mut sim);
    sim.partition(ONE, TWO, true);
    run(&mut sim, &one, |links| async move {
        let post = |time| links.post(address(TWO), Lane::Requests, ECHO, &[0; 400], within(time));
        assert_eq!((post(SECOND / 10), post(SECOND / 5)), (Ok(()), Ok(())));
        assert_eq!(post(SECOND), Err(CallError::Overloaded));
        runtime::sleep(SECOND * 3 / 20).await;
        assert_eq!((post(SECOND), post(SECOND)), (Ok(()), Err(CallError::Overloaded)));
        assert_eq!(links.outbound()[0].1.expired.count, 1);
    });
}

#[test]
fn a_message_fits_up_to_the_longest() {
    let (mut sim, mut one, two) = (sim(3), Node::new(ONE, 1), Node::new(TWO, 1));
    one.options = Options { message_bytes_max: 1000, send: limits(10, 0, 0), ..Options::default() };
    two.listen(&mut sim);
    run(&mut sim, &one, |links| async move {
        let call = |bytes: usize| links.call(address(TWO), Lane::Requests, ECHO, &vec![0; bytes], within(SECOND));
        assert!(call(1000).await.is_ok(), "an empty queue takes it, whatever its capacity");
        assert_eq!(call(1001).await, Err(CallError::TooLong));
        assert_eq!(links.outbound()[0].1.error.count, 1);
        let gone = links.call(address(TWO), Lane::Requests, ECHO, b"x", runtime::now()).await;
        assert_eq!(gone, Err(CallError::Expired));
    });
}

#[test]
fn what_is_being_served_is_bounded_and_the_rest_waits_in_the_network() {
    let (mut sim, one, mut two) = (sim(4), Node::new(ONE, 1), Node::new(TWO, 1));
    two.options.receive = limits(1000, 500, 500);
    two.listen(&mut sim);
    one.listen(&mut sim);
    run_on(&mut sim, &one, |links| {
        for n in 0..10 {
            let time = if n < 5 { 1000 * SECOND } else { 5 * SECOND };
            links.post(address(TWO), Lane::Requests, HOLD, &[n; 300 - HEAD], within(time)).expect("room");
        }
    });
    pass(&mut sim, 2 * SECOND);
    assert_eq!(two.seen.borrow().len(), 5);
    let metrics = two.link(0).inbound()[0].1;
    assert_eq!((metrics.scheduled.count, metrics.using_reserve_bytes, metrics.throttled_count), (5, 500, 1));
    // One is answered: there is room for one more.
    let held = two.held.clone();
    run_on(&mut sim, &two, move |_| drop(held.borrow_mut().remove(0)));
    pass(&mut sim, SECOND);
    assert_eq!(two.seen.borrow().len(), 6);
    // The others expire before there is room.
    pass(&mut sim, 5 * SECOND);
    let held = two.held.clone();
    run_on(&mut sim, &two, move |_| held.borrow_mut().clear());
    pass(&mut sim, SECOND);
    let metrics = two.link(0).inbound()[0].1;
    assert_eq!((two.seen.borrow().len(), metrics.expired.count, metrics.scheduled.count), (6, 4, 0));
    assert_eq!((metrics.using_bytes, metrics.using_reserve_bytes), (0, 0));
    assert!(metrics.throttled_nanos >= 4_000_000_000, "{}", metrics.throttled_nanos);
    assert_eq!(two.link(0).drops(), [(HOLD, 4)]);
}

#[test]
fn a_node_that_does_not_read_its_answers_is_not_read_either() {
    let (mut sim, one, mut two) = (sim(5), Node::new(ONE, 1), Node::new(TWO, 1));
    two.options.send = limits(400_000, 0, 0);
    two.listen(&mut sim);
    one.listen(&mut sim);
    run_on(&mut sim, &one, |links| {
        links.post(address(TWO), Lane::Requests, ECHO, b"connect", within(SECOND)).expect("room");
    });
    pass(&mut sim, SECOND);
    sim.partition_one_way(TWO, ONE, true);
    run_on(&mut sim, &one, |links| {
        for n in 0..100 {
            drop(links.call(address(TWO), Lane::Requests, ECHO, &[n; 30_000], within(100 * SECOND)));
        }
    });
    pass(&mut sim, 10 * SECOND);
    let served = two.seen.borrow().len();
    assert!(served < 50, "{served} answers wait in memory");
    sim.partition_one_way(TWO, ONE, false);
    pass(&mut sim, 30 * SECOND);
    assert_eq!(two.seen.borrow().len(), 101);
}
