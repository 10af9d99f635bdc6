//! Every limit of the language, at it and one past it.

mod fixture;

use cql::plan::Plan;
use cql::{
    CALL_DEPTH_MAX, COLUMNS_MAX, DEPTH_MAX, ERROR_BYTES_MAX, MARKERS_MAX, OPERATORS_MAX, RELATIONS_MAX,
    STATEMENT_BYTES_MAX,
};
use fixture::{apply, schema, summary};
use model::ErrorCode;
use model::types::TYPE_DEPTH_MAX;

/// Whether a statement is accepted; otherwise the text of the failure (0x2200 or 0x2300).
fn outcome(text: &str) -> Result<(), String> {
    let prepared = cql::parse(text).and_then(|statement| cql::prepare(&statement, Some("cql_ks"), &schema()));
    let applied = prepared.and_then(|prepared| match &prepared.plan {
        Plan::Define(define) => apply(define).map(|_| prepared),
        _ => Ok(prepared),
    });
    match applied {
        Ok(prepared) => {
            assert!(!summary(&prepared).is_empty());
            Ok(())
        }
        Err(failure) => {
            assert!(matches!(failure.code, ErrorCode::Invalid | ErrorCode::Config), "{failure}");
            Err(failure.text.into_owned())
        }
    }
}

fn check(at_limit: &str, past: &str, error: &str) {
    assert_eq!(outcome(at_limit), Ok(()));
    let text = outcome(past).unwrap_err();
    assert!(text.contains(error), "{text}");
}

#[test]
fn statement_bytes() {
    let select = "SELECT * FROM t";
    let padded = |len: usize| format!("{select}{}", " ".repeat(len - select.len()));
    check(&padded(STATEMENT_BYTES_MAX), &padded(STATEMENT_BYTES_MAX + 1), "more than the maximum of 16777216");
}

#[test]
fn relations() {
    // Many relations on one column can only fail, but they must be counted before that.
    let many = |count: usize| format!("SELECT * FROM t WHERE {}", vec!["pk IN (1, 2)"; count].join(" AND "));
    let merged = "pk cannot be restricted by more than one relation if it includes a IN";
    assert_eq!(outcome(&many(RELATIONS_MAX)), Err(merged.to_owned()));
    assert_eq!(outcome(&many(RELATIONS_MAX + 1)), Err("A WHERE clause takes at most 100 relations".to_owned()));
}

#[test]
fn conditions() {
    let many = |count: usize| format!("UPDATE t SET v = 1 WHERE pk = 1 IF {}", vec!["v = 1"; count].join(" AND "));
    check(&many(RELATIONS_MAX), &many(RELATIONS_MAX + 1), "An IF clause takes at most 100 conditions");
}

#[test]
fn depth() {
    let error = "nest at most 64 levels deep";
    let nest = |open: &str, close: &str, depth: usize| format!("{}{}", open.repeat(depth), close.repeat(depth));
    let term = |depth: usize| format!("INSERT INTO t (pk) VALUES ({})", nest("(", ")", depth).replace("()", "(1)"));
    check(&term(DEPTH_MAX), &term(DEPTH_MAX + 1), error);
    let relation = |depth: usize| format!("SELECT * FROM t WHERE {}", nest("(", ")", depth).replace("()", "(pk = 1)"));
    check(&relation(DEPTH_MAX), &relation(DEPTH_MAX + 1), error);
    let cast = |depth: usize| format!("SELECT {}1 FROM t", "(int)".repeat(depth));
    check(&cast(DEPTH_MAX), &cast(DEPTH_MAX + 1), error);
    // Deep nesting must not overflow the stack, whatever it consists of.
    for open in ["(", "[", "{", "{1:", "{a:", "f(", "(int)", "- ", "list<", "frozen<map<int,", "x(y("] {
        for around in ["SELECT * FROM t WHERE pk = ", "SELECT ", "INSERT INTO t (pk) VALUES (", "UPDATE t SET v = "] {
            let _ = cql::parse(&format!("{around}{}", open.repeat(100_000 / open.len())));
        }
        let _ = cql::parse(&format!("CREATE TABLE x (a {}", open.repeat(100_000 / open.len())));
    }
    let types = |depth: usize| {
        format!("CREATE TABLE x (a int PRIMARY KEY, b {})", nest("set<", ">", depth).replace("<>", "<int>"))
    };
    assert!(outcome(&types(DEPTH_MAX)).unwrap_err().starts_with("Non-frozen collections are not allowed"));
    assert!(outcome(&types(2 * DEPTH_MAX + 3)).unwrap_err().contains(error));
    let error = "A type nests at most 64 levels deep";
    let tuples = |depth: usize| {
        format!("CREATE TABLE x (a int PRIMARY KEY, b {})", nest("tuple<", ">", depth).replace("<>", "<int>"))
    };
    check(&tuples(TYPE_DEPTH_MAX), &tuples(TYPE_DEPTH_MAX + 1), error);
    let frozen = |depth: usize| tuples(depth).replace("tuple<", "frozen<list<").replace('>', ">>");
    check(&frozen(TYPE_DEPTH_MAX), &frozen(TYPE_DEPTH_MAX + 1), error);
    // Keys of maps count more.
    let keys = |depth: usize| {
        let types = nest("frozen<map<", ", int>>", depth).replace("<,", "<int,");
        format!("CREATE TABLE x (a int PRIMARY KEY, b {types})")
    };
    check(&keys(12), &keys(13), error);
    let literal = |depth: usize| {
        let (types, values) = (nest("tuple<", ">", depth).replace("<>", "<int>"), nest("(", ")", depth));
        format!("SELECT ({types}) {} FROM t", values.replace("()", "(1)"))
    };
    let error = "Expressions and types nest at most 64 levels deep";
    check(&literal(DEPTH_MAX - 1), &literal(DEPTH_MAX + 1), error);
    let selection = |depth: usize| format!("SELECT {} FROM t", nest("[", "]", depth).replace("[]", "[v]"));
    check(&selection(DEPTH_MAX), &selection(DEPTH_MAX + 1), error);
}

