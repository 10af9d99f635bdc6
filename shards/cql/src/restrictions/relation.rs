//! Turns one relation into a rule: finds the columns, checks the relation against their types, and prepares the terms.

use super::rule::{Element, Entry, Rule};
use super::{Purpose, Restrictions, Result, TokenRule, join, note_key, place};
use crate::ast::{self, Operator, Relation, TupleValue};
use crate::literal::{Markers, Receiver, Scope, prepare_term};
use crate::names::{column, shown};
use crate::plan::{Choice, Term, TokenBound, Tuple};
use model::{Column, ColumnKind, CqlType, Failure};

/// The name of a token's value in markers and errors.
const TOKEN: &str = "partition key token";

impl<'s> Restrictions<'s> {
    pub(super) fn add(&mut self, relation: &Relation, markers: &mut Markers<'_>) -> Result<()> {
        let contains = match relation {
            Relation::Contains(..) => Some("CONTAINS"),
            Relation::ContainsKey(..) => Some("CONTAINS KEY"),
            _ => None,
        };
        if let (Some(operator), Purpose::Update | Purpose::Delete) = (contains, self.purpose) {
            return Err(Failure::invalid(format!("Cannot use {} with {operator}", self.purpose.name())));
        }
        let scope = self.scope;
        match relation {
            Relation::IsNotNull(_) => Err(Failure::invalid(format!("Unsupported restriction: {}", text(relation)))),
            Relation::Like(name, term) => {
                let column = column(scope, name)?;
                check_form(column, "LIKE")?;
                prepare(term, column, scope, markers)?;
                Err(Failure::invalid(format!(
                    "LIKE restriction is only supported on properly indexed columns. {} is not valid.",
                    text(relation)
                )))
            }
            Relation::Compare(_, Operator::NotEqual, _)
            | Relation::Tuple(_, Operator::NotEqual, _)
            | Relation::Token(_, Operator::NotEqual, _)
            | Relation::Entry(_, _, Operator::NotEqual, _) => {
                Err(Failure::invalid(format!("Unsupported \"!=\" relation: {}", text(relation))))
            }
            Relation::Compare(name, operator, term) => {
                let column = column(scope, name)?;
                if *operator != Operator::Equal {
                    refuse_durations(&column.cql_type)?;
                }
                check_form(column, operator.symbol())?;
                let value = prepare(term, column, scope, markers)?;
                note_key(column, &scope.table, &value, markers);
                let rule = match operator {
                    Operator::Equal => Rule::Equal(Choice::One(value)),
                    _ => Rule::slice(*operator, Tuple::Terms(vec![value])),
                };
                self.add_entry(Entry::single(place(&scope.table, column), rule))
            }
            Relation::In(name, terms) => {
                let column = column(scope, name)?;
                check_form(column, "IN")?;
                let mut values =
                    terms.iter().map(|term| prepare(term, column, scope, markers)).collect::<Result<Vec<_>>>()?;
                values.iter().for_each(|value| note_key(column, &scope.table, value, markers));
                // IN with a single value means `=`.
                let rule = match values.pop() {
                    Some(value) if values.is_empty() => Rule::Equal(Choice::One(value)),
                    last => {
                        values.extend(last);
                        Rule::In(Choice::Many(values))
                    }
                };
                self.add_entry(Entry::single(place(&scope.table, column), rule))
            }
            Relation::InMarker(name, marker) => {
                let column = column(scope, name)?;
                check_form(column, "IN")?;
                let list = CqlType::List { element: Box::new(column.cql_type.clone()), frozen: false };
                markers.bind_as(*marker, scope, &format!("in({name})"), list);
                self.add_entry(Entry::single(place(&scope.table, column), Rule::In(Choice::Marker(*marker))))
            }
            Relation::Contains(name, term) => {
                let column = column(scope, name)?;
                let no_collection = || Failure::invalid(format!("Cannot use CONTAINS on non-collection column {name}"));
                // Cassandra does not recognise the type of a descending column as a collection.
                if column.descending {
                    return Err(no_collection());
                }
                let (CqlType::List { element, .. }
                | CqlType::Set { element, .. }
                | CqlType::Map { value: element, .. }) = &column.cql_type
                else {
                    return Err(no_collection());
                };
                let receiver = Receiver { scope, name: &format!("value({name})"), cql_type: element };
                let element = Element::Value(prepare_term(term, &receiver, markers)?);
                self.add_entry(Entry::single(place(&scope.table, column), Rule::Contains(vec![element])))
            }
            Relation::ContainsKey(name, term) => {
                let column = column(scope, name)?;
                let key = match &column.cql_type {
                    CqlType::Map { key, .. } if !column.descending => key,
                    _ => return Err(Failure::invalid(format!("Cannot use CONTAINS KEY on non-map column {name}"))),
                };
                let receiver = Receiver { scope, name: &format!("key({name})"), cql_type: key };
                let element = Element::Key(prepare_term(term, &receiver, markers)?);
                self.add_entry(Entry::single(place(&scope.table, column), Rule::Contains(vec![element])))
            }
            Relation::Entry(name, key, operator, value) => self.add_map_entry(name, key, *operator, value, markers),
            Relation::Token(names, operator, term) => self.add_token(names, *operator, term, markers),
            Relation::Tuple(names, operator, value) => {
                let columns = self.tuple_columns(names, relation)?;
                let value = prepare_tuple(value, &columns, scope, markers)?;
                let rule = match operator {
                    Operator::Equal => Rule::Equal(Choice::Tuples { columns: columns.len(), tuples: vec![value] }),
                    _ => Rule::slice(*operator, value),
                };
                self.add_tuple(&columns, rule)
            }
            Relation::TupleIn(names, values) => {
                let columns = self.tuple_columns(names, relation)?;
                let tuples = values
                    .iter()
                    .map(|value| prepare_tuple(value, &columns, scope, markers))
                    .collect::<Result<Vec<_>>>()?;
                let one = tuples.len() == 1;
                let choice = Choice::Tuples { columns: columns.len(), tuples };
                self.add_tuple(&columns, if one { Rule::Equal(choice) } else { Rule::In(choice) })
            }
            Relation::TupleInMarker(names, marker) => {
                let columns = self.tuple_columns(names, relation)?;
                let element = Box::new(tuple_type(&columns));
                let list = CqlType::List { element, frozen: false };
                markers.bind_as(*marker, scope, &format!("in{}", tuple_name(&columns)), list);
                let choice = Choice::TuplesMarker { columns: columns.len(), marker: *marker };
                self.add_tuple(&columns, Rule::In(choice))
            }
        }
    }

