//! Reads do not depend on where data lies: one table stays in memory, its twin gets the same writes but is flushed
//! again and again, and every read of both gives the same.

use crate::support::*;
use engine::{Error, Options, Store};
use model::Partitioner;
use model::comparable::{self, BoundSide};
use model::mutation::{Clustering, ClusteringBound, push_clustering};
use model::query::{LiveRow, Partitions, Position, ReadCommand, ReadEnd, RowSink, SinkState, Slice};
use model::row::{Cell, CellContent, Deletion, Liveness, RowBuilder};
use model::schema::DroppedColumn;
use model::token::TokenRange;
use model::{Column, ColumnId, ColumnKind, CqlType, DecoratedKey, MutationBuilder, RingToken, Table, TableId, Token};
use runtime::rng::Rng;
use runtime::sim::DiskCall;
use std::cell::Cell as StdCell;
use std::rc::Rc;
use std::sync::Arc;

const STATIC: ColumnId = ColumnId(3);
const TEXT: ColumnId = ColumnId(4);
const MAP: ColumnId = ColumnId(5);
const DROPPED: ColumnId = ColumnId(6);

/// `(k blob, x int, y int, s int static, a text, m map<int, text>, d text, PRIMARY KEY (k, x, y)) WITH CLUSTERING ORDER
/// BY (x DESC, y ASC)`, `d` dropped at 20.
fn twin(number: u8) -> Arc<Table> {
    let mut table = (*table_of("ks", number, &["a", "m"])).clone();
    let column = |id, name: &str, kind, cql_type| {
        let (name, position, descending) = (name.into(), 0, false);
        Column { id, name, kind, position, cql_type, descending }
    };
    let (key, element) = (Box::new(CqlType::Int), Box::new(CqlType::Text));
    table.columns.truncate(3);
    table.columns[1].descending = true;
    table.columns.push(column(STATIC, "s", ColumnKind::Static, CqlType::Int));
    table.columns.push(column(TEXT, "a", ColumnKind::Regular, CqlType::Text));
    table.columns.push(column(MAP, "m", ColumnKind::Regular, CqlType::Map { key, value: element, frozen: false }));
    table.columns.push(column(DROPPED, "d", ColumnKind::Regular, CqlType::Text));
    table.static_len = 1;
    table.dropped.push(DroppedColumn {
        id: DROPPED,
        name: "d".into(),
        kind: ColumnKind::Regular,
        cql_type: CqlType::Text,
        dropped_at: 20,
    });
    Arc::new(table)
}

fn values(rng: &mut Rng, len: u64) -> Vec<u8> {
    let mut out = Vec::new();
    (0..len).for_each(|_| push_clustering(&mut out, &(rng.below(7) as i32 - 3).to_be_bytes()));
    out
}

fn content<'a>(rng: &mut Rng, value: &'a [u8]) -> CellContent<'a> {
    let local_deletion_time = 990 + rng.below(20) as i64;
    match rng.below(4) {
        0 => CellContent::Deleted { local_deletion_time },
        1 => CellContent::Expiring { value, ttl: 5, local_deletion_time },
        _ => CellContent::Live(value),
    }
}

