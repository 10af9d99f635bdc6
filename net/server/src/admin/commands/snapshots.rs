//! Commands about snapshots: `snapshot`, `listsnapshots`, `clearsnapshot`.

use super::table_names::keyspaces;
use crate::admin::error::{CommandError, usage};
use crate::admin::number_format::file_size;
use crate::admin::protocol::Request;
use crate::admin::text_table::TextTable;
use crate::node_state::NodeState;
use model::text::instant;
use model::{Schema, Table};
use shard::snapshots::Snapshot;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// The option by which the commands are about all nodes of the cluster.
const CLUSTER: &str = "--cluster";
/// The least time to live of a snapshot, seconds.
const TTL_SECONDS_MIN: u64 = 60;

/// `snapshot`.
pub(crate) async fn snapshot(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let now = runtime::wall_micros().div_euclid(1000).to_string();
    let tag = request.option("-t").unwrap_or(&now);
    let skips_flush = request.has("-sf");
    let ttl = request.option("--ttl");
    if tag.contains('/') {
        return Err(CommandError::Failed("Snapshot name cannot contain /".into()));
    }
    let mut options = format!("skipFlush={skips_flush}");
    if let Some(ttl) = ttl {
        let _ = write!(options, ", ttl={ttl}");
    }
    let list = request.option("-kt").map(|list| list.replace(' ', "")).filter(|list| !list.is_empty());
    let table = request.option("-cf");
    let what = match &list {
        Some(_) if table.is_some() || !request.arguments.is_empty() => {
            let text = "When specifying the Keyspace table list (using -kt,--kt-list,-kc,--kc.list), you must not also \
                        specify keyspaces to snapshot";
            return Err(CommandError::Failed(text.into()));
        }
        Some(list) => list.clone(),
        None if request.arguments.is_empty() => "all keyspaces".into(),
        None => request.arguments.join(", "),
    };
    let name = if tag.is_empty() { String::new() } else { format!(" with snapshot name [{tag}]") };
    let _ = writeln!(out, "Requested creating snapshot(s) for [{what}]{name} and options {{{options}}}");
    let schema = node.shard.schema();
    let named: Vec<String> = match (&list, table, request.arguments.as_slice()) {
        (Some(list), ..) => list.split(',').map(str::to_owned).collect(),
        (None, Some(table), [keyspace]) => vec![format!("{keyspace}.{table}")],
        (None, Some(_), _) => {
            let text = "When specifying the table for a snapshot, you must specify one and only one keyspace";
            return Err(CommandError::Failed(text.into()));
        }
        (None, None, keyspaces) => keyspaces.to_vec(),
    };
    let ttl = ttl.map(|text| seconds(text, i64::from(i32::MAX))).transpose()?;
    if ttl.is_some_and(|seconds| seconds < TTL_SECONDS_MIN) {
        return usage(format!("ttl for snapshot must be at least {TTL_SECONDS_MIN} seconds"));
    }
    if tag.is_empty() {
        return Err(CommandError::Failed("You must supply a snapshot name.".into()));
    }
    let tables = match named.first().is_some_and(|first| first.contains('.')) {
        true => named.iter().map(|name| listed_table(&schema, name)).collect::<Result<_, _>>()?,
        false => tables_of(&schema, &named)?,
    };
    let ttl = ttl.map(Duration::from_secs);
    match request.has(CLUSTER) {
        false => node.shard.take_snapshot(tag, &tables, !skips_flush, ttl).await?,
        true => {
            let tables = of_cluster(&schema, tables, !named.is_empty())?;
            node.shard.take_cluster_snapshot(tag, &tables, !skips_flush, ttl).await?;
        }
    }
    let _ = writeln!(out, "Snapshot directory: {tag}");
    Ok(())
}

/// The tables that nodes have parts of. Those that each node has for itself are left out unless they were `named`.
fn of_cluster(schema: &Schema, tables: Vec<Arc<Table>>, named: bool) -> Result<Vec<Arc<Table>>, CommandError> {
    let is_local = |table: &Arc<Table>| schema.keyspace(&table.keyspace).is_none_or(|keyspace| keyspace.is_local());
    match tables.iter().find(|table| named && is_local(table)) {
        Some(table) => usage(format!("each node has tables of its own in keyspace {}", table.keyspace)),
        None => Ok(tables.into_iter().filter(|table| !is_local(table)).collect()),
    }
}

