//! `helenus nodetool import`, `refresh`, `verify`, `getsstables`, and the commands about compaction.

use crate::node::Node;
use crate::nodetool::{nodetool, recorded, session};
use crate::tables::{count, run, table_directory};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[path = "../../../../storage/sstable/tests/golden/unpack.rs"]
mod unpack;

/// How long a test waits for what happens in the background, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(10);
/// SSTables of Cassandra 3 and of candidates of 4.0, by version and `<table>/<file>`.
const BEFORE_NB: &[u8] = include_bytes!("../../../../storage/sstable/tests/golden/before-nb.tar.zst");

fn data_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut found: Vec<PathBuf> = paths.filter(|path| path.to_string_lossy().ends_with("-Data.db")).collect();
    found.sort();
    found
}

fn usage(text: &str) -> String {
    format!("nodetool: {text}\nSee 'nodetool help' or 'nodetool help <command>'.\n")
}

#[tokio::test]
async fn sstables_are_imported_verified_and_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start("127.0.11.23", directory.path(), &["--cores", "2"]);
    let session = session(&node).await;
    run(
        &session,
        &[
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v text)",
            "CREATE TABLE ks.u (k int PRIMARY KEY, v text)",
            "CREATE TABLE ks.two (a text, b int, v text, PRIMARY KEY ((a, b)))",
            "INSERT INTO ks.two (a, b, v) VALUES ('x:y', 7, '')",
        ],
    )
    .await;
    for key in 0..20 {
        run(&session, &[&format!("INSERT INTO ks.t (k, v) VALUES ({key}, 'a')")]).await;
    }
    let ok = |words: &[&str]| assert_eq!(nodetool(&node, words), (0, String::new(), String::new()), "{words:?}");
    ok(&["flush", "ks"]);
    ok(&["verify", "-f", "ks", "t"]);
    ok(&["verify", "-f", "-e", "-c", "ks"]);
    let text = "verify is disabled unless a [-f|--force] override flag is provided. See CASSANDRA-9947 and \
                CASSANDRA-17017 for details.\n";
    assert_eq!(nodetool(&node, &["verify", "ks", "t"]), (1, String::new(), text.into()));
    let refused = usage("Keyspace [nosuch] does not exist.");
    assert_eq!(nodetool(&node, &["verify", "-f", "nosuch"]), (1, refused, String::new()));
    let refused = "error: Unknown keyspace/cf pair (ks.nosuch)\n".to_owned();
    assert_eq!(nodetool(&node, &["verify", "-f", "ks", "nosuch"]), (2, String::new(), refused));

    let t = table_directory(directory.path(), "ks", "t-");
    let owners: Vec<PathBuf> = data_files(&t);
    let found = |words: &[&str]| {
        let (exit, out, err) = nodetool(&node, words);
        assert_eq!((exit, err.as_str()), (0, ""), "{words:?}");
        out.lines().map(PathBuf::from).collect::<Vec<_>>()
    };
    let one = found(&["getsstables", "ks", "t", "1"]);
    assert!(one.len() == 1 && owners.iter().any(|file| fs::canonicalize(file).expect("a file") == one[0]), "{one:?}");
    assert_eq!(found(&["getsstables", "-hf", "ks", "t", "00000001"]), one);
    assert_eq!(found(&["getsstables", "-l", "ks", "t", "1"]), one);
    assert!(found(&["getsstables", "ks", "t", "99"]).is_empty());
    assert_eq!(found(&["getsstables", "ks", "two", r"x\:y:7"]).len(), 1);
    let missing = |name: &str| format!("ColumnFamilyStore for {name} not found.\n");
    assert_eq!(nodetool(&node, &["getsstables", "ks", "nosuch", "1"]), (1, String::new(), missing("ks/nosuch")));
    let refused = usage("getsstables requires ks, cf and key args");
    assert_eq!(nodetool(&node, &["getsstables", "ks", "t"]), (1, refused, String::new()));
    let (exit, _, err) = nodetool(&node, &["getsstables", "ks", "t", "x"]);
    assert_eq!((exit, err.as_str()), (2, "error: For input string: \"x\"\n"));

    // The snapshot of a truncation restores its table, and a copy of it fills another table.
    run(&session, &["TRUNCATE ks.t"]).await;
    assert_eq!(count(&session, "ks.t").await, 0);
    let snapshot = fs::read_dir(t.join("snapshots")).expect("snapshots").next().expect("one").expect("one").path();
    let files = data_files(&snapshot).len();
    let snapshot = snapshot.to_string_lossy().into_owned();
    ok(&["import", "-cd", "-e", "ks", "u", &snapshot]);
    assert_eq!((count(&session, "ks.u").await, data_files(Path::new(&snapshot)).len()), (20, files));
    ok(&["import", "ks", "t", &snapshot]);
    assert_eq!((count(&session, "ks.t").await, data_files(Path::new(&snapshot)).len()), (20, 0));
    let quick = "Doing a quick import - skipping sstable verification and row cache invalidation\n".to_owned();
    assert_eq!(nodetool(&node, &["import", "-q", "ks", "t", &snapshot]), (0, quick, String::new()));

    let (exit, out, err) = nodetool(&node, &["import", "ks", "t", "/nonexistent"]);
    assert_eq!((exit, out.as_str(), err.as_str()), (2, "", "error: Directory /nonexistent does not exist\n"));
    assert_eq!(nodetool(&node, &["import", "ks", "nosuch", "/tmp"]), (1, String::new(), missing("ks/nosuch")));
    assert_eq!(nodetool(&node, &["import", "nosuch", "t", "/tmp"]), (1, String::new(), missing("nosuch/t")));
    let refused = usage("import requires keyspace, table name and directories");
    assert_eq!(nodetool(&node, &["import", "ks"]), (1, refused, String::new()));
    // Files that another table serves are not imported.
    let other = table_directory(directory.path(), "ks", "u-").to_string_lossy().into_owned();
    let failed = format!("Some directories failed to import, check server logs for details:\n{other}\n");
    assert_eq!(nodetool(&node, &["import", "ks", "t", &other]), (1, String::new(), failed));
    assert_eq!(count(&session, "ks.u").await, 20);

    let deprecated = "nodetool refresh is deprecated, use nodetool import instead\n".to_owned();
    let refresh = |words: &[&str]| {
        let (exit, out, err) = nodetool(&node, words);
        (exit, out.strip_prefix(&deprecated).expect("a warning").to_owned(), err)
    };
    run(&session, &["CREATE TABLE ks.fresh (k int PRIMARY KEY, v text)"]).await;
    run(&session, &["INSERT INTO ks.fresh (k) VALUES (100)"]).await;
    ok(&["flush", "ks"]);
    let fresh = table_directory(directory.path(), "ks", "fresh-");
    for entry in fs::read_dir(&other).expect("files") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            fs::copy(&path, fresh.join(path.file_name().expect("a name"))).expect("copied");
        }
    }
    assert_eq!(refresh(&["refresh", "ks", "fresh"]), (0, String::new(), String::new()));
    assert_eq!(count(&session, "ks.fresh").await, 21);
    assert_eq!(refresh(&["refresh", "ks", "fresh"]), (0, String::new(), String::new()));
    let refused = usage("Unknown keyspace/cf pair (ks.nosuch)");
    assert_eq!(refresh(&["refresh", "ks", "nosuch"]), (1, refused, String::new()));
    assert_eq!(refresh(&["refresh", "nosuch", "t"]), (1, usage("Keyspace nosuch does not exist"), String::new()));
    assert_eq!(refresh(&["refresh", "ks"]), (1, usage("refresh requires ks and cf args"), String::new()));
    assert_eq!(node.stop(), Some(0));

    // Imported rows survive a restart although the table was truncated; damaged files are found.
    let node = Node::start("127.0.11.23", directory.path(), &["--cores", "2"]);
    let session = crate::nodetool::session(&node).await;
    for (table, rows) in [("ks.t", 20), ("ks.u", 20), ("ks.fresh", 21)] {
        assert_eq!(count(&session, table).await, rows, "{table}");
    }
    let file = data_files(&t).remove(0);
    let mut bytes = fs::read(&file).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).expect("written");
    let (exit, out, err) = nodetool(&node, &["verify", "-f", "ks", "t"]);
    let name = file.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(exit == 2 && out.is_empty() && err.contains(&format!("{name}, please force a full repair")), "{err}");
    assert_eq!(node.stop(), Some(0));
}

