//! Measures reading a partition of 100 rows from a memtable, from SSTables, or from both; all blocks are in memory.
//!
//! Every source has its own state of every row, so every row is merged. The store runs in the simulator, and only polls
//! of the read are measured.

#[path = "../../../storage/engine/tests/support/mod.rs"]
mod support;

use criterion::{Criterion, Throughput};
use engine::{Options, Store};
use model::Partitioner;
use model::query::{LiveRow, Partitions, RowSink, SinkState};
use model::{DecoratedKey, MutationBuilder};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use support::*;

const KEY: &[u8] = b"partition";
const ROWS: i32 = 100;
/// Polls after which a read counts as stuck.
const POLLS_MAX: usize = 1000;

/// The sources to read from: name, number of SSTables, whether there is a memtable too.
const SOURCES: [(&str, i64, bool); 6] = [
    ("memtable", 0, true),
    ("1 sstable", 1, false),
    ("1 sstable and memtable", 1, true),
    ("2 sstables", 2, false),
    ("4 sstables", 4, false),
    ("4 sstables and memtable", 4, true),
];

/// A sink that counts rows.
struct Count(i32);

impl RowSink for Count {
    fn row(&mut self, _: &LiveRow<'_>) -> SinkState {
        self.0 += 1;
        SinkState::Open
    }
}

async fn write(store: &Store, timestamp: i64) {
    let mut builder = MutationBuilder::new(Partitioner::Murmur3, KEY);
    builder.table(table(1).id);
    (0..ROWS).for_each(|row| add_row(&mut builder, row, 0, timestamp, &[7; 34]));
    store.apply(builder.finish(), false).await.expect("apply");
}

/// Polls a read to its end with no event of the simulator between two polls.
fn read(store: &Store) -> i32 {
    let mut rows = Count(0);
    {
        let command = command(table(1).id, Partitions::Key(DecoratedKey::new(Partitioner::Murmur3, KEY)));
        let mut read = pin!(store.read(&command, &mut rows));
        let mut context = Context::from_waker(Waker::noop());
        let mut polls = (0..POLLS_MAX).map(|_| read.as_mut().poll(&mut context));
        let Some(Poll::Ready(end)) = polls.find(Poll::is_ready) else { panic!("the read waits for the disk") };
        end.expect("a read");
    }
    rows.0
}

async fn merge(sstables: i64, memtable: bool, bench: impl FnOnce(&Store)) {
    let options = Options { cache_bytes_max: 64 << 20, memtable_bytes_max: 64 << 20, ..options(1, GROUP) };
    let store = start(options, &[uncompacted(&table(1))]).await;
    for timestamp in 1..=sstables {
        write(&store, timestamp).await;
        store.flush(table(1).id).await.expect("flush");
    }
    if memtable {
        write(&store, sstables + 1).await;
    }
    assert_eq!(read_all(&store, table(1).id).await.len(), ROWS as usize);
    let mut first = Count(0);
    let command = command(table(1).id, Partitions::Key(DecoratedKey::new(Partitioner::Murmur3, KEY)));
    store.read(&command, &mut first).await.expect("a read that brings the blocks");
    bench(&store);
}

fn main() {
    for (name, sstables, memtable) in SOURCES {
        run(&mut calm(1), move || {
            merge(sstables, memtable, move |store| {
                let mut criterion = Criterion::default().configure_from_args();
                let mut group = criterion.benchmark_group("merge");
                group.throughput(Throughput::Elements(ROWS as u64));
                group.bench_function(name, |bencher| bencher.iter(|| assert_eq!(read(store), ROWS)));
                group.finish();
            })
        });
    }
    Criterion::default().configure_from_args().final_summary();
}
