//! From terms as written to terms of a plan: constants become bytes of the type of their place, markers get a
//! description, function calls are resolved.
//!
//! The kind of a constant must first suit the type (`Invalid STRING constant (abc) for "v" of type int`); then
//! `model::text` makes the bytes and reports errors in the text.

mod references;

pub(crate) use references::{Referenced, References, resolve as resolve_reference};

use crate::ast::{self, Constant, TypeName};
use crate::functions::{self, Fit, TokenTypes, term_fit};
use crate::plan::{Composite, Term, encode_composite, part_type};
use crate::types;
use model::schema::TableOptions;
use model::text::{from_bare, from_quoted};
use model::types::UserType;
use model::value::ValueError;
use model::{ColumnSpec, CqlType, Failure, Keyspace, Partitioner, Table, TableId};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Result<T> = std::result::Result<T, Failure>;

/// The table of a statement, with its names ready to be shared by column specs.
pub(crate) struct Scope {
    pub(crate) partitioner: Partitioner,
    pub(crate) table: Arc<Table>,
    keyspace: Arc<str>,
    name: Arc<str>,
    /// The keyspace in which user types are found; `None` in a batch without statements.
    definition: Option<Arc<Keyspace>>,
}

impl Scope {
    pub(crate) fn new(partitioner: Partitioner, table: Arc<Table>, definition: Option<Arc<Keyspace>>) -> Scope {
        let (keyspace, name) = (table.keyspace.as_str().into(), table.name.as_str().into());
        Scope { partitioner, keyspace, name, table, definition }
    }

    /// Resolves a type name in the table's keyspace.
    pub(crate) fn resolve(&self, type_name: &TypeName) -> Result<CqlType> {
        let found = types::resolve_in(type_name, &self.keyspace, self.definition.as_deref())?;
        types::check_size(&found)?;
        Ok(found)
    }

    /// A term as errors show it after its types have been resolved.
    pub(crate) fn qualified(&self, term: &ast::Term) -> ast::Term {
        term.qualified(&self.keyspace)
    }

    /// A selector as errors show it after its types have been resolved.
    pub(crate) fn qualified_selector(&self, selector: &ast::Selector) -> ast::Selector {
        selector.qualified(&self.keyspace)
    }

    /// What `token` takes and gives for keys of the table.
    pub(crate) fn token_types(&self) -> TokenTypes {
        let key = self.table.partition_key().iter().map(|column| column.cql_type.clone()).collect();
        TokenTypes { partitioner: self.partitioner, key }
    }

    /// The scope of a batch's own terms; Cassandra uses these names for its markers.
    pub(crate) fn of_batch() -> Scope {
        let table = Table {
            id: TableId([0; 16]),
            keyspace: "[batch]".into(),
            name: "[batch]".into(),
            columns: Vec::new(),
            partition_key_len: 0,
            clustering_len: 0,
            static_len: 0,
            layout: model::schema::Layout::Plain,
            dropped: Vec::new(),
            indexes: Vec::new(),
            masks: Default::default(),
            options: TableOptions::default(),
        };
        Scope::new(Partitioner::default(), Arc::new(table), None)
    }

    pub(crate) fn spec(&self, name: &str, cql_type: CqlType) -> ColumnSpec {
        let (keyspace, table) = (self.keyspace.clone(), self.name.clone());
        ColumnSpec { keyspace, table, name: name.into(), cql_type, class: None }
    }
}

/// The place that a value is for: its type and name.
#[derive(Clone, Copy)]
pub(crate) struct Receiver<'a> {
    pub(crate) scope: &'a Scope,
    /// Its name in errors and markers: a column's name, `[limit]`, `partition key token`.
    pub(crate) name: &'a str,
    pub(crate) cql_type: &'a CqlType,
}

/// The markers of a statement, described as their places become known.
pub(crate) struct Markers<'a> {
    names: &'a [Option<String>],
    specs: Vec<Option<ColumnSpec>>,
    /// The last marker that alone gives the value of each partition key column.
    pub(crate) keys: Vec<Option<u16>>,
    /// In a transaction: what values may refer to.
    pub(crate) references: Option<Box<References>>,
}

