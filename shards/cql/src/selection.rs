//! The selection of a SELECT: from selectors to the values that the owning cores return per row and the expressions
//! that the coordinating core computes from them.
//!
//! 1. Each column, write time and token that is named becomes one entry in the list of fetched values.
//! 2. Selectors become expressions over that list; overloads are chosen as for terms.
//! 3. If every selector is fetched as it is, there is no projection; selections of counts alone are left to the owning
//!    cores.

mod calls;
mod cell_attributes;
mod fit;
mod grouping;

use crate::ast::{self, SelectItem};
use crate::functions::{self, Aggregate, AggregateFunction, Fit, LEGACY_TIMEUUID, Scalar, pick, term_fit};
use crate::literal::{Markers, Receiver, Scope, prepare_term};
use crate::names::column;
use crate::plan::{Expression, Projection, Selector, Term, part_type};
use calls::SelectorArgument;
use model::{Column, ColumnKind, ColumnSpec, CqlType, Failure, json};
use std::collections::BTreeMap;
use std::fmt;

type Result<T> = std::result::Result<T, Failure>;

/// The name of markers in a selection.
const SELECTION: &str = "[selection]";

/// How the columns that have a mask are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shown {
    /// As they are.
    Clear,
    /// By their masks. Everything else is computed from what the masks give, but for attributes of cells and the groups
    /// of GROUP BY columns.
    Masked,
}

/// The resolved selection of a SELECT.
pub(crate) struct Selection {
    /// See [`crate::plan::Select::selection`].
    pub(crate) fetched: Vec<Selector>,
    /// See [`crate::plan::Select::plain`].
    pub(crate) plain: bool,
    /// See [`crate::plan::Select::aggregate`].
    pub(crate) aggregate: bool,
    /// See [`crate::plan::Select::projection`].
    pub(crate) projection: Option<Projection>,
    /// The columns of the result.
    pub(crate) result: Vec<ColumnSpec>,
}

/// Refuses unknown columns and calls that fit no function, as Cassandra does while it checks whether only static
/// columns are selected: up to the first selector with a static column, then up to the first one with a clustering or
/// regular column.
pub(crate) fn check(select: &ast::Select, scope: &Scope) -> Result<()> {
    let mut none = Markers::new(&[]);
    let mut selecting = Selecting {
        scope,
        markers: &mut none,
        fetched: Vec::new(),
        places: BTreeMap::new(),
        aggregates: Vec::new(),
        in_aggregate: false,
        shown: Shown::Clear,
    };
    let is_static = |kind| kind == ColumnKind::Static;
    let is_of_rows = |kind| matches!(kind, ColumnKind::Clustering | ColumnKind::Regular);
    if selecting.selects(select, &is_static)? {
        selecting.selects(select, &is_of_rows)?;
    }
    Ok(())
}

