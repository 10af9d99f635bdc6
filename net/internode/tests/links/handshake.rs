//! Who may talk to whom: versions, clusters, refusals, and strangers that are no node at all.

use crate::world::{ECHO, Node, ONE, SECOND, TWO, address, identity, run, within};
use internode::frame::{Envelope, HEAD_BYTES, Kind};
use internode::greeting::Greeting;
use internode::{CallError, GREETINGS_MAX, Identity, Lane, Links, Options, Refusal, RefusalReason, Versions};
use runtime::sim::{self, Sim};
use runtime::{ShardId, Stream};
use std::rc::Rc;
use uuid::Uuid;

const THREE: runtime::NodeId = runtime::NodeId(3);

fn sim(seed: u64) -> Sim {
    Sim::new(seed, sim::Options::default())
}

fn introduced(id: runtime::NodeId, change: impl Fn(Identity) -> Identity + 'static) -> Node {
    let mut node = Node::new(id, 1);
    node.introduce = Rc::new(change);
    node
}

fn speaking(id: runtime::NodeId, min: u16, max: u16) -> Node {
    introduced(id, move |identity| Identity { versions: Versions { min, max }, ..identity })
}

async fn call(links: &Links) -> Result<Vec<u8>, CallError> {
    links.call(address(TWO), Lane::Requests, ECHO, b"x", within(SECOND)).await
}

/// What a node gets that calls another one.
fn between(one: Node, two: &Node, check: impl Fn(Links, Result<Vec<u8>, CallError>) + 'static) {
    let mut sim = sim(1);
    two.listen(&mut sim);
    let check = Rc::new(check);
    run(&mut sim, &one, move |links| {
        let check = check.clone();
        async move {
            let result = call(&links).await;
            check(links, result);
        }
    });
}

#[test]
fn nodes_speak_the_newest_version_that_both_know() {
    for ((min, max), (other_min, other_max), expected) in
        [((2, 2), (1, 2), Some(2)), ((1, 2), (2, 3), Some(2)), ((1, 3), (1, 1), Some(1)), ((2, 3), (1, 1), None)]
    {
        let two = speaking(TWO, other_min, other_max);
        between(speaking(ONE, min, max), &two, move |links, result| match expected {
            Some(version) => {
                assert_eq!(result.as_deref(), Ok(&b"x"[..]));
                assert_eq!(links.peer(address(TWO)).expect("connected").version, version);
            }
            None => {
                let Err(CallError::Refused(refusal)) = result else { panic!("{result:?}") };
                assert_eq!(refusal.reason, RefusalReason::Version);
                assert_eq!(refusal.text, "/127.1.0.1:7000 speaks message versions 2 to 3, this node 1 to 1");
            }
        });
    }
}

#[test]
fn a_node_of_another_cluster_is_refused_by_name_or_id_and_told_so() {
    let named = introduced(ONE, |identity| Identity { cluster_name: "Foo".into(), ..identity });
    let two = Node::new(TWO, 1);
    between(named, &two, |_, result| {
        let text = "ClusterName mismatch from /127.1.0.1:7000 Foo!=Test Cluster".to_owned();
        assert_eq!(result, Err(CallError::Refused(Refusal { reason: RefusalReason::ClusterName, text })));
    });
    assert_eq!((two.link(0).strangers().refused, two.link(0).inbound().len()), (1, 0));
    let other = introduced(ONE, |identity| Identity { cluster_id: Some(Uuid::from_u128(9)), ..identity });
    between(other, &Node::new(TWO, 1), |_, result| {
        assert!(matches!(result, Err(CallError::Refused(Refusal { reason: RefusalReason::ClusterId, .. }))));
    });
    let joining = introduced(ONE, |identity| Identity { cluster_id: None, ..identity });
    between(joining, &Node::new(TWO, 1), |_, result| assert!(result.is_ok()));
}

#[test]
fn either_node_may_refuse_the_other() {
    let refusal = Refusal { reason: RefusalReason::Left, text: "has left".into() };
    for refuses in [ONE, TWO] {
        let (one, two) = (Node::new(ONE, 1), Node::new(TWO, 1));
        let node = if refuses == ONE { &one } else { &two };
        node.refusal.replace(Some(refusal.clone()));
        let expected = Err(CallError::Refused(refusal.clone()));
        between(one, &two, move |links, result| {
            assert_eq!(result, expected);
            assert_eq!(links.outbound()[0].1.active_connections, 0);
        });
        assert!(two.seen.borrow().is_empty());
    }
}

