//! `fqltool dump`: the log of full queries as text, in the layout of Cassandra's tool.
//!
//! What a request has not sent reads as in Cassandra: the lowest number. Values are shown as bytes, 16 a line, and a
//! value of more than [`VALUE_BYTES_MAX`] is cut; null and what is not set, which Cassandra's tool cannot show, by
//! these words.

use super::Given;
use server::query_log::logged::{LoggedQuery, LoggedStatement, LoggedStatements, LoggedValue};
use server::query_log::reader::LogReader;
use std::fmt::Write as _;
use std::io::Write;
use std::time::Duration;

/// Bytes of a value that are shown.
const VALUE_BYTES_MAX: usize = 1024;
/// Bytes in a line.
const WIDTH: usize = 16;
/// Pause before a log that is followed is looked at again, as in Cassandra's tool.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs the command.
pub(super) fn run(given: &Given) -> Result<(), String> {
    let mut reader = LogReader::full(given.paths.iter().map(Into::into).collect());
    let follows = given.has("follow");
    let mut out = std::io::stdout().lock();
    loop {
        while let Some(line) = reader.next_line(!follows).map_err(|error| error.to_string())? {
            let text = text_of(&LoggedQuery::of_line(&line)?);
            out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| error.to_string())?;
        }
        if !follows {
            return Ok(());
        }
        runtime::blocking::pause(PAUSE);
    }
}

/// A logged request as text.
fn text_of(query: &LoggedQuery) -> String {
    let (kind, batch) = match &query.statements {
        LoggedStatements::Single(..) => ("single-query", None),
        LoggedStatements::Batch(kind, _) => ("batch", Some(kind)),
    };
    let mut out = format!(
        "Type: {kind}\nQuery start time: {}\nProtocol version: {}\nGenerated timestamp:{}\nGenerated nowInSeconds:{}\n",
        query.began,
        query.protocol_version,
        query.timestamp.unwrap_or(i64::MIN),
        query.now_in_seconds.unwrap_or(i32::MIN)
    );
    if let Some(kind) = batch {
        out.push_str(&format!("Batch type: {}\n", format!("{kind:?}").to_uppercase()));
    }
    match &query.statements {
        LoggedStatements::Single(statement, _) => push_statement(&mut out, statement),
        LoggedStatements::Batch(_, statements) => {
            statements.iter().for_each(|statement| push_statement(&mut out, statement));
        }
    }
    out.push('\n');
    out
}

fn push_statement(out: &mut String, statement: &LoggedStatement) {
    out.push_str(&format!("Query: {}\nValues: \n", statement.text));
    for (at, value) in statement.values.iter().enumerate() {
        match value {
            LoggedValue::Null => out.push_str("null\n"),
            LoggedValue::Unset => out.push_str("unset\n"),
            LoggedValue::Bytes(bytes) => {
                push_bytes(out, &bytes[..bytes.len().min(VALUE_BYTES_MAX)]);
                if bytes.len() > VALUE_BYTES_MAX {
                    out.push_str("... truncated\n");
                }
            }
        }
        // As in Cassandra, there is no line behind the first value.
        if at > 0 {
            out.push_str("-----\n");
        }
    }
}

/// Appends lines of an offset, 16 bytes and their characters. Lines that repeat the one before are left out.
fn push_bytes(out: &mut String, bytes: &[u8]) {
    let mut skipped = false;
    for (at, line) in bytes.chunks(WIDTH).enumerate() {
        let start = at * WIDTH;
        let is_last = start + WIDTH >= bytes.len();
        if at > 0 && !is_last && line == &bytes[start - WIDTH..start] {
            skipped = true;
            continue;
        }
        if std::mem::take(&mut skipped) {
            out.push_str("........\n");
        }
        let _ = write!(out, "{start:08x}");
        for column in 0..WIDTH {
            out.push_str(if column == WIDTH / 2 { " " } else { "" });
            match line.get(column) {
                Some(byte) => _ = write!(out, " {byte:02X}"),
                None => out.push_str("   "),
            }
        }
        out.push(' ');
        for column in 0..WIDTH {
            out.push_str(if column == WIDTH / 2 { " " } else { "" });
            out.push(match line.get(column) {
                Some(byte @ b' '..=b'~') => char::from(*byte),
                Some(_) => '\u{b7}',
                None => ' ',
            });
        }
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{BatchKind, Consistency};

    fn query(statements: LoggedStatements) -> LoggedQuery {
        LoggedQuery {
            began: 1_795_696_890_404,
            protocol_version: 5,
            keyspace: None,
            consistency: Consistency::One,
            serial_consistency: None,
            timestamp: None,
            now_in_seconds: Some(7),
            page_size: None,
            statements,
        }
    }

    fn statement(text: &str, values: &[LoggedValue]) -> LoggedStatement {
        LoggedStatement { text: text.into(), values: values.to_vec() }
    }

    #[test]
    fn requests_are_shown() {
        let values = [LoggedValue::Bytes(b"ab\0".to_vec()), LoggedValue::Null, LoggedValue::Unset];
        let single = query(LoggedStatements::Single(statement("SELECT 1", &values), None));
        let bytes = "00000000 61 62 00                                         ab\u{b7}              \n";
        assert_eq!(
            text_of(&single),
            format!(
                "Type: single-query\nQuery start time: 1795696890404\nProtocol version: 5\n\
                 Generated timestamp:-9223372036854775808\nGenerated nowInSeconds:7\nQuery: SELECT 1\nValues: \n\
                 {bytes}null\n-----\nunset\n-----\n\n"
            )
        );
        let two = vec![statement("A", &[]), statement("B", &[])];
        let batch = text_of(&query(LoggedStatements::Batch(BatchKind::Unlogged, two)));
        assert!(batch.starts_with("Type: batch\n"), "{batch}");
        assert!(batch.ends_with("Batch type: UNLOGGED\nQuery: A\nValues: \nQuery: B\nValues: \n\n"), "{batch}");
    }

    #[test]
    fn long_values_are_cut_and_lines_that_repeat_left_out() {
        let shown = |bytes: usize| {
            let values = [LoggedValue::Bytes(vec![b'x'; bytes])];
            let mut out = String::new();
            push_statement(&mut out, &statement("A", &values));
            out
        };
        assert!(!shown(VALUE_BYTES_MAX).contains("truncated"));
        assert!(shown(VALUE_BYTES_MAX + 1).ends_with("... truncated\n"));
        assert_eq!(shown(VALUE_BYTES_MAX).lines().count(), 2 + 3);
        assert!(shown(VALUE_BYTES_MAX).contains("\n........\n000003f0 78 78"));
    }
}
