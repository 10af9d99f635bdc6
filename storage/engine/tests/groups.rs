//! Groups: which writes become durable together, and in which records.

use crate::support::*;
use engine::commitlog::record::Record;
use engine::commitlog::segment_reader::scan_bytes;
use engine::{Options, SyncMode};
use model::{Mutation, MutationBuilder};
use runtime::sim::DiskCall;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const WRITES: i32 = 50;

#[test]
fn durable_writes_of_one_time_share_a_write_of_a_periodic_log() {
    let mut sim = calm(3);
    let writes = Rc::new(Cell::new(0));
    let counted = writes.clone();
    let counting = Rc::new(Cell::new(false));
    let counts = counting.clone();
    sim.set_disk_fault(NODE, move |call, _| {
        counted.set(counted.get() + usize::from(counts.get() && call == DiskCall::WriteDurable));
        None
    });
    let rows = run(&mut sim, move || durable_rows(counting.clone()));
    assert_eq!(rows, WRITES as usize);
    assert!((1..=2).contains(&writes.get()), "{} writes", writes.get());
    sim.crash(NODE);
    let sync = SyncMode::Periodic { period: Duration::from_secs(10) };
    let rows = run(&mut sim, move || replayed_rows(Options { segment_bytes: 1 << 20, ..options(1, sync) }));
    assert_eq!(rows.expect("replay").len(), WRITES as usize);
}

#[test]
fn a_group_names_each_of_its_tables_once() {
    let mut sim = calm(4);
    let sync = SyncMode::Periodic { period: Duration::from_secs(10) };
    let periodic = Options { segment_bytes: 1 << 20, ..options(1, sync) };
    let first = periodic.clone();
    run(&mut sim, move || mixed_rows(first.clone()));
    let logs = sim.files(NODE).into_iter().map(|(path, _)| path);
    let segment = logs.into_iter().find(|path| path.extension().is_some_and(|end| end == "log"));
    let segment = sim.read_file(NODE, &segment.expect("a segment")).expect("a file");
    let id = u64::from_le_bytes(*segment[16..].first_chunk().expect("an id"));
    let (mut records, mut tables) = (Vec::new(), Vec::new());
    scan_bytes(&segment, id, |offset, record| match record {
        Record::Mutation(bytes) => records.push((offset, bytes.len(), None)),
        Record::Row(number, bytes) => records.push((offset, bytes.len(), Some(usize::from(number)))),
        Record::Tables(ids) => tables = ids.to_vec(),
        _ => {}
    })
    .expect("whole");
    let (one, both) = (insert(table(1).id, b"p", 0, 0, 1, b"").bytes().len(), mixed(0).bytes().len());
    let offset = records[1].0;
    let number_of = |table: i32| tables.iter().position(|id| *id == [table as u8; 16]);
    assert_eq!(records.remove(0), (4096, both, None));
    let expected = (1..WRITES).map(|number| match number % 3 {
        0 => (offset, both, None),
        // The record lacks the version, the table id, two lengths, the flag and the kind; its clustering's length is
        // shorter.
        table => (offset, one - 1 - 16 - 2 * 4 - 2 - 2, number_of(table)),
    });
    // Tasks that are due at the same time run in any order.
    let mut expected: Vec<_> = expected.collect();
    expected.sort_unstable();
    records.sort_unstable();
    assert_eq!(records, expected);
    sim.crash(NODE);
    let read = run(&mut sim, move || both_tables(periodic.clone()));
    let thirds = |kept: [i32; 2]| (0..WRITES).filter(|number| kept.contains(&(number % 3))).collect::<Vec<_>>();
    assert_eq!(read, [thirds([0, 1]), thirds([0, 2])]);
}

/// A mutation of both tables.
fn mixed(number: i32) -> Mutation {
    let mut builder = MutationBuilder::continuing(insert(table(1).id, b"p", number, 0, 1, b""));
    builder.table(table(2).id);
    add_row(&mut builder, number, 0, 1, b"");
    builder.finish()
}

/// Writes by turns to both tables, to one and to the other. The first write has a group of its own, as it does not
/// have to wait; the others share one.
async fn mixed_rows(options: Options) {
    let store = start(options, &[table(1), table(2)]).await;
    store.apply_durably(mixed(0), false).await.expect("a write");
    let writes: Vec<_> = (1..WRITES)
        .map(|number| {
            let store = store.clone();
            let mutation = match number % 3 {
                0 => mixed(number),
                table_number => insert(table(table_number as u8).id, b"p", number, 0, 1, b""),
            };
            runtime::spawn(async move { store.apply(mutation, false).await })
        })
        .collect();
    for write in writes {
        write.await.expect("a write");
    }
    store.close().await.expect("close");
}

/// The first clustering column of each row of both tables.
async fn both_tables(options: Options) -> [Vec<i32>; 2] {
    let store = start(options, &[table(1), table(2)]).await;
    let rows = async |number| read_all(&store, table(number).id).await.into_iter().map(|row| row.1[0]).collect();
    [rows(1).await, rows(2).await]
}

/// Writes all rows concurrently and durably while `counting` is set. Returns how many rows there are then.
async fn durable_rows(counting: Rc<Cell<bool>>) -> usize {
    let sync = SyncMode::Periodic { period: Duration::from_secs(10) };
    // Large enough that no segment is prepared during the test.
    let store = start(Options { segment_bytes: 1 << 20, ..options(1, sync) }, &[table(1)]).await;
    // The first group of a log is written at once; the period begins with it.
    store.apply_durably(insert(table(1).id, b"p", 0, 0, 1, b""), false).await.expect("a write");
    counting.set(true);
    let begun = runtime::now();
    let under_way: Vec<_> = (1..WRITES)
        .map(|number| {
            let store = store.clone();
            runtime::spawn(
                async move { store.apply_durably(insert(table(1).id, b"p", number, 0, 1, b""), false).await },
            )
        })
        .collect();
    for write in under_way {
        write.await.expect("a write");
    }
    counting.set(false);
    assert!(runtime::now().since(begun) < Duration::from_secs(1), "the period is not waited for");
    read_all(&store, table(1).id).await.len()
}
