//! What one core knows of how large and how busy the sub-partitions are of keys that grow by themselves
//! ([`cluster::key_growth`]).
//!
//! 1. Whoever writes an SSTable tells of large sub-partitions ([`KeyFigures::note_size`]).
//! 2. Whoever coordinates a request about rows that are in one sub-partition, as their clustering says, counts it
//!    ([`KeyFigures::note_request`]). Requests that go to all sub-partitions of a key do not count: there would be as
//!    many for each if there were more sub-partitions. Those that are asked for most are known, with errors that are
//!    subtracted ([`HeavyHitters`]).
//! 3. [`KeyFigures::report`] gives both of the sub-partitions that are current, and forgets the sizes of others.
//!
//! Invariants: at most [`LARGE_MAX`] sizes and [`COUNTED_MAX`] counts are kept, whatever tables and keys there are; a
//! request about a sub-partition that is counted already allocates nothing.

use crate::metrics::heavy_hitters::HeavyHitters;
use crate::shard_state::Shard;
use cluster::key_growth::{Hindrance, SubPartitionFigures};
use cluster::sub_partitions::{KEY_BYTES_MAX, places_of};
use model::{HashMap, KeyGrowth, Partitioner, Table, TableId};
use runtime::Instant;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

/// Most sub-partitions of which a core knows the size.
const LARGE_MAX: usize = 1_024;
/// Most sub-partitions of which a core counts requests.
const COUNTED_MAX: usize = 1_024;
/// Requests are counted for so long, and then their rate is known.
const INTERVAL: Duration = Duration::from_secs(10);
/// Bytes of a table's id.
const ID_BYTES: usize = 16;

/// A stored key of a table: its id, and the key.
type StoredKey = (TableId, Vec<u8>);

/// The figures of one core.
pub(crate) struct KeyFigures {
    large: RefCell<LargeSubPartitions>,
    requests: RefCell<Requests>,
    /// Whether the log has that long keys do not grow.
    has_told_of_length: Cell<bool>,
}

/// Bytes of sub-partitions in the largest of their SSTables.
#[derive(Default)]
struct LargeSubPartitions {
    bytes: HashMap<StoredKey, u64>,
}

/// Requests of this interval and of the one before. Keys begin with the table's id.
struct Requests {
    began: Instant,
    now: HeavyHitters<Vec<u8>>,
    before: HeavyHitters<Vec<u8>>,
    /// How long the interval before was, seconds.
    seconds: f64,
    /// The key that is being counted.
    counted: Vec<u8>,
}

impl Default for KeyFigures {
    fn default() -> KeyFigures {
        KeyFigures {
            large: RefCell::default(),
            requests: RefCell::new(Requests {
                began: Instant(0),
                now: HeavyHitters::new(COUNTED_MAX),
                before: HeavyHitters::new(COUNTED_MAX),
                seconds: 1.0,
                counted: Vec::new(),
            }),
            has_told_of_length: Cell::default(),
        }
    }
}

impl LargeSubPartitions {
    /// Notes a size. If there is no room for it, it takes that of the smallest, unless that is larger.
    fn note(&mut self, table: TableId, stored: &[u8], bytes: u64) {
        let key = (table, stored.to_vec());
        if let Some(known) = self.bytes.get_mut(&key) {
            *known = (*known).max(bytes);
            return;
        }
        if self.bytes.len() >= LARGE_MAX {
            let least = self.bytes.iter().min_by_key(|(key, bytes)| (**bytes, *key));
            match least.map(|(key, bytes)| (key.clone(), *bytes)) {
                Some((least, its_bytes)) if its_bytes < bytes => _ = self.bytes.remove(&least),
                _ => return,
            }
        }
        self.bytes.insert(key, bytes);
    }
}

impl Requests {
    fn note(&mut self, table: TableId, stored: &[u8], now: Instant) {
        self.turn(now);
        self.counted.clear();
        self.counted.extend_from_slice(&table.0);
        self.counted.extend_from_slice(stored);
        self.now.add(self.counted.as_slice(), 1);
    }

    /// Ends the interval if it has lasted long enough.
    fn turn(&mut self, now: Instant) {
        let passed = now.since(self.began);
        if passed < INTERVAL {
            return;
        }
        let ended = std::mem::replace(&mut self.now, HeavyHitters::new(COUNTED_MAX));
        // Nobody has asked for a whole interval, or for long.
        let is_recent = passed < 2 * INTERVAL;
        self.before = if is_recent { ended } else { HeavyHitters::new(COUNTED_MAX) };
        (self.began, self.seconds) = (now, passed.as_secs_f64());
    }

    /// Requests a second, one or more, of the interval that has ended last.
    fn rates(&mut self, now: Instant) -> Vec<(StoredKey, u32)> {
        self.turn(now);
        let rate = |counted: u64| (counted as f64 / self.seconds) as u32;
        let top = self.before.top().into_iter().map(|counted| (counted.key, rate(counted.count - counted.error)));
        let split = top.filter(|(_, rate)| *rate > 0).filter_map(|(key, rate)| {
            let (id, stored) = key.split_first_chunk::<ID_BYTES>()?;
            Some(((TableId(*id), stored.to_vec()), rate))
        });
        split.collect()
    }
}

