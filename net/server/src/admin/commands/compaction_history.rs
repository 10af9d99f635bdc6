//! `compactionhistory`: the compactions of the last week, as text, JSON or YAML.

use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use crate::admin::text_table::TextTable;
use crate::node_state::NodeState;
use model::text::instant;
use shard::CompactionRecord;
use shard::compaction_history::name_of;
use std::fmt::Write;

/// Runs the command.
pub(crate) async fn history(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let format = request.option("-F").unwrap_or_default();
    if !matches!(format, "" | "json" | "yaml") {
        return usage("arguments for -F are json,yaml only.");
    }
    let records = node.shard.compaction_history().await?;
    match format {
        "" => text(&records, out),
        "json" => json(&records, out),
        _ => yaml(&records, out),
    }
    Ok(())
}

/// A time in milliseconds since 1970 as a date and time in UTC without a zone. Seconds that are zero are left out, as
/// Java's `LocalDateTime` does.
fn moment(millis: i64) -> String {
    let text = instant::format(millis);
    let text = text.trim_end_matches('Z');
    match millis % 60_000 {
        0 => text.strip_suffix(":00").unwrap_or(text).to_owned(),
        _ => text.to_owned(),
    }
}

fn merged(record: &CompactionRecord) -> String {
    let pairs: Vec<String> = record.merged.iter().map(|(sources, count)| format!("{sources}:{count}")).collect();
    format!("{{{}}}", pairs.join(", "))
}

fn properties(record: &CompactionRecord) -> String {
    format!("{{compaction_type:{}}}", name_of(record.kind))
}

fn text(records: &[CompactionRecord], out: &mut String) {
    out.push_str("Compaction History: \n");
    if records.is_empty() {
        out.push_str("There is no compaction history\n");
        return;
    }
    let mut table = TextTable::new(1);
    let mut head = vec!["id", "keyspace_name", "columnfamily_name", "compacted_at", "bytes_in", "bytes_out"];
    head.extend(["rows_merged", "compaction_properties"]);
    table.row(head);
    for record in records {
        table.row([
            record.id.to_string(),
            record.keyspace.clone(),
            record.table.clone(),
            moment(record.at_millis),
            record.bytes_in.to_string(),
            record.bytes_out.to_string(),
            merged(record),
            properties(record),
        ]);
    }
    table.print(out);
}

/// The fields of a record: name, value, and whether YAML quotes the value.
fn members(record: &CompactionRecord) -> [(&'static str, String, bool); 8] {
    [
        ("keyspace_name", record.keyspace.clone(), false),
        ("bytes_out", record.bytes_out.to_string(), false),
        ("bytes_in", record.bytes_in.to_string(), false),
        ("compaction_properties", properties(record), true),
        ("columnfamily_name", record.table.clone(), false),
        ("rows_merged", merged(record), true),
        ("id", record.id.to_string(), false),
        ("compacted_at", moment(record.at_millis), true),
    ]
}

fn json(records: &[CompactionRecord], out: &mut String) {
    let object = |record: &CompactionRecord| {
        let members = members(record).map(|(name, value, _)| match name {
            "bytes_out" | "bytes_in" => format!("    \"{name}\" : {value}"),
            _ => format!("    \"{name}\" : \"{value}\""),
        });
        format!("{{\n{}\n  }}", members.join(",\n"))
    };
    let objects: Vec<String> = records.iter().map(object).collect();
    let list = if objects.is_empty() { "[ ]".to_owned() } else { format!("[ {} ]", objects.join(", ")) };
    let _ = writeln!(out, "{{\n  \"CompactionHistory\" : {list}\n}}");
}

fn yaml(records: &[CompactionRecord], out: &mut String) {
    if records.is_empty() {
        out.push_str("CompactionHistory: []\n\n");
        return;
    }
    out.push_str("CompactionHistory:\n");
    for record in records {
        for (at, (name, value, quoted)) in members(record).into_iter().enumerate() {
            let dash = if at == 0 { "- " } else { "  " };
            let quote = if quoted { "'" } else { "" };
            let _ = writeln!(out, "{dash}{name}: {quote}{value}{quote}");
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use shard::TaskKind;
    use std::collections::BTreeMap;

    fn record(
        id: &str,
        keyspace: &str,
        table: &str,
        at: &str,
        bytes: (u64, u64),
        merged: (u32, u64),
    ) -> CompactionRecord {
        CompactionRecord {
            id: id.parse().expect("an id"),
            keyspace: keyspace.into(),
            table: table.into(),
            at_millis: instant::parse(at).expect("a moment"),
            bytes_in: bytes.0,
            bytes_out: bytes.1,
            merged: BTreeMap::from([merged]),
            kind: if keyspace == "ks" { TaskKind::Major } else { TaskKind::Compaction },
        }
    }

    #[test]
    fn it_looks_as_cassandras() {
        let at = "2026-11-21T12:50:16.522Z";
        let records = [
            record("19c1fa60-e5aa-11f1-82e3-436223e649c6", "ks", "t", at, (39, 39), (1, 2)),
            record("a7793bd0-e5a9-11f1-82e3-436223e649c6", "system", "local", at, (807, 686), (7, 1)),
        ];
        let mut out = String::new();
        text(&records, &mut out);
        let expected = "\
Compaction History: 
id                                   keyspace_name columnfamily_name compacted_at            bytes_in bytes_out rows_merged compaction_properties             
19c1fa60-e5aa-11f1-82e3-436223e649c6 ks            t                 2026-11-21T12:50:16.522 39       39        {1:2}       {compaction_type:Major compaction}
a7793bd0-e5a9-11f1-82e3-436223e649c6 system        local             2026-11-21T12:50:16.522 807      686       {7:1}       {compaction_type:Compaction}      
";
        assert_eq!(out, expected);
        out.clear();
        json(&records[1..], &mut out);
        let expected = r#"{
  "CompactionHistory" : [ {
    "keyspace_name" : "system",
    "bytes_out" : 686,
    "bytes_in" : 807,
    "compaction_properties" : "{compaction_type:Compaction}",
    "columnfamily_name" : "local",
    "rows_merged" : "{7:1}",
    "id" : "a7793bd0-e5a9-11f1-82e3-436223e649c6",
    "compacted_at" : "2026-11-21T12:50:16.522"
  } ]
}
"#;
        assert_eq!(out, expected);
        out.clear();
        yaml(&records[..1], &mut out);
        let expected = "\
CompactionHistory:
- keyspace_name: ks
  bytes_out: 39
  bytes_in: 39
  compaction_properties: '{compaction_type:Major compaction}'
  columnfamily_name: t
  rows_merged: '{1:2}'
  id: 19c1fa60-e5aa-11f1-82e3-436223e649c6
  compacted_at: '2026-11-21T12:50:16.522'

";
        assert_eq!(out, expected);
        out.clear();
        text(&[], &mut out);
        assert_eq!(out, "Compaction History: \nThere is no compaction history\n");
    }

    #[test]
    fn seconds_that_are_zero_are_left_out() {
        let of = |text: &str| moment(instant::parse(text).expect("a moment"));
        assert_eq!(of("2026-11-21T12:50:16Z"), "2026-11-21T12:50:16");
        assert_eq!(of("2026-11-21T12:50:00.001Z"), "2026-11-21T12:50:00.001");
        assert_eq!(of("2026-11-21T12:50:00Z"), "2026-11-21T12:50");
        assert_eq!(of("2026-11-21T12:00:00Z"), "2026-11-21T12:00");
        assert_eq!(of("2026-11-21T00:00:00Z"), "2026-11-21T00:00");
    }
}
