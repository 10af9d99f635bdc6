//! `helenus nodetool snapshot`, `listsnapshots`, `clearsnapshot`, and the snapshots of dropped and truncated
//! tables.

use crate::node::Node;
use crate::nodetool::{masked, nodetool, recorded, session};
use crate::tables::{run, table_directory};
use std::fs;
use std::path::Path;

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn snapshots_are_taken_listed_and_cleared() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start("127.0.11.21", directory.path(), &["--cores", "2"]);
    let session = session(&node).await;
    run(
        &session,
        &[
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v text)",
            "CREATE TABLE ks.u (k int, c int, v text, PRIMARY KEY (k, c))",
            "INSERT INTO ks.t (k, v) VALUES (1, 'a')",
            "INSERT INTO ks.t (k, v) VALUES (2, 'b')",
            "INSERT INTO ks.u (k, c, v) VALUES (1, 1, 'a')",
        ],
    )
    .await;
    let none = "Snapshot Details: \nThere are no snapshots\n".to_owned();
    assert_eq!(nodetool(&node, &["listsnapshots"]), (0, none.clone(), String::new()));
    let taken = |words: &[&str], what: &str, tag: &str| {
        let expected = format!(
            "Requested creating snapshot(s) for [{what}] with snapshot name [{tag}] and options {{skipFlush=false}}\n\
             Snapshot directory: {tag}\n"
        );
        assert_eq!(nodetool(&node, words), (0, expected, String::new()), "{words:?}");
    };
    taken(&["snapshot", "-t", "s1", "ks"], "ks", "s1");
    taken(&["snapshot", "-t", "s2", "-cf", "t", "ks"], "ks", "s2");
    taken(&["snapshot", "-t", "s3", "-kt", "ks.t, ks.u"], "ks.t,ks.u", "s3");

    let snapshot = table_directory(directory.path(), "ks", "t").join("snapshots/s1");
    let files = names(&snapshot);
    let manifest = fs::read_to_string(snapshot.join("manifest.json")).expect("a manifest");
    let data: Vec<&String> = files.iter().filter(|name| name.ends_with("-Data.db")).collect();
    assert!(!data.is_empty() && data.iter().all(|name| manifest.contains(name.as_str())), "{files:?} {manifest}");
    assert!(manifest.contains("\"expires_at\" : null,\n  \"ephemeral\" : false\n}"), "{manifest}");
    for component in ["Partitions.db", "Statistics.db", "TOC.txt", "Digest.crc32", "Helenus.db"] {
        assert_eq!(files.iter().filter(|name| name.ends_with(component)).count(), data.len(), "{files:?}");
    }
    let schema = fs::read_to_string(snapshot.join("schema.cql")).expect("a definition");
    let cassandras = recorded("snapshot_files");
    let (_, cassandras) = cassandras.split_once('}').expect("a manifest before it");
    let without_id = |text: &str| {
        let lines = text.lines().filter(|line| !line.contains("WITH ID"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(without_id(&schema), without_id(cassandras));

    let (exit, out, err) = nodetool(&node, &["snapshot", "-t", "s7", "--ttl", "4h", "ks"]);
    assert_eq!((exit, err.as_str()), (0, ""));
    assert!(out.ends_with("and options {skipFlush=false, ttl=4h}\nSnapshot directory: s7\n"), "{out}");
    let (exit, out, _) = nodetool(&node, &["snapshot", "ks"]);
    assert_eq!(exit, 0);
    let tag = out.lines().last().expect("lines").strip_prefix("Snapshot directory: ").expect("a name").to_owned();
    assert!(tag.parse::<u64>().is_ok(), "{tag}");

    let (exit, out, _) = nodetool(&node, &["listsnapshots"]);
    let known = masked(&recorded("listsnapshots"));
    let word = |line: &str| line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>().join(" ");
    assert_eq!(exit, 0);
    for line in masked(&out) {
        assert!(known.iter().any(|known| word(known) == word(&line)), "{line}");
    }
    assert_eq!(out.lines().filter(|line| line.starts_with("s7")).count(), 2, "{out}");
    assert!(out.ends_with("\nTotal TrueDiskSpaceUsed: 0 bytes\n\n"), "{out}");
    let width = out.lines().nth(1).expect("a head").len();
    assert!(out.lines().skip(1).take(4).all(|line| line.len() == width), "{out}");
    assert!(!nodetool(&node, &["listsnapshots", "-nt"]).1.contains("s7"));
    assert!(nodetool(&node, &["listsnapshots", "-e"]).1.contains(" Ephemeral\n"));

    let usage = |text: &str| format!("nodetool: {text}\nSee 'nodetool help' or 'nodetool help <command>'.\n");
    let refused = |words: &[&str], exit: i32, text: &str| {
        let (code, out, err) = nodetool(&node, words);
        assert_eq!(code, exit, "{words:?}");
        match exit {
            1 => assert!(out.ends_with(&usage(text)), "{words:?}: {out}"),
            _ => assert_eq!(err, format!("error: {text}\n"), "{words:?}"),
        }
    };
    refused(&["snapshot", "-t", "s1", "ks"], 2, "Snapshot s1 already exists.");
    refused(&["snapshot", "-t", "s5", "nosuch"], 1, "Keyspace nosuch does not exist");
    refused(&["snapshot", "-t", "s6", "-cf", "nosuch", "ks"], 1, "Unknown keyspace/cf pair (ks.nosuch)");
    refused(&["snapshot", "-t", "s8", "--ttl", "1s", "ks"], 1, "ttl for snapshot must be at least 60 seconds");
    refused(&["snapshot", "-t", "a/b", "ks"], 2, "Snapshot name cannot contain /");
    refused(&["snapshot", "-t", "..", "ks"], 2, "\"..\" cannot be the name of a snapshot");
    let both = "When specifying the Keyspace table list (using -kt,--kt-list,-kc,--kc.list), you must not also specify \
                keyspaces to snapshot";
    refused(&["snapshot", "-t", "s4", "-kt", "ks.t", "-cf", "t", "ks"], 2, both);
    let one = "When specifying the table for a snapshot, you must specify one and only one keyspace";
    refused(&["snapshot", "-t", "s4", "-cf", "t"], 2, one);
    refused(&["clearsnapshot"], 1, "Specify snapshot name or --all");
    refused(&["clearsnapshot", "-t", "s3", "--all"], 1, "Specify only one of snapshot name or --all");
    refused(&["clearsnapshot", "--older-than", "1h"], 1, "Specify snapshot name or --all");
    let instant = "Parameter --older-than-timestamp has to be a valid instant in ISO format.";
    refused(&["clearsnapshot", "--all", "--older-than-timestamp", "yesterday"], 1, instant);

    let cleared = |words: &[&str], text: &str| {
        let expected = format!("Requested clearing snapshot(s) for {text}\n");
        assert_eq!(nodetool(&node, words), (0, expected, String::new()), "{words:?}");
    };
    let old = "[all keyspaces] with [all snapshots] older than 3600 seconds.";
    cleared(&["clearsnapshot", "--all", "--older-than", "1h"], old);
    let old = "[all keyspaces] with [all snapshots] older than timestamp 2022-12-03T10:15:30Z";
    cleared(&["clearsnapshot", "--all", "--older-than-timestamp", "2022-12-03T10:15:30Z"], old);
    assert!(snapshot.exists());
    cleared(&["clearsnapshot", "-t", "s1"], "[all keyspaces] with snapshot name [s1]");
    assert!(!snapshot.exists());
    cleared(&["clearsnapshot", "-t", "s2", "--", "ks"], "[ks] with snapshot name [s2]");
    cleared(&["clearsnapshot", "-t", "s3", "--", "nosuch"], "[nosuch] with snapshot name [s3]");
    cleared(&["clearsnapshot", "-t", "nosuch"], "[all keyspaces] with snapshot name [nosuch]");
    let out = nodetool(&node, &["listsnapshots"]).1;
    assert!(!out.contains("s2") && out.contains("s3"), "{out}");
    cleared(&["clearsnapshot", "--all"], "[all keyspaces] with [all snapshots]");
    assert_eq!(nodetool(&node, &["listsnapshots"]).1, none);
    assert_eq!(node.stop(), Some(0));
}

#[tokio::test]
async fn what_is_dropped_or_truncated_stays_in_a_snapshot() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start("127.0.11.22", directory.path(), &["--cores", "2"]);
    let session = session(&node).await;
    run(
        &session,
        &[
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TYPE ks.inner (a int)",
            "CREATE TYPE ks.outer (i frozen<inner>)",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v frozen<outer>)",
            "CREATE TABLE ks.without (k int PRIMARY KEY) WITH allow_auto_snapshot = false",
            "INSERT INTO ks.t (k, v) VALUES (1, {i: {a: 1}})",
            "TRUNCATE ks.t",
            "INSERT INTO ks.t (k) VALUES (2)",
            "DROP TABLE ks.t",
            "DROP TABLE ks.without",
        ],
    )
    .await;
    let snapshots = table_directory(directory.path(), "ks", "t-").join("snapshots");
    let tags = names(&snapshots);
    let (dropped, truncated) = match tags.as_slice() {
        [dropped, truncated] => (dropped, truncated),
        other => panic!("{other:?}"),
    };
    for (tag, prefix) in [(dropped, "dropped-"), (truncated, "truncated-")] {
        let millis = tag.strip_prefix(prefix).and_then(|rest| rest.strip_suffix("-t"));
        assert!(millis.is_some_and(|millis| millis.parse::<u64>().is_ok()), "{tag}");
        assert_eq!(names(&snapshots.join(tag)).iter().filter(|name| name.ends_with("-Data.db")).count(), 1, "{tag}");
    }
    let schema = fs::read_to_string(snapshots.join(dropped).join("schema.cql")).expect("a definition");
    let inner = "CREATE TYPE IF NOT EXISTS ks.inner (\n    a int\n);\n";
    assert!(schema.starts_with(inner), "{schema}");
    let outer = "CREATE TYPE IF NOT EXISTS ks.outer (\n    i frozen<inner>\n);\nCREATE TABLE IF NOT EXISTS ks.t (\n";
    assert!(schema[inner.len()..].starts_with(outer), "{schema}");
    // `without` has no snapshot because of allow_auto_snapshot; an empty table has one.
    let listed = nodetool(&node, &["listsnapshots"]).1;
    assert!(listed.contains(dropped.as_str()) && !listed.contains("without"), "{listed}");
    run(&session, &["CREATE TABLE ks.empty (k int PRIMARY KEY)", "DROP KEYSPACE ks"]).await;
    let listed = nodetool(&node, &["listsnapshots"]).1;
    assert!(listed.lines().any(|line| line.starts_with("dropped-") && line.contains("-empty ")), "{listed}");
    assert_eq!(node.stop(), Some(0));

    let node = Node::start("127.0.11.22", directory.path(), &["--cores", "2", "-D", "auto_snapshot=false"]);
    assert_eq!(names(&snapshots), tags);
    let session = crate::nodetool::session(&node).await;
    let before = nodetool(&node, &["listsnapshots"]).1;
    run(
        &session,
        &[
            "CREATE KEYSPACE k2 WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE k2.t (k int PRIMARY KEY)",
            "INSERT INTO k2.t (k) VALUES (2)",
            "TRUNCATE k2.t",
            "DROP TABLE k2.t",
        ],
    )
    .await;
    assert_eq!(nodetool(&node, &["listsnapshots"]).1, before);
    assert_eq!(node.stop(), Some(0));
}
