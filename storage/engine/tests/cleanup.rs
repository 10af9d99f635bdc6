//! Cleanups: keys outside the ranges of the node go, all others stay, and what is owned is asked anew all the time.

use crate::support::*;
use engine::Store;
use engine::compaction::{CompactionScope, OwnedRanges};
use model::Partitioner;
use model::token::{RingPosition, RingToken, Token, TokenRange};
use runtime::sync::Condition;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const KEYS: i32 = 40;
const SSTABLES: i32 = 4;

fn token(key: &[u8]) -> Token {
    Partitioner::Murmur3.token(key)
}

/// The tokens up to 0.
fn lower_half() -> Arc<[TokenRange]> {
    let end = RingPosition { token: RingToken::Murmur3(0), is_after: true };
    Arc::from([TokenRange { start: None, end: Some(end) }])
}

/// A store with several SSTables, each of which has keys from all over the ring.
async fn filled() -> Rc<Store> {
    let store = start(small(), &[uncompacted(&table(1))]).await;
    for round in 0..SSTABLES {
        for key in 0..KEYS {
            let key = format!("k{key}");
            store.apply(insert(table(1).id, key.as_bytes(), round, 0, 10, b"v"), false).await.expect("applied");
        }
        store.flush(table(1).id).await.expect("flushed");
    }
    Rc::new(store)
}

fn keeping(owned: Arc<[TokenRange]>) -> Rc<OwnedRanges> {
    Rc::new(move || Some(owned.clone()))
}

#[test]
fn keys_outside_go_and_keys_inside_stay() {
    run(&mut calm(1), || async {
        let store = filled().await;
        let before = read_all(&store, table(1).id).await;
        assert_eq!(before.len(), (KEYS * SSTABLES) as usize);
        let cleaned = store.clean_table(table(1).id, keeping(Arc::from([TokenRange::FULL]))).await;
        assert!(cleaned.expect("cleaned"));
        assert_eq!(read_all(&store, table(1).id).await, before, "everything is owned");
        assert!(store.clean_table(table(1).id, keeping(lower_half())).await.expect("cleaned"));
        let kept: Vec<Row> = before.into_iter().filter(|row| token(&row.0) <= Token(0)).collect();
        assert!(kept.len() > 20 && kept.len() < 140, "{}", kept.len());
        assert_eq!(read_all(&store, table(1).id).await, kept);
    });
}

/// The ranges between the keys of [`filled`]: each key lies in a range of its own, of which it is the last token.
fn around_keys() -> Arc<[TokenRange]> {
    let mut tokens: Vec<i64> = (0..KEYS).map(|key| token(format!("k{key}").as_bytes()).0).collect();
    tokens.sort_unstable();
    let range = |token: i64| TokenRange::between(RingToken::Murmur3(token - 1000), RingToken::Murmur3(token));
    tokens.into_iter().map(range).collect()
}

/// A node owns many ranges, so an SSTable may reach beyond them and have nothing to lose. That is seen in its index,
/// and no compaction that runs is waited for.
#[test]
fn an_sstable_without_keys_outside_stays_as_it_is() {
    run(&mut calm(4), || async {
        let store = filled().await;
        let before = read_all(&store, table(1).id).await;
        store.set_compaction_throughput(1);
        let compaction = runtime::spawn({
            let store = store.clone();
            async move { store.compact(table(1).id, CompactionScope::All { split: false }).await }
        });
        while store.compaction_statistics().running.is_empty() {
            runtime::sleep(Duration::from_millis(1)).await;
        }
        assert!(store.clean_table(table(1).id, keeping(around_keys())).await.expect("cleaned"));
        let statistics = store.compaction_statistics();
        assert_eq!((statistics.running.len(), statistics.completed), (1, 0));
        store.set_compaction_throughput(0);
        compaction.await.expect("compacted");
        assert_eq!(read_all(&store, table(1).id).await, before);
    });
}

/// A single key outside is found wherever it lies.
#[test]
fn one_key_outside_goes_and_its_neighbours_stay() {
    run(&mut calm(5), || async {
        let store = filled().await;
        let mut left = read_all(&store, table(1).id).await;
        let mut owned = around_keys().to_vec();
        for place in [17, 0, owned.len() - 3] {
            let RingToken::Murmur3(lost) = owned.remove(place).end.expect("an end").token else { panic!("Murmur3") };
            assert!(store.clean_table(table(1).id, keeping(owned.clone().into())).await.expect("cleaned"));
            left.retain(|row| token(&row.0) != Token(lost));
            assert_eq!(read_all(&store, table(1).id).await, left, "without the token {lost}");
        }
        assert_eq!(left.len(), ((KEYS - 3) * SSTABLES) as usize);
    });
}

/// What a node comes to own while it cleans up stays: SSTables that were not looked at before are left as they are.
#[test]
fn a_cleanup_ends_where_it_is_told_no_ranges() {
    run(&mut calm(2), || async {
        let store = filled().await;
        let asked = Rc::new(Cell::new(0));
        let count = asked.clone();
        let owned: Rc<OwnedRanges> = Rc::new(move || {
            count.set(count.get() + 1);
            (count.get() < 5).then(lower_half)
        });
        assert!(!store.clean_table(table(1).id, owned).await.expect("ended"));
        assert_eq!(asked.get(), 5, "twice for each SSTable: when it is looked into and when it is rewritten");
        let outside = read_all(&store, table(1).id).await.into_iter().filter(|row| token(&row.0) > Token(0));
        let mut rounds: Vec<i32> = outside.map(|row| row.1[0]).collect();
        rounds.dedup();
        rounds.sort_unstable();
        rounds.dedup();
        assert_eq!(rounds.len() as i32, SSTABLES - 2, "two SSTables were rewritten: {rounds:?}");
    });
}

/// A compaction between two steps merges SSTables that are still to be cleaned up into a new one.
#[test]
fn what_a_compaction_merges_meanwhile_is_cleaned_up_too() {
    run(&mut calm(3), || async {
        let store = filled().await;
        let (asked, begun) = (Rc::new(Cell::new(0)), Rc::new(Condition::default()));
        let merged = runtime::spawn({
            let (store, asked, begun) = (store.clone(), asked.clone(), begun.clone());
            async move {
                // It waits for its turn while the cleanup rewrites its first SSTable.
                begun.wait(|| (asked.get() > 1).then_some(())).await;
                store.compact(table(1).id, CompactionScope::All { split: false }).await
            }
        });
        let count = asked.clone();
        let owned: Rc<OwnedRanges> = Rc::new(move || {
            count.set(count.get() + 1);
            begun.notify();
            Some(lower_half())
        });
        assert!(store.clean_table(table(1).id, owned).await.expect("cleaned"));
        merged.await.expect("compacted");
        assert_eq!(
            asked.get(),
            7,
            "twice for one, for one that was merged, and for what it has become; and at the end"
        );
        assert!(read_all(&store, table(1).id).await.iter().all(|row| token(&row.0) <= Token(0)));
    });
}
