//! Metrics over HTTP from a simulated node: their values after known work, requests that are refused, and limits.

use model::Consistency;
use runtime::sim::{Options, Sim, Stop};
use runtime::{NodeId, Stream};
use server::admin::{self, protocol};
use server::client::{Client, QueryOptions};
use server::http::{CONNECTIONS_MAX, EXCHANGE_MAX, HEAD_BYTES_MAX};
use server::{Config, Node};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SERVER: NodeId = NodeId(0);
const CLIENT: NodeId = NodeId(1);
const PATIENCE: Duration = Duration::from_secs(3600);
const PORT: u16 = 7199;

/// Runs `work` against a node of two cores with these options.
fn with_node<F: Future<Output = ()> + 'static>(options: &[&str], work: impl Fn(IpAddr) -> F + 'static) {
    let mut sim = Sim::new(5, Options { buggify: false, ..Options::default() });
    let address = Sim::address_of(SERVER);
    let own = [format!("listen_address={address}"), format!("rpc_address={address}")];
    let options: Vec<String> = own.into_iter().chain(options.iter().map(|option| option.to_string())).collect();
    let mut config = Config::read("", &options).expect("a configuration");
    config.node.directories = "/data".into();
    let ready = Arc::new(AtomicBool::new(false));
    let told = ready.clone();
    let node = Node::simulated(config, 2, move |_| told.store(true, Ordering::Relaxed));
    sim.start_node(SERVER, 2, move |shard| {
        let node = node.clone();
        async move {
            node.run(shard).await;
        }
    });
    assert_eq!(sim.run_until(PATIENCE, || ready.load(Ordering::Relaxed)), Stop::Condition, "the node did not start");
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

async fn connected(address: IpAddr) -> Stream {
    // The port is bound a moment after the node serves its clients.
    loop {
        match Stream::connect(SocketAddr::new(address, PORT), None).await {
            Ok(stream) => return stream,
            Err(_) => runtime::sleep(Duration::from_millis(1)).await,
        }
    }
}

/// An answer: its status, its head, its body.
type Answer = (u16, String, String);

async fn answer(stream: &Stream) -> Answer {
    let mut bytes = Vec::new();
    while let Ok(Some(piece)) = stream.recv().await {
        bytes.extend_from_slice(&piece);
    }
    let text = String::from_utf8(bytes).expect("a text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
    (status, head.to_ascii_lowercase(), body.to_owned())
}

async fn send(address: IpAddr, request: &str) -> Answer {
    let stream = connected(address).await;
    stream.write(|out| out.extend_from_slice(request.as_bytes()));
    answer(&stream).await
}

async fn get(address: IpAddr, path: &str) -> Answer {
    send(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost:7199\r\n\r\n")).await
}

/// A line of the exposition: name, labels, value.
#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// The lines of an exposition. Checks that every sample belongs to a described family and that none comes twice.
struct Samples(Vec<Sample>);

impl Samples {
    fn parse(text: &str) -> Samples {
        assert!(text.ends_with("\n# EOF\n"), "{text}");
        let (mut families, mut seen) = (BTreeMap::new(), BTreeSet::new());
        let mut samples = Vec::new();
        for line in text.lines() {
            if let Some(described) = line.strip_prefix("# TYPE ") {
                let (name, kind) = described.split_once(' ').expect("a type");
                assert!(families.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} comes twice");
            }
            if line.starts_with('#') {
                continue;
            }
            let (series, value) = line.rsplit_once(' ').expect("a value");
            assert!(seen.insert(series), "{series} comes twice");
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
            let labels = labels.map(|label| {
                let (name, value) = label.split_once('=').expect("a label");
                (name.to_owned(), value.trim_matches('"').to_owned())
            });
            let suffixes: &[&str] = &["_total", "_bucket", "_count", "_sum", "_info", ""];
            let family = suffixes.iter().find_map(|suffix| families.get(name.strip_suffix(suffix)?));
            assert!(family.is_some(), "{name} is not described");
            assert!(name.starts_with("helenus_"), "{name}");
            let value = value.parse().expect("a number");
            samples.push(Sample { name: name.to_owned(), labels: labels.collect(), value });
        }
        Samples(samples)
    }

    fn all<'s>(&'s self, name: &'s str, labels: &'s [(&str, &str)]) -> impl Iterator<Item = &'s Sample> {
        let is_labelled =
            |sample: &Sample| labels.iter().all(|(name, value)| sample.labels.get(*name).is_some_and(|v| v == value));
        self.0.iter().filter(move |sample| sample.name == name && is_labelled(sample))
    }

    /// The sum of a metric over the two shards, which must both have it.
    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let shards: BTreeSet<_> = self.all(name, labels).map(|sample| &sample.labels["shard"]).collect();
        assert_eq!(shards.len(), 2, "{name} {labels:?}");
        self.all(name, labels).map(|sample| sample.value).sum()
    }
}

async fn run(client: &mut Client, text: &str, consistency: Consistency) {
    client.query(text, &QueryOptions { consistency, ..QueryOptions::default() }).await.expect(text);
}

