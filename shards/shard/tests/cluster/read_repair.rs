//! Repairs of replicas that do not acknowledge them.

use super::network::Fault;
use super::reads::{ALL, configured, read, write_on};
use super::replicas::stored;
use super::world::{World, address};
use model::failure::Detail;
use model::{Consistency, ErrorCode};
use shard::{Config, Verb};
use std::time::Duration;

const ROW: &str = "SELECT c FROM k.t WHERE a = 1";

/// Three nodes of which the first alone has a row, and two of which take part in a read at QUORUM.
fn one_has_more(policy: &str) -> World {
    let options = format!(" AND speculative_retry = 'NEVER' AND additional_write_policy = '{policy}'");
    let configure: fn(&mut Config) = |config| config.dynamic_snitch = None;
    let mut world = configured(&[1, 1, 1], &options, configure);
    write_on(&mut world, &[0], "INSERT INTO k.t (a, b, c) VALUES (1, 1, 10) USING TIMESTAMP 10");
    world
}

/// Lets these nodes get no repairs.
fn fail(world: &World, nodes: &[usize], fault: Fault) {
    for node in nodes {
        world.network.faults.borrow_mut().insert((address(*node), Verb::ReadRepair), fault);
    }
}

/// Reads at a level. Returns how long that took, and how many repairs were sent; a failure as its fields.
fn timed_read(world: &mut World, text: &str, level: Consistency) -> (Duration, u64, Result<usize, Detail>) {
    let (began, sent) = (world.sim.now(), world.network.sent(Verb::ReadRepair));
    let rows = read(world, 0, text, level).map(|rows| rows.len()).map_err(|failure| {
        assert_eq!(failure.code, ErrorCode::ReadTimeout, "{failure:?}");
        failure.detail
    });
    (world.sim.now().since(began), world.network.sent(Verb::ReadRepair) - sent, rows)
}

fn timed_out(consistency: Consistency, received: i32, block_for: i32) -> Result<usize, Detail> {
    Err(Detail::ReadTimeout { consistency, received, block_for, data_present: true })
}

/// The node that takes part in a read at QUORUM besides the first one, in a world like the one that is asked then.
fn second(text: &str, policy: &str) -> usize {
    let mut world = one_has_more(policy);
    timed_read(&mut world, text, Consistency::Quorum).2.expect("read");
    (1..3).find(|node| stored(&mut world, *node, "t", 1).0 > 0).expect("a node that was repaired")
}

#[test]
fn a_repair_that_is_late_goes_to_further_replicas() {
    for (text, policy, millis) in [
        (ROW, "40ms", 40..80),
        ("SELECT c FROM k.t", "MAX(99p,60ms)", 60..100),
        (ROW, "99p", 0..20),
        (ROW, "ALWAYS", 0..20),
    ] {
        let late = second(text, policy);
        let mut world = one_has_more(policy);
        fail(&world, &[late], Fault::Lost);
        let (took, sent, rows) = timed_read(&mut world, text, Consistency::Quorum);
        assert_eq!((sent, rows), (2, Ok(1)), "{text} {policy}");
        assert!(millis.contains(&took.as_millis()), "{text} {policy}: {took:?}");
        assert_eq!(ALL.map(|node| stored(&mut world, node, "t", 1).0 > 0), ALL.map(|node| node != late));
    }
}

#[test]
fn a_replica_that_refuses_a_repair_is_replaced_at_once() {
    let refusing = second(ROW, "NEVER");
    let mut world = one_has_more("NEVER");
    fail(&world, &[refusing], Fault::Refused);
    let (took, sent, rows) = timed_read(&mut world, ROW, Consistency::Quorum);
    assert_eq!((sent, rows), (2, Ok(1)));
    assert!(took < Duration::from_millis(20), "{took:?}");
    // Others that could have it do not take it either: nothing is waited for.
    let mut world = one_has_more("NEVER");
    fail(&world, &[1, 2], Fault::Refused);
    let (took, sent, rows) = timed_read(&mut world, ROW, Consistency::Quorum);
    assert_eq!((sent, rows), (2, timed_out(Consistency::Quorum, 1, 2)));
    assert!(took < Duration::from_millis(20), "{took:?}");
}

#[test]
fn a_read_that_cannot_be_repaired_times_out() {
    let silent = second(ROW, "NEVER");
    let timeout = Config::default().read_timeout;
    for (policy, level, lost, sent_in_all, received, block_for) in [
        ("NEVER", Consistency::Quorum, &[silent][..], 1, 1, 2),
        ("10ms", Consistency::Quorum, &[1, 2], 2, 1, 2),
        ("10ms", Consistency::All, &[silent], 2, 2, 3),
    ] {
        let mut world = one_has_more(policy);
        fail(&world, lost, Fault::Lost);
        let (took, sent, rows) = timed_read(&mut world, ROW, level);
        assert_eq!((sent, rows), (sent_in_all, timed_out(level, received, block_for)), "{policy} {level:?}");
        assert!(took >= timeout && took < timeout + Duration::from_millis(50), "{took:?}");
    }
}

#[test]
fn a_deleted_range_is_repaired_up_to_the_bounds_of_the_slice_that_was_read() {
    for (slice, order) in [("b >= 10 AND b < 20", "ASC"), ("b >= 10 AND b < 20", "DESC"), ("b > 9 AND b <= 19", "ASC")]
    {
        let mut world = configured(&[1, 1, 1], "", |_| {});
        write_on(&mut world, &[0], "DELETE FROM k.t USING TIMESTAMP 20 WHERE a = 1 AND b > 0 AND b < 100");
        let text = format!("SELECT c FROM k.t WHERE a = 1 AND {slice} ORDER BY b {order}");
        assert_eq!(read(&mut world, 0, &text, Consistency::All), Ok(Vec::new()));
        assert_eq!(world.network.sent(Verb::ReadRepair), 2, "{slice} {order}");
        // Older rows come late: within the slice and around it.
        for b in [9, 10, 19, 20] {
            let text = format!("INSERT INTO k.t (a, b, c) VALUES (1, {b}, {b}) USING TIMESTAMP 10");
            write_on(&mut world, &[1, 2], &text);
        }
        for node in [1, 2] {
            let rows = read(&mut world, node, "SELECT b FROM k.t WHERE a = 1", Consistency::One).expect("read");
            let shown: Vec<_> = rows.iter().map(|row| row[0].clone()).collect();
            assert_eq!(shown, [9i32, 20].map(|b| Some(b.to_be_bytes().to_vec())), "{slice} {order} on node {node}");
        }
    }
}
