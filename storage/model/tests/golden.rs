//! Answers of Cassandra 5.0.9 (its `AbstractType` classes), one per line in `tests/golden/*.tsv`; values are in hex.

use model::comparable::BoundSide;
use model::json::Json;
use model::schema::TableOptions;
use model::{Column, ColumnId, ColumnKind, CqlType, Table, TableId, UserType, comparable, json, text, value};
use std::collections::BTreeMap;
use std::sync::Arc;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hex")).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The user types of keyspace `ks` that occur in the lines.
fn user_types() -> BTreeMap<String, Arc<UserType>> {
    let mut known: BTreeMap<String, Arc<UserType>> = BTreeMap::new();
    for (name, fields) in [
        ("address", &[("street", "text"), ("No x", "int"), ("phones", "frozen<list<text>>")][..]),
        ("My Type", &[("a", "frozen<address>"), ("b", "vector<text, 2>"), ("select", "duration")]),
        ("numbers", &[("d", "decimal"), ("f", "float"), ("v", "varint"), ("i", "bigint")]),
        (
            "nested",
            &[("m", "frozen<map<frozen<numbers>, frozen<set<date>>>>"), ("t", "frozen<tuple<int, frozen<address>>>")],
        ),
    ] {
        let field = |(name, cql_type): &(&str, &str)| {
            (name.to_string(), CqlType::parse_in(cql_type, &|name| known.get(name).cloned()).expect("a type"))
        };
        let fields = fields.iter().map(field).collect();
        known.insert(name.into(), UserType { keyspace: "ks".into(), name: name.into(), fields }.into());
    }
    known
}

/// Undoes the escapes of tabs, line breaks and zeros.
fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some('0') => '\0',
                other => other.unwrap_or(c),
            },
            c => c,
        });
    }
    out
}

