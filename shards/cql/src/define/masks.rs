//! Masks of columns: from `MASKED WITH function(arguments)` to the mask that is stored.
//!
//! 1. The overload of the function is chosen for the column's type and the arguments as written.
//! 2. It must be a masking function that gives the column's type.
//! 3. The arguments are evaluated once: a mask has values, not terms.

use super::{DefinitionContext, Result};
use crate::ast::{self, Mask};
use crate::functions::{Argument, Candidate, Fit, Scalar, aggregates, factory, is_aggregate_name, is_known};
use crate::functions::{pick, scalars};
use crate::literal::{Markers, Receiver, Scope, prepare_term};
use crate::plan::{EvaluationContext, Value};
use model::{ColumnMask, CqlType, Failure, Keyspace, Partitioner, Table};
use std::fmt;
use std::sync::Arc;

/// Cassandra's refusal where masks are switched off.
const SWITCHED_OFF: &str = "Cannot mask columns because dynamic data masking is not enabled. You can enable it with \
                            the dynamic_data_masking_enabled property on cassandra.yaml";
const NOT_EVERYWHERE: &str = "Cannot mask columns while some nodes of the cluster run a version without masks";

/// Whether a node lets columns be masked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Masking {
    /// The operator has not switched masks on, as in a stock Cassandra.
    SwitchedOff,
    /// Some nodes of the cluster would show what is masked.
    NotEverywhere,
    /// It does.
    On,
}

/// Refuses a definition that masks a column where that is not possible.
pub(super) fn check_allowed(definition: &ast::Definition, masking: Masking) -> Result<()> {
    let masks = match definition {
        ast::Definition::CreateTable(create) => create.columns.iter().any(|column| column.mask.is_some()),
        ast::Definition::AlterTable(alter) => match &alter.change {
            ast::TableChange::Add { columns, .. } => columns.iter().any(|column| column.mask.is_some()),
            ast::TableChange::Mask { .. } => true,
            _ => false,
        },
        _ => false,
    };
    match masking {
        Masking::SwitchedOff if masks => Err(Failure::invalid(SWITCHED_OFF)),
        Masking::NotEverywhere if masks => Err(Failure::invalid(NOT_EVERYWHERE)),
        _ => Ok(()),
    }
}

/// Sets the mask of a column that exists.
pub(super) fn set(
    table: &mut Table,
    column: &str,
    mask: &Mask,
    keyspace: &Arc<Keyspace>,
    partitioner: Partitioner,
    site: &DefinitionContext<'_>,
) -> Result<()> {
    let scope = Scope::new(partitioner, Arc::new(table.clone()), Some(keyspace.clone()));
    if let Some(column) = scope.table.column(column) {
        let resolved = resolve(mask, &column.name, &column.cql_type, &scope, site)?;
        table.masks.insert(column.id, Arc::new(resolved));
    }
    Ok(())
}

