//! Which keys of a table get more sub-partitions by themselves, and how many: what the leader of the group decides from
//! what nodes report.
//!
//! 1. Nodes report of single sub-partitions how large they are and how many requests a second they get. A sub-partition
//!    is as large as the largest of its replicas says, and as busy as all coordinators together say. Those that are no
//!    longer current do not count: what is left of them is in SSTables until these are compacted.
//! 2. A key grows if one of its sub-partitions is above a limit of the table, and all of them together above half of
//!    the limit on average. If one is above it and the others are not nearly, most of what it has is about one row, or
//!    one value of the hashed columns, which stays in one place however many there are.
//! 3. It gets a power of two times as many as it has, so that each has at most [`SHARE_MAX`] of the limit.
//!
//! Invariants: a table without limits has no key that grows; one growth of a table is under way at a time
//! ([`crate::sub_partitions`]), so keys are in the order in which they need it.

use crate::sub_partitions::{GrowthReason, KEY_BYTES_MAX, KEYS_MAX, Scope, SubPartitionMap};
use model::write_sharding::SHARDS_MAX;
use model::{KeyGrowth, Partitioner, WriteSharding};
use std::collections::BTreeMap;

/// The part of a limit that a sub-partition has after a growth, at most: well under half, so that the next one is far.
pub const SHARE_MAX: f64 = 0.375;

/// What a node reports of one sub-partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubPartitionFigures {
    /// The logical key.
    pub key: Vec<u8>,
    /// The number of the sub-partition.
    pub number: u16,
    /// What it takes in the largest of its SSTables, before compression; 0 if that is not known to be much.
    pub bytes: u64,
    /// Requests a second that concern it alone, as the node has coordinated them.
    pub requests: u32,
}

/// A key that is to have more sub-partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WantedGrowth {
    /// The logical key.
    pub key: Vec<u8>,
    /// The Murmur3 token of it.
    pub token: i64,
    /// How many it is to have.
    pub shards: u16,
    /// Why.
    pub reason: GrowthReason,
}

/// Why a key that is too large or too busy does not grow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Hindrance {
    /// So many keys of the table have grown that no other one can.
    Keys,
    /// The key is too long.
    KeyBytes,
    /// The key has as many sub-partitions as it can have.
    Shards,
}

impl std::fmt::Display for Hindrance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Hindrance::Keys => write!(f, "{KEYS_MAX} keys have grown by themselves, and no other one does"),
            Hindrance::KeyBytes => write!(f, "keys longer than {KEY_BYTES_MAX} bytes do not grow by themselves"),
            Hindrance::Shards => write!(f, "keys do not get more than {SHARDS_MAX} sub-partitions"),
        }
    }
}

/// What there is to do about a table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GrowthPlan {
    /// The keys that are to grow, those first that need it most.
    pub wanted: Vec<WantedGrowth>,
    /// Why others do not, each of them once.
    pub hindrances: Vec<Hindrance>,
}

/// What is known of the current sub-partitions of a key.
#[derive(Clone, Copy, Default)]
struct Figures {
    bytes: u64,
    requests: u64,
}