#[test]
fn figures_of_all_shards_are_told() {
    with_node(&[], |address| async move {
        let mut client = Client::connect(SocketAddr::new(address, 9042), None, 5).await.expect("a connection");
        let one = Consistency::One;
        let keyspace = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        for statement in
            [keyspace, "CREATE TABLE k.t (a int PRIMARY KEY, b int)", "CREATE TABLE k.n (a int PRIMARY KEY, n counter)"]
        {
            run(&mut client, statement, one).await;
        }
        for a in 0..20 {
            run(&mut client, &format!("INSERT INTO k.t (a, b) VALUES ({a}, 1)"), one).await;
        }
        let flush =
            protocol::Request { command: "flush".into(), options: Vec::new(), arguments: vec!["k".into(), "t".into()] };
        assert_eq!(admin::ask(address, &flush).await.expect("an answer").exit, 0);
        // Twice: from the disk, and from the cache.
        for a in (0..20).chain(0..20) {
            run(&mut client, &format!("SELECT * FROM k.t WHERE a = {a}"), one).await;
        }
        run(&mut client, "SELECT * FROM k.t", one).await;
        for a in 0..3 {
            run(&mut client, &format!("UPDATE k.n SET n = n + 1 WHERE a = {a}"), one).await;
        }
        run(&mut client, "INSERT INTO k.t (a, b) VALUES (30, 1) IF NOT EXISTS", one).await;
        run(&mut client, "SELECT * FROM k.t WHERE a = 30", Consistency::Serial).await;
        let failed = client.query("SELECT nosuch FROM k.t", &QueryOptions::default()).await;
        assert!(failed.is_err());

        let (status, head, body) = get(address, "/metrics").await;
        assert_eq!(status, 200, "{head}");
        assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
        let samples = Samples::parse(&body);
        let coordinated =
            |operation| samples.sum("helenus_coordinator_latency_seconds_count", &[("operation", operation)]);
        // A read at SERIAL is a decision, and then a read.
        let operations = ["read", "write", "range", "counter_write", "cas_write", "cas_read"];
        assert_eq!(operations.map(coordinated), [41.0, 20.0, 1.0, 3.0, 1.0, 1.0]);
        let local = |operation| samples.sum("helenus_local_latency_seconds_count", &[("operation", operation)]);
        assert!(local("read") >= 40.0 && local("write") >= 23.0 && local("range") >= 2.0);
        for shard in ["0", "1"] {
            let labels = [("operation", "read"), ("shard", shard)];
            let buckets: Vec<f64> =
                samples.all("helenus_local_latency_seconds_bucket", &labels).map(|sample| sample.value).collect();
            assert!(buckets.is_sorted() && buckets.len() == 22, "{buckets:?}");
            let count = samples.all("helenus_local_latency_seconds_count", &labels).next().expect("a count").value;
            assert!(count > 0.0 && buckets.last() == Some(&count));
            let recent: Vec<f64> =
                samples.all("helenus_local_latency_recent_seconds", &labels).map(|sample| sample.value).collect();
            assert!(recent.is_sorted() && recent.len() == 7 && recent[6] > 0.0, "{recent:?}");
        }
        // 3 definitions, 20 inserts, 40 reads, a range, 3 counters, 2 conditional, 1 mistake.
        assert_eq!(samples.sum("helenus_requests_total", &[]), 70.0);
        assert_eq!(samples.sum("helenus_request_errors_total", &[]), 1.0);
        assert_eq!(samples.sum("helenus_statements_total", &[("kind", "prepared")]), 0.0);
        assert_eq!(
            (samples.sum("helenus_connections_open", &[]), samples.sum("helenus_requests_in_flight", &[])),
            (1.0, 0.0)
        );
        let cache = ["hits", "misses"].map(|asked| samples.sum(&format!("helenus_block_cache_{asked}_total"), &[]));
        assert!(cache[0] >= 20.0 && cache[1] >= 1.0, "{cache:?}");
        assert!(samples.sum("helenus_block_cache_bytes", &[]) > 0.0);
        assert!(samples.sum("helenus_disk_operations_total", &[("operation", "sync")]) > 0.0);
        assert!(samples.sum("helenus_disk_bytes_total", &[("operation", "write")]) > 4096.0);
        assert!(samples.sum("helenus_flushes_completed_total", &[]) >= 2.0);
        assert!(samples.sum("helenus_calls_total", &[]) > 0.0);
        assert_eq!(samples.all("helenus_messages_waiting", &[]).count(), 2);
        for class in ["foreground", "log", "flush", "streaming", "background"] {
            let of = |name: &str| samples.sum(name, &[("class", class)]);
            assert!(of("helenus_tasks_begun_total") >= of("helenus_tasks_completed_total"));
            assert!(of("helenus_tasks_shares") >= 200.0 && of("helenus_tasks_busy_seconds_total") == 0.0);
        }
        assert!(samples.sum("helenus_tasks_polls_total", &[("class", "foreground")]) > 70.0);
        let node = |name: &str| samples.all(name, &[]).map(|sample| sample.value).collect::<Vec<f64>>();
        assert_eq!(
            (node("helenus_shards"), node("helenus_serving"), node("helenus_build_info")),
            (vec![2.0], vec![1.0], vec![1.0])
        );
        // What is known only of a machine is not made up.
        assert_eq!(node("helenus_shard_cpu_seconds_total"), [0.0; 0]);
    });
}