/// Calls `check` with the type and the other fields of each line, and fails with the lines for which it gives an error.
fn each_line(file: &str, check: impl Fn(&CqlType, &[&str]) -> Result<(), String>) {
    let mut wrong = Vec::new();
    let user_types = user_types();
    for line in file.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let cql_type = CqlType::parse_in(fields[0], &|name| user_types.get(name).cloned()).expect("a type");
        if let Err(found) = check(&cql_type, &fields[1..]) {
            wrong.push(format!("{line}\n    but here {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} lines differ:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
}

fn same(expected: &str, found: String) -> Result<(), String> {
    if expected == found { Ok(()) } else { Err(found) }
}

#[test]
fn comparable_forms() {
    each_line(include_str!("golden/comparable.tsv"), |cql_type, fields| {
        let mut form = Vec::new();
        comparable::encode(cql_type, &bytes(fields[0]), false, &mut form);
        same(fields[1], hex(&form))
    });
}

/// A table with the clustering columns in `columns`: `+` or `-` (descending) and a type each, separated by semicolons.
fn clustered_table(columns: &str) -> Table {
    let user_types = user_types();
    let column = |(at, (name, cql_type, descending)): (usize, (&str, CqlType, bool))| Column {
        id: ColumnId(at as u16),
        name: name.into(),
        kind: if at == 0 { ColumnKind::PartitionKey } else { ColumnKind::Clustering },
        position: at.saturating_sub(1) as u16,
        cql_type,
        descending,
    };
    let clustering = columns.split(';').map(|column| {
        let (direction, cql_type) = column.split_at(1);
        let cql_type = CqlType::parse_in(cql_type, &|name| user_types.get(name).cloned()).expect("a type");
        ("c", cql_type, direction == "-")
    });
    let columns: Vec<_> =
        std::iter::once(("k", CqlType::Int, false)).chain(clustering).enumerate().map(column).collect();
    Table {
        id: TableId([0; 16]),
        keyspace: "ks".into(),
        name: "t".into(),
        partition_key_len: 1,
        clustering_len: columns.len() - 1,
        columns,
        static_len: 0,
        layout: model::schema::Layout::Plain,
        dropped: Vec::new(),
        indexes: Vec::new(),
        masks: Default::default(),
        options: TableOptions::default(),
    }
}

#[test]
fn comparable_clusterings() {
    let mut wrong = Vec::new();
    for line in include_str!("golden/clustering.tsv").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let table = clustered_table(fields[0]);
        let count: usize = fields[1].parse().expect("a count");
        let values: Vec<Vec<u8>> = fields[2].split(',').take(count).map(bytes).collect();
        let (mut form, components) = (Vec::new(), values.iter().map(Vec::as_slice));
        match fields[3] {
            "row" => comparable::clustering(&table, components, &mut form),
            "before" => comparable::bound(&table, components, BoundSide::Before, &mut form),
            _ => comparable::bound(&table, components, BoundSide::After, &mut form),
        }
        if hex(&form) != fields[4] {
            wrong.push(format!("{line}\n    but here {}", hex(&form)));
        }
    }
    assert!(wrong.is_empty(), "{} lines differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn order() {
    each_line(include_str!("golden/order.tsv"), |cql_type, fields| {
        let order = value::compare(cql_type, &bytes(fields[0]), &bytes(fields[1]));
        same(fields[2], (order as i8).to_string())
    });
}

#[test]
fn validation() {
    each_line(include_str!("golden/validate.tsv"), |cql_type, fields| {
        let found = value::validate(cql_type, &bytes(fields[0]));
        same(fields[1], found.map_or_else(|error| error.0, |()| "ok".to_string()))
    });
}

#[test]
fn text_to_values() {
    each_line(include_str!("golden/parse.tsv"), |cql_type, fields| {
        let found = match text::from_quoted(cql_type, fields[0]) {
            Ok(value) => format!("={}", hex(&value)),
            Err(error) => format!("!{}", error.0),
        };
        same(fields[1], found)
    });
}

#[test]
fn values_to_literals() {
    each_line(include_str!("golden/literal.tsv"), |cql_type, fields| {
        same(&unescape(fields[1]), text::to_literal(cql_type, &bytes(fields[0])))
    });
}

#[test]
fn values_to_json() {
    each_line(include_str!("golden/to_json.tsv"), |cql_type, fields| {
        same(&unescape(fields[1]), json::to_json(cql_type, &bytes(fields[0])))
    });
}

#[test]
fn json_to_values() {
    each_line(include_str!("golden/from_json.tsv"), |cql_type, fields| {
        let found = match json::from_json(cql_type, fields[0]) {
            Ok(Some(value)) => format!("={}", hex(&value)),
            Ok(None) => "null".into(),
            Err(error) => format!("!{}", error.0),
        };
        same(&unescape(fields[1]), found)
    });
}

#[test]
fn json_texts() {
    let mut wrong = Vec::new();
    for line in include_str!("golden/json_texts.tsv").lines() {
        let (text, expected) = line.split_once('\t').expect("two fields");
        let found = match Json::parse(&unescape(text)) {
            Ok(value) => format!("{} {value}", value.java_class()),
            Err(error) => format!("!Error decoding JSON string: {}", error.0),
        };
        if found != unescape(expected) {
            wrong.push(format!("{line}\n    but here {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} lines differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// The class without its package.
fn short_class(cql_type: &CqlType) -> String {
    cql_type.class_name().replace("org.apache.cassandra.db.marshal.", "")
}

#[test]
fn type_names() {
    let user_types = user_types();
    for line in include_str!("golden/names.tsv").lines() {
        let (name, expected) = line.split_once('\t').expect("two fields");
        let found = CqlType::parse_in(name, &|name| user_types.get(name).cloned());
        let found = found.map(|found| format!("{found}\t{}\t{}", short_class(&found), found.is_multicell()));
        assert_eq!(found.unwrap_or("!".into()), expected, "{name}");
    }
}

#[test]
fn classes() {
    for line in include_str!("golden/classes.tsv").lines() {
        let (class, expected) = line.split_once('\t').expect("two fields");
        let found = match CqlType::parse_class(class) {
            Ok((found, true)) => format!("{found}\tReversedType({})\ttrue", short_class(&found)),
            Ok((found, false)) => format!("{found}\t{}\tfalse", short_class(&found)),
            Err(error) => format!("!{}", error.0),
        };
        assert_eq!(found, expected, "{class}");
    }
}
