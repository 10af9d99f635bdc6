//! Answers of real Cassandra 5.0.9 (its `AbstractType` classes), one line each in `tests/golden/*.tsv`; values in hex.

use model::json::Json;
use model::{CqlType, UserType, comparable, json, text, value};
use std::collections::BTreeMap;
use std::sync::Arc;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hex")).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The user types of keyspace `ks` that lines name.
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

/// Tabs, ends of lines and zeros are written as escapes.
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

/// Calls `check` with the type and the other fields of each line, and says which lines it is not content with.
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