#[tokio::test]
async fn sstables_of_cassandra_3_are_refreshed_and_upgraded() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start("127.0.11.28", directory.path(), &["--cores", "2"]);
    let session = session(&node).await;
    run(
        &session,
        &[
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.timestamps (k int, c int, a int, b int, d text, PRIMARY KEY (k, c))",
        ],
    )
    .await;
    let ok = |words: &[&str]| assert_eq!(nodetool(&node, words), (0, String::new(), String::new()), "{words:?}");
    let table = table_directory(directory.path(), "ks", "timestamps-");
    let of_cassandra = unpack::by_table(BEFORE_NB);
    for (version, rows) in [("mc", 12), ("na", 12)] {
        for (path, bytes) in &of_cassandra[version] {
            if let Some(name) = path.strip_prefix("timestamps/") {
                fs::write(table.join(name), bytes).expect("written");
            }
        }
        let told = "nodetool refresh is deprecated, use nodetool import instead\n";
        assert_eq!(nodetool(&node, &["refresh", "ks", "timestamps"]), (0, told.to_owned(), String::new()));
        assert_eq!(count(&session, "ks.timestamps").await, rows, "{version}");
        ok(&["upgradesstables", "ks", "timestamps"]);
        let is_written =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("da-"));
        // Every core has its part when the command answers; the file itself goes a moment later.
        let deadline = Instant::now() + PATIENCE;
        let mut names = data_files(&table);
        while !names.iter().all(is_written) {
            assert!(Instant::now() < deadline, "{names:?}");
            tokio::time::sleep(STEP).await;
            names = data_files(&table);
        }
        assert!(!names.is_empty());
        assert_eq!(count(&session, "ks.timestamps").await, rows, "{version} upgraded");
    }
    let before = data_files(&table);
    ok(&["upgradesstables", "ks"]);
    assert_eq!(data_files(&table), before);
    let (exit, out, _) = nodetool(&node, &["upgradesstables", "-a", "-j", "9", "ks", "timestamps"]);
    let told = "jobs (9) is bigger than configured concurrent_compactors (2) on this host, using at most 2 threads\n";
    assert_eq!((exit, out.as_str()), (0, told));
    // The files that were rewritten go a moment later.
    let deadline = Instant::now() + PATIENCE;
    while data_files(&table).iter().any(|path| before.contains(path)) {
        assert!(Instant::now() < deadline, "{before:?}");
        tokio::time::sleep(STEP).await;
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (_, history, _) = nodetool(&node, &["compactionhistory"]);
        let own: Vec<&str> = history.lines().filter(|line| line.contains(" timestamps ")).collect();
        assert!(own.iter().all(|line| line.contains("{compaction_type:Upgrade sstables}")), "{history}");
        if !own.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "{history}");
        tokio::time::sleep(STEP).await;
    }
    let (exit, out, _) = nodetool(&node, &["upgradesstables", "-j", "two"]);
    assert_eq!((exit, out), (1, usage("jobs: can not convert \"two\" to a Integer")));
    assert_eq!(node.stop(), Some(0));
}

