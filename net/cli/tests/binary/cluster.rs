//! Three nodes as processes: what nodetool and the system tables say of them is what Cassandra says of three nodes with
//! the same addresses and tokens, from the start of the cluster until one node is left.
//!
//! `nodetool/cluster/session.txt` is the session of a real Cassandra. Its lines:
//!
//! | line | meaning |
//! |---|---|
//! | `$ N WORDS` | nodetool at node N; `HOSTn` is the host id of node n |
//! | `> N CQL` | a statement at node N |
//! | `! kill N`, `! wait N LETTERS ADDRESS`, `! gone N ADDRESS` | kill -9; until node N says so in its `status` |
//! | `  \| TEXT`, `  ! TEXT`, `  exit CODE` | output, errors, and the exit code if it is not 0 |
//!
//! Times, loads, memory, ids and counts of messages differ from run to run and are not compared, nor is the order of
//! what Cassandra keeps in hash tables.

use crate::node::Node;
use crate::nodetool::{masked, nodetool};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::host_filter::AllowListHostFilter;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster of nodes that are numbered from 1.
struct Cluster {
    directory: TempDir,
    addresses: [&'static str; 3],
    seeds: String,
    nodes: BTreeMap<usize, Node>,
    sessions: BTreeMap<usize, Session>,
}

impl Cluster {
    /// A cluster of these addresses, of which the first `seeds` are seeds.
    fn new(addresses: [&'static str; 3], seeds: usize) -> Cluster {
        let directory = tempfile::tempdir().expect("a directory");
        let seeds = addresses[..seeds].join(",");
        Cluster { directory, addresses, seeds, nodes: BTreeMap::new(), sessions: BTreeMap::new() }
    }

    fn data(&self, number: usize) -> PathBuf {
        self.directory.path().join(number.to_string())
    }

    /// The arguments of a node, with options of the configuration file.
    fn arguments<'a>(&'a self, options: &[&'a str]) -> Vec<&'a str> {
        let mut all = vec!["--cores", "1", "--seeds", &self.seeds, "-D", "phi_convict_threshold=5"];
        options.iter().for_each(|option| all.extend(["-D", option]));
        all
    }

    fn started(&self, number: usize, options: &[&str]) -> Node {
        let log = self.log(number);
        let mut arguments = self.arguments(options);
        arguments.extend(["--log-file", log.to_str().expect("text")]);
        Node::start(self.addresses[number - 1], &self.data(number), &arguments)
    }

    /// Where a node logs as Cassandra does.
    fn log(&self, number: usize) -> PathBuf {
        self.directory.path().join(format!("system{number}.log"))
    }

    /// Whether the log of a node has a line of a level with a text.
    fn has_logged(&self, number: usize, level: &str, text: &str) -> bool {
        let log = std::fs::read_to_string(self.log(number)).expect("a log");
        log.lines().any(|line| line.starts_with(&format!("{level:<5} [")) && line.contains(text))
    }

    fn start(&mut self, number: usize, options: &[&str]) {
        let node = self.started(number, options);
        self.nodes.insert(number, node);
    }

    /// Starts all nodes at the same time, each with its options.
    fn start_together(&mut self, options: [&[&str]; 3]) {
        let this = &*self;
        let nodes = std::thread::scope(|scope| {
            let starting: Vec<_> = (1..)
                .zip(options)
                .map(|(number, options)| (number, scope.spawn(move || this.started(number, options))))
                .collect();
            starting.into_iter().map(|(number, node)| (number, node.join().expect("it starts"))).collect()
        });
        self.nodes = nodes;
    }

    /// What a node that must not start says on its standard error.
    fn refused(&self, number: usize, options: &[&str]) -> String {
        Node::refused(self.addresses[number - 1], &self.data(number), &self.arguments(options))
    }

    fn kill(&mut self, number: usize) {
        self.sessions.remove(&number);
        self.nodes.remove(&number).expect("it runs").kill();
    }

    fn tool(&self, number: usize, words: &[&str]) -> (i32, String, String) {
        nodetool(&self.nodes[&number], words)
    }

    /// The host id of a node, as another one tells it.
    fn host_id(&self, asked: usize, number: usize) -> String {
        let (_, status, _) = self.tool(asked, &["status"]);
        let line = status.lines().find(|line| has_word(line, self.addresses[number - 1])).expect("a member");
        line.split_whitespace().rev().nth(1).expect("an id").to_owned()
    }

    /// Waits until what a command of a node says is as `is_so` says.
    fn until_said(&self, number: usize, command: &str, what: &str, is_so: impl Fn(&str) -> bool) {
        let began = Instant::now();
        loop {
            let (exit, said, _) = self.tool(number, &[command]);
            if exit == 0 && is_so(&said) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "node {number} never says {what}:\n{said}");
        }
    }

    /// Waits until `status` of a node is as `is_so` says.
    fn until(&self, number: usize, what: &str, is_so: impl Fn(&str) -> bool) {
        self.until_said(number, "status", what, is_so);
    }

    fn until_letters(&self, number: usize, letters: &str, address: &str) {
        let is_there = |status: &str| status.lines().any(|line| line.starts_with(letters) && has_word(line, address));
        self.until(number, letters, is_there);
    }

    /// The rows of a statement, each as JSON.
    async fn query(&mut self, number: usize, text: &str) -> Vec<String> {
        let address = format!("{}:9042", self.addresses[number - 1]);
        if let Entry::Vacant(vacant) = self.sessions.entry(number) {
            let filter = AllowListHostFilter::new([address.as_str()]).expect("an address");
            let builder = SessionBuilder::new().known_node(&address).host_filter(Arc::new(filter));
            vacant.insert(builder.build().await.expect("a session"));
        }
        let result = self.sessions[&number].query_unpaged(text, &[]).await;
        let result = result.unwrap_or_else(|error| panic!("node {number}: {text}: {error}"));
        match result.into_rows_result() {
            Ok(rows) => rows.rows::<(String,)>().expect("JSON").map(|row| row.expect("a row").0).collect(),
            Err(_) => Vec::new(),
        }
    }
}

fn has_word(line: &str, word: &str) -> bool {
    line.split_whitespace().any(|other| other == word)
}

/// What a command is expected to say, or said.
#[derive(Default, Debug, PartialEq)]
struct Said {
    exit: i32,
    out: String,
    err: String,
}

/// A line of the session with what follows from it.
struct Step {
    line: String,
    said: Said,
}

fn steps(session: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in session.lines() {
        let Some(answer) = line.strip_prefix("  ") else {
            steps.push(Step { line: line.to_owned(), said: Said::default() });
            continue;
        };
        let said = &mut steps.last_mut().expect("a step first").said;
        let text = |answer: &str| format!("{}\n", answer.get(2..).unwrap_or_default());
        match answer.chars().next() {
            Some('|') => said.out.push_str(&text(answer)),
            Some('!') => said.err.push_str(&text(answer)),
            _ => said.exit = answer.trim_start_matches("exit ").parse().expect("a code"),
        }
    }
    steps
}

/// The lines that are compared of what a command says.
fn compared(command: &str, text: &str) -> Vec<String> {
    // A section of this program's own.
    let text = text.split("\nMetadata Log:\n").next().unwrap_or_default();
    let text = &without_ids(text);
    let plain = |line: &str| sizes_masked(line);
    let mut lines: Vec<String> = match command {
        "info" => masked(text),
        "gossipinfo" => return gossip(text),
        "netstats" | "failuredetector" => text.lines().map(without_numbers).collect(),
        _ => text.lines().map(plain).collect(),
    };
    // A cache that is this program's own.
    lines.retain(|line| !line.starts_with("Chunk Cache"));
    if matches!(command, "describecluster" | "describering") {
        lines.sort();
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// The text with `U` for each uuid.
fn without_ids(text: &str) -> String {
    let is_uuid = |bytes: &[u8]| {
        let is_dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
        bytes.iter().enumerate().all(|(at, byte)| if is_dash(at) { *byte == b'-' } else { byte.is_ascii_hexdigit() })
    };
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match rest.as_bytes().get(..36).filter(|bytes| is_uuid(bytes)) {
            Some(_) => {
                out.push('U');
                rest = &rest[36..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

/// Words with single spaces between them, and `SIZE` for each size.
fn sizes_masked(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_unit = |word: Option<&&str>| matches!(word, Some(&("bytes" | "KiB" | "MiB" | "GiB")));
    let mut out: Vec<&str> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match *word {
            _ if is_unit(words.get(at)) => {}
            word if word.starts_with(|c: char| c.is_ascii_digit()) && is_unit(words.get(at + 1)) => out.push("SIZE"),
            // Before the first round of gossip that tells loads.
            "?" if at == 2 => out.push("SIZE"),
            word => out.push(word),
        }
    }
    out.join(" ")
}

fn without_numbers(line: &str) -> String {
    let word = |word: &str| if word.parse::<f64>().is_ok() { "N".to_owned() } else { word.to_owned() };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// The lines of `gossipinfo`, each with its node, without versions and what changes from run to run.
fn gossip(text: &str) -> Vec<String> {
    let mut node = "";
    let mut lines = Vec::new();
    for line in text.lines() {
        let Some(value) = line.strip_prefix("  ") else {
            node = line;
            continue;
        };
        let mut parts = value.splitn(3, ':');
        let (name, version, value) =
            (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let is_time = |word: &str| word.len() == 13 && word.bytes().all(|byte| byte.is_ascii_digit());
        match name {
            // States of versions before 4.0, of removals by streaming, and this program's own.
            "STATUS" | "RPC_ADDRESS" | "REMOVAL_COORDINATOR" => {}
            _ if name.starts_with("HELENUS_") => {}
            "heartbeat" if version == "9999" => lines.push(format!("{node} {name} {version}")),
            "generation" | "heartbeat" | "LOAD" => lines.push(format!("{node} {name}")),
            _ => {
                let words = value.split(',').map(|word| if is_time(word) { "TIME" } else { word });
                let mut words: Vec<&str> = words.collect();
                // The token of an address that nobody has is random.
                if let (["LEFT", token, ..], "/127.0.21.9") = (words.as_mut_slice(), node) {
                    *token = "TOKEN";
                }
                lines.push(format!("{node} {name} {}", words.join(",")));
            }
        }
    }
    // A node of Cassandra that leaves does not say that it serves no clients any more.
    let has_left =
        |line: &String| line.split_once(" STATUS_WITH_PORT LEFT").map(|(node, _)| format!("{node} RPC_READY"));
    let left: Vec<String> = lines.iter().filter_map(has_left).collect();
    lines.retain(|line| !left.iter().any(|start| line.starts_with(start)));
    lines.sort();
    lines
}

/// A row without what differs from run to run.
fn row(json: &str) -> String {
    let mut out = without_ids(json);
    for (name, end) in [("\"gossip_generation\": ", ','), ("\"truncated_at\": ", '}')] {
        if let Some(at) = out.find(name) {
            let from = at + name.len();
            let until = out[from..].find(end).map_or(out.len(), |length| from + length);
            out.replace_range(from..until, "");
        }
    }
    out.trim_end_matches('}').to_owned()
}

#[tokio::test]
async fn three_nodes_say_what_cassandra_says() {
    let mut cluster = Cluster::new(["127.0.21.1", "127.0.21.2", "127.0.21.3"], 1);
    let path = |name: &str| format!("{}/tests/nodetool/cluster/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| std::fs::read_to_string(path(name)).expect("recorded");
    for number in 1..=3 {
        let tokens = read(&format!("tokens{number}"));
        cluster.start(
            number,
            &[&format!("initial_token={}", tokens.trim()), "num_tokens=16", "sstable.selected_format=big"],
        );
    }
    for (asked, shown) in [(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)] {
        cluster.until_letters(asked, "UN", cluster.addresses[shown - 1]);
    }
    // Gossip tells loads a moment after it has told that nodes live.
    for asked in 1..=3 {
        let load = |line: &str| line.split_whitespace().nth(2).map(str::to_owned);
        let is_told = |line: &str| load(line).is_none_or(|load| load != "?");
        cluster.until(asked, "every load", |status| status.lines().filter(|line| line.starts_with("UN")).all(is_told));
    }
    // And that clients are served.
    for asked in 1..=3 {
        let is_told = |said: &str| said.matches("RPC_READY").count() == 3 && !said.contains("BOOT");
        cluster.until_said(asked, "gossipinfo", "that all serve clients", is_told);
    }
    let ids: Vec<String> = (1..=3).map(|number| cluster.host_id(1, number)).collect();
    let mut differences = Vec::new();
    for Step { line, said } in steps(&read("session")) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = words.get(1).and_then(|word| word.parse().ok());
        match words.as_slice() {
            ["$", _, command, ..] => {
                let named = words[2..].iter().map(|word| match word.strip_prefix("HOST") {
                    Some(host) => ids[host.parse::<usize>().expect("a number") - 1].as_str(),
                    None => word,
                });
                let (exit, out, err) = cluster.tool(number.expect("a node"), &named.collect::<Vec<_>>());
                let said = Said { out: compared(command, &said.out).join("\n"), ..said };
                let now = Said { exit, out: compared(command, &out).join("\n"), err };
                if now != said {
                    differences.push(format!("{line}\nCassandra: {said:#?}\nHelenus: {now:#?}"));
                }
            }
            [">", _, rest @ ..] => {
                let rows = cluster.query(number.expect("a node"), &rest.join(" ")).await;
                let rows: Vec<String> = rows.iter().map(|json| row(json)).collect();
                let recorded: Vec<String> = said.out.lines().map(row).collect();
                if rows != recorded {
                    differences.push(format!("{line}\nCassandra: {recorded:#?}\nHelenus: {rows:#?}"));
                }
            }
            ["!", "kill", number] => cluster.kill(number.parse().expect("a number")),
            ["!", "wait", _, letters, address] => cluster.until_letters(number_of(&words), letters, address),
            ["!", "gone", _, address] => {
                let is_gone = |status: &str| !status.lines().any(|line| has_word(line, address));
                cluster.until(number_of(&words), "that it is gone", is_gone);
            }
            _ => assert!(line.starts_with('#'), "{line}"),
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));

    let left = "This node was decommissioned and will not rejoin the ring";
    cluster.nodes.remove(&2).expect("it runs").stop();
    assert!(cluster.refused(2, &[]).contains(left));
    assert_eq!(cluster.nodes.remove(&1).expect("it runs").stop(), Some(0));
}

fn number_of(words: &[&str]) -> usize {
    words[2].parse().expect("a number")
}

#[tokio::test]
async fn a_node_is_killed_comes_back_and_leaves() {
    let mut cluster = Cluster::new(["127.0.22.1", "127.0.22.2", "127.0.22.3"], 2);
    // Both seeds start from nothing at once, and so does a node that finds no cluster yet.
    cluster.start_together([&[], &[], &["join_ring=false"]]);
    cluster.until_letters(1, "UJ", "127.0.22.3");
    // The others hear of it before it does itself.
    cluster.until_letters(3, "UJ", "127.0.22.3");
    assert!(cluster.tool(3, &["info"]).1.contains("Token                  : (node is not joined to the cluster)\n"));
    assert_eq!(cluster.tool(3, &["join"]), (0, String::new(), String::new()));
    let joined = "nodetool: This node has already joined the ring.\n";
    assert!(cluster.tool(3, &["join"]).1.starts_with(joined));
    cluster.until_letters(1, "UN", "127.0.22.3");
    cluster
        .query(1, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        .await;
    for number in 1..=3 {
        cluster.query(number, &format!("CREATE TABLE ks.t{number} (k int PRIMARY KEY, v int)")).await;
    }
    let tables = "SELECT JSON table_name FROM system_schema.tables WHERE keyspace_name = 'ks'";
    let names = |count: usize| (1..=count).map(|n| format!("{{\"table_name\": \"t{n}\"}}")).collect::<Vec<_>>();
    for number in 1..=3 {
        assert_eq!(cluster.query(number, tables).await, names(3), "node {number}");
    }
    let host_id = cluster.host_id(1, 3);
    cluster.kill(3);
    // Two of three agree.
    cluster.query(2, "CREATE TABLE ks.t4 (k int PRIMARY KEY, v int)").await;
    for (option, text) in [
        ("num_tokens=8", "Cannot change the number of tokens from 16 to 8"),
        ("cluster_name=Other", "Saved cluster name Test Cluster != configured name Other"),
        (
            "endpoint_snitch=RackInferringSnitch",
            "Cannot start node if snitch's data center (0) differs from previous data center (datacenter1). Please fix \
             the snitch configuration, decommission and rebootstrap this node or use the flag \
             -Dcassandra.ignore_dc=true.",
        ),
    ] {
        let said = cluster.refused(3, &[option]);
        assert!(said.contains(text), "{said}");
    }
    cluster.start(3, &[]);
    assert_eq!(cluster.query(3, tables).await, names(4), "it serves what it has missed");
    assert_eq!(cluster.host_id(1, 3), host_id);
    cluster.query(3, "CREATE TABLE ks.t5 (k int PRIMARY KEY, v int)").await;
    for number in 1..=3 {
        assert_eq!(cluster.query(number, tables).await, names(5), "node {number}");
        for address in cluster.addresses {
            cluster.until_letters(number, "UN", address);
        }
    }
    cluster.sessions.remove(&3);
    assert_eq!(cluster.nodes.remove(&3).expect("it runs").stop(), Some(0));
    // It comes back at another address.
    cluster.addresses[2] = "127.0.22.4";
    cluster.start(3, &[]);
    for number in [1, 2] {
        cluster.until_letters(number, "UN", "127.0.22.4");
        cluster.until(number, "one address", |status| !status.contains("127.0.22.3"));
        assert_eq!(cluster.host_id(number, 3), host_id);
        let peers = cluster.query(number, "SELECT JSON peer FROM system.peers WHERE peer = '127.0.22.3'").await;
        assert_eq!(peers, [""; 0]);
    }
    assert_eq!(cluster.query(3, tables).await, names(5));
    cluster.sessions.remove(&3);
    let (exit, out, _) = cluster.tool(3, &["decommission"]);
    assert_eq!((exit, out.starts_with("nodetool: Unsupported operation: ")), (1, true), "{out}");
    assert_eq!(cluster.tool(3, &["decommission", "--force"]), (0, String::new(), String::new()));
    let is_gone = |status: &str| !status.contains("127.0.22.4");
    cluster.until(1, "that it is gone", is_gone);
    cluster.until(2, "that it is gone", is_gone);
    cluster.query(1, "CREATE TABLE ks.t6 (k int PRIMARY KEY, v int)").await;
    assert_eq!(cluster.query(2, tables).await, names(6));
    assert_eq!(cluster.nodes.remove(&3).expect("it runs").stop(), Some(0));
    for number in [2, 1] {
        assert_eq!(cluster.nodes.remove(&number).expect("it runs").stop(), Some(0));
    }
    // It knows without the others.
    let said = cluster.refused(3, &[]);
    let refusal = "This node was decommissioned and will not rejoin the ring unless all existing data is removed and the \
                   node is bootstrapped again";
    assert!(said.contains(refusal), "{said}");
    // The lines that Cassandra's tools wait for.
    for (number, text) in [
        (1, " - Starting listening for CQL clients on /127.0.22.1:9042 (unencrypted)..."),
        (1, " - Startup complete"),
        (1, " - Node /127.0.22.2:7000 is now part of the cluster"),
        (1, " - InetAddress /127.0.22.2:7000 is now UP"),
        (1, " - InetAddress /127.0.22.3:7000 is now DOWN"),
        (2, " - Node /127.0.22.2:7000 state jump to NORMAL"),
        (3, " - Not joining ring as requested"),
        (3, " - DECOMMISSIONED"),
    ] {
        assert!(cluster.has_logged(number, "INFO", text), "node {number}: {text}");
    }
    assert!((1..=2).all(|number| !cluster.has_logged(number, "ERROR", "")));
}
