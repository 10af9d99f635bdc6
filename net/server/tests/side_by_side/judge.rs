//! Compares answers, and turns them into text.

use crate::session::{Column, Reply, Rows};
use model::{CqlType, text};

/// By how many seconds remaining times to live may differ: the two servers ran at different moments.
const TTL_TOLERANCE: i64 = 600;
/// Cassandra's error for an exception that it did not foresee, which is not to be imitated.
const SERVER_ERROR: u32 = 0;
/// Errors of reads and writes that failed or timed out on the replica. The only replica of a single node fails only by
/// an exception of its own (keys of vectors of texts, statics of frozen user types after ALTER TYPE, null values of
/// aggregates in JSON).
const FAILURES: [u32; 4] = [0x1100, 0x1200, 0x1300, 0x1500];

const SYNTAX: u32 = 0x2000;

/// Cassandra's error for a paging state that it made itself: it does not page GROUP BY without clustering.
const OWN_PAGING_STATE: &str = "Invalid value for the paging state";

/// Whether Cassandra's answer is no guide, because it failed internally.
pub(crate) fn is_no_guide(judge: &[Reply]) -> bool {
    judge.iter().any(|reply| match reply {
        Reply::Error { code, text } => *code == SERVER_ERROR || FAILURES.contains(code) || text == OWN_PAGING_STATE,
        _ => false,
    })
}

/// Whether a difference is on purpose, because Cassandra is mistaken:
/// - Helenus refuses bytes of a wrong length for a tinyint, bytes that no tuple has, texts for tuples of collections,
///   texts of tuples with an empty part for a number that cannot be empty, and tuples whose parts fit a user type.
///   Cassandra fails internally as soon as there is a row to compare or to write.
/// - Helenus does not name user types, which may be dropped, in the types of dropped columns that are vectors.
/// - Helenus sorts the rows of SELECT JSON * over several partitions by the columns of ORDER BY; Cassandra sorts the
///   texts.
pub(crate) fn is_better(statement: &str, ours: &[Reply]) -> bool {
    match ours.last() {
        Some(Reply::Error { text, .. }) => {
            text.starts_with("Invalid HEX constant") && text.ends_with("of type tinyint")
                || ["Expected 1 byte for a tinyint (0)", "Expected 2 bytes for a smallint (0)"].contains(&text.as_str())
                    && ["':", "::", ":'"].iter().any(|empty_part| statement.contains(empty_part))
                || text.starts_with("Invalid tuple type literal for ") && is_user_type_of_script(text)
                || text.starts_with("Not enough bytes to read size of") && statement.contains("0x")
                || text.starts_with("Not enough bytes to read a ") && statement.contains('\'')
        }
        Some(Reply::Rows(_)) if statement.starts_with("SELECT JSON * ") => {
            statement.contains(" IN ") && statement.contains(" ORDER BY ")
        }
        Some(Reply::Rows(Rows { rows, .. })) if statement.contains("system_schema.dropped_columns") => {
            let has = |cell: &Vec<u8>| String::from_utf8_lossy(cell).contains("vector<frozen<tuple<");
            rows.iter().flatten().flatten().any(has)
        }
        _ => false,
    }
}

/// Whether an error ends with the name of a user type of a script.
fn is_user_type_of_script(error: &str) -> bool {
    let name = error.rsplit(' ').next().unwrap_or_default();
    let name = name.strip_prefix("frozen<").and_then(|name| name.strip_suffix('>')).unwrap_or(name);
    ["ty", "Ty", "\"Ty"].iter().any(|first| name.starts_with(first))
}

/// Whether two answers to a statement are the same.
pub(crate) fn agree(statement: &str, a: &[Reply], b: &[Reply]) -> bool {
    // Cassandra counts static rows that it then leaves out, so that a page may be empty and not the last.
    let told = |replies: &[Reply]| {
        let empty = |reply: &&Reply| matches!(reply, Reply::Rows(rows) if rows.rows.is_empty() && rows.more);
        replies.iter().filter(|reply| !empty(reply)).cloned().collect::<Vec<_>>()
    };
    let (a, b) = (told(a), told(b));
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| replies_agree(statement, a, b))
}

/// What is wrong with a condition shows when it is looked at.
const CONDITION_ERRORS: [&str; 7] = [
    "Invalid 'unset' value in condition",
    "Invalid unset value for",
    "Invalid comparison with null for operator",
    "Invalid comparison with an empty",
    "Invalid null value for list element access",
    "Invalid null value for map element access",
    "Invalid negative list index",
];

/// Whether a conditional update failed in one of several conditions. Cassandra evaluates them in the order of a hash
/// table by the addresses of objects, and none after one that does not hold.
fn fails_in_one_of_several(statement: &str, a: &Reply, b: &Reply) -> bool {
    let several = statement
        .split_once(" IF ")
        .is_some_and(|(_, conditions)| conditions.contains(" AND ") || conditions.contains(" IF "));
    let is_wrong = |reply: &Reply| match reply {
        Reply::Error { text, .. } => CONDITION_ERRORS.iter().any(|error| text.starts_with(error)),
        _ => false,
    };
    let fails = |reply: &Reply| is_wrong(reply) || reply.rows().and_then(Rows::applied) == Some(false);
    several && (is_wrong(a) && fails(b) || fails(a) && is_wrong(b))
}

