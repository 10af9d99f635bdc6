//! Lines of the log of full queries: what succeeded, with everything that is needed to run it again.

use crate::query_log::options::FullQueryOptions;
use crate::query_log::writer::LineWriter;
use model::value::BoundValue;
use model::{BatchKind, QueryParameters};
use serde_json::{Value, json};
use std::rc::Rc;

/// The log of full queries of one core.
pub(crate) struct FullQueryLog {
    pub(crate) options: FullQueryOptions,
    pub(crate) writer: Rc<LineWriter>,
}

impl FullQueryLog {
    pub(crate) fn new(options: FullQueryOptions) -> FullQueryLog {
        let writer = LineWriter::start("fql", options.files.clone());
        FullQueryLog { options, writer }
    }
}

/// The version of the lines.
pub(crate) const VERSION: i64 = 1;

/// What lines of both kinds begin with.
fn head(kind: &str, version: u8, began: i64, keyspace: Option<&str>, parameters: &QueryParameters<'_>) -> Value {
    json!({
        "version": VERSION,
        "type": kind,
        "protocol-version": version,
        "query-start-time": began,
        "keyspace": parameters.keyspace.or(keyspace),
        "consistency": parameters.consistency.name(),
        "serial-consistency": parameters.serial_consistency.map(|level| level.name()),
        "generated-timestamp": parameters.timestamp,
        "generated-now-in-seconds": parameters.now_in_seconds,
        "page-size": parameters.page_size,
    })
}

/// Values as text: hexadecimal digits, or null; a value that is not set has no digits after its `unset`.
fn values(values: &[BoundValue<'_>]) -> Value {
    let one = |value: &BoundValue<'_>| match value {
        BoundValue::Null => Value::Null,
        BoundValue::Unset => json!("unset"),
        BoundValue::Bytes(bytes) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            json!(format!("0x{digits}"))
        }
    };
    values.iter().map(one).collect()
}

/// The line of a statement that ran alone.
pub(crate) fn single(
    version: u8,
    began: i64,
    keyspace: Option<&str>,
    query: &str,
    parameters: &QueryParameters<'_>,
) -> String {
    let mut line = head("single-query", version, began, keyspace, parameters);
    line["query"] = json!(query);
    line["values"] = values(&parameters.values);
    line["names"] = json!(parameters.names);
    line.to_string()
}

/// The line of a batch, whose statements are given with their values.
pub(crate) fn batch(
    version: u8,
    began: i64,
    keyspace: Option<&str>,
    kind: BatchKind,
    statements: &[(String, &[BoundValue<'_>])],
    parameters: &QueryParameters<'_>,
) -> String {
    let mut line = head("batch", version, began, keyspace, parameters);
    let kind = match kind {
        BatchKind::Logged => "LOGGED",
        BatchKind::Unlogged => "UNLOGGED",
        BatchKind::Counter => "COUNTER",
    };
    line["batch-type"] = json!(kind);
    line["queries"] = statements.iter().map(|(text, _)| json!(text)).collect();
    line["values"] = statements.iter().map(|(_, bound)| values(bound)).collect();
    line.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Consistency;

    #[test]
    fn lines_have_all_that_is_needed_to_run_the_query_again() {
        let parameters = QueryParameters {
            values: vec![BoundValue::Bytes(&[0, 255]), BoundValue::Null, BoundValue::Unset],
            timestamp: Some(7),
            ..QueryParameters::new(Consistency::Quorum)
        };
        let line: Value = serde_json::from_str(&single(5, 1000, Some("ks"), "SELECT 1", &parameters)).expect("JSON");
        let expected = json!({
            "version": 1, "type": "single-query", "protocol-version": 5, "query-start-time": 1000, "keyspace": "ks",
            "consistency": "QUORUM", "serial-consistency": null, "generated-timestamp": 7,
            "generated-now-in-seconds": null, "page-size": null, "query": "SELECT 1",
            "values": ["0x00ff", null, "unset"], "names": null
        });
        assert_eq!(line, expected);
        let statements: [(String, &[BoundValue<'_>]); 1] = [("INSERT".into(), &parameters.values[..1])];
        let text = batch(4, 1, None, BatchKind::Unlogged, &statements, &QueryParameters::new(Consistency::One));
        let line: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            (&line["batch-type"], &line["queries"], &line["values"]),
            (&json!("UNLOGGED"), &json!(["INSERT"]), &json!([["0x00ff"]]))
        );
    }
}
