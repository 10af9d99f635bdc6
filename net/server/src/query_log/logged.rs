//! Lines of the log of full queries, read back, for tools that show them or run them again.
//!
//! Invariants: what is no line of this log is an error that says why, never a panic.

use crate::query_log::full::VERSION;
use model::value::BoundValue;
use model::{BatchKind, Consistency};
use serde_json::Value;
use shard::statement_facts;

/// A request that was logged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedQuery {
    /// When it began, in milliseconds since 1970.
    pub began: i64,
    /// The version of the protocol in which it came.
    pub protocol_version: u8,
    /// The keyspace of names without one.
    pub keyspace: Option<String>,
    /// Consistency.
    pub consistency: Consistency,
    /// Serial consistency, if it was sent.
    pub serial_consistency: Option<Consistency>,
    /// The timestamp of its writes in microseconds, if it was sent.
    pub timestamp: Option<i64>,
    /// The time against which expiry was judged, if it was sent.
    pub now_in_seconds: Option<i32>,
    /// Rows per page, if there were pages.
    pub page_size: Option<i32>,
    /// The statements.
    pub statements: LoggedStatements,
}

/// What a request has run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoggedStatements {
    /// A statement alone, and the names of its values if they were bound by name.
    Single(LoggedStatement, Option<Vec<String>>),
    /// A batch.
    Batch(BatchKind, Vec<LoggedStatement>),
}

/// A statement with its values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedStatement {
    /// The text, in which passwords are masked.
    pub text: String,
    /// The values that were bound.
    pub values: Vec<LoggedValue>,
}

/// A value that was bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoggedValue {
    /// Null.
    Null,
    /// Not set.
    Unset,
    /// Bytes.
    Bytes(Vec<u8>),
}

impl LoggedValue {
    /// The value, for another request.
    pub fn bound(&self) -> BoundValue<'_> {
        match self {
            LoggedValue::Null => BoundValue::Null,
            LoggedValue::Unset => BoundValue::Unset,
            LoggedValue::Bytes(bytes) => BoundValue::Bytes(bytes),
        }
    }
}

impl LoggedQuery {
    /// Reads a line.
    ///
    /// # Errors
    /// If it is no line of this log, or one of a later version. Texts about versions and types are Cassandra's.
    pub fn of_line(line: &str) -> Result<LoggedQuery, String> {
        let line: Value = serde_json::from_str(line).map_err(|error| format!("The record is no JSON: {error}"))?;
        let number = |name: &str| line[name].as_i64();
        let version = number("version").ok_or_else(|| missing("version"))?;
        if version > VERSION {
            return Err(format!("Unsupported record version [{version}] - highest supported version is [{VERSION}]"));
        }
        let kind = line["type"].as_str().unwrap_or_default();
        let statements = match kind {
            "single-query" => {
                let names = match &line["names"] {
                    Value::Null => None,
                    names => Some(texts(names).ok_or_else(|| missing("names"))?),
                };
                LoggedStatements::Single(statement(&line["query"], &line["values"])?, names)
            }
            "batch" => batch(&line)?,
            kind => {
                return Err(format!(
                    "Unsupported record type field [{kind}] - supported record types are [single-query, batch]"
                ));
            }
        };
        let level = |name: &str| match line[name].as_str() {
            None => Ok(None),
            Some(text) => {
                let found = (0..).map_while(Consistency::from_code).find(|level| level.name() == text);
                found.map(Some).ok_or_else(|| missing(name))
            }
        };
        Ok(LoggedQuery {
            began: number("query-start-time").ok_or_else(|| missing("query-start-time"))?,
            protocol_version: number("protocol-version").and_then(|version| u8::try_from(version).ok()).unwrap_or(0),
            keyspace: line["keyspace"].as_str().map(str::to_owned),
            consistency: level("consistency")?.ok_or_else(|| missing("consistency"))?,
            serial_consistency: level("serial-consistency")?,
            timestamp: number("generated-timestamp"),
            now_in_seconds: number("generated-now-in-seconds").and_then(|seconds| i32::try_from(seconds).ok()),
            page_size: number("page-size").and_then(|rows| i32::try_from(rows).ok()),
            statements,
        })
    }

    /// The statement of a request that is no batch.
    pub fn single(&self) -> Option<&LoggedStatement> {
        match &self.statements {
            LoggedStatements::Single(statement, _) => Some(statement),
            LoggedStatements::Batch(..) => None,
        }
    }

    /// Whether it changes the schema.
    pub fn is_definition(&self) -> bool {
        self.facts().is_some_and(|facts| facts.category == "DDL" && facts.kind != "TRUNCATE")
    }

    /// Whether it sets a password, which the log does not have.
    pub fn lacks_password(&self) -> bool {
        let sets_password = |kind: &str| matches!(kind, "CREATE_ROLE" | "ALTER_ROLE");
        let is_masked = self.single().is_some_and(|statement| statement.text.contains(MASK));
        is_masked && self.facts().is_none_or(|facts| sets_password(facts.kind))
    }

    fn facts(&self) -> Option<shard::StatementFacts> {
        self.single().and_then(|statement| statement_facts(&statement.text, None))
    }
}

/// What stands for a password.
const MASK: &str = "*******";

