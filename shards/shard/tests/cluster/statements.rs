//! What clients see of several nodes is what they see of one, whichever node and core they ask.

use super::world::{Request, Row, World, rows_of};
use model::{BatchKind, Consistency, Failure, Partitioner};
use shard::{Config, Verb};
use std::time::Duration;

/// One or several nodes that run the same statements. Each statement is run on the next core of the next node.
struct Clients {
    world: World,
    nodes: usize,
    turn: usize,
}

impl Clients {
    fn start(cores: &[usize], tweak: fn(&mut Config), replication: &str) -> Clients {
        let mut world = World::start(cores, tweak);
        world.everywhere(&format!("CREATE KEYSPACE k WITH replication = {replication}"));
        let table = |id: u8, name: &str, columns: &str| {
            format!("CREATE TABLE k.{name} ({columns}) WITH id = 0000000{id}-0000-1000-8000-000000000000")
        };
        world.everywhere(&table(1, "t", "a int, b int, c int, s int static, PRIMARY KEY (a, b)"));
        world.everywhere(&table(2, "n", "a int PRIMARY KEY, c counter"));
        world.everywhere(&table(3, "l", "a int PRIMARY KEY, l list<int>, m map<int, text>, s set<int>"));
        world.everywhere("CREATE INDEX byc ON k.t (c)");
        Clients { world, nodes: cores.len(), turn: 0 }
    }

    fn next(&mut self) -> (usize, usize) {
        self.turn += 1;
        let node = self.turn % self.nodes;
        (node, self.turn / self.nodes % self.world.cores(node))
    }

    fn run(&mut self, text: &str) -> Result<Vec<Row>, Failure> {
        self.run_at(text, Consistency::One)
    }

    fn run_at(&mut self, text: &str, consistency: Consistency) -> Result<Vec<Row>, Failure> {
        let (node, core) = self.next();
        let request = Request { consistency, ..Request::new(text) };
        // Clocks drift apart a little, and the next statement must have a later timestamp.
        self.world.wait(Duration::from_millis(20));
        self.world.query(node, core, &request).map(|answer| rows_of(answer).0)
    }

    /// All rows, a page from each node in turn.
    fn pages(&mut self, text: &str, page_size: i32) -> Vec<Vec<Row>> {
        let mut pages = Vec::new();
        let mut request = Request { page_size: Some(page_size), ..Request::new(text) };
        loop {
            let (node, core) = self.next();
            let answer = self.world.query(node, core, &request).unwrap_or_else(|failure| panic!("{text}: {failure}"));
            let (rows, state) = rows_of(answer);
            pages.push(rows);
            if state.is_none() {
                return pages;
            }
            request.paging_state = state;
        }
    }
}

const SIMPLE: &str = "{'class': 'SimpleStrategy', 'replication_factor': 1}";

