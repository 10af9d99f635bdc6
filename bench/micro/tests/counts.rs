//! What a request costs, in instructions and allocations, as this profile builds it: a slip shows in review. Where
//! something is made cheaper, or dearer on purpose, the figures here change with it.
//!
//! valgrind's processor is the same on every machine, so that only the compiler and this code move the figures. An
//! incremental build inlines less and has figures of its own. Without valgrind nothing is counted.
#![allow(clippy::print_stderr, clippy::disallowed_methods, reason = "a test that runs a tool")]

use std::process::Command;

/// Percent by which a figure may be off.
const TOLERANCE: u64 = 4;

/// Kind, instructions, those of an incremental build, tenths of an allocation.
const FIGURES: [(&str, u64, u64, u64); 3] =
    [("read", 17_915, 20_856, 60), ("write", 23_679, 25_691, 110), ("query", 18_228, 21_103, 60)];

/// Whether cargo built this incrementally, as it does for the profile of tests if it is not told otherwise.
fn is_incremental() -> bool {
    option_env!("CARGO_INCREMENTAL") != Some("0")
}

#[test]
fn requests_cost_what_they_did() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("valgrind is missing: nothing is counted");
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/count");
    let counted = Command::new(script).arg(env!("CARGO_BIN_EXE_micro")).output().expect("the script runs");
    let text = String::from_utf8_lossy(&counted.stdout);
    assert!(counted.status.success(), "{text}{}", String::from_utf8_lossy(&counted.stderr));
    for (line, (kind, whole, incremental, allocations)) in text.lines().zip(FIGURES) {
        let instructions = if is_incremental() { incremental } else { whole };
        let mut words = line.split(' ');
        assert_eq!(words.next(), Some(kind), "{text}");
        let found: Vec<u64> = words.map(|word| word.parse().expect("a figure")).collect();
        let [found_instructions, found_allocations] = found[..] else { panic!("{text}") };
        let off = found_instructions.abs_diff(instructions) * 100 / instructions;
        assert!(off <= TOLERANCE, "{kind}: {found_instructions} instructions, {instructions} before");
        assert_eq!(found_allocations, allocations, "{kind}: tenths of an allocation");
    }
    assert_eq!(text.lines().count(), FIGURES.len(), "{text}");
}
