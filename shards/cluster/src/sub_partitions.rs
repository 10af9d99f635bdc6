//! The numbers of sub-partitions that the keys of tables with write sharding have ([`model::write_sharding`]), and how
//! they grow while the table is in use.
//!
//! The schema has what was asked for. What a key has is here, once it is not what the table was created with: for all
//! keys of a table together, and for keys that have grown by themselves. A request finds the places of a key by the
//! epoch in which it is planned ([`SubPartitionMap::places_of`]).
//!
//! Rows that are placed by their clustering move when a key grows, through these stages:
//! 1. [`GrowthStage::WrittenTwice`]: changes go to the old places and to the new ones, reads to the old ones. Once all
//!    nodes know, what the old places have is copied to the new ones.
//! 2. [`GrowthStage::Closed`]: conditional changes and reads at SERIAL wait, so that what rounds of Paxos have left at
//!    the old places can be finished. If that takes long, because a node has died, the stage before begins anew.
//! 3. [`GrowthStage::ReadThere`]: reads and conditional changes go to the new places, changes still to both, because
//!    requests of the stage before read from the old ones.
//! 4. [`GrowthStage::Left`]: the new places are those of the key, and what is left in the old ones is deleted.
//!
//! Rows that are placed by chance stay where they are: in the only stage, [`GrowthStage::ReadThere`], reads and
//! deletions go to all new places, and insertions to the old ones alone, because requests of before do not read the
//! others.
//!
//! A stage begins when no request is under way any more that was planned before the one before it began. So a request
//! meets others of its own stage and of the neighbouring ones alone.
//!
//! Which keys grow by themselves, and why, is decided in [`crate::key_growth`].
//!
//! Invariants: growing multiplies the number of sub-partitions by a whole number; a key that has grown by itself has
//! more than all keys of its table; one growth of a table is under way at a time.

mod visible;

pub use visible::VisiblePlaces;

use model::write_sharding::SHARDS_MAX;
use model::{Places, WriteSharding};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most keys of a table that have grown by themselves.
pub const KEYS_MAX: usize = 4_096;
/// Longest key that grows by itself.
pub const KEY_BYTES_MAX: usize = 1_024;

/// The sub-partitions of the keys of a table.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SubPartitionMap {
    /// Whether rows are placed by chance.
    pub is_random: bool,
    /// Those of all keys that have not grown by themselves.
    pub all: Scope,
    /// The keys that have grown by themselves, by the Murmur3 tokens of their logical keys.
    pub keys: BTreeMap<i64, KeyScope>,
    /// The epoch in which reads went to other places last. Scans of before and of after it do not go together.
    pub switched: u64,
    /// Why keys have grown last, by the tokens in `keys`.
    #[serde(skip)]
    pub reasons: BTreeMap<i64, GrowthReason>,
}

/// Why a key has grown by itself.
///
/// The order of variants is part of the encoding: new ones come at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum GrowthReason {
    /// A sub-partition was too large.
    Size,
    /// A sub-partition was too busy.
    Load,
}

/// A key that has grown by itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeyScope {
    /// The logical key.
    pub key: Vec<u8>,
    /// Its sub-partitions.
    pub scope: Scope,
}

impl std::fmt::Display for GrowthReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            GrowthReason::Size => "size",
            GrowthReason::Load => "load",
        })
    }
}

/// The sub-partitions of one key, or of many alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Scope {
    /// The number of the first.
    first: u16,
    /// How many there are.
    shards: u16,
    /// The growth that is under way.
    pub growth: Option<Growth>,
}

/// A growth that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Growth {
    /// The first of the other places: those to be, and in the last stage those that were.
    first: u16,
    /// How many these are.
    shards: u16,
    /// How far it is.
    pub stage: GrowthStage,
    /// The epoch at which this stage began.
    pub since: u64,
}