/// Resolves the selectors and GROUP BY of a SELECT. `is_equal` says whether a key column is restricted to one value:
/// GROUP BY may leave such columns out.
pub(crate) fn select(
    select: &ast::Select,
    scope: &Scope,
    markers: &mut Markers<'_>,
    is_equal: &dyn Fn(&Column) -> bool,
    shown: Shown,
) -> Result<Selection> {
    let mut selecting = Selecting {
        scope,
        markers,
        fetched: Vec::new(),
        places: BTreeMap::new(),
        aggregates: Vec::new(),
        in_aggregate: false,
        shown,
    };
    let mut outputs = Vec::new();
    match &select.items {
        None => {
            for column in scope.table.visible_columns() {
                let value = selecting.column_value(column);
                outputs.push((column.name.clone(), value, column.cql_type.clone()));
            }
        }
        Some(items) => {
            for item in items {
                outputs.push(selecting.item(item)?);
            }
        }
    }
    let group_by = selecting.group_by(&select.group, select.distinct, is_equal)?;
    let mut key_places = Vec::new();
    if !group_by.is_empty() {
        let key = &scope.table.columns[..scope.table.primary_key_len()];
        key_places.extend(key.iter().map(|column| selecting.fetch(Selector::Column(column.id))));
    }
    let Selecting { fetched, aggregates, .. } = selecting;
    let grouped = !aggregates.is_empty() || !group_by.is_empty();
    let names: Vec<String> = outputs.iter().map(|(name, ..)| name.clone()).collect();
    let types: Vec<CqlType> = outputs.iter().map(|(.., cql_type)| cql_type.clone()).collect();
    let expressions: Vec<Expression> = outputs.into_iter().map(|(_, expression, _)| expression).collect();
    let result = match select.json {
        true => vec![scope.spec("[json]", CqlType::Text)],
        false => {
            let outputs = names.iter().zip(&types).zip(&expressions);
            let spec = |((name, cql_type), expression): ((&String, &CqlType), _)| ColumnSpec {
                class: class_of(expression, scope, &fetched, &aggregates),
                ..scope.spec(name, cql_type.clone())
            };
            outputs.map(spec).collect()
        }
    };
    if let (false, Some(order)) = (grouped || select.json, fetched_order(&expressions)) {
        let fetched: Vec<Selector> = order.iter().map(|at| fetched[*at].clone()).collect();
        let plain = fetched.iter().all(|selector| matches!(selector, Selector::Column(_)));
        return Ok(Selection { fetched, plain, aggregate: false, projection: None, result });
    }
    if let (true, Some(fetched)) =
        (group_by.is_empty() && !select.json, counts_only(&expressions, &fetched, &aggregates))
    {
        return Ok(Selection { fetched, plain: false, aggregate: true, projection: None, result });
    }
    let json = select.json.then(|| names.iter().map(|name| json_name(name)).collect());
    let projection = Projection { outputs: expressions, types, aggregates, grouped, group_by, key_places, json };
    let plain = fetched.iter().all(|selector| matches!(selector, Selector::Column(_)));
    Ok(Selection { fetched, plain, aggregate: false, projection: Some(projection), result })
}

/// The class that clients see in place of a type: generic functions have one of their own for timeuuids, except for
/// descending columns.
fn class_of(
    output: &Expression,
    scope: &Scope,
    fetched: &[Selector],
    aggregates: &[(AggregateFunction, Option<Expression>)],
) -> Option<&'static str> {
    let descends = |argument: Option<&Expression>| match argument {
        Some(Expression::Fetched(at)) => match fetched.get(*at) {
            Some(Selector::Column(id)) => scope.table.column_by_id(*id).is_some_and(|column| column.descending),
            _ => false,
        },
        _ => false,
    };
    let (result, is_of_any_type) = match output {
        Expression::Call(function, arguments) => {
            let is_of_any_type = match function.body {
                Scalar::FromBlob => true,
                Scalar::Mask(_) => !descends(arguments.first()),
                _ => false,
            };
            (&function.result, is_of_any_type)
        }
        Expression::Aggregate(at) => {
            let (function, argument) = aggregates.get(*at)?;
            let chooses = matches!(function.aggregate, Aggregate::Min | Aggregate::Max);
            (&function.result, chooses && !descends(argument.as_ref()))
        }
        _ => return None,
    };
    (is_of_any_type && *result == CqlType::Timeuuid).then_some(LEGACY_TIMEUUID)
}

/// The indexes of the fetched values in the order of `outputs`, if every output is fetched as it is.
fn fetched_order(outputs: &[Expression]) -> Option<Vec<usize>> {
    let place = |output: &Expression| match output {
        Expression::Fetched(at) => Some(*at),
        _ => None,
    };
    outputs.iter().map(place).collect()
}