/// The answers to a fixed list of statements.
fn answers(clients: &mut Clients) -> Vec<(String, Result<Vec<Row>, Failure>)> {
    let mut answers = Vec::new();
    let mut run = |clients: &mut Clients, text: String| {
        let answer = clients.run(&text);
        answers.push((text, answer));
    };
    for a in 0..16 {
        for b in 0..3 {
            run(clients, format!("INSERT INTO k.t (a, b, c) VALUES ({a}, {b}, {})", (a + b) % 5));
        }
        run(clients, format!("UPDATE k.t SET s = {} WHERE a = {a}", a * 2));
        run(clients, format!("UPDATE k.n SET c = c + {a} WHERE a = {}", a % 7));
        run(clients, format!("INSERT INTO k.l (a, l, m, s) VALUES ({a}, [1, 2, 3], {{1: 'x'}}, {{4, 5}})"));
    }
    for a in 0..16 {
        run(clients, format!("SELECT * FROM k.t WHERE a = {a}"));
        run(clients, format!("SELECT b, writetime(c) > 0, token(a) FROM k.t WHERE a = {a} ORDER BY b DESC LIMIT 2"));
        run(clients, format!("UPDATE k.l SET l[1] = {a}, m[2] = 'y', s = s - {{4}} WHERE a = {a}"));
        run(clients, format!("DELETE l[0] FROM k.l WHERE a = {a}"));
        run(clients, format!("UPDATE k.l SET l = l - [3] WHERE a = {a}"));
        run(clients, format!("SELECT * FROM k.l WHERE a = {a}"));
        run(clients, format!("INSERT INTO k.t (a, b, c) VALUES ({a}, 1, 9) IF NOT EXISTS"));
        run(clients, format!("UPDATE k.t SET c = 77 WHERE a = {a} AND b = 2 IF c = {}", (a + 2) % 5));
        run(clients, format!("UPDATE k.t SET c = 78 WHERE a = {a} AND b = 2 IF c = 76 AND s = {}", a * 2));
        run(clients, format!("UPDATE k.l SET l[0] = 5 WHERE a = {a} IF l CONTAINS {a}"));
        run(clients, format!("DELETE FROM k.t WHERE a = {a} AND b = 0"));
    }
    for text in [
        "SELECT * FROM k.t",
        "SELECT * FROM k.l",
        "SELECT * FROM k.n",
        "SELECT count(*), max(c), min(b) FROM k.t",
        "SELECT count(*) FROM k.t WHERE a IN (1, 2, 3, 50)",
        "SELECT a, count(*) FROM k.t GROUP BY a",
        "SELECT DISTINCT a, s FROM k.t",
        "SELECT * FROM k.t WHERE a IN (7, 3, 11, 3, 15)",
        "SELECT * FROM k.t WHERE a IN (7, 3, 11) ORDER BY b DESC",
        "SELECT * FROM k.t WHERE c = 3",
        "SELECT * FROM k.t WHERE c = 3 AND a = 2",
        "SELECT * FROM k.t WHERE c = 77 LIMIT 7",
        "SELECT * FROM k.t WHERE b = 1 ALLOW FILTERING",
        "SELECT * FROM k.t WHERE c IN (1, 3) AND s > 20 ALLOW FILTERING",
        "SELECT a FROM k.l WHERE l CONTAINS 12 ALLOW FILTERING",
        "SELECT a FROM k.l WHERE m CONTAINS KEY 2 AND m[1] = 'x' LIMIT 5 ALLOW FILTERING",
        "SELECT * FROM k.t LIMIT 17",
        "SELECT * FROM k.t PER PARTITION LIMIT 1",
        "SELECT a, token(a) FROM k.t WHERE token(a) > 0",
        "SELECT a FROM k.t WHERE token(a) > -5000000000000000000 AND token(a) <= 5000000000000000000",
        "UPDATE k.l SET l[9] = 1 WHERE a = 3",
        "UPDATE k.l SET l[0] = 1 WHERE a IN (3, 4, 5)",
        "SELECT * FROM k.l WHERE a IN (3, 4, 5)",
        "BEGIN BATCH UPDATE k.l SET l[0] = 8 WHERE a = 1; UPDATE k.l SET l[0] = 9 WHERE a = 2; \
         INSERT INTO k.t (a, b, c) VALUES (100, 1, 1); APPLY BATCH",
        "BEGIN UNLOGGED BATCH DELETE FROM k.t WHERE a = 1; DELETE FROM k.t WHERE a = 2; APPLY BATCH",
        "BEGIN COUNTER BATCH UPDATE k.n SET c = c + 5 WHERE a = 1; UPDATE k.n SET c = c - 5 WHERE a = 2; APPLY BATCH",
        "BEGIN BATCH UPDATE k.t SET c = 1 WHERE a = 5 AND b = 1 IF c = 9; UPDATE k.t SET s = 3 WHERE a = 5; APPLY BATCH",
        "BEGIN BATCH UPDATE k.t SET c = 1 WHERE a = 5 AND b = 1 IF s = 10; UPDATE k.t SET s = 3 WHERE a = 5; APPLY BATCH",
        "SELECT * FROM k.t WHERE a IN (1, 2, 5, 100)",
        "SELECT * FROM k.l WHERE a IN (1, 2)",
        "SELECT * FROM k.n WHERE a IN (1, 2)",
        "DELETE FROM k.t WHERE a IN (8, 9) AND b > 0",
        "SELECT * FROM k.t",
        "TRUNCATE k.l",
        "SELECT * FROM k.l",
        "SELECT * FROM k.nowhere",
    ] {
        run(clients, text.into());
    }
    answers
}

/// Compares several nodes with one.
fn compare(cores: &[usize], tweak: fn(&mut Config), replication: &str) {
    let mut one = Clients::start(&[1], tweak, SIMPLE);
    let mut several = Clients::start(cores, tweak, replication);
    let (expected, found) = (answers(&mut one), answers(&mut several));
    for ((text, expected), (_, found)) in expected.iter().zip(&found) {
        let rows = |answer: &Result<Vec<Row>, Failure>| answer.as_ref().map_or(0, Vec::len);
        assert!(found == expected, "{text}: {} rows of {}", rows(found), rows(expected));
    }
    for (text, page_size) in [
        ("SELECT * FROM k.t", 1),
        ("SELECT * FROM k.t", 7),
        ("SELECT * FROM k.t", 60),
        ("SELECT * FROM k.t LIMIT 25", 10),
        ("SELECT DISTINCT a FROM k.t", 9),
        ("SELECT a, count(*) FROM k.t GROUP BY a", 6),
        ("SELECT * FROM k.t WHERE a IN (3, 10, 4, 11, 12, 13)", 4),
        ("SELECT * FROM k.t WHERE c = 77", 5),
        ("SELECT * FROM k.t WHERE b = 2 ALLOW FILTERING", 5),
    ] {
        assert_eq!(several.pages(text, page_size), one.pages(text, page_size), "{text}, pages of {page_size}");
    }
    let network = &several.world.network;
    let verbs: &[Verb] = match replication == SIMPLE {
        true => &[Verb::Mutation, Verb::CounterMutation, Verb::Read, Verb::PaxosSettle, Verb::ReadFragments],
        false => &[Verb::Mutation, Verb::PaxosPropose, Verb::PaxosCommit, Verb::ReadFragments],
    };
    for verb in verbs {
        assert!(network.sent(*verb) > 0, "{verb:?} went between nodes");
    }
}

