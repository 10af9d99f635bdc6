//! From type names as written to types: finds user types and checks nesting, with Cassandra's texts.
//!
//! Invariants: everything in a frozen type or a tuple is frozen; what is in a collection must say so itself.

use crate::ast::{TypeKind, TypeName};
use crate::errors::{syntax, unsupported};
use crate::limits::TYPE_PARTS_MAX;
use model::types::TYPE_DEPTH_MAX;
use model::value::ValueError;
use model::{CqlType, Failure, Keyspace, Schema};

type Result<T> = std::result::Result<T, Failure>;

/// Resolves a type name in `keyspace`, whose user types it may name.
pub(crate) fn resolve(type_name: &TypeName, keyspace: &str, schema: &Schema) -> Result<CqlType> {
    resolve_in(type_name, keyspace, schema.keyspace(keyspace).map(|keyspace| &**keyspace))
}

/// Resolves a type name in this keyspace; without one there are no user types.
pub(crate) fn resolve_in(type_name: &TypeName, name: &str, keyspace: Option<&Keyspace>) -> Result<CqlType> {
    Resolving { name, keyspace }.resolve(type_name, false)
}

/// How many levels of nesting a map's key counts as: a key is a text in JSON, with escapes that double their length
/// with each map around it.
const MAP_KEY_LEVELS: usize = 5;

/// Refuses types that are too large once the user types in them are expanded.
pub(crate) fn check_size(cql_type: &CqlType) -> Result<()> {
    let mut parts_left = TYPE_PARTS_MAX;
    if count(cql_type, 0, &mut parts_left) {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "A type nests at most {TYPE_DEPTH_MAX} levels deep and holds at most {TYPE_PARTS_MAX} types, those of its user \
         types among them"
    )))
}

/// Whether a type at `depth` is within the limits. Subtracts the number of its parts from `parts_left`.
fn count(cql_type: &CqlType, depth: usize, parts_left: &mut usize) -> bool {
    if depth > TYPE_DEPTH_MAX || *parts_left == 0 {
        return false;
    }
    *parts_left -= 1;
    let mut inner = |part: &CqlType| count(part, depth + 1, parts_left);
    match cql_type {
        CqlType::Map { key, value, .. } => inner(value) && count(key, depth + MAP_KEY_LEVELS, parts_left),
        // What a value names adds to the depth, not to the number of parts.
        CqlType::DynamicComposite(_) if depth + cql_type.depth() > TYPE_DEPTH_MAX => false,
        other => other.parts().into_iter().all(inner),
    }
}

struct Resolving<'k> {
    name: &'k str,
    keyspace: Option<&'k Keyspace>,
}

