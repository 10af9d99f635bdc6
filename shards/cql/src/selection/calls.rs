//! Function calls of a selection: the function or aggregate that a call means, and the types of selectors without a
//! wanted type.

use super::{Result, Selecting, Shown};
use crate::ast;
use crate::functions::wrong_arguments;
use crate::functions::{
    AggregateFunction, Argument, Candidate, Fit, Function, aggregates, factory, is_aggregate_name, is_known, pick,
    scalars, term_fit,
};
use crate::literal::{Scope, preferred_type};
use crate::names::column;
use crate::plan::{Expression, Selector};
use model::{ColumnKind, CqlType, Failure};
use std::fmt;

/// A selector as an argument in overload resolution.
pub(super) struct SelectorArgument<'a> {
    pub(super) selector: &'a ast::Selector,
    /// The type that it has by itself, if any.
    pub(super) cql_type: Option<CqlType>,
    /// See [`Argument::descends`].
    pub(super) descends: bool,
    /// The arguments in its parentheses, for literals.
    pub(super) parts: Option<Vec<SelectorArgument<'a>>>,
}

impl fmt::Display for SelectorArgument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.selector.fmt(f)
    }
}

impl Argument for SelectorArgument<'_> {
    fn fit(&self, wanted: &CqlType, scope: &Scope) -> Result<Fit> {
        if let ast::Selector::Tuple(parts) = self.selector
            && let ([part], Some([asked])) = (parts.as_slice(), self.parts.as_deref())
            && !matches!(wanted, CqlType::Tuple(_))
        {
            debug_assert!(std::ptr::eq(part, asked.selector), "the part that is asked");
            return asked.fit(wanted, scope);
        }
        match (&self.cql_type, self.selector.as_literal()) {
            (_, Some(term)) => term_fit(&term, wanted, scope),
            (Some(cql_type), None) => Ok(Fit::of(wanted, cql_type)),
            // The field does not exist.
            (None, None) if matches!(self.selector, ast::Selector::Field(..)) => Ok(Fit::No),
            (None, None) => Ok(Fit::Weak),
        }
    }

    fn is_marker(&self) -> bool {
        matches!(self.selector, ast::Selector::Term(ast::Term::Marker(_)))
    }

    fn known_type(&self, _scope: &Scope) -> Result<Option<CqlType>> {
        Ok(self.cql_type.clone())
    }

    fn list_len(&self) -> Option<usize> {
        match self.selector {
            ast::Selector::List(parts) => Some(parts.len()),
            _ => None,
        }
    }

    fn descends(&self) -> bool {
        self.descends
    }
}

/// How many aggregates are compared with a new one, which may be the same: comparing all takes quadratic time.
const SHARED_AGGREGATES_MAX: usize = 64;

