//! `helenus nodetool` against a running node: its output is that of Cassandra's nodetool but for numbers.

use crate::node::Node;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use std::process::{Command, Output};

/// Runs nodetool against a node.
pub(crate) fn nodetool(node: &Node, words: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_helenus"))
        .args(["nodetool", "-h", node.address])
        .args(words)
        .output()
        .expect("the binary runs");
    texts(output)
}

fn texts(output: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

/// The lines without their numbers: words with a digit become `N`, units of bytes `B`, and equal neighbours one line.
pub(crate) fn masked(text: &str) -> Vec<String> {
    let word = |word: &str| match word.trim_matches([',', '"', '.']) {
        "bytes" | "KiB" | "MiB" | "GiB" => "B".to_owned(),
        "NaN" | "null" => "N".to_owned(),
        plain if plain.contains(|c: char| c.is_ascii_digit()) => "N".to_owned(),
        _ => word.trim_end_matches(',').to_owned(),
    };
    let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    let mut lines: Vec<String> = text.lines().map(line).collect();
    lines.dedup();
    lines
}

pub(crate) fn recorded(name: &str) -> String {
    let path = format!("{}/tests/nodetool/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("recorded")
}

pub(crate) async fn session(node: &Node) -> Session {
    SessionBuilder::new().known_node(format!("{}:9042", node.address)).build().await.expect("a session")
}

#[tokio::test]
async fn the_node_tells_about_itself() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start("127.0.11.5", directory.path(), &["--cores", "2"]);
    let session = session(&node).await;
    let create = |name: &str, class: &str| {
        format!("CREATE KEYSPACE {name} WITH replication = {{'class': '{class}', 'replication_factor': 1}}")
    };
    session.query_unpaged(create("ks", "SimpleStrategy"), &[]).await.expect("created");

    assert_eq!(nodetool(&node, &["version"]), (0, recorded("version"), String::new()));
    assert_eq!(nodetool(&node, &["statusbinary"]).1, "running\n");
    assert_eq!(nodetool(&node, &["cfstats", "ks"]), nodetool(&node, &["tablestats", "ks"]));
    assert_eq!(nodetool(&node, &["cfstats", "nosuch"]), nodetool(&node, &["tablestats", "nosuch"]));
    let same = |words: &[&str], name: &str| {
        let (exit, out, err) = nodetool(&node, words);
        assert_eq!((exit, err.as_str()), (0, ""), "{words:?}");
        // Cassandra prints this line only where `file_cache_enabled` is on.
        let mut lines = masked(&out);
        lines.retain(|line| !line.starts_with("Chunk Cache"));
        assert_eq!(lines, masked(&recorded(name)), "{words:?}");
    };
    same(&["info"], "info");
    same(&["info", "-T"], "info_T");
    let chunk_cache = |text: &str| masked(text).into_iter().find(|line| line.starts_with("Chunk Cache"));
    assert_eq!(chunk_cache(&nodetool(&node, &["info"]).1), chunk_cache(&recorded("info_file_cache")));
    same(&["status"], "status");
    same(&["status", "ks"], "status");
    same(&["status", "system"], "status_system");
    same(&["ring"], "ring");
    let sorted = |text: &str| {
        let mut lines = masked(text);
        lines.sort();
        lines.dedup();
        lines
    };
    let described = nodetool(&node, &["describecluster"]).1;
    let (as_cassandra, own) = described.split_once("\nMetadata Log:\n").expect("its own section comes last");
    assert_eq!(sorted(as_cassandra), sorted(&recorded("describecluster")));
    let names: Vec<&str> = own.lines().filter_map(|line| line.trim().split(": ").next()).collect();
    assert_eq!(names, ["Epoch", "Leader", "Voters"], "{own}");
    let (exit, out, _) = nodetool(&node, &["status", "nosuch"]);
    assert_eq!((exit, out.as_str()), (1, "\nError: The keyspace nosuch, does not exist\n"));

    let create = "CREATE KEYSPACE k2 WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 2}";
    session.query_unpaged(create, &[]).await.expect("created");
    same(&["status"], "status2");
    same(&["ring"], "ring2");
    same(&["status", "k2"], "status");
    assert_eq!(node.stop(), Some(0));
}

#[test]
fn gossip_of_a_node_that_is_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start("127.0.11.7", directory.path(), &["--cores", "1", "--seeds", "127.0.11.7"]);
    let run = |command: &str| {
        let (exit, out, err) = nodetool(&node, &[command]);
        assert_eq!((exit, err.as_str()), (0, ""), "{command}");
        out
    };
    // Names of states as Cassandra's, but for those of its own versions before 4.0, and in the same order.
    let names = |text: &str| {
        let lines = text.lines().map(|line| line.split(':').next().unwrap_or_default().to_owned());
        let known = |name: &String| !["  STATUS", "  RPC_ADDRESS", "  LOAD"].contains(&name.as_str());
        lines.filter(|name| known(name) && !name.contains("HELENUS_")).collect::<Vec<_>>()
    };
    let info = run("gossipinfo");
    assert_eq!(names(&info), names(&recorded("gossipinfo").replace("127.0.0.71", "127.0.11.7")));
    for line in ["  DC:", "  RPC_READY:", "  TOKENS:"] {
        assert!(info.contains(line), "{info}");
    }
    assert!(info.contains(":datacenter1\n") && info.contains(":<hidden>\n") && info.contains(":true\n"), "{info}");
    assert_eq!(run("failuredetector"), "  Endpoint,             Phi\n");
    assert_eq!(run("getseeds"), "Seed node list does not contain any remote node IPs\n");
    assert_eq!(run("reloadseeds"), run("getseeds"));
    assert_eq!(run("statusgossip"), "running\n");
    let generation = |text: &str| text.lines().nth(1).and_then(|line| line.split(':').nth(1)?.parse::<u32>().ok());
    assert_eq!((run("disablegossip"), run("statusgossip")), (String::new(), "not running\n".into()));
    assert!(run("gossipinfo").contains(":shutdown,true\n"));
    assert_eq!((run("enablegossip"), run("statusgossip")), (String::new(), "running\n".into()));
    let again = run("gossipinfo");
    assert!(generation(&again) > generation(&info) && again.contains(":NORMAL,"), "{again}");
    assert_eq!(node.stop(), Some(0));
}

