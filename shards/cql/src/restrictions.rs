//! WHERE to restrictions of the key.
//!
//! 1. Relations are read in order; several of one column are merged, or Cassandra's text says why they cannot be.
//! 2. [`Restrictions::select`] or [`Restrictions::modify`] turns what was found into a choice of partitions and rows, and
//!    refuses what would need filtering.
//!
//! Invariants: at most [`crate::RELATIONS_MAX`] relations, so that looking for a column's entry may be linear.

use crate::ast::{self, Operator, OtherRelation, Relation};
use crate::functions::column;
use crate::literal::{Markers, Receiver, Scope, prepare_term};
use crate::parser::unsupported;
use crate::plan::{Choice, ClusteringRestriction, Limit, PartitionRestriction, Term};
use model::{Column, ColumnId, ColumnKind, CqlType, Failure, Table};

type Result<T> = std::result::Result<T, Failure>;

/// The place of a token's value in markers and errors.
const TOKEN: &str = "partition key token";

const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data filtering and thus may have \
    unpredictable performance. If you want to execute this query despite the performance unpredictability, use ALLOW \
    FILTERING";

/// What one column, or the token, is restricted to.
enum Restriction {
    Choice(Choice),
    Slice { lower: Option<Limit>, upper: Option<Limit> },
}

/// What a WHERE clause says.
pub(crate) struct Restrictions<'s> {
    scope: &'s Scope,
    columns: Vec<(ColumnId, Restriction)>,
    token: Option<Restriction>,
}

