//! What the engine's tests share: a table, mutations of it, stores in the simulator, and a sink that keeps its rows.
#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod before_ids;

use engine::store::ReplayStats;
use engine::{Error, Options, SstableOptions, Store, SyncMode};
use model::Partitioner;
use model::mutation::{Clustering, push_clustering};
use model::query::{LiveRow, Partitions, Position, ReadCommand, RowSink, SinkState};
use model::row::{Cell, CellContent, Deletion, Liveness, RowBuilder};
use model::schema::TableOptions;
use model::{
    Column, ColumnId, ColumnKind, CqlType, DecoratedKey, Home, Mutation, MutationBuilder, ShardMap, Table, TableId,
};
use runtime::mesh::NodeId;
use runtime::sim::{self, Sim};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const A: ColumnId = ColumnId(3);
pub(crate) const B: ColumnId = ColumnId(4);

/// `CREATE TABLE ks.<name> (k blob, x int, y int, a text, b text, PRIMARY KEY (k, x, y))`.
pub(crate) fn table(number: u8) -> Arc<Table> {
    table_of("ks", number, &["a", "b"])
}

/// A table that is compacted only when a test asks. Compactions judge expiry by the wall clock, and many tests use
/// times that have nothing to do with it.
pub(crate) fn uncompacted(table: &Table) -> Arc<Table> {
    let mut table = table.clone();
    table.options.compaction.insert("enabled".into(), "false".into());
    Arc::new(table)
}

/// A table with the memtable configuration of this name.
pub(crate) fn with_memtable(table: &Table, memtable: Option<&str>) -> Arc<Table> {
    let mut table = table.clone();
    table.options.memtable = memtable.map(Into::into);
    Arc::new(table)
}

pub(crate) fn table_of(keyspace: &str, number: u8, regular: &[&str]) -> Arc<Table> {
    let mut columns = vec![
        ("k", ColumnKind::PartitionKey, 0, CqlType::Blob),
        ("x", ColumnKind::Clustering, 0, CqlType::Int),
        ("y", ColumnKind::Clustering, 1, CqlType::Int),
    ];
    columns.extend(regular.iter().map(|name| (*name, ColumnKind::Regular, 0, CqlType::Text)));
    let columns = columns.into_iter().enumerate().map(|(id, (name, kind, position, cql_type))| Column {
        id: ColumnId(id as u16),
        name: name.into(),
        kind,
        position,
        cql_type,
        descending: false,
    });
    Arc::new(Table {
        id: TableId([number; 16]),
        keyspace: keyspace.into(),
        name: format!("t{number}"),
        columns: columns.collect(),
        partition_key_len: 1,
        clustering_len: 2,
        static_len: 0,
        layout: model::schema::Layout::Plain,
        dropped: Vec::new(),
        indexes: Vec::new(),
        masks: Default::default(),
        options: TableOptions::default(),
    })
}

pub(crate) fn options(shards: u16, sync: SyncMode) -> Options {
    Options {
        directories: "/data".into(),
        shard_map: ShardMap::new(Partitioner::Murmur3, shards),
        sync,
        segment_bytes: 64 << 10,
        memtable_bytes_max: 64 << 20,
        cache_bytes_max: 4 << 20,
        log_bytes_max: 1 << 30,
        incremental_backups: false,
        sstables: SstableOptions::default(),
        memtables: Arc::default(),
    }
}

pub(crate) const GROUP: SyncMode = SyncMode::Group { window: Duration::ZERO };

/// Options for a real disk under which nothing is flushed unless a test asks.
pub(crate) fn roomy(directory: &Path, sync: SyncMode) -> Options {
    Options {
        directories: directory.into(),
        segment_bytes: 32 << 20,
        memtable_bytes_max: 8 << 30,
        log_bytes_max: 64 << 30,
        ..options(1, sync)
    }
}

/// Opens, replays and starts a store of one shard that has these tables.
pub(crate) async fn start(options: Options, tables: &[Arc<Table>]) -> Store {
    let store = Store::open(options).await.expect("open");
    for table in tables {
        store.add_table(table.clone(), Home::ByToken);
    }
    store.clean().await.expect("clean");
    store.load(&[]).await.expect("load");
    store.replay(&[]).await.expect("replay");
    store.start(store.highest_counter()).await.expect("start");
    store
}

pub(crate) fn clustering(values: &[i32]) -> Vec<u8> {
    let mut out = Vec::new();
    values.iter().for_each(|value| push_clustering(&mut out, &value.to_be_bytes()));
    out
}

pub(crate) fn clustering_values(clustering: Clustering<'_>) -> Vec<i32> {
    clustering.components().map(|bytes| i32::from_be_bytes(bytes.try_into().expect("an int"))).collect()
}

pub(crate) fn live(timestamp: i64) -> Option<Liveness> {
    Some(Liveness { timestamp, expiry: None })
}