#[tokio::test]
async fn tables_are_measured() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start("127.0.11.6", directory.path(), &["--cores", "2"]);
    let session = session(&node).await;
    for statement in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v text)",
        "INSERT INTO ks.t (k, v) VALUES (1, 'a')",
    ] {
        session.query_unpaged(statement, &[]).await.expect("done");
    }
    // Every line is one of Cassandra's; lines may be missing.
    let within = |words: &[&str], name: &str| {
        let (exit, out, err) = nodetool(&node, words);
        assert_eq!((exit, err.as_str()), (0, ""), "{words:?}");
        let plain = |line: &String| line.trim_end_matches(',').to_owned();
        let known: Vec<String> = masked(&recorded(name)).iter().map(plain).collect();
        for line in masked(&out).iter().map(plain) {
            assert!(known.contains(&line), "{words:?}: {line}");
        }
        out
    };
    let text = within(&["tablestats", "ks.t"], "tablestats");
    assert!(text.contains("\t\tTable: t\n") && text.contains("Number of partitions (estimate): 1\n"), "{text}");
    let (_, text, _) = nodetool(&node, &["tablestats", "-l", "ks.t"]);
    assert!(text.contains("\t\tSSTables in correct location: true\n"), "{text}");
    for words in [&["tablestats"][..], &["tablestats", "system", "system_schema"], &["tablehistograms"]] {
        let (_, text, _) = nodetool(&node, words);
        assert!(text.contains("paxos") && !text.contains("helenus") && !text.contains("scylla"), "{words:?}: {text}");
    }
    within(&["tablestats", "-F", "json", "ks"], "tablestats_json");
    within(&["tablestats", "-F", "yaml", "ks.t"], "tablestats_yaml");
    let refused = |words: &[&str], text: &str| {
        let expected = format!("nodetool: {text}\nSee 'nodetool help' or 'nodetool help <command>'.\n");
        assert_eq!(nodetool(&node, words), (1, expected, String::new()), "{words:?}");
    };
    refused(&["tablestats", "nosuch"], "Unknown keyspace: nosuch");
    refused(
        &["tablestats", "system_schema.scylla_tables"],
        "Unknown tables: [scylla_tables] in keyspace: system_schema",
    );
    refused(&["tablestats", "ks.nosuch"], "Unknown tables: [nosuch] in keyspace: ks");
    refused(&["tablestats", "-F", "xml", "ks"], "arguments for -F are json,yaml only.");
    refused(&["tablestats", "-t", "2", "ks"], "cannot filter top K tables without specifying a sort key.");
    refused(&["tablehistograms", "ks", "nosuch"], "Unknown table ks.nosuch");
    refused(&["tablehistograms", "ks"], "tablehistograms requires keyspace and table name arguments");
    let (exit, out, _) = nodetool(&node, &["tablehistograms", "ks", "t"]);
    assert_eq!((exit, out.lines().next()), (0, Some("ks/t histograms")));
    let throughput = |words: &[&str]| nodetool(&node, words).1;
    assert_eq!(throughput(&["getcompactionthroughput"]), "Current compaction throughput: 64 MB/s\n");
    assert_eq!(throughput(&["getcompactionthroughput", "-d"]), "Current compaction throughput: 64.0 MiB/s\n");
    // The headings are Cassandra's, and so is the line of each pool that both have.
    let (exit, text, err) = nodetool(&node, &["tpstats"]);
    assert_eq!((exit, err.as_str()), (0, ""));
    let theirs = masked(&recorded("tpstats"));
    let ours = masked(&text);
    assert_eq!(ours[0], theirs[0]);
    let pools =
        ["CompactionExecutor", "MigrationStage", "MemtableFlushWriter", "HintsDispatcher", "Native-Transport-Requests"];
    for pool in pools {
        let of = |lines: &[String]| lines.iter().find(|line| line.starts_with(pool)).cloned();
        assert_eq!(of(&ours), of(&theirs), "{pool}");
    }
    assert!(ours.iter().any(|line| line == "ForegroundTasks N N N N N"), "{text}");
    assert!(theirs.ends_with(&ours[ours.len() - 3..]), "{text}");
    let (_, yaml, _) = nodetool(&node, &["tpstats", "-F", "yaml"]);
    assert!(yaml.contains("\n  MigrationStage:\n    TotalBlockedTasks: 0\n    ActiveTasks: 0\n"), "{yaml}");
    let (_, json, _) = nodetool(&node, &["tpstats", "-F", "json"]);
    assert!(json.contains("\n    \"MigrationStage\" : {\n      \"TotalBlockedTasks\" : 0,\n"), "{json}");
    refused(&["tpstats", "-F", "xml"], "arguments for -F are json,yaml only.");
    let (exit, text, _) = nodetool(&node, &["proxyhistograms"]);
    assert_eq!((exit, masked(&text)), (0, masked(&recorded("proxyhistograms"))));
    let (exit, text, err) = nodetool(&node, &["shardstats"]);
    assert_eq!((exit, err.as_str()), (0, ""));
    assert_eq!(text.lines().filter(|line| line.contains("  Foreground ")).count(), 2, "{text}");
    assert!(nodetool(&node, &["shardstats", "1"]).1.lines().all(|line| !line.starts_with('0')), "{text}");
    refused(&["shardstats", "2"], "2 is not a shard: there are 0 to 1");
    assert_eq!(nodetool(&node, &["flush", "ks", "t"]), (0, String::new(), String::new()));
    assert_eq!(nodetool(&node, &["compact", "ks"]), (0, String::new(), String::new()));
    assert_eq!(node.stop(), Some(0));
}

