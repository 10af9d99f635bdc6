//! Which overload a call means, as Cassandra chooses: the only one there is, checked; or the first that fits exactly;
//! or the only one that fits at all.

use super::factories::factory;
use super::operators::{OPERANDS, operator_of};
use super::{Call, Function, Scalar, is_known, scalars};
use crate::ast::{self, Arithmetic, NEGATION, Quoted, SYSTEM};
use crate::literal::{
    Markers, Receiver, Scope, assignable, in_parentheses, not_a_list, preferred_type, prepare_term, suits,
};
use crate::plan::Term;
use crate::selection::{LEGACY_TIMEUUID, wrong_arguments};
use model::{CqlType, Failure};
use std::fmt::Display;

type Result<T> = std::result::Result<T, Failure>;

/// How well something fits a type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fit {
    /// Not at all.
    No,
    /// Its bytes mean the same, or its form tells nothing.
    Weak,
    /// It is of this type.
    Exact,
}

impl Fit {
    /// The worst of several.
    pub(crate) fn all(fits: impl Iterator<Item = Result<Fit>>) -> Result<Fit> {
        let mut worst = Fit::Exact;
        for fit in fits {
            worst = worst.min(fit?);
            // What comes after a part that does not fit is not looked at.
            if worst == Fit::No {
                break;
            }
        }
        Ok(worst)
    }

    /// How a value of type `given` fits `wanted`.
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

/// An overload of something that is called: a scalar function or an aggregate.
pub(crate) trait Candidate {
    /// `system.todate`.
    fn name(&self) -> &str;
    /// Types of its arguments.
    fn arguments(&self) -> &[CqlType];
    /// Type of its result.
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

/// An argument as far as choosing an overload needs it.
pub(crate) trait Argument: Display {
    /// How it fits a type.
    fn fit(&self, wanted: &CqlType, scope: &Scope) -> Result<Fit>;
    /// Whether it is a bind marker.
    fn is_marker(&self) -> bool;
    /// The type that it has without a place.
    fn known_type(&self, scope: &Scope) -> Result<Option<CqlType>>;
    /// How many elements it has, if it is `[...]` in a selection.
    fn list_len(&self) -> Option<usize>;
    /// How errors show it once its types were found.
    fn words(&self, _scope: &Scope) -> String {
        self.to_string()
    }
    /// Whether it is a clustering column that descends, whose type is one of its own: no collection and no vector.
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

/// A term whose fit to every type that an operand may have is known.
struct Operand<'t> {
    term: &'t ast::Term,
    /// One for each of [`OPERANDS`].
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
    /// Asks a term once for each type, those of an operation from below: asking it for one type after the other would
    /// ask its operands again each time.
    fn of(term: &'t ast::Term, scope: &Scope) -> Operand<'t> {
        let fits = match term {
            ast::Term::Tuple(terms) if terms.len() == 1 => Operand::of(&terms[0], scope).fits,
            ast::Term::Function { keyspace, name, arguments } if is_operation(keyspace.as_deref(), name) => {
                let overloads = scalars(name, &[], None, None);
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

/// Whether a function is an operator or the sign.
fn is_operation(keyspace: Option<&str>, name: &str) -> bool {
    keyspace.is_none_or(|keyspace| keyspace == SYSTEM) && (name == NEGATION || Arithmetic::of_function(name).is_some())
}

/// Chooses among overloads (at least one). `shown` is the name as it was written; `wanted` the type of the place, if
/// the place has one.
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

/// The place of the overload that is meant.
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
            // What goes to a place is computed in the place's own type.
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

/// `system.todate : (timeuuid) -> date`
fn signature(candidate: &impl Candidate) -> String {
    signature_of(candidate, |_| false)
}

/// The same; an argument that is a constant says so.
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

/// How a term may stand where `wanted` is, as far as its form tells.
pub(crate) fn term_fit(term: &ast::Term, wanted: &CqlType, scope: &Scope) -> Result<Fit> {
    let parts =
        |terms: &[ast::Term], wanted: &CqlType| Fit::all(terms.iter().map(|term| term_fit(term, wanted, scope)));
    Ok(match term {
        ast::Term::Null if *wanted == CqlType::Counter => Fit::No,
        ast::Term::Null | ast::Term::Marker(_) => Fit::Weak,
        // A text may be a whole tuple.
        ast::Term::Constant(..) if matches!(wanted, CqlType::Tuple(_)) => Fit::Weak,
        ast::Term::Constant(family, text) => match suits(*family, wanted) {
            true if preferred_type(*family, text) == *wanted => Fit::Exact,
            true => Fit::Weak,
            false => Fit::No,
        },
        ast::Term::Cast(type_name, _) => Fit::of(wanted, &scope.resolve(type_name)?),
        ast::Term::Function { keyspace, name, arguments } => {
            if is_unknown(keyspace.as_deref(), name) {
                // What is wrong with it is told when it is prepared.
                return Ok(Fit::Weak);
            }
            match choose(keyspace.as_deref(), name, arguments, Some(wanted), scope) {
                // What is made for its arguments says nothing about its place.
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

/// What is known of a term's type without its place.
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

/// Whether there is no function of the name.
fn is_unknown(keyspace: Option<&str>, name: &str) -> bool {
    keyspace.is_some_and(|keyspace| keyspace != "system") || !is_known(name) && name != "token"
}

/// The overload that a call of terms means.
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
    let candidates = scalars(name, &scope.key_types(), first.as_ref(), wanted);
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

/// A call as a term for a place. Markers among its arguments are called `argN(system.name)`, or what `marker_name`
/// says.
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
