//! Tests that cannot pass without running: what a test needs and cargo does not bring makes it `#[ignore]`d, never a
//! test that returns early.
//!
//! 1. Test code reads the environment only in ignored tests and in the functions of [`ENVIRONMENT_READERS`].
//! 2. No test returns before its end.
//! 3. An ignored test says `needs X: just RECIPE`, and the Justfile has the recipe. CI runs those that need no
//!    Cassandra.
//!
//! Functions are found by their indentation, which rustfmt makes.

use super::workspace::{root, sources};
use std::fs;

/// Files and functions of tests that read the environment without being ignored themselves, and what for.
const ENVIRONMENT_READERS: &[(&str, &str, &str)] = &[
    ("net/server/tests/cql.rs", "ask_cassandra", "called by ignored tests"),
    ("net/server/tests/cql/cassandra.rs", "start", "called by ignored tests"),
    ("net/server/tests/three_nodes/cassandra.rs", "start", "called by ignored tests"),
    ("net/server/tests/side_by_side/settings.rs", "from_environment", "called by ignored tests"),
    ("shards/consensus/tests/groups/chaos.rs", "number", "how many runs, and from which seed"),
    ("shards/cql/tests/mutation.rs", "statement_bytes", "how long the statements are"),
    ("storage/engine/tests/fragments/main.rs", "variable", "how many commands, and from which seed"),
    ("storage/sstable/tests/foreign.rs", "variable", "how many inputs, and from which seed"),
    ("storage/sstable/tests/golden/flips.rs", "flips", "how many bits to flip"),
];

/// Ignored tests that no recipe runs: another test does, or a person who writes a document anew.
const RUN_OTHERWISE: &[(&str, &str)] = &[
    ("net/server/src/config/options/tests.rs", "configuration_document_is_written"),
    ("runtime/src/system/tests.rs", "panics_on_a_shard"),
];

/// Files with nothing but tests, which cargo or a `mod` under `cfg(test)` compiles.
fn is_test_code(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.ends_with("_tests.rs")
}

struct Function<'a> {
    name: &'a str,
    /// The attributes and comments right above it.
    above: Vec<&'a str>,
    /// From its first line to its last.
    lines: Vec<&'a str>,
}

impl Function<'_> {
    fn is_test(&self) -> bool {
        self.above.iter().any(|line| line.contains("#[test]") || line.contains("#[tokio::test"))
    }

    /// The reason for which it is ignored; empty when it gives none.
    fn ignored(&self) -> Option<&str> {
        let line = self.above.iter().find(|line| line.trim_start().starts_with("#[ignore"))?;
        Some(line.split('"').nth(1).unwrap_or_default())
    }
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The name of the function that a line begins.
fn function_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let (before, after) = line.split_once("fn ")?;
    let is_qualifier = |word: &str| ["pub", "async", "const", "unsafe"].contains(&word) || word.starts_with("pub(");
    if !before.split_whitespace().all(is_qualifier) {
        return None;
    }
    after.split(['(', '<']).next()
}

/// Every function of a file that has a body, those within others too.
fn functions(text: &str) -> Vec<Function<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let is_above = |line: &&&str| matches!(line.trim_start().get(..2), Some("#[" | "//"));
        let above = lines[..at].iter().rev().take_while(is_above).copied().collect();
        let ends = |last: &&str| indentation(last) == indentation(line) && last.trim_start().starts_with('}');
        let is_one_line = line.ends_with('}') || line.ends_with(';');
        let len = if is_one_line { Some(0) } else { lines[at..].iter().position(ends) };
        let len = len.unwrap_or_else(|| panic!("{name} has no end"));
        found.push(Function { name, above, lines: lines[at..=at + len].to_vec() });
    }
    found
}

#[test]
fn the_environment_is_read_by_ignored_tests_only() {
    let reads = concat!("env::", "var");
    let mut readers: Vec<&(&str, &str, &str)> = Vec::new();
    for (path, text) in sources().iter().filter(|(path, _)| is_test_code(path)) {
        let allowed: Vec<Function<'_>> = functions(text)
            .into_iter()
            .filter(|function| {
                let listed = ENVIRONMENT_READERS.iter().find(|(file, name, _)| (*file, *name) == (path, function.name));
                readers.extend(listed);
                listed.is_some() || function.ignored().is_some()
            })
            .collect();
        for line in text.lines().filter(|line| line.contains(reads)) {
            let is_allowed = allowed.iter().any(|function| function.lines.iter().any(|own| std::ptr::eq(*own, line)));
            assert!(is_allowed, "{path}: a test that needs the environment is #[ignore]d: {}", line.trim());
        }
    }
    assert_eq!(readers.len(), ENVIRONMENT_READERS.len(), "a function of ENVIRONMENT_READERS is gone");
}

/// Whether a line stands within a closure, an async block or a function that begins on one of the lines before it.
fn is_nested(before: &[&str], line: &str) -> bool {
    let mut inner = indentation(line);
    for outer in before.iter().rev().filter(|line| !line.trim().is_empty()) {
        if indentation(outer) < inner {
            inner = indentation(outer);
            if outer.contains("async ") || outer.contains('|') || outer.contains("fn ") {
                return true;
            }
        }
    }
    false
}

#[test]
fn no_test_returns_early() {
    let returns = [concat!("ret", "urn;"), concat!("{ ret", "urn }")];
    for (path, text) in sources() {
        for test in functions(&text).into_iter().filter(Function::is_test) {
            for (at, line) in test.lines.iter().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                // A closure within the test may return: it is not the test that ends.
                if returns.iter().any(|text| code.contains(text)) && !is_nested(&test.lines[1..at], line) {
                    panic!("{path}: {} ends before it has tested everything: {}", test.name, line.trim());
                }
            }
        }
    }
}

#[test]
fn ignored_tests_name_the_recipe_that_runs_them() {
    let justfile = fs::read_to_string(root().join("Justfile")).expect("readable");
    let ci = fs::read_to_string(root().join(".ci/run")).expect("readable");
    for (path, text) in sources() {
        for test in functions(&text) {
            let Some(reason) = test.ignored() else { continue };
            if RUN_OTHERWISE.contains(&(&path, test.name)) {
                continue;
            }
            let words = reason.strip_prefix("needs ").and_then(|words| words.split_once(": just "));
            let Some((needed, recipe)) = words else {
                panic!("{path}: {} says {reason:?} instead of \"needs X: just RECIPE\"", test.name)
            };
            let (_, recipe_text) = justfile
                .split_once(&format!("\n{recipe}:\n"))
                .unwrap_or_else(|| panic!("{path}: {}: the Justfile has no recipe {recipe}", test.name));
            let commands = recipe_text.lines().take_while(|line| line.starts_with("    "));
            let mut runs = commands.filter_map(|line| line.trim().strip_prefix("cargo test ")).peekable();
            assert!(runs.peek().is_some(), "{recipe} runs no test");
            if needed != "Cassandra" {
                for arguments in runs {
                    assert!(ci.contains(&format!("run_tests {arguments}\n")), ".ci/run does not run {arguments}");
                }
            }
        }
    }
}
