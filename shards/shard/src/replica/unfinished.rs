//! The partitions of this core in which a change was accepted of which it does not know whether it was committed.
//!
//! A range of `system.paxos` is scanned in the background.
//!
//! Invariants: a list ends at [`PARTITIONS_MAX`], and then names all partitions up to its last one.

use super::failure;
use super::paxos_acceptor::{Stored, without_truncated};
use crate::messages::repair::{Unfinished, UnfinishedList, UnfinishedRequest};
use crate::paxos::columns::PaxosColumns;
use crate::shard_state::Shard;
use model::query::{LiveRow, Partitions, Position, ReadCommand, RowSink, SinkState};
use model::{DecoratedKey, Failure, TableId};
use runtime::Class;

/// Most partitions of a list.
pub(crate) const PARTITIONS_MAX: usize = 64;

/// Lists unfinished changes, when it is this one's turn.
pub(crate) async fn list(shard: &Shard, request: UnfinishedRequest) -> Result<UnfinishedList, Failure> {
    let shard = shard.clone();
    let scan = async move {
        let _turn = shard.validations().acquire(1).await;
        let columns = shard.paxos_columns();
        let now_in_seconds = runtime::wall_micros().div_euclid(1_000_000);
        let mut command = ReadCommand::all(columns.table.id, now_in_seconds, Partitions::Range(request.range));
        command.resume = request.after.map(|key| Position { key, comparable: None });
        let table = request.table;
        let mut found =
            Found { shard: &shard, columns, table, now_in_seconds, list: UnfinishedList::default(), failed: None };
        let read = shard.store().read(&command, &mut found).await;
        read.map_err(|error| failure(&shard.schema(), Some(columns.table.id), error))?;
        found.failed.map_or(Ok(found.list), Err)
    };
    runtime::spawn_in(Class::Background, scan).await
}

/// Collects the partitions of one table.
struct Found<'s> {
    shard: &'s Shard,
    columns: &'s PaxosColumns,
    table: TableId,
    now_in_seconds: i64,
    list: UnfinishedList,
    /// Why the scan ended before its end.
    failed: Option<Failure>,
}

impl RowSink for Found<'_> {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        if row.clustering.components().next() != Some(&self.table.0[..]) {
            return SinkState::Rejected;
        }
        let state = match Stored::of(self.columns, row, self.now_in_seconds).acceptor(self.shard) {
            Ok(state) => without_truncated(self.shard, self.table, state),
            Err(failure) => {
                self.failed = Some(failure);
                return SinkState::Full;
            }
        };
        let Some(ballot) = state.unfinished() else { return SinkState::Rejected };
        let key = DecoratedKey { token: row.token, partitioner: self.shard.partitioner(), key: row.key.into() };
        self.list.partitions.push(Unfinished { key, scope: ballot.scope() });
        self.list.is_cut = self.list.partitions.len() == PARTITIONS_MAX;
        if self.list.is_cut { SinkState::Full } else { SinkState::Open }
    }
}
