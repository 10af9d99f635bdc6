//! Compares the table of options with Cassandra's options, with what reading a configuration does, and with
//! `docs/configuration.md`.

use super::super::{Config, given::Given};
use super::document::document;
use super::kind::*;
use super::*;
use std::collections::BTreeSet;

/// The options of Cassandra: name, type, default.
const OPTIONS: &str = include_str!("../../../tests/config/cassandra-5.0.9.txt");
/// Cassandra's renamed options: older name, present name, converter between their values.
const OLDER_NAMES: &str = include_str!("../../../tests/config/cassandra-5.0.9-older-names.txt");
/// The document that is generated from the table.
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");

/// Options that are objects in Cassandra. Here each field of such an object has a row of its own too, because
/// `system_views.settings` shows them one by one.
const OBJECTS: [&str; 2] = ["repair.retries.maxAttempts", "repair.retries.merkle_tree_response"];

/// The rows that a configuration file may set: all except the fields of [`OBJECTS`].
fn all_given() -> impl Iterator<Item = &'static Key> {
    all().filter(|key| !OBJECTS.iter().any(|object| key.name.strip_prefix(object).is_some_and(|rest| !rest.is_empty())))
}

fn lines(file: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    file.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

fn row(name: &str) -> &'static Key {
    all().find(|key| key.name == name).unwrap_or_else(|| panic!("{name} has no row"))
}

/// The kind of an option whose field has this Java type. The words of an enum are left out.
fn kind_of(name: &str, field: &str) -> Kind {
    match field.trim_end_matches('?') {
        _ if name.ends_with("_cache_save_period") => Kind::DurationOrSeconds,
        _ if name == "startup_checks" => Kind::StartupChecks,
        "boolean" | "Boolean" => FLAG,
        "int" | "Integer" => INTEGER,
        "long" => LONG,
        "double" | "Double" | "Float" => DECIMAL,
        "String" => TEXT,
        "class" => CLASS,
        "options" => GROUP,
        "LongNanosecondsBound" => LONG_NANOSECONDS,
        "LongMicrosecondsBound" => LONG_MICROSECONDS,
        "LongMillisecondsBound" => LONG_MILLISECONDS,
        "IntMillisecondsBound" => INT_MILLISECONDS,
        "LongSecondsBound" => LONG_SECONDS,
        "IntSecondsBound" => INT_SECONDS,
        "IntMinutesBound" => INT_MINUTES,
        "LongBytesBound" => LONG_BYTES,
        "IntBytesBound" => INT_BYTES,
        "IntKibibytesBound" => INT_KIBIBYTES,
        "IntMebibytesBound" => INT_MEBIBYTES,
        "LongMebibytesBound" => LONG_MEBIBYTES,
        "LongBytesPerSecondBound" => RATE,
        list if list.starts_with("Set[") || list.starts_with("List[") => LIST,
        words if words.starts_with('[') => Kind::Choice(&[]),
        map if map.contains("Map[") || matches!(map, "MaxAttempt" | "Partial") => MAP,
        other => panic!("{name}: {other} is no known type"),
    }
}

#[test]
fn every_option_of_cassandra_has_a_row_of_its_type() {
    let mut names = BTreeSet::new();
    for line in lines(OPTIONS) {
        let [name, field, default] = line[..] else { panic!("{line:?}") };
        names.insert(name);
        // The parts of a class belong to its value.
        let class = name.rsplit_once('.').and_then(|(class, _)| find(class)).filter(|(key, _)| key.kind == CLASS);
        if class.is_some() {
            continue;
        }
        let key = row(name);
        match (kind_of(name, field), key.kind) {
            (Kind::Choice(_), Kind::Choice(words)) => {
                assert_eq!(format!("[{}]", words.join(",")), field.trim_end_matches('?'), "{name}");
            }
            (expected, kind) => assert_eq!(kind, expected, "{name}"),
        }
        assert_eq!(key.nullable, field.ends_with('?'), "{name}");
        let default = if default == "null" { "" } else { default };
        match key.kind {
            Kind::DurationOrSeconds => assert!(key.is_default(&key.meaning_of(default).expect("a duration")), "{name}"),
            _ => assert_eq!(key.default, default, "{name}"),
        }
    }
    for key in all().filter(|key| !names.contains(key.name)) {
        let is_part = OBJECTS.iter().any(|object| key.name.starts_with(object));
        assert!(key.own || is_part, "{} is no option of Cassandra", key.name);
    }
}

