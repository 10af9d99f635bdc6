//! Indexes: they lead to the right rows after flushes, compactions, truncations and crashes.

use crate::support::*;
use engine::import::{self, Import, ImportOptions};
use engine::index::{IndexLookup, table_id};
use engine::verify::Depth;
use engine::{Options, Store};
use model::Partitioner;
use model::mutation::{Clustering, ClusteringBound};
use model::query::{LiveRow, Partitions, ReadCommand, ReadEnd, RowSink, SinkState};
use model::row::{Cell, CellContent, Deletion, RowBuilder};
use model::token::TokenRange;
use model::{DecoratedKey, Home, Index, IndexedPart, Mutation, MutationBuilder, ShardMap, Table};
use runtime::file::{create_dir_all, link, list_dir};
use runtime::rng;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const KEYS: [&[u8]; 3] = [b"p", b"q", b"r"];
const VALUES: [&[u8]; 4] = [b"", b"v", b"w", b"x"];

/// Table 1 with an index of its regular column `a` and one of its second clustering column.
fn indexed() -> Arc<Table> {
    let mut table = (*table(1)).clone();
    let index =
        |name: &str, column: &str| Index { name: name.into(), column: column.into(), part: IndexedPart::Simple };
    table.indexes = vec![index("of_a", "a"), index("of_y", "y")];
    Arc::new(table)
}

async fn build(store: &Store) {
    for index in ["of_a", "of_y"] {
        store.build_index(table(1).id, index).await.expect("built");
        assert_eq!(store.is_index_built(table(1).id, index), Some(true));
    }
}

/// A sink that keeps the rows that have a value, of all that it is given.
struct Matching {
    column_a: Option<Vec<u8>>,
    y: Option<i32>,
    rows: Vec<(Vec<u8>, Vec<i32>)>,
    full_at: usize,
}

impl Matching {
    fn of(column_a: Option<&[u8]>, y: Option<i32>) -> Matching {
        Matching { column_a: column_a.map(<[u8]>::to_vec), y, rows: Vec::new(), full_at: usize::MAX }
    }
}

impl RowSink for Matching {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        let values = clustering_values(row.clustering);
        let a = row.cells.iter().find(|cell| cell.column == A).and_then(|cell| cell.value_at(1000));
        let holds =
            self.column_a.as_deref().is_none_or(|wanted| a == Some(wanted)) && self.y.is_none_or(|y| values[1] == y);
        if !holds {
            return SinkState::Rejected;
        }
        self.rows.push((row.key.to_vec(), values));
        if self.rows.len() == self.full_at { SinkState::Full } else { SinkState::Open }
    }
}

fn lookup(index: &str, value: &[u8]) -> IndexLookup {
    IndexLookup { index: index.into(), value: value.into() }
}

fn whole() -> ReadCommand {
    command(table(1).id, Partitions::Range(TokenRange::FULL))
}

/// Checks for every value that a read by the index and a scan find the same rows.
async fn agree(store: &Store) {
    for value in VALUES {
        let (mut by_index, mut by_scan) = (Matching::of(Some(value), None), Matching::of(Some(value), None));
        store.read_index(&whole(), &lookup("of_a", value), &mut by_index).await.expect("by index");
        store.read(&whole(), &mut by_scan).await.expect("by scan");
        assert_eq!(by_index.rows, by_scan.rows, "a = {value:?}");
    }
    for y in 0..4 {
        let (mut by_index, mut by_scan) = (Matching::of(None, Some(y)), Matching::of(None, Some(y)));
        store.read_index(&whole(), &lookup("of_y", &y.to_be_bytes()), &mut by_index).await.expect("by index");
        store.read(&whole(), &mut by_scan).await.expect("by scan");
        assert_eq!(by_index.rows, by_scan.rows, "y = {y}");
    }
}

/// The number of entries of an index for a value, including stale ones.
async fn entries(store: &Store, index: &str, value: &[u8]) -> usize {
    struct Count(usize);
    impl RowSink for Count {
        fn row(&mut self, _: &LiveRow<'_>) -> SinkState {
            self.0 += 1;
            SinkState::Open
        }
    }
    let mut count = Count(0);
    let partition = Partitions::Key(DecoratedKey::new(Partitioner::Murmur3, value));
    store.read(&command(table_id(table(1).id, index), partition), &mut count).await.expect("read");
    count.0
}

