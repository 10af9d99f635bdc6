//! Partition keys, their tokens, and which core owns a token.

use crate::murmur3::murmur3_x64_128;
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::fmt;

/// A position on the ring of the Murmur3 partitioner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub i64);

impl Token {
    /// The exclusive start of the ring, and the token of the empty key.
    pub const MIN: Token = Token(i64::MIN);
    /// The last token.
    pub const MAX: Token = Token(i64::MAX);

    /// The token of a serialised partition key: the first half of its [`murmur3_x64_128`] hash.
    pub fn of(key: &[u8]) -> Token {
        if key.is_empty() {
            return Token::MIN;
        }
        match murmur3_x64_128(key).0 as i64 {
            i64::MIN => Token::MAX,
            hash => Token(hash),
        }
    }

    /// The token with its sign bit flipped: unsigned order is ring order.
    pub fn prefix(self) -> u64 {
        (self.0 as u64) ^ (1 << 63)
    }
}

/// The bytes of a key; up to 16, such as a UUID, are stored inline.
pub type KeyBytes = SmallVec<[u8; 16]>;

/// A serialised partition key with its token, ordered by token and then by the key's bytes.
#[derive(PartialEq, Eq, Hash)]
pub struct DecoratedKey {
    /// The token of `key`.
    pub token: Token,
    /// The serialised key. With one partition key column: the value's bytes. With several: per component a big-endian
    /// u16 length, the bytes and a zero byte.
    pub key: KeyBytes,
}

/// Longest serialised partition key in bytes.
pub const KEY_BYTES_MAX: usize = 65535;

impl DecoratedKey {
    /// A serialised key with its token.
    pub fn new(key: &[u8]) -> DecoratedKey {
        DecoratedKey { token: Token::of(key), key: KeyBytes::from_slice(key) }
    }
}

impl Clone for DecoratedKey {
    // `SmallVec::clone` copies byte by byte.
    fn clone(&self) -> DecoratedKey {
        DecoratedKey { token: self.token, key: KeyBytes::from_slice(&self.key) }
    }
}

impl Ord for DecoratedKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.token.cmp(&other.token).then_with(|| self.key.cmp(&other.key))
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

/// The mapping from tokens to the cores of a node: ScyllaDB's biased token round-robin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShardMap {
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
    pub fn new(shards: u16) -> ShardMap {
        ShardMap { shards, ignore_msb: IGNORE_MSB }
    }

    /// The core that owns `token`: `0..shards`.
    pub fn owner(self, token: Token) -> u16 {
        let biased = token.prefix() << self.ignore_msb;
        ((biased as u128 * self.shards as u128) >> 64) as u16
    }
}

/// A range of tokens `(after, until]`. It does not wrap around; `until == Token::MIN` means the end of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenRange {
    /// Exclusive start.
    pub after: Token,
    /// Inclusive end, or [`Token::MIN`] for the end of the ring.
    pub until: Token,
}

impl TokenRange {
    /// The whole ring.
    pub const FULL: TokenRange = TokenRange { after: Token::MIN, until: Token::MIN };

    /// Whether `token` lies in the range. The full range contains every token, also [`Token::MIN`].
    pub fn contains(&self, token: Token) -> bool {
        (*self == TokenRange::FULL || token > self.after) && (self.until == Token::MIN || token <= self.until)
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
            assert_eq!(Token::of(&bytes(hex)), Token(token), "{hex}");
            assert_eq!([1, 8, 12].map(|shards| ShardMap::new(shards).owner(Token(token))), owners, "{hex}");
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
