//! Random writes and reads of a store, compared with a model that keeps every version and resolves them at reads.

use crate::support::*;
use engine::{Options, Store};
use model::Partitioner;
use model::comparable::{self, BoundSide};
use model::mutation::{Clustering, ClusteringBound};
use model::query::{Partitions, ReadEnd, Slice};
use model::row::{Cell, CellContent, RowBuilder};
use model::token::TokenRange;
use model::{ColumnId, DecoratedKey, Home, MutationBuilder, RingToken, Token};
use runtime::mesh::NodeId;
use runtime::rng::Rng;
use runtime::sim::{self, Sim};
use std::cell::Cell as StdCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// A range deletion: start prefix and whether it is inclusive, end prefix and whether it is inclusive, timestamp.
type Range = (Vec<i32>, bool, Vec<i32>, bool, i64);
/// A column and its value.
type LiveCell = (u16, Vec<u8>);

/// Everything that was ever written to one partition.
#[derive(Default)]
struct Partition {
    deletion: i64,
    ranges: Vec<Range>,
    rows: BTreeMap<Vec<i32>, RowVersions>,
}

#[derive(Default)]
struct RowVersions {
    liveness: i64,
    /// The timestamp of the row's own deletion.
    deletion: i64,
    /// The versions of each column: timestamp, whether it is a deletion, value.
    cells: BTreeMap<u16, Vec<(i64, bool, Vec<u8>)>>,
}

impl Partition {
    fn live_row(&self, at: &[i32], row: &RowVersions) -> Option<(bool, Vec<LiveCell>)> {
        let covering = self.ranges.iter().filter(|(start, start_in, end, end_in, _)| {
            let (head, tail) = (&at[..start.len()], &at[..end.len()]);
            (head > &start[..] || (head == &start[..] && *start_in))
                && (tail < &end[..] || (tail == &end[..] && *end_in))
        });
        let dead = covering.map(|range| range.4).chain([self.deletion, row.deletion]).max().unwrap_or(0);
        let liveness = row.liveness > dead;
        let mut cells = Vec::new();
        for (column, versions) in &row.cells {
            let newest = versions.iter().max().expect("a version");
            if newest.0 > dead && !newest.1 {
                cells.push((*column, newest.2.clone()));
            }
        }
        (liveness || !cells.is_empty()).then_some((liveness, cells))
    }

    fn live_rows(&self, key: &[u8]) -> Vec<Row> {
        let live = |(at, row): (&Vec<i32>, &RowVersions)| {
            let (liveness, cells) = self.live_row(at, row)?;
            Some((key.to_vec(), at.clone(), liveness, cells))
        };
        self.rows.iter().filter_map(live).collect()
    }
}

/// All partitions by token and key, in the order of a scan.
type Model = BTreeMap<(Token, Vec<u8>), Partition>;

fn random_prefix(rng: &mut Rng) -> Vec<i32> {
    (0..rng.below(3)).map(|_| rng.below(9) as i32 - 4).collect()
}

fn random_write(rng: &mut Rng, model: &mut Model, key: &[u8]) -> model::Mutation {
    let mut builder = MutationBuilder::new(Partitioner::Murmur3, key);
    builder.table(table(1).id);
    let partition = model.entry((Partitioner::Murmur3.token(key), key.to_vec())).or_default();
    for _ in 0..1 + rng.below(4) {
        let timestamp = 1 + rng.below(40) as i64;
        match rng.below(20) {
            0 => {
                builder.delete_partition(deletion(timestamp / 2));
                partition.deletion = partition.deletion.max(timestamp / 2);
            }
            1..=4 => {
                let (start, end) = (random_prefix(rng), random_prefix(rng));
                let (start_in, end_in) = (rng.chance(0.5), rng.chance(0.5));
                let (start_bytes, end_bytes) = (clustering(&start), clustering(&end));
                builder.delete_range(
                    ClusteringBound { prefix: Clustering(&start_bytes), inclusive: start_in },
                    ClusteringBound { prefix: Clustering(&end_bytes), inclusive: end_in },
                    deletion(timestamp),
                );
                // An exclusive bound with an empty prefix excludes every row, so such a range is empty.
                let all_or_nothing = |prefix: &[i32], inclusive: bool| !prefix.is_empty() || inclusive;
                if all_or_nothing(&start, start_in) && all_or_nothing(&end, end_in) {
                    partition.ranges.push((start, start_in, end, end_in, timestamp));
                }
            }
            kind => {
                let at = vec![rng.below(9) as i32 - 4, rng.below(9) as i32 - 4];
                let row = partition.rows.entry(at.clone()).or_default();
                let liveness = if rng.chance(0.5) { live(timestamp) } else { None };
                let own = if kind == 5 { deletion(timestamp - 1) } else { model::row::Deletion::LIVE };
                let own = if own.timestamp > 0 { own } else { model::row::Deletion::LIVE };
                row.liveness = row.liveness.max(liveness.map_or(0, |l| l.timestamp));
                row.deletion = row.deletion.max(own.timestamp.max(0));
                let mut cells = Vec::new();
                for column in [A, B] {
                    if rng.chance(0.6) {
                        let deleted = rng.chance(0.2);
                        let value = vec![b'v'; rng.below(40) as usize];
                        let value = if deleted { Vec::new() } else { value };
                        row.cells.entry(column.0).or_default().push((timestamp, deleted, value.clone()));
                        cells.push((column, deleted, value));
                    }
                }
                builder.row(Clustering(&clustering(&at)), |out| {
                    let mut builder = RowBuilder::new(out, liveness, own);
                    for (column, deleted, value) in &cells {
                        let content = match deleted {
                            true => CellContent::Deleted { local_deletion_time: 1 },
                            false => CellContent::Live(value),
                        };
                        builder.cell(&Cell { column: *column, timestamp, content, path: None });
                    }
                });
            }
        }
    }
    builder.finish()
}