fn any_change(timestamp: i64) -> Mutation {
    let mut builder = MutationBuilder::new(Partitioner::Murmur3, KEYS[rng::below(3) as usize]);
    builder.table(table(1).id);
    let (x, y) = (rng::below(3) as i32, rng::below(4) as i32);
    let value = VALUES[rng::below(4) as usize];
    match rng::below(20) {
        0 => {
            builder.delete_partition(deletion(timestamp));
        }
        1 | 2 => {
            let prefix = clustering(&[x]);
            let bound = ClusteringBound { prefix: Clustering(&prefix), inclusive: true };
            builder.delete_range(bound, bound, deletion(timestamp));
        }
        3 | 4 => {
            builder.row(Clustering(&clustering(&[x, y])), |out| {
                RowBuilder::new(out, None, deletion(timestamp));
            });
        }
        5 | 6 => {
            builder.row(Clustering(&clustering(&[x, y])), |out| {
                let content = CellContent::Deleted { local_deletion_time: 1 };
                let cell = Cell { column: A, timestamp, content, path: None };
                RowBuilder::new(out, None, Deletion::LIVE).cell(&cell);
            });
        }
        7 | 8 => {
            builder.row(Clustering(&clustering(&[x, y])), |out| {
                // Reads judge expiry at second 1000, compactions at a wall clock some decades later.
                let local_deletion_time = if rng::below(2) == 0 { 900 } else { 2_000_000_000 };
                let content = CellContent::Expiring { value, ttl: 10, local_deletion_time };
                let cell = Cell { column: A, timestamp, content, path: None };
                RowBuilder::new(out, None, Deletion::LIVE).cell(&cell);
            });
        }
        _ => add_row(&mut builder, x, y, timestamp, value),
    }
    builder.finish()
}

#[test]
fn a_row_is_found_by_its_value_until_it_has_another() {
    run(&mut calm(1), || async {
        let store = start(small(), &[indexed()]).await;
        build(&store).await;
        let id = table(1).id;
        store.apply(insert(id, b"p", 1, 1, 1, b"v"), false).await.expect("applied");
        store.apply(insert(id, b"q", 1, 2, 1, b"v"), false).await.expect("applied");
        agree(&store).await;
        store.apply(insert(id, b"p", 1, 1, 2, b"w"), false).await.expect("applied");
        assert_eq!(entries(&store, "of_a", b"v").await, 1, "a write deletes what it replaces in memory");
        store.flush(id).await.expect("flushed");
        store.apply(insert(id, b"q", 1, 2, 2, b"x"), false).await.expect("applied");
        assert_eq!(entries(&store, "of_a", b"v").await, 1, "but does not look on disk");
        agree(&store).await;
        assert_eq!(entries(&store, "of_a", b"v").await, 0, "a read deletes what is stale");
        store.apply(insert(id, b"p", 1, 1, 3, b"v"), false).await.expect("applied");
        let mut first = Matching::of(Some(b"v"), None);
        first.full_at = 1;
        let end = store.read_index(&whole(), &lookup("of_a", b"v"), &mut first).await.expect("read");
        assert_eq!((end, first.rows.len()), (ReadEnd::Stopped, 1));
        let one = command(id, Partitions::Key(DecoratedKey::new(Partitioner::Murmur3, b"p")));
        let mut rows = Matching::of(Some(b"v"), None);
        store.read_index(&one, &lookup("of_a", b"v"), &mut rows).await.expect("read");
        assert_eq!(rows.rows, [(b"p".to_vec(), vec![1, 1])]);
    });
}

