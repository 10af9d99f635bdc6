//! Growth by stages, what is refused, and the limits.

use super::*;
use model::{Partitioner, ShardedBy};
use std::sync::Arc;

fn changed(map: Option<&SubPartitionMap>, change: SubPartitionsChange, epoch: u64) -> SubPartitionMap {
    SubPartitionMap::changed(map, &change, epoch).expect("it fits").expect("it is there")
}

fn kept(shards: u16, is_random: bool) -> SubPartitionMap {
    changed(None, SubPartitionsChange::Keep { shards, is_random }, 1)
}

fn grow(shards: u16) -> SubPartitionsChange {
    SubPartitionsChange::Grow { key: None, token: 0, shards }
}

fn grow_key(key: &[u8], shards: u16) -> SubPartitionsChange {
    SubPartitionsChange::Grow { key: Some(key.to_vec()), token: token_of(key), shards }
}

fn token_of(key: &[u8]) -> i64 {
    Partitioner::Murmur3.token(key).0
}

fn advance(token: Option<i64>, since: u64) -> SubPartitionsChange {
    SubPartitionsChange::Advance { token, since }
}

fn places(map: &SubPartitionMap, key: &[u8]) -> KeyPlaces {
    assert!(map.is_sound(), "{map:?}");
    map.places_of(token_of(key), key)
}

#[test]
fn rows_move_by_stages() {
    let map = kept(2, false);
    let (old, new) = (Places::created(2), Places::grown(6));
    assert_eq!(places(&map, b"k"), KeyPlaces::settled(old));
    assert_eq!(map.visible(), None);
    let map = changed(Some(&map), grow(6), 5);
    assert_eq!(places(&map, b"k"), KeyPlaces { twin: Some(new), ..KeyPlaces::settled(old) });
    assert_eq!(SubPartitionMap::changed(Some(&map), &grow(12), 6), Err(SubPartitionsError::UnderWay));
    assert_eq!(SubPartitionMap::changed(Some(&map), &advance(None, 4), 6), Err(SubPartitionsError::NoStage(4)));
    let map = changed(Some(&map), advance(None, 5), 6);
    assert_eq!(places(&map, b"k"), KeyPlaces { twin: Some(new), is_closed: true, ..KeyPlaces::settled(old) });
    assert!(map.is_closed());
    let reopen = |since| SubPartitionsChange::Reopen { token: None, since };
    let reopened = changed(Some(&map), reopen(6), 7);
    assert_eq!(places(&reopened, b"k"), KeyPlaces { twin: Some(new), ..KeyPlaces::settled(old) });
    assert_eq!(reopened.all.growth.map(|growth| growth.since), Some(7));
    let again = SubPartitionMap::changed(Some(&reopened), &reopen(7), 8);
    assert_eq!(again, Err(SubPartitionsError::NoStage(7)), "nothing waits");
    assert_eq!((map.visible().expect("two places").all, map.switched), (old, 0));
    let map = changed(Some(&map), advance(None, 6), 7);
    assert_eq!(places(&map, b"k"), KeyPlaces { twin: Some(old), ..KeyPlaces::settled(new) });
    assert_eq!((map.visible().expect("two places").all, map.switched), (new, 7));
    let map = changed(Some(&map), advance(None, 7), 8);
    assert_eq!(places(&map, b"k"), KeyPlaces::settled(new));
    let growth = map.all.growth.expect("the old places have rows");
    assert_eq!((growth.stage, growth.places(), growth.since), (GrowthStage::Left, old, 8));
    let map = changed(Some(&map), advance(None, 8), 9);
    assert_eq!(places(&map, b"k"), KeyPlaces::settled(new));
    assert!(!map.is_growing());
    assert_eq!(map.visible().expect("deletions may not have come everywhere").all, new);
    assert_eq!(changed(Some(&map), SubPartitionsChange::Keep { shards: 2, is_random: false }, 10), map, "it is known");
    assert_eq!(SubPartitionMap::changed(Some(&map), &SubPartitionsChange::Drop, 10), Ok(None));
}

#[test]
fn rows_that_chance_has_placed_stay() {
    let map = kept(2, true);
    let map = changed(Some(&map), grow(4), 5);
    let (old, new) = (Places::created(2), Places::created(4));
    assert_eq!(places(&map, b"k"), KeyPlaces { read: new, ..KeyPlaces::settled(old) });
    assert_eq!(map.visible(), None);
    let map = changed(Some(&map), advance(None, 5), 6);
    assert_eq!(places(&map, b"k"), KeyPlaces::settled(new));
    assert!(!map.is_growing());
}

