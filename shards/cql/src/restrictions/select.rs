//! The restrictions of SELECT: keys or a range of tokens, slices of each partition, and conditions that are checked on
//! rows.

use super::rule::{Element, Entry, Rule};
use super::{NEEDS_FILTERING, Restrictions, Result, TokenRule, indexes};
use crate::plan::{
    Choice, ClusteringRestriction, Comparison, Filter, IndexUse, PartitionRestriction, SliceBound, TokenBounds, Tuple,
};
use model::{Column, ColumnId, ColumnKind, CqlType, Failure};

/// The partitions and rows that a SELECT reads.
pub(crate) struct SelectedRows {
    /// The partitions.
    pub(crate) partitions: PartitionRestriction,
    /// Bounds of the tokens of named keys.
    pub(crate) key_tokens: Option<TokenBounds>,
    /// The rows of each partition.
    pub(crate) clustering: ClusteringRestriction,
    /// The conditions that are checked on every row.
    pub(crate) filter: Vec<Filter>,
    /// The index that finds the rows.
    pub(crate) index: Option<IndexUse>,
    /// Whether the SELECT counts as using an index, even if none finds its rows.
    pub(crate) uses_index: bool,
    /// Whether a partition without rows but with static values gives a row.
    pub(crate) static_rows: bool,
    /// Whether a range of partitions is read.
    pub(crate) key_range: bool,
    /// Whether the partition key, or its token, is restricted at all.
    pub(crate) key_restricted: bool,
    /// Whether the partition key is restricted by IN.
    pub(crate) key_in: bool,
    /// Whether ALLOW FILTERING is missing. Reported after errors of ORDER BY.
    pub(crate) lacks_filtering: bool,
}

impl Restrictions<'_> {
    /// The partitions and rows of a SELECT. `only_statics`: apart from partition key columns it selects only static
    /// columns.
    pub(crate) fn select(mut self, only_statics: bool) -> Result<SelectedRows> {
        let table = self.scope.table.clone();
        let allowed = self.purpose.allows_filtering() || table.is_virtual();
        let key_len: usize = self.partition.iter().map(|entry| entry.columns.len()).sum();
        let key_choices = self.partition.iter().all(Entry::is_choice);
        let key_filtered = !self.partition.is_empty() && (key_len < table.partition_key_len || !key_choices);
        let on_token = self.token.is_some() && (key_filtered || key_len < table.partition_key_len);
        let has_index =
            [&self.partition, &self.clustering, &self.data].into_iter().flatten().any(|entry| self.has_index(entry));
        if key_filtered && !allowed && !has_index {
            return Err(Failure::invalid(NEEDS_FILTERING));
        }
        let key_range = on_token || key_filtered || self.partition.is_empty();
        let key_in = !on_token && self.partition.iter().any(|entry| matches!(entry.rule, Rule::In(_)));
        let key_restricted = self.token.is_some() || !self.partition.is_empty();
        if only_statics && !self.clustering.is_empty() {
            return Err(Failure::invalid("Cannot restrict clustering columns when selecting only static columns"));
        }
        let clustering_filtered = self.clustering_needs_filtering();
        if !self.purpose.allows_filtering() && !has_index {
            if self.clustering.iter().any(|entry| entry.rule.is_contains()) {
                return Err(Failure::invalid(
                    "Clustering columns can only be restricted with CONTAINS with a secondary index or filtering",
                ));
            }
            if clustering_filtered {
                self.refuse_gap()?;
            }
        }
        // As in Cassandra only the first restricted vector column is checked.
        let restricted = self.data.iter().map(|entry| self.column(entry.first()));
        let vectors = restricted.filter(|column| matches!(column.cql_type, CqlType::Vector { .. }));
        let first = vectors.min_by_key(|column| (column.kind == ColumnKind::Static, column.name.as_str()));
        if first.is_some_and(|column| table.indexes_of(&column.name).next().is_some()) {
            return Err(Failure::invalid("Vector indexes only support ANN queries"));
        }
        if !self.data.is_empty() && !allowed && !has_index {
            return Err(Failure::invalid(NEEDS_FILTERING));
        }
        let is_regular = |entry: &Entry| self.column(entry.first()).kind == ColumnKind::Regular;
        let static_rows = self.clustering.is_empty() && !self.data.iter().any(is_regular);
        // The rules that an index answers or that rows are filtered by: on the key, unless it gives the partitions; on
        // the clustering, if it is more than a slice of a partition.
        let no_key = self.partition.is_empty() && self.token.is_none();
        let with_key = has_index && (key_filtered || no_key);
        let with_clustering = with_key
            || has_index && clustering_filtered
            || key_range && self.clustering.iter().any(|entry| self.has_index(entry));
        let uses_index = with_clustering || has_index && !self.data.is_empty();
        if uses_index && key_in {
            return Err(Failure::invalid(
                "Select on indexed columns and with IN clause for the PRIMARY KEY are not supported",
            ));
        }
        let mut asked: Vec<&Entry> = self.data.iter().collect();
        if with_clustering || clustering_filtered {
            asked.extend(&self.clustering);
        }
        if with_key || key_filtered {
            asked.extend(&self.partition);
        }
        let lacks_filtering = !allowed
            && (key_range || uses_index)
            && match asked.is_empty() {
                true => !self.clustering.is_empty(),
                false => !table.indexes.iter().any(|index| indexes::is_enough(&table, &asked, index)),
            };
        let index = if uses_index { indexes::leading(&table, &asked) } else { None };

        let mut filter = Vec::new();
        let bounds = self.token.take().map(|TokenRule { lower, upper, .. }| TokenBounds { lower, upper });
        let (mut key_tokens, mut partitions) = (None, PartitionRestriction::Scan);
        if !key_range {
            key_tokens = bounds;
            let choices: Vec<Choice> = std::mem::take(&mut self.partition).into_iter().filter_map(choice).collect();
            partitions = PartitionRestriction::Keys(choices);
        } else {
            if let Some(TokenBounds { lower, upper }) = bounds {
                partitions = PartitionRestriction::Tokens { lower, upper };
            }
            for entry in std::mem::take(&mut self.partition) {
                push_filters(entry, &table.columns, &mut filter);
            }
        }
        let mut clustering = ClusteringRestriction::default();
        let mut next = table.partition_key_len;
        let mut led = false;
        for entry in std::mem::take(&mut self.clustering) {
            // After a column whose value comes from an index, Cassandra treats every condition as a filter.
            let filters = led && entry.is_tuple && entry.rule.is_slice();
            if filters || entry.rule.is_contains() || entry.first() != next {
                push_filters(entry, &table.columns, &mut filter);
                continue;
            }
            let leads = index
                .as_ref()
                .is_some_and(|index| entry.columns.iter().any(|&place| table.columns[place].id == index.column));
            led |= leads;
            if leads && let Rule::Equal(choice) = &entry.rule {
                // The value to look up in the index is taken from a condition.
                let columns = entry.columns.clone();
                let rule = Rule::Equal(choice.clone());
                push_filters(Entry { columns, is_tuple: entry.is_tuple, rule }, &table.columns, &mut filter);
            }
            let last = entry.last();
            clustering.tuples |= entry.is_tuple && entry.rule.is_slice();
            match entry.rule {
                Rule::Equal(choice) | Rule::In(choice) => {
                    clustering.choices.push(choice);
                    next = last + 1;
                }
                Rule::Slice { lower, upper } => (clustering.lower, clustering.upper) = (lower, upper),
                Rule::Contains(_) => {}
            }
        }
        for entry in std::mem::take(&mut self.data) {
            push_filters(entry, &table.columns, &mut filter);
        }
        Ok(SelectedRows {
            partitions,
            key_tokens,
            clustering,
            filter,
            index,
            uses_index,
            static_rows,
            key_range,
            key_restricted,
            key_in,
            lacks_filtering,
        })
    }

    /// Whether a clustering column has a rule that slices of a partition cannot express.
    pub(super) fn clustering_needs_filtering(&self) -> bool {
        let mut next = self.table().partition_key_len;
        for entry in &self.clustering {
            if entry.rule.is_contains() || entry.first() != next {
                return true;
            }
            if !entry.rule.is_slice() {
                next = entry.last() + 1;
            }
        }
        false
    }
}

