//! Mutated statements of the corpora give an answer or an error, never a panic, and no statement takes long.

mod fixture;

use fixture::{schema, summary};
use model::Schema;

const CORPORA: [&str; 3] =
    [include_str!("corpus/errors.txt"), include_str!("corpus/refused.txt"), include_str!("corpus/plans.txt")];

/// Pieces of text that are likely to confuse a parser.
const PIECES: [&str; 40] = [
    "'",
    "\"",
    "$$",
    "/*",
    "*/",
    "--",
    "//",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    ",",
    ";",
    ":",
    ".",
    "?",
    "=",
    "!=",
    "-",
    "+",
    "*",
    "0x",
    "1e",
    "1h",
    "P1D",
    "NaN",
    "null",
    " token(",
    " select ",
    " where ",
    " and ",
    " in ",
    " if ",
    "é",
    "\u{0}",
    "123e4567-e89b-12d3-a456-426614174000",
];

/// A small random number generator with a fixed seed, so that failures are reproducible.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

fn run(text: &str, schema: &Schema) {
    for session in [None, Some("cql_ks")] {
        if let Ok(prepared) = cql::parse(text).and_then(|statement| cql::prepare(&statement, session, schema)) {
            assert!(!summary(&prepared).is_empty());
        }
    }
}

#[test]
fn mutated_statements_never_panic() {
    let schema = schema();
    let statements: Vec<Vec<char>> = CORPORA
        .iter()
        .flat_map(|corpus| corpus.lines())
        .filter(|line| !line.starts_with("=> "))
        .map(|line| line.trim_start_matches("! ").chars().collect())
        .collect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..20_000 {
        let mut text = statements[random.below(statements.len())].clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(text.len() + 1);
            let end = (at + random.below(12)).min(text.len());
            match random.below(5) {
                0 => drop(text.drain(at..end)),
                1 => {
                    let copy = text[at..end].to_vec();
                    text.splice(at..at, copy);
                }
                2 => drop(text.splice(at..end, PIECES[random.below(PIECES.len())].chars())),
                3 => {
                    let other = &statements[random.below(statements.len())];
                    let from = random.below(other.len());
                    text.splice(at..end, other[from..].iter().copied());
                }
                _ => text.truncate(at),
            }
        }
        run(&text.into_iter().collect::<String>(), &schema);
    }
}

/// How long the statements are: 1 MiB, or `CQL_STATEMENT_BYTES`, at most [`cql::STATEMENT_BYTES_MAX`].
fn statement_bytes() -> usize {
    std::env::var("CQL_STATEMENT_BYTES").map_or(1 << 20, |bytes| bytes.parse().expect("a number of bytes"))
}

#[test]
fn long_statements_take_linear_time() {
    // Quadratic work would not end within this test.
    let schema = schema();
    let repeated = |start: &str, piece: &str, end: &str| {
        let room = statement_bytes() - start.len() - end.len();
        format!("{start}{}{end}", piece.repeat(room / piece.len()))
    };
    for text in [
        repeated("SELECT ", "v,", "v FROM t"),
        repeated("SELECT ", "(", "v FROM t"),
        repeated("SELECT * FROM t WHERE pk IN (", "1,", "1)"),
        repeated("SELECT * FROM t WHERE token(", "pk,", "pk) > 1"),
        repeated("SELECT * FROM c WHERE pk = 1 ORDER BY ", "c1,", "c2"),
        repeated("SELECT * FROM t WHERE s = '", "''", "'"),
        repeated("SELECT * FROM t WHERE s = '", "''", ""),
        repeated("SELECT * FROM t ", "/**/", ""),
        repeated("SELECT * FROM t ", "/*", ""),
        repeated("SELECT * FROM t ", "--\n", ""),
        repeated("SELECT ", "\"a\".", "b FROM t"),
        repeated("SELECT * FROM t WHERE pk = ", "1h", ""),
        repeated("SELECT * FROM t WHERE pk = P", "1", "x"),
        repeated("INSERT INTO t (pk, ", "v,", "v) VALUES (1)"),
        repeated("INSERT INTO t (pk) VALUES (", "9", ")"),
        repeated("INSERT INTO ty (pk, vi) VALUES (1, ", "9999", ")"),
        repeated("UPDATE t SET ", "v=1,", "v=1 WHERE pk = 1"),
        repeated("DELETE ", "v,", "v FROM t WHERE pk = 1"),
        repeated("BEGIN BATCH ", "DELETE FROM t WHERE pk=1;", "APPLY BATCH"),
        repeated("CREATE TABLE x (pk int, PRIMARY KEY (", "pk,", "pk))"),
        repeated("CREATE TABLE x (pk int PRIMARY KEY", ",", ")"),
        repeated("CREATE TABLE x (pk int PRIMARY KEY) WITH a=1", " AND a=1", ""),
        repeated("CREATE TABLE x (pk int PRIMARY KEY) WITH caching={", "'a':'b',", "'a':'b'}"),
        repeated("CREATE TABLE x (a int, b int, PRIMARY KEY (a, b)) WITH CLUSTERING ORDER BY (", "b ASC,", "b ASC)"),
    ] {
        run(&text, &schema);
    }
}
