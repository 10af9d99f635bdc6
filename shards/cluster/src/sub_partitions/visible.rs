//! Which stored partitions of a table scans see: those that are current.

use model::Places;
use std::collections::BTreeMap;

/// The sub-partitions in which reads find rows; what others have is to come, or was left behind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VisiblePlaces {
    /// Those of all keys that have none of their own.
    pub all: Places,
    /// By the Murmur3 token of a logical key, the key and its places.
    pub keys: BTreeMap<i64, (Vec<u8>, Places)>,
}

impl VisiblePlaces {
    /// Whether reads find the rows of a stored partition.
    pub fn has(&self, table: &model::Table, stored: &[u8]) -> bool {
        let Some((logical, number)) = table.logical_key(stored) else { return false };
        if self.keys.is_empty() {
            return self.all.has(number);
        }
        let own = self.keys.get(&model::Partitioner::Murmur3.token(logical).0);
        own.filter(|(key, _)| key == logical).map_or(self.all, |(_, places)| *places).has(number)
    }
}
