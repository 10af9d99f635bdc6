//! Values of composite types as text: the texts of their components, separated by colons. Those of a
//! `DynamicCompositeType` follow their comparator and `@`: `i@5:UTF8Type@abc`.
//!
//! A colon in a component is written `\:`, and a `!` follows one that ends with `\` or `!`. `:!` and `:_` after the
//! last component say that its end is 1 or -1.

use super::{from_quoted, to_plain};
use crate::types::{Component, CqlType};
use crate::value::{self, Comparator, Components, IS_ALIAS, ValueError};
use std::borrow::Cow;
use std::fmt::Write;

/// Appends the text; `None`, with nothing appended, if the bytes are not of the type.
pub(super) fn push(cql_type: &CqlType, bytes: &[u8], out: &mut String) -> Option<()> {
    let start = out.len();
    let pushed = push_components(cql_type, bytes, out);
    if pushed.is_err() {
        out.truncate(start);
    }
    pushed.ok()
}

fn push_components(cql_type: &CqlType, bytes: &[u8], out: &mut String) -> Result<(), ValueError> {
    let mut components = Components::new(cql_type, bytes);
    let mut first = true;
    while let Some(part) = components.component()? {
        out.push_str(if first { "" } else { ":" });
        first = false;
        // Writing to a string cannot fail.
        let _ = match part.comparator {
            Comparator::Position => Ok(()),
            Comparator::Alias(alias) => write!(out, "{}@", alias as char),
            Comparator::Class(class) => write!(out, "{class}@"),
        };
        let text = to_plain(&part.component.cql_type, part.value).replace(':', "\\:");
        out.push_str(&text);
        out.push_str(if text.ends_with(['\\', '!']) { "!" } else { "" });
        out.push_str(match components.end()? {
            0 => "",
            1.. => ":!",
            _ => ":_",
        });
    }
    Ok(())
}

/// The value of a text.
pub(super) fn parse(cql_type: &CqlType, text: &str) -> Result<Vec<u8>, ValueError> {
    let mut out = Vec::new();
    for (at, part) in split(text).into_iter().enumerate() {
        // Cassandra ignores what follows.
        if part == "!" || part == "_" {
            let end = if part == "!" { 1 } else { 0xff };
            let last = out.last_mut().ok_or_else(|| ValueError(format!("'{text}' begins with an end of component")))?;
            *last = end;
            break;
        }
        let (component, part) = match cql_type {
            CqlType::DynamicComposite(aliases) => named(aliases, part, &mut out)?,
            CqlType::Composite(components) => {
                let known = components.get(at);
                let many = || ValueError(format!("'{text}' has more than the {} components of {cql_type}", at));
                (Cow::Borrowed(known.ok_or_else(many)?), part)
            }
            _ => return Err(ValueError(format!("{cql_type} is not a composite type"))),
        };
        let unescaped = part.replace("\\:", ":");
        let unescaped = unescaped.strip_suffix('!').unwrap_or(&unescaped);
        let value = from_quoted(&component.cql_type, unescaped)?;
        value::validate(&component.cql_type, &value)?;
        let len = u16::try_from(value.len());
        let len = len.map_err(|_| ValueError(format!("Component {at} is longer than {} bytes", u16::MAX)))?;
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(&value);
        out.push(0);
    }
    Ok(out)
}

/// Splits a text at colons that do not follow a backslash.
fn split(text: &str) -> Vec<&str> {
    if text.is_empty() {
        return Vec::new();
    }
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(':') {
        if !text[..at].ends_with('\\') {
            parts.push(&text[start..at]);
            start = at + 1;
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Takes `alias@text` or `class@text` apart and appends the comparator; gives its type and the text.
fn named<'t, 'p>(
    aliases: &'t [(u8, Component)],
    part: &'p str,
    out: &mut Vec<u8>,
) -> Result<(Cow<'t, Component>, &'p str), ValueError> {
    let fail = || ValueError(format!("Invalid component representation: {part}"));
    let (name, text) = part.split_once('@').unwrap_or((part, ""));
    if text.trim_end_matches('@').contains('@') || part == "@" {
        return Err(fail());
    }
    let alias = match name.as_bytes() {
        [alias] => aliases.iter().find(|(known, _)| known == alias),
        _ => None,
    };
    let text = text.trim_end_matches('@');
    if let Some((alias, component)) = alias {
        out.extend_from_slice(&(IS_ALIAS | u16::from(*alias)).to_be_bytes());
        return Ok((Cow::Borrowed(component), text));
    }
    let len = u16::try_from(name.len()).ok().filter(|len| len & IS_ALIAS == 0).ok_or_else(fail)?;
    let component = value::named(name).ok_or_else(fail)?;
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(name.as_bytes());
    Ok((Cow::Owned(component), text))
}