/// The table that `keyspace.table` names.
fn listed_table(schema: &Schema, name: &str) -> Result<Arc<Table>, CommandError> {
    let mut parts = name.split('.').filter(|part| !part.is_empty());
    let (Some(keyspace), Some(table), None) = (parts.next(), parts.next(), parts.next()) else {
        return usage(
            "Cannot take a snapshot on secondary index or invalid column family name. You must supply a column family \
             name in the form of keyspace.columnfamily",
        );
    };
    let tables = tables_of(schema, &[keyspace.to_owned()])?;
    match tables.into_iter().find(|found| found.name == table) {
        Some(table) => Ok(table),
        None => usage(format!("Unknown keyspace/cf pair ({keyspace}.{table})")),
    }
}

/// All tables of the named keyspaces, or of all keyspaces if none is named.
fn tables_of(schema: &Schema, named: &[String]) -> Result<Vec<Arc<Table>>, CommandError> {
    for name in named {
        if !keyspaces(schema).any(|keyspace| keyspace.name == *name) {
            return usage(format!("Keyspace {name} does not exist"));
        }
    }
    let chosen = keyspaces(schema).filter(|keyspace| named.is_empty() || named.contains(&keyspace.name));
    Ok(chosen.flat_map(|keyspace| keyspace.tables.values().cloned()).collect())
}

/// Parses a duration of less than `max` seconds in Cassandra's syntax. Error texts are Cassandra's.
fn seconds(text: &str, max: i64) -> Result<u64, CommandError> {
    const UNITS: &str = "[SECONDS, MINUTES, HOURS, DAYS]";
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let per_unit = match unit {
        "d" => 86_400,
        "h" => 3_600,
        "m" => 60,
        "s" => 1,
        "ms" | "us" | "µs" | "ns" if !digits.is_empty() => {
            return usage(format!("Invalid duration: {text} Accepted units:{UNITS}"));
        }
        _ => 0,
    };
    if digits.is_empty() || per_unit == 0 {
        return usage(format!(
            "Invalid duration: {text} Accepted units:{UNITS} where case matters and only non-negative values."
        ));
    }
    match digits.parse::<u64>().ok().and_then(|number| number.checked_mul(per_unit)) {
        Some(seconds) if seconds < max.unsigned_abs() => Ok(seconds),
        _ => usage(format!("Invalid duration: {text}. It shouldn't be more than {} in seconds", max - 1)),
    }
}

/// `listsnapshots`.
pub(crate) async fn list(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    out.push_str("Snapshot Details: \n");
    let (no_ttl, ephemeral) = (request.has("-nt"), request.has("-e"));
    let shown = |snapshot: &Snapshot| {
        (ephemeral || !snapshot.manifest.ephemeral) && (!no_ttl || snapshot.manifest.expires_at.is_none())
    };
    let all = node.shard.snapshots().await?;
    let shown: Vec<&Snapshot> = all.iter().filter(|snapshot| shown(snapshot)).collect();
    if shown.is_empty() {
        out.push_str("There are no snapshots\n");
        return Ok(());
    }
    let mut table = TextTable::new(1);
    let mut head = vec!["Snapshot name", "Keyspace name", "Column family name", "True size", "Size on disk"];
    head.extend(["Creation time", "Expiration time"]);
    head.extend(ephemeral.then_some("Ephemeral"));
    table.row(head);
    let moment = |millis: Option<i64>| millis.map(instant::format).unwrap_or_default();
    for snapshot in shown {
        let mut row = vec![
            snapshot.tag.clone(),
            snapshot.keyspace.clone(),
            snapshot.table.clone(),
            file_size(snapshot.true_bytes),
            file_size(snapshot.disk_bytes),
            moment(snapshot.manifest.created_at),
            moment(snapshot.manifest.expires_at),
        ];
        row.extend(ephemeral.then(|| snapshot.manifest.ephemeral.to_string()));
        table.row(row);
    }
    table.print(out);
    let bytes = all.iter().map(|snapshot| snapshot.sstable_bytes).sum();
    let _ = writeln!(out, "\nTotal TrueDiskSpaceUsed: {}\n", file_size(bytes));
    Ok(())
}