fn replies_agree(statement: &str, a: &Reply, b: &Reply) -> bool {
    let varying = Varying { ttls: statement.contains("ttl("), log10: statement.contains("log10(") };
    if fails_in_one_of_several(statement, a, b) {
        return true;
    }
    match (a, b) {
        (Reply::Rows(a), Reply::Rows(b)) => {
            columns_agree(&a.columns, &b.columns)
                && a.more == b.more
                && a.warnings == b.warnings
                && a.rows.len() == b.rows.len()
                && a.rows.iter().zip(&b.rows).all(|(x, y)| rows_agree(&varying, &a.columns, x, y))
        }
        (Reply::Error { code: a, text: x }, Reply::Error { code: b, text: y }) => {
            // Of several mistakes of a text Cassandra's parser may meet another one first.
            let twice = |text: &str| text.starts_with("Multiple incompatible setting");
            // A tuple for a user type, whose fields it then looks at.
            let receiver = |text: &str| text.starts_with("Unexpected receiver type") && statement.contains("([");
            let same = words(*a, x) == words(*b, y) || receiver(x) && receiver(y);
            a == b && (same || *a == SYNTAX && (twice(x) || twice(y)))
        }
        (
            Reply::Prepared { id, markers, key_markers, result, warnings },
            Reply::Prepared {
                id: id_b,
                markers: markers_b,
                key_markers: keys_b,
                result: result_b,
                warnings: warnings_b,
            },
        ) => {
            (id, key_markers, warnings) == (id_b, keys_b, warnings_b)
                && columns_agree(markers, markers_b)
                && columns_agree(result, result_b)
        }
        _ => a == b,
    }
}

/// The JSON functions exist once per type in Cassandra, under the name that was used first since it started.
fn columns_agree(a: &[Column], b: &[Column]) -> bool {
    let named = |column: &Column| Column { name: one_name(&column.name), ..column.clone() };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| named(a) == named(b))
}

fn one_name(text: &str) -> String {
    text.replace("system.tojson", "system.to_json").replace("system.fromjson", "system.from_json")
}

/// An error's text without what may differ. Syntax errors need the same position only. Cassandra lists overloads in the
/// order of a hash table, tables in that of their last changes, and indexes of a column by the addresses of objects.
fn words(code: u32, text: &str) -> String {
    if let Some((head, names)) = text.split_once("dependent secondary indexes (") {
        let mut names: Vec<&str> = names.trim_end_matches(')').split(", ").collect();
        names.sort_unstable();
        return format!("{head}{names:?}");
    }
    if code != SYNTAX {
        let listed = [
            "(known type signatures",
            "(can be matched by following signatures",
            "by the following tables",
            "used by tables",
        ];
        let end = listed.iter().filter_map(|list| text.find(list)).min().unwrap_or(text.len());
        return text[..end].to_string();
    }
    text.split([' ', '\n']).take(2).collect::<Vec<_>>().join(" ")
}

/// What a statement selects whose value may vary.
struct Varying {
    /// Times to live.
    ttls: bool,
    /// Logarithms of decimals.
    log10: bool,
}

/// The scale of the zero that Cassandra's first `log10` of a decimal 1 since its start has.
const FIRST_LOG10_SCALE: [u8; 4] = (-98i32).to_be_bytes();

fn rows_agree(varying: &Varying, columns: &[Column], a: &[Option<Vec<u8>>], b: &[Option<Vec<u8>>]) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).enumerate().all(|(at, (a, b))| {
            let (column, cql_type) = columns.get(at).map_or(("", ""), |column| (&*column.name, &*column.cql_type));
            let is_ttl = varying.ttls && ["int", "list<int>"].contains(&cql_type);
            let text = |cell: &Option<Vec<u8>>| {
                cell.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok()).map(one_name)
            };
            // Any number may be a time to live behind another name.
            let json = |text: Option<String>| match varying.ttls {
                true => text.map(|text| text.replace(|c: char| c.is_ascii_digit(), "")),
                false => text,
            };
            a == b
                || is_nan(cql_type, a.as_deref()) && is_nan(cql_type, b.as_deref())
                || is_ttl && ttls_agree(a.as_deref(), b.as_deref())
                || varying.log10
                    && is_decimal_zero(cql_type, b.as_deref())
                    && is_decimal_zero(cql_type, a.as_deref())
                    && a.as_deref().is_some_and(|a| a.starts_with(&FIRST_LOG10_SCALE))
                || column == "[json]" && text(a).is_some() && json(text(a)) == json(text(b))
        })
}

