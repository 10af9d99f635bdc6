//! Tables whose throughput is limited, through several nodes at once.

use super::*;
use runtime::sync::join_all;

const SECONDS: usize = 10;
/// The second in which a node is killed.
const KILLED_AT: usize = 5;
/// Writes of a table with two replicas cost 3.5 units, so many come in a second.
const TABLE_RATE: u64 = 400;
const KEY_RATE: u64 = 100;

/// The writes that were done in each second.
type Done = Rc<RefCell<Vec<u64>>>;

/// Writes through a node without a pause, as long as it answers; every write is to a key that `next` gives.
async fn write_through(node: NodeId, table: &str, next: impl Fn(u64) -> u64, done: Done) {
    let mut client = client(node).await;
    let began = runtime::now();
    for number in 0.. {
        let at = runtime::now().since(began).as_secs() as usize;
        if at >= SECONDS {
            return;
        }
        let text = format!("INSERT INTO k.{table} (a, b) VALUES ({}, 'x')", next(number));
        match client.query(&text, &QueryOptions::default()).await {
            Ok(_) => done.borrow_mut()[at] += 1,
            // Refused, or the node is gone.
            Err(_) => runtime::sleep(Duration::from_millis(3)).await,
        }
    }
}

/// What three nodes do together of a table in each second, if many clients write more through some than through others
/// and one of the nodes is killed.
fn done_together(seed: u64, table: &'static str, rate: &'static str, next: fn(u64) -> u64, killed: NodeId) -> Vec<u64> {
    let mut sim = Sim::new(seed, Options { buggify: false, ..Options::default() });
    for (node, shards) in [(ONE, 1), (TWO, 2), (THREE, 1)] {
        assert_eq!(start(&mut sim, node, shards, config(node)), []);
    }
    run(&mut sim, move || async move {
        let mut one = client(ONE).await;
        query(&mut one, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}")
            .await;
        query(&mut one, &format!("CREATE TABLE k.{table} (a int PRIMARY KEY, b text) WITH {rate}")).await;
    });
    let done: Done = Rc::new(RefCell::new(vec![0; SECONDS]));
    let (counted, ended) = (done.clone(), Rc::new(Cell::new(false)));
    let set = ended.clone();
    sim.start_node(CLIENT, 1, move |_| {
        let (counted, set) = (counted.clone(), set.clone());
        async move {
            // Four clients through one node, two and one through the others.
            let nodes = [ONE, ONE, ONE, ONE, TWO, TWO, THREE];
            let writing = nodes.map(|node| Box::pin(write_through(node, table, next, counted.clone())));
            join_all(writing.into_iter().collect()).await;
            set.set(true);
        }
    });
    until(&mut sim, "some client writes in every second", || done.borrow()[KILLED_AT] > 0);
    sim.kill(killed);
    until(&mut sim, "all clients end", || ended.get());
    done.take()
}

/// Every second after the first has the rate. Once a node is gone that may have kept the bucket, the others have their
/// equal parts, two cores of four at least, until they have found out.
fn check(done: &[u64], rate: u64, what: &str) {
    let margin = rate / 20 + 4;
    for (second, count) in done.iter().enumerate().skip(1) {
        let least = if second < KILLED_AT { rate - margin } else { rate / 2 - margin };
        assert!((least..=rate + margin).contains(count), "{what}, second {second}: {done:?}");
    }
}

#[test]
fn a_table_gets_its_rate_through_all_nodes_together() {
    let rate = "cosmosdb_provisioned_throughput = 1400";
    for (seed, killed) in [(61, TWO), (62, THREE)] {
        let done = done_together(seed, "t", rate, |number| number % 1000, killed);
        check(&done, TABLE_RATE, "table");
    }
}

#[test]
fn a_key_gets_its_rate_through_all_nodes_together() {
    let rate = "per_partition_rate_limit = {'max_writes_per_second': 100}";
    for (seed, killed) in [(63, TWO), (64, THREE)] {
        let done = done_together(seed, "u", rate, |_| 7, killed);
        check(&done, KEY_RATE, "key");
    }
}

/// What the nodes show of alerts: kind, table, subject and percentage of each.
async fn alerts() -> Vec<(String, String, String, i64)> {
    let mut all = Vec::new();
    for node in [ONE, TWO] {
        let text = "SELECT kind, table_name, subject, percent FROM system_views.alerts WHERE key = 'local'";
        for row in query(&mut client(node).await, text).await.rows {
            let text = |at: usize| String::from_utf8_lossy(row[at].as_deref().expect("a text")).into_owned();
            all.push((text(0), text(1), text(2), bigint(&row, 3)));
        }
    }
    all.sort();
    all
}

#[test]
fn what_is_nearly_used_up_is_told() {
    let mut sim = Sim::new(65, Options { buggify: false, ..Options::default() });
    for node in [ONE, TWO] {
        assert_eq!(start(&mut sim, node, 2, config(node)), []);
    }
    run(&mut sim, || async {
        let mut one = client(ONE).await;
        query(&mut one, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}")
            .await;
        let tables = [
            ("t", "cosmosdb_provisioned_throughput = 1400"),
            ("u", "per_partition_rate_limit = {'max_writes_per_second': 100}"),
            ("v", "cosmosdb_provisioned_throughput = 100000"),
        ];
        for (table, rate) in tables {
            query(&mut one, &format!("CREATE TABLE k.{table} (a int PRIMARY KEY, b text) WITH {rate}")).await;
        }
        assert_eq!(alerts().await, []);
        let done = Done::new(RefCell::new(vec![0; SECONDS]));
        let writing = [ONE, TWO].into_iter().flat_map(|node| {
            [("t", 1000), ("u", 1), ("v", 1000)].map(|(table, keys)| {
                let done = done.clone();
                Box::pin(async move { write_through(node, table, |number| number % keys, done).await })
            })
        });
        join_all(writing.collect()).await;
        let told = alerts().await;
        let shown: Vec<(&str, &str, &str)> =
            told.iter().map(|(kind, table, subject, _)| (&**kind, &**table, &**subject)).collect();
        let [(kind, key_table, key), table] = shown[..] else { panic!("{told:?}") };
        assert_eq!((kind, key_table), ("partition_throughput", "u"));
        assert!(key.starts_with("the partition key") && key.contains("with token -3485513579396041028"), "{key}");
        assert_eq!(table, ("table_throughput", "t", "the table"));
        assert!(told.iter().all(|(_, _, _, percent)| (90..=105).contains(percent)), "{told:?}");
    });
}
