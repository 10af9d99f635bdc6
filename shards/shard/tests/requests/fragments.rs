//! Reads of a node that answer with digests and fragments.

use crate::world::{World, plain};
use cql::plan::Selector;
use model::digest::Digest;
use model::query::{Partitions, ReadCommand, ReadEnd};
use model::shape::reconcile::ReconcilingRead;
use model::{DecoratedKey, Partitioner, Table, TokenRange};
use shard::{FragmentRequest, ReadRequest, RowBlockSink, Shard};
use std::sync::Arc;

const NOW: i64 = 1_700_000_000;

/// A node with a table of two partitions' rows, some deleted.
fn node(cores: usize) -> World {
    let mut world = World::start(cores);
    for text in [
        "CREATE KEYSPACE f WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE f.t (k int, c int, s text static, v text, m map<int, text>, PRIMARY KEY (k, c))",
    ] {
        world.run_query(text);
    }
    for k in 0..6 {
        world.run_query(&format!("INSERT INTO f.t (k, s) VALUES ({k}, 'static') USING TIMESTAMP 5"));
        for c in 0..20 {
            let text = "INSERT INTO f.t (k, c, v, m) VALUES ";
            world.run_query(&format!("{text} ({k}, {c}, 'v{c}', {{1: 'a', {c}: 'b'}}) USING TIMESTAMP {}", 10 + c));
        }
        world.run_query(&format!("DELETE FROM f.t USING TIMESTAMP 100 WHERE k = {k} AND c > 3 AND c < 7"));
        world.run_query(&format!("DELETE v FROM f.t USING TIMESTAMP 100 WHERE k = {k} AND c = 9"));
    }
    world
}

fn table(shard: &Shard) -> Arc<Table> {
    shard.schema().table("f", "t").expect("the table").clone()
}

/// A read of all columns, with the limits that a page has.
fn request(table: &Table, partitions: Partitions) -> ReadRequest {
    let all = ReadCommand::all(table.id, NOW, partitions);
    ReadRequest {
        command: ReadCommand { wants_static: true, static_only: true, ..all },
        selection: table.columns.iter().map(|column| Selector::Column(column.id)).collect(),
        filter: None,
        index: None,
        bytes_max: usize::MAX,
        places: false,
    }
}

fn key(k: i32) -> Partitions {
    Partitions::Key(DecoratedKey::new(Partitioner::Murmur3, &k.to_be_bytes()))
}

/// The rows of a request in protocol form, made of fragments that come in small blocks.
async fn reconciled(shard: &Shard, request: &ReadRequest) -> (Vec<u8>, ReadEnd) {
    let table = table(shard);
    let mut sink = RowBlockSink::new(Partitioner::Murmur3, &table, request);
    let mut read = ReconcilingRead::new(request.command.clone());
    loop {
        let asked = FragmentRequest { command: read.command().clone(), bytes_max: 300 };
        let blocks = shard.read_fragments(&asked).await.expect("fragments");
        if let Some(end) = read.take(&table, &blocks, &mut sink) {
            let reply = sink.finish(end);
            return (reply.block.bytes, reply.end);
        }
    }
}

#[test]
fn shaped_fragments_of_all_cores_are_the_rows_that_clients_get() {
    let mut world = node(2);
    for k in 0..6 {
        for (rows_max, per_partition_max, reversed) in [(u64::MAX, u64::MAX, false), (5, u64::MAX, true), (9, 3, false)]
        {
            world.on(0, move |shard, _| async move {
                let mut request = request(&table(&shard), key(k));
                request.command = ReadCommand { rows_max, per_partition_max, reversed, ..request.command };
                let expected = shard.read_digests(&request).await.expect("rows").remove(0).rows;
                assert!(expected.block.rows >= 3);
                assert_eq!(reconciled(&shard, &request).await, (expected.block.bytes, expected.end));
            });
        }
    }
    // A scan gives what a scan of clients gives, in the order of tokens.
    let rows = world.rows_on(0, "SELECT * FROM f.t");
    let bytes: usize = rows.iter().flatten().map(|value| 4 + value.as_ref().map_or(0, Vec::len)).sum();
    let found = world.on(0, |shard, _| async move {
        let request = request(&table(&shard), Partitions::Range(TokenRange::FULL));
        reconciled(&shard, &request).await
    });
    assert_eq!((found.0.len(), found.1), (bytes, ReadEnd::Exhausted));
}

#[test]
fn all_rows_of_a_read_have_the_static_cells_of_its_first_round() {
    let mut world = node(1);
    world.on(0, |shard, session| async move {
        let (table, request) = (table(&shard), request(&table(&shard), key(3)));
        let expected = shard.read_digests(&request).await.expect("rows").remove(0).rows;
        let mut sink = RowBlockSink::new(Partitioner::Murmur3, &table, &request);
        let mut read = ReconcilingRead::new(request.command.clone());
        for round in 1.. {
            let asked = FragmentRequest { command: read.command().clone(), bytes_max: 300 };
            let blocks = shard.read_fragments(&asked).await.expect("fragments");
            if let Some(end) = read.take(&table, &blocks, &mut sink) {
                assert!(round > 2, "several rounds");
                let found = sink.finish(end);
                assert_eq!((found.block.bytes, found.end), (expected.block.bytes, expected.end));
                return;
            }
            let text = match round {
                1 => "UPDATE f.t USING TIMESTAMP 500 SET s = 'later' WHERE k = 3",
                _ => "DELETE s FROM f.t USING TIMESTAMP 501 WHERE k = 3",
            };
            shard.query(&session, text, &plain()).await.expect("written");
        }
    });
}

/// The digest of the whole table.
fn digest(world: &mut World) -> Digest {
    world.on(0, |shard, _| async move {
        let request = request(&table(&shard), Partitions::Range(TokenRange::FULL));
        let replies = shard.read_digests(&request).await.expect("digests");
        replies.into_iter().fold(Digest::default(), |sum, reply| sum + reply.digest)
    })
}

#[test]
fn digests_of_a_table_do_not_depend_on_the_number_of_cores() {
    let digests: Vec<Digest> = (1..=3).map(|cores| digest(&mut node(cores))).collect();
    assert_ne!(digests[0], Digest::default());
    assert_eq!(digests, [digests[0]; 3]);
    let mut other = node(2);
    other.run_query("UPDATE f.t USING TIMESTAMP 101 SET v = 'x' WHERE k = 3 AND c = 3");
    assert_ne!(digest(&mut other), digests[0]);
}
