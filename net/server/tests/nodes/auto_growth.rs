//! Tables with `'shards': 'auto'`: keys that get more sub-partitions by themselves, while they are written and read.

use super::growth::compare;
use super::write_sharding::{self, ONE_REPLICA, TABLETS, THREE_REPLICAS, Twin, Twins};
use super::*;
use model::Consistency;
use server::client::CallError;
use std::collections::BTreeMap;

/// Where the leader has a key begin to grow.
const BEGINS: &str = "a key begins to grow";
const TABLE: &str = "k.grown";
/// Twins of which one has keys that grow as soon as somebody asks for them.
const BY_T: Twin = Twin {
    columns: "d int, c int, t text, v int, w text, l list<int>, PRIMARY KEY (d, c, t)",
    options: "CLUSTERING ORDER BY (c DESC, t ASC)",
    sharding: "{'shards': 'auto', 'by': ['t'], 'sub_partition_size': 0, 'sub_partition_throughput': 1}",
    two_keys: false,
};
const BY_BOTH: Twin = Twin {
    columns: "d int, e text, c int, t text, v int, w text, l list<int>, PRIMARY KEY ((d, e), c, t)",
    options: "CLUSTERING ORDER BY (c ASC, t ASC)",
    sharding: "{'shards': 'auto', 'by': ['c', 't'], 'sub_partition_size': 0, 'sub_partition_throughput': 1}",
    two_keys: true,
};
/// Rows of keys that stay small.
const FEW: i32 = 5;

/// What is shown of a key, or of all keys.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ShownKey {
    shards: i32,
    growing_to: Option<i32>,
    reason: Option<String>,
    stage: Option<String>,
}

impl ShownKey {
    fn settled(shards: i32, reason: Option<&str>) -> ShownKey {
        ShownKey { shards, growing_to: None, reason: reason.map(str::to_owned), stage: None }
    }

    fn has_grown(&self) -> bool {
        self.shards > 1 && self.stage.is_none()
    }
}

fn int(bytes: Option<&[u8]>) -> Option<i32> {
    bytes.map(|bytes| i32::from_be_bytes(bytes.try_into().expect("four bytes")))
}

/// The sub-partitions of all keys that are shown, by the texts of the keys.
async fn shown(client: &mut Client) -> BTreeMap<String, ShownKey> {
    let columns = "partition_key, shards, growing_to, reason, stage";
    let text = format!("SELECT {columns} FROM system_views.sub_partitions WHERE keyspace_name = 'k' ALLOW FILTERING");
    let rows = query(client, &text).await.rows;
    let string = |cell: &Option<Vec<u8>>| cell.as_deref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let of = |row: &Vec<Option<Vec<u8>>>| {
        let shown = ShownKey {
            shards: int(row[1].as_deref()).expect("a number"),
            growing_to: int(row[2].as_deref()),
            reason: string(&row[3]),
            stage: string(&row[4]),
        };
        (string(&row[0]).expect("a key"), shown)
    };
    rows.iter().map(of).collect()
}

/// Waits until what is shown is as `is_so` says, and returns it.
async fn shown_as(
    client: &mut Client,
    is_so: impl Fn(&BTreeMap<String, ShownKey>) -> bool,
) -> BTreeMap<String, ShownKey> {
    let began = runtime::now();
    loop {
        let now = shown(client).await;
        if is_so(&now) {
            return now;
        }
        assert!(runtime::now().since(began) < Duration::from_secs(180), "{now:?}");
        runtime::sleep(Duration::from_millis(100)).await;
    }
}

/// Whether a key has grown, and no growth is under way.
fn has_grown(shown: &BTreeMap<String, ShownKey>, key: &str) -> bool {
    shown.get(key).is_some_and(ShownKey::has_grown)
}

async fn create(client: &mut Client, replication: &str, sharding: &str) {
    query(client, &format!("CREATE KEYSPACE k WITH replication = {replication}")).await;
    let columns = "d int, c int, v int, b blob, PRIMARY KEY (d, c)";
    query(client, &format!("CREATE TABLE {TABLE} ({columns}) WITH write_sharding = {sharding}")).await;
}

fn by_size(more: &str) -> String {
    format!("{{'shards': 'auto', 'by': ['c'], 'sub_partition_size': '64KiB', 'sub_partition_throughput': 0{more}}}")
}

