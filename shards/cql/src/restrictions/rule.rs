//! Rules: what the relations of one column, or of several together, come to.

use super::Result;
use crate::ast::Operator;
use crate::plan::{Choice, SliceBound, Term, Tuple};
use model::{Failure, Table};

/// A rule and its columns.
pub(super) struct Entry {
    /// Places in the table, ascending.
    pub(super) columns: Vec<usize>,
    /// Whether it was, at least in part, written as `(a, b)`.
    pub(super) is_tuple: bool,
    /// The rule.
    pub(super) rule: Rule,
}

/// What columns are restricted to.
pub(super) enum Rule {
    /// `=`: one choice.
    Equal(Choice),
    /// `IN`: several.
    In(Choice),
    /// `<`, `<=`, `>`, `>=`.
    Slice { lower: Option<SliceBound>, upper: Option<SliceBound> },
    /// `CONTAINS`, `CONTAINS KEY`, `m[k] = v`: all of these.
    Contains(Vec<Element>),
}

/// What a collection must hold.
pub(super) enum Element {
    /// `CONTAINS x`.
    Value(Term),
    /// `CONTAINS KEY x`.
    Key(Term),
    /// `m[k] = v`.
    Entry(Term, Term),
}

impl Entry {
    /// Of one column.
    pub(super) fn single(column: usize, rule: Rule) -> Entry {
        Entry { columns: vec![column], is_tuple: false, rule }
    }

    /// The first column.
    pub(super) fn first(&self) -> usize {
        self.columns.first().copied().unwrap_or_default()
    }

    /// The last column.
    pub(super) fn last(&self) -> usize {
        self.columns.last().copied().unwrap_or_default()
    }

    /// Whether this is a rule for the column at a place. Columns of one rule follow each other.
    pub(super) fn restricts(&self, place: usize) -> bool {
        self.first() <= place && place <= self.last()
    }

    /// Whether this is `=` or IN.
    pub(super) fn is_choice(&self) -> bool {
        matches!(self.rule, Rule::Equal(_) | Rule::In(_))
    }
}

impl Rule {
    /// The slice of a comparison that is not `=`.
    pub(super) fn slice(operator: Operator, values: Tuple) -> Rule {
        let inclusive = matches!(operator, Operator::LessEqual | Operator::GreaterEqual);
        let limit = Some(SliceBound { values, inclusive });
        match operator {
            Operator::Less | Operator::LessEqual => Rule::Slice { lower: None, upper: limit },
            _ => Rule::Slice { lower: limit, upper: None },
        }
    }

    pub(super) fn is_slice(&self) -> bool {
        matches!(self, Rule::Slice { .. })
    }

    pub(super) fn is_contains(&self) -> bool {
        matches!(self, Rule::Contains(_))
    }
}

/// Adds a rule to those of columns of the same kind, merging it with the rules of its columns.
pub(super) fn add(entries: &mut Vec<Entry>, mut new: Entry, table: &Table) -> Result<()> {
    // Merging fails unless both are slices from the same column or conditions on the elements of one collection, so
    // that all rules that are met here end up as one.
    while let Some(at) = entries.iter().position(|old| old.first() <= new.last() && new.first() <= old.last()) {
        let old = entries.remove(at);
        new = merge(old, new, table)?;
    }
    let at = entries.partition_point(|entry| entry.first() < new.first());
    entries.insert(at, new);
    Ok(())
}

fn merge(old: Entry, new: Entry, table: &Table) -> Result<Entry> {
    let name = |place: usize| table.columns[place].name.as_str();
    let common = || {
        let common: Vec<&str> =
            old.columns.iter().filter(|place| new.restricts(**place)).map(|&place| name(place)).collect();
        common.join(" ,")
    };
    let is_tuple = old.is_tuple || new.is_tuple;
    match (&old.rule, &new.rule) {
        (Rule::Equal(_) | Rule::In(_), _) => {
            let what = if matches!(old.rule, Rule::Equal(_)) { "an Equal" } else { "a IN" };
            Err(Failure::invalid(format!(
                "{} cannot be restricted by more than one relation if it includes {what}",
                common()
            )))
        }
        (Rule::Contains(_), Rule::Contains(_)) => {
            let (Rule::Contains(mut all), Rule::Contains(more)) = (old.rule, new.rule) else {
                return Err(Failure::server("two conditions on one collection are none"));
            };
            all.extend(more);
            Ok(Entry { columns: old.columns, is_tuple, rule: Rule::Contains(all) })
        }
        (Rule::Contains(_), _) => Err(Failure::invalid(format!(
            "Collection column {} can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality",
            name(old.first())
        ))),
        (Rule::Slice { lower, upper }, Rule::Slice { lower: new_lower, upper: new_upper }) => {
            if old.first() != new.first() {
                return Err(Failure::invalid(format!(
                    "Column \"{}\" cannot be restricted by two inequalities not starting with the same column",
                    name(old.first().max(new.first()))
                )));
            }
            for (old, new, side) in [(lower, new_lower, "start"), (upper, new_upper, "end")] {
                if old.is_some() && new.is_some() {
                    return Err(Failure::invalid(format!(
                        "More than one restriction was found for the {side} bound on {}",
                        common()
                    )));
                }
            }
            let rule = Rule::Slice {
                lower: lower.clone().or_else(|| new_lower.clone()),
                upper: upper.clone().or_else(|| new_upper.clone()),
            };
            let columns = if old.columns.len() >= new.columns.len() { old.columns } else { new.columns };
            Ok(Entry { columns, is_tuple, rule })
        }
        (Rule::Slice { .. }, _) => Err(Failure::invalid(format!(
            "Column \"{}\" cannot be restricted by both an equality and an inequality relation",
            common()
        ))),
    }
}
