//! Statements with their expected outcome: an error's code and text, or a summary of the plan.
//!
//! `corpus/*.txt` holds pairs of lines: a statement (`\n` for a line break; with `! ` before it no keyspace is in use,
//! otherwise `cql_ks` is), then `=> ` and the expected outcome. The errors were taken from Cassandra 5.0.9; of syntax
//! errors with a position only the position counts. `refused.txt` holds what Cassandra accepts and Helenus does not.

mod fixture;

use cql::plan::Plan;
use fixture::{apply, schema, summary};

/// The statements of a corpus with their expected outcomes.
fn pairs(corpus: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut lines = corpus.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    std::iter::from_fn(move || {
        let statement = lines.next()?;
        let expected = lines.next().and_then(|line| line.strip_prefix("=> "));
        Some((statement, expected.unwrap_or_else(|| panic!("{statement}: no expectation"))))
    })
}

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
        _ => Ok(prepared),
    });
    match applied {
        Ok(prepared) => summary(&prepared),
        Err(failure) => {
            let place = failure.code == model::ErrorCode::Syntax && failure.text.starts_with("line ");
            let shown = if place {
                failure.text.splitn(3, ' ').take(2).collect::<Vec<_>>().join(" ")
            } else {
                failure.text.into_owned()
            };
            format!("{:04x} {shown}", failure.code as u16)
        }
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
