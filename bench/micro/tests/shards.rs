//! A node of eight shards whose clients send each request to the shard that owns its key: no message between cores, and
//! the work of a node of one shard.
#![allow(clippy::print_stderr, clippy::disallowed_methods, reason = "a test that runs a tool")]

use std::process::Command;

const REQUESTS: u64 = 500;
const KINDS: [&str; 3] = ["read", "write", "query"];
/// Percent that a request may cost more than on one shard.
const TOLERANCE: u64 = 3;

/// Messages between cores during [`REQUESTS`] requests.
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

/// Instructions per request of a kind, as `bench/micro/count` finds them.
fn instructions(kind: &str, shards: &str) -> u64 {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/count");
    let mut line = Command::new(script);
    let counted =
        line.args([env!("CARGO_BIN_EXE_micro"), kind]).env("SHARDS", shards).output().expect("the script runs");
    let text = String::from_utf8_lossy(&counted.stdout);
    assert!(counted.status.success(), "{text}{}", String::from_utf8_lossy(&counted.stderr));
    text.split(' ').nth(1).expect("a figure").parse().expect("a number")
}

#[test]
fn a_request_costs_on_eight_shards_what_it_costs_on_one() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("valgrind is missing: nothing is counted");
        return;
    }
    for kind in ["read", "write"] {
        let [one, eight] = ["1", "8"].map(|shards| instructions(kind, shards));
        assert!(eight * 100 <= one * (100 + TOLERANCE), "{kind}: {eight} instructions on eight shards, {one} on one");
    }
}