impl<'s> Restrictions<'s> {
    /// Reads the relations.
    pub(crate) fn read(
        relations: &[Relation],
        scope: &'s Scope,
        markers: &mut Markers<'_>,
    ) -> Result<Restrictions<'s>> {
        let mut restrictions = Restrictions { scope, columns: Vec::with_capacity(relations.len()), token: None };
        for relation in relations {
            restrictions.add(relation, markers)?;
        }
        Ok(restrictions)
    }

    fn add(&mut self, relation: &Relation, markers: &mut Markers<'_>) -> Result<()> {
        let scope = self.scope;
        match relation {
            Relation::Compare(name, operator, term) => {
                let column = column(scope, name)?;
                if *operator == Operator::NotEqual {
                    return Err(Failure::invalid(format!("Unsupported \"!=\" relation: {name} != {term}")));
                }
                let receiver = Receiver { scope, name, cql_type: &column.cql_type };
                let value = prepare_term(term, &receiver, markers)?;
                if *operator == Operator::Equal {
                    refuse_null(&value, name)?;
                    note_key(column, &scope.table, &value, markers);
                }
                self.merge(column, restriction(*operator, value))
            }
            Relation::In(name, terms) => {
                let column = column(scope, name)?;
                let receiver = Receiver { scope, name, cql_type: &column.cql_type };
                let mut values = Vec::with_capacity(terms.len());
                for term in terms {
                    let value = prepare_term(term, &receiver, markers)?;
                    refuse_null(&value, name)?;
                    values.push(value);
                }
                // One value in parentheses is as good as `=`.
                let choice = match values.pop() {
                    Some(value) if values.is_empty() => {
                        note_key(column, &scope.table, &value, markers);
                        Choice::One(value)
                    }
                    last => {
                        values.extend(last);
                        Choice::Many(values)
                    }
                };
                self.merge(column, Restriction::Choice(choice))
            }
            Relation::InMarker(name, marker) => {
                let column = column(scope, name)?;
                let list = CqlType::List { element: Box::new(column.cql_type.clone()), frozen: false };
                markers.bind_as(*marker, scope, &format!("in({name})"), list);
                self.merge(column, Restriction::Choice(Choice::Marker(*marker)))
            }
            Relation::Token(names, operator, term) => self.add_token(names, *operator, term, markers),
            Relation::Other(name, other) => Err(self.refuse_other(name, other, markers)),
        }
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
        let twice = |(at, name): (usize, &String)| names[..at].contains(name);
        if names.iter().take(key.len() + 1).enumerate().any(twice) {
            return Err(Failure::invalid("The token() function contains duplicate partition key components"));
        }
        let all = names.len() == key.len() && key.iter().all(|column| names.contains(&column.name));
        if !all {
            return Err(Failure::invalid(
                "The token() function must be applied to all partition key components or none of them",
            ));
        }
        let shown = join(key.iter());
        if !key.iter().map(|column| &column.name).eq(names) {
            return Err(Failure::invalid(format!(
                "The token function arguments must be in the partition key order: {shown}"
            )));
        }
        if operator == Operator::NotEqual {
            return Err(Failure::invalid(format!("Unsupported \"!=\" relation: token({shown}) != {term}")));
        }
        let receiver = Receiver { scope, name: TOKEN, cql_type: &CqlType::Bigint };
        let value = prepare_term(term, &receiver, markers)?;
        let nothing = match &value {
            Term::Null => true,
            Term::Token(terms) => terms.iter().any(|(term, _)| *term == Term::Null),
            _ => false,
        };
        if nothing {
            return Err(Failure::invalid("Invalid null token value"));
        }
        let new = restriction(operator, value);
        match &mut self.token {
            Some(old) => merge_into(old, new, &shown, "Columns"),
            None => {
                self.token = Some(new);
                Ok(())
            }
        }
    }

    fn merge(&mut self, column: &Column, new: Restriction) -> Result<()> {
        match self.columns.iter_mut().find(|(id, _)| *id == column.id) {
            Some((_, old)) => merge_into(old, new, &column.name, "Column"),
            None => {
                self.columns.push((column.id, new));
                Ok(())
            }
        }
    }

    /// The error for a condition that only collections or indexes take.
    fn refuse_other(&self, name: &str, other: &OtherRelation, markers: &mut Markers<'_>) -> Failure {
        let column = match column(self.scope, name) {
            Ok(column) => column,
            Err(failure) => return failure,
        };
        let collection = column.cql_type.is_collection();
        match other {
            OtherRelation::IsNotNull => Failure::invalid(format!("Unsupported restriction: {name} IS NOT NULL")),
            OtherRelation::Like(term) => {
                let receiver = Receiver { scope: self.scope, name, cql_type: &column.cql_type };
                match prepare_term(term, &receiver, markers) {
                    Err(failure) => failure,
                    Ok(_) => Failure::invalid(format!(
                        "LIKE restriction is only supported on properly indexed columns. {name} LIKE {term} is not valid."
                    )),
                }
            }
            OtherRelation::Contains if collection => unsupported("CONTAINS"),
            OtherRelation::ContainsKey if collection => unsupported("CONTAINS KEY"),
            OtherRelation::Element if collection => unsupported("conditions on elements of collections"),
            OtherRelation::Contains => Failure::invalid(format!("Cannot use CONTAINS on non-collection column {name}")),
            OtherRelation::ContainsKey => Failure::invalid(format!("Cannot use CONTAINS KEY on non-map column {name}")),
            OtherRelation::Element => Failure::invalid(format!("Column {name} cannot be used as a map")),
        }
    }

    fn get(&self, column: &Column) -> Option<&Restriction> {
        self.columns.iter().find(|(id, _)| *id == column.id).map(|(_, restriction)| restriction)
    }

    fn take(&mut self, column: &Column) -> Option<Restriction> {
        let at = self.columns.iter().position(|(id, _)| *id == column.id)?;
        Some(self.columns.swap_remove(at).1)
    }

    /// Whether a column is restricted to one value.
    pub(crate) fn is_equal(&self, column: &Column) -> bool {
        matches!(self.get(column), Some(Restriction::Choice(Choice::One(_))))
    }

    /// The partitions and rows of a SELECT.
    pub(crate) fn select(mut self, allow_filtering: bool) -> Result<(PartitionRestriction, ClusteringRestriction)> {
        let table = &self.scope.table;
        let mut filtering = false;
        let given = table.partition_key().iter().filter(|column| self.get(column).is_some()).count();
        let slices =
            table.partition_key().iter().any(|column| matches!(self.get(column), Some(Restriction::Slice { .. })));
        let key_len = table.partition_key_len;
        if self.token.is_some() && given == key_len {
            return Err(unsupported("token() together with other restrictions of the partition key"));
        }
        filtering |= slices || (given > 0 && given < key_len);
        let clustered = table.clustering().iter().any(|column| self.get(column).is_some());
        match self.clustering_fault() {
            Some(fault) if !allow_filtering => return Err(fault.into()),
            Some(_) => filtering = true,
            None => {}
        }
        filtering |= clustered && given == 0;
        filtering |= self
            .columns
            .iter()
            .any(|(id, _)| table.column_by_id(*id).is_some_and(|column| column.kind == ColumnKind::Regular));
        if filtering {
            return Err(if allow_filtering {
                unsupported("ALLOW FILTERING")
            } else {
                Failure::invalid(NEEDS_FILTERING)
            });
        }
        let table = table.clone();
        let partitions = match self.token.take() {
            Some(Restriction::Choice(Choice::One(term))) => {
                let limit = Limit { term, inclusive: true };
                PartitionRestriction::Tokens { lower: Some(limit.clone()), upper: Some(limit) }
            }
            Some(Restriction::Slice { lower, upper }) => PartitionRestriction::Tokens { lower, upper },
            _ if given == 0 => PartitionRestriction::Scan,
            _ => PartitionRestriction::Keys(self.take_keys(&table)),
        };
        Ok((partitions, self.take_clustering(&table)))
    }

    /// The partitions and rows of an UPDATE or DELETE (`statement` names it). `rows`: every clustering column must have
    /// a choice, because cells are written; for DELETE that means that columns were named.
    pub(crate) fn modify(mut self, statement: &str, rows: bool) -> Result<(Vec<Choice>, ClusteringRestriction)> {
        let table = self.scope.table.clone();
        if self.token.is_some() {
            return Err(Failure::invalid(format!(
                "The token function cannot be used in WHERE clauses for {statement} statements"
            )));
        }
        let mut missing = table.partition_key().iter().filter(|column| self.get(column).is_none()).peekable();
        if missing.peek().is_some() {
            return Err(Failure::invalid(format!("Some partition key parts are missing: {}", join(missing))));
        }
        if table.partition_key().iter().any(|column| matches!(self.get(column), Some(Restriction::Slice { .. }))) {
            return Err(Failure::invalid(format!(
                "Only EQ and IN relation are supported on the partition key (unless you use the token() function) for \
                 {statement} statements"
            )));
        }
        let sliced =
            table.clustering().iter().any(|column| matches!(self.get(column), Some(Restriction::Slice { .. })));
        let update = statement == "UPDATE";
        match self.clustering_fault() {
            // An UPDATE with a gap lacks keys, which is said below.
            Some(ClusteringFault::Gap { .. }) if update => {}
            Some(fault) => return Err(fault.into()),
            None => {}
        }
        if sliced && update {
            return Err(Failure::invalid(
                "Slice restrictions are not supported on the clustering columns in UPDATE statements",
            ));
        }
        let mut missing = table.clustering().iter().filter(|column| self.get(column).is_none()).peekable();
        let incomplete = missing.peek().is_some();
        if update && incomplete {
            return Err(Failure::invalid(format!("Some clustering keys are missing: {}", join(missing))));
        }
        let mut regular = table.regular().iter().filter(|column| self.get(column).is_some()).peekable();
        if regular.peek().is_some() {
            return Err(Failure::invalid(format!("Non PRIMARY KEY columns found in where clause: {} ", join(regular))));
        }
        if rows && (sliced || incomplete) {
            return Err(Failure::invalid("Range deletions are not supported for specific columns"));
        }
        Ok((self.take_keys(&table), self.take_clustering(&table)))
    }

    /// What breaks the rule that choices come first, then at most one slice, then nothing.
    fn clustering_fault(&self) -> Option<ClusteringFault<'_>> {
        let mut open: Option<(&Column, bool)> = None;
        for column in self.scope.table.clustering() {
            let restriction = self.get(column);
            if let (Some(_), Some((previous, is_sliced))) = (restriction, open) {
                let (column, previous) = (column.name.as_str(), previous.name.as_str());
                return Some(match is_sliced {
                    true => ClusteringFault::AfterSlice { column, previous },
                    false => ClusteringFault::Gap { column, previous },
                });
            }
            match restriction {
                Some(Restriction::Choice(_)) => {}
                Some(Restriction::Slice { .. }) => open = Some((column, true)),
                None => open = open.or(Some((column, false))),
            }
        }
        None
    }

    fn take_keys(&mut self, table: &Table) -> Vec<Choice> {
        let mut keys = Vec::with_capacity(table.partition_key_len);
        for column in table.partition_key() {
            if let Some(Restriction::Choice(choice)) = self.take(column) {
                keys.push(choice);
            }
        }
        keys
    }

    fn take_clustering(&mut self, table: &Table) -> ClusteringRestriction {
        let mut clustering = ClusteringRestriction::default();
        for column in table.clustering() {
            match self.take(column) {
                Some(Restriction::Choice(choice)) => clustering.choices.push(choice),
                Some(Restriction::Slice { lower, upper }) => {
                    clustering.lower = lower;
                    clustering.upper = upper;
                }
                None => break,
            }
        }
        clustering
    }
}

