//! Measures the codecs of rows: the blob of one row, a mutation, a block of rows in the native protocol's form.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use model::Partitioner;
use model::mutation::{Clustering, MutationView, Operation, push_clustering};
use model::query::{LiveRow, Partitions, ReadCommand, ReadEnd, RowSink};
use model::row::{Cell, CellContent, Deletion, Liveness, RowBuilder, RowView};
use model::schema::{Layout, TableOptions};
use model::value::TupleElements;
use model::{Column, ColumnId, ColumnKind, CqlType, DecoratedKey, MutationBuilder, Table, TableId};
use shard::ReadRequest;
use shard::RowBlockSink;
use std::hint::black_box;

const KEY: &[u8] = b"0000000001";
const VALUE: &[u8] = &[7; 34];
/// How many rows the block has.
const ROWS: usize = 100;
const FIRST_REGULAR: u16 = 2;
const REGULAR: u16 = 5;

/// `CREATE TABLE k.t (k blob, c int, c0 blob, ..., PRIMARY KEY (k, c))`.
fn table() -> Table {
    let keys = [("k", ColumnKind::PartitionKey, CqlType::Blob), ("c", ColumnKind::Clustering, CqlType::Int)];
    let regular = ["c0", "c1", "c2", "c3", "c4"].map(|name| (name, ColumnKind::Regular, CqlType::Blob));
    let columns = keys.into_iter().chain(regular).enumerate().map(|(id, (name, kind, cql_type))| Column {
        id: ColumnId(id as u16),
        name: name.into(),
        kind,
        position: 0,
        cql_type,
        descending: false,
    });
    Table {
        id: TableId([1; 16]),
        keyspace: "k".into(),
        name: "t".into(),
        columns: columns.collect(),
        partition_key_len: 1,
        clustering_len: 1,
        static_len: 0,
        layout: Layout::Plain,
        dropped: Vec::new(),
        indexes: Vec::new(),
        masks: Default::default(),
        options: TableOptions::default(),
    }
}

fn cells(timestamp: i64) -> [Cell<'static>; REGULAR as usize] {
    let content = CellContent::Live(VALUE);
    std::array::from_fn(|n| Cell { column: ColumnId(FIRST_REGULAR + n as u16), timestamp, content, path: None })
}

fn put_row(out: &mut Vec<u8>, timestamp: i64) {
    let mut row = RowBuilder::new(out, Some(Liveness { timestamp, expiry: None }), Deletion::LIVE);
    cells(timestamp).iter().for_each(|cell| row.cell(cell));
}

fn clustering(number: i32) -> Vec<u8> {
    let mut clustering = Vec::new();
    push_clustering(&mut clustering, &number.to_be_bytes());
    clustering
}

fn blob(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("row");
    let mut out = Vec::new();
    group.bench_function("encode", |bencher| {
        bencher.iter(|| {
            out.clear();
            put_row(&mut out, black_box(1));
        });
    });
    let (mut older, mut newer) = (Vec::new(), Vec::new());
    put_row(&mut older, 1);
    put_row(&mut newer, 2);
    group.bench_function("parse", |bencher| {
        bencher.iter(|| RowView::parse(black_box(&older)).expect("a row").cells().count());
    });
    group.bench_function("cells", |bencher| {
        bencher.iter(|| RowView::trusted(black_box(&older)).cells().map(|cell| cell.timestamp).sum::<i64>());
    });
    group.bench_function("merge", |bencher| {
        bencher.iter(|| {
            out.clear();
            let (older, newer) = (RowView::trusted(black_box(&older)), RowView::trusted(&newer));
            model::merge::merge_rows(older, newer, Deletion::LIVE, &mut out);
        });
    });
    group.finish();
}

fn mutation(criterion: &mut Criterion) {
    let clustering = clustering(1);
    let encode = || {
        let mut builder = MutationBuilder::with_room(Partitioner::Murmur3, black_box(KEY), 300);
        builder.table(TableId([1; 16])).row(Clustering(&clustering), |out| put_row(out, 1));
        builder.finish()
    };
    let mut group = criterion.benchmark_group("mutation");
    group.bench_function("encode", |bencher| bencher.iter(encode));
    let mutation = encode();
    group.bench_function("decode", |bencher| {
        bencher.iter(|| {
            let view = MutationView::decode(Partitioner::Murmur3, black_box(mutation.bytes())).expect("a mutation");
            let operations = view.updates().flat_map(|update| update.operations().collect::<Vec<_>>());
            operations.filter(|operation| matches!(operation, Operation::Row { .. })).count()
        });
    });
    group.finish();
}

fn block(criterion: &mut Criterion) {
    let table = table();
    let selection: Vec<_> = table.columns.iter().map(|column| cql::plan::Selector::Column(column.id)).collect();
    let request = ReadRequest {
        command: ReadCommand::all(table.id, 1, Partitions::Key(DecoratedKey::new(Partitioner::Murmur3, KEY))),
        selection: selection.into(),
        filter: None,
        index: None,
        bytes_max: 1 << 20,
        places: false,
    };
    let clusterings: Vec<_> = (0..ROWS as i32).map(clustering).collect();
    let cells = cells(1);
    let encode = || {
        let mut sink = RowBlockSink::new(Partitioner::Murmur3, &table, &request);
        for clustering in &clusterings {
            sink.row(&LiveRow {
                token: Partitioner::Murmur3.token(KEY),
                key: black_box(KEY),
                clustering: Clustering(clustering),
                comparable: clustering,
                liveness: Some(Liveness { timestamp: 1, expiry: None }),
                cells: &cells,
                static_cells: &[],
                static_only: false,
            });
        }
        sink.finish(ReadEnd::Exhausted).block
    };
    let mut group = criterion.benchmark_group("block");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("encode", |bencher| bencher.iter(encode));
    let block = encode();
    assert_eq!(TupleElements::new(&block.bytes).count(), ROWS * table.columns.len());
    group.bench_function("decode", |bencher| {
        bencher.iter(|| TupleElements::new(black_box(&block.bytes)).flatten().map(<[u8]>::len).sum::<usize>());
    });
    group.finish();
}

criterion_group!(benches, blob, mutation, block);
criterion_main!(benches);
