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

/// A node owns many ranges, so an SSTable may span several and have nothing to lose.
#[test]
fn an_sstable_of_several_ranges_is_rewritten_once() {
    run(&mut calm(4), || async {
        let store = filled().await;
        let before = read_all(&store, table(1).id).await;
        let start = RingPosition { token: RingToken::Murmur3(0), is_after: true };
        let upper = TokenRange { start: Some(start), end: None };
        let both: Arc<[TokenRange]> = Arc::from([lower_half()[0].clone(), upper]);
        let asked = Rc::new(Cell::new(0));
        let count = asked.clone();
        let owned: Rc<OwnedRanges> = Rc::new(move || {
            count.set(count.get() + 1);
            Some(both.clone())
        });
        assert!(store.clean_table(table(1).id, owned).await.expect("cleaned"));
        assert_eq!(asked.get(), SSTABLES + 1);
        assert_eq!(read_all(&store, table(1).id).await, before);
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
            (count.get() < 3).then(lower_half)
        });
        assert!(!store.clean_table(table(1).id, owned).await.expect("ended"));
        assert_eq!(asked.get(), 3, "once for each SSTable");
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
                begun.wait(|| (asked.get() > 0).then_some(())).await;
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
        assert_eq!(asked.get(), 3, "for one SSTable, for what the others have become, and at the end");
        assert!(read_all(&store, table(1).id).await.iter().all(|row| token(&row.0) <= Token(0)));
    });
}
