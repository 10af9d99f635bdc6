//! Which keys grow and by how much, what does not count, and the limits.

use super::*;
use crate::sub_partitions::{KeyScope, SubPartitionsChange};
use model::ShardedBy;

const LIMITS: KeyGrowth = KeyGrowth { size_max: 1_000_000, throughput_max: 1_000 };

fn sharding(shards: u16) -> WriteSharding {
    WriteSharding { shards, by: ShardedBy::Clustering(vec![0]), growth: Some(LIMITS) }
}

fn sized(key: &[u8], number: u16, bytes: u64) -> SubPartitionFigures {
    SubPartitionFigures { key: key.to_vec(), number, bytes, requests: 0 }
}

fn asked(key: &[u8], number: u16, requests: u32) -> SubPartitionFigures {
    SubPartitionFigures { key: key.to_vec(), number, bytes: 0, requests }
}

fn token(key: &[u8]) -> i64 {
    Partitioner::Murmur3.token(key).0
}

/// The map of a table that begins with so many, after changes that take the epochs from 2 on.
fn map(shards: u16, changes: &[SubPartitionsChange]) -> SubPartitionMap {
    let mut map = SubPartitionMap::changed(None, &SubPartitionsChange::Keep { shards, is_random: false }, 1);
    for (change, epoch) in changes.iter().zip(2..) {
        map = SubPartitionMap::changed(map.expect("it fits").as_ref(), change, epoch);
    }
    map.expect("it fits").expect("it is there")
}

/// All stages of the growth of a key, the first of which begins at an epoch.
fn growth(key: &[u8], shards: u16, epoch: u64) -> Vec<SubPartitionsChange> {
    let (token, reason) = (token(key), GrowthReason::Size);
    let begin = SubPartitionsChange::GrowKey { key: key.to_vec(), token, shards, reason };
    let rest = (epoch..epoch + 4).map(|since| SubPartitionsChange::Advance { token: Some(token), since });
    std::iter::once(begin).chain(rest).collect()
}

fn wanted(plan: GrowthPlan) -> Vec<(Vec<u8>, u16, GrowthReason)> {
    assert_eq!(plan.hindrances, []);
    plan.wanted.into_iter().map(|wanted| (wanted.key, wanted.shards, wanted.reason)).collect()
}

#[test]
fn keys_grow_until_their_sub_partitions_are_well_under_half_of_the_limit() {
    let of = |shards: u16, reports: &[SubPartitionFigures]| wanted(plan(None, &sharding(shards), reports));
    let k = || b"k".to_vec();
    assert_eq!(of(1, &[sized(b"k", 0, 1_000_000)]), [], "the limit itself is allowed");
    assert_eq!(of(1, &[sized(b"k", 0, 1_000_001)]), [(k(), 4, GrowthReason::Size)]);
    assert_eq!(of(1, &[sized(b"k", 0, 1_500_000)]), [(k(), 4, GrowthReason::Size)]);
    assert_eq!(of(1, &[sized(b"k", 0, 1_600_000)]), [(k(), 8, GrowthReason::Size)]);
    assert_eq!(of(2, &[sized(b"k", 0, 1_100_000), sized(b"k", 1, 100_000)]), [(k(), 4, GrowthReason::Size)]);
    assert_eq!(of(1, &[asked(b"k", 0, 1_000)]), []);
    assert_eq!(of(1, &[asked(b"k", 0, 1_001)]), [(k(), 4, GrowthReason::Load)]);
    // The one that is more above its limit comes first, and gives the reason.
    let both = [sized(b"k", 0, 1_200_000), asked(b"k", 0, 9_000), sized(b"m", 0, 2_000_000), asked(b"m", 0, 1_900)];
    assert_eq!(of(1, &both), [(k(), 32, GrowthReason::Load), (b"m".to_vec(), 8, GrowthReason::Size)]);
    let none = WriteSharding { growth: None, ..sharding(1) };
    assert_eq!(plan(None, &none, &both), GrowthPlan::default());
    let unlimited = KeyGrowth { size_max: 0, throughput_max: 0 };
    assert_eq!(plan(None, &WriteSharding { growth: Some(unlimited), ..none }, &both), GrowthPlan::default());
}

#[test]
fn a_sub_partition_is_as_large_as_its_largest_replica_and_as_busy_as_all_say() {
    let of = |reports: &[SubPartitionFigures]| wanted(plan(None, &sharding(1), reports)).len();
    assert_eq!(of(&[sized(b"k", 0, 900_000), sized(b"k", 0, 800_000)]), 0);
    assert_eq!(of(&[asked(b"k", 0, 400), asked(b"k", 0, 400), asked(b"k", 0, 200)]), 0);
    assert_eq!(of(&[asked(b"k", 0, 400), asked(b"k", 0, 400), asked(b"k", 0, 201)]), 1);
    assert_eq!(of(&[asked(b"k", 0, u32::MAX), asked(b"k", 0, u32::MAX)]), 1);
    assert_eq!(of(&[sized(b"k", 0, u64::MAX)]), 1);
}