#[test]
fn call_depth() {
    let error = "Function calls and operators nest at most 12 levels deep";
    let nest = |open: &str, inner: &str, close: &str, depth: usize| {
        format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
    };
    let insert = |term: String| format!("INSERT INTO t (pk) VALUES ({term})");
    let call = |depth: usize| insert(nest("abs(", "1", ")", depth));
    check(&call(CALL_DEPTH_MAX), &call(CALL_DEPTH_MAX + 1), error);
    let sum = |depth: usize| insert(nest("(1 + ", "1", ")", depth));
    check(&sum(CALL_DEPTH_MAX), &sum(CALL_DEPTH_MAX + 1), error);
    let selected = |depth: usize| format!("SELECT {} FROM t", nest("abs(", "v", ")", depth));
    check(&selected(CALL_DEPTH_MAX), &selected(CALL_DEPTH_MAX + 1), error);
    let cast = |depth: usize| format!("SELECT {} FROM t", nest("cast(", "v", " as int)", depth));
    check(&cast(CALL_DEPTH_MAX), &cast(CALL_DEPTH_MAX + 1), error);
}

#[test]
fn operators() {
    let error = "An expression takes at most 64 arithmetic operators";
    let select = |count: usize| format!("SELECT v{} FROM t", " + v".repeat(count));
    check(&select(OPERATORS_MAX), &select(OPERATORS_MAX + 1), error);
    let insert = |count: usize| format!("INSERT INTO t (pk, v) VALUES (1, 1{})", " * 1".repeat(count));
    check(&insert(OPERATORS_MAX), &insert(OPERATORS_MAX + 1), error);
    // Each expression is counted by itself.
    let many = format!("SELECT {} FROM t", ["v + v"; OPERATORS_MAX + 1].join(", "));
    assert_eq!(outcome(&many), Ok(()));
}

#[test]
fn markers() {
    let many = |count: usize| format!("SELECT * FROM t WHERE pk IN ({})", vec!["?"; count].join(","));
    check(&many(MARKERS_MAX), &many(MARKERS_MAX + 1), "at most 65535 bind markers");
}

#[test]
fn columns() {
    let table = |count: usize| {
        let columns: String = (1..count).map(|at| format!(", c{at} int")).collect();
        format!("CREATE TABLE x (pk int PRIMARY KEY{columns})")
    };
    check(&table(COLUMNS_MAX), &table(COLUMNS_MAX + 1), "at most 8192 columns");
}

#[test]
fn names() {
    let keyspace =
        |len: usize| format!("CREATE KEYSPACE {} WITH replication = {{'class': 'SimpleStrategy'}}", "k".repeat(len));
    check(&keyspace(48), &keyspace(49), "must not be more than 48 characters long (got 49 characters");
    let table = |len: usize| format!("CREATE TABLE {} (pk int PRIMARY KEY)", "t".repeat(len));
    check(&table(222), &table(223), "must not be more than 222 characters long (got 223 characters");
}

#[test]
fn error_texts() {
    // The error is `table ... does not exist` around the name.
    let error = |len: usize| outcome(&format!("SELECT * FROM {}", "z".repeat(len))).unwrap_err();
    let around = error(1).len() - 1;
    assert_eq!(error(ERROR_BYTES_MAX - around).len(), ERROR_BYTES_MAX);
    assert!(error(ERROR_BYTES_MAX - around).ends_with("does not exist"));
    assert_eq!(error(ERROR_BYTES_MAX - around + 1).len(), ERROR_BYTES_MAX + "...".len());
}
