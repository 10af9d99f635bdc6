//! Type names as written to types: user types found, nesting checked with Cassandra's texts.
//!
//! Invariants: what stands in a frozen type or a tuple is frozen; what stands in a collection must say so itself.

use crate::ast::{TypeKind, TypeName};
use crate::lexer::syntax;
use crate::parser::unsupported;
use model::{CqlType, Failure, Keyspace, Schema};

type Result<T> = std::result::Result<T, Failure>;

/// The type that `type_name` denotes in `keyspace`, whose user types it may name.
pub(crate) fn resolve(type_name: &TypeName, keyspace: &str, schema: &Schema) -> Result<CqlType> {
    resolve_in(type_name, keyspace, schema.keyspace(keyspace).map(|keyspace| &**keyspace))
}

/// The same for a keyspace that is at hand; without one there are no user types.
pub(crate) fn resolve_in(type_name: &TypeName, name: &str, keyspace: Option<&Keyspace>) -> Result<CqlType> {
    Resolving { name, keyspace }.resolve(type_name, false)
}

struct Resolving<'k> {
    name: &'k str,
    keyspace: Option<&'k Keyspace>,
}

impl Resolving<'_> {
    /// `frozen`: a frozen type or a tuple stands around it.
    fn resolve(&self, type_name: &TypeName, frozen: bool) -> Result<CqlType> {
        let element = |inner: &TypeName| {
            let found = self.resolve(inner, frozen)?;
            match found {
                CqlType::Counter => {
                    Err(Failure::invalid(format!("Counters are not allowed inside collections: {type_name}")))
                }
                _ if !found.is_multicell() => Ok(found),
                _ if found.is_collection() => Err(Failure::invalid(format!(
                    "Non-frozen collections are not allowed inside collections: {type_name}"
                ))),
                _ => Err(Failure::invalid(format!("Non-frozen UDTs are not allowed inside collections: {type_name}"))),
            }
        };
        match &type_name.kind {
            TypeKind::Native(native) => Ok(native.clone()),
            TypeKind::List(inner) => Ok(CqlType::List { element: element(inner)?.into(), frozen }),
            TypeKind::Set(inner) => {
                let element = element(inner)?;
                if element == CqlType::Duration {
                    return Err(Failure::invalid(format!("Durations are not allowed inside sets: {type_name}")));
                }
                Ok(CqlType::Set { element: element.into(), frozen })
            }
            TypeKind::Map(key, value) => {
                let key = element(key)?;
                if key == CqlType::Duration {
                    return Err(Failure::invalid(format!("Durations are not allowed as map keys: {type_name}")));
                }
                Ok(CqlType::Map { key: key.into(), value: element(value)?.into(), frozen })
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
}

/// The type of a marshal class, in full or by its last part.
fn class(text: &str) -> Result<CqlType> {
    let word = text.strip_prefix("org.apache.cassandra.db.marshal.").unwrap_or(text);
    let word = word.split(['(', ' ']).next().unwrap_or(word);
    match CqlType::parse_class(text) {
        Ok((cql_type, _)) => Ok(cql_type),
        Err(_) if word.ends_with("Type") => Err(unsupported("custom types")),
        Err(_) => Err(syntax(format!(
            "Error setting type {text}: Unable to find abstract-type class 'org.apache.cassandra.db.marshal.{word}'"
        ))),
    }
}