/// Whether a value is a NaN. Which of the NaNs Java produces depends on whether it has compiled a function by then.
fn is_nan(cql_type: &str, cell: Option<&[u8]>) -> bool {
    let Some(bytes) = cell else { return false };
    match cql_type {
        "float" => bytes.try_into().is_ok_and(|bytes| f32::from_be_bytes(bytes).is_nan()),
        "double" => bytes.try_into().is_ok_and(|bytes| f64::from_be_bytes(bytes).is_nan()),
        _ => false,
    }
}

/// Whether a decimal is zero, of whatever scale.
fn is_decimal_zero(cql_type: &str, cell: Option<&[u8]>) -> bool {
    const SCALE_BYTES: usize = 4;
    let unscaled = cell.and_then(|cell| cell.get(SCALE_BYTES..));
    cql_type == "decimal" && unscaled.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
}

/// Whether values are equal up to some seconds: a time to live, or a list of them (which ends with one).
fn ttls_agree(a: Option<&[u8]>, b: Option<&[u8]>) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return false };
    a.len() == b.len()
        && a.chunks(4).zip(b.chunks(4)).all(|(a, b)| match (<[u8; 4]>::try_from(a), <[u8; 4]>::try_from(b)) {
            (Ok(a), Ok(b)) => {
                (i64::from(i32::from_be_bytes(a)) - i64::from(i32::from_be_bytes(b))).abs() <= TTL_TOLERANCE
            }
            _ => a == b,
        })
}

/// All pages joined to one, if the replies are pages.
pub(crate) fn whole(replies: &[Reply]) -> Option<Vec<Vec<Option<Vec<u8>>>>> {
    let mut all = Vec::new();
    for reply in replies {
        match reply {
            Reply::Rows(rows) => all.extend(rows.rows.iter().cloned()),
            Reply::Prepared { .. } => {}
            _ => return None,
        }
    }
    Some(all)
}

/// Both lists of replies from the first difference on.
pub(crate) fn from_difference<'a>(
    statement: &str,
    judge: &'a [Reply],
    ours: &'a [Reply],
) -> (&'a [Reply], &'a [Reply]) {
    let same = judge.iter().zip(ours).take_while(|(a, b)| replies_agree(statement, a, b)).count();
    (&judge[same..], &ours[same..])
}

/// An answer without what varies from script to script.
pub(crate) fn kind_of(replies: &[Reply]) -> String {
    match replies.first() {
        Some(Reply::Prepared { .. }) if replies.len() > 1 => kind_of(&replies[1..]),
        Some(Reply::Prepared { .. }) => "prepared".into(),
        Some(Reply::Error { text, .. }) => {
            let plain = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            let words: Vec<&str> =
                text.split([' ', '\n', '(', ')', ',']).filter(plain).filter(|word| !word.is_empty()).take(12).collect();
            format!("error {}", words.join(" "))
        }
        Some(Reply::Rows(rows)) if rows.columns.len() == 1 => format!("row of {}", rows.columns[0].cql_type),
        Some(Reply::Rows(_)) => "rows".into(),
        Some(other) => format!("{other:?}").chars().take(12).collect(),
        None => "nothing".into(),
    }
}

/// Replies as text for a reader.
pub(crate) fn show(replies: &[Reply]) -> String {
    let lines: Vec<String> = replies.iter().map(show_reply).collect();
    lines.join("\n    ")
}

fn show_reply(reply: &Reply) -> String {
    match reply {
        Reply::Rows(Rows { columns, rows, more, warnings }) => {
            let names: Vec<String> =
                columns.iter().map(|column| format!("{} {}", column.name, column.cql_type)).collect();
            let mut out = names.join(" | ");
            for row in rows {
                let cells: Vec<String> =
                    row.iter().zip(columns).map(|(cell, column)| show_cell(cell.as_deref(), column)).collect();
                out.push_str(&format!("\n    {}", cells.join(" | ")));
            }
            for warning in warnings {
                out.push_str(&format!("\n    warning {warning}"));
            }
            if *more {
                out.push_str("\n    more");
            }
            out
        }
        Reply::Error { code, text } => format!("error {code:#06x} {text}"),
        Reply::Prepared { id, markers, key_markers, result, warnings } => {
            let words = |columns: &[Column]| {
                let words: Vec<String> =
                    columns.iter().map(|c| format!("{}.{} {} {}", c.keyspace, c.table, c.name, c.cql_type)).collect();
                words.join(", ")
            };
            format!(
                "prepared {} markers [{}] key {key_markers:?} result [{}] {warnings:?}",
                crate::script::hex(id),
                words(markers),
                words(result)
            )
        }
        other => format!("{other:?}"),
    }
}

fn show_cell(cell: Option<&[u8]>, column: &Column) -> String {
    let Some(bytes) = cell else { return "null".into() };
    if bytes.is_empty() {
        return "empty".into();
    }
    match CqlType::parse(&column.cql_type) {
        Some(known) => text::to_literal(&known, bytes).replace('\n', "\\n"),
        None => crate::script::hex(bytes),
    }
}
