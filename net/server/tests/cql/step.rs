//! Sends one statement of a case and turns the answer into text.

use crate::case::Step;
use crate::error_detail;
use model::{ColumnSpec, Consistency, CqlType, text, value};
use server::client::{CallError, Client, Outcome, OutcomeKind, PreparedStatement, QueryOptions, Value};
use std::time::Duration;

/// The version of the native protocol that cases are played with.
pub(crate) const PROTOCOL_VERSION: u8 = 5;
/// How often a statement is tried again that needs an index which is not built yet, and how long to wait before.
const BUILT_ATTEMPTS_MAX: usize = 100;
const BUILT_WAIT: Duration = Duration::from_millis(100);

/// Sends a statement as its directives say. Returns the answer, line by line.
pub(crate) async fn play_step(client: &mut Client, step: &Step) -> Vec<String> {
    let mut options = QueryOptions::default();
    let mut bind = None;
    let mut only_prepare = false;
    let mut with_detail = false;
    let mut attempts_left = 0;
    for directive in &step.directives {
        let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
        match word {
            "bind" => bind = Some(rest),
            "prepare" => only_prepare = true,
            // An index is built in the background.
            "built" => attempts_left = BUILT_ATTEMPTS_MAX,
            "detail" => with_detail = true,
            "page" => options.page_size = Some(rest.parse().expect("rows per page")),
            "timestamp" => options.timestamp = Some(rest.parse().expect("microseconds")),
            "now" => options.now_in_seconds = Some(rest.parse().expect("seconds")),
            "consistency" => options.consistency = level(rest),
            "serial" => options.serial_consistency = Some(level(rest)),
            other => panic!("unknown directive @{other}"),
        }
    }
    if only_prepare {
        return match client.prepare(&step.statement).await {
            Ok(prepared) => words_of_prepared(&prepared),
            Err(error) => vec![words_of_error(&error)],
        };
    }
    let prepared = match bind {
        None => None,
        Some(values) => match client.prepare(&step.statement).await {
            Ok(prepared) => {
                options.values = bound_values(values, &prepared.markers);
                Some(prepared)
            }
            Err(error) => return vec![words_of_error(&error)],
        },
    };
    let mut lines = Vec::new();
    loop {
        let result = match &prepared {
            None => client.query(&step.statement, &options).await,
            Some(prepared) => client.execute(prepared, &options).await,
        };
        match result {
            Err(_) if attempts_left > 0 => {
                attempts_left -= 1;
                runtime::sleep(BUILT_WAIT).await;
            }
            Err(error) => {
                lines.push(words_of_error(&error));
                lines.extend(with_detail.then(|| words_of_detail(&error)).flatten());
                return lines;
            }
            Ok(outcome) => {
                lines.extend(words_of(&outcome));
                match outcome.paging_state {
                    Some(state) => {
                        lines.push("more".into());
                        options.paging_state = Some(state);
                    }
                    None => return lines,
                }
            }
        }
    }
}

fn level(name: &str) -> Consistency {
    let level = (0..12).filter_map(Consistency::from_code).find(|level| level.name() == name);
    level.expect("a consistency level")
}

/// Splits at commas outside quotes and brackets.
fn split_list(list: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut start) = (0, false, 0);
    let mut parts = Vec::new();
    for (at, c) in list.char_indices() {
        match c {
            '\'' => quoted = !quoted,
            '[' | '(' | '{' if !quoted => depth += 1,
            ']' | ')' | '}' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                parts.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if !list[start..].trim().is_empty() {
        parts.push(list[start..].trim());
    }
    parts
}

fn bound_values(list: &str, markers: &[ColumnSpec]) -> Vec<Value> {
    let parts = split_list(list);
    parts
        .iter()
        .enumerate()
        .map(|(index, part)| match *part {
            "null" => Value::Null,
            "unset" => Value::Unset,
            part => Value::Bytes(bytes_of(part, markers.get(index).map_or(&CqlType::Blob, |marker| &marker.cql_type))),
        })
        .collect()
}

fn bytes_of(literal: &str, cql_type: &CqlType) -> Vec<u8> {
    if let Some(hex) = literal.strip_prefix("0x") {
        return (0..hex.len() / 2)
            .map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).expect("hex digits"))
            .collect();
    }
    if let (Some(items), CqlType::List { element, .. }) =
        (literal.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')), cql_type)
    {
        let items = split_list(items);
        let mut out = (items.len() as i32).to_be_bytes().to_vec();
        for item in items {
            value::push_element(&mut out, part_of(item, element).as_deref());
        }
        return out;
    }
    if let Some(items) = literal.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        return bytes_of_braces(items, cql_type);
    }
    if let (Some(items), CqlType::Tuple(types)) =
        (literal.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')), cql_type)
    {
        let mut out = Vec::new();
        for (item, cql_type) in split_list(items).into_iter().zip(types) {
            value::push_element(&mut out, part_of(item, cql_type).as_deref());
        }
        return out;
    }
    let parsed = match literal.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        Some(quoted) => text::from_quoted(cql_type, &quoted.replace("''", "'")),
        None => text::from_bare(cql_type, literal),
    };
    // Literals of tokens are numbers, whatever the type that a partitioner gives the marker.
    let parsed = parsed.or_else(|_| text::from_bare(&CqlType::Bigint, literal));
    parsed.unwrap_or_else(|error| panic!("{literal} is no {cql_type}: {error:?}"))
}