/// How far a growth is.
///
/// The order of variants is part of the encoding: new ones come at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum GrowthStage {
    /// Changes go to both places, reads to the old ones.
    WrittenTwice,
    /// The same, but what Paxos decides waits.
    Closed,
    /// Reads go to the new places, changes to both.
    ReadThere,
    /// What is left in the old places is deleted.
    Left,
}

/// Where the rows of a key are, as a request goes by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyPlaces {
    /// Where reads and conditional changes go, and changes of rows too, but for [`KeyPlaces::inserted`].
    pub read: Places,
    /// Where rows are inserted that are placed by chance.
    pub inserted: Places,
    /// Where changes go as well.
    pub twin: Option<Places>,
    /// Whether what Paxos decides waits for the next epoch.
    pub is_closed: bool,
}

impl KeyPlaces {
    /// Those of keys that do not grow.
    pub fn settled(places: Places) -> KeyPlaces {
        KeyPlaces { read: places, inserted: places, twin: None, is_closed: false }
    }

    /// The places of the same key, of those that changes go to, which have a number.
    pub fn with(&self, number: u16) -> Option<Places> {
        [Some(self.read), self.twin].into_iter().flatten().find(|places| places.has(number))
    }
}

/// A change of the sub-partitions of one table.
///
/// The order of variants and fields is part of the encoding: new ones come at the end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SubPartitionsChange {
    /// The table has as many as it was created with, whatever the schema says from now on. Of no effect if it is known
    /// already.
    Keep {
        /// How many.
        shards: u16,
        /// Whether rows are placed by chance.
        is_random: bool,
    },
    /// All keys, or one of them, are going to have more.
    Grow {
        /// The logical key; `None` for all keys.
        key: Option<Vec<u8>>,
        /// The Murmur3 token of it.
        token: i64,
        /// How many.
        shards: u16,
    },
    /// The stage of a growth has ended that began at an epoch.
    Advance {
        /// The Murmur3 token of the key that grows; `None` for all keys.
        token: Option<i64>,
        /// The epoch.
        since: u64,
    },
    /// The table is no more.
    Drop,
    /// What Paxos decides goes on, because a stage in which it waits cannot end soon: the stage before it begins anew.
    Reopen {
        /// The Murmur3 token of the key that grows; `None` for all keys.
        token: Option<i64>,
        /// The epoch at which the stage began.
        since: u64,
    },
    /// A key grows by itself.
    GrowKey {
        /// The logical key.
        key: Vec<u8>,
        /// The Murmur3 token of it.
        token: i64,
        /// How many sub-partitions it is going to have.
        shards: u16,
        /// Why.
        reason: GrowthReason,
    },
}

/// Why sub-partitions cannot be changed so. Nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SubPartitionsError {
    /// The table, or the key, has none that are known.
    Unknown,
    /// A growth of the same keys is under way.
    UnderWay,
    /// There cannot be so many.
    Count(u16),
    /// The stage did not begin at that epoch, or has ended.
    NoStage(u64),
    /// So many keys of the table have grown already, or the key is too long.
    Keys,
}

impl std::fmt::Display for SubPartitionsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SubPartitionsError::Unknown => f.write_str("the sub-partitions are those of the schema"),
            SubPartitionsError::UnderWay => f.write_str("the sub-partitions grow already"),
            SubPartitionsError::Count(shards) => write!(f, "there cannot be {shards} sub-partitions"),
            SubPartitionsError::NoStage(since) => write!(f, "no stage of a growth began at epoch {since}"),
            SubPartitionsError::Keys => write!(f, "at most {KEYS_MAX} keys of at most {KEY_BYTES_MAX} bytes can grow"),
        }
    }
}

impl std::error::Error for SubPartitionsError {}

impl Scope {
    fn of(places: Places) -> Scope {
        Scope { first: places.first, shards: places.shards, growth: None }
    }

    /// The current places.
    pub fn places(&self) -> Places {
        Places { first: self.first, shards: self.shards }
    }