    fn add_tuple(&mut self, columns: &[&Column], rule: Rule) -> Result<()> {
        let columns = columns.iter().map(|column| place(self.table(), column)).collect();
        self.add_entry(Entry { columns, is_tuple: true, rule })
    }

    fn add_map_entry(
        &mut self,
        name: &str,
        key: &ast::Term,
        operator: Operator,
        value: &ast::Term,
        markers: &mut Markers<'_>,
    ) -> Result<()> {
        let scope = self.scope;
        let column = column(scope, name)?;
        if operator != Operator::Equal {
            refuse_durations(&column.cql_type)?;
        }
        let (key_type, value_type, frozen) = match &column.cql_type {
            _ if column.descending => {
                return Err(Failure::invalid(format!("Column {name} cannot be used as a map")));
            }
            CqlType::List { .. } => {
                return Err(Failure::invalid(format!(
                    "Indexes on list entries ({name}[index] = value) are not currently supported."
                )));
            }
            CqlType::Map { key, value, frozen } => (key, value, *frozen),
            _ => return Err(Failure::invalid(format!("Column {name} cannot be used as a map"))),
        };
        if frozen {
            return Err(Failure::invalid(format!(
                "Map-entry equality predicates on frozen map column {name} are not supported"
            )));
        }
        if operator != Operator::Equal {
            return Err(Failure::invalid("Only EQ relations are supported on map entries"));
        }
        let receiver = Receiver { scope, name: &format!("key({name})"), cql_type: key_type };
        let key = prepare_term(key, &receiver, markers)?;
        let receiver = Receiver { scope, name: &format!("value({name})"), cql_type: value_type };
        let value = prepare_term(value, &receiver, markers)?;
        self.add_entry(Entry::single(place(&scope.table, column), Rule::Contains(vec![Element::Entry(key, value)])))
    }