/// A clustering column restricted where it cannot be.
enum ClusteringFault<'c> {
    /// `previous` has no restriction.
    Gap { column: &'c str, previous: &'c str },
    /// `previous` has a slice.
    AfterSlice { column: &'c str, previous: &'c str },
}

impl From<ClusteringFault<'_>> for Failure {
    fn from(fault: ClusteringFault<'_>) -> Failure {
        Failure::invalid(match fault {
            ClusteringFault::Gap { column, previous } => format!(
                "PRIMARY KEY column \"{column}\" cannot be restricted as preceding column \"{previous}\" is not \
                 restricted"
            ),
            ClusteringFault::AfterSlice { column, previous } => format!(
                "Clustering column \"{column}\" cannot be restricted (preceding column \"{previous}\" is restricted by a \
                 non-EQ relation)"
            ),
        })
    }
}

/// Names with commas between.
pub(crate) fn join<'c>(columns: impl Iterator<Item = &'c Column>) -> String {
    let names: Vec<&str> = columns.map(|column| column.name.as_str()).collect();
    names.join(", ")
}

fn restriction(operator: Operator, term: Term) -> Restriction {
    let limit = |term, inclusive| Some(Limit { term, inclusive });
    match operator {
        Operator::Greater => Restriction::Slice { lower: limit(term, false), upper: None },
        Operator::GreaterEqual => Restriction::Slice { lower: limit(term, true), upper: None },
        Operator::Less => Restriction::Slice { lower: None, upper: limit(term, false) },
        Operator::LessEqual => Restriction::Slice { lower: None, upper: limit(term, true) },
        Operator::Equal | Operator::NotEqual => Restriction::Choice(Choice::One(term)),
    }
}

