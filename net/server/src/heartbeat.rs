//! The file that says when a node was last up, for `startup_checks.check_data_resurrection`.
//!
//! ```text
//! {"last_heartbeat":"2026-01-31T12:34:56.789Z"}
//! ```
//! 1. At its start the node compares that time with `gc_grace_seconds` of each table. If it was away for longer, the
//!    other replicas may have dropped tombstones of rows that it still has, so it does not start.
//! 2. While it serves, the time is written every minute.
//!
//! The file, its name and its content are Cassandra's.

use crate::config::{Config, ResurrectionCheck};
use crate::exit::{Exit, StopReason};
use jiff::Timestamp;
use model::Schema;
use runtime::file;
use runtime::sync::{Latch, race};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "cassandra-heartbeat";
const FIELD: &str = "last_heartbeat";
const FILE_BYTES_MAX: usize = 1024;
const PERIOD: Duration = Duration::from_secs(60);

fn path_of(config: &Config, check: &ResurrectionCheck) -> Option<PathBuf> {
    let first = config.node.directories.all().first()?;
    Some(check.heartbeat_file.clone().unwrap_or_else(|| first.join(NAME)))
}

/// Refuses to go on if the node was away for longer than tombstones of some table are kept. A node that has no such
/// file yet goes on.
pub(crate) async fn check(config: &Config, schema: &Schema) -> Result<(), StopReason> {
    let Some(check) = &config.resurrection_check else { return Ok(()) };
    let Some(path) = path_of(config, check) else { return Ok(()) };
    let refused = |text| Err(StopReason { text, exit: Exit::Misconfigured });
    let bytes = match file::read_small(&path, FILE_BYTES_MAX).await {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return refused(format!("heartbeat {}: {error}", path.display())),
    };
    let Some(last) = decode(&bytes) else {
        return refused(format!(
            "heartbeat {}: it does not say when the node was last up; remove it to start without knowing that",
            path.display()
        ));
    };
    let tables = outlived(schema, check, last, now());
    if tables.is_empty() {
        return Ok(());
    }
    refused(format!(
        "There are tables for which gc_grace_seconds is older than the lastly known time Cassandra node was up based on \
         its heartbeat {} with timestamp {last}. Cassandra node will not start as it would likely introduce data \
         consistency issues (zombies etc). Please resolve these issues manually, then remove the heartbeat and start \
         the node again. Invalid tables: {}",
        path.display(),
        tables.join(","),
    ))
}

/// Writes the time until the node stops.
pub(crate) async fn keep(config: Arc<Config>, stopping: Latch) {
    let Some(path) = config.resurrection_check.as_ref().and_then(|check| path_of(&config, check)) else { return };
    let write = async {
        loop {
            if let Err(error) = file::replace_small(&path, encode(now()).as_bytes()).await {
                tracing::error!("Unable to serialize heartbeat to {}: {error}", path.display());
            }
            runtime::sleep(PERIOD).await;
        }
    };
    race(stopping.wait(), write).await;
}

fn now() -> Timestamp {
    Timestamp::from_millisecond(runtime::wall_micros().div_euclid(1000)).unwrap_or(Timestamp::MAX)
}

fn encode(last: Timestamp) -> String {
    serde_json::json!({ FIELD: last.to_string() }).to_string()
}

fn decode(bytes: &[u8]) -> Option<Timestamp> {
    let document: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    document.get(FIELD)?.as_str()?.parse().ok()
}

/// The tables whose tombstones may be gone where the node was last up at `last`, as `keyspace.table`. Those that keep
/// no tombstones at all are left out, as Cassandra does, and so are those that keep them until they are repaired.
fn outlived(schema: &Schema, check: &ResurrectionCheck, last: Timestamp, now: Timestamp) -> Vec<String> {
    let away = now.as_millisecond().saturating_sub(last.as_millisecond());
    let keyspaces = schema.keyspaces.values().filter(|keyspace| !keyspace.is_local() && !keyspace.is_virtual());
    let tables = keyspaces.flat_map(|keyspace| keyspace.tables.values()).filter(|table| {
        let grace = i64::from(table.options.gc_grace_seconds);
        let is_excluded = check.excluded_keyspaces.contains(&table.keyspace)
            || check.excluded_tables.contains(&(table.keyspace.clone(), table.name.clone()));
        let is_kept = table.options.keeps_deletions();
        !shard::is_hidden(table) && !is_excluded && !is_kept && grace > 0 && grace * 1000 < away
    });
    tables.map(|table| format!("{}.{}", table.keyspace, table.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_cassandras() {
        let last: Timestamp = "2026-01-31T12:34:56.789Z".parse().expect("a time");
        assert_eq!(encode(last), r#"{"last_heartbeat":"2026-01-31T12:34:56.789Z"}"#);
        assert_eq!(decode(encode(last).as_bytes()), Some(last));
        for damaged in [&b""[..], b"{}", b"[]", b"\xff", br#"{"last_heartbeat":3}"#, br#"{"last_heartbeat":"then"}"#] {
            assert_eq!(decode(damaged), None);
        }
    }
}
