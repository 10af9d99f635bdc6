//! Identifiers of CQL: reserved words and quoting.

use std::borrow::Cow;

/// A name as it must be written in CQL: unchanged, or in double quotes if it is not lower-case letters, digits and
/// underscores or is reserved.
pub fn quoted(name: &str) -> Cow<'_, str> {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if plain && !is_reserved(name) { Cow::Borrowed(name) } else { format!("\"{}\"", name.replace('"', "\"\"")).into() }
}

/// Length of the longest reserved word, bytes.
const RESERVED_BYTES_MAX: usize = 12;

/// Whether a word, in any case, is one of Cassandra's reserved keywords and so cannot be an unquoted name.
pub fn is_reserved(word: &str) -> bool {
    if word.len() > RESERVED_BYTES_MAX {
        return false;
    }
    let mut buffer = [0; RESERVED_BYTES_MAX];
    let lower = &mut buffer[..word.len()];
    lower.copy_from_slice(word.as_bytes());
    lower.make_ascii_lowercase();
    matches!(
        &*lower,
        b"add"
            | b"allow"
            | b"alter"
            | b"and"
            | b"apply"
            | b"asc"
            | b"authorize"
            | b"batch"
            | b"begin"
            | b"by"
            | b"columnfamily"
            | b"create"
            | b"delete"
            | b"desc"
            | b"describe"
            | b"drop"
            | b"entries"
            | b"execute"
            | b"false"
            | b"from"
            | b"full"
            | b"grant"
            | b"if"
            | b"in"
            | b"index"
            | b"infinity"
            | b"insert"
            | b"into"
            | b"is"
            | b"keyspace"
            | b"limit"
            | b"materialized"
            | b"modify"
            | b"nan"
            | b"norecursive"
            | b"not"
            | b"null"
            | b"of"
            | b"on"
            | b"or"
            | b"order"
            | b"primary"
            | b"rename"
            | b"revoke"
            | b"schema"
            | b"select"
            | b"set"
            | b"table"
            | b"to"
            | b"token"
            | b"true"
            | b"truncate"
            | b"unlogged"
            | b"update"
            | b"use"
            | b"using"
            | b"view"
            | b"where"
            | b"with"
    )
}