#[test]
fn a_node_that_is_not_there_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_helenus"))
        .args(["nodetool", "-h", "127.0.11.250", "info"])
        .output()
        .expect("the binary runs");
    let (exit, out, err) = texts(output);
    let expected = "nodetool: Failed to connect to '127.0.11.250:7199' - ConnectException: 'Connection refused'.\n";
    assert_eq!((exit, out.as_str(), err.as_str()), (1, "", expected));
}

#[test]
fn mistakes_need_no_node() {
    let run = |words: &[&str]| {
        texts(
            Command::new(env!("CARGO_BIN_EXE_helenus")).arg("nodetool").args(words).output().expect("the binary runs"),
        )
    };
    let (exit, out, _) = run(&["nosuch"]);
    let expected =
        "nodetool: Found unexpected parameters: [nosuch]\nSee 'nodetool help' or 'nodetool help <command>'.\n";
    assert_eq!((exit, out.as_str()), (1, expected));
    for command in [
        "flush",
        "gossipinfo",
        "failuredetector",
        "statusgossip",
        "disablegossip",
        "enablegossip",
        "getseeds",
        "reloadseeds",
        "statushandoff",
        "disablehandoff",
        "enablehandoff",
        "pausehandoff",
        "resumehandoff",
        "truncatehints",
        "listpendinghints",
        "disablehintsfordc",
        "enablehintsfordc",
        "setmaxhintwindow",
        "getmaxhintwindow",
        "sethintedhandoffthrottlekb",
        "cidrfilteringstats",
        "dropcidrgroup",
        "getauthcacheconfig",
        "setauthcacheconfig",
        "getcidrgroupsofip",
        "invalidatecidrpermissionscache",
        "listcidrgroups",
        "reloadcidrgroupscache",
        "updatecidrgroup",
        "gettimeout",
        "settimeout",
        "relocatesstables",
    ] {
        let (exit, out, _) = run(&["help", command]);
        assert_eq!((exit, out), (0, recorded(&format!("help/{command}"))));
    }
}