impl<'a> Markers<'a> {
    pub(crate) fn new(names: &'a [Option<String>]) -> Markers<'a> {
        Markers { names, specs: vec![None; names.len()], keys: Vec::new(), references: None }
    }

    /// Describes a marker by its place. A name given in the text takes precedence.
    pub(crate) fn bind(&mut self, marker: u16, receiver: &Receiver<'_>) {
        self.bind_as(marker, receiver.scope, receiver.name, receiver.cql_type.clone());
    }

    /// Describes a marker by a name and type of its own: `in(pk)`, a list.
    pub(crate) fn bind_as(&mut self, marker: u16, scope: &Scope, name: &str, cql_type: CqlType) {
        let at = marker as usize;
        let name = self.names.get(at).and_then(Option::as_deref).unwrap_or(name);
        if let Some(spec) = self.specs.get_mut(at) {
            *spec = Some(scope.spec(name, cql_type));
        }
    }

    /// Sets the class that clients see in place of a described marker's type.
    pub(crate) fn show_as(&mut self, marker: u16, class: &'static str) {
        if let Some(Some(spec)) = self.specs.get_mut(marker as usize) {
            spec.class = Some(class);
        }
    }

    /// Records that `term` alone gives the partition key column `position` of `count`.
    pub(crate) fn key(&mut self, position: usize, count: usize, term: &Term) {
        if let Term::Marker(marker) = term {
            self.keys.resize(count, None);
            self.keys[position] = Some(*marker);
        }
    }

    /// Markers of the same names, to be described once more.
    pub(crate) fn again(&self) -> Markers<'a> {
        Markers::new(self.names)
    }

    /// The number of markers of the statement.
    pub(crate) fn len(&self) -> usize {
        self.specs.len()
    }

    /// The descriptions of the markers, in order. Every marker has one, or preparing would have failed.
    pub(crate) fn finish(self) -> Result<(Vec<ColumnSpec>, Vec<u16>)> {
        let specs = self.specs.into_iter().collect::<Option<Vec<_>>>();
        let specs = specs.ok_or_else(|| Failure::server("a bind marker has no place in the plan"))?;
        Ok((specs, self.keys.into_iter().collect::<Option<Vec<_>>>().unwrap_or_default()))
    }
}

/// Whether a kind of constants suits a type. Tuples and types that are written as classes take the text of any.
pub(crate) fn suits(family: Constant, cql_type: &CqlType) -> bool {
    use CqlType::*;
    match family {
        _ if matches!(cql_type, Tuple(_)) || cql_type.is_class() => true,
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
        // Cassandra treats a blob without a wanted type as a tinyint.
        Constant::Hex => matches!(cql_type, Blob | Tinyint),
        Constant::Duration => matches!(cql_type, Duration),
    }
}

/// Whether a value of type `given` may be used where `wanted` is: equal types, and types whose bytes mean the same.
pub(crate) fn assignable(wanted: &CqlType, given: &CqlType) -> bool {
    use CqlType::*;
    wanted == given
        || matches!(
            (wanted, given),
            (Blob, _)
                | (Text, Ascii)
                | (Uuid, Timeuuid)
                | (Varint, Int | Bigint | Timestamp)
                | (Timestamp | Time, Bigint)
                | (Bigint, Timestamp)
                | (Date, Int)
        )
        || components_assignable(wanted, given)
}

/// Whether `wanted` is a tuple or composite type whose first components take what those of `given` hold. A user type is
/// a tuple of its fields.
fn components_assignable(wanted: &CqlType, given: &CqlType) -> bool {
    use CqlType::*;
    let prefix = match (wanted, given) {
        (Tuple(_), Tuple(_) | User { .. }) | (Composite(_), Composite(_)) => {
            wanted.parts().into_iter().zip(given.parts())
        }
        _ => return false,
    };
    wanted.parts().len() >= given.parts().len() && prefix.into_iter().all(|(wanted, given)| assignable(wanted, given))
}

