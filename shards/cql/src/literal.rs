//! Terms to plan terms: constants to bytes of the type of their place, markers to specs, calls checked.
//!
//! A constant's family must suit the type first (`Invalid STRING constant (abc) for "v" of type int`); then `model::text`
//! makes the bytes and says what is wrong with the text.

use crate::ast::{self, Composite, Constant, TypeKind, TypeName};
use crate::functions;
use crate::parser::unsupported;
use crate::plan::{ColumnSpec, Term};
use model::schema::TableOptions;
use model::text::{from_bare, from_quoted};
use model::value::ValueError;
use model::{CqlType, Failure, Table, TableId};
use std::sync::Arc;

type Result<T> = std::result::Result<T, Failure>;

/// The table that a statement works on, with its names ready to be shared by specs.
pub(crate) struct Scope {
    pub(crate) table: Arc<Table>,
    keyspace: Arc<str>,
    name: Arc<str>,
}

impl Scope {
    pub(crate) fn new(table: Arc<Table>) -> Scope {
        Scope { keyspace: table.keyspace.as_str().into(), name: table.name.as_str().into(), table }
    }

    /// The scope of a batch without statements.
    pub(crate) fn nameless() -> Scope {
        Scope::new(Arc::new(Table {
            id: TableId([0; 16]),
            keyspace: String::new(),
            name: String::new(),
            columns: Vec::new(),
            partition_key_len: 0,
            clustering_len: 0,
            static_len: 0,
            dropped: Vec::new(),
            options: TableOptions::default(),
        }))
    }

    pub(crate) fn spec(&self, name: &str, cql_type: CqlType) -> ColumnSpec {
        ColumnSpec { keyspace: self.keyspace.clone(), table: self.name.clone(), name: name.into(), cql_type }
    }
}

/// The place that a value goes to.
#[derive(Clone, Copy)]
pub(crate) struct Receiver<'a> {
    pub(crate) scope: &'a Scope,
    /// What errors and markers call it: a column's name, `[limit]`, `partition key token`.
    pub(crate) name: &'a str,
    pub(crate) cql_type: &'a CqlType,
}

/// The markers of a statement as their places become known.
pub(crate) struct Markers<'a> {
    names: &'a [Option<String>],
    specs: Vec<Option<ColumnSpec>>,
    /// For each partition key column the last marker that alone gives its value.
    pub(crate) keys: Vec<Option<u16>>,
}