/// The mask of a column as it is stored. For a column that is not added after all, so that an error is told anyway.
pub(super) fn resolve(
    mask: &Mask,
    column: &str,
    cql_type: &CqlType,
    scope: &Scope,
    site: &DefinitionContext<'_>,
) -> Result<ColumnMask> {
    let shown = Shown(mask);
    let Mask { keyspace, function: name, arguments } = mask;
    let is_builtin = keyspace.as_deref().is_none_or(|keyspace| keyspace == ast::SYSTEM);
    if !is_builtin || !is_known(name) && !is_aggregate_name(name) && name != "token" {
        return Err(Failure::invalid(format!(
            "Unable to find masking function for {column}, no declared function matches the signature {shown}"
        )));
    }
    let masked = std::iter::once(MaskArgument::Column(cql_type));
    let asked: Vec<MaskArgument<'_>> = masked.chain(arguments.iter().map(MaskArgument::Term)).collect();
    let qualifier = keyspace.as_ref().map(|keyspace| format!("{keyspace}.")).unwrap_or_default();
    let full_name = format!("{qualifier}{name}");
    if is_aggregate_name(name) {
        pick(&full_name, aggregates(name, cql_type), &asked, None, scope)?;
        return Err(Failure::invalid(format!("Aggregate function {shown} cannot be used for masking table columns")));
    }
    let candidates = match factory(name) {
        Some(factory) => vec![factory.build(&asked, None, scope)?],
        None => scalars(name, &scope.token_types(), Some(cql_type), None),
    };
    let function = match candidates.is_empty() {
        true => None,
        false => Some(pick(&full_name, candidates, &asked, None, scope)?),
    };
    let Some(function) = function.filter(|function| matches!(function.body, Scalar::Mask(_))) else {
        return Err(Failure::invalid(format!("Not-masking function {shown} cannot be used for masking table columns")));
    };
    if *function.result() != *cql_type {
        return Err(Failure::invalid(format!(
            "Masking function {shown} return type is {}. This is different to the type of the masked column {column} of \
             type {cql_type}. Masking functions can only be attached to table columns if they return the same data type \
             as the masked column.",
            function.result()
        )));
    }
    let mut values = Vec::with_capacity(arguments.len());
    for (term, cql_type) in arguments.iter().zip(&function.arguments[1..]) {
        let receiver = Receiver { scope, name: "mask", cql_type };
        let prepared = prepare_term(term, &receiver, &mut Markers::new(&[]))?;
        let value = match prepared.evaluate(cql_type, &[], &mut Once(site))? {
            Value::Bytes(bytes) => Some(bytes.into_owned()),
            Value::Null | Value::Unset => None,
        };
        values.push((cql_type.clone(), value));
    }
    Ok(ColumnMask { function: name.clone(), arguments: values })
}

/// A mask as errors show it.
struct Shown<'m>(&'m Mask);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mask { keyspace, function, arguments } = self.0;
        if let Some(keyspace) = keyspace {
            write!(f, "{keyspace}.")?;
        }
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        write!(f, "{function}({})", arguments.join(", "))
    }
}

/// An argument of a masking function: the masked column, or one that is written.
enum MaskArgument<'m> {
    Column(&'m CqlType),
    Term(&'m ast::Term),
}

impl fmt::Display for MaskArgument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Cassandra shows the class of the type.
            MaskArgument::Column(cql_type) => f.write_str(&cql_type.class_name()),
            MaskArgument::Term(term) => term.fmt(f),
        }
    }
}

impl Argument for MaskArgument<'_> {
    fn fit(&self, wanted: &CqlType, scope: &Scope) -> Result<Fit> {
        match self {
            MaskArgument::Column(cql_type) => Ok(Fit::of(wanted, cql_type)),
            MaskArgument::Term(term) => term.fit(wanted, scope),
        }
    }

    fn is_marker(&self) -> bool {
        matches!(self, MaskArgument::Term(term) if term.is_marker())
    }

    fn known_type(&self, scope: &Scope) -> Result<Option<CqlType>> {
        match self {
            MaskArgument::Column(cql_type) => Ok(Some((*cql_type).clone())),
            MaskArgument::Term(term) => term.known_type(scope),
        }
    }

    fn list_len(&self) -> Option<usize> {
        None
    }
}

/// What arguments are evaluated with: the time of the change, and ids made of the one that came with it.
struct Once<'s>(&'s DefinitionContext<'s>);

impl EvaluationContext for Once<'_> {
    fn wall_micros(&mut self) -> i64 {
        self.0.now_micros
    }

    fn timeuuid(&mut self) -> [u8; 16] {
        const VERSION: usize = 6;
        let mut id = self.uuid();
        id[VERSION] = 0x10 | id[VERSION] & 0x0f;
        id
    }

    fn uuid(&mut self) -> [u8; 16] {
        self.0.new_id.0
    }
}
