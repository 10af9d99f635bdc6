//! The conditions of all statements of a conditional change together, and whether rows that were read meet them.

use crate::execute::values::binding::Values;
use crate::execute::write::mutations::named_row;
use crate::messages::data::ConditionalStatement;
use crate::shard_state::Shard;
use cql::conditions::BoundCondition;
use cql::plan::Conditions;
use model::comparable::{self, BoundSide};
use model::mutation::Clustering;
use model::value::BoundValue;
use model::{ColumnId, ColumnKind, Failure, Table};
use std::collections::BTreeMap;

/// The conditions on one row, or on the static row.
pub(super) enum Wanted<'c> {
    Exists,
    NotExists,
    Columns(Vec<(ColumnId, BoundCondition<'c>)>),
}

/// The conditions of all statements together, and the columns that they need.
pub(super) struct Asked<'c> {
    table: &'c Table,
    statics: Option<Wanted<'c>>,
    /// By comparable form of the clustering: the clustering and the condition on its row.
    pub(super) rows: BTreeMap<Vec<u8>, (Vec<u8>, Wanted<'c>)>,
    /// The static and regular columns that are read.
    pub(super) columns: Vec<ColumnId>,
    /// Whether static columns are read.
    pub(super) reads_statics: bool,
    /// Whether all static columns are read.
    pub(super) reads_all_statics: bool,
}

impl<'c> Asked<'c> {
    /// Evaluates the statements' conditions. Fails for conditions that exclude each other.
    pub(super) fn of(
        shard: &Shard,
        table: &'c Table,
        parts: &'c [ConditionalStatement],
        bound: &'c [Vec<BoundValue<'c>>],
    ) -> Result<Asked<'c>, Failure> {
        let mut asked = Asked {
            table,
            statics: None,
            rows: BTreeMap::new(),
            columns: Vec::new(),
            reads_statics: false,
            reads_all_statics: false,
        };
        for (ConditionalStatement { modify, .. }, bound) in parts.iter().zip(bound) {
            let values = Values::in_order(bound);
            match &modify.conditions {
                Conditions::None => {}
                Conditions::Exists | Conditions::NotExists => {
                    let wanted = match modify.conditions {
                        Conditions::Exists => Wanted::Exists,
                        _ => Wanted::NotExists,
                    };
                    let row = named_row(shard, modify, &values)?;
                    asked.want_existence(row, wanted)?;
                }
                Conditions::Columns(conditions) => {
                    for condition in conditions {
                        let condition_bound = condition.bind(table, bound, &mut shard.evaluation())?;
                        let row = match condition.is_static {
                            true => None,
                            false => named_row(shard, modify, &values)?,
                        };
                        asked.want_column(row, condition.column, condition_bound)?;
                    }
                }
            }
        }
        asked.choose_columns(parts);
        Ok(asked)
    }

    fn want_existence(&mut self, row: Option<Vec<u8>>, wanted: Wanted<'c>) -> Result<(), Failure> {
        let word = if matches!(wanted, Wanted::NotExists) { "NOT EXISTS" } else { "EXISTS" };
        let place = match row {
            None => &mut self.statics,
            Some(row) => {
                let place = comparable_of(self.table, &row);
                match self.rows.get_mut(&place) {
                    None => {
                        self.rows.insert(place, (row, wanted));
                        return Ok(());
                    }
                    Some((_, before)) => return mixed(before, &wanted, word),
                }
            }
        };
        match place {
            None => *place = Some(wanted),
            Some(before) => return mixed(before, &wanted, word),
        }
        Ok(())
    }

    fn want_column(
        &mut self,
        row: Option<Vec<u8>>,
        column: ColumnId,
        condition: BoundCondition<'c>,
    ) -> Result<(), Failure> {
        let none = || Wanted::Columns(Vec::new());
        let place = match row {
            None => self.statics.get_or_insert_with(none),
            Some(row) => {
                let place = comparable_of(self.table, &row);
                &mut self.rows.entry(place).or_insert_with(|| (row, none())).1
            }
        };
        match place {
            Wanted::Columns(conditions) => {
                conditions.push((column, condition));
                Ok(())
            }
            Wanted::Exists | Wanted::NotExists => {
                Err(Failure::invalid("Cannot mix IF conditions and IF NOT EXISTS for the same row"))
            }
        }
    }

    /// Chooses the columns to read: those that conditions look at and, if a condition tests existence, all columns of
    /// the kinds (static, regular) that the statements are about. A statement without a condition counts for the
    /// regular kind only.
    fn choose_columns(&mut self, parts: &[ConditionalStatement]) {
        let all = || parts.iter().map(|part| &part.modify);
        let modifies = || all().filter(|modify| modify.is_conditional());
        let data = self.table.data_columns().iter();
        let statics = modifies().any(|modify| !modify.statics.is_empty());
        let looked_at = |id: &ColumnId| {
            modifies().any(|modify| {
                let operations = modify.operations.iter().chain(&modify.statics);
                modify.conditions.columns().iter().any(|condition| condition.column == *id)
                    || operations
                        .into_iter()
                        .any(|operation| operation.column == *id && (operation.reads() || operation.increases()))
            })
        };
        let existence = modifies().any(|modify| modify.conditions.test_existence());
        let rows = all().any(|modify| self.table.clustering_len == 0 || !modify.clustering.is_empty());
        let written = |kind: ColumnKind| existence && if kind == ColumnKind::Static { statics } else { rows };
        let wanted = data.filter(|column| written(column.kind) || looked_at(&column.id));
        self.columns = wanted.map(|column| column.id).collect();
        let is_static = |id: &ColumnId| self.table.statics().iter().any(|column| column.id == *id);
        // A statement that writes static columns is shown whether any of them has a value.
        self.reads_statics = statics || self.columns.iter().any(is_static);
        self.reads_all_statics = statics;
    }

    /// Whether all conditions hold.
    pub(super) fn holds(&self, found: &[Found]) -> Result<bool, Failure> {
        if let Some(wanted) = &self.statics {
            let holder = found.first();
            let exists = holder.is_some_and(|row| {
                let mut statics = self.table.statics().iter();
                statics.any(|column| self.value(row, column.id).is_some())
            });
            if !self.holds_in(wanted, exists, holder)? {
                return Ok(false);
            }
        }
        for (place, (_, wanted)) in &self.rows {
            let row = found.iter().find(|row| row.place.as_ref() == Some(place));
            if !self.holds_in(wanted, row.is_some(), row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn holds_in(&self, wanted: &Wanted<'_>, exists: bool, row: Option<&Found>) -> Result<bool, Failure> {
        Ok(match wanted {
            Wanted::Exists => exists,
            Wanted::NotExists => !exists,
            Wanted::Columns(conditions) => {
                for (column, condition) in conditions {
                    let value = row.and_then(|row| self.value(row, *column));
                    if !condition.holds(value)? {
                        return Ok(false);
                    }
                }
                true
            }
        })
    }

    /// A column's value in a row that was read; `None` for null.
    pub(super) fn value<'r>(&self, row: &'r Found, column: ColumnId) -> Option<&'r [u8]> {
        let keys = self.table.primary_key_len();
        let at = match self.table.index_of(column) {
            Some(at) if at < keys => at,
            _ => keys + self.columns.iter().position(|read| *read == column)?,
        };
        row.values.get(at)?.as_deref()
    }
}

/// Fails for two conditions on one row of which one tests existence.
fn mixed(before: &Wanted<'_>, now: &Wanted<'_>, word: &str) -> Result<(), Failure> {
    match (before, now) {
        (Wanted::Exists, Wanted::Exists) | (Wanted::NotExists, Wanted::NotExists) => Ok(()),
        (Wanted::Columns(_), _) => {
            Err(Failure::invalid(format!("Cannot mix IF conditions and IF {word} for the same row")))
        }
        _ => Err(Failure::invalid("Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row")),
    }
}

/// The comparable form of a full clustering.
pub(super) fn comparable_of(table: &Table, clustering: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    comparable::bound(table, Clustering(clustering).components(), BoundSide::Before, &mut out);
    out
}

/// A row that was read.
pub(super) struct Found {
    /// The comparable form of its clustering; `None` for a partition that has only static content.
    pub(super) place: Option<Vec<u8>>,
    /// The values of the primary key's columns, then of the columns read, in their order.
    pub(super) values: Vec<Option<Vec<u8>>>,
}