#[test]
fn three_nodes_answer_as_one_does() {
    compare(&[2, 1, 3], |_| {}, SIMPLE);
}

#[test]
fn keyspaces_with_more_replicas_answer_as_one_node_does() {
    compare(&[1, 2], |_| {}, "{'class': 'NetworkTopologyStrategy', 'datacenter1': 2}");
}

#[test]
fn nodes_with_ordered_keys_answer_as_one_does() {
    // Integers from 0 to 16 share the first 24 bits; tokens of nodes lie among them.
    compare(
        &[2, 1, 2],
        |config| {
            config.partitioner = Partitioner::ByteOrdered;
            let last = match config.listen_address {
                std::net::IpAddr::V4(address) => address.octets()[3],
                std::net::IpAddr::V6(_) => 0,
            };
            config.initial_tokens = vec![model::RingToken::ByteOrdered([0, 0, 0, last * 4].as_slice().into())];
        },
        SIMPLE,
    );
}

#[test]
fn counters_and_decisions_of_all_nodes_are_in_one_order() {
    check_order(SIMPLE);
}

#[test]
fn counters_and_decisions_of_three_replicas_are_in_one_order() {
    check_order("{'class': 'SimpleStrategy', 'replication_factor': 3}");
}

fn check_order(replication: &str) {
    let mut clients = Clients::start(&[2, 2, 1], |_| {}, replication);
    // Conditional too: a plain write takes its timestamp from a clock that may be ahead of those of the decisions.
    clients.run("INSERT INTO k.t (a, b, c) VALUES (1, 1, 0) IF NOT EXISTS").expect("inserted");
    // Every client adds one to the counter, and tries to set the register from the value that it saw to the next.
    let mut results = Vec::new();
    for turn in 0..6 {
        let (node, core) = clients.next();
        let add = Request::new("UPDATE k.n SET c = c + 1 WHERE a = 1");
        let set = Request::new(&format!("UPDATE k.t SET c = {} WHERE a = 1 AND b = 1 IF c = {turn}", turn + 1));
        let set = Request { consistency: Consistency::Quorum, ..set };
        results.push(clients.world.begin(node, core, move |shard| async move {
            let session = shard::Session::default();
            let parameters = model::QueryParameters::new(Consistency::One);
            shard.query(&session, &add.text, &parameters).await.expect("added");
            loop {
                // A round that others overtook too often says that it took too long. Its decision may be made all the
                // same: then the register has gone on, and the statement will never apply again. The pause is random,
                // so that clients of several nodes do not overtake each other for ever.
                let answer = shard.query(&session, &set.text, &parameters).await;
                if let Ok(answer) = answer {
                    let row = rows_of(answer).0.remove(0);
                    let seen = row.get(1).and_then(|c| Some(i32::from_be_bytes(c.as_deref()?.try_into().ok()?)));
                    if row[0].as_deref() == Some(&[1]) || seen.is_some_and(|seen| seen > turn) {
                        return;
                    }
                }
                runtime::sleep(Duration::from_millis(20 + runtime::rng::below(400))).await;
            }
        }));
    }
    let all = || results.iter().all(|result| result.borrow().is_some());
    clients.world.sim.run_until(Duration::from_secs(60), all);
    assert!(all(), "every client ends");
    let number = |rows: Vec<Row>| rows[0][0].clone().map(|bytes| bytes[bytes.len() - 1]);
    assert_eq!(clients.run_at("SELECT c FROM k.n WHERE a = 1", Consistency::All).map(number), Ok(Some(6)));
    assert_eq!(clients.run_at("SELECT c FROM k.t WHERE a = 1 AND b = 1", Consistency::Serial).map(number), Ok(Some(6)));
}

#[test]
fn a_logged_batch_over_nodes_is_applied() {
    let mut clients = Clients::start(&[1, 2], |_| {}, SIMPLE);
    let texts: Vec<String> = (0..20).map(|a| format!("INSERT INTO k.t (a, b, c) VALUES ({a}, 1, 1)")).collect();
    clients.world.batch(1, 1, BatchKind::Logged, &texts).expect("applied");
    assert_eq!(clients.run("SELECT a FROM k.t").map(|rows| rows.len()), Ok(20));
}
