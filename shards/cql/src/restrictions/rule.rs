//! Rules: the merged relations on one column, or on several columns together.

use super::Result;
use crate::ast::Operator;
use crate::plan::{Choice, SliceBound, Term, Tuple};
use model::{Failure, Table};

/// A rule and its columns.
pub(super) struct Entry {
    /// Indexes of the columns in the table, ascending.
    pub(super) columns: Vec<usize>,
    /// Whether any part of it was written as a tuple, `(a, b)`.
    pub(super) is_tuple: bool,
    /// The rule.
    pub(super) rule: Rule,
}

/// The restriction of some columns.
pub(super) enum Rule {
    /// `=`: a single value.
    Equal(Choice),
    /// `IN`: several values.
    In(Choice),
    /// `<`, `<=`, `>`, `>=`.
    Slice { lower: Option<SliceBound>, upper: Option<SliceBound> },
    /// `CONTAINS`, `CONTAINS KEY` and `m[k] = v`; all must hold.
    Contains(Vec<Element>),
}

/// An element that a collection must contain.
pub(super) enum Element {
    /// `CONTAINS x`.
    Value(Term),
    /// `CONTAINS KEY x`.
    Key(Term),
    /// `m[k] = v`.
    Entry(Term, Term),
}

impl Entry {
    /// A rule for a single column.
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

    /// Whether this is a rule for the column with this index. The columns of a rule are consecutive.
    pub(super) fn restricts(&self, place: usize) -> bool {
        self.first() <= place && place <= self.last()
    }

    /// Whether this is `=` or IN.
    pub(super) fn is_choice(&self) -> bool {
        matches!(self.rule, Rule::Equal(_) | Rule::In(_))
    }
}

impl Rule {
    /// The slice of a comparison other than `=`.
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

/// Adds a rule to those for columns of the same kind, and merges it with existing rules for its columns.
pub(super) fn add(entries: &mut Vec<Entry>, mut new: Entry, table: &Table) -> Result<()> {
    // Merging fails unless both rules are slices from the same column or conditions on the elements of one collection.
    // All rules met here therefore become one.
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
