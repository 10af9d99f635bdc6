//! Measures memtables of each kind: inserting partitions, inserting rows into one partition, getting a row by its key,
//! scanning.
//!
//! Rows are as in the load generator's table: a 10-byte key and five blobs of 34 bytes.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use engine::memtable::Memtable;
use engine::memtable::buffered::BufferedCursor;
use engine::memtable::cursor::PartitionCursor;
use model::Partitioner;
use model::fragment::{Cursor, Fragment, FragmentStep};
use model::mutation::{Clustering, push_clustering};
use model::query::Slice;
use model::row::{Cell, CellContent, Deletion, Liveness, RowBuilder};
use model::schema::{Layout, TableOptions};
use model::token::TokenRange;
use model::{Column, ColumnId, ColumnKind, CqlType, MemtableKind, Mutation, MutationBuilder, Table, TableId};
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;

const KINDS: [(&str, MemtableKind); 2] = [("tree", MemtableKind::Tree), ("skiplist", MemtableKind::Skiplist)];
const INSERTED: u64 = 10_000;
const HELD: u64 = 100_000;
const BLOBS: u16 = 5;
const BLOB_BYTES: usize = 34;

/// `CREATE TABLE k.t (k blob, c int, c0 blob, ..., PRIMARY KEY (k, c))`, or without `c`.
fn table(clustered: bool) -> Arc<Table> {
    let mut columns = vec![("k".to_owned(), ColumnKind::PartitionKey, CqlType::Blob)];
    if clustered {
        columns.push(("c".to_owned(), ColumnKind::Clustering, CqlType::Int));
    }
    columns.extend((0..BLOBS).map(|number| (format!("c{number}"), ColumnKind::Regular, CqlType::Blob)));
    let columns = columns.into_iter().enumerate().map(|(id, (name, kind, cql_type))| Column {
        id: ColumnId(id as u16),
        name: name.as_str().into(),
        kind,
        position: 0,
        cql_type,
        descending: false,
    });
    Arc::new(Table {
        id: TableId([1; 16]),
        keyspace: "k".into(),
        name: "t".into(),
        columns: columns.collect(),
        partition_key_len: 1,
        clustering_len: usize::from(clustered),
        static_len: 0,
        layout: Layout::Plain,
        dropped: Vec::new(),
        indexes: Vec::new(),
        masks: Default::default(),
        options: TableOptions::default(),
    })
}

fn key(number: u64) -> Vec<u8> {
    format!("{number:010}").into_bytes()
}

fn insert(key: &[u8], clustering: &[u8], timestamp: i64) -> Mutation {
    let mut builder = MutationBuilder::new(Partitioner::Murmur3, key);
    builder.table(TableId([1; 16]));
    let first = if clustering.is_empty() { 1 } else { 2 };
    builder.row(Clustering(clustering), |out| {
        let mut row = RowBuilder::new(out, Some(Liveness { timestamp, expiry: None }), Deletion::LIVE);
        for column in 0..BLOBS {
            let content = CellContent::Live(&[7; BLOB_BYTES]);
            row.cell(&Cell { column: ColumnId(first + column), timestamp, content, path: None });
        }
    });
    builder.finish()
}

/// One row in each of `count` partitions, in the order of their keys, which is not the order of their tokens.
fn partitions(count: u64) -> Vec<Mutation> {
    (0..count).map(|number| insert(&key(number), &[], number as i64)).collect()
}

/// `count` rows of one partition in a scattered order.
fn rows(count: u64) -> Vec<Mutation> {
    let row = |number: u64| {
        let mut clustering = Vec::new();
        push_clustering(&mut clustering, &((number * 7_919 % count) as i32).to_be_bytes());
        insert(b"partition", &clustering, number as i64)
    };
    (0..count).map(row).collect()
}

fn apply(memtable: &Memtable, mutation: &Mutation) {
    for update in mutation.updates() {
        memtable.apply(mutation.token(), mutation.key(), &update);
    }
}

fn filled(kind: MemtableKind) -> Rc<Memtable> {
    let memtable = Memtable::new(table(false), model::Partitioner::Murmur3, kind, Rc::default());
    partitions(HELD).iter().for_each(|mutation| apply(&memtable, mutation));
    Rc::new(memtable)
}

/// Looks up the row of a key and returns how many bytes it has.
fn get(memtable: &Memtable, token: model::Token, key: &[u8]) -> usize {
    let contents = memtable.read();
    let partition = contents.partitions.get(&contents.arena, token.prefix(), key).expect("it is there");
    let slices = [Slice::all()];
    let mut cursor = PartitionCursor::new(&contents.arena, partition, &slices, false, None);
    let mut bytes = 0;
    while let Some(fragment) = cursor.next_fragment() {
        if let Fragment::Row { row, .. } = fragment {
            bytes += row.blob().len();
        }
    }
    bytes
}

/// Counts the rows of a memtable.
fn scan(memtable: &Rc<Memtable>) -> u64 {
    let mut cursor = BufferedCursor::scan(memtable, TokenRange::FULL, None, [Slice::all()].into());
    let mut rows = 0;
    loop {
        match cursor.advance().expect("it cannot fail") {
            FragmentStep::Fragment => rows += u64::from(matches!(cursor.fragment(), Some(Fragment::Row { .. }))),
            // The scan stops here so that a reader may yield.
            FragmentStep::Need(_) => {}
            FragmentStep::End => return rows,
        }
    }
}

fn memtable(criterion: &mut Criterion) {
    for (name, clustered, mutations) in
        [("insert partitions", false, partitions(INSERTED)), ("insert rows", true, rows(INSERTED))]
    {
        let mut group = criterion.benchmark_group(format!("memtable/{name}"));
        group.throughput(Throughput::Elements(INSERTED));
        for (kind_name, kind) in KINDS {
            let empty = || Memtable::new(table(clustered), model::Partitioner::Murmur3, kind, Rc::default());
            group.bench_function(kind_name, |bencher| {
                let fill = |memtable: &mut Memtable| mutations.iter().for_each(|mutation| apply(memtable, mutation));
                bencher.iter_batched_ref(empty, fill, BatchSize::LargeInput);
            });
        }
        group.finish();
    }
    let filled = KINDS.map(|(name, kind)| (name, filled(kind)));
    let mut group = criterion.benchmark_group("memtable/get");
    let keys: Vec<_> = (0..HELD).map(|number| key(number * 7_919 % HELD)).collect();
    let keys: Vec<_> = keys.into_iter().map(|key| (model::Partitioner::Murmur3.token(&key), key)).collect();
    for (name, memtable) in &filled {
        let mut next = keys.iter().cycle();
        group.bench_function(*name, |bencher| {
            bencher.iter(|| {
                let (token, key) = next.next().expect("endless");
                get(memtable, *token, black_box(key))
            });
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("memtable/scan");
    group.throughput(Throughput::Elements(HELD));
    for (name, memtable) in &filled {
        group.bench_function(*name, |bencher| bencher.iter(|| assert_eq!(scan(memtable), HELD)));
    }
    group.finish();
}

criterion_group!(benches, memtable);
criterion_main!(benches);
