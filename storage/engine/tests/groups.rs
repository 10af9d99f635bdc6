//! What is written to the log together.

mod support;

use engine::{Options, SyncMode};
use runtime::sim::DiskCall;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use support::*;

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

/// Writes all rows at the same time, durably, with `counting` set; how many there are then.
async fn durable_rows(counting: Rc<Cell<bool>>) -> usize {
    let sync = SyncMode::Periodic { period: Duration::from_secs(10) };
    // Large enough that no segment is prepared meanwhile.
    let store = start(Options { segment_bytes: 1 << 20, ..options(1, sync) }, &[table(1)]).await;
    // The first write of a log waits for nothing; the period counts from it.
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