fn bound(prefix: &[i32], side: BoundSide) -> Box<[u8]> {
    let mut out = Vec::new();
    let bytes = clustering(prefix);
    comparable::bound(&table(1), Clustering(&bytes).components(), side, &mut out);
    out.into()
}

/// Random slices that do not overlap.
fn random_slices(rng: &mut Rng) -> Vec<Slice> {
    let mut bounds: Vec<Box<[u8]>> = (0..2 * rng.below(3))
        .map(|_| bound(&random_prefix(rng), if rng.chance(0.5) { BoundSide::Before } else { BoundSide::After }))
        .collect();
    bounds.sort();
    let mut slices: Vec<Slice> =
        bounds.chunks_exact(2).map(|pair| Slice { start: pair[0].clone(), end: pair[1].clone() }).collect();
    if slices.is_empty() {
        slices.push(Slice::all());
    } else if rng.chance(0.3) {
        slices.last_mut().expect("not empty").end = Box::default();
    }
    slices
}

fn form(at: &[i32]) -> Vec<u8> {
    let mut out = Vec::new();
    let bytes = clustering(at);
    comparable::clustering(&table(1), Clustering(&bytes).components(), &mut out);
    out
}

async fn check_read(store: &Store, rng: &mut Rng, model: &Model, keys: &[Vec<u8>]) {
    let one_row = rng.chance(0.3);
    let slices = if one_row {
        let at = [rng.below(9) as i32 - 4, rng.below(9) as i32 - 4];
        vec![Slice { start: bound(&at, BoundSide::Before), end: bound(&at, BoundSide::After) }]
    } else {
        random_slices(rng)
    };
    // Reads of a single row sometimes ask for one of two columns only.
    let columns = (one_row && rng.chance(0.8)).then(|| if rng.chance(0.5) { vec![A, B] } else { vec![B] });
    let reversed = rng.chance(0.5);
    let partitions = if one_row || rng.chance(0.5) {
        Partitions::Key(DecoratedKey::new(Partitioner::Murmur3, &keys[rng.below(keys.len() as u64) as usize]))
    } else if rng.chance(0.4) {
        Partitions::Range(TokenRange::FULL)
    } else {
        let mut token = || Partitioner::Murmur3.token(&keys[rng.below(keys.len() as u64) as usize]);
        let (a, b) = (token(), token());
        let until = if rng.chance(0.2) { Token::MIN } else { a.max(b) };
        Partitions::Range(TokenRange::between(RingToken::Murmur3(a.min(b).0), RingToken::Murmur3(until.0)))
    };
    let mut expected = Vec::new();
    for ((token, key), partition) in model {
        let wanted = match &partitions {
            Partitions::Key(wanted) => *wanted.key == **key,
            Partitions::Range(range) => range.contains(*token, key),
        };
        if wanted {
            let mut rows = partition.live_rows(key);
            rows.retain(|row| slices.iter().any(|slice| slice.contains(&form(&row.1))));
            if let Some(columns) = &columns {
                show(&mut rows, columns);
            }
            if reversed {
                rows.reverse();
            }
            expected.extend(rows);
        }
    }
    // Read page by page, with every way in which a page may end.
    let page = 1 + rng.below(12) as usize;
    let mut got = Vec::new();
    let mut command = command(table(1).id, partitions);
    command.slices = slices.into();
    command.reversed = reversed;
    command.row_columns = columns.clone().map(Into::into);
    loop {
        let mut rows = Rows { full_at: rng.chance(0.5).then_some(page), ..Rows::default() };
        command.rows_max = if rows.full_at.is_some() { u64::MAX } else { page as u64 };
        let now = if rng.chance(0.5) { store.read_now(&command, &mut rows) } else { None };
        let end = match now {
            Some(end) => end,
            None => {
                assert!(rows.rows.is_empty());
                store.read(&command, &mut rows).await
            }
        };
        let given = rows.rows.len();
        if let Some(columns) = &columns {
            show(&mut rows.rows, columns);
        }
        got.extend(rows.rows.iter().cloned());
        if end.expect("read") == ReadEnd::Exhausted {
            break;
        }
        assert_eq!(given, page);
        command.resume = rows.last;
        if rng.chance(0.1) {
            // Skip the rest of this partition.
            let resume = command.resume.as_mut().expect("a row was given");
            resume.comparable = None;
            let done = resume.key.key.to_vec();
            let given = got.iter().filter(|row| row.0 == done).count();
            let mut seen = 0;
            expected.retain(|row| {
                row.0 != done || {
                    seen += 1;
                    seen <= given
                }
            });
        }
    }
    assert_eq!(got, expected, "{command:?}");
}