impl Resolving<'_> {
    /// Resolves a type name; `frozen` says that it is inside a frozen type or a tuple.
    fn resolve(&self, type_name: &TypeName, frozen: bool) -> Result<CqlType> {
        match &type_name.kind {
            TypeKind::Native(native) => Ok(native.clone()),
            TypeKind::List(inner) => {
                self.check_parts(type_name, &[inner], frozen)?;
                Ok(CqlType::List { element: self.part(type_name, inner, frozen)?.into(), frozen })
            }
            TypeKind::Set(inner) => {
                self.check_parts(type_name, &[inner], frozen)?;
                if inner.kind == TypeKind::Native(CqlType::Duration) {
                    let shown = shown(type_name, frozen);
                    return Err(Failure::invalid(format!("Durations are not allowed inside sets: {shown}")));
                }
                Ok(CqlType::Set { element: self.part(type_name, inner, frozen)?.into(), frozen })
            }
            TypeKind::Map(key, value) => {
                self.check_parts(type_name, &[value, key], frozen)?;
                if key.kind == TypeKind::Native(CqlType::Duration) {
                    let shown = shown(type_name, frozen);
                    return Err(Failure::invalid(format!("Durations are not allowed as map keys: {shown}")));
                }
                let key = self.part(type_name, key, frozen)?.into();
                Ok(CqlType::Map { key, value: self.part(type_name, value, frozen)?.into(), frozen })
            }
            TypeKind::Tuple(elements) => {
                let elements = elements.iter().map(|inner| match self.resolve(inner, true)? {
                    CqlType::Counter => Err(Failure::invalid("Counters are not allowed inside tuples")),
                    found => Ok(found),
                });
                Ok(CqlType::Tuple(elements.collect::<Result<_>>()?))
            }
            TypeKind::Vector(inner, dimension) => {
                let Ok(number) = dimension.parse::<i32>() else {
                    return Err(syntax(format!("NumberFormatException For input string: \"{dimension}\"")));
                };
                if number <= 0 {
                    return Err(Failure::invalid(format!("vectors may only have positive dimensions; given {number}")));
                }
                let element = self.resolve(inner, frozen)?.into();
                Ok(CqlType::Vector { element, dimension: number as u32 })
            }
            TypeKind::Frozen(inner) => self.resolve(inner, true),
            TypeKind::User { keyspace: Some(other), .. } if other != self.name => Err(Failure::invalid(format!(
                "Statement on keyspace {} cannot refer to a user type in keyspace {other}; user types can only be \
             used in the keyspace they are defined in",
                self.name
            ))),
            TypeKind::User { name, .. } => {
                let definition = self.keyspace.and_then(|keyspace| keyspace.types.get(name));
                match definition {
                    Some(definition) => Ok(CqlType::User { definition: definition.clone(), frozen }),
                    None => Err(Failure::invalid(format!("Unknown type {}.{name}", self.name))),
                }
            }
            TypeKind::Custom => class(&type_name.text),
        }
    }

    /// Checks what a collection can contain, as written. As in Cassandra this comes before any lookup.
    fn check_parts(&self, type_name: &TypeName, parts: &[&TypeName], frozen: bool) -> Result<()> {
        if parts.iter().any(|part| part.kind == TypeKind::Native(CqlType::Counter)) {
            let shown = shown(type_name, frozen);
            return Err(Failure::invalid(format!("Counters are not allowed inside collections: {shown}")));
        }
        for part in parts.iter().filter(|_| !frozen) {
            let what = match &part.kind {
                TypeKind::List(_) | TypeKind::Set(_) | TypeKind::Map(..) => "collections",
                TypeKind::User { .. } => "UDTs",
                _ => continue,
            };
            let text = format!("Non-frozen {what} are not allowed inside collections: {type_name}");
            return Err(Failure::invalid(text));
        }
        Ok(())
    }

    /// Resolves a part of the collection `type_name`.
    fn part(&self, type_name: &TypeName, part: &TypeName, frozen: bool) -> Result<CqlType> {
        match self.resolve(part, frozen)? {
            // The counter was written as a class.
            CqlType::Counter => {
                let shown = shown(type_name, frozen);
                Err(Failure::invalid(format!("Counters are not allowed inside collections: {shown}")))
            }
            found if found.is_multicell() => {
                Err(Failure::invalid(format!("Non-frozen collections are not allowed inside collections: {type_name}")))
            }
            found => Ok(found),
        }
    }
}

/// A type as errors show it: frozen with everything in it if it is inside a frozen type.
fn shown(type_name: &TypeName, frozen: bool) -> String {
    if !frozen {
        return type_name.to_string();
    }
    let inner = |part: &TypeName| shown(part, true);
    match &type_name.kind {
        TypeKind::List(element) => format!("frozen<list<{}>>", inner(element)),
        TypeKind::Set(element) => format!("frozen<set<{}>>", inner(element)),
        TypeKind::Map(key, value) => format!("frozen<map<{}, {}>>", inner(key), inner(value)),
        TypeKind::User { .. } => format!("frozen<{type_name}>"),
        _ => type_name.to_string(),
    }
}

/// The marshal class that a text names, in full and in quotes, as errors show it. Fails for any other text.
pub(crate) fn class_shown(text: &str) -> Result<String> {
    match CqlType::parse_class(text) {
        Ok((cql_type, _)) => Ok(format!("'{}'", cql_type.class_name())),
        Err(error) if error.0.ends_with("are not supported") => Ok(format!("'{text}'")),
        Err(error) => Err(no_class(text, &error)),
    }
}

fn no_class(text: &str, error: &ValueError) -> Failure {
    syntax(format!("Error setting type {text}: {}", error.0))
}

/// The type of a marshal class as [`class_shown`] gives it.
fn class(shown: &str) -> Result<CqlType> {
    let text = shown.trim_matches('\'');
    match CqlType::parse_class(text) {
        Ok((cql_type, _)) => Ok(cql_type),
        Err(error) if error.0.ends_with("are not supported") => Err(unsupported("PartitionerDefinedOrder")),
        Err(error) => Err(no_class(text, &error)),
    }
}
