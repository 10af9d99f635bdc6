//! What single replicas have.

use super::world::World;
use cql::plan::Selector;
use model::query::{Partitions, ReadCommand};
use model::shape::reconcile::ReconcilingRead;
use model::{DecoratedKey, Partitioner};
use shard::{FragmentRequest, ReadRequest, RowBlockSink};

const NOW: i64 = 1_700_000_000;

/// The rows that a node has of the partition `key`, an int, of `k.TABLE`: their number, and their columns as bytes.
pub(crate) fn stored(world: &mut World, node: usize, table: &str, key: i32) -> (u32, Vec<u8>) {
    let table = table.to_owned();
    world.on(node, 0, move |shard| async move {
        let schema = shard.schema();
        let table = schema.table("k", &table).expect("a table").clone();
        let key = DecoratedKey::new(Partitioner::Murmur3, &key.to_be_bytes());
        let command = ReadCommand::all(table.id, NOW, Partitions::Key(key));
        let request = ReadRequest {
            command: ReadCommand { wants_static: true, static_only: true, ..command },
            selection: table.columns.iter().map(|column| Selector::Column(column.id)).collect(),
            filter: None,
            index: None,
            bytes_max: usize::MAX,
            places: false,
        };
        let mut sink = RowBlockSink::new(Partitioner::Murmur3, &table, &request);
        let mut read = ReconcilingRead::new(request.command.clone());
        loop {
            let asked = FragmentRequest { command: read.command().clone(), bytes_max: 1 << 20 };
            let blocks = shard.read_fragments(&asked).await.expect("fragments");
            if let Some(end) = read.take(&table, &blocks, &mut sink) {
                let block = sink.finish(end).block;
                return (block.rows, block.bytes);
            }
        }
    })
}
