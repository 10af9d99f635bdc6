//! Entries of the audit log: which of them are kept, and how they read.

use crate::query_log::options::{AuditLogger, AuditOptions};
use crate::query_log::writer::LineWriter;
use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use std::rc::Rc;

/// The audit log of one core.
pub(crate) struct AuditLog {
    pub(crate) options: AuditOptions,
    /// Where entries are written, unless they go to the node's log.
    pub(crate) writer: Option<Rc<LineWriter>>,
}

/// One entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AuditEntry<'a> {
    pub(crate) user: Option<&'a str>,
    /// The node, by its address for other nodes.
    pub(crate) host: SocketAddr,
    /// The client.
    pub(crate) source: SocketAddr,
    /// Milliseconds since 1970.
    pub(crate) timestamp: i64,
    /// A name of Cassandra's `AuditLogEntryType`, and its category.
    pub(crate) kind: &'a str,
    pub(crate) category: &'a str,
    pub(crate) batch: Option<&'a str>,
    pub(crate) keyspace: Option<&'a str>,
    pub(crate) scope: Option<&'a str>,
    /// The statement without passwords, and what went wrong.
    pub(crate) operation: &'a str,
}

impl AuditLog {
    pub(crate) fn new(options: AuditOptions) -> AuditLog {
        let writer = match options.logger {
            AuditLogger::Files => Some(LineWriter::start("audit", options.files.clone())),
            AuditLogger::NodeLog => None,
        };
        AuditLog { options, writer }
    }

    /// Keeps an entry, unless the options filter it out.
    pub(crate) async fn note(&self, entry: &AuditEntry<'_>) {
        let options = &self.options;
        let admits = options.keyspaces.admits(entry.keyspace)
            && options.categories.admits(Some(entry.category))
            && options.users.admits(entry.user);
        if !admits {
            return;
        }
        match &self.writer {
            Some(writer) => writer.write(&entry.line()).await,
            None => tracing::info!("FileAuditLogger {}", entry.text()),
        }
    }
}

impl AuditEntry<'_> {
    /// The entry as a line of a file.
    pub(crate) fn line(&self) -> String {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        put("user", json!(self.user));
        put("host", json!(self.host.to_string()));
        put("source", json!(self.source.ip().to_string()));
        put("port", json!(self.source.port()));
        put("timestamp", json!(self.timestamp));
        put("type", json!(self.kind));
        put("category", json!(self.category));
        for (name, value) in [("batch", self.batch), ("ks", self.keyspace), ("scope", self.scope)] {
            if let Some(value) = value {
                put(name, json!(value));
            }
        }
        put("operation", json!(self.operation));
        Value::Object(fields).to_string()
    }

    /// The entry as Cassandra writes it.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "user:{}|host:/{}|source:/{}|port:{}|timestamp:{}|type:{}|category:{}",
            self.user.unwrap_or("null"),
            self.host,
            self.source.ip(),
            self.source.port(),
            self.timestamp,
            self.kind,
            self.category
        );
        for (name, value) in [("batch", self.batch), ("ks", self.keyspace), ("scope", self.scope)] {
            if let Some(value) = value {
                text.push_str(&format!("|{name}:{value}"));
            }
        }
        text.push_str(&format!("|operation:{}", self.operation));
        text
    }
}

/// A line of a file as Cassandra's viewer shows the entry.
///
/// # Errors
/// If it is no line of the audit log.
pub fn text_of_line(line: &str) -> Result<String, String> {
    let fields: Value = serde_json::from_str(line).map_err(|error| format!("The record is no JSON: {error}"))?;
    let text = |name: &str| fields[name].as_str();
    let wrong = |name: &str| format!("The record has no valid field [{name}]");
    let required = |name: &str| text(name).ok_or_else(|| wrong(name));
    let entry = AuditEntry {
        user: text("user"),
        host: required("host")?.parse().map_err(|_| wrong("host"))?,
        source: SocketAddr::new(
            required("source")?.parse().map_err(|_| wrong("source"))?,
            fields["port"].as_u64().and_then(|port| u16::try_from(port).ok()).ok_or_else(|| wrong("port"))?,
        ),
        timestamp: fields["timestamp"].as_i64().ok_or_else(|| wrong("timestamp"))?,
        kind: required("type")?,
        category: required("category")?,
        batch: text("batch"),
        keyspace: text("ks"),
        scope: text("scope"),
        operation: required("operation")?,
    };
    Ok(entry.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_reads_as_in_cassandra() {
        let entry = AuditEntry {
            user: Some("cassandra"),
            host: SocketAddr::from(([127, 0, 62, 1], 7000)),
            source: SocketAddr::from(([127, 0, 0, 1], 43184)),
            timestamp: 1_795_696_890_404,
            kind: "SELECT",
            category: "QUERY",
            batch: None,
            keyspace: Some("system_auth"),
            scope: Some("roles"),
            operation: "SELECT * FROM system_auth.roles WHERE role=\"x\"",
        };
        assert_eq!(
            entry.text(),
            "user:cassandra|host:/127.0.62.1:7000|source:/127.0.0.1|port:43184|timestamp:1795696890404|type:SELECT|\
             category:QUERY|ks:system_auth|scope:roles|operation:SELECT * FROM system_auth.roles WHERE role=\"x\""
        );
        let line: Value = serde_json::from_str(&entry.line()).expect("JSON");
        assert_eq!(line["operation"], entry.operation);
        assert_eq!((line["port"].as_u64(), line["batch"].is_null()), (Some(43184), true));
        let batch = AuditEntry { user: None, batch: Some("b"), keyspace: None, ..entry.clone() };
        for entry in [entry, batch] {
            let line = entry.line();
            assert_eq!(text_of_line(&line), Ok(entry.text()));
            for length in 0..line.len() {
                assert!(text_of_line(&line[..length]).is_err(), "{length}");
            }
            for field in ["host", "source", "port", "timestamp", "type", "category", "operation"] {
                let refused = text_of_line(&line.replacen(&format!("\"{field}\""), "\"x\"", 1)).expect_err(field);
                assert_eq!(refused, format!("The record has no valid field [{field}]"));
            }
        }
    }
}