/// Removes the columns that a read does not ask for. A row of which only those columns are alive remains.
fn show(rows: &mut [Row], columns: &[ColumnId]) {
    rows.iter_mut().for_each(|row| row.3.retain(|cell| columns.contains(&ColumnId(cell.0))));
}

#[test]
fn random_operations_match_a_model() {
    random_operations(None);
}

#[test]
fn random_operations_on_a_skiplist_match_a_model() {
    random_operations(Some("skiplist"));
}

fn random_operations(memtable: Option<&'static str>) {
    for seed in 0..40 {
        let mut sim = Sim::new(
            seed,
            sim::Options { disk_latency: (Duration::ZERO, Duration::from_micros(9)), ..sim::Options::default() },
        );
        let done = Rc::new(StdCell::new(false));
        let finished = done.clone();
        sim.start_node(NodeId(1), 1, move |_| {
            let finished = finished.clone();
            async move {
                let mut rng = Rng::new(seed);
                // From a cache that holds nothing to one that holds everything.
                let cache_bytes_max = 1 << (10 + 2 * rng.below(7));
                let options = Options { cache_bytes_max, ..options(1, GROUP) };
                let store = start(options, &[with_memtable(&uncompacted(&table(1)), memtable)]).await;
                // In some runs nothing is flushed.
                let flushes = if seed % 4 == 0 { 0.0 } else { 0.05 };
                let keys: Vec<Vec<u8>> = (0..1 + rng.below(8) as u8).map(|k| vec![k; 1 + k as usize % 3]).collect();
                let mut model = Model::new();
                for _ in 0..120 {
                    let key = &keys[rng.below(keys.len() as u64) as usize];
                    store.apply(random_write(&mut rng, &mut model, key), false).await.expect("apply");
                    if rng.chance(flushes) {
                        // Flushes run beside the reads and writes, so these come before, during and after.
                        let flushing = store.clone();
                        let flush = runtime::spawn(async move { flushing.flush(table(1).id).await.expect("flush") });
                        if rng.chance(0.5) {
                            runtime::sleep(Duration::from_micros(rng.below(200))).await;
                            check_read(&store, &mut rng, &model, &keys).await;
                            let key = &keys[rng.below(keys.len() as u64) as usize];
                            store.apply(random_write(&mut rng, &mut model, key), false).await.expect("apply");
                            check_read(&store, &mut rng, &model, &keys).await;
                        }
                        flush.await;
                    }
                    check_read(&store, &mut rng, &model, &keys).await;
                }
                store.truncate(table(1).id).await.expect("truncate");
                assert!(read_all(&store, table(1).id).await.is_empty());
                store.close().await.expect("close");
                assert_eq!(store.memory().0, 0, "a truncated table frees its memory");
                finished.set(true);
            }
        });
        sim.run_until(Duration::from_secs(3600), || done.get());
        assert!(done.get(), "seed {seed}");
    }
}

#[test]
fn a_long_read_sees_partitions_whole_while_they_are_written() {
    for seed in 0..6 {
        let memtable = (seed % 2 == 1).then_some("skiplist");
        let disk_latency = (Duration::ZERO, Duration::from_micros(1));
        let mut sim = Sim::new(seed, sim::Options { disk_latency, ..sim::Options::default() });
        let done = Rc::new(StdCell::new(false));
        let finished = done.clone();
        sim.start_node(NodeId(1), 1, move |_| {
            let finished = finished.clone();
            async move {
                let options = Options { segment_bytes: 1 << 20, ..options(1, GROUP) };
                let store = start(options, &[with_memtable(&table(1), memtable)]).await;
                read_while_writing(&store).await;
                finished.set(true);
            }
        });
        sim.run_until(Duration::from_secs(3600), || done.get());
        assert!(done.get(), "seed {seed}");
    }
}