fn at_quorum() -> QueryOptions {
    QueryOptions { consistency: Consistency::Quorum, ..QueryOptions::default() }
}

/// Runs a statement until it is not in the way of something that dies or moves.
async fn persist(client: &mut Client, text: &str, options: &QueryOptions) -> Outcome {
    let began = runtime::now();
    loop {
        match client.query(text, options).await {
            Ok(outcome) => return outcome,
            Err(CallError::Failure { .. }) => {}
            Err(error) => panic!("{text}: {error:?}"),
        }
        assert!(runtime::now().since(began) < Duration::from_secs(120), "{text}");
        runtime::sleep(Duration::from_millis(50)).await;
    }
}

/// Writes a row of about a KiB.
async fn write(client: &mut Client, d: i32, c: i32) {
    let text = format!("INSERT INTO {TABLE} (d, c, v, b) VALUES ({d}, {c}, {c}, 0x{})", "00".repeat(1_000));
    persist(client, &text, &at_quorum()).await;
}

/// The clusterings of the rows of a key, as they are read.
async fn rows_of(client: &mut Client, d: i32) -> Vec<i32> {
    let found = persist(client, &format!("SELECT c FROM {TABLE} WHERE d = {d}"), &at_quorum()).await;
    found.rows.iter().map(|row| int(row[0].as_deref()).expect("a value")).collect()
}

/// Checks all rows of a key with so many: in clustering order, one by one, and by a scan.
async fn check(client: &mut Client, d: i32, count: i32) {
    let all: Vec<i32> = (0..count).collect();
    assert_eq!(rows_of(client, d).await, all);
    for c in (0..count).step_by(7) {
        let text = format!("SELECT v FROM {TABLE} WHERE d = {d} AND c = {c}");
        let row = persist(client, &text, &at_quorum()).await.rows;
        assert_eq!(row, [[Some(c.to_be_bytes().to_vec())]], "{text}");
    }
    let scanned = persist(client, &format!("SELECT d, c FROM {TABLE}"), &at_quorum()).await.rows;
    let of_key = scanned.iter().filter(|row| int(row[0].as_deref()) == Some(d));
    let mut found: Vec<i32> = of_key.map(|row| int(row[1].as_deref()).expect("a value")).collect();
    found.sort_unstable();
    assert_eq!(found, all);
}

async fn flush(nodes: &[NodeId]) {
    for node in nodes {
        tool(*node, "flush", &[], &["k"]).await;
    }
}

/// Waits until a client has got so far.
async fn at_least(done: impl Fn() -> i32, goal: i32) {
    let began = runtime::now();
    while done() < goal {
        assert!(runtime::now().since(began) < Duration::from_secs(120), "{} of {goal}", done());
        runtime::sleep(Duration::from_millis(10)).await;
    }
}