/// A mutation for each of both tables, with the same contents.
fn write(rng: &mut Rng, key: &[u8], tables: [&Table; 2]) -> [model::Mutation; 2] {
    let seed = rng.below(u64::MAX);
    tables.map(|table| {
        let rng = &mut Rng::new(seed);
        let mut builder = MutationBuilder::new(Partitioner::Murmur3, key);
        builder.table(table.id);
        for _ in 0..1 + rng.below(4) {
            let timestamp = 1 + rng.below(40) as i64;
            let deletion = Deletion { timestamp, local_deletion_time: 990 + rng.below(20) as i64 };
            let text = vec![b'a' + rng.below(20) as u8; rng.below(300) as usize];
            match rng.below(16) {
                0 => drop(builder.delete_partition(Deletion { timestamp: timestamp / 2 + 1, ..deletion })),
                1 | 2 => {
                    let lens = [rng.below(3), rng.below(3)];
                    let [start, end] = lens.map(|len| values(rng, len));
                    let inclusive = [rng.chance(0.5), rng.chance(0.5)];
                    builder.delete_range(
                        ClusteringBound { prefix: Clustering(&start), inclusive: inclusive[0] },
                        ClusteringBound { prefix: Clustering(&end), inclusive: inclusive[1] },
                        deletion,
                    );
                }
                3 | 4 => {
                    let content = content(rng, b"\0\0\0\x07");
                    builder.static_row(|out| {
                        let mut row = RowBuilder::new(out, None, Deletion::LIVE);
                        row.cell(&Cell { column: STATIC, timestamp, content, path: None });
                    });
                }
                kind => {
                    let at = values(rng, 2);
                    let liveness = rng.chance(0.5).then(|| Liveness {
                        timestamp,
                        expiry: rng.chance(0.3).then(|| (5, 990 + rng.below(20) as i64)),
                    });
                    let own =
                        if kind == 5 { Deletion { timestamp: timestamp - 1, ..deletion } } else { Deletion::LIVE };
                    builder.row(Clustering(&at), |out| {
                        let mut row = RowBuilder::new(out, liveness, own);
                        if rng.chance(0.6) {
                            row.cell(&Cell { column: TEXT, timestamp, content: content(rng, &text), path: None });
                        }
                        if rng.chance(0.2) {
                            let content = CellContent::ColumnDeletion { local_deletion_time: 999 };
                            row.cell(&Cell { column: MAP, timestamp: timestamp - 1, content, path: None });
                        }
                        for path in 0..3u32 {
                            if rng.chance(0.3) {
                                let (content, path) = (content(rng, b"v"), &path.to_be_bytes()[..]);
                                row.cell(&Cell { column: MAP, timestamp, content, path: Some(path) });
                            }
                        }
                        if rng.chance(0.4) {
                            row.cell(&Cell { column: DROPPED, timestamp, content: content(rng, b"d"), path: None });
                        }
                    });
                }
            }
        }
        builder.finish()
    })
}

/// A sink that records everything that it is given as text.
#[derive(Default)]
struct Told {
    rows: Vec<String>,
    last: Option<Position>,
    full_at: usize,
    /// Rows with this many cells are rejected.
    refused: Option<usize>,
    given: usize,
}

impl RowSink for Told {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        if self.refused == Some(row.cells.len()) {
            return SinkState::Rejected;
        }
        self.rows.push(format!("{row:?}"));
        self.given += 1;
        let comparable = (!row.static_only).then(|| row.comparable.into());
        self.last = Some(Position { key: DecoratedKey::new(Partitioner::Murmur3, row.key), comparable });
        if self.given == self.full_at { SinkState::Full } else { SinkState::Open }
    }
}

/// All rows of a command, read in random pages and with random pauses.
async fn read(store: &Store, rng: &mut Rng, mut command: ReadCommand) -> Vec<String> {
    let refused = rng.chance(0.2).then(|| rng.below(4) as usize);
    let mut rows = Vec::new();
    loop {
        let full_at = if rng.chance(0.5) { 1 + rng.below(6) as usize } else { 0 };
        command.visits_max = if rng.chance(0.3) { 1 + rng.below(9) } else { u64::MAX };
        let mut told = Told { full_at, refused, ..Told::default() };
        let now = if rng.chance(0.5) { store.read_now(&command, &mut told) } else { None };
        let end = match now {
            Some(end) => end,
            None => {
                assert!(told.rows.is_empty());
                store.read(&command, &mut told).await
            }
        };
        let in_partition = |key: &DecoratedKey, rows: &[String]| {
            let key = format!("key: {:?}", &*key.key);
            rows.iter().filter(|row| row.contains(&key)).count() as u64
        };
        rows.append(&mut told.rows);
        match end.expect("read") {
            ReadEnd::Exhausted => return rows,
            ReadEnd::Stopped => {
                command.resume = told.last;
                let key = command.resume.as_ref().map(|resume| &resume.key).expect("a row was given");
                command.resume_partition_rows = in_partition(key, &rows);
            }
            ReadEnd::Paused(resume) => {
                command.resume_partition_rows = resume.partition_rows;
                command.resume = Some(resume.position);
            }
        }
    }
}

fn bound(rng: &mut Rng, table: &Table, len: u64, side: BoundSide) -> Box<[u8]> {
    let (values, mut out) = (values(rng, len), Vec::new());
    comparable::bound(table, Clustering(&values).components(), side, &mut out);
    out.into()
}