/// Reads a table of `clientstats` whose last line is a client's.
fn client_row(out: &str) -> Vec<&str> {
    out.lines().nth(1).map(|line| line.split_whitespace().collect()).unwrap_or_default()
}

#[tokio::test]
async fn the_port_for_clients_closes_and_opens_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start("127.0.11.12", directory.path(), &["--cores", "2"]);
    let quiet = (0, String::new(), String::new());
    let connected = session(&node).await;
    let (_, all, _) = nodetool(&node, &["clientstats", "--all"]);
    let row = client_row(&all);
    assert!(row[0].starts_with("/127.0.0.1:") && row[1..4] == ["false", "undefined", "undefined"], "{all}");
    assert_eq!(row[5], "anonymous");
    let (_, seen, _) = nodetool(&node, &["clientstats", "--by-protocol"]);
    assert!(seen.lines().any(|line| line.starts_with("4/v4             /127.0.0.1 ")), "{seen}");
    assert_eq!(nodetool(&node, &["clientstats", "--clear-history"]).1, "Clearing connection history\n");
    assert_eq!(nodetool(&node, &["clientstats", "--by-protocol"]).1, "Clients by protocol version\n\n");

    assert_eq!(nodetool(&node, &["disablebinary"]), quiet);
    assert_eq!(nodetool(&node, &["disablebinary", "--force"]), quiet);
    assert_eq!(nodetool(&node, &["statusbinary"]).1, "not running\n");
    assert_eq!(nodetool(&node, &["clientstats"]).1, "Total connected clients: 0\n\nUser Connections\n");
    assert!(std::net::TcpStream::connect((node.address, 9042)).is_err(), "nobody listens");
    assert!(connected.query_unpaged("SELECT key FROM system.local", &[]).await.is_err());
    drop(connected);
    for _ in 0..2 {
        assert_eq!(nodetool(&node, &["enablebinary"]), quiet);
    }
    assert_eq!(nodetool(&node, &["statusbinary"]).1, "running\n");
    session(&node).await.query_unpaged("SELECT key FROM system.local", &[]).await.expect("served again");

    assert_eq!(nodetool(&node, &["disableoldprotocolversions"]), quiet);
    assert!(SessionBuilder::new().known_node(format!("{}:9042", node.address)).build().await.is_err(), "it speaks v4");
    assert_eq!(nodetool(&node, &["enableoldprotocolversions"]), quiet);
    session(&node).await;

    assert_eq!(nodetool(&node, &["drain"]), quiet);
    let (exit, out, _) = nodetool(&node, &["enablebinary"]);
    assert_eq!(exit, 1);
    assert!(out.starts_with("nodetool: Unable to start native transport because the node was drained.\n"), "{out}");
    assert_eq!(node.stop(), Some(0));
}