#[test]
fn what_a_node_says_of_itself_can_change() {
    let (mut sim, one, two) = (sim(2), Node::new(ONE, 1), Node::new(TWO, 1));
    two.listen(&mut sim);
    run(&mut sim, &one, |links| async move {
        let own = Identity::clone(&links.identity());
        links.set_identity(Identity { cluster_name: "Foo".into(), ..own.clone() });
        assert!(matches!(call(&links).await, Err(CallError::Refused(_))));
        links.set_identity(own);
        runtime::sleep(SECOND).await;
        assert!(call(&links).await.is_ok());
    });
}

/// Everything that the other side sends until it closes.
async fn read_to_end(stream: &Stream) -> Vec<u8> {
    let mut all = Vec::new();
    while let Ok(Some(bytes)) = stream.recv().await {
        all.extend_from_slice(&bytes);
    }
    all
}

fn hello(lane: Lane) -> Vec<u8> {
    let mut out = Vec::new();
    Greeting::Hello { lane, clock_micros: 0, identity: identity(THREE, ShardId(0), 1) }.put(&mut out);
    out
}

fn request(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let envelope = Envelope { kind: Kind::Request, verb: ECHO, id: 7, clock_micros: u64::MAX / 2 };
    envelope.put(&mut out, false, |out| out.extend_from_slice(body));
    out
}

/// A connection to node 2 that has passed the handshake by hand.
async fn greeted() -> Stream {
    let stream = Stream::connect(address(TWO), None).await.expect("connect");
    stream.write(|out| out.extend_from_slice(&hello(Lane::Requests)));
    let mut received = Vec::new();
    loop {
        received.extend_from_slice(&stream.recv().await.expect("connected").expect("an answer"));
        if let Some((greeting, _)) = Greeting::take(&received).expect("a greeting") {
            assert!(matches!(greeting, Greeting::Welcome { version: 1, .. }));
            return stream;
        }
    }
}

#[test]
fn a_stranger_is_closed_without_a_word_and_counted() {
    let (mut sim, one, two) = (sim(3), Node::new(ONE, 1), Node::new(TWO, 1));
    two.listen(&mut sim);
    run(&mut sim, &one, |links| async move {
        let mut welcome = Vec::new();
        Greeting::Welcome { version: 1, identity: identity(THREE, ShardId(0), 1) }.put(&mut welcome);
        let mut damaged = hello(Lane::Urgent);
        damaged[40] ^= 1;
        let mut long = hello(Lane::Urgent);
        long[14..16].copy_from_slice(&[0xff, 0xff]);
        for bytes in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), welcome, damaged, long, request(b"x")] {
            let stream = Stream::connect(address(TWO), None).await.expect("connect");
            stream.write(|out| out.extend_from_slice(&bytes));
            assert_eq!(read_to_end(&stream).await, b"");
            assert!(call(&links).await.is_ok(), "others are served");
        }
        let began = runtime::now();
        let silent = Stream::connect(address(TWO), None).await.expect("connect");
        silent.write(|out| out.extend_from_slice(b"hele"));
        assert_eq!(read_to_end(&silent).await, b"");
        let took = runtime::now().since(began);
        assert!((2 * SECOND..SECOND * 21 / 10).contains(&took), "internode_tcp_connect_timeout: {took:?}");
    });
    assert_eq!(two.link(0).strangers().strangers, 6);
    assert_eq!(two.link(0).inbound().len(), 1);
}

#[test]
fn a_flood_of_silent_connections_is_bounded_and_keeps_nobody_out() {
    let (mut sim, one, mut two) = (sim(4), Node::new(ONE, 1), Node::new(TWO, 1));
    two.options.connect_timeout = 100 * SECOND;
    two.listen(&mut sim);
    run(&mut sim, &one, |links| async move {
        let mut silent = Vec::new();
        for n in 0..GREETINGS_MAX + 5 {
            silent.push(Stream::connect(address(TWO), None).await.expect("connect"));
            if n == GREETINGS_MAX / 2 || n == GREETINGS_MAX + 4 {
                assert!(call(&links).await.is_ok());
                links.forget(address(TWO));
                assert!(call(&links).await.is_ok(), "a new connection");
            }
        }
        for closed in &silent[..5] {
            assert_eq!(read_to_end(closed).await, b"");
        }
    });
    // Every silent one beyond the limit, and one for the last connection of node 1.
    let crowded_out = two.link(0).strangers().crowded_out;
    assert!((5..=6).contains(&crowded_out), "{crowded_out}");
}

