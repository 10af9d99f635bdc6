//! Functions: `now()`, `uuid()` and `token()` as terms, and what a SELECT may ask for.

use crate::ast::{self, SelectItem};
use crate::literal::{Markers, Receiver, Scope, assignable, fits, native_type, prepare_term};
use crate::parser::{is_reserved, unsupported};
use crate::plan::{ColumnSpec, Selector, Term};
use model::{Column, ColumnKind, CqlType, Failure};
use std::borrow::Cow;

type Result<T> = std::result::Result<T, Failure>;

/// Functions of Cassandra 5.0 that Helenus does not have yet. Names also end in `_as_blob` and the like.
const KNOWN: [&str; 38] = [
    "abs",
    "avg",
    "collection_avg",
    "collection_count",
    "collection_max",
    "collection_min",
    "collection_sum",
    "count",
    "currentdate",
    "current_date",
    "currenttime",
    "current_time",
    "currenttimestamp",
    "current_timestamp",
    "currenttimeuuid",
    "current_timeuuid",
    "exp",
    "fromjson",
    "from_json",
    "log",
    "log10",
    "map_keys",
    "map_values",
    "max",
    "maxtimeuuid",
    "max_timeuuid",
    "min",
    "mintimeuuid",
    "min_timeuuid",
    "round",
    "sum",
    "todate",
    "to_date",
    "tojson",
    "to_json",
    "totimestamp",
    "to_timestamp",
    "tounixtimestamp",
];

/// Whether Cassandra has a built-in function of this name that Helenus has not.
fn known(name: &str) -> bool {
    KNOWN.contains(&name)
        || name == "to_unix_timestamp"
        || ["mask_", "similarity_", "blobas", "blob_as_"].iter().any(|start| name.starts_with(start))
        || name.ends_with("asblob")
        || name.ends_with("_as_blob")
}

/// Cassandra's text for a wrong number of arguments.
fn wrong_count(name: &str, required: usize, provided: usize) -> Failure {
    Failure::invalid(format!(
        "Invalid number of arguments in call to function system.{name}: {required} required but {provided} provided"
    ))
}

fn wrong_argument(shown: &dyn std::fmt::Display, at: usize, wanted: &CqlType) -> Failure {
    Failure::invalid(format!(
        "Type error: {shown} cannot be passed as argument {at} of function system.token of type {wanted}"
    ))
}

/// A call as a term for a place.
pub(crate) fn call(
    keyspace: Option<&str>,
    name: &str,
    arguments: &[ast::Term],
    receiver: &Receiver<'_>,
    markers: &mut Markers<'_>,
) -> Result<Term> {
    let builtin = keyspace.is_none_or(|keyspace| keyspace == "system");
    let result = match name {
        "now" if builtin => CqlType::Timeuuid,
        "uuid" if builtin => CqlType::Uuid,
        "token" if builtin => CqlType::Bigint,
        _ if builtin && known(name) => return Err(unsupported(&format!("the function {name}()"))),
        _ => {
            let qualifier = keyspace.map(|keyspace| format!("{keyspace}.")).unwrap_or_default();
            return Err(Failure::invalid(format!("Unknown function {qualifier}{name} called")));
        }
    };
    if name != "token" && !arguments.is_empty() {
        return Err(wrong_count(name, 0, arguments.len()));
    }
    if !assignable(receiver.cql_type, &result) {
        return Err(Failure::invalid(format!(
            "Type error: cannot assign result of function system.{name} (type {result}) to {} (type {})",
            receiver.name, receiver.cql_type
        )));
    }
    match name {
        "now" => Ok(Term::Now),
        "uuid" => Ok(Term::Uuid),
        _ => token_term(arguments, receiver.scope, None, markers),
    }
}

/// `token(...)` of terms. Markers are called `argN(system.token)` unless `marker_name` is given.
fn token_term(
    arguments: &[ast::Term],
    scope: &Scope,
    marker_name: Option<&str>,
    markers: &mut Markers<'_>,
) -> Result<Term> {
    let key = scope.table.partition_key();
    if arguments.len() != key.len() {
        return Err(wrong_count("token", key.len(), arguments.len()));
    }
    let mut terms = Vec::with_capacity(key.len());
    for (at, (argument, column)) in arguments.iter().zip(key).enumerate() {
        let wanted = &column.cql_type;
        if !fits(argument, wanted, scope)? {
            return Err(wrong_argument(argument, at, wanted));
        }
        let own_name;
        let name = match marker_name {
            Some(name) => name,
            None => {
                own_name = format!("arg{at}(system.token)");
                &own_name
            }
        };
        let receiver = Receiver { scope, name, cql_type: wanted };
        terms.push((prepare_term(argument, &receiver, markers)?, wanted.clone()));
    }
    Ok(Term::Token(terms))
}

/// The column of a name, or Cassandra's error. Statements may name thousands of columns: data columns, sorted by name,
/// are searched in halves.
pub(crate) fn column<'s>(scope: &'s Scope, name: &str) -> Result<&'s Column> {
    let table = &scope.table;
    let keys = table.columns.get(..table.partition_key_len + table.clustering_len).unwrap_or_default();
    if let Some(column) = keys.iter().find(|column| column.name == name) {
        return Ok(column);
    }
    if let Ok(at) = table.regular().binary_search_by(|column| column.name.as_str().cmp(name)) {
        return Ok(&table.regular()[at]);
    }
    table.column(name).ok_or_else(|| {
        let (keyspace, table) = (shown(&table.keyspace), shown(&table.name));
        Failure::invalid(format!("Undefined column name {} in table {keyspace}.{table}", shown(name)))
    })
}

