//! The change that a request makes once it is decided.

use super::sums;
use crate::coordinator::row_source::RowSource;
use crate::execute::values::binding::Values;
use crate::execute::write::mutations::Mutations;
use crate::messages::data::{ConditionalRequest, ListChange, WriteTimes};
use crate::paxos::Update;
use crate::shard_state::Shard;
use cql::plan::Modify;
use model::{ColumnId, Failure};

/// The changes of a request's statements, put together.
pub(in crate::execute) struct Changes<'a> {
    shard: &'a Shard,
    request: &'a ConditionalRequest,
    source: &'a RowSource,
    when: WriteTimes,
    mutations: Mutations,
}

impl<'a> Changes<'a> {
    /// No changes yet. `timestamp` is the ballot's, microseconds since 1970; `source` has the partition.
    pub(in crate::execute) fn new(
        shard: &'a Shard,
        request: &'a ConditionalRequest,
        timestamp: i64,
        source: &'a RowSource,
    ) -> Changes<'a> {
        let when = WriteTimes::of_ballot(timestamp, request.now_in_seconds);
        Changes { shard, request, source, when, mutations: Mutations::of_partition(&request.key) }
    }

    /// Adds what a statement changes. `existing` is as for [`sums::summed`].
    ///
    /// # Errors
    /// A value cannot be added or written; the read of a list that is changed by index failed.
    pub(in crate::execute) async fn add(
        &mut self,
        modify: &Modify,
        values: &Values<'_>,
        existing: &dyn Fn(bool, ColumnId) -> Option<Vec<u8>>,
    ) -> Result<(), Failure> {
        let modify = &*sums::summed(self.shard, modify, values, existing)?;
        if !modify.reads() {
            return self.mutations.add(self.shard, modify, values, self.when);
        }
        let change = ListChange::new(modify, values, &self.request.key, self.when);
        let lists = self.source.lists(self.shard, &change.reads(self.shard)?).await?;
        change.build(self.shard, &lists, &mut self.mutations)
    }

    /// What is to be proposed; `None` if nothing changes.
    ///
    /// # Errors
    /// The change is too large.
    pub(in crate::execute) fn finish(self) -> Result<Option<Update>, Failure> {
        Ok(self.mutations.finish()?.pop().map(|routed| routed.mutation.into_bytes()))
    }
}
