//! Arrows between crates, which only go down.
//!
//! ```text
//! 6  cli -> server load sstable runtime model     the one binary
//! 5  sim -> server wire runtime model      load -> wire tls runtime model      micro -> server runtime model
//! 4  server -> shard wire tls cluster internode runtime model
//! 3  shard  -> engine cql cluster consensus model runtime
//! 2  engine -> sstable model runtime      internode -> tls runtime
//! 1  sstable -> model runtime      cql -> model      cluster -> model      wire -> model      tls -> runtime
//! 0  model -> nothing   runtime -> nothing
//! ```
//! By folder the arrows go bench -> net -> shards -> storage -> runtime, with one exception: `net/cli` uses
//! `bench/load`, so that the generator ships in the one binary.

use super::workspace::{CRATES, entries, manifest, root};
use std::fs;

#[test]
fn crate_arrows_go_down() {
    let members = fs::read_to_string(root().join("Cargo.toml")).expect("readable");
    for one in CRATES {
        let (name, folder) = (one.name, one.folder);
        assert!(members.contains(&format!("\"{folder}\"")), "{folder} is not a member of the workspace");
        let manifest = manifest(folder);
        for section in ["[dependencies]", "[build-dependencies]", "[dev-dependencies]"] {
            let known = |entry: &&str| CRATES.iter().any(|other| other.name == *entry);
            for entry in entries(&manifest, section).into_iter().filter(known) {
                let in_tests = section == "[dev-dependencies]" && one.dev_dependencies.contains(&entry);
                assert!(one.dependencies.contains(&entry) || in_tests, "{name} may not depend on {entry} ({section})");
            }
        }
    }
    let listed = members.lines().filter(|line| line.starts_with("    \"")).count();
    assert_eq!(listed, CRATES.len(), "a member of the workspace has no entry in CRATES");
}

#[test]
fn only_runtime_knows_the_ring() {
    for one in CRATES.iter().filter(|one| one.name != "runtime") {
        let manifest = manifest(one.folder);
        // A feature may pass on the name of one of `runtime`.
        for section in ["[dependencies]", "[build-dependencies]", "[dev-dependencies]"] {
            for entry in entries(&manifest, section) {
                let banned = ["io-uring", "glommio", "libc", "flume"].contains(&entry);
                assert!(!banned, "{} depends on {entry}", one.name);
            }
        }
    }
}
