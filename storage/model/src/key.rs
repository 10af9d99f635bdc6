//! Partition keys, their tokens, and which core owns a token.

use crate::murmur3::murmur3_x64_128;
use crate::partitioner::Partitioner;
use crate::token::Token;
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::fmt;

/// The bytes of a key; up to 16, such as a UUID, are stored inline.
pub type KeyBytes = SmallVec<[u8; 16]>;

/// A serialised partition key with its token, ordered as its partitioner orders keys. Keys of different partitioners
/// are never compared.
#[derive(PartialEq, Eq, Hash)]
pub struct DecoratedKey {
    /// The first 64 bits of the token of `key`.
    pub token: Token,
    /// The partitioner that gave the token.
    pub partitioner: Partitioner,
    /// The serialised key. With one partition key column: the value's bytes. With several: per component a big-endian
    /// u16 length, the bytes and a zero byte.
    pub key: KeyBytes,
}

/// Longest serialised partition key in bytes.
pub const KEY_BYTES_MAX: usize = 65535;

impl DecoratedKey {
    /// A serialised key with its token.
    pub fn new(partitioner: Partitioner, key: &[u8]) -> DecoratedKey {
        DecoratedKey { token: partitioner.token(key), partitioner, key: KeyBytes::from_slice(key) }
    }
}

impl Clone for DecoratedKey {
    // `SmallVec::clone` copies byte by byte.
    fn clone(&self) -> DecoratedKey {
        DecoratedKey { token: self.token, partitioner: self.partitioner, key: KeyBytes::from_slice(&self.key) }
    }
}

impl Ord for DecoratedKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.partitioner.compare((self.token, &self.key), (other.token, &other.key))
    }
}

impl PartialOrd for DecoratedKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for DecoratedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.token.0)?;
        self.key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Appends the serialised form of a composite key of two or more components. A component longer than 65535 bytes gives
/// a key that is longer than [`KEY_BYTES_MAX`].
pub fn push_composite<'a>(components: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    for component in components {
        out.extend_from_slice(&(component.len() as u16).to_be_bytes());
        out.extend_from_slice(component);
        out.push(0);
    }
}

/// The components of a serialised key of `count` partition key columns; fewer if the bytes are malformed.
pub fn components(key: &[u8], count: usize) -> impl Iterator<Item = &[u8]> {
    let mut rest = key;
    let mut left = count;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        left -= 1;
        if count == 1 {
            return Some(rest);
        }
        let (len, tail) = rest.split_at_checked(2)?;
        let len = u16::from_be_bytes([len[0], len[1]]) as usize;
        let (component, tail) = tail.split_at_checked(len)?;
        rest = tail.get(1..)?;
        Some(component)
    })
}

/// The mapping from keys to tokens and from tokens to the cores of a node.
///
/// Tokens of the hashing partitioners, Murmur3 and Random, go round the cores as in ScyllaDB: biased token round-robin.
/// Those of the ordering ones, ByteOrdered and OrderPreserving, are hashed before, because neighbouring keys differ in
/// few bits. Keys whose tokens have the same first 64 bits are on the same core under every partitioner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShardMap {
    /// The partitioner of the node.
    pub partitioner: Partitioner,
    /// Number of cores, at least 1.
    pub shards: u16,
    /// How many of the token's most significant bits are ignored; 12 unless configured.
    pub ignore_msb: u8,
}

/// Which shard of a node has a table's partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Home {
    /// Shard 0 has all of them.
    Shard0,
    /// Each shard has those of its tokens.
    ByToken,
}

impl Home {
    /// The shard that has the partitions of `token`.
    pub fn owner(self, map: ShardMap, token: Token) -> u16 {
        match self {
            Home::Shard0 => 0,
            Home::ByToken => map.owner(token),
        }
    }
}

/// The default of [`ShardMap::ignore_msb`].
pub const IGNORE_MSB: u8 = 12;

impl ShardMap {
    /// The mapping for `shards` cores with the default [`IGNORE_MSB`].
    pub fn new(partitioner: Partitioner, shards: u16) -> ShardMap {
        ShardMap { partitioner, shards, ignore_msb: IGNORE_MSB }
    }