#[test]
fn the_status_is_told_until_the_node_is_drained() {
    with_node(&[], |address| async move {
        let status = async || {
            let (status, head, body) = get(address, "/status").await;
            assert!(status == 200 && head.contains("content-type: application/json"), "{head}");
            serde_json::from_str::<serde_json::Value>(&body).expect("JSON")
        };
        let told = status().await;
        assert_eq!((told["state"].as_str(), told["shards"].as_u64()), (Some("NORMAL"), Some(2)));
        assert_eq!(told["version"].as_str(), Some(env!("CARGO_PKG_VERSION")));
        assert_eq!(told["listen_address"].as_str(), Some(address.to_string().as_str()));
        runtime::sleep(Duration::from_secs(30)).await;
        assert!(status().await["uptime_seconds"].as_u64() >= Some(30));
        let drain = protocol::Request { command: "drain".into(), ..protocol::Request::default() };
        assert_eq!(admin::ask(address, &drain).await.expect("an answer").exit, 0);
        assert_eq!(status().await["state"].as_str(), Some("DRAINED"));
        let samples = Samples::parse(&get(address, "/metrics").await.2);
        assert_eq!(samples.all("helenus_serving", &[]).next().map(|sample| sample.value), Some(0.0));
    });
}

#[test]
fn what_is_not_there_or_not_for_this_machine_is_refused() {
    with_node(&[], |address| async move {
        let told = async |request: &str| send(address, request).await.0;
        assert_eq!(told("GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").await, 200);
        assert_eq!(told("GET /status HTTP/1.1\r\nHost: example.org\r\n\r\n").await, 421);
        assert_eq!(told("GET /metrics HTTP/1.1\r\nHost: example.org:7199\r\n\r\n").await, 421);
        assert_eq!(told("GET http://example.org/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await, 421);
        assert_eq!(told("GET /nosuch HTTP/1.1\r\nHost: example.org\r\n\r\n").await, 421);
        assert_eq!(told("GET /metrics HTTP/1.1\r\n\r\n").await, 400);
        assert_eq!(told("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await, 404);
        assert_eq!(told("GET /metrics/ HTTP/1.1\r\nHost: localhost\r\n\r\n").await, 404);
        assert_eq!(told("nonsense\r\n\r\n").await, 400);
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
            let request = format!("{method} /status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{{}}");
            let (status, head, _) = send(address, &request).await;
            assert!(status == 405 && head.contains("allow: get, head"), "{method}: {head}");
        }
        let (status, head, body) = send(address, "HEAD /metrics HTTP/1.1\r\nHost: [::1]\r\n\r\n").await;
        assert!(status == 200 && body.is_empty() && head.contains("content-length: "), "{head}");
    });
}

#[test]
fn a_head_has_a_longest_length() {
    with_node(&[], |address| async move {
        for (bytes, expected) in [(HEAD_BYTES_MAX, 200), (HEAD_BYTES_MAX + 1, 431)] {
            let (first, last) = ("GET /status HTTP/1.1\r\nHost: localhost\r\nX: ", "\r\n\r\n");
            let request = format!("{first}{}{last}", "x".repeat(bytes - first.len() - last.len()));
            assert_eq!(request.len(), bytes);
            assert_eq!(send(address, &request).await.0, expected, "{bytes}");
        }
    });
}

#[test]
fn connections_are_bounded_in_number_and_time() {
    with_node(&[], |address| async move {
        let began = runtime::now();
        let mut silent = Vec::new();
        for _ in 1..CONNECTIONS_MAX {
            silent.push(connected(address).await);
        }
        // One place is left.
        assert_eq!(get(address, "/status").await.0, 200);
        assert!(runtime::now().since(began) < EXCHANGE_MAX / 2);
        silent.push(connected(address).await);
        // A request that comes slowly is no better than none.
        silent[0].write(|out| out.extend_from_slice(b"GET /status HTTP/1.1\r\n"));
        assert_eq!(get(address, "/status").await.0, 200);
        let waited = runtime::now().since(began);
        assert!(waited >= EXCHANGE_MAX && waited < EXCHANGE_MAX + Duration::from_secs(2), "{waited:?}");
        for stream in silent {
            while let Ok(Some(_)) = stream.recv().await {}
        }
        assert!(runtime::now().since(began) < EXCHANGE_MAX + Duration::from_secs(2));
    });
}

#[test]
fn a_node_serves_without_the_port() {
    // Switched off, and one that is taken.
    for option in ["metrics_port=0", "metrics_port=9042"] {
        with_node(&[option], |address| async move {
            let mut client = Client::connect(SocketAddr::new(address, 9042), None, 5).await.expect("a connection");
            run(&mut client, "SELECT * FROM system.local", Consistency::One).await;
            runtime::sleep(Duration::from_secs(1)).await;
            assert!(Stream::connect(SocketAddr::new(address, PORT), None).await.is_err());
        });
    }
}