    fn key_places(&self, is_random: bool) -> KeyPlaces {
        let own = self.places();
        let Some(growth) = &self.growth else { return KeyPlaces::settled(own) };
        let other = growth.places();
        match growth.stage {
            GrowthStage::ReadThere if is_random => KeyPlaces { read: other, ..KeyPlaces::settled(own) },
            GrowthStage::WrittenTwice => KeyPlaces { twin: Some(other), ..KeyPlaces::settled(own) },
            GrowthStage::Closed => KeyPlaces { twin: Some(other), is_closed: true, ..KeyPlaces::settled(own) },
            GrowthStage::ReadThere => KeyPlaces { twin: Some(own), ..KeyPlaces::settled(other) },
            GrowthStage::Left => KeyPlaces::settled(own),
        }
    }

    /// Whether the rules hold, in a map of rows that are placed by chance or not.
    fn is_sound(&self, is_random: bool) -> bool {
        let is_place = |places: Places| {
            let counts = (1..=SHARDS_MAX).contains(&places.shards);
            counts && (places.first == 0 || !is_random && places.first == places.shards)
        };
        let fits = |growth: &Growth| {
            let (own, other) = (self.places(), growth.places());
            let (few, many) = (own.shards.min(other.shards), own.shards.max(other.shards));
            let is_down = other.shards < own.shards;
            let has_stage = match growth.stage {
                GrowthStage::WrittenTwice | GrowthStage::Closed => !is_random && !is_down,
                GrowthStage::ReadThere => !is_down,
                GrowthStage::Left => !is_random && is_down,
            };
            is_place(other) && few < many && few > 0 && many.is_multiple_of(few) && has_stage
        };
        is_place(self.places()) && self.growth.as_ref().is_none_or(fits)
    }

    /// Begins a growth at an epoch.
    fn grow(&mut self, shards: u16, is_random: bool, epoch: u64) -> Result<(), SubPartitionsError> {
        if self.growth.is_some() {
            return Err(SubPartitionsError::UnderWay);
        }
        let may_be = shards > self.shards && shards <= SHARDS_MAX && shards.is_multiple_of(self.shards.max(1));
        if !may_be {
            return Err(SubPartitionsError::Count(shards));
        }
        let (goal, stage) = match is_random {
            true => (Places::created(shards), GrowthStage::ReadThere),
            false => (Places::grown(shards), GrowthStage::WrittenTwice),
        };
        self.growth = Some(Growth { first: goal.first, shards: goal.shards, stage, since: epoch });
        Ok(())
    }

    /// Ends the stage that began at the epoch `since`. Returns whether reads go to other places by that.
    fn advance(&mut self, since: u64, is_random: bool, epoch: u64) -> Result<bool, SubPartitionsError> {
        let growth = self.growth.filter(|growth| growth.since == since);
        let growth = growth.ok_or(SubPartitionsError::NoStage(since))?;
        let (own, other) = (self.places(), growth.places());
        let next =
            |stage, places: Places| Some(Growth { first: places.first, shards: places.shards, stage, since: epoch });
        self.growth = match growth.stage {
            GrowthStage::WrittenTwice => next(GrowthStage::Closed, other),
            GrowthStage::Closed => next(GrowthStage::ReadThere, other),
            GrowthStage::ReadThere if is_random => None,
            GrowthStage::ReadThere => next(GrowthStage::Left, own),
            GrowthStage::Left => None,
        };
        if growth.stage == GrowthStage::ReadThere {
            (self.first, self.shards) = (other.first, other.shards);
        }
        Ok(growth.stage == GrowthStage::Closed)
    }
}

impl Growth {
    /// The places to be; in the last stage those that were.
    pub fn places(&self) -> Places {
        Places { first: self.first, shards: self.shards }
    }
}

