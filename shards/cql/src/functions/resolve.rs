//! Overload resolution as in Cassandra: a single overload is taken and checked; otherwise the first that fits exactly;
//! otherwise the only one that fits at all.

use super::factories::factory;
use super::operators::{OPERANDS, operator_of};
use super::{Call, Function, Scalar, TokenTypes, aggregates, is_aggregate_name, is_known, scalars};
use super::{LEGACY_TIMEUUID, wrong_arguments};
use crate::ast::{self, Arithmetic, NEGATION, Quoted, SYSTEM};
use crate::literal::{
    Markers, Receiver, Scope, assignable, in_parentheses, not_a_list, preferred_type, prepare_term, suits,
};
use crate::plan::Term;
use model::{CqlType, Failure};
use std::fmt::Display;

type Result<T> = std::result::Result<T, Failure>;

/// How well a value fits a type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fit {
    /// Not at all.
    No,
    /// Its bytes mean the same, or its form does not say.
    Weak,
    /// It is of this type.
    Exact,
}

impl Fit {
    /// The worst of several fits.
    pub(crate) fn all(fits: impl Iterator<Item = Result<Fit>>) -> Result<Fit> {
        let mut worst = Fit::Exact;
        for fit in fits {
            worst = worst.min(fit?);
            // Parts after one that does not fit are not checked.
            if worst == Fit::No {
                break;
            }
        }
        Ok(worst)
    }

    /// How well a value of type `given` fits `wanted`.
    pub(crate) fn of(wanted: &CqlType, given: &CqlType) -> Fit {
        if wanted == given {
            Fit::Exact
        } else if assignable(wanted, given) {
            Fit::Weak
        } else {
            Fit::No
        }
    }
}

/// An overload of a scalar function or an aggregate.
pub(crate) trait Candidate {
    /// Its full name: `system.todate`.
    fn name(&self) -> &str;
    /// The types of its arguments.
    fn arguments(&self) -> &[CqlType];
    /// The type of its result.
    fn result(&self) -> &CqlType;
}

impl Candidate for Function {
    fn name(&self) -> &str {
        &self.name
    }

    fn arguments(&self) -> &[CqlType] {
        &self.arguments
    }

    fn result(&self) -> &CqlType {
        &self.result
    }
}

/// What choosing an overload needs to know of an argument.
pub(crate) trait Argument: Display {
    /// How well it fits a type.
    fn fit(&self, wanted: &CqlType, scope: &Scope) -> Result<Fit>;
    /// Whether it is a bind marker.
    fn is_marker(&self) -> bool;
    /// The type that it has by itself, if any.
    fn known_type(&self, scope: &Scope) -> Result<Option<CqlType>>;
    /// The number of its elements, if it is a `[...]` in a selection.
    fn list_len(&self) -> Option<usize>;
    /// Its text in errors that are reported after its types were resolved.
    fn words(&self, _scope: &Scope) -> String {
        self.to_string()
    }
    /// Whether it is a descending clustering column, whose type Cassandra recognises neither as a collection nor as a
    /// vector.
    fn descends(&self) -> bool {
        false
    }
}

impl Argument for ast::Term {
    fn fit(&self, wanted: &CqlType, scope: &Scope) -> Result<Fit> {
        term_fit(self, wanted, scope)
    }

    fn is_marker(&self) -> bool {
        matches!(self, ast::Term::Marker(_))
    }

    fn known_type(&self, scope: &Scope) -> Result<Option<CqlType>> {
        known_type(self, scope)
    }

    fn words(&self, scope: &Scope) -> String {
        scope.qualified(self).to_string()
    }

    fn list_len(&self) -> Option<usize> {
        None
    }
}

/// A term with its fit to every type that an operand may have.
struct Operand<'t> {
    term: &'t ast::Term,
    /// The fit to each of [`OPERANDS`].
    fits: Vec<Result<Fit>>,
}

impl Display for Operand<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.term.fmt(f)
    }
}

