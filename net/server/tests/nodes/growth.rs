//! Tables with write sharding that get more sub-partitions while they are in use, beside twins without write sharding.

use super::write_sharding::{ONE_REPLICA, SPREAD, TABLETS, THREE_REPLICAS, Twin, Twins, create};
use super::*;
use model::Consistency;
use server::client::CallError;

/// Where a growth may be interrupted, as the leader reaches it.
const STAGES: [&str; 4] =
    ["sub-partitions written twice", "sub-partitions closed", "sub-partitions read there", "sub-partitions left"];

const BY_T: Twin = Twin {
    columns: "d int, c int, t text, v int, w text, l list<int>, PRIMARY KEY (d, c, t)",
    options: "CLUSTERING ORDER BY (c DESC, t ASC)",
    sharding: "{'shards': 1, 'by': ['t']}",
    two_keys: false,
};
const BY_BOTH: Twin = Twin {
    columns: "d int, e text, c int, t text, v int, w text, l list<int>, PRIMARY KEY ((d, e), c, t)",
    options: "CLUSTERING ORDER BY (c ASC, t ASC)",
    sharding: "{'shards': 1, 'by': ['c', 't']}",
    two_keys: true,
};

/// The option with another number of sub-partitions.
fn with_shards(twin: &Twin, shards: u16) -> String {
    twin.sharding.replace("'shards': 1", &format!("'shards': {shards}"))
}

async fn alter(client: &mut Client, table: &str, sharding: &str) {
    query(client, &format!("ALTER TABLE {table} WITH write_sharding = {sharding}")).await;
}

