//! Partition keys, tokens and who owns them.

use std::cmp::Ordering;
use std::fmt;

/// A place on the ring of the Murmur3 partitioner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub i64);

impl Token {
    /// The exclusive start of the ring; the token of the empty key.
    pub const MIN: Token = Token(i64::MIN);
    /// The last token.
    pub const MAX: Token = Token(i64::MAX);

    /// The token of a serialised partition key: Cassandra's variant of murmur3_x64_128 (tail bytes are sign-extended).
    pub fn of(key: &[u8]) -> Token {
        let _ = key;
        todo!()
    }

    /// The token with its sign flipped: unsigned order is ring order.
    pub fn prefix(self) -> u64 {
        (self.0 as u64) ^ (1 << 63)
    }
}

/// A serialised partition key with its token. Ordered by token, then by key bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DecoratedKey {
    /// The token of `key`.
    pub token: Token,
    /// One component: its bytes. Several: per component a big-endian u16 length, the bytes, a zero byte.
    pub key: Box<[u8]>,
}

/// Longest serialised partition key.
pub const KEY_BYTES_MAX: usize = 65535;

impl DecoratedKey {
    /// Decorates a serialised key.
    pub fn new(key: &[u8]) -> DecoratedKey {
        DecoratedKey { token: Token::of(key), key: key.into() }
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

/// Appends the serialised form of a composite key of two or more components (each at most 65535 bytes).
pub fn push_composite<'a>(components: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    for component in components {
        out.extend_from_slice(&(component.len() as u16).to_be_bytes());
        out.extend_from_slice(component);
        out.push(0);
    }
}

/// The components of a serialised key of `count` columns; fewer if the bytes are malformed.
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

/// Which core of a node owns a token: ScyllaDB's biased token round robin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShardMap {
    /// Cores, at least 1.
    pub shards: u16,
    /// Most significant token bits ignored; 12 unless configured.
    pub ignore_msb: u8,
}

/// The default of [`ShardMap::ignore_msb`].
pub const IGNORE_MSB: u8 = 12;

impl ShardMap {
    /// The map of a node with `shards` cores and the default bits.
    pub fn new(shards: u16) -> ShardMap {
        ShardMap { shards, ignore_msb: IGNORE_MSB }
    }

    /// The core that owns `token`: `0..shards`.
    pub fn owner(self, token: Token) -> u16 {
        let biased = token.prefix() << self.ignore_msb;
        ((biased as u128 * self.shards as u128) >> 64) as u16
    }
}

/// A range of tokens `(after, until]`; `until == Token::MIN` means up to the end of the ring.
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

    /// Whether `token` lies in the range. Ranges do not wrap. The full range holds every token, [`Token::MIN`] too.
    pub fn contains(&self, token: Token) -> bool {
        (*self == TokenRange::FULL || token > self.after) && (self.until == Token::MIN || token <= self.until)
    }
}
