//! Hash tables whose keys are ids of 16 bytes: ids of tables, and hashes of statements.
//!
//! Every request looks up a table several times. Ids are random, times or hashes, so a few instructions mix them well
//! enough.

use std::hash::{BuildHasherDefault, Hasher};

/// A hash table by id, with a fixed seed.
pub type IdMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// The hasher of [`IdMap`]. It looks at the first and at the last 8 bytes of what is written last.
#[derive(Default, Debug)]
pub struct IdHasher {
    hash: u64,
}

impl Hasher for IdHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
            let mixed = u64::from_le_bytes(*first) ^ u64::from_le_bytes(*last).rotate_left(32);
            // Fibonacci hashing: the upper half of the product depends on all bits.
            let product = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.hash = product ^ (product >> 32);
        }
    }

    /// The length that comes before an array's bytes says nothing.
    #[inline]
    fn write_usize(&mut self, _: usize) {}

    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableId;
    use std::collections::BTreeSet;
    use std::hash::BuildHasher;

    fn hash(id: &TableId) -> u64 {
        BuildHasherDefault::<IdHasher>::default().hash_one(id)
    }

    #[test]
    fn ids_that_differ_in_one_bit_have_different_hashes() {
        let ids = (0..128).map(|bit| TableId((1u128 << bit).to_le_bytes()));
        let hashes: BTreeSet<u64> = ids.clone().map(|id| hash(&id)).collect();
        assert!(hashes.len() >= 64, "only bits that the rotation brings together may cancel out");
        // What a hash table uses: its lowest bits choose a place, its highest seven tell entries apart.
        let places: BTreeSet<u64> = ids.map(|id| hash(&id) & 0xff | hash(&id) >> 57 << 8).collect();
        assert!(places.len() >= 48, "{}", places.len());
    }

    #[test]
    fn ids_are_found() {
        let mut map = IdMap::<TableId, u128>::default();
        for number in 0..1000u128 {
            map.insert(TableId(number.to_be_bytes()), number);
        }
        assert!((0..1000u128).all(|number| map.get(&TableId(number.to_be_bytes())) == Some(&number)));
        assert_eq!(map.get(&TableId(1000u128.to_be_bytes())), None);
    }
}