impl SubPartitionMap {
    /// The places of a logical key, given with its Murmur3 token.
    pub fn places_of(&self, token: i64, key: &[u8]) -> KeyPlaces {
        self.scope_of(token, key).key_places(self.is_random)
    }

    /// The sub-partitions of a logical key, given with its Murmur3 token.
    pub fn scope_of(&self, token: i64, key: &[u8]) -> &Scope {
        if self.keys.is_empty() {
            return &self.all;
        }
        match self.keys.get(&token).filter(|own| own.key == key) {
            Some(own) => &own.scope,
            None => &self.all,
        }
    }

    /// The sub-partitions of the key with a token, or of all keys.
    pub fn scope(&self, token: Option<i64>) -> Option<&Scope> {
        match token {
            None => Some(&self.all),
            Some(token) => self.keys.get(&token).map(|own| &own.scope),
        }
    }

    /// All that is known, by the tokens of the keys; `None` for the other keys.
    pub fn scopes(&self) -> impl Iterator<Item = (Option<i64>, &Scope)> {
        let keys = self.keys.iter().map(|(token, own)| (Some(*token), &own.scope));
        std::iter::once((None, &self.all)).chain(keys)
    }

    /// Whether what Paxos decides has to wait for some key.
    pub fn is_closed(&self) -> bool {
        let stages = self.scopes().filter_map(|(_, scope)| scope.growth.map(|growth| growth.stage));
        stages.into_iter().any(|stage| stage == GrowthStage::Closed)
    }

    /// Whether rows are being copied.
    pub fn is_copied(&self) -> bool {
        let stages = self.scopes().filter_map(|(_, scope)| scope.growth.map(|growth| growth.stage));
        stages.into_iter().any(|stage| stage == GrowthStage::WrittenTwice)
    }

    /// Whether rows that reads found where they looked by an earlier map of the table, if it had one, may no longer be
    /// kept there.
    pub fn is_left_behind(&self, earlier: Option<&SubPartitionMap>) -> bool {
        if self.switched <= earlier.map_or(0, |earlier| earlier.switched) {
            return false;
        }
        // One growth of a table is under way at a time. If the reads knew the one that has come to its third stage, no
        // other has come to its end meanwhile.
        let is_kept = |(token, scope): (Option<i64>, &Scope)| {
            let now = scope.growth.filter(|growth| growth.stage == GrowthStage::ReadThere);
            let then = earlier.and_then(|earlier| earlier.scope(token)).and_then(|scope| scope.growth);
            now.zip(then).is_some_and(|(now, then)| now.places() == then.places())
        };
        !self.scopes().any(is_kept)
    }

    /// Whether a growth is under way.
    pub fn is_growing(&self) -> bool {
        self.scopes().any(|(_, scope)| scope.growth.is_some())
    }

    /// Where reads find the rows of each key; `None` if they are nowhere else.
    pub fn visible(&self) -> Option<VisiblePlaces> {
        let read = |scope: &Scope| scope.key_places(false).read;
        let has_others = |scope: &Scope| scope.first != 0 || scope.growth.is_some();
        if self.is_random || !self.scopes().any(|(_, scope)| has_others(scope)) {
            return None;
        }
        let keys = self.keys.iter().map(|(token, own)| (*token, (own.key.clone(), read(&own.scope))));
        Some(VisiblePlaces { all: read(&self.all), keys: keys.collect() })
    }

    /// Whether the rules of this module hold.
    pub(crate) fn is_sound(&self) -> bool {
        let is_key = |own: &KeyScope| own.key.len() <= KEY_BYTES_MAX;
        self.keys.len() <= KEYS_MAX
            && self.keys.values().all(is_key)
            && self.reasons.keys().all(|token| self.keys.contains_key(token))
            && self.scopes().all(|(_, scope)| scope.is_sound(self.is_random))
    }

