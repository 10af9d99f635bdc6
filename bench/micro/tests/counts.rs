//! Checks what a request costs in instructions and allocations, so that a regression shows in review. A change that
//! makes requests cheaper, or dearer on purpose, also changes the figures here.
//!
//! Ignored unless asked for, because they need valgrind: `just counts`, or `cargo test -p micro --test counts --
//! --ignored`. valgrind simulates the same processor on every machine, so only the compiler and the code
//! change the figures. An incremental build inlines less and has figures of its own.
#![allow(clippy::disallowed_methods, reason = "a test that runs a tool")]

use std::process::Command;

/// How far, in percent, a count of instructions may be from [`COSTS`].
const TOLERANCE: u64 = 4;
/// How much more, in percent, a request may cost on eight shards than on one.
const SHARDS_TOLERANCE: u64 = 3;

/// The cost of a request: kind, instructions, instructions in an incremental build, tenths of an allocation.
const COSTS: [(&str, u64, u64, u64); 3] =
    [("read", 18_233, 19_323, 50), ("write", 23_654, 24_728, 110), ("query", 18_742, 19_793, 50)];

/// Whether cargo has built this incrementally, which is its default for the test profile.
fn is_incremental() -> bool {
    option_env!("CARGO_INCREMENTAL") != Some("0")
}

/// What `bench/micro/count` prints for a node of `shards` shards: a line for each of `kinds`, or for every kind if
/// `kinds` is empty.
fn count(shards: &str, kinds: &[&str]) -> String {
    let valgrind = Command::new("valgrind").arg("--version").output();
    assert!(valgrind.is_ok_and(|output| output.status.success()), "this test needs valgrind: apt-get install valgrind");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/count");
    let mut command = Command::new(script);
    let output = command.arg(env!("CARGO_BIN_EXE_micro")).args(kinds).env("SHARDS", shards).output();
    let output = output.expect("the script runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
#[ignore = "needs valgrind: just counts"]
fn requests_cost_what_they_did() {
    let text = count("1", &[]);
    for (line, (kind, whole, incremental, allocations)) in text.lines().zip(COSTS) {
        let instructions = if is_incremental() { incremental } else { whole };
        let mut words = line.split(' ');
        assert_eq!(words.next(), Some(kind), "{text}");
        let found: Vec<u64> = words.map(|word| word.parse().expect("a number")).collect();
        let [found_instructions, found_allocations] = found[..] else { panic!("{text}") };
        let off = found_instructions.abs_diff(instructions) * 100 / instructions;
        assert!(off <= TOLERANCE, "{kind}: {found_instructions} instructions, {instructions} before");
        assert_eq!(found_allocations, allocations, "{kind}: tenths of an allocation");
    }
    assert_eq!(text.lines().count(), COSTS.len(), "{text}");
}

#[test]
#[ignore = "needs valgrind: just counts"]
fn a_request_costs_on_eight_shards_what_it_costs_on_one() {
    for kind in ["read", "write"] {
        let instructions = |shards: &str| -> u64 {
            let text = count(shards, &[kind]);
            text.split(' ').nth(1).expect("a second word").parse().expect("a number")
        };
        let (one, eight) = (instructions("1"), instructions("8"));
        let most = one * (100 + SHARDS_TOLERANCE);
        assert!(eight * 100 <= most, "{kind}: {eight} instructions on eight shards, {one} on one");
    }
}