/// One key is written until it has grown twice, and read all the while; its neighbours stay as they are. What it has
/// left behind does not let it grow again, and all of it is there after a restart.
#[test]
fn a_key_that_gets_large_grows_while_it_is_used() {
    for (seed, nodes, replication) in [(301, &[ONE][..], ONE_REPLICA), (302, &[ONE, TWO, THREE][..], THREE_REPLICAS)] {
        let mut sim = Sim::new(seed, Options { buggify: false, ..Options::default() });
        for node in nodes {
            assert_eq!(start(&mut sim, *node, 2, config(*node)), []);
        }
        let written = Rc::new(Cell::new(0));
        let count = written.clone();
        run(&mut sim, move || {
            let written = count.clone();
            async move {
                let mut first = client(ONE).await;
                create(&mut first, replication, &by_size("")).await;
                for (d, c) in (2..6).flat_map(|d| (0..FEW).map(move |c| (d, c))) {
                    write(&mut first, d, c).await;
                }
                let (is_over, goal) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(150)));
                let (set, over, most) = (written.clone(), is_over.clone(), goal.clone());
                let writing = runtime::spawn(async move {
                    let mut client = client(*nodes.last().expect("a node")).await;
                    for turn in 0_i32.. {
                        if over.get() {
                            return;
                        }
                        // The same rows are written again when there are enough.
                        let is_new = set.get() < most.get();
                        write(&mut client, 1, if is_new { set.get() } else { turn % set.get() }).await;
                        set.set(set.get() + i32::from(is_new));
                        if turn % 50 == 0 {
                            assert_eq!(rows_of(&mut client, 1).await, (0..set.get()).collect::<Vec<_>>());
                        }
                        runtime::sleep(Duration::from_millis(20)).await;
                    }
                });
                at_least(|| written.get(), goal.get()).await;
                flush(nodes).await;
                let once = shown_as(&mut first, |shown| has_grown(shown, "1")).await["1"].shards;
                goal.set(150 + 60 * once);
                at_least(|| written.get(), goal.get()).await;
                flush(nodes).await;
                shown_as(&mut first, |shown| has_grown(shown, "1") && shown["1"].shards > once).await;
                is_over.set(true);
                writing.await;
                let settled = shown_as(&mut first, |shown| has_grown(shown, "1")).await;
                let shards = settled["1"].shards;
                let expected = [
                    (String::new(), ShownKey::settled(1, None)),
                    ("1".to_owned(), ShownKey::settled(shards, Some("size"))),
                ];
                assert_eq!(settled, BTreeMap::from(expected), "its neighbours stay as they are");
                check(&mut first, 1, written.get()).await;
                check(&mut first, 3, FEW).await;
                flush(nodes).await;
                // The leader looks at what there is several times, and does nothing.
                runtime::sleep(Duration::from_secs(100)).await;
                assert_eq!(shown(&mut first).await, settled, "what was left behind does not count");
            }
        });
        for node in nodes {
            sim.kill(*node);
        }
        let again: Vec<Started> = nodes.iter().map(|node| begin(&mut sim, *node, 2, config(*node))).collect();
        until(&mut sim, "the nodes start", || again.iter().all(Started::serves));
        let count = written.get();
        run(&mut sim, move || async move {
            let mut first = client(ONE).await;
            assert!(has_grown(&shown(&mut first).await, "1"));
            check(&mut first, 1, count).await;
            for d in 2..6 {
                check(&mut first, d, FEW).await;
            }
            let number = format!("ALTER TABLE {TABLE} WITH write_sharding = {{'shards': 64, 'by': ['c']}}");
            let refused = first.query(&number, &QueryOptions::default()).await;
            let Err(CallError::Failure { text, .. }) = refused else { panic!("keys keep what they have") };
            assert!(text.contains("have grown by themselves, up to"), "{text}");
        });
    }
}

/// Rows of one key are read and changed more often than its limit says, those of another less. Only the first grows,
/// and a single row that everybody wants lets its key grow once and not again.
#[test]
fn a_key_that_gets_busy_grows_and_one_that_does_not_stays() {
    let mut sim = Sim::new(311, Options { buggify: false, ..Options::default() });
    for node in [ONE, TWO, THREE] {
        assert_eq!(start(&mut sim, node, 2, config(node)), []);
    }
    run(&mut sim, || async {
        let mut first = client(ONE).await;
        let by_load = "{'shards': 'auto', 'by': ['c'], 'sub_partition_size': 0, 'sub_partition_throughput': 20}";
        create(&mut first, THREE_REPLICAS, by_load).await;
        for (d, c) in (1..4).flat_map(|d| (0..40).map(move |c| (d, c))) {
            write(&mut first, d, c).await;
        }
        let is_over = Rc::new(Cell::new(false));
        let mut asking = Vec::new();
        // The whole of key 4 is read often, which more sub-partitions would not make less.
        for (node, d, pause) in [(ONE, 1, 30), (TWO, 1, 30), (THREE, 2, 100), (TWO, 3, 20), (ONE, 4, 20)] {
            let is_over = is_over.clone();
            asking.push(runtime::spawn(async move {
                let mut client = client(node).await;
                for turn in 0_i32.. {
                    if is_over.get() {
                        return;
                    }
                    let c = if d == 3 { 7 } else { turn % 40 };
                    let text = match turn % 2 {
                        _ if d == 4 => format!("SELECT v FROM {TABLE} WHERE d = 4"),
                        0 => format!("SELECT v FROM {TABLE} WHERE d = {d} AND c = {c}"),
                        _ => format!("UPDATE {TABLE} SET v = {c} WHERE d = {d} AND c = {c}"),
                    };
                    persist(&mut client, &text, &at_quorum()).await;
                    runtime::sleep(Duration::from_millis(pause)).await;
                }
            }));
        }
        let grown = shown_as(&mut first, |shown| has_grown(shown, "1") && has_grown(shown, "3")).await;
        let by_load = |key: &str| ShownKey::settled(grown[key].shards, Some("load"));
        // The leader looks several times more, also after it has left the keys alone for a while.
        runtime::sleep(Duration::from_secs(100)).await;
        let expected = [("", ShownKey::settled(1, None)), ("1", by_load("1")), ("3", by_load("3"))];
        let expected = expected.map(|(key, shown)| (key.to_owned(), shown));
        assert_eq!(shown(&mut first).await, BTreeMap::from(expected));
        assert!((4..=16).contains(&grown["1"].shards), "{grown:?}");
        is_over.set(true);
        for one in asking {
            one.await;
        }
        for d in 1..4 {
            check(&mut first, d, 40).await;
        }
    });
}