/// Reads a partition that is longer than one stretch again and again while it is overwritten as a whole.
async fn read_while_writing(store: &Store) {
    const ROWS: i32 = 500;
    let version = |version: i64| {
        let mut builder = MutationBuilder::new(Partitioner::Murmur3, b"p");
        builder.table(table(1).id);
        // A version is as long as the one before, and is replaced in place, or it is not, and is moved.
        let text = if version % 4 < 2 { format!("{version:09}") } else { format!("{version:030}") };
        (0..ROWS).for_each(|y| add_row(&mut builder, 0, y, version, text.as_bytes()));
        builder.finish()
    };
    store.apply(version(1), false).await.expect("apply");
    let writing = Rc::new(StdCell::new(true));
    let writer = {
        let (store, writing) = (store.clone(), writing.clone());
        runtime::spawn(async move {
            for v in 2..60 {
                store.apply(version(v), false).await.expect("apply");
            }
            writing.set(false);
        })
    };
    let mut round = 0;
    while writing.get() {
        let mut command = match round % 2 {
            0 => command(table(1).id, Partitions::Key(DecoratedKey::new(Partitioner::Murmur3, b"p"))),
            _ => command(table(1).id, Partitions::Range(TokenRange::FULL)),
        };
        command.reversed = round % 3 == 0;
        let mut rows = Rows::default();
        store.read(&command, &mut rows).await.expect("read");
        assert_eq!(rows.rows.len(), ROWS as usize);
        let first = &rows.rows[0].3;
        assert!(rows.rows.iter().all(|row| row.3 == *first), "half of a mutation was seen");
        round += 1;
        runtime::yield_now().await;
    }
    writer.await;
}

#[test]
fn expired_cells_and_liveness_are_not_given() {
    let mut sim = Sim::new(7, sim::Options::default());
    let done = Rc::new(StdCell::new(false));
    let finished = done.clone();
    sim.start_node(NodeId(1), 1, move |_| {
        let finished = finished.clone();
        async move {
            let store = start(options(1, GROUP), &[table(1)]).await;
            let mut builder = MutationBuilder::new(Partitioner::Murmur3, b"p");
            builder.table(table(1).id);
            let content = |value| CellContent::Expiring { value, ttl: 10, local_deletion_time: 1010 };
            builder.row(Clustering(&clustering(&[1, 1])), |out| {
                let liveness = Some(model::row::Liveness { timestamp: 5, expiry: Some((10, 1010)) });
                let mut row = RowBuilder::new(out, liveness, model::row::Deletion::LIVE);
                row.cell(&Cell { column: A, timestamp: 5, content: content(b"gone"), path: None });
            });
            builder.row(Clustering(&clustering(&[1, 2])), |out| {
                let mut row = RowBuilder::new(out, None, model::row::Deletion::LIVE);
                row.cell(&Cell { column: A, timestamp: 5, content: content(b"gone"), path: None });
                row.cell(&value(B, 5, b"stays"));
            });
            store.apply(builder.finish(), false).await.expect("apply");
            for (now, expected) in [(1009, 2), (1010, 1), (i64::MAX, 1)] {
                let mut command = command(table(1).id, Partitions::Key(DecoratedKey::new(Partitioner::Murmur3, b"p")));
                command.now_in_seconds = now;
                let mut rows = Rows::default();
                store.read_now(&command, &mut rows).expect("in one poll").expect("read");
                assert_eq!(rows.rows.len(), expected, "at {now}");
                let last = rows.rows.last().expect("a row");
                assert_eq!(last.3.last(), Some(&(ColumnId(4).0, b"stays".to_vec())));
                assert_eq!(last.3.len(), expected);
            }
            finished.set(true);
        }
    });
    sim.run_until(Duration::from_secs(60), || done.get());
    assert!(done.get());
}

#[test]
fn a_table_that_asks_for_another_memtable_gets_it_at_once() {
    let mut sim = calm(3);
    run(&mut sim, || async {
        let plain = uncompacted(&table(1));
        let store = start(options(1, GROUP), std::slice::from_ref(&plain)).await;
        write_rows(&store, 0..20, 10).await;
        let of = |memtable: Option<&str>| with_memtable(&plain, memtable);
        // Another name for the same kind changes nothing.
        store.add_table(of(Some("trie")), Home::ByToken);
        runtime::sleep(Duration::from_secs(1)).await;
        assert!(store.memory_of(table(1).id) > 0);
        for (memtable, rows) in [(Some("skiplist"), 20), (None, 30)] {
            store.add_table(of(memtable), Home::ByToken);
            runtime::sleep(Duration::from_secs(1)).await;
            assert_eq!(store.memory_of(table(1).id), 0, "what was in memory is in an SSTable");
            write_rows(&store, rows..rows + 10, 10).await;
            assert_eq!(read_all(&store, table(1).id).await.len() as i32, rows + 10);
        }
    });
}
