//! Lint of the workspace as a test: crate arrows, file heads and sizes, the unsafe list, banned words.
//!
//! Layers, arrows only go down:
//! ```text
//! 6  cli -> server load ...   micro -> server runtime model
//! 5  sim -> server wire runtime model      load -> wire runtime model
//! 4  server -> shard wire cluster runtime model
//! 3  shard  -> engine cql cluster model runtime
//! 2  engine -> sstable model runtime
//! 1  sstable -> model runtime      cql -> model      cluster -> model      wire -> model
//! 0  model -> nothing   runtime -> nothing
//! ```
//! By folder the arrows go bench -> net -> shards -> storage -> runtime, with one exception: `net/cli` uses `bench/load`, so
//! that the generator ships in the one binary.
#![allow(clippy::disallowed_methods, reason = "a lint reads source files")]

use std::fs;
use std::path::{Path, PathBuf};

/// Crate, its folder, and the workspace crates that it may depend on.
const CRATES: &[(&str, &str, &[&str])] = &[
    ("runtime", "runtime", &[]),
    ("model", "storage/model", &[]),
    ("sstable", "storage/sstable", &["model", "runtime"]),
    ("engine", "storage/engine", &["sstable", "model", "runtime"]),
    ("cql", "shards/cql", &["model"]),
    ("cluster", "shards/cluster", &["model"]),
    ("wire", "net/wire", &["model"]),
    ("shard", "shards/shard", &["engine", "cql", "cluster", "model", "runtime"]),
    ("server", "net/server", &["shard", "wire", "cluster", "runtime", "model"]),
    ("sim", "net/sim", &["server", "wire", "runtime", "model"]),
    ("cli", "net/cli", &["server", "load", "sstable", "runtime", "model"]),
    ("micro", "bench/micro", &["server", "runtime", "model"]),
    ("load", "bench/load", &["wire", "runtime", "model"]),
];

/// Files that may hold `unsafe`, each under a SAFETY comment.
const UNSAFE_FILES: &[&str] = &[
    "bench/micro/src/counting.rs",
    "runtime/examples/ring_echo/serve.rs",
    "runtime/src/buffer.rs",
    "runtime/src/executor.rs",
    "runtime/src/glommio/",
    "runtime/src/prefetch.rs",
    "runtime/src/system/",
    "runtime/src/uring/",
];

/// Lines that a file may have.
const LINES_MAX: usize = 1000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace root").to_path_buf()
}

fn sources() -> Vec<(String, String)> {
    fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).expect("readable") {
            let path = entry.expect("readable").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    walk(&path, out);
                }
            } else if name.ends_with(".rs") {
                out.push(path);
            }
        }
    }
    let root = root();
    let mut paths = Vec::new();
    for top in ["runtime", "storage", "shards", "net", "bench"] {
        if root.join(top).is_dir() {
            walk(&root.join(top), &mut paths);
        }
    }
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).expect("readable");
            (path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned(), text)
        })
        .collect()
}

/// The workspace crates among the names of a manifest's section.
fn dependencies(manifest: &str, section: &str) -> Vec<String> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line == section;
        } else if inside {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            if CRATES.iter().any(|(known, ..)| *known == name) {
                found.push(name.to_string());
            }
        }
    }
    found
}

#[test]
fn crate_arrows_go_down() {
    let members = fs::read_to_string(root().join("Cargo.toml")).expect("readable");
    for (name, folder, allowed) in CRATES {
        assert!(members.contains(&format!("\"{folder}\"")), "{folder} is not a member of the workspace");
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).expect("readable");
        for dependency in dependencies(&manifest, "[dependencies]") {
            assert!(allowed.contains(&dependency.as_str()), "{name} may not depend on {dependency}");
        }
    }
    let listed = members.lines().filter(|line| line.starts_with("    \"")).count();
    assert_eq!(listed, CRATES.len(), "a member of the workspace has no entry in CRATES");
}

#[test]
fn only_runtime_knows_the_ring() {
    for (name, folder, _) in CRATES.iter().filter(|(name, ..)| *name != "runtime") {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).expect("readable");
        for banned in ["io-uring", "glommio", "libc", "flume"] {
            // A feature may hand on the name of one of `runtime`.
            let mut section = "";
            let found = manifest.lines().any(|line| {
                if line.starts_with('[') {
                    section = line;
                }
                section != "[features]" && line.starts_with(banned)
            });
            assert!(!found, "{name} depends on {banned}");
        }
    }
}

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
        let found = text.lines().any(|line| {
            let code = line.split("//").next().unwrap_or_default();
            code.contains("unsafe {") || code.contains("unsafe fn") || code.contains("unsafe impl")
        });
        if found && path != "runtime/tests/tidy.rs" {
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
            let allowed = path.contains("/tests/") || path.contains("/fuzz/") || path.starts_with("bench/");
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