#[test]
fn an_index_that_is_not_built_answers_nothing() {
    run(&mut calm(2), || async {
        let store = start(small(), &[table(1)]).await;
        write_rows(&store, 0..50, 10).await;
        store.add_table(indexed(), Home::ByToken);
        let mut rows = Matching::of(Some(b""), None);
        let refused = store.read_index(&whole(), &lookup("of_a", b""), &mut rows).await;
        assert!(matches!(refused, Err(engine::Error::IndexNotBuilt { .. })), "{refused:?}");
        write_rows(&store, 50..60, 10).await;
        build(&store).await;
        let mut rows = Matching::of(Some(b"xxxxxxxxxx"), None);
        store.read_index(&whole(), &lookup("of_a", b"xxxxxxxxxx"), &mut rows).await.expect("read");
        assert_eq!(rows.rows.len(), 60);
        // A dropped index is unknown. When it is made again, it is empty until it is built.
        store.add_table(table(1), Home::ByToken);
        let mut rows = Matching::of(None, None);
        assert!(store.read_index(&whole(), &lookup("of_a", b""), &mut rows).await.is_err());
        store.remove_index(&table(1), "of_a").await.expect("removed");
        store.add_table(indexed(), Home::ByToken);
        assert_eq!(entries(&store, "of_a", b"xxxxxxxxxx").await, 0);
    });
}

/// Pages that end when their visits are used up give together what a single read gives.
#[test]
fn reads_go_on_where_they_were_paused() {
    run(&mut calm(3), || async {
        let store = start(small(), &[indexed()]).await;
        build(&store).await;
        for number in 0..500 {
            let key = KEYS[number as usize % 3];
            store.apply(insert(table(1).id, key, number, number % 4, 1, b"v"), false).await.expect("applied");
        }
        for (rows_max, visits_max) in [(u64::MAX, 7), (13, u64::MAX), (5, 3), (1, u64::MAX)] {
            let mut found = Vec::new();
            let mut part = ReadCommand { rows_max, visits_max, ..whole() };
            loop {
                let mut rows = Rows { full_at: None, ..Rows::default() };
                let end = store.read_index(&part, &lookup("of_a", b"v"), &mut rows).await.expect("read");
                found.extend(rows.rows.into_iter().map(|row| (row.0, row.1)));
                match end {
                    ReadEnd::Exhausted => break,
                    ReadEnd::Stopped => part.resume = rows.last,
                    ReadEnd::Paused(resume) => part.resume = Some(resume.position),
                }
            }
            let mut by_scan = Matching::of(Some(b"v"), None);
            store.read(&whole(), &mut by_scan).await.expect("read");
            assert_eq!(found, by_scan.rows, "{rows_max} {visits_max}");
        }
    });
}

#[test]
fn truncation_takes_the_index_along() {
    run(&mut calm(4), || async {
        let store = start(small(), &[indexed()]).await;
        build(&store).await;
        write_rows(&store, 0..20, 10).await;
        store.flush(table(1).id).await.expect("flushed");
        write_rows(&store, 20..30, 10).await;
        store.truncate(table(1).id).await.expect("truncated");
        store.release(table(1).id).await.expect("released");
        assert_eq!(entries(&store, "of_a", b"xxxxxxxxxx").await, 0);
        write_rows(&store, 30..31, 10).await;
        agree(&store).await;
    });
}

/// Base and index agree after every crash, during builds, flushes and compactions.
#[test]
fn base_and_index_agree_after_crashes() {
    for seed in 0..40 {
        let mut sim = calm(seed);
        let timestamp = Rc::new(std::cell::Cell::new(1));
        for round in 0..6 {
            let timestamp = timestamp.clone();
            run(&mut sim, move || {
                let timestamp = timestamp.clone();
                async move {
                    let store = start(small(), &[indexed()]).await;
                    let lives = Duration::from_millis(1 + rng::below(400));
                    let work = async {
                        build(&store).await;
                        agree(&store).await;
                        loop {
                            // Sometimes the timestamp is older than that of the existing row.
                            timestamp.set(timestamp.get() + 1);
                            let at = timestamp.get() - rng::below(3) as i64;
                            store.apply(any_change(at), false).await.expect("applied");
                            match rng::below(60) {
                                0 | 1 => store.flush(table(1).id).await.expect("flushed"),
                                2 => store.compact(table(1).id, EVERYTHING).await.expect("compacted"),
                                3 => store.compact(table_id(table(1).id, "of_a"), EVERYTHING).await.expect("compacted"),
                                4 | 5 => agree(&store).await,
                                _ => {}
                            }
                        }
                    };
                    let _: Option<()> = runtime::timeout(lives, work).await;
                    if round == 5 {
                        build(&store).await;
                        agree(&store).await;
                    }
                }
            });
            if round % 2 == 0 {
                sim.crash(NODE);
            }
        }
    }
}