#[test]
fn older_names_have_the_converters_of_cassandra() {
    let mut count = 0;
    for line in lines(OLDER_NAMES) {
        let [older, name, converter] = line[..] else { panic!("{line:?}") };
        let (key, counts) = find(older).unwrap_or_else(|| panic!("{older} has no row"));
        assert_eq!(key.name, name);
        let expected = match converter {
            "IDENTITY" | "INTEGER_PRIMITIVE_LONG" | "LONG_BYTES_DATASTORAGE_MEBIBYTES_DATASTORAGE" => Older::Same,
            "MILLIS_DURATION_LONG" | "MILLIS_DURATION_INT" | "MILLIS_DURATION_DOUBLE" => Older::Milliseconds,
            "MILLIS_CUSTOM_DURATION" => Older::MillisecondsOrNone,
            "SECONDS_DURATION" => Older::Seconds,
            "NEGATIVE_SECONDS_DURATION" => Older::SecondsFromZero,
            "MINUTES_CUSTOM_DURATION" => Older::MinutesOrNone,
            "BYTES_DATASTORAGE" => Older::Bytes,
            "BYTES_CUSTOM_DATASTORAGE" => Older::BytesOrNone,
            "KIBIBYTES_DATASTORAGE" => Older::Kibibytes,
            "MEBIBYTES_DATA_STORAGE_INT" | "MEBIBYTES_DATA_STORAGE_LONG" | "LONG_BYTES_DATASTORAGE_MEBIBYTES_INT" => {
                Older::Mebibytes
            }
            "NEGATIVE_MEBIBYTES_DATA_STORAGE_INT" => Older::MebibytesOrNone,
            "MEBIBYTES_PER_SECOND_DATA_RATE" => Older::MebibytesPerSecond,
            "MEGABITS_TO_BYTES_PER_SECOND_DATA_RATE" => Older::MegabitsPerSecond,
            "KEYSPACE_COUNT_THRESHOLD_TO_GUARDRAIL" => Older::WithSystem(SYSTEM_KEYSPACES),
            "TABLE_COUNT_THRESHOLD_TO_GUARDRAIL" => Older::WithSystem(SYSTEM_TABLES),
            other => panic!("{older}: {other} is no known converter"),
        };
        assert_eq!(counts, Some(expected), "{older}");
        count += 1;
    }
    assert_eq!(all().map(|key| key.older.len()).sum::<usize>(), count);
}

/// A value of the option's kind that is not its default.
fn other_value(key: &Key) -> &'static str {
    let is_default = |text: &str| key.meaning_of(text).is_some_and(|meaning| key.is_default(&meaning));
    match key.kind {
        Kind::Flag if is_default("true") => "false",
        Kind::Flag => "true",
        Kind::Integer(_) if is_default("7") => "8",
        Kind::Integer(_) => "7",
        Kind::Decimal => "0.25",
        Kind::Text | Kind::Class => "Other",
        Kind::Choice(words) => words.iter().rev().find(|word| !is_default(word)).expect("two words"),
        Kind::Duration { .. } | Kind::DurationOrSeconds => "77m",
        Kind::Size { .. } => "3MiB",
        Kind::Rate => "3MiB/s",
        Kind::List => match key.name {
            name if name.starts_with("table_properties_") => "[comment]",
            name if name.contains("_consistency_levels_") => "[ALL]",
            _ => "[other]",
        },
        Kind::Map | Kind::Group => "{a: b}",
        Kind::StartupChecks => "{check_dc: {enabled: true}}",
    }
}

