//! Hash tables with a fixed seed: their order depends on the inserted keys alone, so that a simulation is repeatable.

use std::hash::BuildHasherDefault;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// `std::collections::HashMap` with xxh3 and no random state.
pub type HashMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Xxh3Default>>;
/// `std::collections::HashSet` with xxh3 and no random state.
pub type HashSet<K> = std::collections::HashSet<K, BuildHasherDefault<Xxh3Default>>;

/// The xxh3 hash of `bytes`.
pub fn hash64(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}