/// `clearsnapshot`.
pub(crate) async fn clear(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let tag = request.option("-t").unwrap_or_default();
    let all = request.has("--all");
    let (older_than, timestamp) = (request.option("--older-than"), request.option("--older-than-timestamp"));
    let refusals = [
        (tag.is_empty() && !all, "Specify snapshot name or --all"),
        (!tag.is_empty() && all, "Specify only one of snapshot name or --all"),
        (older_than.is_some() && timestamp.is_some(), "Specify only one of --older-than or --older-than-timestamp"),
        (
            !tag.is_empty() && older_than.is_some(),
            "Specifying snapshot name together with --older-than flag is not allowed",
        ),
        (
            !tag.is_empty() && timestamp.is_some(),
            "Specifying snapshot name together with --older-than-timestamp flag is not allowed",
        ),
    ];
    if let Some((_, text)) = refusals.iter().find(|(wrong, _)| *wrong) {
        return usage(*text);
    }
    let before = match timestamp {
        None => None,
        Some(text) => match instant::parse(text) {
            Some(millis) => Some(millis),
            None => return usage("Parameter --older-than-timestamp has to be a valid instant in ISO format."),
        },
    };
    let older_than = older_than.map(|text| seconds(text, i64::MAX)).transpose()?;
    let keyspaces = match request.arguments.as_slice() {
        [] => "all keyspaces".to_owned(),
        names => names.join(", "),
    };
    let _ = write!(out, "Requested clearing snapshot(s) for [{keyspaces}]");
    let _ = match all {
        true => write!(out, " with [all snapshots]"),
        false => write!(out, " with snapshot name [{tag}]"),
    };
    if let Some(seconds) = older_than {
        let _ = write!(out, " older than {seconds} seconds.");
    }
    if let Some(text) = timestamp {
        let _ = write!(out, " older than timestamp {text}");
    }
    out.push('\n');
    let now = runtime::wall_micros().div_euclid(1000);
    let age = older_than.map(|seconds| now.saturating_sub_unsigned(seconds.saturating_mul(1000)));
    let before = before.or(age);
    let is_meant = |snapshot: &Snapshot| {
        let of_keyspace = request.arguments.is_empty() || request.arguments.contains(&snapshot.keyspace);
        // A snapshot whose manifest does not say when it was taken counts as new.
        let is_old = before.is_none_or(|before| snapshot.manifest.created_at.is_some_and(|at| at < before));
        of_keyspace && (all || snapshot.tag == tag) && is_old && !snapshot.manifest.ephemeral
    };
    if request.has(CLUSTER) {
        if all || older_than.is_some() || timestamp.is_some() {
            return usage("--cluster is for the snapshots of one name");
        }
        return Ok(node.shard.clear_cluster_snapshots(tag, &request.arguments).await?);
    }
    node.shard.clear_snapshots(is_meant).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_refused_in_cassandras_words() {
        let max = i64::from(i32::MAX);
        for (text, number) in [("4h", 14_400), ("1d", 86_400), ("60s", 60), ("2m", 120), ("2147483646s", 2_147_483_646)]
        {
            assert_eq!(seconds(text, max).expect("a duration"), number);
        }
        let refused = |text: &str| match seconds(text, max) {
            Err(CommandError::Usage(text)) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            refused("4x"),
            "Invalid duration: 4x Accepted units:[SECONDS, MINUTES, HOURS, DAYS] where case matters and only \
             non-negative values."
        );
        assert_eq!(refused("60000ms"), "Invalid duration: 60000ms Accepted units:[SECONDS, MINUTES, HOURS, DAYS]");
        let most = "Invalid duration: 2147483647s. It shouldn't be more than 2147483646 in seconds";
        assert_eq!(refused("2147483647s"), most);
        for text in ["", "s", "-1s", "1", "99999999999999999999999d"] {
            assert!(refused(text).starts_with("Invalid duration: "), "{text}");
        }
    }
}