/// The leader dies when a key has begun to grow; another one goes on once it is back.
#[test]
fn a_key_grows_though_the_leader_dies_meanwhile() {
    let mut sim = Sim::new(321, Options { buggify: false, ..Options::default() });
    for node in [ONE, TWO, THREE] {
        assert_eq!(start(&mut sim, node, 1, config(node)), []);
    }
    run(&mut sim, || async {
        let mut first = client(TWO).await;
        create(&mut first, THREE_REPLICAS, &by_size("")).await;
        for (d, c) in [(1, 120), (2, FEW)].into_iter().flat_map(|(d, count)| (0..count).map(move |c| (d, c))) {
            write(&mut first, d, c).await;
        }
        flush(&[ONE, TWO, THREE]).await;
    });
    while !sim.reached().contains(BEGINS) {
        assert!(sim.step(), "no key grows");
    }
    sim.kill(ONE);
    run(&mut sim, || async {
        let mut second = client(TWO).await;
        for c in 120..140 {
            write(&mut second, 1, c).await;
        }
        // What has begun waits for the node that is down, and requests do not.
        shown_as(&mut second, |shown| shown.get("1").is_some_and(|key| key.stage.is_some())).await;
        check(&mut second, 1, 140).await;
    });
    assert_eq!(start(&mut sim, ONE, 1, config(ONE)), []);
    run(&mut sim, || async {
        for node in [TWO, ONE] {
            let mut client = client(node).await;
            let grown = shown_as(&mut client, |shown| has_grown(shown, "1")).await;
            assert_eq!((grown.len(), grown["1"].reason.as_deref()), (2, Some("size")));
            check(&mut client, 1, 140).await;
            check(&mut client, 2, FEW).await;
        }
    });
}

/// Clients that add one to rows by conditional changes while their key grows: each change that was applied counts once.
#[test]
fn conditional_changes_go_on_while_a_key_grows() {
    let mut sim = Sim::new(331, Options { buggify: false, ..Options::default() });
    for node in [ONE, TWO, THREE] {
        assert_eq!(start(&mut sim, node, 2, config(node)), []);
    }
    run(&mut sim, || async {
        let mut first = client(ONE).await;
        create(&mut first, THREE_REPLICAS, &by_size("")).await;
        for c in 0..3 {
            let text = format!("INSERT INTO {TABLE} (d, c, v) VALUES (1, {c}, 0) IF NOT EXISTS");
            persist(&mut first, &text, &at_quorum()).await;
        }
        let serial = || QueryOptions { consistency: Consistency::Serial, ..QueryOptions::default() };
        let is_over = Rc::new(Cell::new(false));
        let (applied, unknown) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let mut counting = Vec::new();
        for (number, node) in (0..).zip([ONE, TWO, THREE]) {
            let (is_over, applied, unknown) = (is_over.clone(), applied.clone(), unknown.clone());
            counting.push(runtime::spawn(async move {
                let mut client = client(node).await;
                for turn in number.. {
                    if is_over.get() {
                        return;
                    }
                    let row = format!("WHERE d = 1 AND c = {}", turn % 3);
                    let found = client.query(&format!("SELECT v FROM {TABLE} {row}"), &serial()).await;
                    let Ok(found) = found else { continue };
                    let v = int(found.rows[0][0].as_deref()).expect("a value");
                    let text = format!("UPDATE {TABLE} SET v = {} {row} IF v = {v}", v + 1);
                    match client.query(&text, &at_quorum()).await {
                        Ok(answer) if answer.rows[0][0].as_deref() == Some(&[1_u8][..]) => {
                            applied.set(applied.get() + 1)
                        }
                        Ok(_) => {}
                        Err(CallError::Failure { .. }) => unknown.set(unknown.get() + 1),
                        Err(error) => panic!("{error:?}"),
                    }
                }
            }));
        }
        for c in 3..150 {
            write(&mut first, 1, c).await;
        }
        flush(&[ONE, TWO, THREE]).await;
        shown_as(&mut first, |shown| has_grown(shown, "1")).await;
        at_least(|| applied.get(), applied.get() + 60).await;
        is_over.set(true);
        for one in counting {
            one.await;
        }
        let mut sum = 0;
        for c in 0..3 {
            let text = format!("SELECT v FROM {TABLE} WHERE d = 1 AND c = {c}");
            let row = first.query(&text, &serial()).await.expect("it is read").rows;
            sum += int(row[0][0].as_deref()).expect("a value");
        }
        let known = applied.get();
        assert!(known > 100, "{known} changes");
        assert!((known..=known + unknown.get()).contains(&sum), "{known} and {} of {sum}", unknown.get());
        // A key that may grow at any time is not read as a whole in this way, however small it is.
        let refused = first.query(&format!("SELECT v FROM {TABLE} WHERE d = 9"), &serial()).await;
        let Err(CallError::Failure { text, .. }) = refused else { panic!("{refused:?}") };
        assert!(text.contains("may only be requested for rows of one sub-partition"), "{text}");
    });
}