    /// Begins a growth at an epoch: of all keys, or of the one given with its token.
    fn grow(&mut self, key: Option<(i64, &Vec<u8>)>, shards: u16, epoch: u64) -> Result<(), SubPartitionsError> {
        let is_random = self.is_random;
        if self.is_growing() {
            return Err(SubPartitionsError::UnderWay);
        }
        let Some((token, key)) = key else {
            return match self.keys.is_empty() {
                true => self.all.grow(shards, is_random, epoch),
                false => Err(SubPartitionsError::UnderWay),
            };
        };
        let (all, has_room) = (self.all, self.keys.len() < KEYS_MAX);
        match self.keys.get_mut(&token) {
            Some(own) if own.key != *key => Err(SubPartitionsError::Keys),
            Some(own) => own.scope.grow(shards, is_random, epoch),
            None if key.len() > KEY_BYTES_MAX || !has_room => Err(SubPartitionsError::Keys),
            None => {
                let mut own = KeyScope { key: key.clone(), scope: all };
                own.scope.grow(shards, is_random, epoch)?;
                self.keys.insert(token, own);
                Ok(())
            }
        }
    }

    /// The map of a table after a change at an epoch; `None` if it is gone.
    ///
    /// # Errors
    /// The change does not fit it.
    pub fn changed(
        before: Option<&SubPartitionMap>,
        change: &SubPartitionsChange,
        epoch: u64,
    ) -> Result<Option<SubPartitionMap>, SubPartitionsError> {
        let known = || before.cloned().ok_or(SubPartitionsError::Unknown);
        match change {
            SubPartitionsChange::Keep { shards, is_random } => {
                if !(1..=SHARDS_MAX).contains(shards) {
                    return Err(SubPartitionsError::Count(*shards));
                }
                let created = || SubPartitionMap {
                    is_random: *is_random,
                    all: Scope::of(Places::created(*shards)),
                    ..SubPartitionMap::default()
                };
                Ok(Some(before.cloned().unwrap_or_else(created)))
            }
            SubPartitionsChange::Grow { key, token, shards } => {
                let mut map = known()?;
                map.grow(key.as_ref().map(|key| (*token, key)), *shards, epoch)?;
                Ok(Some(map))
            }
            SubPartitionsChange::GrowKey { key, token, shards, reason } => {
                let mut map = known()?;
                map.grow(Some((*token, key)), *shards, epoch)?;
                map.reasons.insert(*token, *reason);
                Ok(Some(map))
            }
            SubPartitionsChange::Advance { token, since } => {
                let mut map = known()?;
                let is_random = map.is_random;
                let scope = match token {
                    None => &mut map.all,
                    Some(token) => &mut map.keys.get_mut(token).ok_or(SubPartitionsError::Unknown)?.scope,
                };
                if scope.advance(*since, is_random, epoch)? {
                    map.switched = epoch;
                }
                Ok(Some(map))
            }
            SubPartitionsChange::Drop => Ok(None),
            SubPartitionsChange::Reopen { token, since } => {
                let mut map = known()?;
                let scope = match token {
                    None => &mut map.all,
                    Some(token) => &mut map.keys.get_mut(token).ok_or(SubPartitionsError::Unknown)?.scope,
                };
                let closed = scope
                    .growth
                    .as_mut()
                    .filter(|growth| growth.since == *since && growth.stage == GrowthStage::Closed);
                let growth = closed.ok_or(SubPartitionsError::NoStage(*since))?;
                (growth.stage, growth.since) = (GrowthStage::WrittenTwice, epoch);
                Ok(Some(map))
            }
        }
    }
}

/// The places of a key of a table with write sharding, of which `map` may know more than the schema.
pub fn places_of(map: Option<&SubPartitionMap>, sharding: &WriteSharding, token: i64, key: &[u8]) -> KeyPlaces {
    match map {
        Some(map) => map.places_of(token, key),
        None => KeyPlaces::settled(sharding.places()),
    }
}

#[cfg(test)]
#[path = "sub_partitions_tests.rs"]
mod tests;
