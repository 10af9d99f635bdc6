//! Tokens: where keys lie on the ring, and ranges of the ring.
//!
//! Tokens of Murmur3 have 64 bits, those of other partitioners more. A [`Token`] is the first 64 bits of any of them:
//! what keys carry and what is compared first. A [`RingToken`] is a whole one: a value of CQL's `token()`, a token of a
//! node, the end of a range. A [`RingPosition`] lies just before or just after all keys of a token, and a
//! [`TokenRange`] goes from one position to another.
//!
//! What the token of a key is, and how keys of one prefix are ordered, is said in [`crate::partitioner`].

use crate::murmur3::murmur3_x64_128;
use md5::{Digest, Md5};
use num_bigint::BigInt;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The first 64 bits of a token, all of it for Murmur3, as a number whose signed order is the order of the ring.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub i64);

impl Token {
    /// The lowest prefix. Under Murmur3: the exclusive start of the ring, and the token of the empty key.
    pub const MIN: Token = Token(i64::MIN);
    /// The highest prefix. Under Murmur3: the last token.
    pub const MAX: Token = Token(i64::MAX);

    /// The prefix with its sign bit flipped: unsigned order is ring order.
    pub fn prefix(self) -> u64 {
        (self.0 as u64) ^ (1 << 63)
    }

    /// The token with this [`Token::prefix`].
    pub fn from_prefix(prefix: u64) -> Token {
        Token((prefix ^ (1 << 63)) as i64)
    }

    /// The prefix of a token of Random, which has 127 bits but for the last one.
    pub(crate) fn of_random(number: u128) -> Token {
        Token::from_prefix(u64::try_from(number >> 63).unwrap_or(u64::MAX))
    }

    /// The prefix of a token that is ordered by its bytes.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Token {
        let mut first = [0; 8];
        let len = bytes.len().min(8);
        first[..len].copy_from_slice(&bytes[..len]);
        Token::from_prefix(u64::from_be_bytes(first))
    }
}

/// The token of a key under Murmur3. The hash -2^63 belongs to the empty key; a key that has it gets the largest token.
#[inline]
pub(crate) fn murmur3_token(key: &[u8]) -> i64 {
    if key.is_empty() {
        return i64::MIN;
    }
    match murmur3_x64_128(key).0 as i64 {
        i64::MIN => i64::MAX,
        hash => hash,
    }
}

/// The token of a key under Random plus one, which [`RingToken::Random`] holds in halves.
pub(crate) fn random_token(key: &[u8]) -> u128 {
    if key.is_empty() {
        return 0;
    }
    i128::from_be_bytes(Md5::digest(key).into()).unsigned_abs() + 1
}

/// The token of a key under OrderPreserving.
pub(crate) fn text_token(key: &[u8]) -> Cow<'_, str> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    match std::str::from_utf8(key) {
        Ok(text) => text.into(),
        Err(_) => {
            let digits = key.iter().flat_map(|byte| [byte >> 4, byte & 15]);
            digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect::<String>().into()
        }
    }
}

/// A whole token. Tokens of one partitioner are ordered as they lie on the ring; those of different ones never meet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RingToken {
    /// A number; -2^63 is the start of the ring.
    Murmur3(i64),
    /// A number plus one, its high half first: the -1 at the start of the ring is 0, the last token 2^127 is 2^127 + 1.
    Random([u64; 2]),
    /// Bytes; empty at the start of the ring.
    ByteOrdered(Arc<[u8]>),
    /// A text; empty at the start of the ring.
    OrderPreserving(Arc<str>),
}

impl RingToken {
    /// A token of Random, from a number plus one. Above 2^127 it becomes that.
    pub(crate) fn random(number: u128) -> RingToken {
        let number = number.min((1 << 127) + 1);
        RingToken::Random([(number >> 64) as u64, number as u64])
    }

    /// The first 64 bits.
    pub fn token(&self) -> Token {
        match self {
            RingToken::Murmur3(number) => Token(*number),
            RingToken::Random(number) => Token::of_random(joined(*number)),
            RingToken::ByteOrdered(bytes) => Token::of_bytes(bytes),
            RingToken::OrderPreserving(text) => Token::of_bytes(text.as_bytes()),
        }
    }

    /// Whether this is the start of the ring, which in ranges stands for the end as well.
    pub fn is_minimum(&self) -> bool {
        match self {
            RingToken::Murmur3(number) => *number == i64::MIN,
            RingToken::Random(number) => *number == [0, 0],
            RingToken::ByteOrdered(bytes) => bytes.is_empty(),
            RingToken::OrderPreserving(text) => text.is_empty(),
        }
    }

    /// The order of a key's whole token, relative to this one.
    fn compare_key(&self, token: Token, key: &[u8]) -> Ordering {
        let rest = || match self {
            RingToken::Murmur3(_) => Ordering::Equal,
            RingToken::Random(number) => random_token(key).cmp(&joined(*number)),
            RingToken::ByteOrdered(bytes) => key.cmp(bytes),
            RingToken::OrderPreserving(text) => (*text_token(key)).cmp(text),
        };
        token.cmp(&self.token()).then_with(rest)
    }

    /// Whether a key, given with the prefix of its token, lies after all keys of this token.
    #[inline]
    pub fn is_before_key(&self, token: Token, key: &[u8]) -> bool {
        self.compare_key(token, key) == Ordering::Greater
    }