/// Adds `new` to what `names` are restricted to already.
fn merge_into(old: &mut Restriction, new: Restriction, names: &str, column_word: &str) -> Result<()> {
    match (old, new) {
        (Restriction::Choice(choice), _) => {
            let what = if matches!(choice, Choice::One(_)) { "an Equal" } else { "a IN" };
            Err(Failure::invalid(format!(
                "{names} cannot be restricted by more than one relation if it includes {what}"
            )))
        }
        (Restriction::Slice { .. }, Restriction::Choice(_)) => Err(Failure::invalid(format!(
            "{column_word} \"{names}\" cannot be restricted by both an equality and an inequality relation"
        ))),
        (Restriction::Slice { lower, upper }, Restriction::Slice { lower: new_lower, upper: new_upper }) => {
            for (old, new, side) in [(lower, new_lower, "start"), (upper, new_upper, "end")] {
                match (&old, &new) {
                    (Some(_), Some(_)) => {
                        return Err(Failure::invalid(format!(
                            "More than one restriction was found for the {side} bound on {names}"
                        )));
                    }
                    (None, Some(_)) => *old = new,
                    _ => {}
                }
            }
            Ok(())
        }
    }
}

/// `= null` and `IN (null)` never hold.
pub(crate) fn refuse_null(term: &Term, name: &str) -> Result<()> {
    match term {
        Term::Null => Err(Failure::invalid(format!("Invalid null value in condition for column {name}"))),
        _ => Ok(()),
    }
}

/// Notes a marker that alone gives a partition key column.
pub(crate) fn note_key(column: &Column, table: &Table, term: &Term, markers: &mut Markers<'_>) {
    if column.kind == ColumnKind::PartitionKey {
        markers.key(column.position as usize, table.partition_key_len, term);
    }
}