/// Sends a request and reads the whole answer.
async fn answered(stream: &Stream) {
    stream.write(|out| out.extend_from_slice(&request(b"x")));
    let mut missing = HEAD_BYTES + 1;
    while missing > 0 {
        missing -= stream.recv().await.expect("connected").expect("an answer").len();
    }
}

#[test]
fn connections_and_nodes_are_bounded() {
    for (connections_max, peers_max) in [(1, 10), (10, 1)] {
        let (mut sim, one, mut two) = (sim(5), Node::new(ONE, 1), Node::new(TWO, 1));
        two.options = Options { connections_max, peers_max, ..Options::default() };
        two.listen(&mut sim);
        run(&mut sim, &one, |links| async move {
            let by_hand = greeted().await;
            answered(&by_hand).await;
            assert!(call(&links).await.is_err());
            // The same core and lane may come again.
            let again = greeted().await;
            assert_eq!(read_to_end(&by_hand).await, b"", "the one before is closed");
            answered(&again).await;
        });
        assert_eq!(two.link(0).strangers().crowded_out, 1);
        assert_eq!(two.seen.borrow().len(), 2);
    }
}

#[test]
fn a_damaged_frame_ends_its_connection_and_no_other() {
    let (mut sim, one, mut two) = (sim(6), Node::new(ONE, 1), Node::new(TWO, 1));
    two.options.message_bytes_max = 1000;
    two.listen(&mut sim);
    run(&mut sim, &one, |links| async move {
        assert!(call(&links).await.is_ok());
        let mut damaged_head = request(b"x");
        damaged_head[9] ^= 1;
        let mut damaged_body = request(b"body");
        *damaged_body.last_mut().expect("a body") ^= 1;
        let mut reply = Vec::new();
        let envelope = Envelope { kind: Kind::Reply, verb: 0, id: 0, clock_micros: 0 };
        envelope.put(&mut reply, false, |_| ());
        let long = request(&[0; 1001])[..HEAD_BYTES].to_vec();
        for bytes in [damaged_head, damaged_body, reply, long] {
            let stream = greeted().await;
            stream.write(|out| out.extend_from_slice(&bytes));
            assert_eq!(read_to_end(&stream).await, b"");
            assert!(call(&links).await.is_ok());
        }
        let stream = greeted().await;
        stream.write(|out| out.extend_from_slice(&request(&[0; 1000])));
        assert!(stream.recv().await.is_ok_and(|answer| answer.is_some()), "the longest message");
        assert_eq!(links.outbound()[0].1.connection_attempts, 1);
    });
    let inbound = two.link(0).inbound();
    assert_eq!((inbound[0].0, inbound[0].1.corrupt_frames), (address(ONE), 0));
    assert_eq!((inbound[1].0, inbound[1].1.corrupt_frames), (address(THREE), 4));
    assert_eq!(two.seen.borrow().len(), 6, "of the damaged ones none");
}

#[test]
fn requests_right_behind_the_greeting_are_served() {
    let (mut sim, one, two) = (sim(7), Node::new(ONE, 1), Node::new(TWO, 1));
    two.listen(&mut sim);
    run(&mut sim, &one, |_| async {
        let stream = Stream::connect(address(TWO), None).await.expect("connect");
        let bytes = [hello(Lane::Bulk), request(b"one"), request(b"two")].concat();
        stream.write(|out| out.extend_from_slice(&bytes));
        runtime::sleep(SECOND).await;
    });
    let seen = two.seen.borrow();
    assert_eq!(
        seen.iter().map(|seen| (seen.lane, &*seen.body)).collect::<Vec<_>>(),
        [(Lane::Bulk, &b"one"[..]), (Lane::Bulk, b"two")]
    );
}
