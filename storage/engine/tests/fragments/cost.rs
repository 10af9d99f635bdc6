//! Reads of one partition in each form: plain, with a digest, and reconciling (fragments, merged and shaped again).
//!
//! The forms are functions of their own for partitions of each length, so that callgrind tells what they cost:
//! `callgrind_annotate --inclusive=yes` shows the sum of [`READS`] calls. A sink encodes every value, as one for
//! clients does.

use super::support::*;
use engine::Store;
use model::digest::{Digest, DigestSink};
use model::fragment_block::FragmentBlockWriter;
use model::query::{EveryRow, LiveRow, Partitions, ReadCommand, ReadEnd, RowSink, SinkState};
use model::shape::reconcile::ReconcilingRead;
use model::value::push_element;
use model::{DecoratedKey, MutationBuilder, Partitioner, Table};

/// Reads of each partition in each form.
const READS: usize = 100;

/// Encodes values.
#[derive(Default, PartialEq, Debug)]
struct Encoded {
    bytes: Vec<u8>,
    now_in_seconds: i64,
}

impl Encoded {
    fn of(command: &ReadCommand) -> Encoded {
        Encoded { bytes: Vec::with_capacity(1 << 16), now_in_seconds: command.now_in_seconds }
    }
}

impl RowSink for Encoded {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        push_element(&mut self.bytes, Some(row.key));
        row.clustering.components().for_each(|value| push_element(&mut self.bytes, Some(value)));
        row.cells.iter().for_each(|cell| push_element(&mut self.bytes, cell.value_at(self.now_in_seconds)));
        SinkState::Open
    }
}

#[inline(never)]
fn plain_read<const ROWS: i32>(store: &Store, command: &ReadCommand) -> Encoded {
    let mut rows = Encoded::of(command);
    assert_eq!(store.read_now(command, &mut rows).expect("at once").expect("read"), ReadEnd::Exhausted);
    rows
}

#[inline(never)]
fn digest_read<const ROWS: i32>(store: &Store, table: &Table, command: &ReadCommand) -> (Encoded, Digest) {
    let (mut rows, mut digest) = (Encoded::of(command), DigestSink::new(table, command));
    let end = store.read_fragments_now(command, &mut rows, &mut digest).expect("at once").expect("read");
    assert_eq!(end, ReadEnd::Exhausted);
    (rows, digest.finish())
}

#[inline(always)]
fn reconcile(store: &Store, table: &Table, command: &ReadCommand, stores: usize) -> Encoded {
    let mut rows = Encoded::of(command);
    let mut read = ReconcilingRead::new(command.clone());
    let block = || {
        let mut block = FragmentBlockWriter::new(Partitioner::Murmur3, 1 << 20);
        let end = store.read_fragments_now(read.command(), &mut EveryRow, &mut block).expect("at once");
        block.finish(&end.expect("read"))
    };
    let blocks: Vec<_> = (0..stores).map(|_| block()).collect();
    assert_eq!(read.take(table, &blocks, &mut rows), Some(ReadEnd::Exhausted));
    rows
}

#[inline(never)]
fn reconciling_read<const ROWS: i32>(store: &Store, table: &Table, command: &ReadCommand) -> Encoded {
    reconcile(store, table, command, 1)
}

#[inline(never)]
fn merging_read<const ROWS: i32>(store: &Store, table: &Table, command: &ReadCommand) -> Encoded {
    reconcile(store, table, command, 3)
}

async fn read_in_each_form<const ROWS: i32>(store: &Store, table: &Table) {
    let mut builder = MutationBuilder::new(Partitioner::Murmur3, &ROWS.to_be_bytes());
    builder.table(table.id);
    (0..ROWS).for_each(|row| add_row(&mut builder, row, 0, 1, &[7; 34]));
    store.apply(builder.finish(), false).await.expect("apply");
    let command = command(table.id, Partitions::Key(DecoratedKey::new(Partitioner::Murmur3, &ROWS.to_be_bytes())));
    for _ in 0..READS {
        let expected = plain_read::<ROWS>(store, &command);
        assert!(expected.bytes.len() > 34 * ROWS as usize);
        assert_eq!(digest_read::<ROWS>(store, table, &command).0, expected);
        assert_eq!(reconciling_read::<ROWS>(store, table, &command), expected);
        assert_eq!(merging_read::<ROWS>(store, table, &command), expected);
    }
}

#[test]
fn cost_of_each_form_of_read() {
    run(&mut calm(1), || async {
        let table = uncompacted(&table(1));
        let store = start(small(), std::slice::from_ref(&table)).await;
        read_in_each_form::<1>(&store, &table).await;
        read_in_each_form::<100>(&store, &table).await;
        store.close().await.expect("close");
    });
}