/// The values to fetch if the outputs are only columns and at least one count.
fn counts_only(
    outputs: &[Expression],
    fetched: &[Selector],
    aggregates: &[(AggregateFunction, Option<Expression>)],
) -> Option<Vec<Selector>> {
    if aggregates.is_empty() {
        return None;
    }
    let selector = |output: &Expression| match output {
        Expression::Fetched(at) => fetched.get(*at).cloned(),
        Expression::Aggregate(at) => match aggregates.get(*at)? {
            (function, None) if function.aggregate == Aggregate::CountRows => Some(Selector::CountRows),
            (function, Some(Expression::Fetched(at))) if function.aggregate == Aggregate::Count => {
                match fetched.get(*at)? {
                    Selector::Column(id) => Some(Selector::Count(*id)),
                    _ => None,
                }
            }
            _ => None,
        },
        _ => None,
    };
    outputs.iter().map(selector).collect()
}

/// A name as a key in SELECT JSON: names that are not in lower case keep their double quotes.
fn json_name(name: &str) -> String {
    let mut out = String::new();
    json::push_name(name, &mut out);
    out
}

struct Selecting<'s, 'm, 'n> {
    scope: &'s Scope,
    markers: &'m mut Markers<'n>,
    fetched: Vec<Selector>,
    /// Where each of `fetched` is.
    places: BTreeMap<Selector, usize>,
    aggregates: Vec<(AggregateFunction, Option<Expression>)>,
    in_aggregate: bool,
    shown: Shown,
}