#[tokio::test]
async fn compactions_are_steered_and_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start("127.0.11.24", directory.path(), &["--cores", "2"]);
    let session = session(&node).await;
    run(
        &session,
        &[
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v text)",
        ],
    )
    .await;
    let ok = |words: &[&str]| assert_eq!(nodetool(&node, words), (0, String::new(), String::new()), "{words:?}");
    let out = |words: &[&str]| nodetool(&node, words).1;
    assert_eq!(out(&["getcompactionthroughput"]), "Current compaction throughput: 64 MB/s\n");
    ok(&["setcompactionthroughput", "32"]);
    assert_eq!(out(&["getcompactionthroughput"]), "Current compaction throughput: 32 MB/s\n");
    assert_eq!(out(&["getcompactionthroughput", "-d"]), "Current compaction throughput: 32.0 MiB/s\n");
    let refused = |words: &[&str], text: &str| {
        assert_eq!(nodetool(&node, words), (1, usage(text), String::new()), "{words:?}");
    };
    refused(&["setcompactionthroughput", "--", "-1"], "Invalid data rate: value must be non-negative");
    refused(&["setcompactionthroughput", "abc"], "compaction_throughput: can not convert \"abc\" to a Integer");
    refused(&["setcompactionthroughput"], "Required parameters are missing: compaction_throughput");
    refused(&["disableautocompaction", "nosuch"], "Keyspace [nosuch] does not exist.");
    refused(&["compactionhistory", "-F", "xml"], "arguments for -F are json,yaml only.");

    ok(&["disableautocompaction", "ks", "t"]);
    for key in 0..6 {
        for owner in 0..4 {
            run(&session, &[&format!("INSERT INTO ks.t (k, v) VALUES ({owner}, '{key}')")]).await;
        }
        ok(&["flush", "ks", "t"]);
    }
    let t = table_directory(directory.path(), "ks", "t-");
    assert!(data_files(&t).len() >= 6, "{:?}", data_files(&t));
    ok(&["compact", "ks", "t"]);
    let history = out(&["compactionhistory"]);
    assert!(history.starts_with("Compaction History: \nid  "), "{history}");
    let own: Vec<&str> = history.lines().filter(|line| line.contains(" ks            t ")).collect();
    assert!(!own.is_empty() && own.iter().all(|line| line.contains("{compaction_type:Major compaction}")), "{history}");
    assert!(own.iter().any(|line| line.contains(" {6:")), "{history}");
    let json = out(&["compactionhistory", "-F", "json"]);
    assert!(json.starts_with("{\n  \"CompactionHistory\" : [ {\n    \"keyspace_name\" : \""), "{json}");
    assert!(out(&["compactionhistory", "-F", "yaml"]).starts_with("CompactionHistory:\n- keyspace_name: "));
    let names = |text: &str| {
        let name = |line: &str| line.split("  ").next().unwrap_or_default().trim().to_owned();
        text.lines().map(name).collect::<Vec<String>>()
    };
    for words in [&["compactionstats"][..], &["compactionstats", "-H"], &["compactionstats", "-V"]] {
        assert_eq!(names(&out(words)), names(&recorded("compactionstats")), "{words:?}");
    }
    ok(&["enableautocompaction", "ks"]);
    assert_eq!(node.stop(), Some(0));
}
