//! Width of comments, and that they cite nothing that is not in the repository.

use super::tokens::split;
use super::workspace::sources;
use std::collections::BTreeMap;

/// Columns that a line with a comment may have; rustfmt wraps code at the same width, but no comments.
const COLUMNS_MAX: usize = 120;

/// Wide comments, and citations, that a folder still has: lower the numbers, and drop an entry that has none left.
const LEFT_MAX: &[(&str, usize, usize)] = &[("bench/micro", 1, 0), ("net/server", 11, 0), ("net/wire", 3, 0)];

/// Names of documents that are not in the repository: a comment says the fact itself.
const FOREIGN_DOCUMENTS: &[&str] = &["DESIGN", "CLUSTER.md", "PROTOCOL", "STYLE.md", "FAULTS", "shared/"];

/// What of a comment's text names a document that is not in the repository.
fn foreign_citation(text: &str) -> Option<String> {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    for document in FOREIGN_DOCUMENTS {
        for (at, _) in text.match_indices(document) {
            let before = text[..at].chars().next_back();
            let after = text[at + document.len()..].chars().next();
            // `shared/` may be a folder inside a path of the repository.
            let inside = |c: Option<char>| c.is_some_and(part_of_name);
            let nested = before == Some('/') && !text[..at].ends_with("../");
            if !inside(before) && !nested && (document.ends_with('/') || !inside(after)) {
                return Some(document.to_string());
            }
        }
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let numbered = words.windows(2).find(|pair| {
        let word = pair[0].trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        (word == "decision" || word == "decisions") && pair[1].starts_with(|c: char| c.is_ascii_digit())
    });
    numbered.map(|pair| pair.join(" "))
}

/// Fails if a folder has more findings, lines that begin with their path, than `LEFT_MAX` says.
fn check(found: &[String], what: &str, limit: fn(&(&str, usize, usize)) -> usize) {
    let mut by_folder: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for line in found {
        let folder =
            line.split('/').take(if line.starts_with("runtime/") { 1 } else { 2 }).collect::<Vec<_>>().join("/");
        by_folder.entry(folder).or_default().push(line);
    }
    for (folder, lines) in by_folder {
        let left = LEFT_MAX.iter().find(|entry| entry.0 == folder).map_or(0, limit);
        assert!(lines.len() <= left, "{folder}: {} {what}, at most {left}:\n{}", lines.len(), lines.join("\n"));
    }
}

#[test]
fn comments_keep_to_the_width() {
    let mut wide = Vec::new();
    for (path, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        for comment in split(&text).1 {
            for line in comment.line..comment.line + comment.text.lines().count() {
                let columns = lines[line - 1].chars().count();
                if columns > COLUMNS_MAX {
                    wide.push(format!("{path}:{line}: {columns} columns"));
                }
            }
        }
    }
    check(&wide, &format!("comments wider than {COLUMNS_MAX} columns"), |entry| entry.1);
}

#[test]
fn comments_cite_only_the_repository() {
    let mut found = Vec::new();
    for (path, text) in sources() {
        if path.starts_with("runtime/tests/tidy/") {
            continue;
        }
        for comment in split(&text).1 {
            if let Some(citation) = foreign_citation(&comment.text) {
                found.push(format!("{path}:{}: {citation}", comment.line));
            }
        }
    }
    check(&found, "comments that cite what is not in the repository", |entry| entry.2);
}

#[test]
fn citations_are_words_of_their_own() {
    let cited = |text: &str| foreign_citation(text).is_some();
    assert!(cited("// see PROTOCOL 7.3") && cited("// Decision 22 says") && cited("// (decisions 4, 5)"));
    assert!(cited("// ../shared/NOTES says") && cited("//! CLUSTER.md"));
    assert!(!cited("// PROTOCOL_ERROR, DESCRIBE CLUSTER, a decision of 2 replicas"));
    assert!(!cited("// src/shared/keys.rs, unshared/"));
}