/// A set's elements, a map's entries or a user type's fields in their order.
fn bytes_of_braces(items: &str, cql_type: &CqlType) -> Vec<u8> {
    let items = split_list(items);
    let mut out = Vec::new();
    let entry = |item: &str| {
        let (key, value) = item.split_once(':').unwrap_or_else(|| panic!("{item} has no value"));
        (key.trim().to_owned(), value.trim().to_owned())
    };
    match cql_type {
        CqlType::Set { element, .. } => {
            out.extend((items.len() as i32).to_be_bytes());
            for item in items {
                value::push_element(&mut out, part_of(item, element).as_deref());
            }
        }
        CqlType::Map { key: key_type, value: value_type, .. } => {
            out.extend((items.len() as i32).to_be_bytes());
            for (key, value) in items.into_iter().map(entry) {
                value::push_element(&mut out, part_of(&key, key_type).as_deref());
                value::push_element(&mut out, part_of(&value, value_type).as_deref());
            }
        }
        CqlType::User { definition, .. } => {
            for ((_, value), (_, field_type)) in items.into_iter().map(entry).zip(&definition.fields) {
                value::push_element(&mut out, part_of(&value, field_type).as_deref());
            }
        }
        other => panic!("{{}} is no {other}"),
    }
    out
}

/// An element; `None` is null.
fn part_of(literal: &str, cql_type: &CqlType) -> Option<Vec<u8>> {
    (literal != "null").then(|| bytes_of(literal, cql_type))
}

/// The fields of an error besides code and text; `None` if it has none.
fn words_of_detail(error: &CallError) -> Option<String> {
    match error {
        CallError::Failure { code, detail, .. } => error_detail::words(*code, detail),
        CallError::Broken(_) => None,
    }
}

pub(crate) fn words_of_error(error: &CallError) -> String {
    match error {
        CallError::Broken(error) => format!("broken: {error}"),
        CallError::Failure { code, text, .. } => {
            format!("error {code:#06x} {}", with_one_name(&with_sorted_signatures(text)).replace('\n', "\\n"))
        }
    }
}

/// A text with one spelling of the JSON functions' names: Cassandra has one per type, under the name that was used
/// first since its start.
fn with_one_name(text: &str) -> String {
    text.replace("system.tojson", "system.to_json").replace("system.fromjson", "system.from_json")
}

/// A text with overloads of a function in a fixed order: Cassandra's order differs with every start.
fn with_sorted_signatures(text: &str) -> String {
    const LIST: &str = "signatures: ";
    let Some((head, rest)) = text.split_once(LIST) else { return text.to_owned() };
    let Some(end) = rest.rfind(')').filter(|_| rest.contains(" -> ")) else { return text.to_owned() };
    let mut signatures: Vec<&str> = rest[..end].split(", system.").collect();
    signatures.iter_mut().for_each(|one| *one = one.strip_prefix("system.").unwrap_or(one));
    signatures.sort_unstable();
    format!("{head}{LIST}system.{}{}", signatures.join(", system."), &rest[end..])
}

fn words_of_columns(columns: &[ColumnSpec]) -> String {
    let words: Vec<String> = columns.iter().map(|column| format!("{} {}", column.name, column.cql_type)).collect();
    with_one_name(&words.join(" | "))
}

fn words_of(outcome: &Outcome) -> Vec<String> {
    let mut lines: Vec<String> = outcome.warnings.iter().map(|warning| format!("warning {warning}")).collect();
    match &outcome.kind {
        OutcomeKind::Void => lines.push("void".into()),
        OutcomeKind::SetKeyspace(name) => lines.push(format!("keyspace {name}")),
        OutcomeKind::SchemaChange(change) => lines.push(change.to_lowercase()),
        OutcomeKind::Rows => {
            lines.push(words_of_columns(&outcome.columns));
            for row in &outcome.rows {
                let cells: Vec<String> = row
                    .iter()
                    .zip(&outcome.columns)
                    .map(|(cell, column)| match cell {
                        None => "null".into(),
                        Some(bytes) => text::to_literal(&column.cql_type, bytes).replace('\n', "\\n"),
                    })
                    .collect();
                lines.push(cells.join(" | "));
            }
        }
    }
    lines
}

fn words_of_prepared(prepared: &PreparedStatement) -> Vec<String> {
    let mut lines: Vec<String> = prepared.warnings.iter().map(|warning| format!("warning {warning}")).collect();
    lines.push(format!("markers {}", words_of_columns(&prepared.markers)).trim_end().into());
    lines.push(format!("key {:?}", prepared.key_markers));
    lines.push(format!("result {}", words_of_columns(&prepared.result)).trim_end().into());
    let id: String = prepared.result_metadata_id.iter().map(|byte| format!("{byte:02x}")).collect();
    lines.push(format!("metadata id {id}"));
    lines
}
