//! Counts the messages between the shards of a node of eight shards. There are none if clients send each request to the
//! shard that owns its key.
#![allow(clippy::disallowed_methods, reason = "a test that runs a tool")]

use std::process::Command;

const REQUESTS: u64 = 500;
const KINDS: [&str; 3] = ["read", "write", "query"];

/// How many messages shards send each other during [`REQUESTS`] requests.
fn messages(options: &[&str]) -> u64 {
    let ran = Command::new(env!("CARGO_BIN_EXE_micro")).args(options).arg(REQUESTS.to_string()).output();
    let ran = ran.expect("the tool runs");
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{text}{}", String::from_utf8_lossy(&ran.stderr));
    let count = text.split_once(" messages between cores").expect("a line").0;
    count.parse().expect("a number")
}

#[test]
fn a_request_to_the_shard_of_its_key_sends_no_message() {
    for kind in KINDS {
        assert_eq!(messages(&["--shards", "8", kind]), 0, "{kind}");
    }
}

#[test]
fn a_request_to_another_shard_sends_one_and_gets_one() {
    for kind in KINDS {
        assert_eq!(messages(&["--shards", "8", "--misrouted", kind]), 2 * REQUESTS, "{kind}");
    }
}
