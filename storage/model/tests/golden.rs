//! Answers of real Cassandra 5.0.9 (its `AbstractType` classes), one line each in `tests/golden/*.tsv`; values in hex.

use model::{CqlType, comparable, text, value};

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hex")).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Calls `check` with the type and the other fields of each line, and says which lines it is not content with.
fn each_line(file: &str, check: impl Fn(&CqlType, &[&str]) -> Result<(), String>) {
    let mut wrong = Vec::new();
    for line in file.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let cql_type = CqlType::parse(fields[0]).expect("a type");
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
        same(fields[1], text::to_literal(cql_type, &bytes(fields[0])))
    });
}