#[test]
fn only_multiples_up_to_the_most_are_taken() {
    let map = kept(4, false);
    for shards in [0, 1, 4, 6, 1_001, 1_004, u16::MAX] {
        assert_eq!(SubPartitionMap::changed(Some(&map), &grow(shards), 2), Err(SubPartitionsError::Count(shards)));
    }
    assert!(SubPartitionMap::changed(Some(&map), &grow(1_000), 2).is_ok());
    assert_eq!(SubPartitionMap::changed(None, &grow(8), 2), Err(SubPartitionsError::Unknown));
    let keep = |shards| SubPartitionMap::changed(None, &SubPartitionsChange::Keep { shards, is_random: true }, 2);
    assert!(keep(1).is_ok() && keep(1_000).is_ok() && keep(0).is_err() && keep(1_001).is_err());
}

/// What reads of an earlier epoch have found is not kept for ever.
#[test]
fn reads_of_before_are_told_that_rows_were_left_behind() {
    let grow_by = |key: &[u8]| SubPartitionsChange::GrowKey {
        key: key.to_vec(),
        token: token_of(key),
        shards: 2,
        reason: GrowthReason::Size,
    };
    let token = |key: &[u8]| Some(token_of(key));
    let before = kept(1, false);
    let twice = changed(Some(&before), grow_by(b"a"), 3);
    assert_eq!(SubPartitionMap::changed(Some(&twice), &grow_by(b"b"), 4), Err(SubPartitionsError::UnderWay));
    let closed = changed(Some(&twice), advance(token(b"a"), 3), 4);
    assert!(!closed.is_left_behind(None) && !closed.is_left_behind(Some(&before)));
    let there = changed(Some(&closed), advance(token(b"a"), 4), 5);
    assert!(!there.is_left_behind(Some(&twice)) && !there.is_left_behind(Some(&closed)), "both places are written");
    assert!(there.is_left_behind(Some(&before)) && there.is_left_behind(None), "who knows how long ago that was");
    let left = changed(Some(&there), advance(token(b"a"), 5), 6);
    assert!(left.is_left_behind(Some(&closed)) && !left.is_left_behind(Some(&there)));
    // The rows of `a` were left behind, though those of `b` are not.
    let mut map = changed(Some(&left), advance(token(b"a"), 6), 7);
    map = changed(Some(&map), grow_by(b"b"), 8);
    for since in 8..10 {
        map = changed(Some(&map), advance(token(b"b"), since), since + 1);
    }
    assert!(map.is_left_behind(Some(&closed)) && map.is_left_behind(Some(&twice)));
    assert_eq!(map.reasons.len(), 2);
}

#[test]
fn a_key_grows_by_itself() {
    let map = kept(1, false);
    let map = changed(Some(&map), grow_key(b"hot", 2), 3);
    assert_eq!(places(&map, b"cold"), KeyPlaces::settled(Places::created(1)));
    assert_eq!(places(&map, b"hot").twin, Some(Places::grown(2)));
    let token = Some(token_of(b"hot"));
    assert_eq!(
        SubPartitionMap::changed(Some(&map), &grow(2), 4),
        Err(SubPartitionsError::UnderWay),
        "some keys differ"
    );
    let mut map = map;
    for since in 3..7 {
        map = changed(Some(&map), advance(token, since), since + 1);
    }
    assert_eq!(places(&map, b"hot"), KeyPlaces::settled(Places::grown(2)));
    let mut table = model::arbitrary::table("k", "t", &mut |_| 0);
    table.partition_key_len = 1;
    let sharding = WriteSharding { shards: 1, by: ShardedBy::Clustering(vec![0]), growth: None };
    table.options.write_sharding = Some(Arc::new(sharding));
    let visible = map.visible().expect("a key has grown");
    let has = |key: &[u8], number| visible.has(&table, &table.stored_key(key, number));
    assert!(has(b"cold", 0) && !has(b"cold", 2) && !has(b"hot", 0) && has(b"hot", 2) && has(b"hot", 3));
    assert!(!visible.has(&table, b"no key"));
}

#[test]
fn the_most_keys_are_taken_and_one_more_is_not() {
    let mut map = kept(1, false);
    let key = |number: usize| number.to_be_bytes();
    for number in 0..KEYS_MAX {
        let own = KeyScope { key: key(number).to_vec(), scope: Scope::of(Places::grown(2)) };
        map.keys.insert(token_of(&own.key), own);
    }
    assert!(map.is_sound());
    assert_eq!(SubPartitionMap::changed(Some(&map), &grow_key(&key(KEYS_MAX), 2), 2), Err(SubPartitionsError::Keys));
    assert!(SubPartitionMap::changed(Some(&map), &grow_key(&key(0), 4), 2).is_ok(), "it has grown before");
    let map = kept(1, false);
    let long = |length| SubPartitionMap::changed(Some(&map), &grow_key(&vec![7; length], 2), 2);
    assert!(long(KEY_BYTES_MAX).is_ok() && long(KEY_BYTES_MAX + 1).is_err());
}