#[test]
fn an_option_that_is_read_changes_something_or_is_refused_by_name() {
    for key in all().filter(|key| matches!(key.effect, Effect::Read { .. } | Effect::Guardrail)) {
        let value = match key.name {
            "listen_address" | "rpc_address" | "broadcast_address" | "broadcast_rpc_address" => "127.0.0.9",
            "commitlog_segment_size" => "16MiB",
            "batch_size_warn_threshold" => "7KiB",
            "auto_snapshot_ttl" => "1d",
            "sstable.selected_format" => "big",
            "storage_compatibility_mode" => "CASSANDRA_4",
            "memtable.configurations" => "{other: {class_name: TrieMemtable}}",
            "commitlog_sync" => "batch",
            "default_compaction" => "LeveledCompactionStrategy",
            "initial_token" => "1,2",
            "endpoint_snitch" => "RackInferringSnitch",
            "startup_checks" => "{check_data_resurrection: {enabled: true}}",
            _ => other_value(key),
        };
        let mut options = vec!["guardrails_apply_to_anonymous=true".to_owned()];
        match key.name {
            "commitlog_sync_period" => options.push("commitlog_sync=periodic".into()),
            "native_transport_max_requests_per_second" => {
                options.push("native_transport_rate_limiting_enabled=true".into());
            }
            "listen_interface_prefer_ipv6" => options.push("listen_interface=lo".into()),
            "rpc_interface_prefer_ipv6" => options.push("rpc_interface=lo".into()),
            "guardrails_apply_to_anonymous" => options[0] = "tables_warn_threshold=1".into(),
            _ => {}
        }
        let without = Config::read("", &options).expect("valid");
        options.push(format!("{}={value}", key.name));
        match Config::read("", &options) {
            Ok(with) => {
                let node = shard::Config { settings: without.node.settings.clone(), ..with.node };
                let with = Config { node, unused: without.unused.clone(), ..with };
                assert!(with != without, "{} is not read", key.name);
            }
            Err(error) => {
                let name = key.name.rsplit('.').next().unwrap_or_default();
                assert!(error.0.contains(name), "{}: {error}", key.name);
            }
        }
    }
}

#[test]
fn an_option_that_is_not_read_is_refused_by_name_or_has_a_reason() {
    for key in all_given() {
        let with = |value: &str| Config::read("", &[format!("{}={value}", key.name)]);
        let other = other_value(key);
        let without_effect = |reason| {
            let config = with(other).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(config.unused, [Unused { option: key.name.into(), reason }]);
        };
        match key.effect {
            Effect::Refused { taken, reason } => {
                let refusal = with(other).expect_err(key.name).0;
                assert!(refusal.starts_with(&format!("{}: ", key.name)), "{refusal}");
                assert!(refusal.contains("is not supported yet") && refusal.ends_with(reason), "{refusal}");
                for taken in taken {
                    assert_eq!(with(taken).expect("taken").unused, [], "{}", key.name);
                }
            }
            Effect::Unused { reason } => without_effect(reason),
            Effect::Guardrail => without_effect(ANONYMOUS),
            Effect::Read { .. } | Effect::Group => {}
        }
        if let Some(default) = key.default_text().filter(|text| key.kind != GROUP && !text.is_empty()) {
            let config = with(default).unwrap_or_else(|error| panic!("the default: {error}"));
            assert_eq!(config.unused, [], "{}", key.name);
        }
    }
}

#[test]
fn null_is_a_value_where_cassandra_takes_it() {
    for key in all_given().filter(|key| key.kind != GROUP) {
        let given = Given::parse(&format!("{}:", key.name)).expect("known");
        let is_taken = key.default.is_empty() || key.nullable;
        assert_eq!(given.check(false).is_ok(), is_taken, "{}", key.name);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "reads a file of the repository")]
fn the_document_shows_the_table() {
    let written = std::fs::read_to_string(DOCUMENT).expect("readable");
    assert!(written == document(), "docs/configuration.md is stale; its head says how it is written");
}

#[test]
#[ignore = "writes docs/configuration.md"]
#[expect(clippy::disallowed_methods, reason = "writes a file of the repository")]
fn configuration_document_is_written() {
    if std::env::var_os("HELENUS_WRITE_DOCS").is_some() {
        std::fs::write(DOCUMENT, document()).expect("writable");
    }
}