pub(crate) fn deletion(timestamp: i64) -> Deletion {
    Deletion { timestamp, local_deletion_time: 1 }
}

pub(crate) fn value(column: ColumnId, timestamp: i64, value: &[u8]) -> Cell<'_> {
    Cell { column, timestamp, content: CellContent::Live(value), path: None }
}

/// An INSERT of one row with a value for column `a`.
pub(crate) fn insert(table: TableId, key: &[u8], x: i32, y: i32, timestamp: i64, a: &[u8]) -> Mutation {
    let mut builder = MutationBuilder::new(Partitioner::Murmur3, key);
    builder.table(table);
    add_row(&mut builder, x, y, timestamp, a);
    builder.finish()
}

pub(crate) fn add_row(builder: &mut MutationBuilder, x: i32, y: i32, timestamp: i64, a: &[u8]) {
    builder.row(Clustering(&clustering(&[x, y])), |out| {
        RowBuilder::new(out, live(timestamp), Deletion::LIVE).cell(&value(A, timestamp, a));
    });
}

/// A row as a sink got it: key, clustering, whether its liveness is live, and its live cells.
pub(crate) type Row = (Vec<u8>, Vec<i32>, bool, Vec<(u16, Vec<u8>)>);

#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) rows: Vec<Row>,
    pub(crate) last: Option<Position>,
    /// At this many rows the sink answers `Full`.
    pub(crate) full_at: Option<usize>,
}

impl RowSink for Rows {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        assert_eq!(row.token, model::Partitioner::Murmur3.token(row.key));
        let cells = row.cells.iter().map(|cell| match cell.content {
            CellContent::Live(value) | CellContent::Expiring { value, .. } => (cell.column.0, value.to_vec()),
            _ => panic!("a dead cell"),
        });
        let cells = cells.collect();
        self.rows.push((row.key.to_vec(), clustering_values(row.clustering), row.liveness.is_some(), cells));
        self.last = Some(Position {
            key: DecoratedKey::new(Partitioner::Murmur3, row.key),
            comparable: Some(row.comparable.into()),
        });
        if self.full_at == Some(self.rows.len()) { SinkState::Full } else { SinkState::Open }
    }
}

pub(crate) fn command(table: TableId, partitions: Partitions) -> ReadCommand {
    ReadCommand::all(table, 1000, partitions)
}

pub(crate) async fn read_all(store: &Store, table: TableId) -> Vec<Row> {
    let mut rows = Rows::default();
    let command = command(table, Partitions::Range(model::token::TokenRange::FULL));
    store.read(&command, &mut rows).await.expect("read");
    rows.rows
}

pub(crate) const NODE: NodeId = NodeId(1);

/// Runs `main` on one shard of a node until it returns, and gives its result.
pub(crate) fn run<T: 'static, F: Future<Output = T> + 'static>(sim: &mut Sim, main: impl FnOnce() -> F + 'static) -> T {
    let value = sim.run_node(NODE, Duration::from_secs(3600), main);
    sim.kill(NODE);
    value
}

pub(crate) fn calm(seed: u64) -> Sim {
    Sim::new(seed, sim::Options { buggify: false, ..sim::Options::default() })
}

pub(crate) fn small() -> Options {
    Options { segment_bytes: 32 << 10, ..options(1, GROUP) }
}

/// Opens a store and replays its log, and reports the first error.
pub(crate) async fn replay(options: Options) -> Result<(Store, ReplayStats), Error> {
    let store = Store::open(options).await?;
    store.add_table(table(1), Home::ByToken);
    let stats = store.replay(&[]).await?;
    Ok((store, stats))
}

pub(crate) async fn replayed_rows(options: Options) -> Result<Vec<i32>, Error> {
    let (store, _) = replay(options).await?;
    Ok(read_all(&store, table(1).id).await.into_iter().map(|row| row.1[0]).collect())
}

pub(crate) async fn write_rows(store: &Store, numbers: std::ops::Range<i32>, bytes: usize) {
    for number in numbers {
        let mutation = insert(table(1).id, b"p", number, 0, 1, &vec![b'x'; bytes]);
        store.apply(mutation, false).await.expect("apply");
    }
}

/// A disk with several log segments that hold rows 0 to 29, one per group.
pub(crate) fn some_segments(seed: u64) -> (Sim, Vec<PathBuf>) {
    let mut sim = calm(seed);
    run(&mut sim, || async {
        let store = start(small(), &[table(1)]).await;
        write_rows(&store, 0..30, 100).await;
    });
    let names = sim.files(NODE).into_iter().map(|(path, _)| path);
    let segments: Vec<PathBuf> = names.filter(|path| path.extension().is_some_and(|end| end == "log")).collect();
    assert!(segments.len() >= 4, "{segments:?}");
    (sim, segments)
}

/// The scope of a major compaction.
pub(crate) const EVERYTHING: engine::compaction::CompactionScope =
    engine::compaction::CompactionScope::All { split: false };
