//! Commands about hints and about timeouts on a node alone, with what Cassandra answers.

use crate::node::Node;
use crate::nodetool::{nodetool, recorded};

#[test]
fn commands_about_hints_and_timeouts_answer_as_cassandra_does() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start("127.0.11.61", directory.path(), &["--cores", "2"]);
    for name in ["hints", "timeouts"] {
        answers_as_recorded(&node, name);
    }
    assert_eq!(node.stop(), Some(0));
}

fn answers_as_recorded(node: &Node, name: &str) {
    for step in recorded(name).split("$ ").skip(1) {
        let mut lines = step.lines();
        let command = lines.next().expect("a command");
        let words: Vec<&str> = command.split(' ').collect();
        let (mut expected, mut exit) = (String::new(), 0);
        for line in lines {
            match line.strip_prefix("  exit ") {
                Some(code) => exit = code.parse().expect("an exit code"),
                None => expected += &format!("{}\n", line.trim_start_matches("  | ")),
            }
        }
        let (ended, out, err) = nodetool(node, &words);
        assert_eq!((ended, out + &err), (exit, expected), "{command}");
    }
}
