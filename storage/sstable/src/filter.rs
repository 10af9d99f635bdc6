//! Filter.db: a bloom filter over partition keys, bit-exact with Cassandra's.
//!
//! ```text
//! hashes u32, words u32, then 8 bytes per word; bit n is bit n & 7 of byte n >> 3. Before `na` the bytes of each word
//! come in reverse
//! ```
//! The bits of a key are `|h2 + i * h1| % bits` for every `i` below `hashes`, where `h1` and `h2` are the two halves of
//! murmur3_x64_128 in Cassandra's variant (tail bytes are sign-extended).
//!
//! Invariants: a key that was added is always found.

use crate::error::{Fault, Problem};
use crate::input::Input;
use crate::version::Version;
use model::murmur3::murmur3_x64_128;
use std::sync::Arc;

/// Most hashes of a filter.
pub const HASHES_MAX: u32 = 20;
/// Most bits per key.
const BUCKETS_PER_KEY_MAX: usize = 20;
/// Bits that Cassandra adds to those of the keys.
const BITS_EXTRA: u64 = 20;

/// A bloom filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    hashes: u32,
    /// Shared by the readers of one file.
    bits: Arc<[u8]>,
    /// The number of bits, to divide by.
    count: Divisor,
}

impl Filter {
    pub(crate) fn parse(bytes: &[u8], version: Version) -> Result<Filter, Fault> {
        let mut input = Input::new(bytes, 0);
        let hashes = input.u32()?;
        if hashes == 0 || hashes > HASHES_MAX {
            return input.fail(Problem::Limit("HASHES_MAX"));
        }
        let words = input.u32()?;
        let words = input.count(words.into(), 8)?;
        if words == 0 || input.rest().len() != 8 * words {
            return input.invalid("a bloom filter of its length");
        }
        let mut bits: Arc<[u8]> = input.rest().into();
        if !version.features().filter_in_order {
            let words = Arc::get_mut(&mut bits).unwrap_or_default();
            words.chunks_mut(8).for_each(<[u8]>::reverse);
        }
        Ok(Filter::with(hashes, bits))
    }

    fn with(hashes: u32, bits: Arc<[u8]>) -> Filter {
        Filter { hashes, count: Divisor::new(bits.len() as u64 * 8), bits }
    }

    /// Returns an empty filter for a number of keys and a chance of false positives; `None` if the chance is 1 or more,
    /// or the filter would be too large.
    ///
    /// Bits and hashes are Cassandra's choice: the fewest bits per key, then the fewest hashes, that reach the chance.
    pub fn new(keys: u64, chance: f64) -> Option<Filter> {
        if chance >= 1.0 {
            return None;
        }
        let (buckets, hashes) = spec(chance);
        let bits = keys.max(1).checked_mul(buckets as u64)?.checked_add(BITS_EXTRA)?;
        let words = usize::try_from(bits.div_ceil(64)).ok()?;
        Some(Filter::with(hashes, vec![0; words * 8].into()))
    }

    /// Returns the length of the bits, in bytes.
    pub(crate) fn bits_bytes(&self) -> usize {
        self.bits.len()
    }

    /// Returns the bytes of a Filter.db of a version that is written.
    pub fn write(&self) -> Vec<u8> {
        let mut out = self.hashes.to_be_bytes().to_vec();
        out.extend_from_slice(&((self.bits.len() / 8) as u32).to_be_bytes());
        out.extend_from_slice(&self.bits);
        out
    }

    /// Returns the indexes of a key's bits.
    fn bits_of(&self, hash: KeyHash) -> impl Iterator<Item = usize> + use<> {
        let count = self.count;
        (0..i64::from(self.hashes)).map(move |i| {
            let number = hash.1.wrapping_add(hash.0.wrapping_mul(i));
            count.remainder(number.unsigned_abs()) as usize
        })
    }

    /// Returns whether a key with this hash may have been added.
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        self.bits_of(hash).all(|bit| self.bits.get(bit >> 3).is_some_and(|byte| byte >> (bit & 7) & 1 == 1))
    }

    /// Adds a key with this hash. A filter that readers share cannot be changed and stays as it is.
    pub fn add(&mut self, hash: KeyHash) {
        let indexes = self.bits_of(hash);
        let Some(bits) = Arc::get_mut(&mut self.bits) else { return };
        for bit in indexes {
            if let Some(byte) = bits.get_mut(bit >> 3) {
                *byte |= 1 << (bit & 7);
            }
        }
    }
}