impl Argument for Operand<'_> {
    fn fit(&self, wanted: &CqlType, scope: &Scope) -> Result<Fit> {
        match OPERANDS.iter().position(|operand| operand == wanted) {
            Some(at) => self.fits[at].clone(),
            None => term_fit(self.term, wanted, scope),
        }
    }

    fn is_marker(&self) -> bool {
        self.term.is_marker()
    }

    fn known_type(&self, scope: &Scope) -> Result<Option<CqlType>> {
        known_type(self.term, scope)
    }

    fn list_len(&self) -> Option<usize> {
        None
    }
}

impl<'t> Operand<'t> {
    /// Computes the fits of a term once, for an operation from those of its operands. Computing them for one type at a
    /// time would take exponential time in nested operations.
    fn of(term: &'t ast::Term, scope: &Scope) -> Operand<'t> {
        let fits = match term {
            ast::Term::Tuple(terms) if terms.len() == 1 => Operand::of(&terms[0], scope).fits,
            ast::Term::Function { keyspace, name, arguments } if is_operation(keyspace.as_deref(), name) => {
                let overloads = scalars(name, &TokenTypes::default(), None, None);
                let operands: Vec<Operand<'_>> = arguments.iter().map(|term| Operand::of(term, scope)).collect();
                let fit = |wanted| match pick_place("", &overloads, &operands, Some(wanted), scope) {
                    Ok(at) => Ok(Fit::of(wanted, &overloads[at].result)),
                    Err(_) => Ok(Fit::Weak),
                };
                OPERANDS.iter().map(fit).collect()
            }
            _ => OPERANDS.iter().map(|wanted| term_fit(term, wanted, scope)).collect(),
        };
        Operand { term, fits }
    }
}

/// Whether a function is an operator or the negative sign.
fn is_operation(keyspace: Option<&str>, name: &str) -> bool {
    keyspace.is_none_or(|keyspace| keyspace == SYSTEM) && (name == NEGATION || Arithmetic::of_function(name).is_some())
}

/// Chooses one of at least one overloads. `shown` is the name as written; `wanted` is the type of the call's place, if
/// it has one.
pub(crate) fn pick<C: Candidate>(
    shown: &str,
    mut candidates: Vec<C>,
    arguments: &[impl Argument],
    wanted: Option<&CqlType>,
    scope: &Scope,
) -> Result<C> {
    let at = pick_place(shown, &candidates, arguments, wanted, scope)?;
    Ok(candidates.swap_remove(at))
}

/// The index of the chosen overload.
fn pick_place<C: Candidate>(
    shown: &str,
    candidates: &[C],
    arguments: &[impl Argument],
    wanted: Option<&CqlType>,
    scope: &Scope,
) -> Result<usize> {
    if let [only] = candidates {
        check_arguments(only, arguments, scope)?;
        return Ok(0);
    }
    let signatures = |candidates: &[&C]| {
        let signatures: Vec<String> = candidates.iter().map(|candidate| signature(*candidate)).collect();
        signatures.join(", ")
    };
    let mut weak = Vec::new();
    for (at, candidate) in candidates.iter().enumerate() {
        let suits_place = wanted.is_none_or(|wanted| Fit::of(wanted, candidate.result()) != Fit::No);
        if !suits_place || candidate.arguments().len() != arguments.len() {
            continue;
        }
        let fits = arguments.iter().zip(candidate.arguments()).map(|(argument, wanted)| argument.fit(wanted, scope));
        match Fit::all(fits)? {
            Fit::Exact => return Ok(at),
            Fit::Weak => weak.push(at),
            Fit::No => {}
        }
    }
    let name = candidates.first().map_or("", Candidate::name);
    let operator = operator_of(name).map(Arithmetic::symbol);
    match (weak.as_slice(), operator, arguments) {
        ([only], ..) => Ok(*only),
        ([], Some(symbol), [left, right]) => {
            Err(Failure::invalid(format!("the '{symbol}' operation is not supported between {left} and {right}")))
        }
        ([], ..) => Err(Failure::invalid(format!(
            "Invalid call to function {shown}, none of its type signatures match (known type signatures: {})",
            signatures(&candidates.iter().collect::<Vec<_>>())
        ))),
        (several, Some(symbol), [left, right]) => {
            // Prefer the overload whose result has the type of the call's place.
            let of_place = several.iter().find(|at| {
                let of_place = |of: &CqlType| wanted.is_some_and(|wanted| of == wanted);
                candidates[**at].arguments().iter().all(of_place)
            });
            match of_place {
                Some(at) if !left.is_marker() && !right.is_marker() => Ok(*at),
                _ => Err(Failure::invalid(format!(
                    "Ambiguous '{symbol}' operation with args {left} and {right}: use type hint to disambiguate, \
                     example '(int) ?'"
                ))),
            }
        }
        _ if name == "system._negate" => Err(Failure::invalid("Ambiguous negation: use type casts to disambiguate")),
        (several, ..) => Err(Failure::invalid(format!(
            "Ambiguous call to function {shown} (can be matched by following signatures: {}): use type casts to \
             disambiguate",
            signatures(&several.iter().map(|at| &candidates[*at]).collect::<Vec<_>>())
        ))),
    }
}

/// The signature as errors show it: `system.todate : (timeuuid) -> date`.
fn signature(candidate: &impl Candidate) -> String {
    signature_of(candidate, |_| false)
}

/// The signature with constant arguments marked as such.
pub(crate) fn signature_of(candidate: &impl Candidate, is_constant: impl Fn(usize) -> bool) -> String {
    let constant = |at| if is_constant(at) { "(constant)" } else { "" };
    let arguments = candidate.arguments().iter().enumerate();
    let arguments: Vec<String> = arguments.map(|(at, argument)| format!("{argument}{}", constant(at))).collect();
    let (keyspace, name) = candidate.name().split_once('.').unwrap_or((SYSTEM, candidate.name()));
    format!("{keyspace}.{} : ({}) -> {}", Quoted(name), arguments.join(", "), candidate.result())
}

fn check_arguments(candidate: &impl Candidate, arguments: &[impl Argument], scope: &Scope) -> Result<()> {
    let (name, wanted) = (candidate.name(), candidate.arguments());
    if wanted.len() != arguments.len() {
        return Err(Failure::invalid(format!(
            "Invalid number of arguments in call to function {name}: {} required but {} provided",
            wanted.len(),
            arguments.len()
        )));
    }
    for (at, (argument, wanted)) in arguments.iter().zip(wanted).enumerate() {
        if argument.fit(wanted, scope)? == Fit::No {
            let argument = argument.words(scope);
            return Err(Failure::invalid(format!(
                "Type error: {argument} cannot be passed as argument {at} of function {name} of type {wanted}"
            )));
        }
    }
    Ok(())
}

/// How well a term fits `wanted`, as far as its form says.
pub(crate) fn term_fit(term: &ast::Term, wanted: &CqlType, scope: &Scope) -> Result<Fit> {
    let parts =
        |terms: &[ast::Term], wanted: &CqlType| Fit::all(terms.iter().map(|term| term_fit(term, wanted, scope)));
    Ok(match term {
        ast::Term::Null if *wanted == CqlType::Counter => Fit::No,
        ast::Term::Null | ast::Term::Marker(_) | ast::Term::Reference(_) => Fit::Weak,
        // A text may stand for a whole tuple.
        ast::Term::Constant(..) if matches!(wanted, CqlType::Tuple(_)) || wanted.is_class() => Fit::Weak,
        ast::Term::Constant(family, text) => match suits(*family, wanted) {
            true if preferred_type(*family, text) == *wanted => Fit::Exact,
            true => Fit::Weak,
            false => Fit::No,
        },
        ast::Term::Cast(type_name, _) => Fit::of(wanted, &scope.resolve(type_name)?),
        ast::Term::Function { keyspace, name, arguments } => {
            if is_unknown(keyspace.as_deref(), name) {
                // Errors are reported when it is prepared.
                return Ok(Fit::Weak);
            }
            match choose(keyspace.as_deref(), name, arguments, Some(wanted), scope) {
                // A generic function does not depend on its place.
                Ok(_) if factory(name).is_some() => Fit::Weak,
                Ok(function) => Fit::of(wanted, &function.result),
                Err(_) => Fit::Weak,
            }
        }
        ast::Term::List(terms) => match wanted {
            CqlType::List { element, .. } => parts(terms, element)?,
            CqlType::Vector { .. } => vector_fit(terms, wanted, scope)?,
            other => return Err(not_a_list(other)),
        },
        ast::Term::Set(terms) => match wanted {
            CqlType::Set { element, .. } => parts(terms, element)?,
            CqlType::Map { .. } if terms.is_empty() => Fit::Weak,
            _ => Fit::No,
        },
        ast::Term::Map(entries) => match wanted {
            CqlType::Map { key, value, .. } => Fit::all(entries.iter().map(|(entry_key, entry_value)| {
                Ok(term_fit(entry_key, key, scope)?.min(term_fit(entry_value, value, scope)?))
            }))?,
            _ => Fit::No,
        },
        ast::Term::Tuple(terms) if in_parentheses(terms, wanted).is_some() => parts(terms, wanted)?,
        ast::Term::Tuple(terms) => match wanted {
            CqlType::Tuple(elements) if terms.len() <= elements.len() => {
                Fit::all(terms.iter().zip(elements).map(|(term, element)| term_fit(term, element, scope)))?
            }
            // Refused when it is prepared, after its parts.
            CqlType::User { definition, .. } if terms.len() <= definition.fields.len() => {
                let fields = definition.field_types();
                Fit::all(terms.iter().zip(fields).map(|(term, field)| term_fit(term, field, scope)))?
            }
            _ => Fit::No,
        },
        ast::Term::UserType(fields) => match wanted {
            CqlType::User { definition, .. } => {
                let known = fields.iter().filter_map(|(name, term)| {
                    let (_, field_type) = definition.fields.iter().find(|(field, _)| field == name)?;
                    Some(term_fit(term, field_type, scope))
                });
                Fit::all(known)?
            }
            _ => Fit::No,
        },
    })
}

fn vector_fit(terms: &[ast::Term], wanted: &CqlType, scope: &Scope) -> Result<Fit> {
    match wanted {
        CqlType::Vector { element, dimension } if terms.len() == *dimension as usize => {
            Fit::all(terms.iter().map(|term| term_fit(term, element, scope)))
        }
        _ => Ok(Fit::No),
    }
}

/// The type that a term has by itself, if any.
fn known_type(term: &ast::Term, scope: &Scope) -> Result<Option<CqlType>> {
    Ok(match term {
        ast::Term::Cast(type_name, _) => Some(scope.resolve(type_name)?),
        ast::Term::Constant(family, text) => Some(preferred_type(*family, text)),
        ast::Term::Function { keyspace, name, arguments } => {
            choose(keyspace.as_deref(), name, arguments, None, scope).ok().map(|function| function.result)
        }
        _ => None,
    })
}

/// Whether there is no function with this name.
fn is_unknown(keyspace: Option<&str>, name: &str) -> bool {
    let known = || is_known(name) || is_aggregate_name(name) || name == "token";
    keyspace.is_some_and(|keyspace| keyspace != "system") || !known()
}

/// The overload that a call with these terms means.
fn choose(
    keyspace: Option<&str>,
    name: &str,
    arguments: &[ast::Term],
    wanted: Option<&CqlType>,
    scope: &Scope,
) -> Result<Function> {
    let qualifier = keyspace.map(|keyspace| format!("{keyspace}.")).unwrap_or_default();
    if is_unknown(keyspace, name) {
        return Err(Failure::invalid(format!("Unknown function {qualifier}{name} called")));
    }
    if is_aggregate_name(name) {
        return Err(refused_aggregate(name, arguments, wanted, scope)?);
    }
    if matches!(name, "tojson" | "to_json") && arguments.len() != 1 {
        return Err(wrong_arguments(name, "any"));
    }
    if matches!(name, "fromjson" | "from_json") {
        let [argument] = arguments else { return Err(wrong_arguments(name, "text")) };
        if let Some(given) = known_type(argument, scope)?
            && Fit::of(&CqlType::Text, &given) == Fit::No
        {
            return Err(Failure::invalid(format!(
                "Function system.{name} requires an argument of type text, but found argument {argument} of type {given}"
            )));
        }
    }
    if let Some(factory) = factory(name) {
        let made = factory.build(arguments, wanted, scope)?;
        return pick(&format!("{qualifier}{name}"), vec![made], arguments, wanted, scope);
    }
    let first = arguments.first().map(|argument| known_type(argument, scope)).transpose()?.flatten();
    let candidates = scalars(name, &scope.token_types(), first.as_ref(), wanted);
    if candidates.is_empty() {
        return Err(match arguments.first() {
            Some(argument) => Failure::invalid(format!(
                "Cannot infer type of argument {argument} in call to function system.{name}(any): use type casts to \
                 disambiguate"
            )),
            None => wrong_arguments(name, "any"),
        });
    }
    let shown = format!("{qualifier}{name}");
    if is_operation(keyspace, name) {
        let operands: Vec<Operand<'_>> = arguments.iter().map(|term| Operand::of(term, scope)).collect();
        return pick(&shown, candidates, &operands, wanted, scope);
    }
    pick(&shown, candidates, arguments, wanted, scope)
}

/// The failure for a call of an aggregate outside a selection, or the error for its arguments, which comes first.
fn refused_aggregate(name: &str, arguments: &[ast::Term], wanted: Option<&CqlType>, scope: &Scope) -> Result<Failure> {
    let argument = match name {
        "min" | "max" => {
            let [argument] = arguments else { return Err(wrong_arguments(name, "any")) };
            known_type(argument, scope)?.or_else(|| wanted.cloned()).unwrap_or(CqlType::Blob)
        }
        _ => CqlType::Blob,
    };
    pick(name, aggregates(name, &argument), arguments, wanted.filter(|_| name != "count"), scope)?;
    Ok(Failure::invalid("Aggregation function are not supported in the where clause"))
}

/// Prepares a call as a term for a place. Markers among its arguments are named `argN(system.name)`, or by
/// `marker_name`.
pub(crate) fn call(
    keyspace: Option<&str>,
    name: &str,
    arguments: &[ast::Term],
    receiver: &Receiver<'_>,
    marker_name: Option<&str>,
    markers: &mut Markers<'_>,
) -> Result<Term> {
    let Receiver { scope, .. } = *receiver;
    let function = choose(keyspace, name, arguments, Some(receiver.cql_type), scope)?;
    if Fit::of(receiver.cql_type, &function.result) == Fit::No {
        return Err(Failure::invalid(format!(
            "Type error: cannot assign result of function {} (type {}) to {} (type {})",
            function.name, function.result, receiver.name, receiver.cql_type
        )));
    }
    let mut prepared = Vec::with_capacity(arguments.len());
    for (at, (argument, wanted)) in arguments.iter().zip(&function.arguments).enumerate() {
        let own_name;
        let name = match marker_name {
            Some(name) => name,
            None => {
                own_name = format!("arg{at}({})", function.name);
                &own_name
            }
        };
        let term = prepare_term(argument, &Receiver { scope, name, cql_type: wanted }, markers)?;
        if let (Term::Marker(marker), CqlType::Timeuuid, Scalar::ToBlob) = (&term, wanted, function.body) {
            markers.show_as(*marker, LEGACY_TIMEUUID);
        }
        prepared.push((term, wanted.clone()));
    }
    Ok(Term::Call(Box::new(Call { function, arguments: prepared })))
}