/// The type that a constant has by itself.
pub(crate) fn preferred_type(family: Constant, text: &str) -> CqlType {
    match family {
        Constant::String if text.is_ascii() => CqlType::Ascii,
        Constant::String => CqlType::Text,
        Constant::Integer if text.parse::<i32>().is_ok() => CqlType::Int,
        Constant::Integer if text.parse::<i64>().is_ok() => CqlType::Bigint,
        Constant::Integer => CqlType::Varint,
        // The version is the first digit of the uuid's third group.
        Constant::Uuid if text.as_bytes().get(14) == Some(&b'1') => CqlType::Timeuuid,
        Constant::Uuid => CqlType::Uuid,
        Constant::Float => match text.parse::<f64>() {
            Ok(number) if number.is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit()) => CqlType::Decimal,
            _ => CqlType::Double,
        },
        Constant::Boolean => CqlType::Boolean,
        Constant::Hex => CqlType::Tinyint,
        Constant::Duration => CqlType::Duration,
    }
}

/// Prepares a term for a place.
pub(crate) fn prepare_term(term: &ast::Term, receiver: &Receiver<'_>, markers: &mut Markers<'_>) -> Result<Term> {
    let Receiver { scope, name, cql_type } = *receiver;
    match term {
        ast::Term::Null if *cql_type == CqlType::Counter => {
            Err(Failure::invalid("Invalid null value for counter increment/decrement"))
        }
        ast::Term::Null => Ok(Term::Null),
        ast::Term::Constant(family, text) => constant(*family, text, receiver),
        ast::Term::Marker(marker) => {
            markers.bind(*marker, receiver);
            Ok(Term::Marker(*marker))
        }
        ast::Term::Function { keyspace, name, arguments } => {
            functions::call(keyspace.as_deref(), name, arguments, receiver, None, markers)
        }
        ast::Term::Cast(type_name, inner) => {
            let given = scope.resolve(type_name)?;
            if term_fit(inner, &given, scope)? == Fit::No {
                let (inner, type_name) = (scope.qualified(inner), type_name.qualified(&scope.keyspace));
                return Err(Failure::invalid(format!("Cannot cast value {inner} to type {type_name}")));
            }
            if !assignable(cql_type, &given) {
                let term = scope.qualified(term);
                return Err(Failure::invalid(format!("Cannot assign value {term} to {name} of type {cql_type}")));
            }
            // The hint only selects a meaning; the value has the type of its place.
            prepare_term(inner, receiver, markers)
        }
        ast::Term::List(terms) => list(terms, receiver, markers),
        ast::Term::Set(terms) => set(terms, receiver, markers),
        ast::Term::Map(entries) => map(entries, receiver, markers),
        ast::Term::Tuple(terms) => match in_parentheses(terms, cql_type) {
            Some(inner) => prepare_term(inner, receiver, markers),
            None => tuple(terms, receiver, markers),
        },
        ast::Term::UserType(fields) => user_type(fields, receiver, markers),
        ast::Term::Reference(reference) => references::prepare_value(reference, receiver, markers),
    }
}

/// The failure of a list literal for any other type, also if only its fit is asked.
pub(crate) fn not_a_list(cql_type: &CqlType) -> Failure {
    Failure::invalid(format!("Unexpected receiver type '{cql_type}'; only list and vector are expected"))
}

/// Prepares `[a, b]`: a list or a vector.
fn list(terms: &[ast::Term], receiver: &Receiver<'_>, markers: &mut Markers<'_>) -> Result<Term> {
    let Receiver { scope, name, cql_type } = *receiver;
    let (kind, element) = match cql_type {
        CqlType::List { element, .. } => ("list", element),
        CqlType::Vector { element, dimension } => {
            if terms.len() != *dimension as usize {
                return Err(Failure::invalid(format!(
                    "Invalid vector literal for {name} of type {cql_type}; expected {dimension} elements, but given {}",
                    terms.len()
                )));
            }
            ("vector", element)
        }
        _ => return Err(not_a_list(cql_type)),
    };
    for term in terms {
        if term_fit(term, element, scope)? == Fit::No {
            let term = scope.qualified(term);
            return Err(Failure::invalid(format!(
                "Invalid {kind} literal for {name}: value {term} is not of type {element}"
            )));
        }
    }
    let parts = elements(terms, element, kind, receiver, markers)?;
    composite(cql_type, parts)
}