    /// The columns of a relation on several columns, which must be consecutive clustering columns.
    fn tuple_columns(&self, names: &[String], relation: &Relation) -> Result<Vec<&'s Column>> {
        let mut columns: Vec<&Column> = Vec::with_capacity(names.len().min(self.table().clustering_len));
        for name in names {
            let column = column(self.scope, name)?;
            if column.kind != ColumnKind::Clustering {
                return Err(Failure::invalid(format!(
                    "Multi-column relations can only be applied to clustering columns but was applied to: {name}"
                )));
            }
            // The columns so far are ascending.
            let again = columns.last().is_some_and(|last| last.position >= column.position)
                && columns.iter().any(|before| before.id == column.id);
            if again {
                return Err(Failure::invalid(format!(
                    "Column \"{name}\" appeared twice in a relation: {}",
                    text(relation)
                )));
            }
            if columns.last().is_some_and(|before| before.position + 1 != column.position) {
                return Err(Failure::invalid(format!(
                    "Clustering columns must appear in the PRIMARY KEY order in multi-column relations: {}",
                    text(relation)
                )));
            }
            columns.push(column);
        }
        Ok(columns)
    }

    fn add_token(
        &mut self,
        names: &[String],
        operator: Operator,
        term: &ast::Term,
        markers: &mut Markers<'_>,
    ) -> Result<()> {
        let scope = self.scope;
        let key = scope.table.partition_key();
        for name in names {
            column(scope, name)?;
        }
        if !key.iter().map(|column| &column.name).eq(names) {
            return Err(Failure::invalid(if !key.iter().all(|column| names.contains(&column.name)) {
                "The token() function must be applied to all partition key components or none of them".to_owned()
            } else if names.iter().take(key.len() + 1).enumerate().any(|(at, name)| names[..at].contains(name)) {
                "The token() function contains duplicate partition key components".to_owned()
            } else if names.len() > key.len() {
                "The token() function must contains only partition key components".to_owned()
            } else {
                format!("The token function arguments must be in the partition key order: {}", join(key.iter()))
            }));
        }
        if scope.table.write_sharding().is_some() && matches!(term, ast::Term::Function { name, .. } if name == "token")
        {
            return Err(Failure::invalid(format!(
                "The token of values is not where rows of table {} are, which has {}; compare with tokens that SELECT \
                 token({}) gives, or with those of nodes",
                scope.table.full_name(),
                ast::WRITE_SHARDING,
                join(key.iter())
            )));
        }
        let receiver = Receiver { scope, name: TOKEN, cql_type: &scope.partitioner.token_type() };
        let term = prepare_term(term, &receiver, markers)?;
        let shown = join(key.iter());
        let limit = |inclusive| Some(TokenBound { term: term.clone(), inclusive });
        let new = match operator {
            Operator::Greater => TokenRule { lower: limit(false), ..TokenRule::default() },
            Operator::GreaterEqual => TokenRule { lower: limit(true), ..TokenRule::default() },
            Operator::Less => TokenRule { upper: limit(false), ..TokenRule::default() },
            Operator::LessEqual => TokenRule { upper: limit(true), ..TokenRule::default() },
            Operator::Equal | Operator::NotEqual => TokenRule { equal: true, lower: limit(true), upper: limit(true) },
        };
        let Some(old) = &mut self.token else {
            self.token = Some(new);
            return Ok(());
        };
        if old.equal {
            return Err(Failure::invalid(format!(
                "{shown} cannot be restricted by more than one relation if it includes an Equal"
            )));
        }
        if new.equal {
            return Err(Failure::invalid(format!(
                "Columns \"{shown}\" cannot be restricted by both an equality and an inequality relation"
            )));
        }
        for (old, new, side) in [(&mut old.lower, new.lower, "start"), (&mut old.upper, new.upper, "end")] {
            if old.is_some() && new.is_some() {
                return Err(Failure::invalid(format!(
                    "More than one restriction was found for the {side} bound on {shown}"
                )));
            }
            if new.is_some() {
                *old = new;
            }
        }
        Ok(())
    }
}

fn prepare(term: &ast::Term, column: &Column, scope: &Scope, markers: &mut Markers<'_>) -> Result<Term> {
    prepare_term(term, &Receiver { scope, name: &column.name, cql_type: &column.cql_type }, markers)
}

