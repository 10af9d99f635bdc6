//! Heads and sizes of files, where `unsafe` and ambient state may stand, unfinished code.

use super::tokens::split;
use super::workspace::sources;

/// Files that may hold `unsafe`, each under a SAFETY comment.
const UNSAFE_FILES: &[&str] = &[
    "bench/micro/src/counting.rs",
    "runtime/examples/ring_echo/serve.rs",
    "runtime/src/allocator.rs",
    "runtime/src/buffer.rs",
    "runtime/src/executor.rs",
    "runtime/src/glommio/",
    "runtime/src/prefetch.rs",
    "runtime/src/system/",
    "runtime/src/uring/",
];

/// Lines that a file may have.
const LINES_MAX: usize = 1000;

#[test]
fn files_have_heads_and_bounds() {
    for (path, text) in sources() {
        let head = text.lines().next().unwrap_or_default();
        assert!(head.starts_with("//!") || path.contains("/fuzz/"), "{path}: no `//!` head");
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "{path}: {lines} lines, at most {LINES_MAX}");
        let name = path.rsplit('/').next().unwrap_or_default();
        let drawers = ["utils.rs", "util.rs", "common.rs", "helpers.rs", "misc.rs", "manager.rs"];
        assert!(!drawers.contains(&name), "{path}: name the noun");
    }
}

#[test]
fn unsafe_stays_in_its_files() {
    for (path, text) in sources() {
        let (tokens, _) = split(&text);
        let found = tokens.windows(2).any(|pair| {
            pair[0].is_word("unsafe") && (pair[1].is_mark('{') || pair[1].is_word("fn") || pair[1].is_word("impl"))
        });
        if found {
            assert!(UNSAFE_FILES.iter().any(|allowed| path.starts_with(allowed)), "{path}: unsafe");
            assert!(text.contains("SAFETY:"), "{path}: unsafe without a SAFETY comment");
        }
    }
}

#[test]
fn no_ambient_state_outside_runtime() {
    for (path, text) in sources() {
        if path.starts_with("runtime/") {
            continue;
        }
        for banned in ["thread_local!", "static mut ", "std::thread", "std::time::SystemTime", "std::time::Instant"] {
            let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
            let allowed = is_test || path.contains("/fuzz/") || path.starts_with("bench/");
            assert!(allowed || !text.contains(banned), "{path}: {banned}");
        }
    }
}

#[test]
fn no_unfinished_code() {
    let banned = [concat!("to", "do!("), concat!("unimple", "mented!("), concat!("FIX", "ME"), concat!("X", "XX")];
    for (path, text) in sources() {
        for word in banned {
            assert!(!text.contains(word), "{path}: {word}");
        }
    }
}