fn choice(entry: Entry) -> Option<Choice> {
    match entry.rule {
        Rule::Equal(choice) | Rule::In(choice) => Some(choice),
        Rule::Slice { .. } | Rule::Contains(_) => None,
    }
}

/// Appends the conditions by which rows are filtered for a rule.
fn push_filters(entry: Entry, columns: &[Column], out: &mut Vec<Filter>) {
    let id = columns[entry.first()].id;
    let equal = |column, term| Filter::Compare { column, comparison: Comparison::Equal, term };
    match entry.rule {
        Rule::Slice { .. } if entry.is_tuple => {
            out.push(Filter::Refused("Multi-column slice restrictions cannot be used for filtering."));
        }
        Rule::Slice { lower, upper } => {
            let limits = [
                (lower, Comparison::Greater, Comparison::GreaterEqual),
                (upper, Comparison::Less, Comparison::LessEqual),
            ];
            for (limit, open, closed) in limits {
                if let Some(SliceBound { values: Tuple::Terms(mut terms), inclusive }) = limit
                    && let Some(term) = terms.pop()
                {
                    out.push(Filter::Compare { column: id, comparison: if inclusive { closed } else { open }, term });
                }
            }
        }
        Rule::Equal(Choice::One(term)) => out.push(equal(id, term)),
        Rule::Equal(Choice::Tuples { tuples, .. }) => {
            let ids: Vec<ColumnId> = entry.columns.iter().map(|&place| columns[place].id).collect();
            for tuple in tuples {
                match tuple {
                    Tuple::Terms(terms) => out.extend(ids.iter().zip(terms).map(|(id, term)| equal(*id, term))),
                    Tuple::Marker { marker, .. } => out.push(Filter::Tuple { columns: ids.clone(), marker }),
                }
            }
        }
        // `(a) IN ((x), (y))`.
        Rule::In(Choice::Tuples { columns: 1, tuples })
            if tuples.iter().all(|tuple| matches!(tuple, Tuple::Terms(_))) =>
        {
            let terms = tuples.into_iter().flat_map(|tuple| match tuple {
                Tuple::Terms(terms) => terms,
                Tuple::Marker { .. } => Vec::new(),
            });
            out.push(Filter::In { column: id, choice: Choice::Many(terms.collect()) });
        }
        Rule::Equal(Choice::TuplesMarker { .. }) | Rule::In(Choice::Tuples { .. } | Choice::TuplesMarker { .. }) => {
            out.push(Filter::Refused("Multicolumn IN filters are not supported"));
        }
        Rule::Equal(choice) | Rule::In(choice) => out.push(Filter::In { column: id, choice }),
        Rule::Contains(mut elements) => {
            // Cassandra's order: values, keys, entries.
            elements.sort_by_key(|element| match element {
                Element::Value(_) => 0,
                Element::Key(_) => 1,
                Element::Entry(..) => 2,
            });
            out.extend(elements.into_iter().map(|element| match element {
                Element::Value(term) => Filter::Contains { column: id, term },
                Element::Key(term) => Filter::ContainsKey { column: id, term },
                Element::Entry(key, value) => Filter::Entry { column: id, key, value },
            }));
        }
    }
}
