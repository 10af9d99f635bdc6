//! Statements with their expected outcome: an error's code and text, or a summary of the plan.
//!
//! `corpus/*.txt` holds pairs of lines: a statement (`\n` for a line break; with `! ` before it no keyspace is in use,
//! otherwise `cql_ks` is), then `=> ` and the expected outcome. The errors were taken from Cassandra 5.0.9.
//! `transactions.txt` holds transactions, which Cassandra 5 does not know; the others hold statements of it.
//! `refused.txt` holds what Cassandra accepts and Helenus does not; `syntax.txt` holds accepted statements to which a
//! random change was made, with the texts of Cassandra's parser.

mod fixture;

use cql::plan::Plan;
use fixture::{apply, schema, summary};
use model::{ErrorCode, Failure};

/// The statements of a corpus with their expected outcomes.
fn pairs(corpus: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut lines = corpus.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    std::iter::from_fn(move || {
        let statement = lines.next()?;
        let expected = lines.next().and_then(|line| line.strip_prefix("=> "));
        Some((statement, expected.unwrap_or_else(|| panic!("{statement}: no expectation"))))
    })
}

const ANONYMOUS: &str = "You have to be logged in and not anonymous to perform this request";

/// The outcome of a statement.
fn outcome(line: &str, schema: &model::Schema) -> String {
    let (text, session) = match line.strip_prefix("! ") {
        Some(text) => (text, None),
        None => (line, Some("cql_ks")),
    };
    let text = text.replace("\\n", "\n");
    let planned = cql::parse(&text).and_then(|statement| cql::prepare(&statement, session, schema));
    let applied = planned.and_then(|prepared| match &prepared.plan {
        Plan::Define(define) => apply(define).map(|_| prepared),
        // Statements about roles run above this crate. Nobody is logged in where the answers were recorded.
        Plan::Access(_) => Err(Failure::new(ErrorCode::Unauthorized, ANONYMOUS)),
        _ => Ok(prepared),
    });
    match applied {
        Ok(prepared) => summary(&prepared),
        Err(failure) => format!("{:04x} {}", failure.code as u16, failure.text),
    }
}

fn run(corpus: &str, least: usize) {
    let schema = schema();
    let mut count = 0;
    let mut wrong = String::new();
    for (statement, expected) in pairs(corpus) {
        count += 1;
        let got = outcome(statement, &schema);
        if got.trim_end() != expected.trim_end() {
            wrong.push_str(&format!("{statement}\n   expected {expected}\n   got      {got}\n"));
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(count >= least, "only {count} statements");
}

#[test]
fn errors_are_cassandras() {
    run(include_str!("corpus/errors.txt"), 500);
}

#[test]
fn what_is_missing_is_named() {
    run(include_str!("corpus/refused.txt"), 15);
}

#[test]
fn plans() {
    run(include_str!("corpus/plans.txt"), 100);
}

/// Cassandra 5 has none.
#[test]
fn transactions() {
    run(include_str!("corpus/transactions.txt"), 15);
}

/// Cassandra predicts with several tokens where this parser reads on, so that a few texts differ.
#[test]
fn syntax_errors_are_cassandras() {
    let (mut count, mut same, mut different) = (0, 0, String::new());
    for (statement, expected) in pairs(include_str!("corpus/syntax.txt")) {
        count += 1;
        let got = match cql::parse(&statement.replace("\\n", "\n")) {
            Ok(_) => "accepted".to_owned(),
            Err(failure) => format!("{:04x} {}", failure.code as u16, failure.text),
        };
        // Cassandra quotes long statements in full.
        if got == expected || got.strip_suffix("...").is_some_and(|start| expected.starts_with(start)) {
            same += 1;
        } else {
            different.push_str(&format!("{statement}\n   expected {expected}\n   got      {got}\n"));
        }
    }
    assert!(count >= 1500 && same * 100 >= count * 97, "{same} of {count}:\n{different}");
}