fn random_command(rng: &mut Rng, table: &Table, keys: &[Vec<u8>]) -> ReadCommand {
    let key = |rng: &mut Rng| DecoratedKey::new(Partitioner::Murmur3, &keys[rng.below(keys.len() as u64) as usize]);
    let partitions = match rng.below(5) {
        0 => Partitions::Range(TokenRange::FULL),
        1 => {
            let (a, b) = (key(rng).token, key(rng).token);
            let until = if rng.chance(0.2) { Token::MIN } else { a.max(b) };
            Partitions::Range(TokenRange::between(RingToken::Murmur3(a.min(b).0), RingToken::Murmur3(until.0)))
        }
        _ => Partitions::Key(key(rng)),
    };
    let mut command = command(table.id, partitions);
    let kind = rng.below(4);
    if kind == 0 {
        let seed = rng.below(u64::MAX);
        let [start, end] = [BoundSide::Before, BoundSide::After].map(|side| bound(&mut Rng::new(seed), table, 2, side));
        command.slices = [Slice { start, end }].into();
        command.row_columns = rng.chance(0.7).then(|| if rng.chance(0.5) { [TEXT].into() } else { [].into() });
    } else if kind < 3 {
        let mut places: Vec<_> = (0..2 * rng.below(4))
            .map(|_| {
                let side = if rng.chance(0.5) { BoundSide::Before } else { BoundSide::After };
                let len = rng.below(3);
                bound(rng, table, len, side)
            })
            .collect();
        places.sort();
        let slices = places.chunks_exact(2).filter(|pair| pair[0] < pair[1]);
        let slices: Vec<_> = slices.map(|pair| Slice { start: pair[0].clone(), end: pair[1].clone() }).collect();
        if !slices.is_empty() {
            command.slices = slices.into();
        }
    }
    command.reversed = rng.chance(0.4);
    command.per_partition_max = if rng.chance(0.3) { 1 + rng.below(3) } else { u64::MAX };
    command.wants_static = command.row_columns.is_none() && rng.chance(0.7);
    command.static_only = command.wants_static && rng.chance(0.5);
    command
}

/// The rows as a read of single rows shows them: with no other columns than it asks for.
fn shown(rows: Vec<String>, command: &ReadCommand) -> Vec<String> {
    let Some(columns) = &command.row_columns else { return rows };
    let hide = |row: String| {
        let (head, cells) = row.split_once("cells: [").expect("cells");
        let cells = cells
            .split("Cell {")
            .filter(|cell| columns.iter().any(|column| cell.contains(&format!("column: ColumnId({})", column.0))));
        format!("{head}{}", cells.collect::<String>())
    };
    rows.into_iter().map(hide).collect()
}

async fn compare(seed: u64) {
    let mut rng = Rng::new(seed);
    let (memory, flushed) = (twin(1), twin(2));
    let cache_bytes_max = 1 << (10 + 2 * rng.below(7));
    let store =
        start(Options { cache_bytes_max, ..options(1, GROUP) }, &[uncompacted(&memory), uncompacted(&flushed)]).await;
    let keys: Vec<Vec<u8>> = (0..1 + rng.below(6) as u8).map(|k| vec![k; 1 + k as usize % 3]).collect();
    for _ in 0..60 {
        let key = &keys[rng.below(keys.len() as u64) as usize];
        for mutation in write(&mut rng, key, [&memory, &flushed]) {
            store.apply(mutation, false).await.expect("apply");
        }
        if rng.chance(0.08) {
            store.flush(flushed.id).await.expect("flush");
        }
        for _ in 0..4 {
            let command = random_command(&mut rng, &memory, &keys);
            let seed = rng.below(u64::MAX);
            let expected = read(&store, &mut Rng::new(seed), command.clone()).await;
            let twin = ReadCommand { table: flushed.id, ..command.clone() };
            let found = read(&store, &mut Rng::new(seed), twin).await;
            assert_eq!(shown(found, &command), shown(expected, &command), "{command:?}");
        }
    }
    store.close().await.expect("close");
}

#[test]
fn memory_and_sstables_give_the_same() {
    for seed in 0..60 {
        run(&mut calm(seed), move || compare(seed));
    }
}

/// Counts reads of files of SSTables by the component's name.
fn count_reads(sim: &mut runtime::sim::Sim, component: &'static str) -> Rc<StdCell<usize>> {
    let count = Rc::new(StdCell::new(0));
    let counted = count.clone();
    sim.set_disk_fault(NODE, move |call, path| {
        let named = path.to_string_lossy().ends_with(component);
        counted.set(counted.get() + usize::from(call == DiskCall::Read && named));
        None
    });
    count
}