/// Calculates remainders of divisions by one number: with a multiplication, which takes a third of the time of a
/// division.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Divisor {
    by: u64,
    /// 2^64 / `by`, rounded down, or one less.
    reciprocal: u64,
}

impl Divisor {
    /// `by` is not 0.
    fn new(by: u64) -> Divisor {
        Divisor { by, reciprocal: u64::MAX / by }
    }

    fn remainder(self, number: u64) -> u64 {
        // The quotient is exact or one too small.
        let quotient = ((u128::from(number) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = number - quotient * self.by;
        if rest < self.by { rest } else { rest - self.by }
    }
}

/// Returns bits per key and number of hashes for a chance of false positives. Probabilities are compared with three
/// digits, as in the table from the literature that Cassandra looks them up in.
fn spec(chance: f64) -> (usize, u32) {
    let probability = |buckets: usize, hashes: u32| {
        let exact = (1.0 - (-f64::from(hashes) / buckets as f64).exp()).powi(hashes as i32);
        let unit = 10f64.powf(exact.log10().floor() - 2.0);
        (exact / unit).round() * unit
    };
    let best = |buckets: usize| {
        (1..=HASHES_MAX).min_by(|a, b| probability(buckets, *a).total_cmp(&probability(buckets, *b))).unwrap_or(1)
    };
    if chance >= probability(2, 1) {
        return (1, 2);
    }
    let buckets = (2..BUCKETS_PER_KEY_MAX)
        .find(|buckets| probability(*buckets, best(*buckets)) <= chance)
        .unwrap_or(BUCKETS_PER_KEY_MAX);
    let mut hashes = best(buckets);
    while hashes > 1 && probability(buckets, hashes - 1) <= chance {
        hashes -= 1;
    }
    (buckets, hashes)
}

/// The two halves of a partition key's murmur3_x64_128.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyHash(pub i64, pub i64);

impl KeyHash {
    /// Hashes a serialised partition key.
    pub fn of(key: &[u8]) -> KeyHash {
        let (h1, h2) = murmur3_x64_128(key);
        KeyHash(h1 as i64, h2 as i64)
    }

    /// Returns the byte that partition indexes of `bti` hold to rule out most other keys.
    pub fn low_byte(self) -> u8 {
        self.1 as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_found() {
        let mut filter = Filter::new(1000, 0.01).unwrap();
        let hash = |i: u32| KeyHash::of(&i.to_be_bytes());
        (0..1000).for_each(|i| filter.add(hash(i)));
        assert!((0..1000).all(|i| filter.may_contain(hash(i))));
        let wrong = (1000..11000).filter(|i| filter.may_contain(hash(*i))).count();
        assert!(wrong < 200, "{wrong}");
        assert_eq!(Filter::parse(&filter.write(), Version::Nb), Ok(filter));
        assert_eq!(Filter::new(1, 1.0), None);
    }

    #[test]
    fn remainders_are_those_of_a_division() {
        let mut below = model::arbitrary::generator(3);
        for _ in 0..20_000 {
            let (divisor, number) = (below(u64::MAX) >> below(64) | 1, below(u64::MAX) >> below(64));
            for by in [divisor, divisor + 1, 1 << (divisor % 64)] {
                for number in
                    [0, number, by - 1, by, number / by * by, (number / by * by).wrapping_sub(1), 1 << 63, u64::MAX]
                {
                    assert_eq!(Divisor::new(by).remainder(number), number % by, "{number} by {by}");
                }
            }
        }
    }

    #[test]
    fn hashes_are_bounded() {
        let file = |hashes: u32| [&hashes.to_be_bytes()[..], &1u32.to_be_bytes(), &[0; 8]].concat();
        assert!(Filter::parse(&file(HASHES_MAX), Version::Nb).is_ok());
        assert!(Filter::parse(&file(HASHES_MAX + 1), Version::Nb).is_err());
        assert!(Filter::parse(&file(0), Version::Nb).is_err());
    }

    #[test]
    fn the_first_half_is_the_token() {
        for len in 0..200 {
            let key: Vec<u8> = (0..len).map(|i: u32| (i * 37 + len * 11) as u8).collect();
            if !key.is_empty() {
                assert_eq!(KeyHash::of(&key).0, model::Partitioner::Murmur3.token(&key).0);
            }
        }
    }
}