    /// A key that lies before all keys of the token and, if there are many keys with its first 64 bits, near them.
    /// `None` if no such key can be told.
    pub fn key_before(&self) -> Option<&[u8]> {
        match self {
            RingToken::Murmur3(_) | RingToken::Random(_) => None,
            RingToken::ByteOrdered(bytes) => bytes.split_last().map(|(_, before)| before),
            RingToken::OrderPreserving(text) => text.char_indices().next_back().map(|(len, _)| &text.as_bytes()[..len]),
        }
    }

    /// The value as CQL serialises it, in the type of the partitioner's tokens.
    pub fn to_value(&self) -> Vec<u8> {
        match self {
            RingToken::Murmur3(number) => number.to_be_bytes().to_vec(),
            RingToken::Random(number) => (BigInt::from(joined(*number)) - 1i32).to_signed_bytes_be(),
            RingToken::ByteOrdered(bytes) => bytes.to_vec(),
            RingToken::OrderPreserving(text) => text.as_bytes().to_vec(),
        }
    }
}

impl fmt::Display for RingToken {
    /// The text in system tables, in the configuration and for operators: a number, hex digits, or the text itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RingToken::Murmur3(number) => number.fmt(f),
            RingToken::Random([0, 0]) => f.write_str("-1"),
            RingToken::Random(number) => (joined(*number) - 1).fmt(f),
            RingToken::ByteOrdered(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            RingToken::OrderPreserving(text) => f.write_str(text),
        }
    }
}

/// The number whose halves a token of Random holds.
fn joined([high, low]: [u64; 2]) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

/// A place between keys: just before or just after all keys of a token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingPosition {
    /// The token.
    pub token: RingToken,
    /// Whether the position lies after the token's keys.
    pub is_after: bool,
}

impl RingPosition {
    /// Whether a key, given with the prefix of its token, lies after the position.
    #[inline]
    pub fn is_before_key(&self, token: Token, key: &[u8]) -> bool {
        match self.token.compare_key(token, key) {
            Ordering::Less => false,
            Ordering::Equal => !self.is_after,
            Ordering::Greater => true,
        }
    }

    /// Whether keys with this prefix of their tokens can lie after the position.
    pub fn may_be_before(&self, token: Token) -> bool {
        match &self.token {
            RingToken::Murmur3(number) if self.is_after => token.0 > *number,
            at => token >= at.token(),
        }
    }

    /// Whether keys with this prefix of their tokens can lie before the position.
    pub fn may_be_after(&self, token: Token) -> bool {
        match &self.token {
            RingToken::Murmur3(number) if !self.is_after => token.0 < *number,
            at => token <= at.token(),
        }
    }
}

/// The keys between two positions on the ring. A range does not wrap around.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenRange {
    /// Where the range starts; `None` for the start of the ring.
    pub start: Option<RingPosition>,
    /// Where the range ends; `None` for the end of the ring.
    pub end: Option<RingPosition>,
}

impl TokenRange {
    /// The whole ring.
    pub const FULL: TokenRange = TokenRange { start: None, end: None };

    /// The keys whose tokens lie in `(after, until]`. The minimum token as `after` means the start of the ring, as
    /// `until` its end.
    pub fn between(after: RingToken, until: RingToken) -> TokenRange {
        let position = |token: RingToken| (!token.is_minimum()).then_some(RingPosition { token, is_after: true });
        TokenRange { start: position(after), end: position(until) }
    }

    /// Whether a key, given with the prefix of its token, lies in the range.
    #[inline]
    pub fn contains(&self, token: Token, key: &[u8]) -> bool {
        self.is_begun(token, key) && !self.is_passed(token, key)
    }

    /// Whether a key does not lie before the range.
    #[inline]
    pub fn is_begun(&self, token: Token, key: &[u8]) -> bool {
        self.start.as_ref().is_none_or(|start| start.is_before_key(token, key))
    }

    /// Whether a key lies after the range.
    #[inline]
    pub fn is_passed(&self, token: Token, key: &[u8]) -> bool {
        self.end.as_ref().is_some_and(|end| end.is_before_key(token, key))
    }

    /// Whether all keys whose tokens have prefixes from `first` to `last` lie in the range for sure.
    pub fn holds_tokens(&self, first: Token, last: Token) -> bool {
        // Only Murmur3's tokens are no longer than their prefixes.
        let is_exact = |position: &RingPosition| matches!(position.token, RingToken::Murmur3(_));
        let starts_before = |start: &RingPosition| {
            let token = start.token.token();
            token < first || token == first && !start.is_after && is_exact(start)
        };
        let ends_after = |end: &RingPosition| {
            let token = end.token.token();
            token > last || token == last && end.is_after && is_exact(end)
        };
        self.start.as_ref().is_none_or(starts_before) && self.end.as_ref().is_none_or(ends_after)
    }

    /// What lies between ranges, which are given in their order on the ring.
    pub fn gaps(ranges: &[TokenRange]) -> Vec<TokenRange> {
        let mut gaps = Vec::new();
        // Where the range before ended; `None` at the start of the ring.
        let mut start = None;
        let mut is_open = true;
        for range in ranges {
            if range.start != start {
                gaps.push(TokenRange { start: start.take(), end: range.start.clone() });
            }
            is_open = range.end.is_some();
            start = range.end.clone();
        }
        if is_open {
            gaps.push(TokenRange { start, end: None });
        }
        gaps
    }

    /// Whether keys whose tokens have prefixes from `first` to `last` can lie in the range.
    pub fn may_overlap(&self, first: Token, last: Token) -> bool {
        self.start.as_ref().is_none_or(|start| start.may_be_before(last))
            && self.end.as_ref().is_none_or(|end| end.may_be_after(first))
    }
}