fn one_row(x: i32) -> ReadCommand {
    let table = table(1);
    let values = clustering(&[x, 0]);
    let [start, end] = [BoundSide::Before, BoundSide::After].map(|side| {
        let mut out = Vec::new();
        comparable::bound(&table, Clustering(&values).components(), side, &mut out);
        out.into_boxed_slice()
    });
    let mut command = command(table.id, Partitions::Key(DecoratedKey::new(Partitioner::Murmur3, b"p")));
    command.slices = [Slice { start, end }].into();
    command.row_columns = Some([A].into());
    command
}

#[test]
fn a_complete_row_is_read_from_the_newest_sstable_alone() {
    let mut sim = calm(3);
    let reads = count_reads(&mut sim, "-Data.db");
    run(&mut sim, move || {
        let reads = reads.clone();
        async move {
            // Without a cache, every block is read from disk.
            let store = start(Options { cache_bytes_max: 0, ..small() }, &[uncompacted(&table(1))]).await;
            for timestamp in 1..=5 {
                let mutation = insert(table(1).id, b"p", 1, 0, timestamp, format!("{timestamp}").as_bytes());
                store.apply(mutation, false).await.expect("apply");
                store.flush(table(1).id).await.expect("flush");
            }
            let before = reads.get();
            let mut rows = Rows::default();
            store.read(&one_row(1), &mut rows).await.expect("read");
            assert_eq!(rows.rows[0].3, [(A.0, b"5".to_vec())]);
            assert_eq!(reads.get() - before, 1, "one read of data for one row");
            // A row outside the bounds of all SSTables, or in a partition that no SSTable has, needs no read.
            let before = reads.get();
            store.read(&one_row(7), &mut Rows::default()).await.expect("read");
            let elsewhere = ReadCommand {
                partitions: Partitions::Key(DecoratedKey::new(Partitioner::Murmur3, b"q")),
                ..one_row(1)
            };
            assert_eq!(
                store.read_now(&elsewhere, &mut Rows::default()).expect("at once").expect("read"),
                ReadEnd::Exhausted
            );
            assert_eq!(reads.get(), before);
            // SSTables older than the deletion of the partition need not be read.
            let mut builder = MutationBuilder::new(Partitioner::Murmur3, b"p");
            builder.table(table(1).id).delete_partition(deletion(9));
            store.apply(builder.finish(), false).await.expect("apply");
            let all = command(table(1).id, Partitions::Key(DecoratedKey::new(Partitioner::Murmur3, b"p")));
            assert_eq!(store.read_now(&all, &mut Rows::default()).expect("at once").expect("read"), ReadEnd::Exhausted);
            store.flush(table(1).id).await.expect("flush");
            let before = reads.get();
            let mut rows = Rows::default();
            store.read(&all, &mut rows).await.expect("read");
            assert!(rows.rows.is_empty());
            assert_eq!(reads.get() - before, 1);
        }
    });
}

#[test]
fn wide_partitions_are_entered_and_left_by_their_indexes() {
    const ROWS: i32 = 1500;
    let mut sim = calm(7);
    let reads = count_reads(&mut sim, "-Data.db");
    run(&mut sim, move || {
        let reads = reads.clone();
        async move {
            let options = Options { cache_bytes_max: 0, segment_bytes: 1 << 20, ..small() };
            let store = start(options, &[uncompacted(&table(1))]).await;
            let mut rng = Rng::new(1);
            for key in [b"p", b"q", b"r"] {
                for y in 0..ROWS {
                    let text: Vec<u8> = (0..200).map(|_| rng.below(256) as u8).collect();
                    store.apply(insert(table(1).id, key, 0, y, 1, &text), false).await.expect("apply");
                }
            }
            store.flush(table(1).id).await.expect("flush");
            let all = command(table(1).id, Partitions::Range(TokenRange::FULL));
            let before = reads.get();
            let mut rows = Rows::default();
            store.read(&all, &mut rows).await.expect("read");
            assert_eq!(rows.rows.len(), 3 * ROWS as usize);
            let whole = reads.get() - before;
            // Read the first row of each partition.
            let before = reads.get();
            let mut rows = Rows::default();
            store.read(&ReadCommand { per_partition_max: 1, ..all.clone() }, &mut rows).await.expect("read");
            assert_eq!(rows.rows.iter().map(|row| row.1[1]).collect::<Vec<_>>(), [0; 3]);
            let first = reads.get() - before;
            assert!(first * 2 < whole, "{first} of {whole} blocks");
            // Read a page that begins in the last rows of the second partition.
            let mut rows = Rows { full_at: Some(2 * ROWS as usize - 10), ..Rows::default() };
            store.read(&all, &mut rows).await.expect("read");
            let before = reads.get();
            let page = ReadCommand { resume: rows.last, rows_max: 9, ..all };
            let mut rows = Rows::default();
            assert_eq!(store.read(&page, &mut rows).await.expect("read"), ReadEnd::Stopped);
            assert_eq!(rows.rows[8].1, [0, ROWS - 2]);
            let page = reads.get() - before;
            // The bound includes blocks that were read ahead.
            assert!(page * 3 < whole, "{page} of {whole} blocks for a page");
        }
    });
}