impl KeyFigures {
    /// Notes the bytes of a sub-partition in an SSTable that has been written.
    pub(crate) fn note_size(&self, table: &Table, stored: &[u8], bytes: u64) {
        if let Some(growth) = growth_of(table)
            && growth.size_max > 0
            && self.may_grow(table, stored, bytes > growth.size_max)
        {
            self.large.borrow_mut().note(table.id, stored, bytes);
        }
    }

    /// Counts a request about rows of one sub-partition.
    pub(crate) fn note_request(&self, table: &Table, stored: &[u8]) {
        if growth_of(table).is_some_and(|growth| growth.throughput_max > 0) && self.may_grow(table, stored, true) {
            self.requests.borrow_mut().note(table.id, stored, runtime::now());
        }
    }

    /// Whether a key is not too long to grow. The log has it once if one is, and would have to.
    fn may_grow(&self, table: &Table, stored: &[u8], would: bool) -> bool {
        let Some((logical, _)) = table.logical_key(stored) else { return false };
        let is_short = logical.len() <= KEY_BYTES_MAX;
        if !is_short && would && !self.has_told_of_length.replace(true) {
            tracing::warn!("table {}: {}", table.full_name(), Hindrance::KeyBytes);
        }
        is_short
    }

    /// What is known of the current sub-partitions of each table, in no order.
    pub(crate) fn report(&self, shard: &Shard) -> Vec<(TableId, Vec<SubPartitionFigures>)> {
        let schema = shard.schema();
        let current = |(id, stored): &StoredKey| {
            let table = schema.table_by_id(*id)?;
            let (sharding, placement) = (table.write_sharding()?, shard.placement_of(table).ok()?);
            let (logical, number) = table.logical_key(stored)?;
            let token = Partitioner::Murmur3.token(logical).0;
            let places = places_of(placement.sub_partitions().map(|map| &**map), sharding, token, logical);
            (sharding.growth.is_some() && places.with(number).is_some()).then(|| (logical.to_vec(), number))
        };
        type Figures = (u64, u32);
        let mut tables: BTreeMap<TableId, BTreeMap<(Vec<u8>, u16), Figures>> = BTreeMap::new();
        self.large.borrow_mut().bytes.retain(|stored, bytes| match current(stored) {
            Some(place) => {
                tables.entry(stored.0).or_default().entry(place).or_default().0 = *bytes;
                true
            }
            None => false,
        });
        for (stored, rate) in self.requests.borrow_mut().rates(runtime::now()) {
            if let Some(place) = current(&stored) {
                tables.entry(stored.0).or_default().entry(place).or_default().1 = rate;
            }
        }
        let of_table = |(id, places): (TableId, BTreeMap<(Vec<u8>, u16), Figures>)| {
            let figures = places.into_iter().map(|((key, number), (bytes, requests))| SubPartitionFigures {
                key,
                number,
                bytes,
                requests,
            });
            (id, figures.collect())
        };
        tables.into_iter().map(of_table).collect()
    }
}

/// When keys of a table grow by themselves, if they do.
fn growth_of(table: &Table) -> Option<KeyGrowth> {
    table.write_sharding().and_then(|sharding| sharding.growth)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(number: u8) -> TableId {
        TableId([number; ID_BYTES])
    }

    #[test]
    fn the_largest_are_kept_and_one_more_takes_the_place_of_the_smallest() {
        let mut large = LargeSubPartitions::default();
        for number in 0..LARGE_MAX as u64 {
            large.note(table(1), &number.to_be_bytes(), 100 + number);
        }
        assert_eq!(large.bytes.len(), LARGE_MAX);
        large.note(table(1), b"small", 100);
        assert_eq!(large.bytes.get(&(table(1), b"small".to_vec())), None, "none is smaller");
        large.note(table(2), b"larger", 101);
        assert_eq!(large.bytes.len(), LARGE_MAX);
        assert_eq!(large.bytes.get(&(table(2), b"larger".to_vec())), Some(&101));
        assert_eq!(large.bytes.get(&(table(1), 0_u64.to_be_bytes().to_vec())), None, "it was the smallest");
        large.note(table(2), b"larger", 7);
        assert_eq!(large.bytes.get(&(table(2), b"larger".to_vec())), Some(&101), "the largest of its SSTables counts");
    }

    #[test]
    fn requests_are_rates_of_the_last_interval() {
        let at = |seconds: u64| Instant(seconds * 1_000_000_000);
        let figures = KeyFigures::default();
        let mut requests = figures.requests.borrow_mut();
        requests.note(table(1), b"first", at(100));
        for _ in 0..50 {
            requests.note(table(1), b"a", at(101));
            requests.note(table(2), b"a", at(102));
        }
        for _ in 0..9 {
            requests.note(table(1), b"seldom", at(105));
        }
        assert_eq!(requests.rates(at(109)), [], "the interval has not ended");
        let mut rates = requests.rates(at(110));
        rates.sort();
        assert_eq!(rates, [((table(1), b"a".to_vec()), 5), ((table(2), b"a".to_vec()), 5)]);
        assert_eq!(requests.rates(at(119)).len(), 2);
        assert_eq!(requests.rates(at(120)), [], "nobody has asked for an interval");
        requests.note(table(1), b"a", at(121));
        assert_eq!(requests.rates(at(500)), [], "that was long ago");
    }
}
