//! Drivers that know tablets are told which nodes have one by a node that has not, and by no other.

use super::*;
use model::value::BoundValue;
use model::{Consistency, Partitioner, QueryParameters};
use wire::Version;
use wire::client::{Answer, Response, put_request};
use wire::decoder::{Decoder, Event};
use wire::request::Request as WireRequest;

const NODES: [NodeId; 3] = [ONE, TWO, THREE];
/// The cores of each.
const CORES: [usize; 3] = [1, 2, 1];
const INSERT: &str = "INSERT INTO k.t (b, a) VALUES (7, ?)";
const SELECT: &str = "SELECT b FROM k.t WHERE a = ?";

/// A connection that shows custom payloads.
struct Driver {
    stream: Stream,
    received: Decoder,
}

impl Driver {
    async fn connect(node: NodeId, options: &[(&'static str, &'static str)]) -> Driver {
        let stream = Stream::connect(at(node, 9042), None).await.expect("the node serves");
        let mut driver = Driver { stream, received: Decoder::client() };
        let startup = [&[("CQL_VERSION", "3.0.0")], options].concat();
        assert_eq!(driver.ask(&WireRequest::Startup(startup)).await.response, Response::Ready);
        driver
    }

    async fn ask(&mut self, request: &WireRequest<'_>) -> Answer {
        self.stream.write(|out| put_request(out, Version::V4, 1, request));
        loop {
            if let Some(event) = self.received.next_event() {
                let Event::Envelope(envelope) = event else { panic!("{event:?}") };
                return Answer::decode(&envelope).expect("an answer");
            }
            let bytes = self.stream.recv().await.expect("received").expect("not closed");
            self.received.feed(&bytes);
        }
    }

    /// Asks for a key; returns what the answer tells of its tablet.
    async fn told(&mut self, text: &str, key: i32) -> Option<Told> {
        let key = key.to_be_bytes();
        let values = vec![BoundValue::Bytes(&key)];
        let parameters = QueryParameters { values, ..QueryParameters::new(Consistency::One) };
        let answer = self.ask(&WireRequest::Query { text, parameters }).await;
        assert!(matches!(answer.response, Response::Rows(_) | Response::Void), "{:?}", answer.response);
        let (name, bytes) = answer.payload.first()?;
        assert_eq!((name.as_str(), answer.payload.len()), ("tablets-routing-v1", 1));
        Some(Told::read(bytes))
    }
}

/// What is told of a tablet.
#[derive(Clone, PartialEq, Debug)]
struct Told {
    after: i64,
    until: i64,
    replicas: Vec<([u8; 16], i32)>,
}

impl Told {
    fn read(bytes: &[u8]) -> Told {
        let token = |at: usize| i64::from_be_bytes(bytes[at..at + 8].try_into().expect("a bigint"));
        // A replica is a tuple of 28 bytes: those of a uuid and of an int, each after its length.
        let replicas = bytes[32..].chunks(32).map(|replica| {
            let core = i32::from_be_bytes(replica[28..32].try_into().expect("an int"));
            (replica[8..24].try_into().expect("a uuid"), core)
        });
        Told { after: token(4), until: token(16), replicas: replicas.collect() }
    }
}

#[test]
fn a_driver_is_told_of_tablets_by_nodes_that_do_not_have_them() {
    let mut sim = Sim::new(70, Options { buggify: false, ..Options::default() });
    for (node, cores) in NODES.into_iter().zip(CORES) {
        assert_eq!(start(&mut sim, node, cores, config(node)), []);
    }
    run(&mut sim, || async {
        let mut hosts = Vec::new();
        for node in NODES {
            let rows = query(&mut client(node).await, "SELECT host_id FROM system.local").await.rows;
            hosts.push(<[u8; 16]>::try_from(rows[0][0].clone().expect("a host id")).expect("a uuid"));
        }
        let mut any = client(ONE).await;
        let replication = "{'class': 'NetworkTopologyStrategy', 'replication_factor': 2}";
        let tablets = "{'enabled': true, 'initial': 8}";
        query(&mut any, &format!("CREATE KEYSPACE k WITH replication = {replication} AND tablets = {tablets}")).await;
        query(&mut any, &format!("CREATE KEYSPACE r WITH replication = {replication}")).await;
        query(&mut any, "CREATE TABLE k.t (a int PRIMARY KEY, b int)").await;
        query(&mut any, "CREATE TABLE r.t (a int PRIMARY KEY, b int)").await;
        let mut tellers = [0; 3];
        for key in 0i32..30 {
            let text = if key % 2 == 0 { INSERT } else { SELECT };
            let token = Partitioner::Murmur3.token(&key.to_be_bytes()).0;
            let mut told = Vec::new();
            for node in NODES {
                let mut driver = Driver::connect(node, &[("TABLETS_ROUTING_V1", "")]).await;
                told.push(driver.told(text, key).await);
                assert_eq!(driver.told("SELECT b FROM r.t WHERE a = ?", key).await, None, "a table of the ring");
                assert_eq!(Driver::connect(node, &[]).await.told(text, key).await, None, "it has not asked");
            }
            let teller = told.iter().position(Option::is_some).expect("one of three nodes has no replica");
            tellers[teller] += 1;
            let tablet = told[teller].take().expect("told");
            assert_eq!(told, [const { None }; 3], "the others have it");
            assert!(tablet.after < token && token <= tablet.until, "{token}: {tablet:?}");
            let mut named: Vec<usize> = Vec::new();
            for (host, core) in &tablet.replicas {
                let at = hosts.iter().position(|known| known == host).expect("a node");
                assert!((0..CORES[at] as i32).contains(core));
                named.push(at);
            }
            named.sort_unstable();
            assert_eq!(named, (0..3).filter(|at| *at != teller).collect::<Vec<_>>());
        }
        assert!(tellers.iter().filter(|count| **count > 0).count() > 1, "{tellers:?}");
    });
}