/// Rows that chance has placed stay where they are, and new ones go to all sub-partitions that their key has then.
#[test]
fn a_key_whose_rows_chance_places_grows_by_size() {
    let mut sim = Sim::new(341, Options { buggify: false, ..Options::default() });
    for node in [ONE, TWO, THREE] {
        assert_eq!(start(&mut sim, node, 2, config(node)), []);
    }
    run(&mut sim, || async {
        let mut first = client(ONE).await;
        let random = "{'shards': 'auto', 'mode': 'random', 'sub_partition_size': '64KiB'}";
        create(&mut first, THREE_REPLICAS, random).await;
        for (d, c) in [(1, 120), (2, FEW)].into_iter().flat_map(|(d, count)| (0..count).map(move |c| (d, c))) {
            write(&mut first, d, c).await;
        }
        flush(&[ONE, TWO, THREE]).await;
        let grown = shown_as(&mut first, |shown| has_grown(shown, "1")).await;
        assert_eq!((grown.len(), grown["1"].reason.as_deref()), (2, Some("size")));
        for c in 120..200 {
            write(&mut first, 1, c).await;
        }
        check(&mut first, 1, 200).await;
        check(&mut first, 2, FEW).await;
        let text = format!("SELECT d, token(d) FROM {TABLE}");
        let rows = first.query(&text, &at_quorum()).await.expect("it is read").rows;
        let places: std::collections::BTreeSet<i64> =
            rows.iter().filter(|row| int(row[0].as_deref()) == Some(1)).map(|row| bigint(row, 1)).collect();
        assert_eq!(places.len() as i32, grown["1"].shards, "new rows are everywhere");
    });
}

/// Statements of every kind while one key after the other grows, some of which name several keys.
#[test]
fn a_table_with_keys_that_grow_answers_like_its_twin() {
    for (seed, nodes, twin, replication) in [
        (351, &[ONE][..], &BY_T, ONE_REPLICA),
        (352, &[ONE, TWO, THREE][..], &BY_T, THREE_REPLICAS),
        (353, &[ONE, TWO, THREE][..], &BY_BOTH, TABLETS),
    ] {
        let mut sim = Sim::new(seed, Options { buggify: false, ..Options::default() });
        for node in nodes {
            assert_eq!(start(&mut sim, *node, 2, config(*node)), []);
        }
        run(&mut sim, move || async move {
            let mut other = client(ONE).await;
            write_sharding::create(&mut other, twin, replication).await;
            let level = if nodes.len() == 1 { Consistency::One } else { Consistency::Quorum };
            let mut twins = Twins::new(seed, twin.two_keys, level).await;
            twins.run(150).await;
            let began = runtime::now();
            loop {
                twins.some(3).await;
                let now = shown(&mut other).await;
                if now.values().filter(|key| key.has_grown()).count() >= 2 {
                    break;
                }
                assert!(runtime::now().since(began) < Duration::from_secs(180), "{now:?}");
                runtime::sleep(Duration::from_millis(20)).await;
            }
            compare(&mut twins).await;
            twins.some(60).await;
            compare(&mut twins).await;
        });
    }
}
