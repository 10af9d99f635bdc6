//! Stored partition keys: what storage knows rows by, and the logical keys that clients see. They differ in tables with
//! write sharding, whose form of keys is in [`crate::write_sharding`].
//!
//! Invariants: whoever splits a stored key into components takes [`Table::stored_key_len`] of them, or
//! [`Table::key_values`] for those of columns.

use crate::key::{KEY_BYTES_MAX, components, push_composite};
use crate::schema::Table;
use crate::types::CqlType;
use crate::write_sharding::WriteSharding;

/// Bytes of the component that a stored key has more than a logical one.
const NUMBER_BYTES: usize = 2 + 2 + 1;
/// Bytes that the form of several components adds to a key of one column.
const COMPONENT_BYTES: usize = 2 + 1;

impl Table {
    /// How the rows of its partition keys are spread; `None` if a partition key is one partition.
    #[inline]
    pub fn write_sharding(&self) -> Option<&WriteSharding> {
        self.options.write_sharding.as_deref()
    }

    /// The number of components of its stored keys.
    #[inline]
    pub fn stored_key_len(&self) -> usize {
        self.partition_key_len + usize::from(self.options.write_sharding.is_some())
    }

    /// The types of the components of its stored keys.
    pub fn stored_key_types(&self) -> impl Iterator<Item = &CqlType> {
        let number = self.write_sharding().map(|_| &CqlType::Smallint);
        self.partition_key().iter().map(|column| &column.cql_type).chain(number)
    }

    /// The values of the partition key columns in a stored key; fewer if the bytes are malformed.
    pub fn key_values<'k>(&self, stored: &'k [u8]) -> impl Iterator<Item = &'k [u8]> {
        components(stored, self.stored_key_len()).take(self.partition_key_len)
    }

    /// The stored key of one sub-partition of a logical key.
    pub fn stored_key(&self, logical: &[u8], shard: u16) -> Vec<u8> {
        let mut key = Vec::with_capacity(logical.len() + COMPONENT_BYTES + NUMBER_BYTES);
        match self.partition_key_len {
            1 => push_composite([logical].into_iter(), &mut key),
            _ => key.extend_from_slice(logical),
        }
        push_composite([&shard.to_be_bytes()[..]].into_iter(), &mut key);
        key
    }

    /// The logical key of a stored one, and the number of the sub-partition; `None` if the bytes are malformed. Only of
    /// tables with write sharding.
    pub fn logical_key<'k>(&self, stored: &'k [u8]) -> Option<(&'k [u8], u16)> {
        let (logical, number) = stored.split_at_checked(stored.len().checked_sub(NUMBER_BYTES)?)?;
        let [0, 2, high, low, 0] = number else { return None };
        let logical = match self.partition_key_len {
            1 => components(logical, 2).next()?,
            _ => logical,
        };
        Some((logical, u16::from_be_bytes([*high, *low])))
    }

    /// Whether the stored keys of a logical one would be too long.
    pub fn is_key_too_long(&self, logical: &[u8]) -> bool {
        let more = match (self.write_sharding(), self.partition_key_len) {
            (None, _) => 0,
            (Some(_), 1) => COMPONENT_BYTES + NUMBER_BYTES,
            (Some(_), _) => NUMBER_BYTES,
        };
        logical.len() + more > KEY_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbitrary;
    use crate::write_sharding::{SHARDS_MAX, ShardedBy};
    use std::sync::Arc;

    /// Keys of any number of columns, of any length, are found again.
    #[test]
    fn stored_keys_have_their_logical_keys() {
        let mut state = 7_u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n.max(1)
        };
        for _ in 0..500 {
            let mut table = arbitrary::table("k", "t", &mut below);
            table.options.write_sharding =
                Some(Arc::new(WriteSharding { shards: 200, by: ShardedBy::Clustering(vec![0]), growth: None }));
            let parts: Vec<Vec<u8>> =
                (0..table.partition_key_len).map(|_| (0..below(20)).map(|_| below(256) as u8).collect()).collect();
            let mut logical = Vec::new();
            match parts.as_slice() {
                [only] => logical.extend_from_slice(only),
                several => push_composite(several.iter().map(Vec::as_slice), &mut logical),
            }
            let shard = below(SHARDS_MAX.into()) as u16;
            let stored = table.stored_key(&logical, shard);
            assert_eq!(table.logical_key(&stored), Some((&logical[..], shard)));
            assert_eq!(table.key_values(&stored).collect::<Vec<_>>(), parts);
            assert_eq!(components(&stored, table.stored_key_len()).last(), Some(&shard.to_be_bytes()[..]));
            assert_eq!(table.stored_key_types().count(), table.partition_key_len + 1);
            for end in 0..stored.len() {
                // Must not panic.
                let _ = table.logical_key(&stored[..end]);
            }
        }
    }
}