    /// The byte that names, beside the number of shards, the mapping in files: [`Self::ignore_msb`] in the six low
    /// bits, the partitioner's place in [`Partitioner::ALL`] in the two high ones.
    pub fn rule(self) -> u8 {
        self.ignore_msb & 63 | (self.partitioner as u8) << 6
    }

    /// The mapping that a file names.
    pub fn of_rule(shards: u16, rule: u8) -> ShardMap {
        ShardMap { partitioner: Partitioner::ALL[usize::from(rule >> 6)], shards, ignore_msb: rule & 63 }
    }

    /// The core that owns `token`: `0..shards`.
    pub fn owner(self, token: Token) -> u16 {
        let spread = match self.partitioner {
            Partitioner::Murmur3 | Partitioner::Random => token.prefix(),
            Partitioner::ByteOrdered | Partitioner::OrderPreserving => murmur3_x64_128(&token.prefix().to_be_bytes()).0,
        };
        let biased = spread << self.ignore_msb;
        ((biased as u128 * self.shards as u128) >> 64) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hex")).collect()
    }

    /// Serialised key, its token, and the owner with 1, 8 and 12 shards.
    const VECTORS: [(&str, i64, [u16; 3]); 12] = [
        ("61", -8839064797231613815, [0, 2, 4]),
        ("313233", -7468325962851647638, [0, 5, 8]),
        ("7363796c6c61", 1571565190859066209, [0, 7, 11]),
        ("00000001", -4069959284402364209, [0, 2, 3]),
        ("ffffffff", 7297452126230313552, [0, 2, 4]),
        ("0000000000000001", 6292367497774912474, [0, 1, 2]),
        ("ff", -4442228696663692417, [0, 5, 7]),
        ("000102030405060708090a0b0c0d0e0f", 4920504430128807728, [0, 4, 6]),
        ("fefefefefefefefefefefefefefefefefe", -1672437813826982685, [0, 5, 7]),
        ("", i64::MIN, [0, 0, 0]),
        ("0001610000040000000100", 8247712171917364652, [0, 2, 4]),
        ("000400000001000004ffffffff00", -30582951743957574, [0, 1, 2]),
    ];

    #[test]
    fn tokens_and_owners_are_cassandras_and_scyllas() {
        for (hex, token, owners) in VECTORS {
            assert_eq!(Partitioner::Murmur3.token(&bytes(hex)), Token(token), "{hex}");
            let owner = |shards| ShardMap::new(Partitioner::Murmur3, shards).owner(Token(token));
            assert_eq!([1, 8, 12].map(owner), owners, "{hex}");
        }
    }

    #[test]
    fn every_mapping_is_named_by_its_rule() {
        for (place, partitioner) in Partitioner::ALL.into_iter().enumerate() {
            for ignore_msb in [0, IGNORE_MSB, 63] {
                let map = ShardMap { partitioner, shards: 7, ignore_msb };
                assert_eq!(ShardMap::of_rule(7, map.rule()), map);
                assert_eq!(usize::from(map.rule() >> 6), place);
            }
        }
        assert_eq!(ShardMap::new(Partitioner::Murmur3, 1).rule(), IGNORE_MSB);
    }

    #[test]
    fn neighbouring_keys_go_to_all_cores() {
        for partitioner in Partitioner::ALL {
            let map = ShardMap::new(partitioner, 4);
            let mut counts = [0; 4];
            (0u32..4000).for_each(|key| counts[usize::from(map.owner(partitioner.token(&key.to_be_bytes())))] += 1);
            assert!(counts.into_iter().all(|count| (800..1200).contains(&count)), "{partitioner:?} {counts:?}");
        }
    }

    #[test]
    fn composite_keys_split_again() {
        let parts: [&[u8]; 3] = [b"a", b"", &[7; 300]];
        let mut key = Vec::new();
        push_composite(parts.into_iter(), &mut key);
        assert_eq!(components(&key, 3).collect::<Vec<_>>(), parts);
        assert_eq!(components(&key[..5], 3).count(), 1);
        assert_eq!(components(b"abc", 1).collect::<Vec<_>>(), [b"abc"]);
    }
}