/// A name as Cassandra's errors show it: quoted if it could not be written without quotes.
pub(crate) fn shown(name: &str) -> Cow<'_, str> {
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !is_reserved(name);
    if plain { Cow::Borrowed(name) } else { Cow::Owned(format!("\"{}\"", name.replace('"', "\"\""))) }
}

/// What marks a marker in a selection.
const SELECTION: &str = "[selection]";

/// One selector with its result column.
pub(crate) fn select_item(
    item: &SelectItem,
    scope: &Scope,
    markers: &mut Markers<'_>,
) -> Result<(Selector, ColumnSpec)> {
    let (selector, name, cql_type) = selector(&item.selector, scope, markers)?;
    Ok((selector, scope.spec(item.alias.as_deref().unwrap_or(&name), cql_type)))
}

fn selector(selector: &ast::Selector, scope: &Scope, markers: &mut Markers<'_>) -> Result<(Selector, String, CqlType)> {
    match selector {
        ast::Selector::Column(name) => {
            let column = column(scope, name)?;
            Ok((Selector::Column(column.id), name.clone(), column.cql_type.clone()))
        }
        ast::Selector::WriteTime(name) => {
            let column = column(scope, name)?;
            if column.kind != ColumnKind::Regular {
                return Err(Failure::invalid(format!(
                    "Cannot use selection function writetime on PRIMARY KEY part {name}"
                )));
            }
            if column.cql_type.is_multicell() {
                return Err(unsupported("writetime() of a collection"));
            }
            Ok((Selector::WriteTime(column.id), format!("writetime({name})"), CqlType::Bigint))
        }
        ast::Selector::CountRows => Ok((Selector::CountRows, "count".to_owned(), CqlType::Bigint)),
        ast::Selector::Term(ast::Term::Cast(type_name, inner)) => {
            let cql_type = native_type(type_name, scope)?;
            if !fits(inner, cql_type, scope)? {
                return Err(Failure::invalid(format!(
                    "Cannot assign value {selector} to {selector} of type {cql_type}"
                )));
            }
            let term = prepare_term(inner, &Receiver { scope, name: SELECTION, cql_type }, markers)?;
            Ok((Selector::Term(term, cql_type.clone()), selector.to_string(), cql_type.clone()))
        }
        ast::Selector::Term(term) => Err(Failure::invalid(format!(
            "Cannot infer type for term {term} in selection clause (try using a cast to force a type)"
        ))),
        ast::Selector::Function { keyspace, name, arguments } => {
            let builtin = keyspace.as_deref().is_none_or(|keyspace| keyspace == "system");
            let shown = selector.to_string();
            match name.as_str() {
                "now" | "uuid" if builtin => {
                    if !arguments.is_empty() {
                        return Err(wrong_count(name, 0, arguments.len()));
                    }
                    let (term, cql_type) = match name.as_str() {
                        "now" => (Term::Now, CqlType::Timeuuid),
                        _ => (Term::Uuid, CqlType::Uuid),
                    };
                    Ok((Selector::Term(term, cql_type.clone()), shown, cql_type))
                }
                "count" if builtin => match arguments.as_slice() {
                    [ast::Selector::Column(name)] => {
                        let column = column(scope, name)?;
                        Ok((Selector::Count(column.id), shown, CqlType::Bigint))
                    }
                    [_] => Err(unsupported("count() of anything but a column")),
                    _ => Err(wrong_count("count", 1, arguments.len())),
                },
                "token" if builtin => {
                    let selector = token_selector(arguments, scope, markers)?;
                    Ok((selector, shown, CqlType::Bigint))
                }
                _ if builtin && known(name) => Err(unsupported(&format!("the function {name}()"))),
                _ => {
                    let qualifier = keyspace.as_ref().map(|keyspace| format!("{keyspace}.")).unwrap_or_default();
                    Err(Failure::invalid(format!("Unknown function '{qualifier}{name}'")))
                }
            }
        }
    }
}

/// `token(a, b)` of the partition key's columns, or of terms.
fn token_selector(arguments: &[ast::Selector], scope: &Scope, markers: &mut Markers<'_>) -> Result<Selector> {
    let key = scope.table.partition_key();
    if arguments.len() != key.len() {
        return Err(wrong_count("token", key.len(), arguments.len()));
    }
    let mut terms = Vec::new();
    let mut own_columns = 0;
    for (at, (argument, wanted)) in arguments.iter().zip(key).enumerate() {
        match argument {
            ast::Selector::Column(name) => {
                let column = column(scope, name)?;
                if !assignable(&wanted.cql_type, &column.cql_type) {
                    return Err(wrong_argument(argument, at, &wanted.cql_type));
                }
                own_columns += (column.id == wanted.id) as usize;
            }
            ast::Selector::Term(term) => terms.push(term.clone()),
            ast::Selector::Function { keyspace, name, arguments } if arguments.is_empty() => {
                let function =
                    ast::Term::Function { keyspace: keyspace.clone(), name: name.clone(), arguments: Vec::new() };
                terms.push(function);
            }
            _ => return Err(unsupported("token() of selectors that are no columns")),
        }
    }
    if own_columns == key.len() {
        return Ok(Selector::Token);
    }
    if terms.len() == key.len() {
        let term = token_term(&terms, scope, Some(SELECTION), markers)?;
        return Ok(Selector::Term(term, CqlType::Bigint));
    }
    Err(unsupported("token() of columns other than the partition key"))
}
