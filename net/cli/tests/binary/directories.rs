//! A node with several data directories.

use crate::node::Node;
use crate::nodetool::{nodetool, session};
use crate::tables::{count, run, table_directory};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn sstables(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.filter(|entry| entry.as_ref().expect("an entry").path().to_string_lossy().ends_with("-Data.db")).count()
}

#[tokio::test]
async fn sstables_are_spread_over_several_directories() {
    let root = tempfile::tempdir().expect("a directory");
    let data = ["a", "b", "c"].map(|name| root.path().join(name));
    let more: Vec<&str> = data[1..].iter().flat_map(|path| ["--data-dir", path.to_str().expect("a name")]).collect();
    let start = |cores: &'static str, more: &[&str]| {
        Node::start("127.0.11.31", &data[0], &[&["--cores", cores], more].concat())
    };
    let ok = |node: &Node, words: &[&str]| {
        let (exit, out, err) = nodetool(node, words);
        assert_eq!((exit, err.as_str()), (0, ""), "{words:?}");
        out
    };
    let node = start("2", &more);
    let client = session(&node).await;
    run(
        &client,
        &[
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v text)",
            "CREATE INDEX i ON ks.t (v)",
        ],
    )
    .await;
    // CREATE TABLE makes a directory in each.
    let t = || data.each_ref().map(|data| table_directory(data, "ks", "t"));
    assert!(t().iter().all(|directory| directory.is_dir()));
    for key in 0..40 {
        run(&client, &[&format!("INSERT INTO ks.t (k, v) VALUES ({key}, 'a')")]).await;
    }
    ok(&node, &["flush", "ks"]);
    let counts = |places: [PathBuf; 3]| places.map(|directory| sstables(&directory));
    assert_eq!((counts(t()), counts(t().map(|place| place.join(".i")))), ([1, 1, 0], [1, 1, 0]));
    let settings = "SELECT value FROM system_views.settings WHERE name = 'data_file_directories'";
    let rows = client.query_unpaged(settings, &[]).await.expect("rows").into_rows_result().expect("rows");
    let shown = format!("[{}]", data.each_ref().map(|path| path.display().to_string()).join(", "));
    assert_eq!(rows.single_row::<(String,)>().expect("one").0, shown);
    // A snapshot has its files beside those of the table; it is listed once and cleared everywhere.
    ok(&node, &["snapshot", "-t", "s", "ks"]);
    assert_eq!(counts(t().map(|place| place.join("snapshots/s"))), [1, 1, 0]);
    let listed = ok(&node, &["listsnapshots"]);
    assert_eq!(listed.lines().filter(|line| line.starts_with('s') && line.contains(" ks ")).count(), 1, "{listed}");
    run(&client, &["DELETE FROM ks.t WHERE k IN (0, 1, 2, 3)"]).await;
    ok(&node, &["clearsnapshot", "-t", "s", "--", "ks"]);
    assert!(t().iter().all(|place| !place.join("snapshots/s").exists()));
    assert_eq!(count(&client, "ks.t").await, 36);
    drop(client);
    assert_eq!(node.stop(), Some(0));

    // Without one of them the node does not start, and says why.
    let refused = Command::new(env!("CARGO_BIN_EXE_helenus"))
        .args(["--listen", "127.0.11.31", "--memory", "1G", "--cores", "2", "--data-dir"])
        .arg(&data[0])
        .arg("--data-dir")
        .arg(&data[2])
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("the second of this node's 3 data directories is not there"), "{text}");

    // With another number of cores their directories change, and the rows stay.
    let node = start("1", &more);
    assert_eq!(count(&session(&node).await, "ks.t").await, 36);
    assert_eq!(node.stop(), Some(0));
}
