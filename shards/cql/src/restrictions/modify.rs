//! The restrictions of UPDATE and DELETE: partitions, and single rows or slices of them.

use super::rule::{Entry, Rule};
use super::{Purpose, Restrictions, Result, join};
use crate::plan::{Choice, ClusteringRestriction};
use model::Failure;
use model::schema::Layout;

impl Restrictions<'_> {
    /// The partitions and rows of an UPDATE or DELETE. With `only_statics` only static columns are written, and rows
    /// must not be restricted.
    pub(crate) fn modify(mut self, only_statics: bool) -> Result<(Vec<Choice>, ClusteringRestriction)> {
        let table = self.scope.table.clone();
        let statement = self.purpose.name();
        let update = self.purpose == Purpose::Update;
        if self.token.is_some() {
            return Err(Failure::invalid(format!(
                "The token function cannot be used in WHERE clauses for {statement} statements"
            )));
        }
        let missing = self.unrestricted(&self.partition, self.partition_places());
        if !missing.is_empty() {
            return Err(Failure::invalid(format!(
                "Some partition key parts are missing: {}",
                join(missing.into_iter())
            )));
        }
        if self.partition.iter().any(|entry| !entry.is_choice()) {
            return Err(Failure::invalid(format!(
                "Only EQ and IN relation are supported on the partition key (unless you use the token() function) for \
                 {statement} statements"
            )));
        }
        if only_statics && !self.clustering.is_empty() {
            return Err(Failure::invalid(format!(
                "Invalid restrictions on clustering columns since the {statement} statement modifies only static columns"
            )));
        }
        let sliced = self.clustering.iter().any(|entry| entry.rule.is_slice());
        let missing = self.unrestricted(&self.clustering, self.clustering_places());
        let incomplete = !missing.is_empty();
        if update {
            if sliced {
                return Err(Failure::invalid(
                    "Slice restrictions are not supported on the clustering columns in UPDATE statements",
                ));
            }
            // The last clustering values of a dense table may be left out.
            if table.layout == Layout::DenseCompact && !self.clustering.is_empty() {
                if self.clustering_needs_filtering() {
                    self.refuse_gap()?;
                }
            } else if incomplete && !only_statics {
                return Err(Failure::invalid(format!(
                    "Some clustering keys are missing: {}",
                    join(missing.into_iter())
                )));
            }
        } else if self.clustering_needs_filtering() {
            self.refuse_gap()?;
        }
        if !self.data.is_empty() {
            let mut columns: Vec<_> = self.data.iter().map(|entry| self.column(entry.first())).collect();
            columns.sort_by(|a, b| a.name.cmp(&b.name));
            return Err(Failure::invalid(format!(
                "Non PRIMARY KEY columns found in where clause: {} ",
                join(columns.into_iter())
            )));
        }
        let mut clustering = ClusteringRestriction::default();
        for Entry { is_tuple, rule, .. } in std::mem::take(&mut self.clustering) {
            match rule {
                Rule::Equal(choice) | Rule::In(choice) => clustering.choices.push(choice),
                Rule::Slice { lower, upper } => {
                    clustering.tuples = is_tuple;
                    (clustering.lower, clustering.upper) = (lower, upper);
                }
                Rule::Contains(_) => {}
            }
        }
        let mut keys = Vec::with_capacity(table.partition_key_len);
        for entry in std::mem::take(&mut self.partition) {
            if let Rule::Equal(choice) | Rule::In(choice) = entry.rule {
                keys.push(choice);
            }
        }
        Ok((keys, clustering))
    }
}