/// One row that is asked for all the time stays in one place.
#[test]
fn what_one_row_is_to_blame_for_lets_no_key_grow() {
    let of = |reports: &[SubPartitionFigures]| wanted(plan(None, &sharding(4), reports));
    assert_eq!(of(&[asked(b"k", 2, 2_000), asked(b"k", 1, 0)]), []);
    assert_eq!(of(&[sized(b"k", 2, 2_000_000)]), []);
    assert_eq!(of(&[asked(b"k", 2, 2_001)]), [(b"k".to_vec(), 8, GrowthReason::Load)], "half of the limit on average");
}

#[test]
fn what_was_left_behind_does_not_count() {
    let grown = map(1, &growth(b"k", 4, 2));
    let of = |reports: &[SubPartitionFigures]| wanted(plan(Some(&grown), &sharding(1), reports));
    assert_eq!(of(&[sized(b"k", 0, 9_000_000), asked(b"k", 0, 9_000)]), []);
    let current: Vec<_> = (4..8).map(|number| sized(b"k", number, 1_100_000)).collect();
    assert_eq!(of(&current), [(b"k".to_vec(), 16, GrowthReason::Size)]);
    assert_eq!(of(&[sized(b"other", 4, 9_000_000)]), [], "another key does not have that one");
    assert_eq!(of(&[sized(b"other", 0, 1_100_000)]), [(b"other".to_vec(), 4, GrowthReason::Size)]);
    // While one grows, no other begins.
    let growing = map(1, &growth(b"k", 4, 2)[..3]);
    assert_eq!(plan(Some(&growing), &sharding(1), &[sized(b"other", 0, 1_100_000)]), GrowthPlan::default());
}

#[test]
fn keys_have_the_most_sub_partitions_and_no_more() {
    let of = |shards: u16| {
        let reports: Vec<_> = (0..shards).map(|number| sized(b"k", number, 9_000_000)).collect();
        plan(None, &sharding(shards), &reports)
    };
    assert_eq!(wanted(of(1)), [(b"k".to_vec(), 32, GrowthReason::Size)]);
    assert_eq!(wanted(of(125)), [(b"k".to_vec(), 1_000, GrowthReason::Size)]);
    assert_eq!(wanted(of(500)), [(b"k".to_vec(), 1_000, GrowthReason::Size)]);
    let stuck = GrowthPlan { wanted: Vec::new(), hindrances: vec![Hindrance::Shards] };
    assert_eq!((of(501), of(SHARDS_MAX)), (stuck.clone(), stuck));
}

#[test]
fn so_many_keys_grow_and_one_more_does_not() {
    let key = |number: usize| number.to_be_bytes();
    let mut full = map(1, &growth(b"k", 2, 2));
    for number in 0..KEYS_MAX - 2 {
        let own = KeyScope { key: key(number).to_vec(), ..full.keys[&token(b"k")].clone() };
        full.keys.insert(token(&own.key), own);
    }
    assert_eq!(full.keys.len(), KEYS_MAX - 1);
    let last = sized(b"last", 0, 1_100_000);
    let plan_of = |map: &SubPartitionMap, reports: &[SubPartitionFigures]| plan(Some(map), &sharding(1), reports);
    assert_eq!(wanted(plan_of(&full, std::slice::from_ref(&last))).len(), 1);
    // There is room for one: for the one that needs it more.
    let two = plan_of(&full, &[last.clone(), sized(b"larger", 0, 1_200_000)]);
    assert_eq!(
        (two.wanted.len(), &two.wanted[0].key[..], &two.hindrances[..]),
        (1, &b"larger"[..], &[Hindrance::Keys][..])
    );
    full.keys.insert(token(b"m"), KeyScope { key: b"m".to_vec(), ..full.keys[&token(b"k")].clone() });
    assert_eq!(plan_of(&full, &[last]), GrowthPlan { wanted: Vec::new(), hindrances: vec![Hindrance::Keys] });
    let again: Vec<_> = [2, 3].into_iter().map(|number| sized(b"k", number, 1_100_000)).collect();
    assert_eq!(wanted(plan_of(&full, &again)), [(b"k".to_vec(), 8, GrowthReason::Size)], "it has grown before");
    assert_eq!(most_of_a_key(&full), Some(2));
    assert_eq!(most_of_a_key(&map(7, &[])), None);
}

#[test]
fn long_keys_do_not_grow() {
    let of = |length: usize| plan(None, &sharding(1), &[sized(&vec![7; length], 0, 1_100_000)]);
    assert_eq!(wanted(of(KEY_BYTES_MAX)).len(), 1);
    assert_eq!(of(KEY_BYTES_MAX + 1), GrowthPlan { wanted: Vec::new(), hindrances: vec![Hindrance::KeyBytes] });
}