#[tokio::test]
async fn caches_of_roles_are_shown_and_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = ["--cores", "2", "-D", "authenticator=PasswordAuthenticator", "-D", "roles_validity=700ms"];
    let node = Node::start("127.0.11.45", directory.path(), &options);
    let shown = |cache: &str| nodetool(&node, &["getauthcacheconfig", "--cache-name", cache]);
    let text = |validity: u32, interval: u32, entries: u32| {
        format!(
            "Validity Period: {validity}\nUpdate Interval: {interval}\nMax Entries: {entries}\nActive Update: false\n"
        )
    };
    assert_eq!(shown("PermissionsCache"), (0, text(2000, 2000, 1000), String::new()));
    assert_eq!(shown("RolesCache").1, text(700, 700, 1000));
    let set = |words: &[&str]| nodetool(&node, &[&["setauthcacheconfig"], words].concat());
    let changed = set(&["--cache-name", "RolesCache", "--validity-period", "500", "--update-interval", "200"]);
    assert_eq!(changed, (0, "Changed Validity Period to 500\nChanged Update Interval to 200\n".into(), String::new()));
    let changed = set(&["--max-entries=5", "--cache-name", "RolesCache", "--disable-active-update"]);
    assert_eq!(changed.1, "Changed Max Entries to 5\nChanged Active Update to false\n");
    assert_eq!(shown("NetworkPermissionsCache").1, text(500, 200, 5));
    assert_eq!(shown("CredentialsCache").1, text(2000, 2000, 1000));
    for (words, said) in [
        (&["--validity-period", "5"][..], "Required option '--cache-name' is missing"),
        (&["--cache-name", "RolesCache"], "At least one optional parameter need to be passed"),
        (&["--cache-name", "Nope", "--max-entries", "5"], "Unknown cache name: Nope"),
        (
            &["--cache-name", "RolesCache", "--enable-active-update", "--disable-active-update"],
            "enable-active-update and disable-active-update cannot be used together",
        ),
        (&["--cache-name", "RolesCache", "--validity-period", "-1"], "Invalid duration: value must be non-negative"),
        (
            &["--cache-name", "RolesCache", "--validity-period", "abc"],
            "validity-period: can not convert \"abc\" to a Integer",
        ),
    ] {
        let said = format!("nodetool: {said}\nSee 'nodetool help' or 'nodetool help <command>'.\n");
        assert_eq!(set(words), (1, said, String::new()), "{words:?}");
    }
    assert_eq!(nodetool(&node, &["getauthcacheconfig"]).0, 1);
    assert_eq!(node.stop(), Some(0));
}
