//! What an operator sees of compactions under way and of snapshots that expire, in virtual time.

use runtime::sim::{Options, Sim, Stop};
use runtime::{NodeId, ShardId};
use server::admin::{self, protocol::Request};
use server::client::{Client, QueryOptions, Value};
use server::{Config, Node};
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

const SERVER: NodeId = NodeId(0);
const CLIENT: NodeId = NodeId(1);
const PATIENCE: Duration = Duration::from_secs(3600);

/// Runs `work` against a node of two cores.
fn with_node<F: Future<Output = ()> + 'static>(work: impl Fn(IpAddr) -> F + 'static) {
    let mut sim = Sim::new(3, Options { buggify: false, ..Options::default() });
    let address = Sim::address_of(SERVER);
    let options = [format!("listen_address={address}"), format!("rpc_address={address}")];
    let mut config = Config::read("", &options).expect("a configuration");
    config.node.directories = "/data".into();
    let node = Node::simulated(config, 2, |_| {});
    sim.start_node(SERVER, 2, move |shard: ShardId| {
        let node = node.clone();
        async move {
            node.run(shard).await;
        }
    });
    let done = Rc::new(Cell::new(false));
    let told = done.clone();
    let work = Rc::new(work);
    sim.start_node(CLIENT, 1, move |_| {
        let (told, work) = (told.clone(), work.clone());
        async move {
            work(address).await;
            told.set(true);
        }
    });
    assert_eq!(sim.run_until(PATIENCE, || done.get()), Stop::Condition);
}

async fn connected(address: IpAddr) -> Client {
    loop {
        match Client::connect(SocketAddr::new(address, 9042), None, 5).await {
            Ok(client) => return client,
            Err(_) => runtime::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn nodetool(address: IpAddr, command: &str, options: &[(&str, &str)], arguments: &[&str]) -> String {
    let options = options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let arguments = arguments.iter().map(|word| word.to_string()).collect();
    let request = Request { command: command.into(), options, arguments };
    let answer = admin::ask(address, &request).await.expect("an answer");
    assert_eq!((answer.exit, answer.err.as_str()), (0, ""), "{command}: {}", answer.out);
    answer.out
}

async fn run(client: &mut Client, text: &str) {
    client.query(text, &QueryOptions::default()).await.expect(text);
}

async fn made(address: IpAddr) -> Client {
    let mut client = connected(address).await;
    run(&mut client, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").await;
    run(&mut client, "CREATE TABLE k.t (a int PRIMARY KEY, b blob) WITH compression = {'enabled': 'false'}").await;
    client
}

#[test]
fn a_compaction_shows_how_far_it_is() {
    with_node(|address| async move {
        let mut client = made(address).await;
        nodetool(address, "disableautocompaction", &[], &["k"]).await;
        let insert = client.prepare("INSERT INTO k.t (a, b) VALUES (?, ?)").await.expect("prepared");
        for round in 0..2u8 {
            for key in 0..64i32 {
                let values = vec![Value::Bytes(key.to_be_bytes().to_vec()), Value::Bytes(vec![round; 32 << 10])];
                let options = QueryOptions { values, ..QueryOptions::default() };
                client.execute(&insert, &options).await.expect("written");
            }
            nodetool(address, "flush", &[], &["k"]).await;
        }
        assert!(nodetool(address, "compactionstats", &[], &[]).await.contains("pending tasks"));
        // At this rate the compaction of 4 MiB takes some seconds.
        nodetool(address, "setcompactionthroughput", &[], &["1"]).await;
        let compaction = runtime::spawn(async move { nodetool(address, "compact", &[], &["k", "t"]).await });
        let mut progress = Vec::new();
        let tasks =
            "SELECT keyspace_name, table_name, kind, progress, total, unit, sstables FROM system_views.sstable_tasks";
        for _ in 0..20 {
            runtime::sleep(Duration::from_millis(200)).await;
            let outcome = client.query(tasks, &QueryOptions::default()).await.expect("tasks");
            let shown = nodetool(address, "compactionstats", &[], &[]).await;
            let number = |cell: &Option<Vec<u8>>| {
                let bytes = cell.as_deref().unwrap_or_default();
                bytes.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte))
            };
            for row in &outcome.rows {
                assert_eq!(row[0].as_deref(), Some(&b"k"[..]));
                assert_eq!(row[1].as_deref(), Some(&b"t"[..]));
                assert_eq!(
                    (row[2].as_deref(), row[5].as_deref()),
                    (Some(&b"major compaction"[..]), Some(&b"bytes"[..]))
                );
                assert_eq!(number(&row[6]), 2);
                assert!(number(&row[3]) <= number(&row[4]) && number(&row[4]) > 1 << 20, "{row:?}");
                progress.push(number(&row[3]));
            }
            if outcome.rows.len() == 2 {
                // A compaction may have ended between the two questions.
                assert!(
                    shown.to_lowercase().contains("major compaction") && shown.contains(" k ") && shown.contains('%'),
                    "{shown}"
                );
            }
        }
        assert!(progress.len() > 4, "{progress:?}");
        assert!(progress.iter().max() > progress.first(), "{progress:?}");
        compaction.await;
        let outcome = client.query(tasks, &QueryOptions::default()).await.expect("tasks");
        assert!(outcome.rows.is_empty());
        assert!(!nodetool(address, "compactionstats", &[], &[]).await.contains('%'));
    });
}

#[test]
fn a_snapshot_with_an_end_goes_by_itself() {
    with_node(|address| async move {
        let mut client = made(address).await;
        run(&mut client, "INSERT INTO k.t (a, b) VALUES (1, 0x00)").await;
        nodetool(address, "snapshot", &[("-t", "stays")], &["k"]).await;
        nodetool(address, "snapshot", &[("-t", "goes"), ("--ttl", "5m")], &["k"]).await;
        let listed = async || {
            let out = nodetool(address, "listsnapshots", &[], &[]).await;
            ["stays", "goes"].map(|tag| out.lines().any(|line| line.starts_with(tag)))
        };
        assert_eq!(listed().await, [true, true]);
        runtime::sleep(Duration::from_secs(280)).await;
        assert_eq!(listed().await, [true, true]);
        runtime::sleep(Duration::from_secs(150)).await;
        assert_eq!(listed().await, [true, false]);
        runtime::sleep(Duration::from_secs(1000)).await;
        assert_eq!(listed().await, [true, false]);
    });
}