#[test]
fn a_scan_reads_several_blocks_at_once() {
    const ROWS: i32 = 1500;
    for compressed in [true, false] {
        let mut sim = calm(8);
        let reads = count_reads(&mut sim, "-Data.db");
        run(&mut sim, move || {
            let reads = reads.clone();
            async move {
                let mut table = (*uncompacted(&table(1))).clone();
                if !compressed {
                    table.options.compression.insert("enabled".into(), "false".into());
                }
                let store = start(Options { segment_bytes: 1 << 20, ..small() }, &[Arc::new(table.clone())]).await;
                let mut rng = Rng::new(1);
                for x in 0..ROWS {
                    let text: Vec<u8> = (0..200).map(|_| rng.below(256) as u8).collect();
                    store.apply(insert(table.id, &x.to_be_bytes(), x, 0, 1, &text), false).await.expect("apply");
                }
                store.flush(table.id).await.expect("flush");
                let before = reads.get();
                assert_eq!(read_all(&store, table.id).await.len(), ROWS as usize);
                // About 350 KB in blocks of 16 KiB. The first two blocks are read one by one.
                let whole = reads.get() - before;
                assert!((3..=9).contains(&whole), "{whole} reads, compressed: {compressed}");
            }
        });
    }
}

/// All rows of a table, read in pages of `size` rows.
async fn in_pages(store: &Store, table: TableId, size: usize) -> Vec<Row> {
    let mut page = command(table, Partitions::Range(TokenRange::FULL));
    let mut seen = Vec::new();
    loop {
        let mut rows = Rows { full_at: Some(size), ..Rows::default() };
        let end = store.read(&page, &mut rows).await.expect("read");
        seen.append(&mut rows.rows);
        if end == ReadEnd::Exhausted {
            return seen;
        }
        page.resume = rows.last;
    }
}

#[test]
fn a_scan_that_goes_on_reads_more_at_once_and_over_blocks_that_are_there() {
    const ROWS: i32 = 8000;
    let mut sim = calm(9);
    let reads = count_reads(&mut sim, "-Data.db");
    run(&mut sim, move || {
        let reads = reads.clone();
        async move {
            let table = uncompacted(&table(1));
            let options = Options { segment_bytes: 1 << 20, cache_bytes_max: 64 << 20, ..small() };
            let store = start(options, std::slice::from_ref(&table)).await;
            let mut rng = Rng::new(1);
            for x in 0..ROWS {
                let text: Vec<u8> = (0..200).map(|_| rng.below(256) as u8).collect();
                store.apply(insert(table.id, &x.to_be_bytes(), x, 0, 1, &text), false).await.expect("apply");
            }
            store.flush(table.id).await.expect("flush");
            // About 120 blocks of 16 KiB, of which the cache holds about a third.
            let before = reads.get();
            for x in (0..ROWS).step_by(200) {
                let key = DecoratedKey::new(Partitioner::Murmur3, &x.to_be_bytes());
                store.read(&command(table.id, Partitions::Key(key)), &mut Rows::default()).await.expect("read");
            }
            let alone = reads.get() - before;
            assert!((20..=40).contains(&alone), "{alone} blocks of their own");
            let before = reads.get();
            assert_eq!(in_pages(&store, table.id, ROWS as usize / 3).await.len(), ROWS as usize);
            let whole = reads.get() - before;
            assert!((5..=16).contains(&whole), "{whole} reads");
        }
    });
}

