//! Restrictions: from a WHERE clause to the partitions and rows that a statement reads or writes.
//!
//! 1. `relation.rs` turns a relation into a rule for its columns, or fails with Cassandra's text.
//! 2. Rules for the same columns are merged, in the order of the relations (`rule.rs`).
//! 3. [`Restrictions::select`] (`select.rs`) or [`Restrictions::modify`] (`modify.rs`) turns the rules into keys,
//!    ranges and, with ALLOW FILTERING or an index (`indexes.rs`), conditions that are checked on every row.
//!
//! Invariants: there are at most [`crate::RELATIONS_MAX`] relations, so that a linear search for a column's rule is
//! fine; the rules for one kind of columns have no column in common and are sorted by their first column.

mod indexes;
mod modify;
mod relation;
mod rule;
mod select;

pub(crate) use relation::has_duration;
pub(crate) use select::SelectedRows;

use crate::ast::Relation;
use crate::literal::{Markers, Scope};
use crate::plan::{Term, TokenBound};
use model::{Column, ColumnKind, Failure, Table};
use rule::{Entry, Rule};

type Result<T> = std::result::Result<T, Failure>;

/// Cassandra's refusal of a statement that would read more rows than it returns.
pub(crate) const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data filtering and thus may \
    have unpredictable performance. If you want to execute this query despite the performance unpredictability, use \
    ALLOW FILTERING";

/// The statement that a WHERE clause belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// SELECT.
    Select {
        /// Whether ALLOW FILTERING was given.
        allow_filtering: bool,
    },
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
}

impl Purpose {
    fn allows_filtering(self) -> bool {
        matches!(self, Purpose::Select { allow_filtering: true })
    }

    /// The statement's name in errors.
    fn name(self) -> &'static str {
        match self {
            Purpose::Select { .. } => "SELECT",
            Purpose::Update => "UPDATE",
            Purpose::Delete => "DELETE",
        }
    }
}

/// The restriction of the token.
#[derive(Default)]
struct TokenRule {
    /// Whether it is `token(pk) = x`; both bounds are then `x`.
    equal: bool,
    lower: Option<TokenBound>,
    upper: Option<TokenBound>,
}

/// The rules of a WHERE clause.
pub(crate) struct Restrictions<'s> {
    scope: &'s Scope,
    purpose: Purpose,
    partition: Vec<Entry>,
    clustering: Vec<Entry>,
    /// Rules for static and regular columns.
    data: Vec<Entry>,
    token: Option<TokenRule>,
}