/// With another number of shards each owns other tokens, so the SSTables of old indexes are of no use.
#[test]
fn other_tokens_to_cores_make_indexes_anew() {
    let mut sim = calm(5);
    let other =
        || Options { shard_map: ShardMap { ignore_msb: 3, ..ShardMap::new(Partitioner::Murmur3, 1) }, ..small() };
    run(&mut sim, || async {
        let store = start(small(), &[indexed()]).await;
        build(&store).await;
        write_rows(&store, 0..20, 10).await;
        store.flush(table(1).id).await.expect("flushed");
        write_rows(&store, 20..30, 10).await;
    });
    for _ in 0..2 {
        run(&mut sim, move || async move {
            let store = start(other(), &[indexed()]).await;
            // The index is not built as long as the base has a foreign SSTable.
            assert_eq!(store.is_index_built(table(1).id, "of_a"), Some(false));
            build(&store).await;
            agree(&store).await;
            let mut rows = Matching::of(Some(b"xxxxxxxxxx"), None);
            store.read_index(&whole(), &lookup("of_a", b"xxxxxxxxxx"), &mut rows).await.expect("read");
            assert_eq!(rows.rows.len(), 30);
        });
        sim.crash(NODE);
    }
    // Back to the first number of shards: the base's SSTables still exist, those of the index do not.
    run(&mut sim, || async {
        let store = start(small(), &[indexed()]).await;
        assert_eq!(store.is_index_built(table(1).id, "of_a"), Some(false));
        build(&store).await;
        agree(&store).await;
    });
}

/// A write whose caller has gone away gets its index entry when it is applied, also if the node ends.
#[test]
fn writes_that_nobody_waits_for_have_their_entries() {
    let mut sim = calm(9);
    run(&mut sim, || async {
        let store = start(small(), &[indexed()]).await;
        build(&store).await;
        write_rows(&store, 0..5, 10).await;
        for number in 0..5 {
            let store = store.clone();
            runtime::spawn(async move {
                let _ = store.apply(insert(table(1).id, b"p", number, 0, 2, b"v"), false).await;
            });
        }
        runtime::sleep(Duration::from_micros(1)).await;
    });
    sim.crash(NODE);
    run(&mut sim, || async {
        let store = start(small(), &[indexed()]).await;
        build(&store).await;
        agree(&store).await;
    });
}

#[test]
fn what_is_imported_has_its_entries_before_it_is_shown() {
    let mut sim = calm(6);
    run(&mut sim, || async {
        let inbox = Path::new("/inbox");
        let elsewhere = start(Options { directories: "/elsewhere".into(), ..small() }, &[table(1)]).await;
        write_rows(&elsewhere, 0..20, 10).await;
        elsewhere.flush(table(1).id).await.expect("flushed");
        create_dir_all(inbox).await.expect("made");
        for path in list_dir(&engine::directory_of(Path::new("/elsewhere"), &table(1))).await.expect("listed") {
            link(&path, &inbox.join(path.file_name().expect("a name"))).await.expect("linked");
        }
        let store = start(small(), &[indexed()]).await;
        build(&store).await;
        let sources = import::list(&[inbox.to_owned()]).await.expect("listed");
        let places = [store.log_place().await.expect("a place")];
        let how = ImportOptions { depth: Depth::Extended, keep_level: false, keep_repaired: false, copy: false };
        let placed = Import::place(&engine::directories_of(&"/data".into(), &indexed()), sources, &how, &places).await;
        let mut import = placed.expect("placed");
        store.open_imported(table(1).id, &import.placed).await.expect("open");
        import.commit().await.expect("committed");
        store.end_import(table(1).id, true);
        agree(&store).await;
        assert_eq!(entries(&store, "of_a", b"xxxxxxxxxx").await, 20);
        import.finish().await.expect("finished");
    });
    sim.crash(NODE);
    run(&mut sim, || async {
        let store = start(small(), &[indexed()]).await;
        assert_eq!(store.is_index_built(table(1).id, "of_a"), Some(true));
        assert_eq!(entries(&store, "of_a", b"xxxxxxxxxx").await, 20);
        agree(&store).await;
    });
}