impl Selecting<'_, '_, '_> {
    /// The value of a column as it is shown.
    fn column_value(&mut self, column: &Column) -> Expression {
        let fetched = Expression::Fetched(self.fetch(Selector::Column(column.id)));
        let mask = match self.shown {
            Shown::Masked => self.scope.table.masks.get(&column.id),
            Shown::Clear => None,
        };
        let Some(mask) = mask else { return fetched };
        // What is masked stays hidden, also by a function that this program does not have.
        let Some(function) = functions::function_of(mask, &column.cql_type) else {
            return Expression::Term(Term::Null, column.cql_type.clone());
        };
        let argument = |(cql_type, value): &(CqlType, Option<Vec<u8>>)| {
            let term = value.as_ref().map_or(Term::Null, |bytes| Term::Constant(bytes.as_slice().into()));
            Expression::Term(term, cql_type.clone())
        };
        let arguments = std::iter::once(fetched).chain(mask.arguments.iter().map(argument)).collect();
        Expression::Call(function, arguments)
    }

    fn fetch(&mut self, selector: Selector) -> usize {
        *self.places.entry(selector.clone()).or_insert_with(|| {
            self.fetched.push(selector);
            self.fetched.len() - 1
        })
    }

    fn item(&mut self, item: &SelectItem) -> Result<(String, Expression, CqlType)> {
        let (expression, cql_type) = self.expression(&item.selector, None)?;
        let name = match (&item.alias, &item.selector) {
            (Some(alias), _) => alias.clone(),
            (None, ast::Selector::CountRows) => "count".to_owned(),
            (None, selector) => self.scope.qualified_selector(&self.without_idle_casts(selector)?).to_string(),
        };
        Ok((name, expression, cql_type))
    }

    /// A selector without casts to a value's own type, which Cassandra does not show.
    fn without_idle_casts(&mut self, selector: &ast::Selector) -> Result<ast::Selector> {
        if let ast::Selector::Cast(of, type_name) = selector
            && self.is_idle_cast(of, type_name)?
        {
            return self.without_idle_casts(of);
        }
        let mut within = |of: &ast::Selector| self.without_idle_casts(of).map(Box::new);
        Ok(match selector {
            ast::Selector::Cast(of, type_name) => ast::Selector::Cast(within(of)?, type_name.clone()),
            ast::Selector::Function { keyspace, name, arguments } => ast::Selector::Function {
                keyspace: keyspace.clone(),
                name: name.clone(),
                arguments: arguments.iter().map(|of| self.without_idle_casts(of)).collect::<Result<_>>()?,
            },
            ast::Selector::Field(of, name) => ast::Selector::Field(within(of)?, name.clone()),
            ast::Selector::Element(of, key) => ast::Selector::Element(within(of)?, key.clone()),
            ast::Selector::Slice(of, from, to) => ast::Selector::Slice(within(of)?, from.clone(), to.clone()),
            other => other.clone(),
        })
    }

    /// Whether a cast has no effect. Casts of descending columns always have one, because Cassandra gives those columns
    /// a type of their own.
    fn is_idle_cast(&mut self, of: &ast::Selector, to: &ast::TypeName) -> Result<bool> {
        let to = self.scope.resolve(to)?;
        Ok(!self.descends(of) && self.type_of(of)?.as_ref() == Some(&to))
    }

    pub(crate) fn descends(&self, selector: &ast::Selector) -> bool {
        match selector {
            ast::Selector::Column(name) => column(self.scope, name).is_ok_and(|column| column.descending),
            _ => false,
        }
    }

    /// The expression of a selector and its type. `wanted` is the type of its place, for terms without a type of their
    /// own.
    fn expression(&mut self, selector: &ast::Selector, wanted: Option<&CqlType>) -> Result<(Expression, CqlType)> {
        if let ast::Selector::Tuple(parts) = selector
            && let [part] = parts.as_slice()
        {
            // It is a tuple of one value only where a tuple is wanted; without a wanted type it is ambiguous.
            match wanted {
                Some(CqlType::Tuple(_)) => {}
                Some(_) => return self.expression(part, wanted),
                None => return Err(cannot_infer(selector)),
            }
        }
        if let ast::Selector::TypeHint(type_name, of) = selector {
            let hinted = self.scope.resolve(type_name)?.frozen();
            if self.fit(of, &hinted)? == Fit::No {
                let shown = self.scope.qualified_selector(selector);
                return Err(Failure::invalid(format!("Cannot assign value {shown} to {shown} of type {hinted}")));
            }
        }
        if let Some(term) = selector.as_literal() {
            return self.term(&term, wanted);
        }
        match selector {
            ast::Selector::Column(name) => {
                let scope = self.scope;
                let column = column(scope, name)?;
                Ok((self.column_value(column), column.cql_type.clone()))
            }
            ast::Selector::CellAttribute(fact, of) => self.cell_fact(*fact, of),
            ast::Selector::CountRows => {
                self.refuse_nested_aggregate()?;
                let function = AggregateFunction {
                    name: "system.count_rows".to_owned(),
                    aggregate: Aggregate::CountRows,
                    argument: [CqlType::Bigint],
                    result: CqlType::Bigint,
                };
                Ok((self.aggregate(function, None), CqlType::Bigint))
            }
            ast::Selector::Function { keyspace, name, arguments } => self.call(keyspace.as_deref(), name, arguments),
            ast::Selector::Cast(of, type_name) => self.cast(of, type_name),
            ast::Selector::TypeHint(type_name, of) => {
                let hinted = self.scope.resolve(type_name)?;
                Ok((self.expression(of, Some(&hinted))?.0, hinted))
            }
            ast::Selector::Field(of, name) => self.field(of, name),
            ast::Selector::Element(of, key) => {
                let (of_expression, cql_type, key_type) = self.sliced(of, "Element")?;
                let (key, result) = match &cql_type {
                    CqlType::Map { value, .. } => (self.key(key, &key_type, of, "key")?, (**value).clone()),
                    _ => (self.key(key, &key_type, of, "value")?, key_type),
                };
                Ok((Expression::Element(Box::new(of_expression), cql_type, key), result))
            }
            ast::Selector::Slice(of, from, to) => {
                let (of_expression, cql_type, key_type) = self.sliced(of, "Slice")?;
                let word = if matches!(cql_type, CqlType::Map { .. }) { "key" } else { "value" };
                let from = from.as_ref().map(|from| self.key(from, &key_type, of, word)).transpose()?;
                let to = to.as_ref().map(|to| self.key(to, &key_type, of, word)).transpose()?;
                Ok((Expression::Slice(Box::new(of_expression), cql_type.clone(), from, to), cql_type))
            }
            ast::Selector::List(parts) | ast::Selector::Set(parts) | ast::Selector::Tuple(parts) => {
                let cql_type = self.composite_type(selector, wanted)?;
                self.composite(parts.iter(), cql_type)
            }
            ast::Selector::Map(entries) => {
                let cql_type = self.composite_type(selector, wanted)?;
                self.composite(entries.iter().flat_map(|(key, value)| [key, value]), cql_type)
            }
            // It has no type of its own.
            ast::Selector::UserType(fields) => match wanted {
                Some(wanted @ CqlType::User { .. }) => self.user_type(selector, wanted.clone()),
                Some(wanted @ CqlType::Map { .. }) => {
                    let keys: Vec<_> = fields.iter().map(|(name, _)| ast::Selector::Column(name.clone())).collect();
                    let entries = keys.iter().zip(fields).flat_map(|(key, (_, value))| [key, value]);
                    self.composite(entries, wanted.clone())
                }
                _ => Err(cannot_infer(selector)),
            },
            ast::Selector::Term(_) => Err(cannot_infer(selector)),
        }
    }

    /// A term, whose type must be known from itself or its place.
    fn term(&mut self, term: &ast::Term, wanted: Option<&CqlType>) -> Result<(Expression, CqlType)> {
        let own = match term {
            ast::Term::Cast(type_name, inner) => {
                let cql_type = self.scope.resolve(type_name)?;
                if term_fit(inner, &cql_type, self.scope)? == Fit::No {
                    return Err(Failure::invalid(format!("Cannot assign value {term} to {term} of type {cql_type}")));
                }
                Some(cql_type)
            }
            _ => None,
        };
        let Some(cql_type) = own.as_ref().or(wanted) else {
            return Err(cannot_infer(term));
        };
        let receiver = Receiver { scope: self.scope, name: SELECTION, cql_type };
        let inner = match term {
            ast::Term::Cast(_, inner) => inner,
            other => other,
        };
        let prepared = prepare_term(inner, &receiver, self.markers)?;
        Ok((Expression::Term(prepared, cql_type.clone()), cql_type.clone()))
    }

    fn cast(&mut self, of: &ast::Selector, type_name: &ast::TypeName) -> Result<(Expression, CqlType)> {
        let to = self.scope.resolve(type_name)?;
        let (expression, from) = self.expression(of, None)?;
        if from == to && !self.descends(of) {
            return Ok((expression, to));
        }
        let candidates = functions::cast(&to);
        if candidates.is_empty() || type_name.text == "varchar" {
            // Cassandra's error names the first column of the whole selection.
            let first = self.fetched.first().and_then(|selector| match selector {
                Selector::Column(id) | Selector::WriteTime(id) | Selector::Ttl(id) => {
                    self.scope.table.column_by_id(*id).map(|column| column.name.clone())
                }
                Selector::Token(_) => self.scope.table.partition_key().first().map(|column| column.name.clone()),
                _ => None,
            });
            let shown = first.unwrap_or_else(|| of.to_string());
            return Err(Failure::invalid(format!("{shown} cannot be cast to {type_name}")));
        }
        let shown = format!("system.cast_as_{to}");
        let asked = [SelectorArgument { cql_type: Some(from), ..self.argument_of(of)? }];
        let function = pick(&shown, candidates, &asked, Some(&to), self.scope)?;
        Ok((Expression::Call(function, vec![expression]), to))
    }

    fn field(&mut self, of: &ast::Selector, name: &str) -> Result<(Expression, CqlType)> {
        // Something in parentheses can have a field only if it is not a tuple.
        let own = match of {
            ast::Selector::Tuple(parts) if parts.len() == 1 => self.type_of(&parts[0])?,
            _ => None,
        };
        let (expression, cql_type) = self.expression(of, own.as_ref())?;
        let CqlType::User { definition, .. } = &cql_type else {
            return Err(Failure::invalid(format!(
                "Invalid field selection: {of} of type {cql_type} is not a user type"
            )));
        };
        match definition.fields.iter().position(|(field, _)| field == name) {
            Some(at) => Ok((Expression::Field(Box::new(expression), at), definition.fields[at].1.clone())),
            None => Err(Failure::invalid(format!("{of} of type {cql_type} has no field {name}"))),
        }
    }

    /// The set or map whose part is selected, its type, and the type of its elements or keys.
    fn sliced(&mut self, of: &ast::Selector, what: &str) -> Result<(Expression, CqlType, CqlType)> {
        let (expression, cql_type) = self.expression(of, None)?;
        match &cql_type {
            CqlType::Set { element, .. } => {
                let key_type = (**element).clone();
                Ok((expression, cql_type, key_type))
            }
            CqlType::Map { key, .. } => {
                let key_type = (**key).clone();
                Ok((expression, cql_type, key_type))
            }
            CqlType::List { .. } => {
                Err(Failure::invalid(format!("{what} selection is only allowed on sets and maps, but {of} is a list")))
            }
            other => Err(Failure::invalid(format!(
                "Invalid {} selection: {of}{} of type {other} is not a collection",
                what.to_lowercase(),
                if what == "Slice" { "" } else { " is" }
            ))),
        }
    }

    fn key(&mut self, term: &ast::Term, key_type: &CqlType, of: &ast::Selector, word: &str) -> Result<Term> {
        let name = format!("{word}({of})");
        prepare_term(term, &Receiver { scope: self.scope, name: &name, cql_type: key_type }, self.markers)
    }

    /// The type of a literal with columns: that of its place, or else the one that its parts imply.
    fn composite_type(&mut self, selector: &ast::Selector, wanted: Option<&CqlType>) -> Result<CqlType> {
        if let Some(wanted) = wanted {
            return Ok(wanted.clone());
        }
        self.exact_type(selector)?.ok_or_else(|| cannot_infer(selector))
    }

    fn composite<'e>(
        &mut self,
        parts: impl Iterator<Item = &'e ast::Selector>,
        cql_type: CqlType,
    ) -> Result<(Expression, CqlType)> {
        let mut expressions = Vec::new();
        for (at, part) in parts.enumerate() {
            let wanted = part_type(&cql_type, at).cloned();
            let (expression, given) = self.expression(part, wanted.as_ref())?;
            if wanted.is_none_or(|wanted| Fit::of(&wanted, &given) == Fit::No) {
                return Err(Failure::invalid(format!(
                    "Invalid literal: {part} of type {given} cannot be in {cql_type}"
                )));
            }
            expressions.push(expression);
        }
        Ok((Expression::Composite(cql_type.clone(), expressions), cql_type))
    }

    fn user_type(&mut self, selector: &ast::Selector, cql_type: CqlType) -> Result<(Expression, CqlType)> {
        let (CqlType::User { definition, .. }, ast::Selector::UserType(fields)) = (&cql_type, selector) else {
            return Err(cannot_infer(selector));
        };
        let given: BTreeMap<&String, &ast::Selector> = fields.iter().map(|(name, part)| (name, part)).collect();
        let mut expressions = Vec::with_capacity(definition.fields.len());
        for (field, wanted) in &definition.fields {
            expressions.push(match given.get(field) {
                Some(part) => self.expression(part, Some(wanted))?.0,
                None => Expression::Term(Term::Null, wanted.clone()),
            });
        }
        Ok((Expression::Composite(cql_type.clone(), expressions), cql_type))
    }
}

fn cannot_infer(shown: &dyn fmt::Display) -> Failure {
    Failure::invalid(format!(
        "Cannot infer type for term {shown} in selection clause (try using a cast to force a type)"
    ))
}
