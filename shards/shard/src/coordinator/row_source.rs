//! The rows that a change depends on: of this core, or of other nodes as fragments, from which the rows are shaped here.

use super::asked_replica::{AskedReplica, plan_of};
use super::gathering::{Patience, Unread};
use super::reconciling::{Reconciling, begin};
use super::remote::Asked;
use crate::messages::data::{FragmentRequest, ListRead, ListsByRow};
use crate::replica::{self, list_reads};
use crate::shard_state::Shard;
use cluster::placement::{Replica, TablePlacement};
use model::query::{Partitions, ReadCommand, ReadEnd, RowSink};
use model::shape::reconcile::ReconcilingRead;
use model::{Consistency, DecoratedKey, Failure, Table};
use runtime::Instant;

/// Bytes of fragments that are asked for at once.
const FRAGMENT_BYTES: usize = 1 << 20;

/// Where the rows of a partition are read.
pub(crate) enum RowSource {
    /// On this core, which has the partition.
    Here,
    /// On another node.
    Node(Asked),
}

impl RowSource {
    /// Gives the rows of a partition of `table` to `sink`.
    pub(crate) async fn read(
        &self,
        shard: &Shard,
        table: &Table,
        command: ReadCommand,
        sink: &mut dyn RowSink,
    ) -> Result<ReadEnd, Failure> {
        let asked = match self {
            RowSource::Here => {
                let read = shard.store().read(&command, sink).await;
                return read.map_err(|error| replica::failure(&shard.schema(), Some(table.id), error));
            }
            RowSource::Node(asked) => asked,
        };
        let mut read = ReconcilingRead::new(command);
        loop {
            let request = FragmentRequest { command: read.command().clone(), bytes_max: FRAGMENT_BYTES };
            let replica = Replica { node: asked.node_index(), shard: 0 };
            let block = Box::pin(asked.read_fragments(shard, replica, &request)).await?;
            if let Some(end) = read.take(table, &[block], sink) {
                return Ok(end);
            }
        }
    }

    /// Reads lists of partitions that are all in this place.
    pub(crate) async fn lists(&self, shard: &Shard, reads: &[ListRead]) -> Result<ListsByRow, Failure> {
        let mut found = ListsByRow::new();
        for read in reads {
            let (command, mut collected) = list_reads::begin(read);
            self.read(shard, &read.table, command, &mut collected).await?;
            list_reads::end(read, collected, &mut found);
        }
        Ok(found)
    }
}

/// Gives the rows of a partition of `table` to `sink`, as a read at `level` sees them, which repairs what its replicas
/// lack. `command` names one partition. The sink must not reject rows.
///
/// # Errors
/// Those of a read at that level: too few replicas are alive, have answered before `deadline`, or can answer.
pub(crate) async fn read_at_level(
    shard: &Shard,
    table: &Table,
    level: Consistency,
    deadline: Instant,
    command: ReadCommand,
    sink: &mut dyn RowSink,
) -> Result<ReadEnd, Failure> {
    let Partitions::Key(key) = command.partitions.clone() else {
        return Err(Failure::server("A change depends on more than one partition"));
    };
    let mut read = begin(command.clone());
    loop {
        let placement = shard.placement_of(table)?;
        let mut plan = plan_of(&placement, level, &key)?;
        let here = Replica { node: placement.keyspace().topology().here(), shard: shard.id().0 };
        if plan.asks_one() && !plan.has_choice() && plan.targets().any(|(replica, _)| replica == here) {
            let found = shard.store().read(&command, sink).await;
            return found.map_err(|error| replica::failure(&shard.schema(), Some(table.id), error));
        }
        let patience = Patience::of_table(shard, table, deadline);
        let reconciling = Reconciling { shard, table, placement: &placement, patience, is_filtered: false };
        match Box::pin(reconciling.run(&mut plan, &mut read, sink)).await {
            Ok(end) => return Ok(end),
            Err(Unread::Failed(failure)) => return Err(failure),
            Err(Unread::Moved) => {}
        }
    }
}

/// The failure that a client gets if what a change of the partition `key` depends on could not be read.
#[cold]
pub(crate) fn told(placement: &TablePlacement, level: Consistency, key: &DecoratedKey, failure: Failure) -> Failure {
    match AskedReplica::of_partition(placement, level, key) {
        Ok(asked) => asked.failed(placement.keyspace().topology(), failure),
        Err(unavailable) => unavailable,
    }
}