impl<'s> Restrictions<'s> {
    /// Turns relations into rules.
    pub(crate) fn read(
        purpose: Purpose,
        relations: &[Relation],
        scope: &'s Scope,
        markers: &mut Markers<'_>,
    ) -> Result<Restrictions<'s>> {
        let mut restrictions = Restrictions {
            scope,
            purpose,
            partition: Vec::new(),
            clustering: Vec::new(),
            data: Vec::new(),
            token: None,
        };
        for relation in relations {
            restrictions.add(relation, markers)?;
        }
        Ok(restrictions)
    }

    fn table(&self) -> &'s Table {
        &self.scope.table
    }

    fn column(&self, place: usize) -> &'s Column {
        &self.table().columns[place]
    }

    /// Adds a rule to those for its kind of columns.
    fn add_entry(&mut self, entry: Entry) -> Result<()> {
        let table = self.table();
        match table.columns[entry.first()].kind {
            ColumnKind::PartitionKey => rule::add(&mut self.partition, entry, table),
            ColumnKind::Clustering => self.add_clustering(entry),
            ColumnKind::Static | ColumnKind::Regular => rule::add(&mut self.data, entry, table),
        }
    }

    /// Adds a rule for clustering columns. Without filtering no rule may follow a slice.
    fn add_clustering(&mut self, entry: Entry) -> Result<()> {
        let table = self.table();
        let first = entry.first();
        let is_slice = entry.rule.is_slice();
        // An index may find the rows.
        let is_indexed = matches!(self.purpose, Purpose::Select { .. }) && self.has_index(&entry);
        let last = self.clustering.last().map(|last| (last.first(), last.rule.is_slice()));
        let next = self.clustering.iter().flat_map(|entry| &entry.columns).find(|&&place| place > first).copied();
        rule::add(&mut self.clustering, entry, table)?;
        let Some((last, last_is_slice)) = last else { return Ok(()) };
        if self.purpose.allows_filtering() || is_indexed {
            return Ok(());
        }
        let name = |place| &self.column(place).name;
        if last_is_slice && first > last {
            return Err(Failure::invalid(format!(
                "Clustering column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ relation)",
                name(first),
                name(last)
            )));
        }
        if is_slice
            && first < last
            && let Some(next) = next
        {
            return Err(Failure::invalid(format!(
                "PRIMARY KEY column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ relation)",
                name(next),
                name(first)
            )));
        }
        Ok(())
    }

    /// Whether an index may answer a rule.
    fn has_index(&self, entry: &Entry) -> bool {
        indexes::serving(self.table(), entry).next().is_some()
    }

    /// Whether a column is restricted to one value.
    pub(crate) fn is_equal(&self, column: &Column) -> bool {
        let entries = match column.kind {
            ColumnKind::PartitionKey => &self.partition,
            ColumnKind::Clustering => &self.clustering,
            ColumnKind::Static | ColumnKind::Regular => &self.data,
        };
        let place = place(self.table(), column);
        entries.iter().any(|entry| matches!(entry.rule, Rule::Equal(_)) && entry.restricts(place))
    }

    /// Whether a column is restricted in any way, a column of the partition key also by the token.
    pub(crate) fn restricts(&self, column: &Column) -> bool {
        let entries = match column.kind {
            ColumnKind::PartitionKey if self.token.is_some() => return true,
            ColumnKind::PartitionKey => &self.partition,
            ColumnKind::Clustering => &self.clustering,
            ColumnKind::Static | ColumnKind::Regular => &self.data,
        };
        let place = place(self.table(), column);
        entries.iter().any(|entry| entry.restricts(place))
    }

    /// The columns with an index in `all` that no entry restricts.
    fn unrestricted(&self, entries: &[Entry], all: std::ops::Range<usize>) -> Vec<&'s Column> {
        let free = all.filter(|place| !entries.iter().any(|entry| entry.restricts(*place)));
        free.map(|place| self.column(place)).collect()
    }

    fn partition_places(&self) -> std::ops::Range<usize> {
        0..self.table().partition_key_len
    }

    fn clustering_places(&self) -> std::ops::Range<usize> {
        self.table().partition_key_len..self.table().primary_key_len()
    }

    /// Fails for the first restricted clustering column that follows an unrestricted one, with Cassandra's text.
    fn refuse_gap(&self) -> Result<()> {
        let restricted = self.clustering.iter().flat_map(|entry| entry.columns.iter().copied());
        for (column, restricted) in self.clustering_places().zip(restricted) {
            if column != restricted {
                return Err(gap(self.column(restricted), self.column(column)));
            }
        }
        Ok(())
    }
}

/// The failure for a restricted clustering column after an unrestricted one.
pub(crate) fn gap(restricted: &Column, free: &Column) -> Failure {
    Failure::invalid(format!(
        "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" is not restricted",
        restricted.name, free.name
    ))
}

/// The index of a column in its table.
fn place(table: &Table, column: &Column) -> usize {
    match column.kind {
        ColumnKind::PartitionKey => column.position as usize,
        ColumnKind::Clustering => table.partition_key_len + column.position as usize,
        ColumnKind::Static | ColumnKind::Regular => {
            table.columns.iter().position(|other| other.id == column.id).unwrap_or_default()
        }
    }
}

/// The columns' names, separated by commas.
pub(crate) fn join<'c>(columns: impl Iterator<Item = &'c Column>) -> String {
    let names: Vec<&str> = columns.map(|column| column.name.as_str()).collect();
    names.join(", ")
}

/// Records a marker that alone gives a partition key column; of several the last counts, as in Cassandra. With write
/// sharding the token of these values is no partition's: drivers that routed by it would send all requests for one key
/// to the same nodes.
pub(crate) fn note_key(column: &Column, table: &Table, term: &Term, markers: &mut Markers<'_>) {
    if column.kind == ColumnKind::PartitionKey && table.write_sharding().is_none() {
        markers.key(column.position as usize, table.partition_key_len, term);
    }
}
