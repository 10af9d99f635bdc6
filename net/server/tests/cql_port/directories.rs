//! Which data directories a node starts with: all that it had, the first in front, and new ones.

use crate::world::{Exits, SERVER, config, options, start};
use runtime::sim::{Sim, Stop};
use server::config::DataDirectories;
use server::{Config, Exit, Node};
use std::path::{Path, PathBuf};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

fn with(directories: &[&str]) -> Config {
    let mut config = config();
    config.node.directories = DataDirectories::new(directories.iter().map(PathBuf::from).collect()).expect("some");
    config
}

/// Starts a node and stops it once it serves; how it ended.
fn run(sim: &mut Sim, directories: &[&str]) -> Exit {
    let (exits, up) = start(sim, 2, with(directories));
    if up.get() {
        sim.terminate(SERVER);
    }
    assert_eq!(sim.run_until(LIMIT, || exits.borrow().len() == 2), Stop::Condition);
    exits.borrow()[0]
}

/// What the marker of a directory says from its shards on.
fn marker(sim: &Sim, directory: &str) -> String {
    let bytes = sim.read_file(SERVER, &Path::new(directory).join("helenus.marker")).expect("a marker");
    let text = String::from_utf8(bytes).expect("text");
    text.split_once("ignore_msb 12\n").expect("a rule").1.to_owned()
}

#[test]
fn a_node_starts_with_all_its_directories_and_new_ones_or_not_at_all() {
    let mut sim = Sim::new(4, options());
    assert_eq!(run(&mut sim, &["a"]), Exit::Stopped);
    assert_eq!(marker(&sim, "a"), "");
    assert_eq!(run(&mut sim, &["a", "b"]), Exit::Stopped);
    assert_eq!(run(&mut sim, &["a", "c", "b"]), Exit::Stopped);
    for (number, directory) in ["a", "b", "c"].into_iter().enumerate() {
        assert_eq!(marker(&sim, directory), format!("directory {number}\ndirectories 3\n"));
    }
    let refused: [&[&str]; 6] = [
        &["a", "b"],
        &["a", "c"],
        &["a"],
        &["b", "a", "c"],
        &["new", "a", "b", "c"],
        // A directory that was never one of this node's does not stand in for one that is missing.
        &["a", "b", "new"],
    ];
    for directories in refused {
        assert_eq!(run(&mut sim, directories), Exit::Misconfigured, "{directories:?}");
    }
    for twice in [["a", "b", "c", "a"], ["a", "b", "c", "./b"]] {
        assert_eq!(run(&mut sim, &twice), Exit::Misconfigured, "{twice:?}");
    }
    let of_c = Path::new("c/helenus.marker");
    let own = sim.read_file(SERVER, of_c).expect("a marker");
    let put = |sim: &mut Sim, bytes: &[u8]| assert!(sim.mutate_file(SERVER, of_c, |old| *old = bytes.to_vec()));
    let copy = sim.read_file(SERVER, Path::new("b/helenus.marker")).expect("a marker");
    put(&mut sim, &copy);
    assert_eq!(run(&mut sim, &["a", "b", "c"]), Exit::Misconfigured, "two copies of one directory");
    let host_at = "format 2\nhost_id ".len();
    let mut other = own.clone();
    other[host_at] = if own[host_at] == b'0' { b'1' } else { b'0' };
    put(&mut sim, &other);
    assert_eq!(run(&mut sim, &["a", "b", "c"]), Exit::Corrupt, "a directory of another node");
    put(&mut sim, &own);
    assert_eq!(run(&mut sim, &["a", "b", "c"]), Exit::Stopped);
}

#[test]
fn a_crash_while_directories_are_added_leaves_a_node_that_starts() {
    let mut stop = 0;
    loop {
        let mut sim = Sim::new(5, options());
        assert_eq!(run(&mut sim, &["a"]), Exit::Stopped);
        let exits = Exits::default();
        let kept = exits.clone();
        let node = Node::simulated(with(&["a", "b", "c"]), 1, |_| {});
        sim.start_node(SERVER, 1, move |shard| {
            let (node, kept) = (node.clone(), kept.clone());
            async move {
                let exit = node.run(shard).await;
                kept.borrow_mut().push(exit);
            }
        });
        for _ in 0..stop {
            sim.step();
        }
        let is_marked = sim
            .read_file(SERVER, Path::new("a/helenus.marker"))
            .is_some_and(|text| String::from_utf8_lossy(&text).contains("directories 3"));
        sim.crash(SERVER);
        assert_eq!(run(&mut sim, &["a", "b", "c"]), Exit::Stopped, "a crash at step {stop}");
        if is_marked {
            break;
        }
        stop += 5;
    }
    assert!(stop > 20, "{stop}");
}
