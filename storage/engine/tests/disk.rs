//! The same store on a real disk: what was written is found after a start, also with another number of shards.

use crate::support::*;
use engine::{Options, Store, SyncMode};
use model::Partitioner;
use model::key::ShardMap;
use model::{Home, Table};
use runtime::uring;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

async fn open(directory: &Path, shards: u16, sync: SyncMode) -> Store {
    let table: Arc<Table> = table(1);
    let options = Options { directories: directory.into(), segment_bytes: 1 << 20, ..options(shards, sync) };
    let store = Store::open(options).await.expect("open");
    store.add_table(table, Home::ByToken);
    store.replay(&[]).await.expect("replay");
    store
}

#[test]
fn s1_written_rows_are_there_after_a_start_with_more_cores() {
    for sync in [GROUP, SyncMode::Batch, SyncMode::Periodic { period: Duration::from_millis(5) }] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().to_path_buf();
        let results = uring::run(uring::Options { shards: 1, ..uring::Options::default() }, move |_| {
            let path = path.clone();
            async move {
                let store = open(&path, 1, sync).await;
                store.start(store.highest_counter()).await.expect("start");
                let writers: Vec<_> = (0..32)
                    .map(|writer| {
                        let store = store.clone();
                        runtime::spawn(async move {
                            for x in 0..100 {
                                let key = [writer as u8, x as u8 % 8];
                                let mutation = insert(table(1).id, &key, x, writer, 1, &[b'v'; 300]);
                                store.apply(mutation, false).await.expect("apply");
                            }
                        })
                    })
                    .collect();
                for writer in writers {
                    writer.await;
                }
                store.close().await.expect("close");
            }
        });
        results.expect("the node ran");
        let path = directory.path().to_path_buf();
        let found = Arc::new(AtomicU64::new(0));
        let count = found.clone();
        let results = uring::run(uring::Options { shards: 2, ..uring::Options::default() }, move |shard| {
            let (path, count) = (path.clone(), count.clone());
            async move {
                let store = open(&path, 2, sync).await;
                let rows = read_all(&store, table(1).id).await;
                assert!(
                    rows.iter()
                        .all(|row| ShardMap::new(Partitioner::Murmur3, 2).owner(Partitioner::Murmur3.token(&row.0))
                            == shard.0)
                );
                count.fetch_add(rows.len() as u64, Ordering::Relaxed);
            }
        });
        results.expect("the node ran");
        assert_eq!(found.load(Ordering::Relaxed), 3200, "{sync:?}");
    }
}