fn set(terms: &[ast::Term], receiver: &Receiver<'_>, markers: &mut Markers<'_>) -> Result<Term> {
    let Receiver { scope, name, cql_type } = *receiver;
    let element = match cql_type {
        CqlType::Set { element, .. } => element,
        // `{}` may also be an empty map.
        CqlType::Map { .. } if terms.is_empty() => return composite(cql_type, Vec::new()),
        _ => return Err(Failure::invalid(format!("Invalid set literal for {name} of type {cql_type}"))),
    };
    for term in terms {
        if term_fit(term, element, scope)? == Fit::No {
            let term = scope.qualified(term);
            return Err(Failure::invalid(format!(
                "Invalid set literal for {name}: value {term} is not of type {element}"
            )));
        }
    }
    let parts = elements(terms, element, "set", receiver, markers)?;
    composite(cql_type, parts)
}

fn map(entries: &[(ast::Term, ast::Term)], receiver: &Receiver<'_>, markers: &mut Markers<'_>) -> Result<Term> {
    let Receiver { scope, name, cql_type } = *receiver;
    let CqlType::Map { key, value, .. } = cql_type else {
        return Err(Failure::invalid(format!("Invalid map literal for {name} of type {cql_type}")));
    };
    for (entry_key, entry_value) in entries {
        for (word, term, wanted) in [("key", entry_key, key), ("value", entry_value, value)] {
            if term_fit(term, wanted, scope)? == Fit::No {
                let term = scope.qualified(term);
                return Err(Failure::invalid(format!(
                    "Invalid map literal for {name}: {word} {term} is not of type {wanted}"
                )));
            }
        }
    }
    let mut parts = Vec::with_capacity(2 * entries.len());
    for (entry_key, entry_value) in entries {
        for (part_name, term, wanted) in
            [(format!("key({name})"), entry_key, key), (format!("value({name})"), entry_value, value)]
        {
            let term = prepare_term(term, &Receiver { scope, name: &part_name, cql_type: wanted }, markers)?;
            refuse_markers(&term, "map", name)?;
            parts.push(term);
        }
    }
    composite(cql_type, parts)
}

/// The term inside `(term)`, unless a tuple, or a user type, which Cassandra treats as one, is wanted.
pub(crate) fn in_parentheses<'t>(terms: &'t [ast::Term], wanted: &CqlType) -> Option<&'t ast::Term> {
    match terms {
        [inner] if !matches!(wanted, CqlType::Tuple(_) | CqlType::User { .. }) => Some(inner),
        _ => None,
    }
}

fn tuple(terms: &[ast::Term], receiver: &Receiver<'_>, markers: &mut Markers<'_>) -> Result<Term> {
    let Receiver { scope, name, cql_type } = *receiver;
    let wrong = || Failure::invalid(format!("Invalid tuple type literal for {name} of type {cql_type}"));
    let types: Vec<&CqlType> = match cql_type {
        CqlType::Tuple(types) => types.iter().collect(),
        // Cassandra treats it as a tuple until it has checked the parts.
        CqlType::User { definition, .. } => definition.field_types().collect(),
        _ => return Err(wrong()),
    };
    for (at, term) in terms.iter().enumerate() {
        let Some(wanted) = types.get(at).copied() else {
            return Err(Failure::invalid(format!(
                "Invalid tuple literal for {name}: too many elements. Type {cql_type} expects {} but got {}",
                types.len(),
                terms.len()
            )));
        };
        if term_fit(term, wanted, scope)? == Fit::No {
            return Err(Failure::invalid(format!(
                "Invalid tuple literal for {name}: component {at} is not of type {wanted}"
            )));
        }
    }
    let mut parts = Vec::with_capacity(terms.len());
    for (at, (term, wanted)) in terms.iter().zip(types).enumerate() {
        let name = format!("{name}[{at}]");
        parts.push(prepare_term(term, &Receiver { scope, name: &name, cql_type: wanted }, markers)?);
    }
    if let CqlType::User { .. } = cql_type {
        return Err(wrong());
    }
    composite(cql_type, parts)
}

/// Fails for a field that the type does not have.
fn refuse_unknown_fields<T>(fields: &[(String, T)], definition: &UserType) -> Result<()> {
    let known: BTreeSet<&str> = definition.fields.iter().map(|(field, _)| field.as_str()).collect();
    let is_unknown = |(field, _): &&(String, T)| !known.contains(field.as_str());
    if !fields.iter().any(|field| is_unknown(&field)) {
        return Ok(());
    }
    match ast::in_hash_order(fields).into_iter().find(is_unknown) {
        Some((unknown, _)) => Err(Failure::invalid(format!(
            "Unknown field '{unknown}' in value of user defined type {}",
            definition.name
        ))),
        None => Ok(()),
    }
}