fn prepare_tuple(value: &TupleValue, columns: &[&Column], scope: &Scope, markers: &mut Markers<'_>) -> Result<Tuple> {
    match value {
        TupleValue::Marker(marker) => {
            markers.bind_as(*marker, scope, &tuple_name(columns), tuple_type(columns));
            Ok(Tuple::Marker { marker: *marker, columns: columns.len() })
        }
        TupleValue::Terms(terms) => {
            if terms.len() != columns.len() {
                return Err(Failure::invalid(format!(
                    "Expected {} elements in value tuple, but got {}: {value}",
                    columns.len(),
                    terms.len()
                )));
            }
            let terms = terms.iter().zip(columns).map(|(term, column)| prepare(term, column, scope, markers));
            Ok(Tuple::Terms(terms.collect::<Result<_>>()?))
        }
    }
}

/// The name of a tuple of columns: `(a,b)`.
fn tuple_name(columns: &[&Column]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    format!("({})", names.join(","))
}

fn tuple_type(columns: &[&Column]) -> CqlType {
    CqlType::Tuple(columns.iter().map(|column| column.cql_type.clone()).collect())
}

/// Refuses relations that compare the whole value of a multi-cell column.
fn check_form(column: &Column, operator: &str) -> Result<()> {
    let Column { name, cql_type, .. } = column;
    if !cql_type.is_multicell() {
        return Ok(());
    }
    Err(Failure::invalid(if cql_type.is_collection() {
        format!("Collection column '{name}' ({cql_type}) cannot be restricted by a '{operator}' relation")
    } else {
        format!("Non-frozen UDT column '{name}' ({cql_type}) cannot be restricted by any relation")
    }))
}

/// Refuses order comparisons of durations, which have no order.
fn refuse_durations(cql_type: &CqlType) -> Result<()> {
    if !has_duration(cql_type) {
        return Ok(());
    }
    Err(Failure::invalid(match cql_type {
        CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. } => {
            "Slice restrictions are not supported on collections containing durations"
        }
        CqlType::Tuple(_) => "Slice restrictions are not supported on tuples containing durations",
        CqlType::User { .. } => "Slice restrictions are not supported on UDTs containing durations",
        _ => "Slice restrictions are not supported on duration columns",
    }))
}

pub(crate) fn has_duration(cql_type: &CqlType) -> bool {
    // Cassandra does not look into vectors and composite types.
    let looks_into = !matches!(cql_type, CqlType::Vector { .. }) && !cql_type.is_composite();
    *cql_type == CqlType::Duration || looks_into && cql_type.parts().into_iter().any(has_duration)
}

/// Formats a relation as in error texts.
fn text(relation: &Relation) -> String {
    fn list<T: std::fmt::Display>(items: impl Iterator<Item = T>) -> String {
        let items: Vec<String> = items.map(|item| item.to_string()).collect();
        format!("({})", items.join(", "))
    }
    let names = |names: &[String]| list(names.iter().map(|name| shown(name)));
    match relation {
        Relation::Compare(name, operator, term) => format!("{} {} {term}", shown(name), operator.symbol()),
        Relation::In(name, terms) => format!("{} IN {}", shown(name), list(terms.iter())),
        Relation::InMarker(name, _) => format!("{} IN ?", shown(name)),
        Relation::Token(columns, operator, term) => format!("token{} {} {term}", names(columns), operator.symbol()),
        Relation::Tuple(columns, operator, value) => format!("{} {} {value}", names(columns), operator.symbol()),
        Relation::TupleIn(columns, values) => format!("{} IN {}", names(columns), list(values.iter())),
        Relation::TupleInMarker(columns, _) => format!("{} IN ?", names(columns)),
        Relation::Contains(name, term) => format!("{} CONTAINS {term}", shown(name)),
        Relation::ContainsKey(name, term) => format!("{} CONTAINS KEY {term}", shown(name)),
        Relation::Entry(name, key, operator, term) => format!("{}[{key}] {} {term}", shown(name), operator.symbol()),
        Relation::Like(name, term) => format!("{} LIKE {term}", shown(name)),
        Relation::IsNotNull(name) => format!("{} IS NOT NULL", shown(name)),
    }
}