#[test]
fn pages_of_a_table_without_clustering_columns_give_each_row_once() {
    run(&mut calm(9), || async {
        let mut single = Table::clone(&uncompacted(&table(1)));
        single.columns.retain(|column| column.kind != ColumnKind::Clustering);
        single.clustering_len = 0;
        let id = single.id;
        let store = start(small(), &[Arc::new(single)]).await;
        // Some rows are only in an SSTable, some only in memory, some in both.
        for (keys, flushed) in [(0..40u8, true), (30..60, false)] {
            for key in keys {
                let mut builder = MutationBuilder::new(Partitioner::Murmur3, &[key]);
                builder.table(id).row(Clustering(&[]), |out| {
                    RowBuilder::new(out, live(1), Deletion::LIVE).cell(&value(A, 1, b"a"));
                });
                store.apply(builder.finish(), false).await.expect("apply");
            }
            if flushed {
                store.flush(id).await.expect("flush");
            }
        }
        let whole: Vec<_> = read_all(&store, id).await;
        assert_eq!(whole.len(), 60);
        for size in 1..8 {
            assert_eq!(in_pages(&store, id, size).await, whole, "in pages of {size}");
        }
    });
}

#[test]
fn cached_rows_are_read_at_once() {
    run(&mut calm(4), || async {
        let store = start(small(), &[uncompacted(&table(1))]).await;
        write_rows(&store, 0..30, 100).await;
        store.flush(table(1).id).await.expect("flush");
        let mut rows = Rows::default();
        assert!(store.read_now(&one_row(3), &mut rows).is_none(), "nothing is in the cache");
        assert!(rows.rows.is_empty());
        store.read(&one_row(3), &mut rows).await.expect("read");
        for x in [3, 29, 0] {
            let mut rows = Rows::default();
            store.read_now(&one_row(x), &mut rows).expect("at once").expect("read");
            assert_eq!(rows.rows[0].1, [x, 0]);
        }
    });
}

#[test]
fn many_readers_of_a_block_read_it_once() {
    let mut sim = calm(5);
    let reads = count_reads(&mut sim, "-Data.db");
    run(&mut sim, move || {
        let reads = reads.clone();
        async move {
            let store = start(small(), &[uncompacted(&table(1))]).await;
            write_rows(&store, 0..30, 100).await;
            store.flush(table(1).id).await.expect("flush");
            let before = reads.get();
            let readers: Vec<_> = (0..30)
                .map(|x| {
                    let store = store.clone();
                    runtime::spawn(async move {
                        let mut rows = Rows::default();
                        store.read(&one_row(x), &mut rows).await.expect("read");
                        assert_eq!(rows.rows.len(), 1);
                    })
                })
                .collect();
            for reader in readers {
                reader.await;
            }
            assert_eq!(reads.get() - before, 1);
        }
    });
}

#[test]
fn a_bad_block_fails_the_reads_that_need_it_and_names_the_file() {
    let mut sim = calm(6);
    run(&mut sim, || async {
        let store = start(small(), &[table(1), table(2)]).await;
        write_rows(&store, 0..30, 100).await;
        store.apply(insert(table(2).id, b"p", 1, 0, 1, b"good"), false).await.expect("apply");
        store.flush(table(1).id).await.expect("flush");
        store.flush(table(2).id).await.expect("flush");
        store.close().await.expect("close");
    });
    let of_table = |path: &std::path::Path| path.to_string_lossy().contains("/t1-");
    let names = sim.files(NODE).into_iter().map(|(path, _)| path);
    let data = names.into_iter().find(|path| of_table(path) && path.to_string_lossy().ends_with("-Data.db"));
    let data = data.expect("a data file");
    assert!(sim.mutate_file(NODE, &data, |bytes| bytes[100] ^= 1));
    run(&mut sim, move || {
        let data = data.clone();
        async move {
            let store = start(small(), &[table(1), table(2)]).await;
            for _ in 0..2 {
                let all = command(table(1).id, Partitions::Range(TokenRange::FULL));
                for command in [all, one_row(3)] {
                    let error = store.read(&command, &mut Rows::default()).await.expect_err("a bad block");
                    assert!(matches!(error, Error::BadSstable { .. }), "{error}");
                    let text = error.to_string();
                    let name = data.file_name().and_then(|name| name.to_str()).expect("a name");
                    assert!(text.contains(name) && text.contains("at offset"), "{text}");
                }
            }
            assert_eq!(read_all(&store, table(2).id).await.len(), 1, "other tables are as before");
        }
    });
}