/// What there is to do about a table by what all nodes report of it, and by its map, if it has one.
pub fn plan<'r>(
    map: Option<&SubPartitionMap>,
    sharding: &WriteSharding,
    reported: impl IntoIterator<Item = &'r SubPartitionFigures>,
) -> GrowthPlan {
    let mut plan = GrowthPlan::default();
    let Some(limits) = sharding.growth else { return plan };
    if map.is_some_and(SubPartitionMap::is_growing) {
        return plan;
    }
    let mut keys: BTreeMap<&[u8], BTreeMap<u16, Figures>> = BTreeMap::new();
    for figures in reported {
        let known = keys.entry(&figures.key).or_default().entry(figures.number).or_default();
        known.bytes = known.bytes.max(figures.bytes);
        known.requests += u64::from(figures.requests);
    }
    let mut wanted: Vec<(f64, WantedGrowth)> = Vec::new();
    for (key, numbers) in keys {
        let token = Partitioner::Murmur3.token(key).0;
        let places = map.map_or(sharding.places(), |map| map.scope_of(token, key).places());
        let current = numbers.into_iter().filter(|(number, _)| places.has(*number));
        let current: Vec<Figures> = current.map(|(_, figures)| figures).collect();
        let Some((reason, fullness)) = fullness(limits, &current, places.shards) else { continue };
        match grown(places.shards, fullness) {
            _ if key.len() > KEY_BYTES_MAX => plan.hindrances.push(Hindrance::KeyBytes),
            _ if !has_room(map, token, key) => plan.hindrances.push(Hindrance::Keys),
            None => plan.hindrances.push(Hindrance::Shards),
            Some(shards) => wanted.push((fullness, WantedGrowth { key: key.to_vec(), token, shards, reason })),
        }
    }
    // Stable, so that keys of the same fullness are in their own order.
    wanted.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    plan.hindrances.sort_unstable();
    plan.hindrances.dedup();
    // Those that have no room yet take it from each other.
    let mut room = KEYS_MAX - map.map_or(0, |map| map.keys.len()).min(KEYS_MAX);
    for (_, growth) in wanted {
        let has_grown = map.is_some_and(|map| map.keys.contains_key(&growth.token));
        if !has_grown && room == 0 {
            if !plan.hindrances.contains(&Hindrance::Keys) {
                plan.hindrances.insert(0, Hindrance::Keys);
            }
            continue;
        }
        room -= usize::from(!has_grown);
        plan.wanted.push(growth);
    }
    plan
}

/// What a key needs to grow for, and how full its sub-partitions are on average, as a part of that limit; `None` if it
/// does not have to grow.
fn fullness(limits: KeyGrowth, current: &[Figures], shards: u16) -> Option<(GrowthReason, f64)> {
    let of = |reason, limit: u64, figure: fn(&Figures) -> u64| {
        let (most, sum) = (current.iter().map(figure).max()?, current.iter().map(figure).fold(0, u64::saturating_add));
        let fullness = sum as f64 / (f64::from(shards.max(1)) * limit as f64);
        (limit > 0 && most > limit && fullness > 0.5).then_some((reason, fullness))
    };
    let size = of(GrowthReason::Size, limits.size_max, |figures| figures.bytes);
    let load = of(GrowthReason::Load, limits.throughput_max.into(), |figures| figures.requests);
    match (size, load) {
        (Some(size), Some(load)) => Some(if load.1 > size.1 { load } else { size }),
        (size, load) => size.or(load),
    }
}

/// How many sub-partitions a key is to have that has so many now, which are so full; `None` if there cannot be more.
fn grown(shards: u16, fullness: f64) -> Option<u16> {
    let mut goal = None;
    let mut next = shards.checked_mul(2).filter(|next| *next <= SHARDS_MAX);
    let mut left = fullness;
    while let Some(shards) = next.filter(|_| left > SHARE_MAX) {
        (goal, left) = (Some(shards), left / 2.0);
        next = shards.checked_mul(2).filter(|next| *next <= SHARDS_MAX);
    }
    goal
}

/// Whether a table can have the key among those that have grown.
fn has_room(map: Option<&SubPartitionMap>, token: i64, key: &[u8]) -> bool {
    let Some(map) = map else { return true };
    match map.keys.get(&token) {
        Some(own) => own.key == key,
        None => map.keys.len() < KEYS_MAX,
    }
}

/// The most sub-partitions that a key of a table has which has grown by itself; `None` if none has.
pub fn most_of_a_key(map: &SubPartitionMap) -> Option<u16> {
    let most = |scope: &Scope| {
        let goal = scope.growth.map_or(0, |growth| growth.places().shards);
        scope.places().shards.max(goal)
    };
    map.keys.values().map(|own| most(&own.scope)).max()
}

#[cfg(test)]
#[path = "key_growth_tests.rs"]
mod tests;