impl<'a> Markers<'a> {
    pub(crate) fn new(names: &'a [Option<String>]) -> Markers<'a> {
        Markers { names, specs: vec![None; names.len()], keys: Vec::new() }
    }

    /// Gives a marker its place. A name in the text beats the place's.
    pub(crate) fn bind(&mut self, marker: u16, receiver: &Receiver<'_>) {
        self.bind_as(marker, receiver.scope, receiver.name, receiver.cql_type.clone());
    }

    /// The same, with a name and type of its own: `in(pk)`, a list.
    pub(crate) fn bind_as(&mut self, marker: u16, scope: &Scope, name: &str, cql_type: CqlType) {
        let at = marker as usize;
        let name = self.names.get(at).and_then(Option::as_deref).unwrap_or(name);
        if let Some(spec) = self.specs.get_mut(at) {
            *spec = Some(scope.spec(name, cql_type));
        }
    }

    /// Notes that `term` alone gives partition key column `position` of `count`.
    pub(crate) fn key(&mut self, position: usize, count: usize, term: &Term) {
        if let Term::Marker(marker) = term {
            self.keys.resize(count, None);
            self.keys[position] = Some(*marker);
        }
    }

    /// The specs in order. Each marker has a place, or preparing it failed.
    pub(crate) fn finish(self) -> Result<(Vec<ColumnSpec>, Vec<u16>)> {
        let specs = self.specs.into_iter().collect::<Option<Vec<_>>>();
        let specs = specs.ok_or_else(|| Failure::server("a bind marker has no place in the plan"))?;
        Ok((specs, self.keys.into_iter().collect::<Option<Vec<_>>>().unwrap_or_default()))
    }
}

/// Whether a family of constants suits a type.
pub(crate) fn suits(family: Constant, cql_type: &CqlType) -> bool {
    use CqlType::*;
    match family {
        Constant::String => matches!(cql_type, Ascii | Text | Inet | Date | Time | Timestamp),
        Constant::Integer => matches!(
            cql_type,
            Bigint
                | Counter
                | Date
                | Decimal
                | Double
                | Duration
                | Float
                | Int
                | Smallint
                | Time
                | Timestamp
                | Tinyint
                | Varint
        ),
        Constant::Uuid => matches!(cql_type, Uuid | Timeuuid),
        Constant::Float => matches!(cql_type, Decimal | Double | Float),
        Constant::Boolean => matches!(cql_type, Boolean),
        Constant::Hex => matches!(cql_type, Blob),
        Constant::Duration => matches!(cql_type, Duration),
    }
}

/// Whether a value of type `given` may stand where `wanted` is: equal types, and those whose bytes mean the same.
pub(crate) fn assignable(wanted: &CqlType, given: &CqlType) -> bool {
    use CqlType::*;
    wanted == given
        || matches!(
            (wanted, given),
            (Blob, _)
                | (Text, Ascii)
                | (Uuid, Timeuuid)
                | (Varint, Int | Bigint)
                | (Timestamp | Time, Bigint)
                | (Bigint, Timestamp)
                | (Date, Int)
        )
}

/// Whether a term may stand where `wanted` is, as far as its form tells.
pub(crate) fn fits(term: &ast::Term, wanted: &CqlType, scope: &Scope) -> Result<bool> {
    Ok(match term {
        ast::Term::Constant(family, _) => suits(*family, wanted),
        ast::Term::Cast(type_name, _) => assignable(wanted, native_type(type_name, scope)?),
        ast::Term::Function { name, .. } if name == "now" => assignable(wanted, &CqlType::Timeuuid),
        ast::Term::Function { name, .. } if name == "uuid" => assignable(wanted, &CqlType::Uuid),
        ast::Term::Function { name, .. } if name == "token" => assignable(wanted, &CqlType::Bigint),
        ast::Term::Composite(_) => false,
        ast::Term::Function { .. } | ast::Term::Null | ast::Term::Marker(_) => true,
    })
}

/// The term for a place.
pub(crate) fn prepare_term(term: &ast::Term, receiver: &Receiver<'_>, markers: &mut Markers<'_>) -> Result<Term> {
    match term {
        ast::Term::Null => Ok(Term::Null),
        ast::Term::Constant(family, text) => constant(*family, text, receiver),
        ast::Term::Marker(marker) => {
            markers.bind(*marker, receiver);
            Ok(Term::Marker(*marker))
        }
        ast::Term::Function { keyspace, name, arguments } => {
            functions::call(keyspace.as_deref(), name, arguments, receiver, markers)
        }
        ast::Term::Cast(type_name, inner) => {
            let cql_type = native_type(type_name, receiver.scope)?;
            if !assignable(receiver.cql_type, cql_type) {
                return Err(Failure::invalid(format!(
                    "Cannot assign value {term} to {} of type {}",
                    receiver.name, receiver.cql_type
                )));
            }
            // The hint only says what is meant: the value is made for its place.
            prepare_term(inner, receiver, markers)
        }
        ast::Term::Composite(composite) => Err(wrong_composite(*composite, receiver)),
    }
}

/// The bytes of a constant.
fn constant(family: Constant, text: &str, receiver: &Receiver<'_>) -> Result<Term> {
    let cql_type = receiver.cql_type;
    if !suits(family, cql_type) {
        return Err(Failure::invalid(format!(
            "Invalid {} constant ({text}) for \"{}\" of type {cql_type}",
            family.name(),
            receiver.name
        )));
    }
    if family == Constant::Float && text.ends_with(|c: char| c.is_ascii_digit() || c == '.') {
        // A number beyond the largest double must not turn into infinity.
        let infinite = text.parse::<f64>().is_ok_and(f64::is_infinite);
        if infinite && *cql_type != CqlType::Decimal {
            return Err(Failure::invalid(format!("Unable to make {cql_type} from '{text}'")));
        }
    }
    let bytes = match family {
        Constant::String => from_quoted(cql_type, text),
        _ => from_bare(cql_type, text),
    };
    match bytes {
        Ok(bytes) => Ok(Term::Constant(bytes.into())),
        Err(ValueError(text)) => Err(Failure::invalid(text)),
    }
}

/// The type of a type hint: only native types can be meant.
pub(crate) fn native_type<'t>(type_name: &'t TypeName, scope: &Scope) -> Result<&'t CqlType> {
    match &type_name.kind {
        TypeKind::Native(cql_type) => Ok(cql_type),
        TypeKind::User { keyspace, name } => {
            let keyspace = keyspace.as_deref().unwrap_or(&scope.keyspace);
            Err(Failure::invalid(format!("Unknown type {keyspace}.{name}")))
        }
        TypeKind::Custom => Err(unsupported("custom types")),
        TypeKind::Collection { .. } | TypeKind::Tuple | TypeKind::Vector => {
            Err(unsupported("collection, tuple and vector literals"))
        }
    }
}

fn wrong_composite(composite: Composite, receiver: &Receiver<'_>) -> Failure {
    let Receiver { name, cql_type, .. } = receiver;
    // A collection's literal can only stand in a condition that would have to be filtered.
    if cql_type.is_collection() || matches!(cql_type, CqlType::Tuple(_)) {
        return unsupported("collection, tuple and vector literals");
    }
    Failure::invalid(match composite {
        Composite::List => format!("Unexpected receiver type '{cql_type}'; only list and vector are expected"),
        Composite::Set => format!("Invalid set literal for {name} of type {cql_type}"),
        Composite::Map => format!("Invalid map literal for {name} of type {cql_type}"),
        Composite::UserType => format!("Invalid user type literal for {name} of type {cql_type}"),
        Composite::Tuple => format!("Invalid tuple type literal for {name} of type {cql_type}"),
    })
}
