//! Width of comments, and that they cite nothing that is not in the repository.

use super::tokens::split;
use super::workspace::sources;

/// Columns that a line with a comment may have; rustfmt wraps code at the same width, but no comments.
const COLUMNS_MAX: usize = 120;

/// Names of documents that are not in the repository: a comment says the fact itself.
const FOREIGN_DOCUMENTS: &[&str] = &["DESIGN", "CLUSTER.md", "PROTOCOL", "STYLE.md", "FAULTS", "shared/"];

/// The document outside the repository that a comment names, if it names one.
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
    assert!(wide.is_empty(), "comments wider than {COLUMNS_MAX} columns:\n{}", wide.join("\n"));
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
    assert!(found.is_empty(), "comments that cite what is not in the repository:\n{}", found.join("\n"));
}

#[test]
fn citations_are_words_of_their_own() {
    let cited = |text: &str| foreign_citation(text).is_some();
    assert!(cited("// see PROTOCOL 7.3") && cited("// Decision 22 says") && cited("// (decisions 4, 5)"));
    assert!(cited("// ../shared/NOTES says") && cited("//! CLUSTER.md"));
    assert!(!cited("// PROTOCOL_ERROR, DESCRIBE CLUSTER, a decision of 2 replicas"));
    assert!(!cited("// src/shared/keys.rs, unshared/"));
}
