//! The rows that a change depends on: of this core, or of another node as fragments, from which the rows are shaped
//! here.

use super::asked_replica::AskedReplica;
use super::remote::Asked;
use crate::messages::data::{FragmentRequest, ListRead, ListsByRow};
use crate::replica::{self, list_reads};
use crate::shard_state::Shard;
use cluster::placement::TablePlacement;
use model::query::{ReadCommand, ReadEnd, RowSink};
use model::shape::reconcile::ReconcilingRead;
use model::{Consistency, DecoratedKey, Failure, Table};

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
            let block = Box::pin(asked.read_fragments(shard, table, &request)).await?;
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

/// The failure that a client gets if what a change of the partition `key` depends on could not be read.
#[cold]
pub(crate) fn told(placement: &TablePlacement, level: Consistency, key: &DecoratedKey, failure: Failure) -> Failure {
    match AskedReplica::of_partition(placement, level, key) {
        Ok(asked) => asked.failed(placement.keyspace().topology(), failure),
        Err(unavailable) => unavailable,
    }
}
