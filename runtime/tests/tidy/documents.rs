//! Paths that documents name exist, so that a reader who follows one arrives.

use super::workspace::root;
use std::fs;
use std::path::Path;

/// Documents of today; the histories tell of their own days.
const DOCUMENTS: &[&str] = &[
    "README.md",
    "CONTRIBUTING.md",
    "docs/architecture.md",
    "docs/faults.md",
    "docs/features.md",
    "docs/verification.md",
    "bench/RESULTS.md",
];

/// Every file and folder of the repository, from its root, folders without a slash at the end.
fn paths() -> Vec<String> {
    fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).expect("readable") {
            let path = entry.expect("readable").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name == "target" || name == ".git" {
                continue;
            }
            found.push(path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned());
            if path.is_dir() {
                walk(root, &path, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root(), &root(), &mut found);
    found
}

/// What stands between backticks, and looks like a path of the repository.
fn named(text: &str) -> Vec<&str> {
    let path = |part: &&str| {
        let plain = part.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
        let outside = ["/", "./", "target/"].iter().any(|start| part.starts_with(start)) || part.ends_with("/s");
        plain && part.contains('/') && !part.contains("...") && !outside
    };
    text.split('`').skip(1).step_by(2).filter(path).collect()
}

#[test]
fn documents_name_what_exists() {
    let known = paths();
    let exists = |name: &str| {
        let name = name.trim_end_matches('/');
        known.iter().any(|path| path.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('/')))
    };
    let mut missing = Vec::new();
    for document in DOCUMENTS {
        let text = fs::read_to_string(root().join(document)).expect("readable");
        missing.extend(named(&text).into_iter().filter(|name| !exists(name)).map(|name| format!("{document}: {name}")));
    }
    assert!(missing.is_empty(), "no such file or folder:\n{}", missing.join("\n"));
}

#[test]
fn only_what_looks_like_a_path_is_one() {
    assert_eq!(named("`a/b.rs` and `/metrics`, `x=1/2`, `helenus`; `c/`"), ["a/b.rs", "c/"]);
}