impl Selecting<'_, '_, '_> {
    pub(super) fn refuse_nested_aggregate(&self) -> Result<()> {
        if self.in_aggregate {
            return Err(Failure::invalid("aggregate functions cannot be used as arguments of aggregate functions"));
        }
        Ok(())
    }

    pub(super) fn aggregate(&mut self, function: AggregateFunction, argument: Option<Expression>) -> Expression {
        let entry = (function, argument);
        match self.aggregates.iter().take(SHARED_AGGREGATES_MAX).position(|known| *known == entry) {
            Some(at) => Expression::Aggregate(at),
            None => {
                self.aggregates.push(entry);
                Expression::Aggregate(self.aggregates.len() - 1)
            }
        }
    }

    pub(super) fn call(
        &mut self,
        keyspace: Option<&str>,
        name: &str,
        arguments: &[ast::Selector],
    ) -> Result<(Expression, CqlType)> {
        let builtin = keyspace.is_none_or(|keyspace| keyspace == "system");
        if builtin && is_aggregate_name(name) {
            return self.aggregate_call(keyspace, name, arguments);
        }
        if builtin && matches!(name, "fromjson" | "from_json") {
            return Err(Failure::invalid(format!(
                "{name}() cannot be used in the selection clause of a SELECT statement"
            )));
        }
        // The overload is chosen by the arguments alone, whatever the place.
        let function = self.choose(keyspace, name, arguments)?;
        if name == "token" && self.is_key(arguments) && !self.masks_key() {
            let partitioner = self.scope.partitioner;
            return Ok((Expression::Fetched(self.fetch(Selector::Token(partitioner))), partitioner.token_type()));
        }
        let mut expressions = Vec::with_capacity(arguments.len());
        for (argument, wanted) in arguments.iter().zip(&function.arguments) {
            expressions.push(self.expression(argument, Some(wanted))?.0);
        }
        let result = function.result.clone();
        Ok((Expression::Call(function, expressions), result))
    }

    /// Whether the token of a row is that of masked values.
    fn masks_key(&self) -> bool {
        let table = &self.scope.table;
        self.shown == Shown::Masked && table.partition_key().iter().any(|column| table.masks.contains_key(&column.id))
    }

    /// Whether the arguments are the partition key's columns, in their order.
    pub(super) fn is_key(&self, arguments: &[ast::Selector]) -> bool {
        let key = self.scope.table.partition_key();
        arguments.len() == key.len()
            && arguments
                .iter()
                .zip(key)
                .all(|(argument, column)| matches!(argument, ast::Selector::Column(name) if *name == column.name))
    }

    pub(super) fn aggregate_call(
        &mut self,
        keyspace: Option<&str>,
        name: &str,
        arguments: &[ast::Selector],
    ) -> Result<(Expression, CqlType)> {
        let [argument] = arguments else {
            if matches!(name, "min" | "max") {
                return Err(wrong_arguments(name, "any"));
            }
            if name != "count" {
                let mut asked = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    asked.push(self.argument_of(argument)?);
                }
                pick(name, aggregates(name, &CqlType::Int), &asked, None, self.scope)?;
            }
            return Err(Failure::invalid(format!(
                "Invalid number of arguments in call to function system.{name}: 1 required but {} provided",
                arguments.len()
            )));
        };
        let function = self.choose_aggregate(keyspace, name, argument)?;
        self.refuse_nested_aggregate()?;
        self.in_aggregate = true;
        let expression = self.expression(argument, function.arguments().first());
        self.in_aggregate = false;
        let result = function.result.clone();
        Ok((self.aggregate(function, Some(expression?.0)), result))
    }

    /// The overload of an aggregate with one argument.
    pub(super) fn choose_aggregate(
        &mut self,
        keyspace: Option<&str>,
        name: &str,
        argument: &ast::Selector,
    ) -> Result<AggregateFunction> {
        let Some(argument_type) = self.type_of(argument)? else {
            if name == "count" && matches!(argument, ast::Selector::Field(..)) {
                return Err(Failure::invalid(format!(
                    "Type error: {argument} cannot be passed as argument 0 of function system.count of type blob"
                )));
            }
            return Err(Failure::invalid(format!(
                "Cannot infer type of argument {argument} in call to function system.{name}(any): use type casts to \
                 disambiguate"
            )));
        };
        let qualifier = keyspace.map(|keyspace| format!("{keyspace}.")).unwrap_or_default();
        let asked = [SelectorArgument { cql_type: Some(argument_type.clone()), ..self.argument_of(argument)? }];
        pick(&format!("{qualifier}{name}"), aggregates(name, &argument_type), &asked, None, self.scope)
    }

    /// Whether any selector contains a column of a wanted kind; selectors up to the first such one are checked.
    pub(super) fn selects(&mut self, select: &ast::Select, wanted: &dyn Fn(ColumnKind) -> bool) -> Result<bool> {
        for item in select.items.iter().flatten() {
            let mut names = Vec::new();
            item.selector.names(&mut names);
            let mut found = false;
            for name in names {
                found |= wanted(column(self.scope, name)?.kind);
            }
            self.check_functions(&item.selector)?;
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Refuses unknown columns and calls that fit no function.
    fn check_argument(&mut self, argument: &ast::Selector) -> Result<()> {
        let mut names = Vec::new();
        argument.names(&mut names);
        names.into_iter().try_for_each(|name| column(self.scope, name).map(|_| ()))?;
        self.check_functions(argument)
    }

    /// Resolves the functions of a selector, those of arguments first.
    fn check_functions(&mut self, selector: &ast::Selector) -> Result<()> {
        match selector {
            ast::Selector::Function { keyspace, name, arguments } => {
                arguments.iter().try_for_each(|argument| self.check_functions(argument))?;
                let builtin = keyspace.as_deref().is_none_or(|keyspace| keyspace == "system");
                match arguments.as_slice() {
                    [argument] if builtin && is_aggregate_name(name) => {
                        self.choose_aggregate(keyspace.as_deref(), name, argument).map(|_| ())
                    }
                    _ if builtin && (is_aggregate_name(name) || matches!(name.as_str(), "fromjson" | "from_json")) => {
                        Ok(())
                    }
                    _ => self.choose(keyspace.as_deref(), name, arguments).map(|_| ()),
                }
            }
            ast::Selector::Cast(of, _) | ast::Selector::Field(of, _) => self.check_functions(of),
            ast::Selector::Element(of, _) | ast::Selector::Slice(of, ..) => self.check_functions(of),
            _ => Ok(()),
        }
    }

    /// The overload that a call means.
    pub(super) fn choose(
        &mut self,
        keyspace: Option<&str>,
        name: &str,
        arguments: &[ast::Selector],
    ) -> Result<Function> {
        let builtin = keyspace.is_none_or(|keyspace| keyspace == "system");
        let qualifier = keyspace.map(|keyspace| format!("{keyspace}.")).unwrap_or_default();
        if !builtin || !is_known(name) && name != "token" {
            arguments.iter().try_for_each(|argument| self.check_argument(argument))?;
            return Err(Failure::invalid(format!("Unknown function '{qualifier}{name}'")));
        }
        let mut asked = Vec::with_capacity(arguments.len());
        for argument in arguments {
            asked.push(self.argument_of(argument)?);
        }
        if matches!(name, "tojson" | "to_json") && arguments.len() != 1 {
            return Err(wrong_arguments(name, "any"));
        }
        let first = asked.first().and_then(|asked| asked.cql_type.as_ref());
        if let Some(factory) = factory(name) {
            let made = factory.build(&asked, None, self.scope)?;
            return pick(&format!("{qualifier}{name}"), vec![made], &asked, None, self.scope);
        }
        let candidates = scalars(name, &self.scope.token_types(), first, None);
        if candidates.is_empty() {
            return Err(match arguments.first() {
                Some(argument) => Failure::invalid(format!(
                    "Cannot infer type of argument {argument} in call to function system.{name}(any): use type casts \
                     to disambiguate"
                )),
                None => wrong_arguments(name, "any"),
            });
        }
        pick(&format!("{qualifier}{name}"), candidates, &asked, None, self.scope)
    }

    /// A selector with its type, as an argument in overload resolution.
    pub(super) fn argument_of<'a>(&mut self, selector: &'a ast::Selector) -> Result<SelectorArgument<'a>> {
        let parts = match selector {
            ast::Selector::Tuple(parts) if parts.len() == 1 => {
                Some(parts.iter().map(|part| self.argument_of(part)).collect::<Result<_>>()?)
            }
            _ => None,
        };
        let cql_type = match selector {
            // The type of a descending key column's field is known only where it is selected by itself.
            ast::Selector::Field(of, _) if self.descends(of) => None,
            _ => self.type_of(selector)?,
        };
        Ok(SelectorArgument { selector, cql_type, descends: self.descends(selector), parts })
    }

    /// The type of a literal with columns: lists and sets have that of the first part with a type, tuples need the
    /// types of all parts.
    pub(super) fn exact_type(&mut self, selector: &ast::Selector) -> Result<Option<CqlType>> {
        let boxed = |element: CqlType| Box::new(element);
        Ok(match selector {
            ast::Selector::Term(ast::Term::Cast(type_name, _)) => Some(self.scope.resolve(type_name)?),
            ast::Selector::Term(_) => None,
            ast::Selector::List(parts) | ast::Selector::Set(parts) => {
                let mut element = None;
                for part in parts {
                    if element.is_none() {
                        element = self.exact_type(part)?;
                    }
                }
                element.map(|element| match selector {
                    ast::Selector::List(_) => CqlType::List { element: boxed(element), frozen: false },
                    _ => CqlType::Set { element: boxed(element), frozen: false },
                })
            }
            ast::Selector::Tuple(parts) if parts.len() > 1 => {
                let types = parts.iter().map(|part| self.exact_type(part)).collect::<Result<Option<Vec<_>>>>()?;
                types.map(CqlType::Tuple)
            }
            other => self.type_of(other)?,
        })
    }

    /// A selector's type by itself; `None` for terms without one.
    pub(super) fn type_of(&mut self, selector: &ast::Selector) -> Result<Option<CqlType>> {
        let of_all = |parts: &[ast::Selector], selecting: &mut Self| -> Result<Option<Vec<CqlType>>> {
            let types = parts.iter().map(|part| selecting.type_of(part)).collect::<Result<Vec<_>>>()?;
            Ok(types.into_iter().collect())
        };
        Ok(match selector {
            ast::Selector::Term(ast::Term::Cast(type_name, _)) | ast::Selector::TypeHint(type_name, _) => {
                Some(self.scope.resolve(type_name)?)
            }
            ast::Selector::Term(ast::Term::Constant(family, text)) => Some(preferred_type(*family, text)),
            ast::Selector::Term(_) | ast::Selector::Map(_) | ast::Selector::UserType(_) => None,
            ast::Selector::Column(name) => Some(column(self.scope, name)?.cql_type.clone()),
            ast::Selector::CellAttribute(fact, of) => Some(self.fact_type(*fact, of)?),
            ast::Selector::CountRows => Some(CqlType::Bigint),
            ast::Selector::Cast(_, type_name) => Some(self.scope.resolve(type_name)?),
            ast::Selector::Function { keyspace, name, arguments } => {
                let builtin = keyspace.as_deref().is_none_or(|keyspace| keyspace == "system");
                match (name.as_str(), arguments.as_slice()) {
                    ("count", [_]) if builtin => Some(CqlType::Bigint),
                    ("min" | "max" | "sum" | "avg", [argument]) if builtin => self.type_of(argument)?,
                    _ => Some(self.choose(keyspace.as_deref(), name, arguments)?.result),
                }
            }
            ast::Selector::Field(of, name) => match self.type_of(of)? {
                Some(CqlType::User { definition, .. }) => {
                    definition.fields.iter().find(|(field, _)| field == name).map(|(_, field)| field.clone())
                }
                _ => None,
            },
            ast::Selector::Element(of, _) => match self.type_of(of)? {
                Some(CqlType::Map { value, .. }) => Some(*value),
                Some(CqlType::Set { element, .. }) => Some(*element),
                // Elements of lists cannot be selected, so that any type will do.
                Some(CqlType::List { .. }) => Some(CqlType::Timeuuid),
                _ => None,
            },
            ast::Selector::Slice(of, ..) => self.type_of(of)?,
            ast::Selector::List(parts) => {
                let element = of_all(parts, self)?.and_then(|types| types.into_iter().next());
                element.map(|element| CqlType::List { element: Box::new(element), frozen: false })
            }
            ast::Selector::Set(parts) => {
                let element = of_all(parts, self)?.and_then(|types| types.into_iter().next());
                element.map(|element| CqlType::Set { element: Box::new(element), frozen: false })
            }
            // It may be a tuple of one value or something in parentheses.
            ast::Selector::Tuple(parts) if parts.len() == 1 => None,
            ast::Selector::Tuple(parts) => of_all(parts, self)?.map(CqlType::Tuple),
        })
    }
}