fn user_type(fields: &[(String, ast::Term)], receiver: &Receiver<'_>, markers: &mut Markers<'_>) -> Result<Term> {
    let Receiver { scope, name, cql_type } = *receiver;
    let CqlType::User { definition, .. } = cql_type else {
        return Err(Failure::invalid(format!("Invalid user type literal for {name} of type {cql_type}")));
    };
    // Of a field given twice the last value counts; a field that is not given is null.
    let terms: BTreeMap<&str, &ast::Term> = fields.iter().map(|(field, term)| (field.as_str(), term)).collect();
    let given = |field: &str| terms.get(field).copied();
    for (field, wanted) in &definition.fields {
        if let Some(term) = given(field)
            && term_fit(term, wanted, scope)? == Fit::No
        {
            return Err(Failure::invalid(format!(
                "Invalid user type literal for {name}: field {field} is not of type {wanted}"
            )));
        }
    }
    let mut parts = Vec::with_capacity(definition.fields.len());
    for (field, wanted) in &definition.fields {
        parts.push(match given(field) {
            Some(term) => {
                let name = format!("{name}.{field}");
                prepare_term(term, &Receiver { scope, name: &name, cql_type: wanted }, markers)?
            }
            None => Term::Null,
        });
    }
    // Checked here as in Cassandra, which counts the fields that it has found.
    refuse_unknown_fields(fields, definition)?;
    composite(cql_type, parts)
}

/// Prepares the elements of a literal.
fn elements(
    terms: &[ast::Term],
    element: &CqlType,
    kind: &str,
    receiver: &Receiver<'_>,
    markers: &mut Markers<'_>,
) -> Result<Vec<Term>> {
    let name = format!("value({})", receiver.name);
    let place = Receiver { scope: receiver.scope, name: &name, cql_type: element };
    let mut parts = Vec::with_capacity(terms.len());
    for term in terms {
        let term = prepare_term(term, &place, markers)?;
        if kind != "vector" {
            refuse_markers(&term, kind, receiver.name)?;
        }
        parts.push(term);
    }
    Ok(parts)
}

fn refuse_markers(term: &Term, kind: &str, name: &str) -> Result<()> {
    if term.has_marker() {
        return Err(Failure::invalid(format!(
            "Invalid {kind} literal for {name}: bind variables are not supported inside collection literals"
        )));
    }
    Ok(())
}

/// A value with parts; a constant if all its parts are constants.
fn composite(cql_type: &CqlType, parts: Vec<Term>) -> Result<Term> {
    if parts.iter().all(|part| matches!(part, Term::Null | Term::Constant(_))) {
        let constants = parts.iter().map(|part| match part {
            Term::Constant(bytes) => Some(Cow::Borrowed(&**bytes)),
            _ => None,
        });
        return Ok(Term::Constant(encode_composite(cql_type, constants.collect())?.into()));
    }
    debug_assert!(parts.len() <= 1 || part_type(cql_type, 1).is_some(), "{cql_type} has no parts");
    Ok(Term::Composite(Box::new(Composite { cql_type: cql_type.clone(), parts })))
}

/// Encodes a constant.
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
        // A number beyond the largest double must not become infinity.
        let infinite = text.parse::<f64>().is_ok_and(f64::is_infinite);
        if infinite && matches!(cql_type, CqlType::Double | CqlType::Float) {
            return Err(Failure::invalid(format!("Unable to make {cql_type} from '{text}'")));
        }
    }
    let bytes = match family {
        Constant::String => from_quoted(cql_type, text),
        // Cassandra would store any bytes here.
        Constant::Hex if *cql_type != CqlType::Blob => {
            from_bare(&CqlType::Blob, text).and_then(|bytes| model::value::validate(cql_type, &bytes).map(|()| bytes))
        }
        _ => from_bare(cql_type, text),
    };
    match bytes {
        Ok(bytes) => Ok(Term::Constant(bytes.into())),
        Err(ValueError(text)) => Err(Failure::invalid(text)),
    }
}