fn missing(name: &str) -> String {
    format!("The record has no valid field [{name}]")
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

fn batch(line: &Value) -> Result<LoggedStatements, String> {
    let kind = match line["batch-type"].as_str() {
        Some("LOGGED") => BatchKind::Logged,
        Some("UNLOGGED") => BatchKind::Unlogged,
        Some("COUNTER") => BatchKind::Counter,
        _ => return Err(missing("batch-type")),
    };
    match (line["queries"].as_array(), line["values"].as_array()) {
        (Some(queries), Some(values)) if queries.len() == values.len() => {
            let statements = queries.iter().zip(values).map(|(text, values)| statement(text, values));
            Ok(LoggedStatements::Batch(kind, statements.collect::<Result<_, _>>()?))
        }
        _ => Err(missing("queries")),
    }
}

fn statement(text: &Value, values: &Value) -> Result<LoggedStatement, String> {
    let text = text.as_str().ok_or_else(|| missing("query"))?.to_owned();
    let values = values.as_array().ok_or_else(|| missing("values"))?;
    let values = values.iter().map(value).collect::<Option<_>>().ok_or_else(|| missing("values"))?;
    Ok(LoggedStatement { text, values })
}

fn value(value: &Value) -> Option<LoggedValue> {
    match value {
        Value::Null => Some(LoggedValue::Null),
        Value::String(text) if text == "unset" => Some(LoggedValue::Unset),
        Value::String(text) => bytes_of(text.strip_prefix("0x")?).map(LoggedValue::Bytes),
        _ => None,
    }
}

/// The bytes that pairs of hexadecimal digits give.
pub fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| if let [high, low] = *pair { Some(digit(high)? << 4 | digit(low)?) } else { None }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query_log::full;
    use model::QueryParameters;

    fn single(text: &str) -> LoggedQuery {
        let parameters = QueryParameters::new(Consistency::One);
        LoggedQuery::of_line(&full::single(5, 1000, None, text, &parameters)).expect("a line")
    }

    #[test]
    fn what_is_written_is_read() {
        let parameters = QueryParameters {
            values: vec![BoundValue::Bytes(&[0, 255]), BoundValue::Null, BoundValue::Unset, BoundValue::Bytes(&[])],
            names: Some(vec!["a", "b", "c", "d"]),
            timestamp: Some(7),
            page_size: Some(100),
            now_in_seconds: Some(9),
            serial_consistency: Some(Consistency::LocalSerial),
            ..QueryParameters::new(Consistency::Quorum)
        };
        let read = LoggedQuery::of_line(&full::single(5, 1000, Some("ks"), "SELECT 1", &parameters)).expect("a line");
        let values =
            [LoggedValue::Bytes(vec![0, 255]), LoggedValue::Null, LoggedValue::Unset, LoggedValue::Bytes(Vec::new())];
        let expected = LoggedQuery {
            began: 1000,
            protocol_version: 5,
            keyspace: Some("ks".into()),
            consistency: Consistency::Quorum,
            serial_consistency: Some(Consistency::LocalSerial),
            timestamp: Some(7),
            now_in_seconds: Some(9),
            page_size: Some(100),
            statements: LoggedStatements::Single(
                LoggedStatement { text: "SELECT 1".into(), values: values.to_vec() },
                Some(["a", "b", "c", "d"].map(str::to_owned).to_vec()),
            ),
        };
        assert_eq!(read, expected);
        let bound: Vec<_> = values.iter().map(LoggedValue::bound).collect();
        assert_eq!(bound, parameters.values);
        let entries: [(String, &[BoundValue<'_>]); 2] = [("A".into(), &parameters.values[..1]), ("B".into(), &[])];
        let line = full::batch(4, 1, None, BatchKind::Counter, &entries, &QueryParameters::new(Consistency::One));
        let read = LoggedQuery::of_line(&line).expect("a line");
        let statement =
            |text: &str, values: &[LoggedValue]| LoggedStatement { text: text.into(), values: values.to_vec() };
        let statements = vec![statement("A", &values[..1]), statement("B", &[])];
        assert_eq!(read.statements, LoggedStatements::Batch(BatchKind::Counter, statements));
    }

    #[test]
    fn what_is_no_line_is_refused() {
        let good = full::single(5, 1000, None, "SELECT 1", &QueryParameters::new(Consistency::One));
        for (from, to, text) in [
            ("\"version\":1", "\"version\":2", "Unsupported record version [2] - highest supported version is [1]"),
            ("single-query", "audit", "Unsupported record type field [audit] - supported record types are"),
            ("\"ONE\"", "\"NOPE\"", "The record has no valid field [consistency]"),
            ("\"values\":[]", "\"values\":[\"0x0\"]", "The record has no valid field [values]"),
            ("\"values\":[]", "\"values\":[\"0xgg\"]", "The record has no valid field [values]"),
            ("\"values\":[]", "\"values\":[1]", "The record has no valid field [values]"),
            ("\"query\":\"SELECT 1\"", "\"query\":null", "The record has no valid field [query]"),
            ("single-query", "batch", "The record has no valid field [batch-type]"),
            ("{", "[", "The record is no JSON"),
        ] {
            assert!(good.contains(from), "{good}");
            let refused = LoggedQuery::of_line(&good.replacen(from, to, 1)).expect_err(to);
            assert!(refused.starts_with(text), "{refused}");
        }
        for length in 0..good.len() {
            assert!(LoggedQuery::of_line(&good[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn what_is_not_run_again_by_itself_is_known() {
        assert!(single("CREATE TABLE k.t (a int PRIMARY KEY)").is_definition());
        assert!(single("DROP KEYSPACE k").is_definition());
        assert!(!single("TRUNCATE k.t").is_definition() && !single("SELECT * FROM k.t").is_definition());
        assert!(single("CREATE ROLE a WITH PASSWORD = '*******'").lacks_password());
        assert!(single("ALTER USER a WITH PASSWORD '*******'").lacks_password());
        assert!(!single("CREATE ROLE a WITH LOGIN = true").lacks_password());
        assert!(!single("INSERT INTO k.t (a) VALUES ('*******')").lacks_password());
    }
}