/// How many sub-partitions a table has, how many it is going to have, and the stage of its growth.
async fn shown(client: &mut Client) -> (Option<i32>, Option<i32>, Option<String>) {
    let text =
        "SELECT shards, growing_to, stage FROM system_views.sub_partitions WHERE keyspace_name = 'k' ALLOW FILTERING";
    let rows = query(client, text).await.rows;
    let Some(row) = rows.first() else { return (None, None, None) };
    let int = |at: usize| row[at].as_deref().map(|bytes| i32::from_be_bytes(bytes.try_into().expect("four bytes")));
    (int(0), int(1), row[2].as_deref().map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

/// Waits until a table has so many, and does not grow any more.
async fn grown(client: &mut Client, shards: i32) {
    let began = runtime::now();
    loop {
        let now = shown(client).await;
        if now == (Some(shards), None, None) {
            return;
        }
        assert!(runtime::now().since(began) < Duration::from_secs(120), "{now:?}");
        runtime::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until clients have done so many more requests than now.
async fn done_more(done: impl Fn() -> i32, more: i32) {
    let (began, goal) = (runtime::now(), done() + more);
    while done() < goal {
        assert!(runtime::now().since(began) < Duration::from_secs(120), "{} of {goal}", done());
        runtime::sleep(Duration::from_millis(10)).await;
    }
}

/// Compares all rows of the twins: by scans, by keys and each by its own.
pub(super) async fn compare(twins: &mut Twins) {
    let keys = if twins.has_two_keys() { "d, e, c, t" } else { "d, c, t" };
    twins.ask("SELECT * FROM TABLE").await;
    twins.ask("SELECT count(*), count(v) FROM TABLE").await;
    twins.ask("SELECT * FROM TABLE WHERE w = 'x'").await;
    twins.ask("SELECT * FROM TABLE WHERE v > 2 ALLOW FILTERING").await;
    let rows = query(&mut twins.client, &format!("SELECT {keys} FROM {SPREAD}")).await.rows;
    let mut seen = std::collections::BTreeSet::new();
    for row in &rows {
        assert!(seen.insert(row.clone()), "a row was found twice");
        let int = |at: usize| {
            let bytes = row[at].as_deref().expect("a value");
            i32::from_be_bytes(bytes.try_into().expect("four bytes"))
        };
        let text = |at: usize| String::from_utf8_lossy(row[at].as_deref().expect("a value")).into_owned();
        let key = match twins.has_two_keys() {
            true => format!("d = {} AND e = '{}' AND c = {} AND t = '{}'", int(0), text(1), int(2), text(3)),
            false => format!("d = {} AND c = {} AND t = '{}'", int(0), int(1), text(2)),
        };
        twins.ask(&format!("SELECT * FROM TABLE WHERE {key}")).await;
    }
    for d in 0..3 {
        let of = if twins.has_two_keys() { format!("d = {d} AND e = 'a'") } else { format!("d = {d}") };
        twins.ask(&format!("SELECT * FROM TABLE WHERE {of}")).await;
        twins.ask(&format!("SELECT count(*) FROM TABLE WHERE {of}")).await;
    }
}

/// Statements of every kind while a table grows, on one node of several cores, and on three.
#[test]
fn a_table_that_grows_answers_like_its_twin() {
    for (seed, nodes, twin, replication) in [
        (201, 1, &BY_T, ONE_REPLICA),
        (202, 1, &BY_BOTH, ONE_REPLICA),
        (203, 3, &BY_T, THREE_REPLICAS),
        (204, 3, &BY_BOTH, TABLETS),
    ] {
        let mut sim = Sim::new(seed, Options { buggify: false, ..Options::default() });
        for node in &[ONE, TWO, THREE][..nodes] {
            assert_eq!(start(&mut sim, *node, 2, config(*node)), []);
        }
        run(&mut sim, move || async move {
            let mut other = client(ONE).await;
            create(&mut other, twin, replication).await;
            let level = if nodes == 1 { Consistency::One } else { Consistency::Quorum };
            let mut twins = Twins::new(seed, twin.two_keys, level).await;
            twins.run(150).await;
            for shards in [2, 8, 32] {
                alter(&mut other, SPREAD, &with_shards(twin, shards)).await;
                loop {
                    twins.some(3).await;
                    if shown(&mut other).await == (Some(shards.into()), None, None) {
                        break;
                    }
                }
                compare(&mut twins).await;
                twins.some(60).await;
            }
            compare(&mut twins).await;
            let described = query(&mut other, &format!("DESCRIBE TABLE {SPREAD}")).await.rows;
            let described = String::from_utf8_lossy(described[0][3].as_deref().expect("a text")).into_owned();
            assert!(described.contains("'shards': 32"), "{described}");
        });
        if nodes > 1 {
            continue;
        }
        sim.kill(ONE);
        assert_eq!(start(&mut sim, ONE, 2, config(ONE)), []);
        run(&mut sim, move || async move {
            let mut twins = Twins::new(seed + 50, twin.two_keys, Consistency::One).await;
            compare(&mut twins).await;
        });
    }
}

/// A node dies in each stage, and returns: nothing goes on without it, and nothing is lost. The second time it is the
/// one that leads.
#[test]
fn a_table_grows_while_a_node_dies_and_returns_in_each_stage() {
    for (seed, victim, through) in [(211, THREE, ONE), (212, ONE, TWO)] {
        let mut sim = Sim::new(seed, Options { buggify: false, ..Options::default() });
        for node in [ONE, TWO, THREE] {
            assert_eq!(start(&mut sim, node, 1, config(node)), []);
        }
        run(&mut sim, move || async move {
            create(&mut client(through).await, &BY_T, THREE_REPLICAS).await;
            Twins::through(through, seed, false, Consistency::Quorum).await.run(80).await;
        });
        let mut shards = 1;
        for (number, stage) in (0..).zip(STAGES) {
            shards *= 2;
            sim.forget_reached();
            run(&mut sim, move || async move {
                alter(&mut client(through).await, SPREAD, &with_shards(&BY_T, shards)).await;
            });
            while !sim.reached().contains(stage) {
                assert!(sim.step(), "{stage}");
            }
            sim.kill(victim);
            let seed = seed + 10 * (number + 1);
            run(&mut sim, move || async move {
                let mut twins = Twins::through(through, seed, false, Consistency::Quorum).await;
                twins.some_or_late(40).await;
            });
            assert_eq!(start(&mut sim, victim, 1, config(victim)), []);
            run(&mut sim, move || async move {
                let mut twins = Twins::through(through, seed + 1, false, Consistency::Quorum).await;
                grown(&mut twins.client, shards.into()).await;
                compare(&mut twins).await;
                let mut of_victim = Twins::through(victim, seed + 2, false, Consistency::Quorum).await;
                compare(&mut of_victim).await;
            });
        }
    }
}

/// Clients that add one to the same rows by conditional changes, while the table grows: each change that was applied
/// counts once, whatever place it was decided in.
#[test]
fn conditional_changes_are_decided_once_while_a_table_grows() {
    for (seed, nodes, replication) in [(221, 1, ONE_REPLICA), (222, 3, THREE_REPLICAS)] {
        let mut sim = Sim::new(seed, Options { buggify: false, ..Options::default() });
        for node in &[ONE, TWO, THREE][..nodes] {
            assert_eq!(start(&mut sim, *node, 2, config(*node)), []);
        }
        run(&mut sim, move || async move {
            let mut first = client(ONE).await;
            create(&mut first, &BY_T, replication).await;
            for t in ["a", "b", "c"] {
                query(&mut first, &format!("INSERT INTO {SPREAD} (d, c, t, v) VALUES (1, 1, '{t}', 0) IF NOT EXISTS"))
                    .await;
            }
            let is_over = Rc::new(Cell::new(false));
            let applied = Rc::new(Cell::new([0_i32; 3]));
            let unknown = Rc::new(Cell::new(0));
            let mut counting = Vec::new();
            for number in 0..4 {
                let (is_over, applied, unknown) = (is_over.clone(), applied.clone(), unknown.clone());
                let node = [ONE, TWO, THREE][number % nodes];
                counting.push(runtime::spawn(async move {
                    let mut client = client(node).await;
                    let mut turn = number;
                    while !is_over.get() {
                        turn += 1;
                        let (at, t) = (turn % 3, ["a", "b", "c"][turn % 3]);
                        let row = format!("WHERE d = 1 AND c = 1 AND t = '{t}'");
                        let serial = QueryOptions { consistency: Consistency::Serial, ..QueryOptions::default() };
                        let Ok(found) = client.query(&format!("SELECT v FROM {SPREAD} {row}"), &serial).await else {
                            continue;
                        };
                        let v = found.rows[0][0].as_deref().expect("a value");
                        let v = i32::from_be_bytes(v.try_into().expect("four bytes"));
                        let text = format!("UPDATE {SPREAD} SET v = {} {row} IF v = {v}", v + 1);
                        let options = QueryOptions { consistency: Consistency::Quorum, ..QueryOptions::default() };
                        match client.query(&text, &options).await {
                            Ok(answer) if answer.rows[0][0].as_deref() == Some(&[1_u8][..]) => {
                                let mut counts = applied.get();
                                counts[at] += 1;
                                applied.set(counts);
                            }
                            Ok(_) => {}
                            Err(CallError::Failure { .. }) => unknown.set(unknown.get() + 1),
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                }));
            }
            for shards in [2, 4, 16] {
                alter(&mut first, SPREAD, &with_shards(&BY_T, shards)).await;
                grown(&mut first, shards.into()).await;
                done_more(|| applied.get().iter().sum(), 60).await;
            }
            is_over.set(true);
            for one in counting {
                one.await;
            }
            let serial = QueryOptions { consistency: Consistency::Serial, ..QueryOptions::default() };
            let mut sum = 0;
            for t in ["a", "b", "c"] {
                let text = format!("SELECT v FROM {SPREAD} WHERE d = 1 AND c = 1 AND t = '{t}'");
                let v = first.query(&text, &serial).await.expect("it is read").rows[0][0].clone().expect("a value");
                sum += i32::from_be_bytes(v.try_into().expect("four bytes"));
            }
            let known: i32 = applied.get().iter().sum();
            assert!(known > 100, "{known} changes");
            assert!((known..=known + unknown.get()).contains(&sum), "{known} and {} of {sum}", unknown.get());
        });
    }
}

/// Rows that chance places stay where they are, and are found and deleted wherever that is.
#[test]
fn rows_placed_by_chance_are_found_while_their_table_grows() {
    let mut sim = Sim::new(231, Options { buggify: false, ..Options::default() });
    for node in [ONE, TWO, THREE] {
        assert_eq!(start(&mut sim, node, 2, config(node)), []);
    }
    run(&mut sim, || async {
        let mut first = client(ONE).await;
        query(&mut first, &format!("CREATE KEYSPACE k WITH replication = {THREE_REPLICAS}")).await;
        let random = |shards: i32| format!("{{'shards': {shards}, 'mode': 'random'}}");
        let columns = "a int, b int, c int, PRIMARY KEY (a, b)";
        query(&mut first, &format!("CREATE TABLE k.r ({columns}) WITH write_sharding = {}", random(1))).await;
        let next = Rc::new(Cell::new(0));
        let is_over = Rc::new(Cell::new(false));
        let mut writing = Vec::new();
        for node in [ONE, TWO, THREE] {
            let (next, is_over) = (next.clone(), is_over.clone());
            writing.push(runtime::spawn(async move {
                let mut client = client(node).await;
                let options = || QueryOptions { consistency: Consistency::Quorum, ..QueryOptions::default() };
                while !is_over.get() {
                    let b: i32 = next.replace(next.get() + 1);
                    let text = format!("INSERT INTO k.r (a, b, c) VALUES (1, {b}, {b})");
                    client.query(&text, &options()).await.expect("it is written");
                    let text = format!("SELECT c FROM k.r WHERE a = 1 AND b = {b}");
                    let found = client.query(&text, &options()).await.expect("it is read").rows;
                    assert_eq!(found, [[Some(b.to_be_bytes().to_vec())]]);
                    if b % 3 == 0 {
                        let text = format!("DELETE FROM k.r WHERE a = 1 AND b = {b}");
                        client.query(&text, &options()).await.expect("it is deleted");
                        let text = format!("SELECT c FROM k.r WHERE a = 1 AND b = {b}");
                        assert_eq!(client.query(&text, &options()).await.expect("it is read").rows.len(), 0);
                    }
                }
            }));
        }
        for shards in [2, 8, 40] {
            alter(&mut first, "k.r", &random(shards)).await;
            grown(&mut first, shards).await;
            done_more(|| next.get(), 60).await;
        }
        is_over.set(true);
        for one in writing {
            one.await;
        }
        let options = QueryOptions { consistency: Consistency::Quorum, ..QueryOptions::default() };
        let rows = first.query("SELECT b FROM k.r WHERE a = 1", &options).await.expect("it is read").rows;
        let expected: Vec<i32> = (0_i32..next.get()).filter(|b| b % 3 != 0).collect();
        let found: Vec<i32> = rows
            .iter()
            .map(|row| i32::from_be_bytes(row[0].as_deref().expect("a value").try_into().expect("four bytes")))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(first.query("SELECT b FROM k.r", &options).await.expect("it is read").rows.len(), expected.len());
        let places = first.query("SELECT token(a) FROM k.r", &options).await.expect("it is read").rows;
        let places: std::collections::BTreeSet<i64> = places.iter().map(|row| bigint(row, 0)).collect();
        assert!(places.len() > 8, "{} places", places.len());
    });
}
