//! What servers have answered to a request that was run again: in memory, as lines of a file, and compared.
//!
//! A line has either `failed` with a text, or `columns`, a list of names and types, and `rows`, lists of cells as
//! hexadecimal digits or null. The line of the result `n` belongs to line `n` of the file of queries.

use serde_json::{Value, json};
use server::query_log::logged::{LoggedQuery, LoggedStatement, LoggedStatements, LoggedValue, bytes_of};
use std::fmt::Write;

/// A file of results in the directory of a target.
pub(super) const RESULTS: &str = "results.jsonl";
/// The file of queries in the directory that `--store-queries` names.
pub(super) const QUERIES: &str = "queries.jsonl";
/// Rows of a request that are shown where they differ; the others are counted.
const MISMATCHES_MAX: usize = 10;

/// A cell; `None` is null.
type Cell = Option<Vec<u8>>;

/// What a server has answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// It failed, or could not be asked.
    Failed(String),
    /// Rows, of which there are none if it was no read, and the names and types of their columns.
    Rows { columns: Vec<(String, String)>, rows: Vec<Vec<Cell>> },
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

impl Outcome {
    /// The outcome as a line.
    pub(super) fn line(&self) -> String {
        match self {
            Outcome::Failed(text) => json!({"failed": text}).to_string(),
            Outcome::Rows { columns, rows } => {
                let cell = |cell: &Cell| cell.as_deref().map_or(Value::Null, |bytes| json!(digits(bytes)));
                let rows: Vec<Vec<Value>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
                json!({"columns": columns, "rows": rows}).to_string()
            }
        }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// If it is no line of results.
    pub(super) fn of_line(line: &str) -> Result<Outcome, String> {
        let line: Value = serde_json::from_str(line).map_err(|error| format!("The result is no JSON: {error}"))?;
        if let Some(text) = line["failed"].as_str() {
            return Ok(Outcome::Failed(text.to_owned()));
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let column = |pair: &Value| Some((text(&pair[0])?, text(&pair[1])?));
        let cell = |cell: &Value| match cell {
            Value::Null => Some(None),
            cell => bytes_of(cell.as_str()?.strip_prefix("0x")?).map(Some),
        };
        let row = |row: &Value| row.as_array()?.iter().map(cell).collect::<Option<Vec<Cell>>>();
        let list = |name: &str| line[name].as_array().ok_or_else(|| format!("The result has no valid field [{name}]"));
        let columns = list("columns")?.iter().map(column).collect::<Option<_>>();
        let rows = list("rows")?.iter().map(row).collect::<Option<_>>();
        match (columns, rows) {
            (Some(columns), Some(rows)) => Ok(Outcome::Rows { columns, rows }),
            _ => Err("The result has columns or rows that are none".into()),
        }
    }

    fn columns(&self) -> String {
        match self {
            Outcome::Failed(_) => "FAILED".into(),
            Outcome::Rows { columns, .. } => {
                columns.iter().map(|(name, kind)| format!("{name}:{kind}")).collect::<Vec<_>>().join(", ")
            }
        }
    }

    fn rows(&self) -> &[Vec<Cell>] {
        match self {
            Outcome::Failed(_) => &[],
            Outcome::Rows { rows, .. } => rows,
        }
    }
}

/// Appends what failed and what differs between the targets, which are as many as the outcomes; `None` is an outcome
/// that is not there. Returns whether something differs.
pub(super) fn compare(targets: &[String], query: &LoggedQuery, outcomes: &[Option<Outcome>], out: &mut String) -> bool {
    let shown = shown(query);
    for (target, outcome) in targets.iter().zip(outcomes) {
        if let Some(Outcome::Failed(text)) = outcome {
            out.push_str(&format!("Query against {target} failure:\n{shown}\nMessage: {text}\n"));
        }
    }
    let tell = |what: &str, of_each: &dyn Fn(Option<&Outcome>) -> String, out: &mut String| {
        let each = targets.iter().zip(outcomes).enumerate();
        let each =
            each.map(|(at, (target, outcome))| format!("mismatch{at}=\"{target}:{}\"", of_each(outcome.as_ref())));
        out.push_str(&format!("{what} Query = {shown} {}\n", each.collect::<Vec<_>>().join(",")));
    };
    let differ = |of_each: &dyn Fn(Option<&Outcome>) -> String| {
        let mut texts = outcomes.iter().map(|outcome| of_each(outcome.as_ref()));
        let first = texts.next();
        texts.any(|text| Some(text) != first)
    };
    let columns = |outcome: Option<&Outcome>| outcome.map_or_else(|| "NULL".to_owned(), Outcome::columns);
    if differ(&columns) {
        tell("COLUMN DEFINITION MISMATCH", &columns, out);
        return true;
    }
    let count = outcomes.iter().flatten().map(|outcome| outcome.rows().len()).max().unwrap_or_default();
    let mut differing = 0;
    for at in 0..count {
        let row = |outcome: Option<&Outcome>| match outcome.and_then(|outcome| outcome.rows().get(at)) {
            None => "null".to_owned(),
            Some(row) => {
                let cells = row.iter().map(|cell| cell.as_deref().map_or_else(|| "null".to_owned(), digits));
                format!("[{}]", cells.collect::<Vec<_>>().join(", "))
            }
        };
        if differ(&row) {
            differing += 1;
            if differing <= MISMATCHES_MAX {
                tell("MISMATCH", &row, out);
            }
        }
    }
    if differing > MISMATCHES_MAX {
        out.push_str(&format!("MISMATCH in {} more rows\n", differing - MISMATCHES_MAX));
    }
    differing > 0
}

/// A request in a line.
pub(super) fn shown(query: &LoggedQuery) -> String {
    let value = |value: &LoggedValue| match value {
        LoggedValue::Null => "null".to_owned(),
        LoggedValue::Unset => "unset".to_owned(),
        LoggedValue::Bytes(bytes) => digits(bytes),
    };
    let statement = |statement: &LoggedStatement| match statement.values.as_slice() {
        [] => statement.text.clone(),
        values => format!("{} [{}]", statement.text, values.iter().map(value).collect::<Vec<_>>().join(", ")),
    };
    match &query.statements {
        LoggedStatements::Single(single, _) => statement(single),
        LoggedStatements::Batch(kind, statements) => {
            let statements: Vec<String> = statements.iter().map(statement).collect();
            format!("BATCH {kind:?} {}", statements.join("; "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &str = r#"{"version":1,"type":"single-query","protocol-version":5,"query-start-time":1,
        "keyspace":null,"consistency":"ONE","query":"SELECT a FROM t WHERE k = ?","values":["0x01"]}"#;

    fn rows(cells: &[Option<u8>]) -> Option<Outcome> {
        let columns = vec![("a".to_owned(), "tinyint".to_owned())];
        Some(Outcome::Rows { columns, rows: cells.iter().map(|cell| vec![cell.map(|byte| vec![byte])]).collect() })
    }

    #[test]
    fn outcomes_are_read_as_they_are_written() {
        for outcome in [rows(&[Some(255), None]), rows(&[]), Some(Outcome::Failed("no \"one\"".into()))] {
            let outcome = outcome.expect("given");
            let line = outcome.line();
            assert_eq!(Outcome::of_line(&line), Ok(outcome));
            assert!((0..line.len()).all(|length| Outcome::of_line(&line[..length]).is_err()), "{line}");
        }
        for line in ["{}", "[]", r#"{"columns":[["a"]],"rows":[]}"#, r#"{"columns":[],"rows":[["0x1"]]}"#] {
            assert!(Outcome::of_line(line).is_err(), "{line}");
        }
    }

    #[test]
    fn what_differs_is_told() {
        let query = LoggedQuery::of_line(QUERY).expect("a line");
        let told = |outcomes: &[Option<Outcome>]| {
            let mut out = String::new();
            let differs = compare(&["x".to_owned(), "y".to_owned()], &query, outcomes, &mut out);
            assert_eq!(differs, out.contains("MISMATCH"), "{out}");
            out
        };
        assert_eq!(told(&[rows(&[Some(1), None]), rows(&[Some(1), None])]), "");
        const TEXT: &str = "Query = SELECT a FROM t WHERE k = ? [0x01]";
        assert_eq!(
            told(&[rows(&[Some(1), Some(2)]), rows(&[Some(1), None])]),
            format!("MISMATCH {TEXT} mismatch0=\"x:[0x02]\",mismatch1=\"y:[null]\"\n")
        );
        assert_eq!(
            told(&[rows(&[Some(1)]), rows(&[])]),
            format!("MISMATCH {TEXT} mismatch0=\"x:[0x01]\",mismatch1=\"y:null\"\n")
        );
        let failed = Some(Outcome::Failed("late".into()));
        let out = told(&[rows(&[]), failed.clone()]);
        assert!(
            out.starts_with("Query against y failure:\nSELECT a FROM t WHERE k = ? [0x01]\nMessage: late\n"),
            "{out}"
        );
        assert!(out.ends_with("mismatch0=\"x:a:tinyint\",mismatch1=\"y:FAILED\"\n"), "{out}");
        assert_eq!(told(&[failed.clone(), failed]).matches("Message: late\n").count(), 2);
        assert!(told(&[rows(&[]), None]).contains("mismatch1=\"y:NULL\""));
        let many = vec![Some(1); MISMATCHES_MAX + 2];
        let out = told(&[rows(&many), rows(&[])]);
        assert!(out.lines().count() == MISMATCHES_MAX + 1 && out.ends_with("MISMATCH in 2 more rows\n"), "{out}");
    }
}