#[test]
fn a_snapshot_has_the_files_of_indexes() {
    run(&mut calm(7), || async {
        let store = start(small(), &[indexed()]).await;
        build(&store).await;
        write_rows(&store, 0..5, 10).await;
        store.flush(table(1).id).await.expect("flushed");
        let files = store.link_snapshot(table(1).id, "s").await.expect("linked");
        for start in [".of_a/", ".of_y/"] {
            assert_eq!(files.iter().filter(|file| file.starts_with(start)).count(), 1, "{files:?}");
        }
        let directory = engine::directory_of(Path::new("/data"), &table(1)).join("snapshots/s");
        assert!(list_dir(&directory.join(".of_a")).await.expect("listed").len() > 3);
        engine::snapshot::remove(&[directory]).await.expect("removed");
    });
}

/// The directory of an index goes when no core knows the index any more, whatever a snapshot still links from it.
#[test]
fn a_snapshot_leaves_out_an_index_that_is_dropped_meanwhile() {
    let mut outcomes = [0, 0];
    for pause in 0..50 {
        let left_out = run(&mut calm(8), move || async move {
            let store = Rc::new(start(small(), &[indexed()]).await);
            build(&store).await;
            write_rows(&store, 0..5, 10).await;
            store.flush(table(1).id).await.expect("flushed");
            let linking = runtime::spawn({
                let store = store.clone();
                async move { store.link_snapshot(table(1).id, "s").await }
            });
            runtime::sleep(Duration::from_millis(2 * pause)).await;
            store.add_table(table(1), Home::ByToken);
            store.remove_index(&table(1), "of_a").await.expect("removed");
            store.prepare_index(&table(1), "of_a").await.expect("cleared");
            let files = linking.await.expect("linked");
            assert!(files.iter().any(|file| !file.starts_with('.')), "{files:?}");
            !files.iter().any(|file| file.starts_with(".of_a/"))
        });
        outcomes[usize::from(left_out)] += 1;
    }
    assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
}

#[test]
fn a_flush_ends_before_the_directory_of_a_dropped_index_is_cleared() {
    for pause in 0..50 {
        run(&mut calm(9), move || async move {
            let store = Rc::new(start(small(), &[indexed()]).await);
            build(&store).await;
            write_rows(&store, 0..50, 10).await;
            let flushing = runtime::spawn({
                let store = store.clone();
                async move { store.flush(table(1).id).await }
            });
            runtime::sleep(Duration::from_millis(pause)).await;
            store.add_table(table(1), Home::ByToken);
            store.remove_index(&table(1), "of_a").await.expect("removed");
            store.prepare_index(&table(1), "of_a").await.expect("cleared");
            flushing.await.unwrap_or_else(|error| panic!("after {pause} ms: {error}"));
            let directory = engine::directory_of(Path::new("/data"), &table(1));
            assert!(list_dir(&directory.join(".of_a")).await.is_err(), "after {pause} ms");
        });
    }
}

#[test]
fn values_have_a_length() {
    use engine::index::{TooLong, VALUE_BYTES_MAX, too_long};
    let of = |bytes: usize| insert(table(1).id, b"p", 1, 1, 1, &vec![b'x'; bytes]);
    assert_eq!(too_long(&indexed(), &of(VALUE_BYTES_MAX)), None);
    let refused = TooLong { index: "of_a".into(), column: "a".into(), bytes: VALUE_BYTES_MAX + 1 };
    assert_eq!(too_long(&indexed(), &of(VALUE_BYTES_MAX + 1)), Some(refused));
    assert_eq!(too_long(&table(1), &of(VALUE_BYTES_MAX + 1)), None);
    run(&mut calm(8), || async {
        let store = start(Options { segment_bytes: 256 << 10, ..small() }, &[indexed()]).await;
        build(&store).await;
        let longest = vec![b'x'; VALUE_BYTES_MAX];
        store.apply(insert(table(1).id, b"p", 1, 1, 1, &longest), false).await.expect("applied");
        for _ in 0..2 {
            let mut rows = Matching::of(Some(&longest), None);
            store.read_index(&whole(), &lookup("of_a", &longest), &mut rows).await.expect("read");
            assert_eq!(rows.rows.len(), 1);
            store.flush(table(1).id).await.expect("flushed");
        }
    });
}
